"""The plots of a report, from the JSON contract's fields and the release; text beside each says the same."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dpmpc.data import Schema
from dpmpc.render.signal_and_noise import Signal
from dpmpc.results.drawing import COLOURS, figure, figures, inline, short

MOST_BARS = 25  # of the columns in a plot; the tables have all
MOST_COMPONENTS = 3
NORMAL_95 = 1.959963984540054  # quantile of the normal distribution for 95 %
_MOST_LOG = 30.0  # a ratio beyond is drawn at the end of the scale
_ROW, _MARGIN = 0.27, 0.8  # inches
PHASES = {"set-up": "setup_s", "verify": "verify_s", "read": "read_s", "transform": "transform_s", "open": "open_s"}
_PHASE_COLOURS = {"verify": "green", "read": "sky", "transform": "blue", "open": "orange", "waiting": "line"}


@dataclasses.dataclass(frozen=True)
class Plot:
    """A plot of a page."""

    title: str  # what is to be seen, and how to read it
    caption: str
    svg: Markup  # the drawing


def coefficients(result: Mapping[str, Any], schema: Schema) -> Plot:
    """Plot the effects of all features across their public bounds, with intervals where they are finite."""
    span = {column.name: column.upper - column.lower for column in schema.columns}
    target, fitted = result["target"], result["coefficients"]
    intervals = {
        name: (low, high) for name, (low, high) in result.get("confidence_intervals", {}).items() if low is not None
    }
    best = result["unpenalised_coefficients"] if intervals else fitted
    names = sorted(fitted, key=lambda name: -abs(best[name] * span[name]))[:MOST_BARS]
    unit = f"units of {short(target)}"
    with figure(_MARGIN + _ROW * len(names)) as drawn:
        axis = drawn.subplots()
        axis.axvline(0, color=COLOURS["muted"], linewidth=0.9)
        for row, name in enumerate(names):
            if intervals:
                ends = [end * span[name] for end in intervals[name]]
                axis.plot(ends, [row, row], color=COLOURS["blue"], linewidth=2.4, solid_capstyle="butt")
            axis.plot(best[name] * span[name], row, "o", color=COLOURS["blue"], markersize=5.5)
        _name_rows(axis, names)
        _label_values(axis, "")
        drawn.supxlabel(unit, fontsize=10)
        said = "; ".join(f"{name} {figures(best[name] * span[name])}" for name in names)
        svg = inline(drawn, "effects", "Effects of the features", f"In {unit}: {said}.")
    bars = f" Bars: {100 * result['confidence_level']:g}\u00a0% confidence intervals." if intervals else ""
    rest = "" if len(names) == len(fitted) else f" The {len(names)} largest of {len(fitted)} are shown."
    return Plot(
        f"Association with {target} (not causal)",
        f"By how much the predicted {target} changes when one column goes from the lower to the upper end of its "
        f"public bounds: its coefficient{' without penalty' if intervals else ''} times the length of the bounds, in "
        f"units of {target}.{bars}{rest}",
        svg,
    )


def ratios(result: Mapping[str, Any], schema: Schema, ratio: str) -> Plot:
    """Plot the ratios of all features across their public bounds, on a log scale, with intervals where known."""
    span = {column.name: column.upper - column.lower for column in schema.columns}
    fitted, intervals = result["coefficients"], result["confidence_intervals"] or {}
    names = sorted(fitted, key=lambda name: -abs(fitted[name] * span[name]))[:MOST_BARS]
    with figure(_MARGIN + _ROW * len(names)) as drawn:
        axis = drawn.subplots()
        axis.axvline(1, color=COLOURS["muted"], linewidth=0.9)
        axis.set_xscale("log")
        for row, name in enumerate(names):
            if name in intervals:
                ends = [_ratio(end * span[name]) for end in intervals[name]]
                axis.plot(ends, [row, row], color=COLOURS["blue"], linewidth=2.4, solid_capstyle="butt")
            axis.plot(_ratio(fitted[name] * span[name]), row, "o", color=COLOURS["blue"], markersize=5.5)
        _name_rows(axis, names)
        axis.xaxis.set_major_formatter(lambda value, _: figures(value, 2))
        axis.xaxis.set_minor_formatter(lambda value, _: "")
        axis.grid(axis="x")
        drawn.supxlabel(f"{ratio} ratio, log scale", fontsize=10)
        said = "; ".join(f"{name} {figures(_ratio(fitted[name] * span[name]))}" for name in names)
        svg = inline(drawn, "effects", f"{ratio.capitalize()} ratios of the features", f"{said}.")
    bars = f" Bars: {100 * result['confidence_level']:g}\u00a0% confidence intervals." if intervals else ""
    rest = "" if len(names) == len(fitted) else f" The {len(names)} largest of {len(fitted)} are shown."
    return Plot(
        f"Association with {result['target']} (not causal)",
        f"By what factor the {ratio} of {result['target']} change when one column goes from the lower to the upper end "
        f"of its public bounds.{bars}{rest}",
        svg,
    )


def _ratio(logarithm: float) -> float:
    return math.exp(min(max(logarithm, -_MOST_LOG), _MOST_LOG))


def components(result: Mapping[str, Any]) -> Plot:
    """Plot the entries of the first components, side by side."""
    shown = result["components"][:MOST_COMPONENTS]
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
    more = "" if len(shown) == len(result["components"]) else f" The first {len(shown)} of {len(result['components'])}."
    return Plot(
        "Directions that keep most",
        "Each component is a direction of length 1 in the space of the columns mapped to [−1, 1]; columns with long "
        f"bars of one colour go together. The sign of a whole component has no meaning.{more}{rest}",
        svg,
    )


def moment(result: Mapping[str, Any]) -> Plot:
    """Plot the estimate and how far off it may be."""
    value, error = result["moment"], result["standard_error"]
    with figure(1.25) as drawn:
        axis = drawn.subplots()
        for reach, width in ((NORMAL_95, 2.4), (1.0, 7.0)):
            ends = [value - reach * error, value + reach * error]
            axis.plot(
                ends, [0, 0], color=COLOURS["sky" if width > 5 else "blue"], linewidth=width, solid_capstyle="butt"
            )
        axis.plot(value, 0, "o", color=COLOURS["blue"], markersize=7)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.set_xlim(value - 3 * error, value + 3 * error)
        _label_values(axis, f"estimate, {moment_unit(result)}")
        said = f"{figures(value, 6)}, standard error {figures(error)}, in {moment_unit(result)}."
        svg = inline(drawn, "moment", "The estimate", said)
    return Plot(
        "The estimate", "Thick bar: one standard error to each side. Thin bar: 95\u00a0% confidence interval.", svg
    )


def moment_unit(result: Mapping[str, Any]) -> str:
    """Return the unit of a moment, in words."""
    if result["of"] == "items":
        return "people squared"
    return f"units of {short(result['column'])}" + ("" if result["order"] == 1 else f" to the power {result['order']}")


def noise(found: Signal) -> Plot:
    """Plot the size of the noise and of what is left without it, for each column."""
    names = list(found.signal)[:MOST_BARS]
    with figure(_MARGIN + 0.35 + _ROW * max(len(names), 2)) as drawn:
        axis = drawn.subplots()
        for row, name in enumerate(names):
            size = found.signal[name] or math.nan
            axis.plot([found.noise[name], size], [row, row], color=COLOURS["line"], linewidth=3, zorder=1)
            axis.plot(
                found.noise[name], row, "s", color=COLOURS["orange"], markersize=6, label="noise" if not row else None
            )
            axis.plot(size, row, "o", color=COLOURS["blue"], markersize=6.5, label="signal" if not row else None)
        _name_rows(axis, names)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: figures(value, 1))
        axis.xaxis.set_minor_formatter(lambda value, _: "")
        sizes = [*found.noise.values(), *(value for value in found.signal.values() if value > 0)]
        axis.set_xlim(10 ** math.floor(math.log10(min(sizes))) / 1.3, 10 ** math.ceil(math.log10(max(sizes))) * 1.3)
        drawn.supxlabel(f"{found.unit}, log scale", fontsize=10)
        axis.grid(axis="x")
        drawn.legend(loc="outside upper right", ncols=2, frameon=False, handletextpad=0.2)
        said = "; ".join(f"{name} {figures(found.ratio(name))}" for name in names)
        svg = inline(drawn, "noise", "Signal over noise", f"Signal divided by noise: {said}.")
    weakest = min(found.signal, key=found.ratio)
    word = "The weakest" if len(found.signal) > 1 else "The signal"
    tail = f" ({weakest})" if len(found.signal) > 1 else ""
    return Plot(
        "Noise against signal",
        f"Root mean square of the {found.entries}: of the noise that was added, and of what is left without it. "
        f"{word}{tail} is {figures(found.ratio(weakest), 2)} times the noise.",
        svg,
    )


def timeline(servers: Sequence[Mapping[str, Any]]) -> Plot:
    """Plot the seconds of each server, phase after phase."""
    names = [f"server {entry['server']}" for entry in servers]
    lengths = [phase_seconds(entry) for entry in servers]
    with figure(_MARGIN + 0.35 + 0.34 * len(servers)) as drawn:
        set_up, work = drawn.subplots(1, 2, sharey=True, width_ratios=(2, 3))
        set_up.barh(range(len(servers)), [entry["set-up"] for entry in lengths], height=0.6, color=COLOURS["muted"])
        begins = [0.0] * len(servers)
        for phase, colour in _PHASE_COLOURS.items():
            if not all(phase in entry for entry in lengths):
                continue
            values = [entry[phase] for entry in lengths]
            work.barh(range(len(servers)), values, left=begins, height=0.6, color=COLOURS[colour], label=phase)
            begins = [begin + value for begin, value in zip(begins, values, strict=True)]
        for axis, unit, marks in ((set_up, "set-up, s", 2), (work, "then, s", 4)):
            _name_rows(axis, names)
            _label_values(axis, unit, marks)
            axis.set_xlim(0, None)
        drawn.legend(
            loc="outside upper right", ncols=4, frameon=False, handlelength=1, columnspacing=1, handletextpad=0.4
        )
        said = "; ".join(
            f"{name}: " + ", ".join(f"{phase} {figures(seconds)} s" for phase, seconds in entry.items())
            for name, entry in zip(names, lengths, strict=True)
        )
        svg = inline(drawn, "timeline", "Seconds of each server", f"{said}.")
    return Plot(
        "Timeline of the servers",
        "Wall-clock seconds. Set-up, on a scale of its own, ends when all are connected; waiting is the rest, most of "
        "it for the others.",
        svg,
    )


def phase_seconds(server: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of each phase, set-up first, and what is left of the time after set-up."""
    seconds = {phase: float(server[field]) for phase, field in PHASES.items() if field in server}
    worked = sum(seconds.values()) - seconds["set-up"]
    return {**seconds, "waiting": max(float(server["total_s"]) - worked, 0.0)}


def _name_rows(axis: Any, names: Sequence[str]) -> None:
    """Name rows from top to bottom."""
    axis.set_yticks(range(len(names)), [short(name) for name in names])
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)


def _label_values(axis: Any, unit: str, marks: int = 5) -> None:
    axis.locator_params(axis="x", nbins=marks)
    axis.xaxis.set_major_formatter(lambda value, _: figures(value, 6))
    axis.set_xlabel(unit)
    axis.grid(axis="x")
