"""Keep the ids of a batch in a file instead of in memory.

A release of n reports handles several lists of n ids. Each is written part by part, and then read as one array, whose
pages the system loads when they are read and drops when memory is short. The file has no name: it is gone when the
array is, or the process. A list of at most 2^16 ids stays in memory.
"""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Bytes
from dpmpc.base.storage.database import typed_errors
from dpmpc.collect.upload.report_ids import ID_BYTES

_AT_ONCE = 1 << 16  # ids
_IN_MEMORY = ID_BYTES * _AT_ONCE  # bytes


def selected_ids(folder: Path, ids: Bytes, chosen: NDArray[np.bool_]) -> Bytes:
    """Return some of the ids (n, 16), read-only, in the same order.

    Parameters
    ----------
    folder : Path
        Where a file for them is made.
    ids : ndarray of uint8
        Shape (n, 16).
    chosen : ndarray of bool
        Which of them, (n,).
    """
    if chosen.all():
        return ids
    with IdFile(folder) as file:
        for first in range(0, len(ids), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            file.append(ids[rows][chosen[rows]])
        return file.ids()


class IdFile:
    """A list of ids that is being written, within a ``with`` statement.

    Parameters
    ----------
    folder : Path
        Where the file is made; a disk that fails or is full is a `SpoolError`.
    """

    def __init__(self, folder: Path):
        self._folder = folder

    def __enter__(self) -> Self:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, dir=str(self._folder))
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, ids: Bytes) -> None:
        """Write ids after those that were written before."""
        with typed_errors(self._folder):
            self._file.write(np.ascontiguousarray(ids).data)

    def __len__(self) -> int:
        return self._file.tell() // ID_BYTES

    def ids(self) -> Bytes:
        """Return all ids, (n, 16), read-only; they stay when the ``with`` statement ends."""
        with typed_errors(self._folder):
            content: bytes | mmap.mmap
            if self._file.tell() > _IN_MEMORY:
                self._file.flush()
                content = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            else:
                self._file.seek(0)
                content = self._file.read()
        return np.frombuffer(content, np.uint8).reshape(-1, ID_BYTES)
