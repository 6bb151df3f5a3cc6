"""`dpmpc demo`: a ridge regression of a generated population, by the paper's sketch and by second moments."""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.fit import run_and_fit
from dpmpc.app.cli.options import add_run_options, add_simulation_seed
from dpmpc.app.cli.output import ResultFolder, print_result
from dpmpc.privacy.specification import option_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dpmpc.app.render.report import Report
    from dpmpc.base.arrays import Reals
    from dpmpc.models import RidgeRegression
    from dpmpc.models.common.commanded import NotPrivate
    from dpmpc.parties.networked import NetworkedRun
    from dpmpc.release.results import NumberTable

#: The public matrices, by the names of the releases; the paper's (Burkhardt et al. 2025, section 5.1) comes first.
RELEASES = {"sketch": "countsketch", "sum": "sum"}
_ABOUT = """\
A generated population (dpmpc.data.demo_population, seed 0) whose income is linear in five features. Each person
clips, encodes, noises and secret-shares one row; server processes add up their shares; only the noisy result is opened.

Two releases of the same people, each with the same guarantee: a sketch of their rows, and the sum of their second
moments. To publish both would cost twice the budget. This is a demonstration on generated people: choose one.
"""


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    demo = commands.add_parser(
        "demo", help="the main job on a generated population, sketch and sum, three servers over TLS on loopback"
    )
    demo.add_argument("--clients", type=int, default=1_000_000, help="size of the population (default %(default)s)")
    for name, default in (("epsilon", 1.0), ("delta", 1e-7)):
        demo.add_argument(f"--{name}", **option_of(name, default=default))
    demo.add_argument("-M", "--servers", **option_of("servers"))
    add_run_options(demo)
    add_simulation_seed(demo)
    demo.set_defaults(run=_demo)


@dataclasses.dataclass(frozen=True)
class _Shown:
    """A release, the model that is read from it, and the same model of the same people without privacy."""

    networked: NetworkedRun
    report: Report
    model: RidgeRegression
    compared: NotPrivate

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = self.report.to_dict()
        return {**fields, "result": {**fields["result"], "not_private": self.compared.data}}


def _demo(options: argparse.Namespace) -> None:
    from dpmpc.data.demo import DEMO_BOUNDS, DEMO_RADIUS, DEMO_TARGET, demo_population
    from dpmpc.models import RidgeRegression
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design

    began = time.perf_counter()
    table, truth, _ = demo_population(options.clients)
    runs = {}
    for name, sketch in RELEASES.items():
        started = time.perf_counter()
        spec = ReleaseSpec.of(
            DEMO_BOUNDS,
            options.clients,
            options.epsilon,
            options.delta,
            servers=options.servers,
            simulation_seed=options.simulation_seed,
            sketch=sketch,
            radius=DEMO_RADIUS,
        )
        model = RidgeRegression(1.0)
        with ResultFolder(None) as kept:
            networked, report = run_and_fit(design(spec), table, options, model, DEMO_TARGET, kept, began=started)
        runs[name] = _Shown(
            networked, report, model, model.compare_with(table)
        )  # generated people, who have no privacy
    if options.json:
        print_result({**runs["sketch"].fields, "sum": runs["sum"].fields})
    else:
        best = runs["sum"].model.in_units(runs["sum"].model.compare(table.values).best)[0]
        print_result(_parts(runs, truth, best.tolist(), time.perf_counter() - began))


def _parts(
    runs: dict[str, _Shown], truth: Reals, best: list[float], wall_s: float
) -> list[RenderableType | NumberTable]:
    """Return what a person reads."""
    from dpmpc.app.render.guarantee_prose import guarantee_text
    from dpmpc.app.render.released import release_text
    from dpmpc.app.render.servers import servers_table
    from dpmpc.release.results import NumberTable

    promised = runs["sketch"].networked.release.guarantee
    fitted = {name: run.model.coef_.tolist() for name, run in runs.items()}
    columns = {"truth": truth.tolist(), **fitted, "not private": best}
    return [
        _ABOUT,
        *(f"{name}: {release_text(run.networked.release.task)}" for name, run in runs.items()),
        "",
        NumberTable("Coefficients", columns, runs["sum"].model.feature_names_),
        _comparison(runs, truth),
        "",
        guarantee_text(promised),
        f"That is the sketch's. The sum promises ({promised.epsilon:g}, {promised.delta:g}) too, by its own noise.",
        "",
        *(part for name, run in runs.items() for part in (f"{name}:", servers_table(run.networked.servers))),
        f"wall time: everything {wall_s:.1f} s",
    ]


def _comparison(runs: dict[str, _Shown], truth: Reals) -> RenderableType:
    """Return error, upload and server time of each release."""
    import numpy as np

    from dpmpc.app.render.grids import grid
    from dpmpc.release.planning.cost import byte_fields

    def row(run: _Shown) -> list[str]:
        error = np.linalg.norm(run.model.coef_ - truth) / np.linalg.norm(truth)
        return [
            f"{run.compared.data['approximation_factor']:.5g}",
            f"{run.compared.data['trivial_factor']:.4g}",
            f"{error:.2%}",
            f"{byte_fields(run.networked.release.task)['client_to_all_servers']:,}",
            f"{run.networked.clients_s:.2f}",
            f"{max(spent.total_s for spent in run.networked.servers):.3f}",
        ]

    names = (
        *("cost / optimal cost (phi)", "  trivial predictor", "coefficients off the truth"),
        *("a client sends, bytes", "all clients, s", "slowest server, s, set-up apart"),
    )
    return grid("Side by side", ("", *runs), zip(names, *map(row, runs.values()), strict=True))
