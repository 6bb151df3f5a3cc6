"""From a contribution to what is proved of it: integers, their circuit, and by how much one client moves the sums.

With f fractional bits and R = 2^f a normalised number u of [-1, 1] becomes z = round((R - 1) u): the scale is R - 1, so
that both ends are exact. What is *proved* is wider than what honest clients send, and `sensitivity` counts all of it:

- the range, by up to two units, to what digits write (`dpmpc.linear.proving.circuit.widened_low`);
- a ball of radius rho, to C^2 = floor(((R - 1) rho + sqrt(d)/2)^2), which no row of the ball exceeds once rounded.

Second moments are exact: the products of integers are not rounded. Servers multiply them after the check, those on the
diagonal by 29 and the rest by 41. As 41^2 = 1681 <= 1682 = 2 29^2, a difference D of two matrices moves the sums by at
most 29 ||D||_F, and ||D||_F <= sqrt(2) ((R - 1)^2 + C^2) for the matrices of (R - 1, z).

Promised: `sensitivity` bounds the difference of any two points of the proved set, in each norm, under replace-one; an
encoded row is in the proved set. Not promised: that a point of the proved set is a row; 0/1 columns pass with any value
in between.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Integers, Reals, Words
from dpmpc.base.errors import InputError
from dpmpc.data.schemas import clip_ball
from dpmpc.linear.contributions import Rows, SecondMoments
from dpmpc.linear.contributions.cells import CellCodes, CellCounts
from dpmpc.linear.contributions.contribution import Contribution, WhitenedProducts
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint, root_up
from dpmpc.linear.proving.circuit import FIELD, CellsCircuit, Circuit, RowCircuit, elements

DIAGONAL, OFF_DIAGONAL = 29, 41
"""Weights of the entries of W, in place of 1 and sqrt(2)."""

MOST_BITS = 28
_ROUNDING = Fraction(1, 1 << 40)  # more than floating point adds to a row's norm, relative to it


class Proved(abc.ABC):
    """What clients prove of a contribution, and what servers add up.

    Parameters
    ----------
    contribution : Contribution
        What is proved.
    columns : int
        Columns of a row.
    fractional_bits : int
        f, from 1 to 28. Odd f waste no digit.

    Attributes
    ----------
    circuit : Circuit
        The statement in integers.
    """

    circuit: Circuit

    def __init__(self, contribution: Contribution, columns: int, fractional_bits: int):
        self.contribution = contribution
        self.width = contribution.width(columns)
        self.columns = columns
        self.fractional_bits = require_whole("fractional_bits", fractional_bits, 1, MOST_BITS)
        self.scale = (1 << self.fractional_bits) - 1

    @abc.abstractmethod
    def encode(self, rows: Reals) -> Integers:
        """Return what `witness` takes, for normalised rows (n, p): clipped, scaled and rounded."""

    @abc.abstractmethod
    def witness(self, encoded: Integers) -> Words:
        """Return the witnesses (n, witness words) of encoded rows."""

    @abc.abstractmethod
    def outputs(self, records: Words, one: int) -> Words:
        """Return what is added up (n, added), of witnesses or records, whole or shares with a share of 1: linear."""

    @property
    def added(self) -> int:
        """Words of an output."""
        return self.width

    def finished(self, sums: Words) -> Words:
        """Return the sums (k, width) of contributions of those (k, added) of outputs, or shares of them: linear."""
        return sums

    def contributed(self, rows: Reals) -> Integers:
        """Return what normalised rows add to the sums of contributions (n, width)."""
        return FIELD.lift(self.finished(self.outputs(self.witness(self.encode(rows)), 1)))

    @property
    @abc.abstractmethod
    def units(self) -> Reals:
        """What each entry (width,) of the sums is multiplied by to be in the contribution's own units."""

    @abc.abstractmethod
    def sensitivity(self) -> Sensitivity:
        """Return by how much the outputs move when one point of the proved set is replaced by another."""

    @property
    @abc.abstractmethod
    def largest_entry(self) -> int:
        """Largest magnitude of an entry of the outputs."""


class ProvedRows(Proved):
    """A row in the box, and in the ball where there is a radius."""

    circuit: RowCircuit

    def __init__(self, contribution: Rows, columns: int, fractional_bits: int):
        super().__init__(contribution, columns, fractional_bits)
        self.circuit = RowCircuit(columns, -self.scale, self.scale, self._ball())

    def _ball(self) -> int | None:
        """Return C^2, or None where every number of the box is in the ball."""
        radius = self.contribution.radius
        if radius is None:
            return None
        squared = widened_ball(self.scale, radius, self.columns)
        return None if squared >= self.columns * (self.scale + 1) ** 2 else squared

    def encode(self, rows: Reals) -> Integers:
        """Round to the nearest integers, after clipping."""
        radius = self.contribution.radius
        return _rounded(rows if radius is None else clip_ball(rows, radius), self.scale)

    def witness(self, encoded: Integers) -> Words:
        """Return digits, slack and products."""
        return self.circuit.witness(encoded)

    def outputs(self, records: Words, one: int) -> Words:
        """Return z."""
        return self.circuit.columns_of(records, one)

    @property
    def units(self) -> Reals:
        """1 / (R - 1)."""
        return np.full(self.width, 1 / self.scale)

    def sensitivity(self) -> Sensitivity:
        """Return the distance of two points of the box, or of the ball where that is smaller: 2C in L2.

        Lemma: none; two points of a ball are a diameter apart at most.
        """
        span, d = self.circuit.high - self.circuit.low, self.columns
        squared = d * span**2
        if self.circuit.squared_radius is not None:
            squared = min(squared, 4 * self.circuit.squared_radius)
        return Sensitivity(math.isqrt(d * squared), root_up(squared), min(span, math.isqrt(squared)), d)

    @property
    def largest_entry(self) -> int:
        """Largest magnitude of z_j."""
        return _reach(self.circuit)


class ProvedMoments(ProvedRows):
    """A row and its products: the upper triangle of u u^T for u = (R - 1, z), without its corner, weighted."""

    def __init__(self, contribution: SecondMoments, columns: int, fractional_bits: int):
        Proved.__init__(self, contribution, columns, fractional_bits)
        self.circuit = RowCircuit(columns, -self.scale, self.scale, self._ball(), moments=True)

    def outputs(self, records: Words, one: int) -> Words:
        """Return 41 (R - 1) z, then W with its weights."""
        first = FIELD.scale(self.circuit.columns_of(records, one), OFF_DIAGONAL * self.scale)
        return np.concatenate([first, _weighted(self.circuit, records, self._weights)], axis=1)

    @functools.cached_property
    def _weights(self) -> list[int]:
        return _triangle(self.columns, DIAGONAL, OFF_DIAGONAL)

    @property
    def units(self) -> Reals:
        """Of the contribution, which has sqrt(2) off the diagonal: sqrt(2)/41 and 1/29 over (R - 1)^2."""
        weights = np.array([*([OFF_DIAGONAL] * self.columns), *self._weights])
        return np.where(weights == DIAGONAL, 1.0, math.sqrt(2)) / (weights * float(self.scale) ** 2)

    def sensitivity(self) -> Sensitivity:
        """Return 29 sqrt(2) ((R - 1)^2 + C^2) in L2, where a box has C^2 = d low^2.

        Lemmas: proved_weights, rank_one_difference.
        """
        top = _reach(self.circuit)
        squared = 2 * (DIAGONAL * (self.scale**2 + _squared_norm(self.circuit))) ** 2
        largest = 2 * OFF_DIAGONAL * top * max(top, self.scale)
        return Sensitivity(root_up(self.width * squared), root_up(squared), largest, self.width)

    @property
    def largest_entry(self) -> int:
        """41 times the largest product."""
        top = _reach(self.circuit)
        return OFF_DIAGONAL * top * max(top, self.scale)


class ProvedWhitened(Proved):
    """The products of w = z M, clipped to a ball, for a matrix M of integers.

    `matrix` = M / 2^g is the contribution's matrix, rounded: what the products are of. Anyone who reads the sums takes
    it instead of the contribution's. Proved is that w is *some* z M of the ball.

    Parameters
    ----------
    contribution : WhitenedProducts
        With the whitening matrix.
    columns : int
        Columns of a row.
    fractional_bits : int
        f.
    matrix_bits : int
        g.
    """

    circuit: RowCircuit

    def __init__(self, contribution: WhitenedProducts, columns: int, fractional_bits: int, matrix_bits: int = 6):
        super().__init__(contribution, columns, fractional_bits)
        self.matrix_bits = require_whole("matrix_bits", matrix_bits, 0, MOST_BITS)
        scaled = np.rint(contribution.matrix * 2.0**self.matrix_bits)
        if not (np.abs(scaled) < 1 << MOST_BITS).all() or not scaled.any():
            raise InputError(
                "matrix",
                f"largest entry {np.abs(contribution.matrix).max():g}",
                f"entries that are not all 0 and at most 2^{MOST_BITS} in units of 2^-{self.matrix_bits}",
            )
        self.matrix = scaled / 2.0**self.matrix_bits
        whole = scaled.astype(np.int64).tolist()
        # rounding moves z by at most sqrt(d)/2, and z M by at most that times the spectral norm of M, here bounded
        norm = Fraction(float(np.linalg.norm(scaled, 2))) * (1 + _ROUNDING)
        reach = self.scale * (1 + _ROUNDING) * (1 << self.matrix_bits) + _half_root(columns) * norm
        self.circuit = RowCircuit(
            columns,
            -self.scale,
            self.scale,
            math.floor(reach**2),
            moments=True,
            matrix=tuple(tuple(row) for row in whole),
        )
        self._pair = (1, 1) if contribution.triangle else (DIAGONAL, OFF_DIAGONAL)

    def encode(self, rows: Reals) -> Integers:
        """Shrink rows until rows times `matrix` are in the unit ball, and round them to the nearest integers."""
        whitened = np.asarray(rows, np.float64) @ self.matrix
        norms = np.sqrt(np.einsum("ij,ij->i", whitened, whitened))
        return _rounded(rows / np.maximum(norms, 1.0)[:, None], self.scale)

    def witness(self, encoded: Integers) -> Words:
        """Return digits, slack and products."""
        return self.circuit.witness(encoded)

    def outputs(self, records: Words, one: int) -> Words:
        """Return W with its weights."""
        return _weighted(self.circuit, records, _triangle(self.columns, *self._pair))

    @property
    def units(self) -> Reals:
        """Of the contribution: sqrt(2)/41 and 1/29, or 1 with `triangle`, over ((R - 1) 2^g)^2."""
        weights = np.array(_triangle(self.columns, *self._pair))
        roots = np.where((weights == self._pair[0]) | (self._pair == (1, 1)), 1.0, math.sqrt(2))
        return roots / (weights * (float(self.scale) * 2.0**self.matrix_bits) ** 2)

    def sensitivity(self) -> Sensitivity:
        """Return 29 sqrt(2) C^2 in L2; sqrt(2) C^2 with `triangle`.

        Lemmas: proved_weights, rank_one_difference.
        """
        squared = 2 * (self._pair[0] * _squared_norm(self.circuit)) ** 2
        largest = min(2 * self.largest_entry, math.isqrt(squared))
        return Sensitivity(root_up(self.width * squared), root_up(squared), largest, self.width)

    @property
    def largest_entry(self) -> int:
        """The largest product, weighted."""
        return self._pair[1] * _reach(self.circuit) ** 2


class ProvedPower(Proved):
    """A power of one number, in the range of such powers."""

    circuit: RowCircuit

    def __init__(self, contribution: PowerSum, columns: int, fractional_bits: int):
        super().__init__(contribution, columns, fractional_bits)
        self._power = contribution
        least, high = (round(end * self.scale) for end in contribution.limits)
        self.circuit = RowCircuit(1, least, high)

    def encode(self, rows: Reals) -> Integers:
        """Round the powers to the nearest integers."""
        return np.clip(_rounded(self._power.powers(rows), self.scale), self.circuit.least, self.circuit.high)

    def witness(self, encoded: Integers) -> Words:
        """Return digits."""
        return self.circuit.witness(encoded)

    def outputs(self, records: Words, one: int) -> Words:
        """Return the number."""
        return self.circuit.columns_of(records, one)

    @property
    def units(self) -> Reals:
        """1 / (R - 1)."""
        return np.array([1 / self.scale])

    def sensitivity(self) -> Sensitivity:
        """Return the width of the range.

        Lemma: none; two numbers of a range.
        """
        span = self.circuit.high - self.circuit.low
        return Sensitivity(span, span, span, 1)

    @property
    def largest_entry(self) -> int:
        """Largest magnitude of the number."""
        return self.circuit.largest


class ProvedCells(Proved):
    """One cell of each grid: the very set that honest clients are in. Fractional bits are not used: codes are whole.

    Servers add up digits, and code their sums: the code of a grid takes the square of its cells.
    """

    circuit: CellsCircuit

    def __init__(self, contribution: CellCodes, columns: int, fractional_bits: int):
        super().__init__(contribution, columns, fractional_bits)
        self._cells = contribution
        self._exact = FixedPoint(contribution.exact_bits, FIELD)
        self.circuit = CellsCircuit(contribution.sizes)

    def encode(self, rows: Reals) -> Integers:
        """Return the cells (n, grids) of the rows."""
        return self._cells.cells_of(rows)

    def witness(self, encoded: Integers) -> Words:
        """Return a digit for each cell."""
        return self.circuit.witness(encoded)

    def contributed(self, rows: Reals) -> Integers:
        """Return the codes of the rows' cells, without a product with a strategy for each row."""
        return self._cells.encode(rows, self._exact)

    def outputs(self, records: Words, one: int) -> Words:
        """Return the digits."""
        return np.ascontiguousarray(records[:, : self.circuit.digits])

    @property
    def added(self) -> int:
        """The cells of all grids."""
        return self.circuit.digits

    def finished(self, sums: Words) -> Words:
        """Return the codes of the numbers of people in each cell."""
        return self._cells.coded(sums, FIELD)

    @property
    def units(self) -> Reals:
        """Those of the code."""
        return self._cells.units(self.columns, self._exact)

    def sensitivity(self) -> Sensitivity:
        """Return that of the contribution without proofs: a report holds one cell of each grid (lemma one_cell)."""
        return self._cells.sensitivity(self.columns, self._exact)

    @property
    def largest_entry(self) -> int:
        """The largest integer of the code."""
        return self._cells.largest_entry(self._exact)


_KINDS: dict[type[Contribution], Callable[..., Proved]] = {
    Rows: ProvedRows,
    SecondMoments: ProvedMoments,
    WhitenedProducts: ProvedWhitened,
    PowerSum: ProvedPower,
    CellCounts: ProvedCells,
    ItemSketch: ProvedCells,
}


def proved(contribution: Contribution, columns: int, fractional_bits: int) -> Proved:
    """Return what is proved of a contribution.

    Raises
    ------
    InputError
        If there is no circuit for this contribution.
    OverflowRisk
        If the statement would hold modulo p and not over the integers.
    """
    if type(contribution) not in _KINDS:
        known = ", ".join(kind.name for kind in _KINDS)
        raise InputError("contribution", f"{contribution.name!r}", "one that can be proved", known)
    return _KINDS[type(contribution)](contribution, columns, fractional_bits)


def widened_ball(scale: int, radius: float, columns: int) -> int:
    """Return C^2 = floor((scale rho + sqrt(d)/2)^2), from above: no row of norm rho exceeds it once rounded."""
    return math.floor((scale * Fraction(radius) * (1 + _ROUNDING) + _half_root(columns)) ** 2)


def _half_root(columns: int) -> Fraction:
    """Return sqrt(d)/2, rounded up."""
    return Fraction(math.isqrt(columns << 120) + 1, 1 << 61)


def _rounded(reals: Reals, scale: int) -> Integers:
    z = np.clip(np.rint(np.asarray(reals, np.float64) * scale), -scale, scale)
    if not np.isfinite(z).all():
        raise InputError("rows", f"row {int((~np.isfinite(z)).any(axis=1).argmax())} is not finite, numbers expected")
    return z.astype(np.int64)


def _reach(circuit: RowCircuit) -> int:
    """Return the largest magnitude of one entry of z, or z M, in the proved set."""
    if circuit.squared_radius is None:
        return circuit.largest
    return min(circuit.largest, math.isqrt(circuit.squared_radius))


def _squared_norm(circuit: RowCircuit) -> int:
    """Return C^2 of the proved set, whose box alone has d largest^2."""
    box = circuit.columns * circuit.largest**2
    return box if circuit.squared_radius is None else min(box, circuit.squared_radius)


def _triangle(columns: int, diagonal: int, rest: int) -> list[int]:
    """Return the weights of the upper triangle of a matrix, row by row."""
    first, second = np.triu_indices(columns)
    return [diagonal if same else rest for same in first == second]


def _weighted(circuit: RowCircuit, records: Words, weights: list[int]) -> Words:
    products = np.ascontiguousarray(records[:, circuit.digits : circuit.witness_words])
    return FIELD.multiply(products, np.ascontiguousarray(np.broadcast_to(elements(weights), products.shape)))
