"""Lemmas of the appendix of Wu et al. 2022: the steps of its proofs held against exact functions and bad cases."""

import math

import numpy as np
import pytest
from scipy import stats


def test_lemma_3_logarithms():
    """The first two hold on [0, 1]; the third is printed with x/2 beyond 1, where its proof, and the truth, has x/4."""
    x = np.linspace(0, 1, 10_001)[:-1]
    assert np.all(-np.log1p(-x) - x >= x**2 / 2)
    assert np.all(x - np.log1p(x) >= x**2 / 4)
    beyond = np.linspace(1, 100, 10_001)
    assert np.all(beyond - np.log1p(beyond) >= beyond / 4)
    assert np.array_equal(beyond - np.log1p(beyond) >= beyond / 2, beyond > 2.5128)


def test_the_chi_square_tail_of_theorem_1_lacks_a_half():
    """P(c > n (1 + x)) <= exp(-n (x - log(1 + x))/2) by Chernoff; without the half, as printed, it is false."""
    for n in (10, 100, 1000):
        for x in (0.1, 0.5, 1.0):
            assert stats.chi2.sf(n * (1 + x), n) <= math.exp(-n * (x - math.log1p(x)) / 2)
    assert stats.chi2.sf(150, 100) > 10 * math.exp(-100 * (0.5 - math.log(1.5)))


def lemma_4_constant(hessian, moments):
    """Return 2 ||C|| ||H^-1||^2 + 2 ||H^-1||, which the argument of the proof gives."""
    inverse = 1 / np.linalg.eigvalsh(hessian)[0]
    return 2 * np.linalg.norm(moments) * inverse**2 + 2 * inverse


def test_lemma_4_errors_of_moments_bound_that_of_the_weights():
    """Fixed seed, 2000 perturbations of norm beta up to half the least eigenvalue: never above constant times it."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        root = rng.standard_normal((4, 4))
        hessian, moments = root @ root.T + 0.1 * np.eye(4), rng.standard_normal(4)
        beta = rng.uniform(0.01, 1) * np.linalg.eigvalsh(hessian)[0] / 2
        shift, turn = rng.standard_normal((4, 4)), rng.standard_normal(4)
        shift = beta * (shift + shift.T) / np.linalg.norm(shift + shift.T, 2)
        turn *= beta / np.linalg.norm(turn)
        off = np.linalg.solve(hessian + shift, moments + turn) - np.linalg.solve(hessian, moments)
        assert np.linalg.norm(off) <= lemma_4_constant(hessian, moments) * beta


def test_lemma_4_needs_more_than_the_constants_that_are_printed():
    """One column, H = 1, C = 10, beta = 1/2: the error is 22 beta, printed are 12 (statement) and 6.25 (proof)."""
    hessian, moments, beta = np.eye(1), np.array([10.0]), 0.5
    error = (moments[0] + beta) / (hessian[0, 0] - beta) - moments[0]
    assert error == pytest.approx(22 * beta)
    assert error <= lemma_4_constant(hessian, moments) * beta
    assert error > 12 * beta > (2 * 10 + 5) / 4 * beta


def test_lemma_5_a_normal_tail():
    beta = np.geomspace(0.01, 30, 500)
    assert np.all(2 * stats.norm.sf(beta) <= 2 / (math.sqrt(2 * math.pi) * beta) * np.exp(-(beta**2) / 2))


@pytest.mark.statistical
def test_lemma_6_a_sum_of_products_is_a_difference_of_chi_squares():
    """The identity, and the law: 20,000 sums of 5 products against differences, two-sample KS, false alarms 1e-3."""
    rng = np.random.default_rng(3)
    first, second = rng.standard_normal((2, 20_000, 5))
    difference = ((first + second) ** 2 - (first - second) ** 2) / 4
    assert difference == pytest.approx(first * second, abs=1e-12)
    other = (rng.chisquare(5, 20_000) - rng.chisquare(5, 20_000)) / 2
    assert stats.ks_2samp((first * second).sum(axis=1), other).pvalue > 1e-3
