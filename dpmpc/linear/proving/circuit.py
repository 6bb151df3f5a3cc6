"""The statement that a report proves, in integers, and how its words lie in rows and columns of a table.

A *witness* is what a client shares: digits of base 4, then products. The statement is

    (D) every digit is 0, 1, 2 or 3      (P) products are products      (T) linear forms of the words are 0

of which a circuit may lack (P) or (T). z_j = low + sum_k weights_k digit_jk lies in [low, high] by (D), and in no
smaller range, because these weights write exactly the numbers from 0 to high - low (`digit_weights`).

Digits fill columns of N rows, one column after the other, then the roots of squares do; the rest is 0. Column i holds
the values at 1, ..., N of a polynomial w_i of degree N, a *wire*, whose value at 0 is a random *blind*. Proofs and
letters are those of the report (theorem proof-soundness).

Promised: a circuit whose statement modulo p = 2^61 - 1 would not be the statement over the integers cannot be made.
"""

from __future__ import annotations

import abc
import functools
import itertools
import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from dpmpc._kernels import proving
from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Bytes, Integers, Words
from dpmpc.base.errors import InputError, OverflowRisk
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sharing.shamir import lagrange

BASE = 4
FIELD = Mersenne61()
P = FIELD.modulus
WORD_BYTES = 8

Squares = Literal["none", "columns", "products"]


def widened_low(low: int, high: int) -> int:
    """Return the greatest number up to `low`, at most 2 below it, from which digits reach `high` exactly."""
    return low - (low - high) % (BASE - 1)


def digit_weights(span: int) -> tuple[int, ...]:
    """Return weights whose sums, each weight taken 0 to 3 times, are exactly 0, 1, ..., span.

    They are 1, 4, 16, ... as long as their digits reach at most `span`, say 4^m - 1, and a third of the rest. That is
    less than 4^m, so that no number is left out.
    """
    if span < 0 or span % (BASE - 1):
        raise InputError("span", span, "a multiple of 3 that is at least 0")
    weights: list[int] = []
    while BASE ** (len(weights) + 1) - 1 <= span:
        weights.append(BASE ** len(weights))
    rest = span - (BASE ** len(weights) - 1)
    return (*weights, rest // (BASE - 1)) if rest else tuple(weights)


def digits_of(values: Integers, weights: tuple[int, ...]) -> Integers:
    """Write numbers (...,) as digits (..., m): from the largest weight down, as much as goes."""
    left = values.copy()
    digits = np.empty((*values.shape, len(weights)), np.int64)
    for place in sorted(range(len(weights)), key=lambda place: weights[place], reverse=True):
        digits[..., place] = np.minimum(BASE - 1, left // weights[place])
        left -= digits[..., place] * weights[place]
    return digits


@dataclass(frozen=True)
class LinearForm:
    """A sum of factors times words of the witness, plus a constant: it must be 0."""

    terms: tuple[tuple[int, int], ...] = ()  # (int, int): places in the witness, each with its factor
    constant: int = 0  # may be negative


@dataclass(frozen=True)
class Circuit(abc.ABC):
    """A statement and its layout.

    Parameters
    ----------
    rows : int, optional
        N; by default the one that makes record and message shortest.
    """

    rows: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        self._check()
        rows = self.rows or min(
            range(1, 2 + math.isqrt(self.digits)), key=lambda rows: self._words(rows) + self._wires(rows)
        )
        object.__setattr__(self, "rows", require_whole("rows", rows, 1, 1 << 16))

    @abc.abstractmethod
    def _check(self) -> None:
        """Raise `OverflowRisk` unless the statement modulo p is that over the integers."""

    @property
    def weights(self) -> tuple[int, ...]:
        """Weights of the digits of one z_j."""
        return ()

    @property
    @abc.abstractmethod
    def digits(self) -> int:
        """Number of digits."""

    @property
    def products(self) -> int:
        """Number of products."""
        return 0

    @property
    def squares(self) -> Squares:
        """How products are checked."""
        return "none"

    @property
    def column_count(self) -> int:
        """d, how many numbers z_j the digits write."""
        return 0

    @property
    def low(self) -> int:
        """The least number that the digits of one z_j write."""
        return 0

    @property
    def mixing(self) -> tuple[tuple[int, ...], ...]:
        """M, if z M takes the place of z in products and (T); otherwise empty."""
        return ()

    @property
    def forms(self) -> tuple[LinearForm, ...]:
        """What (T) requires to be 0, each of them; a circuit without (T) has one that always is."""
        return (LinearForm(),)

    @property
    def witness_words(self) -> int:
        """Words of a witness."""
        return self.digits + self.products

    @property
    def square_count(self) -> int:
        """How many pairs (root, square) are checked: two random combinations, where W = z z^T is shared."""
        return 2 if self.squares == "products" else self.products

    @property
    def wires(self) -> int:
        """C, the number of wires."""
        return self._wires(self.rows)

    @property
    def degree(self) -> int:
        """4N, the degree of the gadgets of the wires."""
        return BASE * self.rows

    @property
    def quotient_points(self) -> tuple[int, ...]:
        """Where the quotient Q, of degree at most 3N, is given: 0, N + 1, ..., 4N."""
        return (0, *range(self.rows + 1, self.degree + 1))

    @property
    def words(self) -> int:
        """Words of a record: witness, blinds, quotient."""
        return self._words(self.rows)

    @property
    def joint_words(self) -> int:
        """Elements of the joint randomness: sigma in K^c, then v and v' in F^d."""
        return 2 * self.wires + 2 * self.column_count

    @property
    def message_bytes(self) -> int:
        """What a server sends to each other server for a report."""
        return WORD_BYTES * (self.wires + 1)

    def _wires(self, rows: int) -> int:
        return -(-self.digits // rows) + -(-self.square_count // rows)

    def _words(self, rows: int) -> int:
        return self.witness_words + self._wires(rows) + 2 * ((BASE - 1) * rows + 1)

    @functools.cached_property
    def proofs(self) -> proving.Proofs:
        """The kernel of what needs no (T): z, proofs and decisions."""
        return self.kernel(LinearForm())

    def kernel(self, zero: LinearForm) -> proving.Proofs:
        """Return the kernel whose (T) is one form."""
        return proving.Proofs(
            self.squares,
            self.column_count,
            self.digits,
            self.products,
            self.rows,
            self.low % P,
            elements(self.weights),
            _square(self.mixing),
            elements([place for place, _ in zero.terms]),
            elements([factor for _, factor in zero.terms]),
            zero.constant % P,
            *self._tables,
        )

    @functools.cached_property
    def _tables(self) -> tuple[Words, Words, Words]:
        """Weights of interpolation at the points of the quotient, of wires and of outputs, and 1 / Z there."""
        points, rows = self.quotient_points, self.rows
        return (
            np.array([lagrange(range(rows + 1), point, P) for point in points], np.uint64),
            np.array([lagrange(range(1, rows + 1), point, P) for point in points], np.uint64),
            elements([pow(self.vanishing(point), -1, P) for point in points]),
        )

    def vanishing(self, at: int) -> int:
        """Return Z(at) = (at - 1) ... (at - N), modulo p."""
        return math.prod(at - row for row in range(1, self.rows + 1)) % P

    def columns_of(self, records: Words, one: int) -> Words:
        """Return z, or z M, of witnesses or records (n, ...), the true ones or shares with a share of 1."""
        z = np.empty((len(records), self.column_count), np.uint64)
        self.proofs.columns(one, records, z)
        return z


def elements(values: list[int] | tuple[int, ...]) -> Words:
    """Return an array of the field elements that stand for integers of either sign."""
    return np.array([value % P for value in values], np.uint64)


def _square(matrix: tuple[tuple[int, ...], ...]) -> Words:
    """Return a matrix of integers as field elements, with no row where it is empty."""
    return elements([entry for row in matrix for entry in row]).reshape(len(matrix), len(matrix) or 1)


@dataclass(frozen=True)
class RowCircuit(Circuit):
    """Z in [low, high]^d, at choice in a ball, and at choice with its products.

    Parameters
    ----------
    columns : int
        d.
    least, high : int
        The range that is requested. `low` is up to two units below `least`.
    squared_radius : int, optional
        C^2, which the squared norm of z is at most; of z M where there is a matrix.
    moments : bool
        Whether W = z z^T is shared, its upper triangle.
    matrix : tuple of tuples of int
        M, square; needs `moments`.
    """

    columns: int
    least: int
    high: int
    squared_radius: int | None = None
    moments: bool = False
    matrix: tuple[tuple[int, ...], ...] = ()

    def _check(self) -> None:
        require_whole("columns", self.columns, 1)
        if self.high <= self.least:
            raise InputError("least, high", f"{self.least}, {self.high}", "least < high")
        if self.squared_radius is not None:
            require_whole("squared_radius", self.squared_radius, 0)
        if self.matrix and not self.moments:
            raise InputError("matrix", "one given without products, no matrix or `moments` expected")
        if any(len(row) != self.columns for row in self.matrix) or len(self.matrix) not in (0, self.columns):
            raise InputError("matrix", f"{len(self.matrix)} rows", f"{self.columns} of {self.columns} numbers")
        squared = self.largest**2 if self.products else self.largest
        if 2 * max(squared, self.high - self.low) + 1 >= P:
            raise OverflowRisk("range", f"numbers up to {squared}", "less than (p - 1)/2, p = 2^61 - 1,")
        if self.squared_radius is not None:
            # |tr W + s - C^2| as integers: below p, so that it is 0 if it is 0 modulo p
            reach = self.columns * self.largest**2 + BASE**self.slack_digits + self.squared_radius
            if reach >= P:
                raise OverflowRisk(
                    "squared_radius",
                    f"{self.squared_radius} given for {self.columns} columns up to {self.largest}: {reach} "
                    "reached, less than p = 2^61 - 1 expected, or |z|^2 <= C^2 could hold modulo p alone",
                )

    @property
    def column_count(self) -> int:
        """The columns."""
        return self.columns

    @property
    def low(self) -> int:
        """The least number that digits write."""
        return widened_low(self.least, self.high)

    @property
    def mixing(self) -> tuple[tuple[int, ...], ...]:
        """The matrix."""
        return self.matrix

    @functools.cached_property
    def weights(self) -> tuple[int, ...]:
        """Weights of the digits of z_j - low."""
        return digit_weights(self.high - self.low)

    @functools.cached_property
    def largest(self) -> int:
        """The largest magnitude of a z_j, or (z M)_j, within the range."""
        bound = max(-self.low, self.high, 0)
        return bound * max((sum(map(abs, column)) for column in zip(*self.matrix, strict=True)), default=1)

    @functools.cached_property
    def slack_digits(self) -> int:
        """Digits of C^2 less the squared norm: the least number that can write C^2."""
        count = 0
        while self.squared_radius is not None and BASE**count <= self.squared_radius:
            count += 1
        return count

    @property
    def digits(self) -> int:
        """Digits of all z_j, then of the slack."""
        return self.columns * len(self.weights) + self.slack_digits

    @property
    def products(self) -> int:
        """Entries of the upper triangle of W; the squares of z where a ball needs them alone."""
        if self.moments:
            return self.columns * (self.columns + 1) // 2
        return 0 if self.squared_radius is None else self.columns

    @property
    def squares(self) -> Squares:
        """How products are checked."""
        return "products" if self.moments else "columns" if self.products else "none"

    @functools.cached_property
    def forms(self) -> tuple[LinearForm, ...]:
        """With a ball tr W + s - C^2, or sum_j y_j + s - C^2."""
        if self.squared_radius is None:
            return super().forms
        upper = np.flatnonzero(np.equal(*np.triu_indices(self.columns))) if self.moments else np.arange(self.columns)
        slack = self.columns * len(self.weights)
        terms = (
            *((self.digits + int(place), 1) for place in upper),
            *((slack + place, BASE**place) for place in range(self.slack_digits)),
        )
        return (LinearForm(terms, -self.squared_radius),)

    def transformed(self, z: Integers) -> Integers:
        """Return z M, or z where there is no matrix."""
        return z @ np.array(self.matrix, np.int64) if self.matrix else z

    def witness(self, z: Integers) -> Words:
        """Return the witnesses (n, witness words) of rows (n, d) of integers.

        Raises
        ------
        InputError
            If a row is outside the range or the ball: it has no witness.
        """
        if z.dtype != np.int64 or z.ndim != 2 or z.shape[1] != self.columns:
            raise InputError("z", f"{z.dtype} of shape {z.shape}", f"int64 of shape (n, {self.columns})")
        outside = ((z < self.low) | (z > self.high)).any(axis=1)
        if outside.any():
            row = int(outside.argmax())
            raise InputError("z", f"row {row} is {z[row].tolist()}, numbers from {self.low} to {self.high} expected")
        digits = digits_of(z - self.low, self.weights)
        parts = [digits.reshape(len(z), self.columns * len(self.weights))]
        w = self.transformed(z)
        if self.squared_radius is not None:
            slack = self.squared_radius - np.einsum("ij,ij->i", w, w)
            if (slack < 0).any():
                row = int((slack < 0).argmax())
                squared = self.squared_radius - int(slack[row])
                raise InputError("z", f"row {row} has squared norm {squared}, at most {self.squared_radius} expected")
            parts.append(digits_of(slack, tuple(BASE**place for place in range(self.slack_digits))))
        if self.moments:
            parts += [w[:, column : column + 1] * w[:, column:] for column in range(self.columns)]
        elif self.products:
            parts.append(w * w)
        return FIELD.embed(np.concatenate(parts, axis=1))


@dataclass(frozen=True)
class CellsCircuit(Circuit):
    """One cell of each of several grids: a digit for each cell, and the digits of each grid add up to 1.

    Digits are at least 0, so one of a grid's is 1 and the others are 0. That all digits add up to the number of grids
    would not do: two cells of one grid and none of another would pass.

    Parameters
    ----------
    sizes : tuple of int
        Cells of each grid.
    """

    sizes: tuple[int, ...]

    def _check(self) -> None:
        require_whole("sizes: grids", len(self.sizes), 1)
        largest = max(require_whole("sizes: cells", size, 1) for size in self.sizes)
        if (BASE - 1) * largest >= P:
            raise OverflowRisk("sizes", largest, "digits that add up to less than p = 2^61 - 1")

    @property
    def digits(self) -> int:
        """The cells of all grids."""
        return sum(self.sizes)

    @property
    def starts(self) -> tuple[int, ...]:
        """Where the digits of each grid begin."""
        return tuple(itertools.accumulate(self.sizes[:-1], initial=0))

    @functools.cached_property
    def forms(self) -> tuple[LinearForm, ...]:
        """The sum of the digits of each grid, less 1."""
        return tuple(
            LinearForm(tuple((start + cell, 1) for cell in range(size)), -1)
            for start, size in zip(self.starts, self.sizes, strict=True)
        )

    def witness(self, cells: Integers) -> Words:
        """Return the witnesses (n, cells) of rows (n, grids): the cell of each grid, from 0."""
        if cells.dtype != np.int64 or cells.ndim != 2 or cells.shape[1] != len(self.sizes):
            raise InputError("cells", f"{cells.dtype} of shape {cells.shape}", f"int64 of shape (n, {len(self.sizes)})")
        outside = ((cells < 0) | (cells >= np.array(self.sizes))).any(axis=1)
        if outside.any():
            row = int(outside.argmax())
            raise InputError(
                "cells", f"row {row} is {cells[row].tolist()}, from 0 to below {list(self.sizes)} expected"
            )
        words = np.zeros((len(cells), self.digits), np.uint64)
        words[np.arange(len(cells))[:, None], cells + np.array(self.starts)] = 1
        return words


def require_block(name: str, words: Words, count: int, width: int) -> Words:
    """Return words (count, width) that are canonical and contiguous, or refuse them."""
    if not isinstance(words, np.ndarray) or words.shape != (count, width):
        shape = words.shape if isinstance(words, np.ndarray) else type(words).__name__
        raise InputError(name, shape, f"({count}, {width})")
    return FIELD.require_canonical(words, name)


def require_bytes_block(name: str, block: Bytes, shape: tuple[int, ...]) -> Bytes:
    """Return bytes of one shape, contiguous, or refuse them."""
    if not isinstance(block, np.ndarray) or block.dtype != np.uint8 or block.shape != shape:
        found = f"{block.dtype} of shape {block.shape}" if isinstance(block, np.ndarray) else type(block).__name__
        raise InputError(name, found, f"uint8 of shape {shape}")
    return np.ascontiguousarray(block)
