"""dpmpc.privacy: the curve of the Gaussian, and what integer noise costs beside it, against independent routes."""

import math
from unittest.mock import ANY

import dp_accounting
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st

from dpmpc import privacy
from dpmpc.base.errors import GuaranteeError
from dpmpc.privacy.accountants import RENYI_ORDERS, epsilon_of_renyi, skellam_renyi
from dpmpc.privacy.exposure import ROUNDING_WIDTH, smoothing_slack, sum_slack
from dpmpc.privacy.gaussian import delta_of_mu, epsilon_of_mu, mu_of_budget
from support.rejections import rejects

BUDGETS = [(0.1, 1e-5), (1.0, 1e-5), (1.0, 1e-6), (3.0, 1e-9), (0.01, 1e-4)]


@pytest.mark.parametrize(("epsilon", "delta", "sigma"), [(1, 1e-5, 3.730632), (1, 1e-6, 4.22468)])
def test_analytic_gaussian_reference_values(epsilon, delta, sigma):
    assert privacy.analytic_gaussian_sigma(epsilon, delta) == pytest.approx(sigma, rel=2e-6)


def test_mu_reference_value():
    assert mu_of_budget(1, 1e-6) == pytest.approx(0.236704, abs=5e-7)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_sigma_agrees_with_dp_accounting(epsilon, delta):
    ours = privacy.analytic_gaussian_sigma(epsilon, delta)
    theirs = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS[:3])
def test_epsilon_never_below_a_privacy_loss_distribution(epsilon, delta):
    sigma = privacy.analytic_gaussian_sigma(epsilon, delta)
    pld = privacy_loss_distribution.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
    assert pld.get_epsilon_for_delta(delta) == pytest.approx(epsilon, rel=2e-3)


@given(st.floats(0.01, 5), st.floats(1e-12, 0.1))
def test_the_curve_inverts_in_both_directions(epsilon, delta):
    mu = mu_of_budget(epsilon, delta)
    assert delta_of_mu(mu, epsilon) == pytest.approx(delta, rel=1e-6)
    assert epsilon_of_mu(mu, delta) == pytest.approx(epsilon, rel=1e-6)


def test_no_epsilon_is_enough_for_a_gaussian_at_delta_zero():
    assert epsilon_of_mu(1.0, 0.0) == math.inf
    assert epsilon_of_mu(0.0, 0.0) == 0.0
    assert epsilon_of_mu(math.inf, 1e-6) == math.inf
    for mu, delta in ((-1.0, 1e-6), (math.nan, 1e-6), (1.0, -1e-6), (1.0, math.nan)):
        with rejects(ANY, expected="a number >= 0"):
            epsilon_of_mu(mu, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e6, 1e-6), (1e-15, 1e-15), (1.0, 1e-310)])
def test_a_budget_beyond_arithmetic_is_refused(epsilon, delta):
    with pytest.raises(GuaranteeError, match=r"epsilon, delta: \(.*\) given, but no noise"):
        privacy.analytic_gaussian_sigma(epsilon, delta)


def test_a_mechanism_may_cost_no_epsilon_at_all():
    assert epsilon_of_mu(1e-9, 1e-3) == 0
    assert delta_of_mu(0.0, 1.0) == 0
    assert delta_of_mu(1e-3, 10.0) == 0


def discrete_gaussian_pmf(sigma, reach):
    x = np.arange(-reach, reach + 1)
    mass = np.exp(-(x**2) / (2 * sigma**2))
    return mass / mass.sum()


@pytest.mark.parametrize("sigma", [0.5, 0.7, 1.0, 1.5])
def test_sum_slack_bounds_the_exact_log_ratio(sigma):
    terms = 4
    single = discrete_gaussian_pmf(sigma, 40)
    total = single
    for _ in range(terms - 1):
        total = np.convolve(total, single)
    target = discrete_gaussian_pmf(sigma * math.sqrt(terms), 40 * terms)
    keep = target > 1e-9
    deviation = np.abs(np.log(total[keep] / target[keep])).max()
    assert deviation <= sum_slack(sigma, terms) + 1e-9
    assert sum_slack(sigma, terms) < 0.5 or sigma < 0.7


@pytest.mark.parametrize("width", [0.45, 0.6, 0.8])
def test_rounding_a_gaussian_gives_the_discrete_gaussian_within_its_slack(width):
    sigma, reach, grid = 2.0, 30, 4001
    x = np.linspace(-14, 14, grid)
    density = np.exp(-(x**2) / (2 * (sigma**2 - width**2)))
    y = np.arange(-reach, reach + 1)
    kernel = np.exp(-((y[None, :] - x[:, None]) ** 2) / (2 * width**2))
    kernel /= kernel.sum(axis=1, keepdims=True)
    rounded = density @ kernel
    rounded /= rounded.sum()
    target = discrete_gaussian_pmf(sigma, reach)
    keep = target > 1e-8
    deviation = np.abs(np.log(rounded[keep] / target[keep])).max()
    assert 0 < deviation <= smoothing_slack(width) + 1e-6


@pytest.mark.parametrize("width", [0.5, 0.7, 1.0, 1.3])
def test_smoothing_slack_is_what_a_lattice_does(width):
    """ln(rho_w(Z) / rho_w(Z + 1/2)), the largest log-ratio of the masses of two shifted lattices."""
    x = np.arange(-60, 61)
    on, between = (math.fsum(np.exp(-((x + shift) ** 2) / (2 * width**2))) for shift in (0.0, 0.5))
    exact = math.log(on / between)
    assert exact - 1e-14 <= smoothing_slack(width) <= 1.001 * exact + 1e-14


def test_the_rounding_width_costs_nothing():
    assert smoothing_slack(ROUNDING_WIDTH) <= 2.0**-80
    assert sum_slack(1000.0, 10**9) == 0
    assert math.isinf(smoothing_slack(0.1))
    assert sum_slack(2.0, 10**6) >= sum_slack(2.0, 10**3) > 0


def exact_renyi_skellam(order, shift, variance):
    reach = int(30 * math.sqrt(variance) + 60)
    z = np.arange(-reach, reach + 1)
    log_pmf = np.log(scipy.special.ive(np.abs(z), variance))
    moved = np.log(scipy.special.ive(np.abs(z - shift), variance))
    return scipy.special.logsumexp(order * log_pmf + (1 - order) * moved) / (order - 1)


@pytest.mark.parametrize("variance", [20.0, 100.0, 400.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_skellam_renyi_is_never_below_the_exact_divergence(variance, shift):
    for order in (2, 3, 5, 8, 16):
        bound = skellam_renyi(order, variance=variance, l1=shift, l2=shift, leverage=1.0, leverage_of_squares=1.0)
        exact = exact_renyi_skellam(order, shift, variance)
        assert bound >= exact - 1e-9
        assert bound <= 2 * exact


def test_both_forms_of_the_skellam_bound_are_the_published_ones():
    """Agarwal, Kairouz and Liu 2021, Theorem 3.5: quadratic where noise is wide, linear elsewhere."""
    wide = skellam_renyi(3, variance=50.0, l1=7, l2=4, leverage=0.5, leverage_of_squares=0.2)
    assert wide == pytest.approx(3 * 16 * 0.5 / 100 + (5 * 16 + 42) * 0.2 / (4 * 2500), rel=1e-12)
    narrow = skellam_renyi(9, variance=2.0, l1=7, l2=4, leverage=0.5, leverage_of_squares=0.2)
    assert narrow == pytest.approx(9 * 16 * 0.5 / 4 + 3 * 7 * 0.5 / 4, rel=1e-12)


@pytest.mark.parametrize("mu", [1e-300, 1e-12, 1e-9, 9e-7, 1e-3])
@pytest.mark.parametrize("a", [0.0, 0.5, 4.0])
def test_delta_keeps_its_digits_where_mu_is_small(mu, a):
    def excess(t):  # of the density of N(mu, 1) over e^epsilon times that of N(0, 1)
        return math.exp(-((a - mu / 2 + t) ** 2) / 2) / math.sqrt(2 * math.pi) * -math.expm1(-mu * t) / mu

    expected = mu * scipy.integrate.quad(excess, 0, 12, epsabs=0, epsrel=1e-12)[0]
    assert delta_of_mu(mu, a * mu) == pytest.approx(expected, rel=1e-9)
    assert epsilon_of_mu(mu, expected) == pytest.approx(a * mu, rel=1e-9, abs=1e-9 * mu)


def test_no_loss_exceeds_an_infinite_epsilon():
    assert delta_of_mu(1.0, math.inf) == 0
    assert delta_of_mu(1e-12, math.inf) == 0
    assert delta_of_mu(1e-320, 1.0) == 0


def test_a_loss_beyond_all_digits_has_no_chance():
    assert delta_of_mu(1.0, 1e200) == 0


def test_epsilon_of_mu_is_as_exact_as_its_delta():
    for mu, delta in ((0.237, 1e-6), (1.0, 1e-9), (3.0, 1e-3)):
        assert delta_of_mu(mu, epsilon_of_mu(mu, delta)) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_renyi_conversion_agrees_with_dp_accounting(delta):
    for rho in (0.01, 0.5, 4.0):
        ours = epsilon_of_renyi(lambda order, rho=rho: order * rho, delta)
        theirs, _ = rdp_privacy_accountant.compute_epsilon(RENYI_ORDERS, RENYI_ORDERS * rho, delta)
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_renyi_conversion_is_close_to_the_gaussian_curve_and_above_it():
    mu = mu_of_budget(1, 1e-6)
    epsilon = epsilon_of_renyi(lambda order: order * mu**2 / 2, 1e-6)
    assert 1 < epsilon < 1.25
