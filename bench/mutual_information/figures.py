"""Figures 1 to 3 of Showkatbakhsh, Karakus and Diggavi (ISIT 2018): additive noise and random projections.

Figures 1 and 2 are scaled: d = 80 and n = 100 k where the paper has d = 800 and n = 1000 k, with the same ratios. A
projection's release is drawn by its law: given X and y its rows are independent with covariance G = [X, y]^T [X, y] +
diag(sigma^2, .., sigma^2, 0), and least squares needs only the triangular factor of the release, which is a triangle of
normal and chi variables (Bartlett) times that of G.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from bench.charts import Chart, Panel, finish, options_of
from bench.secure_sketching.utility import TRIVIAL
from dpmpc.datasets import load_mnist_4_9
from dpmpc.mutual_information import additive_variance, paper_variance, relative_error, smallest_spread, sound_variance

Matrix = NDArray[np.float64]
Measure = Callable[[Matrix], float]

UNIT, FEATURES, RESIDUAL = 100, 80, 0.5
STEPS = (1, 2, 3, 5, 7, 10, 14, 20)
EPSILON, MNIST_EPSILON = 0.5, 0.2
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0)
STEP_OF_EPSILONS = 10
PIXELS, TRAINING, MNIST_UNIT = 300, 0.8, 1000
MNIST_STEPS = (1, 2, 3, 5, 7, 9)
RUNS = 20

ADDITIVE, REPAIRED_ON_DATA = "additive noise", "log, repaired on the data (unproven)"
_COLOURS = {"log": "#0072b2", "linear": "#e69f00", "full": "#cc79a7"}
STYLES = {ADDITIVE: {"color": "#8c510a", "marker": "X"}, REPAIRED_ON_DATA: {"color": "#56b4e9", "marker": "v"}} | {
    f"{size}, {form}": {"color": colour, "marker": marker, "linestyle": line}
    for size, colour in _COLOURS.items()
    for form, marker, line in (("as printed", "o", "--"), ("sound", "s", "-"))
}
NOTE = (
    f"X uniform on [-1, 1] with d = {FEATURES}, n = {UNIT} k, y = Xθ + {RESIDUAL:g} N(0, 1), θ of norm 1. log, linear, "
    f"full: n' = {UNIT}(ln k + 1), {UNIT}(k + 1)/2, n. η = 1 is the optimum. *As printed* is unproven; *sound* needs "
    "nothing of the data."
)
MNIST_NOTE = (
    f"ε = {MNIST_EPSILON:g}, the {PIXELS} pixels of most energy (chosen from the data, which is not private), pixels "
    f"in [0, 1], labels ±1, n = {MNIST_UNIT} k images of the {TRAINING:.0%} that are for training; log, linear, full: "
    "n' = 500(ln k + 1), 500(k + 1)/2, n."
)


def sizes_of(unit: int, k: float, n: int) -> dict[str, int]:
    """Return the paper's three choices of n'; `unit` is n'_1 at k = 1."""
    return {"log": int(unit * (math.log(k) + 1)), "linear": int(unit * (k + 1) / 2), "full": n}


def problem(n: int, generator: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Draw X and y of the random data."""
    X = generator.uniform(-1, 1, (n, FEATURES))
    theta = generator.standard_normal(FEATURES)
    return X, X @ (theta / np.linalg.norm(theta)) + RESIDUAL * generator.standard_normal(n)


def additive(X: Matrix, y: Matrix, epsilon: float, generator: np.random.Generator) -> Matrix:
    """Return coefficients of additive noise (Equation 10)."""
    noisy = X + math.sqrt(additive_variance(epsilon)) * generator.standard_normal(X.shape)
    return _solve(_factor(noisy, y))


def projected(factor: Matrix, rows: int, variance: float, generator: np.random.Generator) -> Matrix:
    """Return coefficients of a random projection (Equation 14), drawn by the law of its release.

    Parameters
    ----------
    factor : ndarray of float64, shape (d + 1, d + 1)
        R of [X, y] = QR.
    rows : int
        n', more than d.
    variance : float
        sigma_RP^2.
    generator : Generator
        Source of the draws.
    """
    columns = len(factor)
    ridge = np.eye(columns - 1, columns) * math.sqrt(variance)
    triangle = np.triu(generator.standard_normal((columns, columns)), 1)
    np.fill_diagonal(triangle, np.sqrt(generator.chisquare(rows - np.arange(columns))))
    return _solve(triangle @ np.asarray(np.linalg.qr(np.vstack([factor, ridge]), mode="r")))


def competitors(
    X: Matrix, y: Matrix, sizes: dict[str, int], epsilon: float, measure: Measure, generator: np.random.Generator
) -> dict[str, float]:
    """Measure one fit of each mechanism, and the zero predictor."""
    factor = _factor(X, y)
    found = {ADDITIVE: measure(additive(X, y, epsilon, generator))}
    for name, rows in sizes.items():
        printed = paper_variance(rows, epsilon, smallest_spread(X))
        found[f"{name}, as printed"] = measure(projected(factor, rows, printed, generator))
        found[f"{name}, sound"] = measure(projected(factor, rows, paper_variance(rows, epsilon), generator))
    return found | {TRIVIAL: measure(np.zeros(X.shape[1]))}


def random_data(k: int, epsilon: float, generator: np.random.Generator) -> dict[str, float]:
    """Measure eta of every mechanism on one draw of the random data."""
    X, y = problem(UNIT * k, generator)
    sizes = sizes_of(UNIT, k, len(X))

    def eta(coef: Matrix) -> float:
        return relative_error(X, y, coef)

    found = competitors(X, y, sizes, epsilon, eta, generator)
    factor = _factor(X, y)
    repaired = sound_variance(X, y, sizes["log"], epsilon)
    return {REPAIRED_ON_DATA: eta(projected(factor, sizes["log"], repaired, generator))} | found


def digits(images: Matrix, labels: Matrix, k: int, generator: np.random.Generator) -> dict[str, float]:
    """Measure the test error of every mechanism on one partition of the fours and nines."""
    order = generator.permutation(len(labels))
    cut = int(TRAINING * len(labels))
    train, test = order[:cut][: MNIST_UNIT * k], order[cut:]

    def error(coef: Matrix) -> float:
        scores = images[test] @ coef if coef.any() else np.full(len(test), labels[train].mean())
        return float((np.where(scores >= 0, 1.0, -1.0) != labels[test]).mean())

    sizes = sizes_of(MNIST_UNIT // 2, k, len(train))
    return competitors(images[train], labels[train], sizes, MNIST_EPSILON, error, generator)


def brightest(images: Matrix) -> Matrix:
    """Select the columns of most energy."""
    energy = np.square(images).sum(axis=0)
    return images[:, np.sort(np.argsort(energy)[-PIXELS:])]


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the three figures."""
    options = options_of("midp_figures", "Figures 1 to 3 of the paper on mutual information", arguments, RUNS)
    images, labels = load_mnist_4_9()
    images = brightest(images)
    steps, epsilons = (STEPS[:2], EPSILONS[3:5]) if options.quick else (STEPS, EPSILONS)
    first, second, third = Panel(f"ε = {EPSILON:g} bits"), Panel(f"n = {UNIT * STEP_OF_EPSILONS}"), Panel("4 against 9")
    for k in steps:
        first.add(UNIT * k, _repeat(options.runs, partial(random_data, k, EPSILON)))
    for epsilon in epsilons:
        second.add(epsilon, _repeat(options.runs, partial(random_data, STEP_OF_EPSILONS, epsilon)))
    for k in MNIST_STEPS[:1] if options.quick else MNIST_STEPS:
        third.add(MNIST_UNIT * k, _repeat(options.runs, partial(digits, images, labels, k)))
    charts = (
        ("midp_figure1", "Relative error against n", NOTE, "n", "relative error η", first),
        ("midp_figure2", "Relative error against ε", NOTE, "ε, bits", "relative error η", second),
        ("midp_figure3", "MNIST, 4 against 9: test error", MNIST_NOTE, "n", "test error", third),
    )
    for name, title, note, x_label, y_label, panel in charts:
        finish(Chart(name, title, note, x_label, y_label, [panel], findings(panel), STYLES), options.out)


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


def _repeat(runs: int, measured: Callable[[np.random.Generator], dict[str, float]]) -> dict[str, list[float]]:
    """Collect what so many runs measure, each with its own seed."""
    found = [measured(np.random.default_rng(run)) for run in range(runs)]
    return {name: [one[name] for one in found] for name in found[0]}


def _factor(X: Matrix, y: Matrix) -> Matrix:
    """Return R of [X, y] = QR."""
    return np.asarray(np.linalg.qr(np.column_stack([X, y]), mode="r"))


def _solve(factor: Matrix) -> Matrix:
    """Solve least squares of the last column on the others, from the triangular factor of the rows."""
    try:
        return np.asarray(solve_triangular(factor[:-1, :-1], factor[:-1, -1]))
    except np.linalg.LinAlgError:  # an exact zero on the diagonal: a column that is a combination of others
        return np.asarray(np.linalg.lstsq(factor[:, :-1], factor[:, -1], rcond=None)[0])
