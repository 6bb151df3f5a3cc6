"""The plots of docs/benchmarks.md: targets, peers, and time over n. Drawn from results, nothing is measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import save_picture
from bench.secure_sketching import mp_spdz, runtime_tables
from bench.system import kernels, projections, scale
from bench.system.performance_goals import Results, all_goals

TARGETS, PEERS, GROWTH = "performance_targets", "performance_peers", "performance_growth"
_GOOD, _BAD = "#009e73", "#d55e00"
_COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00")


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the three PNGs; return where they are."""
    drawn = {TARGETS: _targets(results), PEERS: _peers(results), GROWTH: _growth(results)}
    paths = []
    for name, figure in drawn.items():
        paths.append(folder / f"{name}.png")
        save_picture(figure, paths[-1], 110)
    return paths


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns, squeeze=False).ravel()


def _targets(results: Results) -> Any:
    """Draw one bar for each target: the part of it that is met."""
    goals = [(part, goal) for part, of in all_goals(results).items() for goal in of if goal.share is not None]
    figure, (axis,) = _figure(13, 1.2 + 0.27 * len(goals))
    _bars(
        axis,
        [f"{part}: {goal.what}" for part, goal in goals],
        [goal.share for _, goal in goals],
        [f" {goal.figure:.2f} ({goal.wanted}) " for _, goal in goals],
    )
    axis.set(xlabel="part of the target that is met; the line is the target", title="Targets of speed")
    return figure


def _peers(results: Results) -> Any:
    """Draw one bar for each peer: its time over ours."""
    ratios = peer_ratios(results)
    figure, (axis,) = _figure(11, 1.2 + 0.3 * len(ratios))
    _bars(axis, list(ratios), list(ratios.values()), [f" {value:,.3g} " for value in ratios.values()])
    axis.set(xlabel="peer's time / ours; the line is equal time", title="Peers")
    return figure


def _bars(axis: Any, names: list[str], values: list[Any], labels: list[str]) -> None:
    """Draw bars from 1 to each value, on a logarithmic axis: to the right what is good, to the left what is not."""
    axis.set_xscale("log")
    colours = [_GOOD if value >= 1 else _BAD for value in values]
    bars = axis.barh(names, [value - 1 for value in values], left=1, color=colours)
    axis.bar_label(bars, labels, fontsize=8)
    axis.axvline(1, color="black", linewidth=1.2)
    axis.margins(x=0.2, y=0.01)
    axis.tick_params(axis="y", labelsize=8)
    axis.invert_yaxis()


def peer_ratios(results: Results) -> dict[str, float]:
    """Return the peer's median time over ours, by peer and job; MP-SPDZ's name says where its run is another."""
    at = kernels.HEADLINE
    shape = {"clients": at.clients, "columns": at.columns, "rows": at.rows, "sparsity": at.sparsity}
    seconds = next(entry["seconds"] for entry in results["kernels"]["measured"] if shape.items() <= entry.items())
    found = {
        f"kernel: {way}": of["median"] / seconds["ours"]["median"]
        for way, of in seconds.items()
        if not way.startswith(("ours", "read")) and not way.endswith("(wall)")
    }
    real = results["projections"]["cpu_s"]
    for way, of in real.items():
        if way != projections.OURS:
            found[f"real numbers: {way}"] = of["median"] / real[projections.OURS]["median"]
    for entry in results["dense"]["measured"]:
        for kind, ways in entry["cpu_s"].items():
            name = f"dense kernel, k = {entry['rows']}: GEMM, {kind}"
            found[name] = ways["stored"]["median"] / ways["ours"]["median"]
    table = results["table3"]
    for ratio, value in runtime_tables.ratios(table["measured"]).items():
        if ratio.startswith(("natural MPyC / transform", "scipy")):
            found[f"server: {ratio}"] = value
    label = mp_spdz_label(results)
    for pair in mp_spdz.pairs(results["mp_spdz"], table):
        if (pair.clients, pair.sparsity) == (at.clients, at.sparsity):
            for way, kind in (("transform", "vectorised"), ("loop", "plain loop")):
                found[f"server: {label}, {kind}"] = pair.theirs[way] / pair.ours["transform"]
    for entry in results["clients"]["noise"]:
        if entry["peer"] is not None:
            found[f"{entry['name']}: {entry['peer']}"] = entry["speed_over_peer"]
    return found


def _growth(results: Results) -> Any:
    """Draw CPU time over n: a server reading and transforming, then Table 3 beside MP-SPDZ."""
    figure, (left, right) = _figure(13, 5, columns=2)
    lines = [(way, phase) for way in ("array", "key") for phase in scale.PHASES]
    for (way, phase), colour in zip(lines, _COLOURS, strict=True):
        entries = results["scale"]["measured"][way]
        slope = results["scale"]["exponents"][way][phase]
        clients = [entry["clients"] for entry in entries]
        seconds = [entry[f"{phase}_cpu_s"]["median"] for entry in entries]
        name = f"{phase}, {'a file' if way == 'array' else 'a key'}: slope {slope:.2f}"
        left.plot(clients, seconds, "o-", color=colour, label=name, markersize=4)
    left.set(title="One server, one copy, s = 4")
    for sparsity, colour in zip((1, 4, 8), _COLOURS, strict=False):
        _ours_and_mp_spdz(right, results, sparsity, colour)
    right.set(title="Table 3: the transform, s copies, three servers")
    for axis in (left, right):
        axis.set(xscale="log", yscale="log", xlabel="n", ylabel="CPU seconds of a server")
        axis.grid(which="major", color="gainsboro", linewidth=0.6)
        axis.legend(frameon=False, fontsize=8)
    return figure


def _ours_and_mp_spdz(axis: Any, results: Results, sparsity: int, colour: str) -> None:
    ours = [entry for entry in results["table3"]["measured"] if entry["sparsity"] == sparsity]
    clients = [entry["clients"] for entry in ours]
    seconds = [entry["phases"]["transform"]["cpu_s"]["min"] for entry in ours]
    slope = np.polyfit(np.log(clients), np.log(seconds), 1)[0]
    axis.plot(clients, seconds, "o-", color=colour, label=f"s = {sparsity}: slope {slope:.2f}", markersize=4)
    theirs = {
        pair.clients: pair.theirs["transform"]
        for pair in mp_spdz.pairs(results["mp_spdz"], results["table3"])
        if pair.sparsity == sparsity
    }
    label = f"s = {sparsity}, {mp_spdz_label(results)}"
    axis.plot(list(theirs), list(theirs.values()), "x--", color=colour, label=label)


def mp_spdz_label(results: Results) -> str:
    """Name MP-SPDZ, and say where its figures are not of the same run or clock as ours."""
    return "MP-SPDZ (another run)" if results["mp_spdz"]["transcribed"] else "MP-SPDZ (on the clock)"
