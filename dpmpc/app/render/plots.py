"""Plots of plain numbers in the look of a report; the text beside each states the same."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dpmpc.app.render.drawing import COLOURS, figure, figures, inline
from dpmpc.base.arguments import require_choice
from dpmpc.release.results.number_tables import short, short_names
from dpmpc.release.results.plot_data import Effects, PlotData, Steps

MOST_BARS = 25  # of the columns in a plot; the tables have all
MOST_COMPONENTS = 3
_MOST_LOG = 30.0  # a ratio beyond is drawn at the end of the scale
_TOLD, _DEEPEST = 2.0, 8.0  # standard errors from which a cell of a heat map has a colour, and the deepest one
_MOST_LETTERS = 30  # of names side by side under a plot
_ROW, _MARGIN = 0.27, 0.8  # inches
_CURVE_COLOURS = ("blue", "orange", "green", "purple", "sand", "sky")
_RATIOS, _FEW_RATIOS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), 20.0  # marks of ratios that are near each other
_AT_RISK = 6  # times under a survival curve


@dataclasses.dataclass(frozen=True)
class Plot:
    """A plot of a page."""

    title: str  # what is to be seen, and how to read it
    caption: str
    svg: Markup  # the drawing


def effects(found: Effects) -> Plot:
    """Plot the effects of all features, with intervals where they are finite; ratios on a log scale."""
    names = sorted(found.values, key=lambda name: -abs(found.values[name] * found.spans[name]))[:MOST_BARS]
    shown = {name: _shown(found, found.values[name] * found.spans[name]) for name in names}
    unit = f"units of {short(found.target)}" if found.ratio is None else f"{found.ratio} ratio"
    with figure(_MARGIN + _ROW * len(names)) as drawn:
        axis = drawn.subplots()
        axis.axvline(_shown(found, 0.0), color=COLOURS["muted"], linewidth=0.9)
        if found.ratio is not None:
            axis.set_xscale("log")
        for row, name in enumerate(names):
            if name in found.intervals:
                ends = [_shown(found, end * found.spans[name]) for end in found.intervals[name]]
                axis.plot(ends, [row, row], color=COLOURS["blue"], linewidth=2.4, solid_capstyle="butt")
            axis.plot(
                _shown(found, found.values[name] * found.spans[name]), row, "o", color=COLOURS["blue"], markersize=5.5
            )
        _name_rows(axis, names)
        if found.ratio is None:
            _label_values(axis, "")
        else:
            axis.xaxis.set_major_formatter(lambda value, _: figures(value, 2))
            axis.xaxis.set_minor_formatter(lambda value, _: "")
            low, high = axis.get_xlim()
            if high / low < _FEW_RATIOS:  # powers of ten alone would leave one mark or two
                axis.set_xticks([mark for mark in _RATIOS if low <= mark <= high])
            axis.grid(axis="x")
        drawn.supxlabel(unit if found.ratio is None else f"{unit}, log scale", fontsize=10)
        said = "; ".join(f"{name} {figures(shown[name])}" for name in names)
        title = (
            "Effects of the features" if found.ratio is None else f"{found.ratio.capitalize()} ratios of the features"
        )
        svg = inline(drawn, "effects", title, f"In {unit}: {said}." if found.ratio is None else f"{said}.")
    bars = f" Bars: {100 * found.level:g}\u00a0% confidence intervals." if found.intervals else ""
    rest = "" if len(names) == len(found.values) else f" The {len(names)} largest of {len(found.values)} are shown."
    return Plot(f"Association with {found.target} (not causal)", f"{found.caption or _caption(found)}{bars}{rest}", svg)


def _caption(found: Effects) -> str:
    """Return what the effects of a regression are."""
    if found.ratio is not None:
        return (
            f"By what factor the {found.ratio} of {found.target} change when one column goes from the lower to the "
            "upper end of its public bounds."
        )
    penalty = " without penalty" if found.unpenalised else ""
    return (
        f"By how much the predicted {found.target} changes when one column goes from the lower to the upper end of "
        f"its public bounds: its coefficient{penalty} times the length of the bounds, in units of {found.target}."
    )


def _shown(found: Effects, effect: float) -> float:
    """Return an effect, or the ratio that it is the logarithm of."""
    return effect if found.ratio is None else math.exp(min(max(effect, -_MOST_LOG), _MOST_LOG))


def components(rows: Sequence[Mapping[str, float]]) -> Plot:
    """Plot the entries of the first components, side by side."""
    shown = rows[:MOST_COMPONENTS]
    names = list(shown[0])[:MOST_BARS]
    with figure(_MARGIN + 0.3 + _ROW * len(names)) as drawn:
        axes = drawn.subplots(1, len(shown), sharey=True, sharex=True, squeeze=False)[0]
        for number, (axis, row) in enumerate(zip(axes, shown, strict=True), 1):
            values = [row[name] for name in names]
            shades = [COLOURS["blue"] if value >= 0 else COLOURS["orange"] for value in values]
            axis.barh(range(len(names)), values, color=shades, height=0.62)
            axis.axvline(0, color=COLOURS["muted"], linewidth=0.9)
            axis.set_title(f"component {number}", fontsize=10, color=COLOURS["ink"])
            axis.set_xlim(-1, 1)
            axis.set_xticks([-1, 0, 1], ["−1", "0", "1"])
            axis.grid(axis="x")
            _name_rows(axis, names)
        drawn.supxlabel("entry, no unit", fontsize=10)
        said = "; ".join(
            f"component {number}: " + ", ".join(f"{name} {figures(row[name])}" for name in names)
            for number, row in enumerate(shown, 1)
        )
        svg = inline(drawn, "components", "Entries of the components", f"{said}.")
    rest = "" if len(names) == len(shown[0]) else f" The first {len(names)} of {len(shown[0])} columns are shown."
    more = "" if len(shown) == len(rows) else f" The first {len(shown)} of {len(rows)}."
    return Plot(
        "Directions that keep most",
        "Each component is a direction of length 1 in the space of the columns mapped to [−1, 1]; columns with long "
        f"bars of one colour go together. The sign of a whole component has no meaning.{more}{rest}",
        svg,
    )


def intervals(title: str, caption: str, found: Mapping[str, tuple[float, float, float]], level: float) -> Plot:
    """Plot estimates of one unit beside 0; each has a lower and an upper end."""
    shown = dict(list(found.items())[:MOST_BARS])
    with figure(_MARGIN + _ROW * len(shown)) as drawn:
        axis = drawn.subplots()
        axis.axvline(0.0, color=COLOURS["muted"], linewidth=0.9)
        for row, (value, low, high) in enumerate(shown.values()):
            axis.plot([low, high], [row, row], color=COLOURS["blue"], linewidth=2.4, solid_capstyle="butt")
            axis.plot(value, row, "o", color=COLOURS["blue"], markersize=5.5)
        _name_rows(axis, list(shown))
        _label_values(axis, "")
        said = "; ".join(
            f"{name} {figures(one[0])}, {figures(one[1])} to {figures(one[2])}" for name, one in shown.items()
        )
        svg = inline(drawn, "intervals", title, f"{said}.")
    rest = "" if len(shown) == len(found) else f" The first {len(shown)} of {len(found)} are shown."
    return Plot(title, f"{caption} Bars: {100 * level:g}\u00a0% confidence intervals.{rest}", svg)


def spread(
    name: str,
    ends: Sequence[float],
    parts: Sequence[float],
    rows: Mapping[str, tuple[float, float, Sequence[float]]],
    level: float,
    *,
    logarithmic: bool = False,
) -> Plot:
    """Plot a histogram, and below it, for each row, a box of the quartiles with the median and its interval."""
    shown = dict(list(rows.items())[:MOST_BARS])
    with figure(_MARGIN + 1.1 + _ROW * max(len(shown), 2)) as drawn:
        top, axis = drawn.subplots(2, 1, sharex=True, height_ratios=(1.0, _ROW * max(len(shown), 2)))
        widths = [high - low for low, high in itertools.pairwise(ends)]
        densities = [part / width for part, width in zip(parts, widths, strict=True)]
        top.bar(ends[:-1], densities, width=widths, align="edge", color=COLOURS["sky"], linewidth=0)
        top.set_yticks([])
        top.spines["left"].set_visible(False)
        for row, (low, high, (value, lower, upper)) in enumerate(shown.values()):
            axis.plot([low, high], [row, row], color=COLOURS["sky"], linewidth=7, solid_capstyle="butt")
            axis.plot([lower, upper], [row, row], color=COLOURS["blue"], linewidth=2.4, solid_capstyle="butt")
            axis.plot(value, row, "o", color=COLOURS["blue"], markersize=5.5)
        _name_rows(axis, list(shown))
        if logarithmic:
            axis.set_xscale("log")
            marks = [ends[0] * (ends[-1] / ends[0]) ** (place / 3) for place in range(4)]
            axis.set_xticks(marks, [figures(mark, 2) for mark in marks])
            axis.set_xticks([], minor=True)
            axis.grid(axis="x")
        else:
            _label_values(axis, "")
        drawn.supxlabel(short(name), fontsize=10)
        told = {label: row for label, row in shown.items() if math.isfinite(row[2][0])}
        said = "; ".join(
            f"{label} median {figures(middle[0])}, quartiles {figures(low)} and {figures(high)}"
            for label, (low, high, middle) in told.items()
        )
        svg = inline(drawn, _identifier("spread", name), f"Distribution of {name}", f"{said or 'Nothing is shown'}.")
    return Plot(
        f"Distribution of {name}",
        "Above: all people. Below: median (dot) with its "
        f"{100 * level:g}\u00a0% confidence interval (thin bar), and from quartile to quartile (thick bar). A row is "
        "empty where the noise hides it.",
        svg,
    )


def shares(name: str, rows: Mapping[str, tuple[float, float, float]], *, by: str | None, level: float) -> Plot:
    """Plot percentages, each with the ends of its interval."""
    shown = dict(list(rows.items())[:MOST_BARS])
    with figure(_MARGIN + _ROW * max(len(shown), 2)) as drawn:
        axis = drawn.subplots()
        for row, (value, low, high) in enumerate(shown.values()):
            axis.plot([low, high], [row, row], color=COLOURS["blue"], linewidth=2.4, solid_capstyle="butt")
            axis.plot(value, row, "o", color=COLOURS["blue"], markersize=5.5)
        _name_rows(axis, list(shown))
        _label_values(axis, "%")
        said = "; ".join(f"{label} {figures(value)}" for label, (value, _, _) in shown.items() if math.isfinite(value))
        svg = inline(drawn, _identifier("shares", name), f"Shares of {name}", f"In per cent: {said or 'nothing'}.")
    rest = "" if len(shown) == len(rows) else f" The first {len(shown)} of {len(rows)} are shown."
    return Plot(
        f"Shares of {name}",
        f"Per cent of the people{'' if by is None else f' in each group of {by}'}, with {100 * level:g}\u00a0% "
        f"confidence intervals. A row is empty where the noise hides it.{rest}",
        svg,
    )


def survival(name: str, curves: Sequence[Steps], ends: tuple[float, float], level: float) -> Plot:
    """Plot survival curves with their bands, where each ends, and below them the people at risk."""
    shown = curves[: len(_CURVE_COLOURS)]
    with figure(2.7 + 0.24 * len(shown)) as drawn:
        axis = drawn.subplots()
        labels = short_names([curve.name for curve in shown])
        for curve, colour, label in zip(shown, _CURVE_COLOURS, labels, strict=False):
            times, values = [ends[0], *curve.times], [1.0, *curve.survival]
            lower, upper = ([1.0, *side] for side in curve.band)
            axis.fill_between(times, lower, upper, step="post", color=COLOURS[colour], alpha=0.18, linewidth=0)
            axis.step(times, values, where="post", color=COLOURS[colour], linewidth=1.8, label=label)
            if times[-1] < ends[1]:
                axis.plot(times[-1], values[-1], "|", color=COLOURS[colour], markersize=11, markeredgewidth=2)
        axis.set_xlim(*ends)
        axis.set_ylim(0, 1.02)
        axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
        axis.set_ylabel("% without the event")
        _label_values(axis, "", _AT_RISK - 1)
        marks = [mark for mark in axis.get_xticks() if ends[0] <= mark <= ends[1]]
        for row, (curve, colour) in enumerate(zip(shown, _CURVE_COLOURS, strict=False)):
            for mark in marks:
                axis.annotate(
                    _at_risk(curve, mark),
                    (mark, 0),
                    xycoords=("data", "axes fraction"),
                    xytext=(0, -32 - 15 * row),
                    textcoords="offset points",
                    ha="center",
                    fontsize=9,
                    color=COLOURS[colour],
                )
        drawn.supxlabel(short(name), fontsize=10)
        if len(shown) > 1:
            drawn.legend(loc="outside upper right", ncols=3, frameon=False, handlelength=1, handletextpad=0.4)
        said = "; ".join(
            f"{curve.name}: {figures(100 * curve.survival[-1])} % at {figures(curve.times[-1])}, where the curve ends"
            for curve in shown
        )
        svg = inline(drawn, _identifier("survival", name), "Survival curves", f"{said}.")
    rest = "" if len(shown) == len(curves) else f" The first {len(shown)} of {len(curves)} are shown."
    noisy = figures(max(curve.error for curve in shown), 2)
    return Plot(
        "Survival curves",
        f"Kaplan-Meier curves with {100 * level:g}\u00a0% bands, each of which covers its whole curve at once. Below "
        f"the axis: people at risk, with noise of standard error {noisy} at most, and rounded. A curve that ends at a "
        f"bar cannot be shown from there on: too few people are at risk.{rest}",
        svg,
    )


def _at_risk(curve: Steps, mark: float) -> str:
    """Return the number at risk at a time, rounded to what the noise leaves of it, or a dash beyond the curve."""
    if mark > curve.times[-1]:
        return "–"
    place = sum(time <= mark for time in curve.times)
    unit = 10 ** max(math.floor(math.log10(curve.error)), 0) if curve.error > 0 else 1
    return f"{max(round(curve.at_risk[place] / unit) * unit, 0):,}"


def heat_map(title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]) -> Plot:
    """Plot how far each count is from independence, in standard errors; empty within 2 of them."""
    rows, columns = rows[:MOST_BARS], columns[:MOST_BARS]
    marked: list[str] = []
    with figure(_MARGIN + 0.2 + _ROW * len(rows)) as drawn:
        axis = drawn.subplots()
        for row, name in enumerate(rows):
            for column, other in enumerate(columns):
                value = values[row][column]
                place, colour = (column - 0.5, row - 0.5), COLOURS["blue" if value > 0 else "orange"]
                if abs(value) >= _TOLD:
                    marked.append(f"{name}, {other} {figures(value, 2)}")
                    depth = 0.25 + 0.6 * min((abs(value) - _TOLD) / (_DEEPEST - _TOLD), 1.0)
                    axis.add_patch(_square(place, color=colour, alpha=depth, linewidth=0))
                axis.add_patch(_square(place, fill=False, edgecolor=COLOURS["line"], linewidth=0.6))
        _name_rows(axis, rows)
        axis.set_xlim(-0.5, len(columns) - 0.5)
        turned = 90 if len(columns) * max(map(len, short_names(columns))) > _MOST_LETTERS else 0
        axis.set_xticks(range(len(columns)), short_names(columns), rotation=turned)
        axis.tick_params(axis="x", length=0)
        axis.spines["bottom"].set_visible(False)
        svg = inline(drawn, "departure", title, f"{'; '.join(marked) or 'No cell is beyond 2 standard errors'}.")
    return Plot(
        title,
        "Blue: more people than if the two were independent; orange: fewer. Deeper: more standard errors, from 2 on; "
        "empty within 2, as chance leaves 19 of 20 cells. The table has the numbers.",
        svg,
    )


def _square(place: tuple[float, float], **look: Any) -> Any:
    """Return a cell of a heat map."""
    from matplotlib.patches import Rectangle

    return Rectangle(place, 1.0, 1.0, **look)


def _identifier(kind: str, name: str) -> str:
    """Return what ids in a drawing begin with: letters and digits, other for each name."""
    return f"{kind}-{name.encode().hex()}"


def _name_rows(axis: Any, names: Sequence[str]) -> None:
    """Name rows from top to bottom."""
    axis.set_yticks(range(len(names)), short_names(names))
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)


def _label_values(axis: Any, unit: str, marks: int = 5) -> None:
    axis.locator_params(axis="x", nbins=marks)
    axis.xaxis.set_major_formatter(lambda value, _: figures(value, 6))
    axis.set_xlabel(unit)
    axis.grid(axis="x")


#: The kinds of plots, by the names that `PlotData` has for them.
KINDS: dict[str, Callable[..., Plot]] = {
    "effects": effects,
    "components": components,
    "intervals": intervals,
    "spread": spread,
    "shares": shares,
    "survival": survival,
    "heat-map": heat_map,
}


def draw(data: PlotData) -> Plot:
    """Draw the plot of some numbers.

    Raises
    ------
    InputError
        If its kind is none of `KINDS`.
    """
    return KINDS[require_choice("kind", data.kind, tuple(KINDS))](**data.arguments)
