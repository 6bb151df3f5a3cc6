"""The paper's pure mechanism as printed: a dense matrix with the noise of Corollary 4.10, on synthetic rows.

Theorem 4.8 and Corollary 4.10 (Burkhardt et al. 2025) are about a dense matrix. Figures 2 to 4 have a dense matrix with
our noise shares, 1/(n - t) of each entry's Laplace variable, and a CountSketch with the corollary's noise. Here the
corollary's noise is on the dense matrix that it is about. The constants are our reconstruction, as its formula is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.charts import options_of
from bench.harness import machine, markdown, summary, write
from bench.secure_sketching.simulation import exact_sums, opened
from bench.secure_sketching.synthetic import ROWS, gapped, low_rank_problem, regression, ridge_problem
from bench.secure_sketching.utility import DENSE, DENSE_CHOICES, LAPLACE_BITS, TRIVIAL, Problem

TITLE = "A dense matrix with the noise of Corollary 4.10"
AS_PRINTED = "dense, noise of Corollary 4.10"
CLIENTS, EPSILONS, RUNS = 50_535, (0.5, 20.0), 20


def measure(problem: Problem, epsilon: float, runs: int) -> dict[str, list[float]]:
    """Measure a dense matrix of `ROWS` rows with our shares, and with the corollary's, once a run."""
    ways: dict[str, dict[str, str]] = {DENSE: {}, AS_PRINTED: {"calibration": "paper"}}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for seed in range(runs):
        for name, calibration in ways.items():
            choices = {**DENSE_CHOICES, "rows": ROWS, "noise": "discrete-laplace", "fractional_bits": LAPLACE_BITS}
            task = problem.design(epsilon, 0.0, simulation_seed=seed, **choices, **calibration)
            found[name].append(problem.judge(opened(task, exact_sums(task, problem.rows), 2 * seed)))
    return found | {TRIVIAL: [problem.trivial()]}


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the table; it has no plot."""
    options = options_of("secure_sketching.dense_as_printed", TITLE, arguments, RUNS)
    clients = 2048 if options.short else CLIENTS
    problems = {
        "low rank, excess risk ψ": low_rank_problem(gapped(clients)),
        "ridge, excess cost φ - 1": ridge_problem(regression(clients)),
    }
    measured, rows = [], []
    for name, problem in problems.items():
        for epsilon in EPSILONS:
            ways = {way: summary(values) for way, values in measure(problem, epsilon, options.runs).items()}
            measured.append({"problem": name, "epsilon": epsilon, "ways": ways})
            rows.append([name, f"{epsilon:g}", *(f"{of['mean']:.3g} ± {of['sd']:.2g}" for of in ways.values())])
    headings = ["problem", "ε", DENSE, AS_PRINTED, TRIVIAL]
    note = (
        f"n = {clients:,}, k = {ROWS}, δ = 0; mean ± sd of {options.runs} runs. Both mechanisms are "
        "(ε, 0)-differentially private for one replaced row; the trivial predictor is computed."
    )
    text = f"# {TITLE}\n\n{note}\n\n{markdown(headings, rows)}"
    print(text)
    if options.out is not None:
        content = {"machine": machine(), "clients": clients, "runs": options.runs, "measured": measured}
        write("dense_as_printed", content, text, options.out)
