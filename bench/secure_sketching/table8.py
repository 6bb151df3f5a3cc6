"""Table 8: approximation factor of ridge regression on real data: local, LTM, central."""

from __future__ import annotations

from collections.abc import Sequence

from bench.secure_sketching.real_data import DataSet, table
from bench.secure_sketching.utility import Problem, RidgeProblem
from dpmpc.base.arrays import Reals

ALPHA = 10.0  # lambda, lost from the text that we have


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the table."""
    table("table8", f"Table 8: ridge regression, real data, λ = {ALPHA:g}", arguments, problem, "central SSP")


def problem(data: DataSet, rows: Reals) -> Problem:
    """Return the prediction of the target from the features, without intercept."""
    return RidgeProblem(rows, ALPHA)
