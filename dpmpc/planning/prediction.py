"""Before any data: how far from the optimum a release would be, for an assumed population.

`predict` compares a sketch, the sum of second moments, the local model and the trivial predictor by first-order
formulas (docs/mathematics.md, sections 4 and 5.1), so that nobody ships a sketch that is worse than nothing. Not
promised: more than the order of magnitude for data unlike the assumed population.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import ClassVar

from dpmpc.contributions import SecondMoments
from dpmpc.errors import InputError
from dpmpc.planning.scenario import Population, Scenario
from dpmpc.task import Task


class UtilityMetric(abc.ABC):
    """What a release is for, and the measure of its error.

    Attributes
    ----------
    purpose : str
        As in `dpmpc.specification.design`.
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
        """Return the number of rows that a sketch is given if nobody says otherwise."""

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
    """Ridge regression: phi, the cost over the optimal cost (docs/mathematics.md, section 4)."""

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
    """Low-rank approximation: psi, the excess risk (docs/mathematics.md, section 5.1).

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
        """Return k = n v/(2 sigma^2), but at least 2 p (docs/mathematics.md, section 5.1).

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
            raise InputError(
                f"components: {r} given, 1 to {p - 1} expected: with {p} columns that leaves something out"
            )
        if explained <= r / p:
            raise InputError(
                f"explained: {explained} given, more than {r / p:.6g} expected: "
                f"any {r} of {p} directions have that share of the variance"
            )
        total = p * scenario.population.spread**2
        return explained * total / r, (1 - explained) * total / (p - r)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Expected phi or psi of each option.

    Attributes
    ----------
    sketch, sum, local, trivial : float
        The sketch of `rows` rows, the sum of second moments, the local model, what ignores the data.
    rows : int
        Rows of the sketch.
    """

    sketch: float
    sum: float
    local: float
    trivial: float
    rows: int


def predict(scenario: Scenario, metric: UtilityMetric, rows: int | None = None) -> Prediction:
    """Predict phi or psi; the sketch has the best number of rows unless one is given."""
    rows = rows or best_rows(scenario, metric)
    return Prediction(
        sketch=metric.sketch(scenario, rows),
        sum=metric.sum(scenario),
        local=metric.local(scenario),
        trivial=metric.trivial(scenario),
        rows=rows,
    )


def expected_of(task: Task, metric: UtilityMetric, population: Population | None = None) -> float:
    """Predict phi or psi of a task's release, from the noise that it has."""
    scenario = Scenario.of(task, population)
    variance = float(task.noise_terms.mean()) * task.noise.variance * task.unit**2
    if isinstance(task.statistic, SecondMoments):
        return metric.of_moments(scenario, variance)
    return metric.of_rows(scenario, task.sketch.rows, variance)


def best_rows(scenario: Scenario, metric: UtilityMetric) -> int:
    """Return the number of rows k, at least 2 p and at most n/8, with the smallest expected phi or psi."""
    least = 2 * scenario.columns
    candidates = {round(2 ** (exponent / 4)) for exponent in range(4 * 24)}
    usable = [rows for rows in sorted(candidates) if least <= rows <= max(least, scenario.clients // 8)]
    return min(usable or [least], key=lambda rows: metric.sketch(scenario, rows))


def _linear_model(assumed: Population) -> tuple[float, float]:
    """Return the squared norm of the true coefficients, and the residual variance."""
    target = assumed.target_spread**2
    return assumed.explained * target / assumed.spread**2, (1 - assumed.explained) * target
