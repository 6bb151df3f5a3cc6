"""Histograms of several variables at once: a client is in one cell of each public grid, and adds a public code of it.

A grid is a number in ordered cells, a category, or either of them by groups. Each cell has a column of a public matrix
of integers, its strategy: the identity, or a root of prefix sums, with which the number of people up to a value, and so
every quantile, gets far less noise than by adding up noisy cells (theorem cell-sums).

Promised: one client moves the sums by at most `CellCounts.sensitivity`, computed from the very integers that are added
up, and whatever its row holds it is in exactly one cell of each grid. Not promised: that cells of different grids
belong to one person, or are true.
"""

from __future__ import annotations

import abc
import functools
import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from dpmpc.base.arguments import require_choice, require_whole
from dpmpc.base.arrays import Integers, Reals, Words
from dpmpc.base.errors import InputError
from dpmpc.base.storage import Record
from dpmpc.data import Schema
from dpmpc.data.variables import MOST_CELLS, Variable
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.contributions.grouped_moments import shown_group
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.encoding.ring import Ring

BITS = 10  # behind the point of all strategies; the same integers are solved for, so that rounding costs nothing
MOST_WORDS = 8192  # of all grids together
_FEW_CELLS = 8  # so many ordered cells are counted as they are
_FREE = 0.999  # of the largest weight of a group's total that leaves the sensitivity as it is; the rest is for rounding
_HALF = 32  # bits of an element that are multiplied at a time
_SET = 0.5  # an indicator above this says that a value is missing
_AT_BOUND = 2.0**-40  # of the range: so near, a value counts as the bound, whatever logarithm a client has rounded

Strategy = Literal["identity", "root", "path"]


class CellGrid(Record, frozen=True):
    """Cells of which every client is in exactly one.

    Parameters
    ----------
    strategy : {"identity", "root", "path"}
        The public matrix of a group's ordered cells.
    column : int, optional
        Position of the number that is cut into cells; none for a grid of groups alone.
    edges : tuple of float
        Ends between its cells, normalised and rising; each cell holds its upper end.
    missing : int, optional
        Position of the indicator of its missing values, which have one more cell in each group.
    groups : tuple of pairs of int
        Position of the first indicator and number of indicators of each variable by which is counted.

    Raises
    ------
    InputError
        If these do not belong together, or there are fewer than two cells.
    """

    called: ClassVar[str] = "grid of cells"
    strategy: Strategy
    column: int | None = None
    edges: tuple[float, ...] = ()
    missing: int | None = None
    groups: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        require_choice("strategy", self.strategy, ("identity", "root", "path"))
        force_setattr(self, "edges", tuple(float(edge) for edge in self.edges))
        force_setattr(self, "groups", tuple((int(first), int(count)) for first, count in self.groups))
        for place in (self.column, self.missing):
            if place is not None:
                require_whole("column", place, 0)
        for first, count in self.groups:
            require_whole("groups: first", first, 0)
            require_whole("groups: indicators", count, 1)
        ordered = sorted(self.groups)
        if any(first + count > later for (first, count), (later, _) in itertools.pairwise(ordered)):
            raise InputError("groups", f"{list(self.groups)}", "variables with indicators of their own")
        if self.column is None and (self.edges or self.missing is not None):
            raise InputError("column", "none", "one", condition="with edges or missing values")
        rising = all(low < high for low, high in itertools.pairwise([-math.inf, *self.edges, math.inf]))
        if not rising or len(self.edges) > MOST_CELLS + 1:  # with a cell for each bound
            raise InputError("edges", f"{list(self.edges)[:8]}", f"at most {MOST_CELLS + 1} rising numbers")
        if self.strategy != "identity" and self.cells < 2:
            raise InputError(
                "strategy", f"{self.strategy!r}", "'identity'", condition="of a grid without ordered cells"
            )
        if self.strategy == "root" and self.group_count > 1:
            raise InputError("strategy", "'root'", "'identity' or 'path'", condition="of a grid with groups")
        if self.words < 2:
            raise InputError(self.called, "one cell", "at least two")

    @property
    def cells(self) -> int:
        """Ordered cells of a group, N."""
        return len(self.edges) + 1

    @property
    def group_count(self) -> int:
        """Number of groups, G."""
        return math.prod(count + 1 for _, count in self.groups)

    @property
    def words(self) -> int:
        """What the grid adds to a contribution: N entries for each group, then one for the missing of each."""
        return self.group_count * (self.cells + (self.missing is not None))

    @property
    def places(self) -> tuple[int, ...]:
        """Positions of the columns that are read."""
        last_places = [first + count - 1 for first, count in self.groups]
        return tuple(place for place in (self.column, self.missing, *last_places) if place is not None)

    def group_of(self, rows: Reals) -> NDArray[np.intp]:
        """Return the group (m,) of each normalised row, the last variable's values next to each other."""
        numbers = np.zeros(len(rows), np.intp)
        for first, count in self.groups:
            numbers = numbers * (count + 1) + shown_group(rows, first, count)
        return numbers

    def cell_of(self, rows: Reals) -> NDArray[np.intp]:
        """Return the ordered cell (m,) of each normalised row."""
        if self.column is None:
            return np.zeros(len(rows), np.intp)
        return np.searchsorted(self.edges, rows[:, self.column], side="left")

    def lacks(self, rows: Reals) -> NDArray[np.bool_]:
        """Return which rows (m,) lack the number."""
        return np.zeros(len(rows), np.bool_) if self.missing is None else rows[:, self.missing] > _SET

    def place_of(self, rows: Reals) -> NDArray[np.intp]:
        """Return the place (m,) of each row among the grid's cells, in the order of `words`."""
        groups = self.group_of(rows)
        missing = self.group_count * self.cells + groups
        return np.where(self.lacks(rows), missing, groups * self.cells + self.cell_of(rows))


class Reach(NamedTuple):
    """By how much one client moves a grid's sums, in units of 2^-10: exact integers."""

    squared: int
    l1: int
    linf: int
    largest: int  # magnitude of an entry


@functools.lru_cache(maxsize=64)
def strategy_matrix(strategy: Strategy, cells: int) -> Integers:
    """Return T (N, N) in units of 2^-10: what the cells of a group add, as its columns.

    The identity; the root of prefix sums, lower-triangular with 1, 1/2, 3/8, .. = C(2k, k)/4^k; or that of a path,
    L^(-1/4) for L the Laplacian of the path on N cells, beside the largest weight of the total that is free.
    """
    if strategy == "identity":
        matrix = np.eye(cells, dtype=np.int64) << BITS
    elif strategy == "root":
        # to the nearest integer, in integers: floor(x + 1/2)
        steps = [((math.comb(2 * k, k) << (BITS + 1)) + 4**k) // (2 * 4**k) for k in range(cells)]
        lag = np.subtract.outer(np.arange(cells), np.arange(cells))
        matrix = np.where(lag >= 0, np.array(steps, np.int64)[np.abs(lag)], 0)
    else:
        frequency, middle = np.arange(cells), np.arange(cells) + 0.5
        basis = np.cos(np.pi * np.outer(frequency, middle) / cells) * math.sqrt(2 / cells)
        basis[0] = math.sqrt(1 / cells)
        weights = np.zeros(cells)
        weights[1:] = (2 - 2 * np.cos(np.pi * frequency[1:] / cells)) ** -0.25
        gram = basis.T @ (weights[:, None] ** 2 * basis)
        norms = np.diag(gram)
        apart = norms[:, None] + norms - 2 * gram
        weights[0] = math.sqrt(max(cells * (apart.max() / 2 - norms.max()), 0.0)) * _FREE
        matrix = np.rint(basis.T @ (weights[:, None] * basis) * 2**BITS).astype(np.int64)
    matrix.setflags(write=False)
    return matrix


@functools.lru_cache(maxsize=64)
def _reach(strategy: Strategy, cells: int, groups: int, missing: bool) -> Reach:
    """Return the maxima over all pairs of columns of I_G x T beside 2^10 for each missing cell, as they are rounded."""
    matrix = strategy_matrix(strategy, cells)
    real = matrix.astype(np.float64)
    gram = (real.T @ real).astype(np.int64)  # exact, as the next sums: they stay below 2^53
    norms, sizes = np.diag(gram), np.abs(matrix).sum(axis=0)
    largest, unit = int(np.abs(matrix).max()), 1 << BITS
    squared = [int((norms[:, None] + norms - 2 * gram).max())]
    each = np.ones(cells)
    l1 = [max(int((each @ np.abs(real[:, start:] - real[:, start : start + 1])).max()) for start in range(cells))]
    linf = [int((matrix.max(axis=1) - matrix.min(axis=1)).max())]
    if groups > 1:  # other groups are other coordinates
        squared, l1, linf = [*squared, 2 * int(norms.max())], [*l1, 2 * int(sizes.max())], [*linf, largest]
    if missing:
        squared, l1 = [*squared, int(norms.max()) + unit**2], [*l1, int(sizes.max()) + unit]
        linf, largest = [*linf, largest, unit], max(largest, unit)
    if missing and groups > 1:
        squared, l1 = [*squared, 2 * unit**2], [*l1, 2 * unit]
    return Reach(max(squared), max(l1), max(linf), largest)


class CellCodes(Contribution):
    """A public integer code of the one cell of each grid that a client is in: what a digit for each cell can prove.

    Attributes
    ----------
    exact_bits : int
        Behind the point of the code's integers: no encoding of fewer holds it.
    """

    exact_bits: ClassVar[int]

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """Cells of each grid."""

    @abc.abstractmethod
    def cells_of(self, rows: Reals) -> Integers:
        """Return the cell (m, grids) of each normalised row in each grid, from 0."""

    @abc.abstractmethod
    def coded(self, digits: Words, ring: Ring) -> Words:
        """Return the code (m, width) of numbers of people in each cell (m, cells): linear, so of shares as well."""


class CellCounts(CellCodes):
    """For each grid the strategy's column of the cell that the client is in, one after another.

    Parameters
    ----------
    grids : sequence of CellGrid
        At least one; 8,192 words at most in all.
    digest : str, optional
        SHA-256 of the strategies' integers. Where this machine computes others, the contribution is refused.
    """

    name = "cell-counts"
    exact_bits = BITS

    def __init__(self, grids: Sequence[CellGrid | Mapping[str, Any]], digest: str | None = None):
        self.grids = tuple(grid if isinstance(grid, CellGrid) else CellGrid.from_dict(grid) for grid in grids)
        if not self.grids:
            raise InputError("grids", "none", "at least one")
        words = sum(grid.words for grid in self.grids)
        if words > MOST_WORDS:
            raise InputError(
                "cells",
                f"{words:,} given in {len(self.grids)} grids, at most {MOST_WORDS:,} expected: take fewer "
                "columns, groups or cells",
            )
        strategies = hashlib.sha256()
        for grid in self.grids:
            strategies.update(f"{grid.strategy} {grid.cells}:".encode())
            strategies.update(strategy_matrix(grid.strategy, grid.cells).astype("<i8").tobytes())
        self.digest = strategies.hexdigest()
        if digest is not None and digest != self.digest:
            raise InputError(
                "digest",
                f"{digest!r}",
                self.digest,
                "this machine computes other integers of the strategies, which whoever adds cells up has "
                "to know exactly",
            )

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Make the contribution of a task, which names the integers that its clients add up."""
        if not isinstance(facts.get("digest"), str):
            digest = facts.get("digest", "none")
            raise InputError("digest", f"{digest!r}", "the SHA-256 of the strategies", condition="in every task")
        return cls(**facts)

    @classmethod
    def of(cls, schema: Schema, by: str | Sequence[str] | None = None) -> CellCounts:
        """Return the contribution that counts all variables of a schema, each by the groups of some of them.

        Parameters
        ----------
        schema : Schema
            Bounds of the columns; a codebook's variables state what their cells are.
        by : str or sequence of str, optional
            Categories, or answers yes or no: everybody is in one group of all of them together.

        Raises
        ------
        InputError
            If a variable is not there or cannot be counted, or there are too many cells.
        """
        if schema.weighted:
            raise InputError(
                "bounds",
                "with weights or rows of zeros",
                "neither",
                'if_missing = "indicator" in a column counts those who lack its value',
                condition="where people are counted",
            )
        known = {variable.name: variable for variable in schema.variables}
        names = () if by is None else (by,) if isinstance(by, str) else tuple(by)
        for name in names:
            if name not in known:
                raise InputError("by", f"{name!r}", "a column of the bounds", f"there are {', '.join(known)}")
        listed = [name for name in known if name not in names]
        if not listed:
            raise InputError("columns", f"none given with {', '.join(map(repr, names))}, at least one expected")
        groups = [known[name] for name in names]
        for group in groups:
            if not group.categories:
                raise InputError(
                    "by",
                    f"{group.name!r}",
                    f"a {group.kind}, a column",
                    "values = [...], or yes and no",
                    condition="whose values the bounds list",
                )
        return cls([_grid(schema, known[name], groups) for name in listed])

    def parameters(self) -> dict[str, Any]:
        """Return the grids and the digest of their strategies."""
        return {"grids": [grid.to_dict() for grid in self.grids], "digest": self.digest}

    def counted(self, schema: Schema) -> list[tuple[Variable, tuple[Variable, ...]]]:
        """Return the variable of each grid, and those whose groups it is counted by.

        Raises
        ------
        InputError
            If a grid is not what the schema states of its variables.
        """
        pairs: list[tuple[Variable, tuple[Variable, ...]]] = []
        known = schema.variables
        by_place = {
            schema.index(candidate.term.columns[0].name): candidate for candidate in known if _is_in(schema, candidate)
        }
        for grid in self.grids:
            places = [*([] if grid.column is None else [grid.column]), *(first for first, _ in grid.groups)]
            named = [by_place.get(place) for place in places]
            if not named or None in named:
                raise InputError(grid.called, grid, "one of the variables of the bounds")
            variable, *groups = [candidate for candidate in named if candidate is not None]
            expected = _grid(schema, variable, groups)
            if (grid.edges, grid.missing, grid.groups) != (expected.edges, expected.missing, expected.groups):
                raise InputError(grid.called, grid, expected, condition="by the bounds")
            pairs.append((variable, tuple(groups)))
        return pairs

    def starts(self) -> list[int]:
        """Return where each grid begins in a contribution, and behind the last where it ends."""
        return [0, *itertools.accumulate(grid.words for grid in self.grids)]

    def width(self, columns: int) -> int:
        """Return the words of all grids."""
        for grid in self.grids:
            if max(grid.places) >= columns:
                raise InputError("columns", columns, f"{max(grid.places) + 1} or more", condition=f"by {self.name}")
        return self.starts()[-1]

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode each row as the columns of its cells."""
        shift = self._shift(encoding)
        contributions = np.zeros((len(rows), self.width(rows.shape[1])), np.int64)
        every = np.arange(len(rows))
        for grid, start in zip(self.grids, self.starts(), strict=False):
            ordered = grid.group_count * grid.cells
            block = contributions[:, start : start + ordered].reshape(len(rows), grid.group_count, grid.cells)
            groups, lacks = grid.group_of(rows), grid.lacks(rows)
            cells = strategy_matrix(grid.strategy, grid.cells).T[grid.cell_of(rows)] << shift
            cells[lacks] = 0
            block[every, groups] = cells
            contributions[:, start : start + ordered] = block.reshape(len(rows), ordered)
            contributions[every[lacks], start + ordered + groups[lacks]] = 1 << (BITS + shift)
        return contributions

    @property
    def sizes(self) -> tuple[int, ...]:
        """Words of each grid."""
        return tuple(grid.words for grid in self.grids)

    def cells_of(self, rows: Reals) -> Integers:
        """Return the place of each row in each grid, missing values last."""
        return np.column_stack([grid.place_of(rows) for grid in self.grids]).astype(np.int64)

    def coded(self, digits: Words, ring: Ring) -> Words:
        """Apply the strategies: to sums once, as that takes the square of a group's cells."""
        coded_digits = ring.scale(np.ascontiguousarray(digits), 1 << BITS)  # right for identities and missing values
        for grid, start in zip(self.grids, self.starts(), strict=False):
            if grid.strategy != "identity":
                ordered = slice(start, start + grid.group_count * grid.cells)
                groups = np.ascontiguousarray(digits[:, ordered]).reshape(-1, grid.cells)
                matrix = strategy_matrix(grid.strategy, grid.cells)
                coded_digits[:, ordered] = multiplied(groups, matrix, ring).reshape(len(digits), -1)
        return coded_digits

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return the root of the sum of the grids' squared reaches: grids are different coordinates.

        Lemma: none; the reach of a strategy is computed from all pairs of its columns.
        """
        shift, width = self._shift(encoding), self.width(columns)
        reaches = [_reach(g.strategy, g.cells, g.group_count, g.missing is not None) for g in self.grids]
        squared = sum(reach.squared for reach in reaches) << (2 * shift)
        l2 = math.isqrt(squared)
        return Sensitivity(
            l1=float(sum(reach.l1 for reach in reaches) << shift),
            l2=math.nextafter(math.sqrt(squared), math.inf) if l2 * l2 < squared else float(l2),
            linf=float(max(reach.linf for reach in reaches) << shift),
            columns=width,
        )

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the largest integer of a strategy."""
        reaches = [_reach(g.strategy, g.cells, g.group_count, g.missing is not None) for g in self.grids]
        return max(reach.largest for reach in reaches) << self._shift(encoding)

    def _shift(self, encoding: FixedPoint) -> int:
        """Return by how many bits an encoding is finer than the strategies."""
        if encoding.fractional_bits < BITS:
            raise InputError("fractional_bits", encoding.fractional_bits, f"at least {BITS}", condition="of cells")
        return encoding.fractional_bits - BITS


def multiplied(vectors: Words, matrix: Integers, ring: Ring) -> Words:
    """Return the products (m, N) of a matrix of integers with vectors (m, N) of elements.

    The low and the high half of an element are multiplied as integers. Entries below 2^18, fewer than 2^10 in a row,
    keep sums below 2^60.
    """
    half = np.uint64((1 << _HALF) - 1)
    low, high = ((part.astype(np.int64) @ matrix.T) for part in (vectors & half, vectors >> np.uint64(_HALF)))
    return ring.multiply_add(ring.embed(high), 1 << _HALF, ring.embed(low))


def _is_in(schema: Schema, variable: Variable) -> bool:
    return variable.term.columns[0].name in schema.names


def _grid(schema: Schema, variable: Variable, groups: Sequence[Variable]) -> CellGrid:
    """Return the grid of a variable by groups, or return why it cannot be counted."""
    for counted in (variable, *groups):
        if counted.if_missing == "middle":
            raise InputError(
                f"column {counted.name!r}",
                "if_missing = 'middle' given, which would count who lacks a value at another one; "
                "'indicator' expected, which counts them by themselves",
            )
        if len(set(counted.categories)) < len(counted.categories):
            raise InputError(
                f"column {counted.name!r}",
                f"a value called {counted.categories[-1]!r} given with those that are missing, another name expected",
            )
        for column in counted.term.columns:
            schema.index(column.name)  # an error that names it where it is not there
    if variable.transform == "spline":
        raise InputError(
            f"column {variable.name!r}", "a spline", "a number, a date or a category", condition="of cells"
        )
    factors = tuple(
        (schema.index(counted.term.columns[0].name), len(counted.term.columns))
        for counted in ((variable, *groups) if variable.categories else groups)
    )
    if variable.categories:
        return CellGrid(strategy="identity", groups=factors)
    place = schema.index(variable.term.columns[0].name)
    column = variable.term.columns[0]
    marks = np.concatenate([[column.lower], variable.inner_edges, [column.upper]])
    rows = np.tile(schema.offset, (len(marks), 1))
    rows[:, place] = marks
    low, *inner, high = schema.normalise(rows)[:, place].tolist()  # by the kernel that clients use: ties stay ties
    at = _AT_BOUND * (high - low)
    edges = (low + at, *inner, high - at) if variable.has_cells_of_bounds else tuple(inner)
    lacking = variable.term.columns[-1].name if variable.if_missing == "indicator" else None
    few = len(edges) < _FEW_CELLS
    return CellGrid(
        strategy="identity" if few else "path" if factors else "root",
        column=place,
        edges=edges,
        missing=None if lacking is None else schema.index(lacking),
        groups=factors,
    )
