"""Section 6.2 of Burkhardt et al. 2025 as it is printed: noise on every entry of the data matrix, and no sketch.

The paper's experiments add noise "to every entry in input data matrix" A (n x d) and solve the problem on what comes
out. Neither a sketch nor its number of rows k stands in that section. With p = 0 this is the local model. With p = 1 it
would publish n rows that each carry next to no noise: **no guarantee is claimed for p > 0**, and no release of this
package has this law. It shows what the total noise of a central mechanism does when it is spread over the rows; what a
release of k rows gives is measured by `bench.secure_sketching.utility.compare`.

The text that we have has lost the constants. Chosen here, and stated at each figure:

- Gauss: variance (Delta_2/mu)^2 n^-p, mu from (epsilon, delta) by the exact curve, Delta_2 for replace-one under the
  public bounds of all competitors; p = 0 is the local model's variance.
- Laplace: one share of n, Gamma(1/n, b) - Gamma(1/n, b), b = Delta_1/epsilon: the n shares of a column add up to a
  Laplace variable of scale b. (The number of samples that the paper adds is lost; m of them have the variance times m.)

Seeded noise from NumPy's generator: for experiments, protects nobody.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky

from bench.secure_sketching.utility import DELTA, EXPONENTS, TRIVIAL, Problem, runs_at
from bench.wishart import wishart_factor
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data.schemas import clip_ball, largest_squared_norm
from dpmpc.privacy.gaussian import mu_of_budget

LAPLACE_ENTRIES = "Laplace on every entry"
CHUNK = 1 << 16  # rows of noise at once: memory does not grow with n

Draw = Callable[[np.random.Generator, tuple[int, int]], Reals]


def entries_name(exponent: float) -> str:
    """Name the curve of a noise variance proportional to n^-p on every entry."""
    return f"Gauss on every entry, p = {exponent:g}"


@dataclasses.dataclass(frozen=True)
class NoiseProducts:
    """What noise of unit scale adds to the second moments of rows.

    The noisy matrix is X + c N with one draw N (n, p) and a scale c. Its second moments are
    X^T X + c (X^T N + N^T X) + c^2 N^T N: one draw serves every exponent, budget and penalty, so that these are
    compared at the same noise, and no second n x p matrix is held.
    """

    mixed: Reals  # (p, p): X^T N + N^T X and N^T N
    square: Reals

    @classmethod
    def draw(cls, rows: Reals, draw: Draw, seed: int) -> NoiseProducts:
        """Draw N for rows (n, p), chunk by chunk."""
        rng = np.random.default_rng(seed)
        columns = rows.shape[1]
        mixed, square = np.zeros((columns, columns)), np.zeros((columns, columns))
        for first in range(0, len(rows), CHUNK):
            block = rows[first : first + CHUNK]
            noise = draw(rng, block.shape)
            mixed += block.T @ noise
            square += noise.T @ noise
        return cls(mixed + mixed.T, square)

    @classmethod
    def of_gram(cls, exact: Reals, clients: int, seed: int) -> NoiseProducts:
        """Draw them for N of N(0, 1) entries by their law, given the rows' second moments: at a cost free of n.

        With R^T R = X^T X and Q orthogonal, Q^T X = [R; 0], the matrix Q^T N has the law of N. Its first p rows N_1
        give X^T N = R^T N_1, the n - p others N^T N = N_1^T N_1 + a Wishart matrix (theorem gram-noise).
        """
        rng, columns = np.random.default_rng(seed), len(exact)
        if clients < columns:
            raise InputError("clients", f"{clients} given, at least {columns} expected, one for each column")
        top = rng.standard_normal((columns, columns))
        rest = wishart_factor(clients - columns, columns, rng)
        mixed = cholesky(exact).T @ top
        return cls(mixed + mixed.T, top.T @ top + rest.T @ rest)

    def moments(self, exact: Reals, scale: float) -> Reals:
        """Return (X + c N)^T (X + c N), given X^T X."""
        return np.asarray(exact + scale * self.mixed + scale**2 * self.square)


@dataclasses.dataclass(frozen=True)
class Draws:
    """The noise of all runs on one table of rows."""

    exact: Reals  # (p, p): second moments of the clipped rows
    # one for each run; run r of both has the seed r, as has run r of every other competitor
    gauss: tuple[NoiseProducts, ...]
    laplace: tuple[NoiseProducts, ...]

    @classmethod
    def of(cls, problem: Problem, runs: int) -> Draws:
        """Draw for the rows of a problem; fewer runs where there are many rows, as for the other competitors."""
        rows = problem.rows if problem.radius is None else clip_ball(problem.rows, problem.radius)
        seeds = range(runs_at(len(rows), runs))
        return cls(
            rows.T @ rows,
            tuple(NoiseProducts.draw(rows, standard_normal, seed) for seed in seeds),
            tuple(NoiseProducts.draw(rows, laplace_share(len(rows)), seed) for seed in seeds),
        )


def standard_normal(rng: np.random.Generator, shape: tuple[int, int]) -> Reals:
    """Draw N(0, 1)."""
    return rng.standard_normal(shape)


def laplace_share(clients: int) -> Draw:
    """Return the law of one of n shares of a Laplace variable of scale 1: Gamma(1/n, 1) - Gamma(1/n, 1)."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Reals:
        return np.asarray(rng.standard_gamma(1 / clients, shape) - rng.standard_gamma(1 / clients, shape))

    return draw


def gauss_scale(problem: Problem, epsilon: float, exponent: float, delta: float = DELTA) -> float:
    """Return the standard deviation Delta_2/mu n^(-p/2) of the noise on an entry."""
    if not 0 <= exponent <= 1:
        raise InputError("exponent", exponent, "a number from 0 (local) to 1")
    clients, columns = problem.rows.shape
    return entry_scale(clients, columns, problem.radius, epsilon, exponent, delta)


def entry_scale(
    clients: int, columns: int, radius: float | None, epsilon: float, exponent: float, delta: float = DELTA
) -> float:
    """Return the same for rows that are not at hand."""
    l2 = 2 * math.sqrt(largest_squared_norm(columns, radius))
    return float(l2 / mu_of_budget(epsilon, delta) * clients ** (-exponent / 2))


def laplace_scale(problem: Problem, epsilon: float) -> float:
    """Return b = Delta_1/epsilon for rows in the cube and in the ball: Delta_1 = 2 min(p, C sqrt(p))."""
    columns = problem.rows.shape[1]
    return 2 * math.sqrt(columns * largest_squared_norm(columns, problem.radius)) / epsilon


def measure(problem: Problem, epsilon: float, draws: Draws, *, delta: float = DELTA) -> dict[str, list[float]]:
    """Measure the printed experiment, the curator's mechanisms and the trivial answer, each once a run."""
    gauss = {entries_name(p): gauss_scale(problem, epsilon, p, delta) for p in EXPONENTS}
    scale = laplace_scale(problem, epsilon)
    found: dict[str, list[float]] = {
        name: [problem.judge_moments(noise.moments(draws.exact, size)) for noise in draws.gauss]
        for name, size in gauss.items()
    }
    found[LAPLACE_ENTRIES] = [problem.judge_moments(noise.moments(draws.exact, scale)) for noise in draws.laplace]
    for seed in range(len(draws.gauss)):
        for name, value in problem.curators(epsilon, delta, seed).items():
            found.setdefault(name, []).append(value)
    found[TRIVIAL] = [problem.trivial()] * len(draws.gauss)
    return found
