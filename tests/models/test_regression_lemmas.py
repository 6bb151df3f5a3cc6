"""Lemmas 3.1 to 3.3 and Figure 1 of Ediger 2021: the covariance of z = x y and the ball that dominates it."""

import numpy as np
import pytest

BETA = np.array([1.5, -0.5, 0.25])
COVARIANCE = np.outer(BETA, BETA) + (BETA @ BETA + 1) * np.eye(3)


@pytest.mark.statistical
def test_lemmas_3_2_and_3_3_the_covariance_of_the_products():
    """Fixed seed, 400,000 draws in 100 batches: every entry within five standard errors (false alarms 1e-5 in all)."""
    rng, found = np.random.default_rng(0), []
    for _ in range(100):
        x = rng.standard_normal((4000, 3))
        z = x * (x @ BETA + rng.standard_normal(4000))[:, None]
        found.append((z - BETA).T @ (z - BETA) / len(z))
    error = np.std(found, axis=0, ddof=1) / 10
    assert np.all(np.abs(np.mean(found, axis=0) - COVARIANCE) < 5 * error)


def test_lemma_3_1_and_figure_1_one_axis_touches_the_ball():
    """The circle of Figure 1 has the *variance* 2 ||beta||^2 + 1; its root, as printed, does not dominate."""
    values = np.linalg.eigvalsh(COVARIANCE)
    norm = BETA @ BETA
    assert values == pytest.approx([norm + 1, norm + 1, 2 * norm + 1])
    assert np.sqrt(2 * norm + 1) < values[-1]
