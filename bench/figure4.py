"""Figure 4: ridge regression on synthetic data, error against n, for several penalties λ."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from dpmpc.bench import charts, synthetic
from dpmpc.bench.utility import DELTA

ALPHAS = (10.0, 1e3, 1e5)
EPSILON, RUNS = 0.5, 10
TITLE = "Figure 4: ridge regression, synthetic data, several penalties"
NOTE = (
    f"ε = {EPSILON:g}, d = {synthetic.FEATURES}, k = {synthetic.ROWS}, s = {synthetic.SPARSITY}, rows clipped to norm "
    f"{synthetic.RADIUS}; delta = {DELTA:g}, 0 for Laplace noise."
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the figure."""
    options = charts.options_of("figure4", TITLE, arguments, RUNS)
    sizes = synthetic.QUICK_SIZES if options.quick else synthetic.SIZES[::2]
    panels = []
    for alpha in ALPHAS:
        problem = functools.partial(synthetic.ridge_problem, alpha=alpha)
        panels.append(synthetic.sweep(f"λ = {alpha:g}", problem, EPSILON, options.runs, sizes))
    y_label = synthetic.RidgeProblem.measure
    charts.finish(charts.Chart("figure4", TITLE, NOTE, "clients n", y_label, panels), options.out)
