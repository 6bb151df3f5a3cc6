"""Figure 3: ridge regression on synthetic data, error against n, two privacy regimes."""

from __future__ import annotations

from collections.abc import Sequence

from dpmpc.bench import charts, synthetic
from dpmpc.bench.utility import DELTA, RUNS

TITLE = "Figure 3: ridge regression, synthetic data"
NOTE = (
    f"d = {synthetic.FEATURES}, λ = {synthetic.ALPHA:g}, k = {synthetic.ROWS}, s = {synthetic.SPARSITY}, "
    f"rows clipped to norm {synthetic.RADIUS}; delta = {DELTA:g}, 0 for Laplace noise."
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the figure."""
    options = charts.options_of("figure3", TITLE, arguments, RUNS)
    sizes = synthetic.QUICK_SIZES if options.quick else synthetic.SIZES
    panels = [
        synthetic.sweep(f"ε = {epsilon:g}", synthetic.ridge_problem, epsilon, options.runs, sizes)
        for epsilon in synthetic.REGIMES
    ]
    y_label = synthetic.RidgeProblem.measure
    charts.finish(charts.Chart("figure3", TITLE, NOTE, "clients n", y_label, panels), options.out)
