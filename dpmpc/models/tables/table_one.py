"""Table 1 from a release of cells: people, medians, quartiles, means, shares and tests, by group.

Promised: every number has an interval or its own error, and one that the noise hides is not shown; no number of
people is below 0. All is read from one release, and so is any other quantile later on, at no further cost.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.common.commanded import NotPrivate, ReadCells, option
from dpmpc.models.common.inference import stands_out
from dpmpc.models.common.people import codebook_in
from dpmpc.models.common.private_estimator import PrivateEstimator
from dpmpc.models.tables.cross_table import CrossTable
from dpmpc.models.tables.independence import Independence, holm, rank_test
from dpmpc.models.tables.quantiles import Distribution, Interval, is_told, told_from
from dpmpc.models.tables.shares_and_odds import share_interval
from dpmpc.models.tables.table_forecast import forecast_table
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.plot_data import PlotData

ALL = "all"  # what the row of all groups together is called
_BARS = 24  # of a picture
_MOST_PLOTS = 20
_NOTHING = "The noise hides all medians and shares: more people, fewer columns or groups, or a larger epsilon would do."


def _date(variable: Variable, rounded: Callable[[float], float], days: float) -> str:
    """Return the date of days after a lower bound; ends of intervals are rounded outwards."""
    return variable.date_of(rounded(days))


_DATED: Mapping[str, Callable[[float], float]] = {  # headings of values of a column -> how its days are rounded
    "median": round,
    "median from": math.floor,
    "to": math.ceil,
    "lower quartile": round,
    "upper quartile": round,
    "mean": round,
}


@dataclasses.dataclass(eq=False, repr=False)
class TableOne(PrivateEstimator):
    """Differentially private Table 1: people, medians, quartiles, means and shares, by group, from one release.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere, such as that of `dpmpc describe`. Any quantile, distribution
    or histogram can be read later at no further cost.

    Parameters
    ----------
    by : str, optional
        A category, or an answer yes or no, of a bounds file: everything is counted in each of its groups.
    columns : sequence of str, optional
        What is described; all columns with bounds by default.
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

    Attributes
    ----------
    by_ : str or None
        What is counted by.
    groups_ : tuple of str
        Its values.
    variables_ : dict
        Name -> number of its grid, and the variable.
    release_ : Release
        What the servers opened.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import TableOne
    >>> ages = np.random.default_rng(0).normal(50, 12, (50_000, 1))
    >>> table = TableOne(epsilon=1.0, delta=1e-6, bounds=(0, 100), simulation_seed=1).fit(ages)
    >>> bool(abs(table.quantile("x0", 0.5).value - 50) < 1)
    True
    """

    kind: ClassVar[str] = "table-one"  # as in the JSON of `dpmpc describe`
    codes_people = True
    assumes = ()
    by: str | None = option(None, "by the values of this column, which the bounds file lists", metavar="COL")
    columns: Sequence[str] | None = option(
        None, "describe these only (default: all with bounds)", nargs="+", metavar="COL"
    )

    def fit(self, X: Any, y: object = None) -> TableOne:
        """Make a release of a table under the estimator's budget and read it.

        Parameters
        ----------
        X : data frame, cells of a file, or array-like of shape (n, p)
            One row for each person. Texts, dates and missing values are read as a bounds file states.
        y : object
            Not used.
        """
        if self.bounds is None:
            raise InputError("bounds", "none", "a bounds file or pairs (lower, upper)", "cells follow from it")
        if (book := codebook_in(self.bounds)) is not None:
            table = book.only(self.read_columns(book)).encode(X, counted=True)
        else:
            table = Table.from_any(X)
            table = table if self.columns is None else table.select(self.columns)
        return self.fit_release(self.release(table))

    def read_columns(self, book: Codebook) -> Sequence[str]:
        """Return the variables of a codebook that are read: those described, and the one counted by."""
        if self.columns is None:
            return [variable.name for variable in book.variables]
        return [*self.columns, *([] if self.by is None or self.by in self.columns else [self.by])]

    def schema_of(self, names: tuple[str, ...]) -> Schema:
        """Return the public bounds of the columns, with the variables that they stand for."""
        public = super().schema_of(names)
        if isinstance(public.codebook, Codebook):
            return Schema.of_codebook(public.codebook.only(self.read_columns(public.codebook)), public.outside)
        return public

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return the contribution that the clients send."""
        return {"contribution": CellCounts.of(public, self.by)}

    def check_options(self, column: str | None, *, bounds: bool) -> None:
        """Refuse a fit without a bounds file, which lists the cells."""
        if not bounds:
            raise InputError("bounds", "none", "a bounds file", "it lists the cells")

    def planned_schema(self, given: Schema) -> Schema:
        """Return the bounds of what is described, as a codebook, and refuse what cannot be counted."""
        book = given.codebook if isinstance(given.codebook, Codebook) else Codebook.of_columns(given.columns)
        public = Schema.of_codebook(book.only(self.read_columns(book)), given.outside)
        self.task_choices(public)
        return public

    def read(self, cells: ReadCells) -> tuple[Table, Schema]:
        """Return the coded rows of people, and the bounds of what is described."""
        assert isinstance(self.bounds, str | Path)
        public = self.planned_schema(Schema.from_toml(self.bounds))
        assert isinstance(public.codebook, Codebook)
        return public.codebook.encode(cells(public.codebook.sources), counted=True), public

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a Table 1 is expected to show; see `Commanded.forecast`."""
        return self.forecast_of(design(spec))

    @classmethod
    def forecast_of(cls, task: Task) -> Forecast:
        """Return what the release of a task is expected to show: one of no people has all the noise."""
        table = cls().fit_release(Release(task, np.zeros((1, task.width), np.int64)))
        numbers, categories = table.outlook()
        names = () if numbers is None else numbers.names
        everybody = {name: table.distribution(name).told_from(0.5) for name in names}
        return forecast_table(task, list(table.variables_), table.by_, numbers, categories, everybody)

    def check_rows(self, table: Table, public: Schema, column: str | None, *, filled: bool) -> None:
        """Refuse nothing: whatever can be coded can be counted."""

    def command_choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add the cells that people are counted in."""
        return {**asked, **self.task_choices(public)}

    def compare_with(self, table: Table) -> NotPrivate:
        """Compare with people, medians and quartiles of the rows at hand."""
        public, contribution = self.release_.task.schema, self.release_.task.statistic
        assert isinstance(contribution, CellCounts)
        z, rows, quarters = public.normalise(table.values), {}, (0.25, 0.5, 0.75)
        for grid, (name, (_, variable)) in zip(contribution.grids, self.variables_.items(), strict=True):
            if variable.categories:
                continue
            values = table.values[:, public.index(variable.term.columns[0].name)]
            values = np.exp(values) if variable.transform == "log" else values
            own, there = grid.group_of(z), ~grid.lacks(z)
            for place, group in enumerate((None, *self.groups_)):
                members = np.sort(values[there & (True if group is None else own == place - 1)])
                quartiles = [members[math.ceil(q * len(members)) - 1] if len(members) else math.nan for q in quarters]
                rows[self.label(group, name)] = [float(len(members)), *map(float, quartiles)]
        headings = ("people with a value", "lower quartile", "median", "upper quartile")
        shown = NumberTable(
            "Quartiles of the data itself",
            {heading: [row[place] for row in rows.values()] for place, heading in enumerate(headings)},
            list(rows),
        )
        return NotPrivate.of({"quartiles": shown.to_dict()}, public, table, [shown] if rows else [])

    def fit_release(self, release: Release) -> Self:
        """Read a release of cells: pure post-processing."""
        self.estimates_ = CellEstimates.of(release)
        contribution = release.task.statistic
        assert isinstance(contribution, CellCounts)
        counted = contribution.counted(release.task.schema)
        groups = {one.name: one for _, by in counted for one in by}
        if len(groups) > 1 or (groups and not all(by for _, by in counted)):
            raise InputError("release", f"of cells by {', '.join(groups)} given, by one variable or none expected")
        self.release_ = release
        self.by_ = next(iter(groups), None)
        self.groups_: tuple[str, ...] = groups[self.by_].categories if self.by_ is not None else ()
        self.variables_ = {variable.name: (grid, variable) for grid, (variable, _) in enumerate(counted)}
        return self

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again: all is in the release."""
        return {}

    def distribution(self, name: str, group: str | None = None) -> Distribution:
        """Return the distribution of a number or a date, in one group or in all."""
        grid, variable = self._variable(name)
        if variable.categories:
            raise InputError("name", f"{name!r}", f"a {variable.kind}, a number or a date")
        return Distribution(self.estimates_, grid, variable, self._members(group))

    def quantile(self, name: str, q: float, group: str | None = None, level: float = 0.95) -> Interval:
        """Return a quantile of a number with its interval; NaN where the noise hides it.

        Parameters
        ----------
        name : str
            The number or date.
        q : float
            Strictly between 0 and 1.
        group : str, optional
            One of `groups_`; everybody by default.
        level : float
            Nominal coverage, strictly between 0 and 1.
        """
        return self.distribution(name, group).quantile(q, level)

    def ecdf(self, name: str, group: str | None = None, level: float = 0.95) -> NumberTable:
        """Return the share of the people up to each edge of a number, with a band for all of it at once."""
        return self.distribution(name, group).ecdf(level)

    def histogram(self, name: str, group: str | None = None) -> NumberTable:
        """Return the people in each cell of a number, with the standard error of the noise."""
        return self.distribution(name, group).histogram()

    @property
    def table_(self) -> NumberTable:
        """How many people there are, in all and in each group."""
        found = [self._size(group) for group in self._rows]
        return NumberTable(
            "People" if self.by_ is None else f"People by {self.by_}",
            {
                "people": [max(size, 0.0) for size, _ in found],
                "std. error": [error for _, error in found],
                "%": [100 * max(size, 0.0) / self.estimates_.people for size, _ in found],
            },
            [self.label(group) for group in self._rows],
            label="group",
            notes=["The number of all people is public; the standard error is that of the noise."],
            errors={"people": "std. error"},
        )

    def numbers(self, level: float = 0.95) -> NumberTable | None:
        """Return medians, quartiles and means by group; None where no number was counted."""
        found = {
            (name, group): _summary(self.distribution(name, group), level)
            for name, (_, variable) in self.variables_.items()
            if not variable.categories
            for group in self._rows
        }
        if not found:
            return None
        headings = list(next(iter(found.values())))
        return NumberTable(
            "Numbers",
            {heading: [one[heading] for one in found.values()] for heading in headings},
            [self.label(group, name) for name, group in found],
            label="column",
            notes=[
                f"Intervals of medians: {100 * level:g} %, for the population, ties and the noise included. Values "
                "outside the bounds count as the bounds: a median in the first or the last cell means 'at most' or "
                "'at least'. The s.e. of a mean is of noise and sampling, and contains half the width of the cells "
                "that people are in; with a step there is none. What the noise hides is not shown.",
                *self._units(),
            ],
            errors={"mean": "s.e. of mean", "missing": "s.e. of missing"},
            intervals={"median's interval": ("median from", "to")},
            forms={
                (self.label(group, name), heading): functools.partial(_date, variable, rounded)
                for name, (_, variable) in self.variables_.items()
                if variable.kind == "date"
                for group in self._rows
                for heading, rounded in _DATED.items()
            },
        )

    def shares(self, level: float = 0.95) -> NumberTable | None:
        """Return people and percentages of each value of each category, by group; None where there are none."""
        rows: dict[str, list[float]] = {}
        for name, (_, variable) in self.variables_.items():
            for place, value in enumerate(variable.categories):
                for group in self._rows:
                    rows[self.label(group, f"{name} = {value}")] = self._share(name, place, group, level)
        if not rows:
            return None
        headings = ("people", "std. error", "%", "s.e. of %", "% from", "to")
        return NumberTable(
            "Categories",
            {heading: [row[place] for row in rows.values()] for place, heading in enumerate(headings)},
            list(rows),
            label="value",
            notes=[
                "Std. error of people: of the noise. % of the people in the group; s.e. of %, and its "
                f"{100 * level:g} % interval: of noise and sampling; not shown where the error is as large as half of "
                "the people."
            ],
            errors={"people": "std. error", "%": "s.e. of %"},
            intervals={"interval of %": ("% from", "to")},
        )

    def crosstab(self, name: str) -> CrossTable:
        """Return the table of a category by the groups."""
        _, variable = self._variable(name)
        if not variable.categories:
            raise InputError("name", f"{name!r}", f"a {variable.kind}, a column with listed values")
        return CrossTable.of(self.release_, name, self._grouped())

    def rank_test(self, name: str) -> Independence | str:
        """Test that a number has one distribution in all groups, or return why that cannot be tested.

        It is the test of Mann and Whitney, with more than two groups that of Kruskal and Wallis, with the noise in its
        law. Groups of too few people to distinguish from none have no part in it.

        Parameters
        ----------
        name : str
            The number or date.
        """
        self._grouped()
        found = self.distribution(name)
        return rank_test(self.estimates_, found.grid, self.groups_)

    def tests(self) -> tuple[NumberTable | None, dict[str, str]]:
        """Return the test of each column that it is the same in all groups, and why others have none."""
        found: dict[str, Independence] = {}
        untested: dict[str, str] = {}
        for name, (_, variable) in self.variables_.items() if self.by_ is not None else ():
            tested = self.crosstab(name).independence() if variable.categories else self.rank_test(name)
            if isinstance(tested, Independence):
                found[name] = tested
            else:
                untested[name] = tested
        if not found:
            return None, untested
        p_values = [one.p_value for one in found.values()]
        return NumberTable(
            f"Tests: the same in all groups of {self.by_}",
            {
                "chi-squared": [one.statistic for one in found.values()],
                "degrees": [one.degrees for one in found.values()],
                "p": p_values,
                "p (Holm)": holm(p_values),
            },
            list(found),
            label="column",
            notes=[
                "Numbers: ranks (Mann-Whitney, Kruskal-Wallis), among groups that stand out of the noise. Categories: "
                "the two-way table, values of few people joined. The noise is part of the law. p (Holm) holds for all "
                "tests of this table together.",
                *(f"{name}: no test: {why}." for name, why in untested.items()),
            ],
        ), untested

    def result(self, level: float = 0.95) -> Result:
        """Return all of the table, as `dpmpc describe` and `dpmpc read` show it.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        require_fraction("level", level)
        numbers, categories, (tests, untested) = self.numbers(level), self.shares(level), self.tests()
        tables = {"people": self.table_, "numbers": numbers, "categories": categories, "tests": tests}
        shown = {name: table for name, table in tables.items() if table is not None}
        told = [*(numbers.columns["median"] if numbers else ()), *(categories.columns["%"] if categories else ())]
        hidden = not np.isfinite(np.array(told, dtype=np.float64)).any()
        few = [group for group in self.groups_ if not self._stands_out(group)]
        warned = [] if not few else [f"Too few people to distinguish from none: {', '.join(few)}."]
        by = "" if self.by_ is None else f" by {self.by_}"
        return Result(
            model=self.kind,
            title=f"Description of {', '.join(self.variables_)}{by}",
            tables=list(shown.values()),
            notes=[*warned, *([] if tests else (f"No test of {name}: {why}." for name, why in untested.items()))],
            warnings=warned,
            verdict=_NOTHING if hidden else None,
            plots={} if hidden else self._plots(level),
            data={
                "by": self.by_,
                "confidence_level": level,
                **{name: None if table is None else table.to_dict() for name, table in tables.items()},
                "not_tested": untested,
            },
            parameters=self.parameters,
            estimator=type(self).__name__,
            level=level,
            guarantee=self.release_.guarantee,
        )

    def outlook(self) -> tuple[NumberTable | None, NumberTable | None]:
        """Return what the noise alone will do to numbers and to categories, which no sums have a part in: for plans.

        Of a group where there are some, else of everybody.
        """
        group = self.groups_[0] if self.groups_ else None
        numbers = {
            name: self.distribution(name, group) for name, (_, one) in self.variables_.items() if not one.categories
        }
        errors = {  # of a value in the group, and the largest of all that the table shows
            name: [
                max(self._share(name, place, row)[1] for place in range(len(one.categories)) for row in rows)
                for rows in ((group,), self._rows)
            ]
            for name, (_, one) in self.variables_.items()
            if one.categories
        }
        where = "" if self.by_ is None else f" in a group of {self.by_}"
        return (
            NumberTable(
                f"People{where} from which a number's quantiles are shown",
                {
                    "median": [found.told_from(0.5) for found in numbers.values()],
                    "quartiles": [found.told_from(0.25) for found in numbers.values()],
                    "noise doubles the variance of a median below": [
                        math.ceil(4 * found.rank_error() ** 2) for found in numbers.values()
                    ],
                    "s.e. of a rank": [found.rank_error() for found in numbers.values()],
                },
                list(numbers),
            )
            if numbers
            else None,
            NumberTable(
                f"People of a category's value{where}",
                {
                    "percentages": [told_from(own**2) for own, _ in errors.values()],
                    "s.e.": [own for own, _ in errors.values()],
                    "largest s.e.": [largest for _, largest in errors.values()],
                },
                list(errors),
                notes=["Percentages: from so many people on they are shown. Largest: of all groups and everyone."],
            )
            if errors
            else None,
        )

    @property
    def _rows(self) -> tuple[str | None, ...]:
        return (None, *self.groups_)

    def label(self, group: str | None, name: str | None = None) -> str:
        """Return what the row of a column in a group is called."""
        shown = ALL if group is None else f"{self.by_} = {group}"
        if name is None:
            return shown
        return name if self.by_ is None else f"{name}, {shown}"

    def _units(self) -> list[str]:
        """Return in what dates are given."""
        dates = [one for _, one in self.variables_.values() if one.kind == "date"]
        return [f"{one.name}: days since {one.lower}." for one in dates]

    def _grouped(self) -> str:
        """Return what the groups are values of."""
        if self.by_ is None:
            raise InputError("by", "this release counts by no groups, one that does expected")
        return self.by_

    def _variable(self, name: str) -> tuple[int, Variable]:
        if name not in self.variables_:
            raise InputError("name", f"{name!r}", f"one of {', '.join(self.variables_)}")
        return self.variables_[name]

    def _members(self, group: str | None) -> NDArray[np.bool_]:
        """Return which groups of a number's grid are meant."""
        if group is not None and group not in self.groups_:
            raise InputError("group", f"{group!r}", f"one of {', '.join(self.groups_) or 'none'}")
        return np.array([group in (None, one) for one in self.groups_ or (None,)], np.bool_)

    def _within(self, name: str, group: str | None) -> Reals:
        """Return the gradient (G, C) of the number of people in a group, by the grid of a variable."""
        grid, variable = self._variable(name)
        found = np.zeros(self.estimates_.counts[grid].shape)
        members = self._members(group)
        found[np.tile(members, len(variable.categories)) if variable.categories else members] = 1.0
        return found

    def _size(self, group: str | None) -> tuple[float, float]:
        """Return the people of a group, and the standard error of that: all grids agree on it."""
        if group is None:
            return self.estimates_.people, 0.0
        first = next(iter(self.variables_))
        return self.estimates_.total(self.variables_[first][0], self._within(first, group))

    def _stands_out(self, group: str | None) -> bool:
        size, error = self._size(group)
        return stands_out(size, error**2)

    def _share(self, name: str, place: int, group: str | None, level: float = 0.95) -> list[float]:
        """Return people of a value in a group and their percentage, each with its error, and the interval's ends."""
        grid, variable = self._variable(name)
        whole = self._within(name, group)
        value = np.zeros_like(whole)
        width = len(whole) // len(variable.categories)
        value[place * width : (place + 1) * width] = whole[place * width : (place + 1) * width]
        people, error = self.estimates_.total(grid, value)
        size = max(self._size(group)[0], 1.0)
        part = people / size
        off = math.sqrt(self.estimates_.variance(grid, (value - part * whole) / size))
        shown = min(max(people, 0.0), float(self.estimates_.people))
        if not is_told(off * size, size) or not (group is None or self._stands_out(group)):
            return [shown, error, *[math.nan] * 4]
        noise = self.estimates_.noise_covariance(grid, np.stack([value, whole]))
        low, high = share_interval(people, size, noise, level)
        return [shown, error, 100 * min(max(part, 0.0), 1.0), 100 * off, 100 * low, 100 * high]

    def _plots(self, level: float) -> dict[str, Callable[[], PlotData]]:
        found: dict[str, Callable[[], PlotData]] = {}
        for name, (_, variable) in list(self.variables_.items())[:_MOST_PLOTS]:
            draw = self._draw_shares if variable.categories else self._draw_spread
            found[f"distribution of {name}"] = functools.partial(draw, name, level)
        return found

    def _draw_spread(self, name: str, level: float) -> PlotData:
        """Draw the histogram of all people, and median and quartiles of each group."""
        rows: dict[str, Any] = {}
        for group in self._rows:
            found = self.distribution(name, group)
            quartiles = [found.quantile(q, level) for q in (0.25, 0.5, 0.75)]
            rows[self.label(group)] = (quartiles[0].value, quartiles[2].value, quartiles[1])
        ends, parts = self.distribution(name).bars(_BARS)
        logarithmic = self.variables_[name][1].transform == "log"
        bars = {"ends": ends.tolist(), "parts": parts.tolist(), "rows": rows}
        return PlotData("spread", {"name": name, **bars, "level": level, "logarithmic": logarithmic})

    def _draw_shares(self, name: str, level: float) -> PlotData:
        """Draw the percentages of each value in each group."""
        rows = {}
        for place, value in enumerate(self.variables_[name][1].categories):
            for group in self._rows:
                _, _, part, _, low, high = self._share(name, place, group, level)
                rows[value if self.by_ is None else f"{value}, {group or ALL}"] = (part, low, high)
        return PlotData("shares", {"name": name, "rows": rows, "by": self.by_, "level": level})


def _summary(found: Distribution, level: float) -> dict[str, float]:
    """Return what a row of the table states of a number."""
    median = found.quantile(0.5, level)
    mean, error = found.mean()
    missing, missing_error = found.missing
    return {
        "median": median.value,
        "median from": median.lower,
        "to": median.upper,
        "lower quartile": found.quantile(0.25, level).value,
        "upper quartile": found.quantile(0.75, level).value,
        "mean": mean,
        "s.e. of mean": error,
        "missing": max(missing, 0.0),
        "s.e. of missing": missing_error,
    }
