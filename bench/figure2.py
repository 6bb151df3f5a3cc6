"""Figure 2: low-rank approximation of synthetic data with a spectral gap, error against n, two privacy regimes."""

from __future__ import annotations

from collections.abc import Sequence

from dpmpc.bench import charts, synthetic
from dpmpc.bench.utility import DELTA, RUNS

TITLE = "Figure 2: low-rank approximation, synthetic data"
NOTE = (
    f"d = {synthetic.COLUMNS}, r = {synthetic.COMPONENTS}, k = {synthetic.ROWS}, s = {synthetic.SPARSITY}, "
    f"rows clipped to norm {synthetic.RADIUS}; delta = {DELTA:g}, 0 for Laplace noise."
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the figure."""
    options = charts.options_of("figure2", TITLE, arguments, RUNS)
    sizes = synthetic.QUICK_SIZES if options.quick else synthetic.SIZES
    panels = [
        synthetic.sweep(f"ε = {epsilon:g}", synthetic.low_rank_problem, epsilon, options.runs, sizes)
        for epsilon in synthetic.REGIMES
    ]
    y_label = synthetic.LowRankProblem.measure
    charts.finish(charts.Chart("figure2", TITLE, NOTE, "clients n", y_label, panels), options.out)
