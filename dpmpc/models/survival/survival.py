"""What the estimators of times until an event share: times, events, groups, and the release that `fit` makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.table import Cells
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import BITS, CellCounts
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.common.commanded import NotPrivate, ReadCells, option
from dpmpc.models.common.private_estimator import PrivateEstimator
from dpmpc.models.survival.survival_cells import (
    SurvivalCells,
    observed,
    survival_contribution,
    survival_schema,
)
from dpmpc.models.survival.survival_forecast import EVENTS, forecast_survival
from dpmpc.privacy import Guarantee
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable


class OfTimes:
    """What a fit of times sets; beside the data class, whose fields are parameters."""

    release_: Release
    cells_: SurvivalCells

    @property
    def _promised(self) -> Guarantee | None:
        """The guarantee of the release; None of cells that come from elsewhere."""
        return self.release_.guarantee if "release_" in vars(self) else None


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PrivateSurvival(PrivateEstimator, OfTimes):
    """Base of the estimators that read times until an event.

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
    """

    counted_argument: ClassVar[str] = "features"  # what errors call `counted_by`
    codes_people = True
    assumes = ("events",)
    time: str | None = option(
        None,
        "the column of times until the event, from 0 on; required",
        metavar="COL",
        required="times until the event",
    )
    event: str | None = option(
        None,
        "whether the event happened then, yes or no; otherwise people were observed until then; required",
        metavar="COL",
        required="events (yes or no)",
    )

    def check_options(self, column: str | None, *, bounds: bool) -> None:
        """Refuse a fit without a bounds file, which states how times are cut into cells."""
        if not bounds:
            raise InputError("bounds", "none", "a bounds file", "it lists how times are cut into cells")

    def read(self, cells: ReadCells) -> tuple[Table, Schema]:
        """Return the coded rows of people, and their public bounds."""
        public = self.public_schema()
        self.task_choices(public)
        book = public.codebook
        assert isinstance(book, Codebook)
        return observed(public, cells(book.sources)), public

    def planned_schema(self, given: Schema) -> Schema:
        """Return the public bounds of times, events and features; see `Commanded.planned_schema`."""
        return self.public_schema()

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a fit is expected to show; see `Commanded.forecast`."""
        events = None if assumed is None else assumed.events
        return forecast_survival(design(spec), EVENTS if events is None else events)

    def check_rows(self, table: Table, public: Schema, column: str | None, *, filled: bool) -> None:
        """Refuse nothing: whatever can be coded can be counted."""

    def command_choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add the cells that people are counted in."""
        return {**asked, **self.task_choices(public)}

    def compare_with(self, table: Table) -> NotPrivate:
        """Compare with what the same reading of exact cells gives, of the rows at hand."""
        release, cells = self.release_, self.cells_
        public, contribution = release.task.schema, release.task.statistic
        assert isinstance(contribution, CellCounts)
        sums = contribution.encode(public.normalise(table.values), FixedPoint(BITS)).sum(axis=0) / 2.0**BITS
        estimates = CellEstimates(contribution, sums, 0.0, len(table))
        data, tables, lines = self._exact(dataclasses.replace(cells, estimates=estimates))
        titled = [dataclasses.replace(one, title=f"{one.title}, of the data itself") for one in tables]
        return NotPrivate.of(data, public, table, titled, *lines)

    def _exact(self, cells: SurvivalCells) -> tuple[dict[str, object], list[NumberTable], list[str]]:
        """Return what cells without noise give: as plain data, as tables and in sentences."""
        raise NotImplementedError

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return the contribution that the clients send."""
        return {"contribution": survival_contribution(public)}

    def schema_of(self, names: tuple[str, ...]) -> Schema:
        """Return the public bounds of times, events and features."""
        return self.public_schema()

    def public_schema(self) -> Schema:
        """Return the public bounds of times, events and features, with a cell for times beyond the upper bound."""
        if self.bounds is None:
            raise InputError("bounds", "none", "a bounds file or a pair (lower, upper) of times")
        called = self.counted_argument
        return survival_schema(self._given(), *self._time_and_event, self.counted_by(), called=called)

    @property
    def _time_and_event(self) -> tuple[str, str]:
        """The columns of times and events."""
        return self.time or "time", self.event or "event"

    def _given(self) -> Schema:
        """Return the bounds that were given, those of a pair for times beside an event of 1 or 0."""
        if isinstance(self.bounds, tuple):
            if self.counted_by():
                raise InputError(
                    "bounds",
                    f"{self.bounds} given with {', '.join(self.counted_by())}, a bounds file or a Schema "
                    "expected, which lists the values",
                )
            time, event = self._time_and_event
            both = (Variable(time, *self.bounds), Variable(event, 0, 1))
            return Schema.of_codebook(Codebook(both))
        if isinstance(self.bounds, str | Path):
            return Schema.from_toml(self.bounds)
        if isinstance(self.bounds, Schema):
            return self.bounds
        raise InputError("bounds", f"{self.bounds!r}", "a bounds file, a Schema or a pair of times")

    def counted_by(self) -> Sequence[str]:
        """Return the columns by whose values people are counted, beside the event."""
        return ()

    def survival_release(self, X: Any, event_observed: Any, features: dict[str, Any]) -> Release:
        """Make a release of a table, or of times, events and features that are handed in one by one."""
        public = self.public_schema()
        if event_observed is not None:
            X = _Frame(dict(zip(self._time_and_event, (X, event_observed), strict=True)) | features)
        elif features:
            raise InputError("event_observed", "none given with groups, an array expected: 1 where the event happened")
        spec, ask = self._asked(observed(public, Cells.of(X)), public)
        return ask(design(spec))


class _Frame(dict[str, Any]):
    """Arrays by name, as `Cells.of` reads a data frame."""

    def __init__(self, columns: dict[str, Any]):
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        lengths = {name: values.shape for name, values in arrays.items()}
        if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) != 1:
            raise InputError(f"{', '.join(columns)}", f"shapes {list(lengths.values())}", "one number for each person")
        super().__init__(arrays)

    @property
    def columns(self) -> list[str]:
        """The names."""
        return list(self)

    def to_numpy(self) -> Any:
        """Return a row for each person."""
        return np.column_stack(list(self.values()))
