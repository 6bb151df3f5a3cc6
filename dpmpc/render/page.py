"""A report as one HTML page: facts and tables that a template lays out, escaped wherever a name may be hostile.

It also says how a result came about, by the command and the versions, and names no path of the machine that wrote it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import json
import math
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jinja2
from markupsafe import Markup

import dpmpc
from dpmpc.errors import UNIDENTIFIED
from dpmpc.privacy import Guarantee
from dpmpc.release import Release
from dpmpc.render import plots
from dpmpc.render.about import About
from dpmpc.render.fit import MEGABYTE, byte_fields, release_text
from dpmpc.render.guarantee_prose import (
    guarantee_items,
    promise,
    sentence,
    what_costs_more,
    without_further_cost,
)
from dpmpc.render.python_code import fit_code, reading_code
from dpmpc.render.signal_and_noise import Signal
from dpmpc.results import NumberTable
from dpmpc.results.drawing import INSTALL, available, figures
from dpmpc.results.number_tables import cell_text
from dpmpc.storage import whole
from dpmpc.task import Task

_PACKAGES = ("numpy", "scipy", "scikit-learn", "mpyc", "cryptography")


def command_line(arguments: Sequence[str], paths: Sequence[str | None]) -> str:
    """Return the command that has these arguments, with the names alone of the files and folders among them.

    Parameters
    ----------
    arguments : sequence of str
        What came after ``dpmpc``.
    paths : sequence of str
        Those arguments, or ends of arguments such as ``--out=DIR``, that are paths.
    """
    return shlex.join(
        ["dpmpc", *(_without_folders(argument, [path for path in paths if path]) for argument in arguments)]
    )


def versions() -> dict[str, str]:
    """Return the versions of the software that computed a result, by name."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"dpmpc": dpmpc.__version__, "Python": platform.python_version(), **found}


def _without_folders(argument: str, paths: Sequence[str]) -> str:
    option, equals, value = argument.partition("=")
    for path in paths:
        if argument == path:
            return Path(path).name
        if option.startswith("--") and equals and value == path:
            return f"{option}={Path(path).name}"
    return argument


_DIGITS = 5
PageRow: TypeAlias = "tuple[str, list[tuple[Number, ...]]]"


@dataclasses.dataclass(frozen=True)
class Analysed:
    """What was computed from a release.

    Attributes
    ----------
    model : {"ridge", "grouped-ridge", "low-rank", "moment"}
        As in `dpmpc fit --model`.
    parameters : mapping
        What the estimator was told.
    result : mapping
        The "result" of the JSON contract; comparisons with the data itself, which are not private, are ignored.
    features : sequence of str, optional
        Those of the regression, where not all columns were used.
    """

    model: str
    parameters: Mapping[str, Any]
    result: Mapping[str, Any]
    features: Sequence[str] | None = None

    @property
    def hopeless(self) -> bool:
        """Whether the release says nothing about this model."""
        return self.result.get("intercept_standard_error", 0.0) is None


@dataclasses.dataclass(frozen=True)
class Number:
    """A number as the page shows it, with all its digits for machines; no value where there is only text."""

    text: str
    value: str | None = None
    before: str = ""

    @classmethod
    def of(cls, value: float | None, digits: int = _DIGITS, before: str = "") -> Number:
        """Format a number, or "none" if it is missing or not finite."""
        if value is None or not math.isfinite(value):
            return cls("none")
        return cls(f"{value:,}" if isinstance(value, int) else figures(value, digits), json.dumps(value), before)


@dataclasses.dataclass(frozen=True)
class Fact:
    """A number that stands at the top of the page."""

    name: str
    cell: Number
    unit: str


@dataclasses.dataclass(frozen=True)
class PageTable:
    """A table with a name for each row; a cell holds one number, or two that belong together."""

    title: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[PageRow]


def write_report(
    path: Path,
    release: Release,
    *,
    file: str,
    timing: Mapping[str, Any] | None = None,
    about: About | None = None,
) -> None:
    """Write the `page` of a release alone to a file, whole or not at all; one that is there is replaced."""
    with whole(path) as partial:
        partial.write(page(release, timing=timing, about=about, file=file).encode())


def page(
    release: Release,
    *,
    guarantee: Guarantee | None = None,
    analysed: Analysed | None = None,
    timing: Mapping[str, Any] | None = None,
    command: str | None = None,
    about: About | None = None,
    tables: Sequence[NumberTable] = (),
    file: str = "release.dpmpc",
) -> str:
    """Return the page, HTML in one piece.

    Parameters
    ----------
    release : Release
        What was opened.
    guarantee : Guarantee, optional
        What is promised, where that is not what the release's own task gives.
    analysed : Analysed, optional
        What was computed from the release.
    timing : mapping, optional
        "timing" of the JSON contract: "per_server", a list of what `dpmpc.render.fit.server_fields` returns, and
        seconds by name. What is missing is not shown.
    command : str, optional
        The command that makes such a release again (`dpmpc.render.command_line`).
    about : About, optional
        Title, dates and operators.
    tables : sequence of NumberTable
        Further numbers that were computed from the release.
    file : str
        Name of the release's file.
    """
    task, spent = release.task, timing or {}
    promised = guarantee or release.guarantee
    found, servers = Signal.of(release), spent.get("per_server", [])
    wanted: dict[str, dict[str, Callable[[], plots.Plot]]] = {
        "result": {} if analysed is None or analysed.hopeless else _result_plot(analysed, release),
        "noise": {} if analysed and analysed.hopeless else {"noise against signal": lambda: plots.noise(found)},
        "servers": {"timeline of the servers": lambda: plots.timeline(servers)} if servers else {},
    }
    drawing = available()
    return template().render(
        title=_title(analysed) if analysed else about.title if about else "Release",
        about=_about(about, titled=analysed is None),
        verdict=UNIDENTIFIED if analysed and analysed.hopeless else None,
        released=release_text(task) + ".",
        guarantee=promised,
        facts=facts_of([task], promised, spent, about.counted if about else "people"),
        tables=[*([] if analysed is None else _result_tables(analysed)), *map(page_table, tables)],
        notes=[] if analysed is None else _notes(analysed),
        drawn={place: [draw() for draw in named.values()] if drawing else [] for place, named in wanted.items()},
        missing=[] if drawing else [title for named in wanted.values() for title in named],
        install=INSTALL,
        promise=promise(promised),
        guarantee_items=guarantee_items(promised),
        noise=noise_table(found),
        costs=[*([server_table(servers)] if servers else []), byte_table([task])],
        without_further_cost=without_further_cost(task, compared=analysed is not None),
        what_costs_more=what_costs_more(task),
        code=reading_code(file)
        if analysed is None
        else fit_code(file, analysed.model, analysed.parameters, analysed.result, analysed.features),
        command=command,
        digest=task.digest.hex(),
        versions=versions(),
    )


@functools.cache
def template() -> jinja2.Template:
    """Load the page's template; names in it are escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dpmpc.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    return environment.get_template("report.html")


def _breakable(name: str) -> Markup:
    """Allow a line break after each underscore of a long name."""
    return Markup("_<wbr>").join(Markup.escape(name).split("_"))


def _title(analysed: Analysed) -> str:
    result = analysed.result
    if analysed.model == "ridge":
        return f"Ridge regression of {result['target']}"
    if analysed.model == "grouped-ridge":
        return f"Ridge regressions of {result['target']} by {result['by']}"
    if analysed.model == "low-rank":
        return f"Low-rank approximation of {len(result['components'][0])} columns"
    if result["of"] == "items":
        return f"Sum of squared counts of {result['column']}"
    return f"Sum of {result['column']}" + ("" if result["order"] == 1 else f" to the power {result['order']}")


def _about(about: About | None, *, titled: bool) -> list[tuple[str, list[str]]]:
    """Return what stands under the title, which names the release where the title does not."""
    if about is None:
        return []
    return about.facts if titled else [("Release", [about.title]), *about.facts]


def facts_of(
    tasks: Sequence[Task], promised: Guarantee, spent: Mapping[str, Any], counted: str = "people"
) -> list[Fact]:
    """Return the numbers that stand at the top of a page about one release, or about several that belong together."""
    clients = Number.of(tasks[0].clients)
    sent = sum(byte_fields(task)["client_to_all_servers"] for task in tasks)
    facts = [
        Fact("Clients", clients, counted)
        if counted == "people"
        else Fact("Reports", clients, "one person may have sent several"),
        Fact("Privacy loss ε", Number.of(promised.epsilon), "at most"),
        Fact("δ", Number.of(promised.delta), "at most"),
        Fact("Servers", Number.of(promised.servers), f"of whom {promised.corrupt_servers} may collude"),
        Fact("A client sends", Number.of(sent), "bytes"),
    ]
    return [*facts, Fact("Whole run", Number.of(spent["wall_s"], 3), "seconds")] if "wall_s" in spent else facts


def _result_plot(analysed: Analysed, release: Release) -> dict[str, Callable[[], plots.Plot]]:
    if analysed.model == "ridge":
        return {"coefficients": lambda: plots.coefficients(analysed.result, release.task.schema)}
    if analysed.model == "low-rank":
        return {"components": lambda: plots.components(analysed.result)}
    if analysed.model == "grouped-ridge":
        return {}
    return {"estimate": lambda: plots.moment(analysed.result)}


def _notes(analysed: Analysed) -> list[str]:
    if analysed.model == "grouped-ridge":
        return [sentence(text) for text in analysed.result["warnings"]]
    if analysed.model != "ridge":
        return []
    result = analysed.result
    return [f"Fitted with penalty {result['alpha']:g} in normalised units."]


def _result_tables(analysed: Analysed) -> list[PageTable]:
    """Return the tables of a result; those of regressions by group are handed in beside it."""
    result = analysed.result
    if analysed.model == "grouped-ridge":
        return []
    if analysed.model == "ridge":
        return [coefficient_table(result)]
    if analysed.model == "low-rank":
        listed = result["components"]
        table = PageTable(
            "Components",
            "Entries of directions of length 1, in normalised columns: no unit.",
            ["column", *(f"component {number}" for number in range(1, len(listed) + 1))],
            [(name, [(Number.of(row[name]),) for row in listed]) for name in listed[0]],
        )
        return [table]
    return [_moment_table(result)]


def _moment_table(result: Mapping[str, Any]) -> PageTable:
    value, error = result["moment"], result["standard_error"]
    source = "the noise" if result["of"] == "values" else "the noise and the sketch"
    ends = (Number.of(value - plots.NORMAL_95 * error, 6), Number.of(value + plots.NORMAL_95 * error, 6, "to "))
    return PageTable(
        "Estimate",
        f"In {plots.moment_unit(result)}. The error is that of {source}.",
        ["", "value"],
        [
            ("estimate", [(Number.of(value, 8),)]),
            ("standard error", [(Number.of(error),)]),
            ("95\u00a0% interval", [ends]),
        ],
    )


def coefficient_table(result: Mapping[str, Any]) -> PageTable:
    """Return the coefficients as fitted, beside the unpenalised ones with their errors where there are any."""
    target = result["target"]
    caption = f"Units of {target} for one unit of the column; the intercept in units of {target}."
    rows: list[PageRow] = [(name, [(Number.of(value),)]) for name, value in result["coefficients"].items()]
    rows.append(("intercept", [(Number.of(result["intercept"]),)]))
    if "confidence_intervals" not in result:
        return PageTable("Coefficients", caption, ["column", "fitted"], rows)
    for name, cells in rows[:-1]:
        low, high = result["confidence_intervals"][name]
        cells += estimate_cells(result["unpenalised_coefficients"][name], result["standard_errors"][name], low, high)
    low, high = result["intercept_confidence_interval"]
    rows[-1][1].extend(estimate_cells(result["unpenalised_intercept"], result["intercept_standard_error"], low, high))
    level = f"{100 * result['confidence_level']:g}\u00a0% interval"
    caption += (
        " Estimates and intervals are without penalty, for the population; they cover sampling, sketch and noise."
        " Those from a sum assume residuals whose spread does not depend on the features; where it grows with a column,"
        " that column's interval is too short."
    )
    return PageTable("Coefficients", caption, ["column", "fitted", "estimate ± standard error", level], rows)


def estimate_cells(
    value: float | None, error: float | None, low: float | None, high: float | None
) -> list[tuple[Number, ...]]:
    """Return the estimate with its standard error and interval, or nothing where the noise is too strong."""
    if low is None:
        return [(Number.of(None),)] * 2
    return [
        (Number.of(value), Number.of(error, 3, "± ")),
        (Number.of(low), Number.of(high, before="to ")),
    ]


def page_table(table: NumberTable) -> PageTable:
    """Return a table of numbers as the page lays it out."""
    rows: list[PageRow] = [
        (name, [(_cell(heading, value),) for heading, value in zip(table.columns, values, strict=True)])
        for name, values in table.rows()
    ]
    return PageTable(table.title, " ".join(table.notes), [table.label, *table.columns], rows)


def _cell(heading: str, value: float) -> Number:
    found = Number.of(value)
    return dataclasses.replace(found, text=cell_text(heading, value, lambda _: found.text))


def noise_table(found: Signal) -> PageTable:
    """Return the sizes of noise and signal, a row for each column."""
    return PageTable(
        "Sizes",
        f"Root mean square of the {found.entries}. What is left without the noise is an estimate.",
        ["column", "noise", "signal", "signal / noise"],
        [
            (name, [(Number.of(size, 4),) for size in (found.noise[name], signal, found.ratio(name))])
            for name, signal in found.signal.items()
        ],
    )


_VERIFIED = [("check proofs, s", "verify_s", 1.0), ("sent to check proofs, MB", "verify_bytes_sent", MEGABYTE)]


def server_table(servers: Sequence[Mapping[str, Any]]) -> PageTable:
    """Return a table with a column for each server, which fits a phone."""
    rows = [
        ("set-up, s", "setup_s", 1.0),
        *(_VERIFIED[:1] if "verify_s" in servers[0] else ()),
        ("read, s", "read_s", 1.0),
        ("transform, s", "transform_s", 1.0),
        ("open, s", "open_s", 1.0),
        ("total after set-up, s", "total_s", 1.0),
        ("CPU, s", "cpu_s", 1.0),
        ("sent, MB", "bytes_sent", MEGABYTE),
        ("received, MB", "bytes_received", MEGABYTE),
        *(_VERIFIED[1:] if "verify_s" in servers[0] else ()),
        ("peak memory, MB", "peak_rss_mb", 1.0),
    ]
    return PageTable(
        "Servers",
        "Seconds; MB = 10⁶ bytes at the socket, TLS included.",
        ["", *(f"server {entry['server']}" for entry in servers)],
        [(name, [(Number.of(entry[field] / unit, 3),) for entry in servers]) for name, field, unit in rows],
    )


def byte_table(tasks: Sequence[Task]) -> PageTable:
    """Return the bytes of a run, or of several in all."""
    sizes = [byte_fields(task) for task in tasks]
    rows = {
        "client to one server": "client_to_last_server",
        "client to each other server": "client_to_other_servers",
        "stored by that server": "spool_of_last_server",
        "stored by each other server": "spool_of_other_servers",
        "server to analyst": "server_to_analyst",
        "server to each other server, to check proofs": "server_to_other_server",
    }
    return PageTable(
        "Messages and storage",
        "Bytes of payload, without framing.",
        ["", "bytes"],
        [
            (name, [(Number.of(sum(size[field] for size in sizes)),)])
            for name, field in rows.items()
            if field in sizes[0]
        ],
    )
