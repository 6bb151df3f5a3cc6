"""Named columns of finite numbers, made of arrays, data frames or what was read from a file.

Also the checks of column names, and of arrays of real numbers, which are refused with the column and row at fault.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError

MOST_LISTED = 40  # names of columns that a message holds


def check_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the column names as a tuple, or refuse an empty, unprintable or repeated one."""
    checked: dict[str, None] = {}  # in order, and quick to look up where there are many
    for name in [] if isinstance(names, str) else names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(where, f"column {len(checked) + 1} is named {name!r}, printable text expected")
        if name in checked:
            raise InputError(where, f"the column name {name!r} occurs twice")
        checked[name] = None
    if not checked:
        raise InputError(where, f"{names!r}", "a sequence of at least one column name")
    return tuple(checked)


def position_of(name: str, names: Sequence[str], where: str) -> int:
    """Return the position of a column, or refuse a name that is not among `names`."""
    return positions_of([name], names, where)[0]


def positions_of(chosen: Iterable[str], names: Sequence[str], where: str) -> list[int]:
    """Return the positions of columns, or refuse a name that is not among `names`; the time is linear in both."""
    places = {name: place for place, name in enumerate(names)}
    found = []
    for name in chosen:
        if name not in places:
            raise InputError(where, f"no column {name!r}; there are {listed(names)}")
        found.append(places[name])
    return found


def listed(names: Sequence[str]) -> str:
    """Return names for a message, the first ones of many."""
    more = f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more


def default_names(count: int) -> tuple[str, ...]:
    """Return the names that the columns of an array are given."""
    return tuple(f"x{j}" for j in range(count))


def numeric_matrix(where: str, X: ArrayLike) -> NDArray[Any]:
    """Return `X` as a two-dimensional array of real numbers of any width, or refuse it; nothing is copied."""
    return _real_numbers(where, two_dimensional(where, X))


def numeric_vector(where: str, values: NDArray[Any]) -> Reals:
    """Return finite numbers, shape (n,), as float64; objects are taken if they are real numbers."""
    if values.dtype.kind == "O":
        values = column_values(where, values)
    vector = _real_numbers(where, values).astype(np.float64, copy=False)
    finite = np.isfinite(vector)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InputError(where, f"row {row + 1}: {vector[row]}", "a finite number")
    return vector


def expect_columns(where: str, matrix: NDArray[Any], names: Sequence[str]) -> None:
    """Refuse a matrix whose number of columns differs from that of the names."""
    if matrix.shape[1] != len(names):
        raise InputError(where, f"{matrix.shape[1]} columns", f"{len(names)}", f"{', '.join(names)}")


def check_finite(where: str, block: NDArray[Any], names: Sequence[str], start: int = 0) -> None:
    """Refuse NaN and infinity; `block` begins at row `start` of what the caller handed in."""
    finite = np.isfinite(block)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        cell = f"column {names[column]!r}, row {start + row + 1}"
        raise InputError(where, f"{cell}: {block[row, column]}", "a finite number")


def two_dimensional(where: str, X: Any) -> NDArray[Any]:
    """Return `X` as a two-dimensional array, or refuse it and state what to do first."""
    if isinstance(X, np.ma.MaskedArray):
        raise InputError(where, "a masked array given; fill in its missing values first")
    if hasattr(X, "nnz"):
        raise InputError(where, f"a sparse {type(X).__name__}", "a dense array", "X.toarray() makes one")
    matrix = np.asarray(X)
    if matrix.ndim != 2:
        hint = ". Reshape your data with X.reshape(-1, 1), if it is one column" if matrix.ndim == 1 else ""
        raise InputError(where, f"shape {matrix.shape} given, two dimensions (rows, columns) expected{hint}")
    return matrix


def _real_numbers(where: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "biuf":
        hint = ". Complex data not supported" if values.dtype.kind == "c" else ""
        raise InputError(where, f"values of type {values.dtype} given, real numbers expected{hint}")
    return values


def column_values(name: str, column: NDArray[Any]) -> Reals:
    """Return one column as float64, NaN for None, or refuse what holds text, dates or other objects."""
    if column.ndim == 1 and column.dtype.kind in "biuf":
        return column.astype(np.float64, copy=False)
    if column.ndim != 1 or column.dtype.kind != "O":
        raise InputError("X", f"column {name!r} holds {column.dtype}, real numbers expected")
    for row, value in enumerate(column, 1):
        if value is not None and not isinstance(value, Real):
            raise InputError("X", f"column {name!r}, row {row}: {value!r}", "a real number")
    return column.astype(np.float64)


#: What stands for a missing value: one number, or one for each column.
Fill: TypeAlias = float | Mapping[str, float] | None


#: What stands in a cell: text without spaces around it, a date, or None where it is missing.
Cell: TypeAlias = str | datetime.date | None


def cell_of(value: Any) -> Cell:
    """Return a value of a data frame or Parquet file as a cell: text, a date, or None where it is missing."""
    differs = value != value  # NaN and NaT differ from themselves; what pandas calls NA does not say
    if value is None or not isinstance(differs, bool | np.bool_) or differs:
        return None
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))  # a column of whole numbers with gaps comes as floats
    return str(value).strip()


def _number(text: str) -> float | None:
    """Read the text of a number: NaN if it is that, None if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True, eq=False)
class Cells:
    """Named columns of text, as they were read.

    Parameters
    ----------
    names : tuple of str
        Unique, printable, at least one.
    columns : sequence of sequences of cells
        One for each name, all equally long.
    number : callable
        Reads a cell as a number: NaN where it is missing, None where it is no number.
    where : str
        What errors call the table.
    locate : callable
        Names a row, counted from 1.
    """

    names: tuple[str, ...]
    columns: Sequence[Sequence[Cell]]
    number: Callable[[str], float | None]
    where: str
    locate: Callable[[int], str]

    @classmethod
    def of(cls, X: Any) -> Cells:
        """Return cells as they are, or those of a data frame, as `Table.from_any` reads it."""
        if isinstance(X, Cells):
            return X
        keys = _frame_keys(X)
        if keys is None:
            raise InputError("X", type(X).__name__, "a data frame or cells of a file")
        names = check_names([str(key) for key in keys], "X")
        columns = [[cell_of(value) for value in np.asarray(X[key], dtype=object)] for key in keys]
        return cls(names, columns, _number, "X", lambda row: f"row {row}")

    @classmethod
    def of_row(cls, row: Mapping[str, Cell], where: str) -> Cells:
        """Return one row of cells by their names; `where` is what errors call it."""
        return cls(check_names(list(row), where), [[cell] for cell in row.values()], _number, where, lambda _: "given")

    def __len__(self) -> int:
        return len(self.columns[0])

    def column(self, name: str) -> Sequence[Cell]:
        """Return the cells of a column."""
        return self.columns[position_of(name, self.names, "columns")]

    def place(self, name: str, row: int) -> str:
        """Return where a cell stands, for an error; rows are counted from 0 here."""
        return f"{self.where}: column {name!r}, {self.locate(row + 1)}"


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of finite numbers.

    Parameters
    ----------
    names : sequence of str
        Unique, printable, at least one.
    values : ndarray of float64, shape (rows, columns)
        At least one row; no NaN, no infinity. Kept without a copy where it already is C-contiguous float64.
    dropped : int
        How many rows were left out because a value was missing. Then the number of rows depends on the data, and
        nothing is released of the table before `with_public_count`.

    Raises
    ------
    InputError
        If the names or the values are not as above; a bad value is reported with its column and row.
    """

    names: tuple[str, ...]
    values: Reals
    dropped: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_names(self.names, "names"))
        object.__setattr__(self, "values", np.ascontiguousarray(numeric_matrix("values", self.values), np.float64))
        expect_columns("values", self.values, self.names)
        if not len(self.values):
            raise InputError("values", "no rows", "at least one")
        check_finite("values", self.values, self.names)

    @classmethod
    def from_any(
        cls, X: Any, names: Sequence[str] | None = None, *, drop_missing: bool = False, fill: Fill = None
    ) -> Table:
        """Make a table of an array or a data frame.

        Parameters
        ----------
        X : Table, array_like of shape (rows, columns), or data frame
            A data frame is an object with ``columns`` and ``to_numpy`` (pandas, polars) or with ``__dataframe__``
            (pyarrow and others), whose columns are read as ``X[name]``.
        names : sequence of str, optional
            Names for the columns of an array; x0, x1, .. by default. A data frame brings its own.
        drop_missing : bool
            Leave out rows with a NaN or None, and count them in ``dropped``, instead of refusing them.
        fill : float or mapping, optional
            Put this number, or that of the column, in the place of NaN and None instead.

        Raises
        ------
        InputError
            If a column holds anything but finite numbers, or names are repeated, missing or not wanted.
        """
        if isinstance(X, Table):
            return X if names is None else cls(tuple(names), X.values, X.dropped)
        keys = _frame_keys(X)
        if keys is None:
            labels, values = _read_array(X, names)
        elif names is None:
            labels, values = _read_frame(X, keys)
        else:
            raise InputError("names", f"{names!r} given, but X is a data frame and has its own names")
        return complete(labels, values, drop_missing, "X", lambda row: f"row {row}", fill)

    def __len__(self) -> int:
        return len(self.values)

    def column(self, name: str) -> Reals:
        """Return one column, shape (rows,), as a view."""
        return self.values[:, position_of(name, self.names, "name")]

    def require_public_count(self) -> Table:
        """Return the table itself, if its number of rows does not depend on which values are missing.

        Whatever is released of a table publishes the number of its rows exactly, and two tables of which one lacks a
        value must not differ in it.

        Raises
        ------
        InputError
            If rows were left out.
        """
        if self.dropped:
            left_out = "1 row with a missing value was" if self.dropped == 1 else f"{self.dropped:,} rows were"
            raise InputError(
                "X",
                f"a table given of which {left_out} left out: the number of its rows depends on the data, "
                "and would be published. Fill in what is missing by a public rule (fill=..), or state that "
                "the number is public knowledge by with_public_count(N)",
            )
        return self

    def with_public_count(self, count: int) -> Table:
        """Return the same rows, marked as a table whose number of rows is public knowledge.

        The guarantee of a release then is for the values in complete rows, and not for which rows are complete. That
        another number is refused depends on the data: the error is for the holder of the rows, not to be published.

        Parameters
        ----------
        count : int
            How many rows are complete, from somewhere else than this table.

        Raises
        ------
        InputError
            If there are more or fewer.
        """
        if count != len(self):
            raise InputError("public_count", f"{count} given, but {len(self)} rows are complete")
        return Table(self.names, self.values)

    def select(self, names: Sequence[str]) -> Table:
        """Return the table of some columns, in the order given."""
        chosen = check_names(names, "names")
        positions = positions_of(chosen, self.names, "names")
        return Table(chosen, self.values[:, positions], self.dropped)


def _frame_keys(X: Any) -> list[Any] | None:
    """Return the keys of a data frame's columns, None if `X` is not a data frame."""
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        return list(X.columns)
    if hasattr(X, "__dataframe__"):
        return list(X.__dataframe__().column_names())
    return None


def frame_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns, None if `X` is not a data frame."""
    keys = _frame_keys(X)
    return None if keys is None else tuple(map(str, keys))


def _read_frame(X: Any, keys: list[Any]) -> tuple[tuple[str, ...], Reals]:
    labels = check_names([str(key) for key in keys], "X")
    columns = [column_values(label, np.asarray(X[key])) for label, key in zip(labels, keys, strict=True)]
    return labels, np.column_stack(columns)


def _read_array(X: Any, names: Sequence[str] | None) -> tuple[tuple[str, ...], Reals]:
    matrix = two_dimensional("X", X)
    if names is None and not matrix.shape[1]:
        raise InputError("X", f"0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required.")
    labels = check_names(default_names(matrix.shape[1]) if names is None else names, "names")
    expect_columns("X", matrix, labels)
    if matrix.dtype.kind == "O":
        columns = [column_values(label, column) for label, column in zip(labels, matrix.T, strict=True)]
        return labels, np.column_stack(columns)
    return labels, numeric_matrix("X", matrix).astype(np.float64, copy=False)


def complete(
    names: tuple[str, ...],
    values: Reals,
    drop_missing: bool,
    where: str,
    locate: Callable[[int], str],
    fill: Fill = None,
) -> Table:
    """Make the table of values that may be missing (NaN): fill them in or drop their rows, or else refuse them."""
    if drop_missing and fill is not None:
        raise InputError("drop_missing and fill", "both", "one of them")
    if fill is not None:
        values = np.where(np.isnan(values), _fillings(names, fill), values)
    finite = np.isfinite(values)
    if finite.all():
        return Table(names, values)
    bad = ~finite & ~np.isnan(values) if drop_missing else ~finite
    if bad.any():
        row, column = np.argwhere(bad)[0]
        place = f"{where}: column {names[column]!r}, {locate(int(row) + 1)}"
        if np.isnan(values[row, column]):
            raise InputError(
                place,
                "the value is missing (NaN); fill it in by a rule that does not depend on the data, as "
                "fill=.. (--fill-missing) does; drop_missing=True leaves such rows out, and their number "
                "is not public",
            )
        raise InputError(place, f"{values[row, column]}", "a finite number")
    kept = values[finite.all(axis=1)]
    if not len(kept):
        raise InputError(where, f"a value is missing in each of the {len(values)} rows; none would be left")
    return Table(names, kept, dropped=len(values) - len(kept))


def _fillings(names: tuple[str, ...], fill: float | Mapping[str, float]) -> Reals:
    """Return what stands for a missing value in each column."""
    if isinstance(fill, Mapping):
        for name in names:
            if name not in fill:
                raise InputError("fill", f"none given for column {name!r}, a number expected")
        numbers = [fill[name] for name in names]
    else:
        numbers = [fill] * len(names)
    for name, number in zip(names, numbers, strict=True):
        if isinstance(number, bool) or not isinstance(number, int | float | np.number) or not np.isfinite(number):
            raise InputError(f"fill of column {name!r}", f"{number!r}", "a finite number")
    return np.array(numbers, np.float64)
