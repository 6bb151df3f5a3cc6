"""A generated population, which describes nobody."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Reals
from dpmpc.data.columns import Column
from dpmpc.data.schemas import Schema
from dpmpc.data.table import Table

DEMO_TARGET = "income_thousands"

#: Public bounds of the generated population; the target comes last.
DEMO_BOUNDS = Schema(
    (
        Column("schooling_years", 4, 24),
        Column("tenure_years", 0, 20),
        Column("overtime_hours", 0, 20),
        Column("commute_km", 0, 20),
        Column("training_days", 0, 20),
        Column(DEMO_TARGET, 44, 156),
    )
)

DEMO_FEATURES = DEMO_BOUNDS.names[:-1]

#: Public L2 radius of the normalised rows. The 30 % of the population that lie beyond are shrunk, which keeps the
#: direction of their rows and moves the fitted coefficients by 0.7 %; the sensitivity falls from 2 sqrt(6) to 2.3.
DEMO_RADIUS = 1.15

_DEMO_COEFFICIENTS = (3.0, 1.5, 2.0, -1.2, 1.5)  # thousands for each year, year, hour, km, day

_DEMO_INTERCEPT = 20.0  # puts the income of the person in the middle at 100, the middle of its bounds

_DEMO_RESIDUAL = 5.0  # standard deviation, thousands: R^2 = 0.95

_DEMO_COMMON = 0.3  # weight of the part that all features share: correlations of 0.16


class DemoPopulation(NamedTuple):
    """A generated population and the linear model that made its target.

    Attributes
    ----------
    table : Table
        Features and target, in the order of `DEMO_BOUNDS`.
    coefficients : ndarray of float64, shape (5,)
        Thousands for each unit of a feature, in the order of the features.
    intercept : float
        Thousands.
    """

    table: Table
    coefficients: Reals
    intercept: float


def demo_population(clients: int = 1_000_000, seed: int = 0) -> DemoPopulation:
    """Generate people with five features and an income that is linear in them up to a Gaussian residual.

    Every feature is ``round(middle + half width (0.3 c + 0.7 u))`` with c, shared by a person's features, and u, of
    this feature alone, uniform on [-1, 1]: within its bounds, centred, weakly correlated (0.16) with the others. Income
    is ``20 + 3 schooling + 1.5 tenure + 2 overtime - 1.2 commute + 1.5 training`` plus N(0, 5^2), in thousands; R^2 is
    0.947, and seven persons in a thousand earn more or less than the bounds allow.

    Parameters
    ----------
    clients : int
        How many people, at least 1.
    seed : int
        Seed of NumPy's PCG64, at least 0: this is data, not noise, and need not be secret.

    Returns
    -------
    DemoPopulation
        ``(table, coefficients, intercept)``.

    Raises
    ------
    InputError
        If a number is out of range.
    """
    clients, seed = require_whole("clients", clients, 1), require_whole("seed", seed, 0)
    generator = np.random.Generator(np.random.PCG64(seed))
    coefficients = np.array(_DEMO_COEFFICIENTS)
    features = len(coefficients)
    uniform = generator.uniform(-1.0, 1.0, (clients, features + 1))
    common, own = uniform[:, features:], uniform[:, :features]
    values = np.empty((clients, features + 1))
    inputs = values[:, :features]
    np.multiply(own, 1 - _DEMO_COMMON, out=inputs)
    inputs += _DEMO_COMMON * common
    inputs *= DEMO_BOUNDS.slope[:features]
    inputs += DEMO_BOUNDS.offset[:features]
    np.rint(inputs, out=inputs)
    residual = generator.normal(0.0, _DEMO_RESIDUAL, clients)
    values[:, features] = _DEMO_INTERCEPT + inputs @ coefficients + residual
    return DemoPopulation(Table(DEMO_BOUNDS.names, values), coefficients, _DEMO_INTERCEPT)
