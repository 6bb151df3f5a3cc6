"""`dpmpc fit`: a private model of a table, by real server processes on this machine."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.coded import add_missing_options, read_data, refuse_missing_rules
from dpmpc.app.cli.model_options import add_model, column_of, model_of, target_last
from dpmpc.app.cli.options import (
    DATA_HELP,
    add_file_options,
    add_proved,
    add_run_options,
    add_task_options,
    add_verbose,
    dialect_of,
    sums_only,
    task_choices,
)
from dpmpc.app.cli.output import OUT_HELP, RELEASE_FILE, ResultFolder, new_path, print_result, progress
from dpmpc.base import plugins
from dpmpc.base.errors import InputError
from dpmpc.base.plugins import Open
from dpmpc.models.fitted import MODELS

if TYPE_CHECKING:
    from dpmpc.app.render.report import Report
    from dpmpc.data import Table
    from dpmpc.models.common.commanded import NotPrivate
    from dpmpc.parties.networked import NetworkedRun
    from dpmpc.privacy.task import Task

#: All but what `dpmpc describe` reads.
FITTED = Open((kind for kind in MODELS if kind != "table-one"), plugins.MODELS)


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    fit = commands.add_parser("fit", help="a private model of a table, by real server processes on this machine")
    fit.add_argument("data", metavar="DATA", nargs="+", help=DATA_HELP)
    add_model(fit, FITTED, default="ridge")
    fit.add_argument(
        "--bounds",
        metavar="FILE",
        help="TOML with the public bounds: only its columns are read; without it all are, and must be in [-1, 1]",
    )
    add_missing_options(fit)
    fit.add_argument(
        "--compare",
        action="store_true",
        help="show how the result compares with what the data itself gives: not private, for the owner of the data; "
        "with --out also in not_private.json",
    )
    fit.add_argument("--out", metavar="DIR", help=OUT_HELP)
    add_file_options(fit)
    add_proved(fit)
    add_task_options(fit)
    add_run_options(fit)
    add_verbose(fit)
    fit.set_defaults(run=lambda options: fit_table(options, options.model))


def fit_table(options: argparse.Namespace, kind: str, *, level: float = 0.95) -> None:
    """Fit a model to the rows of a table, by server processes, and hand out what the sums show.

    Parameters
    ----------
    options : argparse.Namespace
        Those of the command, and of the model.
    kind : str
        The model.
    level : float
        Of confidence intervals.
    """
    from dpmpc.data.data_checks import warn_of_bounds
    from dpmpc.data.table_files import read_cells
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design

    began = time.perf_counter()
    out = None if options.out is None else new_path("out", options.out)
    model = model_of(options, kind)
    column = column_of(options, model)
    model.check_options(column, bounds=options.bounds is not None)
    if model.codes_people:
        refuse_missing_rules(options)
        table, public = model.read(lambda names: read_cells(options.data, names, dialect=dialect_of(options)))
    else:
        table, public = read_data(options, model, column)
    model.check_rows(table, public, column, filled=getattr(options, "fill_missing", False))
    warn_of_bounds(public, table.values)
    choices = model.command_choices({**task_choices(options), "proved": options.proved}, public)
    spec = ReleaseSpec.of(public, len(table), options.epsilon, options.delta, **choices)
    in_rounds = model.in_rounds(spec)
    given = {"predict_only": getattr(options, "intervals", None) is False, "anyway": getattr(options, "anyway", False)}
    if not in_rounds and (name := next((name for name, there in given.items() if there), None)):
        raise InputError(name, "given, but another option requires one release, a fit in rounds expected")
    with ResultFolder(out) as kept:
        if in_rounds:
            public = target_last(model, public, str(column), given=options.bounds is not None)
            table = table.select(public.names)
            spec = ReleaseSpec.of(public, len(table), options.epsilon, options.delta, **sums_only(choices))
            report = _fit_in_rounds(model, table, spec, options, kept, level=level, began=began)
        else:
            _, report = run_and_fit(design(spec), table, options, model, column, kept, level=level, began=began)
        hand_out(options, kept, report, model.compare_with(table) if options.compare else None)


def _fit_in_rounds(
    model: Any,
    table: Table,
    spec: Any,
    options: argparse.Namespace,
    kept: ResultFolder,
    *,
    level: float,
    began: float,
) -> Report:
    """Have all sums made by servers that are processes, and report on them; each is kept before the next is made."""
    import warnings

    from dpmpc.app.render.about import About
    from dpmpc.app.render.guarantee_prose import spent_text
    from dpmpc.app.render.released import release_file, report_of
    from dpmpc.app.render.servers import RunCost, with_run
    from dpmpc.base.randomness import stream_for
    from dpmpc.models.common.releases import Releases
    from dpmpc.parties.networked import Rounds
    from dpmpc.release.release import Release

    fitting = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, progress() as on_progress:
        warnings.simplefilter("always")
        network = Rounds(
            table.values,
            stream=stream_for(options.simulation_seed),
            threads=options.threads,
            deadline=options.deadline,
            on_progress=on_progress,
        )

        def ask(task: Task) -> Release:
            release = network(task)
            kept.keep(release_file(len(kept.releases)), release)
            return release

        releases = Releases(spec, ask)
        if not getattr(options, "anyway", False) and (expected := model.require_useful(releases)):
            print(f"forecast: {expected}", file=sys.stderr)
        with network:
            model.fit_rounds(releases)
    for warning in caught:  # printed when the display of the progress is gone
        warnings.warn(warning.message, warning.category, stacklevel=2)
    fit_s = time.perf_counter() - fitting
    report = report_of(
        model.releases_,
        model.result(level),
        About.of_release(model.releases_[0]),
        files=list(kept.releases),
        in_rounds=True,
        guarantee=model.guarantee_,
    )
    cost = RunCost.of_rounds(network.runs, time.perf_counter() - began, fit_s)
    return with_run(report, cost, said=[f"{spent_text(model.guarantee_)}."], command=_command(options))


def hand_out(
    options: argparse.Namespace, kept: ResultFolder, report: Report, compared: NotPrivate | None = None
) -> None:
    """Write what belongs in the directory, if there is one, and print the report, with what it was compared with."""
    written = kept.write(report, None if compared is None else compared.data)
    if options.json:
        fields: dict[str, Any] = report.to_dict()
        if compared is not None:
            fields["result"] = {**fields["result"], "not_private": compared.data}
        print_result(fields)
    else:
        text = str(report) if options.verbose else report.brief()
        print(text if compared is None else f"{text}\n\n{compared}")
    if written:
        print(f"written: {', '.join(map(str, written))}", file=sys.stderr)


def _command(options: argparse.Namespace) -> str:
    """Return the command as it was given, but for the places of files."""
    from dpmpc.app.render.page import command_line

    return command_line(options.arguments, [*options.data, options.bounds, options.out])


def run_and_fit(
    task: Task,
    table: Table,
    options: argparse.Namespace,
    model: Any,
    column: str | None,
    kept: ResultFolder,
    *,
    level: float = 0.95,
    began: float,
) -> tuple[NetworkedRun, Report]:
    """Have the sums of one release opened and kept, and report what they show and what the run has cost."""
    from dpmpc.app.render.about import About
    from dpmpc.app.render.guarantee_prose import spent_text
    from dpmpc.app.render.released import report_of
    from dpmpc.app.render.servers import RunCost, with_run
    from dpmpc.base.randomness import stream_for
    from dpmpc.parties.networked import proofs_text, run

    with progress() as on_progress:
        networked = run(
            task,
            table.values,
            stream=stream_for(options.simulation_seed),
            threads=options.threads,
            deadline=options.deadline,
            on_progress=on_progress,
        )
    release, refused = networked.release, networked.refused
    kept.keep(RELEASE_FILE, release)
    fitting = time.perf_counter()
    model.fit_named(release, column)
    fit_s = time.perf_counter() - fitting
    report = report_of([release], model.result(level), About.of_release(release))
    cost = RunCost.of(networked, time.perf_counter() - began, fit_s)
    said = [f"{spent_text(release.guarantee)}."]
    said += [] if refused is None else [f"{proofs_text(release.clients, refused)}."]
    command = _command(options) if "data" in options else None
    return networked, with_run(report, cost, said=said, command=command)
