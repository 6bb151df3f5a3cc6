"""A report as one HTML page: a template lays out facts, tables and plots, and escapes every name.

Promised: the page refers to nothing outside of it, and no column of a table is cut off from 360 pixels up: a table that
would be too wide stands there as one block for each row. Not promised: plots where matplotlib is not installed; the
page then names what is left out.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import math
import platform
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from dpmpc.app.render.drawing import INSTALL, available, figures
from dpmpc.app.render.plots import draw
from dpmpc.app.render.report import Fact, Report
from dpmpc.base.storage.files import whole
from dpmpc.release.results.number_tables import NumberTable

_PACKAGES = ("numpy", "scipy", "scikit-learn", "mpyc", "cryptography")
_DIGITS = 5
_WIDE, _WIDEST = 4, 8  # so many columns of numbers do not fit beside each other on a phone, or on any screen


class Number(NamedTuple):
    """A number as the page shows it, with all its digits for machines; no value where there is only text."""

    text: str
    value: str | None = None
    before: str = ""

    @classmethod
    def of(cls, value: float, digits: int = _DIGITS, before: str = "") -> Number:
        """Format a number, or "none" if it is not finite."""
        if not math.isfinite(value):
            return cls("none")
        return cls(f"{value:,}" if isinstance(value, int) else figures(value, digits), json.dumps(value), before)


class _Grid(NamedTuple):
    """A table as the template lays it out; a cell holds one number, or two that belong together."""

    title: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[Number, ...]]]]
    wide: str  # class of its style; empty where it fits a phone


def page(report: Report) -> str:
    """Return the page, HTML in one piece."""
    result, drawing = report.result, available()
    return template("report.html").render(
        report=report,
        title=result.title or report.title,
        about=[("Release", [report.title]), *report.about] if result.title else report.about,
        verdict=result.verdict,
        facts=[(fact, _fact(fact)) for fact in report.facts],
        tables=[layout(table) for table in result.tables],
        noise=layout(report.noise),
        costs=[layout(table) for table in report.costs],
        plots=[draw(data()) for data in result.plots.values()] if drawing else [],
        missing=[] if drawing else list(result.plots),
        install=INSTALL,
        versions=versions(),
    )


def write_page(path: Path, report: Report) -> None:
    """Write the page to a file, whole or not at all; one that is there is replaced."""
    with whole(path) as partial:
        partial.write(page(report).encode())


def versions() -> dict[str, str]:
    """Return the versions of the software that computed a result, by name."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"dpmpc": importlib.metadata.version("dpmpc"), "Python": platform.python_version(), **found}


def command_line(arguments: Sequence[str], paths: Sequence[str | None]) -> str:
    """Return the command that has these arguments, with the names alone of those that are paths.

    A path may be the end of an argument, as in ``--out=DIR``.
    """
    return shlex.join(
        ["dpmpc", *(_without_folders(argument, [path for path in paths if path]) for argument in arguments)]
    )


def _without_folders(argument: str, paths: Sequence[str]) -> str:
    option, equals, value = argument.partition("=")
    for path in paths:
        if argument == path:
            return Path(path).name
        if option.startswith("--") and equals and value == path:
            return f"{option}={Path(path).name}"
    return argument


def _fact(fact: Fact) -> Number:
    return Number.of(fact.value, fact.digits)


def layout(table: NumberTable) -> _Grid:
    """Lay out a table, with errors and ends of intervals in the cell of their estimate."""
    cells = table.cells
    before = dict.fromkeys(table.errors.values(), "± ") | {high: "to " for _, high in table.intervals.values()}
    places = {heading: place for place, heading in enumerate(table.columns)}
    rows = [
        (
            name,
            [
                _together(
                    _cell(table, name, heading, values[places[heading]], before.get(heading, ""))
                    for heading in headings
                )
                for headings in cells.values()
            ],
        )
        for name, values in table.rows()
    ]
    wide = "widest" if len(cells) >= _WIDEST else "wide" if len(cells) >= _WIDE else ""
    return _Grid(table.title, " ".join(table.notes), [table.label, *cells], rows, wide)


def _together(numbers: Iterable[Number]) -> tuple[Number, ...]:
    """Return what one cell shows; that there is nothing is written once."""
    return tuple(dict.fromkeys(numbers))


def _cell(table: NumberTable, name: str, heading: str, value: float, before: str) -> Number:
    if value == math.inf and before == "to ":
        return Number("or more")
    found = Number.of(value, 3 if before == "± " else _DIGITS, before)
    if found.value is None:
        return found
    text = table.text(name, heading, value, lambda number: found.text if number == value else f"{number:,}")
    return found._replace(text=text)


@functools.cache
def template(name: str) -> jinja2.Template:
    """Load the template of a page; names in it are escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dpmpc.app.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    return environment.get_template(name)


def _breakable(name: str) -> Markup:
    """Allow a line break after each underscore of a long name."""
    return Markup("_<wbr>").join(Markup.escape(name).split("_"))
