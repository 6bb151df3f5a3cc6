"""Find where a condition on a number stops to hold, by bisection on the bits of doubles: no tolerance, no library.

The doubles between two numbers are as many as the integers between their bits, so that at most 64 halvings end at two
neighbouring doubles, whatever their size. Who needs a bound takes the neighbour on the safe side.
"""

from __future__ import annotations

import struct
from collections.abc import Callable


def last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return a double at which a condition holds, and at the next one no more.

    Parameters
    ----------
    holds : callable
        The condition. Where rounding makes it hold and fail by turns, the result is one of its last points.
    low, high : float
        It is taken to hold at `low`, and to fail at `high`; neither is asked. low < high, both finite.
    """
    first, end = _place(low), _place(high)
    while end - first > 1:
        middle = (first + end) // 2
        if holds(_double(middle)):
            first = middle
        else:
            end = middle
    return _double(first)


def _place(number: float) -> int:
    """Return the bits of a double as an integer that grows with it; 0 for 0.0 and -0.0."""
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return int(bits) if bits >= 0 else -(int(bits) & ((1 << 63) - 1))


def _double(place: int) -> float:
    """Return the double of a place."""
    (number,) = struct.unpack("<d", struct.pack("<q", abs(place)))
    return float(number) if place >= 0 else -float(number)
