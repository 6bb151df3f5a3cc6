"""dpmpc.privacy: pure epsilon from discrete Laplace noise, against exact likelihood ratios."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st

from dpmpc import privacy
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.linear.noise import DiscreteLaplace
from dpmpc.linear.noise.floating import GammaLaplace
from dpmpc.linear.noise.integer import MAX_SCALE
from dpmpc.linear.sketching import OSNAP, CountSketch
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.privacy import Guarantee
from dpmpc.privacy.accountants import is_pure, released_sd
from dpmpc.privacy.calibration import Calibration
from dpmpc.privacy.specification import TrustModel
from support.privacy_inputs import box
from support.rejections import rejects


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
    trust = TrustModel(corrupt_clients=corrupt)
    noise = privacy.calibrate(sketch, sensitivity, epsilon, 0, noise="discrete-laplace", trust=trust)
    occupancy = sketch.occupancy() - corrupt
    assert noise.shares == occupancy.min() < occupancy.max()
    losses = [largest_log_ratio(polya_sum_pmf(noise, int(m), 120), int(sensitivity.l1)) for m in occupancy]
    worst = max(sum(losses[row] for row in rows) for rows in sketch.entries(0, 17)[0].tolist())
    promise = Calibration(sketch, sensitivity, epsilon, 0, trust=trust).guarantee(noise)
    assert worst <= promise.achieved_epsilon + 1e-9 <= epsilon + 1e-9
    assert losses[int(occupancy.argmin())] == pytest.approx(promise.achieved_epsilon / sparsity, abs=1e-9)
    assert promise.achieved_epsilon == pytest.approx(epsilon, rel=1e-3)  # the scale is a multiple of 2^-10


def test_fewer_shares_than_make_up_a_laplace_lose_more_and_are_refused():
    noise = DiscreteLaplace(4.0, 10)
    assert largest_log_ratio(polya_sum_pmf(noise, 10, 100), 1) == pytest.approx(1 / 4, abs=1e-9)
    assert largest_log_ratio(polya_sum_pmf(noise, 9, 100), 1) > 1.2 / 4
    sensitivity = box(1, bits=0)
    assert Calibration(Sum(columns=10), sensitivity, 1, 0).guarantee(noise).achieved_epsilon == 0.5
    assert Calibration(Sum(columns=11), sensitivity, 1, 0).guarantee(noise).achieved_epsilon == 0.5
    with pytest.raises(GuaranteeError, match=r"shares: 10 given.*only 9"):
        Calibration(Sum(columns=9), sensitivity, 1, 0).guarantee(noise)
    with pytest.raises(GuaranteeError, match=r"shares: 10 given.*only 9"):
        Calibration(Sum(columns=12), sensitivity, 1, 0, trust=TrustModel(corrupt_clients=1, dropouts=2)).guarantee(
            noise
        )


def test_pure_epsilon_agrees_with_a_privacy_loss_distribution():
    scale, shift = 8.0, 6
    pld = privacy_loss_distribution.from_discrete_laplace_mechanism(1 / scale, shift)
    exact = DiscreteLaplace(scale, 50)
    promise = Calibration(Sum(columns=50), box(3, bits=0), 1, 0).guarantee(exact)
    assert promise.achieved_epsilon == pytest.approx(pld.get_epsilon_for_delta(0), abs=1e-3)


@pytest.mark.parametrize("noise", ["discrete-laplace", "gamma-laplace"])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 7.0])
def test_pure_calibration_is_enough_and_not_wasteful(noise, delta, epsilon):
    sketch = OSNAP(rows=20, columns=5000, sparsity=4, seed=2, balanced=True)
    chosen = privacy.calibrate(sketch, box(3), epsilon, delta, noise=noise)
    assert chosen.scale == pytest.approx(4 * 6 * 2**16 / epsilon, rel=1e-5)
    assert chosen.shares == 1000
    promise = Calibration(sketch, box(3), epsilon, delta).guarantee(chosen)
    assert promise.achieved_epsilon <= epsilon
    assert promise.achieved_epsilon == pytest.approx(epsilon, rel=1e-5)
    assert promise.mu is None
    assert promise.slack == 0
    released = math.sqrt(1000 * chosen.variance) * sketch.scale
    kept = released_sd(noise, l1=box(3).l1, l2=box(3).l2, sparsity=4, epsilon=epsilon, delta=delta)
    assert released == pytest.approx(kept, rel=1e-4)


@given(st.floats(1e-3, 50), st.integers(1, 40))
def test_a_calibrated_scale_is_never_rounded_below_its_epsilon(epsilon, columns):
    sketch = Sum(columns=10)
    for noise in ("discrete-laplace", "gamma-laplace"):
        chosen = privacy.calibrate(sketch, box(columns, bits=3), epsilon, 0, noise=noise)
        assert Calibration(sketch, box(columns, bits=3), epsilon, 0).guarantee(chosen).achieved_epsilon <= epsilon


def test_the_papers_laplace_noise():
    """Corollary 4.10: b = 2 eta k d / epsilon, m = n/k - t."""
    sketch = CountSketch(rows=10, columns=1000, seed=2, balanced=True)
    trust = TrustModel(corrupt_clients=7)
    noise = privacy.calibrate(sketch, box(3), 0.5, 0, noise="gamma-laplace", trust=trust, calibration="paper")
    assert noise == GammaLaplace(2 * 2**16 * 10 * 3 / 0.5, 93)
    promise = Calibration(sketch, box(3), 0.5, 0, trust=trust, rule="paper").guarantee(noise)
    assert promise.achieved_epsilon == pytest.approx(0.05)
    with rejects("corrupt_clients + dropouts", GuaranteeError, expected="fewer than n/k = 3"):
        privacy.calibrate(
            OSNAP(rows=10, columns=35, sparsity=3, seed=2),
            box(3),
            1,
            0,
            noise="discrete-laplace",
            trust=TrustModel(corrupt_clients=3),
            calibration="paper",
        )


def test_a_pure_guarantee_says_so():
    sketch = Sum(columns=1000)
    noise = privacy.calibrate(sketch, box(2), 1, 0, noise="discrete-laplace")
    promise = Calibration(sketch, box(2), 1, 0).guarantee(noise)
    assert Guarantee.from_dict(promise.to_dict()) == promise
    assert str(promise).startswith("pure 1-differential privacy for each of 1,000 clients")
    for words in ("at delta = 0 it gives epsilon = 1", "2^-183", "Theorem 4.8"):
        assert words in str(promise)
    assert "(1, 1e-06)-differential privacy" in str(Calibration(sketch, box(2), 1, 1e-6).guarantee(noise))


def test_too_small_a_laplace_is_refused_with_both_epsilons():
    with pytest.raises(GuaranteeError, match=r"epsilon: 1 promised.*epsilon = 4"):
        Calibration(Sum(columns=10), box(2, bits=0), 1, 0).guarantee(DiscreteLaplace(1.0, 10))


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
    with rejects(
        "delta",
        given="0 given, a number strictly between 0 and 1 expected; only discrete-laplace noise gives delta = 0",
    ):
        privacy.calibrate(Sum(columns=100), box(2), 1, 0, noise=noise)
    assert not is_pure(noise)
