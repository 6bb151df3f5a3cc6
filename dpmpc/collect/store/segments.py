"""Keep rows of words in files of fixed size: append, gather in any order, and compare with checksums.

Row number `position` is row ``position % rows`` of ``segment-NNNNNN.npy``, NNNNNN = ``position // rows``. Each file is
a valid ``.npy`` of uint64, (rows, copies, width), from the moment that it has its name: rows not yet written are zero
and take no room on the disk.

Promised: what `Segments.write` returned for survives a loss of power, the file's name included; a `SpoolShare` never
returns words whose checksum is another than that of the words that were added. Not promised: which rows mean anything,
and what their checksums have to be. The index knows both (`dpmpc.collect.store.spool_index`).
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Integers, Words
from dpmpc.base.errors import SpoolError
from dpmpc.base.storage.database import typed_errors
from dpmpc.base.storage.files import sync
from dpmpc.collect.store.report_store import checksums
from dpmpc.linear.encoding.ring import Ring
from dpmpc.linear.sharing.batch import Share, npy_header

_BLOCK_BYTES = 1 << 26  # of a batch's words that are in memory while it is read
_CHECKED_ROWS = 1 << 14  # at once
_PIECE_BYTES = 1 << 24  # read at once
_GAP_BYTES = 1 << 16  # rows closer than this are read in one go


class Segments:
    """The files of one folder."""

    def __init__(self, folder: Path, rows: int, shape: tuple[int, int]):
        self.shape = shape
        self.row_bytes = 8 * math.prod(shape)
        self._folder, self._rows = folder, rows
        self._header = npy_header((rows, *shape))
        self._piece = max(1, _PIECE_BYTES // self.row_bytes)
        self._ready = -1  # the segment whose name this process has synced

    @property
    def block_rows(self) -> int:
        """How many rows may be in memory at once."""
        return max(1, _BLOCK_BYTES // self.row_bytes)

    def write(self, position: int, words: Words) -> None:
        """Write rows from `position` on, and return when they are on the disk."""
        while len(words):
            segment, row = divmod(position, self._rows)
            part = words[: self._rows - row]
            self._prepare(segment)
            self._write(segment, row, part)
            words, position = words[len(part) :], position + len(part)

    def read(self, positions: Integers) -> Words:
        """Return rows in the order of their positions; neighbours are read together."""
        out = np.empty((len(positions), *self.shape), np.uint64)
        order = np.argsort(positions)
        ascending = positions[order]
        pieces = ascending // self._rows * self._rows + ascending % self._rows // self._piece
        far = np.diff(ascending) * self.row_bytes > _GAP_BYTES
        starts = [0, *(np.flatnonzero(far | (np.diff(pieces) != 0)) + 1).tolist()] if len(positions) else []
        with typed_errors(self._folder):
            for start, stop in zip(starts, [*starts[1:], len(positions)], strict=False):
                first, last = int(ascending[start]), int(ascending[stop - 1])
                out[order[start:stop]] = self._read(first, last + 1 - first)[ascending[start:stop] - first]
        return out

    def _path(self, segment: int) -> Path:
        return self._folder / f"segment-{segment:06d}.npy"

    def _prepare(self, segment: int) -> None:
        """Make the file unless it is there, and sync its name before anything relies on it."""
        if segment == self._ready:
            return
        path = self._path(segment)
        if not path.exists():
            unfinished = path.with_name(path.name + ".new")
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(self._header)
                file.truncate(len(self._header) + self._rows * self.row_bytes)
                os.fsync(file.fileno())
            unfinished.replace(path)
        sync(self._folder)  # the process that named the file may have been killed before it synced the name
        self._ready = segment

    def _write(self, segment: int, row: int, words: Words) -> None:
        content = np.ascontiguousarray(words).data.cast("B")
        offset = len(self._header) + row * self.row_bytes
        descriptor = os.open(self._path(segment), os.O_WRONLY)
        try:
            while content:
                written = os.pwrite(descriptor, content, offset)
                content, offset = content[written:], offset + written
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def _read(self, position: int, count: int) -> Words:
        segment, row = divmod(position, self._rows)
        offset = len(self._header) + row * self.row_bytes
        words = np.fromfile(self._path(segment), np.uint64, count * math.prod(self.shape), offset=offset)
        if words.nbytes != count * self.row_bytes:
            raise SpoolError(self._path(segment), f"ended early, rows {row} to {row + count - 1} expected")
        return words.reshape(count, *self.shape)


class SpoolShare(Share):
    """A share whose rows are gathered from segments, a block of consecutive ones at a time.

    A batch is in the order of the ids, and the segments are in the order in which reports came in. So every block goes
    through the segments once, and its rows are near one another there. What is read is compared with its checksums.
    Threads may not share it.
    """

    def __init__(
        self,
        segments: Segments,
        ring: Ring,
        ids: NDArray[np.bytes_],
        positions: Integers,
        expected: NDArray[np.bytes_],
    ):
        self._segments = segments
        self.shape, self.ring = (len(positions), *segments.shape), ring
        self._ids, self._positions, self._expected = ids, positions, expected
        self._first, self._block = 0, np.empty((0, *segments.shape), np.uint64)

    def _rows(self, first: int, count: int) -> Words:
        if first < self._first or first + count > self._first + len(self._block):
            self._load(first, max(count, self._segments.block_rows))
        return self._block[first - self._first :][:count]

    def _load(self, first: int, count: int) -> None:
        self._first, self._block = first, self._block[:0].copy()  # the old block's memory goes to the new one
        block = self._segments.read(self._positions[first : first + count])
        for start in range(first, first + len(block), _CHECKED_ROWS):
            rows = slice(start, min(start + _CHECKED_ROWS, first + len(block)))
            found = checksums(self._ids[rows], block[rows.start - first : rows.stop - first])
            if (found != self._expected[rows]).any():
                where = f"rows from {start} on, of {len(self._positions)} in the batch,"
                raise SpoolError(
                    "segments",
                    f"{where} are not as they were added; the next run finds and leaves out those that are "
                    "damaged, unless other servers have begun to open this batch",
                )
        self._block = block
