"""What parties with different columns release, without parties: second moments that have the law of a release's.

Paper: Wu et al., Differentially Private Multi-Party Data Release for Linear Regression (UAI 2022), section 5. All three
regressions of `dpmpc.owners.columns` read a release through its second moments alone (theorem columns-party), so those
are what is drawn here:

- DGM and BGM, D + R with n rows. For any T with T^T T = D^T D, rotating the n rows, which changes neither moments nor
  the law of R, puts T above n - p rows of zeros; hence, exactly in law,

      (D + R)^T (D + R) = (T + R_1)^T (T + R_1) + W,    R_1 p x p of N(0, tau^2),    W ~ Wishart_p(n - p, tau^2 I).

- RMGM, B D / sqrt(k) + R. The law depends on all of D: B D is computed, with the product's own signs.

Noise is continuous and D is not rounded. The product's noise is a discrete Gaussian on a grid of 2^-16 / sqrt(k) or
2^-16, which is a hundred-thousandth of tau or less. Calibration is the product's. Noise is seeded: this protects
nobody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.linear.contributions.contribution import moment_sensitivity
from dpmpc.linear.sketching import BernoulliMixing
from dpmpc.models.common.linear_algebra import solve_ridge
from dpmpc.models.papers.baselines.common import symmetric_noise
from dpmpc.owners.columns.mixing_guarantee import PartyCalibration
from dpmpc.owners.columns.rows import choose_rows

EPSILONS = (1.0, 0.3, 0.1)
DELTA = 1e-5
RIDGE = 1e-5  # added to every Hessian divided by n
MOST_ROWS = 10_000  # the largest k that the paper tries
OLS, DGM, BGM, RMGM, THEORY = "OLS", "DGM", "BGM", "RMGM", "RMGM, theory k"
SUM, ZERO = "Sum release", "zero predictor"
COLOURS = {
    **{OLS: "black", DGM: "#d55e00", BGM: "#56b4e9", RMGM: "#0072b2", THEORY: "#cc79a7"},
    **{SUM: "#009e73", ZERO: "dimgrey"},
}


class Fit(NamedTuple):
    """A regression of the last column on the others."""

    weights: Reals  # (d,): in normalised units; there is no intercept
    smallest: float  # smallest absolute eigenvalue of the Hessian in use


def fit(hessian: Reals) -> Fit:
    """Fit second moments of all columns, divided by n, (d + 1, d + 1)."""
    model = solve_ridge(np.pad(hessian, ((1, 0), (1, 0))), len(hessian) - 1, RIDGE, fit_intercept=False)
    features = hessian[:-1, :-1] + RIDGE * np.eye(len(hessian) - 1)
    return Fit(model.weights, float(np.abs(np.linalg.eigvalsh(features)).min()))


def noisy_moments(moments: Reals, subjects: int, sd: float, rng: np.random.Generator) -> Reals:
    """Draw (D + R)^T (D + R) / n."""
    width = len(moments)
    values, vectors = np.linalg.eigh(moments)
    root = np.sqrt(values.clip(0))[:, None] * vectors.T
    top = root + sd * rng.standard_normal((width, width))
    rest = scipy.stats.wishart(subjects - width, sd**2 * np.eye(width)).rvs(random_state=rng)
    return np.asarray((top.T @ top + rest) / subjects)


def mixed(rows: Reals, count: int, seed: int) -> Reals:
    """Return B D / sqrt(k), (k, p), with the signs of `dpmpc.owners.columns.owner.mixing_of`."""
    return BernoulliMixing(count, len(rows), seed) @ rows


def mixed_moments(mixture: Reals, subjects: int, sd: float, rng: np.random.Generator) -> Reals:
    """Draw (B D / sqrt(k) + R)^T (B D / sqrt(k) + R) / n, given B D / sqrt(k)."""
    noisy = mixture + sd * rng.standard_normal(mixture.shape)
    return np.asarray(noisy.T @ noisy / subjects)


def sum_moments(moments: Reals, subjects: int, mu: float, seed: int) -> Reals:
    """Draw what is read from a `Sum` of all z z^T, divided by n: the Gaussian mechanism of sensitivity sqrt(2) p."""
    sigma = moment_sensitivity(len(moments)) / mu
    return np.asarray((moments + symmetric_noise(len(moments), sigma, Stream.from_seed(seed))) / subjects)


def noise_sd(sizes: Sequence[int], epsilon: float) -> float:
    """Return tau = 2 sqrt(d_max) sqrt(2 ln(1.25/delta)) / epsilon, the paper's, for parties of d_j columns."""
    return PartyCalibration(columns=sizes, epsilon=epsilon, delta=DELTA, rule="paper").sd


def subject_mu(sizes: Sequence[int], epsilon: float) -> float:
    """Return 2 sqrt(d + 1) / tau: what these parties promise for a whole row (theorem columns-party)."""
    return 2 * math.sqrt(sum(sizes)) / noise_sd(sizes, epsilon)


def paper_rows(subjects: int, sizes: Sequence[int], epsilon: float) -> int:
    """Return floor(sqrt(n)/sigma), at least 1: below d, where `choose_rows` refuses it, as well."""
    return max(1, math.floor(math.sqrt(subjects) * 2 * math.sqrt(max(sizes)) / noise_sd(sizes, epsilon)))


def theory_rows(subjects: int, sizes: Sequence[int], sd: float) -> int:
    """Return the k of `rows="theory"`, at most `MOST_ROWS`, for noise of standard deviation tau."""
    return min(choose_rows("theory", subjects, sum(sizes) - 1, sd, max(sizes)), MOST_ROWS)


def releases(
    moments: Reals,  # (p, p)
    mixtures: Mapping[str, Reals],
    subjects: int,
    sd: float,
    rng: np.random.Generator,
) -> dict[str, Fit]:
    """Fit one release of each kind."""
    biased = noisy_moments(moments, subjects, sd, rng)
    found = {DGM: fit(biased - sd**2 * np.eye(len(biased))), BGM: fit(biased)}
    for name, mixture in mixtures.items():
        found[name] = fit(mixed_moments(mixture, subjects, sd, rng))
    return found
