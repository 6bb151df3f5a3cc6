"""CSV files with a header line."""

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
from dpmpc.tables.names import check_names, position_of
from dpmpc.tables.table import Fill, Table, complete

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
    """Say what is wrong with a file that is read, whatever its kind."""
    try:
        yield
    except OSError as error:
        raise InputError(f"path: {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.object[error.start]:#04x} found, UTF-8 expected: save it so") from error
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
        for row, (line, cells) in enumerate(self.records(), 1):
            for position in positions:
                number = _number(cells[position])
                if number is None:
                    place = f"{self.path}: column {self.header[position]!r}, row {row} (line {line})"
                    hint = numeric_hint(self._numeric_columns())
                    raise InputError(f"{place}: {cells[position]!r} is no number{hint}")
                values.append(number)
        return np.array(values).reshape(-1, len(positions))

    def _numeric_columns(self) -> list[str]:
        numeric = set(range(len(self.header)))
        for _, cells in self.records():
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


def numeric_hint(names: Sequence[str]) -> str:
    """Say which columns could be read."""
    if not names:
        return "; no column holds only numbers"
    return f"; columns of numbers are: {', '.join(names)}; name those to read: columns=[..], --columns or a bounds file"
