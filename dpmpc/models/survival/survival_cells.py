"""Times until an event, by cells of time, event and features: who is at risk and who has the event in each cell.

Promised: anyone who was observed beyond the upper bound of the time is at risk until there, whatever happened later,
and no matter what a client states: a further cell holds all of them, and its events are not read. Where there are too
few people for a statement is decided from the release, never from rows. Nothing is known of the order within a cell,
but for one thing: an event at some time comes before an exit at that time, and who leaves exactly where a cell ends is
counted apart, in a further cell of hardly any width, as at risk until there. What any other order can change is
bounded, by reading the cells as if all had left them before their first event, and after their last one.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dpmpc.base.arguments import require_finite
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.table import Cells
from dpmpc.data.variables import MOST_CELLS, Variable
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.tables.quantiles import Distribution
from dpmpc.release.release import Release

Members = NDArray[np.bool_]
FIRST, HALFWAY, LAST = 1.0, 0.5, 0.0  # part of a cell that those who left within it were not at risk in
_EDGE = 1e-9  # of the range of times: the width of the cells of those who leave where another one ends
LARGE_MOVE = 0.05  # of a hazard ratio, or of a time: an order within cells that changes less is in the interval alone
_STANDS_OUT, _AT_LEAST = 4.0, 5.0  # standard errors and people: with no more at risk a curve ends
MOST_PATTERNS = 32  # of features in a regression
_ANSWERS = (("1", "1.0", "true"), ("0", "0.0", "false"))  # of an event that is a number


def survival_schema(
    schema: Schema, time: str, event: str, features: Sequence[str] = (), *, called: str = "features"
) -> Schema:
    """Return the public bounds of times, events and features, with a cell for times beyond the upper bound."""
    known = {variable.name: variable for variable in schema.variables}
    named = [("time", time), ("event", event), *((called, name) for name in features)]
    for argument, name in named:
        if name not in known:
            raise InputError(argument, f"{name!r}", "a column of the bounds", f"there are {', '.join(known)}")
    names = [name for _, name in named]
    if len(set(names)) < len(names):
        raise InputError(f"time, event, {called}", f"{', '.join(names)}", "different columns")
    if schema.weighted:
        raise InputError("bounds", "with weights or rows of zeros", "neither", condition="where people are counted")
    for name in features:
        if not known[name].categories:
            raise InputError(
                called,
                f"{name!r}",
                f"a {known[name].kind}, a column with listed values",
                "continuous features are not offered; cut it into categories, as values = [...] of a further column",
            )
    variables = (_with_room(known[names[0]]), *(known[name] for name in features), _answer(known[names[1]]))
    missing = schema.codebook.missing if isinstance(schema.codebook, Codebook) else ()
    return Schema.of_codebook(Codebook(variables, missing=missing), schema.outside)


def survival_contribution(public: Schema) -> CellCounts:
    """Return the cells of the times of a `survival_schema` by its features and, last, its event."""
    _, *others = public.variables
    return CellCounts.of(public, [variable.name for variable in others])


def is_survival(contribution: CellCounts) -> bool:
    """Return whether cells are those of `survival_contribution` by a feature and the event."""
    return (
        len(contribution.grids) == 1
        and contribution.grids[0].column is not None
        and len(contribution.grids[0].groups) > 1
    )


def observed(public: Schema, cells: Cells) -> Table:
    """Code the rows of people; times beyond the last cell are in it, as bounds put them in any case."""
    book = public.codebook
    assert isinstance(book, Codebook)
    table = book.encode(cells, counted=True)
    values = table.values.copy()
    values[:, 0] = np.minimum(values[:, 0], public.columns[0].upper)
    return Table(table.names, values)


def require_until(until: float, last: float) -> None:
    """Refuse to restrict a mean to a time beyond the last one that cells show."""
    if not 0 < require_finite("until", until) <= last:
        raise InputError("until", f"{until:g} given, more than 0 and at most {last:g} expected, where the cells end")


def require_patterns(features: Sequence[Variable]) -> None:
    """Refuse features with too many combinations of values for a regression."""
    patterns = math.prod(len(feature.categories) for feature in features)
    if not features:
        raise InputError("features", "none", "a category or an answer at least")
    if patterns > MOST_PATTERNS:
        raise InputError(
            "features",
            f"{', '.join(feature.name for feature in features)} given, which have {patterns} patterns, at most "
            f"{MOST_PATTERNS} expected: take fewer features or values",
        )


def _with_room(variable: Variable) -> Variable:
    """Return the time with one more cell, which holds anyone who was observed beyond the upper bound."""
    if variable.kind != "number" or variable.transform == "spline" or variable.if_missing == "middle":
        description = (
            variable.kind if variable.kind != "number" else variable.transform or 'number with if_missing = "middle"'
        )
        raise InputError(
            "time", f"{variable.name!r} given, a {description}, a number expected, which counts from the start"
        )
    lower, upper = float(variable.lower or 0.0), float(variable.upper or 0.0)
    if lower < 0:
        raise InputError("time", f"{variable.name!r} with the lower bound {lower:g}", "0 or more")
    count = len(variable.inner_edges) + 1
    most = MOST_CELLS - 1 if variable.step is not None else (MOST_CELLS - 1) // 2
    if count > most:
        raise InputError(
            "time",
            f"{variable.name!r} with {count} cells",
            f"at most {most}",
            "further ones hold those observed beyond the upper bound, and who leaves where a cell ends",
        )
    if variable.step is not None:
        return replace(variable, upper=upper + variable.step)
    edges = np.exp(variable.inner_edges) if variable.transform == "log" else variable.inner_edges
    inner = tuple(edges.tolist()) if variable.edges is None else variable.edges
    # (.., t - w], (t - w, t]: a cell, and that of who leaves at its end
    ends = tuple(end - back for end in (*inner, upper) for back in (_EDGE * (upper - lower), 0.0))
    return replace(variable, upper=upper + (upper - lower) / count, edges=ends, cells=None)


def _answer(variable: Variable) -> Variable:
    """Return the event as an answer yes or no; a number from 0 to 1 is one whose 1 means yes."""
    if variable.kind == "yes-no" and variable.if_missing != "middle":
        return variable
    if variable.kind == "number" and (variable.lower, variable.upper) == (0, 1) and variable.transform is None:
        yes, no = _ANSWERS
        return Variable(variable.name, yes=yes, no=no, missing=variable.missing)
    raise InputError(
        "event",
        f"{variable.name!r}",
        f"a {variable.kind}, an answer",
        "yes = [...] and no = [...] in its bounds, or lower = 0 and upper = 1",
    )


@dataclasses.dataclass(frozen=True, eq=False)
class SurvivalCells:
    """A grid of times by event and features, J cells of which are read: all but the last, which is for later times."""

    estimates: CellEstimates
    grid: int
    time: Variable
    groups: tuple[Variable, ...]  # what is counted by, the event among them
    event: Variable

    @classmethod
    def of(cls, release: Release, time: str | None = None, event: str | None = None) -> SurvivalCells:
        """Return those of a release; the time may be left out where there is one number, the event where it is last."""
        estimates, contribution = CellEstimates.of(release), release.task.statistic
        assert isinstance(contribution, CellCounts)
        counted = contribution.counted(release.task.schema)
        numbers = {
            candidate.name: (grid, candidate, by)
            for grid, (candidate, by) in enumerate(counted)
            if candidate.kind == "number"
        }
        if time is None and len(numbers) != 1:
            raise InputError("time", "none", f"one of {', '.join(numbers) or 'the numbers (there are none)'}")
        chosen = next(iter(numbers)) if time is None else time
        if chosen not in numbers:
            raise InputError("time", f"{chosen!r}", f"one of {', '.join(numbers)}")
        grid, variable, by = numbers[chosen]
        answers = {candidate.name: candidate for candidate in by if candidate.kind == "yes-no"}
        name = (by[-1].name if by else None) if event is None else event
        if name not in answers:
            raise InputError(
                "event",
                f"{name!r}",
                "a variable with the answers yes and no",
                f"{chosen} is counted by {', '.join(answers) or 'none, as a survival curve allows'}",
            )
        return cls(estimates, grid, variable, by, answers[name])

    @property
    def features(self) -> dict[str, Variable]:
        """What is counted by, but for the event."""
        return {variable.name: variable for variable in self.groups if variable.name != self.event.name}

    @functools.cached_property
    def times(self) -> Reals:
        """Until when each cell (J,) reaches; where there is a step its only value."""
        if self.time.step is not None:
            return self._distribution.middles[:-1]
        return self._distribution.ends[1:][np.diff(self._read_as, append=np.inf) > 0][:-1]

    @property
    def start(self) -> float:
        """The lower bound of the time."""
        return float(self.time.lower or 0.0)

    @property
    def order_in_words(self) -> str:
        """What is known of the order of events and exits that are close together."""
        if not self._wide:
            return "Events at a time come before exits at that time."
        any_order = "Of the order within cells nothing is known, and intervals hold for any."
        if self._within.all():  # as `dpmpc describe` counts times
            return any_order
        return (
            "Events at a time come before exits at that time: who leaves exactly where a cell ends is at risk until "
            f"there. {any_order}"
        )

    def members(self, names: Sequence[str]) -> dict[tuple[str, ...], Members]:
        """Return which groups (G,) have each combination of values of these features, whatever their event."""
        places = self._places
        chosen = [(places[name], self.features[name].categories) for name in names]
        groups_of = {}
        for values in itertools.product(*(range(len(categories)) for _, categories in chosen)):
            group = np.ones(len(self._counts), np.bool_)
            for (place, _), value in zip(chosen, values, strict=True):
                group &= place == value
            label = tuple(categories[value] for (_, categories), value in zip(chosen, values, strict=True))
            groups_of[label] = group & (self._left | self._died)
        return groups_of

    def people(self, members: Members) -> tuple[float, float]:
        """Return how many there are, and the standard error of that, of noise alone."""
        return self._total(members, slice(None))

    def events(self, members: Members, until: int) -> tuple[float, float]:
        """Return how many events there are in the first cells, and the standard error of that, of noise alone."""
        return self._total(members & self._died, slice(0, until))

    def hazards(self, members: Members, *, away: float = HALFWAY, passed: float = 0.0) -> tuple[Reals, Reals]:
        """Return the number at risk in each cell, and of events in it, (J,) each.

        Whoever left within a cell of some width was not at risk for the part `away` of its events, half of them by
        default; at its end, or at the one value of a step, for none. Those who had the event are taken out by the part
        `passed`: one half gives the risk set in the middle of the cell.
        """
        died, left = (self._counts[members & side].sum(axis=0) for side in (self._died, self._left))
        within = self._of_times(left * self._within)[:-1]
        events = self._of_times(died)[:-1]
        return self._from_there_on(died + left)[:-1] - away * within - passed * self._wide * events, events

    def at_risk(self, members: Members) -> tuple[Reals, Reals]:
        """Return the number at risk where each cell begins, that of later times too, and its standard error of noise.

        Both are (J + 1,).
        """
        return self._from_there_on(self._counts[members].sum(axis=0)), self._risk_error(members, away=LAST)

    def ends(self, members: Members, *, errors: float = _STANDS_OUT, least: float = _AT_LEAST) -> int:
        """Return the first cell at whose number at risk nothing can be shown: of those surely at risk until its end."""
        at_risk, _ = self.hazards(members, away=FIRST)
        few = np.flatnonzero(at_risk <= errors * self._risk_error(members, away=FIRST)[:-1] + least)
        return int(few[0]) if len(few) else len(at_risk)

    def expected(self, events: float, *, leaving: bool = False) -> SurvivalCells:
        """Return the cells of as many people in groups of one size, with the noise of these.

        A share of them would have the event by the last time, at a constant rate. Nobody leaves before, or all others
        do, evenly, and never where a cell ends: there the order within cells changes most.
        """
        ends = self.times - self.start + (self.time.step or 0.0)
        gone = np.concatenate([[0.0], ends / ends[-1]])
        alive, staying = (1 - events) ** gone, 1 - leaving * gone
        died = -np.diff(alive) * (staying[1:] + staying[:-1]) / 2
        left = -np.diff(alive * staying) - died
        everybody = self.members([])[()]
        counts = np.zeros(self.estimates.counts[self.grid].shape)
        size = self.estimates.people / np.count_nonzero(everybody & self._died)
        *within, later = np.flatnonzero(np.diff(self._read_as, prepend=-1))
        counts[np.ix_(everybody & self._died, within)] = size * died
        counts[np.ix_(everybody & self._left, within)] = size * left
        counts[everybody & self._left, later] = size * alive[-1] * staying[-1]
        estimates = copy.copy(self.estimates)
        estimates.counts = [counts if grid == self.grid else other for grid, other in enumerate(estimates.counts)]
        return dataclasses.replace(self, estimates=estimates)

    def gradient(
        self,
        members: Sequence[Members],
        by_events: Reals,
        by_risk: Reals,
        *,
        away: float = HALFWAY,
        passed: float = 0.0,
    ) -> Reals:
        """Return gradients (K, G, C) by counts, from those by the `hazards` (K, A, J) of A groups."""
        through = np.cumsum(by_risk, axis=-1)
        at_risk = np.concatenate([through, through[..., -1:]], axis=-1)  # who is in a cell was at risk in all before
        none = np.zeros_like(at_risk[..., :1])
        within = away * np.concatenate([by_risk, none], axis=-1)
        events = np.concatenate([by_events - passed * self._wide * by_risk, none], axis=-1)
        left = at_risk[..., self._read_as] - self._within * within[..., self._read_as]
        died = (at_risk + events)[..., self._read_as]
        gradients = np.zeros((len(by_events), *self.estimates.counts[self.grid].shape))
        cells = left.shape[-1]
        for place, group in enumerate(members):
            gradients[:, group & self._left, :cells] = left[:, place, None]
            gradients[:, group & self._died, :cells] = died[:, place, None]
        return gradients

    @property
    def _counts(self) -> Reals:
        """People (G, N) in each cell, without those whose time is missing."""
        cells = self.estimates.grids[self.grid].cells
        return np.asarray(self.estimates.counts[self.grid][:, :cells])

    @functools.cached_property
    def _places(self) -> dict[str, NDArray[np.intp]]:
        """Which value of each variable a group (G,) stands for."""
        sizes = [len(variable.categories) for variable in self.groups]
        values = np.indices(sizes).reshape(len(sizes), -1)
        return {variable.name: value for variable, value in zip(self.groups, values, strict=True)}

    @property
    def _died(self) -> Members:
        return np.asarray(self._places[self.event.name] == self.event.categories.index("yes"))

    @property
    def _left(self) -> Members:
        return np.asarray(self._places[self.event.name] == self.event.categories.index("no"))

    @functools.cached_property
    def _distribution(self) -> Distribution:
        return Distribution(self.estimates, self.grid, self.time, np.ones(len(self._counts), np.bool_))

    @property
    def _wide(self) -> bool:
        """Whether cells hold more than one time."""
        return self.time.step is None

    @functools.cached_property
    def _within(self) -> Members:
        """Which cells of the grid (C,) do not show when a person in them left."""
        ends = self._distribution.ends
        return np.asarray(self._wide & (np.diff(ends) > 2 * _EDGE * (ends[-1] - ends[0])))

    @functools.cached_property
    def _read_as(self) -> NDArray[np.intp]:
        """To which cell of the times, or to the further one, each cell of the grid (C,) belongs."""
        return np.cumsum(self._within) - 1 if self._wide else np.arange(self._counts.shape[1])

    def _of_times(self, people: Reals) -> Reals:
        """Add up cells of the grid to those of the times and the further one (J + 1,)."""
        return np.bincount(self._read_as, weights=people).astype(np.float64)

    def _from_there_on(self, people: Reals) -> Reals:
        """Return how many people are in each cell of the times or in a later one (J + 1,)."""
        return np.asarray(np.cumsum(self._of_times(people)[::-1])[::-1])

    def _risk_error(self, members: Members, away: float) -> Reals:
        """Return the standard error (J + 1,) of noise in the numbers at risk."""
        times, cells = int(self._read_as[-1]) + 1, len(self._read_as)
        upon = (np.arange(times)[:, None] <= self._read_as).astype(float)
        in_cell = (np.arange(times)[:, None] == self._read_as) & self._within
        gradients = np.zeros((times, *self.estimates.counts[self.grid].shape))
        gradients[:, members & self._died, :cells] = upon[:, None]
        gradients[:, members & self._left, :cells] = (upon - away * in_cell)[:, None]
        return np.sqrt(self.estimates.noise_variance(self.grid, gradients))

    def _total(self, members: Members, cells: slice) -> tuple[float, float]:
        gradient = np.zeros(self.estimates.counts[self.grid].shape)
        inner = gradient[:, : self._counts.shape[1]]
        inner[members] = np.isin(self._read_as, np.arange(int(self._read_as[-1]) + 1)[cells])
        return self.estimates.total(self.grid, gradient)
