"""`dpmpc plan`: what a fit will cost and show, before there is any data."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.model_options import add_model, column_of, columns_of, model_of, target_last, variables_of
from dpmpc.app.cli.options import add_proved, add_task_options, add_verbose, sums_only, task_choices
from dpmpc.app.cli.output import print_result
from dpmpc.base.errors import InputError
from dpmpc.models.fitted import KINDS, MODELS

if TYPE_CHECKING:
    from dpmpc.data import Schema
    from dpmpc.release.planning.forecast import Assumptions, Forecast

MOST_COLUMNS = 1 << 20


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    plan = commands.add_parser(
        "plan", help="before any data: what a fit will show, from how many people on, and what it costs"
    )
    plan.add_argument("--clients", type=int, required=True, metavar="N", help="how many people, one row each")
    plan.add_argument("--columns", dest="width", type=int, metavar="P", help="features and target; or give --bounds")
    plan.add_argument("--bounds", metavar="FILE", help="TOML with the public bounds, which name the columns")
    add_model(plan, KINDS, default="ridge", without=("columns",))
    plan.add_argument(
        "--spread",
        type=float,
        default=0.4,
        help="assumed standard deviation of a column once its bounds are scaled to [-1, 1]; columns that fill less of "
        "their bounds have larger errors (default %(default)g)",
    )
    plan.add_argument(
        "--explained",
        type=float,
        rare=True,
        metavar="SHARE",
        help="assumed R^2 of the best linear model (default 0.5), or share of the variance in the best R directions "
        "(default: halfway from R/P, what any R directions have, to 1)",
    )
    plan.add_argument(
        "--mean", type=float, rare=True, help="assumed share of ones (default 0.2) or mean count (default 1)"
    )
    plan.add_argument(
        "--effect",
        type=float,
        rare=True,
        metavar="SD",
        help="assumed standard deviation of log odds, or of log rates (default 1)",
    )
    plan.add_argument(
        "--most",
        type=int,
        rare=True,
        metavar="K",
        help="the largest count, where --columns are given (default 100); the bounds file has it otherwise",
    )
    plan.add_argument(
        "--events",
        type=float,
        rare=True,
        metavar="SHARE",
        help="assumed share of people with the event before the upper bound of the time (default 0.5)",
    )
    plan.add_argument(
        "--prices",
        type=float,
        nargs=3,
        rare=True,
        metavar=("CORE_HOUR", "GB_MONTH", "GB_SENT"),
        help="what a core-hour, 1e9 bytes stored for a month and 1e9 bytes sent cost (default: a cloud's list, USD)",
    )
    plan.add_argument("--currency", rare=True, metavar="NAME", help="currency of --prices (default USD)")
    plan.add_argument(
        "--days", type=float, rare=True, default=30.0, help="how long shares are stored (default %(default)g)"
    )
    plan.add_argument("--json", action="store_true", help="print one JSON object")
    add_proved(plan)
    add_task_options(plan)
    add_verbose(plan)
    plan.set_defaults(run=_plan)


def _plan(options: argparse.Namespace) -> None:
    from dpmpc.app.render.plan import plan_fields, plan_screen, plan_text
    from dpmpc.privacy.specification import ReleaseSpec

    model = model_of(options, options.model)
    assumed = _assumed(options, model)
    public = _public(options, model)
    choices = model.command_choices({**task_choices(options), "proved": options.proved}, public)
    spec = ReleaseSpec.of(public, options.clients, options.epsilon, options.delta, **choices)
    if model.in_rounds(spec):
        spec = ReleaseSpec.of(public, options.clients, options.epsilon, options.delta, **sums_only(choices))
    forecast = model.forecast(spec, assumed)
    fields = plan_fields(model.kind, forecast, prices=_prices(options, forecast), days=options.days)
    if options.json:
        print_result(fields)
    else:
        print((plan_text if options.verbose else plan_screen)(model.kind, forecast, fields))


def _assumed(options: argparse.Namespace, model: Any) -> Assumptions:
    """Return what is assumed, or refuse what a model's forecast does not use."""
    from dpmpc.models.fitted import class_of
    from dpmpc.release.planning.forecast import Assumptions

    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(Assumptions)}
    for name, value in given.items():
        if value is not None and name not in model.assumes and name != "spread":
            owners = [kind for kind in MODELS if name in class_of(kind).assumes]
            raise InputError(name, f"{value!r} given, but that is assumed for --model {', '.join(owners)}")
    return Assumptions(**given)


def _public(options: argparse.Namespace, model: Any) -> Schema:
    """Return the bounds of the columns that a fit would read, the target last."""
    from dpmpc.data import Codebook, Schema
    from dpmpc.models.common.commanded import CommandedInRounds

    if (options.width is None) == (options.bounds is None):
        raise InputError("columns, bounds", "give a number (--columns) or a bounds file (--bounds), one of the two")
    if options.width is not None and not 1 < options.width + (model.kind == "moment") <= MOST_COLUMNS:
        raise InputError("columns", options.width, f"2 (a feature and a target) to {MOST_COLUMNS}")
    given = (
        Schema.unit([f"x{column}" for column in range(options.width)])
        if options.bounds is None
        else Schema.from_toml(options.bounds)
    )
    column = column_of(options, model)
    last = given.names[-1] if model.named is not None and model.named[0] == "target" else None
    model.check_options(column or last, bounds=options.bounds is not None)
    coded, named = isinstance(given.codebook, Codebook), column or last
    if (column is not None or model.from_features) and isinstance(given.codebook, Codebook):
        given = Schema.of_codebook(variables_of(options, model, given.codebook, named), given.outside)
    public: Schema = model.planned_schema(given)
    read = model.columns_read(public.names, column) if coded else columns_of(options, model, public.names, named)
    if read not in (None, public.names):
        public = public.select(read)
    if last is None or not isinstance(model, CommandedInRounds):
        return public
    target = column or public.names[-1]
    if target not in public.names:
        raise InputError("target", f"{target!r}", f"one of {', '.join(public.names)}")
    return target_last(model, public, target, given=True) if options.bounds is not None else public


def _prices(options: argparse.Namespace, forecast: Forecast) -> Any:
    """Return the prices that were given, or the default ones."""
    from dpmpc.release.planning.cost import Prices

    for name in ("prices", "currency"):
        if getattr(options, name) is not None and len(forecast.tasks) > 1:
            raise InputError(name, f"{getattr(options, name)!r} given, but a plan of several sums has no such")
    if options.prices is not None:
        core_hour, gigabyte_month, gigabyte_sent = options.prices
        return Prices(core_hour, gigabyte_month, gigabyte_sent, options.currency or "USD")
    if options.currency is not None:
        raise InputError("currency", f"{options.currency!r} given without prices, --prices in that currency expected")
    return Prices()
