"""Kaplan-Meier curves, medians, restricted means and the log-rank test, as they are read from a release of cells.

Promised: all of it is a function of the release. Intervals and p-values hold for whatever order events and exits had
within cells: they go from the interval of one extreme order to that of the other, which is proved (theorem
order-in-cells); of each order their errors cover sampling and the noise by the delta method, measured and not proved.

To first order, with d_i events and n_i at risk in cell i and h_i = d_i / n_i, log S(t_j) = sum log(1 - h_i) has the
derivatives -1/(n_i (1 - h_i)) by d_i and h_i/(n_i (1 - h_i)) by n_i, i <= j. A log-rank score U_a = sum (d_aj - D_j
p_aj) is moved by the order within cells by at most sum D_j times the larger deviation of p_aj, whose extremes have all
others leave first and group a last, or the other way around; the statistic shown is the least of all orders.

Where too few people are at risk a curve ends, and what is the order's rather than the data's is left out. Not promised:
anything about times beyond the end of a curve.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.models.common.inference import chi2_tail, normal_quantile
from dpmpc.models.common.summary import p_text
from dpmpc.models.survival.survival_cells import FIRST, HALFWAY, LARGE_MOVE, LAST, Members, SurvivalCells
from dpmpc.models.tables.quantiles import Interval, _rising
from dpmpc.release.results.number_tables import number_text

EVERYBODY = "all"
_DRAWS, _SEED = 1000, 20_240_229  # of the widest deviation; the seed only makes a reading repeatable
_BAND_FROM = 2  # cells, of which the first have hardly an event: no law of large numbers holds there
_LEAST_BAND = 2  # cells that a band is drawn through
_LEAST_HAZARD, _MOST_LOG = 1e-3, 50.0  # of cumulative hazards in a band
_HAZARD = (-0.5, 0.95)  # what a noisy hazard may be
_ARM_ERRORS, _ARM_LEAST = 2.0, 1.0  # standard errors and people of an arm at whose number at risk the test ends
NARROWER = "narrower cells of the time would do"


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """The survival function of some people, up to where it can be shown, for one order within cells.

    If all who left within a cell did so before its first event, and events of a mean lie where cells begin, the curve
    is the lowest there can be; the other way around it is the highest. An estimate is halfway.
    """

    cells: SurvivalCells
    members: Members
    away: float = HALFWAY

    @functools.cached_property
    def end(self) -> int:
        """How many cells can be shown."""
        return self.cells.ends(self.members)

    @functools.cached_property
    def lowest(self) -> Curve:
        """The curve if all left, and had the event, as early as their cells allow."""
        return dataclasses.replace(self, away=FIRST)

    @functools.cached_property
    def highest(self) -> Curve:
        """The curve if all left, and had the event, as late as their cells allow."""
        return dataclasses.replace(self, away=LAST)

    @property
    def times(self) -> Reals:
        """Those that can be shown (E,)."""
        return self.cells.times[: self.end]

    @functools.cached_property
    def log_survival(self) -> Reals:
        """The logarithm (E,) of the share that survives each time: noise can make it rise."""
        return np.cumsum(np.log1p(-self._hazard))

    @functools.cached_property
    def gradients(self) -> Reals:
        """The gradients (E, G, C) of that by the counts."""
        at_risk, hazard = self.cells.hazards(self.members, away=self.away)[0][: self.end], self._hazard
        weight = 1 / (np.maximum(at_risk, 1.0) * (1 - hazard))
        by_events = np.zeros((self.end, 1, len(self.cells.times)))
        by_events[:, 0, : self.end] = np.tril(np.ones((self.end, self.end))) * -weight
        by_risk = by_events.copy()
        by_risk[:, 0, : self.end] *= -hazard
        return self.cells.gradient([self.members], by_events, by_risk, away=self.away)

    @property
    def _hazard(self) -> Reals:
        at_risk, events = (values[: self.end] for values in self.cells.hazards(self.members, away=self.away))
        return np.clip(events / np.maximum(at_risk, 1.0), *_HAZARD)

    @functools.cached_property
    def _covariance(self) -> Reals:
        return self.cells.estimates.covariance(self.cells.grid, self.gradients)

    @property
    def survival(self) -> Reals:
        """The share (E,) that survives each time, made to fall."""
        return np.clip(-_rising(-np.exp(self.log_survival)), 0.0, 1.0)

    def pointwise(self, level: float) -> tuple[Reals, Reals]:
        """Return the ends of an interval at each time, of which each covers with this level in any order."""
        z = normal_quantile((1 + level) / 2)
        low, high = (
            curve.log_survival + side * z * curve.errors for curve, side in ((self.lowest, -1), (self.highest, 1))
        )
        return np.exp(low), np.minimum(np.exp(high), 1.0)

    def band(self, level: float) -> tuple[Reals, Reals]:
        """Return the ends of a band that covers the whole curve at once in any order, or NaN without enough cells."""
        return self.lowest._band(level)[0], self.highest._band(level)[1]

    @property
    def errors(self) -> Reals:
        """Standard errors (E,) of `log_survival`."""
        return np.sqrt(np.diag(self._covariance))

    def _band(self, level: float) -> tuple[Reals, Reals]:
        """Return the band of this order, of whose sides each fails with half of what the level leaves."""
        used = np.flatnonzero((np.diag(self._covariance) > 0) & (np.arange(self.end) >= _BAND_FROM))
        lower, upper = np.zeros(self.end), np.ones(self.end)
        if len(used) < _LEAST_BAND:
            return lower + math.nan, upper + math.nan
        covariance = self._covariance[np.ix_(used, used)]
        error = np.sqrt(np.diag(covariance))
        values, vectors = np.linalg.eigh(covariance / np.outer(error, error))
        normal = np.random.default_rng(_SEED).standard_normal((_DRAWS, len(used)))
        draws = normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        widest = float(np.quantile(np.abs(draws).max(axis=1), level))
        hazard = np.maximum(-self.log_survival[used], _LEAST_HAZARD)  # on its log scale the widest deviation is even
        reach = np.exp(np.minimum(widest * error / hazard, _MOST_LOG))
        # a logarithm is never that of no event: where none at all is within the deviation, the band holds 1
        none = -self.log_survival[used] <= widest * error
        lower[used], upper[used] = np.exp(-hazard * reach), np.where(none, 1.0, np.exp(-hazard / reach))
        return np.maximum.accumulate(lower[::-1])[::-1], np.minimum.accumulate(upper)  # as curves fall

    def median(self, level: float) -> Interval:
        """Return the time at which half of the people are left; an interval is open where the curve ends before.

        It holds the times at which a half is within the pointwise interval.
        """
        if not self.end:
            return Interval(math.nan, math.nan, math.nan)
        lower, upper = self.pointwise(level)
        lefts = np.concatenate([[self.cells.start], self.times])[:-1] if self.cells.time.step is None else self.times
        reached, below, above = (
            np.flatnonzero(below_half) for below_half in (self.survival <= 0.5, lower <= 0.5, upper > 0.5)
        )
        last = int(above[-1]) + 1 if len(above) else 0  # the cell in which it falls to a half at the latest
        return Interval(
            float(self.times[reached[0]]) if len(reached) else math.inf,
            float(lefts[below[0]]) if len(below) else float(self.times[-1]),
            float(self.times[last]) if last < self.end else math.inf,
        )

    def restricted_mean(self, until: float) -> tuple[float, float]:
        """Return the mean time lived up to `until`, which the curve reaches, and its standard error, of this order."""
        stepped = self.cells.time.step is not None
        knots = np.concatenate([[0.0], [] if stepped else [self.cells.start], self.times])
        survival = np.concatenate([np.ones(len(knots) - self.end), np.exp(self.log_survival)])
        width = np.diff(knots)
        part = np.divide(np.clip(until - knots[:-1], 0.0, width), width, out=np.zeros_like(width), where=width > 0)
        # a cell's share of the area is that below its earlier knot, its later one, or linear between the two
        later = np.zeros_like(part) if stepped or self.away == LAST else part / 2 if self.away == HALFWAY else part**0
        weights = np.zeros(len(knots))
        weights[:-1] += width * part * (1 - later)
        weights[1:] += width * part * later
        if stepped and len(knots):
            weights[-1] += max(until - knots[-1], 0.0)
        by_log = (weights * survival)[len(knots) - self.end :]
        gradient = np.tensordot(by_log, self.gradients, 1)
        return float(weights @ survival), math.sqrt(self.cells.estimates.variance(self.cells.grid, gradient))

    def mean_interval(self, until: float, level: float) -> Interval:
        """Return that mean with an interval for any order, or NaN where it is the order's more than the data's."""
        value, error = self.restricted_mean(until)
        (low, low_error), (high, high_error) = (curve.restricted_mean(until) for curve in (self.lowest, self.highest))
        if too_wide(max(value - low, high - value), error, until):
            return Interval(math.nan, math.nan, math.nan)
        z = normal_quantile((1 + level) / 2)
        return Interval(value, min(low - z * low_error, value), max(high + z * high_error, value))


def too_wide(moved: float, error: float, whole: float) -> bool:
    """Return whether an order within cells moves a value by more than its standard error, and by a part of note."""
    return moved > max(error, LARGE_MOVE * whole)


@dataclasses.dataclass(frozen=True)
class LogRank:
    """A test that groups have one survival function, up to the time at which it ends.

    The statistic is the least that any order within cells gives, so that a small p-value is nobody's choice of one.
    """

    statistic: float
    degrees: int
    p_value: float
    until: float
    groups: tuple[str, ...]

    def text(self, time: str) -> str:
        """Return a sentence about it."""
        return (
            f"Log-rank test that {', '.join(self.groups)} have one survival function, up to {time} = "
            f"{number_text(self.until)}: chi-squared({self.degrees}) = {number_text(self.statistic)}, "
            f"{p_text(self.p_value)}"
        )


def score_law(cells: SurvivalCells, members: Sequence[Members], end: int) -> tuple[Reals, Reals, Reals]:
    """Return the scores U_a of all groups but the first, and their covariance of sampling and of noise.

    Under one survival function an event of group b moves U_a by 1{a = b} - p_a, and being at risk by minus the hazard
    times that.
    """
    at_risk, events = (np.array(array) for array in zip(*(cells.hazards(group) for group in members), strict=True))
    n, d = at_risk.sum(axis=0), events.sum(axis=0)
    used = np.arange(len(n)) < end
    shares = np.where(used, at_risk / np.maximum(n, 1.0), 0.0)
    hazard = np.where(used, np.clip(d / np.maximum(n, 1.0), 0.0, 1.0), 0.0)
    score = ((events - d * shares) * used).sum(axis=1)[1:]
    apart = (np.eye(len(members))[:, :, None] - shares[:, None]) * used  # (A, A, J): of U_a by an event in group b
    gradients = cells.gradient(members, apart[1:], -hazard * apart[1:])
    weight = np.where(used, np.maximum(d, 0.0) * np.maximum(n - d, 0.0) / np.maximum(n - 1, 1.0), 0.0)
    sampling = np.diag(shares @ weight) - (shares * weight) @ shares.T
    return score, sampling[1:, 1:], cells.estimates.noise_covariance(cells.grid, gradients)


def log_rank(cells: SurvivalCells, groups: dict[str, Members]) -> LogRank | str:
    """Compare events with those expected if all groups had the hazards of all, or return why that cannot be."""
    known = {name: group for name, group in groups.items() if Curve(cells, group).end}
    if len(known) < 2:
        return f"{len(known)} of {len(groups)} groups with enough people at risk, two expected"
    members = list(known.values())
    pooled = np.logical_or.reduce(members)
    end = min(cells.ends(pooled), *(cells.ends(group, errors=_ARM_ERRORS, least=_ARM_LEAST) for group in members))
    if not end:
        return "the noise hides the number at risk of a group from the start"
    total, error = cells.events(pooled, end)
    if total <= max(4 * error, 0.5):
        return f"too few events to distinguish from none: {round(total):,}, standard error {error:,.0f}"
    score, sampling, noise = score_law(cells, members, end)
    covariance = sampling + noise
    try:
        statistic = float(score @ np.linalg.solve(covariance, score))
    except np.linalg.LinAlgError:
        return "no group has events that could differ"
    if not (math.isfinite(statistic) and statistic >= 0):
        return "the noise hides the variance of the test"
    moved = order_of_scores(cells, members, end)[1:]
    wide = [too_wide(*triple) for triple in zip(moved, np.sqrt(np.diag(covariance)), np.diag(sampling), strict=True)]
    if any(wide):
        return f"the order within cells could move it by more than a standard error: {NARROWER}"
    statistic = least_statistic(score, covariance, moved)
    return LogRank(statistic, len(score), chi2_tail(statistic, len(score)), float(cells.times[end - 1]), tuple(known))


def order_of_scores(cells: SurvivalCells, members: Sequence[Members], end: int) -> Reals:
    """Return by how much the order within cells can move each U_a (A,): p_a is largest where others leave first."""
    first, halfway, last = (
        np.array([cells.hazards(group, away=away)[0][:end] for group in members]) for away in (FIRST, HALFWAY, LAST)
    )
    events = np.maximum(sum(cells.hazards(group)[1][:end] for group in members), 0.0)
    shares = halfway / np.maximum(halfway.sum(axis=0), 1.0)
    most, least = (
        group / np.maximum(group + other.sum(axis=0) - other, 1.0) for group, other in ((last, first), (first, last))
    )
    return np.asarray(np.maximum((most - shares) @ events, (shares - least) @ events).clip(min=0.0))


def least_statistic(score: Reals, covariance: Reals, moved: Reals) -> float:
    """Return the least of (U - b)' C^-1 (U - b) over all b that are at most `moved` in each entry."""
    from scipy.optimize import lsq_linear

    flat = 1e-9 * np.sqrt(np.diag(covariance))  # no more than rounding; the solver asks for a box that is not flat
    if np.all(moved <= flat):
        return float(score @ np.linalg.solve(covariance, score))
    root, reach = np.linalg.inv(np.linalg.cholesky(covariance)), np.maximum(moved, flat)
    return float(2 * lsq_linear(root, root @ score, bounds=(-reach, reach)).cost)
