"""Lemmas of Burkhardt et al. 2025 about sketches and noise, held against simulation; figures of the paper's page."""

import math

import numpy as np
import pytest

from dpmpc.linear.sketching import OSNAP
from dpmpc.privacy.accountants import occupancy_failure

FEATURES = 10


def distortion(matrix):
    """Largest relative change of a squared norm over the subspace that an orthonormal basis was mapped from."""
    return float(np.abs(np.linalg.svd(matrix, compute_uv=False) ** 2 - 1).max())


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rows", "sparsity", "median"), [(64, 4, 0.69), (200, 4, 0.39), (1000, 4, 0.18), (1000, 1, 0.18)]
)
def test_definition_3_1_a_sparse_matrix_embeds_a_subspace(rows, sparsity, median):
    """Fixed seed, 50 matrices: medians are within a sixth of those stated, over six standard errors."""
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((20_000, FEATURES)))[0]
    found = [distortion(OSNAP(rows, 20_000, sparsity, seed) @ basis) for seed in range(50)]
    assert np.median(found) == pytest.approx(median, rel=1 / 6)


@pytest.mark.statistical
def test_lemma_4_5_bounds_the_rows_that_are_nearly_empty():
    """Fixed seed, 400 matrices of n = 3000, k = 100: the bound is 2.4, the rate of failures about 0.1.

    At n = 6000 the bound is 0.055, the rate about 0.0025; the limits are six standard errors away or more.
    """
    for columns, most in ((3000, 0.2), (6000, 0.02)):
        matrices = [OSNAP(100, columns, 1, seed) for seed in range(400)]
        failures = np.mean([(matrix.occupancy() < 0.5 * columns / 100).any() for matrix in matrices])
        assert failures <= most
        assert failures <= occupancy_failure(matrices[0])


@pytest.mark.statistical
def test_lemma_5_1_gaussian_noise_has_nearly_the_same_norm_in_all_directions():
    """Fixed seed, 200 draws, k = 200, d = 10: |‖G u‖²/(k sigma²) - 1| is at most 2 sqrt(d/k) + d/k in the median."""
    rng = np.random.default_rng(1)
    found = [distortion(rng.standard_normal((200, FEATURES)) / math.sqrt(200)) for _ in range(200)]
    assert 0.3 < np.median(found) < 2 * math.sqrt(FEATURES / 200) + FEATURES / 200
    assert max(found) < 0.8


@pytest.mark.statistical
def test_lemma_5_3_laplace_noise_has_the_expected_norm():
    """Fixed seed, 500 draws of (200, 10): E‖L‖_F² = 2 b² k d within five standard errors; none is 1.3 times it."""
    rng = np.random.default_rng(2)
    found = [(rng.laplace(0, 3.0, (200, FEATURES)) ** 2).sum() / (2 * 9 * 200 * FEATURES) for _ in range(500)]
    assert np.mean(found) == pytest.approx(1, abs=0.012)
    assert max(found) < 1.3
