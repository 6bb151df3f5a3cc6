"""`dpmpc demo`: the main job on a generated population, sketch and sum side by side.

What `dpmpc demo` shows: a model on generated people; of ridge regression a sketch and a sum, side by side.

Each is a release of its own under the whole budget. That is for comparison only: real people would be part of one.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table as Grid

from dpmpc.cli.demonstrations import Demonstration
from dpmpc.cli.fit import MODELS, run_and_fit
from dpmpc.cli.fit_models import RidgeAnalysis
from dpmpc.cli.options import (
    add_run_options,
    add_simulation_seed,
)
from dpmpc.cli.output import print_result
from dpmpc.protocols.linear_transform import NetworkedRun
from dpmpc.render.fit import TABLE_STYLE, byte_fields, guarantee_text, release_text, servers_table, values_table

#: The releases of each model, by name, with the sketch if it is not the model's own.
SKETCHES: dict[str, dict[str, str | None]] = {
    "ridge": {"sketch": None, "sum": "sum"},
    "low-rank": {"release": None},
    "moment": {"release": None},
}
_PEOPLE = """\
A generated population (dpmpc.datasets.demo_population, seed 0) whose income is linear in five features. Each person
clips, encodes, noises and secret-shares one row; server processes add up their shares; only the noisy result is opened.
"""
_TWICE = """\
Two releases of the same people, each with the same guarantee: a sketch of their rows, and the sum of their second
moments. To publish both would cost twice the budget. This is a demonstration on generated people: choose one.
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """One release.

    Attributes
    ----------
    networked : NetworkedRun
        Release and servers.
    fields : dict
        Its JSON object.
    parts : list
        The same for a person.
    shown : Demonstration
        With its analysis fitted.
    """

    networked: NetworkedRun
    fields: dict[str, Any]
    parts: list[RenderableType]
    shown: Demonstration


def fields(runs: Mapping[str, Run]) -> dict[str, Any]:
    """Return the JSON object of the first release, with those of the others by name."""
    first, *others = runs
    return {**runs[first].fields, **{name: runs[name].fields for name in others}}


def parts(runs: Mapping[str, Run], *, wall_s: float) -> list[RenderableType]:
    """Return what a person reads."""
    first = next(iter(runs.values()))
    if len(runs) == 1:
        return [_PEOPLE, *first.parts]
    promised = first.networked.release.guarantee
    return [
        _PEOPLE,
        _TWICE,
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


def _coefficients(runs: Mapping[str, Run]) -> Grid:
    analyses = {name: _ridge(run) for name, run in runs.items()}
    best, table = analyses["sum"], runs["sum"].shown.table
    assert best.truth is not None
    columns: dict[str, Sequence[float]] = {
        "truth": list(best.truth),
        **{name: list(analysis.estimator.coef_) for name, analysis in analyses.items()},
        "not private": list(best.optimum(table)),
    }
    return values_table("Coefficients", best.estimator.feature_names_, columns)


def _comparison(runs: Mapping[str, Run]) -> Grid:
    """Error, upload and server time of each release."""
    grid = Grid(title="Side by side", **TABLE_STYLE)
    grid.add_column()
    results = {name: run.fields["result"] for name, run in runs.items()}
    for name in runs:
        grid.add_column(name, justify="right")
    grid.add_row("cost / optimal cost (phi)", *(f"{result['approximation_factor']:.5g}" for result in results.values()))
    grid.add_row("  trivial predictor", *(f"{result['trivial_factor']:.4g}" for result in results.values()))
    grid.add_row("coefficients off the truth", *(f"{_ridge(run).error():.2%}" for run in runs.values()))
    sizes = [byte_fields(run.networked.release.task) for run in runs.values()]
    grid.add_row("a client sends, bytes", *(f"{size['client_to_all_servers']:,}" for size in sizes))
    grid.add_row("all clients, s", *(f"{run.networked.clients_s:.2f}" for run in runs.values()))
    slowest = [max(report.total_s for report in run.networked.servers) for run in runs.values()]
    grid.add_row("slowest server, s, set-up apart", *(f"{seconds:.3f}" for seconds in slowest))
    return grid


def _ridge(run: Run) -> RidgeAnalysis:
    assert isinstance(run.shown.analysis, RidgeAnalysis)
    return run.shown.analysis


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    demo = commands.add_parser(
        "demo", help="the main job on a generated population, sketch and sum, three servers over TLS on loopback"
    )
    demo.add_argument("--model", choices=MODELS, default="ridge", help="what the analyst reads from the release")
    demo.add_argument("--clients", type=int, default=1_000_000, help="size of the population (default %(default)s)")
    demo.add_argument("--epsilon", type=float, default=1.0, help="of each release (default %(default)g)")
    demo.add_argument("--delta", type=float, default=1e-7, help="of each release (default %(default)g)")
    demo.add_argument("-M", "--servers", type=int, default=3, metavar="M", help="how many (default %(default)s)")
    add_run_options(demo)
    add_simulation_seed(demo)
    demo.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    from dpmpc.cli import demo
    from dpmpc.cli.demonstrations import demonstration

    began = time.perf_counter()
    runs = {}
    for name, sketch in demo.SKETCHES[options.model].items():
        started = time.perf_counter()
        shown = demonstration(options.model, options.clients, options.simulation_seed)
        task = shown.task(options.epsilon, options.delta, sketch, options.servers, options.simulation_seed)
        networked, fields, parts = run_and_fit(task, shown.table, options, shown.analysis, began=started)
        runs[name] = demo.Run(networked, fields, parts, shown)
    print_result(demo.fields(runs) if options.json else demo.parts(runs, wall_s=time.perf_counter() - began))
