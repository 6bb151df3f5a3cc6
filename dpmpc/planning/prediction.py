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
    def of_rows(self, setting: Scenario, rows: int, variance: float) -> float:
        """Return the expected error of a sketch of k rows with noise of this variance; k = n is the local model."""

    @abc.abstractmethod
    def of_moments(self, setting: Scenario, variance: float) -> float:
        """Return the expected error of summed second moments with noise of this variance."""

    @abc.abstractmethod
    def trivial(self, setting: Scenario) -> float:
        """Return the expected error of what ignores the data."""

    @abc.abstractmethod
    def default_rows(self, setting: Scenario) -> int:
        """Return the number of rows that a sketch is given if nobody says otherwise."""

    def sketch(self, setting: Scenario, rows: int) -> float:
        """Return the expected error of a sketch; infinite if the coalition may know all the noise of a row."""
        variance = setting.row_variance(rows)
        return math.inf if math.isinf(variance) else self.of_rows(setting, rows, variance)

    def sum(self, setting: Scenario) -> float:
        """Return the expected error of summed second moments; infinite if the coalition may know all the noise."""
        variance = setting.moment_variance()
        return math.inf if math.isinf(variance) else self.of_moments(setting, variance)

    def local(self, setting: Scenario) -> float:
        """Return the expected error of rows that each client hides alone."""
        return self.of_rows(setting, setting.clients, setting.local_variance())

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

    def of_rows(self, setting: Scenario, rows: int, variance: float) -> float:
        """Return phi of least squares with errors in the variables.

        A row holds m = n/k clients' signal. The fit shrinks by lambda = m v/(m v + sigma^2), and k - p - 1 degrees of
        freedom remain after p - 1 features and the intercept.
        """
        assumed, weight, residual = setting.population, *_linear_model(setting.population)
        v = assumed.spread**2
        m = setting.clients / rows
        shrink = m * v / (m * v + variance)
        error = m * residual + variance + weight * variance * shrink
        degrees = max(rows - setting.columns - 1, 0.5)
        spread = (setting.columns - 1) * error / (degrees * (m * v + variance))
        intercept = error / (degrees * m)
        return 1 + (v * ((1 - shrink) ** 2 * weight + spread) + intercept) / residual

    def of_moments(self, setting: Scenario, variance: float) -> float:
        """Return phi, where noise of variance sigma^2/2 in G_xx and G_xy moves w by (E_xy - E_xx w)/(n v)."""
        weight, residual = _linear_model(setting.population)
        v = setting.population.spread**2
        excess = (setting.columns - 1) * variance / 2 * (1 + weight) / (setting.clients * v) ** 2 * v
        return 1 + excess / residual

    def trivial(self, setting: Scenario) -> float:
        """Return phi of the constant predictor: 1/(1 - R^2)."""
        return 1 / (1 - setting.population.explained)

    def default_rows(self, setting: Scenario) -> int:
        """Return the number of rows with the smallest predicted phi."""
        return best_rows(setting, self)


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

    def of_rows(self, setting: Scenario, rows: int, variance: float) -> float:
        """Return psi, where Var(E_ij) = l_i l_j/k + (l_i + l_j) sigma^2/n + k sigma^4/n^2.

        In the local model, where no two clients meet, the first term falls away.
        """
        top, rest = self._spectrum(setting)
        n = setting.clients
        distortion = 0.0 if rows == n else top * rest / rows
        return self._excess(setting, distortion + (top + rest) * variance / n + rows * (variance / n) ** 2)

    def of_moments(self, setting: Scenario, variance: float) -> float:
        """Return psi, where Var(E_ij) = sigma^2/(2 n^2)."""
        return self._excess(setting, variance / (2 * setting.clients**2))

    def trivial(self, setting: Scenario) -> float:
        """Return psi of a random projection, which keeps r/p of every direction: r (l_top - v)."""
        top, _ = self._spectrum(setting)
        return self.components * (top - setting.population.spread**2)

    def default_rows(self, setting: Scenario) -> int:
        """Return k = n v/(2 sigma^2), but at least 2 p (docs/mathematics.md, section 5.1).

        There the sketch distorts the second moments by n v sqrt(p/k), which is as much as their noise, 2 sigma^2
        sqrt(k p).
        """
        least = 2 * setting.columns
        return max(least, round(setting.clients * setting.population.spread**2 / (2 * setting.row_variance(least))))

    def _excess(self, setting: Scenario, variance: float) -> float:
        """Return psi = r (p - r) Var(E_ij)/(l_top - l_rest), but no more than a random projection's."""
        top, rest = self._spectrum(setting)
        second_order = self.components * (setting.columns - self.components) * variance / (top - rest)
        return min(second_order, self.trivial(setting))

    def _spectrum(self, setting: Scenario) -> tuple[float, float]:
        """Return the population's eigenvalues of second moments: r equal the first, p - r the second."""
        r, p, explained = self.components, setting.columns, setting.population.explained
        if not 1 <= r < p:
            raise InputError(
                f"components: {r} given, 1 to {p - 1} expected: with {p} columns that leaves something out"
            )
        if explained <= r / p:
            raise InputError(
                f"explained: {explained} given, more than {r / p:.6g} expected: "
                f"any {r} of {p} directions have that share of the variance"
            )
        total = p * setting.population.spread**2
        return explained * total / r, (1 - explained) * total / (p - r)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Expected phi or psi of each way to release.

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


def predict(setting: Scenario, aim: UtilityMetric, rows: int | None = None) -> Prediction:
    """Predict phi or psi; the sketch has the best number of rows unless one is given."""
    rows = rows or best_rows(setting, aim)
    return Prediction(
        sketch=aim.sketch(setting, rows),
        sum=aim.sum(setting),
        local=aim.local(setting),
        trivial=aim.trivial(setting),
        rows=rows,
    )


def expected_of(task: Task, aim: UtilityMetric, population: Population | None = None) -> float:
    """Predict phi or psi of a task's release, from the noise that it has."""
    setting = Scenario.of(task, population)
    unit = task.sketch.scale / 2.0**task.encoding.fractional_bits
    variance = float(task.noise_terms.mean()) * task.noise.variance * unit**2
    if isinstance(task.statistic, SecondMoments):
        return aim.of_moments(setting, variance)
    return aim.of_rows(setting, task.sketch.rows, variance)


def best_rows(setting: Scenario, aim: UtilityMetric) -> int:
    """Return the number of rows k, at least 2 p and at most n/8, with the smallest expected phi or psi."""
    least = 2 * setting.columns
    candidates = {round(2 ** (exponent / 4)) for exponent in range(4 * 24)}
    usable = [rows for rows in sorted(candidates) if least <= rows <= max(least, setting.clients // 8)]
    return min(usable or [least], key=lambda rows: aim.sketch(setting, rows))


def _linear_model(assumed: Population) -> tuple[float, float]:
    """Return the squared norm of the true coefficients, and the residual variance."""
    target = assumed.target_spread**2
    return assumed.explained * target / assumed.spread**2, (1 - assumed.explained) * target
