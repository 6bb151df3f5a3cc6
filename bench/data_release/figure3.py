"""Figure 3 of Wu et al. 2022: a fit's error against the smallest absolute eigenvalue of its Hessian.

One point for each seed. Synthetic: every seed has its own population. Insurance: all rows, mapped to [0, 1] by their
minima and maxima as in the paper, which is not private; w* is the fit without noise. That panel, (b), needs the data
set; without it the bench draws (a), says how to get the data and ends with status 0.

The paper's: n = 10^6 and epsilon = 1 in (a), Insurance and epsilon = 1 in (b), the population, noise and k of (a).
Ours, because the paper does not say: how many seeds, and the k of (b), the best of its five in Table 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.charts import options_of, require_plots
from bench.data_release.common import BGM, COLOURS, DELTA, DGM, RMGM, fit, mixed, noise_sd, releases
from bench.data_release.population import experiment
from bench.data_release.table1 import MEASURED, by_extremes
from bench.harness import machine, markdown, save_picture, write
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError

NAME, TITLE = "mpr_figure3", "Data release, Figure 3: error against the smallest eigenvalue"
SUBJECTS, SHORT_SUBJECTS = 1_000_000, 10_000
EPSILON = 1.0
INSURANCE_ROWS = 3000  # k, the best of the five that the paper tries (Table 1)
RUNS = 200
SERIES = (DGM, BGM, RMGM)
SMALL, LARGE = (
    1e-2,
    10.0,
)  # the paper: "with a certain probability" an eigenvalue is below one, the error above the other
Points = dict[str, list[tuple[float, float]]]


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the figure."""
    options = options_of("data_release.figure3", TITLE, arguments, RUNS)
    subjects = SHORT_SUBJECTS if options.short else SUBJECTS
    panels = {f"(a) synthetic, n = {subjects:,}": synthetic(subjects, options.runs)}
    data = MEASURED[0]
    missing = ""
    try:
        rows, _ = by_extremes(data.load().values)
    except InputError as error:
        missing = f"Panel (b), {data.name}, is missing: {error}"
        print(missing, file=sys.stderr)
    else:
        panels[f"(b) {data.name}, n = {len(rows):,}"] = real(rows, noise_sd(data.sizes, EPSILON), options.runs)
    content = {
        "machine": machine(),
        "epsilon": EPSILON,
        "delta": DELTA,
        "runs": options.runs,
        "missing": missing,
        "panels": [{"title": title, "points": points, **described(points)} for title, points in panels.items()],
    }
    text = page(content)
    print(text)
    if options.out is not None:
        write(NAME, content, text, options.out)
        draw(content, options.out / f"{NAME}.png")


def synthetic(subjects: int, runs: int) -> Points:
    """Return competitor -> (smallest absolute eigenvalue, error), one for each population."""
    print(f"synthetic, n = {subjects:,}: {runs} seeds", file=sys.stderr)
    fits = [experiment(subjects, (EPSILON,), seed)[EPSILON] for seed in range(runs)]
    return {name: [(found[name][1], found[name][0]) for found in fits] for name in SERIES}


def real(rows: Reals, sd: float, runs: int) -> Points:
    """Return the same of one population, released with noise of standard deviation tau."""
    moments = rows.T @ rows
    best = fit(moments / len(rows)).weights
    points: Points = {name: [] for name in SERIES}
    for seed in range(runs):
        mixtures = {RMGM: mixed(rows, INSURANCE_ROWS, seed)}
        fits = releases(moments, mixtures, len(rows), sd, np.random.default_rng(seed))
        for name in SERIES:
            points[name].append((fits[name].smallest, float(np.linalg.norm(fits[name].weights - best))))
    return points


def described(points: Points) -> dict[str, Any]:
    """Return, for each competitor, the correlation of logarithms and how often a point is extreme."""
    found = {}
    for name, pairs in points.items():
        eigenvalues, errors = np.array(pairs).T
        found[name] = {
            "correlation": float(np.corrcoef(np.log(eigenvalues), np.log(errors))[0, 1]),
            "median_eigenvalue": float(np.median(eigenvalues)),
            "median_error": float(np.median(errors)),
            "small": float((eigenvalues < SMALL).mean()),
            "large": float((errors > LARGE).mean()),
            "large_if_small": float((errors[eigenvalues < SMALL] > LARGE).mean())
            if (eigenvalues < SMALL).any()
            else None,
        }
    return {"described": found}


def page(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    note = (
        f"ε = {content['epsilon']:g}, delta = {content['delta']:g}, the paper's noise for one party's columns; "
        f"{content['runs']} seeds. λ is the smallest absolute eigenvalue of the Hessian divided by n. Ours, because "
        f"the paper does not say: the number of seeds, and k = {INSURANCE_ROWS} in (b)."
    )
    headings = ("release", "median λ", "median error", "correlation of ln λ and ln error", f"P(λ < {SMALL:g})")
    parts = [f"# {TITLE}", "", note, "", *([content["missing"], ""] if content["missing"] else [])]
    for panel in content["panels"]:
        rows = [
            [
                name,
                f"{entry['median_eigenvalue']:.3g}",
                f"{entry['median_error']:.3g}",
                f"{entry['correlation']:.2f}",
                f"{entry['small']:.3f}",
                f"{entry['large']:.3f}",
                "" if entry["large_if_small"] is None else f"{entry['large_if_small']:.2f}",
            ]
            for name, entry in panel["described"].items()
        ]
        ends = (f"P(error > {LARGE:g})", f"the same if λ < {SMALL:g}")
        parts += [f"## {panel['title']}", "", markdown((*headings, *ends), rows), ""]
    return "\n".join(parts)


def draw(content: dict[str, Any], path: Path) -> None:
    """Write the PNG: a scatter plot for each population."""
    require_plots()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.4, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(content["panels"]), squeeze=False)[0]
    for axis, panel in zip(axes, content["panels"], strict=True):
        for name, pairs in panel["points"].items():
            axis.scatter(*np.array(pairs).T, s=12, alpha=0.6, color=COLOURS[name], label=name, zorder=3)
        axis.set(xscale="log", yscale="log", title=panel["title"])
        axis.set(xlabel="smallest |eigenvalue| of the Hessian", ylabel="‖ŵ - w*‖")
        axis.grid(which="major", color="gainsboro", linewidth=0.6)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(SERIES), frameon=False)
    figure.suptitle(f"{TITLE}, ε = {content['epsilon']:g}")
    save_picture(figure, path, 110)
