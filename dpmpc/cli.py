"""The `dpmpc` command.

Results go to standard output, progress to standard error. Exit status: 0 done, 1 a bench of several failed, an audit
refuted a claim or the machine is unfit, 2 bad input or a guarantee that cannot be met, 3 a protocol failure. Whatever
is written appears whole or not at all.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dpmpc
from dpmpc import (
    audit_command,
    bench_command,
    doctor_command,
    intake_command,
    mixing_command,
    release_command,
)
from dpmpc.errors import DpmpcError, InputError
from dpmpc.release_options import add_release_options, release_choices

MODELS = ("ridge", "low-rank", "moment")
PLANNED = ("ridge", "low-rank")
Progress = Callable[[str, float], None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = parser().parse_args(arguments, argparse.Namespace(arguments=arguments))
    return exit_status(lambda: options.run(options))


def exit_status(job: Callable[[], None]) -> int:
    """Do a job whose errors are told on standard error; return the exit status."""
    try:
        job()
        sys.stdout.flush()
    except DpmpcError as error:
        print(f"dpmpc: {type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("dpmpc: interrupted", file=sys.stderr)
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """Build the command's parser."""
    top = argparse.ArgumentParser(prog="dpmpc", description="Differentially private models; no server sees a row.")
    top.add_argument("--version", action="version", version=f"dpmpc {dpmpc.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo", help="the main job on a generated population, sketch and sum, three servers over TLS on loopback"
    )
    demo.add_argument("--model", choices=MODELS, default="ridge", help="what the analyst reads from the release")
    demo.add_argument("--clients", type=int, default=1_000_000, help="size of the population (default %(default)s)")
    demo.add_argument("--epsilon", type=float, default=1.0)
    demo.add_argument("--delta", type=float, default=1e-7)
    demo.add_argument("-M", "--servers", type=int, default=3, metavar="M")
    _add_run_options(demo)
    _add_simulation_seed(demo)
    demo.set_defaults(run=_demo)

    fit = commands.add_parser("fit", help="a private model of a table, by real server processes on this machine")
    fit.add_argument("data", metavar="DATA", help="CSV or Parquet, one row per client")
    fit.add_argument("--model", choices=MODELS, default="ridge")
    fit.add_argument("--bounds", metavar="FILE", help="TOML with the public bounds; without it data must be in [-1, 1]")
    fit.add_argument("--drop-missing", action="store_true", help="leave out rows with missing values")
    fit.add_argument("--out", metavar="DIR", help="write release, result and report to a new directory")
    _add_model_options(fit)
    _add_task_options(fit)
    _add_run_options(fit)
    fit.set_defaults(run=_fit)

    plan = commands.add_parser(
        "plan", help="before any data: noise, modulus, bytes, cost, expected error, smallest batch"
    )
    plan.add_argument("--clients", type=int, required=True, metavar="N")
    plan.add_argument("--columns", type=int, metavar="P", help="features and target; or give --bounds")
    plan.add_argument("--bounds", metavar="FILE", help="TOML with the public bounds")
    plan.add_argument("--model", choices=PLANNED, default="ridge")
    plan.add_argument("--components", type=int, metavar="R", help="rank of --model low-rank (default 3)")
    plan.add_argument(
        "--explained",
        type=float,
        metavar="SHARE",
        help="assumed R^2 of the best linear model (default 0.5), or share of the variance in the best R directions "
        "(default: halfway from R/P, what any R directions have, to 1)",
    )
    plan.add_argument("--spread", type=float, default=0.4, help="assumed standard deviation of a column in [-1, 1]")
    plan.add_argument(
        "--prices",
        type=float,
        nargs=3,
        metavar=("CORE_HOUR", "GB_MONTH", "GB_SENT"),
        help="what a core-hour, 1e9 bytes stored for a month and 1e9 bytes sent cost (default: a cloud's list, USD)",
    )
    plan.add_argument("--currency", metavar="NAME", help="currency of --prices (default USD)")
    plan.add_argument("--days", type=float, default=30.0, help="how long shares are stored (default %(default)g)")
    plan.add_argument("--plot", metavar="FILE", help="draw the expected error over n and epsilon: .svg or .png")
    plan.add_argument("--json", action="store_true", help="print one JSON object")
    _add_task_options(plan)
    plan.set_defaults(run=_plan)

    bounds = commands.add_parser("bounds", help="suggest a bounds file from data; looking at data is not private")
    bounds.add_argument("data", metavar="DATA")
    bounds.add_argument("--columns", nargs="+", metavar="COL")
    bounds.add_argument("--drop-missing", action="store_true")
    bounds.set_defaults(run=_bounds)

    mixing_command.add_commands(commands)
    intake_command.add_commands(commands)
    release_command.add_commands(commands)

    audit_command.add_command(commands)
    doctor_command.add_command(commands)
    bench_command.add_command(commands)
    return top


def _add_model_options(command: argparse.ArgumentParser) -> None:
    ridge = command.add_argument_group("--model ridge")
    ridge.add_argument("--target", metavar="COL", help="the column to predict; required")
    ridge.add_argument(
        "--alpha", type=_penalty, help="penalty in normalised units (default 1); auto chooses it from the release"
    )
    ridge.add_argument("--no-intercept", action="store_true")
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


def _add_task_options(command: argparse.ArgumentParser) -> None:
    add_release_options(command)
    command.add_argument("-M", "--servers", type=int, default=3, metavar="M")
    _add_simulation_seed(command)


def _add_simulation_seed(command: argparse.ArgumentParser) -> None:
    command.add_argument("--simulation-seed", type=int, metavar="SEED", help="repeatable randomness: protects nobody")


def _add_run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--threads", type=int, default=1, help="threads of each process (default %(default)s)")
    command.add_argument("--deadline", type=float, default=30.0, help="seconds that a party may keep others waiting")
    command.add_argument("--json", action="store_true", help="print exactly one JSON object")


def _task_choices(options: argparse.Namespace) -> dict[str, Any]:
    return {**release_choices(options), "servers": options.servers, "seed": options.simulation_seed}


def _fit(options: argparse.Namespace) -> None:
    from dpmpc.analyses import analysis_of
    from dpmpc.bounds import Schema, schema
    from dpmpc.planning import design
    from dpmpc.tables import read_table

    began = time.perf_counter()
    out = None if options.out is None else _new_directory(options.out)
    analysis = analysis_of(options)
    given = None if options.bounds is None else Schema.from_toml(options.bounds)
    wanted = analysis.columns(None if given is None else given.names)
    table = read_table(options.data, wanted, drop_missing=options.drop_missing)
    analysis.check(table)
    public = schema(given, table.names)
    choices = analysis.choices(_task_choices(options), public)
    task = design(public, len(table), options.epsilon, options.delta, **choices)
    networked, fields, parts = _run_and_fit(task, table, options, analysis, began=began)
    if out is not None:
        _write_outputs(out, fields, parts, networked.release, _page(networked, fields, analysis, options))
    _print(fields if options.json else parts)


def _page(networked: Any, fields: dict[str, Any], analysis: Any, options: argparse.Namespace) -> str:
    """The report as HTML, with the command as it was given but for the places of files."""
    from dpmpc.reports import Analysed, command_line, page

    return page(
        networked.release,
        analysed=Analysed(analysis.name, analysis.arguments()["model"], fields["result"]),
        timing=fields["timing"],
        command=command_line(options.arguments, [options.data, options.bounds, options.out]),
    )


def _demo(options: argparse.Namespace) -> None:
    from dpmpc import demo
    from dpmpc.demonstrations import demonstration

    began = time.perf_counter()
    runs = {}
    for name, sketch in demo.SKETCHES[options.model].items():
        started = time.perf_counter()
        shown = demonstration(options.model, options.clients, options.simulation_seed)
        task = shown.task(options.epsilon, options.delta, sketch, options.servers, options.simulation_seed)
        networked, fields, parts = _run_and_fit(task, shown.table, options, shown.analysis, began=started)
        runs[name] = demo.Run(networked, fields, parts, shown)
    _print(demo.fields(runs) if options.json else demo.parts(runs, wall_s=time.perf_counter() - began))


def _run_and_fit(
    task: Any, table: Any, options: argparse.Namespace, analysis: Any, *, began: float
) -> tuple[Any, dict[str, Any], list[Any]]:
    """Run the model's program, and say how its answer compares with what the data at hand would give."""
    from dpmpc import report
    from dpmpc.protocols.linear_transform import run
    from dpmpc.randomness import stream_for

    with _progress(quiet=options.json) as progress:
        networked = run(
            task,
            table.values,
            program=analysis.program,
            arguments=analysis.arguments(),
            stream=stream_for(options.simulation_seed),
            threads=options.threads,
            deadline=options.deadline,
            on_progress=progress,
        )
    analysis.fit(networked.release)
    findings = analysis.judge(table, networked.answer)
    wall_s = time.perf_counter() - began
    fields = report.fit_fields(
        networked,
        analysis.name,
        findings.result,
        features=analysis.features(table),
        wall_s=wall_s,
    )
    return networked, fields, report.fit_parts(networked, findings.parts, wall_s=wall_s)


def _plan(options: argparse.Namespace) -> None:
    from dpmpc import plan_report
    from dpmpc.bounds import Schema
    from dpmpc.planning import design
    from dpmpc.setting import Population

    if (options.columns is None) == (options.bounds is None):
        raise InputError("columns, bounds: give the number of columns or a bounds file, one of the two")
    if options.columns is not None and options.columns < 2:
        raise InputError(f"columns: {options.columns} given, at least 2 expected: a feature and a target")
    schema = (
        Schema.unit([f"x{column}" for column in range(options.columns)])
        if options.bounds is None
        else Schema.from_toml(options.bounds)
    )
    aim, explained = _aim(options, len(schema))
    population = Population(options.spread, options.spread, explained)
    task = design(
        schema, options.clients, options.epsilon, options.delta, purpose=aim.purpose, **_task_choices(options)
    )
    if options.plot is not None:
        _draw_plan(Path(options.plot), task, aim, population)
    fields = plan_report.plan_fields(task, aim, population, prices=_prices(options), days=options.days)
    _print(fields if options.json else plan_report.plan_parts(task, fields, aim))


def _draw_plan(path: Path, task: Any, aim: Any, population: Any) -> None:
    """Write the plan's plot, or refuse before anything is computed for it."""
    from dpmpc.plan_plot import write_plot
    from dpmpc.reports.drawing import check_plot_file

    check_plot_file(path)
    write_plot(path, task, aim, population)


def _aim(options: argparse.Namespace, columns: int) -> tuple[Any, float]:
    """Return what `dpmpc plan` plans for, and the share of the variance that is assumed to be explained."""
    from dpmpc.prediction import LowRank, Regression

    given = options.explained
    if options.model == "ridge":
        if options.components is not None:
            raise InputError(f"components: {options.components} given, but that is for --model low-rank, not ridge")
        return Regression(), 0.5 if given is None else given
    rank = 3 if options.components is None else options.components
    if not 1 <= rank < columns:
        raise InputError(f"components: {rank} given, 1 to {columns - 1} expected with {columns} columns")
    return LowRank(rank), (1 + rank / columns) / 2 if given is None else given


def _prices(options: argparse.Namespace) -> Any:
    """Return the prices that were given, or the default ones."""
    from dpmpc.cost import Prices

    if options.prices is not None:
        core_hour, gigabyte_month, gigabyte_sent = options.prices
        return Prices(core_hour, gigabyte_month, gigabyte_sent, options.currency or "USD")
    if options.currency is not None:
        raise InputError(f"currency: {options.currency!r} given without prices, --prices in that currency expected")
    return Prices()


def _bounds(options: argparse.Namespace) -> None:
    from dpmpc.bounds import suggest
    from dpmpc.tables import read_table

    table = read_table(options.data, options.columns, drop_missing=options.drop_missing)
    print("# Suggested from the data itself, which is NOT private: replace each pair by what is publicly known.")
    print(suggest(table).to_toml(), end="")


def _new_directory(path: str) -> Path:
    """Return a directory that does not exist yet, or refuse: results are never mixed or overwritten."""
    out = Path(path)
    if out.exists():
        raise InputError(f"out: {path!r} exists already, the name of a new directory expected")
    if not out.absolute().parent.is_dir():
        raise InputError(f"out: {path!r} given, but {str(out.parent)!r} is no directory")
    return out


def _write_outputs(out: Path, fields: dict[str, Any], parts: list[Any], release: Any, page: str) -> None:
    """Write everything to a directory beside the wanted one, then rename it."""
    import tempfile

    from rich.console import Console

    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as folder:
        partial = Path(folder) / "out"
        partial.mkdir()
        release.save(partial / "release.dpmpc")
        (partial / "result.json").write_text(json.dumps(fields, indent=1, allow_nan=False) + "\n")
        (partial / "report.html").write_text(page, encoding="utf-8")
        with open(partial / "report.txt", "w") as text:
            console = Console(file=text, width=120)
            _print_parts(console, parts)
        partial.rename(out)


def _print(result: dict[str, Any] | list[Any]) -> None:
    if isinstance(result, dict):
        print(json.dumps(result, allow_nan=False))
        return
    from rich.console import Console

    _print_parts(Console(highlight=False), result)


def _print_parts(console: Any, parts: list[Any]) -> None:
    """Print tables as they fit, and text with its own line breaks."""
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress]:
    """A progress display on standard error: one line per stage."""
    from rich.console import Console
    from rich.progress import Progress as Display

    with Display(console=Console(stderr=True), transient=True, disable=quiet) as display:
        stages: dict[str, Any] = {}

        def on_progress(stage: str, fraction: float) -> None:
            if stage not in stages:
                stages[stage] = display.add_task(stage, total=1.0)
            display.update(stages[stage], completed=fraction)

        yield on_progress
