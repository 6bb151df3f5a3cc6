"""Appendix of Showkatbakhsh, Karakus and Diggavi (ISIT 2018): Lemmas 3, 4, Propositions 3, 4, Corollary 3."""

import math

import numpy as np
import pytest

CASES = 300


def solve(X, y, penalty=0.0):
    return np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T @ y)


def cases(seed):
    """Draw problems of every conditioning: n = 40, d = 3."""
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        X = rng.standard_normal((40, 3)) * np.exp(rng.uniform(-2, 2, 3))
        yield X, X @ rng.standard_normal(3) + rng.uniform(0.01, 3) * rng.standard_normal(40), rng


def fitted_ratio(X, y):
    fit = X @ solve(X, y)
    return np.linalg.norm(fit) / np.linalg.norm(fit - y)


def test_lemma_3_a_perturbed_matrix_costs_what_its_relative_norm_says():
    """Fixed seed: in all cases with kappa Delta < 1, at the least noise and at the most."""
    for X, y, rng in cases(0):
        sizes = np.linalg.svd(X, compute_uv=False)
        kappa = sizes[0] / sizes[-1]
        noise = rng.standard_normal(X.shape)
        noise *= rng.uniform(0.01, 0.99) * sizes[-1] / np.linalg.norm(noise, 2)  # kappa Delta = ||noise||/s_min
        lost = kappa * np.linalg.norm(noise, 2) / sizes[0]
        best = np.linalg.norm(X @ solve(X, y) - y)
        found = np.linalg.norm(X @ solve(X + noise, y) - y)
        assert found / best <= 1 + lost / (1 - lost) * (kappa + fitted_ratio(X, y))


@pytest.mark.statistical
def test_proposition_3_the_largest_singular_value_of_gaussian_entries():
    """Fixed seed, 1000 matrices: fewer than 2 exp(-t^2/2) of them, .27 and .022, are beyond; all means lie below."""
    rng = np.random.default_rng(1)
    for rows, columns in ((50, 20), (20, 20), (200, 3)):
        found = np.array([np.linalg.norm(rng.standard_normal((rows, columns)), 2) for _ in range(1000)])
        edge = math.sqrt(rows) + math.sqrt(columns)
        assert found.mean() < edge
        for t in (2.0, 3.0):
            assert np.mean(found > edge + t) <= 2 * math.exp(-(t**2) / 2)


def test_lemma_4_a_penalty_costs_at_most_its_share():
    for X, y, rng in cases(2):
        least = np.linalg.svd(X, compute_uv=False)[-1] ** 2
        penalty = least * np.exp(rng.uniform(-5, 5))
        best = np.linalg.norm(X @ solve(X, y) - y)
        found = np.linalg.norm(X @ solve(X, y, penalty) - y)
        assert found / best <= 1 + penalty / (least + penalty) * fitted_ratio(X, y)


def test_corollary_3_as_its_proof_has_it():
    """||theta|| is at most max s/(s^2 + lambda) ||X theta*||; Equation 36 has ||X theta* - y||, which is false."""
    printed = []
    for X, y, rng in cases(3):
        sizes = np.linalg.svd(X, compute_uv=False)
        penalty = np.exp(rng.uniform(-3, 5))
        most = (sizes / (sizes**2 + penalty)).max()
        fit = X @ solve(X, y)
        norm = np.linalg.norm(solve(X, y, penalty))
        assert norm <= most * np.linalg.norm(fit) * (1 + 1e-12)
        printed.append(norm <= most * np.linalg.norm(fit - y))
    assert sum(printed) < CASES


@pytest.mark.statistical
def test_proposition_4_a_sketch_costs_d_over_its_rows():
    """E(ratio) = 1 + d/(n' - d - 1), exactly, for S with Gaussian entries; 2000 sketches, five standard errors."""
    rng = np.random.default_rng(4)
    features, rows = 3, 30
    X = np.vstack([rng.standard_normal((40, features)), 0.7 * np.eye(features)])  # [X; sigma I]
    y = np.append(rng.standard_normal(40), np.zeros(features))
    best = np.linalg.norm(X @ solve(X, y) - y) ** 2
    ratios = []
    for _ in range(2000):
        S = rng.standard_normal((rows, len(X)))
        ratios.append(np.linalg.norm(X @ solve(S @ X, S @ y) - y) ** 2 / best)
    error = np.std(ratios) / math.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1 - features / (rows - features - 1)) < 5 * error
    assert np.mean(np.array(ratios) > (1 + math.sqrt(features / rows)) ** 2) < 0.01  # c_0 = 1 serves here
