"""Gaussian projections: dense matrices of normal entries, for real numbers only.

Promised: the same matrix from the same seed up to the rounding of the machine's normal quantile function and matrix
product; memory of a block of rows. Not promised: what the other matrices can do for shares, which are integers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmpc.errors import InputError
from dpmpc.noise import Gaussian
from dpmpc.randomness import Label, Stream, derive, seed_bytes
from dpmpc.sketching.public_matrix import MOST_COLUMNS, MOST_ROWS, Reals, integer_from

BLOCK_CELLS = 1 << 22  # entries of S that are drawn and held at once; part of what a seed draws


class GaussianProjection:
    """Independent N(0, 1/k) entries (Johnson and Lindenstrauss 1984; Showkatbakhsh et al. 2018 without the 1/k).

    Entries are drawn by blocks of rows from the AES stream of a key that is derived from the seed. Whether the matrix
    is public or secret is a matter of who knows the seed.

    Parameters
    ----------
    rows : int
        k, below 2^31.
    columns : int
        n, at most 2^34.
    seed : bytes or int
        32 bytes; or a number, in simulations.
    """

    family = "gaussian-projection"

    def __init__(self, rows: int, columns: int, seed: bytes | int):
        self.rows = integer_from("rows", rows, 1, MOST_ROWS)
        self.columns = integer_from("columns", columns, 1, MOST_COLUMNS)
        self.seed = seed_bytes(seed)

    @property
    def shape(self) -> tuple[int, int]:
        """(k, n)."""
        return self.rows, self.columns

    @property
    def scale(self) -> float:
        """1/sqrt(k): the standard deviation of an entry, and the factor between `apply` and ``@``."""
        return 1.0 / math.sqrt(self.rows)

    def apply(self, X: Reals) -> Reals:
        """Return sqrt(k) S X, whose S has N(0, 1) entries, for float64 X (n, p): float64 (k, p)."""
        if X.ndim != 2 or len(X) != self.columns or X.dtype != np.float64:
            raise InputError(f"X: {X.dtype} {X.shape} given, float64 ({self.columns}, p) expected")
        stream = Stream(derive(self.seed, Label.GAUSSIAN_PROJECTION))
        projected = np.empty((self.rows, X.shape[1]))
        step = max(1, BLOCK_CELLS // self.columns)
        for start in range(0, self.rows, step):
            block = projected[start : start + step]
            np.matmul(Gaussian(1.0).sample((len(block), self.columns), stream=stream), X, out=block)
        return projected

    def __matmul__(self, X: Any) -> Reals:
        """Return S X, scaled, for real X of shape (n,) or (n, p): float64 (k,) or (k, p)."""
        real: Reals = np.asarray(X, dtype=np.float64)
        sums: Reals = self.scale * self.apply(real[:, np.newaxis] if real.ndim == 1 else real)
        return sums[:, 0] if real.ndim == 1 else sums
