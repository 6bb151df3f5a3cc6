"""Two-way tables of categories from a release of second moments or of cells: counts, shares, a test of independence.

Promised: functions of the release. Values whose number of people does not stand out of the noise are joined to the
smallest other value of their variable, and named, before anything is tested; where too little is left there is no test,
and the reason in its place. Not promised: a test at the exact level where expected counts are few; that many tests hold
their level together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from dpmpc.base.arguments import require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.models.common.inference import stands_out
from dpmpc.models.common.summary import p_text
from dpmpc.models.tables.independence import Departure, Independence
from dpmpc.models.tables.quantiles import Interval
from dpmpc.models.tables.shares_and_odds import odds_ratio, share_interval
from dpmpc.models.tables.two_way_counts import TwoWayCounts, transposed
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.number_tables import finite_or_none, number_text
from dpmpc.release.results.plot_data import PlotData

_FEWEST = 1.0  # expected people in a cell of a table that is tested
_FEWEST_ODDS = 5.0  # of one whose odds ratio is told


@dataclasses.dataclass(frozen=True)
class CrossTable:
    """How many people have each pair of values of two variables, with noise.

    Attributes
    ----------
    row, column : str
        The variables.
    rows, columns : tuple of str
        Their values.
    counts : ndarray of float64, shape (R, C)
        Unbiased, and so perhaps below 0.
    covariance : ndarray of float64, shape (R C, R C)
        Of the noise in the counts, row after row.
    """

    row: str
    column: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: Reals
    covariance: Reals

    @classmethod
    def of(cls, release: Release, a: str, b: str) -> CrossTable:
        """Read the table of two categories, answers included.

        Parameters
        ----------
        release : Release
            Of second moments with a codebook, by group or not; or of cells, which hold each category by the variable of
            the groups.
        a, b : str
            Variables with listed values.
        """
        counts = TwoWayCounts.of(release, a, b)
        return cls(counts.row.name, counts.column.name, counts.row.categories, counts.column.categories, *counts[2:])

    def transposed(self) -> CrossTable:
        """Return the table with rows and columns exchanged."""
        return CrossTable(self.column, self.row, self.columns, self.rows, *transposed(self.counts, self.covariance))

    @property
    def total(self) -> float:
        """The number of people, noisy where rows that lack a value contribute zeros."""
        return float(self.counts.sum())

    @property
    def standard_errors(self) -> Reals:
        """Standard errors of the counts, shape (R, C): of the noise, for the people who took part."""
        return np.asarray(np.sqrt(np.diag(self.covariance)).reshape(self.counts.shape))

    def joined(self) -> CrossTable:
        """Return the table in which every value stands out of the noise, or no more than two are left of a variable."""
        table, again = self, True
        while again:
            table, again = table._join_rows()
            turned, more = table.transposed()._join_rows()
            table, again = turned.transposed(), again or more
        return table

    def _join_rows(self) -> tuple[Self | CrossTable, bool]:
        """Join a row that does not stand out of the noise to the smallest other one, and return whether one was."""
        sizes, errors = self._margins()
        order = np.argsort(sizes)
        faint = [place for place in order.tolist() if not stands_out(float(sizes[place]), float(errors[place]) ** 2)]
        if not faint or len(self.rows) <= 2:
            return self, False
        taken, other = faint[0], next(place for place in order.tolist() if place != faint[0])
        keep = min(taken, other)
        remaining = [place for place in range(len(self.rows)) if place != max(taken, other)]
        join = np.eye(len(self.rows))
        join[keep] += join[max(taken, other)]
        names = [self.rows[place] for place in remaining]
        names[remaining.index(keep)] = f"{self.rows[keep]} or {self.rows[max(taken, other)]}"
        linear = np.kron(join[remaining], np.eye(len(self.columns)))
        return (
            dataclasses.replace(
                self,
                rows=tuple(names),
                counts=join[remaining] @ self.counts,
                covariance=linear @ self.covariance @ linear.T,
            ),
            True,
        )

    def _margins(self) -> tuple[Reals, Reals]:
        """Return the number of people of each row, and its standard error."""
        summed = np.kron(np.eye(len(self.rows)), np.ones(len(self.columns)))
        return self.counts.sum(axis=1), np.sqrt(np.maximum(np.diag(summed @ self.covariance @ summed.T), 0.0))

    def independence(self) -> Independence | str:
        """Test independence in the joined table, or return why that cannot be."""
        departure = self.joined().departure()
        return departure if isinstance(departure, str) else departure.test()

    def departure(self) -> Departure | str:
        """Return how far a table that has been joined is from independence, or why that cannot be shown."""
        for table in (self, self.transposed()):
            for name, size, error in zip(table.rows, *table._margins(), strict=True):
                if not stands_out(float(size), float(error) ** 2):
                    return (
                        f"too few people in {table.row} = {name} to distinguish from none: {round(float(size)):,}, "
                        f"standard error {error:,.0f}"
                    )
        if not stands_out(self.total, float(np.trace(self.covariance))):
            return f"the noise in all {self.counts.size} cells together is too large for {round(self.total):,} people"
        if self._least_expected() < _FEWEST:
            return f"less than {_FEWEST:g} person is expected in the smallest cell"
        return Departure.of(self.counts, self.covariance)

    def odds_ratio(self, level: float = 0.95) -> Interval | None:
        """Return the odds ratio of a table of two by two with its interval, or None where it cannot be shown.

        It is the odds of the first column in the first row over those in the second.
        """
        require_fraction("level", level)
        if self.counts.shape != (2, 2) or isinstance(self.departure(), str) or self._least_expected() < _FEWEST_ODDS:
            return None
        ratio = odds_ratio(self.counts, self.covariance, level)
        return None if math.isnan(ratio.value) else ratio

    def _least_expected(self) -> float:
        """Return the people in the smallest cell under independence."""
        return float(self.counts.sum(axis=1).min() * self.counts.sum(axis=0).min()) / self.total

    def shares(self) -> tuple[Reals, Reals]:
        """Return the share of each column in each row, and its standard error of sampling and noise.

        NaN in rows that do not stand out of the noise.
        """
        sizes, errors = self._margins()
        clear = np.array(
            [stands_out(float(size), float(error) ** 2) for size, error in zip(sizes, errors, strict=True)]
        )
        size = np.where(clear, sizes, np.nan)[:, None]
        share = self.counts / size
        width = len(self.columns)
        noise = np.empty_like(share)
        for place in range(len(self.rows)):
            block = self.covariance[place * width : (place + 1) * width, place * width : (place + 1) * width]
            gradient = np.eye(width) - share[place][:, None]  # of T_ij / T_i by the counts of row i, times T_i
            noise[place] = np.einsum("ij,jk,ik->i", gradient, block, gradient)
        sampling = np.clip(share * (1 - share), 0.0, None) / size
        return share, np.sqrt(sampling + noise / size**2)

    def share_intervals(self, level: float = 0.95) -> tuple[Reals, Reals]:
        """Return the lower and the upper ends of intervals of shares, which cover sampling and noise.

        NaN in rows that do not stand out of the noise.
        """
        require_fraction("level", level)
        ends, width = np.full((2, *self.counts.shape), np.nan), len(self.columns)
        for place, (size, error) in enumerate(zip(*self._margins(), strict=True)):
            if not stands_out(float(size), float(error) ** 2):
                continue
            block = self.covariance[place * width : (place + 1) * width, place * width : (place + 1) * width]
            for column, part in enumerate(self.counts[place].tolist()):
                both = np.stack([np.eye(width)[column], np.ones(width)])
                ends[:, place, column] = share_interval(part, float(size), both @ block @ both.T, level)
        return ends[0], ends[1]

    def result(self, level: float = 0.95) -> Result:
        """Return the table and its test, as `dpmpc read --crosstab` shows them.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        (share, errors), ends = self.shares(), self.share_intervals(level)
        tables = [
            self._table(
                f"{self.row} by {self.column}",
                {"{}": self.counts, "± {}": self.standard_errors},
                ["± : of the noise."],
                errors={name: f"± {name}" for name in self.columns},
            ),
            self._table(
                f"{self.row} by {self.column}: shares of each {self.row}",
                {"{}": share, "{} from": ends[0], "{} to": ends[1]},
                [
                    f"From, to: {100 * level:g} % intervals, noise and sampling included. None where the number of "
                    "people does not stand out of the noise."
                ],
                intervals={f"{name}: {100 * level:g} %": (f"{name} from", f"{name} to") for name in self.columns},
            ),
        ]
        notes = [f"n = {round(self.total):,}. Counts have noise, and may be below 0."]
        association = self._association(level)
        return Result(
            tables=[*tables, *association.tables],
            notes=[*notes, *association.notes],
            plots=association.plots,
            data={
                "row": self.row,
                "column": self.column,
                "confidence_level": level,
                "counts": self._named(self.counts),
                "standard_errors": self._named(self.standard_errors),
                "shares": self._named(share),
                "share_standard_errors": self._named(errors),
                "share_intervals": {"lower": self._named(ends[0]), "upper": self._named(ends[1])},
                **association.data,
            },
        )

    def _association(self, level: float) -> Result:
        """Return whether the variables depend on each other, and how."""
        joined = self.joined()
        departure = joined.departure()
        tested = departure if isinstance(departure, str) else departure.test()
        data: dict[str, object] = {
            "independence": None if isinstance(tested, str) else dataclasses.asdict(tested),
            "not_tested": tested if isinstance(tested, str) else None,
            "tested_rows": list(joined.rows),
            "tested_columns": list(joined.columns),
            "departure": None,
            "cramers_v": None,
            "odds_ratio": None,
        }
        notes = []
        if joined.counts.shape != self.counts.shape:
            together = [name for name in (*joined.rows, *joined.columns) if name not in (*self.rows, *self.columns)]
            notes.append(f"Joined for the test, because few people have them: {'; '.join(together)}.")
        if isinstance(departure, str) or isinstance(tested, str):
            why = f"No test that {self.row} and {self.column} are independent: {tested}."
            return Result(notes=[*notes, why], data=data)
        v, odds = departure.cramers_v(joined.counts), joined.odds_ratio(level)
        notes += [
            f"Test that {self.row} and {self.column} are independent: chi-squared({tested.degrees}) = "
            f"{number_text(tested.statistic)}, {p_text(tested.p_value)}; the noise is part of its law.",
            f"Cramer's V = {number_text(v)}: 0 of independent variables, at most 1; what sampling and noise alone "
            "would show is taken off.",
        ]
        if odds is not None:
            notes.append(
                f"Odds of {joined.column} = {joined.columns[0]} rather than {joined.columns[1]}, where {joined.row} = "
                f"{joined.rows[0]}, over those where it is {joined.rows[1]}: {number_text(odds.value)} "
                f"({100 * level:g} % interval {number_text(odds.lower)} to {number_text(odds.upper)})."
            )
            data["odds_ratio"] = {"estimate": odds.value, "confidence_interval": [odds.lower, odds.upper]}
        z = departure.in_errors
        title = f"{self.row} by {self.column}: more or fewer than if independent"
        cells = {"title": title, "rows": joined.rows, "columns": joined.columns, "values": z.tolist()}
        table = joined._table(
            title, {"{}": z}, ["In standard errors of sampling and noise; beyond 2 is rare by chance."]
        )
        return Result(
            tables=[table],
            notes=notes,
            plots={"departure": lambda: PlotData("heat-map", cells)},
            data=data | {"departure": joined._named(z), "cramers_v": v},
        )

    def _table(self, title: str, values: Mapping[str, Reals], notes: list[str], **links: Any) -> NumberTable:
        """Return a table with columns for each value of the column's variable, by their headings."""
        lists = {
            heading.format(name): values_of[:, place].tolist()
            for place, name in enumerate(self.columns)
            for heading, values_of in values.items()
        }
        return NumberTable(title, lists, self.rows, label=self.row, notes=notes, **links)

    def _named(self, values: Reals) -> dict[str, dict[str, float | None]]:
        return {
            row: {column: finite_or_none(value) for column, value in zip(self.columns, line, strict=True)}
            for row, line in zip(self.rows, values.tolist(), strict=True)
        }
