"""`dpmpc demo`: a model of a generated population, by its paper's algorithm and by another release."""

from __future__ import annotations

import argparse
import time
from typing import Any

from dpmpc.app.cli.fit import run_and_fit
from dpmpc.app.cli.options import add_run_options, add_simulation_seed
from dpmpc.app.cli.output import ResultFolder, print_result
from dpmpc.privacy.specification import option_of

DEMONSTRATED = ("ridge", "low-rank", "moment")


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    demo = commands.add_parser(
        "demo", help="the main job on a generated population, sketch and sum, three servers over TLS on loopback"
    )
    demo.add_argument("--model", choices=DEMONSTRATED, default="ridge", help="what the analyst reads from the release")
    demo.add_argument("--clients", type=int, default=1_000_000, help="size of the population (default %(default)s)")
    for name, default in (("epsilon", 1.0), ("delta", 1e-7)):
        demo.add_argument(f"--{name}", **option_of(name, default=default))
    demo.add_argument("-M", "--servers", **option_of("servers"))
    add_run_options(demo)
    add_simulation_seed(demo)
    demo.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    from dpmpc.app.cli import demonstrations

    began = time.perf_counter()
    runs = {}
    for name in demonstrations.RELEASES[options.model]:
        started = time.perf_counter()
        shown = demonstrations.demonstration(options.model, options.clients, options.simulation_seed, name)
        task = shown.task(options.epsilon, options.delta, options.servers, options.simulation_seed)
        with ResultFolder(None) as kept:
            networked, report = run_and_fit(task, shown.table, options, shown.model, shown.column, kept, began=started)
        compared = shown.model.compare_with(shown.table)  # the population is generated: nobody's privacy
        runs[name] = demonstrations.DemonstratedRelease(networked, report, compared, shown)
    print_result(
        demonstrations.fields(runs) if options.json else demonstrations.parts(runs, wall_s=time.perf_counter() - began)
    )
