"""The sparse sketch of real numbers beside what NumPy, SciPy and scikit-learn offer for it.

All compute the same Y = S X in float64, S with s entries +-1 for each client. We draw S while applying it; the others
have it at hand. scikit-learn's `SparseRandomProjection` projects features, so it gets X^T; its `fit`, which
draws a matrix of the same density, is timed once and apart, then the matrix is replaced by S. NumPy adds by
`np.add.at`, once for each of a client's s entries. One thread, process CPU time, interleaved runs, medians.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.random_projection import SparseRandomProjection

from bench.harness import cpu_seconds, machine, markdown, summary, write
from dpmpc.base.arrays import Reals
from dpmpc.linear.sketching import OSNAP

CLIENTS, COLUMNS, ROWS, SPARSITY = 1_000_000, 10, 1000, 4
RUNS = 7
OURS, FIT = "ours", "scikit-learn: fit"


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench projections", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each (default %(default)s)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="n (default %(default)s)")
    chosen = parser.parse_args(arguments)
    content = {
        "machine": machine(),
        "runs": chosen.runs,
        "clients": chosen.clients,
        "cpu_s": measure(chosen.clients, chosen.runs),
    }
    text = render(content)
    print(text)
    if chosen.clients == CLIENTS and chosen.runs >= RUNS:
        write("projections", content, text)


def measure(clients: int, runs: int) -> dict[str, dict[str, float]]:
    """Measure CPU seconds: way -> summary."""
    S = OSNAP(ROWS, clients, SPARSITY, seed=1)
    X = np.random.default_rng(0).normal(size=(clients, COLUMNS))
    projection = SparseRandomProjection(ROWS, density=SPARSITY / ROWS, random_state=0)
    print("projections: scikit-learn's fit", file=sys.stderr)
    fit = cpu_seconds(lambda: projection.fit(X.T))
    ways = products(S, X, projection)
    timings: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(runs):
        print(f"projections: run {number + 1} of {runs}", file=sys.stderr)
        for way, product in ways.items():
            timings[way].append(cpu_seconds(product))
    return {**{way: summary(seconds) for way, seconds in timings.items()}, FIT: summary([fit])}


def products(S: OSNAP, X: Reals, projection: SparseRandomProjection) -> dict[str, Callable[[], Reals]]:
    """Return what computes S X, unscaled, by its name; the fitted projection takes S."""
    csc = S.to_csc().astype(np.float64)
    csr = csc.tocsr()
    projection.components_ = csr
    places, signs = S.entries(0, len(X))

    def add_at() -> Reals:
        Y = np.zeros((S.rows, X.shape[1]))
        for copy in range(S.sparsity):
            np.add.at(Y, places[:, copy], X * signs[:, copy, None])
        return Y

    return {
        OURS: lambda: S.apply(X),
        "scipy csc": lambda: csc @ X,
        "scipy csr": lambda: csr @ X,
        "scikit-learn: transform": lambda: projection.transform(X.T).T,
        "NumPy: add.at": add_at,
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    ours = content["cpu_s"][OURS]["median"]
    rows = [
        [way, f"{1e3 * seconds['median']:.1f}", f"{seconds['median'] / ours:.1f}"]
        for way, seconds in content["cpu_s"].items()
    ]
    where = content["machine"]
    return "\n".join(
        [
            "# The sparse sketch of real numbers",
            "",
            f"n = {content['clients']:,}, d = {COLUMNS}, k = {ROWS}, s = {SPARSITY}, float64. CPU time of one thread, "
            f"medians of {content['runs']} interleaved runs; fit once. {where['cpu']}, NumPy "
            f"{where['versions']['numpy']}, SciPy {where['versions']['scipy']}, {where['date']}.",
            "",
            markdown(["way", "ms", "way / ours"], rows),
        ]
    )
