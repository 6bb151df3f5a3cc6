"""The synthetic population of Wu et al. 2022, section 5.2: ten features, no residual, six parties."""

from __future__ import annotations

import numpy as np

from bench.data_release.common import (
    BGM,
    DGM,
    OLS,
    RMGM,
    SUM,
    THEORY,
    ZERO,
    Fit,
    fit,
    mixed,
    noise_sd,
    paper_rows,
    releases,
    subject_mu,
    sum_moments,
    theory_rows,
)
from dpmpc.base.arrays import Reals

FEATURES = 10
PARTIES = (2, 2, 2, 2, 2, 1)
MOST_THEORY_ROWS = 1000  # where "theory" asks for more, no k is better than the zero predictor
SERIES = (OLS, DGM, BGM, RMGM, THEORY, SUM, ZERO)


def population(subjects: int, rng: np.random.Generator) -> tuple[Reals, Reals]:
    """Draw w* uniform on [-1/d, 1/d]^d and rows (x, w*^T x), x uniform on [-1, 1]^d; return rows and w*."""
    weights = rng.uniform(-1, 1, FEATURES) / FEATURES
    rows = np.empty((subjects, FEATURES + 1))
    rows[:, :-1] = rng.uniform(-1, 1, (subjects, FEATURES))
    rows[:, -1] = rows[:, :-1] @ weights
    return rows, weights


def rows_of(subjects: int, epsilon: float) -> dict[str, int]:
    """Return k of each RMGM."""
    theory = theory_rows(subjects, PARTIES, noise_sd(PARTIES, epsilon))
    return {RMGM: paper_rows(subjects, PARTIES, epsilon), THEORY: min(theory, MOST_THEORY_ROWS)}


def experiment(subjects: int, epsilons: tuple[float, ...], seed: int) -> dict[float, dict[str, tuple[float, float]]]:
    """Draw a population and one release of each kind at each budget."""
    rng = np.random.default_rng([seed, subjects])
    rows, weights = population(subjects, rng)
    moments = rows.T @ rows
    found = {}
    for epsilon in epsilons:
        counts = rows_of(subjects, epsilon)
        mixtures = {name: mixed(rows, count, seed) for name, count in counts.items()}
        total = sum_moments(moments, subjects, subject_mu(PARTIES, epsilon), seed)
        fits = {
            OLS: fit(moments / subjects),
            **releases(moments, mixtures, subjects, noise_sd(PARTIES, epsilon), rng),
            SUM: fit(total),
            ZERO: Fit(np.zeros(FEATURES), 0.0),
        }
        found[epsilon] = {
            name: (float(np.linalg.norm(fits[name].weights - weights)), fits[name].smallest) for name in SERIES
        }
    return found
