"""What to expect of one release of second moments or of a sketch, for an assumed population."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dpmpc.privacy.task import Task
from dpmpc.release.planning.advice import ReleaseAdvice, ReleaseOption
from dpmpc.release.planning.forecast import Forecast
from dpmpc.release.planning.prediction import Population, UtilityMetric, best_rows, release_of
from dpmpc.release.results import NumberTable
from dpmpc.release.results.number_tables import finite_or_none

#: What makes the errors of a fit larger than those of its plan.
NOT_KNOWN = (
    "Weights, rare categories or indicators, and the spread of logarithms are not in it: each makes errors larger, and "
    "may leave a fit without intervals."
)


def forecast_release(
    task: Task, metric: UtilityMetric, population: Population, *, source: str = "--spread"
) -> Forecast:
    """Return what a release is expected to give, beside all other ways to make one.

    Parameters
    ----------
    task : Task
        The release.
    metric : UtilityMetric
        What it is for.
    population : Population
        What is assumed about the data.
    source : str
        The option, or the key of the bounds, that the spread of the columns is from.
    """
    advice = ReleaseAdvice(task, metric, population)
    scenario, rows = advice.scenario, best_rows(advice.scenario, metric)
    expected = {
        "this_release": advice.expected,
        "sum": metric.sum(scenario),
        "sketch": metric.sketch(scenario, rows),
        "local": advice.local,
        "trivial": advice.trivial,
    }
    start = advice.useful_from
    return Forecast(
        tasks=(task,),
        guarantee=task.guarantee,
        features=len(task.schema) - (metric.purpose == "ridge"),
        useful=advice.expected < advice.trivial,
        why=_why(advice),
        assumed=(
            f"columns have a standard deviation of {population.spread:g} once their bounds are scaled to [-1, 1] "
            f"({source}), and the best {metric.purpose} fit explains {population.explained:.3g} of the variance "
            f"(--explained). {NOT_KNOWN}"
        ),
        tables=[_expected(metric, expected, rows)],
        more=[_options(advice, metric)],
        data={
            f"expected_{metric.symbol}": {
                **{name: finite_or_none(value) for name, value in expected.items()},
                "sketch_rows": rows,
            },
            "smallest_useful_batch": start,
            "largest_batch": scenario.largest_batch,
            "options": [_fields(option) for option in advice.options],
            "recommendation": _recommendation(advice),
        },
    )


def _expected(metric: UtilityMetric, expected: dict[str, float], rows: int) -> NumberTable:
    """Return the error of this release, and of what it is compared with."""
    names = {
        "this release": "this_release",
        "second moments summed": "sum",
        f"best sketch (k = {rows})": "sketch",
        "the local model": "local",
        metric.nothing: "trivial",
    }
    heading = f"{metric.symbol} - {metric.optimum:g}" if metric.optimum else metric.symbol
    return NumberTable(
        "Expected error (0 = optimal)",
        {heading: [expected[name] - metric.optimum for name in names.values()]},
        list(names),
        label="of",
    )


def _options(advice: ReleaseAdvice, metric: UtilityMetric) -> NumberTable:
    """Return a row for each way to release."""
    beaten = metric.nothing.removeprefix("the ").removeprefix("a ")
    heading = f"{metric.symbol} - {metric.optimum:g}" if metric.optimum else metric.symbol

    def least(batch: int | None) -> float:
        return math.nan if batch is None else batch

    return NumberTable(
        "Ways to release",
        {
            "k": [option.rows for option in advice.options],
            "bytes": [option.client_bytes for option in advice.options],
            heading: [option.expected - metric.optimum for option in advice.options],
            f"beats {beaten} from": [least(option.beats_trivial_from) for option in advice.options],
            "beats local model from": [least(option.beats_local_from) for option in advice.options],
        },
        [f"{option.release}, noise by {option.noise_by}" for option in advice.options],
        label="release",
        notes=[
            "bytes: what one client sends; from: number of clients, none where up to "
            f"{advice.scenario.largest_batch:,} are too few."
        ],
    )


def _why(advice: ReleaseAdvice) -> str:
    """Return what is recommended, the reason, and with which options `dpmpc fit` does it."""
    option, metric, start = advice.recommended, advice.metric, advice.useful_from
    chosen = "no release" if option is None else f"{option.release}, noise by {option.noise_by}"
    when = "with no batch that this delta allows" if start is None else f"from {start:,} clients on"
    parts = [f"Recommended: {chosen}.", f"{advice.why[0].upper()}{advice.why[1:]}."]
    parts += [] if option is None else [f"A release like this one beats {metric.nothing} {when}."]
    options = _recommendation(advice)["fit_options"]
    if options is not None:
        parts.append(f"dpmpc fit --model {metric.purpose} does that {f'with {options}' if options else 'by default'}.")
        if "--noise-by servers" in options:
            parts.append(
                "By default clients add the noise: there is the least of it, but it counts on clients to add their "
                "parts, which few can rely on; the plan prefers servers where their noise costs next to nothing."
            )
        if metric.purpose == "ridge":
            parts.append("Without --sketch it takes several sums, with much less noise for one model.")
    return " ".join(parts)


def _fields(option: ReleaseOption) -> dict[str, Any]:
    return {**dataclasses.asdict(option), "expected": finite_or_none(option.expected), "acceptable": option.acceptable}


def _recommendation(advice: ReleaseAdvice) -> dict[str, Any]:
    option, task = advice.recommended, advice.task
    sparsity = task.sketch.sparsity if release_of(task) == "sketch" else 1
    options = None if option is None else option.fit_options(len(task.schema), sparsity)
    if options is not None and advice.metric.purpose == "ridge" and "--sketch" not in options:
        options = f"--sketch sum {options}".rstrip()  # else a ridge regression takes rounds
    return {
        "release": None if option is None else option.release,
        "rows": None if option is None else option.rows,
        "noise_by": None if option is None else option.noise_by,
        "fit_options": options,
        "why": advice.why,
    }
