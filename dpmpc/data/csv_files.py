"""Read CSV files with a header line: plain or compressed, with any separator and decimal sign, or standard input.

A file may come from another party, so that no line is kept in memory that is longer than `LONGEST_LINE`: a compressed
file of 3 MB can hold one line of 3 GB, and a quotation mark that is never closed makes one cell of all lines that
follow. Both end in an `InputError` soon after the limit. Rows that are short are as many as the file has.
"""

from __future__ import annotations

import array
import contextlib
import csv
import functools
import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data.table import check_names, listed

#: What stands for a missing value in a CSV file, in lower case.
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null"})

#: Names standard input where a file is expected.
STANDARD_INPUT = "-"

_SEPARATORS = {"tab": "\t", "\\t": "\t"}
_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True)
class Dialect:
    """How the cells of a CSV file are separated, and what stands before decimals.

    Parameters
    ----------
    separator : str, optional
        One character, or "tab". By default a tab in a ``.tsv`` file, a semicolon where the decimal sign is a comma, and
        else a comma.
    decimal : {".", ","}
        The decimal sign. Marks of thousands are refused with both.

    Raises
    ------
    InputError
        If the separator is no single character, a quote, or the decimal sign.
    """

    separator: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise InputError("decimal", f"{self.decimal!r}", "'.' or ','")
        if self.separator is None:
            return
        separator = _SEPARATORS.get(self.separator, self.separator)
        if len(separator) != 1 or separator in '"\r\n' or separator.isalnum():
            raise InputError("separator", f"{self.separator!r}", "one sign such as ',' or ';', or 'tab'")
        if separator == self.decimal:
            raise InputError("separator", f"{separator!r} given, which is the decimal sign too; another one expected")
        object.__setattr__(self, "separator", separator)

    def separator_in(self, path: str | Path) -> str:
        """Return what separates the cells of a file."""
        if self.separator is not None:
            return self.separator
        if str(path).lower().endswith((".tsv", ".tsv.gz")):
            return "\t"
        return ";" if self.decimal == "," else ","

    def number(self, cell: str) -> float | None:
        """Read a cell: NaN if it is missing, None if it is not a number."""
        if cell.strip().lower() in MISSING:
            return np.nan
        # Python alone would take 1_000 and digits of other scripts.
        if "_" in cell or not cell.isascii():
            return None
        if self.decimal == ",":
            if "." in cell:
                return None
            cell = cell.replace(",", ".")
        try:
            return float(cell)
        except ValueError:
            return None


USUAL = Dialect()


def is_csv(path: str | Path) -> bool:
    """Return whether a name is that of a CSV file, by its ending, or stands for standard input."""
    return str(path) == STANDARD_INPUT or str(path).lower().endswith(_ENDINGS)


@contextlib.contextmanager
def input_errors(path: str | Path) -> Iterator[None]:
    """Turn errors of reading a file into an `InputError` that names it."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(path, f"not a whole gzip file: {error}") from error
    except OSError as error:
        raise InputError("path", f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            path, f"byte {error.object[error.start]:#04x} found, UTF-8 expected: save the file as UTF-8"
        ) from error
    except csv.Error as error:
        raise InputError(path, f"not a CSV file: {error}") from error


@functools.cache
def _standard_input() -> bytes:
    """Return all of standard input, which can be read only once."""
    return sys.stdin.buffer.read()


class CsvFile:
    """A CSV file with a header: the quick way through it, and the slow one that can state what is wrong where."""

    def __init__(self, path: str | Path, dialect: Dialect = USUAL):
        self.path = path
        self.dialect = dialect
        self.separator = dialect.separator_in(path)
        with self._open() as handle:
            _, first = next(bounded_records(handle, self.separator, path), (0, []))
        if not first:
            raise InputError(path, "line 1 is empty, a header line with the names of the columns expected")
        if all(dialect.number(cell) is not None for cell in first):
            raise InputError(
                path, f"line 1 is {', '.join(first)}, a header line with the names of the columns expected"
            )
        if len(first) == 1 and (others := set(first[0]) & set(";\t,") - {self.separator}):
            other = "tab" if (sign := min(others)) == "\t" else sign
            raise InputError(
                path,
                f"line 1 is {first[0]!r}, names separated by {self.separator!r} expected; "
                f"separator={other!r} (--separator {other!r}) reads the file as it is, with decimal=',' "
                "(--decimal ,) where numbers have a decimal comma",
            )
        self.header = check_names([name.strip() for name in first], str(path))

    def numbers(self, positions: list[int]) -> Reals:
        """Return the columns at `positions`, NaN where missing, shape (rows, len(positions))."""
        if next(self.records(), None) is None:
            raise InputError(self.path, "no rows after the header line, at least one expected")
        if self.dialect.decimal == ",":
            return self._numbers_cell_by_cell(positions)
        everything = positions == list(range(len(self.header)))
        try:
            with self._open(quick=True) as handle:
                values = np.loadtxt(
                    handle,
                    delimiter=self.separator,
                    skiprows=1,
                    usecols=None if everything else positions,
                    comments=None,
                    quotechar='"',
                    ndmin=2,
                )
        except ValueError:
            return self._numbers_cell_by_cell(positions)
        # The quick parser overlooks cells beyond the chosen columns: have every row's width checked.
        if not everything or values.shape[1] != len(self.header):
            for _ in self.records():
                pass
        return values

    def texts(self, positions: list[int]) -> list[list[str]]:
        """Return the columns at `positions` as text, without the spaces around it."""
        columns: list[list[str]] = [[] for _ in positions]
        for _, cells in self.records():
            for column, position in zip(columns, positions, strict=True):
                column.append(cells[position].strip())
        if not columns[0]:
            raise InputError(self.path, "no rows after the header line, at least one expected")
        return columns

    def locate(self, row: int) -> str:
        """Name a row, counted from 1, together with its line in the file."""
        line = next(line for index, (line, _) in enumerate(self.records(), 1) if index == row)
        return f"row {row} (line {line})"

    def _open(self, *, quick: bool = False) -> TextIO:
        """Open the file as text of lines that are not too long; `quick` is for a parser without a longest cell."""
        return io.TextIOWrapper(
            cast(BinaryIO, BoundedLines(self._open_bytes(), self.path, quotes=quick)), encoding="utf-8-sig", newline=""
        )

    def _open_bytes(self) -> BinaryIO:
        if str(self.path) == STANDARD_INPUT:
            return io.BytesIO(_standard_input())
        if str(self.path).lower().endswith(".gz"):
            return cast(BinaryIO, gzip.open(self.path, "rb"))
        return Path(self.path).open("rb", buffering=0)

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and cells of every row, or refuse one whose number of cells differs from the header's."""
        width = len(self.header)
        with self._open() as handle:
            records = bounded_records(handle, self.separator, self.path)
            next(records)
            row = 0
            for line, cells in records:
                if not cells:
                    continue
                row += 1
                if len(cells) != width:
                    place = f"{self.path}: row {row} (line {line})"
                    raise InputError(place, f"{len(cells)} cells", width, condition="as in the header line")
                yield line, cells

    def _numbers_cell_by_cell(self, positions: list[int]) -> Reals:
        values = array.array("d")
        for row, (line, cells) in enumerate(self.records(), 1):
            for position in positions:
                number = self.dialect.number(cells[position])
                if number is None:
                    place = f"{self.path}: column {self.header[position]!r}, row {row} (line {line})"
                    raise InputError(
                        place, f"{cells[position]!r} is not a number{numeric_hint(self._numeric_columns())}"
                    )
                values.append(number)
        return np.array(values).reshape(-1, len(positions))

    def _numeric_columns(self) -> list[str]:
        numeric = set(range(len(self.header)))
        for _, cells in self.records():
            numeric = {position for position in numeric if self.dialect.number(cells[position]) is not None}
        return [self.header[position] for position in sorted(numeric)]


def numeric_hint(names: Sequence[str]) -> str:
    """Return the end of a message that names the columns that could be read."""
    if not names:
        return "; no column holds only numbers"
    return f"; columns of numbers are: {listed(names)}; name those to read: columns=[..], --columns or a bounds file"


LONGEST_LINE = 1 << 24  # bytes: a million columns
CHUNK_BYTES = 1 << 16


class LongQuotation(ValueError):
    """What looks like one cell goes on for too long: a parser of cells that are bounded has to state what it is."""


class BoundedLines(io.RawIOBase):
    """The bytes of a file, refused where a line is too long."""

    def __init__(self, source: BinaryIO, path: str | Path, *, quotes: bool):
        self._source, self._path, self._quotes = source, path, quotes
        self._line = self._quoted = 0  # bytes since the last line ended, and since it ended outside of quotes
        self._odd = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return some bytes, which may be more than `size`: a text wrapper takes what it gets."""
        part = self._source.read(max(size, CHUNK_BYTES))
        end = max(part.rfind(b"\n"), part.rfind(b"\r"))
        self._line = self._line + len(part) if end < 0 else len(part) - end - 1
        if self._line > LONGEST_LINE:
            raise InputError(self._path, f"a line of more than {LONGEST_LINE:,} bytes found, shorter ones expected")
        if self._quotes:
            self._count_quotes(part, end)
        return part

    def close(self) -> None:
        """Close the source too."""
        self._source.close()
        super().close()

    def _count_quotes(self, part: bytes, end: int) -> None:
        outside = end >= 0 and (part.count(b'"', 0, end) % 2 == 1) == self._odd
        self._quoted = self._line if outside else self._quoted + len(part)
        self._odd ^= part.count(b'"') % 2 == 1
        if self._quoted > LONGEST_LINE:
            raise LongQuotation(f"{self._path}: a quotation of more than {LONGEST_LINE:,} bytes")


def bounded_records(handle: TextIO, separator: str, path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each record with the number of its last line, or refuse a record that is too long."""
    length = 0

    def lines() -> Iterator[str]:
        nonlocal length
        for line in handle:
            length += len(line)
            if length > LONGEST_LINE:
                raise InputError(path, f"a row of more than {LONGEST_LINE:,} characters found, shorter ones expected")
            yield line

    reader = csv.reader(lines(), delimiter=separator, strict=True)
    for cells in reader:
        length = 0
        yield reader.line_num, cells
