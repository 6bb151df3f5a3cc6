"""Kaplan-Meier curves, medians, restricted means and the log-rank test, as they are read from a release of cells.

Promised: all of it is a function of the release. Intervals and p-values hold for whatever order events and exits had
within cells: they go from the interval of one extreme order to that of the other, which is proved; of each order their
errors cover sampling and the noise by the delta method, measured and not proved (docs/mathematics.md, section 15.6).
Where too few people are at risk a curve ends, and what is the order's rather than the data's is left out. Not promised:
anything about times beyond the end of a curve.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from dpmpc.base.arguments import require_finite, require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.models.common.inference import chi2_tail, normal_quantile
from dpmpc.models.common.scikit import OfRelease
from dpmpc.models.common.summary import p_text
from dpmpc.models.survival.survival_cells import FIRST, HALFWAY, LARGE_MOVE, LAST, Members, SurvivalCells, require_until
from dpmpc.models.tables.quantiles import Interval, _rising
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.number_tables import finite_or_none, number_text
from dpmpc.release.results.plot_data import PlotData, Steps

EVERYBODY = "all"
_DRAWS, _SEED = 1000, 20_240_229  # of the widest deviation; the seed only makes a reading repeatable
_BAND_FROM = 2  # cells, of which the first have hardly an event: no law of large numbers holds there
_LEAST_BAND = 2  # cells that a band is drawn through
_LEAST_HAZARD, _MOST_LOG = 1e-3, 50.0  # of cumulative hazards in a band
_HAZARD = (-0.5, 0.95)  # what a noisy hazard may be
_ARM_ERRORS, _ARM_LEAST = 2.0, 1.0  # standard errors and people of an arm at whose number at risk the test ends
_SHOWN = 8  # times in a table
NARROWER = "narrower cells of the time would do"
_NOTHING = "The noise hides all curves: more people, fewer groups, or a larger epsilon would do."


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """The survival function of some people, up to where it can be told, for one order within cells.

    If all who left within a cell did so before its first event, and events of a mean lie where cells begin, the curve
    is the lowest there can be; the other way around it is the highest. An estimate is halfway.
    """

    cells: SurvivalCells
    members: Members
    away: float = HALFWAY

    @functools.cached_property
    def end(self) -> int:
        """How many cells can be told."""
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
        """Those that can be told (E,)."""
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
        at_risk, events = (one[: self.end] for one in self.cells.hazards(self.members, away=self.away))
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
        low, high = (one.log_survival + side * z * one.errors for one, side in ((self.lowest, -1), (self.highest, 1)))
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
        reached, below, above = (np.flatnonzero(one) for one in (self.survival <= 0.5, lower <= 0.5, upper > 0.5))
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
        (low, low_error), (high, high_error) = (one.restricted_mean(until) for one in (self.lowest, self.highest))
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
    at_risk, events = (np.array(one) for one in zip(*(cells.hazards(own) for own in members), strict=True))
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
    """Compare events with those expected if all groups had the hazards of all, or say why that cannot be."""
    known = {name: own for name, own in groups.items() if Curve(cells, own).end}
    if len(known) < 2:
        return f"{len(known)} of {len(groups)} groups with enough people at risk, two expected"
    members = list(known.values())
    pooled = np.logical_or.reduce(members)
    end = min(cells.ends(pooled), *(cells.ends(own, errors=_ARM_ERRORS, least=_ARM_LEAST) for own in members))
    if not end:
        return "the noise hides the number at risk of a group from the start"
    total, error = cells.events(pooled, end)
    if total <= max(4 * error, 0.5):
        return f"too few events to tell from none: {round(total):,}, standard error {error:,.0f}"
    score, sampling, noise = score_law(cells, members, end)
    covariance = sampling + noise
    try:
        statistic = float(score @ np.linalg.solve(covariance, score))
    except np.linalg.LinAlgError:
        return "no group has events that could differ"
    if not (math.isfinite(statistic) and statistic >= 0):
        return "the noise hides the variance of the test"
    moved = order_of_scores(cells, members, end)[1:]
    wide = [too_wide(*one) for one in zip(moved, np.sqrt(np.diag(covariance)), np.diag(sampling), strict=True)]
    if any(wide):
        return f"the order within cells could move it by more than a standard error: {NARROWER}"
    statistic = least_statistic(score, covariance, moved)
    return LogRank(statistic, len(score), chi2_tail(statistic, len(score)), float(cells.times[end - 1]), tuple(known))


def order_of_scores(cells: SurvivalCells, members: Sequence[Members], end: int) -> Reals:
    """Return by how much the order within cells can move each U_a (A,): p_a is largest where others leave first."""
    first, halfway, last = (
        np.array([cells.hazards(own, away=away)[0][:end] for own in members]) for away in (FIRST, HALFWAY, LAST)
    )
    events = np.maximum(sum(cells.hazards(own)[1][:end] for own in members), 0.0)
    shares = halfway / np.maximum(halfway.sum(axis=0), 1.0)
    most, least = (
        own / np.maximum(own + other.sum(axis=0) - other, 1.0) for own, other in ((last, first), (first, last))
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


class KaplanMeierFit(OfRelease):
    """Survival curves as they are read from a release; `dpmpc.KaplanMeier` says what attributes are."""

    kind: ClassVar[str] = "survival"  # as in `dpmpc fit --model`
    python_name: ClassVar[str] = "KaplanMeier"

    def __init__(
        self, time: str | None = None, event: str | None = None, by: str | None = None, until: float | None = None
    ):
        self.time, self.event, self.by, self.until = time, event, by, until

    def fit_release(self, release: Release) -> Self:
        """Read a release of cells of times: pure post-processing."""
        self.release_ = release
        return self.read(SurvivalCells.of(release, self.time, self.event))

    def read(self, cells: SurvivalCells) -> Self:
        """Read cells, whatever they come from."""
        self.cells_ = cells
        features = self.cells_.features
        names = [] if self.by is None else [self.by]
        if self.by is not None and self.by not in features:
            raise InputError(
                f"by: {self.by!r} given, one of {', '.join(features) or 'none'} expected, by which the release counts"
            )
        found = self.cells_.members(names)
        self.curves_ = {label[0] if label else EVERYBODY: Curve(self.cells_, own) for label, own in found.items()}
        self.groups_: tuple[str, ...] = tuple(self.curves_) if names else ()
        if self.until is not None:
            require_until(self.until, float(cells.times[-1]))
        return self

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {name: value for name in ("time", "event", "by", "until") if (value := getattr(self, name)) is not None}

    @property
    def survival_function_(self) -> NumberTable:
        """The share that survives each time, by group; NaN beyond the end of a curve."""
        return self._by_time("Survival function", {name: [curve.survival] for name, curve in self.curves_.items()})

    @property
    def confidence_interval_(self) -> NumberTable:
        """Pointwise 95 % intervals of that: a lower and an upper end for each group."""
        return self.confidence_interval()

    def confidence_interval(self, level: float = 0.95, *, band: bool = False) -> NumberTable:
        """Return intervals at each time, or a band that covers a group's whole curve at once."""
        require_fraction("level", level)
        parts = {
            f"{name} {side}": [(curve.band if band else curve.pointwise)(level)[place]]
            for name, curve in self.curves_.items()
            for place, side in enumerate(("lower", "upper"))
        }
        return self._by_time(f"{100 * level:g} % {'band' if band else 'intervals'} of the survival function", parts)

    @property
    def median_survival_time_(self) -> float | dict[str, float]:
        """The first time at which at most half are left, infinite where the curve ends before; of groups by name."""
        found = {name: curve.median(0.95).value for name, curve in self.curves_.items()}
        return found if self.groups_ else found[EVERYBODY]

    def median(self, group: str | None = None, level: float = 0.95) -> Interval:
        """Return the median survival time with its interval, whose ends are infinite where they are open."""
        require_fraction("level", level)
        return self._curve(group).median(level)

    def restricted_mean(self, t: float, group: str | None = None, level: float = 0.95) -> Interval:
        """Return the mean time lived up to `t` with its interval for whatever order within cells.

        All three numbers are NaN where that order moves it by more than a standard error, and by 5 % of `t` or more.

        Parameters
        ----------
        t : float
            Not beyond the end of the curve.
        group : str, optional
            One of `groups_`; needed where there are some.
        level : float
            Nominal coverage, strictly between 0 and 1.
        """
        require_fraction("level", level)
        curve = self._curve(group)
        if not 0 < require_finite("t", t) <= (curve.times[-1] if curve.end else 0.0):
            told = f"at most {curve.times[-1]:g} and more than 0 expected" if curve.end else "but its curve is hidden"
            raise InputError(f"t: {t:g} given, {told}, where too few people are at risk for more")
        return curve.mean_interval(t, level)

    def logrank(self) -> LogRank | str:
        """Test that all groups have one survival function, or say why that cannot be tested."""
        if not self.groups_:
            raise InputError("logrank: called without groups, `by` expected, whose groups are compared")
        return log_rank(self.cells_, {name: curve.members for name, curve in self.curves_.items()})

    def result(self, level: float = 0.95) -> Result:
        """Return all of it, as `dpmpc fit` and `dpmpc read` show it."""
        require_fraction("level", level)
        told = {name: curve for name, curve in self.curves_.items() if curve.end}
        hidden = [name for name in self.curves_ if name not in told]
        until = self._until(told)
        tested = self.logrank() if self.groups_ else None
        people = self.people(level)
        by = f" by {self.by}" if self.groups_ else ""
        time = self.cells_.time.name
        notes = [
            f"n = {self.cells_.estimates.people:,} in all, which is public. A curve ends at the time from which on too "
            "few people are at risk to tell it from the noise: what comes later is not known."
        ]
        if isinstance(tested, LogRank):
            notes.append(f"{tested.text(time)}; the noise is part of its law, and no order within cells gives less.")
        elif tested is not None:
            notes.append(f"No log-rank test: {tested}.")
        notes.append(self.cells_.order_in_words)
        warned = [f"Too few people to tell a curve: {', '.join(hidden)}."] if hidden and self.groups_ else []
        wide = [name for name, curve in told.items() if until and np.isnan(curve.mean_interval(until, level).value)]
        if until and wide:
            of = f" of {', '.join(wide)}" if self.groups_ else ""
            warned.append(
                f"No restricted mean{of}: the order within cells could move it by more than a standard error: "
                f"{NARROWER}."
            )
        return Result(
            model=self.kind,
            title=f"Survival until {self.cells_.event.name}{by}",
            tables=[people, *([self.table(level)] if told else [])],
            notes=[*warned, *notes],
            warnings=warned,
            verdict=None if told else _NOTHING,
            plots={f"survival until {self.cells_.event.name}{by}": functools.partial(self._plot, level)}
            if told
            else {},
            data={
                "time": time,
                "event": self.cells_.event.name,
                "by": self.by if self.groups_ else None,
                "confidence_level": level,
                "until": until,
                "people": people.to_dict(),
                "curves": {name: self._points(curve, level) for name, curve in self.curves_.items()},
                "log_rank": dataclasses.asdict(tested) if isinstance(tested, LogRank) else None,
                "not_tested": tested if isinstance(tested, str) else None,
            },
            parameters=self.parameters,
            estimator=self.python_name,
        )

    def people(self, level: float = 0.95) -> NumberTable:
        """Return for each group how many people and events there are, its median and its restricted mean."""
        until = self._until({name: curve for name, curve in self.curves_.items() if curve.end})
        rows = []
        for curve in self.curves_.values():
            median = curve.median(level)
            mean = Interval(math.nan, math.nan, math.nan)
            if until is not None and curve.end and until <= curve.times[-1]:
                mean = curve.mean_interval(until, level)
            ended = float(curve.times[-1]) if curve.end else math.nan
            rows.append(
                [
                    *self.cells_.people(curve.members),
                    *self.cells_.events(curve.members, curve.end),
                    ended,
                    *median,
                    *mean,
                ]
            )
        headings = (
            "people",
            "s.e. of people",
            "events",
            "s.e. of events",
            "told until",
            "median",
            "median from",
            "to",
            "restricted mean",
            "mean from",
            "mean to",
        )
        last = "" if until is None else f" up to {number_text(until)}"
        return NumberTable(
            f"Survival by {self.by}" if self.groups_ else "Survival",
            {heading: [row[place] for row in rows] for place, heading in enumerate(headings)},
            list(self.curves_),
            label=self.by if self.groups_ and self.by is not None else "group",
            notes=[
                f"{self.cells_.time.name}: restricted mean{last}; intervals: {100 * level:g} %, for any order within "
                "cells. A dash is where the curve ends before: a median without an upper end may be any time later. "
                "Standard errors of people, and of events up to where the curve is told, are those of the noise; all "
                "else covers sampling too."
            ],
            errors={"people": "s.e. of people", "events": "s.e. of events"},
            intervals={"median's interval": ("median from", "to"), "mean's interval": ("mean from", "mean to")},
        )

    def table(self, level: float = 0.95) -> NumberTable:
        """Return the curves at a few times, with intervals, bands and numbers at risk."""
        names, rows = [], []
        for name, curve in self.curves_.items():
            points = self._points(curve, level)
            for place in sorted({round(one) for one in np.linspace(0, len(points) - 1, _SHOWN)} if points else ()):
                point = points[place]
                time = number_text(float(curve.times[place]))
                names.append(f"{name}, {time}" if self.groups_ else time)
                rows.append(
                    [math.nan if value is None else value for heading, value in point.items() if heading != "time"]
                )
        headings = ("survival", "from", "to", "band from", "band to", "at risk", "s.e. of at risk")
        return NumberTable(
            f"Survival at some times of {self.cells_.time.name}",
            {heading: [row[place] for row in rows] for place, heading in enumerate(headings)},
            names,
            label="time" if not self.groups_ else f"{self.by}, time",
            notes=[
                f"From, to: {100 * level:g} % at each time by itself; the band covers a whole curve at once. At risk: "
                "where the cell that ends at this time begins, an estimate with noise."
            ],
            errors={"at risk": "s.e. of at risk"},
            intervals={"interval": ("from", "to"), "band": ("band from", "band to")},
        )

    def _points(self, curve: Curve, level: float) -> list[dict[str, float | None]]:
        """Return a curve as plain data, a point for each time."""
        if not curve.end:
            return []
        at_risk, errors = curve.cells.at_risk(curve.members)
        lists = [curve.times, curve.survival, *curve.pointwise(level), *curve.band(level), at_risk, errors]
        headings = ("time", "survival", "lower", "upper", "band_lower", "band_upper", "at_risk", "at_risk_std_error")
        columns = [one[: curve.end].tolist() for one in lists]
        return [
            {heading: finite_or_none(value) for heading, value in zip(headings, row, strict=True)}
            for row in zip(*columns, strict=True)
        ]

    def _by_time(self, title: str, parts: dict[str, list[Reals]]) -> NumberTable:
        times = self.cells_.times
        columns = {}
        for name, (values,) in parts.items():
            columns[name] = [*values.tolist(), *[math.nan] * (len(times) - len(values))]
        return NumberTable(title, columns, [repr(float(time)) for time in times], label=self.cells_.time.name)

    def _until(self, told: dict[str, Curve]) -> float | None:
        """Return up to when means are restricted: as given, else the last time that all curves reach."""
        if self.until is not None or not told:
            return self.until
        return min(float(curve.times[-1]) for curve in told.values())

    def _curve(self, group: str | None) -> Curve:
        if (group is None) == bool(self.groups_) or (group is not None and group not in self.groups_):
            raise InputError(f"group: {group!r} given, one of {', '.join(self.groups_) or 'none'} expected")
        return self.curves_[EVERYBODY if group is None else group]

    def _plot(self, level: float) -> PlotData:
        """Return all curves that can be told."""
        lines = []
        for name, curve in self.curves_.items():
            if curve.end:
                at_risk, errors = curve.cells.at_risk(curve.members)
                lines.append(
                    Steps(
                        name,
                        curve.times.tolist(),
                        curve.survival.tolist(),
                        [one.tolist() for one in curve.band(level)],
                        at_risk[: curve.end + 1].tolist(),
                        float(errors.max()),
                    )
                )
        ends = (self.cells_.start, float(self.cells_.times[-1]))
        return PlotData("survival", {"name": self.cells_.time.name, "curves": lines, "ends": ends, "level": level})
