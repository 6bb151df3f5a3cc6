"""Contributions of clients that hold one number, for frequency moments: a power of it, or the item it stands for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_finite, require_whole
from dpmpc.base.arrays import Integers, Reals, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import seed_bytes
from dpmpc.data import Column
from dpmpc.linear.contributions.cells import CellCodes
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.encoding.ring import Ring
from dpmpc.linear.sketching import CountSketch

MOST_ORDER = 32

MOST_ITEMS = 1 << 24  # everybody holds a table of the public matrix, nine bytes an item


class PowerSum(Contribution):
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
        self.order = require_whole("order", order, 1, MOST_ORDER)
        self.zero = (
            require_finite("zero", zero) + 0.0
        )  # -0.0 becomes 0.0: equal contributions are described by equal texts

    @classmethod
    def of(cls, column: Column, order: int) -> PowerSum:
        """Return the contribution of a column with public bounds."""
        return cls(order, -column.middle / column.half_width)

    def parameters(self) -> dict[str, Any]:
        """Return the order and the place of zero."""
        return {"order": self.order, "zero": self.zero}

    def width(self, columns: int) -> int:
        """Return 1."""
        _expect_one_column(self.name, columns)
        return 1

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode the power, clipped to what the bounds allow."""
        lower, upper = self.limits
        return encoding.encode(self.powers(rows), lower, upper)

    def powers(self, rows: Reals) -> Reals:
        """Return u^k of normalised numbers."""
        return np.asarray(self._unit(rows) ** self.order)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return the width of the range of u^k: at most 1 for an even power or bounds on one side of 0, else 2.

        Lemma: none; two numbers of a range.
        """
        _expect_one_column(self.name, columns)
        lower, upper = self._encoded_range(encoding)
        if lower == upper:
            raise InputError(
                "order",
                f"{self.order} given, but with {encoding.fractional_bits} fractional bits all powers of "
                "numbers within the bounds are encoded alike",
            )
        return Sensitivity(l1=upper - lower, l2=upper - lower, linf=upper - lower, columns=1)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return 2^f, the encoding of the largest magnitude."""
        return max(map(abs, self._encoded_range(encoding)))

    def _unit(self, z: Any) -> Any:
        return (z - self.zero) / (1 + abs(self.zero))

    @property
    def limits(self) -> tuple[float, float]:
        """Least and greatest u^k over the box."""
        ends = [float(self._unit(end) ** self.order) for end in (-1.0, 1.0)]
        crosses = abs(self.zero) < 1 and self.order % 2 == 0
        return (0.0 if crosses else min(ends)), max(ends)

    def _encoded_range(self, encoding: FixedPoint) -> tuple[int, int]:
        """Return what `FixedPoint.encode` clips to."""
        lower, upper = (round(end * 2.0**encoding.fractional_bits) for end in self.limits)
        return lower, upper


class ItemSketch(CellCodes):
    """One column of a public matrix over items: a sign in one of `rows` places, by the item that the client holds.

    It is one grid of 2k cells, +1 in each place and then -1, whose code is [I, -I].

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
    exact_bits = 0

    def __init__(self, items: int, rows: int, seed: bytes | str | int):
        self.items = require_whole("items", items, 2, MOST_ITEMS)
        try:
            self.seed = seed_bytes(bytes.fromhex(seed) if isinstance(seed, str) else seed)
        except ValueError as error:
            raise InputError("seed", f"{seed!r}", "64 hexadecimal digits, 32 bytes or a number") from error
        self._matrix = CountSketch(rows=rows, columns=self.items, seed=self.seed)
        self.rows = self._matrix.rows

    @classmethod
    def of(cls, column: Column, rows: int, seed: bytes | int) -> ItemSketch:
        """Return the contribution of a column whose public bounds are the first and the last item."""
        if not (column.lower.is_integer() and column.upper.is_integer()):
            given = f"({column.lower}, {column.upper})"
            raise InputError(f"bounds of column {column.name!r}", given, "the first and the last item")
        return cls(int(column.upper) - int(column.lower) + 1, rows, seed)

    def parameters(self) -> dict[str, Any]:
        """Return the domain, the size and the seed of the matrix."""
        return {"items": self.items, "rows": self.rows, "seed": self.seed.hex()}

    def width(self, columns: int) -> int:
        """Return k."""
        _expect_one_column(self.name, columns)
        return self.rows

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode the matrix's column of the nearest item: one entry +-1, and zeros."""
        negative, places = np.divmod(self.cells_of(rows)[:, 0], self.rows)
        columns = np.zeros((len(rows), self.rows), np.int64)
        columns[np.arange(len(rows)), places] = 1 - 2 * negative
        return columns << encoding.fractional_bits

    @property
    def sizes(self) -> tuple[int, ...]:
        """2k."""
        return (2 * self.rows,)

    def cells_of(self, rows: Reals) -> Integers:
        """Return the place and sign of the nearest item."""
        items = np.rint((rows[:, 0] + 1) / 2 * (self.items - 1)).astype(np.int64)
        places, signs = self._table
        return (places[items] + self.rows * (signs[items] < 0)).astype(np.int64)[:, None]

    def coded(self, digits: Words, ring: Ring) -> Words:
        """Return how often +1 is in each place less how often -1 is."""
        plus, minus = digits[:, : self.rows], digits[:, self.rows :]
        return ring.subtract(np.ascontiguousarray(plus), np.ascontiguousarray(minus))

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return ``||s_v - s_w||``: at most 2, in every norm, reached where items share a place with opposite signs.

        Lemma: none; two unit vectors.
        """
        _expect_one_column(self.name, columns)
        moved = 2 << encoding.fractional_bits
        return Sensitivity(l1=moved, l2=moved, linf=moved, columns=self.rows)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return 2^f, the encoding of 1."""
        return 1 << encoding.fractional_bits

    @functools.cached_property
    def _table(self) -> tuple[Integers, NDArray[np.int8]]:
        places, signs = self._matrix.entries(0, self.items)
        return places[:, 0], signs[:, 0]


def _expect_one_column(name: str, columns: int) -> None:
    if columns != 1:
        raise InputError("columns", columns, "one", condition=f"for a {name}")
