"""Read CSV files with a header line, and Parquet files by pyarrow; the ending of a file's name says which it is."""

from __future__ import annotations

import array
import contextlib
import csv
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError
from dpmpc.tables.table import Fill, Table, check_names, complete, position_of

#: What stands for a missing value in a CSV file, in lower case.
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null"})

_WRITE_ROWS = 4096


def read_csv(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    drop_missing: bool = False,
    fill: Fill = None,
    delimiter: str = ",",
) -> Table:
    """Read UTF-8 text with a header line, as `read_table` does; cells in `MISSING` count as missing."""
    with input_errors(path):
        source = CsvFile(Path(path), delimiter)
        chosen = source.header if columns is None else check_names(columns, "columns")
        positions = [position_of(name, source.header, "columns") for name in chosen]
        return complete(chosen, source.numbers(positions), drop_missing, str(path), source.locate, fill)


@contextlib.contextmanager
def input_errors(path: str | Path) -> Iterator[None]:
    """Turn errors of reading a file into an `InputError` that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"path: {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.object[error.start]:#04x} found, UTF-8 expected: save the file as UTF-8"
        ) from error
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file: {error}") from error


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


class CsvFile:
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
            raise InputError(
                f"{path}: line 1 is {first[0]!r}, names separated by {delimiter!r} expected: "
                "save the file with that separator and with decimal points"
            )
        self.header = check_names([name.strip() for name in first], str(path))

    def numbers(self, positions: list[int]) -> NDArray[np.float64]:
        """Return the columns at `positions`, NaN where missing, shape (rows, len(positions))."""
        if next(self.records(), None) is None:
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
            for _ in self.records():
                pass
        return values

    def locate(self, row: int) -> str:
        """Name a row, counted from 1, together with its line in the file."""
        line = next(line for index, (line, _) in enumerate(self.records(), 1) if index == row)
        return f"row {row} (line {line})"

    def _open(self) -> Any:
        return self.path.open(newline="", encoding="utf-8-sig")

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and cells of every row, or refuse one whose number of cells differs from the header's."""
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
        for row, (line, cells) in enumerate(self.records(), 1):
            for position in positions:
                number = _number(cells[position])
                if number is None:
                    place = f"{self.path}: column {self.header[position]!r}, row {row} (line {line})"
                    hint = numeric_hint(self._numeric_columns())
                    raise InputError(f"{place}: {cells[position]!r} is not a number{hint}")
                values.append(number)
        return np.array(values).reshape(-1, len(positions))

    def _numeric_columns(self) -> list[str]:
        numeric = set(range(len(self.header)))
        for _, cells in self.records():
            numeric = {position for position in numeric if _number(cells[position]) is not None}
        return [self.header[position] for position in sorted(numeric)]


def _number(cell: str) -> float | None:
    """Read a cell: NaN if it is missing, None if it is not a number."""
    if cell.strip().lower() in MISSING:
        return np.nan
    # Python alone would take 1_000 and digits of other scripts.
    if "_" in cell or not cell.isascii():
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def numeric_hint(names: Sequence[str]) -> str:
    """Return the end of a message that names the columns that could be read."""
    if not names:
        return "; no column holds only numbers"
    return f"; columns of numbers are: {', '.join(names)}; name those to read: columns=[..], --columns or a bounds file"


def read_parquet(
    path: str | Path, columns: Sequence[str] | None = None, *, drop_missing: bool = False, fill: Fill = None
) -> Table:
    """Read columns of numbers or truth values, as `read_table` does; nulls and NaN count as missing."""
    pa, pq = load_pyarrow(path)
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
                    raise InputError(f"{path}: column {name!r} holds {kind}{numeric_hint(numeric)}")
            arrow = source.read(columns=list(chosen))
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a Parquet file: {error}") from error
    except OSError as error:
        raise InputError(f"path: {path} cannot be read: {error.strerror or error}") from error
    values = np.empty((arrow.num_rows, len(chosen)))
    for position, name in enumerate(chosen):
        # Integers beyond 2^53 are rounded, as everywhere in float64.
        values[:, position] = arrow.column(name).cast(pa.float64(), safe=False).to_numpy()
    return complete(chosen, values, drop_missing, str(path), lambda row: f"row {row}", fill)


def load_pyarrow(path: str | Path, argument: str = "path") -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet, or say how to get them; `argument` is what the error names."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(f"{argument}: {path} needs pyarrow to be read: pip install 'dpmpc[parquet]'") from error
    return pa, pq


def parquet_labels(path: str | Path, column: str | None) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of all columns, and the text of one of them if it is asked for."""
    pa, pq = load_pyarrow(path)
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


def _holds_numbers(pa: Any, kind: Any) -> bool:
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    return any(test(kind) for test in tests)


def read_table(
    path: str | Path, columns: Sequence[str] | None = None, *, drop_missing: bool = False, fill: Fill = None
) -> Table:
    """Read a CSV file (``.csv``, with a header line) or a Parquet file (``.parquet``, with ``dpmpc[parquet]``).

    Parameters
    ----------
    path : str or Path
        The file.
    columns : sequence of str, optional
        The columns to read, in this order; the others may hold anything. All columns by default.
    drop_missing : bool
        Leave out rows in which one of these columns is missing and count them in ``dropped``, instead of refusing them.
        Nothing may be released of what is left before `Table.with_public_count`.
    fill : float or mapping, optional
        Put this number, or that of the column, in the place of a missing value instead.

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
    return readers[suffix](path, columns, drop_missing=drop_missing, fill=fill)


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
    with input_errors(path):
        if Path(path).suffix.lower() == ".parquet":
            return parquet_labels(path, column)
        source = CsvFile(Path(path), ",")
        if column is None:
            return source.header, []
        position = position_of(column, source.header, "key")
        return source.header, [cells[position].strip() for _, cells in source.records()]
