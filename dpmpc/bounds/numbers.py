"""Numbers that users give, and rows by blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import Any

from numpy.typing import NDArray

from dpmpc.errors import InputError

_BLOCK_CELLS = 1 << 15  # a block of rows and its result stay in the processor's cache


def finite_number(where: str, value: Any) -> float:
    """Return a finite number as float, or refuse it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{where}: {value!r} given, a number expected")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{where}: {value} given, a finite number expected")
    return number + 0.0  # -0.0 becomes 0.0: equal schemas are described by equal texts


def row_blocks(matrix: NDArray[Any]) -> Iterator[slice]:
    """Cut the rows of a matrix into blocks that stay in the processor's cache."""
    step = max(1, _BLOCK_CELLS // max(1, matrix.shape[1]))
    return (slice(start, start + step) for start in range(0, len(matrix), step))
