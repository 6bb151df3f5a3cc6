"""What a release states of each group: its people, and each coefficient by group, beside that of everybody.

Random effects take the coefficients of groups for draws from a normal law, b_g ~ N(m, tau^2 + s_g^2) with s_g the
standard errors, noise included; people and noise of two blocks are independent.

Promised: a function of the release and the arguments. Groups of which the release says nothing have no coefficients,
and the reason in their place. Not promised: that many intervals hold at once; each holds its level on its own. Nor that
a prediction interval holds exactly for few groups.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import UNIDENTIFIED
from dpmpc.models.common.inference import Inference, chi2_tail, normal_quantile, t_quantile
from dpmpc.models.common.summary import p_text
from dpmpc.release.results import NumberTable
from dpmpc.release.results.number_tables import number_text

POOLED, FIXED, RANDOM = "(all: pooled)", "(all: fixed effects)", "(all: random effects)"
INTERCEPT = "intercept"


@dataclasses.dataclass(frozen=True)
class Difference:
    """A test that a coefficient is the same in all groups that have one.

    Attributes
    ----------
    statistic : float
        Q = sum (b_g - b)^2 / s_g^2 about the weighted mean b (Cochran 1954), chi-squared if the coefficients are equal.
    degrees : int
        Groups less one.
    p_value : float
        Probability of a larger Q if they are equal.
    """

    statistic: float
    degrees: int
    p_value: float

    @classmethod
    def of(cls, estimates: Reals, errors: Reals) -> Difference:
        """Test estimates of independent errors; noise and people of two blocks are independent."""
        weights = 1 / errors**2
        statistic = float(weights @ (estimates - weights @ estimates / weights.sum()) ** 2)
        degrees = len(estimates) - 1
        return cls(statistic, degrees, chi2_tail(statistic, degrees))


FEWEST = 3  # groups with a regression that random effects need
_POINTS, _ZOOMS = 200, 6  # of the search for tau^2, whose grid becomes 100 times finer with each zoom


@dataclasses.dataclass(frozen=True)
class RandomEffects:
    """Coefficients of groups as draws from a normal law.

    Attributes
    ----------
    tau : float
        Standard deviation of the coefficients between groups, by restricted maximum likelihood; perhaps 0.
    mean, standard_error : float
        Of the law that they are drawn from, after Knapp and Hartung (2003).
    confidence_interval : tuple of float
        Of the mean, by a t law of G - 1 degrees of freedom for G groups; at least that of a normal law at a spread one
        standard error above tau, since weights by tau itself may trust one group far too much.
    prediction_interval : tuple of float
        Where the coefficient of one more group lies, by a t law of G - 2 (Higgins et al. 2009), at a spread one
        standard error above tau: at tau itself the interval is too short where errors are as large as the spread.
    shrunken : ndarray of float64, shape (G,)
        Coefficients of the groups, drawn towards the mean by what their errors leave open (empirical Bayes). They have
        no error of their own: one that takes tau for known is too small where groups are few.
    """

    tau: float
    mean: float
    standard_error: float
    confidence_interval: tuple[float, float]
    prediction_interval: tuple[float, float]
    shrunken: Reals

    @classmethod
    def of(cls, estimates: Reals, errors: Reals, level: float) -> RandomEffects:
        """Fit three estimates or more of independent errors."""
        (between, plausible), groups = _between(estimates, errors**2), len(estimates)
        weights = 1 / (errors**2 + between)
        mean = float(weights @ estimates / weights.sum())
        error = math.sqrt(float(weights @ (estimates - mean) ** 2) / (groups - 1) / weights.sum())
        known = math.sqrt(float(weights**2 @ (errors**2 + plausible))) / float(weights.sum())  # that of m at tau_+
        share = (1 + level) / 2
        reach = max(t_quantile(share, groups - 1) * error, normal_quantile(share) * known)
        further = t_quantile(share, groups - 2) * math.sqrt(plausible + error**2)
        return cls(
            math.sqrt(between),
            mean,
            error,
            (mean - reach, mean + reach),
            (mean - further, mean + further),
            mean + between * weights * (estimates - mean),
        )

    def to_dict(self) -> dict[str, object]:
        """Return everything but the groups as plain data for JSON."""
        return {
            "tau": self.tau,
            "mean": self.mean,
            "standard_error": self.standard_error,
            "confidence_interval": list(self.confidence_interval),
            "prediction_interval": list(self.prediction_interval),
        }


def _between(estimates: Reals, variances: Reals) -> tuple[float, float]:
    """Return the tau^2 >= 0 of the largest restricted likelihood, which may have several peaks, and a plausible one.

    That is the largest whose likelihood is at least exp(-1/2) of the largest, one standard error up of a normal law.
    """

    def loss(between: Reals) -> Reals:
        total = variances + between[:, None]
        weights = 1 / total
        means = weights @ estimates / weights.sum(axis=1)
        squares = (weights * (estimates - means[:, None]) ** 2).sum(axis=1)
        return np.asarray(np.log(total).sum(axis=1) + np.log(weights.sum(axis=1)) + squares)

    largest = 100 * (float(np.var(estimates)) + float(variances.max()))
    grid = np.append(0.0, np.geomspace(1e-6 * float(variances.min()), largest, _POINTS))
    for _ in range(_ZOOMS):
        best = int(np.argmin(loss(grid)))
        grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], _POINTS + 1)
    between = grid[np.argmin(loss(grid))]
    above = np.append(between, between + np.geomspace(1e-6 * float(variances.min()), largest, 10 * _POINTS))
    return float(between), float(above[loss(above) <= loss(between[None]) + 1].max())


@dataclasses.dataclass(frozen=True)
class GroupedSummary:
    """What `GroupedRidgeRegression.summary` returns; it prints as tables.

    Attributes
    ----------
    target, by : str
        The column that is predicted, and the variable whose values are the groups.
    groups : tuple of str
        All of them.
    sizes : ndarray of float64, shape (G,)
        Noisy numbers of people.
    size_error : float
        Their standard error.
    found : mapping of str to Inference
        The groups that have a regression.
    left_out : mapping of str to str
        Why others have none.
    pooled : Inference
        Everybody's regression.
    fixed : Inference or None
        Common slopes, with an intercept for each group.
    weighted : bool
        Whether people are counted in units of the largest weight, or complete ones only.
    """

    target: str
    by: str
    groups: Sequence[str]
    sizes: Reals
    size_error: float
    found: Mapping[str, Inference]
    left_out: Mapping[str, str]
    pooled: Inference
    fixed: Inference | None
    weighted: bool

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that the target is predicted from."""
        return self.pooled.feature_names

    @property
    def constant(self) -> str:
        """What the intercept is called: by another name where a feature has this one."""
        return f"({INTERCEPT})" if INTERCEPT in self.features else INTERCEPT

    @property
    def _names(self) -> tuple[str, ...]:
        """What has coefficients."""
        return (*self.features, self.constant)

    @property
    def people(self) -> NumberTable:
        """How many people each group has, and how much of the target's variance its regression explains."""
        found = [self.found.get(group) for group in self.groups]
        lists = {
            "people": self.sizes.tolist(),
            "std. error": [self.size_error] * len(self.groups),
            "R^2": [math.nan if one is None else one.r_squared for one in found],
            "std. error of R^2": [math.nan if one is None else one.r_squared_standard_error for one in found],
        }
        counted = "complete rows, or weight in units of the largest, are counted" if self.weighted else ""
        notes = [f"n = {self.pooled.clients:,} in all groups together{'; ' if counted else ''}{counted}."]
        notes += [f"{group}: no regression, {reason}." for group, reason in self.left_out.items()]
        return NumberTable(
            f"{self.target} by {self.by}",
            lists,
            list(self.groups),
            label=self.by,
            notes=notes,
            errors={"people": "std. error", "R^2": "std. error of R^2"},
        )

    @property
    def differences(self) -> dict[str, Difference]:
        """For each coefficient, whether groups differ in it; none with fewer than two regressions."""
        if len(self.found) < 2:
            return {}
        return {
            name: Difference.of(*np.array([_entry(one, name)[:2] for one in self.found.values()]).T)
            for name in self._names
        }

    @functools.cached_property
    def random_effects(self) -> dict[str, RandomEffects]:
        """For each coefficient, the law that those of groups are draws from; none with too few regressions."""
        if len(self.found) < FEWEST:
            return {}
        found = {name: np.array([_entry(one, name)[:2] for one in self.found.values()]) for name in self._names}
        return {name: RandomEffects.of(pairs[:, 0], pairs[:, 1], self.pooled.level) for name, pairs in found.items()}

    @property
    def coefficients(self) -> dict[str, NumberTable]:
        """A table for each feature and for the intercept, with a row for each group that has a regression."""
        return {name: self._coefficient(name) for name in self._names} if self.informative else {}

    @property
    def informative(self) -> bool:
        """Whether the release says anything about any regression."""
        return bool(self.found) or self.pooled.informative or self.fixed is not None

    @property
    def tables(self) -> list[NumberTable]:
        """Everything: people, then each coefficient."""
        return [self.people, *self.coefficients.values()]

    def _coefficient(self, name: str) -> NumberTable:
        rows = {group: _entry(one, name) for group, one in self.found.items()}
        if self.pooled.informative:
            rows[POOLED] = _entry(self.pooled, name)
        if self.fixed is not None and name != self.constant:
            rows[FIXED] = _entry(self.fixed, name)
        random = self.random_effects.get(name)
        if random is not None:
            rows[RANDOM] = (random.mean, random.standard_error, *random.confidence_interval)
        if self.fixed is not None and name == self.constant:
            places = self.fixed.feature_names[len(self.features) :]
            named = {place.removeprefix(f"{self.by}="): place for place in places}
            rows |= {f"({group}: fixed effects)": _entry(self.fixed, place) for group, place in named.items()}
        level = f"{self.pooled.level:.0%}"
        estimates, errors, lows, highs = np.array(list(rows.values())).T.tolist()
        lists = {
            "coefficient": estimates,
            "std. error": errors,
            f"{level} from": lows,
            "to": highs,
        }
        notes = []
        if random is not None:
            rest = [math.nan] * (len(rows) - len(self.found))
            lists["shrunken"] = [*random.shrunken, *rest]
            low, high = random.prediction_interval
            notes.append(
                f"random effects: standard deviation between groups {number_text(random.tau)}; the coefficient of one "
                f"more group lies from {number_text(low)} to {number_text(high)} at {level}. Shrunken: drawn towards "
                "the mean of the groups by what its error leaves open."
            )
        if name in self.differences:
            test = self.differences[name]
            notes.append(
                f"test that it is the same in all {test.degrees + 1} groups: chi-squared({test.degrees}) = "
                f"{number_text(test.statistic)}, {p_text(test.p_value)}."
            )
        return NumberTable(
            f"{name}: coefficient by {self.by}",
            lists,
            list(rows),
            label=self.by,
            notes=notes,
            errors={"coefficient": "std. error"},
            intervals={f"{level} interval": (f"{level} from", "to")},
        )

    def __str__(self) -> str:
        """Return the tables as text; a verdict where no regression states anything."""
        parts = [str(table) for table in self.tables]
        return "\n\n".join(parts if self.informative else [*parts, UNIDENTIFIED])

    @property
    def tested(self) -> dict[str, dict[str, object]]:
        """The tests of differences as plain data for JSON."""
        return {
            name: {"chi_squared": test.statistic, "degrees": test.degrees, "p": test.p_value}
            for name, test in self.differences.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON; null where there is no number."""
        return {
            "target": self.target,
            "by": self.by,
            "clients": self.pooled.clients,
            "people": self.people.to_dict(),
            "left_out": dict(self.left_out),
            "coefficients": {name: table.to_dict() for name, table in self.coefficients.items()},
            "differences": self.tested,
            "random_effects": {name: one.to_dict() for name, one in self.random_effects.items()},
        }

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables)


def _entry(found: Inference, name: str) -> tuple[float, float, float, float]:
    """Return estimate, standard error and interval of a coefficient; of the intercept where no feature has the name."""
    if name not in found.feature_names:
        return (found.intercept, found.intercept_standard_error, *found.intercept_confidence_interval.tolist())
    place = found.feature_names.index(name)
    return (
        float(found.coef[place]),
        float(found.standard_errors[place]),
        *found.confidence_intervals[place].tolist(),
    )
