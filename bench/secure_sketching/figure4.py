"""Figure 4: ridge regression on synthetic data, error against n, for several penalties λ."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from bench.secure_sketching import synthetic
from bench.secure_sketching.utility import DELTA, RidgeProblem

ALPHAS = (10.0, 1e3, 1e5)
EPSILON, RUNS = 0.5, 10
TITLE = "Figure 4: ridge regression, synthetic data, several penalties"
NOTE = (
    f"ε = {EPSILON:g}, d = {synthetic.FEATURES}, k = {synthetic.ROWS}, s = {synthetic.SPARSITY}, rows clipped to norm "
    f"{synthetic.RADIUS}; delta = {DELTA:g}, 0 for Laplace noise."
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the figure."""
    curves = {f"λ = {alpha:g}": (functools.partial(synthetic.ridge_problem, alpha=alpha), EPSILON) for alpha in ALPHAS}
    sizes = synthetic.SIZES[::2]
    synthetic.figure(
        "figure4", TITLE, NOTE, RidgeProblem.measure, synthetic.regression, curves, arguments, sizes=sizes, runs=RUNS
    )
