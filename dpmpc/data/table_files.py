"""Read tables from files: CSV or Parquet, distinguished by the endings of their names, one file or several."""

from __future__ import annotations

import bisect
import contextlib
import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage.files import whole
from dpmpc.data.csv_files import MISSING, STANDARD_INPUT, USUAL, CsvFile, Dialect, input_errors, is_csv, numeric_hint
from dpmpc.data.table import Cell, Cells, Fill, Table, cell_of, check_names, complete, listed, position_of, positions_of

_WRITE_ROWS = 4096

#: A file, or several that continue each other.
Paths: TypeAlias = str | Path | Sequence[str | Path]


def read_table(
    path: Paths,
    columns: Sequence[str] | None = None,
    *,
    drop_missing: bool = False,
    fill: Fill = None,
    dialect: Dialect = USUAL,
    row_group: int | None = None,
) -> Table:
    """Read a table of numbers: CSV with a header line, or Parquet (with ``dpmpc[parquet]``).

    Parameters
    ----------
    path : str, Path or sequence of these
        A ``.csv`` or ``.tsv`` file, also compressed (``.csv.gz``), "-" for CSV from standard input, a ``.parquet``
        file, or a folder of these; or several such files, which continue each other and need the chosen columns each.
    columns : sequence of str, optional
        The columns to read, in this order; the others may hold anything. All columns by default.
    drop_missing : bool
        Leave out rows in which one of these columns is missing and count them in ``dropped``, instead of refusing them.
        Nothing may be released of what is left before `Table.with_public_count`.
    fill : float or mapping, optional
        Put this number, or that of the column, in the place of a missing value instead.
    dialect : Dialect
        Separator and decimal sign of CSV files.
    row_group : int, optional
        Read this row group of a Parquet file alone, counted from 0.

    Raises
    ------
    InputError
        If a file cannot be read as a table of finite numbers. The message names the file and, where there is one,
        the column, the row and the line.
    """
    files = _Files(path, dialect, row_group)
    chosen, positions = files.positions(columns)
    values = []
    for one, places in zip(files.each, positions, strict=True):
        with input_errors(one.path):
            values.append(one.numbers(places))
    files.count([len(each) for each in values])
    joined = values[0] if len(values) == 1 else np.concatenate(values)
    with input_errors(files.name):
        return complete(chosen, joined, drop_missing, files.name, files.locate, fill)


def read_cells(
    path: Paths, columns: Sequence[str] | None = None, *, dialect: Dialect = USUAL, row_group: int | None = None
) -> Cells:
    """Read columns of any kind as text; arguments are those of `read_table`.

    Raises
    ------
    InputError
        If a file cannot be read, or lacks one of the columns.
    """
    files = _Files(path, dialect, row_group)
    chosen, positions = files.positions(columns)
    parts = []
    for one, places in zip(files.each, positions, strict=True):
        with input_errors(one.path):
            parts.append(one.texts(places))
    files.count([len(part[0]) for part in parts])
    joined = [[cell for part in parts for cell in part[place]] for place in range(len(chosen))]
    return Cells(chosen, joined, dialect.number, files.name, files.locate)


def read_csv(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    drop_missing: bool = False,
    fill: Fill = None,
    delimiter: str | None = None,
) -> Table:
    """Read UTF-8 text with a header line, whatever the file is called; cells in `MISSING` count as missing."""
    with input_errors(path):
        source = CsvFile(path, Dialect(delimiter))
        chosen = source.header if columns is None else check_names(columns, "columns")
        positions = positions_of(chosen, source.header, "columns")
        return complete(chosen, source.numbers(positions), drop_missing, str(path), source.locate, fill)


def read_parquet(
    path: str | Path, columns: Sequence[str] | None = None, *, drop_missing: bool = False, fill: Fill = None
) -> Table:
    """Read columns of numbers or truth values, whatever the file is called; nulls and NaN count as missing."""
    source = ParquetFile(path)
    chosen = source.header if columns is None else check_names(columns, "columns")
    positions = positions_of(chosen, source.header, "columns")
    return complete(chosen, source.numbers(positions), drop_missing, str(path), source.locate, fill)


def write_csv(path: str | Path, table: Table) -> None:
    """Write a table so that `read_csv` gives the same numbers back, bit for bit.

    The file appears whole or not at all, and is readable by its owner only, because rows are personal data.
    """
    try:
        with whole(path, mode=0o600) as file:
            handle = io.TextIOWrapper(file, newline="", encoding="utf-8")
            writer = csv.writer(handle)
            writer.writerow(table.names)
            for start in range(0, len(table), _WRITE_ROWS):
                writer.writerows(table.values[start : start + _WRITE_ROWS].tolist())
            handle.detach()  # which flushes it; the file stays open
    except OSError as error:
        raise InputError("path", f"{path} cannot be written: {error.strerror or error}") from error


def column_names(path: Paths, dialect: Dialect = USUAL) -> tuple[str, ...]:
    """Return the names of the columns of a CSV or Parquet file, whatever they hold."""
    return _Files(path, dialect).each[0].header


def row_groups(path: str | Path) -> list[tuple[str, int]]:
    """Return the row groups of a Parquet file, or of those of a folder: file and number of each, in their order.

    Raises
    ------
    InputError
        If it is another file, or cannot be read.
    """
    groups: list[tuple[str, int]] = []
    for file in _listed(path):
        if Path(file).suffix.lower() != ".parquet":
            raise InputError("path", path, "a Parquet file, or a folder of them", "its rows are read by row groups")
        groups.extend((str(file), number) for number in ParquetFile(file).filled_row_groups())
    return groups


def read_labels(path: str | Path, column: str) -> list[str]:
    """Read a column of text or whole numbers as text, one label for each row, in the order of the rows.

    Spaces around the text of a CSV file are not part of it; whole numbers of a Parquet file are written in decimal.

    Raises
    ------
    InputError
        If there is no such column, a label is missing, or a Parquet column holds anything else. The message names the
        row and quotes no label.
    """
    with input_errors(path):
        source = ParquetFile(path) if Path(path).suffix.lower() == ".parquet" else CsvFile(path)
        position = position_of(column, source.header, "key")
        labels = source.labels(position) if isinstance(source, ParquetFile) else source.texts([position])[0]
    for row, label in enumerate(labels, 1):
        if label.lower() in MISSING:
            raise InputError(path, f"column {column!r}, row {row}: the label is missing")
    return labels


class _Files:
    """Files that continue each other."""

    def __init__(self, path: Paths, dialect: Dialect, row_group: int | None = None):
        paths = [path] if isinstance(path, str | Path) else list(path)
        if not paths:
            raise InputError("path", "no file", "at least one")
        if sum(str(one) == STANDARD_INPUT for one in paths) > 1:
            raise InputError("path", "'-' given twice, standard input can be read only once")
        self.each = [_opened(one, dialect, row_group) for given in paths for one in _listed(given)]
        self.name = ", ".join(str(one.path) for one in self.each)
        self._ends: list[int] = []

    def positions(self, columns: Sequence[str] | None) -> tuple[tuple[str, ...], list[list[int]]]:
        """Return the names of the columns to read, and their places in each file."""
        chosen = self.each[0].header if columns is None else check_names(columns, "columns")
        for one in self.each[1:]:
            there = set(one.header)
            for name in chosen:
                if name not in there:
                    raise InputError(
                        one.path, f"no column {name!r}, which {self.each[0].path} has; there are {listed(one.header)}"
                    )
        return chosen, [positions_of(chosen, one.header, "columns") for one in self.each]

    def count(self, rows: list[int]) -> None:
        """Note how many rows each file has."""
        self._ends = np.cumsum(rows).tolist()

    def locate(self, row: int) -> str:
        """Name a row, counted from 1 over all files, together with its place in its file."""
        place = bisect.bisect_left(self._ends, row)
        found = self.each[place].locate(row - (self._ends[place - 1] if place else 0))
        return found if len(self.each) == 1 else f"{found} of {self.each[place].path}"


def _listed(path: str | Path) -> list[Path | str]:
    """Return a file itself, or the Parquet files of a folder in the order of their names."""
    if is_csv(path) or not Path(path).is_dir():
        return [path]
    found: list[Path | str] = sorted(Path(path).glob("*.parquet"))
    if not found:
        raise InputError("path", f"{path} is a folder without Parquet files (*.parquet), a file or files expected")
    return found


def _opened(path: str | Path, dialect: Dialect, row_group: int | None) -> CsvFile | ParquetFile:
    """Open a file by the ending of its name."""
    if Path(path).suffix.lower() == ".parquet":
        return ParquetFile(path, row_group)
    if row_group is not None:
        raise InputError("row_group", row_group, "none", condition=f"of {path}, which is no Parquet file")
    if is_csv(path):
        with input_errors(path):
            return CsvFile(path, dialect)
    raise InputError(
        "path",
        path,
        "a file whose name ends in .csv or .parquet",
        ".tsv, .csv.gz and .tsv.gz are read too, and - is CSV from standard input",
    )


class ParquetFile:
    """A Parquet file, or one of its row groups."""

    def __init__(self, path: str | Path, row_group: int | None = None):
        self.path, self._row_group = path, row_group
        self._arrow, self._parquet = load_pyarrow(path)
        with self._open() as source:
            self.header = check_names(source.schema_arrow.names, str(path))
            self._types = source.schema_arrow.types

    def numbers(self, positions: list[int]) -> Reals:
        """Return columns of numbers or truth values, NaN where missing, shape (rows, len(positions))."""
        for position in positions:
            if not self._holds_numbers(position):
                numeric = [name for place, name in enumerate(self.header) if self._holds_numbers(place)]
                raise InputError(
                    self.path, f"column {self.header[position]!r} holds {self._types[position]}{numeric_hint(numeric)}"
                )
        table = self._read(positions)
        values = np.empty((table.num_rows, len(positions)))
        for column, position in enumerate(positions):
            # Integers beyond 2^53 are rounded, as everywhere in float64.
            arrow = table.column(self.header[position]).cast(self._arrow.float64(), safe=False)
            values[:, column] = arrow.to_numpy()
        return values

    def texts(self, positions: list[int]) -> list[list[Cell]]:
        """Return columns as text, numbers and truth values too; dates stay dates, and None is what is missing."""
        table = self._read(positions)
        found = []
        for position in positions:
            kind = self._types[position]
            if self._arrow.types.is_nested(kind) or self._arrow.types.is_binary(kind):
                raise InputError(self.path, f"column {self.header[position]!r} holds {kind}, text expected")
            found.append([cell_of(value) for value in table.column(self.header[position]).to_pylist()])
        return found

    def labels(self, position: int) -> list[str]:
        """Return a column of text or whole numbers as text, empty where it is missing."""
        kind, types = self._types[position], self._arrow.types
        if not any(test(kind) for test in (types.is_integer, types.is_string, types.is_large_string)):
            raise InputError(
                self.path, f"column {self.header[position]!r} holds {kind}, text or whole numbers expected"
            )
        return ["" if cell is None else str(cell) for cell in self.texts([position])[0]]

    def locate(self, row: int) -> str:
        """Name a row, counted from 1."""
        return f"row {row}" if self._row_group is None else f"row {row} of row group {self._row_group}"

    def filled_row_groups(self) -> list[int]:
        """Return the numbers of the row groups that have rows."""
        with self._open() as source:
            return [number for number in range(source.num_row_groups) if source.metadata.row_group(number).num_rows]

    def _read(self, positions: list[int]) -> Any:
        columns = [self.header[position] for position in positions]
        with self._open() as source:
            if self._row_group is None:
                return source.read(columns=columns)
            return source.read_row_group(self._row_group, columns=columns)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            with self._parquet.ParquetFile(self.path) as source:
                yield source
        except self._arrow.ArrowInvalid as error:
            raise InputError(self.path, f"not a Parquet file: {error}") from error
        except OSError as error:
            raise InputError("path", f"{self.path} cannot be read: {error.strerror or error}") from error

    def _holds_numbers(self, position: int) -> bool:
        types, kind = self._arrow.types, self._types[position]
        tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
        return any(test(kind) for test in tests)


def load_pyarrow(path: str | Path, argument: str = "path") -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet, or return how to get them; `argument` is what the error names."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(
            argument, f"{path} needs pyarrow to be read: pip install '.[parquet]' in dpmpc's source folder"
        ) from error
    return pa, pq
