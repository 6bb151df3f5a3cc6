"""The variables of a table as people write them, and how each row of them becomes columns of numbers.

A variable is a number, a category, an answer or a date. It becomes one column or several, of which the
normalised values z, together, have an L2 norm of at most 1 in every row (theorem unit-terms): a number is
one column in [-1, 1]; a category has an indicator for each value but the reference, of which at most one is 1; the
functions of a spline are not negative and add up to at most 1; an indicator of what is missing is 1 only where the
other columns are 0.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from dpmpc.base.arguments import require_choice, require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage import Record
from dpmpc.data.columns import Column, Term, finite_number
from dpmpc.data.csv_files import MISSING
from dpmpc.data.table import Cell, Cells, check_names

DEFAULT_CELLS, MOST_CELLS = 128, 512  # of a number or a date, where its distribution is counted
_DEGREE = 3  # of splines
_STEP_ERROR = 1e-6  # of a step's number in the width of the bounds
_LABEL = "missing"
_EVEN_VALUES = 501
_TWO_THIRDS = 0.967  # standard deviations about the mean of a Gaussian hold two thirds
_LONGEST = {"label": 200, "meaning": 2000, "unit": 50}  # characters of texts for people
#: What each kind of variable is described by, beside its name and what is missing.
_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "category": ({"values"}, {"reference", "other"}),
    "yes-no": ({"yes", "no"}, set()),
    "date": ({"date", "lower", "upper"}, {"cells", "step"}),
    "number": ({"lower", "upper"}, {"transform", "knots", "cells", "edges", "step", "typical"}),
}


class Variable(Record, frozen=True, omit_defaults=True):
    """A variable of a table, and all that is public about it.

    Which fields there are states what it is: `values` make a category, `yes` and `no` an answer, `date` a date, and
    `lower` and `upper` alone a number.

    Parameters
    ----------
    name : str
        The column of the table.
    lower, upper : float or str, optional
        The bounds of a number, or of a date in its format.
    values : tuple of str, optional
        The values of a category, at least two. Another value is an error, unless there is `other`.
    reference : str, optional
        The value whose indicator is left out, the first by default.
    other : str, optional
        What values that are not listed are called.
    yes, no : tuple of str, optional
        Answers that become 1 and 0; capitals do not count.
    date : str, optional
        The format of a date as in `datetime.datetime.strptime`, such as ``%d.%m.%Y``. The column counts days from
        `lower`.
    transform : {"log", "spline"}, optional
        The natural logarithm of a number, or its cubic B-spline.
    knots : tuple of float, optional
        Inner knots of the spline, rising, within the bounds.
    cells : int, optional
        How many cells of equal width the distribution of a number or a date is counted in, where it is; of equal width
        of the logarithm with a transform. 128 by default, 512 at most. One of `cells`, `edges` and `step` at most.
    edges : tuple of float, optional
        The ends of these cells between the bounds, rising.
    step : float, optional
        How far the possible values lie apart, from the lower bound on: each is its own cell.
    typical : tuple of float, optional
        Between which values about two thirds of people are expected: a public guess, which plans rest on and no result.
    missing : tuple of str
        Words for what is missing, beside those of the codebook and `dpmpc.data.csv_files.MISSING`.
    if_missing : {"indicator", "middle"}, optional
        What stands for a missing value: 0 and a 1 in a further column, or the middle of the bounds. By default the row
        is incomplete.
    label, meaning, unit : str
        For people: what it is called in a question, what is meant by it, and what it is measured in.

    Raises
    ------
    InputError
        If the fields do not belong together or are not as above.
    """

    called: ClassVar[str] = "column"
    name: str
    lower: float | str | None = None
    upper: float | str | None = None
    values: tuple[str, ...] | None = None
    reference: str | None = None
    other: str | None = None
    yes: tuple[str, ...] | None = None
    no: tuple[str, ...] | None = None
    date: str | None = None
    transform: Literal["log", "spline"] | None = None
    knots: tuple[float, ...] | None = None
    cells: int | None = None
    edges: tuple[float, ...] | None = None
    step: float | None = None
    typical: tuple[float, float] | None = None
    missing: tuple[str, ...] = ()
    if_missing: Literal["indicator", "middle"] | None = None
    label: str = ""
    meaning: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        check_names([self.name], "name")
        for text, longest in _LONGEST.items():
            value = getattr(self, text)
            if value != value.strip() or len(value) > longest or not (value or "-").isprintable():
                expected = f"at most {longest:,} characters of printable text without space around them expected"
                raise InputError(self._where, f"{text} = {value[:40]!r} given, {expected}")
        required, optional = _FIELDS[self.kind]
        for field in sorted(set().union(*(needed | may for needed, may in _FIELDS.values()))):
            value = getattr(self, field)
            if field in required and value is None:
                raise InputError(self._where, f"{field} is missing, expected of a {self.kind}")
            if field not in required | optional and value is not None:
                raise InputError(self._where, f"{field} = {value!r} given, which a {self.kind} does not have")
        if self.if_missing is not None:
            require_choice(f"{self._where}: if_missing", self.if_missing, ("indicator", "middle"))
        {
            "category": self._check_category,
            "yes-no": self._check_answers,
            "date": self._check_dates,
            "number": self._check_number,
        }[self.kind]()
        _ = self.term  # whose columns check their bounds and names
        if self.kind in ("number", "date"):
            self._check_cells()

    @property
    def kind(self) -> str:
        """What the variable is: "category", "yes-no", "date" or "number"."""
        if self.values is not None:
            return "category"
        if self.yes is not None or self.no is not None:
            return "yes-no"
        return "number" if self.date is None else "date"

    @property
    def in_words(self) -> str:
        """What the variable is, for people: name, label, what it can be, and what is meant by it."""
        called = f"'{self.name}'" + (f" ({self.label})" if self.label else "")
        missing = " or missing" if self.if_missing is not None else ""
        meaning = f": {self.meaning}" if self.meaning else ""
        return f"{called} {self.range_in_words}{missing}{meaning}"

    @property
    def range_in_words(self) -> str:
        """What the variable can be, in a few words."""
        if self.kind == "category":
            return f"one of {', '.join((*(self.values or ()), *([] if self.other is None else [self.other])))}"
        if self.kind == "yes-no":
            return "yes or no"
        ends = tuple(f"{end:g}" for end in self._ends) if self.kind == "number" else (self.lower, self.upper)
        return f"from {ends[0]} to {ends[1]}" + (f" {self.unit}" if self.unit else "")

    @property
    def _where(self) -> str:
        return f"column {self.name!r}"

    def _check_category(self) -> None:
        values = self._words("values")
        if len(values) + (self.other is not None) < 2:
            raise InputError(self._where, f"values {list(values)}", "at least two")
        if self.reference is None:
            force_setattr(self, "reference", values[0])
        require_choice(f"{self._where}: reference", self.reference, values)
        if self.other is not None:
            check_names([*values, self.other], f"{self._where}: values and other")
        if self.if_missing == "middle":
            raise InputError(self._where, "if_missing = 'middle'", "'indicator'", condition="of a category")

    def _check_answers(self) -> None:
        yes, no = (tuple(word.casefold() for word in self._words(field)) for field in ("yes", "no"))
        check_names([*yes, *no], f"{self._where}: yes and no")
        force_setattr(self, "yes", yes)
        force_setattr(self, "no", no)

    def _check_dates(self) -> None:
        for bound in ("lower", "upper"):
            value = getattr(self, bound)
            if not isinstance(value, str) or self._day(value) is None:
                raise InputError(self._where, f"{bound} = {value!r}", f"a date in the format {self.date!r}")

    def _check_number(self) -> None:
        for bound in ("lower", "upper"):
            force_setattr(self, bound, finite_number(f"{bound} of {self._where}", getattr(self, bound)))
        lower, upper = self._ends
        if not lower < upper:
            raise InputError(f"bounds of {self._where}", f"({lower}, {upper})", "lower < upper")
        if self.transform is not None:
            require_choice(f"{self._where}: transform", self.transform, ("log", "spline"))
        if self.transform == "log" and not lower > 0:
            raise InputError(self._where, f"lower = {lower}", "a number above 0", condition="with a logarithm")
        if (self.transform == "spline") != (self.knots is not None):
            raise InputError(self._where, f"knots = {self.knots} given, which belong to transform = 'spline'")
        if self.knots is not None:
            knots = tuple(finite_number(f"knots of {self._where}", knot) for knot in self.knots)
            rising = [lower, *knots, upper]
            if not all(low < high for low, high in itertools.pairwise(rising)):
                raise InputError(
                    f"{self._where}", f"knots {list(knots)}", f"rising numbers between {lower} and {upper}"
                )
            force_setattr(self, "knots", knots)
        if self.typical is not None:
            ends = tuple(finite_number(f"typical of {self._where}", end) for end in self.typical)
            if self.knots is not None or len(ends) != 2 or not lower <= ends[0] < ends[1] <= upper:
                expected = f"[low, high] between {lower} and {upper} expected, and no spline"
                raise InputError(self._where, f"typical {list(ends)} given, {expected}")
            force_setattr(self, "typical", ends)

    def _check_cells(self) -> None:
        options = {name: getattr(self, name) for name in ("cells", "edges", "step") if getattr(self, name) is not None}
        if len(options) > 1 or (options and self.transform == "spline"):
            others = ", ".join(options) + (" and transform = 'spline'" if self.transform == "spline" else "")
            raise InputError(self._where, f"{others} given, one of cells, edges and step expected, and no spline")
        column = self.term.columns[0]
        if self.cells is not None:
            force_setattr(self, "cells", require_whole(f"{self._where}: cells", self.cells, 2, MOST_CELLS))
        if self.edges is not None:
            edges = tuple(finite_number(f"edges of {self._where}", edge) for edge in self.edges)
            lower, upper = self._ends
            rising = all(low < high for low, high in itertools.pairwise([lower, *edges, upper]))
            if not rising or not 1 <= len(edges) < MOST_CELLS:
                raise InputError(
                    f"{self._where}",
                    f"edges {list(edges)[:8]}",
                    f"1 to {MOST_CELLS - 1} rising numbers between {lower} and {upper}",
                )
            force_setattr(self, "edges", edges)
        if self.step is not None:
            step = finite_number(f"step of {self._where}", self.step)
            count = 2 * column.half_width / step if step > 0 else 0.0
            if self.transform is not None or abs(count - round(count)) > _STEP_ERROR or not 1 <= count < MOST_CELLS:
                raise InputError(
                    self._where,
                    f"step = {self.step}",
                    "a number",
                    condition=f"that divides the width of the bounds into 1 to {MOST_CELLS - 1} steps, and no "
                    "transform",
                )
            force_setattr(self, "step", step)

    def expected(self) -> tuple[float, float] | None:
        """Return mean and standard deviation that `typical` stands for, the bounds scaled to [-1, 1]; None without it.

        Of a Gaussian, two thirds are within 0.967 standard deviations.
        """
        if self.typical is None:
            return None
        column = self.term.columns[0]
        ends = [math.log(end) if self.transform == "log" else end for end in self.typical]
        low, high = ((end - column.middle) / column.half_width for end in ends)
        return (low + high) / 2, (high - low) / 2 / _TWO_THIRDS

    @property
    def inner_edges(self) -> Reals:
        """The ends between the cells of a number or a date, in units of its column; those of a step lie halfway."""
        column = self.term.columns[0]
        if self.edges is not None:
            edges = np.array(self.edges)
            return np.log(edges) if self.transform == "log" else edges
        if self.step is not None:
            count = round(2 * column.half_width / self.step)
            return np.asarray(column.lower + self.step * (np.arange(count) + 0.5))
        return np.linspace(column.lower, column.upper, (self.cells or DEFAULT_CELLS) + 1)[1:-1]

    @property
    def has_cells_of_bounds(self) -> bool:
        """Whether each bound is its own cell, beside cells of equal width: values outside count as the bounds."""
        return self.edges is None and self.step is None

    def _words(self, field: str) -> tuple[str, ...]:
        """Return texts that cells are compared with, without spaces around them."""
        values = getattr(self, field)
        words = check_names([str(word).strip() for word in values], f"{self._where}: {field}")
        force_setattr(self, field, words)
        return words

    @property
    def _ends(self) -> tuple[float, float]:
        return float(self.lower or 0.0), float(self.upper or 0.0)

    def _day(self, text: str) -> int | None:
        """Return the day of a date in the variable's format, or None."""
        try:
            return datetime.datetime.strptime(text, str(self.date)).toordinal()
        except ValueError:
            return None

    @property
    def term(self) -> Term:
        """The columns that stand for the variable."""
        columns = self._columns()
        value_columns = len(columns)
        if self.if_missing == "indicator":
            columns = (*columns, _indicator(f"{self.name}={_LABEL}"))
        return Term(columns, value_columns)

    def _columns(self) -> tuple[Column, ...]:
        if self.kind == "yes-no":
            return (Column(self.name, 0.0, 1.0),)
        if self.kind == "date":
            return (Column(self.name, 0.0, float((self._day(str(self.upper)) or 0) - self._first_day)),)
        if self.kind == "category":
            names = [f"{self.name}={value}" for value in self.indicated]
            if len(names) == 1 and self.if_missing is None:
                return (Column(names[0], 0.0, 1.0),)  # -1 and 1 tell two values further apart than 0 and 1
            return tuple(map(_indicator, names))
        lower, upper = self._ends
        if self.transform == "log":
            return (Column(f"log({self.name})", math.log(lower), math.log(upper)),)
        if self.knots is not None:
            return tuple(_indicator(f"{self.name}[{number}]") for number in range(1, len(self.knots) + _DEGREE + 1))
        return (Column(self.name, lower, upper),)

    @property
    def _first_day(self) -> int:
        return self._day(str(self.lower)) or 0

    def date_of(self, days: float) -> str:
        """Return a date in the variable's format, so many days after its lower bound."""
        return datetime.date.fromordinal(self._first_day + round(days)).strftime(str(self.date))

    @property
    def categories(self) -> tuple[str, ...]:
        """What a row can be: the values of a category, the reference first; no and yes; none of other variables.

        With indicators of what is missing, that comes last.
        """
        last = (_LABEL,) if self.if_missing == "indicator" else ()
        if self.kind == "yes-no":
            return ("no", "yes", *last)
        return () if self.kind != "category" else (str(self.reference), *self.indicated, *last)

    @property
    def indicated(self) -> tuple[str, ...]:
        """The values of a category that have an indicator: all but the reference."""
        values = (*(self.values or ()), *([] if self.other is None else [self.other]))
        return tuple(value for value in values if value != self.reference)

    def encode(self, cells: Cells, missing: Sequence[str]) -> tuple[Reals, NDArray[np.bool_]]:
        """Return the variable's columns (n, w), in their units, and which rows lack a value (n,).

        Where a value is missing the columns have the middle of their bounds, which is mapped to 0, but for the
        indicator of what is missing; with `if_missing` no row lacks one.

        Parameters
        ----------
        cells : Cells
            The table as it was read.
        missing : sequence of str
            Words of the codebook for what is missing.

        Raises
        ------
        InputError
            If a cell is neither missing nor what the variable is. The message quotes it.
        """
        term = self.term
        absent = self._absent(cells, missing)
        read: Callable[[Cell], float | None] = {
            "category": self._read_category(),
            "yes-no": self._read_answer,
            "date": self._read_date(),
            "number": _reader_of_numbers(cells.number),
        }[self.kind]
        numbers = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells.column(self.name)):
            if not absent(cell):
                value = read(cell)
                if value is None:
                    place = cells.place(self.name, row)
                    raise InputError(place, f"{cell!s}", self._expected, "name it under missing, if it stands for that")
                numbers[row] = value
        gone = np.isnan(numbers)
        middles = np.array([column.middle for column in term.columns])
        values = np.tile(middles, (len(numbers), 1))
        values[~gone, : term.shown] = self._spread(numbers[~gone])
        if term.shown < len(term.columns):
            values[:, -1] = gone
        return values, gone & (self.if_missing is None)

    def even_values(self) -> Reals | None:
        """Return shown columns (m, w) of values spread evenly over all that may be; None of what is one number."""
        if self.kind == "category":
            return self._spread(np.arange(1.0 + len(self.indicated)))
        return None if self.knots is None else self._spread(np.linspace(*self._ends, _EVEN_VALUES))

    def _spread(self, numbers: Reals) -> Reals:
        """Return the shown columns (n, w) of values that were read as one number each."""
        if self.kind == "category":
            return np.asarray(numbers[:, None] == np.arange(len(self.indicated)), dtype=np.float64)
        if self.transform == "log":
            lower = self._ends[0]
            # What has no logarithm lies below the bound, and is clipped to it like everything there.
            logarithms = np.where(numbers > 0, np.log(np.where(numbers > 0, numbers, 1.0)), math.log(lower) - 1.0)
            return np.asarray(logarithms[:, None])
        if self.knots is not None:
            lower, upper = self._ends
            from scipy.interpolate import BSpline  # servers import schemas, and wait for no splines

            knots = np.concatenate([[lower] * (_DEGREE + 1), self.knots, [upper] * (_DEGREE + 1)])
            inside = np.clip(numbers, lower, upper)
            if not len(inside):
                return np.empty((0, len(self.knots) + _DEGREE))
            return np.asarray(BSpline.design_matrix(inside, knots, _DEGREE).toarray()[:, 1:], dtype=np.float64)
        return numbers[:, None]

    def _absent(self, cells: Cells, missing: Sequence[str]) -> Callable[[Cell], bool]:
        """Return a test of whether a cell is missing; a listed value never is."""
        words = {word.strip().lower() for word in (*missing, *self.missing)} | MISSING
        listed = {*(self.values or ()), *(self.yes or ()), *(self.no or ())}
        numbers = set()
        if self.kind == "number":
            numbers = {number for word in words if (number := cells.number(word)) is not None and number == number}

        def absent(cell: Cell) -> bool:
            if not isinstance(cell, str):
                return cell is None
            if cell.lower() in words:
                return cell not in listed and cell.casefold() not in listed
            return bool(numbers) and cells.number(cell) in numbers

        return absent

    def _read_category(self) -> Callable[[Cell], float | None]:
        places = {value: float(place) for place, value in enumerate(self.indicated)}
        if self.reference is not None:
            places[self.reference] = -1.0
        default = None if self.other is None else places[self.other]
        return lambda cell: places.get(str(cell), default)

    def _read_answer(self, cell: Cell) -> float | None:
        text = str(cell).casefold()
        return 1.0 if text in (self.yes or ()) else 0.0 if text in (self.no or ()) else None

    def _read_date(self) -> Callable[[Cell], float | None]:
        first = self._first_day

        def read(cell: Cell) -> float | None:
            day = cell.toordinal() if isinstance(cell, datetime.date) else self._day(str(cell))
            return None if day is None else float(day - first)

        return read

    @property
    def _expected(self) -> str:
        if self.kind == "category":
            return f"one of {', '.join(self.values or ())}"
        if self.kind == "yes-no":
            return f"one of {', '.join((*(self.yes or ()), *(self.no or ())))}"
        return "a number" if self.kind == "number" else f"a date in the format {self.date!r}"


def _reader_of_numbers(number: Callable[[str], float | None]) -> Callable[[Cell], float | None]:
    """Return what reads a cell as a finite number."""

    def read(cell: Cell) -> float | None:
        value = number(str(cell))
        return None if value is None or not math.isfinite(value) else value

    return read


def _indicator(name: str) -> Column:
    """Return a column whose 0 is mapped to 0 and whose 1 is mapped to 1."""
    return Column(name, -1.0, 1.0)
