"""The curve of the Gaussian against mpmath with 60 digits and more; what it is inverted to; what halvings end at."""

import math

import mpmath
import numpy as np
import pytest

from dpmpc import privacy
from dpmpc.privacy.composition import Cost, composed_epsilon
from dpmpc.privacy.gaussian import curve, epsilon_of_mu, last, mu_of_budget

MUS = [1e-9, 3e-8, 1e-6, 9.9e-6, 1.1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.236704, 0.5, 1.0, 2.0, 3.7, 8.0, 20.0, 50.0]
PLACES = [-3.0, -0.5, 0.0, 0.3, 1.0, 2.5, 3.99, 4.01, 4.75, 6.0, 12.0, 25.0, 37.0]  # x = epsilon/mu - mu/2


def exact_curve(mu, epsilon):
    """Balle and Wang 2018, Theorem 8, with digits for all that cancel."""
    with mpmath.workdps(60 + max(0, int(-2 * math.log10(mu)))):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        second = mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        return mpmath.ncdf(m / 2 - e / m) - second, second, mpmath.npdf(e / m - m / 2)


@pytest.mark.parametrize("mu", MUS)
def test_delta_is_never_too_small_and_right_to_the_last_digits(mu):
    for x in PLACES:
        epsilon = mu * (x + mu / 2)
        exact, *slopes = exact_curve(mu, epsilon)
        found, *told = curve(mu, epsilon)
        assert exact <= found <= min(1, exact * (1 + mpmath.mpf("1e-15")) + 5e-324)
        assert told == pytest.approx([float(slope) for slope in slopes], rel=1e-13)


@pytest.mark.parametrize("mu", MUS[:-1])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-12, 1e-6, 1e-2])
def test_epsilon_is_proven_and_no_larger_than_it_has_to_be(mu, delta):
    epsilon = epsilon_of_mu(mu, delta)
    if epsilon == 0:
        assert exact_curve(mu, 0.0)[0] <= delta
        return
    assert exact_curve(mu, epsilon)[0] <= delta
    assert exact_curve(mu, epsilon * (1 - 1e-14))[0] > delta


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1e-4, 1e-9), (1e-3, 1e-6), (0.1, 1e-5), (1.0, 1e-6), (1.0, 0.6), (3.0, 1e-9), (10.0, 1e-30), (200.0, 1e-6)],
)
def test_noise_is_never_less_than_is_needed(epsilon, delta):
    """The direction of every rounding: the exact curve at the mu that noise is calibrated to keeps delta."""
    mu = mu_of_budget(epsilon, delta)
    assert exact_curve(mu, epsilon)[0] <= delta
    assert exact_curve(mu * (1 + 1e-14), epsilon)[0] > delta
    sigma = privacy.analytic_gaussian_sigma(epsilon, delta)
    assert exact_curve(float(1 / mpmath.mpf(sigma)), epsilon)[0] <= delta


@pytest.mark.parametrize(
    ("turn", "low", "high"),
    [(math.pi, 0.0, 4.0), (-math.e, -1e300, 1e300), (5e-324, 0.0, 1.0), (0.0, -1.0, 1.0), (1e-310, -2.0, 1e10)],
)
@pytest.mark.parametrize("near", [None, 0.5, 3.141592653589794, -2.7, 1e-310, 1e9])
def test_a_bisection_ends_at_neighbouring_doubles(turn, low, high, near):
    asked = []
    found = last(lambda number: asked.append(number) or number <= turn, low, high, near)
    assert found == turn
    assert len(asked) <= 130
    assert all(low < number < high for number in asked)
    if near is None:
        assert len(asked) <= 64


def test_a_good_guess_saves_questions():
    asked = []
    root = math.sqrt(2)
    found = last(lambda number: asked.append(number) or number * number <= 2, 0.0, 2.0, math.nextafter(root, 0.0))
    assert found * found <= 2 < math.nextafter(found, 2.0) ** 2
    assert len(asked) < 8


def test_what_is_composed_is_not_below_the_exact_curve():
    """A Gaussian beside randomised response of epsilon 0.1, whose law has two points."""
    mu, pure, delta = 1e-4, 0.1, 1e-6
    epsilon = composed_epsilon([Cost(mu=mu), Cost(epsilon=pure)], delta)
    likely = mpmath.mpf(1) / (1 + mpmath.exp(-mpmath.mpf(pure)))
    exact = likely * exact_curve(mu, epsilon - pure)[0] + (1 - likely) * exact_curve(mu, epsilon + pure)[0]
    assert exact <= delta
    assert np.isfinite(epsilon)
