"""Before any data: choose the sketch and the noise, prove that they fit, and predict the error.

`design` makes a `Task` from what a user asks for. `predict` says, for an assumed population, how far from the optimum a
ridge regression on each kind of release would be, so that nobody ships a sketch that is worse than nothing.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TypedDict

from dpmpc.bounds import Schema
from dpmpc.encoding import FixedPoint, home
from dpmpc.errors import InputError
from dpmpc.privacy import Trust, calibrate, check_budget, is_pure, released_sd
from dpmpc.randomness import SEED_BYTES, Label, Stream, derive, seed_bytes
from dpmpc.sketching import OSNAP, CountSketch, PublicMatrix, Sum
from dpmpc.statistic import Rows, SecondMoments, Statistic
from dpmpc.task import Task

PURPOSES = ("ridge", "low-rank")
SKETCHES = ("auto", "osnap", "countsketch", "sum")
AUTO_WIDTH = 8192  # "auto" sums second moments while a client sends at most so many words
DEFAULT_SPARSITY = 4
FRACTIONAL_BITS = 16


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


def design(
    schema: Schema,
    clients: int,
    epsilon: float,
    delta: float,
    *,
    statistic: Statistic | None = None,
    purpose: str = "ridge",
    sketch: str = "auto",
    rows: int | None = None,
    sparsity: int | None = None,
    balanced: bool = True,
    noise: str = "discrete-gaussian",
    radius: float | None = None,
    sharing: str = "additive",
    ring: str | None = None,
    servers: int = 3,
    corrupt_clients: int = 0,
    dropouts: int = 0,
    calibration: str = "joint",
    fractional_bits: int = FRACTIONAL_BITS,
    seed: int | None = None,
) -> Task:
    """Make the task of one release.

    Parameters
    ----------
    schema : Schema
        Columns and public bounds.
    clients : int
        Number of clients, n.
    epsilon, delta : float
        The budget; delta = 0 with ``noise="discrete-laplace"``.
    statistic : Statistic, optional
        What is summed over the clients in place of rows or second moments; there is then no sketch to choose.
    purpose : {"ridge", "low-rank"}
        What the release is for: decides the default of `rows`.
    sketch : {"auto", "osnap", "countsketch", "sum"}
        The public matrix. "sum" adds up the clients' second moments; "auto" is "sum" while a client sends at most
        8192 words, then "osnap".
    rows, sparsity : int, optional
        k and s; by default `best_rows` or `low_rank_rows`, and s = 4 (OSNAP), or 1 for discrete Laplace noise, which
        costs sqrt(s) in standard deviation.
    balanced : bool
        Whether every copy hits every row equally often.
    noise : str
        Family of the clients' noise.
    radius : float, optional
        Clip normalised rows to this L2 norm.
    sharing : {"additive", "shamir"}
        All-but-one secrecy, or an honest majority with t = (M - 1) // 2.
    ring : {"ring64", "mersenne61"}, optional
        Where shares live; Shamir shares need the field.
    servers, corrupt_clients, dropouts : int
        See `dpmpc.privacy.Trust`.
    calibration : {"joint", "paper"}
        See `dpmpc.privacy.calibrate`.
    fractional_bits : int
        f of the fixed-point encoding.
    seed : int, optional
        Simulations only: makes the public matrix repeatable and marks the task as a simulation.

    Returns
    -------
    Task
        Verified.
    """
    if clients < 1:
        raise InputError(f"clients: {clients} given, at least 1 expected")
    check_budget(epsilon, delta, pure=is_pure(noise))
    if delta * clients >= 1:
        raise InputError(f"delta: {delta:g} given for {clients} clients, less than 1/n = {1 / clients:g} expected")
    matrix: PublicMatrix
    if statistic is None:
        if purpose not in PURPOSES:
            raise InputError(f"purpose: {purpose!r} given, one of {', '.join(PURPOSES)} expected")
        sketch = _resolved(sketch, len(schema))
        wanted = sparsity or (DEFAULT_SPARSITY if sketch == "osnap" and not is_pure(noise) else 1)
        if rows is None and sketch != "sum":
            recommend = best_rows if purpose == "ridge" else low_rank_rows
            rows = recommend(len(schema), clients, epsilon, delta, radius=radius, noise=noise, sparsity=wanted)
        if sketch == "osnap" and sparsity is None:
            sparsity = min(wanted, rows or wanted)
        statistic, matrix = _matrix(schema, clients, sketch, rows, sparsity, balanced, radius, seed)
    else:
        _expect_plain_sum(statistic, sketch, rows, sparsity, radius)
        matrix = Sum(columns=clients)
    shamir = sharing == "shamir"
    if shamir and servers < 3:
        raise InputError(f"servers: {servers} given, at least 3 expected with Shamir shares: a majority must be honest")
    trust = Trust(
        servers=servers,
        corrupt_servers=(servers - 1) // 2 if shamir else servers - 1,
        corrupt_clients=corrupt_clients,
        dropouts=dropouts,
    )
    encoding = FixedPoint(fractional_bits, ring=home(ring or ("mersenne61" if shamir else "ring64")))
    sensitivity = statistic.sensitivity(len(schema), encoding)
    chosen = calibrate(matrix, sensitivity, epsilon, delta, noise=noise, trust=trust, calibration=calibration)
    return Task(
        schema=schema,
        statistic=statistic,
        encoding=encoding,
        sketch=matrix,
        noise=chosen,
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        sharing=sharing,
        calibration=calibration,
        simulation=seed is not None,
    ).verify()


def public_seed(seed: int | None = None) -> bytes:
    """Draw the seed of a public matrix from the operating system, or derive it from a simulation's number."""
    if seed is None:
        return Stream.from_os().bytes(SEED_BYTES)
    return derive(seed_bytes(seed), Label.SKETCH_SEED, length=SEED_BYTES)


def _expect_plain_sum(
    statistic: Statistic, sketch: str, rows: int | None, sparsity: int | None, radius: float | None
) -> None:
    if sketch not in ("auto", "sum"):
        raise InputError(f"sketch: {sketch!r} given, 'auto' or 'sum' expected with a {statistic.name}")
    for name, value in (("rows", rows), ("sparsity", sparsity), ("radius", radius)):
        if value is not None:
            raise InputError(f"{name}: {value} given, none expected with a {statistic.name}")


def _resolved(sketch: str, columns: int) -> str:
    """Decide what "auto" stands for."""
    if sketch not in SKETCHES:
        raise InputError(f"sketch: {sketch!r} given, one of {', '.join(SKETCHES)} expected")
    if sketch != "auto":
        return sketch
    return "sum" if SecondMoments().width(columns) <= AUTO_WIDTH else "osnap"


def _matrix(
    schema: Schema,
    clients: int,
    sketch: str,
    rows: int | None,
    sparsity: int | None,
    balanced: bool,
    radius: float | None,
    seed: int | None,
) -> tuple[Statistic, PublicMatrix]:
    if sketch == "sum":
        if rows not in (None, 1) or sparsity not in (None, 1):
            raise InputError(f"rows, sparsity: {rows}, {sparsity} given, but a sum has one row that everybody hits")
        return SecondMoments(radius), Sum(columns=clients)
    assert rows is not None
    if rows <= len(schema):
        raise InputError(
            f"rows: {rows} given, more than the {len(schema)} columns expected: the sketch would not be solvable"
        )
    matrix_seed = public_seed(seed)
    if sketch == "countsketch":
        if sparsity not in (None, 1):
            raise InputError(f"sparsity: {sparsity} given, 1 expected with a CountSketch")
        return Rows(radius), CountSketch(rows=rows, columns=clients, seed=matrix_seed, balanced=balanced)
    assert sparsity is not None
    return Rows(radius), OSNAP(rows=rows, columns=clients, sparsity=sparsity, seed=matrix_seed, balanced=balanced)


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
    norm = _largest_norm(columns, radius)
    width = SecondMoments(radius).width(columns)

    def factor(per_row: float, degrees: float, sparsity: int) -> float:
        """Phi when each of the rows holds `per_row` clients."""
        sigma2 = _deviation(noise, 2 * norm, columns, sparsity, epsilon, delta) ** 2
        signal = per_row * variance
        shrink = signal / (signal + sigma2)
        error = per_row * residual + sigma2 + weight * sigma2 * shrink
        spread = features * error / (degrees * (signal + sigma2))
        intercept = error / (degrees * per_row)
        excess = variance * ((1 - shrink) ** 2 * weight + spread) + intercept
        return 1 + excess / residual

    moments = _deviation(noise, math.sqrt(2) * (1 + norm**2), width, 1, epsilon, delta) / math.sqrt(2)
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
    sigma2 = _deviation(noise, 2 * _largest_norm(columns, radius), columns, sparsity, epsilon, delta) ** 2
    return max(2 * columns, round(clients * variance / (2 * sigma2)))


def _deviation(noise: str, l2: float, width: int, sparsity: int, epsilon: float, delta: float) -> float:
    """Standard deviation of the noise in a released entry, for contributions of `width` entries."""
    return released_sd(noise, l1=math.sqrt(width) * l2, l2=l2, sparsity=sparsity, epsilon=epsilon, delta=delta)


def _largest_norm(columns: int, radius: float | None) -> float:
    return math.sqrt(columns) if radius is None else min(radius, math.sqrt(columns))


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
