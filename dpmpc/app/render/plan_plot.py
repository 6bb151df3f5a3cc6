"""`dpmpc plan --plot`: expected error over the number of clients and over epsilon, and where options cross rivals.

What is drawn is `dpmpc.release.planning.prediction` for the assumed population. A crossing is where an option begins to
beat what ignores the data, or the local model; those over the clients are exact, those over epsilon within 0.1 %.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpmpc.app.render.drawing import COLOURS, figure, figures, save
from dpmpc.release.planning.advice import ReleaseAdvice, ReleaseOption
from dpmpc.release.planning.prediction import Scenario, UtilityMetric, error_of

POINTS = 61
_SPAN = 30.0  # epsilon is drawn from a thirtieth to thirty times the plan's
_CLOSE = 1.001  # ratio of the ends between which a crossing over epsilon lies
_TALLEST, _HEADROOM, _LOWEST = 1e3, 1e2, 1e-8  # times the error of what ignores the data: outside nobody looks
_LOOKS: Mapping[tuple[str, str], dict[str, Any]] = {
    ("sum", "clients"): {"color": COLOURS["blue"]},
    ("sum", "servers"): {"color": COLOURS["green"], "dashes": (5, 1.5)},
    ("sketch", "clients"): {"color": COLOURS["orange"]},
    ("sketch", "servers"): {"color": COLOURS["purple"], "dashes": (5, 1.5)},
}
_MARKS: Mapping[str, dict[str, Any]] = {
    "trivial": {"marker": "o", "markersize": 5},
    "local": {"marker": "o", "markersize": 9, "markerfacecolor": "none", "markeredgewidth": 1.5},
}
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # behind numbers that stand on lines
_SYMBOLS = {"phi": "φ − 1", "psi": "ψ"}


@dataclasses.dataclass(frozen=True)
class Crossing:
    """Where an option begins to beat a rival; nowhere in the plot if `at` is None."""

    release: str
    noise_by: str
    rival: str
    at: float | None


@dataclasses.dataclass(frozen=True)
class Panel:
    """Expected errors over one quantity."""

    label: str  # of the quantity
    x: list[float]  # where the errors are computed
    here: float  # the plan's own value
    # (release, noise_by) -> phi or psi at each x; infinite where it is impossible
    errors: dict[tuple[str, str], list[float]]
    local: list[float]  # the same of the rivals
    trivial: list[float]
    crossings: list[Crossing]  # of every option with each rival


def over_clients(scenario: Scenario, metric: UtilityMetric, options: Sequence[ReleaseOption]) -> Panel:
    """Compute expected errors over the number of clients, up to the most that delta allows."""
    crossings = [
        Crossing(option.release, option.noise_by, rival, at)
        for option in options
        for rival, at in (("trivial", option.beats_trivial_from), ("local", option.beats_local_from))
    ]
    marked = [scenario.clients, *(crossing.at for crossing in crossings if crossing.at is not None)]
    low = max(2 * scenario.columns, min(marked) // 5)
    high = min(scenario.largest_batch, 5 * max(marked))
    sizes = sorted({round(size) for size in np.geomspace(low, max(high, low + 1), POINTS).tolist()})
    scenarios = [dataclasses.replace(scenario, clients=size) for size in sizes]
    return _panel(
        "clients, n", [float(size) for size in sizes], scenario.clients, scenarios, metric, options, crossings
    )


def over_epsilon(scenario: Scenario, metric: UtilityMetric, options: Sequence[ReleaseOption]) -> Panel:
    """Compute expected errors over epsilon."""
    budgets = np.geomspace(scenario.epsilon / _SPAN, scenario.epsilon * _SPAN, POINTS).tolist()
    crossings = [
        Crossing(
            option.release,
            option.noise_by,
            rival,
            _first_epsilon(scenario, metric, option, rival, budgets[0], budgets[-1]),
        )
        for option in options
        for rival in ("trivial", "local")
    ]
    scenarios = [dataclasses.replace(scenario, epsilon=budget) for budget in budgets]
    return _panel("privacy loss, ε", budgets, scenario.epsilon, scenarios, metric, options, crossings)


def write_plot(path: Path, advice: ReleaseAdvice) -> None:
    """Draw the plan's errors into an SVG or PNG file, whole or not at all."""
    metric, scenario, options = advice.metric, advice.scenario, advice.options
    panels = {
        f"At ε = {figures(scenario.epsilon)}, δ = {figures(scenario.delta)}": over_clients(scenario, metric, options),
        f"With {scenario.clients:,} clients, δ = {figures(scenario.delta)}": over_epsilon(scenario, metric, options),
    }
    with figure(9.4, width=6.4) as drawn:
        axes = drawn.subplots(2, 1)
        for axis, (title, panel) in zip(axes, panels.items(), strict=True):
            _draw(axis, panel, metric)
            axis.set_title(title, loc="left", fontsize=11)
        for rival, name in (("trivial", metric.nothing), ("local", "the local model")):
            axes[0].plot([], [], color=COLOURS["ink"], linestyle="", label=f"begins to beat {name}", **_MARKS[rival])
        handles, labels = axes[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False)
        drawn.suptitle(f"Expected error of a release of {scenario.columns} columns, {_purpose(metric)}", fontsize=13)
        save(drawn, path)


def _panel(
    label: str,
    x: list[float],
    here: float,
    scenarios: Sequence[Scenario],
    metric: UtilityMetric,
    options: Sequence[ReleaseOption],
    crossings: list[Crossing],
) -> Panel:
    return Panel(
        label,
        x,
        here,
        {(option.release, option.noise_by): [_error(option, at, metric) for at in scenarios] for option in options},
        [metric.local(at) for at in scenarios],
        [metric.trivial(at) for at in scenarios],
        crossings,
    )


def _error(option: ReleaseOption, scenario: Scenario, metric: UtilityMetric) -> float:
    return error_of(option.release, dataclasses.replace(scenario, noise_by=option.noise_by), metric)


def _first_epsilon(
    scenario: Scenario, metric: UtilityMetric, option: ReleaseOption, rival: str, low: float, high: float
) -> float | None:
    """Find the smallest epsilon drawn at which an option beats its rival; None if it does so everywhere or nowhere."""
    rivals: dict[str, Callable[[Scenario], float]] = {"trivial": metric.trivial, "local": metric.local}

    def beats(epsilon: float) -> bool:
        at = dataclasses.replace(scenario, epsilon=epsilon)
        return _error(option, at, metric) < rivals[rival](at)

    if beats(low) or not beats(high):
        return None
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if beats(middle) else (middle, high)
    return high


def _purpose(metric: UtilityMetric) -> str:
    return {"ridge": "ridge regression", "low-rank": "low-rank approximation"}[metric.purpose]


def _draw(axis: Any, panel: Panel, metric: UtilityMetric) -> None:
    """Draw the lines, the plan's own place, and the crossings with their values."""
    for option, errors in panel.errors.items():
        axis.plot(
            panel.x,
            _excess(errors, metric),
            label=f"{option[0]}, noise by {option[1]}",
            linewidth=1.8,
            **_LOOKS[option],
        )
    axis.plot(panel.x, _excess(panel.local, metric), "-.", color=COLOURS["sand"], label="local model", linewidth=1.8)
    axis.plot(panel.x, _excess(panel.trivial, metric), ":", color=COLOURS["ink"], label=metric.nothing, linewidth=1.8)
    axis.axvline(panel.here, color=COLOURS["muted"], linewidth=0.8, dashes=(2, 2))
    axis.set(xscale="log", yscale="log", xlim=(panel.x[0], panel.x[-1]), xlabel=panel.label)
    axis.set_ylabel(f"expected {_SYMBOLS[metric.symbol]}, 0 = optimal")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(lambda value, _: figures(value, 1, smallest=0.01))
        side.set_minor_formatter(lambda value, _: "")
    worst = panel.trivial[0] - metric.optimum
    low, high = axis.get_ylim()
    axis.set_ylim(max(low, _LOWEST * worst), min(max(high, _HEADROOM * worst), _TALLEST * worst))
    axis.grid(which="major")
    place = {"transform": axis.get_xaxis_transform(), "rotation": 90, "ha": "right", "va": "center", "bbox": _PAPER}
    axis.text(panel.here, 0.45, "this plan", color=COLOURS["muted"], **place)
    for crossing in panel.crossings:
        _mark(axis, panel, crossing, metric)


def _mark(axis: Any, panel: Panel, crossing: Crossing, metric: UtilityMetric) -> None:
    """Circle a crossing, and write its value at the edge: below for ignoring the data, above for the local model."""
    if crossing.at is None or not panel.x[0] <= crossing.at <= panel.x[-1]:
        return
    below = crossing.rival == "trivial"
    rival = _excess(panel.trivial if below else panel.local, metric)
    height = math.exp(np.interp(math.log(crossing.at), np.log(panel.x), np.log(rival)))
    colour = _LOOKS[crossing.release, crossing.noise_by]["color"]
    edge = axis.get_ylim()[0 if below else 1]
    axis.plot([crossing.at, crossing.at], [height, edge], color=colour, linewidth=0.8, zorder=1.5)
    axis.plot(crossing.at, height, color=colour, zorder=4, **_MARKS[crossing.rival])
    axis.annotate(
        f"{crossing.at:,}" if isinstance(crossing.at, int) else figures(crossing.at),
        (crossing.at, edge),
        xytext=(0, 5 if below else -5),
        textcoords="offset points",
        rotation=90,
        ha="center",
        va="bottom" if below else "top",
        color=colour,
        fontsize=9,
        bbox=_PAPER,
        zorder=5,
    )


def _excess(errors: Sequence[float], metric: UtilityMetric) -> list[float]:
    """Return how far errors are above the optimum; NaN, which is not drawn, where that is impossible or 0."""
    return [value - metric.optimum if math.isfinite(value) and value > metric.optimum else math.nan for value in errors]
