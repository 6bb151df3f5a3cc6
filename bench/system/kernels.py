"""The kernel of sparse public matrices against its peers, and against the speed of reading its input.

The kernel draws S while it applies it. Its peers are given S for nothing: `scipy.sparse` (CSC and CSR) on the same
uint64 words, a loop compiled by Numba and scikit-learn's random projection, if they are installed. "Read" is the
largest word of the same input, which NumPy finds at about the speed of memory. "Stored" is the kernel itself with the
entries of S drawn beforehand. "Touch" is that too, with a few rows of X for all clients, which stay in the cache: what
it takes to meet the rows of Y at random once, with this kernel: a bound for its use of X, not for how well it meets Y.
Who reads X and adds to Y so takes no less than the larger of "read" and "touch"; where both wait for memory it is
closer to their sum. Every way is run once per round, in turn,
and takes one thread; figures are CPU seconds of the process. Only two threads against one are measured by the clock on
the wall, and mean something only while a second core is free: beside them stands a control, whose two threads hash
memory of their own and share nothing. No kernel gains more by a second thread than the machine gives the control.

Each ratio has a target. A ratio of this table is comparable with others of the same run only.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bench.harness import cpu_seconds, machine, markdown, summary, wall_seconds, write
from dpmpc._kernels.dispatch import instruction_set
from dpmpc._kernels.sketch import Stored
from dpmpc.base.arrays import Words
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sketching import OSNAP

RUNS = 15
TOUCH_WORDS = 2048  # of X, which stay in the first-level cache
Ways = dict[str, Callable[[], object]]


@dataclasses.dataclass(frozen=True)
class Setting:
    """The shape of one job."""

    clients: int
    columns: int
    rows: int
    sparsity: int


@dataclasses.dataclass(frozen=True)
class Target:
    """What seconds of `slow` divided by those of `fast` should be: at least or, if `most`, at most `value`."""

    setting: Setting
    slow: str
    fast: str
    value: float
    most: bool = False


HEADLINE = Setting(1_000_000, 10, 1000, 4)
ONE_COPY = Setting(1_000_000, 10, 1000, 1)
MANY_ROWS = Setting(1_000_000, 10, 10_000, 4)
WIDE = Setting(200_000, 100, 1000, 4)

# Shapes with the same number of words in X. SciPy should take `OVER_CSC` times what we take, and Numba `OVER_NUMBA`
# times; or reading X once should take at least `READ_SHARE` of our time.
GRID_WORDS = 20_000_000
GRID = [
    Setting(GRID_WORDS // columns, columns, rows, sparsity)
    for columns in (10, 16, 32, 64, 100, 200)
    for rows in (1000, 10_000)
    for sparsity in (1, 4, 8)
]
OVER_CSC, OVER_NUMBA, READ_SHARE = 2.5, 1.2, 0.75
REQUIRED = 30  # shapes that meet it
CONTROL_BYTES = 1 << 20
TARGETS = (
    Target(HEADLINE, "scipy csc", "ours", 3.5),
    Target(HEADLINE, "numba", "ours", 2.0),
    Target(HEADLINE, "read", "ours", 0.33),
    Target(HEADLINE, "ours, Mersenne61", "ours", 1.25, most=True),
    Target(HEADLINE, "ours", "ours, S stored", 1.25, most=True),
    Target(HEADLINE, "read s copies", "ours, s copies", 0.5),
    Target(HEADLINE, "one thread (wall)", "two threads (wall)", 1.7),
    Target(ONE_COPY, "scipy csc", "ours", 3.0),
    Target(ONE_COPY, "read", "ours", 0.65),
    Target(MANY_ROWS, "scipy csc", "ours", 3.0),
    Target(WIDE, "scipy csc", "ours", 2.2),
    Target(WIDE, "numba", "ours", 1.0),
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench kernels", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="rounds (default %(default)s)")
    runs = parser.parse_args(arguments).runs
    settings = dict.fromkeys(target.setting for target in TARGETS)
    measured = [measure(setting, balanced, runs) for setting in settings for balanced in (False, True)]
    grid = [measure(setting, False, runs) for setting in GRID]
    content = {"machine": machine(), "runs": runs, "set": instruction_set(), "measured": measured, "grid": grid}
    text = render(content)
    print(text)
    if runs >= RUNS:
        write("kernels", content, text)


def measure(setting: Setting, balanced: bool, runs: int) -> dict[str, Any]:
    """Measure seconds of every way to compute S X: way -> summary."""
    print(f"kernels: {setting}, balanced = {balanced}", file=sys.stderr)
    found = ways(setting, balanced)
    timings: dict[str, list[float]] = {way: [] for way in found}
    for _ in range(runs):
        for way, job in found.items():
            timings[way].append(wall_seconds(job) if way.endswith("(wall)") else cpu_seconds(job))
    seconds = {way: summary(times) for way, times in timings.items()}
    return {**dataclasses.asdict(setting), "balanced": balanced, "seconds": seconds}


def ways(setting: Setting, balanced: bool) -> Ways:
    """List our ways and the peers' to compute S X for one shape, and the reading of X."""
    S = OSNAP(setting.rows, setting.clients, setting.sparsity, seed=1, balanced=balanced)
    X = words(setting.clients, setting.columns)
    csc = unsigned_csc(S)
    found: Ways = {
        "ours": lambda: S.apply(X),
        "ours, S stored": stored(S, X),
        "read": X.max,
        "touch": stored(S, X[: -(-TOUCH_WORDS // X.shape[1])]),
        "scipy csc": lambda: csc @ X,
    }
    if importlib.util.find_spec("numba"):
        found["numba"] = numba_loop(S, X)
    if setting == HEADLINE:
        found |= headline_ways(S, X, csc.tocsr())
    return found


def headline_ways(S: OSNAP, X: Words, csr: scipy.sparse.csr_matrix) -> Ways:
    """List what is measured of the main shape alone."""
    copies = words(len(X), S.sparsity, X.shape[1])
    found: Ways = {
        "scipy csr": lambda: csr @ X,
        "ours, Mersenne61": lambda: S.apply(X, ring="mersenne61"),
        "ours, s copies": lambda: S.apply(copies),
        "read s copies": copies.max,
        "one thread (wall)": lambda: S.apply(X),
        "two threads (wall)": lambda: S.apply(X, threads=2),
        "two threads": lambda: S.apply(X, threads=2),
        "control, one thread (wall)": lambda: [hashed(CONTROL_BYTES) for _ in range(2)],
        "control, two threads (wall)": lambda: at_once(hashed, CONTROL_BYTES),
    }
    if importlib.util.find_spec("sklearn"):
        found["scikit-learn transform (float64, fit not counted)"] = projection(S, X)
    return found


def hashed(size: int) -> bytes:
    """Hash memory of its own, without the interpreter's lock."""
    return hashlib.sha256(bytes(size)).digest()


def at_once(job: Callable[[int], bytes], size: int) -> list[bytes]:
    """Do a job on two threads, once on each."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(job, [size, size]))


def projection(S: OSNAP, X: Words) -> Callable[[], object]:
    """Fit scikit-learn's sparse random projection with as many rows and, on average, entries; clients are features.

    It knows floats alone. Its fit draws the matrix, which takes seconds, before the clock starts.
    """
    from sklearn.random_projection import SparseRandomProjection

    features = X.T.astype(np.float64)
    fitted = SparseRandomProjection(S.rows, density=S.sparsity / S.rows, random_state=0).fit(features)
    return lambda: fitted.transform(features)


def words(*shape: int) -> Words:
    """Draw elements of the ring that are also elements of the field."""
    return np.random.default_rng(0).integers(0, Mersenne61.modulus, shape, dtype=np.uint64)


def unsigned_csc(S: OSNAP) -> scipy.sparse.csc_matrix:
    """Return the unscaled S over Z_2^64: -1 is 2^64 - 1, for NumPy would promote int64 with uint64 to float64."""
    signs = S.to_csc()
    values = signs.data.astype(np.int64).view(np.uint64)
    return scipy.sparse.csc_matrix((values, signs.indices, signs.indptr), shape=S.shape)


def stored(S: OSNAP, X: Words) -> Callable[[], Words]:
    """Call the kernel with the entries of S drawn before the clock starts; fewer rows of X stand for all."""
    drawn = Stored(S._matrix, S.columns)

    def product() -> Words:
        Y = S.zeros(X.shape[1])
        drawn.scatter("ring64", X, Y)
        return Y

    return product


def numba_loop(S: OSNAP, X: Words) -> Callable[[], Words]:
    """Compile the loop that one would write; signs are applied as the kernel applies them."""
    import numba

    def scatter(rows: NDArray[np.uint32], flips: Words, X: Words, Y: Words) -> None:
        for client in range(X.shape[0]):
            for copy in range(rows.shape[1]):
                row, flip = rows[client, copy], flips[client, copy]
                for column in range(X.shape[1]):
                    Y[row, column] += (X[client, column] ^ flip) - flip

    compiled = numba.njit(scatter)
    rows, signs = S.entries(0, len(X))
    places, flips = rows.astype(np.uint32), (-(signs < 0).astype(np.int64)).view(np.uint64)

    def product() -> Words:
        Y = np.zeros((S.rows, X.shape[1]), np.uint64)
        compiled(places, flips, X, Y)
        return Y

    product()  # compile before the clock starts
    return product


def ratio(target: Target, entry: dict[str, Any]) -> float | None:
    """Return the ratio of medians that a target is about; None without Numba."""
    seconds = entry["seconds"]
    if target.slow not in seconds:
        return None
    quotient: float = seconds[target.slow]["median"] / seconds[target.fast]["median"]
    return quotient


def target_row(target: Target, measured: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line of the table of targets: the ratio for independent clients, then for balanced ones."""
    shape = dataclasses.asdict(target.setting)
    cells = []
    for entry in (entry for entry in measured if shape.items() <= entry.items()):
        value = ratio(target, entry)
        reached = value is not None and (value <= target.value if target.most else value >= target.value)
        cells.append("not installed" if value is None else f"{value:.2f}" + ("" if reached else " (missed)"))
    limit = f"{'≤' if target.most else '≥'} {target.value}"
    return [*(f"{number:,}" for number in shape.values()), f"{target.slow} / {target.fast}", limit, *cells]


def grid_row(entry: dict[str, Any]) -> list[str]:
    """Return a line of the table of shapes: the peers' times over ours, and whether it meets what is asked of it."""
    ours = entry["seconds"]["ours"]["median"]
    over = {way: figures["median"] / ours for way, figures in entry["seconds"].items()}
    peers = over["scipy csc"] >= OVER_CSC and over.get("numba", 0.0) >= OVER_NUMBA
    met = "peers" if peers else "reading" if over["read"] >= READ_SHARE else "missed"
    shape = [f"{entry[name]:,}" for name in ("clients", "columns", "rows", "sparsity")]
    ways = ("scipy csc", "numba", "read", "touch")
    ratios = [f"{over[way]:.2f}" if way in over else "not installed" for way in ways]
    return [*shape, f"{1e3 * ours:.1f}", *ratios, met]


def render_grid(grid: Sequence[dict[str, Any]]) -> list[str]:
    """Render the part of the page about all shapes."""
    rows = [grid_row(entry) for entry in grid]
    met = sum(row[-1] != "missed" for row in rows)
    return [
        "",
        f"Shapes with {GRID_WORDS:,} words in X, independent clients. The target is met where scipy csc takes at least "
        f"{OVER_CSC} times and Numba {OVER_NUMBA} times what we take, or where reading X once takes {READ_SHARE} of "
        f"our time: {met} of {len(rows)}, {REQUIRED} required. *Touch*: the rows of Y alone, met at random once by the "
        "same kernel.",
        "",
        markdown(
            ["n", "d", "k", "s", "ms", "scipy csc / ours", "numba / ours", "read / ours", "touch / ours", "met by"],
            rows,
        ),
    ]


def render_threads(measured: Sequence[dict[str, Any]]) -> list[str]:
    """Render what a second thread gives the kernel, beside what it gives a control that shares nothing."""
    lines = []
    for entry in measured:
        times = {way: figures["median"] for way, figures in entry["seconds"].items()}
        if "control, two threads (wall)" in times:
            ours = times["one thread (wall)"] / times["two threads (wall)"]
            control = times["control, one thread (wall)"] / times["control, two threads (wall)"]
            clients = "balanced" if entry["balanced"] else "independent"
            lines.append(
                f"Two threads, {clients} clients: {ours:.2f} times as fast as one by the clock on the wall, a control "
                f"that shares nothing {control:.2f} times: {ours / control:.2f} of it. They take "
                f"{times['two threads'] / times['ours']:.2f} times the CPU seconds of one."
            )
    return ["", *lines] if lines else []


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    measured = content["measured"]
    shapes = {tuple(entry[name] for name in ("clients", "columns", "rows", "sparsity")) for entry in measured}
    targets = [target for target in TARGETS if dataclasses.astuple(target.setting) in shapes]
    rows = [
        [
            *(f"{entry[name]:,}" for name in ("clients", "columns", "rows", "sparsity")),
            "balanced" if entry["balanced"] else "independent",
            way,
            f"{1e3 * figures['min']:.2f}",
            f"{1e3 * figures['median']:.2f}",
        ]
        for entry in measured
        for way, figures in entry["seconds"].items()
    ]
    where = content["machine"]
    return "\n".join(
        [
            "# The kernel of sparse public matrices against its peers",
            "",
            f"CPU seconds of one thread, ratios of medians of {content['runs']} interleaved runs; Z_2^64 unless said "
            "otherwise. We draw S while applying it, the peers have it at hand. "
            f"{where['cpu']} ({content.get('set', 'best instruction set')}), SciPy {where['versions']['scipy']}, "
            f"{where['date']}.",
            "",
            markdown(
                ["n", "d", "k", "s", "ratio", "target", "independent", "balanced"],
                [target_row(target, measured) for target in targets],
            ),
            *render_threads(measured),
            *(render_grid(content["grid"]) if content.get("grid") else ()),
            "",
            "Milliseconds:",
            "",
            markdown(["n", "d", "k", "s", "clients", "way", "min", "median"], rows),
        ]
    )
