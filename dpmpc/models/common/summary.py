"""The table of a regression that a statistician expects, from the release alone.

Coefficients without penalty with standard errors, tests and intervals; how much of the target's variance is explained;
joint tests of groups of coefficients. Tests read the covariance that `dpmpc.models.common.inference` computes, which
covers sampling, sketch and noise; they are as exact as its intervals.

Promised: a function of the release and the arguments. Where the release is not informative the summary says so first
and shows no number of it. Not promised: that many tests at once hold their level each on its own, which is why every
summary states how many there are and holds p-values after Holm (1979).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import UNIDENTIFIED, InputError
from dpmpc.models.common.inference import FLAG, Inference, chi2_tail, f_tail, t_tail
from dpmpc.release.results import NumberTable
from dpmpc.release.results.estimates import Estimates
from dpmpc.release.results.number_tables import finite_or_none, number_text

ALL_FEATURES = "all features"
_SMALLEST_P, _LEAST = 1e-16, float(np.finfo(np.float64).tiny)

#: What errors and intervals from second moments assume, wherever they are shown.
EVEN = (
    "Errors assume residuals whose spread does not depend on the features; where it grows with a column, that column's "
    "interval is too short: it held 59 to 84 % instead of 95 % in simulations with gamma errors that grow with a "
    "lognormal feature."
)
#: The same in the words of statistical packages, in the head of the table.
KINDS = {"nonrobust": "nonrobust (even spread)", "HC0": "robust (HC0)"}


@dataclasses.dataclass(frozen=True)
class GroupTest:
    """A Wald test that all coefficients of a group are 0.

    Attributes
    ----------
    features : tuple of str
        The group.
    statistic : float
        F = b^T V^-1 b / q, for q coefficients b with covariance V.
    degrees : tuple of float
        Of F: q, and the degrees of freedom of the standard errors; infinite, so that q F is chi-squared, for second
        moments.
    p_value : float
        Probability of a larger F if all are 0.
    """

    features: tuple[str, ...]
    statistic: float
    degrees: tuple[float, float]
    p_value: float

    @classmethod
    def of(cls, found: Inference, features: Sequence[str]) -> GroupTest:
        """Test the coefficients of these features."""
        places = [1 + found.feature_names.index(name) for name in features]
        estimates = np.array([found.coef[place - 1] for place in places])
        covariance = found.covariance[np.ix_(places, places)]
        statistic = float(estimates @ np.linalg.solve(covariance, estimates)) / len(places)
        if math.isinf(found.degrees):
            p_value = chi2_tail(len(places) * statistic, len(places))
        else:
            p_value = f_tail(statistic, (len(places), found.degrees))
        return cls(tuple(features), statistic, (float(len(places)), found.degrees), max(p_value, _LEAST))


@dataclasses.dataclass(frozen=True)
class Summary:
    """What `RidgeRegression.summary` returns; it prints as a table.

    Attributes
    ----------
    target : str
        The column that is predicted.
    inference : Inference
        The estimates, their standard errors and intervals.
    tests : dict of GroupTest
        By the group's name, of the coefficients that are identified; "all features" is there where any is.
    fitted : ndarray of float64, shape (1 + d,), optional
        Intercept and coefficients with the penalty, which predict, where there is one.
    ratio : str, optional
        What exp(coefficient) is the ratio of: "odds" or "rate".
    said : sequence of str
        What the coefficients are, where it is not what second moments give.
    """

    target: str
    inference: Inference
    tests: dict[str, GroupTest]
    fitted: Reals | None = None
    ratio: str | None = None
    said: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        target: str,
        found: Inference,
        groups: Mapping[str, Sequence[str]] | None = None,
        *,
        fitted: Reals | None = None,
        ratio: str | None = None,
        said: Sequence[str] = (),
    ) -> Summary:
        """Test all features together, and each group."""
        requested = {ALL_FEATURES: found.feature_names, **_checked(groups or {}, found.feature_names)}
        tests: dict[str, GroupTest] = {}
        for name, features in requested.items():
            told = [feature for feature in features if found.told[found.feature_names.index(feature)]]
            if told:
                tests[name] = GroupTest.of(found, told)
        return cls(target, found, tests, fitted, ratio, said)

    @property
    def informative(self) -> bool:
        """Whether the release says anything about this model."""
        return self.inference.informative

    @property
    def hopeless(self) -> bool:
        """Whether there is not even a coefficient."""
        return not np.isfinite(self.inference.coef).all()

    @property
    def verdict(self) -> str:
        """Why there are no intervals, where there are none."""
        return self.inference.no_interval or UNIDENTIFIED

    @property
    def statistics(self) -> Reals:
        """Coefficients over their standard errors, the intercept first: z, or t; NaN of what rests on the bounds."""
        found = self.inference
        errors = np.array([found.intercept_standard_error, *found.standard_errors])
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = np.array([found.intercept, *found.coef]) / errors
        return np.where(found.flagged, np.nan, ratios)

    @property
    def p_values(self) -> Reals:
        """Two-sided p-values, the intercept first; NaN of what is not identified, bounds of what no float tells."""
        found = self.inference
        known = np.isfinite([found.intercept_standard_error, *found.standard_errors])
        p = np.maximum(2 * t_tail(np.abs(self.statistics), self.inference.degrees), _LEAST)
        return np.asarray(np.where(known, p, np.nan))

    @property
    def adjusted(self) -> Reals:
        """P-values of the features' coefficients after Holm: what is below .05 is so jointly with probability .95."""
        p = self.p_values[1:]
        order = np.argsort(p)[: np.count_nonzero(np.isfinite(p))]  # NaN comes last
        steps = np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1))
        adjusted = np.full(len(p), np.nan)
        adjusted[order] = np.minimum(steps, 1.0)
        return adjusted

    @property
    def estimates(self) -> Estimates:
        """The same as a row for each coefficient, the intercept last, as in the table."""
        found = self.inference
        place = np.roll(np.arange(len(found.covariance)), -1)
        intervals = np.vstack([found.intercept_confidence_interval, found.confidence_intervals])
        return Estimates.of(
            (*found.feature_names, "intercept"),
            np.array([found.intercept, *found.coef])[place],
            np.array([found.intercept_standard_error, *found.standard_errors])[place],
            intervals[place],
            found.level,
            p_values=self.p_values[place],
            on_bounds=np.array(found.flagged)[place].tolist(),
            contrast=found.contrast,
        )

    @property
    def coefficients(self) -> NumberTable:
        """The coefficients, a row for each feature and one for the intercept where it has been estimated."""
        found, title = self.inference, f"Regression of {self.target}"
        title = title if self.ratio is None else f"{self.ratio.capitalize()} ratios of {self.target}"
        if self.informative and found.errors is not None:
            title += f"; errors: {KINDS[found.errors]}{'; values clipped at private bounds' * found.private_bounds}"
        estimates = np.array([found.intercept, *found.coef])
        if self.hopeless:
            return NumberTable(title, {}, (), notes=[self.verdict])
        rows = [*range(1, len(estimates)), *([0] if found.intercept_standard_error > 0 else [])]
        intervals = np.vstack([found.intercept_confidence_interval, found.confidence_intervals])
        ends, interval = (f"{found.level:.0%} from", "to"), f"{found.level:.0%} interval"
        lists = {"coefficient": estimates}
        if self.informative:
            lists |= {
                "std. error": np.array([found.intercept_standard_error, *found.standard_errors]),
                "z" if math.isinf(found.degrees) else "t": self.statistics,
                "p": self.p_values,
                "p (Holm)": np.array([math.nan, *self.adjusted]),
            }
        if self.ratio is not None:  # of one more unit: the intercept is no such ratio
            lists[f"{self.ratio} ratio"] = np.append(math.nan, ratio_of(found.coef))
            intervals = np.vstack([[math.nan, math.nan], ratio_of(found.confidence_intervals)])
            interval += " of the ratio"
        if self.informative:
            lists |= dict(zip(ends, intervals.T, strict=True))
            known = np.isfinite([found.intercept_standard_error, *found.standard_errors])
            lists = {heading: np.where(known, values, np.nan) for heading, values in lists.items()}
        if self.fitted is not None:
            lists["fitted"] = self.fitted
        names = found.labels
        return NumberTable(
            title,
            {heading: values[rows].tolist() for heading, values in lists.items()},
            [names[row] for row in rows],
            notes=self.notes,
            errors={"coefficient": "std. error"} if self.informative else {},
            intervals={interval: ends} if self.informative else {},
        )

    @property
    def notes(self) -> list[str]:
        """What belongs under the table, in sentences."""
        found = self.inference
        if self.hopeless:
            return [self.verdict]
        if self.said:
            notes = [f"For one more unit of the column, the others as they are. n = {found.clients:,}.", *self.said]
            notes += ["The interval is that of the ratio."] if self.informative else []
        elif self.informative:
            notes = [
                f"Units of {self.target} for one unit of the column.",
                f"n = {found.clients:,}. Estimates without penalty; errors cover sampling, sketch and noise.",
            ]
        else:
            notes = [self.verdict]
        if not self.informative:
            return notes
        notes += found.not_told_apart
        if any(found.flagged) and found.estimate is not None:
            notes.append(f"{FLAG.strip()}: {found.estimate.assumption}")
        count, chance = sum(found.told), 1 - found.level
        if found.assumes_even:
            notes.append(EVEN)
        if found.total is not None and found.total_standard_error is not None:
            notes.append(
                f"Rows that count: {number_text(found.total)}, standard error "
                f"{number_text(found.total_standard_error)}, in units of the largest weight."
            )
        if math.isfinite(found.r_squared):
            error = number_text(found.r_squared_standard_error)
            notes.append(f"R^2 = {number_text(found.r_squared)}, standard error {error}.")
        elif not found.robust:
            notes.append("R^2: the target's variance does not stand out of the noise.")
        for name, test in self.tests.items():
            q, degrees = test.degrees
            if name == ALL_FEATURES and len(test.features) < len(found.feature_names):
                name = f"{name} that are identified"
            law = f"F({q:g}, {degrees:g})" if math.isfinite(degrees) else f"F({q:g}, infinity)"
            notes.append(f"{name}: {law} = {number_text(test.statistic)}, {p_text(test.p_value)}.")
        if count > 1:
            notes.append(
                f"{count} coefficients are tested: if all were 0, {number_text(count * chance)} of {count} p-values "
                f"would be below {chance:.2g} by chance. p (Holm) accounts for that; intervals hold one at a time."
            )
        return notes

    def __str__(self) -> str:
        """Return the table as text; a verdict instead where the release states nothing."""
        return str(self.coefficients)

    def to_frame(self) -> Any:
        """Return the coefficients as a data frame of pandas."""
        return self.coefficients.to_frame()

    def to_latex(self) -> str:
        """Return the coefficients as a `tabular` of LaTeX's booktabs."""
        return self.coefficients.to_latex()

    def to_csv(self) -> str:
        """Return the coefficients as comma-separated values."""
        return self.coefficients.to_csv()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON; null where there is no number."""
        found = self.inference
        return {
            "target": self.target,
            "clients": found.clients,
            **found.counted,
            "informative": self.informative,
            "coefficients": self.coefficients.to_dict(),
            "r_squared": finite_or_none(found.r_squared),
            "r_squared_standard_error": finite_or_none(found.r_squared_standard_error),
            "tests": self.tested,
            "notes": self.notes,
        }

    @property
    def tested(self) -> dict[str, dict[str, object]]:
        """The joint tests as plain data for JSON."""
        return {
            name: {
                "features": list(test.features),
                "F": test.statistic,
                "degrees": [finite_or_none(number) for number in test.degrees],
                "p": test.p_value,
            }
            for name, test in self.tests.items()
        }

    def _repr_html_(self) -> str:
        return self.coefficients.to_html()


def _checked(groups: Mapping[str, Sequence[str]], features: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return groups of features, each known and once."""
    for name, group in groups.items():
        unknown = [feature for feature in group if feature not in features]
        if isinstance(group, str) or unknown or not group or len(set(group)) < len(group) or name == ALL_FEATURES:
            raise InputError(
                "groups", f"{name!r} with {group!r}", f"a list of different features of {', '.join(features)}"
            )
    return {name: tuple(group) for name, group in groups.items()}


def ratio_of(coefficients: Reals) -> Reals:
    """Return exp(coefficient); infinite where that is too large for a number."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(coefficients))


def p_text(p_value: float) -> str:
    """Return how probable, or below what, where that is beyond the digits of a float."""
    return f"p < {_SMALLEST_P:g}" if p_value < _SMALLEST_P else f"p = {number_text(p_value)}"
