"""Methods that perturb second moments: our sums over three servers, and the curator's AdaSSP and its boosted form."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from bench.curators.problem import DELTA, LARGEST_TARGET, Fits, Problem, normal, symmetric
from bench.secure_sketching.simulation import exact_sums, opened
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import UtilityWarning
from dpmpc.base.randomness import Stream
from dpmpc.models import RidgeRegression
from dpmpc.models.common.linear_algebra import LinearModel
from dpmpc.models.papers.baselines import AdaSSP
from dpmpc.models.papers.baselines.linear import ADASSP_SENSITIVITY
from dpmpc.privacy.gaussian import mu_of_budget
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design

BOOSTING_ROUNDS = (1, 3, 10, 30, 100)
TUNING_RUNS = 25
_TWO_SIDED = 1.96  # of the boosted form's penalty


def specification(problem: Problem, epsilon: float, seed: int | None = None, **trust: Any) -> ReleaseSpec:
    """Return the shipped default: three servers, additive shares, second moments, clients add the noise, a box."""
    return ReleaseSpec.of(problem.schema, problem.clients, epsilon, DELTA, simulation_seed=seed, **trust)


def sum_release(problem: Problem, epsilon: float, runs: int, stream: Stream) -> Fits:
    """Release the second moments from three servers and read `RidgeRegression` from them, all by default.

    Calibration, encoding, noise and estimator are the product's. Shares cancel, so what the servers open is the exact
    integer sum plus the noise of all clients, one draw of which has the law of their sum (`simulation.opened`).
    """
    task = design(specification(problem, epsilon))
    sums = exact_sums(task, problem.rows)
    models = []
    for _ in range(runs):
        release = opened(task, sums, seed_of(stream))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            models.append(RidgeRegression().fit_release(release).model_)
    return Fits(coefficients(models), told=f"noise {math.sqrt(release.noise_variance[0]):.3g} on the diagonal")


def adassp(problem: Problem, epsilon: float, runs: int, stream: Stream) -> Fits:
    """Fit AdaSSP (Wang 2018, Algorithm 2) as `dpmpc.models.papers.AdaSSP` has it, without a penalty of its own.

    Its three releases are accounted jointly at replace-one, which is less noise than the paper's three thirds.
    """
    models = [
        AdaSSP(0.0, epsilon, DELTA, simulation_seed=seed_of(stream)).fit(problem.X[:, 1:], problem.y).model_
        for _ in range(runs)
    ]
    return Fits(coefficients(models))


def boosted_adassp(problem: Problem, epsilon: float, runs: int, stream: Stream) -> Fits:
    """Fit Boosted AdaSSP (Tang, Aydore, Kearns, Rho, Roth, Wang, Wang, Wu; SaTML 2024, arXiv:2303.03451, Algorithm 1).

    X^T X and its smallest eigenvalue are released once; then in each of T rounds X^T g, for the residuals g of the sum
    of all models so far clipped to C. Each round adds (X^T X + lambda I)^-1 X^T g. Penalty and step (constant 1) are
    those of the authors' program. T = 100 there; here it is the one of least median risk over `TUNING_RUNS` other runs
    among `BOOSTING_ROUNDS`, chosen on these very rows, for free. The paper divides a mu-GDP budget in three parts and
    the last of them over T rounds, with B = C = 1 for one row more or less.

    Replace-one: with noise sigma B^2 on both releases of the matrix and sigma B C sqrt(T) on every X^T g, round t moves
    by at most ||x g - x' g'||^2 <= B^2 C^2 (2 + 2u), u = |x.x'|/B^2, whatever was released before, so the T rounds
    together count as one release of X^T y. The worst case over u is then AdaSSP's: 4/sqrt(3) in units of sigma
    (theorem adassp-sensitivity), and all releases together are mu-GDP at sigma = (4/sqrt(3))/mu.
    """
    medians = {
        rounds: float(np.median(problem.excess(boosted(problem, epsilon, rounds, TUNING_RUNS, stream))))
        for rounds in BOOSTING_ROUNDS
    }
    chosen = min(medians, key=lambda rounds: medians[rounds])
    return Fits(boosted(problem, epsilon, chosen, runs, stream), told=f"T = {chosen}")


def boosted(problem: Problem, epsilon: float, rounds: int, runs: int, stream: Stream) -> Reals:
    """Return theta, (D, runs), of T rounds."""
    sigma = boosted_sigma(epsilon)
    B, D = problem.B, problem.columns
    scale = sigma * B**2
    smallest = np.linalg.eigvalsh(problem.gram)[0] + normal(stream, scale, runs)
    penalty = np.maximum(0.0, math.sqrt(D) * scale * _TWO_SIDED - np.maximum(0.0, smallest - scale * _TWO_SIDED))
    noisy = problem.gram + symmetric(stream, scale, D, runs) + penalty[:, None, None] * np.eye(D)
    inverse = np.linalg.inv(noisy)
    theta = np.zeros((D, runs))
    for _ in range(rounds):
        score = problem.scores(theta, LARGEST_TARGET)
        score += normal(stream, sigma * B * LARGEST_TARGET * math.sqrt(rounds), D, runs)
        theta += np.einsum("rij,jr->ir", inverse, score)
    return theta


def boosted_sigma(epsilon: float, delta: float = DELTA) -> float:
    """Return sigma of `boosted_adassp`, in units of B^2 and B C."""
    return ADASSP_SENSITIVITY / mu_of_budget(epsilon, delta)


def coefficients(models: list[LinearModel]) -> Reals:
    """Return intercepts and weights, (D, runs)."""
    return np.array([[model.intercept, *model.weights] for model in models]).T


def seed_of(stream: Stream) -> int:
    """Draw a seed of a simulation."""
    return int(stream.words(1)[0] >> np.uint64(1))
