"""`dpmpc fit`: a private model of a table, by real server processes on this machine."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.coded import add_missing_options, read_data
from dpmpc.app.cli.options import (
    DATA_HELP,
    add_file_options,
    add_proved,
    add_rounds,
    add_run_options,
    add_task_options,
    task_choices,
)
from dpmpc.app.cli.output import OUT_HELP, RELEASE_FILE, ResultFolder, new_path, print_result, progress
from dpmpc.app.cli.parsing import Parser
from dpmpc.base.errors import InputError

if TYPE_CHECKING:
    from dpmpc.app.cli.fit_models import FitModel, NotPrivate
    from dpmpc.app.cli.fit_rounds import RoundsFitModel
    from dpmpc.app.render.report import Report
    from dpmpc.data import Schema, Table
    from dpmpc.parties.networked import NetworkedRun
    from dpmpc.privacy.task import Task

MODELS = ("ridge", "compare", "survival", "low-rank", "moment", "logistic", "poisson")


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
    regression = command.section("--model ridge, logistic, poisson and compare")
    regression.add_argument("--target", metavar="COL", help="the column to predict, or to compare; required")
    add_rounds(regression, default="default auto; ridge: 0, or auto with --predict-only")
    ridge = command.section("--model ridge")
    ridge.add_argument(
        "--alpha", type=penalty, help="penalty in normalised units (default 1); auto chooses it from the release"
    )
    ridge.add_argument("--no-intercept", action="store_true", help="fit without a constant")
    ridge.add_argument(
        "--anyway",
        action="store_true",
        help="with --rounds: fit although all intervals are expected to rest on the bounds",
    )
    ridge.add_argument(
        "--by",
        metavar="COL",
        help="one regression for each of up to 50 values of this column, which the bounds file lists, from one "
        "release; --model compare: what is compared; --model survival: a curve for each",
    )
    comparison = command.section("--model compare, with --target and --by")
    comparison.add_argument(
        "--before",
        metavar="A,B",
        help="columns that were known before groups were assigned: differences are adjusted for them",
    )
    comparison.add_argument(
        "--control", metavar="VALUE", help="the group that others are compared with (default: the first)"
    )
    survival = command.section("--model survival, with --bounds")
    survival.add_argument("--time", metavar="COL", help="the column of times until the event, from 0 on; required")
    survival.add_argument(
        "--event",
        metavar="COL",
        help="whether the event happened then, yes or no; otherwise people were observed until then; required",
    )
    survival.add_argument(
        "--features",
        metavar="A,B",
        help="columns with listed values: a Cox regression on them in place of curves, up to 32 patterns",
    )
    survival.add_argument(
        "--until", type=float, metavar="T", help="of restricted means (default: the last time that all curves reach)"
    )
    low_rank = command.section("--model low-rank")
    low_rank.add_argument("--components", type=int, metavar="R", help="rank of the approximation (default 3)")
    low_rank.add_argument(
        "--center",
        action="store_true",
        help="directions go through the mean, as in principal component analysis, not through the middle of the bounds",
    )
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
    from dpmpc.app.cli.fit_models import RidgeFitModel
    from dpmpc.app.cli.fit_rounds import RoundsFitModel, ridge_model_of
    from dpmpc.app.cli.fit_survival import TimesFitModel
    from dpmpc.data.data_checks import warn_of_bounds
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design

    began = time.perf_counter()
    out = None if options.out is None else new_path("out", options.out)
    analysis = fit_model_of(options)
    table, public = analysis.read(options) if isinstance(analysis, TimesFitModel) else read_data(options, analysis)
    analysis.check(table, public)
    warn_of_bounds(public, table.values)
    choices = analysis.choices({**task_choices(options), "proved": options.proved}, public)
    if isinstance(analysis, RidgeFitModel):
        spec = ReleaseSpec.of(public, len(table), options.epsilon, options.delta, **choices)
        analysis = ridge_model_of(analysis, spec, options)
        choices = analysis.choices(choices, public)
    with ResultFolder(out) as kept:
        if isinstance(analysis, RoundsFitModel):
            table, public = analysis.arrange(table, public, given=options.bounds is not None)
            report = _fit_in_rounds(analysis, table, public, options, choices, kept, began=began)
        else:
            task = design(ReleaseSpec.of(public, len(table), options.epsilon, options.delta, **choices))
            _, report = run_and_fit(task, table, options, analysis, kept, began=began)
        hand_out(options, kept, report, analysis.compare(table) if options.compare else None)


def fit_model_of(options: argparse.Namespace) -> FitModel:
    """Make the model that ``--model`` names; an option of another model is an error."""
    from dpmpc.app.cli.fit_groups import ComparisonFitModel, GroupedFitModel
    from dpmpc.app.cli.fit_models import LowRankFitModel, MomentFitModel, RidgeFitModel
    from dpmpc.app.cli.fit_rounds import LogisticFitModel, PoissonFitModel
    from dpmpc.app.cli.fit_survival import CoxFitModel, SurvivalFitModel

    kinds = (
        RidgeFitModel,
        ComparisonFitModel,
        LowRankFitModel,
        MomentFitModel,
        LogisticFitModel,
        PoissonFitModel,
        SurvivalFitModel,
    )
    models: dict[str, Any] = {kind.name: kind for kind in kinds}
    chosen = models[options.model]
    for other in models.values():
        for option in other.options:
            given = getattr(options, option)
            if option not in chosen.options and given is not None and given is not False:
                raise InputError(f"{option}: {given!r} given, but that is for --model {other.name}, not {chosen.name}")
    if chosen is RidgeFitModel and options.by is not None:
        chosen = GroupedFitModel
    if chosen is SurvivalFitModel and options.features is not None:
        chosen = CoxFitModel
    model: FitModel = chosen.of(options)
    return model


def _fit_in_rounds(
    analysis: RoundsFitModel,
    table: Table,
    public: Schema,
    options: argparse.Namespace,
    choices: dict[str, Any],
    kept: ResultFolder,
    *,
    began: float,
) -> Report:
    """Have all sums of a model in rounds released, and say what was found and what it has cost."""
    from dpmpc.app.cli.fit_rounds import run_in_rounds
    from dpmpc.app.render.about import About
    from dpmpc.app.render.guarantee_prose import spent_text
    from dpmpc.app.render.released import report_of
    from dpmpc.app.render.servers import RunCost, with_run

    runs, fit_s = run_in_rounds(analysis, table, public, options, choices, kept)
    model = analysis.estimator
    report = report_of(
        model.releases_,
        analysis.result(),
        About.of_release(model.releases_[0]),
        files=list(kept.releases),
        in_rounds=True,
        guarantee=model.guarantee_,
    )
    cost = RunCost.of_rounds(runs, time.perf_counter() - began, fit_s)
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
        print(report if compared is None else f"{report}\n\n{compared}")
    if written:
        print(f"written: {', '.join(map(str, written))}", file=sys.stderr)


def _command(options: argparse.Namespace) -> str:
    """Return the command as it was given, but for the places of files."""
    from dpmpc.app.render.page import command_line

    return command_line(options.arguments, [*options.data, options.bounds, options.out])


def run_and_fit(
    task: Task, table: Table, options: argparse.Namespace, analysis: FitModel, kept: ResultFolder, *, began: float
) -> tuple[NetworkedRun, Report]:
    """Have the sums opened and kept, and say what they show and what the run has cost."""
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
    analysis.fit(release)
    fit_s = time.perf_counter() - fitting
    report = report_of([release], analysis.result(), About.of_release(release))
    cost = RunCost.of(networked, time.perf_counter() - began, fit_s)
    said = [f"{spent_text(release.guarantee)}."]
    said += [] if refused is None else [f"{proofs_text(release.clients, refused)}."]
    command = _command(options) if "data" in options else None
    return networked, with_run(report, cost, said=said, command=command)
