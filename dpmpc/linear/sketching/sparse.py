"""Sparse public matrices: s entries +-1 in every column, drawn by the kernel while they are applied."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc._kernels.sketch import Matrix
from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Integers, Reals, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Label, derive, seed_bytes
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sketching.public_matrix import Kind, PublicMatrix, weights_from


class SparseMatrix(PublicMatrix):
    """A public matrix that the kernel draws: s entries +-1 in every column."""

    _matrix: Matrix

    def entries(self, first: int, count: int) -> tuple[Integers, NDArray[np.int8]]:
        """Return the public draw of some clients; see `PublicMatrix.entries`."""
        first = require_whole("first", first, 0, self.columns)
        packed = np.empty((self.sparsity, require_whole("count", count, 0, self.columns - first)), np.uint32)
        self._matrix.entries(first, packed)
        by_client = np.ascontiguousarray(packed.T)
        return (by_client >> 1).astype(np.int64), 1 - 2 * (by_client & 1).astype(np.int8)

    def _add(self, kind: Kind, first: int, X: Words, Y: Words) -> None:
        if not self._matrix.scatter(kind, first, X, Y):
            raise InputError("X", f"an element is {int(X.max())}, numbers below {Mersenne61.modulus} expected")


class OSNAP(SparseMatrix):
    """The paper's sparse embedding: every column has s entries +-1/sqrt(s), in distinct rows.

    Parameters
    ----------
    rows : int
        k, below 2^31.
    columns : int
        n, the number of clients, at most 2^34.
    sparsity : int
        s, from 1 to k.
    seed : bytes or int
        32 public bytes; or a number, in simulations.
    balanced : bool
        Whether k consecutive clients share out the rows of each copy, so that none is crowded.
    """

    family = "osnap"

    def __init__(self, rows: int, columns: int, sparsity: int, seed: bytes | int, balanced: bool = False):
        super().__init__(rows, columns, sparsity, balanced)
        self.seed = seed_bytes(seed)
        words = np.frombuffer(derive(self.seed, Label.SKETCH, length=16), "<u4").tolist()
        self._matrix = Matrix("balanced" if balanced else "independent", words, self.rows, self.sparsity)

    def describe(self) -> dict[str, Any]:
        """Return the public facts, the seed among them; see `PublicMatrix.describe`."""
        return {**super().describe(), "seed": self.seed.hex()}


class CountSketch(OSNAP):
    """OSNAP with one entry in every column; parameters as there."""

    family = "countsketch"

    def __init__(self, rows: int, columns: int, seed: bytes | int, balanced: bool = False):
        super().__init__(rows, columns, 1, seed, balanced)


class Sum(SparseMatrix):
    """The row of ones: S X is the sum over all clients.

    Parameters
    ----------
    columns : int
        n, the number of clients, at most 2^34.
    """

    family = "sum"

    def __init__(self, columns: int):
        super().__init__(1, columns, 1, balanced=True)
        self._matrix = Matrix("ones", (0, 0, 0, 0), 1, 1)

    def heaviest_client(self, weights: Reals) -> float:
        """Return the one weight; see `PublicMatrix.heaviest_client`."""
        return float(weights_from(weights, 1)[0])

    @cached_property
    def _tally(self) -> tuple[Integers, Integers]:
        return np.array([self.columns]), np.array([0])
