"""The paper's synthetic populations and the sweep over n (Burkhardt et al. 2025, section 6.2).

The distributions and the constants are lost from the text that we have; what stands here is assumed: entries of A
uniform on [-1, 1], coefficients N(0, 1), a Gaussian residual with R^2 = 1/2; singular values sqrt(n)/1.2 (the first r)
and sqrt(n)/30 (the rest). Rows are scaled so that the public radius clips few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bench.secure_sketching.families import Families
from bench.secure_sketching.utility import EXPONENTS, RUNS, LowRankProblem, Problem, RidgeProblem
from dpmpc.base.arrays import Reals

ROWS, SPARSITY = 64, 4  # k and s of every sketch
RADIUS = 2.2
SIZES = tuple(int(size) for size in np.geomspace(2**10, 2**20, 17).round())
SHORT_SIZES = (2**10, 2**12)
REGIMES = (0.1, 0.5)
FEATURES, ALPHA = 10, 10.0
COLUMNS, COMPONENTS = 20, 3
LARGE_SINGULAR, SMALL_SINGULAR = 1 / 1.2, 1 / 30


def regression(clients: int, features: int = FEATURES, seed: int = 0) -> Reals:
    """Draw rows (n, d + 1): A uniform on [-1, 1], b = A x + residual scaled by its public bound of four deviations."""
    return regression_rows(np.random.default_rng([seed, clients]), clients, features, seed)


def regression_rows(rng: np.random.Generator, clients: int, features: int, seed: int) -> Reals:
    """Draw some rows of the population whose coefficients x have a seed."""
    A = rng.uniform(-1, 1, (clients, features))
    x = np.random.default_rng(seed).standard_normal(features)
    spread = float(np.linalg.norm(x)) / np.sqrt(3)
    b = A @ x + spread * rng.standard_normal(clients)
    return np.column_stack([A, np.clip(b / (4 * np.sqrt(2) * spread), -1, 1)])


def gapped(clients: int, columns: int = COLUMNS, components: int = COMPONENTS, seed: int = 0) -> Reals:
    """Draw rows (n, d) of U Sigma V^T: Gaussian, with the first r singular values made large, the others small."""
    rng = np.random.default_rng([seed, clients])
    left, _, right = np.linalg.svd(rng.standard_normal((clients, columns)), full_matrices=False)
    values = np.where(np.arange(columns) < components, LARGE_SINGULAR, SMALL_SINGULAR) * np.sqrt(clients)
    return np.asarray(np.clip(left * values @ right, -1, 1))


def ridge_problem(rows: Reals, alpha: float = ALPHA) -> RidgeProblem:
    """Return the problem of Figures 3 and 4."""
    return RidgeProblem(rows, alpha, radius=RADIUS)


def low_rank_problem(rows: Reals) -> LowRankProblem:
    """Return the problem of Figure 2."""
    return LowRankProblem(rows, COMPONENTS, radius=RADIUS)


def figure(
    name: str,
    title: str,
    note: str,
    measure: str,
    population: Callable[[int], Reals],
    curves: Mapping[str, tuple[Callable[[Reals], Problem], float]],
    arguments: Sequence[str],
    *,
    sizes: Sequence[int] = SIZES,
    runs: int = RUNS,
) -> None:
    """Measure, print and write a figure against n: for each title a panel of both families."""
    families = Families(name, title, arguments, runs)
    for size in SHORT_SIZES if families.options.short else sizes:
        rows = population(size)
        draws = families.draws(next(iter(curves.values()))[0](rows))
        for panel, (problem, epsilon) in curves.items():
            choices = {"rows": ROWS, "sparsity": SPARSITY, "exponents": EXPONENTS}
            families.measure(panel, size, problem(rows), epsilon, draws, **choices)
    families.finish(note, "clients n", measure)
