"""Table 7: excess risk of low-rank approximation on real data: local, LTM Laplace, LTM Gauss, central."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.secure_sketching.real_data import DataSet, table
from bench.secure_sketching.utility import LowRankProblem, Problem
from dpmpc.base.arrays import Reals


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the table."""
    title = "Table 7: low-rank approximation, real data"
    table("table7", title, arguments, problem, "central MOD-SULQ")


def problem(data: DataSet, rows: Reals) -> Problem:
    """Return the approximation of the features with the rank of Table 6."""
    return LowRankProblem(np.ascontiguousarray(rows[:, :-1]), data.components)
