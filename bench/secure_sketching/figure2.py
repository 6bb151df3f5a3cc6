"""Figure 2: low-rank approximation of synthetic data with a spectral gap, error against n, two privacy regimes."""

from __future__ import annotations

from collections.abc import Sequence

from bench.secure_sketching import synthetic
from bench.secure_sketching.utility import DELTA, LowRankProblem

TITLE = "Figure 2: low-rank approximation, synthetic data"
NOTE = (
    f"d = {synthetic.COLUMNS}, r = {synthetic.COMPONENTS}, k = {synthetic.ROWS}, s = {synthetic.SPARSITY}, "
    f"rows clipped to norm {synthetic.RADIUS}; delta = {DELTA:g}, 0 for Laplace noise."
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the figure."""
    curves = {f"ε = {epsilon:g}": (synthetic.low_rank_problem, epsilon) for epsilon in synthetic.REGIMES}
    synthetic.figure("figure2", TITLE, NOTE, LowRankProblem.measure, synthetic.gapped, curves, arguments)
