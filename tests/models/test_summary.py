"""Summaries of regressions, and fits of some features: what follows from one release."""

import json

import numpy as np
import pandas
import pytest
import scipy.stats
from sklearn.exceptions import NotFittedError

from bench.secure_sketching.coverage import release_of_law
from dpmpc import FrequencyMoment, RidgeRegression
from dpmpc.base.errors import UNIDENTIFIED
from dpmpc.data import Column, Schema
from dpmpc.models.common.linear_algebra import averaged_ridge
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.release import GramRelease
from dpmpc.release.results import NumberTable
from support.rejections import rejects

NAMES = ("x0", "x1", "x2", "y")
UNIT = Schema.unit(NAMES)
UNITS = Schema(
    tuple(Column(name, *ends) for name, ends in zip(NAMES, ((0, 4), (-1, 1), (10, 30), (0, 8)), strict=True))
)
SUM = {"sketch": "sum"}
OSNAP = {"sketch": "osnap", "rows": 200, "sparsity": 4}
EACH = {**OSNAP, "copies": "each"}
COUNT = {"sketch": "countsketch", "rows": 200}


def people(clients, seed=0, effect=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, 3))
    y = 0.1 + effect * X @ [0.3, 0.0, -0.2] + rng.uniform(-0.2, 0.2, clients)
    return np.column_stack([X, y])


def released(data, schema=UNIT, epsilon=3.0, seed=0, **choices):
    task = design(ReleaseSpec.of(schema, len(data), epsilon, 1e-6, simulation_seed=seed, **choices))
    return release_of_law(task, data, np.random.default_rng(seed))


def test_a_summary_says_that_errors_of_a_sum_assume_an_even_spread():
    """At n = 30,000, epsilon 3, 232 of 300 intervals held a slope where gamma errors grow with its column."""
    data = people(20_000)
    model = RidgeRegression().fit_release(released(data), "y")
    assert "assume residuals whose spread does not depend on the features" in str(model.summary())
    for summary in (
        model.summary(errors="any"),
        model.summary(target="sample"),
        RidgeRegression().fit_release(released(data, epsilon=300.0, **COUNT), "y").summary(),
    ):
        assert summary.informative
        assert "assume" not in str(summary)


@pytest.mark.parametrize("choices", [SUM, OSNAP, COUNT], ids=lambda choices: choices["sketch"])
def test_summary_is_that_of_ordinary_least_squares_where_noise_is_small(choices):
    data = people(20_000)
    choices = choices if choices is SUM else {**choices, "rows": 2_000}
    summary = (
        RidgeRegression()
        .fit_release(released(data, epsilon=300.0, **choices), "y")
        .summary(groups={"outer": ["x0", "x2"], "middle": ["x1"]})
    )
    X = np.column_stack([np.ones(len(data)), data[:, :3]])
    theta, rss = np.linalg.lstsq(X, data[:, 3])[:2]
    found, tight = summary.inference, choices is SUM
    share = 1 - rss[0] / np.sum((data[:, 3] - data[:, 3].mean()) ** 2)
    assert abs(found.r_squared - share) < (1e-3 if tight else 4.5 * found.r_squared_standard_error)
    errors = np.sqrt(np.diag(np.linalg.inv(X.T @ X)) * rss[0] / (len(X) - 4))
    if tight:
        np.testing.assert_allclose(found.coef, theta[1:], atol=4e-4)
        np.testing.assert_allclose(found.standard_errors, errors[1:], rtol=0.02)
        np.testing.assert_allclose(summary.statistics[1:], found.coef / found.standard_errors)
        exact = 2 * scipy.stats.norm.sf(np.abs(summary.statistics))
        assert (exact == 0).any()  # less than a float can say: a bound is given, and never 0
        np.testing.assert_allclose(summary.p_values, np.maximum(exact, np.finfo(float).tiny))
        assert "< 1e-16" in str(summary)
    assert summary.tests["outer"].p_value < 1e-10
    assert summary.tests["middle"].statistic == pytest.approx(summary.statistics[2] ** 2)
    assert summary.tests["middle"].p_value == pytest.approx(summary.p_values[2])


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("choices", "clients", "epsilon"),
    [
        pytest.param(SUM, 20_000, 3.0, id="sum"),
        pytest.param(SUM, 1_500, 300.0, id="sum, sampling dominates"),
        pytest.param(EACH, 20_000, 12.0, id="osnap, each copy"),
        pytest.param(OSNAP, 20_000, 12.0, id="osnap", marks=pytest.mark.long("one copy, whose proof takes long")),
        pytest.param(COUNT, 20_000, 12.0, id="countsketch"),
    ],
)
def test_r_squared_is_within_its_error(choices, clients, epsilon):
    """Of 200 values at least 175 are within 1.96 standard errors, but for a probability of 5e-5 where 95 % should be.

    The residuals here are uniform, whose squares vary less than those of the normal law that the error of sampling
    assumes: more may be within.
    """
    truth = 1 - (0.04 / 3) / (0.04 / 3 + (0.09 + 0.04) / 3)
    within = 0
    for seed in range(200):
        release = released(people(clients, seed), epsilon=epsilon, seed=seed, **choices)
        found = RidgeRegression().fit_release(release, "y").inference()
        within += abs(found.r_squared - truth) < 1.96 * found.r_squared_standard_error
    assert within >= 175


@pytest.mark.statistical
@pytest.mark.parametrize(("choices", "epsilon"), [(SUM, 6.0), (COUNT, 12.0)], ids=["sum", "countsketch"])
def test_joint_test_rejects_at_its_level(choices, epsilon):
    """Of 400 tests at level .05 fewer than 5 or more than 40 reject with probability below 1e-4."""
    rejected = 0
    for seed in range(400):
        release = released(people(8_000, seed, effect=0.0), epsilon=epsilon, seed=seed, **choices)
        summary = RidgeRegression().fit_release(release, "y").summary()
        assert summary.informative
        rejected += summary.tests["all features"].p_value < 0.05
    assert 5 <= rejected <= 40


def test_holm():
    summary = RidgeRegression().fit_release(released(people(3_000), epsilon=1.0, **SUM), "y").summary()
    p = summary.p_values[1:]
    order = np.argsort(p)
    assert summary.adjusted[order[0]] == pytest.approx(min(1.0, 3 * p[order[0]]))
    assert np.all(summary.adjusted >= p)
    assert np.all(np.diff(summary.adjusted[order]) >= 0)
    assert "3 coefficients are tested" in str(summary)


def test_forms_of_a_summary():
    summary = RidgeRegression().fit_release(released(people(20_000), **SUM), "y").summary()
    frame = summary.to_frame()
    assert list(frame.index) == ["x0", "x1", "x2", "intercept"]
    assert list(frame["coefficient"])[:3] == summary.inference.coef.tolist()
    assert r"\begin{tabular}" in summary.to_latex()
    assert summary.to_csv().startswith("column,coefficient,std. error,z,p,p (Holm)")
    assert "<table>" in summary._repr_html_()
    assert json.loads(json.dumps(summary.to_dict(), allow_nan=False))["r_squared"] == summary.inference.r_squared


def test_without_intercept_there_is_no_row_of_it():
    model = RidgeRegression(fit_intercept=False).fit_release(released(people(20_000), **SUM), "y")
    assert list(model.summary().to_frame().index) == ["x0", "x1", "x2"]
    assert 0.6 < model.summary().inference.r_squared < 0.9


def test_hopeless_summary_is_a_verdict():
    summary = RidgeRegression().fit_release(released(people(200), epsilon=0.01, **SUM), "y").summary()
    assert not summary.informative
    assert UNIDENTIFIED in str(summary)
    assert UNIDENTIFIED in summary._repr_html_()
    assert summary.to_dict()["coefficients"] == {}


@pytest.mark.parametrize("group", [["z"], [], "x0", ["x0", "x0"]])
def test_unknown_groups_are_refused(group):
    model = RidgeRegression().fit_release(released(people(20_000), **SUM), "y")
    with rejects("groups", expected="a list of different features of x0, x1, x2"):
        model.summary(groups={"g": group})


def test_summary_needs_a_fit():
    with pytest.raises(NotFittedError):
        RidgeRegression().summary()


@pytest.mark.parametrize("choices", [SUM, OSNAP], ids=lambda choices: choices["sketch"])
@pytest.mark.parametrize("alpha", [1.0, "auto"])
def test_some_features_are_fitted_as_if_no_other_column_were_released(choices, alpha):
    data = people(20_000)
    release = released(UNITS.offset + UNITS.slope * data, UNITS, **choices)
    model = RidgeRegression(alpha).fit_release(release, target="x1", features=["y", "x0"])
    assert model.feature_names_ == ("y", "x0")
    assert model.n_features_in_ == 2
    gram = release.gram().matrix
    if model.debiased_:
        gram = gram - np.diag([0.0, *[release.gram().bias] * 4])
    used = [0, 4, 1]
    penalty = model.alpha_ * np.diag([0.0, 1.0, 1.0])
    theta = np.linalg.solve(gram[np.ix_(used, used)] + penalty, gram[used, 2])
    if (alpha, choices) == ("auto", SUM):  # an average over penalties, of the same part of the matrix
        part = gram[np.ix_([*used, 2], [*used, 2])]
        theta = np.append(0.0, averaged_ridge(part, 2, float(release.noise_variance[0]), safe_alpha=1.0)[0].weights)
    slope = UNITS.slope
    np.testing.assert_allclose(model.coef_, theta[1:] * slope[1] / slope[[3, 0]], rtol=1e-9)
    assert model.inference().feature_names == ("y", "x0")
    assert model.predict(pandas.DataFrame({"y": [1.0], "x0": [2.0]})) == pytest.approx(
        model.intercept_ + model.coef_ @ [1.0, 2.0]
    )
    rows = UNITS.offset + UNITS.slope * data
    assert 1 <= model.approximation_factor(rows[:, [3, 0]], rows[:, 1]) < 1.5


def test_all_features_in_their_order_change_nothing():
    release = released(people(20_000), **SUM)
    whole = RidgeRegression().fit_release(release, "y")
    chosen = RidgeRegression().fit_release(release, "y", features=["x0", "x1", "x2"])
    assert chosen.selected_ is release
    np.testing.assert_array_equal(whole.coef_, chosen.coef_)


def test_products_of_a_closed_sketch_have_features_too():
    task, sealed = (
        design(ReleaseSpec.of(UNIT, 20_000, 3.0, 1e-6, sharing=sharing, simulation_seed=0, **COUNT))
        for sharing in ("additive", "shamir")
    )
    opened = release_of_law(task, people(20_000), np.random.default_rng(0))
    integers = np.column_stack([np.rint(opened.ones / task.sketch.scale), opened.sums]).astype(object)
    closed = GramRelease(sealed, np.asarray(integers.T @ integers, dtype=np.int64))
    model = RidgeRegression().fit_release(closed, "y", features=["x2"])
    np.testing.assert_allclose(model.coef_, RidgeRegression().fit_release(opened, "y", features=["x2"]).coef_)
    with rejects("release", expected="an opened release"):
        model.summary()


@pytest.mark.parametrize("features", [["y"], ["z"], [], ["x0", "x0"], "x0"])
def test_features_that_cannot_be_are_refused(features):
    with rejects("features"):
        RidgeRegression().fit_release(released(people(2_000), **SUM), "y", features=features)


@pytest.mark.parametrize("order", [1, 2])
def test_moments_are_read_from_second_moments(order):
    data = UNITS.offset + UNITS.slope * people(20_000)
    truth = np.sum(data**order, axis=0)
    scores = []
    for seed in range(60):
        release = released(data, UNITS, seed=seed, **SUM)
        for place, name in enumerate(NAMES):
            found = FrequencyMoment(order).fit_release(release, name)
            scores.append((found.moment_ - truth[place]) / found.standard_error_)
            assert found.column_ == name
    assert 0.8 < np.std(scores) < 1.2  # of 240 scores; 60 independent releases leave it with probability 1e-4
    assert abs(np.mean(scores)) < 0.4


def test_third_moments_are_not_in_second_moments():
    with rejects("release"):
        FrequencyMoment(3).fit_release(released(people(2_000), **SUM), "y")


def test_a_p_value_beyond_the_digits_of_a_float_is_not_shown_as_zero():
    table = NumberTable("T", {"p": [0.0, 0.25], "p (Holm)": [1e-57, 0.5], "mean": [0.0, 1.0]}, ["a", "b"])
    assert str(table).splitlines()[2].split() == ["a", "<", "1e-16", "<", "1e-16", "0"]
    assert "<td>&lt; 1e-16</td>" in table.to_html()
    assert table.to_dict()["a"]["p"] == 0.0
