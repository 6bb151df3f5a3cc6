"""zCDP of sums against exact Renyi divergences, its epsilon against the Gaussian curve, and the ledger that adds up."""

import math

import numpy as np
import pytest

from dpmpc.base.errors import GuaranteeError
from dpmpc.privacy import ZCDPBudget, analytic_gaussian_sigma
from dpmpc.privacy.composition import epsilon_of_rho, rho_of_sum
from support.rejections import rejects


def discrete_gaussians(sigma, terms, reach=60):
    """Probabilities of the sum of `terms` discrete Gaussians on -terms reach .. terms reach."""
    mass = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
    total = np.ones(1)
    for _ in range(terms):
        total = np.convolve(total, mass / mass.sum())
    return total


@pytest.mark.parametrize(("sigma", "terms"), [(1.0, 1), (2.5, 1), (0.7, 2), (1.0, 4), (1.5, 3)])
@pytest.mark.parametrize("moved", [1, 3])
def test_zcdp_of_a_sum_bounds_the_exact_divergence(sigma, terms, moved):
    law = discrete_gaussians(sigma, terms)
    P, Q = law[moved:], law[:-moved]
    kept = (P > 1e-250) & (Q > 1e-250)
    rho = rho_of_sum(moved, sigma, terms, 1)
    for alpha in (1.5, 2.0, 4.0, 8.0):
        divergence = math.log(np.sum(np.exp(alpha * np.log(P[kept]) + (1 - alpha) * np.log(Q[kept])))) / (alpha - 1)
        assert divergence <= rho * alpha + 1e-12
    if terms == 1:
        assert rho == moved**2 / (2 * sigma**2)
    with rejects("sigma", GuaranteeError):
        rho_of_sum(1, 0.4, terms, 1)


@pytest.mark.parametrize("terms", [2, 7])
@pytest.mark.parametrize("columns", [1, 30])
def test_the_price_of_a_sum_is_the_published_one(terms, columns):
    """tau p / 4 of Kairouz, Liu and Steinke 2021, every term of tau counted as much as its first."""
    for sigma in (0.5, 0.6, 1.0):
        tau = sum(10 * math.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)) for k in range(1, terms))
        price = rho_of_sum(3.0, sigma, terms, columns) - 9 / (2 * terms * sigma**2)
        assert tau * columns / 4 <= price * (1 + 1e-6)
        assert price == pytest.approx(10 * (terms - 1) * math.exp(-((math.pi * sigma) ** 2)) * columns / 4, rel=1e-6)


def test_epsilon_is_that_of_the_gaussian_mechanism():
    """rho = 1 / (2 sigma^2) for a sensitivity of 1."""
    for epsilon, delta in ((0.3, 1e-5), (1.0, 1e-6), (4.0, 1e-9)):
        rho = 1 / (2 * analytic_gaussian_sigma(epsilon, delta) ** 2)
        assert epsilon_of_rho(rho, delta) == pytest.approx(epsilon, rel=1e-9)


def test_a_ledger_refuses_what_it_has_not():
    ledger = ZCDPBudget(1.0)
    ledger.spend(0.75, "first")
    with rejects("rho", GuaranteeError):
        ledger.spend(0.3, "second")
    with rejects("rho", GuaranteeError):
        ledger.spend(math.nan, "a mistake")
    with rejects("rho", given="-0.75 given for a refund, a number >= 0 expected"):
        ledger.spend(-0.75, "a refund")
    ledger.spend(0.25, "third")
    assert (ledger.spent, ledger.entries) == (1.0, [("first", 0.75), ("third", 0.25)])
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with rejects("rho"):
            ZCDPBudget(wrong)
