"""Dense matrices: of signs for shares, and of normal entries for real numbers.

*Signs* (`Rademacher`, `BernoulliMixing`): every entry is +-1, drawn by the kernel while it is applied. Promised,
beside what `dpmpc.linear.sketching` promises of every public matrix: several times fewer additions than a matrix
product makes (csrc/dense_apply.c); memory of a few times the result; float64 sums whose order of additions depends on k
and on the first client of a chunk only. Not promised: a cheap replacement for OSNAP. A client that adds noise to every
copy sends k of them (theorem sketch-laplace).

*Normal entries* (`GaussianProjection`), for real numbers only. Promised: the same matrix from the same seed up to the
rounding of the machine's normal quantile function and matrix product; memory of a block of rows. Not promised: what
the other matrices can do for shares, which are integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmpc._kernels.dense import Matrix
from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Integers, Reals, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Label, Stream, derive, seed_bytes
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.noise.floating import Gaussian
from dpmpc.linear.sketching.overlaps import check_rows
from dpmpc.linear.sketching.public_matrix import MOST_COLUMNS, MOST_ROWS, Kind, PublicMatrix, weights_from

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
        self.rows = require_whole("rows", rows, 1, MOST_ROWS)
        self.columns = require_whole("columns", columns, 1, MOST_COLUMNS)
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
            raise InputError("X", f"{X.dtype} {X.shape}", f"float64 ({self.columns}, p)")
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


BLOCK = 128  # clients whose signs in one row are drawn together
PIECE_ENTRIES = 1 << 21  # of a piece of S in products of S with itself: with small ones BLAS would mostly start up


class Rademacher(PublicMatrix):
    """Independent uniform signs: S has entries +-1/sqrt(k), and the sparsity is k.

    Every client hits every row, so that copy j of its row goes to row j alone (Burkhardt et al. 2025, Theorem 4.8).

    Parameters
    ----------
    rows : int
        k, below 2^31.
    columns : int
        n, the number of clients, at most 2^34.
    seed : bytes or int
        32 public bytes; or a number, in simulations.
    """

    family = "rademacher"
    _label: ClassVar[Label] = Label.RADEMACHER

    def __init__(self, rows: int, columns: int, seed: bytes | int):
        super().__init__(rows, columns, rows, balanced=False)
        self.seed = seed_bytes(seed)
        words = np.frombuffer(derive(self.seed, self._label, length=16), "<u4").tolist()
        self._matrix = Matrix(words, self.rows)

    def describe(self) -> dict[str, Any]:
        """Return the public facts, the seed among them; see `PublicMatrix.describe`."""
        return {**super().describe(), "seed": self.seed.hex()}

    def entries(self, first: int, count: int) -> tuple[Integers, NDArray[np.int8]]:
        """Return the public draw of some clients, (count, k); see `PublicMatrix.entries`."""
        first = require_whole("first", first, 0, self.columns)
        count = require_whole("count", count, 0, self.columns - first)
        block = first // BLOCK
        words = np.empty((-(-(first + count) // BLOCK) - block, self.rows, 4), np.uint32)
        self._matrix.signs(block, words)
        bits = np.unpackbits(words.astype("<u4", copy=False).view(np.uint8), axis=2, bitorder="little")
        negative = bits.transpose(0, 2, 1).reshape(-1, self.rows)[first % BLOCK :][:count]
        rows = np.broadcast_to(np.arange(self.rows), (count, self.rows))
        return rows, 1 - 2 * negative.astype(np.int8)

    def occupancy(self) -> Integers:
        """Return N_r = n for every row; see `PublicMatrix.occupancy`."""
        return np.full(self.rows, self.columns)

    def heaviest_client(self, weights: Reals) -> float:
        """Return the sum of all weights; see `PublicMatrix.heaviest_client`."""
        return float(weights_from(weights, self.rows).sum())

    def overlaps(self) -> Reals:
        """Return G = S S^T + I by matrix products, n k^2 multiplications; see `PublicMatrix.overlaps`."""
        check_rows(self.rows)
        G = np.eye(self.rows)
        for signs in self._real_pieces():
            G += signs.T @ signs
        return G

    def quadratic_forms(self, K: Reals) -> Iterator[Reals]:
        """Return s_i^T K s_i by matrix products; see `PublicMatrix.quadratic_forms`."""
        return (np.einsum("ir,ir->i", signs @ K, signs) for signs in self._real_pieces())

    def shared_pairs(self) -> int:
        """Return k (k - 1)/2 (n - 1): every client hits every row; see `PublicMatrix.shared_pairs`."""
        return self.rows * (self.rows - 1) // 2 * (self.columns - 1)

    def _real_pieces(self) -> Iterator[Reals]:
        """Return the signs of all clients, float64 (m, k), a piece at a time."""
        size = -(-PIECE_ENTRIES // self.rows)
        for first in range(0, self.columns, size):
            yield self.entries(first, min(size, self.columns - first))[1].astype(np.float64)

    def _add(self, kind: Kind, first: int, X: Words, Y: Words) -> None:
        if not self._matrix.apply(kind, first, X, Y):
            raise InputError("X", f"an element is {int(X.max())}, numbers below {Mersenne61.modulus} expected")

    @cached_property
    def _tally(self) -> tuple[Integers, Integers]:
        ones = np.broadcast_to(np.uint64(1), (self.columns, 1))  # one word, whatever n
        positive = (self.columns + self.apply(ones).view(np.int64)[:, 0]) // 2
        return positive, self.columns - positive


class BernoulliMixing(Rademacher):
    """The matrix B / sqrt(k) by which parties with different columns mix their rows; parameters as for `Rademacher`.

    Paper: Wu et al., Differentially Private Multi-Party Data Release for Linear Regression (UAI 2022). Entries have
    the same distribution as those of `Rademacher` and are drawn apart from them.
    """

    family = "bernoulli-mixing"
    _label = Label.BERNOULLI_MIXING
