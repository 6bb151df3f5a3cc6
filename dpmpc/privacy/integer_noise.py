"""What integer noise costs beside the Gaussian: the discrete Gaussian's slack and the Skellam's Renyi bound.

Discrete Gaussian
-----------------
Write rho_w(x) = exp(-x^2 / (2 w^2)) and let e(w) = 2 sum_{k>=1} exp(-2 pi^2 w^2 k^2). By Poisson summation, for every
real c, the mass rho_w(Z + c) lies within a factor 1 +- e(w) of w sqrt(2 pi): the mass of a wide lattice Gaussian
hardly depends on where its lattice lies. Two consequences, each a bound on log-ratios of probabilities, hence "pure":

*Sums.* If P is the discrete Gaussian of parameter sqrt(j) sigma and D that of parameter sigma, then (P * D)(z) is
proportional to rho_{sqrt(j+1) sigma}(z) rho_w(Z + c(z)) with w = sigma sqrt(j/(j+1)). So the sum of m discrete
Gaussians is the discrete Gaussian of parameter sqrt(m) sigma up to a log-ratio of at most sum_{j=1}^{m-1} ln((1 +
e)/(1 - e)), e = e(sigma sqrt(j/(j+1))). (Kairouz, Liu and Steinke 2021 state the same fact with a simpler constant.)

*Rounding.* Draw x from N(0, v - w^2) and round it to y = x + D, D the discrete Gaussian of parameter w on Z - x. The
law of y is that of the discrete Gaussian of variance parameter v up to ln((1 + e)/(1 - e)), e = e(w). Rounding
commutes with adding an integer, so the discrete Gaussian mechanism on integers *is* a rounded Gaussian mechanism of
variance v - w^2, up to that slack, and inherits its tight (epsilon, delta) curve.

Together: a release whose noise has slack a in total, and whose rounded Gaussian is mu-GDP, is (epsilon(mu, delta
e^-a) + 2 a, delta)-DP. In the units in which clients send their data (sigma in the thousands), a is below 1e-20.

Skellam
-------
The Renyi bound of Agarwal, Kairouz and Liu 2021 (Theorem 3.5), added up over the rows that one client moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

# Width at which rounding a Gaussian costs ln((1+e)/(1-e)) = 2^-80 or less per coordinate: e(w) <= 2^-81.
ROUNDING_WIDTH = math.sqrt(math.log(2.0**83) / (2 * math.pi**2))
EXACT_TERMS = 64  # of a sum, that are added one by one to bound its distance from a discrete Gaussian
RENYI_ORDERS = np.unique(np.concatenate([np.arange(2, 65), np.geomspace(65, 2**20, 400).astype(np.int64)])).astype(
    float
)


def smoothing_slack(width: float) -> float:
    """Return ln((1 + e)/(1 - e)) with e = e(width) rounded upwards; infinity where the bound says nothing."""
    decay = math.exp(-2 * math.pi**2 * width**2)
    if decay >= 0.4:
        return math.inf
    excess = 2 * decay / (1 - decay**3)  # k^2 >= 3k - 2 turns the tail into a geometric series
    return math.log1p(excess) - math.log1p(-excess) if excess < 1 else math.inf


def sum_slack(sigma: float, terms: int) -> float:
    """Return the log-ratio between a sum of `terms` discrete Gaussians and one of the same variance parameter.

    The first `EXACT_TERMS` terms of the sum are added one by one; the rest, which only get smaller, are bounded by the
    next one.
    """
    head = min(terms - 1, EXACT_TERMS)
    slack = sum(smoothing_slack(sigma * math.sqrt(j / (j + 1))) for j in range(1, head + 1))
    if terms - 1 > EXACT_TERMS:
        slack += (terms - 1 - EXACT_TERMS) * smoothing_slack(sigma * math.sqrt((EXACT_TERMS + 1) / (EXACT_TERMS + 2)))
    return slack


def skellam_renyi(
    order: float, *, variance: float, l1: float, l2: float, leverage: float, leverage_of_squares: float
) -> float:
    """Return the Renyi divergence bound of order alpha for Skellam noise on the rows that one client moves.

    Agarwal, Kairouz and Liu 2021, Theorem 3.5, for one row of noise variance V:
    alpha Delta_2^2 / (2 V) + min{((2 alpha - 1) Delta_2^2 + 6 Delta_1) / (4 V^2), 3 Delta_1 / (2 V)}.
    Rows are independent, so their divergences add; with V_r = m_r v the sums over a client's rows are `leverage` =
    max_i sum_r 1/m_r and `leverage_of_squares` = max_i sum_r 1/m_r^2.
    """
    gaussian = order * l2**2 * leverage / (2 * variance)
    quadratic = ((2 * order - 1) * l2**2 + 6 * l1) * leverage_of_squares / (4 * variance**2)
    linear = 3 * l1 * leverage / (2 * variance)
    return gaussian + min(quadratic, linear)


def epsilon_of_renyi(divergence: Callable[[float], float], delta: float) -> float:
    """Convert Renyi bounds to epsilon (Canonne, Kamath and Steinke 2020, Proposition 12); best of all orders."""
    best = math.inf
    for order in RENYI_ORDERS:
        epsilon = divergence(order) + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        best = min(best, epsilon)
    return max(best, 0.0)
