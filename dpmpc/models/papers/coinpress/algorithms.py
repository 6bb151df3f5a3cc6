"""The algorithms of CoinPress and of its extension to linear regression, written for any way to sum.

MVMRec and MVCRec are those of Biswas et al. 2020; Algorithms 1 to 5 those of Ediger 2021, with three repairs: whitening
matrices are multiplied in the order in which they act; all of the budget is spent (the printed shares of Algorithm 3,
0.1, 0.45 and 0.45 for two mechanisms, leave 0.45 unspent); and the radius of the first ball is divided as the rows are.
`PRINTED_SHARES` with an undivided radius is Algorithm 3 as printed.

Promised: privacy for rows of any law. Not promised: accuracy where rows are not Gaussian, or the prior (center and
radius, upper bound) is wrong; z = x y is not Gaussian even where x and y are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.models.papers.coinpress import steps
from dpmpc.models.papers.coinpress.steps import center_from, covariance_round, mean_round, moments_from
from dpmpc.models.papers.coinpress.summation import Summation

PRINTED_SHARES = 0.1, 0.45  # of rho, for ||beta||^2 and for the mean of z: Algorithm 3, line 2, without its third
LARGEST = 1e100  # rows are clipped to it before anything is computed from them, so that nothing overflows


@dataclasses.dataclass(frozen=True)
class Covariance:
    """An estimate of a covariance matrix."""

    matrix: Reals  # (d, d): symmetric, without negative eigenvalues
    whitening: Reals  # (d, d): a and Z of the last round: matrix = A^-T Z A^-1
    whitened: Reals
    deviation: float  # standard deviation of the noise in the diagonal of Z

    def inverse_root(self) -> Reals:
        """Return Sigma^(-1/2), with the eigenvalues of Z raised to the operator norm of its noise, 2 sd sqrt(d)."""
        floor = 2 * self.deviation * math.sqrt(len(self.whitened))
        return steps.inverse_root(steps.unwhitened(self.whitening, steps.positive(self.whitened, floor)))


def bounded(values: Reals) -> Reals:
    """Return a copy, clipped so that arithmetic on it cannot overflow."""
    return np.clip(values, -LARGEST, LARGEST)


def mean(
    total: Summation, rows: Reals, names: Sequence[str], center: Reals, radius: float, shares: Sequence[float]
) -> tuple[Reals, float]:
    """Estimate the mean of rows whose covariance is at most I, known to lie within `radius` of `center` (MVMRec)."""
    for share in shares:
        published = mean_round(names, center, radius, share)
        averaged = total(published, rows)
        center, deviation = center_from(published, averaged)
        radius = steps.next_radius(len(names), averaged.clients, deviation)
    return center, radius


def covariance(
    total: Summation,
    rows: Reals,
    names: Sequence[str],
    upper: float,
    shares: Sequence[float],
    *,
    triangle: bool = False,
) -> Covariance:
    """Estimate the covariance of rows with mean 0 and covariance at most `upper` I (MVCRec)."""
    following = np.eye(len(names)) / math.sqrt(upper)
    for share in shares:
        whitening = following
        published = covariance_round(names, whitening, upper, share, triangle=triangle)
        averaged = total(published, rows)
        noisy, deviation = moments_from(published, averaged)
        Z = steps.positive(noisy)
        following = steps.next_whitening(whitening, Z, averaged.clients)
    return Covariance(steps.unwhitened(whitening, Z), whitening, Z, deviation)


@dataclasses.dataclass(frozen=True)
class Prior:
    """What is known beforehand about a regression with residuals of variance 1."""

    radius: float  # r: ||E[x y]|| is at most r
    label_upper: float  # upper bound on the variance of the label
    # u: upper bound on the features' covariance, which is estimated; None where it is known to be I
    upper: float | None = None


def regression(
    total: Summation,
    X: Reals,
    y: Reals,
    names: Sequence[str],
    prior: Prior,
    *,
    rho: float,
    shares: tuple[float, float],
    divide_radius: bool,
    rounds: int,
    triangle: bool = False,
) -> tuple[Reals, float, Covariance | None]:
    """Estimate coefficients by Algorithm 3, or by Algorithm 5 where the features' covariance is not known.

    Algorithm 5: a third of rho for Sigma, then Algorithm 3 on x Sigma^(-1/2), whose answer Sigma^(-1/2) maps back.
    Algorithm 3: the first of `shares` of what remains for ||beta||^2 (Algorithm 2), the second for the mean of z = x y,
    divided by sqrt(2 ||beta||^2 + 1) (Algorithm 1; Lemma 3.1). `divide_radius` divides the radius of its ball, too.
    """
    X, y = bounded(X), bounded(y)
    found, back = None, np.eye(X.shape[1])
    if prior.upper is not None:
        found = covariance(total, X, names, prior.upper, steps.split(rho / 3, rounds), triangle=triangle)
        back = found.inverse_root()
        rho *= 2 / 3
    of_norm, of_mean = (steps.split(share * rho, rounds) for share in shares)
    variance = covariance(total, y[:, None], ["y"], prior.label_upper, of_norm).matrix[0, 0]
    squared_norm = max(0.0, float(variance) - 1)
    spread = math.sqrt(2 * squared_norm + 1)
    z = bounded((X @ back) * (y[:, None] / spread))
    products = [f"{name} y" for name in names]
    radius = prior.radius / spread if divide_radius else prior.radius
    scaled, _ = mean(total, z, products, np.zeros(len(names)), radius, of_mean)
    return back @ (scaled * spread), squared_norm, found
