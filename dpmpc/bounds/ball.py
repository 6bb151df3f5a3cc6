"""Clip rows to an L2 ball, beside the box that the bounds make."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.bounds.columns import finite_number
from dpmpc.bounds.schemas import row_blocks
from dpmpc.errors import InputError
from dpmpc.tables import check_finite, numeric_matrix

_RADIUS_RANGE = (1e-100, 1e100)  # squares of these neither vanish nor overflow


def clip_ball(Z: ArrayLike, radius: float) -> NDArray[np.float64]:
    """Shrink the rows that leave the L2 ball of a radius around 0 onto it.

    The bound holds for the exact norm of the floating-point result, not just up to rounding: rows are shrunk to
    ``radius (1 - (p + 4) 2^-52)``. A row whose squared norm is beyond the range of float64 becomes 0.

    Parameters
    ----------
    Z : array_like of numbers, shape (n, p)
        Left unchanged.
    radius : float
        Between 1e-100 and 1e100.

    Returns
    -------
    ndarray of float64, shape (n, p)
        Rows of norm at most `radius`.

    Raises
    ------
    InputError
        If the radius is out of range, or a value is NaN or infinite.
    """
    limit = finite_number("radius", radius)
    if not _RADIUS_RANGE[0] <= limit <= _RADIUS_RANGE[1]:
        raise InputError(f"radius: {radius} given, a number in [{_RADIUS_RANGE[0]}, {_RADIUS_RANGE[1]}] expected")
    matrix = numeric_matrix("Z", Z)
    names = [str(position) for position in range(matrix.shape[1])]
    clipped = np.empty(matrix.shape)
    # The computed norm is right to p/2 + 1 roundings (2^-53 each); `reach`, the quotient and the product add four.
    reach = limit * (1 - (matrix.shape[1] + 4) * np.finfo(np.float64).eps)
    for rows in row_blocks(matrix):
        check_finite("Z", matrix[rows], names, rows.start)
        block = matrix[rows].astype(np.float64, copy=False)
        with np.errstate(over="ignore", divide="ignore"):  # a quotient of 0 or infinity is right in both cases
            factor = np.minimum(reach / np.sqrt(np.einsum("ij,ij->i", block, block)), 1.0)
        np.multiply(block, factor[:, None], out=clipped[rows])
    return clipped


def largest_squared_norm(columns: int, radius: float | None) -> float:
    """Return C^2, the largest squared norm of a row of the box [-1, 1]^p, within the ball where there is one."""
    return float(columns) if radius is None else min(float(columns), radius**2)
