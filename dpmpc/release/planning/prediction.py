"""Before any data: how far from the optimum a release would be, for an assumed population.

A `Scenario` is what is known before any data: sizes, budget, trust, an assumed population, and the noise that follows
from them to first order, without a public matrix at hand. `expected_of` uses the exact noise of a task.

A `UtilityMetric` compares a sketch, the sum of second moments, the local model and the trivial predictor by first-order
formulas, so that nobody ships a sketch that is worse than nothing, and so
that it is known from how many people on a release is useful. Not promised: more than the order of magnitude for data
unlike the assumed population.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import ClassVar

from dpmpc.base.arguments import require_choice, require_fraction, require_whole
from dpmpc.base.errors import InputError
from dpmpc.data.schemas import largest_squared_norm
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.contribution import moment_sensitivity
from dpmpc.privacy.accountants import released_sd
from dpmpc.privacy.specification import NOISED_BY, TrustModel
from dpmpc.privacy.task import Task


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
        Share of the target's variance that the best linear model explains (R^2); for a low-rank approximation, share
        of the total variance that lies in the best directions.
    """

    spread: float = 0.4
    target_spread: float = 0.4
    explained: float = 0.5

    def __post_init__(self) -> None:
        for name in ("spread", "target_spread"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(name, f"{getattr(self, name)}", "a number in (0, 1]")
        require_fraction("explained", self.explained)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What a prediction depends on, apart from the option that is chosen.

    Parameters
    ----------
    columns, clients : int
        p and n.
    epsilon, delta : float
        The budget.
    noise : str
        Family of the noise.
    sparsity : int
        s, of a sketch.
    radius : float, optional
        L2 clipping radius of the normalised row.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    trust : TrustModel
        Servers, and who may collude.
    dealers : int, optional
        Where servers deal their noise in shares, how many do.
    population : Population
        What is assumed about the data.
    """

    columns: int
    clients: int
    epsilon: float
    delta: float
    noise: str = "discrete-gaussian"
    sparsity: int = 1
    radius: float | None = None
    noise_by: str = "clients"
    trust: TrustModel = dataclasses.field(default_factory=TrustModel)
    dealers: int | None = None
    population: Population = Population()

    def __post_init__(self) -> None:
        for name, least in (("columns", 1), ("clients", 1), ("sparsity", 1)):
            require_whole(name, getattr(self, name), least)
        require_choice("noise_by", self.noise_by, NOISED_BY)

    @classmethod
    def of(cls, task: Task, population: Population | None = None) -> Scenario:
        """Return the scenario of a task."""
        return cls(
            columns=len(task.schema),
            clients=task.clients,
            epsilon=task.epsilon,
            delta=task.delta,
            noise=task.noise.name,
            sparsity=task.sketch.sparsity,
            radius=task.statistic.radius,
            noise_by=task.noising.by,
            trust=task.trust,
            dealers=task.noising.dealers if isinstance(task.noising.dealers, int) else None,
            population=population or Population(),
        )

    @property
    def largest_batch(self) -> int:
        """Largest n below 1/delta, and at most 10^12."""
        return 10**12 if self.delta == 0 else min(10**12, math.ceil(1 / self.delta) - 1)

    def row_variance(self, rows: int) -> float:
        """Return sigma^2 of an entry of a sketch of k rows, normalised; infinite if the coalition may fill a row."""
        contributions = self.clients * self.sparsity / rows
        lost = self.trust.lost_of(rows, self.sparsity)
        return self._row_variance(self.sparsity) * self._inflation(contributions, lost)

    def moment_variance(self) -> float:
        """Return sigma^2 of an entry of summed second moments; off the diagonal of their matrix it is half of that."""
        l2 = moment_sensitivity(1 + largest_squared_norm(self.columns, self.radius))
        variance = _variance(self.noise, l2, SecondMoments().width(self.columns), 1, self.epsilon, self.delta)
        return variance * self._inflation(self.clients, self.trust.lost_of(1, 1))

    def local_variance(self) -> float:
        """Return sigma^2 of an entry of a row that its client hides alone."""
        return self._row_variance(1)

    def _row_variance(self, sparsity: int) -> float:
        """Return (Delta/mu)^2, or for discrete Laplace noise (sqrt(2 s) Delta_1/epsilon)^2."""
        l2 = 2 * math.sqrt(largest_squared_norm(self.columns, self.radius))
        return _variance(self.noise, l2, self.columns, sparsity, self.epsilon, self.delta)

    def _inflation(self, contributions: float, lost: int) -> float:
        """Return all noise in a sum over the noise that is counted: M/h for h honest servers, else N/(N - t - q)."""
        if self.noise_by == "servers" and self.dealers is not None:
            return self.dealers / (self.dealers - self.trust.colluding_servers)
        if self.noise_by == "servers":
            return self.trust.servers / self.trust.honest_servers
        return contributions / (contributions - lost) if contributions > lost else math.inf


@functools.lru_cache(maxsize=64)
def _variance(noise: str, l2: float, width: int, sparsity: int, epsilon: float, delta: float) -> float:
    """Return the variance of the noise in a released entry, for contributions of `width` entries."""
    return released_sd(noise, l1=math.sqrt(width) * l2, l2=l2, sparsity=sparsity, epsilon=epsilon, delta=delta) ** 2


class UtilityMetric(abc.ABC):
    """What a release is for, and the measure of its error.

    Attributes
    ----------
    purpose : str
        As in `dpmpc.release.design`.
    symbol : str
        Name of the measure.
    optimum : float
        Its value at the optimum, which nothing goes below.
    nothing : str
        What ignores the data.
    """

    purpose: ClassVar[str]
    symbol: ClassVar[str]
    optimum: ClassVar[float]
    nothing: ClassVar[str]

    @abc.abstractmethod
    def of_rows(self, scenario: Scenario, rows: int, variance: float) -> float:
        """Return the expected error of a sketch of k rows with noise of this variance; k = n is the local model."""

    @abc.abstractmethod
    def of_moments(self, scenario: Scenario, variance: float) -> float:
        """Return the expected error of summed second moments with noise of this variance."""

    @abc.abstractmethod
    def trivial(self, scenario: Scenario) -> float:
        """Return the expected error of an answer that ignores the data."""

    @abc.abstractmethod
    def default_rows(self, scenario: Scenario) -> int:
        """Return the number of rows that a sketch is given by default."""

    def sketch(self, scenario: Scenario, rows: int) -> float:
        """Return the expected error of a sketch; infinite if the coalition may know all the noise of a row."""
        variance = scenario.row_variance(rows)
        return math.inf if math.isinf(variance) else self.of_rows(scenario, rows, variance)

    def sum(self, scenario: Scenario) -> float:
        """Return the expected error of summed second moments; infinite if the coalition may know all the noise."""
        variance = scenario.moment_variance()
        return math.inf if math.isinf(variance) else self.of_moments(scenario, variance)

    def local(self, scenario: Scenario) -> float:
        """Return the expected error of rows that each client hides alone."""
        return self.of_rows(scenario, scenario.clients, scenario.local_variance())

    def text(self, value: float) -> str:
        """Write phi or psi so that its distance from the optimum can be read."""
        excess = value - self.optimum
        return f"{self.optimum:g} + {excess:.2g}" if self.optimum and excess < 0.01 else f"{value:.4g}"


class Regression(UtilityMetric):
    """Ridge regression: phi, the cost over the optimal cost."""

    purpose = "ridge"
    symbol = "phi"
    optimum = 1.0
    nothing = "the trivial predictor"

    def of_rows(self, scenario: Scenario, rows: int, variance: float) -> float:
        """Return phi of least squares with errors in the variables.

        A row holds m = n/k clients' signal. The fit shrinks by lambda = m v/(m v + sigma^2), and k - p - 1 degrees of
        freedom remain after p - 1 features and the intercept.
        """
        assumed, weight, residual = scenario.population, *_linear_model(scenario.population)
        v = assumed.spread**2
        m = scenario.clients / rows
        shrink = m * v / (m * v + variance)
        error = m * residual + variance + weight * variance * shrink
        degrees = max(rows - scenario.columns - 1, 0.5)
        spread = (scenario.columns - 1) * error / (degrees * (m * v + variance))
        intercept = error / (degrees * m)
        return 1 + (v * ((1 - shrink) ** 2 * weight + spread) + intercept) / residual

    def of_moments(self, scenario: Scenario, variance: float) -> float:
        """Return phi, where noise of variance sigma^2/2 in G_xx and G_xy moves w by (E_xy - E_xx w)/(n v)."""
        weight, residual = _linear_model(scenario.population)
        v = scenario.population.spread**2
        excess = (scenario.columns - 1) * variance / 2 * (1 + weight) / (scenario.clients * v) ** 2 * v
        return 1 + excess / residual

    def trivial(self, scenario: Scenario) -> float:
        """Return phi of the constant predictor: 1/(1 - R^2)."""
        return 1 / (1 - scenario.population.explained)

    def default_rows(self, scenario: Scenario) -> int:
        """Return the number of rows with the smallest predicted phi."""
        return best_rows(scenario, self)


@dataclasses.dataclass(frozen=True)
class LowRank(UtilityMetric):
    """Low-rank approximation: psi, the excess risk.

    Parameters
    ----------
    components : int
        r. `Population.explained` is the share of the variance p v in r equal directions; the others are equal, too.
    """

    components: int = 3

    purpose = "low-rank"
    symbol = "psi"
    optimum = 0.0
    nothing = "a random projection"

    def of_rows(self, scenario: Scenario, rows: int, variance: float) -> float:
        """Return psi, where Var(E_ij) = l_i l_j/k + (l_i + l_j) sigma^2/n + k sigma^4/n^2.

        In the local model, where no two clients meet, the first term falls away.
        """
        top, rest = self._spectrum(scenario)
        n = scenario.clients
        distortion = 0.0 if rows == n else top * rest / rows
        return self._excess(scenario, distortion + (top + rest) * variance / n + rows * (variance / n) ** 2)

    def of_moments(self, scenario: Scenario, variance: float) -> float:
        """Return psi, where Var(E_ij) = sigma^2/(2 n^2)."""
        return self._excess(scenario, variance / (2 * scenario.clients**2))

    def trivial(self, scenario: Scenario) -> float:
        """Return psi of a random projection, which keeps r/p of every direction: r (l_top - v)."""
        top, _ = self._spectrum(scenario)
        return self.components * (top - scenario.population.spread**2)

    def default_rows(self, scenario: Scenario) -> int:
        """Return k = n v/(2 sigma^2), but at least 2 p.

        There the sketch distorts the second moments by n v sqrt(p/k), which is as much as their noise, 2 sigma^2
        sqrt(k p).
        """
        least = 2 * scenario.columns
        return max(least, round(scenario.clients * scenario.population.spread**2 / (2 * scenario.row_variance(least))))

    def _excess(self, scenario: Scenario, variance: float) -> float:
        """Return psi = r (p - r) Var(E_ij)/(l_top - l_rest), but no more than a random projection's."""
        top, rest = self._spectrum(scenario)
        second_order = self.components * (scenario.columns - self.components) * variance / (top - rest)
        return min(second_order, self.trivial(scenario))

    def _spectrum(self, scenario: Scenario) -> tuple[float, float]:
        """Return the population's eigenvalues of second moments: r equal the first, p - r the second."""
        r, p, explained = self.components, scenario.columns, scenario.population.explained
        if not 1 <= r < p:
            raise InputError("components", r, f"1 to {p - 1}", f"with {p} columns that leaves something out")
        if explained <= r / p:
            raise InputError(
                "explained",
                explained,
                f"more than {r / p:.6g}",
                f"any {r} of {p} directions have that share of the variance",
            )
        total = p * scenario.population.spread**2
        return explained * total / r, (1 - explained) * total / (p - r)


def expected_of(task: Task, metric: UtilityMetric, population: Population | None = None) -> float:
    """Predict phi or psi of a task's release, from the noise that it has."""
    scenario = Scenario.of(task, population)
    variance = float(task.noise_terms.mean()) * task.noise.variance * task.unit**2
    if task.statistic.summed:
        return metric.of_moments(scenario, variance)
    return metric.of_rows(scenario, task.sketch.rows, variance)


def best_rows(scenario: Scenario, metric: UtilityMetric) -> int:
    """Return the number of rows k, at least 2 p and at most n/8, with the smallest expected phi or psi."""
    least = 2 * scenario.columns
    candidates = {round(2 ** (exponent / 4)) for exponent in range(4 * 24)}
    usable = [rows for rows in sorted(candidates) if least <= rows <= max(least, scenario.clients // 8)]
    return min(usable or [least], key=lambda rows: metric.sketch(scenario, rows))


def release_of(task: Task) -> str:
    """Return "sum" or "sketch"."""
    return "sum" if task.statistic.summed else "sketch"


def error_of(release: str, scenario: Scenario, metric: UtilityMetric) -> float:
    """Return the expected phi or psi of a sum, or of the best sketch."""
    return metric.sum(scenario) if release == "sum" else metric.sketch(scenario, best_rows(scenario, metric))


def useful_from(release: str, scenario: Scenario, metric: UtilityMetric) -> int | None:
    """Return the smallest number of clients at which a release of this kind beats ignoring the data, or None."""
    return smallest_batch(scenario, lambda at: error_of(release, at, metric) < metric.trivial(at))


def smallest_batch(scenario: Scenario, useful: Callable[[Scenario], bool]) -> int | None:
    """Return the smallest number of clients from which on a release is useful; None if there is none below 1/delta.

    The search starts at 2 p: below, no sketch has enough rows, and no model is determined.
    """

    def useful_for(clients: int) -> bool:
        return useful(dataclasses.replace(scenario, clients=clients))

    low, high = 2 * scenario.columns - 1, scenario.largest_batch
    if high <= low or not useful_for(high):
        return None
    return smallest(useful_for, low, high)


def smallest(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest number above `low` that holds, where `high` does, and from one number on all do."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def people_needed(task: Task, columns: int, variance: float, population: Population | None = None) -> int | None:
    """Return how many people sums with this noise must be of, for a regression that beats predicting the mean."""
    return _needed(dataclasses.replace(Scenario.of(task, population), columns=columns), variance)


@functools.lru_cache(maxsize=64)
def _needed(scenario: Scenario, variance: float) -> int | None:
    """Find the least number, once for all groups of a release."""
    metric = Regression()
    return smallest_batch(scenario, lambda at: metric.of_moments(at, variance) < metric.trivial(at))


def _linear_model(assumed: Population) -> tuple[float, float]:
    """Return the squared norm of the true coefficients, and the residual variance."""
    target = assumed.target_spread**2
    return assumed.explained * target / assumed.spread**2, (1 - assumed.explained) * target
