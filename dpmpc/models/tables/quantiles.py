"""Quantiles, distribution and mean of a number among the people of a group, with intervals, from a release of cells.

Promised: the interval of a quantile covers that of the people's law at least as often as its level states, whatever the
law is, with any ties and at any number of people, where that number is public and the noise is normal; in a group, or
where values are missing, the number is itself an estimate (theorem quantile-interval). Values outside the
bounds count as the bounds. The standard error of a mean contains what the place of people within their cells can
change, whatever it is. Not promised: anything finer than a cell.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.data.variables import Variable
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.common.inference import normal_quantile
from dpmpc.release.results import NumberTable

_LOG_TAIL = -math.log(1e-14)  # of what is left out of a binomial law on either side
_DRAWS, _SEED = 1000, 20_240_229  # of the widest deviation; the seed only makes a reading repeatable


class Interval(NamedTuple):
    """An estimate, and the ends of its interval; NaN where the noise leaves no useful value."""

    value: float
    lower: float
    upper: float


def is_told(error: float, people: float, q: float = 0.5) -> bool:
    """Return whether a number of people with this standard error, of so many people, shows anything of the share q.

    It does if the error is smaller than the people on either side of it. Tables, pages, plans and collections all ask
    this: of ranks, whose quantiles they show, and of counts, whose percentages they show.
    """
    return normal_quantile(0.95) * error < people * min(q, 1 - q)


def told_from(variance: float, q: float = 0.5) -> int:
    """Return the fewest people of whom the share q is shown with noise of this variance: `is_told`, solved for them."""
    z2, least = normal_quantile(0.95) ** 2, min(q, 1 - q)
    spread = q * (1 - q) * z2
    return math.floor((spread + math.sqrt(spread**2 + 4 * least**2 * z2 * variance)) / (2 * least**2)) + 1


@dataclasses.dataclass(frozen=True, eq=False)
class Distribution:
    """A number's cells among some groups."""

    estimates: CellEstimates
    grid: int
    variable: Variable
    groups: NDArray[np.bool_]  # (G,): whose cells are added up

    @property
    def counts(self) -> Reals:
        """Noisy number of people in each cell (N,)."""
        cells = self.estimates.grids[self.grid].cells
        return np.asarray(self.estimates.counts[self.grid][self.groups, :cells].sum(axis=0))

    @property
    def people(self) -> float:
        """Noisy number of those who have a value."""
        return float(self.counts.sum())

    @property
    def missing(self) -> tuple[float, float]:
        """Noisy number of those who lack one, and its standard error."""
        if self.estimates.grids[self.grid].missing is None:
            return 0.0, 0.0
        gradient = np.zeros(self.estimates.counts[self.grid].shape)
        gradient[self.groups, -1] = 1.0
        return self.estimates.total(self.grid, gradient)

    @property
    def ends(self) -> Reals:
        """Ends (N + 1,) of the cells in units of the table; of a date in days since its lower bound.

        A cell that is a bound begins and ends there.
        """
        column, bounds = self.variable.term.columns[0], 1 + self.variable.has_cells_of_bounds
        ends = np.concatenate([[column.lower] * bounds, self.variable.inner_edges, [column.upper] * bounds])
        return np.exp(ends) if self.variable.transform == "log" else ends

    @property
    def middles(self) -> Reals:
        """What stands for the values in each cell (N,): the value itself where there is a step."""
        if self.variable.step is not None:
            return np.asarray(self.ends[0] + self.variable.step * np.arange(len(self.ends) - 1))
        return np.asarray((self.ends[:-1] + self.ends[1:]) / 2)

    def quantile(self, q: float, level: float = 0.95) -> Interval:
        """Return where the share q of the people is reached; NaN where noise hides it."""
        if not self.tells(q):
            return Interval(math.nan, math.nan, math.nan)
        first, last = self.cells_of(q, level)
        if self.variable.step is not None:
            return Interval(self._point(q), float(self.middles[first]), float(self.middles[last]))
        return Interval(self._point(q), float(self.ends[first]), float(self.ends[last + 1]))

    def cells_of(self, q: float, level: float = 0.95) -> tuple[int, int]:
        """Return the first and the last cell that the quantile may be in.

        If at least q of the law lies up to an edge, the rank there, as released, is at least Bin(n, q) plus noise in
        distribution: a rank that is too small for that lies below the quantile, and one that is too large above it. One
        test on each side decides, so that nothing is corrected for several.
        """
        require_fraction("q", q)
        require_fraction("level", level)
        off, variance = self._ranks(q)
        people, tail = max(round(self.people), 1), (1 - level) / 2
        at_most, below = _binomial_and_noise(off + q * people, np.sqrt(variance), people, q)
        possible = np.flatnonzero(at_most >= tail)
        first = int(possible[0]) if len(possible) else len(off)
        possible = np.flatnonzero(below <= 1 - tail)
        last = int(possible[-1]) + 1 if len(possible) else 0
        return min(first, last), max(first, last)

    def tells(self, q: float) -> bool:
        """Return whether the error of the quantile's rank is small beside the people on both of its sides."""
        require_fraction("q", q)
        people, (_, variance) = self.people, self._ranks(q)
        error = math.sqrt(max(people, 0.0) * q * (1 - q) + float(variance.max(initial=0.0)))
        return is_told(error, people, q)

    def told_from(self, q: float) -> int:
        """Return the fewest people of whom the quantile is shown: `tells`, solved for their number."""
        return told_from(float(self._ranks(q)[1].max(initial=0.0)), q)

    def rank_error(self) -> float:
        """Return the standard error that the noise alone has in the rank of the median, at the worst edge."""
        return math.sqrt(float(self._ranks(0.5)[1].max(initial=0.0)))

    def mean(self) -> tuple[float, float]:
        """Return the mean of the cells' middles and its standard error: noise, sampling and the width of the cells.

        Within its cell nobody is further from the middle than half of the width; with a step a cell is one value. So
        the mean is off by at most B = sum_c (n_c / n) width_c / 2 beside the error of variance v, and 1.96 times the
        root of v + B^2 covers at least 95 % whatever the law is, for
        Phi(1.96 sqrt(1 + t^2) - t) - Phi(-1.96 sqrt(1 + t^2) - t) >= 0.95 for every t = B / sqrt(v).
        """
        people = self.people
        if not self.tells(0.5):
            return math.nan, math.nan
        value = float(self.middles @ self.counts) / people
        gradient = np.zeros(self.estimates.counts[self.grid].shape)
        gradient[self.groups, : len(self.middles)] = (self.middles - value) / people
        halves = np.zeros(len(self.middles)) if self.variable.step is not None else np.diff(self.ends) / 2
        within = min(max(float(halves @ self.counts) / people, 0.0), float(halves.max()))
        value = min(max(value, float(self.middles[0])), float(self.middles[-1]))  # noise leaves the range, means do not
        return value, math.hypot(math.sqrt(self.estimates.variance(self.grid, gradient)), within)

    def ecdf(self, level: float = 0.95) -> NumberTable:
        """Return the share of the people up to each edge, with a band that covers all of the law at once."""
        require_fraction("level", level)
        shares = self._smooth() / max(self.people, 1.0)
        off = np.column_stack([np.eye(len(shares)), -shares])
        values, vectors = np.linalg.eigh(off @ self._noise @ off.T)
        rng = np.random.default_rng(_SEED)
        noise = rng.standard_normal((_DRAWS, len(values))) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        steps = np.diff(np.concatenate([[0.0], shares, [1.0]]))
        walk = np.cumsum(rng.standard_normal((_DRAWS, len(steps))) * np.sqrt(steps), axis=1)
        bridge = (walk - walk[:, -1:] * np.cumsum(steps))[:, :-1] * math.sqrt(max(self.people, 1.0))
        reach = float(np.quantile(np.abs(bridge + noise).max(axis=1), level)) / max(self.people, 1.0)
        raw = np.cumsum(self.counts)[:-1] / max(self.people, 1.0)
        lower = np.clip(np.maximum.accumulate(raw - reach), 0.0, 1.0)  # shares rise, so the band may be made to
        upper = np.clip(np.minimum.accumulate((raw + reach)[::-1])[::-1], 0.0, 1.0)
        ends = self.middles[:-1] if self.variable.step is not None else self.ends[1:-1]
        if self.variable.has_cells_of_bounds:  # up to the upper bound are all; below it, who is not at it
            ends, shares, lower, upper = (array[:-1] for array in (ends, shares, lower, upper))
        return NumberTable(
            f"Distribution of {self.variable.name}",
            {
                "up to": ends.tolist(),
                "share": shares.tolist(),
                "lower": np.minimum(lower, shares).tolist(),
                "upper": np.maximum(upper, shares).tolist(),
            },
            [str(number) for number in range(1, len(ends) + 1)],
            label="edge",
            notes=[f"The band covers the whole distribution at once, with {100 * level:g} %."],
            intervals={f"{100 * level:g} % band": ("lower", "upper")},
        )

    def histogram(self) -> NumberTable:
        """Return the number of people in each cell with its standard error, of noise alone."""
        totals = []
        for cell in range(len(self.counts)):
            gradient = np.zeros(self.estimates.counts[self.grid].shape)
            gradient[self.groups, cell] = 1.0
            totals.append(self.estimates.total(self.grid, gradient))
        return NumberTable(
            f"Histogram of {self.variable.name}",
            {
                "from": self.ends[:-1].tolist(),
                "to": self.ends[1:].tolist(),
                "people": [count for count, _ in totals],
                "std. error": [error for _, error in totals],
            },
            [str(number) for number in range(1, len(totals) + 1)],
            label="cell",
            errors={"people": "std. error"},
        )

    @property
    def shares(self) -> Reals:
        """Shares of the cells (N,) that are at least 0, from ranks that rise."""
        ranks = np.concatenate([[0.0], self._smooth(), [max(self.people, 1.0)]])
        return np.asarray(np.diff(ranks) / ranks[-1])

    def bars(self, most: int) -> tuple[Reals, Reals]:
        """Return ends and shares of at most so many bars: for a picture."""
        shares = self.shares
        places = np.unique(np.linspace(0, len(shares), min(most, len(shares)) + 1).round().astype(int))
        if self.variable.has_cells_of_bounds:  # which have no width: a bar holds one with its neighbour
            places = places[(places != 1) & (places != len(shares) - 1)]
        return np.asarray(self.ends[places]), np.add.reduceat(shares, places[:-1])

    @functools.cached_property
    def _noise(self) -> Reals:
        """The covariance (N, N) of the noise in the number of people up to each inner edge, and, last, of all."""
        cells = self.estimates.grids[self.grid].cells
        gradients = np.zeros((cells, *self.estimates.counts[self.grid].shape))
        gradients[:, self.groups, :cells] = np.tril(np.ones((cells, cells)))[:, None, :]
        return self.estimates.noise_covariance(self.grid, gradients)

    def _ranks(self, q: float) -> tuple[Reals, Reals]:
        """Return R_k - q n at each inner edge, and the variance of its noise: that of n goes in where n is noisy."""
        off, noise = np.cumsum(self.counts)[:-1] - q * self.people, self._noise
        variance = np.diag(noise)[:-1] - 2 * q * noise[:-1, -1] + q**2 * noise[-1, -1]
        return off, np.maximum(variance, 0.0)

    def _smooth(self) -> Reals:
        """Return the number of people up to each inner edge, made to rise and kept within its range."""
        return np.clip(_rising(np.cumsum(self.counts)[:-1]), 0.0, max(self.people, 0.0))

    def _point(self, q: float) -> float:
        """Return the value at which q of the people are reached, linear within a cell."""
        ranks = np.concatenate([[0.0], self._smooth(), [self.people]])
        cell = max(int(np.searchsorted(ranks, q * self.people, side="left")) - 1, 0)
        if self.variable.step is not None:
            return float(self.middles[cell])
        share = (q * self.people - ranks[cell]) / max(ranks[cell + 1] - ranks[cell], 1e-300)
        return float(self.ends[cell] + min(share, 1.0) * (self.ends[cell + 1] - self.ends[cell]))


def _binomial_and_noise(ranks: Reals, deviations: Reals, people: int, q: float) -> tuple[Reals, Reals]:
    """Return P(B + N(0, s^2) <= r) and P(B + N(0, s^2) < r) for B ~ Bin(n, q) and each rank r with its own s."""
    from scipy.special import gammaln, ndtr

    reach = math.sqrt(2 * people * q * (1 - q) * _LOG_TAIL) + _LOG_TAIL  # Bernstein's bound on either tail
    k = np.arange(max(math.floor(people * q - reach), 0), min(math.ceil(people * q + reach), people) + 1)
    logarithms = gammaln(people + 1) - gammaln(k + 1) - gammaln(people - k + 1)
    mass = np.exp(logarithms + k * math.log(q) + (people - k) * math.log1p(-q))
    mass /= mass.sum()
    at_most, below = np.empty(len(ranks)), np.empty(len(ranks))
    for place, (rank, deviation) in enumerate(zip(ranks.tolist(), deviations.tolist(), strict=True)):
        if deviation > 0:
            at_most[place] = below[place] = float(mass @ ndtr((rank - k) / deviation))
        else:
            whole = round(rank, 6)
            at_most[place], below[place] = float(mass[k <= whole].sum()), float(mass[k < whole].sum())
    return at_most, below


def _rising(values: Reals) -> Reals:
    """Return the nearest sequence that does not fall: adjacent violators are pooled."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (last, count), (before, more) = blocks.pop(), blocks.pop()
            blocks.append(((last * count + before * more) / (count + more), count + more))
    return np.concatenate([np.full(count, value) for value, count in blocks] or [np.empty(0)])
