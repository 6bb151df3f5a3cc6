"""What `dpmpc demo` and the programs of `protocols/` show: each model on the generated population."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.markup import escape

from dpmpc.app.render.grids import grid
from dpmpc.app.render.guarantee_prose import guarantee_text
from dpmpc.app.render.released import release_text
from dpmpc.app.render.report import Report
from dpmpc.app.render.servers import servers_table
from dpmpc.base.arrays import Reals
from dpmpc.data import Schema, Table
from dpmpc.data.datasets import DEMO_BOUNDS, demo_population
from dpmpc.data.datasets.demo import DEMO_RADIUS, DEMO_TARGET
from dpmpc.models import FrequencyMoment, LowRankApproximation, RidgeRegression
from dpmpc.models.common.commanded import NotPrivate
from dpmpc.parties.networked import NetworkedRun
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.planning.cost import byte_fields
from dpmpc.release.results import NumberTable

ITEM_COLUMN = "schooling_years"  # whole numbers
_COMPONENTS = 2


@dataclasses.dataclass(frozen=True)
class Demonstration:
    """A model, its data, and what `dpmpc.release.design` is told beside the budget and the servers."""

    model: RidgeRegression | LowRankApproximation | FrequencyMoment
    column: str | None  # the target of a regression, or what is measured
    table: Table
    schema: Schema
    choices: dict[str, Any]
    truth: Reals | None = None  # the coefficients that generated the data, where they are known

    def task(self, epsilon: float, delta: float, servers: int, seed: int | None = None) -> Task:
        """Design the release."""
        return design(
            ReleaseSpec.of(
                self.schema, len(self.table), epsilon, delta, servers=servers, simulation_seed=seed, **self.choices
            )
        )


#: The releases that show a model, by name. The first is the paper's algorithm (Burkhardt et al. 2025: sections 5.1,
#: 5.2 and 4.1), and stands alone where only one is made.
RELEASES: dict[str, tuple[str, ...]] = {
    "ridge": ("sketch", "sum"),
    "low-rank": ("sketch", "sum"),
    "moment": ("powers", "items"),
}


def demonstration(model: str, clients: int, seed: int | None = None, release: str | None = None) -> Demonstration:
    """Return one release that shows a model; by default the first of `RELEASES`.

    Ridge regression explains income by the features, low rank finds the main directions of all columns; the moments are
    the sum of squares of one column, and its item F_2. `seed` is for simulations only, and not of the population, which
    is always the same.
    """
    release = RELEASES[model][0] if release is None else release
    table, truth, _ = demo_population(clients)
    sketch = {"sketch": "sum" if release == "sum" else "countsketch", "radius": DEMO_RADIUS}
    if model == "ridge":
        return Demonstration(RidgeRegression(1.0), DEMO_TARGET, table, DEMO_BOUNDS, sketch, truth)
    if model == "low-rank":
        components = LowRankApproximation(_COMPONENTS)
        return Demonstration(components, None, table, DEMO_BOUNDS, components.command_choices(sketch, DEMO_BOUNDS))
    of = "items" if release == "items" else "values"
    schema = DEMO_BOUNDS.select([ITEM_COLUMN])
    moment = FrequencyMoment(of=of, simulation_seed=seed)
    choices = moment.command_choices({}, schema)
    return Demonstration(moment, ITEM_COLUMN, table.select([ITEM_COLUMN]), schema, choices)


_PEOPLE = """\
A generated population (dpmpc.data.demo_population, seed 0) whose income is linear in five features. Each person
clips, encodes, noises and secret-shares one row; server processes add up their shares; only the noisy result is opened.
"""
_TWICE = """\
Two releases of the same people, each with the same guarantee: {},
and {}. To publish both would cost twice the budget. This is a demonstration on generated
people: choose one.
"""
_WHAT = {
    "sketch": "a sketch of their rows",
    "sum": "the sum of their second moments",
    "powers": "the sum of a column's squares",
    "items": "the sketch of how many people hold each number",
}


@dataclasses.dataclass(frozen=True)
class DemonstratedRelease:
    """One release."""

    networked: NetworkedRun  # release and servers
    report: Report
    compared: NotPrivate
    shown: Demonstration  # with its model fitted

    @property
    def fields(self) -> dict[str, Any]:
        """Its JSON object."""
        found: dict[str, Any] = self.report.to_dict()
        return {**found, "result": {**found["result"], "not_private": self.compared.data}}


def fields(runs: Mapping[str, DemonstratedRelease]) -> dict[str, Any]:
    """Return the JSON object of the first release, with those of the others by name."""
    first, *others = runs
    return {**runs[first].fields, **{name: runs[name].fields for name in others}}


def parts(runs: Mapping[str, DemonstratedRelease], *, wall_s: float) -> list[RenderableType | NumberTable]:
    """Return what a person reads."""
    first = next(iter(runs.values()))
    told = [_PEOPLE, _TWICE.format(*(_WHAT[name] for name in runs))]
    if not isinstance(first.shown.model, RidgeRegression):
        shown = [(f"{_WHAT[name]}:\n", escape(f"{run.report}\n\n{run.compared}"), "") for name, run in runs.items()]
        return [*told, *(part for parts in shown for part in parts)]
    promised = first.networked.release.guarantee
    return [
        *told,
        *(f"{name}: {release_text(run.networked.release.task)}" for name, run in runs.items()),
        "",
        _coefficients(runs),
        _comparison(runs),
        "",
        guarantee_text(promised),
        f"That is the sketch's. The sum promises ({promised.epsilon:g}, {promised.delta:g}) too, by noise of its own.",
        "",
        *(part for name, run in runs.items() for part in (f"{name}:", servers_table(run.networked.servers))),
        f"wall time: everything {wall_s:.1f} s",
    ]


def _coefficients(runs: Mapping[str, DemonstratedRelease]) -> NumberTable:
    fitted, shown = {name: _ridge(run) for name, run in runs.items()}, runs["sum"].shown
    best = fitted["sum"].compare(shown.table.values).best
    columns: dict[str, Sequence[float]] = {
        "truth": list(_truth(shown)),
        **{name: model.coef_.tolist() for name, model in fitted.items()},
        "not private": fitted["sum"].in_units(best)[0].tolist(),
    }
    return NumberTable("Coefficients", columns, fitted["sum"].feature_names_)


def _comparison(runs: Mapping[str, DemonstratedRelease]) -> RenderableType:
    """Return error, upload and server time of each release."""
    results = [run.compared.data for run in runs.values()]
    sizes = [byte_fields(run.networked.release.task) for run in runs.values()]
    slowest = [max(spent.total_s for spent in run.networked.servers) for run in runs.values()]
    rows = {
        "cost / optimal cost (phi)": [f"{result['approximation_factor']:.5g}" for result in results],
        "  trivial predictor": [f"{result['trivial_factor']:.4g}" for result in results],
        "coefficients off the truth": [f"{_error(run):.2%}" for run in runs.values()],
        "a client sends, bytes": [f"{size['client_to_all_servers']:,}" for size in sizes],
        "all clients, s": [f"{run.networked.clients_s:.2f}" for run in runs.values()],
        "slowest server, s, set-up apart": [f"{seconds:.3f}" for seconds in slowest],
    }
    return grid("Side by side", ("", *runs), ((name, *texts) for name, texts in rows.items()))


def _ridge(run: DemonstratedRelease) -> RidgeRegression:
    assert isinstance(run.shown.model, RidgeRegression)
    return run.shown.model


def _truth(shown: Demonstration) -> Reals:
    assert shown.truth is not None
    return shown.truth


def _error(run: DemonstratedRelease) -> float:
    """Return the relative distance of the coefficients from the truth, in L2 norm."""
    truth = _truth(run.shown)
    return float(np.linalg.norm(_ridge(run).coef_ - truth) / np.linalg.norm(truth))
