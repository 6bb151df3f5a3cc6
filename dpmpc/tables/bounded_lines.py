"""Read lines of CSV that may be somebody else's: none is kept in memory that is longer than `LONGEST_LINE`.

A compressed file of 3 MB can hold one line of 3 GB, and a quotation mark that is never closed makes one cell of all
lines that follow. Both end in an `InputError` soon after the limit. Rows that are short are as many as the file has.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from dpmpc.errors import InputError

LONGEST_LINE = 1 << 24  # bytes: a million columns
CHUNK_BYTES = 1 << 16


class LongQuotation(ValueError):
    """What looks like one cell goes on for too long: a parser of cells that are bounded has to say what it is."""


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
            raise InputError(f"{self._path}: a line of more than {LONGEST_LINE:,} bytes found, shorter ones expected")
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
                raise InputError(f"{path}: a row of more than {LONGEST_LINE:,} characters found, shorter ones expected")
            yield line

    reader = csv.reader(lines(), delimiter=separator, strict=True)
    for cells in reader:
        length = 0
        yield reader.line_num, cells
