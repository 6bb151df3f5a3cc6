"""Regressions in rounds: against the best fit of the same rows without noise, and their words.

The oracle is scikit-learn's own fit without a penalty, and the textbook's sandwich for its errors. Seeds are fixed.
"""

import json
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
from sklearn.exceptions import NotFittedError

from dpmpc import LogisticRegression, PoissonRegression, RidgeRegression
from dpmpc.base.errors import UtilityWarning
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.models.rounds.start import Whitened, logistic_start, logistic_start_error
from dpmpc.models.tables.coded_rows import predict_coded
from dpmpc.privacy import BudgetLedger
from support.rejections import rejects

EPSILON = {"epsilon": 1.0, "simulation_seed": 3}


def sigmoid(eta):
    return 1 / (1 + np.exp(-eta))


@pytest.fixture(scope="module")
def cases():
    """Features in units of their own, one of them a rare 0/1, and labels that are texts."""
    rng = np.random.default_rng(11)
    X = np.column_stack([rng.normal(50, 12, 30_000).clip(18, 95), rng.random(30_000) < 0.2, rng.uniform(0, 3, 30_000)])
    eta = -3 + 0.05 * X[:, 0] + 0.8 * X[:, 1] - 0.6 * X[:, 2]
    return pd.DataFrame(X, columns=["age", "smoker", "dose"]), np.where(
        rng.random(30_000) < sigmoid(eta), "ill", "healthy"
    )


BOUNDS = {"age": (18, 95), "smoker": (0, 1), "dose": (0, 3)}


@pytest.fixture(scope="module")
def fitted(cases):
    return LogisticRegression(bounds=BOUNDS, classes=["healthy", "ill"], **EPSILON).fit(*cases)


def test_logistic_is_near_the_maximum_likelihood(cases, fitted):
    X, y = cases
    best = sklearn.linear_model.LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X, y)
    found = fitted.inference()
    # The sandwich of the best fit, without noise: errors of ours are larger, but not by much here.
    rows = np.column_stack([np.ones(len(X)), X])
    q = best.predict_proba(X)[:, 1]
    inverse = np.linalg.inv((rows * (q * (1 - q))[:, None]).T @ rows)
    scores = rows * ((y == "ill") - q)[:, None]
    sandwich = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))[1:]
    assert (found.standard_errors > 0.95 * sandwich).all()
    assert (found.standard_errors < 3 * sandwich).all()
    # What separates the two is noise and weights, and not the sampling that both share.
    assert (np.abs(found.coef - best.coef_[0]) < 2 * found.standard_errors).all()
    assert (np.abs(fitted.coef_ - best.coef_[0]) < 4 * found.standard_errors).all()
    odds = np.array([0.05, 0.8, -0.6])
    assert ((found.confidence_intervals[:, 0] < odds) & (odds < found.confidence_intervals[:, 1])).all()
    agree = fitted.predict(X) == best.predict(X)
    assert agree.mean() > 0.97
    assert fitted.predict_proba(X).sum(axis=1) == pytest.approx(1)
    assert fitted.classes_.tolist() == ["healthy", "ill"]


def test_the_guarantee_is_that_of_all_rounds(fitted):
    promised = fitted.guarantee_
    assert (promised.epsilon, promised.delta) == (1.0, 1e-6)
    assert 0.99 < promised.achieved_epsilon <= 1.0
    assert promised.mu == pytest.approx(0.236704, rel=1e-3)
    assert promised.mu == pytest.approx(math.sqrt(sum(r.guarantee.mu**2 for r in fitted.releases_)))
    assert (len(fitted.releases_), fitted.rounds_) == (11, 8)
    assert [release.task.statistic.name for release in fitted.releases_] == [
        "second-moments",
        *["clipped-scores"] * fitted.rounds_,
        *["scores"] * 2,
    ]
    assert all(release.guarantee.achieved_epsilon < 0.8 for release in fitted.releases_)
    assert "every round draws fresh noise" in str(promised)
    assert "each report enters one release only" not in str(promised)
    assert promised.simulation
    assert promised.neighbouring == "replace-one"


def test_rounds_draw_fresh_noise(cases):
    """Two rounds of one seed have different noise: were it the same, their difference would show the rows.

    The last two are compared, whose numbers are many.
    """
    X, y = cases
    model = LogisticRegression(bounds=BOUNDS, rounds=2, **EPSILON).fit(X[:2000], y[:2000])
    rows = np.column_stack([X[:2000], (y[:2000] == "ill").astype(float)])
    noises = []
    for release in model.releases_[-2:]:
        task = release.task
        exact = task.statistic.encode(task.schema.normalise(rows), task.encoding).sum(axis=0)
        noises.append((release.sums[0] - exact) / 2.0**24)
    assert np.abs(noises[0] / noises[0].std() - noises[1] / noises[1].std()).min() > 1e-6
    assert abs(np.corrcoef(noises)[0, 1]) < 0.8  # 24 entries: chance below 1e-5


def test_poisson_is_near_the_maximum_likelihood():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (40_000, 3))
    truth = np.array([0.5, -0.3, 0.2])
    y = rng.poisson(np.exp(0.4 + X @ truth))
    model = PoissonRegression(bounds=(-1, 1), most=20, **EPSILON).fit(X, y)
    best = sklearn.linear_model.PoissonRegressor(alpha=0, max_iter=1000, tol=1e-8).fit(X, y)
    assert model.rounds_ == 8
    assert model.coef_ == pytest.approx(best.coef_, abs=0.05)
    assert model.intercept_ == pytest.approx(best.intercept_, abs=0.05)
    found = PoissonRegression(bounds=(-1, 1), most=20, epsilon=10.0, simulation_seed=3).fit(X, y).inference()
    assert (np.abs(found.coef - truth) < 3.5 * found.standard_errors).all()
    assert (found.standard_errors < 0.1).all()
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.03)


@pytest.mark.parametrize(
    ("clients", "epsilon", "odds", "why"),
    [
        (2000, 0.3, 0.0, "noise hides about .* of what the features may explain"),
        (3000, 0.3, -6.0, "rows belong to the rarer class, and noise hides up to"),
    ],
)
def test_where_nothing_can_be_learned_it_says_so(clients, epsilon, odds, why):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (clients, 8))
    y = (rng.random(clients) < sigmoid(odds + X[:, 0])).astype(int)
    y[:2] = 0, 1
    model = LogisticRegression(epsilon=epsilon, bounds=(-1, 1), simulation_seed=1)
    with pytest.warns(
        UtilityWarning, match=f"no coefficients can be trusted from {clients:,} rows at epsilon = {epsilon}: .*{why}"
    ):
        model.fit(X, y)
    assert np.isnan(model.coef_).all()
    assert re.search(why, model.verdict_)
    chances = model.predict_proba(X)[:, 1]
    assert chances.min() == chances.max()  # that of the released mean
    assert abs(chances[0] - y.mean()) < 0.3
    found = model.inference()
    assert np.isnan(found.coef).all()
    assert np.isinf(found.standard_errors).all()
    assert model.guarantee_.achieved_epsilon <= epsilon


def test_bad_input_is_named(cases):
    X, y = cases
    with rejects("rounds", given="70"):
        LogisticRegression(bounds=BOUNDS, rounds=70, **EPSILON).fit(X, y)
    with rejects("rounds", given="'many'"):
        LogisticRegression(bounds=BOUNDS, rounds="many", **EPSILON).fit(X, y)
    with rejects("rounds", given="-1"):
        LogisticRegression(bounds=BOUNDS, rounds=-1, **EPSILON).fit(X, y)
    with rejects("rounds", given="2.0"):
        LogisticRegression(bounds=BOUNDS, rounds=2.0, **EPSILON).fit(X, y)
    for classes, argument in [
        (["no", "yes", "x"], "classes"),
        (["yes", "yes"], "classes"),
        ("ab", "classes"),
        ([["no"], ["yes"]], "classes"),
        ([["no"], ["yes", "x"]], "classes"),
        ([None, "yes"], "classes"),
        ([math.nan, 1.0], "classes"),
    ]:
        with rejects(argument):
            LogisticRegression(bounds=BOUNDS, classes=classes, **EPSILON).fit(X, y)
    with rejects("noise", given="'skellam'"):
        LogisticRegression(bounds=BOUNDS, noise="skellam", **EPSILON).fit(X, y)
    with rejects("coalition", given="'static'"):
        LogisticRegression(bounds=BOUNDS, coalition="static", **EPSILON).fit(X, y)
    with rejects("y", given="'healthy'"):
        LogisticRegression(bounds=BOUNDS, classes=["a", "b"], **EPSILON).fit(X, y)
    with rejects("y"):
        LogisticRegression(bounds=BOUNDS, **EPSILON).fit(X, np.arange(len(X)) % 3)
    with rejects("columns", given="91"):
        LogisticRegression(**EPSILON).fit(np.random.default_rng(0).uniform(-1, 1, (200, 90)), np.arange(200) % 2)
    with rejects("top", given="0"):
        PoissonRegression(bounds=BOUNDS, most=0, **EPSILON).fit(X, np.ones(len(X)))
    with pytest.raises(NotFittedError):
        LogisticRegression().predict(X)


def test_noise_by_servers_is_counted_for_all_rounds(cases):
    X, y = cases
    model = LogisticRegression(bounds=BOUNDS, noise_by="servers", **EPSILON).fit(X, y)
    assert model.guarantee_.noise_by == "servers"
    assert model.guarantee_.achieved_epsilon <= 1.0
    assert model.coef_ == pytest.approx([0.05, 0.8, -0.6], abs=0.4)


# Zero rounds


@pytest.fixture(scope="module")
def gaussian_cases():
    """Gaussian features that go together, for which scaled least squares is right; cases are a fifth."""
    rng = np.random.default_rng(5)
    X = rng.multivariate_normal([0, 0.1], [[0.04, 0.03], [0.03, 0.09]], 200_000).clip(-1, 1)
    return X, (rng.random(len(X)) < sigmoid(-1.5 + X @ [2.0, -1.5])).astype(int)


def test_zero_rounds_are_near_the_maximum_likelihood_of_gaussian_features(gaussian_cases):
    X, y = gaussian_cases
    model = LogisticRegression(rounds=0, bounds=(-1, 1), **EPSILON).fit(X, y)
    best = sklearn.linear_model.LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X, y)
    assert model.coef_ == pytest.approx(best.coef_[0], abs=0.08)
    assert model.intercept_ == pytest.approx(best.intercept_[0], abs=0.03)
    assert (model.rounds_, len(model.releases_)) == (0, 1)
    assert (model.guarantee_.epsilon, model.guarantee_.achieved_epsilon <= 1.0) == (1.0, True)
    assert model.guarantee_.mu == pytest.approx(0.236704, rel=1e-3)  # all of the budget in one release
    found = model.inference()
    assert not found.informative
    assert np.isinf(found.standard_errors).all()
    table = str(model.odds_ratios())
    assert "an approximation: scaled least squares from second moments" in table
    assert "HC0" not in table
    assert f"noise moves the log odds of a typical row by about {model.start_error_:.2g}" in " ".join(table.split())
    assert 0 < model.start_error_ < 0.1
    assert LogisticRegression(rounds=1, bounds=(-1, 1), **EPSILON).fit(X, y).start_error_ is None


def test_a_release_of_second_moments_is_fitted_for_any_column(gaussian_cases):
    X, y = gaussian_cases
    bounds = {"x0": (-1, 1), "x1": (-1, 1), "y": (0, 1)}
    linear = RidgeRegression(bounds=bounds, sketch="sum", **EPSILON)
    with pytest.warns(UtilityWarning, match="linear probability model"):
        linear.fit(X, y)
    whole = LogisticRegression(classes=["no", "yes"]).fit_release(linear.release_)
    best = sklearn.linear_model.LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X, y)
    assert whole.coef_ == pytest.approx(best.coef_[0], abs=0.08)
    assert whole.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)
    assert set(whole.predict(X)) == {"no", "yes"}
    assert whole.guarantee_ == linear.release_.guarantee
    turned = LogisticRegression().fit_release(linear.release_, "y", features=["x1", "x0"])
    assert turned.coef_ == pytest.approx(whole.coef_[::-1])
    one = LogisticRegression().fit_release(linear.release_, "y", features=["x1"])
    alone = sklearn.linear_model.LogisticRegression(C=np.inf).fit(X[:, 1:], y)
    assert one.coef_ == pytest.approx(alone.coef_[0], abs=0.08)
    with rejects("bounds of column 'x1'", expected="(0, 1)"):
        LogisticRegression().fit_release(linear.release_, "x1")
    with rejects("features", expected="some of x0, x1"):
        LogisticRegression().fit_release(linear.release_, "y", features=["y"])


def test_a_sketch_and_a_round_have_no_moments_to_start_from(gaussian_cases, fitted):
    X, y = gaussian_cases
    bounds = {"x0": (-1, 1), "x1": (-1, 1), "y": (0, 1)}
    sketched = RidgeRegression(bounds=bounds, sketch="osnap", rows=64, **EPSILON)
    with pytest.warns(UtilityWarning):
        sketched.fit(X[:5000], y[:5000])
    with rejects("release", given="of rows given, of second moments expected (a sum)"):
        LogisticRegression().fit_release(sketched.release_)
    with rejects("release", given="of scores given, of second moments expected (a sum)"):
        LogisticRegression().fit_release(fitted.releases_[-1])
    with rejects("rounds", given="0"):
        PoissonRegression(rounds=0, bounds=(-1, 1), most=1, **EPSILON).fit(X, y)


def test_zero_rounds_say_where_nothing_can_be_learned():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1000, 8))
    y = (rng.random(1000) < sigmoid(X[:, 0])).astype(int)
    with pytest.warns(UtilityWarning, match="no coefficients can be trusted from 1,000 rows at epsilon = 0.3: noise"):
        model = LogisticRegression(rounds=0, bounds=(-1, 1), epsilon=0.3, simulation_seed=1).fit(X, y)
    assert np.isnan(model.coef_).all()
    chances = model.predict_proba(X)[:, 1]
    assert chances.min() == chances.max()


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_zero_rounds_give_no_slopes_where_features_determine_the_target(epsilon):
    X = np.random.default_rng(0).uniform(-1, 1, (20_000, 3))
    with pytest.warns(UtilityWarning, match="the features explain more of the target than an approximation without"):
        model = LogisticRegression(rounds=0, bounds=(-1, 1), epsilon=epsilon, simulation_seed=1).fit(X, X[:, 0] > 0)
    assert "all but determine it" in model.verdict_
    assert np.isnan(model.coef_).all()
    assert model.start_error_ is None


@pytest.mark.statistical
def test_the_error_that_noise_makes_without_rounds_is_foreseen():
    """Spread of 60 fits of the same people over fresh noise against the formula, within a third."""
    rng = np.random.default_rng(6)
    X = rng.multivariate_normal([0, 0], [[0.06, 0.02], [0.02, 0.09]], 20_000).clip(-1, 1)
    y = (rng.random(len(X)) < sigmoid(X @ [2.0, -1.0])).astype(int)
    fits = [LogisticRegression(rounds=0, bounds=(-1, 1), simulation_seed=s).fit(X, y) for s in range(60)]
    deviations = np.array([fit.coef_ for fit in fits]) - np.mean([fit.coef_ for fit in fits], axis=0)
    spread = math.sqrt(np.einsum("ij,jk,ik->", deviations, np.cov(X.T), deviations) / 59)
    whitened = Whitened.of(fits[0].releases_[0])
    assert logistic_start_error(whitened, logistic_start(whitened)) == pytest.approx(spread, rel=0.35)


# What targets and their bounds are called


def test_a_series_has_a_name_and_bounds_of_its_own(cases):
    X, y = cases
    ill = pd.Series((y == "ill").astype(int)[:2000], name="ill")
    few = X[:2000]
    with_own = LogisticRegression(bounds={**BOUNDS, "ill": (0, 1)}, rounds=1, **EPSILON).fit(few, ill)
    assert with_own.releases_[0].columns == ("age", "smoker", "dose", "ill")
    plain = LogisticRegression(bounds=BOUNDS, rounds=1, **EPSILON).fit(few, ill.to_numpy())
    assert plain.releases_[0].columns == ("age", "smoker", "dose", "y")
    assert with_own.coef_ == pytest.approx(plain.coef_)
    named = LogisticRegression(bounds={**BOUNDS, "y": (0, 1)}, rounds=1, **EPSILON).fit(few, ill)
    assert named.releases_[0].columns[-1] == "y"
    with rejects("bounds of column 'ill'", expected="(0, 1)"):
        LogisticRegression(bounds={**BOUNDS, "ill": (0, 2)}, **EPSILON).fit(few, ill)
    counts = pd.Series(np.arange(2000) % 5, name="visits")
    model = PoissonRegression(bounds={**BOUNDS, "visits": (0, 9)}, most=9, rounds=1, epsilon=5.0, simulation_seed=1)
    assert model.fit(few, counts).releases_[0].columns[-1] == "visits"
    with rejects("bounds of column 'visits'", expected="(0, 100)"):
        PoissonRegression(bounds={**BOUNDS, "visits": (0, 9)}, **EPSILON).fit(few, counts)


def test_a_codebook_of_the_features_goes_into_the_releases():
    book = Codebook((Variable("age", 18, 95), Variable("ward", values=("A", "B", "C"))))
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"age": rng.uniform(18, 95, 4000).round(1), "ward": rng.choice(["A", "B", "C"], 4000)})
    X = book.encode(frame.astype(str))
    y = rng.random(4000) < sigmoid(-2 + 0.04 * X.values[:, 0])
    model = LogisticRegression(bounds=Schema.of_codebook(book), rounds=1, epsilon=3.0, simulation_seed=1).fit(X, y)
    public = model.releases_[0].task.schema
    assert public.names == ("age", "ward=B", "ward=C", "y")
    assert public.codebook.sources == ("age", "ward", "y")
    assert public.radius == math.sqrt(3)  # a row is in one ward: the start has less noise than that of the box
    coefficients = dict(zip(model.feature_names_, model.coef_, strict=True))
    found = predict_coded(public, coefficients, model.intercept_, frame.astype(str), model="logistic")
    assert found == pytest.approx(model.predict_proba(pd.DataFrame(X.values, columns=X.names))[:, 1])
    with rejects("model", given="'probit'"):
        predict_coded(public, coefficients, model.intercept_, frame.astype(str), model="probit")


# Linear regression


@pytest.fixture(scope="module")
def loosely_bounded():
    """Two features that nearly agree, in bounds twice too wide; errors that grow with the first."""
    rng = np.random.default_rng(8)
    first = rng.normal(0, 1, 40_000)
    X = np.column_stack([first, first + 0.2 * rng.normal(size=40_000)])
    y = 1 + X @ [2.0, -1.0] + (0.3 + 0.3 * np.abs(first)) * rng.normal(size=40_000)
    return X, y


LOOSE = {"x0": (-8, 8), "x1": (-8, 8), "y": (-16, 16)}


def test_rounds_of_least_squares_take_the_noise_off(loosely_bounded):
    X, y = loosely_bounded
    one = RidgeRegression(1e-3, bounds=LOOSE, **EPSILON).fit(X, y)
    many = RidgeRegression(bounds=LOOSE, rounds="auto", **EPSILON).fit(X, y)
    assert many.approximation_factor(X, y) < 1.03 < one.approximation_factor(X, y)
    assert (many.rounds_, len(many.releases_)) == (8, 10)
    assert many.guarantee_.achieved_epsilon <= 1.0
    assert many.guarantee_.mu == pytest.approx(one.release_.guarantee.mu, rel=1e-3)
    assert many.releases_[0].guarantee.mu == pytest.approx(math.sqrt(0.65) * many.guarantee_.mu, rel=1e-3)
    found = many.inference()
    rows = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.inv(rows.T @ rows)
    residual = y - rows @ (inverse @ rows.T @ y)
    sandwich = np.sqrt(np.diag(inverse @ (rows * residual[:, None] ** 2).T @ rows @ inverse))[1:]
    assert (found.standard_errors > 0.9 * sandwich).all()
    assert (np.abs(found.coef - [2, -1]) < 4 * found.standard_errors)[np.isfinite(found.standard_errors)].all()
    assert many.predict(X) == pytest.approx(X @ many.coef_ + many.intercept_)
    # What reads one release afterwards is as if there had been no rounds.
    many.fit_release(one.release_)
    again = RidgeRegression().fit_release(one.release_)
    assert set(vars(many)) == set(vars(again))
    assert many.coef_ == pytest.approx(again.coef_)
    assert many.inference().coef == pytest.approx(one.inference().coef, nan_ok=True)


def test_prediction_alone_takes_all_of_the_budget(loosely_bounded):
    X, y = loosely_bounded
    model = RidgeRegression(bounds=LOOSE, rounds="auto", intervals=False, **EPSILON).fit(X, y)
    assert (model.rounds_, len(model.releases_)) == (32, 33)
    assert model.approximation_factor(X, y) < 1.01
    assert "intervals=False" in model.no_interval_
    assert np.isinf(model.inference().standard_errors).all()
    assert "no intervals" in str(model.summary())


def test_where_nothing_is_learned_the_mean_is_predicted(loosely_bounded):
    X, y = loosely_bounded
    model = RidgeRegression(epsilon=0.1, bounds=LOOSE, rounds=8, simulation_seed=1)
    with pytest.warns(UtilityWarning, match="no prediction can be trusted from 500 rows at epsilon = 0.1: noise hides"):
        model.fit(X[:500], y[:500])
    assert not model.coef_.any()
    assert np.ptp(model.predict(X[:9])) == 0
    assert model.guarantee_.achieved_epsilon <= 0.1
    assert model.inference().told == (False, False)  # intervals as wide as what is assumed, with their flag
    assert model.inference().flagged[1:] == (True, True)
    assert model.result().data["coefficients"] is None


@pytest.mark.parametrize(
    ("choice", "argument"),
    [
        ({"rounds": 65}, "rounds"),
        ({"rounds": 2, "sketch": "osnap"}, "sketch"),
        ({"rounds": 2, "radius": 1.0}, "radius"),
        ({"rounds": 2, "fit_intercept": False}, "fit_intercept"),
        ({"rounds": 2, "alpha": "auto"}, "alpha"),
        ({"rounds": 2, "alpha": 1.0}, "alpha"),
    ],
)
def test_rounds_refuse_what_they_do_not_do(loosely_bounded, choice, argument):
    with rejects(argument):
        RidgeRegression(bounds=LOOSE, **choice).fit(*loosely_bounded)


def test_a_ridge_regression_takes_rounds_unless_one_release_is_asked_for(loosely_bounded):
    """What an owner of rows spends is then that of all releases: the first of them is not handed out as the fit's."""
    X, y = loosely_bounded
    rounds = RidgeRegression(bounds=LOOSE, **EPSILON).fit(X, y)
    assert (rounds.rounds_, len(rounds.releases_)) == (8, 10)
    assert rounds.guarantee_.achieved_epsilon > 0.99 > 0.8 > rounds.releases_[0].guarantee.achieved_epsilon
    with pytest.raises(AttributeError, match="release_: a fit in rounds has made 10 releases, `releases_`; what they"):
        rounds.release_.guarantee
    ledger = BudgetLedger(1.0, 1e-6)
    ledger.spend(rounds.guarantee_, "ten releases", reports="made anew for each")
    assert ledger.epsilon == pytest.approx(1.0, rel=1e-3)
    one = RidgeRegression(bounds=LOOSE, sketch="sum", **EPSILON).fit(X, y)
    assert one.releases_ == (one.release_,)
    assert one.guarantee_ == one.release_.guarantee
    assert not hasattr(one, "rounds_")


def test_a_linear_fit_without_steering_is_one_release(loosely_bounded):
    X, y = loosely_bounded
    model = RidgeRegression(bounds=LOOSE, rounds=0, **EPSILON).fit(X, y)
    assert model.releases_ == (model.release_,)
    assert not hasattr(model, "rounds_")
    with rejects("rounds", given="False"):
        RidgeRegression(bounds=LOOSE, rounds=False, **EPSILON).fit(X, y)
    with rejects("private_bounds", given="True"):
        RidgeRegression(bounds=LOOSE, rounds=0, private_bounds=True, **EPSILON).fit(X, y)


@pytest.mark.parametrize(
    "choice",
    [
        {"alpha": 1.0},
        {"alpha": "auto"},
        {"fit_intercept": False},
        {"sketch": "osnap"},
        {"sketch": "sum"},
        {"rows": 500},
        {"radius": 1.0},
        {"sharing": "shamir"},
        {"noise": "skellam"},
        {"noise": "discrete-laplace", "delta": 0.0},
        {"calibration": "paper"},
        {"coalition": "static"},
        {"rounds": 0, "intervals": False},
    ],
    ids=str,
)
def test_what_only_one_release_knows_is_read_from_one(choice):
    model, plain = RidgeRegression(**choice), RidgeRegression()
    spec = model.specification(Schema.unit(["x", "y"]), 1000)
    assert model.rounds_for(spec) is None
    assert not model.in_rounds(spec)
    assert RidgeRegression(**{"rounds": 0, **choice}).rounds_for(spec) is None
    assert plain.rounds_for(plain.specification(Schema.unit(["x", "y"]), 1000)) == 8


def test_rounds_are_taken_as_far_as_a_client_may_send_so_much():
    model, few = RidgeRegression(rounds="auto"), RidgeRegression(rounds="auto", intervals=False)
    for columns, rounds in ((126, 8), (127, None)):
        assert model.rounds_for(model.specification(Schema.unit([f"x{j}" for j in range(columns)]), 1000)) == rounds
    wide = Schema.unit([f"x{j}" for j in range(126)])
    assert few.rounds_for(few.specification(wide, 1000)) == 32
    assert few.rounds_for(few.specification(wide, 200_000)) == 8


def test_weights_are_read_from_one_release():
    book = Codebook((Variable("x", 0, 1), Variable("y", 0, 1)), incomplete="zeros")
    model = RidgeRegression(rounds="auto")
    assert model.rounds_for(model.specification(Schema.of_codebook(book), 1000)) is None


@pytest.mark.parametrize("rounds", ["auto", 0])
def test_a_feature_that_does_not_vary_is_named_by_what_the_release_shows(cases, rounds):
    """Its coefficient is noise, of ten or more: whoever has the release alone is told which column to leave out."""
    X, y = cases
    rows = X.assign(dose=0.5)
    model = LogisticRegression(bounds=BOUNDS, classes=["healthy", "ill"], rounds=rounds, **EPSILON)
    with pytest.warns(UtilityWarning, match="^dose: noise hides whether there is any variance"):
        model.fit(rows, y)
    assert math.isinf(model.inference().standard_errors[2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(rows[["age", "smoker"]], y)


# Edges


def _edge(name):
    """Rows of a hostile kind, and a target within [-1, 1]."""
    rng = np.random.default_rng(9)
    if name.startswith("n = "):
        X = rng.uniform(-1, 1, (int(name[4:]), 2))
        return X, X[:, 0]
    X = rng.uniform(-1, 1, (5000, 2))
    y = (0.4 * X[:, 0] + rng.normal(0, 0.2, 5000)).clip(-1, 1)
    return {
        "one feature": (X[:, :1], y),
        "constant feature": (np.column_stack([X[:, 0], np.ones(5000)]), y),
        "equal features": (X[:, [0, 0]], y),
        "one value": (X, np.full(5000, -1.0)),
        "determined": (X, np.where(X[:, 0] > 0, 1.0, -1.0)),
        "beyond the bounds": (9 * X, 9 * y),
    }[name]


EDGES = ["n = 1", "n = 2", "n = 10", "one feature", "constant feature", "equal features", "one value", "determined"]


@pytest.mark.parametrize("epsilon", [0.01, 100.0])
@pytest.mark.parametrize("edge", [*EDGES, "beyond the bounds"])
@pytest.mark.parametrize(
    ("kind", "rounds"),
    [(RidgeRegression, 0), (RidgeRegression, "auto"), (LogisticRegression, "auto"), (PoissonRegression, "auto")],
)
@pytest.mark.filterwarnings("ignore::dpmpc.base.errors.UtilityWarning")
def test_edges_give_numbers_or_a_reason(kind, rounds, edge, epsilon):
    X, y = _edge(edge)
    chosen = {LogisticRegression: {"classes": [0, 1]}, PoissonRegression: {"most": 9}}.get(kind, {})
    target = {
        RidgeRegression: y,
        LogisticRegression: (y > 0).astype(int),
        PoissonRegression: np.rint(4 + 4 * y).clip(0),
    }
    model = kind(epsilon=epsilon, delta=1e-5, bounds=(-1, 1), rounds=rounds, simulation_seed=1, **chosen).fit(
        X, target[kind]
    )
    found = model.inference()
    assert model.guarantee_.achieved_epsilon <= epsilon
    assert getattr(model, "verdict_", None) or np.isfinite([model.intercept_, *model.coef_]).all()
    assert np.isfinite(model.predict(X)).all()
    json.dumps(model.result().data, allow_nan=False)
    assert "nan" not in str(model.result()).lower()
    if (
        rounds and model.verdict_ is None and np.isfinite(found.standard_errors).any()
    ):  # intervals only where noise leaves them
        assert (found.standard_errors > 0).all()
        assert len(X) > 1000
