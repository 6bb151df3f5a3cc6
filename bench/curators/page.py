"""The page and the plot of `central`, drawn from the stored results alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bench.charts import require_plots
from bench.curators.names import (
    ADASSP,
    BOOSTED,
    DESCENT,
    HESSIAN,
    MIXING,
    OBJECTIVE,
    OURS,
    PEERS,
    SUM,
    THRICE,
    TUKEY,
    TWO_ROUNDS,
)
from bench.harness import markdown

Cell = dict[str, Any]

STYLES = {
    SUM: ("#009e73", "X", 2.2),
    TWO_ROUNDS: ("#004d38", "P", 1.4),
    ADASSP: ("#0072b2", "o", 1.2),
    BOOSTED: ("#56b4e9", "s", 1.2),
    MIXING: ("#8c510a", "^", 1.2),
    HESSIAN: ("#d55e00", "v", 1.2),
    THRICE: ("#f4a582", "1", 1.0),
    OBJECTIVE: ("#cc79a7", "D", 1.2),
    DESCENT: ("#882255", "<", 1.2),
    TUKEY: ("#e69f00", ">", 1.2),
}
TUNED = (BOOSTED, HESSIAN, DESCENT, TUKEY)  # on the rows, for free
CLEARLY = 2  # standard errors of the difference


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    sets, epsilons = content["sets"], content["epsilons"]
    lines = ["# Our sums beside a trusted curator's methods", "", *_introduction(content), "", _bounds(sets), ""]
    for name, found in sets.items():
        methods = [method for method in (*OURS, *PEERS) if method in found["cells"]]
        rows = [
            [method, *(_written(cell) for cell in found["cells"][method])]
            for method in methods
            if any(found["cells"][method])
        ]
        rows.append(["ridge without privacy, α = 1", *([f"{found['no privacy']:.2g}"] * len(epsilons))])
        lines += [f"## {name}", "", markdown(["", *(f"ε = {epsilon:g}" for epsilon in epsilons)], rows), ""]
        if len(rows) - 1 < len(methods):
            lines += [f"{TUKEY} does not fit: too few rows for each of 1,000 models.", ""]
        chosen = [f"{method}: {_told(found['cells'][method], epsilons)}." for method in methods]
        lines += [*(f"- {sentence}" for sentence in chosen if not sentence.endswith(": .")), ""]
    return "\n".join([*lines, "## What the numbers say", "", *findings(content), "", *_UNCHECKED])


def _introduction(content: dict[str, Any]) -> list[str]:
    return [
        f"Relative excess risk: median of {content['runs']} runs, in brackets the mean ± its standard error; (R - R of "
        "least squares)/(R of the mean of y - R of least squares), R the squared error on the rows themselves. 0 is "
        "least squares, 1 the trivial predictor, above 1 worse than no model. "
        f"δ = {content['delta']:g}; {content['machine']['date']}.",
        "",
        f"*{SUM}* is the shipped default, `RidgeRegression()`, on second moments that three servers open; clients add "
        "the noise, and no one is trusted with rows. What the servers open is drawn as the exact integer sum plus the "
        f"clients' noise added up, which has the same law. *{TWO_ROUNDS}* is `RidgeRegression(rounds=2)` with the same "
        "whole budget, in 12 runs (3 of Superconduct). All others have a curator who sees every row.",
        "",
        "**The same for all.** Replace-one (ε, δ): one row becomes any other within the bounds, n is public. Columns "
        "are mapped from public bounds to [-1, 1] and clipped there; with the intercept's 1 a row x of D columns has "
        "‖x‖ ≤ B = √D, and |y| ≤ C = 1. No radius, no centring, no look at the data. Where papers protect one row more "
        "or less, or left out, the noise at replace-one is derived in the method's docstring (`bench/curators/`); "
        "Gaussian mechanisms have the exact curve (Balle and Wang 2018).",
        "",
        f"**In the peers' favour.** {DESCENT} has its clipping norm, steps and rate, {BOOSTED} and {HESSIAN} "
        f"their rounds and {TUKEY} its number of models chosen on these very rows, at no cost in privacy. "
        f"{ADASSP}, {BOOSTED}, {MIXING} and {HESSIAN} are accounted jointly, with less noise than their papers' "
        "divided budgets. Their noise is floating-point, which no deployment could have.",
        "",
        "![Relative excess risk against epsilon](central.png)",
    ]


def _bounds(sets: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{found['clients']:,}",
            str(found["columns"]),
            f"{math.sqrt(found['columns']):.3g}",
            f"{found['target'][0]} in [{found['target'][1]:.4g}, {found['target'][2]:.4g}]",
            f"`{found['bounds']}`",
            f"{found['outside']:,}",
            f"{found['r2']:.2f}",
            found["note"],
        ]
        for name, found in sets.items()
    ]
    heads = ["set", "n", "D", "B", "target", "bounds of all columns", "rows clipped", "R²", "rows"]
    return markdown(heads, rows)


def _written(cell: Cell | None) -> str:
    if cell is None:
        return "does not fit"
    if 2 * cell["failed"] > cell["runs"]:
        return f"no answer ({cell['failed']} of {cell['runs']})"
    some = f", {cell['failed']} without answer" if cell["failed"] else ""
    return f"{cell['median']:.3g} ({cell['mean']:.3g} ± {cell['mean_error']:.1g}{some})"


def _told(cells: list[Cell | None], epsilons: list[float]) -> str:
    """Return what was chosen, with the epsilons that it was chosen at."""
    at: dict[str, list[str]] = {}
    for cell, epsilon in zip(cells, epsilons, strict=True):
        if cell is not None and cell["told"]:
            at.setdefault(cell["told"], []).append(f"{epsilon:g}")
    return "; ".join(f"{told} (ε = {', '.join(found)})" for told, found in at.items())


def cells_of(content: dict[str, Any]) -> dict[tuple[str, float], dict[str, Cell]]:
    """Return (set, epsilon) -> method -> cell, without methods that do not fit or mostly gave no answer."""
    return {
        (name, epsilon): {
            method: cells[at]
            for method, cells in found["cells"].items()
            if cells[at] is not None and 2 * cells[at]["failed"] <= cells[at]["runs"]
        }
        for name, found in content["sets"].items()
        for at, epsilon in enumerate(content["epsilons"])
    }


def lower(first: Cell, second: Cell, errors: float = 0.0) -> bool:
    """Return whether the first median is lower by more than so many standard errors of the difference."""
    spread = math.hypot(first["median_error"], second["median_error"])
    return bool(first["median"] < second["median"] - errors * spread)


def findings(content: dict[str, Any]) -> list[str]:
    """Return the sentences that follow from the cells: who is lowest where, and against whom ours loses."""
    cells = cells_of(content)
    useful = {place: found for place, found in cells.items() if min(c["median"] for c in found.values()) < 1}
    lowest = {
        place: min((m for m in found if m != TWO_ROUNDS), key=lambda m: found[m]["median"])
        for place, found in cells.items()
    }
    either = {place: min(found, key=lambda m: found[m]["median"]) for place, found in cells.items()}
    ours = [place for place in useful if lowest[place] == SUM]
    both = [place for place in useful if either[place] in OURS]
    sentences = [
        f"- {len(cells)} cells. In {len(cells) - len(useful)} no method is better than the trivial predictor"
        f"{_listed([p for p in cells if p not in useful])}; they are not counted below.",
        f"- {SUM} has the lowest median of all but {TWO_ROUNDS} in {len(ours)} of {len(useful)} cells{_listed(ours)}; "
        f"one of our two lines is lowest in {len(both)}{_listed(both)}.",
    ]
    fixed = [m for m in PEERS if m not in TUNED]
    among = [p for p in useful if all(not lower(useful[p][m], useful[p][SUM]) for m in fixed if m in useful[p])]
    sentences.append(
        f"- Of the methods whose parameters are fixed beforehand, {', '.join(fixed)} and ours, {SUM} is lowest in "
        f"{len(among)} of {len(useful)} cells{_listed(among)}."
    )
    for peer in PEERS:
        met = {place: found for place, found in useful.items() if peer in found}
        wins = [place for place, found in met.items() if lower(found[peer], found[SUM])]
        clear = [place for place in wins if lower(met[place][peer], met[place][SUM], CLEARLY)]
        twice = [p for p, found in met.items() if TWO_ROUNDS in found and lower(found[peer], found[TWO_ROUNDS])]
        best = [place for place in met if lowest[place] == peer]
        sentences.append(
            f"- **{peer}** is lower than {SUM} in {len(wins)} of {len(met)} cells{_listed(wins)}, by more than "
            f"{CLEARLY} standard errors in {len(clear)}; lower than {TWO_ROUNDS} in {len(twice)}; lowest of all but "
            f"{TWO_ROUNDS} in {len(best)}. {_WHY.get(peer, '')}".rstrip()
        )
    return sentences


def _listed(places: list[tuple[str, float]]) -> str:
    if not places:
        return ""
    by_set: dict[str, list[str]] = {}
    for name, epsilon in places:
        by_set.setdefault(name, []).append(f"{epsilon:g}")
    return " (" + "; ".join(f"{name} {', '.join(found)}" for name, found in by_set.items()) + ")"


_WHY = {
    ADASSP: "Its noise on Xᵀy has standard deviation 2.3 √D/μ, ours (D + 1)/μ, because a sum serves any column as "
    "target; on the diagonal of XᵀX it has 2.3 D/μ and ours 1.4 (D + 1)/μ.",
    BOOSTED: "Its rounds go on from residuals of the exact rows, which takes off what the noise in XᵀX and the penalty "
    "did to the first fit; the noise in Xᵀg is left. The sum keeps both.",
    MIXING: "k rows of a sketch leave an excess near (D/k)(1 - R²)/R² whatever ε, and noise as rows adds to that. It "
    "wins where D is large and n is not: there the sum's penalty, raised to the noise's norm, shrinks the fit.",
    HESSIAN: "Its noisy Hessian only steers the steps and gradients are of the exact rows, as in boosting; but k rows "
    "of a sketch are a rough Hessian, and each sketch costs budget.",
    THRICE: "The authors' T: where D/k is not small, three steps do not come close to least squares at any ε.",
    OBJECTIVE: "It has noise on D numbers, of 2 √D/μ at half of ε, and none on XᵀX, where the sum has noise on all "
    "moments; half of ε and the penalty that goes with it are lost where n is small.",
    DESCENT: "It clips gradients to what the rows need, where the sum's noise covers the largest row within bounds; "
    "and what they need, with steps and rate, it is told for free. Its grid ends at 256 steps: on Power its risk "
    "hardly falls with ε.",
    TUKEY: "Its test needs a thousand models or more, and each model rows: at small ε there is no answer, and small "
    "parts make poor models.",
}
_UNCHECKED = [
    "## What is checked",
    "",
    "- **Printed figures: none.** No peer is checked against numbers of its paper. What could be found of them are "
    "plots, or tables on data sets and at relations that are not these.",
    f"- **{MIXING}, {THRICE}**: the authors' program (github.com/omrilev1/HessianMix, 3765136) on our rows, "
    "given our noise and our quantile, has the same medians. 400 runs at ε = 1: Hessian mixing on Bike's first "
    "3,000 rows 2.42 ± .07 (ours 2.51 ± .07), on Insurance .287 ± .009 (.273 ± .010); Gaussian mixing 8.7 ± .2 "
    "(8.4 ± .3), 1.63 ± .07 (1.58 ± .08).",
    f"- **{BOOSTED}** (T = 1): the authors' program (github.com/amazon-science/boostedadassp, f644481), given our σ "
    "at ε = 3, 200 runs: Bike's first 3,000 rows .90 ± .02 (ours .84 ± .02), Insurance .092 ± .004 (.087 ± .002). Ours "
    "has less noise off the diagonal. That program's noise does not grow with T; the paper's does, and ours.",
    f"- **{ADASSP}, {OBJECTIVE}, {DESCENT}, {TUKEY}**: unchecked against anybody's numbers or programs.",
    "- These comparisons were made by hand. That each method keeps its promise at replace-one is tested at small sizes "
    "(`tests/bench/test_central.py`), exactly where one column allows it.",
    "- Not measured: error on rows held out; other bounds, radii and δ; what tuning would cost if it were paid for; "
    "Sheffet's own noise, which is larger than that of Lev et al.; Power and SGEMM in full.",
]


def draw(content: dict[str, Any], path: Path) -> None:
    """Write the PNG: a panel for each data set, medians against epsilon."""
    require_plots()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sets, epsilons = content["sets"], content["epsilons"]
    across = min(4, len(sets))
    lines = -(-len(sets) // across)
    figure = Figure(figsize=(4.2 * across, 1.2 + 3.6 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(lines, across, squeeze=False).ravel()
    for axis, (name, found) in zip(axes, sets.items(), strict=False):
        for method, cells in found["cells"].items():
            shown = [
                (epsilon, cell["median"], cell["median_error"])
                for epsilon, cell in zip(epsilons, cells, strict=True)
                if cell is not None and 2 * cell["failed"] <= cell["runs"]
            ]
            if not shown:
                continue
            x, medians, errors = zip(*shown, strict=True)
            colour, marker, width = STYLES[method]
            below = [min(error, 0.9 * median) for error, median in zip(errors, medians, strict=True)]
            axis.errorbar(
                x, medians, (below, errors), color=colour, marker=marker, markersize=4, linewidth=width, label=method
            )
        axis.axhline(1, color="dimgrey", linestyle="--", linewidth=1.2, label="trivial predictor")
        axis.axhline(found["no privacy"], color="black", linestyle=":", linewidth=1.2, label="ridge without privacy")
        axis.set(xscale="log", yscale="log", xlabel="ε", ylabel="relative excess risk")
        axis.set_title(f"{name}: n = {found['clients']:,}, D = {found['columns']}", fontsize="medium")
        axis.grid(which="major", color="gainsboro", linewidth=0.6)
    for axis in axes[len(sets) :]:
        axis.set_visible(False)
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=110)
