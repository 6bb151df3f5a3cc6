"""Private bounds: ranges of columns that noisy counts suggest, where the declared bounds are much wider than the data.

The noise in a slope is in proportion to the bounds of its column. A part of the budget therefore counts people in equal
cells of each number and date (`CellCounts`), and the bounds become

    median +- 6 (interquartile range / 1.349),  within the declared ones and rounded outwards to whole cells.

All later sums clip values there. Like coefficients in steering, the new bounds are a function of releases: the squares
of all mu add up.

Promised: bounds are never wider than declared; each comes with the share of people who are clipped, and the error of
that. A column whose quartiles lie within two cells keeps its bounds, since its counts do not show its spread: one of
few values, such as a rare 0/1 column, or one whose standard deviation is below about 1/86 of half its bounds. Not
promised: the regression of values that are not clipped. Where the mean bends in a long tail, it has other slopes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Column, Schema
from dpmpc.linear.contributions.cells import MOST_WORDS, CellCounts, CellGrid
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.common.inference import normal_quantile
from dpmpc.models.common.releases import Releases
from dpmpc.privacy.task import Task
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable

SHARE = 0.05  # of mu^2
_REACH = 6.0  # standard deviations on either side of the median
_NORMAL = 1.349  # interquartile range of a standard normal law
_MOST_CELLS = 256
_FEWEST_CELLS = 2  # between the quartiles, for which a spread is computed
_MOST_RANK_ERROR = 0.05  # of all people, in the number of people below a value


@dataclasses.dataclass(frozen=True)
class PrivateBound:
    """The bounds of one column.

    Attributes
    ----------
    column : Column
        With the bounds that the fit uses.
    declared : Column
        With those that were given.
    clipped, clipped_error : float
        The share of people whose value lies between the two, and the standard error of its noise.
    """

    column: Column
    declared: Column
    clipped: float
    clipped_error: float

    @property
    def narrower(self) -> bool:
        """Whether the bounds have changed."""
        return self.column != self.declared


def narrow(releases: Releases, share: float, *, target: bool) -> tuple[PrivateBound, ...]:
    """Have the people in cells counted, and narrow the columns of all later releases.

    Parameters
    ----------
    releases : Releases
        Of which none has been made.
    share : float
        Of mu^2, which the counts take.
    target : bool
        Whether the last column is counted too.

    Raises
    ------
    InputError
        If no column can be counted, or too few people are there for the noise; before anything is spent.
    """
    counts = counts_of(releases.schema, target=target)
    require_people(releases.task(share, counts), counts)
    bounds = private_bounds(releases.make(share, counts))
    columns = {bound.column.name: bound.column for bound in bounds}
    public = releases.schema
    narrowed = tuple(columns.get(column.name, column) for column in public.columns)
    releases.narrow(msgspec.structs.replace(public, columns=narrowed, outside="clip"))
    return bounds


def counts_of(public: Schema, *, target: bool) -> CellCounts:
    """Return the counts of all numbers and dates, the last column among them where `target` is true."""
    book = public.codebook if isinstance(public.codebook, Codebook) else Codebook.of_columns(public.columns)
    names = [name for name in (public.names if target else public.names[:-1]) if name not in book.indicators]
    if not names:
        raise InputError("private_bounds", f"given, but none of {', '.join(public.names)} is a number or a date")
    cells = min(_MOST_CELLS, 1 << ((MOST_WORDS // len(names) - 1).bit_length() - 1))
    edges = tuple(np.linspace(-1.0, 1.0, cells + 1)[1:-1].tolist())
    missing = {one.term.columns[0].name: one.term.columns[-1].name for one in book.variables if one.term.shown == 1}

    def lacking(name: str) -> int | None:
        indicator = missing.get(name, name)
        return public.index(indicator) if indicator != name and indicator in public.names else None

    return CellCounts(
        [CellGrid(strategy="root", column=public.index(name), edges=edges, missing=lacking(name)) for name in names]
    )


def require_people(task: Task, counts: CellCounts) -> None:
    """Refuse counts whose noise hides where the quartiles are; a function of public numbers."""
    noise = CellEstimates(counts, np.zeros(counts.starts()[-1]), float(task.noise_variance[0]), task.clients)
    cells = counts.grids[0].cells
    below = np.zeros((1, *noise.counts[0].shape))
    below[..., : cells // 2] = 1.0
    error = math.sqrt(float(noise.noise_variance(0, below)[0])) / task.clients
    if error > _MOST_RANK_ERROR:
        raise InputError(
            "private_bounds",
            f"given for {task.clients:,} people, in whose ranks the noise of the counts is {error:.1%} of "
            f"all, at most {_MOST_RANK_ERROR:.0%} expected. Nothing was spent. More people, a larger "
            "epsilon or fewer columns would help",
        )


def within_private_bounds(means: Reals, spreads: Reals) -> tuple[Reals, Reals, Reals]:
    """Return means and deviations of Gaussian columns within the bounds that they get, and the length of these.

    Parameters
    ----------
    means, spreads : ndarray of float64, shape (d,)
        On the scale of the declared bounds, [-1, 1].

    Returns
    -------
    means, spreads, lengths : ndarray of float64, shape (d,)
        On the scale of the new bounds, and their length in declared ones. A column keeps its bounds where its quartiles
        are expected within two cells.
    """
    low, high = (np.clip(means + sign * _REACH * spreads, -1.0, 1.0) for sign in (-1, 1))
    kept = _NORMAL * spreads * _MOST_CELLS / 2 < _FEWEST_CELLS
    low, high = np.where(kept, -1.0, low), np.where(kept, 1.0, high)
    lengths = (high - low) / 2
    return (means - (low + high) / 2) / lengths, spreads / lengths, lengths


def private_bounds(release: Release) -> tuple[PrivateBound, ...]:
    """Read the bounds of all columns that were counted."""
    estimates, public = CellEstimates.of(release), release.schema
    places = [grid.column for grid in estimates.grids]
    return tuple(_bound(estimates, number, public.columns[place or 0]) for number, place in enumerate(places))


def _bound(estimates: CellEstimates, place: int, declared: Column) -> PrivateBound:
    """Return the bounds of a column, from the cells of its grid."""
    counts, cells = estimates.counts[place], estimates.grids[place].cells
    below = np.maximum.accumulate(np.append(0.0, np.cumsum(counts[0, :cells])))
    low, middle, high = np.interp(below[-1] * np.array([0.25, 0.5, 0.75]), below, np.arange(cells + 1.0))
    reach = _REACH * (high - low) / _NORMAL if high - low >= _FEWEST_CELLS else cells
    first, last = max(math.floor(middle - reach), 0), min(math.ceil(middle + reach), cells)
    outside = np.zeros(counts.shape)
    outside[0, :first] = outside[0, last:cells] = 1.0
    clipped, error = estimates.total(place, outside)
    width = (declared.upper - declared.lower) / cells
    column = Column(
        declared.name,
        declared.lower + first * width if first else declared.lower,
        declared.lower + last * width if last < cells else declared.upper,
    )
    return PrivateBound(column, declared, clipped / estimates.people, error / estimates.people)


def bounds_table(bounds: Sequence[PrivateBound], level: float) -> NumberTable:
    """Return the bounds that are narrower than declared, and the share of people whom they clip."""
    listed = [bound for bound in bounds if bound.narrower]
    z = normal_quantile((1 + level) / 2)
    ends = [(bound.clipped - z * bound.clipped_error, bound.clipped + z * bound.clipped_error) for bound in listed]
    kept = [bound.column.name for bound in bounds if not bound.narrower]
    return NumberTable(
        "Private bounds",
        {
            "lower": [bound.column.lower for bound in listed],
            "upper": [bound.column.upper for bound in listed],
            "% clipped": [100 * max(bound.clipped, 0.0) for bound in listed],
            "% from": [100 * max(low, 0.0) for low, _ in ends],
            "to": [100 * min(max(high, 0.0), 1.0) for _, high in ends],
        },
        [bound.column.name for bound in listed],
        label="column",
        notes=[
            "Values outside of these bounds count as the bounds, in every sum of the regression. The regression is of "
            "values that are clipped so: where its mean bends in a long tail, slopes without clipping are others.",
            *([f"As declared: {', '.join(kept)}."] if kept else []),
        ],
        intervals={"interval of % clipped": ("% from", "to")},
    )
