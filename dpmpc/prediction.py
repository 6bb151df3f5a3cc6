"""Before any data: how far from the optimum a release would be, for an assumed population.

`predict` compares a sketch, the sum of second moments, the local model and the trivial predictor by first-order
formulas, so that nobody ships a sketch that is worse than nothing. Not promised: more than the order of magnitude
for data unlike the assumed population.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TypedDict

from dpmpc.bounds import largest_squared_norm
from dpmpc.errors import InputError
from dpmpc.privacy import released_sd
from dpmpc.statistic import SecondMoments, moment_sensitivity
from dpmpc.task import Task


@dataclasses.dataclass(frozen=True)
class Population:
    """What a planner assumes about data that nobody has seen.

    Parameters
    ----------
    spread : float
        Standard deviation of a normalised feature; 0.4 is a bell that fills [-1, 1] without touching its ends.
    target_spread : float
        The same of the normalised target.
    explained : float
        Share of the target's variance that the best linear model explains (R^2).
    """

    spread: float = 0.4
    target_spread: float = 0.4
    explained: float = 0.5

    def __post_init__(self) -> None:
        for name in ("spread", "target_spread"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{name}: {getattr(self, name)} given, a number in (0, 1] expected")
        if not 0 < self.explained < 1:
            raise InputError(f"explained: {self.explained} given, a number strictly between 0 and 1 expected")


class Assumed(TypedDict):
    """What `predict` has to know beside the sizes and the budget."""

    radius: float | None
    population: Population | None
    noise: str
    sparsity: int


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Expected approximation factor phi (docs/mathematics.md, section 4: cost over optimal cost, 1 is perfect) of
    each way to release.

    Attributes
    ----------
    sketch, sum, local, trivial : float
        The sketch of `rows` rows, the sum of second moments, the local model, the constant predictor.
    rows : int
        Rows of the sketch.
    """

    sketch: float
    sum: float
    local: float
    trivial: float
    rows: int

    def chosen(self, statistic: str) -> float:
        """Prediction for a release of rows or of second moments."""
        return self.sum if statistic == SecondMoments.name else self.sketch


def predict(
    columns: int,
    clients: int,
    epsilon: float,
    delta: float,
    rows: int,
    *,
    radius: float | None = None,
    population: Population | None = None,
    noise: str = "discrete-gaussian",
    sparsity: int = 1,
) -> Prediction:
    """Predict phi for an uncorrelated population, from first-order formulas.

    A row of the sketch holds n/k clients' signal and noise of standard deviation sigma, Delta/mu for Gaussian noise
    (docs/mathematics.md, section 1.2) and sqrt(2 s) Delta_1/epsilon for Laplace noise (section 1.3).
    Regressing on it is least squares with errors in the variables: the fit shrinks by lambda = (n v/k) / (n v/k +
    sigma^2) and k - p - 1 degrees of freedom remain after p - 1 features and the intercept.

    Parameters
    ----------
    columns : int
        Features and target, p.
    clients : int
        n.
    epsilon, delta : float
        The budget.
    rows : int
        k, more than `columns`.
    radius : float, optional
        L2 clipping radius of the normalised row.
    population : Population, optional
        What is assumed about the data.
    noise : str
        Family of the clients' noise.
    sparsity : int
        s.
    """
    population = population or Population()
    features = columns - 1
    variance = population.spread**2
    explained = population.explained * population.target_spread**2
    residual = (1 - population.explained) * population.target_spread**2
    weight = explained / variance  # squared norm of the true coefficients
    squared_norm = largest_squared_norm(columns, radius)
    width = SecondMoments(radius).width(columns)

    def factor(per_row: float, degrees: float, sparsity: int) -> float:
        """Phi when each of the rows holds `per_row` clients."""
        sigma2 = _deviation(noise, 2 * math.sqrt(squared_norm), columns, sparsity, epsilon, delta) ** 2
        signal = per_row * variance
        shrink = signal / (signal + sigma2)
        error = per_row * residual + sigma2 + weight * sigma2 * shrink
        spread = features * error / (degrees * (signal + sigma2))
        intercept = error / (degrees * per_row)
        excess = variance * ((1 - shrink) ** 2 * weight + spread) + intercept
        return 1 + excess / residual

    moments = _deviation(noise, moment_sensitivity(1 + squared_norm), width, 1, epsilon, delta) / math.sqrt(2)
    summed = features * moments**2 * (1 + weight) / (clients * variance) ** 2 * variance
    return Prediction(
        sketch=factor(clients / rows, max(rows - columns - 1, 0.5), sparsity),
        sum=1 + summed / residual,
        local=factor(1.0, clients, 1),
        trivial=1 / (1 - population.explained),
        rows=rows,
    )


def best_rows(
    columns: int,
    clients: int,
    epsilon: float,
    delta: float,
    *,
    radius: float | None = None,
    population: Population | None = None,
    noise: str = "discrete-gaussian",
    sparsity: int = 1,
) -> int:
    """Return the number of rows k with the smallest predicted phi."""
    candidates = {round(2 ** (exponent / 4)) for exponent in range(4 * 24)}
    usable = [rows for rows in sorted(candidates) if 2 * columns <= rows <= max(2 * columns, clients // 8)]
    usable = usable or [2 * columns]

    def expected(rows: int) -> float:
        assumed = Assumed(radius=radius, population=population, noise=noise, sparsity=sparsity)
        return predict(columns, clients, epsilon, delta, rows, **assumed).sketch

    return min(usable, key=expected)


def low_rank_rows(
    columns: int,
    clients: int,
    epsilon: float,
    delta: float,
    *,
    radius: float | None = None,
    population: Population | None = None,
    noise: str = "discrete-gaussian",
    sparsity: int = 1,
) -> int:
    """Return k = n v / (2 sigma^2), but at least 2 p (docs/mathematics.md, section 5.1).

    There the sketch's distortion n v sqrt(p/k) of the second moments is as large as their noise 2 sigma^2 sqrt(k p).
    """
    variance = (population or Population()).spread ** 2
    l2 = 2 * math.sqrt(largest_squared_norm(columns, radius))
    sigma2 = _deviation(noise, l2, columns, sparsity, epsilon, delta) ** 2
    return max(2 * columns, round(clients * variance / (2 * sigma2)))


def _deviation(noise: str, l2: float, width: int, sparsity: int, epsilon: float, delta: float) -> float:
    """Standard deviation of the noise in a released entry, for contributions of `width` entries."""
    return released_sd(noise, l1=math.sqrt(width) * l2, l2=l2, sparsity=sparsity, epsilon=epsilon, delta=delta)


def predict_for(task: Task, population: Population | None = None) -> Prediction:
    """Predict phi for a task; where it sums second moments, the best sketch is predicted beside it."""
    if isinstance(task.statistic, SecondMoments):
        return _at_best_rows(task, task.clients, population)
    return _predict(task, task.clients, task.sketch.rows, population)


def break_even(task: Task, population: Population | None = None, *, largest: int = 10**12) -> int | None:
    """Smallest number of clients at which a release like the task's beats the trivial predictor, or None.

    A sketch is given its best number of rows at every batch size.
    """

    def useful(clients: int) -> bool:
        prediction = _at_best_rows(task, clients, population)
        return prediction.chosen(task.statistic.name) < prediction.trivial

    if not useful(largest):
        return None
    low, high = 0, largest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if useful(middle) else (middle, high)
    return high


def _at_best_rows(task: Task, clients: int, population: Population | None) -> Prediction:
    rows = best_rows(len(task.schema), clients, task.epsilon, task.delta, **_assumed(task, population))
    return _predict(task, clients, rows, population)


def _predict(task: Task, clients: int, rows: int, population: Population | None) -> Prediction:
    return predict(len(task.schema), clients, task.epsilon, task.delta, rows, **_assumed(task, population))


def _assumed(task: Task, population: Population | None) -> Assumed:
    return Assumed(
        radius=task.statistic.radius, population=population, noise=task.noise.name, sparsity=task.sketch.sparsity
    )
