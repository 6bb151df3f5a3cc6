"""What a client sends, and how far one client can move it: the base class, and contributions of whole rows.

A client sends its normalised row itself, the products of its entries, or these products with a weight, by which rows
count more or less, or not at all where they lack a value.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmpc._kernels import arithmetic
from dpmpc.base.arguments import require_positive
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage.records import Described
from dpmpc.data import Schema
from dpmpc.data.schemas import clip_ball, largest_squared_norm
from dpmpc.linear.contributions.noisy_gram import NoisyGram
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint

MOST_FRACTIONAL_BITS = 43  # of `WIDEST` products of floats, whose errors sensitivities count as one unit together
WIDEST = 8192
_BLOCK_CELLS = 1 << 16  # entries that are encoded at once: with what they are made of they stay in the cache

OnePass = Callable[[Reals, Schema, Integers, int], None]


class Contribution(Described):
    """What is summed over the clients.

    Attributes
    ----------
    radius : float or None
        L2 norm that a normalised row is clipped to, on top of the box [-1, 1]^p; None where there is no such limit.
    summed : bool
        Whether the sum over the clients holds the Gram matrix of (1, z), which a sketch of rows only approximates.
    noisy_total : bool
        Whether the number that a mean is divided by has noise, too: the sum of the weights.
    any_target : bool
        Whether one release serves each of its columns as a target.
    """

    name: str
    radius: float | None = None
    summed: bool = False
    noisy_total: bool = False
    any_target: bool = False

    @abc.abstractmethod
    def width(self, columns: int) -> int:
        """Return the number of entries that a client with `columns` columns sends."""

    def analysed(self, schema: Schema) -> Schema:
        """Return the columns that a release reveals about: all but a weight."""
        return schema

    @abc.abstractmethod
    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode normalised rows (m, p) as integers (m, width)."""

    def encode_raw(
        self,
        rows: Reals,
        schema: Schema,
        encoding: FixedPoint,
        out: Integers,
        first: int = 0,
    ) -> None:
        """Overwrite `out` (m, width) with ``encode(schema.normalise(rows), encoding)``, in blocks that stay in cache.

        Errors count the `first` rows that came before these.
        """
        whole = self.one_pass(encoding)
        if whole is not None and len(rows):
            whole(rows, schema, out, first)
            return
        step = max(1, _BLOCK_CELLS // max(1, *out.shape[1:], *rows.shape[1:]))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            out[block] = self.encode(schema.normalise(rows[block], first=first + start), encoding)

    def one_pass(self, encoding: FixedPoint) -> OnePass | None:
        """Return what does the work of `encode_raw` in one pass over the rows, where a kernel can."""
        return None

    @abc.abstractmethod
    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return by how much the encoded contribution moves when one client's row is replaced."""

    @abc.abstractmethod
    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the largest magnitude of an encoded entry."""

    def units(self, columns: int, encoding: FixedPoint) -> Reals:
        """Return the value of one integer in each entry (width,) of the encoded contribution: 2^-f."""
        return np.full(self.width(columns), 2.0**-encoding.fractional_bits)

    def gram(self, sums: Reals, ones: Reals, clients: int) -> Reals:
        """Return the Gram matrix of (1, z) that released sums show.

        Parameters
        ----------
        sums : ndarray of float64, shape (k, width)
            What was released, in normalised units.
        ones : ndarray of float64, shape (k,)
            The public matrix applied to a column of ones.
        clients : int
            n.

        Returns
        -------
        ndarray of float64, shape (q + 1, q + 1)
            For the q columns that are analysed.

        Raises
        ------
        InputError
            If the sums show no such matrix.
        """
        raise self._no_gram()

    def noisy_gram(self, matrix: Reals, variance: Reals, columns: tuple[str, ...]) -> NoisyGram:
        """Return a Gram matrix of (1, columns) with the size of its noise, of this variance (k,) in released rows."""
        raise self._no_gram()

    def _no_gram(self) -> InputError:
        return InputError("release", f"of {self.name} given, of rows or second moments expected")

    @abc.abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the arguments that make an equal contribution, fit for JSON."""

    def describe(self) -> dict[str, Any]:
        """Return the public facts that `contribution_from` rebuilds this from."""
        return {"name": self.name, **self.parameters()}


_LARGEST_WEIGHT = 1e100


class _RowContribution(Contribution):
    """What is computed from the whole normalised row."""

    def __init__(self, radius: float | None = None):
        self.radius = None if radius is None else require_positive("radius", radius)

    def parameters(self) -> dict[str, Any]:
        """Return the radius."""
        return {"radius": self.radius}

    def _clipped(self, rows: Reals) -> Reals:
        return rows if self.radius is None else clip_ball(rows, self.radius)


class Rows(_RowContribution):
    """The normalised row itself."""

    name = "rows"
    any_target = True

    def width(self, columns: int) -> int:
        """Return `columns`."""
        return columns

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode the rows, clipped to the box and, where there is a radius, to the ball."""
        if self.radius is None:
            return encoding.encode(rows)
        return encoding.encode_ball(rows, self.radius)

    def one_pass(self, encoding: FixedPoint) -> OnePass | None:
        """Return the encoding of rows; see `Contribution.one_pass`."""
        return functools.partial(encoding.encode_within, radius=self.radius)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return the replace-one sensitivity of the box, or of the ball where that is smaller.

        Lemma: rounding_moves_by_one, of a box.
        """
        if self.radius is None or self.radius >= math.sqrt(columns):
            return encoding.sensitivity(columns)
        return encoding.sensitivity(columns, eta=self.radius, clip="ball")

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return 2^f, the encoding of 1."""
        return 1 << encoding.fractional_bits

    def gram(self, sums: Reals, ones: Reals, clients: int) -> Reals:
        """Return A^T A for A = [S 1, S Z + noise]; see `Contribution.gram`."""
        extended = np.column_stack([ones, sums])
        return np.asarray(extended.T @ extended)

    def noisy_gram(self, matrix: Reals, variance: Reals, columns: tuple[str, ...]) -> NoisyGram:
        """Return products of noisy rows; see `Contribution.noisy_gram`."""
        return NoisyGram.of_product(matrix, variance, columns)


class SecondMoments(_RowContribution):
    """The upper triangle of (1, z)(1, z)^T without its constant corner.

    Entries off the diagonal are multiplied by sqrt(2), so that the L2 norm of the contribution is the Frobenius norm
    of the matrix, and `moment_sensitivity` of the extended vectors applies: their squared norm is at most 1 + C^2.
    """

    name = "second-moments"
    summed = any_target = True

    def width(self, columns: int) -> int:
        """Return p (first moments) + p (p + 1) / 2."""
        return columns + columns * (columns + 1) // 2

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
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
        """Return sqrt(2)(1 + C^2) in units of 2^-f, plus what rounding each entry to the nearest integer can add.

        Lemmas: rank_one_difference, rounding_distance.
        """
        return self._sensitivity(columns, self.width(columns), encoding)

    def _sensitivity(self, columns: int, width: int, encoding: FixedPoint) -> Sensitivity:
        require_few_bits(encoding, width)
        real = moment_sensitivity(1 + largest_squared_norm(columns, self.radius)) * 2.0**encoding.fractional_bits
        l2 = real + math.sqrt(width) + 1
        linf = 2 * self.largest_entry(encoding)
        return Sensitivity(l1=math.sqrt(width) * l2, l2=l2, linf=linf, columns=width)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return sqrt(2) 2^f, rounded up."""
        return math.ceil(math.sqrt(2) * (1 << encoding.fractional_bits))

    def gram(self, sums: Reals, ones: Reals, clients: int) -> Reals:
        """Return the moments as a matrix; see `Contribution.gram`."""
        return self.matrix(sums[0], clients)

    def noisy_gram(self, matrix: Reals, variance: Reals, columns: tuple[str, ...]) -> NoisyGram:
        """Return a sum's matrix; see `Contribution.noisy_gram`."""
        return NoisyGram.of_sums(matrix, float(variance[0]), columns)

    @staticmethod
    def matrix(moments: Reals, clients: int) -> Reals:
        """Put released moments (width,) back into the symmetric Gram matrix (p + 1, p + 1) of (1, z)."""
        side = math.isqrt(2 * len(moments) + 2)  # (p + 1)(p + 2) / 2 entries, corner included
        gram = np.zeros((side, side))
        gram[np.triu_indices(side)] = np.concatenate([[0.0], moments])
        gram /= math.sqrt(2)
        gram += gram.T
        gram[np.diag_indices(side)] /= math.sqrt(2)
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
            raise InputError("matrix", f"shape {self.matrix.shape}", "a square matrix")
        if not np.all(np.abs(self.matrix) <= _LARGEST_WEIGHT):  # a NaN fails too
            raise InputError("matrix", f"entries of magnitude at most {_LARGEST_WEIGHT:g} expected")
        self.triangle = bool(triangle)

    def parameters(self) -> dict[str, Any]:
        """Return the matrix, as nested lists, and how entries count."""
        return {"matrix": self.matrix.tolist(), "triangle": self.triangle}

    def width(self, columns: int) -> int:
        """Return p (p + 1) / 2."""
        if columns != len(self.matrix):
            raise InputError("columns", columns, f"{len(self.matrix)}", condition="by the whitening matrix")
        return columns * (columns + 1) // 2

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode the products of the whitened, clipped rows."""
        whitened = clip_ball(rows @ self.matrix, 1.0)
        first, second = np.triu_indices(len(self.matrix))
        return encoding.encode(whitened[:, first] * whitened[:, second] * self._weights())

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return sqrt(2) in units of 2^-f, plus what rounding each entry to the nearest integer can add.

        Lemmas: rank_one_difference, rounding_distance.
        """
        width = self.width(columns)
        require_few_bits(encoding, width)
        l2 = moment_sensitivity(1.0) * 2.0**encoding.fractional_bits + math.sqrt(width) + 1
        return Sensitivity(l1=math.sqrt(width) * l2, l2=l2, linf=2 * self.largest_entry(encoding), columns=width)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return 2^f, the encoding of 1."""
        return 1 << encoding.fractional_bits

    def symmetric(self, moments: Reals) -> Reals:
        """Put released moments (width,) back into the symmetric matrix (p, p)."""
        return symmetric(moments / self._weights(), len(self.matrix))

    def _weights(self) -> Reals:
        first, second = np.triu_indices(len(self.matrix))
        return np.where((first == second) | self.triangle, 1.0, math.sqrt(2))


def symmetric(entries: Reals, side: int) -> Reals:
    """Return the symmetric matrices (..., side, side) whose upper triangles (..., W) are given."""
    upper = np.zeros((*entries.shape[:-1], side, side))
    upper[(..., *np.triu_indices(side))] = entries
    return np.asarray(upper + np.swapaxes(np.triu(upper, 1), -1, -2))


def require_few_bits(encoding: FixedPoint, width: int, most: int = MOST_FRACTIONAL_BITS, of: str = "products") -> None:
    """Refuse an encoding in whose units the errors of floats add more than 1 to the distance of two vectors.

    The errors of W entries grow with sqrt(W), so that each four times of the width takes one bit (lemma few_roundoffs
    of proofs/Rounding.v).
    """
    most -= max(0, (width - 1) // WIDEST).bit_length() + 1 >> 1  # log4(W / WIDEST), rounded up
    if encoding.fractional_bits > most:
        condition = f"of {width} {of}"
        raise InputError("fractional_bits", encoding.fractional_bits, f"at most {most}", condition=condition)


def moment_sensitivity(squared_norm: float) -> float:
    """Return sqrt(2) C^2: ``|z z^T - w w^T|_F^2 = |z|^4 + |w|^4 - 2 (z.w)^2 <= 2 C^4``, attained if z.w = 0."""
    return math.sqrt(2) * squared_norm


class WeightedMoments(SecondMoments):
    """The upper triangle of w (1, z)(1, z)^T, with the sum of the weights w in its corner.

    The last column of a row is its weight, normalised to [-1, 1] like every column; w = (1 + it) / 2 lies in [0, 1], in
    units of the largest weight. A row that lacks a value has w = 0 and contributes zeros, so that the noisy corner is
    all that reveals how many rows are complete: the exact number is no part of the release.

    Entries off the diagonal are multiplied by sqrt(2). With v = sqrt(w) (1, z), the contribution is v v^T and
    ``|v|^2 <= 1 + C^2``, so that the bound of `SecondMoments` holds, corner included (theorem weighted-moments).
    """

    name = "weighted-second-moments"
    noisy_total = True

    def analysed(self, schema: Schema) -> Schema:
        """Return the columns but the weight."""
        return schema.select(schema.names[:-1])

    def width(self, columns: int) -> int:
        """Return (q + 1)(q + 2) / 2 for the q columns beside the weight."""
        return columns * (columns + 1) // 2

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode the weighted products of the clipped rows."""
        weights = np.clip((1 + rows[:, -1:]) / 2, 0.0, 1.0)
        clipped = np.ascontiguousarray(self._clipped(np.ascontiguousarray(rows[:, :-1])), np.float64)
        features = np.empty((len(rows), self.width(rows.shape[1]) - 1))
        if features.size:
            arithmetic.second_moments(clipped, math.sqrt(2), features)
        return encoding.encode(np.column_stack([weights, features * weights]), -math.sqrt(2), math.sqrt(2))

    def one_pass(self, encoding: FixedPoint) -> OnePass | None:
        """Return None: no kernel supports weights."""
        return None

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return sqrt(2)(1 + C^2) in units of 2^-f for the columns beside the weight, plus what rounding can add.

        Lemmas: rank_one_difference, rounding_distance.
        """
        return self._sensitivity(columns - 1, self.width(columns), encoding)

    def gram(self, sums: Reals, ones: Reals, clients: int) -> Reals:
        """Return the Gram matrix of sqrt(w) (1, z), whose corner, at least 1, is noisy; see `Contribution.gram`."""
        gram = self.matrix(sums[0, 1:], clients)
        gram[0, 0] = max(float(sums[0, 0]), 1.0)
        return gram
