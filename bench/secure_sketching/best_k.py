"""The sketch against its number of rows k: what the verdicts of Figure 3 and Tables 7 and 8 owe to one k.

Those have k = 64 (synthetic data) or the k that `dpmpc plan` recommends. A small k has little noise and a bad sketch, a
large k the other way round, so a verdict "no better than the trivial predictor" is one about that k. Here every k of a
grid is measured, for the Gaussian sketch with the paper's s copies. The best k of a curve is read off the results: to
choose it so would need the data, and no budget is counted for it. It is what a lucky choice could reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from bench.charts import Chart, Panel, finish, options_of
from bench.secure_sketching import synthetic, table7, table8
from bench.secure_sketching.real_data import MEASURED
from bench.secure_sketching.simulation import exact_sums, opened
from bench.secure_sketching.utility import DELTA, GAUSS, TRIVIAL, Problem

NAME, TITLE = "best_k", "Sketches against their number of rows k"
GRID = (30, 100, 300, 1000, 3000, 10_000, 30_000)
SHORT_GRID = (30, 100)
SPARSITY, RUNS, LARGE = 4, 20, 300_000  # half of the runs beyond so many rows
CLIENTS, SHORT_CLIENTS = 2**20, 2**12
SGEMM = MEASURED[1]
NOTE = (
    f"LTM Gauss, s = {SPARSITY}, δ = {DELTA:g}, clients noise each copy; fresh matrix and noise in each run. *As "
    "recommended* is the k that the tables have (`dpmpc plan`; Figure 3: 64). The best k of a curve is chosen by its "
    "result, which costs no budget here and would in earnest."
)


def figure3(clients: int) -> Problem:
    """Return the problem of Figure 3."""
    return synthetic.ridge_problem(synthetic.regression(clients))


def ridge_sgemm(clients: int) -> Problem:
    """Return the problem of Table 8 on SGEMM; its rows have an order, so that a part of them is another data set."""
    return table8.problem(SGEMM, SGEMM.rows())


def low_rank_sgemm(clients: int) -> Problem:
    """Return the problem of Table 7 on SGEMM."""
    return table7.problem(SGEMM, SGEMM.rows())


#: Title -> the problem, the budgets, and the k of the page; None where the plan recommends it.
CURVES: dict[str, tuple[Callable[[int], Problem], tuple[float, ...], int | None]] = {
    "Figure 3, n = 2^20": (figure3, (0.1, 0.5), synthetic.ROWS),
    "Table 8, SGEMM": (ridge_sgemm, (0.1, 0.5), None),
    "Table 7, SGEMM": (low_rank_sgemm, (0.1, 0.5), None),
}


def measure(problem: Problem, epsilon: float, rows: int | None, runs: int) -> tuple[int, list[float]]:
    """Return k, and the measure of each run."""
    found, used = [], 0
    for seed in range(runs if len(problem.rows) <= LARGE else max(1, runs // 2)):
        task = problem.design(
            epsilon, DELTA, sketch="osnap", rows=rows, sparsity=SPARSITY, copies="each", simulation_seed=seed
        )
        used = task.sketch.rows
        found.append(problem.judge(opened(task, exact_sums(task, problem.rows), seed)))
    return used, found


def finding(panel: Panel, used: int) -> str:
    """Say what the best k is, with its standard error, beside the k of the page and the trivial predictor."""
    entries = panel.series[GAUSS]
    at = min(range(len(entries)), key=lambda index: entries[index]["mean"])
    best, trivial = entries[at], panel.series[TRIVIAL][at]["mean"]
    error = best["sd"] / math.sqrt(best["runs"])
    shown = entries[panel.x.index(used)]
    verdict = "better than" if trivial - best["mean"] > 2 * error else "not better than"
    return (
        f"- {panel.title}: best k = {panel.x[at]:,.0f}: {best['mean']:.3g} ± {best['sd']:.1g}, {verdict} the trivial "
        f"predictor ({trivial:.3g}) by two standard errors; as recommended, k = {used:,}: {shown['mean']:.3g}."
    )


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the curves."""
    options = options_of(f"secure_sketching.{NAME}", TITLE, arguments, RUNS)
    curves = dict([next(iter(CURVES.items()))]) if options.short else CURVES
    panels, told = [], []
    for title, (problem_of, budgets, kept) in curves.items():
        problem = problem_of(SHORT_CLIENTS if options.short else CLIENTS)
        for epsilon in budgets:
            panel = Panel(f"{title}, ε = {epsilon:g}: {problem.measure}")
            used, recommended = measure(problem, epsilon, kept, options.runs)
            grid = sorted({*(SHORT_GRID if options.short else GRID), used})
            for rows in grid:
                _, values = (used, recommended) if rows == used else measure(problem, epsilon, rows, options.runs)
                panel.add(rows, {GAUSS: values, TRIVIAL: [problem.trivial()] * len(values)})
            panels.append(panel)
            told.append(finding(panel, used))
    finish(Chart(NAME, TITLE, NOTE, "rows k", "measure", panels, told), options.out)
