"""`dpmpc fit`: a private model of a table, by real server processes on this machine."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmpc.cli.coded import add_missing_options, read_data
from dpmpc.cli.options import (
    DATA_HELP,
    add_file_options,
    add_proved,
    add_run_options,
    add_task_options,
    rounds_option,
    task_choices,
)
from dpmpc.cli.output import OUT_HELP, RELEASE_FILE, new_path, print_result, progress, write_outputs
from dpmpc.cli.parsing import Parser

if TYPE_CHECKING:
    from dpmpc.cli.fit_models import Findings

ONE_RELEASE = ("ridge", "low-rank", "moment")
MODELS = (*ONE_RELEASE, "logistic", "poisson")


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
        help="show how the result compares with what the data itself gives: not private, for whoever owns the data; "
        "with --out also in not_private.json",
    )
    fit.add_argument("--out", metavar="DIR", help=OUT_HELP)
    add_file_options(fit)
    _add_model_options(fit)
    add_proved(fit)
    add_task_options(fit)
    add_run_options(fit)
    fit.set_defaults(run=_fit)


def _add_model_options(command: Parser) -> None:
    regression = command.section("--model ridge, logistic and poisson")
    regression.add_argument("--target", metavar="COL", help="the column to predict; required")
    regression.add_argument(
        "--rounds",
        type=rounds_option,
        metavar="R",
        help="logistic and poisson: sums of scores after the first sum, 1 to 4, or auto (default): two, three where "
        "the first step was long and for counts; logistic: 0 for an approximation from the first sum alone; ridge: 1 "
        "(default), or 2 for one more sum; all within one budget",
    )
    ridge = command.section("--model ridge")
    ridge.add_argument(
        "--alpha", type=penalty, help="penalty in normalised units (default 1); auto chooses it from the release"
    )
    ridge.add_argument("--no-intercept", action="store_true", help="fit without a constant")
    ridge.add_argument(
        "--by",
        metavar="COL",
        help="one regression for each of up to 50 values of this column, which the bounds file lists, from one release",
    )
    low_rank = command.section("--model low-rank")
    low_rank.add_argument("--components", type=int, metavar="R", help="rank of the approximation (default 3)")
    moment = command.section("--model moment")
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
    from dpmpc.cli.fit_choice import fit_model_of
    from dpmpc.cli.fit_rounds import RoundsFitModel
    from dpmpc.data import warn_of_bounds
    from dpmpc.planning import ReleaseSpec, design

    began = time.perf_counter()
    out = None if options.out is None else new_path("out", options.out)
    analysis = fit_model_of(options)
    table, public = read_data(options, analysis)
    analysis.check(table, public)
    warn_of_bounds(public, table.values)
    choices = analysis.choices({**task_choices(options), "proved": options.proved}, public)
    if isinstance(analysis, RoundsFitModel):
        table, public = analysis.arrange(table, public, given=options.bounds is not None)
        _fit_in_rounds(analysis, table, public, options, choices, began=began, out=out)
        return
    task = design(ReleaseSpec.of(public, len(table), options.epsilon, options.delta, **choices))
    networked, fields, parts = run_and_fit(task, table, options, analysis, began=began)
    releases = {RELEASE_FILE: networked.release}
    compared = analysis.compare(table) if options.compare else None
    hand_out(options, out, fields, parts, releases, lambda: _page(networked, fields, analysis, options), compared)


def _fit_in_rounds(
    analysis: Any,
    table: Any,
    public: Any,
    options: argparse.Namespace,
    choices: dict[str, Any],
    *,
    began: float,
    out: Path | None,
) -> None:
    """Have all sums of a model in rounds released, fit them, and say what was found."""
    from dpmpc.cli.fit_rounds import run_in_rounds
    from dpmpc.render import rounds_text as report
    from dpmpc.render.page import Analysed, command_line
    from dpmpc.render.rounds_page import rounds_page

    done = run_in_rounds(analysis, table, public, options, choices)
    findings = analysis.judge({})
    wall_s = time.perf_counter() - began
    parameters = analysis.arguments()["model"]
    fields = report.rounds_fields(
        done, analysis.name, findings.result, parameters=parameters, features=analysis.features(table), wall_s=wall_s
    )
    releases = {report.release_file(number): release for number, release in enumerate(done.releases)}

    def page() -> str:
        return rounds_page(
            done.releases,
            done.guarantee,
            Analysed(analysis.name, parameters, findings.result),
            files=list(releases),
            timing=report.rounds_timing(done, wall_s=wall_s),
            command=command_line(options.arguments, [*options.data, options.bounds, options.out]),
        )

    compared = analysis.compare(table) if options.compare else None
    hand_out(options, out, fields, report.rounds_parts(done, findings.parts, wall_s=wall_s), releases, page, compared)


def hand_out(
    options: argparse.Namespace,
    out: Path | None,
    fields: dict[str, Any],
    parts: list[Any],
    releases: dict[str, Any],
    page: Callable[[], str],
    compared: Findings | None = None,
) -> None:
    """Write what belongs in the directory, if there is one, and print the result, with what it was compared with."""
    from dpmpc.privacy.guarantee import REPEATABLE

    written = []
    if fields["privacy"]["simulation"]:  # before any result, also in the file
        parts = [f"SIMULATION: {REPEATABLE}", "", *parts]
    if out is not None:
        written = write_outputs(out, fields, parts, releases, page(), None if compared is None else compared.result)
    if compared is not None:
        fields = {**fields, "result": {**fields["result"], "not_private": compared.result}}
        parts = [*parts, "", *compared.parts]
    print_result(fields if options.json else parts)
    if written:
        print(f"written: {', '.join(map(str, written))}", file=sys.stderr)


def _page(networked: Any, fields: dict[str, Any], analysis: Any, options: argparse.Namespace) -> str:
    """Render the report as HTML, with the command as it was given but for the places of files."""
    from dpmpc.render import Analysed, command_line, page
    from dpmpc.render.fit import public_timing

    return page(
        networked.release,
        analysed=Analysed(analysis.name, analysis.arguments()["model"], fields["result"]),
        timing=public_timing(networked, wall_s=fields["timing"]["wall_s"]),
        command=command_line(options.arguments, [*options.data, options.bounds, options.out]),
        tables=analysis.tables(),
    )


def run_and_fit(
    task: Any, table: Any, options: argparse.Namespace, analysis: Any, *, began: float
) -> tuple[Any, dict[str, Any], list[Any]]:
    """Run the model's program, and say what it found."""
    from dpmpc.networked import REFUSED, run
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
    findings = analysis.judge({name: value for name, value in networked.answer.items() if name != REFUSED})
    wall_s = time.perf_counter() - began
    fields = report.fit_fields(
        networked,
        analysis.name,
        findings.result,
        features=analysis.features(table) - task.schema.weighted,
        wall_s=wall_s,
    )
    return networked, fields, report.fit_parts(networked, findings.parts, wall_s=wall_s)
