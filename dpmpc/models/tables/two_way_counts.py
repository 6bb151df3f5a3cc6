"""Counts of two categories and the noise in them, from whatever release holds them: second moments, or cells by group.

Second moments of a table with a codebook hold all of its two-way tables. With E the codes (1, z) of the K values of a
variable, one a row, and B = E^-1, the one-hot vector of a client is (1, z) B. So the counts of two variables are T =
B_a^T M_ab B_b, for M_ab the released products of (1, z_a) and (1, z_b), and their noise has the covariance K D K^T with
K = B_a^T (x) B_b^T and D the variances of these products: v/2, and 0 or v in the corner. Cells hold the counts
themselves, of each category by the variable of the groups.

Promised: functions of the release; what is no table of people that count once is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema
from dpmpc.data.schemas import largest_squared_norm
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.common.release_parts import Blocks, is_grouped
from dpmpc.release.release import GramSource, Release


class TwoWayCounts(NamedTuple):
    """Noisy counts (R, C) of two variables, and the covariance (R C, R C) of their noise, row after row."""

    row: Variable
    column: Variable
    counts: Reals
    covariance: Reals

    @classmethod
    def of(cls, release: Release, a: str, b: str) -> TwoWayCounts:
        """Read those of two categories, answers included."""
        statistic = release.task.statistic
        known = release.task.schema.variables if isinstance(statistic, CellCounts) else _book(release).variables
        first, second = (_variable(known, name) for name in (a, b))
        if first.name == second.name:
            raise InputError("crosstab", f"{a!r} given twice, two variables expected")
        if isinstance(statistic, CellCounts):
            return cls._of_cells(release, statistic, first, second)
        if not is_grouped(release):
            _require_unclipped(release)
            return cls._of_moments(release, first, second)
        blocks = Blocks(release)
        _require_unclipped(release)
        if second.name == blocks.by:
            return cls.of(release, b, a).transposed()
        if first.name != blocks.by:
            return cls._of_moments(blocks, first, second)
        decode, places = _decode(blocks.schema, second)
        one = float(release.noise_variance[0])
        noise = decode.T @ np.diag([one, *[one / 2] * (len(places) - 1)]) @ decode
        counts = blocks.grams[:, 0][:, places] @ decode
        return cls(first, second, counts, np.asarray(np.kron(np.eye(len(counts)), noise), np.float64))

    @classmethod
    def _of_moments(cls, source: GramSource, first: Variable, second: Variable) -> TwoWayCounts:
        """Read products of (1, z) of both variables."""
        (left, rows), (right, columns) = (_decode(source.schema, one) for one in (first, second))
        counts = left.T @ source.gram().matrix[np.ix_(rows, columns)] @ right
        variances = np.full((len(rows), len(columns)), float(source.noise_variance[0]) / 2)
        variances[0, 0] = source.total_variance
        linear = np.kron(left.T, right.T)
        return cls(first, second, counts, (linear * variances.ravel()) @ linear.T)

    @classmethod
    def _of_cells(cls, release: Release, cells: CellCounts, first: Variable, second: Variable) -> TwoWayCounts:
        """Read a grid that is counted by both variables, summed over all else that it is counted by."""
        counted, both = cells.counted(release.task.schema), (first.name, second.name)
        for place, (variable, by) in enumerate(counted):
            axes = [one.name for one in (variable, *by) if one.categories]
            if not set(both) <= set(axes):
                continue
            estimates, grid = CellEstimates.of(release), cells.grids[place]
            sizes = [count + 1 for _, count in grid.groups]
            row, column = (np.indices(sizes).reshape(len(sizes), -1)[axes.index(name)] for name in both)
            shape = (len(first.categories), len(second.categories))
            within = (row * shape[1] + column)[None, :] == np.arange(math.prod(shape))[:, None]
            gradients = np.repeat(within[:, :, None].astype(np.float64), estimates.counts[place].shape[1], axis=2)
            counts = np.tensordot(gradients, estimates.counts[place], 2).reshape(shape)
            return cls(first, second, counts, estimates.noise_covariance(place, gradients))
        groups = dict.fromkeys(one.name for _, by in counted for one in by)
        held = f"variables by {', '.join(groups)} alone" if groups else "no variable by another"
        raise InputError(
            "crosstab",
            f"{first.name!r} and {second.name!r} given, but these cells count {held}; second moments hold all pairs",
        )

    def transposed(self) -> TwoWayCounts:
        """Return the same with rows and columns exchanged."""
        return TwoWayCounts(self.column, self.row, *transposed(self.counts, self.covariance))


def transposed(counts: Reals, covariance: Reals) -> tuple[Reals, Reals]:
    """Exchange rows and columns of counts, and of the covariance of their noise."""
    order = np.arange(counts.size).reshape(counts.shape).T.ravel()
    return counts.T, covariance[np.ix_(order, order)]


def _book(release: Release) -> Codebook:
    """Return the codebook of second moments whose rows all count once."""
    statistic, book = release.task.statistic, release.task.schema.codebook
    if not isinstance(statistic, SecondMoments | GroupedMoments):
        raise InputError(
            "crosstab", f"given with a release of {statistic.name}, one of second moments or of cells expected"
        )
    if not isinstance(book, Codebook):
        raise InputError("crosstab", "given, but the bounds of this release list no values, categories expected")
    if book.weight is not None:
        raise InputError(
            "crosstab", f"given, but rows have weights ({book.weight.column}), people that count once expected"
        )
    return book


def _variable(known: Sequence[Variable], name: str) -> Variable:
    """Return a variable with listed values, each of which has its own code."""
    listed = [one for one in known if one.categories]
    found = next((one for one in listed if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in listed) or "none"
        raise InputError("crosstab", f"{name!r}", "a variable with listed values", names)
    if found.if_missing == "middle":
        raise InputError(
            "crosstab",
            f'{name!r} given, whose missing values are coded between others, if_missing = "indicator" expected',
        )
    return found


def _decode(public: Schema, variable: Variable) -> tuple[Reals, list[int]]:
    """Return B, for which (1, z) B is one-hot, and the places of (1, z) in the Gram matrix."""
    columns, count = variable.term.columns, len(variable.categories)
    codes = np.zeros((count, len(columns)))
    codes[1:] = np.eye(count - 1)
    if variable.kind == "yes-no" and count > 2:
        codes[-1, 0] = columns[0].middle  # an answer that is missing
    for column in columns:
        if column.name not in public.names:
            raise InputError("crosstab", f"{variable.name!r} given, but this release lacks its column {column.name!r}")
    normalised = (codes - [column.middle for column in columns]) / [column.half_width for column in columns]
    inverse = np.linalg.inv(np.column_stack([np.ones(count), normalised]))
    return inverse, [0, *(1 + public.index(column.name) for column in columns)]


def _require_unclipped(release: Release) -> None:
    """Refuse rows that were clipped to a ball, whose products are no counts."""
    statistic, schema = release.task.statistic, release.schema
    assert isinstance(statistic, SecondMoments | GroupedMoments)
    if statistic.radius is None:
        return
    book = release.task.schema.codebook
    largest = book.radius_of(schema.names) if isinstance(book, Codebook) else None
    if statistic.radius**2 < largest_squared_norm(len(schema.names), largest) - 1e-9:
        raise InputError(
            "crosstab",
            f"given, but rows were clipped to a ball of radius {statistic.radius:g}, in which some do not lie",
        )
