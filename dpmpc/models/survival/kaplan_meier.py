"""Survival curves, medians, restricted means and the log-rank test, from a release of cells of times."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from dpmpc.base.arguments import require_finite, require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Schema
from dpmpc.models.common.commanded import option
from dpmpc.models.survival.curves import EVERYBODY, NARROWER, Curve, LogRank, log_rank
from dpmpc.models.survival.survival import PrivateSurvival
from dpmpc.models.survival.survival_cells import (
    SurvivalCells,
    require_until,
)
from dpmpc.models.tables.quantiles import Interval
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.number_tables import finite_or_none, number_text
from dpmpc.release.results.plot_data import PlotData, Steps

_SHOWN = 8  # times in a table
_NOTHING = "The noise hides all curves: more people, fewer groups, or a larger epsilon would do."


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class KaplanMeier(PrivateSurvival):
    """Differentially private survival curves: medians, restricted means and a log-rank test, from one release.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere, such as that of `dpmpc fit --model survival`.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the release that `fit` makes; delta = 0 with ``noise="discrete-laplace"``.
    bounds : Schema, pair, dict, path or None
        Public bounds of the columns, target included; None where the data is already in [-1, 1]. A dict has a pair
        (lower, upper) for each name: a data frame's columns keep their names, an array's are called "x0", "x1", ...,
        and the target "y", or as the Series that holds it. A path is that of a bounds file (how-to/prepare-data.md).
    noise : {"discrete-gaussian", "skellam", "discrete-laplace"}
        Family of the noise; all are drawn exactly, in whole numbers.
    servers : int
        Number of servers, at least 2.
    sharing : {"additive", "shamir"}
        How a contribution is split: with additive shares all servers are needed and all but one may collude; with
        Shamir's fewer than half may collude and some may be missing.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    copies : {"auto", "one", "each"}
        Noisy copies of its row that a client sends, with noise by clients: one, or one for each row of the sketch that
        it hits. 'auto' is one where that is proven and costs at most a quarter more variance.
    corrupt_clients : int
        Most clients that may reveal their noise to the servers.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive", "static"}
        Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.
    calibration : {"joint", "paper"}
        Noise for the whole release at once, or by the paper's bound, which takes more.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then states that no one is protected.
    time : str, optional
        The column of times, from 0 on: "time" by default, of a release its only number.
    event : str, optional
        The column that states whether the event happened then, yes or no, or 1 or 0; otherwise who it is was observed
        until then and no longer. "event" by default, of a release the last column that people are counted by.
    by : str, optional
        A category, or an answer yes or no, of a bounds file: a curve for each of its groups.
    until : float, optional
        The time up to which means are restricted; by default the last one that all curves reach.

    Attributes
    ----------
    survival_function_ : NumberTable
        The share that survives each time, by group; NaN beyond the end of a curve.
    confidence_interval_ : NumberTable
        Pointwise 95 % intervals of that.
    median_survival_time_ : float or dict
        The first time at which at most half are left; by group where there are some.
    groups_ : tuple of str
        The values of `by`.
    release_ : Release
        What the servers opened.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import KaplanMeier
    >>> rng = np.random.default_rng(0)
    >>> times, observed = rng.exponential(20, 20_000), rng.uniform(0, 60, 20_000)
    >>> model = KaplanMeier(epsilon=1.0, delta=1e-6, bounds=(0, 50), simulation_seed=1)
    >>> model = model.fit(np.minimum(times, observed), times <= observed)
    >>> bool(abs(model.median_survival_time_ - 20 * np.log(2)) < 1)
    True
    """

    kind: ClassVar[str] = "survival"  # as in `dpmpc fit --model`
    example = "--time days --event died --by arm"
    counted_argument: ClassVar[str] = "by"
    by: str | None = option(
        None, "a curve for each value of this column, up to 50, which the bounds file lists", metavar="COL"
    )
    until: float | None = option(
        None, "of restricted means (default: the last time that all curves reach)", type=float, metavar="T"
    )

    def fit(self, durations: Any, event_observed: Any = None, groups: Any = None) -> Self:
        """Make a release under the estimator's budget and read it.

        Parameters
        ----------
        durations : array-like, data frame or cells of a file
            The times, or a table with all columns.
        event_observed : array-like, optional
            Whether the event happened then: 1 or 0, or as a bounds file states; none with a table.
        groups : array-like, optional
            The values of `by`; none with a table.
        """
        if groups is not None and self.by is None:
            raise InputError("groups", "given without `by`, the name of their column in the bounds expected")
        features = {} if groups is None or self.by is None else {self.by: groups}
        return self.fit_release(self.survival_release(durations, event_observed, features))

    def public_schema(self) -> Schema:
        """Return what the base does, if means can be restricted as they are to be."""
        public = super().public_schema()
        if self.until is not None:
            (time,) = (one for one in self._given().variables if one.name == self._time_and_event[0])
            require_until(self.until, float(time.upper or 0.0))
        return public

    def counted_by(self) -> Sequence[str]:
        """Return the column of groups, if any."""
        return () if self.by is None else (self.by,)

    def fit_release(self, release: Release) -> Self:
        """Read a release of cells of times: pure post-processing."""
        self.release_ = release
        return self.read_cells(SurvivalCells.of(release, self.time, self.event))

    def read_cells(self, cells: SurvivalCells) -> Self:
        """Read cells, whatever they come from."""
        self.cells_ = cells
        features = self.cells_.features
        names = [] if self.by is None else [self.by]
        if self.by is not None and self.by not in features:
            raise InputError(
                "by", f"{self.by!r} given, one of {', '.join(features) or 'none'} expected, by which the release counts"
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
            raise InputError("t", f"{t:g} given, {told}, where too few people are at risk for more")
        return curve.mean_interval(t, level)

    def logrank(self) -> LogRank | str:
        """Test that all groups have one survival function, or return why that cannot be tested."""
        if not self.groups_:
            raise InputError("logrank", "called without groups, `by` expected, whose groups are compared")
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
            "few people are at risk to distinguish it from the noise: what comes later is not known."
        ]
        if isinstance(tested, LogRank):
            notes.append(f"{tested.text(time)}; the noise is part of its law, and no order within cells gives less.")
        elif tested is not None:
            notes.append(f"No log-rank test: {tested}.")
        notes.append(self.cells_.order_in_words)
        warned = [f"Too few people to show a curve: {', '.join(hidden)}."] if hidden and self.groups_ else []
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
            estimator=type(self).__name__,
            level=level,
            guarantee=self._promised,
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
            "shown until",
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
                "Standard errors of people, and of events up to where the curve is shown, are those of the noise; all "
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
            raise InputError("group", f"{group!r}", f"one of {', '.join(self.groups_) or 'none'}")
        return self.curves_[EVERYBODY if group is None else group]

    def _plot(self, level: float) -> PlotData:
        """Return all curves that can be shown."""
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

    def _exact(self, cells: SurvivalCells) -> tuple[dict[str, object], list[NumberTable], list[str]]:
        """Return medians, means and the log-rank test."""
        model = KaplanMeier(**self.parameters).read_cells(cells)  # type: ignore[arg-type]
        tested, people = model.logrank() if model.groups_ else None, model.people()
        if isinstance(tested, LogRank):
            return (
                {"people": people.to_dict(), "log_rank": dataclasses.asdict(tested)},
                [people],
                [f"{tested.text(cells.time.name)}."],
            )
        lines = [] if tested is None else [f"No test: {tested}."]
        return {"people": people.to_dict(), "log_rank": None}, [people], lines
