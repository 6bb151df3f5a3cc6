"""Reading tables of numbers: CSV, Parquet, arrays and data frames become one `Table`.

A `Table` holds finite float64 numbers under unique names; whatever is missing, infinite or no number at all is refused
with its column, row and line, or dropped on request and counted. Nothing here is private: a table is what a client, or
a simulation of all clients, sees before clipping. Error messages quote cells: they are for the client's eyes only.

Rows are counted from 1, without the header; lines of a file are counted from 1, with it. Blank lines are skipped.
"""

from __future__ import annotations

import array
import csv
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.errors import InputError

#: What stands for a missing value in a CSV file, in lower case.
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null"})
_WRITE_ROWS = 4096


def check_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the column names as a tuple, or refuse an empty, unprintable or repeated one."""
    checked: list[str] = []
    for name in [] if isinstance(names, str) else names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(f"{where}: column {len(checked) + 1} is named {name!r}, printable text expected")
        if name in checked:
            raise InputError(f"{where}: the column name {name!r} occurs twice")
        checked.append(name)
    if not checked:
        raise InputError(f"{where}: {names!r} given, a sequence of at least one column name expected")
    return tuple(checked)


def position_of(name: str, names: Sequence[str], where: str) -> int:
    """Return the position of a column, or refuse a name that is not among `names`."""
    if name not in names:
        raise InputError(f"{where}: no column {name!r}; there are {', '.join(names)}")
    return names.index(name)


def default_names(count: int) -> tuple[str, ...]:
    """Names that the columns of an array are given."""
    return tuple(f"x{j}" for j in range(count))


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
        How many rows were left out because a value was missing.

    Raises
    ------
    InputError
        If the names or the values are not as above; a bad value is reported with its column and row.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    dropped: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_names(self.names, "names"))
        object.__setattr__(self, "values", np.ascontiguousarray(numeric_matrix("values", self.values), np.float64))
        expect_columns("values", self.values, self.names)
        if not len(self.values):
            raise InputError("values: no rows given, at least one expected")
        check_finite("values", self.values, self.names)

    @classmethod
    def from_any(cls, X: Any, names: Sequence[str] | None = None, *, drop_missing: bool = False) -> Table:
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
            raise InputError(f"names: {names!r} given, but X is a data frame and has names of its own")
        return _complete(labels, values, drop_missing, "X", lambda row: f"row {row}")

    def __len__(self) -> int:
        return len(self.values)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one column, shape (rows,), as a view."""
        return self.values[:, position_of(name, self.names, "name")]

    def select(self, names: Sequence[str]) -> Table:
        """Return the table of some columns, in the order given."""
        chosen = check_names(names, "names")
        positions = [position_of(name, self.names, "names") for name in chosen]
        return Table(chosen, self.values[:, positions], self.dropped)


def numeric_matrix(where: str, X: ArrayLike) -> NDArray[Any]:
    """Return `X` as a two-dimensional array of real numbers of any width, or refuse it; nothing is copied."""
    return _real_numbers(where, _two_dimensional(where, X))


def numeric_vector(where: str, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return finite numbers, shape (n,), as float64; objects are taken if they are real numbers."""
    if values.dtype.kind == "O":
        values = _column_values(where, values)
    vector = _real_numbers(where, values).astype(np.float64, copy=False)
    finite = np.isfinite(vector)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InputError(f"{where}: row {row + 1}: {vector[row]} given, a finite number expected")
    return vector


def expect_columns(where: str, matrix: NDArray[Any], names: Sequence[str]) -> None:
    """Refuse a matrix that has not one column for each name."""
    if matrix.shape[1] != len(names):
        raise InputError(f"{where}: {matrix.shape[1]} columns given, {len(names)} expected: {', '.join(names)}")


def check_finite(where: str, block: NDArray[Any], names: Sequence[str], start: int = 0) -> None:
    """Refuse NaN and infinity; `block` begins at row `start` of what the caller handed in."""
    finite = np.isfinite(block)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        cell = f"column {names[column]!r}, row {start + row + 1}"
        raise InputError(f"{where}: {cell}: {block[row, column]} given, a finite number expected")


def read_table(path: str | Path, columns: Sequence[str] | None = None, *, drop_missing: bool = False) -> Table:
    """Read a CSV file (``.csv``, with a header line) or a Parquet file (``.parquet``, with ``dpmpc[parquet]``).

    Parameters
    ----------
    path : str or Path
        The file.
    columns : sequence of str, optional
        The columns to read, in this order; the others may hold anything. All columns by default.
    drop_missing : bool
        Leave out rows in which one of these columns is missing and count them in ``dropped``, instead of refusing them.

    Raises
    ------
    InputError
        If the file cannot be read as a table of finite numbers. The message names the file and, where there is one,
        the column, the row and the line.
    """
    readers = {".csv": read_csv, ".parquet": read_parquet}
    suffix = Path(path).suffix.lower()
    if suffix not in readers:
        raise InputError(f"path: {path} given, a file whose name ends in .csv or .parquet expected")
    return readers[suffix](path, columns, drop_missing=drop_missing)


def read_csv(
    path: str | Path, columns: Sequence[str] | None = None, *, drop_missing: bool = False, delimiter: str = ","
) -> Table:
    """Read UTF-8 text with a header line, as `read_table` does; cells in `MISSING` count as missing."""
    try:
        source = _CsvFile(Path(path), delimiter)
        chosen = source.header if columns is None else check_names(columns, "columns")
        positions = [position_of(name, source.header, "columns") for name in chosen]
        return _complete(chosen, source.numbers(positions), drop_missing, str(path), source.locate)
    except OSError as error:
        raise InputError(f"path: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.object[error.start]:#04x} found, UTF-8 text expected") from error
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file: {error}") from error


def read_parquet(path: str | Path, columns: Sequence[str] | None = None, *, drop_missing: bool = False) -> Table:
    """Read columns of numbers or truth values, as `read_table` does; nulls and NaN count as missing."""
    pa, pq = _pyarrow(path)
    try:
        with pq.ParquetFile(path) as source:
            names = check_names(source.schema_arrow.names, str(path))
            chosen = names if columns is None else check_names(columns, "columns")
            types = [source.schema_arrow.types[position_of(name, names, "columns")] for name in chosen]
            for name, kind in zip(chosen, types, strict=True):
                if not _holds_numbers(pa, kind):
                    numeric = [
                        n for n, k in zip(names, source.schema_arrow.types, strict=True) if _holds_numbers(pa, k)
                    ]
                    raise InputError(f"{path}: column {name!r} holds {kind}{_numeric_hint(numeric)}")
            arrow = source.read(columns=list(chosen))
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a Parquet file: {error}") from error
    except OSError as error:
        raise InputError(f"path: {path} cannot be read: {error.strerror or error}") from error
    values = np.empty((arrow.num_rows, len(chosen)))
    for position, name in enumerate(chosen):
        # Integers beyond 2^53 are rounded, as everywhere in float64.
        values[:, position] = arrow.column(name).cast(pa.float64(), safe=False).to_numpy()
    return _complete(chosen, values, drop_missing, str(path), lambda row: f"row {row}")


def column_names(path: str | Path) -> tuple[str, ...]:
    """Return the names of the columns of a CSV or Parquet file, whatever they hold."""
    return _labels(path, None)[0]


def read_labels(path: str | Path, column: str) -> list[str]:
    """Read a column of text or whole numbers as text, one label for each row, in the order of the rows.

    Spaces around the text of a CSV file are not part of it; whole numbers of a Parquet file are written in decimal.

    Raises
    ------
    InputError
        If there is no such column, a label is missing, or a Parquet column holds anything else. The message names the
        row and quotes no label.
    """
    labels = _labels(path, column)[1]
    for row, label in enumerate(labels, 1):
        if label.lower() in MISSING:
            raise InputError(f"{path}: column {column!r}, row {row}: the label is missing")
    return labels


def _labels(path: str | Path, column: str | None) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of all columns, and the text of one of them if it is asked for."""
    try:
        if Path(path).suffix.lower() == ".parquet":
            return _parquet_labels(path, column)
        source = _CsvFile(Path(path), ",")
        if column is None:
            return source.header, []
        position = position_of(column, source.header, "key")
        return source.header, [cells[position].strip() for _, cells in source._records()]
    except OSError as error:
        raise InputError(f"path: {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.object[error.start]:#04x} found, UTF-8 text expected") from error
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file: {error}") from error


def _pyarrow(path: str | Path) -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet, or say how to get them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(f"path: {path} needs pyarrow to be read: pip install dpmpc[parquet]") from error
    return pa, pq


def _parquet_labels(path: str | Path, column: str | None) -> tuple[tuple[str, ...], list[str]]:
    pa, pq = _pyarrow(path)
    try:
        with pq.ParquetFile(path) as source:
            names = check_names(source.schema_arrow.names, str(path))
            if column is None:
                return names, []
            kind = source.schema_arrow.types[position_of(column, names, "key")]
            if not any(test(kind) for test in (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)):
                raise InputError(f"{path}: column {column!r} holds {kind}, text or whole numbers expected")
            values = source.read(columns=[column]).column(column).to_pylist()
            return names, ["" if value is None else str(value).strip() for value in values]
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a Parquet file: {error}") from error


def write_csv(path: str | Path, table: Table) -> None:
    """Write a table so that `read_csv` gives the same numbers back, bit for bit.

    The file appears whole or not at all, and is readable by its owner only, because rows are personal data.
    """
    target = Path(path)
    try:
        descriptor, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"path: {path} cannot be written: {error.strerror}") from error
    try:
        with open(descriptor, "w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(table.names)
            for start in range(0, len(table), _WRITE_ROWS):
                writer.writerows(table.values[start : start + _WRITE_ROWS].tolist())
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise


class _CsvFile:
    """A CSV file with a header: the quick way through it, and the slow one that can say what is wrong where."""

    def __init__(self, path: Path, delimiter: str):
        self.path = path
        self.delimiter = delimiter
        with self._open() as handle:
            first = next(csv.reader(handle, delimiter=delimiter, strict=True), [])
        if not first:
            raise InputError(f"{path}: line 1 is empty, a header line with the names of the columns expected")
        if all(_number(cell) is not None for cell in first):
            raise InputError(
                f"{path}: line 1 is {', '.join(first)}, a header line with the names of the columns expected"
            )
        if len(first) == 1 and set(first[0]) & set(";\t"):
            raise InputError(f"{path}: line 1 is {first[0]!r}, names separated by {delimiter!r} expected")
        self.header = check_names([name.strip() for name in first], str(path))

    def numbers(self, positions: list[int]) -> NDArray[np.float64]:
        """Return the columns at `positions`, NaN where missing, shape (rows, len(positions))."""
        if next(self._records(), None) is None:
            raise InputError(f"{self.path}: no rows after the header line, at least one expected")
        everything = positions == list(range(len(self.header)))
        try:
            values = np.loadtxt(
                self.path,
                delimiter=self.delimiter,
                skiprows=1,
                usecols=None if everything else positions,
                comments=None,
                quotechar='"',
                ndmin=2,
                encoding="utf-8-sig",
            )
        except ValueError:
            return self._numbers_cell_by_cell(positions)
        # The quick parser overlooks cells beyond the chosen columns: have every row's width checked.
        if not everything or values.shape[1] != len(self.header):
            for _ in self._records():
                pass
        return values

    def locate(self, row: int) -> str:
        """Name a row, counted from 1, together with its line in the file."""
        line = next(line for index, (line, _) in enumerate(self._records(), 1) if index == row)
        return f"row {row} (line {line})"

    def _open(self) -> Any:
        return self.path.open(newline="", encoding="utf-8-sig")

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and cells of every row, or refuse one that has not as many cells as the header."""
        width = len(self.header)
        with self._open() as handle:
            reader = csv.reader(handle, delimiter=self.delimiter, strict=True)
            next(reader)
            row = 0
            for cells in reader:
                if not cells:
                    continue
                row += 1
                if len(cells) != width:
                    place = f"{self.path}: row {row} (line {reader.line_num})"
                    raise InputError(f"{place} has {len(cells)} cells, {width} expected as in the header line")
                yield reader.line_num, cells

    def _numbers_cell_by_cell(self, positions: list[int]) -> NDArray[np.float64]:
        values = array.array("d")
        for row, (line, cells) in enumerate(self._records(), 1):
            for position in positions:
                number = _number(cells[position])
                if number is None:
                    place = f"{self.path}: column {self.header[position]!r}, row {row} (line {line})"
                    hint = _numeric_hint(self._numeric_columns())
                    raise InputError(f"{place}: {cells[position]!r} is no number{hint}")
                values.append(number)
        return np.array(values).reshape(-1, len(positions))

    def _numeric_columns(self) -> list[str]:
        numeric = set(range(len(self.header)))
        for _, cells in self._records():
            numeric = {position for position in numeric if _number(cells[position]) is not None}
        return [self.header[position] for position in sorted(numeric)]


def _number(cell: str) -> float | None:
    """Read a cell: NaN if it is missing, None if it is no number."""
    if cell.strip().lower() in MISSING:
        return np.nan
    # Python alone would take 1_000 and digits of other scripts.
    if "_" in cell or not cell.isascii():
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _numeric_hint(names: Sequence[str]) -> str:
    return f"; columns of numbers are: {', '.join(names)}" if names else "; no column holds only numbers"


def _holds_numbers(pa: Any, kind: Any) -> bool:
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    return any(test(kind) for test in tests)


def _frame_keys(X: Any) -> list[Any] | None:
    """Return the keys of a data frame's columns, None if `X` is no data frame."""
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        return list(X.columns)
    if hasattr(X, "__dataframe__"):
        return list(X.__dataframe__().column_names())
    return None


def _read_frame(X: Any, keys: list[Any]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    labels = check_names([str(key) for key in keys], "X")
    columns = [_column_values(label, np.asarray(X[key])) for label, key in zip(labels, keys, strict=True)]
    return labels, np.column_stack(columns)


def _read_array(X: Any, names: Sequence[str] | None) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    matrix = _two_dimensional("X", X)
    if names is None and not matrix.shape[1]:
        raise InputError(f"X: 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required.")
    labels = check_names(default_names(matrix.shape[1]) if names is None else names, "names")
    expect_columns("X", matrix, labels)
    if matrix.dtype.kind == "O":
        columns = [_column_values(label, column) for label, column in zip(labels, matrix.T, strict=True)]
        return labels, np.column_stack(columns)
    return labels, numeric_matrix("X", matrix).astype(np.float64, copy=False)


def _two_dimensional(where: str, X: Any) -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray):
        raise InputError(f"{where}: a masked array given; fill in its missing values first")
    if hasattr(X, "nnz"):
        raise InputError(f"{where}: a sparse {type(X).__name__} given, a dense array expected; X.toarray() makes one")
    matrix = np.asarray(X)
    if matrix.ndim != 2:
        hint = ". Reshape your data with X.reshape(-1, 1), if it is one column" if matrix.ndim == 1 else ""
        raise InputError(f"{where}: shape {matrix.shape} given, two dimensions (rows, columns) expected{hint}")
    return matrix


def _real_numbers(where: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "biuf":
        hint = ". Complex data not supported" if values.dtype.kind == "c" else ""
        raise InputError(f"{where}: values of type {values.dtype} given, real numbers expected{hint}")
    return values


def _column_values(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """Return one column as float64, NaN for None, or refuse what holds text, dates or other objects."""
    if column.ndim == 1 and column.dtype.kind in "biuf":
        return column.astype(np.float64, copy=False)
    if column.ndim != 1 or column.dtype.kind != "O":
        raise InputError(f"X: column {name!r} holds {column.dtype}, real numbers expected")
    for row, value in enumerate(column, 1):
        if value is not None and not isinstance(value, Real):
            raise InputError(f"X: column {name!r}, row {row}: {value!r} given, a real number expected")
    return column.astype(np.float64)


def _complete(
    names: tuple[str, ...], values: NDArray[np.float64], drop_missing: bool, where: str, locate: Callable[[int], str]
) -> Table:
    """Make the table of values that may be missing (NaN): drop their rows if asked to, refuse them otherwise."""
    finite = np.isfinite(values)
    if finite.all():
        return Table(names, values)
    bad = ~finite & ~np.isnan(values) if drop_missing else ~finite
    if bad.any():
        row, column = np.argwhere(bad)[0]
        place = f"{where}: column {names[column]!r}, {locate(int(row) + 1)}"
        if np.isnan(values[row, column]):
            raise InputError(f"{place}: the value is missing (NaN); fill it in, or drop such rows with drop_missing")
        raise InputError(f"{place}: {values[row, column]} given, a finite number expected")
    kept = values[finite.all(axis=1)]
    if not len(kept):
        raise InputError(f"{where}: a value is missing in each of the {len(values)} rows; none would be left")
    return Table(names, kept, dropped=len(values) - len(kept))
