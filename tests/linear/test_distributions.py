"""dpmpc.linear.noise: distributed as promised, alone and summed over clients.

Each statistical test has a false-alarm rate of 1e-6, were the seed not fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpmpc.base.randomness import Stream
from dpmpc.linear.noise import DiscreteGaussian, DiscreteLaplace, Noise
from dpmpc.linear.noise.floating import GammaLaplace, Gaussian
from dpmpc.linear.noise.integer import Skellam
from dpmpc.linear.noise.poisson import SERIES_FROM, PoissonPlan

ALPHA = 1e-6


def chi_square(draws: NDArray[np.int64], cdf: Callable[[NDArray[np.int64]], NDArray[np.float64]], bins: int) -> float:
    """The p-value of the draws against an exact distribution function, in about `bins` bins of like expectation."""
    edges = np.unique(np.quantile(draws, np.linspace(0, 1, bins + 1)[1:-1], method="lower").astype(np.int64))
    cumulated = np.concatenate([[0.0], cdf(edges), [1.0]])
    expected = np.diff(cumulated) * draws.size
    observed = np.bincount(np.searchsorted(edges, draws), minlength=edges.size + 1)
    enough = expected >= 5
    assert expected[~enough].sum() <= 0.01 * draws.size
    statistic = ((observed - expected) ** 2 / expected)[enough].sum()
    return float(stats.chi2.sf(statistic, enough.sum() - 1))


def discrete_gaussian_cdf(sigma: float) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    support = np.arange(-200, 201)
    mass = np.exp(-((support / sigma) ** 2) / 2)
    cumulated = np.cumsum(mass) / mass.sum()
    return lambda x: cumulated[x + 200]


@pytest.mark.statistical
@pytest.mark.parametrize("sigma", [0.3125, 0.75, 1.0, 2.30078125, 7.0])
def test_discrete_gaussian_has_its_probabilities(sigma: float) -> None:
    draws = DiscreteGaussian(sigma).sample(300_000, Stream.from_seed(21))
    assert chi_square(draws, discrete_gaussian_cdf(sigma), 40) > ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [2, 4, 30, 1000])
def test_skellam_has_its_probabilities(variance: int) -> None:
    draws = Skellam(variance).sample(300_000, Stream.from_seed(22))
    assert chi_square(draws, lambda x: stats.skellam.cdf(x, variance / 2, variance / 2), 40) > ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("mean", [1, 3, 700, SERIES_FROM - 1, SERIES_FROM, 10**6])
def test_poisson_has_its_probabilities(mean: int) -> None:
    """One-sided, where a skewness of the wrong size would show; a Skellam variable is symmetric."""
    draws = np.empty(300_000, np.int64)
    _, drawn, unsettled = PoissonPlan(mean).kernel.draw(Stream.from_seed(23).words(20 * draws.size), draws)
    assert (drawn, unsettled) == (draws.size, None)
    assert chi_square(draws, lambda x: stats.poisson.cdf(x + mean, mean), 60) > ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("mean", [50, 700, SERIES_FROM - 1, SERIES_FROM, 10**6])
def test_poisson_has_its_tails(mean: int) -> None:
    """The numbers of draws beyond 3, 4 and 5 standard deviations on either side are binomial."""
    count, draws = 3_000_000, np.empty(3_000_000, np.int64)
    _, drawn, unsettled = PoissonPlan(mean).kernel.draw(Stream.from_seed(27).words(count + count // 32), draws)
    assert (drawn, unsettled) == (count, None)
    for deviations in (3, 4, 5):
        edge = math.ceil(deviations * math.sqrt(mean))
        for beyond, p in (
            (draws >= edge, stats.poisson.sf(mean + edge - 1, mean)),
            (draws <= -edge, stats.poisson.cdf(mean - edge, mean)),
        ):
            assert stats.binomtest(int(np.count_nonzero(beyond)), count, p).pvalue > ALPHA / 6


@pytest.mark.statistical
@pytest.mark.parametrize(
    "noise",
    [DiscreteGaussian(1e5), DiscreteGaussian(2**33), DiscreteGaussian(2**40), Skellam(1e10), Gaussian(3)],
    ids=repr,
)
def test_wide_noise_is_nearly_normal_with_its_variance(noise: Noise) -> None:
    count = 1_000_000
    draws = noise.sample((count // 10, 10), Stream.from_seed(24), threads=2).ravel()
    standardised = draws / math.sqrt(noise.variance)
    # Integer steps move the distribution function by 4e-6 at most, a hundredth of what this test can see.
    assert stats.kstest(standardised, "norm").pvalue > ALPHA
    tolerance = stats.norm.isf(ALPHA / 2) / math.sqrt(count)
    assert abs(standardised.mean()) < tolerance
    assert abs(np.mean(standardised**2) - 1) < math.sqrt(2) * tolerance
    assert abs(np.mean(standardised**4) - 3) < math.sqrt(96) * tolerance
    if noise.integer:
        assert abs(np.mean(draws % 2) - 0.5) < 0.5 * tolerance


@pytest.mark.statistical
def test_sum_of_skellams_over_clients_is_a_skellam() -> None:
    clients, variance = 25, 6
    sums = Skellam(variance).sample((clients, 40_000), Stream.from_seed(25)).sum(axis=0)
    mean = clients * variance / 2
    assert chi_square(sums, lambda x: stats.skellam.cdf(x, mean, mean), 30) > ALPHA


@pytest.mark.statistical
def test_sum_of_discrete_gaussians_over_clients_has_the_summed_variance() -> None:
    clients, count, noise = 25, 40_000, DiscreteGaussian(1.5)
    sums = noise.sample((clients, count), Stream.from_seed(26)).sum(axis=0)
    tolerance = stats.norm.isf(ALPHA / 2) * math.sqrt(2 / count)
    assert abs(np.mean(sums**2) / (clients * noise.variance) - 1) < tolerance


def discrete_laplace_cdf(scale: float) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """P(Z <= z) = 1 - q^(z+1) / (1 + q) for z >= 0, and q^(-z) / (1 + q) below."""
    q = math.exp(-1 / scale)
    return lambda z: np.where(z >= 0, 1 - q ** (np.maximum(z, 0) + 1) / (1 + q), q ** (-np.minimum(z, 0)) / (1 + q))


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.25, 1.0, 2.30078125, 50.0, 1e6, 2.0**38])
@pytest.mark.parametrize("shares", [1, 2, 7, 150])
def test_shares_add_up_to_a_discrete_laplace(scale: float, shares: int) -> None:
    count = 200_000 if shares < 100 else 50_000
    sums = DiscreteLaplace(scale, shares).sample((shares, count), Stream.from_seed(28)).sum(axis=0)
    assert chi_square(sums, discrete_laplace_cdf(DiscreteLaplace(scale).scale), 40) > ALPHA


def polya_difference_pmf(shape: float, scale: float, reach: int) -> NDArray[np.float64]:
    """P(NB(shape, q) - NB(shape, q) = z) for |z| <= reach, by convolution."""
    polya = stats.nbinom.pmf(np.arange(4 * reach), shape, -math.expm1(-1 / scale))
    difference = np.convolve(polya, polya[::-1])
    middle = polya.size - 1
    return np.asarray(difference[middle - reach : middle + reach + 1])


@pytest.mark.statistical
@pytest.mark.parametrize(("scale", "shares"), [(0.5, 2), (3.0, 3), (3.0, 20), (20.0, 5)])
def test_one_share_is_a_difference_of_polya_variables(scale: float, shares: int) -> None:
    draws = DiscreteLaplace(scale, shares).sample(300_000, Stream.from_seed(29))
    reach = math.ceil(30 * scale)
    cumulated = np.cumsum(polya_difference_pmf(1 / shares, scale, reach))
    assert cumulated[-1] == pytest.approx(1, abs=1e-9)
    assert chi_square(draws, lambda z: cumulated[z + reach], 40) > ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("shares", [1, 3, pytest.param(30, marks=pytest.mark.long("30 shares of each number, not 3"))])
def test_gamma_shares_add_up_to_a_laplace(shares: int) -> None:
    noise = GammaLaplace(2.5, shares)
    sums = noise.sample((shares, 100_000), Stream.from_seed(30)).sum(axis=0)
    assert stats.kstest(sums / 2.5, "laplace").pvalue > ALPHA


def test_most_gamma_shares_underflow() -> None:
    """Why this form cannot be deployed: sixteen standard errors on either side of 93 %."""
    zeros = np.mean(GammaLaplace(1.0, 20_000).sample(100_000, Stream.from_seed(31)) == 0)
    assert 0.914 < zeros < 0.94


@pytest.mark.statistical
def test_neighbouring_draws_are_uncorrelated() -> None:
    draws = DiscreteGaussian(50).sample(200_000, Stream.from_seed(27)) / 50
    tolerance = stats.norm.isf(ALPHA / 2) / math.sqrt(draws.size)
    assert abs(np.mean(draws[1:] * draws[:-1])) < tolerance
