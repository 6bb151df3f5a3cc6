"""The report of a fit in rounds as one HTML page, laid out as that of a single release.

A fit that has learned nothing begins with that verdict, and shows no coefficient and no plot of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpmpc.estimators.round_fits import errors_text, no_interval_text
from dpmpc.privacy import Guarantee
from dpmpc.release import Release
from dpmpc.render import plots
from dpmpc.render.guarantee_prose import (
    guarantee_items,
    promise,
    sentence,
    what_costs_more,
    without_further_cost,
)
from dpmpc.render.page import (
    Analysed,
    Number,
    PageRow,
    PageTable,
    byte_table,
    coefficient_table,
    facts_of,
    server_table,
    template,
    versions,
)
from dpmpc.render.python_code import rounds_code
from dpmpc.render.rounds_text import START, rounds_text, sum_fields
from dpmpc.results.drawing import INSTALL, available

_NAMES = {"ridge": "Ridge", "logistic": "Logistic", "poisson": "Poisson"}
RATIOS = {"logistic": "odds", "poisson": "rate"}


def rounds_page(
    releases: Sequence[Release],
    promised: Guarantee,
    analysed: Analysed,
    *,
    files: Sequence[str],
    timing: Mapping[str, Any],
    command: str | None = None,
    about: Sequence[tuple[str, list[str]]] = (),
    code: str | None = None,
) -> str:
    """Return the page, HTML in one piece."""
    tasks, result, servers = [release.task for release in releases], analysed.result, timing.get("per_server", [])
    hopeless = analysed.model in RATIOS and result["verdict"] is not None
    approximate = result.get("approximation") is not None
    wanted = {"result": {} if hopeless else _result_plot(analysed, releases[0]), "noise": {}, "servers": {}}
    if servers:
        wanted["servers"] = {"timeline of the servers": lambda: plots.timeline(servers)}
    drawing = available()
    return template().render(
        title=f"{_NAMES[analysed.model]} regression of {result['target']}{', approximate' if approximate else ''}",
        about=list(about),
        verdict=sentence(f"No coefficients can be trusted: {result['verdict']}") if hopeless else None,
        released=f"{rounds_text(releases)}.",
        guarantee=promised,
        facts=facts_of(tasks, promised, timing),
        tables=[] if hopeless else [_result_table(analysed)],
        notes=_notes(analysed),
        drawn={place: [draw() for draw in named.values()] if drawing else [] for place, named in wanted.items()},
        missing=[] if drawing else [title for named in wanted.values() for title in named],
        install=INSTALL,
        promise=promise(promised),
        guarantee_items=guarantee_items(promised),
        noise=_sums_table(releases, promised),
        costs=[*([server_table(servers)] if servers else []), byte_table(tasks)],
        without_further_cost=without_further_cost(tasks[-1], compared=True),
        what_costs_more=what_costs_more(tasks[-1]),
        code=code or rounds_code(files, promised.epsilon, analysed.model, analysed.parameters),
        command=command,
        digest=" ".join(task.digest.hex() for task in tasks),
        versions=versions(),
    )


def _result_plot(analysed: Analysed, start: Release) -> dict[str, Any]:
    schema, model = start.task.schema, analysed.model
    if model in RATIOS:
        return {"ratios": lambda: plots.ratios(analysed.result, schema, RATIOS[model])}
    return {"coefficients": lambda: plots.coefficients(analysed.result, schema)}


def _notes(analysed: Analysed) -> list[str]:
    """Say what the numbers rest on; of a ridge regression also whether the second round added anything."""
    result = analysed.result
    if analysed.model == "ridge":
        fitted = f"Fitted with penalty {result['alpha']:g} in normalised units."
        if result["verdict"] is not None:
            return [fitted, f"One release: {result['verdict']}."]
        return [fitted, no_interval_text(result["no_interval"])]
    if result["verdict"] is not None:
        return []
    if result["approximation"] is not None:
        return [f"This is {result['approximation']}."]
    said = errors_text(RATIOS[analysed.model]) if result["standard_errors"] else no_interval_text(result["no_interval"])
    return [f"Rounds of scores: {result['rounds']}.", said]


def _result_table(analysed: Analysed) -> PageTable:
    """Return coefficients with errors, and ratios with intervals."""
    result = analysed.result
    if analysed.model == "ridge":
        hidden = {"confidence_intervals"} if result["no_interval"] is not None else set()
        return coefficient_table({name: value for name, value in result.items() if name not in hidden})
    ratio = RATIOS[analysed.model]
    errors, intervals = result["standard_errors"], result[f"{ratio}_ratio_intervals"]
    rows: list[PageRow] = []
    for name, value in result["coefficients"].items():
        low, high = intervals[name] if intervals else (None, None)
        estimate = (Number.of(value), *([Number.of(errors[name], 3, "± ")] if errors else []))
        ends = (Number.of(low), Number.of(high, before="to ")) if intervals else (Number.of(None),)
        rows.append((name, [estimate, (Number.of(result[f"{ratio}_ratios"][name]),), ends]))
    error = result["intercept_standard_error"]
    estimate = (Number.of(result["intercept"]), *([Number.of(error, 3, "± ")] if error is not None else []))
    rows.append(("intercept", [estimate, (Number("", None),), (Number("", None),)]))
    level = f"{100 * result['confidence_level']:g}\u00a0% interval of the ratio"
    return PageTable(
        f"{ratio.capitalize()} ratios",
        f"Coefficients are logarithms of {ratio} ratios for one more unit of the column, the others as they are.",
        ["column", "coefficient ± standard error", f"{ratio} ratio", level],
        rows,
    )


def _sums_table(releases: Sequence[Release], promised: Guarantee) -> PageTable:
    """Return a row for each sum: its part of the budget and its noise."""
    rows: list[PageRow] = []
    for number, fields in enumerate(sum_fields(releases, promised)):
        numbers = (fields["share"], fields["epsilon_alone"], fields["noise_sd"])
        rows.append((f"round {number}" if number else START, [(Number.of(value, 4),) for value in numbers]))
    return PageTable(
        "Sums",
        "All are within the one budget above. Noise: standard deviation in every entry of the sum, columns mapped to "
        "[−1, 1] and scores to length 1.",
        ["sum", "share of the budget (μ²)", "ε alone", "noise"],
        rows,
    )
