"""Gaussian projections: normal entries, one matrix a seed."""

import numpy as np
import pytest
import scipy.stats

from dpmpc.linear.sketching.dense import GaussianProjection
from support.rejections import rejects


def test_entries_are_independent_standard_normals():
    """Kolmogorov-Smirnov on 40,000 entries and the largest of 1,225 correlations: false alarms one in a million."""
    S = GaussianProjection(rows=50, columns=800, seed=1)
    entries = S.apply(np.eye(800))
    assert scipy.stats.kstest(entries.ravel(), "norm").pvalue > 1e-6
    correlation = np.corrcoef(entries) - np.eye(50)
    assert np.abs(correlation).max() < 6.2 / np.sqrt(800)
    np.testing.assert_allclose(S @ np.eye(800), entries / np.sqrt(50))


def test_a_seed_gives_one_matrix():
    X = np.random.default_rng(0).standard_normal((30, 3))
    whole = GaussianProjection(7, 30, seed=2) @ X
    assert (whole != GaussianProjection(7, 30, seed=3) @ X).all()
    np.testing.assert_array_equal(GaussianProjection(7, 30, seed=2) @ X, whole)
    np.testing.assert_allclose(GaussianProjection(7, 30, seed=2) @ X[:, 1], whole[:, 1], rtol=1e-13)


@pytest.mark.parametrize("X", [np.zeros((29, 2)), np.zeros((30, 2, 2)), np.zeros(31)])
def test_bad_input(X):
    with rejects("X", expected="float64 (30, p)"):
        GaussianProjection(7, 30, seed=2) @ X
    with rejects("X", given="uint64 (30, 2)"):
        GaussianProjection(7, 30, seed=2).apply(np.zeros((30, 2), np.uint64))
    with rejects("rows", given="0"):
        GaussianProjection(0, 30, seed=2)
