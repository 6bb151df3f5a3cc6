"""`dpmpc plan`: what a release will cost and tell, before there is any data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.options import add_proved, add_rounds, add_task_options, sums_only, task_choices
from dpmpc.app.cli.output import print_result
from dpmpc.base.errors import InputError

if TYPE_CHECKING:
    from dpmpc.data import Schema

PLANNED = ("ridge", "low-rank", "logistic", "poisson", "compare", "survival")
_OF_ROUNDS = {"mean": ("logistic", "poisson"), "effect": ("logistic", "poisson"), "most": ("poisson",)}
MOST_COLUMNS = 1 << 20


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    plan = commands.add_parser(
        "plan", help="before any data: noise, modulus, bytes, cost, expected error, smallest batch"
    )
    plan.add_argument("--clients", type=int, required=True, metavar="N", help="how many people, one row each")
    plan.add_argument("--columns", type=int, metavar="P", help="features and target; or give --bounds")
    plan.add_argument("--bounds", metavar="FILE", help="TOML with the public bounds, which name the columns")
    plan.add_argument("--model", choices=PLANNED, default="ridge", help="what is to be fitted (default %(default)s)")
    plan.add_argument("--by", metavar="COL", help="as in `dpmpc fit`: by the values of this column")
    plan.add_argument(
        "--describe", action="store_true", help="plan the table of `dpmpc describe`, by --by, in place of a model"
    )
    survival = plan.section("--model survival, with --bounds")
    survival.add_argument("--time", metavar="COL", help="as in `dpmpc fit`")
    survival.add_argument("--event", metavar="COL", help="as in `dpmpc fit`")
    survival.add_argument(
        "--events",
        rare=True,
        type=float,
        metavar="SHARE",
        help="assumed share of people with the event before the upper bound of the time (default 0.5)",
    )
    plan.add_argument("--components", rare=True, type=int, metavar="R", help="rank of --model low-rank (default 3)")
    plan.add_argument(
        "--explained",
        rare=True,
        type=float,
        metavar="SHARE",
        help="assumed R^2 of the best linear model (default 0.5), or share of the variance in the best R directions "
        "(default: halfway from R/P, what any R directions have, to 1)",
    )
    rounds = plan.section("--model logistic, poisson, and ridge with --rounds")
    add_rounds(rounds, default="default auto; ridge: 0, or auto with --predict-only")
    rounds.add_argument(
        "--mean", rare=True, type=float, help="assumed share of ones (default 0.2) or mean count (default 1)"
    )
    rounds.add_argument(
        "--effect",
        rare=True,
        type=float,
        metavar="SD",
        help="assumed standard deviation of log odds, or of log rates (default 1)",
    )
    rounds.add_argument("--most", rare=True, type=int, metavar="K", help="poisson: the largest count (default 100)")
    plan.add_argument(
        "--spread",
        type=float,
        default=0.4,
        help="assumed standard deviation of a column once its bounds are scaled to [-1, 1]; columns that fill less of "
        "their bounds have larger errors (default %(default)g)",
    )
    plan.add_argument(
        "--prices",
        rare=True,
        type=float,
        nargs=3,
        metavar=("CORE_HOUR", "GB_MONTH", "GB_SENT"),
        help="what a core-hour, 1e9 bytes stored for a month and 1e9 bytes sent cost (default: a cloud's list, USD)",
    )
    plan.add_argument("--currency", rare=True, metavar="NAME", help="currency of --prices (default USD)")
    plan.add_argument(
        "--days", rare=True, type=float, default=30.0, help="how long shares are stored (default %(default)g)"
    )
    plan.add_argument("--plot", metavar="FILE", help="draw the expected error over n and epsilon: .svg or .png")
    plan.add_argument("--json", action="store_true", help="print one JSON object")
    add_proved(plan)
    add_task_options(plan)
    plan.set_defaults(run=_plan)


def _plan(options: argparse.Namespace) -> None:
    from dpmpc.app.render import plan as plan_report
    from dpmpc.data import Schema
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design
    from dpmpc.release.planning.prediction import Population

    if (options.columns is None) == (options.bounds is None):
        raise InputError("columns, bounds: give a number (--columns) or a bounds file (--bounds), one of the two")
    if options.columns is not None and not 2 <= options.columns <= MOST_COLUMNS:
        raise InputError(f"columns: {options.columns} given, 2 (a feature and a target) to {MOST_COLUMNS} expected")
    schema = (
        Schema.unit([f"x{column}" for column in range(options.columns)])
        if options.bounds is None
        else Schema.from_toml(options.bounds)
    )
    for name in ("time", "event", "events"):
        if getattr(options, name) is not None and (options.describe or options.model != "survival"):
            raise InputError(f"{name}: {getattr(options, name)!r} given, but that is for --model survival")
    in_rounds = options.rounds or (options.rounds is None and options.predict_only)
    in_rounds = (in_rounds or options.model in ("logistic", "poisson")) and options.by is None and not options.describe
    if options.private_bounds and not in_rounds:
        raise InputError("private_bounds: given, but a plan of one release has none, --rounds of 1 or more expected")
    if options.describe:
        _plan_table(options, schema)
        return
    if options.model == "survival":
        _plan_survival(options, schema)
        return
    for name, models in _OF_ROUNDS.items():
        if getattr(options, name) is not None and options.model not in models:
            given = getattr(options, name)
            raise InputError(f"{name}: {given} given, but that is for --model {' or '.join(models)}")
    if options.model == "compare" and options.by is None:
        raise InputError("by: none given, the column expected whose groups are compared (--by)")
    if in_rounds:
        _plan_rounds(options, schema)
        return
    if options.by is not None:
        _plan_groups(options, schema)
        return
    metric, explained = _metric(options, len(schema))
    population = Population(options.spread, options.spread, explained)
    plot = None if options.plot is None else _plot_file(options.plot)
    choices = {**task_choices(options), "purpose": metric.purpose, "proved": options.proved}
    task = design(ReleaseSpec.of(schema, options.clients, options.epsilon, options.delta, **choices))
    fields = plan_report.plan_fields(task, metric, population, prices=_prices(options), days=options.days)
    if plot is not None:
        _draw_plan(plot, task, metric, population)
    print_result(fields if options.json else plan_report.plan_parts(task, fields, metric, population))


def _plan_table(options: argparse.Namespace, schema: Schema) -> None:
    """Plan what `dpmpc describe` makes."""
    from dpmpc.app.render.plan import table_plan_fields
    from dpmpc.linear.contributions.cells import CellCounts
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design

    if options.bounds is None:
        raise InputError(
            "describe: given with columns, a bounds file expected, which says what cells there are (--bounds)"
        )
    for name in ("components", "explained", "rounds", "mean", "effect", "most", "plot"):
        if getattr(options, name) is not None:
            raise InputError(f"{name}: {getattr(options, name)!r} given, but the plan of a table has no such")
    choices = {**task_choices(options), "contribution": CellCounts.of(schema, options.by), "proved": options.proved}
    task = design(ReleaseSpec.of(schema, options.clients, options.epsilon, options.delta, **choices))
    fields, parts = table_plan_fields(task, prices=_prices(options), days=options.days)
    print_result(fields if options.json else parts)


def _plan_survival(options: argparse.Namespace, schema: Schema) -> None:
    """Plan curves and a log-rank test."""
    from dpmpc.app.render.plan_survival import EVENTS, survival_plan_fields
    from dpmpc.models.survival.survival_cells import survival_contribution, survival_schema
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design

    if options.bounds is None:
        raise InputError("model: survival given with columns, a bounds file expected, which says what cells there are")
    for name in ("time", "event"):
        if getattr(options, name) is None:
            raise InputError(f"{name}: none given, a column of the bounds expected (--{name})")
    for name in ("components", "explained", "rounds", "mean", "effect", "most", "plot"):
        if getattr(options, name) is not None:
            raise InputError(f"{name}: {getattr(options, name)!r} given, but the plan of survival curves has no such")
    groups = [] if options.by is None else [options.by]
    public = survival_schema(schema, options.time, options.event, groups, called="by")
    choices = {**task_choices(options), "contribution": survival_contribution(public), "proved": options.proved}
    task = design(ReleaseSpec.of(public, options.clients, options.epsilon, options.delta, **choices))
    events = EVENTS if options.events is None else options.events
    fields, parts = survival_plan_fields(task, options.by, events, prices=_prices(options), days=options.days)
    print_result(fields if options.json else parts)


def _plan_groups(options: argparse.Namespace, schema: Schema) -> None:
    """Plan a regression for each group."""
    from dpmpc.app.render.plan import compare_plan_fields, groups_plan_fields, groups_plan_parts
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design
    from dpmpc.release.planning.prediction import Population

    if options.model not in ("ridge", "compare"):
        raise InputError(f"by: {options.by!r} given, but that is for --model ridge or compare, not {options.model}")
    if options.rounds:
        raise InputError(f"rounds: {options.rounds!r} given with --by, 0 expected: groups share one release")
    for name in ("components", "plot", *(("explained",) if options.model == "compare" else ())):
        if getattr(options, name) is not None:
            raise InputError(f"{name}: {getattr(options, name)!r} given, but a plan by group has no such")
    population = Population(options.spread, options.spread, 0.5 if options.explained is None else options.explained)
    choices = {**task_choices(options), "by": options.by, "proved": options.proved}
    task = design(ReleaseSpec.of(schema, options.clients, options.epsilon, options.delta, **choices))
    if options.model == "compare":
        fields, parts = compare_plan_fields(
            task, options.by, options.spread, prices=_prices(options), days=options.days
        )
        print_result(fields if options.json else parts)
        return
    fields = groups_plan_fields(task, options.by, population, prices=_prices(options), days=options.days)
    print_result(fields if options.json else groups_plan_parts(task, fields, population))


def _plan_rounds(options: argparse.Namespace, schema: Schema) -> None:
    """Plan a model that takes several sums."""
    from dpmpc.app.render.plan_rounds import rounds_plan_fields, rounds_plan_parts
    from dpmpc.models.rounds import outlook
    from dpmpc.models.rounds.outlook import Assumed
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning.prediction import Population

    model, rounds = options.model, "auto" if options.rounds is None else options.rounds
    for name in ("components", "plot", "prices", "currency", *(("explained",) if model != "ridge" else ())):
        if getattr(options, name) is not None:
            raise InputError(f"{name}: {getattr(options, name)!r} given, but a plan of {model} in rounds has no such")
    if model == "low-rank" or options.proved:
        given = f"rounds: {rounds!r} given, but --model low-rank" if model == "low-rank" else "proved: given, but a fit"
        raise InputError(f"{given} has no rounds" if model == "low-rank" else f"{given} in rounds has no proofs")
    choices = sums_only(task_choices(options))
    population = Population(options.spread, options.spread, 0.5 if options.explained is None else options.explained)
    assumed = Assumed(
        mean=(0.2 if model == "logistic" else 1.0) if options.mean is None else options.mean,
        effect=1.0 if options.effect is None else options.effect,
        most=100 if options.most is None else options.most,
        population=population,
    )
    spec = ReleaseSpec.of(schema, options.clients, options.epsilon, options.delta, **choices)
    found = outlook(
        model, spec, rounds, assumed, intervals=not options.predict_only, private_bounds=options.private_bounds
    )
    fields = rounds_plan_fields(found, assumed, noise_by=options.noise_by)
    print_result(fields if options.json else rounds_plan_parts(fields, found, assumed))


def _plot_file(text: str) -> Path:
    """Return the file of the plan's plot, or refuse before anything is computed for it."""
    from dpmpc.app.render.drawing import check_plot_file

    check_plot_file(Path(text))
    return Path(text)


def _draw_plan(path: Path, task: Any, metric: Any, population: Any) -> None:
    """Write the plan's plot."""
    from dpmpc.app.render.plan_plot import write_plot

    write_plot(path, task, metric, population)


def _metric(options: argparse.Namespace, columns: int) -> tuple[Any, float]:
    """Return the metric that `dpmpc plan` predicts, and the share of the variance that is assumed to be explained."""
    from dpmpc.release.planning.prediction import LowRank, Regression

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
    from dpmpc.release.planning.cost import Prices

    if options.prices is not None:
        core_hour, gigabyte_month, gigabyte_sent = options.prices
        return Prices(core_hour, gigabyte_month, gigabyte_sent, options.currency or "USD")
    if options.currency is not None:
        raise InputError(f"currency: {options.currency!r} given without prices, --prices in that currency expected")
    return Prices()
