"""The calibration of docs/mathematics.md, section 1.2 against independent routes: dense algebra, dp-accounting,
exhaustive search, exact Renyi.
"""

import dataclasses
import itertools
import math

import dp_accounting
import numpy as np
import pytest
import scipy.special
import scipy.stats
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st

from dpmpc import privacy
from dpmpc.encoding import FixedPoint
from dpmpc.errors import GuaranteeError, InputError
from dpmpc.noise import MAX_SCALE, DiscreteGaussian, DiscreteLaplace, GammaLaplace, Skellam
from dpmpc.privacy import Guarantee, RowExposure, Trust
from dpmpc.privacy.integer_noise import (
    RENYI_ORDERS,
    ROUNDING_WIDTH,
    epsilon_of_renyi,
    skellam_renyi,
    smoothing_slack,
    sum_slack,
)
from dpmpc.sketching import OSNAP, CountSketch, Sum

BUDGETS = [(0.1, 1e-5), (1.0, 1e-5), (1.0, 1e-6), (3.0, 1e-9), (0.01, 1e-4)]


def box(columns, bits=16):
    return FixedPoint(bits).sensitivity(columns)


# --- the Gaussian curve ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta", "sigma"), [(1, 1e-5, 3.730632), (1, 1e-6, 4.22468)])
def test_analytic_gaussian_reference_values(epsilon, delta, sigma):
    assert privacy.analytic_gaussian_sigma(epsilon, delta) == pytest.approx(sigma, rel=2e-6)


def test_mu_reference_value():
    assert privacy.mu_of_budget(1, 1e-6) == pytest.approx(0.236704, abs=5e-7)


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
    mu = privacy.mu_of_budget(epsilon, delta)
    assert privacy.delta_of_mu(mu, epsilon) == pytest.approx(delta, rel=1e-6)
    assert privacy.epsilon_of_mu(mu, delta) == pytest.approx(epsilon, rel=1e-6)


def test_no_epsilon_is_enough_for_a_gaussian_at_delta_zero():
    assert privacy.epsilon_of_mu(1.0, 0.0) == math.inf
    assert privacy.epsilon_of_mu(0.0, 0.0) == 0.0
    assert privacy.epsilon_of_mu(math.inf, 1e-6) == math.inf
    for mu, delta in ((-1.0, 1e-6), (math.nan, 1e-6), (1.0, -1e-6), (1.0, math.nan)):
        with pytest.raises(InputError, match=r"^(mu|delta): (-1|nan|-1e-06)"):
            privacy.epsilon_of_mu(mu, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e6, 1e-6), (1e-15, 1e-15), (1.0, 1e-310)])
def test_a_budget_beyond_arithmetic_is_refused(epsilon, delta):
    with pytest.raises(GuaranteeError, match=r"epsilon, delta: \(.*\) given, but no noise"):
        privacy.analytic_gaussian_sigma(epsilon, delta)


def test_a_mechanism_may_cost_no_epsilon_at_all():
    assert privacy.epsilon_of_mu(1e-9, 1e-3) == 0
    assert privacy.delta_of_mu(0.0, 1.0) == 0
    assert privacy.delta_of_mu(1e-3, 10.0) == 0


# --- integer noise --------------------------------------------------------------------------------------------------


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


def test_epsilon_of_mu_is_as_exact_as_its_delta():
    for mu, delta in ((0.237, 1e-6), (1.0, 1e-9), (3.0, 1e-3)):
        assert privacy.delta_of_mu(mu, privacy.epsilon_of_mu(mu, delta)) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_renyi_conversion_agrees_with_dp_accounting(delta):
    for rho in (0.01, 0.5, 4.0):
        ours = epsilon_of_renyi(lambda order, rho=rho: order * rho, delta)
        theirs, _ = rdp_privacy_accountant.compute_epsilon(RENYI_ORDERS, RENYI_ORDERS * rho, delta)
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_renyi_conversion_is_close_to_the_gaussian_curve_and_above_it():
    mu = privacy.mu_of_budget(1, 1e-6)
    epsilon = epsilon_of_renyi(lambda order: order * mu**2 / 2, 1e-6)
    assert 1 < epsilon < 1.25


# --- one joint mechanism --------------------------------------------------------------------------------------------


def test_balanced_reference_values():
    """docs/mathematics.md, section 1.2: n=20000, k=100, p=10, eta=1, (1, 1e-6): balanced sigma_client = 1.8893 for
    every s, central sd 26.719.
    """
    for sparsity in (1, 4, 8):
        sketch = OSNAP(rows=100, columns=20_000, sparsity=sparsity, seed=3, balanced=True)
        noise = privacy.calibrate(sketch, box(10), 1, 1e-6)
        assert math.sqrt(noise.variance) / 2**16 == pytest.approx(1.8893, rel=1e-4)
        released = sketch.occupancy() * noise.variance * sketch.scale**2 / 4.0**16
        assert np.sqrt(released) == pytest.approx(26.719, rel=1e-4)
        unit = FixedPoint(0).sensitivity(10)
        kept = {"l1": unit.l1, "l2": unit.l2, "sparsity": sparsity, "epsilon": 1, "delta": 1e-6}
        assert privacy.released_sd("discrete-gaussian", **kept) == pytest.approx(26.719, rel=1e-4)


@pytest.mark.parametrize(("sparsity", "ratio"), [(1, 30), (4, 598), (8, 2557)])
def test_the_papers_calibration_pays_the_stated_factor(sparsity, ratio):
    """docs/mathematics.md, section 1.1: ratio of client variances paper / joint at n=20000, k=100, d=10."""
    sketch = OSNAP(rows=100, columns=20_000, sparsity=sparsity, seed=3)
    joint = privacy.calibrate(sketch, box(10), 1, 1e-6)
    paper = privacy.calibrate(sketch, box(10), 1, 1e-6, calibration="paper")
    assert paper.variance / joint.variance == pytest.approx(ratio, rel=0.12)  # the draw decides the rest
    promised = privacy.account(paper, sketch, box(10), 1, 1e-6, calibration="paper")
    assert promised.achieved_epsilon < 1
    assert promised.calibration == "paper"


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("sparsity", [1, 3])
def test_mu_equals_dense_linear_algebra(sparsity, balanced):
    """Per-copy noise: mu^2 = v^T Sigma^-1 v for the worst client, Sigma the released noise's covariance."""
    sketch = OSNAP(rows=7, columns=90, sparsity=sparsity, seed=5, balanced=balanced)
    sensitivity = box(4)
    sigma = 5e4
    matrix = sketch.to_csc().toarray().astype(float)
    covariance = sigma**2 * np.diag((matrix != 0).sum(axis=1))
    direction = np.ones(4) * 2 * 2**16
    worst = 0.0
    for client in range(sketch.columns):
        moved = np.outer(matrix[:, client], direction)
        worst = max(worst, np.trace(moved.T @ np.linalg.inv(covariance) @ moved))
    exposure = RowExposure.of_clients(sketch, Trust())
    assert sensitivity.l2 * math.sqrt(exposure.leverage) / sigma == pytest.approx(math.sqrt(worst), rel=1e-10)


def test_corrupt_clients_bound_is_never_below_exhaustive_search():
    sketch = OSNAP(rows=5, columns=24, sparsity=2, seed=11)
    members = [set(np.flatnonzero(row)) for row in sketch.to_csc().toarray()]
    for corrupt in (1, 2):
        exposure = RowExposure.of_clients(sketch, Trust(corrupt_clients=corrupt))
        worst = 0.0
        for coalition in itertools.combinations(range(24), corrupt):
            left = [len(row - set(coalition)) for row in members]
            for victim in set(range(24)) - set(coalition):
                worst = max(worst, sum(1 / left[r] for r in range(5) if victim in members[r]))
        assert exposure.leverage >= worst - 1e-12


@pytest.mark.parametrize("noise", ["discrete-gaussian", "skellam", "gaussian"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.2, 1e-8)])
def test_calibration_is_enough_and_not_wasteful(noise, epsilon, delta):
    sketch = CountSketch(rows=20, columns=5000, seed=2, balanced=True)
    chosen = privacy.calibrate(sketch, box(3), epsilon, delta, noise=noise)
    promise = privacy.account(chosen, sketch, box(3), epsilon, delta)
    assert promise.achieved_epsilon <= epsilon
    assert promise.achieved_epsilon == pytest.approx(epsilon, rel=1e-3)
    assert promise.simulation == (noise == "gaussian")
    with pytest.raises(GuaranteeError, match=f"promised, but {noise} noise of variance"):
        privacy.account(chosen, sketch, box(3), 0.99 * epsilon, delta)


def test_skellam_costs_about_fifteen_percent_in_standard_deviation():
    sketch = Sum(columns=10_000)
    gaussian = privacy.calibrate(sketch, box(5), 1, 1e-6)
    skellam = privacy.calibrate(sketch, box(5), 1, 1e-6, noise="skellam")
    assert 1.0 < math.sqrt(skellam.variance / gaussian.variance) < 1.2


def test_discrete_gaussian_below_the_smoothing_width_is_accounted_as_nothing():
    sketch = Sum(columns=2)
    with pytest.raises(GuaranteeError, match="epsilon"):
        privacy.account(DiscreteGaussian(0.25), sketch, box(1, bits=0), 1, 1e-6)
    with pytest.raises(GuaranteeError, match="epsilon"):
        privacy.account(DiscreteGaussian(1.5), Sum(columns=1), box(1, bits=0), 1, 1e-6)


def test_slack_is_paid_for_every_entry_that_a_client_moves():
    """s p entries; epsilon(mu, delta e^-a) + 2 a of `dpmpc.privacy.integer_noise`."""
    sketch, sensitivity = OSNAP(rows=5, columns=300, sparsity=3, seed=2, balanced=False), box(4, bits=0)
    exposure, noise = RowExposure.of_clients(sketch, Trust()), DiscreteGaussian(0.75)
    occupancy = sketch.occupancy()
    assert occupancy.min() == exposure.fewest < exposure.most == occupancy.max()
    per_entry = sum_slack(0.75, int(occupancy.max())) + smoothing_slack(ROUNDING_WIDTH)
    promise = privacy.account(noise, sketch, sensitivity, 1e3, 1e-3)
    assert promise.slack == pytest.approx(12 * per_entry, rel=1e-12)
    assert exposure.integer_slack(1e6, 4) == 12 * smoothing_slack(ROUNDING_WIDTH) > 0
    expected = privacy.epsilon_of_mu(promise.mu, 1e-3 * math.exp(-promise.slack)) + 2 * promise.slack
    assert promise.achieved_epsilon == pytest.approx(expected, rel=1e-12)
    usable = 0.75**2 - ROUNDING_WIDTH**2 / exposure.fewest
    assert promise.mu == pytest.approx(sensitivity.l2 * math.sqrt(exposure.leverage / usable), rel=1e-12)
    assert promise.rho == promise.mu**2 / 2


def test_sum_slack_counts_every_seam():
    seams = [smoothing_slack(1.1 * math.sqrt(j / (j + 1))) for j in range(1, 64)]
    assert sum_slack(1.1, 64) == pytest.approx(math.fsum(seams), rel=1e-12)
    assert sum_slack(1.1, 1) == 0
    assert sum_slack(1.1, 1000) == pytest.approx(sum_slack(1.1, 65) + 935 * smoothing_slack(1.1 * math.sqrt(65 / 66)))


def test_small_integer_noise_pays_its_slack():
    """Few bits: the discrete Gaussian's slack shows up in the numbers, and calibration pays for it."""
    sketch = Sum(columns=400)
    noise = privacy.calibrate(sketch, box(1, bits=0), 1, 1e-6)
    promise = privacy.account(noise, sketch, box(1, bits=0), 1, 1e-6)
    assert promise.slack > 0
    assert promise.achieved_epsilon <= 1


@pytest.mark.parametrize(("clients", "sigma"), [(100, 2.0), (400, 1.5), (25, 8.0)])
def test_discrete_gaussian_epsilon_agrees_with_a_privacy_loss_distribution(clients, sigma):
    """One column of integers in {-1, 0, 1}: dp-accounting's discrete Gaussian of the summed variance, sensitivity 2."""
    delta = 1e-5
    noise = DiscreteGaussian(sigma)
    achieved = privacy.account(noise, Sum(columns=clients), box(1, bits=0), 100, delta).achieved_epsilon
    pld = privacy_loss_distribution.from_discrete_gaussian_mechanism(
        noise.sigma * math.sqrt(clients), sensitivity=2, value_discretization_interval=1e-4
    )
    exact = pld.get_epsilon_for_delta(delta)
    assert exact - 1e-3 <= achieved <= 1.02 * exact


def test_skellam_adds_up_the_rows_of_a_client():
    """Against the Renyi bounds of the worst client's rows, one by one."""
    sketch, sensitivity, delta = OSNAP(rows=6, columns=40, sparsity=3, seed=8), box(2, bits=0), 1e-5
    noise, left = Skellam(40), sketch.occupancy() - 2

    def divergence(order, client):
        rows = sketch.entries(0, 40)[0][client]
        alone = {"leverage": 1.0, "leverage_of_squares": 1.0, "l1": sensitivity.l1, "l2": sensitivity.l2}
        return sum(skellam_renyi(order, variance=float(noise.variance * left[row]), **alone) for row in rows)

    worst = max(epsilon_of_renyi(lambda order, i=client: divergence(order, i), delta) for client in range(40))
    trust = Trust(corrupt_clients=2)
    promised = privacy.account(noise, sketch, sensitivity, 100, delta, trust=trust).achieved_epsilon
    assert worst <= promised * (1 + 1e-12) <= worst * 1.001


@pytest.mark.parametrize("noise", ["discrete-gaussian", "skellam"])
@pytest.mark.parametrize(("epsilon", "reason"), [(1e-25, "is computed for it"), (1e-8, "that can be drawn gives it")])
def test_a_budget_that_no_noise_can_meet_is_refused(noise, epsilon, reason):
    with pytest.raises(GuaranteeError, match=rf"epsilon, delta: \({epsilon:g}, 1e-12\) given, but no noise {reason}"):
        privacy.calibrate(Sum(columns=10), box(2), epsilon, 1e-12, noise=noise)


@pytest.mark.parametrize("value", [True, "1", None, 1j])
def test_a_part_of_a_budget_is_a_number(value):
    with pytest.raises(InputError, match=r"delta: .* given, a number expected"):
        privacy.plain_float("delta", value)


# --- pure epsilon ---------------------------------------------------------------------------------------------------


def polya_sum_pmf(share, count, reach):
    """Exact law of a sum of `count` shares on [-reach, reach]: one share's, convolved with itself."""
    x = np.arange(4 * reach)
    polya = scipy.stats.nbinom.pmf(x, 1 / share.shares, -math.expm1(-1 / share.scale))
    one = np.convolve(polya, polya[::-1])[3 * reach - 1 : -(3 * reach - 1)]
    total = one
    for _ in range(count - 1):
        total = np.convolve(total, one)[reach : reach + one.size]
    return total


def largest_log_ratio(pmf, shift):
    inner = slice(len(pmf) // 4, -(len(pmf) // 4))  # away from the ends, where the convolution is cut off
    moved = np.roll(pmf, shift)
    return np.abs(np.log(pmf[inner] / moved[inner])).max()


@pytest.mark.parametrize("sparsity", [1, 2])
@pytest.mark.parametrize("corrupt", [0, 2])
def test_pure_epsilon_equals_exact_likelihood_ratios(sparsity, corrupt):
    """The worst client's rows, whose losses add up; the adversary knows the noise of the corrupt clients."""
    epsilon, sensitivity = 1.5, box(1, bits=0)
    sketch = OSNAP(rows=3, columns=17, sparsity=sparsity, seed=6)
    trust = Trust(corrupt_clients=corrupt)
    noise = privacy.calibrate(sketch, sensitivity, epsilon, 0, noise="discrete-laplace", trust=trust)
    occupancy = sketch.occupancy() - corrupt
    assert noise.shares == occupancy.min() < occupancy.max()
    losses = [largest_log_ratio(polya_sum_pmf(noise, int(m), 120), int(sensitivity.l1)) for m in occupancy]
    worst = max(sum(losses[row] for row in rows) for rows in sketch.entries(0, 17)[0].tolist())
    promise = privacy.account(noise, sketch, sensitivity, epsilon, 0, trust=trust)
    assert worst <= promise.achieved_epsilon + 1e-9 <= epsilon + 1e-9
    assert losses[int(occupancy.argmin())] == pytest.approx(promise.achieved_epsilon / sparsity, abs=1e-9)
    assert promise.achieved_epsilon == pytest.approx(epsilon, rel=1e-3)  # the scale is a multiple of 2^-10


def test_fewer_shares_than_make_up_a_laplace_lose_more_and_are_refused():
    noise = DiscreteLaplace(4.0, 10)
    assert largest_log_ratio(polya_sum_pmf(noise, 10, 100), 1) == pytest.approx(1 / 4, abs=1e-9)
    assert largest_log_ratio(polya_sum_pmf(noise, 9, 100), 1) > 1.2 / 4
    sensitivity = box(1, bits=0)
    assert privacy.account(noise, Sum(columns=10), sensitivity, 1, 0).achieved_epsilon == 0.5
    assert privacy.account(noise, Sum(columns=11), sensitivity, 1, 0).achieved_epsilon == 0.5
    with pytest.raises(GuaranteeError, match=r"shares: 10 given.*only 9"):
        privacy.account(noise, Sum(columns=9), sensitivity, 1, 0)
    with pytest.raises(GuaranteeError, match=r"shares: 10 given.*only 9"):
        privacy.account(noise, Sum(columns=12), sensitivity, 1, 0, trust=Trust(corrupt_clients=1, dropouts=2))


def test_pure_epsilon_agrees_with_a_privacy_loss_distribution():
    scale, shift = 8.0, 6
    pld = privacy_loss_distribution.from_discrete_laplace_mechanism(1 / scale, shift)
    exact = DiscreteLaplace(scale, 50)
    promise = privacy.account(exact, Sum(columns=50), box(3, bits=0), 1, 0)
    assert promise.achieved_epsilon == pytest.approx(pld.get_epsilon_for_delta(0), abs=1e-3)


@pytest.mark.parametrize("noise", ["discrete-laplace", "gamma-laplace"])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 7.0])
def test_pure_calibration_is_enough_and_not_wasteful(noise, delta, epsilon):
    sketch = OSNAP(rows=20, columns=5000, sparsity=4, seed=2, balanced=True)
    chosen = privacy.calibrate(sketch, box(3), epsilon, delta, noise=noise)
    assert chosen.scale == pytest.approx(4 * 6 * 2**16 / epsilon, rel=1e-5)
    assert chosen.shares == 1000
    promise = privacy.account(chosen, sketch, box(3), epsilon, delta)
    assert promise.achieved_epsilon <= epsilon
    assert promise.achieved_epsilon == pytest.approx(epsilon, rel=1e-5)
    assert promise.mu is None
    assert promise.slack == 0
    released = math.sqrt(1000 * chosen.variance) * sketch.scale
    kept = privacy.released_sd(noise, l1=box(3).l1, l2=box(3).l2, sparsity=4, epsilon=epsilon, delta=delta)
    assert released == pytest.approx(kept, rel=1e-4)


@given(st.floats(1e-3, 50), st.integers(1, 40))
def test_a_calibrated_scale_is_never_rounded_below_its_epsilon(epsilon, columns):
    sketch = Sum(columns=10)
    for noise in ("discrete-laplace", "gamma-laplace"):
        chosen = privacy.calibrate(sketch, box(columns, bits=3), epsilon, 0, noise=noise)
        assert privacy.account(chosen, sketch, box(columns, bits=3), epsilon, 0).achieved_epsilon <= epsilon


def test_the_papers_laplace_noise():
    """Corollary 4.10: b = 2 eta k d / epsilon, m = n/k - t."""
    sketch = CountSketch(rows=10, columns=1000, seed=2, balanced=True)
    trust = Trust(corrupt_clients=7)
    noise = privacy.calibrate(sketch, box(3), 0.5, 0, noise="gamma-laplace", trust=trust, calibration="paper")
    assert noise == GammaLaplace(2 * 2**16 * 10 * 3 / 0.5, 93)
    promise = privacy.account(noise, sketch, box(3), 0.5, 0, trust=trust, calibration="paper")
    assert promise.achieved_epsilon == pytest.approx(0.05)
    with pytest.raises(GuaranteeError, match="fewer than n/k = 3 expected"):
        privacy.calibrate(
            OSNAP(rows=10, columns=35, sparsity=3, seed=2),
            box(3),
            1,
            0,
            noise="discrete-laplace",
            trust=Trust(corrupt_clients=3),
            calibration="paper",
        )


def test_a_pure_guarantee_says_so():
    sketch = Sum(columns=1000)
    noise = privacy.calibrate(sketch, box(2), 1, 0, noise="discrete-laplace")
    promise = privacy.account(noise, sketch, box(2), 1, 0)
    assert Guarantee.from_dict(promise.to_dict()) == promise
    assert str(promise).startswith("pure 1-differential privacy for each of 1,000 clients")
    for words in ("at delta = 0 it gives epsilon = 1", "2^-183", "Theorem 4.8"):
        assert words in str(promise)
    assert "(1, 1e-06)-differential privacy" in str(privacy.account(noise, sketch, box(2), 1, 1e-6))


def test_too_small_a_laplace_is_refused_with_both_epsilons():
    with pytest.raises(GuaranteeError, match=r"epsilon: 1 promised.*epsilon = 4"):
        privacy.account(DiscreteLaplace(1.0, 10), Sum(columns=10), box(2, bits=0), 1, 0)


def test_a_scale_that_no_sampler_holds_is_refused():
    sensitivity = box(1000, bits=30)
    with pytest.raises(GuaranteeError, match=r"epsilon: 1 given.*would be 2\.14748e\+12, and at most 2\^40"):
        privacy.calibrate(Sum(columns=10), sensitivity, 1, 0, noise="discrete-laplace")
    assert sensitivity.l1 > MAX_SCALE


@pytest.mark.parametrize("noise", ["discrete-laplace", "gamma-laplace"])
@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_deltas_that_even_pure_noise_refuses(noise, delta):
    with pytest.raises(InputError, match=r"delta: .* 0 or a number between 0 and 1"):
        privacy.calibrate(Sum(columns=100), box(2), 1, delta, noise=noise)


@pytest.mark.parametrize("noise", ["discrete-gaussian", "skellam", "gaussian"])
def test_only_pure_noise_takes_delta_zero(noise):
    with pytest.raises(InputError, match="only discrete-laplace noise gives delta = 0"):
        privacy.calibrate(Sum(columns=100), box(2), 1, 0, noise=noise)
    assert not privacy.is_pure(noise)


# --- trust ----------------------------------------------------------------------------------------------------------


def test_dropouts_and_corruption_both_count():
    sketch = CountSketch(rows=10, columns=1000, seed=2, balanced=True)
    base = privacy.calibrate(sketch, box(2), 1, 1e-6)
    weaker = privacy.calibrate(sketch, box(2), 1, 1e-6, trust=Trust(corrupt_clients=20, dropouts=30))
    assert weaker.variance / base.variance == pytest.approx(2.0, rel=1e-4)
    promise = privacy.account(weaker, sketch, box(2), 1, 1e-6, trust=Trust(corrupt_clients=20, dropouts=30))
    assert "20 clients" in str(promise)
    assert "30 contributions" in str(promise)


def test_the_papers_calibration_takes_its_failures_and_coalitions_away():
    """Corollary 4.7 number by number; the occupancy failure counts for every one of the s matrices."""
    sketch, delta, lost = OSNAP(rows=20, columns=3000, sparsity=2, seed=2), 1e-5, 200
    trust = Trust(corrupt_clients=150, dropouts=50)
    failure = 20 * math.exp(-0.25 * 3000 / 40)
    assert privacy.occupancy_failure(sketch) == pytest.approx(failure, rel=1e-12)
    assert 0.01 * delta < 2 * failure < delta
    noise = privacy.calibrate(sketch, box(3), 1, delta, noise="gaussian", trust=trust, calibration="paper")
    sigma = 2 * 2**16 * math.sqrt(2 * math.log(1.25 * 6 / (delta - 2 * failure))) * 6
    assert noise.variance == pytest.approx(sigma**2 * 20 / (0.5 * (3000 - lost)), rel=1e-12)


def test_a_guarantee_says_whose_noise_is_counted_on():
    sketch = Sum(columns=100)
    trust = Trust(corrupt_clients=5)
    noise = privacy.calibrate(sketch, box(2), 1, 1e-6, trust=trust)
    said = str(privacy.account(noise, sketch, box(2), 1, 1e-6, trust=trust))
    assert "of at least 95 honest contributions after 5 are taken away" in said
    assert "enters one release only" in said


def test_a_row_without_unknown_noise_is_refused_with_the_numbers():
    sketch = CountSketch(rows=10, columns=100, seed=2, balanced=True)
    with pytest.raises(GuaranteeError, match=r"corrupt_clients \+ dropouts: 10 given.*only 10 contributions"):
        privacy.calibrate(sketch, box(2), 1, 1e-6, trust=Trust(corrupt_clients=10))


def test_too_little_noise_is_refused_with_both_epsilons():
    sketch = Sum(columns=1000)
    enough = privacy.calibrate(sketch, box(2), 1, 1e-6)
    with pytest.raises(GuaranteeError, match=r"epsilon: 1 promised.*epsilon = 2"):
        privacy.account(DiscreteGaussian(math.sqrt(enough.variance) / 2), sketch, box(2), 1, 1e-6)


def test_the_papers_occupancy_bound_can_use_up_delta():
    sketch = CountSketch(rows=100, columns=1000, seed=2)
    with pytest.raises(GuaranteeError, match="delta"):
        privacy.calibrate(sketch, box(2), 1, 1e-6, calibration="paper")
    assert privacy.occupancy_failure(sketch) > 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0.0}, "epsilon: 0"),
        ({"epsilon": -1.0}, "epsilon: -1"),
        ({"epsilon": math.inf}, "epsilon: inf"),
        ({"epsilon": math.nan}, "epsilon: nan"),
        ({"delta": 0.0}, "delta: 0"),
        ({"delta": 1.0}, "delta: 1"),
        ({"noise": "laplace"}, "noise: 'laplace'"),
        ({"calibration": "best"}, "calibration: 'best'"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {"epsilon": 1.0, "delta": 1e-6, **change}
    with pytest.raises(InputError, match=message):
        privacy.calibrate(Sum(columns=100), box(2), **arguments)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"servers": 1}, "servers: 1"),
        ({"servers": 3, "corrupt_servers": 3}, "corrupt_servers: 3"),
        ({"corrupt_clients": -1}, "corrupt_clients: -1"),
        ({"dropouts": -2}, "dropouts: -2"),
        ({"corrupt_servers": 1.9}, "corrupt_servers: 1.9 given, an integer"),
        ({"corrupt_clients": math.nan}, "corrupt_clients: nan given, an integer"),
        ({"servers": True}, "servers: True given, an integer"),
    ],
)
def test_bad_trust(fields, message):
    with pytest.raises(InputError, match=message):
        Trust(**fields)


def test_guarantee_survives_its_dictionary_and_speaks_plainly():
    sketch = Sum(columns=1000)
    noise = privacy.calibrate(sketch, box(2), 1, 1e-6, noise="skellam")
    promise = privacy.account(noise, sketch, box(2), 1, 1e-6, simulation=True)
    assert Guarantee.from_dict(promise.to_dict()) == promise
    text = str(promise)
    for words in ("replaced by any other row", "2 of the 3 servers", "SIMULATION", "semi-honest", "Burkhardt"):
        assert words in text
    assert promise.mu is None
    assert isinstance(noise, Skellam)
    assert "SIMULATION" not in str(dataclasses.replace(promise, simulation=False))


def test_a_guarantee_names_the_zero_out_relation():
    sketch, sensitivity = Sum(columns=1000), FixedPoint(16).sensitivity(2, neighbouring="zero-out")
    noise = privacy.calibrate(sketch, sensitivity, 1, 1e-6)
    assert "replaced by zeros" in str(privacy.account(noise, sketch, sensitivity, 1, 1e-6))


# --- the released noise itself --------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_worst_clients_log_likelihood_ratio_has_standard_deviation_mu():
    """The log-likelihood ratio between neighbouring releases has sd mu within 5 %
    (4000 draws: 4.4 standard errors).
    """
    from dpmpc.randomness import Stream

    sketch = CountSketch(rows=3, columns=30, seed=4, balanced=True)
    sensitivity = box(2)
    noise = privacy.calibrate(sketch, sensitivity, 1, 1e-3)
    promise = privacy.account(noise, sketch, sensitivity, 1, 1e-3)
    draws = noise.sample((4000, 30, 2), stream=Stream.from_seed(9)).astype(float)
    matrix = sketch.to_csc().toarray().astype(float)
    released = np.einsum("kn,rnp->rkp", matrix, draws)
    variance = sketch.occupancy() * noise.variance
    moved = matrix[:, 0][:, None] * np.full(2, 2.0 * 2**16)
    ratio = (released * moved / variance[:, None]).sum(axis=(1, 2))
    assert ratio.std() == pytest.approx(promise.mu, rel=0.05)
