"""The steps of CoinPress (Biswas, Dong, Kamath and Ullman 2020) as pure functions, in the paper's order.

Every step narrows what is known: a ball that holds the mean, or a matrix that whitens the rows. Clipping to what is
known makes the noise of the next round smaller. Nothing here is private by itself: the noise comes from
`dpmpc.coinpress.summation`. Privacy rests on clipping alone; that a step's ball holds the mean rests on Gaussian rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError

Reals = NDArray[np.float64]

MEAN_FAILURE = 0.01  # beta of a mean step
COVARIANCE_FAILURE = 0.1  # beta of a covariance step
EARLY_SHARE = 0.25  # of the budget, for all rounds but the last


def split(rho: float, rounds: int) -> list[float]:
    """Share a budget: the earlier rounds have a quarter of it together, the last one the rest."""
    if isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 1:
        raise InputError(f"rounds: {rounds!r} given, a whole number of at least 1 expected")
    if rounds == 1:
        return [rho]
    return [rho * EARLY_SHARE / (rounds - 1)] * (int(rounds) - 1) + [rho * (1 - EARLY_SHARE)]


def tail_bound(columns: int, failure: float) -> float:
    """Norm that a standard Gaussian vector exceeds with probability at most beta.

    sqrt(d + 2 sqrt(d ln(1/beta)) + 2 ln(1/beta)) (Laurent and Massart 2000, Lemma 1).
    """
    log = math.log(1 / failure)
    return math.sqrt(columns + 2 * math.sqrt(columns * log) + 2 * log)


def clipping_radius(radius: float, columns: int) -> float:
    """Radius about c that rows are clipped to, if their mean is within r of c (MVM).

    min(sqrt(r^2 + 6 r + g^2), r + g) for g = tail_bound(d, .01).
    """
    g = tail_bound(columns, MEAN_FAILURE)
    return min(math.sqrt(radius**2 + 6 * radius + g**2), radius + g)


def next_radius(columns: int, clients: int, deviation: float) -> float:
    """Radius about the noisy mean that holds the mean (MVM): sqrt(1/n + sd^2) tail_bound(d, .01)."""
    return math.sqrt(1 / clients + deviation**2) * tail_bound(columns, MEAN_FAILURE)


def margin(columns: int, clients: int) -> float:
    """What is added to whitened second moments before they are inverted: h = (2 sqrt(d/n) + d/n) / 2 (MVC)."""
    return math.sqrt(columns / clients) + columns / clients / 2


def positive(matrix: Reals, floor: float = 0.0) -> Reals:
    """Return the symmetric matrix with its eigenvalues raised to at least `floor`."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def inverse_root(matrix: Reals) -> Reals:
    """M^(-1/2), symmetric, of a positive matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def next_whitening(whitening: Reals, Z: Reals, clients: int) -> Reals:
    """A <- A (Z + h I)^(-1/2), for rows W = X A whose second moments are Z (MVC).

    The factor stands on the right: X A (Z + h I)^(-1/2) is W whitened.
    """
    return whitening @ inverse_root(Z + margin(len(Z), clients) * np.eye(len(Z)))


def unwhitened(whitening: Reals, Z: Reals) -> Reals:
    """A^-T Z A^-1: the second moments of X where those of X A are Z."""
    inverse = np.linalg.inv(whitening)
    return np.asarray(inverse.T @ Z @ inverse)
