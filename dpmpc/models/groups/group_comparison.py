"""Differences and ratios of a column's mean between public groups, from second moments by group.

With M the block of a group, n = M_00 its noisy size and m = M_0j / n the means of its columns, a contrast c of the
means has the variance

    c^T S c / (n - 1)  +  (v/2 c^T c + v (c^T m)^2) / n^2,        S = M_zz / n - m m^T + v / (2 n^2) I

of sampling and of noise, whose variance v is that of an entry of the diagonal. Two groups are independent in both.
Differences may be adjusted for columns that were known before (Deng et al. 2013, "CUPED"): c = (-b, 1) with the b that
makes the whole estimated variance smallest, the noise's part included, so that by its own estimate an adjustment never
makes an interval longer.

Promised: functions of the release and of the arguments. Groups whose number of people does not stand out of the noise
have no mean. Where rows have weights, in units of the largest, errors are at least those of weighted means. Not
promised: exact coverage, which assumes that sums are nearly normal; causes, unless groups were assigned at random,
which no release can show; that many intervals hold at once.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from dpmpc.base.arguments import names, require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError, UtilityWarning
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.data_checks import require_column
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.models.common.commanded import NotPrivate, option
from dpmpc.models.common.inference import stands_out, t_quantile
from dpmpc.models.common.private_estimator import table_of, target_name
from dpmpc.models.common.release_parts import Blocks, column_index, with_variables
from dpmpc.models.common.scikit import target_of
from dpmpc.models.groups.by_group import EstimatorByGroup
from dpmpc.models.groups.effects import Arm, Effect
from dpmpc.models.groups.group_forecasts import forecast_comparison
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.estimates import Estimates
from dpmpc.release.results.plot_data import PlotData

_DOUBTFUL = 1e-3  # a p-value of a difference before the treatment that chance hardly explains


@dataclasses.dataclass(eq=False, repr=False)
class GroupComparison(EstimatorByGroup):
    """Differences and ratios of a mean between public groups, from one release: whether an arm of a trial is different.

    Every group but the control is compared with it. Differences may be adjusted for what was known of each client
    before groups were assigned, with the multiple that makes their whole estimated variance smallest
    (`dpmpc.models.groups.group_comparison`).

    Parameters
    ----------
    values : sequence of str
        What the groups are called, 2 to 50; public, and not read off the data.
    before : sequence of str
        Columns of the release that a difference is adjusted for; none by default.
    epsilon, delta : float
        Budget of the release that `fit` makes; delta = 0 with ``noise="discrete-laplace"``.
    bounds : Schema, pair, dict, path or None
        Public bounds of the columns, target included; None where the data is already in [-1, 1]. A dict has a pair
        (lower, upper) for each name: a data frame's columns keep their names, an array's are called "x0", "x1", ...,
        and the target "y", or as the Series that holds it. A path is that of a bounds file (how-to/prepare-data.md).
    noise : {"discrete-gaussian", "skellam", "discrete-laplace"}
        Family of the noise; all are drawn exactly, in whole numbers.
    servers : int
        Number of servers, at least 2.
    sharing : {"additive", "shamir"}
        How a contribution is split: with additive shares all servers are needed and all but one may collude; with
        Shamir's fewer than half may collude and some may be missing.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    copies : {"auto", "one", "each"}
        Noisy copies of its row that a client sends, with noise by clients: one, or one for each row of the sketch that
        it hits. 'auto' is one where that is proven and costs at most a quarter more variance.
    corrupt_clients : int
        Most clients that may reveal their noise to the servers.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive", "static"}
        Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.
    calibration : {"joint", "paper"}
        Noise for the whole release at once, or by the paper's bound, which takes more.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then states that no one is protected.
    by : str
        What the values are values of.
    control : str, optional
        The group that others are compared with, the first by default.

    Attributes
    ----------
    groups_ : tuple of str
        All groups.
    sizes_ : ndarray of float64, shape (G,)
        How many people each group has, with noise: perhaps below 0, and of standard error `size_error_`.
    size_error_ : float
        The same for all groups.
    arms_ : dict
        Means of the groups that stand out of the noise, with their covariance by sampling and by noise.
    control_ : str
        The group that others are compared with.
    before_ : tuple of str
        The columns that differences are adjusted for.
    warnings_ : tuple of str
        What to be careful about, from the release alone.
    target_, release_
        As in `RidgeRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import GroupComparison
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.choice(["old", "new"], 40_000)
    >>> last = rng.uniform(0, 60, 40_000)
    >>> spend = last + np.where(arm == "new", 2.0, 0.0) + rng.uniform(0, 30, 40_000)
    >>> bounds = {"x0": (0, 60), "y": (0, 100)}  # publicly known, not read off the data
    >>> trial = GroupComparison(["old", "new"], before=["x0"], bounds=bounds).fit(last[:, None], spend, groups=arm)
    >>> found = trial.adjusted()["new"]
    >>> found.low - 3 * found.standard_error < 2 < found.high + 3 * found.standard_error
    True
    >>> found.standard_error < trial.differences()["new"].standard_error
    True
    """

    kind: ClassVar[str] = "compare"  # as in `dpmpc fit --model`
    example = "--target score --by arm --before age"
    named = ("target", "the name of the column to compare; required")
    before: Sequence[str] = option(
        (),
        "columns that were known before groups were assigned: differences are adjusted for them",
        type=names,
        metavar="A,B",
    )
    _: dataclasses.KW_ONLY
    control: str | None = option(None, "the group that others are compared with (default: the first)", metavar="VALUE")

    def fit(self, X: ArrayLike | None, y: ArrayLike, groups: ArrayLike | None = None) -> GroupComparison:
        """Make a release of (X, y) by group under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n, d), a data frame, or None
            What was known of each client before; `before` names those columns that differences are adjusted for.
        y : array-like of shape (n,)
            What is compared. In `bounds` it is called "y", or by its own name where it is a Series.
        groups : array-like of shape (n,)
            The group of each client, one of `values`.

        Raises
        ------
        InputError
            If a client's group is not among `values`. Like all that is stated of single rows, the message is for
            whoever holds them.
        """
        self.check_parameters()
        name = target_name(self.bounds, y)
        if X is None:
            values = np.asarray(y, dtype=np.float64).reshape(-1)
            table = Table.from_any(target_of(self, y, len(values))[:, None], names=(name,))
        else:
            table = table_of(self, X, y, name)
        self.fit_release(self.release_by_group(table, groups), target=name)
        return self

    def fit_release(self, release: Release, target: str | int = -1) -> Self:
        """Fit a release by group: pure post-processing.

        Parameters
        ----------
        release : Release
            Of second moments by group; `values` and `by` are its own.
        target : str or int
            The column that is compared, the last by default.
        """
        self.check_parameters()
        blocks = Blocks(release)
        if isinstance(target, str):
            require_column(blocks.schema, target)
        name = blocks.columns[column_index(blocks.columns, target)]
        before = tuple(with_variables(release.task.schema, self.before) or ())
        others = [column for column in blocks.columns if column != name]
        if unknown := [column for column in before if column not in others]:
            raise InputError("before", f"{unknown[0]!r}", f"some of {', '.join(others) or 'none'}")
        self.control_ = blocks.groups[0] if self.control is None else self.control
        if self.control_ not in blocks.groups:
            raise InputError("control", f"{self.control_!r}", f"one of {', '.join(blocks.groups)}")
        self.release_, self.target_, self.before_ = release, name, before
        self.groups_, self.by_ = blocks.groups, blocks.by
        self.sizes_, self.size_error_ = blocks.sizes()
        columns = [blocks.columns.index(column) for column in (*before, name)]
        offset, slope = blocks.schema.offset[columns], blocks.schema.slope[columns]
        places, variance = [0, *(1 + column for column in columns)], float(release.noise_variance[0])
        self.arms_ = {
            group: Arm.of(gram[np.ix_(places, places)], variance, offset, slope)
            for group, gram in zip(self.groups_, blocks.grams, strict=True)
            if stands_out(float(gram[0, 0]), variance)
        }
        self.least_ = float(blocks.schema.columns[columns[-1]].lower)
        self.warnings_ = self._why_not_useful()
        for text in self.warnings_:
            warnings.warn(text, UtilityWarning, stacklevel=2)
        return self

    def check_parameters(self) -> None:
        """Refuse columns that are no list of different names."""
        if isinstance(self.before, str) or len(set(self.before)) < len(self.before):
            raise InputError("before", f"{self.before!r}", "a list of columns, each once,")

    def check_options(self, column: str | None, *, bounds: bool) -> None:
        """Refuse parameters that no fit can use, and a fit without a target or groups."""
        super().check_options(column, bounds=bounds)
        self.check_parameters()
        if column in self.before:
            raise InputError("before", f"{column!r} given, which is the target, another column expected")

    def codebook_read(self, book: Codebook, column: str | None) -> Codebook:
        """Return the variables that are compared, known before or tell the group: each other one would cost noise."""
        used = [_variable(book, argument, name).name for argument, name in self._columns_named(column)]
        kept = tuple(variable for variable in book.variables if variable.name in used)
        return replace(book, variables=kept, products=())

    def check_rows(self, table: Table, public: Schema, column: str | None, *, filled: bool) -> None:
        """Refuse a column that tells the group or has made-up values, and an unknown control."""
        book = public.codebook
        assert isinstance(book, Codebook)
        groups = _variable(book, "by", self.by)
        for argument, name in self._columns_named(column)[1:]:
            if _variable(book, argument, name).name == self.by:
                raise InputError(argument, f"{name!r} given, which gives the group, another column expected")
        if self.control is not None and self.control not in groups.categories:
            raise InputError("control", f"{self.control!r}", f"one of {', '.join(groups.categories)}")
        super().check_rows(table, public, column, filled=filled)

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a fit is expected to show; see `Commanded.forecast`."""
        return forecast_comparison(design(spec), self.by, (assumed or Assumptions()).spread)

    def compare_with(self, table: Table) -> NotPrivate:
        """Compare with the sizes and the means of the groups at hand, and with their differences from the control."""
        task = self.release_.task
        assert isinstance(task.statistic, GroupedMoments)
        Z = task.schema.normalise(table.values)
        own = task.statistic.group_of(Z)
        weights = (1 + Z[:, -1]) / 2 if task.statistic.weighted else np.ones(len(Z))
        target = task.schema.columns[task.schema.index(self.target_)]
        values = np.clip(table.column(self.target_), target.lower, target.upper)
        counts = np.bincount(own, weights, len(self.groups_))
        sums = np.bincount(own, weights * values, len(self.groups_))
        means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        by_group = dict(zip(self.groups_, means.tolist(), strict=True))
        data: dict[str, object] = {
            "people": dict(zip(self.groups_, counts.tolist(), strict=True)),
            "means": {group: mean for group, mean in by_group.items() if np.isfinite(mean)},
        }
        differences = (means - by_group[self.control_]).tolist()
        columns = {"people": counts.tolist(), "mean": means.tolist(), f"less {self.control_}": differences}
        shown = NumberTable(f"{self.target_} of the data itself", columns, list(self.groups_), label=self.by_)
        return NotPrivate.of(data, task.schema, table, [shown])

    def _estimates(self, level: float) -> Estimates:
        """Return the differences from the control: adjusted ones where columns were known before."""
        effects = self.adjusted(level) if self.before_ else self.differences(level)
        rows = [(one.estimate, one.standard_error, one.low, one.high, one.p_value) for one in effects.values()]
        columns = np.array(rows).reshape(len(rows), 5)
        names = [f"{group} - {self.control_}" for group in effects]
        return Estimates.of(names, columns[:, 0], columns[:, 1], columns[:, 2:4], level, p_values=columns[:, 4])

    def _columns_named(self, target: str | None) -> list[tuple[str, str]]:
        """Return what is named by which argument."""
        return [("by", self.by), ("target", str(target)), *(("before", name) for name in self.before)]

    def means(self, level: float = 0.95) -> dict[str, Effect]:
        """Return the mean of the target in each group that has one."""
        last = self._contrast()
        return {group: self._effect(float(last @ arm.means), [arm], last, level) for group, arm in self.arms_.items()}

    def differences(self, level: float = 0.95) -> dict[str, Effect]:
        """Return the mean of each other group less that of the control; none where either is not known."""
        return {group: self._difference(arm, self._contrast(), level) for group, arm in self._others()}

    def differences_before(self, level: float = 0.95) -> dict[str, dict[str, Effect]]:
        """Return for each column that was known before the same differences, which chance alone should have made."""
        unit = np.eye(len(self.before_) + 1)
        return {
            name: {group: self._difference(arm, unit[place], level) for group, arm in self._others()}
            for place, name in enumerate(self.before_)
        }

    def adjusted(self, level: float = 0.95) -> dict[str, Effect]:
        """Return the differences less what the columns that were known before explain of them."""
        found = {}
        for group, arm in self._others() if self.before_ else ():
            whole = arm.covariance + self.arms_[self.control_].covariance
            slopes = np.linalg.solve(whole[:-1, :-1], whole[:-1, -1])
            found[group] = self._difference(arm, np.append(-slopes, 1.0), level)
        return found

    def ratios(self, level: float = 0.95) -> dict[str, Effect]:
        """Return the mean of each other group over that of the control, with intervals of Fieller (1954).

        None where a column can be below 0, or the control's mean is not distinguished from 0. Those that chance alone
        distinguished cover less than their level.
        """
        if self.least_ < 0:
            return {}
        last = self._contrast()
        found = {}
        for group, arm in self._others():
            control = self.arms_[self.control_]
            over, under = float(arm.means[-1]), float(control.means[-1])
            above, below = arm.variance(last), control.variance(last)
            square = t_quantile((1 + level) / 2, self._degrees([arm, control], last)) ** 2
            leading = under**2 - square * below
            if under <= 0 or leading <= 0:
                continue
            # all ratios r with (over - r under)^2 <= square (above + r^2 below)
            root = math.sqrt((over * under) ** 2 - leading * (over**2 - square * above))
            error = math.sqrt(above + (over / under) ** 2 * below) / under
            found[group] = Effect(over / under, error, (over * under - root) / leading, (over * under + root) / leading)
        return found

    def _others(self) -> Iterable[tuple[str, Arm]]:
        """Return the groups that are compared with the control."""
        found = self.arms_.items() if self.control_ in self.arms_ else ()
        return [(group, arm) for group, arm in found if group != self.control_]

    def _contrast(self) -> Reals:
        """Return the contrast of the target's mean."""
        return np.append(np.zeros(len(self.before_)), 1.0)

    def _difference(self, arm: Arm, contrast: Reals, level: float) -> Effect:
        control = self.arms_[self.control_]
        return self._effect(float(contrast @ (arm.means - control.means)), [arm, control], contrast, level)

    def _effect(self, estimate: float, arms: Sequence[Arm], contrast: Reals, level: float) -> Effect:
        require_fraction("level", level)
        variance = sum(arm.variance(contrast) for arm in arms)
        return Effect.of(estimate, variance, self._degrees(arms, contrast), level)

    def _degrees(self, arms: Sequence[Arm], contrast: Reals) -> float:
        """Return degrees of freedom as Welch (1947) has them; the variance of noise is known."""
        variance = sum(arm.variance(contrast) for arm in arms)
        doubt = sum(arm.sampled(contrast) ** 2 / max(arm.size - 1, 1.0) for arm in arms)
        return variance**2 / doubt if doubt > 0 else math.inf

    def result(self, level: float = 0.95) -> Result:
        """Return all that the release states of the groups, as `dpmpc fit` and `dpmpc read` show it.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        differences, adjusted = self.differences(level), self.adjusted(level)
        ratios, before = self.ratios(level), self.differences_before(level)
        known = ", ".join(self.before_)
        tables = [self._people(level)]
        notes = [
            "Values are clipped to their public bounds. Standard errors cover noise and sampling; each interval holds "
            "its level on its own.",
        ]
        if differences:
            tables.append(_table(f"Difference from {self.control_}", differences, self.by_, level))
        if adjusted:
            tables.append(_table(f"Difference from {self.control_}, adjusted for {known}", adjusted, self.by_, level))
            tables += [_table(f"{name}: difference before", found, self.by_, level) for name, found in before.items()]
            notes.append(
                f"An adjusted difference is that of {self.target_} less a multiple of the differences in {known}. It "
                f"estimates the effect if groups were assigned at random, after {known} was known."
            )
        if ratios:
            tables.append(_table(f"Ratio to {self.control_}", ratios, self.by_, level, tested=False))
        notes += self._without_ratio(ratios, differences)
        notes += [f"{text[:1].upper()}{text[1:]}." for text in self.warnings_]
        shown = adjusted or differences
        verdict = None if shown else self._nothing_compared()
        return Result(
            model=self.kind,
            title=f"{self.target_} by {self.by_}, compared with {self.control_}",
            tables=tables,
            notes=notes,
            warnings=self.warnings_,
            verdict=verdict,
            plots={"differences": lambda: self._plot(shown, level, adjusted=bool(adjusted))} if shown else {},
            data={
                "target": self.target_,
                "by": self.by_,
                "control": self.control_,
                "adjusted_for": list(self.before_),
                "confidence_level": level,
                "groups": self._groups(level),
                "differences": {group: one.to_dict() for group, one in differences.items()},
                "adjusted": {group: one.to_dict() for group, one in adjusted.items()},
                "before": {name: {g: one.to_dict() for g, one in found.items()} for name, found in before.items()},
                "ratios": {group: one.to_dict(tested=False) for group, one in ratios.items()},
                "warnings": list(self.warnings_),
            },
            parameters=self.parameters,
            estimator=type(self).__name__,
            chosen={"target": self.target_},
            features=len(self.before_),
            level=level,
            estimates=self._estimates,
            guarantee=self.release_.guarantee,
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {"before": list(self.before), "control": self.control}

    def _people(self, level: float) -> NumberTable:
        """Return the people and the mean of each group."""
        means = self.means(level)
        nothing = Effect(math.nan, math.nan, math.nan, math.nan)
        found = [means.get(group, nothing) for group in self.groups_]
        ends = (f"{level:.0%} from", "to")
        lists = {
            "people": self.sizes_.tolist(),
            "std. error": [self.size_error_] * len(self.groups_),
            f"mean {self.target_}": [one.estimate for one in found],
            "its std. error": [one.standard_error for one in found],
            ends[0]: [one.low for one in found],
            ends[1]: [one.high for one in found],
        }
        unit = (
            "; complete rows, or weight in units of the largest, are counted" if Blocks(self.release_).weighted else ""
        )
        notes = [f"n = {self.release_.clients:,} in all groups together{unit}."]
        return NumberTable(
            f"{self.target_} by {self.by_}",
            lists,
            list(self.groups_),
            label=self.by_,
            notes=[*notes, *(f"{text[:1].upper()}{text[1:]}." for text in self._left_out().values())],
            errors={"people": "std. error", f"mean {self.target_}": "its std. error"},
            intervals={f"{level:.0%} interval": ends},
        )

    def _left_out(self) -> dict[str, str]:
        """Say of each group without a mean why it has none."""
        return {
            group: f"too few people in {group} to distinguish from none: {round(size):,}, "
            f"standard error {self.size_error_:,.0f}"
            for group, size in zip(self.groups_, self.sizes_.tolist(), strict=True)
            if group not in self.arms_
        }

    def _nothing_compared(self) -> str:
        """Return why no group is compared with the control, and whether others could be with each other."""
        instead = f"; a control of {' or '.join(self.arms_)} would do" if len(self.arms_) > 1 else ""
        return f"No group can be compared with {self.control_}: {'; '.join(self._left_out().values())}{instead}."

    def _groups(self, level: float) -> dict[str, dict[str, object]]:
        means, left_out = self.means(level), self._left_out()
        found: dict[str, dict[str, object]] = {}
        for group, size in zip(self.groups_, self.sizes_.tolist(), strict=True):
            found[group] = {"people": size, "people_standard_error": self.size_error_}
            found[group] |= {"mean": means[group].to_dict(tested=False)} if group in means else {}
            found[group] |= {"left_out": left_out[group]} if group in left_out else {}
        return found

    def _without_ratio(self, ratios: Mapping[str, Effect], differences: Mapping[str, Effect]) -> list[str]:
        """Return why there is no ratio where there is a difference."""
        if len(ratios) == len(differences):
            return []
        if self.least_ < 0:
            return [f"No ratio of means: the bounds of {self.target_} begin below 0, at {self.least_:g}."]
        return [f"No ratio of means: that of {self.control_} is not distinguished from 0."]

    def _why_not_useful(self) -> tuple[str, ...]:
        """Return what is doubtful about means and groups."""
        public, found = self.release_.task.schema, []
        column = public.columns[public.index(self.target_)]
        for group, arm in self.arms_.items():
            if not column.lower <= arm.means[-1] <= column.upper:
                found.append(
                    f"{self.by_} = {group}: the mean is outside of the public bounds, where none can be; the noise is "
                    "larger than what it hides"
                )
        for name, effects in self.differences_before().items():
            found += [
                f"{self.by_} = {group}: {name} differed before, by more than chance explains (p = {one.p_value:.2g}); "
                "groups that were assigned at random would not, and an adjusted difference assumes that they were"
                for group, one in effects.items()
                if one.p_value < _DOUBTFUL
            ]
        return tuple(found)

    def _plot(self, shown: Mapping[str, Effect], level: float, *, adjusted: bool) -> PlotData:
        held = f", adjusted for {', '.join(self.before_)}" if adjusted else ""
        return PlotData(
            "intervals",
            {
                "title": f"{self.target_}: difference from {self.control_}",
                "caption": f"In units of {self.target_}{held}.",
                "found": {group: (one.estimate, one.low, one.high) for group, one in shown.items()},
                "level": level,
            },
        )


def _variable(book: Codebook, argument: str, name: str) -> Variable:
    """Return the variable of a name, or one of whose columns is called so."""
    for variable in book.variables:
        if name in (variable.name, *(column.name for column in variable.term.columns)):
            return variable
    listed = ", ".join(variable.name for variable in book.variables)
    raise InputError(argument, f"{name!r} given, one of {listed} expected, which the bounds file has")


def _table(title: str, effects: Mapping[str, Effect], by: str, level: float, *, tested: bool = True) -> NumberTable:
    """Return a row for each group."""
    heading = "ratio" if not tested else "difference"
    ends = (f"{level:.0%} from", "to")
    lists = {
        heading: [one.estimate for one in effects.values()],
        "std. error": [one.standard_error for one in effects.values()],
        ends[0]: [one.low for one in effects.values()],
        ends[1]: [one.high for one in effects.values()],
    }
    lists |= {"p": [one.p_value for one in effects.values()]} if tested else {}
    return NumberTable(
        title,
        lists,
        list(effects),
        label=by,
        errors={heading: "std. error"},
        intervals={f"{level:.0%} interval": ends},
    )
