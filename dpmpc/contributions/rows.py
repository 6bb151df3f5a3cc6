"""Contributions of whole rows: the normalised row itself, or the products of its entries."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc._kernels import arithmetic
from dpmpc.arguments import require_positive
from dpmpc.contributions.base import Contribution, OnePass
from dpmpc.data import clip_ball, largest_squared_norm
from dpmpc.encoding import FixedPoint, Sensitivity
from dpmpc.errors import InputError

_LARGEST_WEIGHT = 1e100


class _RowContribution(Contribution):
    """What is computed from the whole normalised row."""

    def __init__(self, radius: float | None = None):
        self.radius = None if radius is None else require_positive("radius", radius)

    def parameters(self) -> dict[str, Any]:
        """Return the radius."""
        return {"radius": self.radius}

    def _clipped(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return rows if self.radius is None else clip_ball(rows, self.radius)


class Rows(_RowContribution):
    """The normalised row itself."""

    name = "rows"

    def width(self, columns: int) -> int:
        """Return `columns`."""
        return columns

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode the rows, clipped to the box and, where there is a radius, to the ball."""
        if self.radius is None:
            return encoding.encode(rows)
        return encoding.encode_ball(rows, self.radius)

    def one_pass(self, encoding: FixedPoint) -> OnePass | None:
        """Return the encoding of rows; see `Contribution.one_pass`."""
        return functools.partial(encoding.encode_within, radius=self.radius)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return the replace-one sensitivity of the box, or of the ball where that is smaller."""
        if self.radius is None or self.radius >= math.sqrt(columns):
            return encoding.sensitivity(columns)
        return encoding.sensitivity(columns, eta=self.radius, clip="ball")

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return 2^f, the encoding of 1."""
        return 1 << encoding.fractional_bits


class SecondMoments(_RowContribution):
    """The upper triangle of (1, z)(1, z)^T without its constant corner.

    Entries off the diagonal are multiplied by sqrt(2), so that the L2 norm of the contribution is the Frobenius norm
    of the matrix, and `moment_sensitivity` of the extended vectors applies: their squared norm is at most 1 + C^2.
    """

    name = "second-moments"

    def width(self, columns: int) -> int:
        """Return p (first moments) + p (p + 1) / 2."""
        return columns + columns * (columns + 1) // 2

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode the products of the clipped rows."""
        clipped = np.ascontiguousarray(self._clipped(rows), np.float64)
        features = np.empty((len(rows), self.width(rows.shape[1])))
        if features.size:
            arithmetic.second_moments(clipped, math.sqrt(2), features)
        return encoding.encode(features, -math.sqrt(2), math.sqrt(2))

    def one_pass(self, encoding: FixedPoint) -> OnePass | None:
        """Return the encoding of moments, where there is no radius; see `Contribution.one_pass`."""
        if self.radius is not None:
            return None
        weight = math.sqrt(2)
        return lambda rows, schema, out, first: encoding.encode_moments_within(rows, schema, weight, out, first)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return sqrt(2)(1 + C^2) in units of 2^-f, plus what rounding each entry to the nearest integer can add."""
        return self._sensitivity(columns, self.width(columns), encoding)

    def _sensitivity(self, columns: int, width: int, encoding: FixedPoint) -> Sensitivity:
        real = moment_sensitivity(1 + largest_squared_norm(columns, self.radius)) * 2.0**encoding.fractional_bits
        l2 = real + math.sqrt(width) + 1
        linf = 2 * self.largest_entry(encoding)
        return Sensitivity(l1=math.sqrt(width) * l2, l2=l2, linf=linf, columns=width)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return sqrt(2) 2^f, rounded up."""
        return math.ceil(math.sqrt(2) * (1 << encoding.fractional_bits))

    def gram(self, moments: NDArray[np.float64], columns: int, clients: int) -> NDArray[np.float64]:
        """Return the Gram matrix of (1, z) of released moments, for the columns that are analysed."""
        return self.matrix(moments, columns, clients)

    @staticmethod
    def matrix(moments: NDArray[np.float64], columns: int, clients: int) -> NDArray[np.float64]:
        """Put released moments (width,) back into the symmetric Gram matrix (p + 1, p + 1) of (1, z)."""
        gram = np.zeros((columns + 1, columns + 1))
        gram[np.triu_indices(columns + 1)] = np.concatenate([[0.0], moments])
        gram /= math.sqrt(2)
        gram += gram.T
        gram[np.diag_indices(columns + 1)] /= math.sqrt(2)
        gram[0, 0] = clients
        return gram


class WhitenedProducts(Contribution):
    """Upper triangle of w w^T, for w = z M clipped to the unit ball: a covariance step of CoinPress.

    Entries off the diagonal are multiplied by sqrt(2), so that the L2 norm of the contribution is the Frobenius norm of
    the matrix. With `triangle` they are not, as CoinPress has it: then they get sqrt(2) times the noise. Either way two
    contributions differ by at most sqrt(2), which orthogonal rows of norm 1 attain: without the factor, by
    (||D||_F^2 + ||diag D||^2) / 2 <= ||D||_F^2 for the difference D of the matrices.

    Parameters
    ----------
    matrix : array_like of float, shape (p, p)
        M, public.
    triangle : bool
        Whether each entry of the upper triangle counts once.
    """

    name = "whitened-products"

    def __init__(self, matrix: ArrayLike, triangle: bool = False):
        self.matrix = np.array(matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            raise InputError(f"matrix: shape {self.matrix.shape} given, a square matrix expected")
        if not np.all(np.abs(self.matrix) <= _LARGEST_WEIGHT):  # a NaN fails too
            raise InputError(f"matrix: entries of magnitude at most {_LARGEST_WEIGHT:g} expected")
        self.triangle = bool(triangle)

    def parameters(self) -> dict[str, Any]:
        """Return the matrix, as nested lists, and how entries count."""
        return {"matrix": self.matrix.tolist(), "triangle": self.triangle}

    def width(self, columns: int) -> int:
        """Return p (p + 1) / 2."""
        if columns != len(self.matrix):
            raise InputError(f"columns: {columns} given, {len(self.matrix)} expected by the whitening matrix")
        return columns * (columns + 1) // 2

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode the products of the whitened, clipped rows."""
        whitened = clip_ball(rows @ self.matrix, 1.0)
        first, second = np.triu_indices(len(self.matrix))
        return encoding.encode(whitened[:, first] * whitened[:, second] * self._weights())

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return sqrt(2) in units of 2^-f, plus what rounding each entry to the nearest integer can add."""
        width = self.width(columns)
        l2 = moment_sensitivity(1.0) * 2.0**encoding.fractional_bits + math.sqrt(width) + 1
        return Sensitivity(l1=math.sqrt(width) * l2, l2=l2, linf=2 * self.largest_entry(encoding), columns=width)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return 2^f, the encoding of 1."""
        return 1 << encoding.fractional_bits

    def symmetric(self, moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """Put released moments (width,) back into the symmetric matrix (p, p)."""
        upper = np.zeros(self.matrix.shape)
        upper[np.triu_indices(len(upper))] = moments / self._weights()
        return np.asarray(upper + np.triu(upper, 1).T)

    def _weights(self) -> NDArray[np.float64]:
        first, second = np.triu_indices(len(self.matrix))
        return np.where((first == second) | self.triangle, 1.0, math.sqrt(2))


def moment_sensitivity(squared_norm: float) -> float:
    """Return sqrt(2) C^2: ``|z z^T - w w^T|_F^2 = |z|^4 + |w|^4 - 2 (z.w)^2 <= 2 C^4``, attained if z.w = 0."""
    return math.sqrt(2) * squared_norm
