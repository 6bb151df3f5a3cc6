"""Two-way tables of categories from second moments, and a test of independence with the noise in its law.

Second moments of a table with a codebook hold all of its two-way tables. With E the codes (1, z) of the K values of a
variable, one a row, and B = E^-1, the one-hot vector of a client is (1, z) B. So the counts of two variables are
T = B_a^T M_ab B_b, for M_ab the released products of (1, z_a) and (1, z_b), and their noise has the covariance
K D K^T with K = B_a^T (x) B_b^T and D the variances of these products: v/2, and 0 or v in the corner.

With N the sum of T and r, c its shares by row and by column, u = T - N r c^T has under independence the covariance

    N D_r (x) D_c  +  (P_r (x) P_c) K D K^T (P_r (x) P_c)^T,    D_r = diag r - r r^T,  P_r = I - r 1^T,

of sampling and of noise (docs/mathematics.md, section 14.7). u^T Cov^-1 u without the last row and column is
chi-squared; without noise it is the statistic of Pearson.

Promised: functions of the release. Values whose number of people does not stand out of the noise are joined to the
smallest other value of their variable, and named, before anything is tested; where too little is left there is no test,
and the reason in its place. Not promised: a test at the exact level where expected counts are few; that many tests hold
their level together.
"""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpmpc.contributions import GroupedMoments, SecondMoments
from dpmpc.data import Codebook, Schema, Variable, largest_squared_norm
from dpmpc.errors import InputError
from dpmpc.estimators.inference import chi2_tail, stands_out
from dpmpc.estimators.release_parts import Blocks, is_grouped
from dpmpc.estimators.summary import p_text
from dpmpc.release import GramSource, Release
from dpmpc.results import NumberTable, Result, finite_or_none, number_text

Reals = NDArray[np.float64]
_FEWEST = 1.0  # expected people in a cell of a table that is tested


@dataclasses.dataclass(frozen=True)
class Independence:
    """A test that two variables are independent.

    Attributes
    ----------
    statistic : float
        Chi-squared if they are.
    degrees : int
        (R - 1)(C - 1).
    p_value : float
        Probability of a larger statistic then.
    """

    statistic: float
    degrees: int
    p_value: float


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
        """Read the table of two categories, answers included, from second moments.

        Parameters
        ----------
        release : Release
            Of second moments with a codebook, by group or not.
        a, b : str
            Variables of its codebook with listed values; where it is by group, perhaps that of the groups.
        """
        book = _book(release)
        first, second = (_variable(book, name) for name in (a, b))
        if first.name == second.name:
            raise InputError(f"crosstab: {a!r} given twice, two variables expected")
        if not is_grouped(release):
            _require_unclipped(release)
            return cls._of_moments(release, first, second)
        blocks = Blocks(release)
        _require_unclipped(release)
        if second.name == blocks.by:
            return cls.of(release, b, a).transposed()
        if first.name != blocks.by:
            return cls._of_moments(blocks, first, second)
        decode, places = _decode(blocks.schema, second)
        one = float(release.noise_variance[0])
        noise = decode.T @ np.diag([one, *[one / 2] * (len(places) - 1)]) @ decode
        counts = blocks.grams[:, 0][:, places] @ decode
        covariance = np.asarray(np.kron(np.eye(len(counts)), noise), np.float64)
        return cls(first.name, second.name, first.categories, second.categories, counts, covariance)

    @classmethod
    def _of_moments(cls, source: GramSource, first: Variable, second: Variable) -> CrossTable:
        """Read products of (1, z) of both variables."""
        (left, rows), (right, columns) = (_decode(source.schema, one) for one in (first, second))
        counts = left.T @ source.gram().matrix[np.ix_(rows, columns)] @ right
        variances = np.full((len(rows), len(columns)), float(source.noise_variance[0]) / 2)
        variances[0, 0] = source.total_variance
        linear = np.kron(left.T, right.T)
        covariance = (linear * variances.ravel()) @ linear.T
        return cls(first.name, second.name, first.categories, second.categories, counts, covariance)

    def transposed(self) -> CrossTable:
        """Return the table with rows and columns exchanged."""
        order = np.arange(self.counts.size).reshape(self.counts.shape).T.ravel()
        covariance = self.covariance[np.ix_(order, order)]
        return CrossTable(self.column, self.row, self.columns, self.rows, self.counts.T, covariance)

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
        found, again = self, True
        while again:
            found, again = found._join_rows()
            turned, more = found.transposed()._join_rows()
            found, again = turned.transposed(), again or more
        return found

    def _join_rows(self) -> tuple[Self | CrossTable, bool]:
        """Join a row that does not stand out of the noise to the smallest other one, and say whether there was one."""
        sizes, errors = self._margins()
        order = np.argsort(sizes)
        faint = [place for place in order.tolist() if not stands_out(float(sizes[place]), float(errors[place]) ** 2)]
        if not faint or len(self.rows) <= 2:
            return self, False
        taken, other = faint[0], next(place for place in order.tolist() if place != faint[0])
        keep = min(taken, other)
        kept = [place for place in range(len(self.rows)) if place != max(taken, other)]
        join = np.eye(len(self.rows))
        join[keep] += join[max(taken, other)]
        names = [self.rows[place] for place in kept]
        names[kept.index(keep)] = f"{self.rows[keep]} or {self.rows[max(taken, other)]}"
        linear = np.kron(join[kept], np.eye(len(self.columns)))
        return (
            dataclasses.replace(
                self, rows=tuple(names), counts=join[kept] @ self.counts, covariance=linear @ self.covariance @ linear.T
            ),
            True,
        )

    def _margins(self) -> tuple[Reals, Reals]:
        """Return the number of people of each row, and its standard error."""
        summed = np.kron(np.eye(len(self.rows)), np.ones(len(self.columns)))
        return self.counts.sum(axis=1), np.sqrt(np.maximum(np.diag(summed @ self.covariance @ summed.T), 0.0))

    def independence(self) -> Independence | str:
        """Test independence in the joined table, or say why that cannot be."""
        return self.joined()._independence()

    def _independence(self) -> Independence | str:
        """Test independence in a table that has been joined."""
        for one in (self, self.transposed()):
            for name, size, error in zip(one.rows, *one._margins(), strict=True):
                if not stands_out(float(size), float(error) ** 2):
                    return (
                        f"too few people in {one.row} = {name} to tell from none: {round(float(size)):,}, standard "
                        f"error {error:,.0f}"
                    )
        if not stands_out(self.total, float(np.trace(self.covariance))):
            return f"the noise in all {self.counts.size} cells together is too large for {round(self.total):,} people"
        r, c = self.counts.sum(axis=1) / self.total, self.counts.sum(axis=0) / self.total
        if self.total * r.min() * c.min() < _FEWEST:
            return f"less than {_FEWEST:g} person is expected in the smallest cell"
        u = (self.counts - self.total * np.outer(r, c))[:-1, :-1].ravel()
        projection = np.kron(
            np.eye(len(r)) - np.outer(r, np.ones(len(r))), np.eye(len(c)) - np.outer(c, np.ones(len(c)))
        )
        sampling = self.total * np.kron(np.diag(r) - np.outer(r, r), np.diag(c) - np.outer(c, c))
        kept = np.arange(self.counts.size).reshape(self.counts.shape)[:-1, :-1].ravel()
        covariance = (sampling + projection @ self.covariance @ projection.T)[np.ix_(kept, kept)]
        statistic = float(u @ np.linalg.solve(covariance, u))
        return Independence(statistic, len(u), chi2_tail(statistic, len(u)))

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
            own = self.covariance[place * width : (place + 1) * width, place * width : (place + 1) * width]
            gradient = np.eye(width) - share[place][:, None]  # of T_ij / T_i by the counts of row i, times T_i
            noise[place] = np.einsum("ij,jk,ik->i", gradient, own, gradient)
        sampling = np.clip(share * (1 - share), 0.0, None) / size
        return share, np.sqrt(sampling + noise / size**2)

    @property
    def tables(self) -> list[NumberTable]:
        """Counts, and shares in each row."""
        share, errors = self.shares()
        return [
            self._table(f"{self.row} by {self.column}", self.counts, self.standard_errors, ["± : of the noise."]),
            self._table(
                f"{self.row} by {self.column}: shares of each {self.row}",
                share,
                errors,
                ["± : of noise and sampling. None where the number of people does not stand out of the noise."],
            ),
        ]

    def _table(self, title: str, values: Reals, errors: Reals, notes: list[str]) -> NumberTable:
        lists: dict[str, list[float]] = {}
        for place, name in enumerate(self.columns):
            lists |= {name: values[:, place].tolist(), f"± {name}": errors[:, place].tolist()}
        return NumberTable(
            title, lists, self.rows, label=self.row, notes=notes, errors={name: f"± {name}" for name in self.columns}
        )

    def result(self) -> Result:
        """Return the table and its test, as `dpmpc read --crosstab` shows them."""
        joined = self.joined()
        tested = joined._independence()
        notes = [f"n = {round(self.total):,}. Counts have noise, and may be below 0."]
        if joined.counts.shape != self.counts.shape:
            together = [name for name in (*joined.rows, *joined.columns) if name not in (*self.rows, *self.columns)]
            notes.append(f"Joined for the test, because few people have them: {'; '.join(together)}.")
        if isinstance(tested, Independence):
            notes.append(
                f"Test that {self.row} and {self.column} are independent: chi-squared({tested.degrees}) = "
                f"{number_text(tested.statistic)}, {p_text(tested.p_value)}; the noise is part of its law."
            )
        else:
            notes.append(f"No test that {self.row} and {self.column} are independent: {tested}.")
        share, errors = self.shares()
        return Result(
            tables=self.tables,
            notes=notes,
            data={
                "row": self.row,
                "column": self.column,
                "counts": self._named(self.counts),
                "standard_errors": self._named(self.standard_errors),
                "shares": self._named(share),
                "share_standard_errors": self._named(errors),
                "independence": dataclasses.asdict(tested) if isinstance(tested, Independence) else None,
                "not_tested": None if isinstance(tested, Independence) else tested,
                "tested_rows": list(joined.rows),
                "tested_columns": list(joined.columns),
            },
        )

    def _named(self, values: Reals) -> dict[str, dict[str, float | None]]:
        return {
            row: {column: finite_or_none(value) for column, value in zip(self.columns, line, strict=True)}
            for row, line in zip(self.rows, values.tolist(), strict=True)
        }


def _book(release: Release) -> Codebook:
    """Return the codebook of second moments whose rows all count once."""
    statistic, book = release.task.statistic, release.task.schema.codebook
    if not isinstance(statistic, SecondMoments | GroupedMoments):
        raise InputError(f"crosstab: given with a release of {statistic.name}, one of second moments expected")
    if not isinstance(book, Codebook):
        raise InputError("crosstab: given, but the bounds of this release list no values, categories expected")
    if book.weight is not None:
        raise InputError(
            f"crosstab: given, but rows have weights ({book.weight.column}), people that count once expected"
        )
    return book


def _variable(book: Codebook, name: str) -> Variable:
    """Return a variable with listed values, each of which has a code of its own."""
    listed = [one for one in book.variables if one.categories]
    found = next((one for one in listed if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in listed) or "none"
        raise InputError(f"crosstab: {name!r} given, a variable with listed values expected: {names}")
    if found.if_missing == "middle":
        raise InputError(
            f"crosstab: {name!r} given, whose missing values are coded between others, "
            'if_missing = "indicator" expected'
        )
    return found


def _decode(public: Schema, variable: Variable) -> tuple[Reals, list[int]]:
    """Return B, for which (1, z) B is one-hot, and the places of (1, z) in the Gram matrix."""
    columns, count = variable.term.columns, len(variable.categories)
    codes = np.zeros((count, len(columns)))
    codes[1:] = np.eye(count - 1)
    if variable.kind == "yes-no" and count > 2:
        codes[-1, 0] = columns[0].middle  # an answer that is missing
    for column in columns:
        if column.name not in public.names:
            raise InputError(f"crosstab: {variable.name!r} given, but this release lacks its column {column.name!r}")
    normalised = (codes - [column.middle for column in columns]) / [column.half_width for column in columns]
    inverse = np.linalg.inv(np.column_stack([np.ones(count), normalised]))
    return inverse, [0, *(1 + public.index(column.name) for column in columns)]


def _require_unclipped(release: Release) -> None:
    """Refuse rows that were clipped to a ball, whose products are no counts."""
    statistic, schema = release.task.statistic, release.schema
    assert isinstance(statistic, SecondMoments | GroupedMoments)
    if statistic.radius is None:
        return
    book = release.task.schema.codebook
    largest = book.radius_of(schema.names) if isinstance(book, Codebook) else None
    if statistic.radius**2 < largest_squared_norm(len(schema.names), largest) - 1e-9:
        raise InputError(
            f"crosstab: given, but rows were clipped to a ball of radius {statistic.radius:g}, in which some do not lie"
        )
