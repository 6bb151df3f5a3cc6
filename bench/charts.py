"""From measured competitors to the three forms of a figure: JSON, a Markdown table and a PNG.

A chart is a row of panels that share their axes; a panel has one value of x for each entry of its series.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.harness import RESULTS, machine, markdown, save_picture, summary, today, write
from bench.secure_sketching.printed import LAPLACE_ENTRIES, entries_name
from bench.secure_sketching.utility import (
    DENSE,
    EXPONENTS,
    LAPLACE,
    LOCAL,
    NOISELESS,
    PRINTED,
    SUM,
    TRIVIAL,
    exponent_name,
)
from dpmpc.base.errors import InputError

_MARKERS = "osv^D<>"
_INTERPOLATED = {name(exponent): at for name in (exponent_name, entries_name) for at, exponent in enumerate(EXPONENTS)}
# Colours that the eye, colour-blind or not, tells apart; the interpolation runs from grey to red.
_COLOURS = {
    **{LAPLACE: "#cc79a7", LAPLACE_ENTRIES: "#cc79a7", DENSE: "#e69f00"},
    **{PRINTED: "#882255", SUM: "#009e73", LOCAL: "#8c510a"},
}
_GREYS = {NOISELESS: ("black", ":"), TRIVIAL: ("dimgrey", "--")}
_CENTRAL = ("#0072b2", "#56b4e9")


@dataclasses.dataclass
class Panel:
    """One coordinate system."""

    title: str  # what is fixed in it
    x: list[float] = dataclasses.field(default_factory=list)  # where was measured
    # competitor -> one summary (mean, sd, runs, ...) for each x
    series: dict[str, list[dict[str, float]]] = dataclasses.field(default_factory=dict)
    date: str = dataclasses.field(default_factory=today)  # of the measurement

    def add(self, x: float, measured: dict[str, list[float]]) -> None:
        """Add what was measured at one x."""
        print(f"{self.title}: {x:g}", file=sys.stderr)
        self.x.append(x)
        for name, values in measured.items():
            self.series.setdefault(name, []).append(summary(values))


@dataclasses.dataclass
class Chart:
    """A figure of the paper."""

    name: str  # of the files
    title: str  # headline, and what was chosen or assumed
    note: str
    x_label: str  # of the axes, both logarithmic
    y_label: str
    panels: list[Panel]  # from left to right
    findings: list[str] = dataclasses.field(default_factory=list)  # sentences that follow from the numbers
    # competitor -> arguments of ``errorbar``, where it is none of `bench.secure_sketching.utility`
    styles: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    # panels in a line, which then share their y axis; by default two or three with axes of their own
    across: int | None = None

    def markdown(self) -> str:
        """Return the Markdown page: one table for each panel."""
        parts = [f"# {self.title}", "", self.note, ""]
        for panel in self.panels:
            rows = [
                [f"{x:g}" if x < 1000 else f"{x:,.0f}", *(_cell(values[at]) for values in panel.series.values())]
                for at, x in enumerate(panel.x)
            ]
            runs = sorted({int(entry["runs"]) for values in panel.series.values() for entry in values})
            counted = " or ".join(str(count) for count in runs)
            parts += [
                f"## {panel.title}",
                "",
                f"{self.y_label}, mean ± sd of {counted} runs, {panel.date}; the trivial predictor is computed.",
                "",
                markdown([self.x_label, *panel.series], rows),
                "",
            ]
        return "\n".join([*parts, *self.findings])

    def draw(self, path: Path) -> None:
        """Write the PNG."""
        require_plots()
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        columns = self.across or (2 if len(self.panels) in (2, 4) else min(len(self.panels), 3))
        lines = -(-len(self.panels) // columns)
        figure = Figure(figsize=(1 + 5.2 * columns, 1.4 + 4.4 * lines), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(lines, columns, squeeze=False, sharey="row" if self.across else False).ravel()
        for axis, panel in zip(axes, self.panels, strict=False):
            self._draw_panel(axis, panel)
        for axis in axes[len(self.panels) :]:
            axis.set_visible(False)
        handles = {
            label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        across = min(4, 2 * columns)
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=across, frameon=False)
        figure.suptitle(self.title)
        save_picture(figure, path, 110)

    def _draw_panel(self, axis: Any, panel: Panel) -> None:
        central = [name for name in panel.series if name.startswith("central")]
        for name, values in panel.series.items():
            means = [entry["mean"] for entry in values]
            if name in _GREYS:
                colour, line = _GREYS[name]
                axis.plot(panel.x, means, line, color=colour, label=name, linewidth=1.4)
                continue
            # An error bar that reached below zero would leave a logarithmic axis: it ends at a tenth of the mean.
            below = [min(entry["sd"], 0.9 * entry["mean"]) for entry in values]
            above = [entry["sd"] for entry in values]
            style = self.styles.get(name) or _style(name, central)
            axis.errorbar(panel.x, means, (below, above), label=name, capsize=2, markersize=4, **style)
        axis.set(xscale="log", yscale="log", xlabel=self.x_label, ylabel=self.y_label)
        axis.set_title(panel.title.replace(": ", ":\n") if self.across else panel.title, fontsize="medium")
        axis.grid(which="major", color="gainsboro", linewidth=0.6)

    def write(self, folder: Path) -> None:
        """Write JSON, Markdown and PNG."""
        content = {"machine": machine(), **dataclasses.asdict(self)}
        write(self.name, content, self.markdown(), folder)
        self.draw(folder / f"{self.name}.png")


def require_plots() -> None:
    """Refuse to begin what could not be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError("bench", "figures need matplotlib: pip install '.[plots]' in its source folder") from error


def options_of(
    name: str, title: str, arguments: Sequence[str], runs: int, parts: Sequence[str] = ()
) -> argparse.Namespace:
    """Read the options that all figures have; `out` is None where nothing is to be written. `name` is the bench's.

    With `parts` there is ``--only``: the part to measure, the others are kept as the results have them.
    """
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=title)
    parser.add_argument("--runs", type=int, default=runs, help="runs of each (default %(default)s)")
    parser.add_argument("--short", action="store_true", help="two runs of small sizes; written only if --out is given")
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"where results are written (default {RESULTS})")
    if parts:
        told = "measure one of the two families; panels of the other are kept from the results"
        parser.add_argument("--only", choices=parts, help=told)
    options = parser.parse_args(arguments)
    if options.runs < 1:
        raise InputError("runs", options.runs, "at least 1")
    if options.short:
        options.runs = 2
    elif options.out is None:
        options.out = RESULTS
    if options.out is not None:
        require_plots()
    return options


def finish(chart: Chart, folder: Path | None) -> None:
    """Print the page, and write it where wanted."""
    print(chart.markdown())
    if folder is not None:
        chart.write(folder)


def _style(name: str, central: Sequence[str]) -> dict[str, Any]:
    if name in central:
        return {"color": _CENTRAL[central.index(name)], "marker": "*", "linewidth": 1.6}
    if name in _COLOURS:
        return {"color": _COLOURS[name], "marker": "X", "linewidth": 1.6}
    if name not in _INTERPOLATED:
        return {"marker": "o", "linewidth": 1.4}
    at = _INTERPOLATED[name]
    red = at / (len(EXPONENTS) - 1)
    colour = (0.75 + 0.1 * red, 0.75 * (1 - red), 0.75 * (1 - red))
    return {"color": colour, "marker": _MARKERS[at], "linewidth": 2.2 if at == len(EXPONENTS) - 1 else 1.0}


def _cell(entry: dict[str, float]) -> str:
    return f"{entry['mean']:.3g} ± {entry['sd']:.1g}" if entry["sd"] else f"{entry['mean']:.3g}"
