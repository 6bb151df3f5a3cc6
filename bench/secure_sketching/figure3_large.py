"""Figure 3 to n = 10^8: ridge regression with noise on every entry, as printed, and where the error of each p turns.

Section 6.2 of Burkhardt et al. 2025 says that for one p (its value is lost from our text) the error "jumps towards the
local model" and rises with n in all settings. Up to n = 2^20, where Figure 3 ends, small exponents cannot be told from
the local model. Here rows are touched once: their second moments are added up, chunk by chunk, and the noise's products
are drawn by their law (`NoiseProducts.of_gram`), so that n costs nothing more.

What comes out follows from one line. The noise adds c^2 = (Delta/mu)^2 n^-p to the second moment h of every feature,
which shrinks the weights by h/(h + c^2): phi - 1 is close to SNR (1 + h/c^2)^-2, with SNR = R^2/(1 - R^2) = 1 here. It
falls in n for every p > 0 and is half of a local model's weights where n = ((Delta/mu)^2/h)^(1/p).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.linalg import cholesky

from bench.charts import Chart, Panel, finish, options_of
from bench.secure_sketching.printed import NoiseProducts, entries_name, entry_scale
from bench.secure_sketching.synthetic import ALPHA, FEATURES, RADIUS, REGIMES, regression_rows
from bench.secure_sketching.utility import DELTA, TRIVIAL, RidgeProblem
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.data.schemas import clip_ball, largest_squared_norm
from dpmpc.linear.contributions.contribution import moment_sensitivity
from dpmpc.models.papers.baselines.common import symmetric_noise
from dpmpc.privacy.gaussian import mu_of_budget

NAME = "figure3_large"
TITLE = "Figure 3 to n = 10^8: ridge regression, noise on every entry as printed"
EXPONENTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SIZES = (*(2**power for power in range(10, 27)), 10**8)
SHORT_SIZES = (2**10, 2**12, 2**14)
CHUNK = 1 << 16
RUNS = 50
CURVES = (*((epsilon, ALPHA) for epsilon in REGIMES), (REGIMES[-1], 1e5))  # epsilon and λ of the panels
SECOND_MOMENT = 1 / 3  # of a feature, uniform on [-1, 1]
CENTRAL = "central SSP"


@dataclasses.dataclass(frozen=True)
class Population:
    """Second moments of the first n rows."""

    clients: int  # n
    # (d + 1, d + 1): of the rows, by which answers are judged, and of the rows in the public ball, to which noise is
    # added
    exact: Reals
    clipped: Reals


def populations(sizes: Sequence[int], features: int = FEATURES, seed: int = 0) -> Iterator[Population]:
    """Draw the rows of the synthetic population one after another, and stop at each size, from the smallest on."""
    rng = np.random.default_rng([seed, sizes[-1]])
    exact, clipped, drawn = np.zeros((features + 1, features + 1)), np.zeros((features + 1, features + 1)), 0
    for size in sizes:
        while drawn < size:
            rows = regression_rows(rng, min(CHUNK, size - drawn), features, seed)
            exact += rows.T @ rows
            inside = clip_ball(rows, RADIUS)
            clipped += inside.T @ inside
            drawn += len(rows)
        yield Population(size, exact.copy(), clipped.copy())


def measure(population: Population, epsilon: float, runs: int, alpha: float = ALPHA) -> dict[str, list[float]]:
    """Return phi - 1 of every exponent, of the curator's SSP and of the trivial answer, each once a run."""
    judge = RidgeProblem(cholesky(population.exact), alpha)  # p rows of the same second moments
    columns = len(population.exact)
    draws = [NoiseProducts.of_gram(population.clipped, population.clients, seed) for seed in range(runs)]
    found = {}
    for exponent in EXPONENTS:
        scale = entry_scale(population.clients, columns, RADIUS, epsilon, exponent)
        found[entries_name(exponent)] = [
            judge.judge_moments(noise.moments(population.clipped, scale)) for noise in draws
        ]
    sigma = moment_sensitivity(largest_squared_norm(columns, RADIUS)) / mu_of_budget(epsilon, DELTA)
    found[CENTRAL] = [
        judge.judge_moments(population.clipped + symmetric_noise(columns, sigma, Stream.from_seed(seed)))
        for seed in range(runs)
    ]
    found[TRIVIAL] = [judge.trivial()] * runs
    return found


def turning(epsilon: float, exponent: float) -> float:
    """Return the n at which the noise's share of a feature's second moment is one half."""
    local = entry_scale(1, FEATURES + 1, RADIUS, epsilon, 0.0) ** 2
    return float((local / SECOND_MOMENT) ** (1 / exponent))


def expected(clients: int, epsilon: float, exponent: float) -> float:
    """Return (1 + h/c^2)^-2, which phi - 1 comes close to where n is large."""
    scale = entry_scale(clients, FEATURES + 1, RADIUS, epsilon, exponent)
    return float((1 + SECOND_MOMENT / scale**2) ** -2)


def findings(panels: Sequence[Panel]) -> list[str]:
    """Say at which n each exponent turns, and what the closed form, of no penalty, has for the largest size."""
    lines = []
    for panel, (epsilon, alpha) in zip(panels, CURVES, strict=True):
        if alpha != ALPHA:
            continue
        turns = ", ".join(f"{turning(epsilon, p):.1e} (p = {p:g})" for p in EXPONENTS[1:])
        last = ", ".join(f"{expected(int(panel.x[-1]), epsilon, p):.2g} (p = {p:g})" for p in EXPONENTS)
        lines += [
            f"{panel.title}: the noise is half of a feature's second moment at n = {turns}.",
            f"{panel.title}: (1 + h/c²)^-2 at n = {panel.x[-1]:,.0f}: {last}.",
        ]
    return ["\n\n".join(lines)]


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the figure."""
    options = options_of(f"secure_sketching.{NAME}", TITLE, arguments, RUNS)
    sizes = SHORT_SIZES if options.short else SIZES
    panels = [Panel(f"ε = {epsilon:g}, λ = {alpha:g}") for epsilon, alpha in CURVES]
    for population in populations(sizes):
        for panel, (epsilon, alpha) in zip(panels, CURVES, strict=True):
            panel.add(population.clients, measure(population, epsilon, options.runs, alpha))
    note = (
        f"d = {FEATURES}, rows clipped to norm {RADIUS}, δ = {DELTA:g}; the n rows are the first n of "
        "one population. Gaussian noise of variance (Δ₂/μ)² n^-p on every entry, drawn through the Gram matrix, "
        "exactly in law (theorem gram-noise); no guarantee is claimed for p > 0. p = 0 is the local model."
    )
    chart = Chart(NAME, TITLE, note, "clients n", RidgeProblem.measure, panels, findings(panels), styles=STYLES)
    finish(chart, options.out)


STYLES = {
    entries_name(p): {"marker": "o", "linewidth": 1.2, "color": (0.75 + 0.1 * p, 0.75 * (1 - p), 0.75 * (1 - p))}
    for p in EXPONENTS
}
