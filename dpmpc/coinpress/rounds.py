"""What is published before a round, and what its noisy sum is read as.

A `Round` is a schema (the box about the round's ball), a statistic (which clips to the ball) and a share of the budget:
all that a client needs to know, and no secret. Every row is first clipped to the box, then to the ball.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from dpmpc.bounds import Column, Schema
from dpmpc.coinpress.steps import COVARIANCE_FAILURE, Reals, clipping_radius, tail_bound
from dpmpc.statistic import Rows, Statistic, WhitenedProducts


@dataclasses.dataclass(frozen=True)
class Round:
    """One release of CoinPress, before it is made.

    Parameters
    ----------
    name : str
        For the ledger.
    schema : Schema
        Columns, and the box that rows are clipped to.
    statistic : Statistic
        What each client contributes.
    rho : float
        What the round may spend, in zCDP.
    """

    name: str
    schema: Schema
    statistic: Statistic
    rho: float


@dataclasses.dataclass(frozen=True)
class Averaged:
    """What a round releases, divided by the number of clients.

    Parameters
    ----------
    values : ndarray of float64, shape (width,)
        In the statistic's own units.
    deviation : float
        Standard deviation of the noise in each of them.
    clients : int
        n.
    """

    values: Reals
    deviation: float
    clients: int


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
    assert isinstance(published.statistic, WhitenedProducts)
    squared = tail_bound(len(published.schema), COVARIANCE_FAILURE) ** 2
    return np.asarray(squared * published.statistic.symmetric(averaged.values)), squared * averaged.deviation
