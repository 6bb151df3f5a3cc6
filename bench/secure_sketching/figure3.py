"""Figure 3: ridge regression on synthetic data, error against n, two privacy regimes."""

from __future__ import annotations

from collections.abc import Sequence

from bench.secure_sketching import synthetic
from bench.secure_sketching.utility import DELTA, RidgeProblem

TITLE = "Figure 3: ridge regression, synthetic data"
NOTE = (
    f"d = {synthetic.FEATURES}, λ = {synthetic.ALPHA:g}, k = {synthetic.ROWS}, s = {synthetic.SPARSITY}, "
    f"rows clipped to norm {synthetic.RADIUS}; delta = {DELTA:g}, 0 for Laplace noise."
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the figure."""
    curves = {f"ε = {epsilon:g}": (synthetic.ridge_problem, epsilon) for epsilon in synthetic.REGIMES}
    synthetic.figure("figure3", TITLE, NOTE, RidgeProblem.measure, synthetic.regression, curves, arguments)
