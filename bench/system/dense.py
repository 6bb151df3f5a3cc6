"""The dense sketch against BLAS: S X with S drawn on the fly, beside a matrix product with S at hand.

One thread, process CPU time, interleaved runs, medians. The rivals are given S for nothing: the signs of one block of
clients are made before the clock starts and serve for all blocks. Either the block stays in the cache, which flatters
the rival, or it has to be read from memory, as a stored S would. For real numbers the rival is NumPy's float64
product, in the faster orientation. Elements of Z_2^64 and Z_p, p = 2^61 - 1, it splits into two limbs of 32 bits, whose
sums are exact below 2^53; splitting is part of its time, as it is part of its work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bench.harness import cpu_seconds, machine, markdown, summary, write
from dpmpc.base.arrays import Integers, Reals, Words
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sketching.dense import Rademacher

SETTINGS = ((1_000_000, 206, 11), (200_000, 1000, 10))  # n, k, d
CACHED, STORED = 512, 50_000  # clients of the rivals' blocks: what stays in the cache, and what does not
RUNS = 7


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench dense", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each (default %(default)s)")
    runs = parser.parse_args(arguments).runs
    content = {"machine": machine(), "runs": runs, "measured": [measure(*setting, runs) for setting in SETTINGS]}
    text = render(content)
    print(text)
    if runs >= RUNS:
        write("dense", content, text)


def measure(clients: int, rows: int, columns: int, runs: int) -> dict[str, Any]:
    """Measure CPU seconds of every way to compute S X: numbers -> way -> summary."""
    print(f"dense: n = {clients}, k = {rows}, d = {columns}", file=sys.stderr)
    ways = products(Rademacher(rows, clients, seed=1), columns)
    timings: dict[str, dict[str, list[float]]] = {kind: {way: [] for way in ways[kind]} for kind in ways}
    with threadpool_limits(1):
        for _ in range(runs):
            for kind, same in ways.items():
                for way, product in same.items():
                    timings[kind][way].append(cpu_seconds(product))
    figures = {kind: {way: summary(seconds) for way, seconds in timings[kind].items()} for kind in ways}
    return {"clients": clients, "rows": rows, "columns": columns, "cpu_s": figures}


def products(S: Rademacher, columns: int) -> dict[str, dict[str, Callable[[], NDArray[Any]]]]:
    """List our ways and the rivals' for each kind of number."""
    rng = np.random.default_rng(0)
    real = rng.normal(size=(S.columns, columns))
    words = rng.integers(0, Mersenne61.modulus, (S.columns, columns), dtype=np.uint64)
    stored = np.ascontiguousarray(S.entries(0, min(STORED, S.columns))[1], np.float64)
    cached = stored[:CACHED].copy()
    return {
        "float64": {
            "ours": lambda: S.apply(real),
            "cached": lambda: gemm(cached, real),
            "stored": lambda: gemm(stored, real),
        },
        "ring64": {
            "ours": lambda: S.apply(words),
            "cached": lambda: gemm_ring(cached, words),
            "stored": lambda: gemm_ring(stored, words),
        },
        "mersenne61": {
            "ours": lambda: S.apply(words, ring="mersenne61"),
            "cached": lambda: gemm_field(cached, words),
            "stored": lambda: gemm_field(stored, words),
        },
    }


def gemm(signs: Reals, X: Reals) -> Reals:
    """Compute S X by blocks of clients, all of which take the signs (block, k) of the first."""
    Y = np.zeros((X.shape[1], signs.shape[1]))
    for first in range(0, len(X), len(signs)):
        block = X[first : first + len(signs)]
        Y += block.T @ signs[: len(block)]
    return Y.T


def gemm_limbs(signs: Reals, X: Words) -> tuple[Integers, Integers]:
    """Sum the lower and the upper 32 bits apart: below 2^53 for up to 2^21 clients, hence exact."""
    width = X.shape[1]
    Y = np.zeros((2 * width, signs.shape[1]))
    for first in range(0, len(X), len(signs)):
        block = X[first : first + len(signs)]
        limbs = np.concatenate([block & np.uint64(0xFFFFFFFF), block >> np.uint64(32)], axis=1).astype(np.float64)
        Y += limbs.T @ signs[: len(block)]
    integers = Y.T.astype(np.int64)
    return integers[:, :width], integers[:, width:]


def gemm_ring(signs: Reals, X: Words) -> Words:
    """Compute S X modulo 2^64."""
    low, high = gemm_limbs(signs, X)
    return (low + (high << 32)).view(np.uint64)


def gemm_field(signs: Reals, X: Words) -> Words:
    """Compute S X modulo 2^61 - 1."""
    low, high = gemm_limbs(signs, X)
    sums = low.astype(object) + high.astype(object) * (1 << 32)
    return np.asarray(sums % Mersenne61.modulus, np.uint64)


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    rows = []
    for entry in content["measured"]:
        for kind, figures in entry["cpu_s"].items():
            shape = [f"{entry[name]:,}" for name in ("clients", "rows", "columns")]
            ours, cached, stored = (figures[way]["median"] for way in ("ours", "cached", "stored"))
            seconds = [f"{median:.4f}" for median in (ours, cached, stored)]
            rows.append([*shape, kind, *seconds, f"{cached / ours:.1f}", f"{stored / ours:.1f}"])
    where = content["machine"]
    headings = ("n", "k", "d", "numbers", "ours (s)", "GEMM, S cached (s)", "GEMM, S stored (s)")
    return "\n".join(
        [
            "# The dense sketch against BLAS",
            "",
            f"CPU seconds of one thread, medians of {content['runs']} interleaved runs. GEMM is given S for nothing, "
            "either a block that stays in the cache or one that is read from memory; words are split into limbs of 32 "
            f"bits. {where['cpu']}, NumPy {where['versions']['numpy']}, {where['date']}.",
            "",
            markdown([*headings, "cached / ours", "stored / ours"], rows),
        ]
    )
