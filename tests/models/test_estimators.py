"""Ridge regression from releases, against the optimum and the specification's figures."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge

from dpmpc import RidgeRegression
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.models.common.linear_algebra import LinearModel, exact_gram, ridge_cost, solve_ridge
from dpmpc.models.papers.baselines import SSP
from dpmpc.models.papers.baselines.linear import optimal_ridge, trivial_predictor
from dpmpc.models.regression import ridge_regression
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from support.rejections import rejects


def population(clients, features=10, residual=0.3, seed=0):
    """Features uniform on [-1, 1], target scaled to stay inside."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, features))
    weights = rng.uniform(-1, 1, features)
    y = X @ weights + residual * rng.standard_normal(clients)
    scale = np.abs(y).max()
    return X, y / scale, weights / scale


def noise_free(task, rows):
    """The release that a sketch without noise would give: isolates the sketch's own error."""
    encoded = task.statistic.encode(rows, task.encoding)
    copies = np.repeat(encoded[:, None, :], task.copies, axis=1)
    return Release(task, task.encoding.ring.lift(task.sketch.apply(task.encoding.ring.embed(copies))))


def test_optimal_ridge_agrees_with_scikit_learn():
    X, y, _ = population(500)
    for alpha, intercept in ((0.0, True), (10.0, True), (10.0, False)):
        theirs = Ridge(alpha=max(alpha, 1e-12), fit_intercept=intercept).fit(X, y)
        ours = optimal_ridge(X, y, alpha, fit_intercept=intercept)
        assert ours.weights == pytest.approx(theirs.coef_, rel=1e-6)
        assert ours.intercept == pytest.approx(theirs.intercept_, abs=1e-9)


def test_ssp_is_close_to_the_optimum():
    """SSP at n=1e5, d=10, lambda=10, (1, 1e-6) has phi - 1 in [3e-4, 1.2e-3]."""
    X, y, _ = population(100_000, residual=0.6)
    best = ridge_cost(optimal_ridge(X, y, 10, fit_intercept=False), X, y, 10)
    excess = []
    for seed in range(20):
        fitted = SSP(10, 1.0, 1e-6, fit_intercept=False, simulation_seed=seed).fit(X, y)
        excess.append(ridge_cost(fitted.model_, X, y, 10) / best - 1)
    assert 3e-4 < np.mean(excess) < 1.2e-3


def test_a_sketch_without_noise_has_the_expected_error():
    """Noise-free sketch, k=200, d=10: phi = 1.055 +- .02, the mean over seeds."""
    X, y, _ = population(20_000)
    factors = []
    for seed in range(12):
        task = design(
            ReleaseSpec.of(
                Schema.unit([*(f"x{i}" for i in range(10)), "y"]),
                20_000,
                1.0,
                1e-6,
                sketch="osnap",
                rows=200,
                sparsity=4,
                simulation_seed=seed,
            )
        )
        fitted = RidgeRegression(10.0, fit_intercept=False, debias="never").fit_release(
            noise_free(task, np.column_stack([X, y]))
        )
        factors.append(fitted.approximation_factor(X, y))
    assert np.mean(factors) == pytest.approx(1.055, abs=0.02)


@pytest.mark.parametrize("sketch", ["sum", "countsketch"])
def test_a_private_fit_beats_the_trivial_predictor(sketch):
    X, y, weights = population(200_000, features=3, residual=0.2)
    fitted = RidgeRegression(1.0, epsilon=1, delta=1e-6, sketch=sketch, radius=1.5, simulation_seed=5).fit(X, y)
    assert fitted.approximation_factor(X, y) < 0.5 * fitted.trivial_factor(X, y)
    assert np.linalg.norm(fitted.coef_ - weights) < 0.5 * np.linalg.norm(weights)
    assert fitted.release_.guarantee.simulation
    assert fitted.predict(X[:5]).shape == (5,)


@pytest.mark.parametrize("sketch", ["sum", "countsketch"])
def test_a_fit_of_pure_epsilon_beats_the_trivial_predictor(sketch):
    X, y, weights = population(200_000, features=3, residual=0.2)
    fitted = RidgeRegression(
        1.0, epsilon=1, delta=0, noise="discrete-laplace", sketch=sketch, radius=1.5, simulation_seed=5
    )
    fitted.fit(X, y)
    assert fitted.approximation_factor(X, y) < 0.5 * fitted.trivial_factor(X, y)
    assert np.linalg.norm(fitted.coef_ - weights) < 0.5 * np.linalg.norm(weights)
    assert fitted.release_.guarantee.delta == 0
    assert fitted.release_.task.sketch.sparsity == 1


def test_auto_sums_second_moments_and_is_close_to_the_optimum():
    X, y, _ = population(50_000, features=5)
    fitted = RidgeRegression(1.0, simulation_seed=1).fit(X, y)
    assert fitted.release_.task.statistic.name == "second-moments"
    assert fitted.approximation_factor(X, y) < 1.01


def test_any_column_can_be_the_target_of_one_release():
    X, y, _ = population(100_000, features=3)
    task = design(ReleaseSpec.of(Schema.unit(["a", "b", "c", "y"]), len(X), 1.0, 1e-6, sketch="sum", simulation_seed=2))
    release = model.run(task, np.column_stack([X, y]), stream=Stream.from_seed(2))
    by_name = RidgeRegression().fit_release(release, target="b")
    by_number = RidgeRegression().fit_release(release, target=1)
    assert by_name.feature_names_ == ("a", "c", "y")
    assert (by_name.coef_ == by_number.coef_).all()
    direct = LinearRegression().fit(np.column_stack([X[:, [0, 2]], y]), X[:, 1])
    assert np.linalg.norm(by_name.coef_ - direct.coef_) < 0.2 * np.linalg.norm(direct.coef_)
    for target in ("z", 4, -5):
        with rejects("target"):
            RidgeRegression().fit_release(release, target=target)


def test_coefficients_come_in_the_columns_units():
    rng = np.random.default_rng(0)
    X = rng.uniform([0, 100], [10, 300], (400_000, 2))
    y = 5 + 2 * X[:, 0] - 0.1 * X[:, 1] + rng.standard_normal(400_000)
    fitted = RidgeRegression(bounds={"x0": (0, 10), "x1": (100, 300), "y": (-30, 20)}, simulation_seed=3).fit(X, y)
    assert fitted.coef_ == pytest.approx([2, -0.1], rel=0.05)
    assert fitted.intercept_ == pytest.approx(5, abs=1)
    assert fitted.predict([[5, 200]]) == pytest.approx([-5], abs=0.5)


def test_debiasing_happens_where_it_is_safe_and_helps():
    X, y, _ = population(300_000, features=3, residual=0.1)
    rows = np.column_stack([X, y])
    factors = {"guarded": [], "never": []}
    for seed in range(6):
        task = design(
            ReleaseSpec.of(
                Schema.unit(["a", "b", "c", "y"]),
                len(X),
                1.0,
                1e-6,
                sketch="countsketch",
                rows=200,
                radius=1.6,
                simulation_seed=seed,
            )
        )
        release = model.run(task, rows, stream=Stream.from_seed(seed))
        for debias, found in factors.items():
            fitted = RidgeRegression(debias=debias).fit_release(release)
            assert fitted.debiased_ == (debias == "guarded")
            found.append(fitted.approximation_factor(X, y))
    assert np.mean(factors["guarded"]) < np.mean(factors["never"])


def test_debiasing_is_left_alone_where_the_noise_rules():
    X, y, _ = population(2_000, features=3)
    fitted = RidgeRegression(sketch="countsketch", rows=50, simulation_seed=1).fit(X, y)
    assert not fitted.debiased_
    assert np.linalg.norm(fitted.coef_) < 10


def test_a_noisy_sum_is_lifted_out_of_the_noise():
    X, y, _ = population(300, features=3)
    fitted = RidgeRegression(0.0, epsilon=0.2, simulation_seed=1).fit(X, y)
    assert fitted.alpha_ > 0
    assert np.linalg.norm(fitted.coef_) < 5


@pytest.mark.parametrize("target", [0, 1, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_fit_is_compared_block_by_block_as_all_at_once(monkeypatch, target, intercept):
    rows = np.random.default_rng(3).uniform(-1.2, 1.2, (1000, 4))
    schema = Schema.from_pair([f"x{i}" for i in range(4)], (-1.1, 0.9))
    task = design(ReleaseSpec.of(schema, 1000, 5.0, 1e-6, sketch="sum", simulation_seed=1))
    release = model.run(task, rows, stream=Stream.from_seed(1))
    fitted = RidgeRegression(3.0, fit_intercept=intercept).fit_release(release, target=target)
    monkeypatch.setattr(ridge_regression, "_BLOCK", 77)
    compared = fitted.compare(rows)
    Z = schema.normalise(rows)
    X, y = np.delete(Z, target, axis=1), Z[:, target]
    best = optimal_ridge(X, y, 3.0, fit_intercept=intercept)
    least = ridge_cost(best, X, y, 3.0)
    np.testing.assert_allclose(compared.best.weights, best.weights, rtol=1e-9)
    assert compared.best.intercept == pytest.approx(best.intercept, rel=1e-9)
    assert compared.approximation_factor == pytest.approx(ridge_cost(fitted.model_, X, y, 3.0) / least, rel=1e-12)
    trivial = trivial_predictor(3, y, fit_intercept=intercept)
    assert compared.trivial_factor == pytest.approx(ridge_cost(trivial, X, y, 3.0) / least, rel=1e-12)
    split = np.delete(rows, target, axis=1), rows[:, target]
    assert fitted.approximation_factor(*split) == compared.approximation_factor
    assert fitted.trivial_factor(*split) == compared.trivial_factor
    assert fitted.approximation_factor(*split, best) == pytest.approx(1, rel=1e-12)


def test_trivial_predictor_and_costs():
    y = np.array([1.0, 3.0])
    assert trivial_predictor(2, y).intercept == 2
    assert trivial_predictor(2, y, fit_intercept=False).intercept == 0
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert ridge_cost(LinearModel(np.array([1.0, 1.0]), 0.5), X, y, 2.0) == pytest.approx(0.25 + 2.25 + 4)
    assert solve_ridge(exact_gram(np.column_stack([X, y])), 2, 0.0, fit_intercept=False).weights == pytest.approx(y)


def test_estimators_are_scikit_learn_citizens():
    estimator = RidgeRegression(2.0, epsilon=0.5, sketch="sum", simulation_seed=4)
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.get_params()["alpha"] == 2.0
    assert dataclasses.is_dataclass(LinearModel)


@pytest.mark.parametrize(
    ("parameters", "argument"),
    [
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"debias": "always"}, "debias"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.5}, "delta"),
        ({"sketch": "fourier"}, "sketch"),
        ({"sketch": "osnap", "rows": 3}, "rows"),
        ({"sketch": "sum", "rows": 3}, "rows, sparsity"),
        ({"sketch": "countsketch", "sparsity": 2}, "sparsity"),
        ({"servers": 1}, "servers"),
        ({"sharing": "shamir", "servers": 2}, "servers"),
        ({"sharing": "xor"}, "sharing"),
        ({"noise": "uniform"}, "noise"),
        ({"calibration": "lucky"}, "calibration"),
        ({"corrupt_clients": 1000}, "corrupt_clients + dropouts"),
        ({"radius": -1.0}, "radius"),
        ({"simulation_seed": -3}, "seed"),
    ],
)
def test_bad_parameters(parameters, argument):
    X, y, _ = population(1000, features=3)
    with rejects(argument):
        RidgeRegression(**{"sketch": "countsketch", "rows": 20, **parameters}).fit(X, y)


def test_bad_data():
    X, y, _ = population(100, features=2)
    with rejects("y", given="shape (99,)"):
        RidgeRegression().fit(X, y[:-1])
    with rejects("X: column 'x1', row 1"):
        RidgeRegression().fit(X * 3, y)
    with pytest.raises(InputError):
        RidgeRegression().fit(np.where(X > 0.9, np.nan, X), y)
    fitted = RidgeRegression(simulation_seed=1, delta=1e-4).fit(X, y)
    with rejects("X"):
        fitted.predict(X[0])
    exact = np.linspace(-1, 1, 100)
    with rejects("y"):
        RidgeRegression(0.0, simulation_seed=1, delta=1e-4, fit_intercept=False).fit(
            exact[:, None], exact * 0.5 + 1e-30 * y
        ).approximation_factor(exact[:, None], np.zeros(100))
