"""How good a release of k rows is, beside everything that it competes with, on one table of rows.

A `Problem` holds normalised rows and judges answers by the paper's measures (Burkhardt et al. 2025, section 6.2): phi
for ridge regression without intercept, psi for low-rank approximation. `compare` repeats every competitor with fresh
public matrices and fresh noise, all at one budget, one neighbouring relation (replace-one) and the same public bounds.
Noise comes from `dpmpc.privacy.calibrate` by way of `dpmpc.release.design`; releases from
`bench.secure_sketching.simulation`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.secure_sketching.simulation import exact_sums, interpolated, noiseless, opened
from dpmpc.base.arrays import Reals
from dpmpc.data import Schema
from dpmpc.models import LowRankApproximation, RidgeRegression
from dpmpc.models.common.linear_algebra import random_excess_risk, solve_ridge, top_components
from dpmpc.models.papers.baselines import SSP, AnalyzeGauss, LocalGaussian, ModSulq
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.release import Release

EXPONENTS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # p of section 6.2, our reconstruction of lost values
DELTA = 1e-7  # the paper's is lost; below 1/n for every n here
GAUSS, LAPLACE, SUM = "LTM Gauss", "LTM Laplace", "Sum release"
DENSE, PRINTED = "LTM Laplace, dense, our shares", "CountSketch, noise of Corollary 4.10"
DENSE_CHOICES: dict[str, Any] = {"sketch": "rademacher", "share_limit": math.inf}  # shares are never made
DENSE_ROWS = 64  # at most: work, noise and upload of a dense matrix grow with its rows
LAPLACE_BITS = 10  # of the encoding: the noise of small budgets has to stay within the sampler's range
RUNS, LARGE, LARGE_RUNS = 20, 300_000, 6
LOCAL, NOISELESS, TRIVIAL = "local Gaussian", "sketch without noise", "trivial predictor"


class Problem(abc.ABC):
    """Rows in [-1, 1] and what is asked of them."""

    purpose: str
    measure: str

    def __init__(self, rows: Reals, *, radius: float | None = None):
        self.rows = rows
        self.radius = radius
        self.moments = rows.T @ rows
        self.schema = Schema.unit([f"x{column}" for column in range(rows.shape[1])])

    def design(self, epsilon: float, delta: float, **choices: Any) -> Task:
        """Make the task of a release of these rows."""
        return design(
            ReleaseSpec.of(
                self.schema, len(self.rows), epsilon, delta, purpose=self.purpose, radius=self.radius, **choices
            )
        )

    @abc.abstractmethod
    def judge(self, release: Release) -> float:
        """Return the measure of what is read from a release."""

    @abc.abstractmethod
    def judge_moments(self, moments: Reals) -> float:
        """Return the measure of what is read from the second moments (p, p) of noisy rows, uncorrected."""

    @abc.abstractmethod
    def curators(self, epsilon: float, delta: float, seed: int) -> dict[str, float]:
        """Return the measures of the trusted curator's mechanisms."""

    @abc.abstractmethod
    def local(self, epsilon: float, delta: float, seed: int) -> float:
        """Return the measure of the local model."""

    @abc.abstractmethod
    def trivial(self) -> float:
        """Return the measure of an answer that ignores the rows."""


class RidgeProblem(Problem):
    """Predict the last column from the others, without intercept; phi is cost over least cost, 1 at best."""

    purpose = "ridge"
    measure = "excess cost φ - 1"

    def __init__(self, rows: Reals, alpha: float, *, radius: float | None = None):
        super().__init__(rows, radius=radius)
        self.alpha = alpha
        self.least = self._cost(self._solve(self.moments))

    def _solve(self, moments: Reals) -> Reals:
        """Return the weights that are best for rows of these second moments."""
        gram = np.zeros((len(moments) + 1, len(moments) + 1))
        gram[1:, 1:] = moments
        return solve_ridge(gram, len(moments) - 1, self.alpha, fit_intercept=False).weights

    def _cost(self, weights: Reals) -> float:
        """Return ||X w - y||^2 + lambda ||w||^2, from the second moments of (X, y)."""
        direction = np.append(weights, -1.0)
        return float(direction @ self.moments @ direction + self.alpha * weights @ weights)

    def _excess(self, weights: Reals) -> float:
        return self._cost(weights) / self.least - 1

    def judge(self, release: Release) -> float:
        """Return phi - 1 of the paper's estimator: the noise's bias is left in, as it is printed."""
        model = RidgeRegression(self.alpha, fit_intercept=False, debias="never")
        return self._excess(model.fit_release(release).model_.weights)

    def judge_moments(self, moments: Reals) -> float:
        """Return phi - 1 of ridge regression on noisy rows: the noise's bias is left in, as it is printed."""
        return self._excess(self._solve(moments))

    def curators(self, epsilon: float, delta: float, seed: int) -> dict[str, float]:
        """Return phi - 1 of SSP, the paper's central baseline."""
        central = SSP(self.alpha, epsilon, delta, fit_intercept=False, radius=self.radius, simulation_seed=seed)
        return {"central SSP": self._excess(central.fit(self.rows[:, :-1], self.rows[:, -1]).coef_)}

    def local(self, epsilon: float, delta: float, seed: int) -> float:
        """Return phi - 1 of ridge regression on locally private rows."""
        model = LocalGaussian(self.alpha, epsilon, delta, fit_intercept=False, radius=self.radius, simulation_seed=seed)
        return self._excess(model.fit(self.rows[:, :-1], self.rows[:, -1]).coef_)

    def trivial(self) -> float:
        """Return phi - 1 of w = 0."""
        return self._excess(np.zeros(len(self.moments) - 1))


class LowRankProblem(Problem):
    """Find the r directions that keep most of the rows; psi is the excess risk, 0 at best."""

    purpose = "low-rank"
    measure = "excess risk ψ"

    def __init__(self, rows: Reals, components: int, *, radius: float | None = None):
        super().__init__(rows, radius=radius)
        self.components = components
        self.most = float(np.linalg.eigvalsh(self.moments)[-components:].sum())

    def _risk(self, components: Reals) -> float:
        """Return (||X - X P P^T||_F^2 - ||X - X_r||_F^2) / n, from the second moments."""
        kept = float(np.einsum("ij,jk,ik->", components, self.moments, components))
        return (self.most - kept) / len(self.rows)

    def judge(self, release: Release) -> float:
        """Return psi of the sketch's top right singular vectors, or of the top eigenvectors of a sum."""
        return self._risk(LowRankApproximation(self.components).fit_release(release).components_)

    def judge_moments(self, moments: Reals) -> float:
        """Return psi of the top right singular vectors of noisy rows."""
        return self._risk(top_components(moments, self.components))

    def curators(self, epsilon: float, delta: float, seed: int) -> dict[str, float]:
        """Return psi of MOD-SULQ, the paper's central baseline, and of Analyze Gauss, which spends the whole budget."""
        choices: dict[str, Any] = {"radius": self.radius, "simulation_seed": seed}
        return {
            "central MOD-SULQ": self._risk(
                ModSulq(self.components, epsilon, delta, **choices).fit(self.rows).components_
            ),
            "central Analyze Gauss": self._risk(
                AnalyzeGauss(self.components, epsilon, delta, **choices).fit(self.rows).components_
            ),
        }

    def local(self, epsilon: float, delta: float, seed: int) -> float:
        """Return psi of the top directions of locally private rows."""
        model = LocalGaussian(
            1.0, epsilon, delta, n_components=self.components, radius=self.radius, simulation_seed=seed
        )
        return self._risk(model.fit(self.rows).components_)

    def trivial(self) -> float:
        """Return the expected psi of random directions."""
        return random_excess_risk(self.components, self.rows)


def compare(
    problem: Problem,
    epsilon: float,
    runs: int,
    *,
    rows: int | None = None,
    sparsity: int = 4,
    exponents: Sequence[float] = (1.0,),
    delta: float = DELTA,
) -> dict[str, list[float]]:
    """Measure all competitors, each once a run."""
    found: dict[str, list[float]] = {}
    total = problem.design(epsilon, delta, sketch="sum")
    moments = exact_sums(total, problem.rows)
    for seed in range(runs_at(len(problem.rows), runs)):
        sparse = problem.design(
            epsilon, delta, sketch="osnap", rows=rows, sparsity=sparsity, copies="each", simulation_seed=seed
        )
        single: dict[str, Any] = {
            "sketch": "countsketch",
            "rows": rows,
            "noise": "discrete-laplace",
            "simulation_seed": seed,
        }
        single["fractional_bits"] = LAPLACE_BITS
        pure = problem.design(epsilon, 0.0, **single)
        printed = problem.design(epsilon, 0.0, calibration="paper", **single)
        full = problem.design(epsilon, 0.0, **{**single, **DENSE_CHOICES, "rows": min(sparse.sketch.rows, DENSE_ROWS)})
        sums, single_sums = exact_sums(sparse, problem.rows), exact_sums(pure, problem.rows)
        measured = {
            **{exponent_name(p): problem.judge(opened(interpolated(sparse, p), sums, 2 * seed)) for p in exponents},
            LAPLACE: problem.judge(opened(pure, single_sums, 2 * seed)),
            DENSE: problem.judge(opened(full, exact_sums(full, problem.rows), 2 * seed)),
            PRINTED: problem.judge(opened(printed, single_sums, 2 * seed + 1)),
            SUM: problem.judge(opened(total, moments, 2 * seed + 1)),
            LOCAL: problem.local(epsilon, delta, seed),
            **problem.curators(epsilon, delta, seed),
            NOISELESS: problem.judge(noiseless(sparse, sums)),
            TRIVIAL: problem.trivial(),
        }
        for name, value in measured.items():
            found.setdefault(name, []).append(value)
    return found


def recommended(problem: Problem, epsilon: float, *, sparsity: int = 4, delta: float = DELTA) -> dict[str, int]:
    """Return the k that `compare` has where none is named: what `design` recommends for each noise.

    It depends on public numbers alone: clients, columns, budget and purpose.
    """
    gauss = problem.design(epsilon, delta, sketch="osnap", sparsity=sparsity, copies="each", simulation_seed=0)
    single: dict[str, Any] = {"sketch": "countsketch", "noise": "discrete-laplace", "fractional_bits": LAPLACE_BITS}
    laplace = problem.design(epsilon, 0.0, simulation_seed=0, **single)
    return {GAUSS: gauss.sketch.rows, LAPLACE: laplace.sketch.rows}


def runs_at(clients: int, runs: int) -> int:
    """Return how often is repeated at a number of clients: at most `LARGE_RUNS` times beyond `LARGE`."""
    return min(runs, LARGE_RUNS) if clients > LARGE else runs


def exponent_name(exponent: float) -> str:
    """Name a curve of the interpolation; p = 1 is the release itself."""
    return GAUSS if exponent == 1 else f"noise as n^-{exponent:g}" if exponent else "noise as n^0 (local)"
