"""What the baselines share: rows within public bounds, and symmetric noise.

*Neighbouring* is replace-one throughout, as for a release: one row becomes any other within the bounds and the number
of rows is public. Papers that add or remove a row have their own constants; each class states which.

Promised: rows outside the bounds are refused. Not promised: that anybody is protected, because the
noise is floating-point.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.data.schemas import clip_ball
from dpmpc.data.table import check_finite, numeric_matrix
from dpmpc.linear.noise.floating import Gaussian


def normalised_rows(X: ArrayLike, y: ArrayLike | None = None, *, radius: float | None = None) -> Reals:
    """Put X (n, d) and, where there is one, y (n,) side by side and clip the rows to the ball."""
    rows = numeric_matrix("X", X).astype(np.float64)
    if y is not None:
        label = np.asarray(y, dtype=np.float64)
        if label.shape != (len(rows),):
            raise InputError("y", f"shape {label.shape}", f"({len(rows)},)", "one value for each row of X")
        rows = np.column_stack([rows, label])
    check_finite("X, y", rows, [str(position) for position in range(rows.shape[1])])
    largest = float(np.abs(rows).max(initial=0.0))
    if largest > 1:
        raise InputError("X, y", f"largest magnitude {largest:g}", "at most 1", "normalise first")
    return rows if radius is None else clip_ball(rows, radius)


def symmetric_noise(size: int, sigma: float, stream: Stream, *, off_diagonal: float | None = None) -> Reals:
    """Draw a symmetric Gaussian matrix of standard deviation sigma on the diagonal.

    Off the diagonal it is sigma/sqrt(2) unless given: then the L2 norm that the noise hides is the Frobenius norm.
    """
    ratio = 1 / math.sqrt(2) if off_diagonal is None else off_diagonal / sigma
    draws = Gaussian(sigma).sample((size, size), stream=stream)
    upper = np.triu(draws, 1)
    return np.asarray(np.diag(np.diag(draws)) + (upper + upper.T) * ratio)
