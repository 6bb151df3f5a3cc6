"""Find where a condition on a number stops to hold, by bisection on the bits of doubles: no tolerance, no library.

The doubles between two numbers are as many as the integers between their bits, so that at most 64 halvings end at two
neighbouring doubles, whatever their size. Who needs a bound takes the neighbour on the safe side.
"""

from __future__ import annotations

import struct
from collections.abc import Callable


def last(holds: Callable[[float], bool], low: float, high: float, near: float | None = None) -> float:
    """Return a double at which a condition holds, and at the next one no more."""
    first, end = _place(low), _place(high)
    if near is not None:
        first, end = _around(holds, first, end, _place(near))
    while end - first > 1:
        middle = (first + end) // 2
        if holds(_double(middle)):
            first = middle
        else:
            end = middle
    return _double(first)


def _around(holds: Callable[[float], bool], first: int, end: int, place: int) -> tuple[int, int]:
    """Return a smaller bracket of where the condition stops to hold, next to a place between `first` and `end`."""
    step = 1
    place = min(max(place, first + 1), end - 1)
    upwards = first < place < end and holds(_double(place))
    while first < place < end:
        if holds(_double(place)):
            first = place
            if not upwards:
                break
            place += step
        else:
            end = place
            if upwards:
                break
            place -= step
        step *= 2
    return first, end


def _place(number: float) -> int:
    """Return the bits of a double as an integer that grows with it; 0 for 0.0 and -0.0."""
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return int(bits) if bits >= 0 else -(int(bits) & ((1 << 63) - 1))


def _double(place: int) -> float:
    """Return the double of a place."""
    (number,) = struct.unpack("<d", struct.pack("<q", abs(place)))
    return float(number) if place >= 0 else -float(number)
