"""`dpmpc fit`: a private model of a table, by real server processes on this machine."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from dpmpc.cli.options import (
    add_run_options,
    add_task_options,
    task_choices,
)
from dpmpc.cli.output import OUTPUTS, new_directory, print_result, progress, write_outputs
from dpmpc.errors import InputError

if TYPE_CHECKING:
    from dpmpc.bounds import Schema

MODELS = ("ridge", "low-rank", "moment")


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    fit = commands.add_parser("fit", help="a private model of a table, by real server processes on this machine")
    fit.add_argument("data", metavar="DATA", help="CSV or Parquet, one row per client")
    fit.add_argument("--model", choices=MODELS, default="ridge", help="what to fit (default %(default)s)")
    fit.add_argument(
        "--bounds",
        metavar="FILE",
        help="TOML with the public bounds: only its columns are read; without it all are, and must be in [-1, 1]",
    )
    fit.add_argument(
        "--fill-missing",
        action="store_true",
        help="a missing value becomes the middle of its column's public bounds, without bounds 0",
    )
    fit.add_argument(
        "--drop-missing", action="store_true", help="leave out rows with missing values; needs --public-count"
    )
    fit.add_argument(
        "--public-count", type=int, metavar="N", help="with --drop-missing: how many are left, if that is public anyway"
    )
    fit.add_argument(
        "--compare",
        action="store_true",
        help="show how the result compares with what the data itself gives: not private, for whoever owns the data",
    )
    fit.add_argument("--out", metavar="DIR", help="write release, result and report to a new directory")
    _add_model_options(fit)
    add_task_options(fit)
    add_run_options(fit)
    fit.set_defaults(run=_fit)


def _add_model_options(command: argparse.ArgumentParser) -> None:
    ridge = command.add_argument_group("--model ridge")
    ridge.add_argument("--target", metavar="COL", help="the column to predict; required")
    ridge.add_argument(
        "--alpha", type=_penalty, help="penalty in normalised units (default 1); auto chooses it from the release"
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


def _penalty(text: str) -> float | str:
    """A number, or "auto"."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} given, a number or 'auto' expected") from None


def _fit(options: argparse.Namespace) -> None:
    from dpmpc.bounds import Schema, schema, warn_of_bounds
    from dpmpc.cli.fit_models import fit_model_of
    from dpmpc.planning import ReleaseSpec, design
    from dpmpc.tables import read_table

    began = time.perf_counter()
    out = None if options.out is None else new_directory(options.out)
    analysis = fit_model_of(options)
    given = None if options.bounds is None else Schema.from_toml(options.bounds)
    wanted = analysis.columns(None if given is None else given.names)
    fill = _filling(options, given)
    table = read_table(options.data, wanted, drop_missing=options.drop_missing, fill=fill)
    if options.drop_missing:
        table = table.with_public_count(options.public_count)
    analysis.check(table)
    public = schema(given, table.names)
    warn_of_bounds(public, table.values)
    choices = analysis.choices(task_choices(options), public)
    task = design(ReleaseSpec.of(public, len(table), options.epsilon, options.delta, **choices))
    networked, fields, parts = run_and_fit(task, table, options, analysis, began=began, compare=options.compare)
    if out is not None:
        write_outputs(out, fields, parts, networked.release, _page(networked, fields, analysis, options))
    print_result(fields if options.json else parts)
    if out is not None:
        print(f"written: {', '.join(str(out / name) for name in OUTPUTS)}", file=sys.stderr)


def _filling(options: argparse.Namespace, given: Schema | None) -> float | dict[str, float] | None:
    """Return what stands for missing values; refuse to leave rows out where their number is not public.

    A release publishes the number of its rows exactly: it must be the same whether or not somebody's row is complete.
    """
    if options.drop_missing and options.fill_missing:
        raise InputError("drop_missing, fill_missing: both given, one of them expected")
    if options.public_count is not None and not options.drop_missing:
        raise InputError(f"public_count: {options.public_count} given, but it belongs with --drop-missing")
    if options.drop_missing and options.public_count is None:
        raise InputError(
            "drop_missing: the number of complete rows depends on the data, and a release publishes it exactly. "
            "--fill-missing puts the middle of a column's bounds in the place of a missing value; or give "
            "--public-count N if it is public knowledge, whatever the file says, that N rows are complete"
        )
    if not options.fill_missing:
        return None
    return 0.0 if given is None else {column.name: column.middle for column in given.columns}


def _page(networked: Any, fields: dict[str, Any], analysis: Any, options: argparse.Namespace) -> str:
    """The report as HTML, with the command as it was given but for the places of files."""
    from dpmpc.render import Analysed, command_line, page
    from dpmpc.render.fit import public_timing

    return page(
        networked.release,
        analysed=Analysed(analysis.name, analysis.arguments()["model"], fields["result"]),
        timing=public_timing(networked, wall_s=fields["timing"]["wall_s"]),
        command=command_line(options.arguments, [options.data, options.bounds, options.out]),
    )


def run_and_fit(
    task: Any, table: Any, options: argparse.Namespace, analysis: Any, *, began: float, compare: bool
) -> tuple[Any, dict[str, Any], list[Any]]:
    """Run the model's program, and say what it found; with `compare` also beside what the data at hand would give."""
    from dpmpc.networked import run
    from dpmpc.randomness import stream_for
    from dpmpc.render import fit as report

    with progress() as on_progress:
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
        features=analysis.features(table),
        wall_s=wall_s,
    )
    return (
        networked,
        fields,
        report.fit_parts(networked, [*findings.parts, *(findings.compared if compare else [])], wall_s=wall_s),
    )
