"""Figure 2 of Wu et al. 2022: how often, and how much, fits of a synthetic population err as n grows.

Each seed has a population, signs and noise of its own. Noise is the paper's, for one party's columns; the `Sum` release
has the guarantee that this noise gives for a whole row, and needs clients that hold one.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.charts import options_of, require_plots
from bench.data_release.common import BGM, COLOURS, DELTA, DGM, EPSILONS, RMGM, THEORY, ZERO
from bench.data_release.population import FEATURES, MOST_THEORY_ROWS, PARTIES, SERIES, experiment, rows_of
from bench.harness import machine, markdown, save_picture, summary, write

NAME, TITLE = "mpr_figure2", "Data release, Figure 2: synthetic data, error against n"
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
SHORT_SIZES = (1000, 3000)
BETAS = (0.1, 0.2, 0.5, 1.0)
RUNS = 1000  # the paper's
SHARE_OF_RUNS = {300_000: 5, 1_000_000: 10, 3_000_000: 25}
NOTE = (
    f"d = {FEATURES}, parties of {', '.join(map(str, PARTIES))} columns, delta = {DELTA:g}, the paper's noise for one "
    "party's columns. RMGM has k = floor(sqrt(n)/sigma), which may be below d; theory k is at most "
    f"{MOST_THEORY_ROWS}. DGM's error has heavy tails: its median is meant wherever a mean is for the others. The "
    "paper's: population, parties, n, ε, delta, k, and three panels of probabilities for each ε, of 1000 seeds. Ours, "
    f"because its axes are lost from the text that we have: β = {', '.join(f'{beta:g}' for beta in BETAS)}. Its text "
    "names .1 alone, in its most extreme pairs (ε, β), so that is its least. Ours are also fewer seeds beyond n = 10⁵."
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the figure."""
    options = options_of("data_release.figure2", TITLE, arguments, RUNS)
    sizes = SHORT_SIZES if options.short else SIZES
    content: dict[str, Any] = {"machine": machine(), "note": NOTE, "betas": BETAS, "panels": []}
    errors = {size: _errors(size, max(2, options.runs // SHARE_OF_RUNS.get(size, 1))) for size in sizes}
    for epsilon in EPSILONS:
        series = {name: [describe(errors[size][epsilon][name]) for size in sizes] for name in SERIES}
        rows = [rows_of(size, epsilon) for size in sizes]
        content["panels"].append({"epsilon": epsilon, "sizes": sizes, "rows": rows, "series": series})
    text = page(content)
    print(text)
    if options.out is not None:
        write(NAME, content, text, options.out)
        draw(content, options.out / f"{NAME}.png")


def _errors(size: int, runs: int) -> dict[float, dict[str, list[float]]]:
    """Return budget -> competitor -> ||w - w*||, one for each seed."""
    print(f"n = {size:,}: {runs} seeds", file=sys.stderr)
    found: dict[float, dict[str, list[float]]] = {epsilon: {name: [] for name in SERIES} for epsilon in EPSILONS}
    for seed in range(runs):
        for epsilon, fits in experiment(size, EPSILONS, seed).items():
            for name, (error, _) in fits.items():
                found[epsilon][name].append(error)
    return found


def describe(errors: Sequence[float]) -> dict[str, Any]:
    """Return the summary of errors and, for each beta, how many of them are larger."""
    return {**summary(errors), "exceed": [statistics.fmean(error > beta for error in errors) for beta in BETAS]}


def centre(name: str, entry: dict[str, Any]) -> float:
    """Return the mean, or the median of DGM."""
    return float(entry["median" if name == DGM else "mean"])


def page(content: dict[str, Any]) -> str:
    """Return the Markdown page: for each budget a table of errors, and one of probabilities."""
    parts = [f"# {TITLE}", "", NOTE, ""]
    for panel in content["panels"]:
        sizes, series = panel["sizes"], panel["series"]
        counts = [entry["runs"] for entry in series[RMGM]]
        described = zip(sizes, counts, panel["rows"], strict=True)
        heads = [[f"{n:,}", f"{runs}", f"{k[RMGM]}", f"{k[THEORY]}"] for n, runs, k in described]
        errors = [
            [*head, *(f"{centre(name, series[name][at]):.3g}" for name in SERIES)] for at, head in enumerate(heads)
        ]
        exceed = [
            [f"{beta:g}", head[0], *(f"{series[name][at]['exceed'][number]:.3f}" for name in SERIES)]
            for number, beta in enumerate(BETAS)
            for at, head in enumerate(heads)
        ]
        parts += [
            *(f"## ε = {panel['epsilon']:g}", "", "E‖ŵ - w*‖ (DGM: median).", ""),
            *(markdown(["n", "seeds", "k", "theory k", *SERIES], errors), ""),
            *("P(‖ŵ - w*‖ > β).", "", markdown(["β", "n", *SERIES], exceed), ""),
        ]
    return "\n".join([*parts, *findings(content["panels"])])


def findings(panels: Sequence[dict[str, Any]]) -> list[str]:
    """Say from which n on RMGM is better than nothing and than BGM, and for which beta it never errs at the largest."""
    sentences = []
    for panel in panels:
        means = {name: [centre(name, entry) for entry in panel["series"][name]] for name in SERIES}
        for rival in (ZERO, BGM):
            better = [
                f"{n:,}"
                for n, ours, theirs in zip(panel["sizes"], means[RMGM], means[rival], strict=True)
                if ours < theirs
            ]
            sentences.append(
                f"- ε = {panel['epsilon']:g}: RMGM has a smaller mean error than {rival} at n = "
                f"{', '.join(better) or 'none of these'}."
            )
        exceed = panel["series"][RMGM][-1]["exceed"]
        told = ", ".join(f"{share:.3f} (β = {beta:g})" for beta, share in zip(BETAS, exceed, strict=True))
        sentences.append(
            f"- ε = {panel['epsilon']:g}, n = {panel['sizes'][-1]:,}: RMGM exceeds β with frequency {told}."
        )
    return sentences


def draw(content: dict[str, Any], path: Path) -> None:
    """Write the PNG: a line of panels for each budget, one panel for each beta and one for the error."""
    require_plots()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(19, 11), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(content["panels"]), len(BETAS) + 1, squeeze=False)
    for line, panel in zip(axes, content["panels"], strict=True):
        for number, axis in enumerate(line):
            for name in SERIES:
                entries = panel["series"][name]
                values = [entry["exceed"][number] for entry in entries] if number < len(BETAS) else None
                axis.plot(
                    panel["sizes"],
                    values or [centre(name, entry) for entry in entries],
                    "--" if name == ZERO else "o-",
                    color=COLOURS[name],
                    label=name,
                    markersize=4,
                )
            of = f"P(error > {BETAS[number]:g})" if values else "E error (DGM: median)"
            axis.set(xscale="log", title=f"ε = {panel['epsilon']:g}: {of}", xlabel="subjects n")
            axis.set(**({"ylim": (-0.03, 1.03)} if values else {"yscale": "log"}))
            axis.grid(which="major", color="gainsboro", linewidth=0.6)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(SERIES), frameon=False)
    figure.suptitle(TITLE)
    save_picture(figure, path, 90)
