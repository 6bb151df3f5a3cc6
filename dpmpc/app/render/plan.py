"""What `dpmpc plan` says before any data: noise, modulus, bytes, cost, error, advice; as JSON and for a person.

Of a release by group it says what to expect of groups of several sizes.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from dpmpc.app.render.facts import byte_fields, task_fields
from dpmpc.app.render.grids import facts_grid, grid
from dpmpc.app.render.guarantee_prose import guarantee_text
from dpmpc.app.render.servers import MEGABYTE
from dpmpc.base.randomness import KEY_BYTES
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.models.common.inference import STANDS_OUT
from dpmpc.models.groups.group_comparison import Arm, GroupComparison
from dpmpc.models.tables.quantiles import told_from
from dpmpc.models.tables.table_one import TableOne
from dpmpc.privacy.task import Task
from dpmpc.release.planning.advice import Forecast, ReleaseOption, groups_outlook
from dpmpc.release.planning.cost import DAYS_OF_A_MONTH, MEASURED, NOT_COUNTED, Prices, Workload, estimate
from dpmpc.release.planning.prediction import Population, Regression, UtilityMetric, best_rows, release_of
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable
from dpmpc.release.results.number_tables import finite_or_none

#: What makes the errors of a fit larger than those of its plan.
NOT_KNOWN = (
    "The plan knows no weights, no rare categories or indicators, and no spread of logarithms: each makes errors "
    "larger than it says, and may leave a fit without intervals."
)

_POWER = 2.8  # standard errors of a difference that a test at .05 finds with probability .8: 1.96 + .84

_MEANING = {"phi": "phi (1 = optimal)", "psi": "psi (0 = optimal)"}


def plan_fields(
    task: Task,
    metric: UtilityMetric,
    population: Population,
    *,
    prices: Prices | None = None,
    days: float = DAYS_OF_A_MONTH,
) -> dict[str, Any]:
    """Return everything that the plan says; what is infinite or impossible is null."""
    found = Forecast(task, metric, population)
    scenario, rows = found.scenario, best_rows(found.scenario, metric)
    return {
        **task_fields(task, len(task.schema) - (metric.purpose == "ridge")),
        "model": metric.purpose,
        **release_fields(task, prices or Prices(), days),
        f"expected_{metric.symbol}": {
            "this_release": found.expected,
            "sum": finite_or_none(metric.sum(scenario)),
            "sketch": finite_or_none(metric.sketch(scenario, rows)),
            "sketch_rows": rows,
            "local": found.local,
            "trivial": found.trivial,
        },
        "smallest_useful_batch": found.useful_from,
        "largest_batch": scenario.largest_batch,
        "options": [_option(option) for option in found.options],
        "recommendation": _recommendation(found),
    }


def plan_parts(
    task: Task, fields: dict[str, Any], metric: UtilityMetric, population: Population
) -> list[RenderableType]:
    """Return the same for a person."""
    advice = fields["recommendation"]
    chosen = "no release" if advice["release"] is None else f"{advice['release']}, noise by {advice['noise_by']}"
    return [
        release_grid(fields),
        _errors_grid(fields, metric),
        _assumed_text(metric, population),
        _options_grid(fields, metric),
        f"[bold]Recommended: {chosen}[/bold]\n{advice['why']}.\n{_as_fitted(metric.purpose, advice['fit_options'])}",
        guarantee_text(task.guarantee),
    ]


def groups_plan_fields(
    task: Task, by: str, population: Population, *, prices: Prices | None = None, days: float = DAYS_OF_A_MONTH
) -> dict[str, Any]:
    """Return everything that the plan of a release by group says; what is impossible is null."""
    assert isinstance(task.statistic, GroupedMoments)
    found = groups_outlook(task, population)
    return {
        **task_fields(task, len(task.statistic.analysed(task.schema)) - 1),
        "model": "grouped-ridge",
        "by": by,
        **release_fields(task, prices or Prices(), days),
        **{name: value for name, value in dataclasses.asdict(found).items() if name != "expected"},
        "expected_phi": {str(people): phi for people, phi in found.expected.items()},
    }


def groups_plan_parts(task: Task, fields: dict[str, Any], population: Population) -> list[RenderableType]:
    """Return the same for a person."""
    metric, by, groups = Regression(), escape(fields["by"]), fields["groups"]
    smallest = fields["smallest"]
    facts = {
        **{f"a group of {int(people):,}": metric.text(phi) for people, phi in fields["expected_phi"].items()},
        f"everybody, from all {groups} blocks": metric.text(fields["pooled"]),
        "predicting the mean": metric.text(fields["trivial"]),
        "beats predicting the mean from": "no size" if smallest is None else f"{smallest:,} in a group",
        "people of a group are counted to": f"± {fields['size_error']:.3g} (standard error)",
    }
    return [
        release_grid(fields),
        facts_grid(f"Expected phi (1 = optimal) of the regressions by {by}", facts),
        _assumed_text(metric, population),
        f"The guarantee is that of one release. If all that is wanted is an intercept for each {by} and slopes in "
        f"common, leave out --by, which makes it a category among the features: the noise in those slopes then has "
        f"{_times(fields['one_hot'])} variance.\n",
        guarantee_text(task.guarantee),
    ]


def compare_plan_fields(
    task: Task, by: str, spread: float, *, prices: Prices | None = None, days: float = DAYS_OF_A_MONTH
) -> tuple[dict[str, Any], list[RenderableType | NumberTable]]:
    """Return what the plan of a comparison says, as plain data and for a person: errors between groups of one size.

    Values are assumed to have this standard deviation once their bounds are scaled to [-1, 1], and a mean halfway
    between the middle and the upper bound: the noise in a mean grows with its distance from the middle.
    """
    assert isinstance(task.statistic, GroupedMoments)
    public = task.statistic.analysed(task.schema)
    groups, noise = len(task.statistic.variable(task.schema).categories), float(task.noise_variance[0])
    people = task.clients / groups

    def errors(variance: float) -> list[float]:
        """Return the standard error of a difference of each column, for noise of this variance."""
        block = people * np.array([[1.0, 0.5], [0.5, 0.25 + spread**2]])
        units = zip(public.offset.tolist(), public.slope.tolist(), strict=True)
        arms = [Arm.of(block, variance, np.array([offset]), np.array([slope])) for offset, slope in units]
        return [math.sqrt(2 * arm.variance(np.ones(1))) for arm in arms]

    private = errors(noise)
    table = NumberTable(
        f"Difference of means between two groups of {by}, of {people:,.0f} people each",
        {
            "std. error": private,
            "without privacy": errors(0.0),
            "found with power .8": [_POWER * error for error in private],
        },
        list(public.names),
        notes=[
            f"Assumed: all {groups} groups of one size, a standard deviation of {spread:g} once the bounds are scaled "
            "to [-1, 1], and means halfway between the middle and the end. The last column is the smallest difference "
            "that a test at .05 finds in 4 of 5 releases.",
        ],
    )
    least = math.floor(STANDS_OUT * math.sqrt(noise)) + 1
    told = least <= people
    fields = {
        **task_fields(task, len(public)),
        "model": GroupComparison.kind,
        "by": by,
        **release_fields(task, prices or Prices(), days),
        "groups": groups,
        "people_of_a_group": people,
        "smallest_group": least,
        "differences": table.to_dict(),
    }
    said = f"A group has a mean from about {least:,} people on"
    verdict = f"{said}." if told else f"{said}: no group is expected to have one."
    return fields, [release_grid(fields), table, f"{verdict}\n", guarantee_text(task.guarantee)]


def table_of_nobody(task: Task) -> TableOne:
    """Return the Table 1 of a release of nobody: the noise is that of the task whatever is summed, and all there is."""
    return TableOne().fit_release(Release(task, np.zeros((1, task.width), np.int64)))


def table_verdict(task: Task) -> tuple[bool, str]:
    """Return whether a Table 1 of the task's people is expected to tell anything, and say so with the numbers."""
    found = table_of_nobody(task)
    numbers, categories = found.outlook()
    told, said = [], []
    if numbers is not None:
        least = dict(zip(numbers.names, numbers.columns["median"], strict=True))
        everybody = {name: found.distribution(name).told_from(0.5) for name in least}
        told += [people <= task.clients for people in everybody.values()]
        where = "" if found.by_ is None else f" in a group of {found.by_}"
        of_all = {name: "" if found.by_ is None else f" ({people:,} of all)" for name, people in everybody.items()}
        listed = ", ".join(f"{name} from {people:,.0f}{of_all[name]}" for name, people in least.items())
        said.append(f"medians are told of so many people{where} or more: {listed}")
    if categories is not None:
        errors = categories.columns["largest s.e."]
        told += [told_from(error**2) <= task.clients for error in errors]
        said.append(f"a count of people has a standard error of up to {max(errors):,.3g} by noise")
    return any(told), "; ".join(said)


def table_plan_fields(
    task: Task, *, prices: Prices | None = None, days: float = DAYS_OF_A_MONTH
) -> tuple[dict[str, Any], list[RenderableType | NumberTable]]:
    """Return what the plan of a Table 1 says, as plain data and for a person: what noise will do, whoever comes."""
    found = table_of_nobody(task)
    numbers, categories = found.outlook()
    fields = {
        **task_fields(task, len(found.variables_)),
        "model": found.kind,
        "by": found.by_,
        **release_fields(task, prices or Prices(), days),
        "numbers": None if numbers is None else numbers.to_dict(),
        "categories": None if categories is None else categories.to_dict(),
    }
    tables = [table for table in (numbers, categories) if table is not None]
    return fields, [release_grid(fields), *tables, guarantee_text(task.guarantee)]


def release_fields(task: Task, prices: Prices, days: float) -> dict[str, Any]:
    """Describe the release of a task, whatever is read from it: noise, modulus, bytes and cost."""
    modulus = task.modulus_plan
    return {
        "coalition": task.trust.coalition,
        "noise": _noise(task),
        "modulus": {
            "ring": task.encoding.ring.name,
            "bits_needed": modulus.bits_needed,
            "bits_available": modulus.bits_available,
        },
        "bytes": byte_fields(task),
        "cost": _cost(task, prices, days),
    }


def _noise(task: Task) -> dict[str, Any]:
    """Describe one draw of the noise, who adds such draws, and what they amount to in the release."""
    drawn = math.sqrt(task.noise.variance)
    sd = drawn * (task.unit / task.sketch.scale)
    return {
        "family": task.noise.name,
        "sd_integer": drawn,
        "sd": sd,
        "client_sd": 0.0 if task.noising.by == "servers" else sd,
        "server_sd": sd if task.servers_add_noise else 0.0,
        "released_sd": sd * task.sketch.scale * math.sqrt(float(task.noise_terms.mean())),
    }


def _cost(task: Task, prices: Prices, days: float) -> dict[str, Any]:
    """Return what all servers spend, and the figures that it is computed from."""
    return {
        **dataclasses.asdict(estimate(Workload.of(task), prices=prices, days=days)),
        "days": days,
        "slopes": dataclasses.asdict(MEASURED),
        "prices": dataclasses.asdict(prices),
    }


def _option(option: ReleaseOption) -> dict[str, Any]:
    return {**dataclasses.asdict(option), "expected": finite_or_none(option.expected), "acceptable": option.acceptable}


def _recommendation(found: Forecast) -> dict[str, Any]:
    option, task = found.recommended, found.task
    sparsity = task.sketch.sparsity if release_of(task) == "sketch" else 1
    return {
        "release": None if option is None else option.release,
        "rows": None if option is None else option.rows,
        "noise_by": None if option is None else option.noise_by,
        "fit_options": None if option is None else option.fit_options(len(task.schema), sparsity),
        "why": found.why,
    }


def _as_fitted(model: str, options: str | None) -> str:
    """Say with which options `dpmpc fit` does what is recommended."""
    if options is None:
        return ""
    told = f"dpmpc fit --model {model} does that {f'with {options}' if options else 'by default'}."
    if "--noise-by servers" in options:
        told += (
            " By default clients add the noise: there is the least of it, but it counts on clients to add their parts, "
            "which few can rely on; the plan prefers servers where their noise costs next to nothing."
        )
    if model == "ridge" and "--sketch" not in options:
        told += " --rounds auto takes several sums, with much less noise for one model: dpmpc plan --rounds auto."
    return f"{told}\n"


def release_grid(fields: dict[str, Any]) -> Table:
    """Return the facts of the release as it would be run."""
    noise, size, modulus, sketch = fields["noise"], fields["bytes"], fields["modulus"], fields["sketch"]
    other, share = size["client_to_other_servers"], size["client_to_last_server"]
    told = "a 16-byte key" if other == KEY_BYTES else "as much" if other == share else f"{other:,} bytes"
    checked = size.get("server_to_other_server")
    copies = "1 copy" if size["copies"] == 1 else f"{size['copies']} copies"
    stored = [f"{size[name] / MEGABYTE:,.6g} MB" for name in ("spool_of_last_server", "spool_of_other_servers")]
    rows = {
        "release": f"{sketch['family']} of {sketch['statistic']}, k = {sketch['rows']}, s = {sketch['sparsity']}",
        "noise of one client": _drawn(noise, "client", "on columns in [-1, 1]"),
        "noise of one server": _drawn(noise, "server", "in every sum"),
        "noise in the release": f"sd {noise['released_sd']:.4g} in every entry",
        "coalition": _coalition(fields),
        "modulus": f"{modulus['bits_needed']} bits needed, {modulus['bits_available']} in {modulus['ring']}",
        "client sends": f"{copies}: {size['client_to_last_server']:,} bytes to one server, {told} to each other",
        "servers store": f"{stored[0]} at that server, {stored[1]} at each other",
        "server sends": f"{size['server_to_analyst']:,} bytes to the analyst"
        + ("" if checked is None else f", {checked / MEGABYTE:,.6g} MB to each other server to check proofs"),
        "servers cost": _money(fields["cost"]),
        "not in it": NOT_COUNTED,
    }
    return facts_grid("Plan", rows)


def _money(cost: dict[str, Any]) -> str:
    parts = ", ".join(f"{name} {cost[name]:.2g}" for name in ("compute", "storage", "transfer"))
    spent = f"about {cost['core_s']:.2g} core-seconds and {cost['total']:.2g} {cost['prices']['currency']}"
    return f"{spent} together ({parts}), shares stored for {cost['days']:g} days"


def _drawn(noise: dict[str, Any], who: str, where: str) -> str:
    sd = noise[f"{who}_sd"]
    return f"{noise['family']}, sd {sd:.4g} {where}" if sd else "none"


def _coalition(fields: dict[str, Any]) -> str:
    privacy = fields["privacy"]
    when = {"adaptive": "chosen when all is public", "static": "fixed beforehand"}[fields["coalition"]]
    clients = f"{privacy['corrupt_clients']:,} clients" + (f" {when}" if privacy["corrupt_clients"] else "")
    lost = f"; anything from {privacy['dropouts']:,} clients in all may be missing" if privacy["dropouts"] else ""
    return f"the analyst, {privacy['corrupt_servers']} of {fields['servers']} servers, {clients}{lost}"


def _errors_grid(fields: dict[str, Any], metric: UtilityMetric) -> Table:
    """Return the expected phi or psi of this release and of what it is compared with."""
    expected = fields[f"expected_{metric.symbol}"]
    useful = fields["smallest_useful_batch"]
    facts = {
        "this release": _text(metric, expected["this_release"]),
        "  second moments summed": _text(metric, expected["sum"]),
        f"  best sketch (k = {expected['sketch_rows']})": _text(metric, expected["sketch"]),
        "  the local model": _text(metric, expected["local"]),
        f"  {metric.nothing}": _text(metric, expected["trivial"]),
        f"beats {metric.nothing} from": "no batch size" if useful is None else f"{useful:,} clients",
    }
    return facts_grid(f"Expected {_MEANING[metric.symbol]}", facts)


def _assumed_text(metric: UtilityMetric, population: Population) -> str:
    """Say what the errors rest on."""
    return (
        f"Assumed: columns have a standard deviation of {population.spread:g} once their bounds are scaled to [-1, 1] "
        f"(--spread), and the best {metric.purpose} fit explains {population.explained:.3g} of the variance "
        f"(--explained). {NOT_KNOWN}\n"
    )


def _options_grid(fields: dict[str, Any], metric: UtilityMetric) -> Table:
    """Return a row for each option: sketch and sum, noise by clients and by servers."""
    beaten = [metric.nothing.removeprefix("the ").removeprefix("a "), "local model"]
    headings = (
        "release",
        "noise by",
        "k",
        "bytes",
        f"expected {metric.symbol}",
        *(f"beats {name} from" for name in beaten),
    )
    rows = (
        (
            option["release"],
            option["noise_by"],
            str(option["rows"]),
            f"{option['client_bytes']:,}",
            _text(metric, option["expected"]),
            _clients(option["beats_trivial_from"]),
            _clients(option["beats_local_from"]),
        )
        for option in fields["options"]
    )
    most = f"{fields['largest_batch']:,}"
    caption = f"bytes: what one client sends; from: number of clients; never: not with up to {most} clients"
    return grid("Ways to release", headings, rows, left=2, caption=caption)


def _text(metric: UtilityMetric, value: float | None) -> str:
    return "impossible" if value is None else metric.text(value)


def _clients(batch: int | None) -> str:
    return "never" if batch is None else f"{batch:,}"


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times less" if ratio >= 1 else f"{1 / ratio:.2g} times more"
