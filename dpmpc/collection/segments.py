"""Rows of words in files of fixed size, written at the end and gathered in any order.

Row number `position` is row ``position % rows`` of ``segment-NNNNNN.npy``, NNNNNN = ``position // rows``. Each file is
a valid ``.npy`` of uint64, (rows, copies, width), from the moment that it has its name: rows not yet written are zero
and take no room on the disk.

Promised: what `write` returned for survives a loss of power, the file's name included. Not promised: which rows mean
anything. That is the index's to know.
"""

from __future__ import annotations

import io
import math
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmpc.collection.database import typed_errors
from dpmpc.encoding.ring import Words
from dpmpc.errors import SpoolError
from dpmpc.storage import sync

_PIECE_BYTES = 1 << 24  # read at once
_GAP_BYTES = 1 << 16  # rows closer than this are read in one go


def npy_header(shape: tuple[int, ...]) -> bytes:
    """Return what precedes the words in a ``.npy`` file of uint64."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<u8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


class Segments:
    """The files of one folder.

    Parameters
    ----------
    folder : Path
        Private folder.
    rows : int
        Rows of a file.
    shape : tuple of int
        Shape of a row: copies, width.
    """

    def __init__(self, folder: Path, rows: int, shape: tuple[int, int]):
        self.shape = shape
        self.row_bytes = 8 * math.prod(shape)
        self._folder, self._rows = folder, rows
        self._header = npy_header((rows, *shape))
        self._piece = max(1, _PIECE_BYTES // self.row_bytes)
        self._ready = -1  # the segment whose name this process has synced

    def write(self, position: int, words: Words) -> None:
        """Write rows from `position` on, and return when they are on the disk."""
        while len(words):
            segment, row = divmod(position, self._rows)
            part = words[: self._rows - row]
            self._prepare(segment)
            self._write(segment, row, part)
            words, position = words[len(part) :], position + len(part)

    def read(self, positions: NDArray[np.int64]) -> Words:
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
        """Make the file unless it is there; its name lasts before anything relies on it."""
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
        sync(self._folder)  # whoever named the file may have been killed before it did
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
            raise SpoolError(f"{self._path(segment)} ended early: rows {row} to {row + count - 1} expected")
        return words.reshape(count, *self.shape)
