"""What one client contributes: its row, the second moments of its row, a power of one number, or an item.

Either way a release is a public linear map of the contributions plus noise. `Rows` is what the paper sketches. With
`SecondMoments` the public matrix is the all-ones row: the release is the noisy Gram matrix of (1, z), so that
sufficient statistics perturbation runs with no trusted curator. `PowerSum` and `ItemSketch`, for frequency moments, are
summed likewise (docs/mathematics.md, section 5).

A statistic says what it sends, and by how much one client can move it. That bound holds for every row, whatever the
schema that the row came through; only accuracy depends on the two belonging together.
"""

from __future__ import annotations

import abc
import functools
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc._kernels import arithmetic
from dpmpc.bounds import Column, Schema, clip_ball, largest_squared_norm
from dpmpc.encoding import FixedPoint, Sensitivity
from dpmpc.errors import InputError
from dpmpc.randomness import seed_bytes
from dpmpc.sketching import CountSketch

MOST_ORDER = 32
_LARGEST_WEIGHT = 1e100
_BLOCK_CELLS = 1 << 16  # entries that are encoded at once: with what they are made of they stay in the cache
MOST_ITEMS = 1 << 24  # everybody holds a table of the public matrix, nine bytes an item


class Statistic(abc.ABC):
    """What is summed over the clients.

    Attributes
    ----------
    radius : float or None
        L2 norm that a normalised row is clipped to, on top of the box [-1, 1]^p; None where there is no such limit.
    """

    name: str
    radius: float | None = None

    @abc.abstractmethod
    def width(self, columns: int) -> int:
        """Number of entries that a client with `columns` columns sends."""

    @abc.abstractmethod
    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode normalised rows (m, p) as integers (m, width)."""

    def encode_raw(
        self,
        rows: NDArray[np.float64],
        schema: Schema,
        encoding: FixedPoint,
        out: NDArray[np.int64],
        first: int = 0,
    ) -> None:
        """Overwrite `out` (m, width) with ``encode(schema.normalise(rows), encoding)``, by blocks that stay in cache.

        Errors count the `first` rows that came before these.
        """
        step = max(1, _BLOCK_CELLS // max(1, *out.shape[1:], *rows.shape[1:]))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            out[block] = self.encode(schema.normalise(rows[block], first=first + start), encoding)

    @abc.abstractmethod
    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """By how much the encoded contribution moves when one client's row is replaced."""

    @abc.abstractmethod
    def largest_entry(self, encoding: FixedPoint) -> int:
        """Largest magnitude of an encoded entry."""

    @abc.abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the arguments that make an equal statistic, fit for JSON."""

    def describe(self) -> dict[str, Any]:
        """Return the public facts that `statistic_from` rebuilds this from."""
        return {"name": self.name, **self.parameters()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statistic) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(json.dumps(self.describe(), sort_keys=True))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({facts})"


class _RowStatistic(Statistic):
    """What is computed from the whole normalised row.

    Parameters
    ----------
    radius : float, optional
        Clip each normalised row to an L2 ball of this radius, on top of the box [-1, 1]^p. A public constant.
    """

    def __init__(self, radius: float | None = None):
        if radius is not None and not (math.isfinite(radius) and radius > 0):
            raise InputError(f"radius: {radius} given, a positive finite number expected")
        self.radius = None if radius is None else float(radius)

    def parameters(self) -> dict[str, Any]:
        """Return the radius."""
        return {"radius": self.radius}

    def _clipped(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return rows if self.radius is None else clip_ball(rows, self.radius)


class Rows(_RowStatistic):
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

    def encode_raw(
        self,
        rows: NDArray[np.float64],
        schema: Schema,
        encoding: FixedPoint,
        out: NDArray[np.int64],
        first: int = 0,
    ) -> None:
        """As in `Statistic`, in one pass over the rows."""
        if len(rows):
            encoding.encode_within(rows, schema, out, first, self.radius)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Replace-one sensitivity of the box, or of the ball where that is smaller."""
        if self.radius is None or self.radius >= math.sqrt(columns):
            return encoding.sensitivity(columns)
        return encoding.sensitivity(columns, eta=self.radius, clip="ball")

    def largest_entry(self, encoding: FixedPoint) -> int:
        """2^f, the encoding of 1."""
        return 1 << encoding.fractional_bits


class SecondMoments(_RowStatistic):
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

    def encode_raw(
        self,
        rows: NDArray[np.float64],
        schema: Schema,
        encoding: FixedPoint,
        out: NDArray[np.int64],
        first: int = 0,
    ) -> None:
        """As in `Statistic`; without a radius in one pass over the rows."""
        if self.radius is None and len(rows):
            encoding.encode_moments_within(rows, schema, math.sqrt(2), out, first)
        else:
            super().encode_raw(rows, schema, encoding, out, first)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """sqrt(2)(1 + C^2) in units of 2^-f, plus what rounding each entry to the nearest integer can add."""
        width = self.width(columns)
        real = moment_sensitivity(1 + largest_squared_norm(columns, self.radius)) * 2.0**encoding.fractional_bits
        l2 = real + math.sqrt(width) + 1
        linf = 2 * self.largest_entry(encoding)
        return Sensitivity(l1=math.sqrt(width) * l2, l2=l2, linf=linf, columns=width)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """sqrt(2) 2^f, rounded up."""
        return math.ceil(math.sqrt(2) * (1 << encoding.fractional_bits))

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


class WhitenedProducts(Statistic):
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
        """sqrt(2) in units of 2^-f, plus what rounding each entry to the nearest integer can add."""
        width = self.width(columns)
        l2 = moment_sensitivity(1.0) * 2.0**encoding.fractional_bits + math.sqrt(width) + 1
        return Sensitivity(l1=math.sqrt(width) * l2, l2=l2, linf=2 * self.largest_entry(encoding), columns=width)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """2^f, the encoding of 1."""
        return 1 << encoding.fractional_bits

    def symmetric(self, moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """Put released moments (width,) back into the symmetric matrix (p, p)."""
        upper = np.zeros(self.matrix.shape)
        upper[np.triu_indices(len(upper))] = moments / self._weights()
        return np.asarray(upper + np.triu(upper, 1).T)

    def _weights(self) -> NDArray[np.float64]:
        first, second = np.triu_indices(len(self.matrix))
        return np.where((first == second) | self.triangle, 1.0, math.sqrt(2))


class PowerSum(Statistic):
    """A power of one number x, in units of its largest magnitude: u^k with ``u = x / max(|lower|, |upper|)``.

    Parameters
    ----------
    order : int
        k, from 1 to 32.
    zero : float
        Where x = 0 lies on the normalised scale: 0 for bounds (-eta, eta), -1 for bounds (0, eta).
    """

    name = "power-sum"

    def __init__(self, order: int, zero: float = 0.0):
        self.order = _whole("order", order, 1, MOST_ORDER)
        if not math.isfinite(zero):
            raise InputError(f"zero: {zero} given, a finite number expected")
        self.zero = float(zero) + 0.0  # -0.0 becomes 0.0: equal statistics are described by equal texts

    @classmethod
    def of(cls, column: Column, order: int) -> PowerSum:
        """Return the statistic of a column with public bounds."""
        return cls(order, -column.middle / column.half_width)

    def parameters(self) -> dict[str, Any]:
        """Return the order and the place of zero."""
        return {"order": self.order, "zero": self.zero}

    def width(self, columns: int) -> int:
        """Return 1."""
        _expect_one_column(self.name, columns)
        return 1

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode the power, clipped to what the bounds allow."""
        lower, upper = self._range()
        return encoding.encode(self._unit(rows) ** self.order, lower, upper)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Width of the range of u^k: at most 1 for an even power or bounds on one side of 0, otherwise at most 2."""
        _expect_one_column(self.name, columns)
        lower, upper = self._encoded_range(encoding)
        if lower == upper:
            raise InputError(
                f"order: {self.order} given, but with {encoding.fractional_bits} fractional bits all powers of numbers "
                "within the bounds are encoded alike"
            )
        return Sensitivity(l1=upper - lower, l2=upper - lower, linf=upper - lower, columns=1)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """2^f, the encoding of the largest magnitude."""
        return max(map(abs, self._encoded_range(encoding)))

    def _unit(self, z: Any) -> Any:
        return (z - self.zero) / (1 + abs(self.zero))

    def _range(self) -> tuple[float, float]:
        """Least and greatest u^k over the box."""
        ends = [float(self._unit(end) ** self.order) for end in (-1.0, 1.0)]
        crosses = abs(self.zero) < 1 and self.order % 2 == 0
        return (0.0 if crosses else min(ends)), max(ends)

    def _encoded_range(self, encoding: FixedPoint) -> tuple[int, int]:
        """What `FixedPoint.encode` clips to."""
        lower, upper = (round(end * 2.0**encoding.fractional_bits) for end in self._range())
        return lower, upper


class ItemSketch(Statistic):
    """One column of a public matrix over items: a sign in one of `rows` places, by the item that the client holds.

    The sum over the clients is S f, for f_v the number of clients that hold item v and S an unbalanced CountSketch
    (Charikar, Chen, Farach-Colton 2002) with one column for each item.

    Parameters
    ----------
    items : int
        Size of the item domain, 2 to 2^24; item v is the number -1 + 2 v / (items - 1) on the normalised scale.
    rows : int
        k.
    seed : bytes, str or int
        32 public bytes, as such or in hexadecimal; or a number, in simulations.
    """

    name = "item-sketch"

    def __init__(self, items: int, rows: int, seed: bytes | str | int):
        self.items = _whole("items", items, 2, MOST_ITEMS)
        try:
            self.seed = seed_bytes(bytes.fromhex(seed) if isinstance(seed, str) else seed)
        except ValueError as error:
            raise InputError(f"seed: {seed!r} given, 64 hexadecimal digits, 32 bytes or a number expected") from error
        self._matrix = CountSketch(rows=rows, columns=self.items, seed=self.seed)
        self.rows = self._matrix.rows

    @classmethod
    def of(cls, column: Column, rows: int, seed: bytes | int) -> ItemSketch:
        """Return the statistic of a column whose public bounds are the first and the last item."""
        if not (column.lower.is_integer() and column.upper.is_integer()):
            given = f"({column.lower}, {column.upper})"
            raise InputError(f"bounds of column {column.name!r}: {given} given, the first and the last item expected")
        return cls(int(column.upper) - int(column.lower) + 1, rows, seed)

    def parameters(self) -> dict[str, Any]:
        """Return the domain, the size and the seed of the matrix."""
        return {"items": self.items, "rows": self.rows, "seed": self.seed.hex()}

    def width(self, columns: int) -> int:
        """Return k."""
        _expect_one_column(self.name, columns)
        return self.rows

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode the matrix's column of the nearest item."""
        items = np.rint((rows[:, 0] + 1) / 2 * (self.items - 1)).astype(np.int64)
        places, signs = self._table
        encoded = np.zeros((len(rows), self.rows), np.int64)
        encoded[np.arange(len(rows)), places[items]] = signs[items].astype(np.int64) << encoding.fractional_bits
        return encoded

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """||s_v - s_w||: 2 in every norm where two items share a place with opposite signs; l2 and linf less else."""
        _expect_one_column(self.name, columns)
        moved = 2 << encoding.fractional_bits
        return Sensitivity(l1=moved, l2=moved, linf=moved, columns=self.rows)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """2^f, the encoding of 1."""
        return 1 << encoding.fractional_bits

    @functools.cached_property
    def _table(self) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        places, signs = self._matrix.entries(0, self.items)
        return places[:, 0], signs[:, 0]


def moment_sensitivity(squared_norm: float) -> float:
    """``||z z^T - w w^T||_F^2 = |z|^4 + |w|^4 - 2 (z.w)^2 <= 2 C^4``, attained by orthogonal rows of norm C."""
    return math.sqrt(2) * squared_norm


_STATISTICS: dict[str, type[Statistic]] = {
    kind.name: kind for kind in (Rows, SecondMoments, WhitenedProducts, PowerSum, ItemSketch)
}


def statistic_from(description: Mapping[str, Any]) -> Statistic:
    """Rebuild a statistic from `Statistic.describe`."""
    parameters = dict(description)
    kind = _STATISTICS.get(parameters.pop("name"))
    if kind is None:
        raise InputError(f"statistic: {description['name']!r} given, one of {', '.join(_STATISTICS)} expected")
    try:
        return kind(**parameters)
    except TypeError as error:
        raise InputError(f"statistic: {dict(description)} given, not what {kind.name} is described by") from error


def _whole(name: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise InputError(f"{name}: {value!r} given, a whole number from {least} to {most} expected")
    return int(value)


def _expect_one_column(name: str, columns: int) -> None:
    if columns != 1:
        raise InputError(f"columns: {columns} given, one expected for a {name}")
