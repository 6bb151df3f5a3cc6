"""Figures 1 to 3 of Showkatbakhsh, Karakus and Diggavi (ISIT 2018): additive noise and random projections.

Figures 1 and 2 have the paper's size, d = 800 and n up to 20,000, because rows are touched once a trial. Let M = [X, y]
and R be the Cholesky factor of its Gram matrix, M^T M = R^T R. Least squares and eta depend on rows only through their
Gram matrix, and a release's Gram matrix can be drawn, exactly in law, from R:

- Additive noise. With Q orthogonal and Q^T M = R above n - d - 1 rows of zeros, Q^T (M + sigma [N, 0]) has the Gram
  matrix of the release, and Q^T N the law of N. So (R + sigma [N_1, 0]) stands above sigma [N_2, 0], and N_2 enters
  through its own Gram matrix, a Wishart matrix.
- Projection. Given M, the n' rows of the release are independent N(0, G), G = M^T M + diag(sigma^2, .., sigma^2, 0):
  they are Z L with G = L^T L and Z (n', d + 1) of N(0, 1) entries. Z enters through Z^T Z, a Wishart matrix.

A Wishart matrix is T^T T with T a triangle of normal and chi variables (Bartlett's decomposition), which costs
(d + 1)^2 draws whatever n and n' are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from bench.charts import Chart, Panel, finish, options_of
from bench.datasets.mutual_information import load_mnist_4_9
from bench.secure_sketching.utility import TRIVIAL
from bench.wishart import wishart_factor
from dpmpc.base.arrays import Reals
from dpmpc.models.papers.mutual_information.information import (
    additive_variance,
    hidden_variance,
    paper_variance,
    smallest_spread,
)

Measure = Callable[[Reals], float]


@dataclasses.dataclass(frozen=True)
class Size:
    """How large the random data are: n = unit k rows of d features."""

    features: int
    unit: int


PAPER, SMALL = Size(800, 1000), Size(80, 100)  # the second, of the same ratios, for tests and short runs
RESIDUAL = 0.5
STEPS = tuple(range(1, 21))
EPSILON, MNIST_EPSILON = 0.5, 0.2
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0)
STEP_OF_EPSILONS = 10
PIXELS, TRAINING, MNIST_UNIT = 300, 0.8, 1000
MNIST_STEPS = (1, 2, 3, 5, 7, 9)
RUNS, MNIST_RUNS_EACH = 5, 2  # the paper has 5 trials of random data, and 10 of the digits

ADDITIVE, REPAIRED_ON_DATA = "additive noise", "log, repaired on the data (unproven)"
_COLOURS = {"log": "#0072b2", "linear": "#e69f00", "full": "#cc79a7"}
STYLES = {ADDITIVE: {"color": "#8c510a", "marker": "X"}, REPAIRED_ON_DATA: {"color": "#56b4e9", "marker": "v"}} | {
    f"{size}, {form}": {"color": colour, "marker": marker, "linestyle": line}
    for size, colour in _COLOURS.items()
    for form, marker, line in (("as printed", "o", "--"), ("sound", "s", "-"))
}
READING = (
    "η = 1 is the optimum. *As printed* is unproven; *sound* needs nothing of the data; *repaired on the data* has "
    "σ² = (n'/(2^(2ε) - 1) - v)₊ with v of the repaired bound at σ = 0, which is enough because v - σ² grows with σ²."
)
MNIST_NOTE = (
    f"The paper's: the digits 4 and 9, labels ±1, the {PIXELS} pixels of most energy (chosen from the data, which is "
    f"not private), {TRAINING:.0%} of the images for training, n = {MNIST_UNIT} k of them, ε = {MNIST_EPSILON:g}; log, "
    "linear, full: n' = 500(log k + 1), 500(k + 1)/2, n; ten trials. Ours: which k, log is the natural one, pixels in "
    "[0, 1], and the trivial predictor is the sign of the mean label."
)


def random_note(size: Size) -> str:
    """Say which parameters of Figures 1 and 2 are the paper's, and which are ours."""
    unit = size.unit
    scaled = (
        "" if size == PAPER else f"**Scaled**: d = {size.features} and n = {unit} k for the paper's 800 and 1000 k. "
    )
    return (
        f"{scaled}The paper's: X uniform on [-1, 1], d = {size.features}, n = {unit} k for k from 1 to 20 (Figure 1, "
        f"ε = {EPSILON:g}) and n = {unit * STEP_OF_EPSILONS:,} (Figure 2); log, linear, full: n' = {unit}(log k + 1), "
        f"{unit}(k + 1)/2, n; five trials. Ours, because the paper does not say: y = Xθ + {RESIDUAL:g} N(0, 1) with θ "
        f"of norm 1 in a random direction, log is the natural one, and the ε of Figure 2. {READING}"
    )


def sizes_of(unit: int, k: float, n: int) -> dict[str, int]:
    """Return the paper's three choices of n'; `unit` is n'_1 at k = 1."""
    return {"log": int(unit * (math.log(k) + 1)), "linear": int(unit * (k + 1) / 2), "full": n}


@dataclasses.dataclass(frozen=True)
class Data:
    """What mechanisms and errors read of the rows."""

    factor: Reals  # (d + 1, d + 1): R, upper triangular, of M = [X, y]: R^T R = M^T M
    rows: int  # n
    spread: float  # f^2 of X
    hidden: float | None = None  # v of the repaired bound at sigma = 0, where it was asked for

    def eta(self, coef: Reals) -> float:
        """Return ||X theta - y||^2 over its minimum (Equation 5), 1 + ||R_X (theta - theta*)||^2 / R_yy^2."""
        off = self.factor[:-1, :-1] @ coef - self.factor[:-1, -1]
        return 1 + float(off @ off) / float(self.factor[-1, -1]) ** 2


def problem(size: Size, k: int, generator: np.random.Generator) -> tuple[Reals, Reals]:
    """Draw X and y of the random data."""
    X = generator.uniform(-1, 1, (size.unit * k, size.features))
    theta = generator.standard_normal(size.features)
    return X, X @ (theta / np.linalg.norm(theta)) + RESIDUAL * generator.standard_normal(len(X))


def data_of(X: Reals, y: Reals) -> Data:
    """Read rows of full rank once: their Gram matrix, f^2 and v."""
    columns = np.column_stack([X, y])
    factor = np.asarray(cholesky(columns.T @ columns))
    return Data(factor, len(X), smallest_spread(X), hidden_variance(X, y, 0.0))


def additive(data: Data, epsilon: float, generator: np.random.Generator) -> Reals:
    """Return coefficients of additive noise (Equation 10), drawn by the law of its release."""
    columns = len(data.factor)
    features = columns - 1
    sigma = math.sqrt(additive_variance(epsilon))
    top = data.factor.copy()
    top[:, :-1] += sigma * generator.standard_normal((columns, features))
    rest = sigma * wishart_factor(data.rows - columns, features, generator)
    return _solve(_triangle(top, np.pad(rest, ((0, 0), (0, 1)))))


def projected(factor: Reals, rows: int, variance: float, generator: np.random.Generator) -> Reals:
    """Return coefficients of a random projection (Equation 14), drawn by the law of its release."""
    columns = len(factor)
    ridge = np.eye(columns - 1, columns) * math.sqrt(variance)
    return _solve(wishart_factor(rows, columns, generator) @ _triangle(factor, ridge))


def competitors(
    data: Data, sizes: dict[str, int], epsilon: float, measure: Measure, generator: np.random.Generator
) -> dict[str, float]:
    """Measure one fit of each mechanism, and the zero predictor."""
    found = {}
    if data.hidden is not None:
        repaired = paper_variance(sizes["log"], epsilon, data.hidden)
        found[REPAIRED_ON_DATA] = measure(projected(data.factor, sizes["log"], repaired, generator))
    found[ADDITIVE] = measure(additive(data, epsilon, generator))
    for name, rows in sizes.items():
        printed = paper_variance(rows, epsilon, data.spread)
        found[f"{name}, as printed"] = measure(projected(data.factor, rows, printed, generator))
        found[f"{name}, sound"] = measure(projected(data.factor, rows, paper_variance(rows, epsilon), generator))
    return found | {TRIVIAL: measure(np.zeros(len(data.factor) - 1))}


def random_data(size: Size, k: int, epsilons: Sequence[float], runs: int) -> dict[float, dict[str, list[float]]]:
    """Measure eta of every mechanism on so many draws of the random data."""
    found: dict[float, dict[str, list[float]]] = {epsilon: {} for epsilon in epsilons}
    sizes = sizes_of(size.unit, k, size.unit * k)
    for run in range(runs):
        generator = np.random.default_rng([run, k])
        data = data_of(*problem(size, k, generator))
        for epsilon in epsilons:
            for name, eta in competitors(data, sizes, epsilon, data.eta, generator).items():
                found[epsilon].setdefault(name, []).append(eta)
    return found


def digits(images: Reals, labels: Reals, k: int, generator: np.random.Generator) -> dict[str, float]:
    """Measure the test error of every mechanism on one partition of the fours and nines."""
    order = generator.permutation(len(labels))
    cut = int(TRAINING * len(labels))
    train, test = order[:cut][: MNIST_UNIT * k], order[cut:]

    def error(coef: Reals) -> float:
        scores = images[test] @ coef if coef.any() else np.full(len(test), labels[train].mean())
        return float((np.where(scores >= 0, 1.0, -1.0) != labels[test]).mean())

    # Pixels may be dependent: the factor comes from the rows, not from a Cholesky decomposition.
    factor = np.asarray(np.linalg.qr(np.column_stack([images[train], labels[train]]), mode="r"))
    data = Data(factor, len(train), smallest_spread(images[train]))
    sizes = sizes_of(MNIST_UNIT // 2, k, len(train))
    return competitors(data, sizes, MNIST_EPSILON, error, generator)


def brightest(images: Reals) -> Reals:
    """Select the columns of most energy."""
    energy = np.square(images).sum(axis=0)
    return images[:, np.sort(np.argsort(energy)[-PIXELS:])]


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the three figures."""
    options = options_of(
        "mutual_information.figures", "Figures 1 to 3 of the paper on mutual information", arguments, RUNS
    )
    size = SMALL if options.short else PAPER
    steps, epsilons = (STEPS[:2], EPSILONS[3:5]) if options.short else (STEPS, EPSILONS)
    first, second, third = (
        *(Panel(f"ε = {EPSILON:g} bits"), Panel(f"n = {size.unit * STEP_OF_EPSILONS:,}")),
        Panel("4 against 9"),
    )
    for k in steps:
        first.add(size.unit * k, random_data(size, k, (EPSILON,), options.runs)[EPSILON])
    for epsilon, measured in random_data(size, STEP_OF_EPSILONS, epsilons, options.runs).items():
        second.add(epsilon, measured)
    note = random_note(size)
    for name, title, x_label, panel in (
        ("midp_figure1", "Mutual information, Figure 1: relative error against n", "n", first),
        ("midp_figure2", "Mutual information, Figure 2: relative error against ε", "ε, bits", second),
    ):
        finish(Chart(name, title, note, x_label, "relative error η", [panel], findings(panel), STYLES), options.out)
    images, labels = load_mnist_4_9()
    images = brightest(images)
    for k in MNIST_STEPS[:1] if options.short else MNIST_STEPS:
        runs = range(MNIST_RUNS_EACH * options.runs)
        found = [digits(images, labels, k, np.random.default_rng(run)) for run in runs]
        third.add(MNIST_UNIT * k, {name: [one[name] for one in found] for name in found[0]})
    title = "Mutual information, Figure 3: test error, 4 against 9"
    finish(Chart("midp_figure3", title, MNIST_NOTE, "n", "test error", [third], findings(third), STYLES), options.out)


def findings(panel: Panel) -> list[str]:
    """Say which mechanism is best at each x, among those with a proof and among all."""
    sentences = []
    for label, names in (
        ("all", [name for name in panel.series if name != TRIVIAL]),
        ("those with a proof", [name for name in panel.series if name == ADDITIVE or name.endswith("sound")]),
    ):
        best = [min((panel.series[name][at]["mean"], name) for name in names) for at in range(len(panel.x))]
        listed = "; ".join(f"{x:g}: {name}" for x, (_, name) in zip(panel.x, best, strict=True))
        sentences.append(f"- Best of {label}, at each x: {listed}.")
    return sentences


def _triangle(top: Reals, bottom: Reals) -> Reals:
    """Return R of QR, of one matrix above another."""
    return np.asarray(np.linalg.qr(np.vstack([top, bottom]), mode="r"))


def _solve(factor: Reals) -> Reals:
    """Solve least squares of the last column on the others, from the triangular factor of the rows."""
    try:
        return np.asarray(solve_triangular(factor[:-1, :-1], factor[:-1, -1]))
    except np.linalg.LinAlgError:  # an exact zero on the diagonal: a column that is a combination of others
        return np.asarray(np.linalg.lstsq(factor[:, :-1], factor[:, -1], rcond=None)[0])
