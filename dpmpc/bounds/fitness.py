"""Warn of bounds that spoil a result: too tight for a column, or one pair for columns that differ.

The warnings depend on the data: they are not private, and are for whoever holds all rows.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from dpmpc.bounds.schemas import Bounds, Schema
from dpmpc.errors import UtilityWarning

MOST_CLIPPED = 0.05


def warn_of_bounds(public: Schema, rows: NDArray[np.float64], given: Bounds = None, *, stacklevel: int = 2) -> None:
    """Warn of each column with more than 5 % of its cells clipped, and of one pair of bounds for several columns.

    Parameters
    ----------
    public : Schema
        The bounds.
    rows : ndarray of float64, shape (n, p)
        In the columns' units.
    given : Schema, pair, dict, path or None
        The bounds as a user gave them.
    stacklevel : int
        As in `warnings.warn`.
    """
    if isinstance(given, tuple) and len(public) > 1:
        warnings.warn(
            f"bounds: one pair {given} for {len(public)} columns: each gets noise for that whole range; give each "
            "column bounds of its own",
            UtilityWarning,
            stacklevel=stacklevel + 1,
        )
    for name, share in zip(public.names, public.clipped_fraction(rows), strict=True):
        if share > MOST_CLIPPED:
            warnings.warn(
                f"bounds of {name!r} clip {share:.1%} of its cells, which biases every result: choose wider bounds "
                "from public knowledge (this warning depends on the data and is not private)",
                UtilityWarning,
                stacklevel=stacklevel + 1,
            )
