"""What a release says of each group: its people, and each coefficient by group, beside that of everybody.

Promised: a function of the release and the arguments. Groups of which the release says nothing have no coefficients,
and the reason in their place. Not promised: that many intervals hold at once; each holds its level on its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import UNIDENTIFIED
from dpmpc.estimators.inference import Inference, chi2_tail
from dpmpc.estimators.summary import p_text
from dpmpc.results import NumberTable, number_text

POOLED, FIXED = "(all: pooled)", "(all: fixed effects)"
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
    def of(cls, estimates: NDArray[np.float64], errors: NDArray[np.float64]) -> Difference:
        """Test estimates of independent errors; noise and people of two blocks are independent."""
        weights = 1 / errors**2
        statistic = float(weights @ (estimates - weights @ estimates / weights.sum()) ** 2)
        degrees = len(estimates) - 1
        return cls(statistic, degrees, chi2_tail(statistic, degrees))


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
    sizes: NDArray[np.float64]
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
            for name in (*self.features, self.constant)
        }

    @property
    def coefficients(self) -> dict[str, NumberTable]:
        """A table for each feature and for the intercept, with a row for each group that has a regression."""
        return {name: self._coefficient(name) for name in (*self.features, self.constant)} if self.informative else {}

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
        """Return the tables as text; a verdict where no regression says anything."""
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
