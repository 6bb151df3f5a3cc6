"""The baselines: each sensitivity searched for violations and attained, each epsilon by dp-accounting, and what they
reach on stated populations.
"""

import math

import dp_accounting
import numpy as np
import pytest
import scipy.linalg
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from dpmpc import RidgeRegression
from dpmpc.base.errors import GuaranteeError
from dpmpc.base.randomness import Stream
from dpmpc.linear.contributions.contribution import moment_sensitivity
from dpmpc.models.common.linear_algebra import excess_risk, ridge_cost, top_components
from dpmpc.models.papers.baselines import SSP, AdaSSP, AnalyzeGauss, LocalGaussian, ModSulq
from dpmpc.models.papers.baselines.common import symmetric_noise
from dpmpc.models.papers.baselines.linear import ADASSP_SENSITIVITY, optimal_ridge, trivial_predictor
from dpmpc.models.papers.baselines.low_rank import modsulq_beta
from dpmpc.privacy.gaussian import mu_of_budget
from dpmpc.release.release import NoisyGram
from support.rejections import rejects

RIDGE = (SSP, AdaSSP, LocalGaussian)
LOW_RANK = (AnalyzeGauss, ModSulq, LocalGaussian)
BUDGETS = [(0.1, 1e-5), (1.0, 1e-6), (5.0, 1e-7)]


def regression(clients=100_000, features=10, residual=1.19, slack=1.6, seed=0):
    """Features uniform on [-1, 1], R^2 near 0.5; bounds of the target `slack` times as wide as its values."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, features))
    y = X @ rng.uniform(-1, 1, features) + residual * rng.standard_normal(clients)
    return X, y / (slack * np.abs(y).max())


def ill_conditioned(kind, clients=10_000, features=10, seed=1):
    """R^2 = 0.8; features of very different size, or near a subspace of dimension 3."""
    rng = np.random.default_rng(seed)
    if kind == "scales":
        X = rng.uniform(-1, 1, (clients, features)) * 0.5 ** np.arange(features)
    else:
        X = rng.uniform(-1, 1, (clients, 3)) @ rng.uniform(-1, 1, (3, features)) / 3
        X += 0.01 * rng.uniform(-1, 1, X.shape)
    y = X @ rng.uniform(-1, 1, features)
    y = y / y.std() + 0.5 * rng.standard_normal(clients)
    return np.clip(X, -1, 1), np.clip(y / 4, -1, 1)


def blocks(clients=100_000, seed=0):
    """20 columns in three blocks that move together by +-.3674, and .05 of their own: rows of norm below 1.9."""
    rng = np.random.default_rng(seed)
    scores = rng.choice([-0.3674, 0.3674], (clients, 3))
    return np.repeat(scores, (7, 7, 6), axis=1) + rng.uniform(-0.05, 0.05, (clients, 20))


def phi(model, X, y, alpha):
    return ridge_cost(model, X, y, alpha) / ridge_cost(optimal_ridge(X, y, alpha), X, y, alpha)


# --- sensitivities --------------------------------------------------------------------------------------------------

unit = st.floats(-1, 1)


@given(arrays(float, (2, 4), elements=unit))
def test_moments_never_move_further_than_their_sensitivity(rows):
    z, w = np.column_stack([np.ones(2), rows])
    moved = np.linalg.norm(np.outer(z, z) - np.outer(w, w))
    assert moved <= moment_sensitivity(1 + 4) * (1 + 1e-12)
    upper = np.triu(np.outer(z, z) - np.outer(w, w))
    assert np.linalg.norm(upper) <= moved * (1 + 1e-12)


def test_moments_attain_their_sensitivity():
    z, w = np.array([1.0, 1, 1, -1]), np.array([1.0, -1, 1, 1])  # orthogonal corners, the first entry the intercept's
    assert np.linalg.norm(np.outer(z, z) - np.outer(w, w)) == pytest.approx(moment_sensitivity(4))


def adassp_moves(x, y, other, label, rest):
    """How far the three releases of AdaSSP move, at B = C = 1 and with `rest` the moments of all other rows."""
    moments, theirs = np.outer(x, x), np.outer(other, other)
    smallest = np.linalg.eigvalsh(rest + moments)[0] - np.linalg.eigvalsh(rest + theirs)[0]
    return abs(smallest), np.linalg.norm(moments - theirs), np.linalg.norm(y * x - label * other)


@given(arrays(float, (2, 3), elements=unit), st.tuples(unit, unit), arrays(float, (5, 3), elements=unit))
def test_adassp_never_moves_further_than_its_sensitivity(rows, labels, rest):
    x, other = rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    moves = adassp_moves(x, labels[0], other, labels[1], 100 * rest.T @ rest)
    assert np.linalg.norm(moves) <= ADASSP_SENSITIVITY + 1e-9


def test_adassp_attains_its_sensitivity():
    """x.x' = 1/3, opposite labels, and all other rows without the direction along which x and x' differ most."""
    x = np.array([1.0, 0.0])
    other = np.array([1 / 3, math.sqrt(8) / 3])
    direction = np.linalg.eigh(np.outer(x, x) - np.outer(other, other))[1][:, -1]
    rest = 1e8 * (np.eye(2) - np.outer(direction, direction))
    moves = adassp_moves(x, 1.0, other, -1.0, rest)
    assert np.linalg.norm(moves) == pytest.approx(ADASSP_SENSITIVITY, rel=1e-6)
    assert moves == pytest.approx((math.sqrt(8) / 3, 4 / 3, math.sqrt(8 / 3)), rel=1e-6)


def test_adassp_moves_less_when_a_row_is_added():
    moves = adassp_moves(np.array([1.0, 0.0]), 1.0, np.zeros(2), 0.0, np.diag([0.0, 9.0]))
    assert np.linalg.norm(moves) == pytest.approx(math.sqrt(3))


def test_sensitivities_follow_from_the_public_bounds():
    X, y = regression(200, features=3)
    assert SSP().fit(X, y).sensitivity_ == pytest.approx(math.sqrt(2) * (4 + 1))
    assert SSP(fit_intercept=False).fit(X, y).sensitivity_ == pytest.approx(math.sqrt(2) * 4)
    assert SSP(radius=1.5).fit(X, y).sensitivity_ == pytest.approx(math.sqrt(2) * (2.25 + 1))
    assert SSP(radius=9).fit(X, y).sensitivity_ == pytest.approx(math.sqrt(2) * (4 + 1))
    assert AnalyzeGauss(1).fit(X).sensitivity_ == pytest.approx(math.sqrt(2) * 3)
    assert AnalyzeGauss(1, radius=1).fit(X).sensitivity_ == pytest.approx(math.sqrt(2))
    assert LocalGaussian().fit(X, y).sensitivity_ == pytest.approx(2 * math.sqrt(4))
    assert LocalGaussian(n_components=1, radius=0.5).fit(X).sensitivity_ == pytest.approx(1)
    assert ModSulq(1).fit(X).sensitivity_ == pytest.approx(math.sqrt(2) / 200)


# --- epsilon by an independent route --------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("baseline", [SSP, AdaSSP, LocalGaussian, AnalyzeGauss])
def test_the_noise_spends_the_budget_exactly(baseline, epsilon, delta):
    X, y = regression(100, features=3)
    data = (X,) if baseline is AnalyzeGauss else (X, y)
    fitted = baseline(epsilon=epsilon, delta=delta, simulation_seed=1).fit(*data)
    theirs = dp_accounting.get_epsilon_gaussian(fitted.sigma_ / fitted.sensitivity_, delta)
    assert theirs == pytest.approx(epsilon, rel=1e-6)


def test_adassp_composed_from_its_three_releases():
    """At the worst pair of rows, as three mechanisms that a privacy-loss accountant composes."""
    X, y = regression(100, features=3)
    sigma = AdaSSP(epsilon=1.0, delta=1e-6, simulation_seed=1).fit(X, y).sigma_
    accountant = PLDAccountant()
    for move in (math.sqrt(8) / 3, 4 / 3, math.sqrt(8 / 3)):
        accountant.compose(dp_accounting.GaussianDpEvent(sigma / move))
    assert accountant.get_epsilon(1e-6) == pytest.approx(1, rel=2e-3)
    assert sigma < 3 * math.sqrt(math.log(6e6))  # as printed, for the weaker relation


@pytest.mark.parametrize(("epsilon", "delta"), [*BUDGETS, (50.0, 0.1)])
@pytest.mark.parametrize("columns", [1, 20])
def test_modsulq_as_printed_never_spends_more_than_its_budget(epsilon, delta, columns):
    X = np.random.default_rng(0).uniform(-1, 1, (50, columns))
    fitted = ModSulq(1, epsilon, delta, simulation_seed=1).fit(X)
    theirs = dp_accounting.get_epsilon_gaussian(fitted.sigma_ / fitted.sensitivity_, delta)
    assert theirs == pytest.approx(fitted.achieved_epsilon_, abs=1e-6)
    assert fitted.achieved_epsilon_ <= epsilon


def test_modsulq_reference_values_and_the_budgets_that_its_formula_does_not_cover():
    assert modsulq_beta(100_000, 20, 1.0, 1e-6) == pytest.approx(1.2785e-3, rel=1e-4)
    assert ModSulq(3, simulation_seed=1).fit(blocks(100)).achieved_epsilon_ == pytest.approx(0.0375, abs=1e-4)
    with rejects("epsilon", GuaranteeError):
        ModSulq(1, 1e4, 0.45).fit(np.ones((5, 1)))


# --- the noise that is there ----------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(("off_diagonal", "expected"), [(None, 3 / math.sqrt(2)), (3.0, 3.0)])
def test_symmetric_noise(off_diagonal, expected):
    """Standard deviations within 5 % of 19900 and 23 % of 200 draws: false alarms below 1e-5."""
    noise = symmetric_noise(200, 3.0, Stream.from_seed(4), off_diagonal=off_diagonal)
    assert (noise == noise.T).all()
    assert np.std(np.diag(noise)) == pytest.approx(3, rel=0.23)
    assert np.std(noise[np.triu_indices(200, 1)]) == pytest.approx(expected, rel=0.05)


@pytest.mark.statistical
def test_the_noise_of_the_moments_reaches_the_fit():
    """On zeros, under a penalty that outweighs everything, a fit is the noise of X^T y over the penalty.

    2000 draws, standard deviation within 8 %: false alarms below 1e-6.
    """
    X, y = np.zeros((30, 20)), np.zeros(30)
    mu = mu_of_budget(1, 1e-6)
    for baseline, expected in (
        (SSP, 21 / mu),  # sqrt(2) (20 + 1) / mu, less by sqrt(2) off the diagonal
        (AdaSSP, 4 / math.sqrt(3) * math.sqrt(20) / mu),
        (LocalGaussian, math.sqrt(30) * 4 * 21 / mu**2),  # a sum over 30 clients of products of two draws
    ):
        fits = [baseline(1e12, fit_intercept=False, simulation_seed=seed).fit(X, y).coef_ for seed in range(100)]
        assert np.std(fits) * 1e12 == pytest.approx(expected, rel=0.08), baseline


@pytest.mark.statistical
@pytest.mark.parametrize(("baseline", "moments", "cross"), [(SSP, 17, 17), (AdaSSP, 16 * (8 / 3) ** 0.5, 16 / 3**0.5)])
def test_the_noise_of_the_matrix_reaches_the_fit(baseline, moments, cross):
    """With X^T X = L I and y = x_0 the fit is e_0 + (c - N e_0)/L, where c and N are the noise of X^T y and X^T X.

    1500 draws, standard deviation within 10 %: false alarms below 1e-7.
    """
    X = np.tile(scipy.linalg.hadamard(16).astype(float), (5_000, 1))
    fits = [baseline(0.0, fit_intercept=False, simulation_seed=seed).fit(X, X[:, 0]).coef_[1:] for seed in range(100)]
    assert np.std(fits) * len(X) == pytest.approx(math.hypot(moments, cross) / mu_of_budget(1, 1e-6), rel=0.1)


@pytest.mark.statistical
def test_adassp_hides_the_smallest_eigenvalue():
    """X^T X = 1552 I keeps the penalty away from both its bounds.

    300 draws, standard deviation within 20 %, mean within five standard errors: false alarms below 3e-6.
    """
    X = np.tile(scipy.linalg.hadamard(16).astype(float), (97, 1))
    penalties = [AdaSSP(0.0, fit_intercept=False, simulation_seed=seed).fit(X, X[:, 0]).alpha_ for seed in range(300)]
    sigma = 4 / math.sqrt(3) / mu_of_budget(1, 1e-6) * 16
    assert np.std(penalties) == pytest.approx(sigma, rel=0.2)
    mean = sigma * (math.sqrt(16 * math.log(2 * 16**2 / 0.05)) + math.sqrt(math.log(6e6))) - 1552
    assert np.mean(penalties) == pytest.approx(mean, abs=5 * sigma / math.sqrt(300))


# --- what they reach ------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_ridge_reference_values():
    """d=10, n=1e5, lambda=10, (1, 1e-6), no intercept: SSP 1.0006, local 2.06, trivial 2.06.

    Means of 30 runs of standard deviations 5e-4, .03 and 1e-4 (AdaSSP, which spends nothing on y^2): every bound is
    five standard errors or more away.
    """
    X, y = regression()
    least = ridge_cost(optimal_ridge(X, y, 10, fit_intercept=False), X, y, 10)

    def mean(baseline):
        runs = [baseline(10, fit_intercept=False, simulation_seed=seed).fit(X, y) for seed in range(30)]
        return np.mean([ridge_cost(run.model_, X, y, 10) for run in runs]) / least

    trivial = trivial_predictor(10, y, fit_intercept=False)
    assert ridge_cost(trivial, X, y, 10) / least == pytest.approx(2.06, abs=0.02)
    assert mean(LocalGaussian) == pytest.approx(2.06, abs=0.05)
    ssp, adassp = mean(SSP), mean(AdaSSP)
    assert 3e-4 < ssp - 1 < 1.2e-3
    assert 1e-4 < adassp - 1 < 4e-4


@pytest.mark.statistical
def test_low_rank_reference_values():
    """d=20, r=3, n=1e5, (1, 1e-6), rows of norm 2.2: local 2.2, Analyze Gauss below 1e-5, trivial 2.3.

    Local runs have a standard deviation of .2: the mean of 12 is within .3 but once in 1e6.
    """
    X = blocks()

    def mean(baseline, **options):
        runs = [baseline(n_components=3, radius=2.2, simulation_seed=seed, **options).fit(X) for seed in range(12)]
        return np.mean([excess_risk(run.components_, X) for run in runs])

    assert excess_risk(np.eye(20)[:3], X) == pytest.approx(2.3, abs=0.02)
    assert mean(LocalGaussian) == pytest.approx(2.2, abs=0.3)
    exact, printed = mean(AnalyzeGauss), mean(ModSulq)
    assert 1e-7 < exact < 1e-5
    assert 100 * exact < printed < 0.02  # the price of a calibration that grows with d


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["scales", "subspace"])
def test_ridge_on_a_sum_beats_adassp_where_the_data_is_ill_conditioned(kind):
    """Both replace-one at (1, 1e-6), and only one of them trusts a curator.

    The penalty of a sum costs no budget: its noise level is public. Eight runs each; the means differ by more than ten
    of their standard errors.
    """
    X, y = ill_conditioned(kind)
    ours = [RidgeRegression(sketch="sum", simulation_seed=seed).fit(X, y) for seed in range(8)]
    theirs = [AdaSSP(simulation_seed=seed).fit(X, y) for seed in range(8)]
    assert {fit.release_.guarantee.neighbouring for fit in ours} == {"replace-one"}
    assert all(fit.alpha_ > 1 for fit in ours + theirs)
    adaptive = np.mean([phi(fit.model_, X, y, 1) for fit in ours])
    adassp = np.mean([phi(fit.model_, X, y, 1) for fit in theirs])
    assert adaptive - 1 < 0.7 * (adassp - 1)
    assert adassp < phi(trivial_predictor(10, y), X, y, 1) / 2


def test_adassp_leaves_the_penalty_alone_where_the_data_is_well_conditioned():
    X, y = regression(20_000, features=3)
    assert AdaSSP(2.5, simulation_seed=1).fit(X, y).alpha_ == 2.5


def test_local_rows_are_debiased_where_that_is_safe_and_helps(monkeypatch):
    X, y = regression(20_000, features=3, residual=0.3)
    fitted = LocalGaussian(1.0, 60.0, 1e-6, simulation_seed=1).fit(X, y)
    assert fitted.debiased_
    assert not LocalGaussian(1.0, 1.0, 1e-6, simulation_seed=1).fit(X, y).debiased_
    monkeypatch.setattr(NoisyGram, "debiased", lambda gram, target, fit_intercept: gram)
    biased = LocalGaussian(1.0, 60.0, 1e-6, simulation_seed=1).fit(X, y)
    assert phi(fitted.model_, X, y, 1) < 1.05 < phi(biased.model_, X, y, 1)


def test_excess_risk_agrees_with_its_definition():
    X = np.random.default_rng(3).uniform(-1, 1, (50, 5))
    left, values, right = np.linalg.svd(X, full_matrices=False)
    best = left[:, :2] * values[:2] @ right[:2]
    P = np.eye(5)[:, :2]
    expected = (np.linalg.norm(X - X @ P @ P.T) ** 2 - np.linalg.norm(X - best) ** 2) / 50
    assert excess_risk(P.T, X) == pytest.approx(expected)
    components = top_components(X.T @ X, 2)
    assert np.abs(components @ right[:2].T) == pytest.approx(np.eye(2), abs=1e-9)
    assert excess_risk(components, X) == pytest.approx(0, abs=1e-12)


# --- how they are used ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", RIDGE)
def test_a_ridge_baseline_is_a_scikit_learn_citizen(baseline):
    X, y = regression(500, features=3)
    fitted = baseline(2.0, 0.5, 1e-5, simulation_seed=4).fit(X, y)
    assert clone(fitted).get_params() == fitted.get_params()
    assert fitted.predict(X[:2]) == pytest.approx(X[:2] @ fitted.coef_ + fitted.intercept_)
    assert (clone(fitted).fit(X, y).coef_ == fitted.coef_).all()
    assert (baseline(2.0, 0.5, 1e-5).fit(X, y).coef_ != fitted.coef_).all()  # without a seed: the operating system's
    assert baseline(fit_intercept=False).fit(X, y).intercept_ == 0


@pytest.mark.parametrize("baseline", LOW_RANK)
def test_a_low_rank_baseline_is_a_scikit_learn_citizen(baseline):
    X = blocks(500)
    fitted = baseline(n_components=2, epsilon=0.5, simulation_seed=4).fit(X)
    assert clone(fitted).get_params() == fitted.get_params()
    assert fitted.components_.shape == (2, 20)
    assert fitted.components_ @ fitted.components_.T == pytest.approx(np.eye(2), abs=1e-9)
    assert (clone(fitted).fit(X).components_ == fitted.components_).all()
    for count in (0, 21, 1.5, True):
        with rejects("n_components"):
            baseline(n_components=count).fit(X)


@pytest.mark.parametrize("baseline", RIDGE)
@pytest.mark.parametrize(
    ("parameters", "rejection"),
    [
        ({"alpha": -1.0}, {"argument": "alpha", "given": "-1.0"}),
        ({"alpha": math.nan}, {"argument": "alpha", "given": "nan"}),
        ({"epsilon": 0.0}, {"argument": "epsilon", "given": "0.0"}),
        ({"delta": 1.0}, {"argument": "delta", "given": "1.0 given, a number strictly between 0 and 1 expected"}),
        ({"radius": -2.0}, {"argument": "radius", "given": "-2.0"}),
        ({"simulation_seed": -3}, {"argument": "seed", "given": "-3"}),
    ],
)
def test_bad_parameters(baseline, parameters, rejection):
    X, y = regression(50, features=2)
    with rejects(**rejection):
        baseline(**parameters).fit(X, y)


def test_bad_data():
    X, y = regression(50, features=2)
    for baseline in RIDGE:
        with rejects("y", given="shape (49,)"):
            baseline().fit(X, y[:-1])
        with rejects("X, y", remedy="normalise first"):
            baseline().fit(3 * X, y)
        with rejects("X: column 'x0', row 3"):
            baseline().fit(np.where(X > 0.5, np.nan, X), y)
    for baseline in LOW_RANK:
        with rejects("X, y", remedy="normalise first"):
            baseline(n_components=1).fit(3 * X)
        with rejects("X"):
            baseline(n_components=1).fit(X[0])
