"""The steps of CoinPress (Biswas, Dong, Kamath and Ullman 2020) as pure functions, in the paper's order.

A step states what is published before a round, and what its noisy sum is read as. A `Round` is a schema (the box about
the round's ball), a contribution (which clips to the ball) and a share of the budget: all that a client needs to know,
and no secret. Every row is first clipped to the box, then to the ball.

Every step narrows what is known: a ball that holds the mean, or a matrix that whitens the rows. Clipping to what is
known makes the noise of the next round smaller. Nothing here is private by itself: the noise comes from
`dpmpc.models.papers.coinpress.summation`. Privacy rests on clipping alone; that a step's ball holds the mean rests on
Gaussian rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Reals
from dpmpc.data import Column, Schema
from dpmpc.linear.contributions import Rows
from dpmpc.linear.contributions.contribution import Contribution, WhitenedProducts

MEAN_FAILURE = 0.01  # beta of a mean step
COVARIANCE_FAILURE = 0.1  # beta of a covariance step
EARLY_SHARE = 0.25  # of the budget, for all rounds but the last


def split(rho: float, rounds: int) -> list[float]:
    """Split a budget: the earlier rounds share a quarter of it, the last one has the rest."""
    rounds = require_whole("rounds", rounds, 1)
    if rounds == 1:
        return [rho]
    return [rho * EARLY_SHARE / (rounds - 1)] * (rounds - 1) + [rho * (1 - EARLY_SHARE)]


def tail_bound(columns: int, failure: float) -> float:
    """Return the norm that a standard Gaussian vector exceeds with probability at most beta.

    sqrt(d + 2 sqrt(d ln(1/beta)) + 2 ln(1/beta)) (Laurent and Massart 2000, Lemma 1).
    """
    log = math.log(1 / failure)
    return math.sqrt(columns + 2 * math.sqrt(columns * log) + 2 * log)


def clipping_radius(radius: float, columns: int) -> float:
    """Return the radius about c that rows are clipped to if their mean is within r of c (MVM).

    min(sqrt(r^2 + 6 r + g^2), r + g) for g = tail_bound(d, .01).
    """
    g = tail_bound(columns, MEAN_FAILURE)
    return min(math.sqrt(radius**2 + 6 * radius + g**2), radius + g)


def next_radius(columns: int, clients: int, deviation: float) -> float:
    """Return the radius about the noisy mean that holds the mean (MVM): sqrt(1/n + sd^2) tail_bound(d, .01)."""
    return math.sqrt(1 / clients + deviation**2) * tail_bound(columns, MEAN_FAILURE)


def margin(columns: int, clients: int) -> float:
    """Return what is added to whitened second moments before they are inverted: h = (2 sqrt(d/n) + d/n) / 2 (MVC)."""
    return math.sqrt(columns / clients) + columns / clients / 2


def positive(matrix: Reals, floor: float = 0.0) -> Reals:
    """Return the symmetric matrix with its eigenvalues raised to at least `floor`."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def inverse_root(matrix: Reals) -> Reals:
    """Return the symmetric root M^(-1/2) of a positive matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def next_whitening(whitening: Reals, Z: Reals, clients: int) -> Reals:
    """Return the next A = A (Z + h I)^(-1/2), for rows W = X A whose second moments are Z (MVC).

    The factor stands on the right: X A (Z + h I)^(-1/2) is W whitened.
    """
    return whitening @ inverse_root(Z + margin(len(Z), clients) * np.eye(len(Z)))


def unwhitened(whitening: Reals, Z: Reals) -> Reals:
    """Return the second moments A^-T Z A^-1 of X, where those of X A are Z."""
    inverse = np.linalg.inv(whitening)
    return np.asarray(inverse.T @ Z @ inverse)


@dataclasses.dataclass(frozen=True)
class Round:
    """One release of CoinPress, before it is made."""

    name: str  # for the ledger
    schema: Schema  # columns, and the box that rows are clipped to
    contribution: Contribution  # what each client contributes
    rho: float  # what the round may spend, in zCDP


@dataclasses.dataclass(frozen=True)
class Averaged:
    """What a round releases, divided by the number of clients."""

    values: Reals  # (width,): in the contribution's own units
    deviation: float  # standard deviation of the noise in each of them
    clients: int  # n


def mean_round(names: Sequence[str], center: Reals, radius: float, rho: float) -> Round:
    """Ask for the sum of the rows, clipped about a center near which their mean is known to lie (MVM)."""
    reach = clipping_radius(radius, len(names))
    columns = tuple(Column(name, c - reach, c + reach) for name, c in zip(names, center.tolist(), strict=True))
    return Round(f"mean, within {radius:.4g}", Schema(columns), Rows(radius=1.0), rho)


def center_from(published: Round, averaged: Averaged) -> tuple[Reals, float]:
    """Return the noisy mean of a mean round's rows, and the standard deviation of its noise, in the rows' units."""
    center = published.schema.denormalise(averaged.values[None])[0]
    return center, averaged.deviation * float(published.schema.slope.max())


def covariance_round(names: Sequence[str], whitening: Reals, upper: float, rho: float, *, triangle: bool) -> Round:
    """Ask for the sum of w w^T over whitened rows w = x A, clipped to norm g = tail_bound(d, .1) (MVC).

    The box is that of the prior: no row of covariance at most u I and norm at most g sqrt(u) is outside it.
    """
    g = tail_bound(len(names), COVARIANCE_FAILURE)
    box = g * math.sqrt(upper)
    schema = Schema.from_pair(names, (-box, box))
    name = f"covariance of {len(names)} columns" if len(names) > 1 else f"variance of {names[0]}"
    return Round(name, schema, WhitenedProducts(whitening * (box / g), triangle=triangle), rho)


def moments_from(published: Round, averaged: Averaged) -> tuple[Reals, float]:
    """Return the noisy second moments Z of a covariance round's whitened rows, and the noise of its diagonal."""
    assert isinstance(published.contribution, WhitenedProducts)
    squared = tail_bound(len(published.schema), COVARIANCE_FAILURE) ** 2
    return np.asarray(squared * published.contribution.symmetric(averaged.values)), squared * averaged.deviation
