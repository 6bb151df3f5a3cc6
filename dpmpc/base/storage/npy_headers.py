"""The headers of the `.npy` arrays that dpmpc writes: 64-bit numbers in C order, with few axes.

Promised: reading one runs no code from the file and takes no more memory than `LONGEST_HEADER`.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import BinaryIO

import numpy as np

from dpmpc.base.untrusted import ReadError

MAGIC = b"\x93NUMPY"
MOST_AXES = 8
LONGEST_HEADER = 1024  # bytes; NumPy pads to a multiple of 64, and needs fewer than 200 for 8 axes
_FIXED = len(MAGIC) + 4  # magic, version 1.0, length of the text that follows
_TEXT = re.compile(
    rb"\{'descr': '(?P<descr><[uif]8)', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9]{1,19},(?: [0-9]{1,19},?)*)\), \} *\n"
)


@dataclasses.dataclass(frozen=True)
class ArrayHeader:
    """What a `.npy` file states of the array in it.

    Attributes
    ----------
    dtype : numpy.dtype
        uint64, int64 or float64, little-endian.
    shape : tuple of int
        At least one axis.
    offset : int
        Bytes of the header.
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.offset + self.dtype.itemsize * math.prod(self.shape)


def read_header(file: BinaryIO) -> ArrayHeader:
    """Read the header of a `.npy` file from where the file stands; the numbers follow.

    Raises
    ------
    ReadError
        If it is not a header that dpmpc writes.
    """
    start = file.read(_FIXED)
    if len(start) < _FIXED or start[: len(MAGIC)] != MAGIC:
        raise ReadError("not a .npy array")
    version, length = tuple(start[len(MAGIC) : len(MAGIC) + 2]), int.from_bytes(start[-2:], "little")
    if version != (1, 0) or length > LONGEST_HEADER:
        raise ReadError(f".npy format {version} with a header of {length} bytes, (1, 0) and at most {LONGEST_HEADER}")
    found = _TEXT.fullmatch(file.read(length))
    if found is None:
        raise ReadError("a .npy header of something else than 64-bit numbers in C order with at least one axis")
    shape = tuple(int(axis) for axis in found["shape"].replace(b" ", b"").split(b",") if axis)
    if len(shape) > MOST_AXES:
        raise ReadError(f"a .npy array of {len(shape)} axes, at most {MOST_AXES}")
    return ArrayHeader(np.dtype(found["descr"].decode()), shape, _FIXED + length)
