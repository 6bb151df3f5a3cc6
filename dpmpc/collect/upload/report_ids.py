"""The ids of reports, as stores and servers handle them by the thousand."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Bytes, Integers
from dpmpc.base.errors import InputError

ID_BYTES = 16
ID_TYPE = f"S{ID_BYTES}"  # NumPy compares these as a whole, byte by byte
_AT_ONCE = 1 << 16  # ids that are searched for


def as_strings(ids: Bytes) -> NDArray[np.bytes_]:
    """View ids (n, 16) as n strings."""
    return np.ascontiguousarray(ids).view(ID_TYPE)[:, 0]


def as_bytes(strings: NDArray[np.bytes_]) -> Bytes:
    """View n strings as ids (n, 16)."""
    return np.ascontiguousarray(strings).view(np.uint8).reshape(-1, ID_BYTES)


def split(strings: NDArray[np.bytes_]) -> list[bytes]:
    """Return strings of any one size as they are, where NumPy leaves out zeros at their ends."""
    content, size = strings.tobytes(), strings.itemsize
    return [content[first : first + size] for first in range(0, len(content), size)]


def sorted_ids(ids: Bytes) -> NDArray[np.bytes_]:
    """Return a batch's ids as an array of 16-byte strings, or refuse ids that are not in ascending order."""
    if ids.dtype != np.uint8 or ids.ndim != 2 or ids.shape[1] != ID_BYTES:
        raise InputError("ids", f"{ids.dtype} of shape {ids.shape}", f"uint8 of shape (n, {ID_BYTES})")
    strings = as_strings(ids)
    if not (strings[:-1] < strings[1:]).all():
        raise InputError("ids", "not in order or not distinct, ascending and distinct ids expected")
    return strings


def cut_at(ids: NDArray[np.bytes_], firsts: Iterable[int]) -> Integers:
    """Return the places at which ascending ids reach each of some numbers with their first two bytes."""
    return np.searchsorted(ids, np.array([first.to_bytes(2) for first in firsts], ID_TYPE))


def found_in(those: NDArray[np.bytes_], ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Return which ids are among those; both ascend."""
    found = np.zeros(len(ids), np.bool_)
    for first in range(0, len(ids) if len(those) else 0, _AT_ONCE):
        part = ids[first : first + _AT_ONCE]
        places = np.searchsorted(those, part).clip(max=len(those) - 1)
        found[first : first + len(part)] = those[places] == part
    return found
