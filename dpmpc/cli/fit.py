"""`dpmpc fit`: a private model of a table, by real server processes on this machine."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from dpmpc.cli.coded import add_missing_options, read_data
from dpmpc.cli.options import (
    DATA_HELP,
    add_file_options,
    add_run_options,
    add_task_options,
    task_choices,
)
from dpmpc.cli.output import OUTPUTS, new_directory, print_result, progress, write_outputs

MODELS = ("ridge", "low-rank", "moment")


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    fit = commands.add_parser("fit", help="a private model of a table, by real server processes on this machine")
    fit.add_argument("data", metavar="DATA", nargs="+", help=DATA_HELP)
    fit.add_argument("--model", choices=MODELS, default="ridge", help="what to fit (default %(default)s)")
    fit.add_argument(
        "--bounds",
        metavar="FILE",
        help="TOML with the public bounds: only its columns are read; without it all are, and must be in [-1, 1]",
    )
    add_missing_options(fit)
    fit.add_argument(
        "--compare",
        action="store_true",
        help="show how the result compares with what the data itself gives: not private, for whoever owns the data",
    )
    fit.add_argument("--out", metavar="DIR", help="write release, result and report to a new directory")
    add_file_options(fit)
    _add_model_options(fit)
    add_task_options(fit)
    add_run_options(fit)
    fit.set_defaults(run=_fit)


def _add_model_options(command: argparse.ArgumentParser) -> None:
    ridge = command.add_argument_group("--model ridge")
    ridge.add_argument("--target", metavar="COL", help="the column to predict; required")
    ridge.add_argument(
        "--alpha", type=penalty, help="penalty in normalised units (default 1); auto chooses it from the release"
    )
    ridge.add_argument("--no-intercept", action="store_true", help="fit without a constant")
    low_rank = command.add_argument_group("--model low-rank")
    low_rank.add_argument("--components", type=int, metavar="R", help="rank of the approximation (default 3)")
    moment = command.add_argument_group("--model moment")
    moment.add_argument("--column", metavar="COL", help="what is measured; required if there are several")
    moment.add_argument("--order", type=int, metavar="K", help="the sum of x^K (default 2)")
    moment.add_argument(
        "--items",
        action="store_true",
        help="the sum of squared counts of each whole number; --rows: size of its sketch",
    )


def penalty(text: str) -> float | str:
    """Read a number, or "auto"."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} given, a number or 'auto' expected") from None


def _fit(options: argparse.Namespace) -> None:
    from dpmpc.bounds import warn_of_bounds
    from dpmpc.cli.fit_models import fit_model_of
    from dpmpc.planning import ReleaseSpec, design

    began = time.perf_counter()
    out = None if options.out is None else new_directory(options.out)
    analysis = fit_model_of(options)
    table, public = read_data(options, analysis)
    analysis.check(table, public)
    warn_of_bounds(public, table.values)
    choices = analysis.choices(task_choices(options), public)
    task = design(ReleaseSpec.of(public, len(table), options.epsilon, options.delta, **choices))
    networked, fields, parts = run_and_fit(task, table, options, analysis, began=began, compare=options.compare)
    if out is not None:
        write_outputs(out, fields, parts, networked.release, _page(networked, fields, analysis, options))
    print_result(fields if options.json else parts)
    if out is not None:
        print(f"written: {', '.join(str(out / name) for name in OUTPUTS)}", file=sys.stderr)


def _page(networked: Any, fields: dict[str, Any], analysis: Any, options: argparse.Namespace) -> str:
    """The report as HTML, with the command as it was given but for the places of files."""
    from dpmpc.render import Analysed, command_line, page
    from dpmpc.render.fit import public_timing

    return page(
        networked.release,
        analysed=Analysed(analysis.name, analysis.arguments()["model"], fields["result"]),
        timing=public_timing(networked, wall_s=fields["timing"]["wall_s"]),
        command=command_line(options.arguments, [*options.data, options.bounds, options.out]),
    )


def run_and_fit(
    task: Any, table: Any, options: argparse.Namespace, analysis: Any, *, began: float, compare: bool
) -> tuple[Any, dict[str, Any], list[Any]]:
    """Run the model's program, and say what it found; with `compare` also beside what the data at hand would give."""
    from dpmpc.networked import run
    from dpmpc.randomness import stream_for
    from dpmpc.render import fit as report

    with progress(quiet=options.json) as on_progress:
        networked = run(
            task,
            table.values,
            program=analysis.program,
            arguments=analysis.arguments(),
            stream=stream_for(options.simulation_seed),
            threads=options.threads,
            deadline=options.deadline,
            on_progress=on_progress,
        )
    analysis.fit(networked.release)
    findings = analysis.judge(table, networked.answer)
    wall_s = time.perf_counter() - began
    fields = report.fit_fields(
        networked,
        analysis.name,
        {**findings.result, "not_private": findings.not_private},
        features=analysis.features(table) - task.schema.weighted,
        wall_s=wall_s,
    )
    return (
        networked,
        fields,
        report.fit_parts(networked, [*findings.parts, *(findings.compared if compare else [])], wall_s=wall_s),
    )
