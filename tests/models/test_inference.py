"""Intervals of regression coefficients: their coverage, what they depend on, and where they are infinite.

Coverage is tested in reduced size; `python -m bench coverage` has a thousand simulations of more releases.
"""

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats

from bench.secure_sketching import coverage
from bench.secure_sketching.coverage import Setting, release_of_law
from dpmpc import RidgeRegression
from dpmpc.data import Schema
from dpmpc.models.common import inference
from dpmpc.models.common.linear_algebra import exact_gram, ridge_cost
from dpmpc.models.papers.baselines.linear import optimal_ridge
from dpmpc.models.regression import ridge_regression as penalty
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.release import GramRelease, Release
from support.rejections import rejects

SIMULATIONS = 300
# Of 300 exact 95 % intervals fewer than 267 cover with probability 1e-5, more than 297 with probability 3e-5.
LEAST, MOST = 267, 297


def task_of(clients, names, *, epsilon=1.0, seed=0, **choices):
    return design(ReleaseSpec.of(Schema.unit(names), clients, epsilon, 1e-6, simulation_seed=seed, **choices))


def people(clients, features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, features))
    y = 0.1 + X @ np.linspace(0.3, -0.2, features) + rng.uniform(-0.2, 0.2, clients)
    return np.column_stack([X, y])


def names_of(features):
    return [*(f"x{feature}" for feature in range(features)), "y"]


def released(data, seed=0, **choices):
    task = task_of(len(data), names_of(data.shape[1] - 1), seed=seed, **choices)
    return release_of_law(task, data, np.random.default_rng(seed))


def covers(intervals, truth):
    return (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])


@pytest.mark.statistical
@pytest.mark.parametrize(
    "setting",
    [
        Setting("sum, correlated and clipped", 5_000, 3, "sum", common=0.4, radius=1.15),
        Setting("sum, sampling dominates", 2_000, 3, "sum", epsilon=200.0),
        Setting("countsketch, few rows", 5_000, 2, "countsketch", epsilon=8.0, rows=16, radius=1.15, uneven=True),
        Setting("osnap", 8_000, 3, "osnap", epsilon=8.0, rows=60, sparsity=4, radius=1.15),
    ],
    ids=lambda setting: setting.name,
)
def test_coverage_is_nominal(setting, monkeypatch):
    """Each coefficient's count stays within bounds that an exact interval leaves with probability 4e-5."""
    monkeypatch.setattr(coverage, "_REFERENCE", 1 << 20)
    measured = coverage.measure(setting, SIMULATIONS)
    assert measured["finite"] > 0.95
    for share in (measured["coverage_intercept"], *measured["coverage"]):
        assert LEAST <= round(share * SIMULATIONS) <= MOST


@pytest.mark.statistical
def test_coverage_with_the_noise_of_every_client():
    """False-alarm rate as above; the noise is drawn by 1,500 clients."""
    measured = coverage.measure(Setting("real", 1_500, 2, "sum", epsilon=2.0, real=True), SIMULATIONS)
    for share in (measured["coverage_intercept"], *measured["coverage"]):
        assert LEAST <= round(share * SIMULATIONS) <= MOST


@pytest.mark.statistical
@pytest.mark.parametrize("choices", [{"sketch": "sum"}, {"sketch": "countsketch", "rows": 50, "radius": 1.0}])
def test_intervals_for_the_sample_cover_the_fit_of_the_same_people(choices):
    """The people stay the same; sketch and noise are drawn again. False-alarm rate as above."""
    rows = people(4_000)
    best = optimal_ridge(rows[:, :-1], rows[:, -1], 0.0)
    if "radius" in choices:
        rows *= choices["radius"] / np.linalg.norm(rows, axis=1).max()  # nobody is clipped
        best = optimal_ridge(rows[:, :-1], rows[:, -1], 0.0)
    counts = np.zeros(3)
    for seed in range(SIMULATIONS):
        fitted = RidgeRegression().fit_release(released(rows, seed=seed, epsilon=15.0, **choices))
        counts += covers(fitted.inference(target="sample").confidence_intervals, best.weights)
    assert LEAST <= counts.min() <= counts.max() <= MOST


def test_without_noise_worth_mentioning_standard_errors_are_those_of_least_squares():
    rows = people(5_000)
    found = RidgeRegression().fit_release(released(rows, epsilon=5_000.0, sketch="sum")).inference()
    gram = exact_gram(rows)[:4, :4]
    best = optimal_ridge(rows[:, :-1], rows[:, -1], 0.0)
    residual = ridge_cost(best, rows[:, :-1], rows[:, -1], 0.0) / (len(rows) - 4)
    expected = np.sqrt(residual * np.diag(np.linalg.inv(gram)))
    assert found.standard_errors == pytest.approx(expected[1:], rel=0.01)
    assert found.intercept_standard_error == pytest.approx(expected[0], rel=0.01)
    assert found.coef == pytest.approx(best.weights, abs=expected[1])
    ends = found.coef[:, None] + 1.959964 * found.standard_errors[:, None] * [-1, 1]
    assert found.confidence_intervals == pytest.approx(ends)


def test_the_interval_is_a_function_of_the_release_alone(tmp_path):
    release = released(people(20_000), sketch="countsketch", rows=40, epsilon=8.0)
    release.save(tmp_path / "release.dpmpc")
    loaded = Release.load(tmp_path / "release.dpmpc")
    first, again = (RidgeRegression().fit_release(one).inference() for one in (release, loaded))
    assert first.informative
    for field in dataclasses.fields(first):
        assert np.array_equal(getattr(first, field.name), getattr(again, field.name))
    other = RidgeRegression(7.0, debias="never").fit_release(loaded).inference()
    assert np.array_equal(first.confidence_intervals, other.confidence_intervals)


def test_any_column_can_be_the_target():
    release = released(people(50_000), sketch="sum")
    fitted = RidgeRegression(0.0).fit_release(release, target="x1")
    found = fitted.inference()
    assert found.feature_names == ("x0", "x2", "y")
    assert found.coef == pytest.approx(fitted.coef_)
    assert found.intercept == pytest.approx(fitted.intercept_)


def test_intervals_come_in_the_columns_units():
    rows = people(20_000)
    plain = RidgeRegression().fit_release(released(rows, sketch="sum")).inference()
    public = Schema.from_dict(
        {
            "outside": "clip",
            "columns": [
                {"name": name, "lower": lower, "upper": upper}
                for name, lower, upper in (("x0", 0, 10), ("x1", -1, 1), ("x2", 100, 104), ("y", -3, 7))
            ],
        }
    )
    task = design(ReleaseSpec.of(public, len(rows), 1.0, 1e-6, sketch="sum", simulation_seed=0))
    scaled = release_of_law(task, public.denormalise(rows), np.random.default_rng(0))
    found = RidgeRegression().fit_release(scaled).inference()
    factor = np.array([1.0, 5.0, 2.5])
    assert found.coef == pytest.approx(plain.coef * factor, rel=1e-3)
    assert found.standard_errors == pytest.approx(plain.standard_errors * factor, rel=1e-3)
    assert found.intercept == pytest.approx(2 + 5 * plain.intercept - found.coef @ [5, 0, 102], rel=1e-3)
    # Far from the middle of the bounds the intercept is an extrapolation of the slope of x2.
    assert found.intercept_standard_error == pytest.approx(102 * found.standard_errors[2], rel=0.05)


@pytest.mark.parametrize(
    ("data", "choices"),
    [
        (people(200), {"sketch": "sum"}),
        (people(3_000), {"sketch": "countsketch", "rows": 50}),
        (np.repeat(people(20_000, features=1), [2, 1], axis=1), {"sketch": "sum"}),
    ],
    ids=["few clients summed", "few clients sketched", "the same column twice"],
)
def test_where_the_noise_is_too_strong_intervals_are_infinite(data, choices):
    found = RidgeRegression().fit_release(released(data, **choices)).inference()
    assert not found.informative
    assert np.isnan(found.coef).all()
    assert np.isinf(found.standard_errors).all()
    assert (found.confidence_intervals == [-math.inf, math.inf]).all()
    assert (found.intercept_confidence_interval == [-math.inf, math.inf]).all()


def test_it_prints_as_a_table():
    found = RidgeRegression().fit_release(released(people(20_000), sketch="sum")).inference()
    heading, *rows = str(found).splitlines()
    assert heading.split() == ["estimate", "std.", "error", "95%", "from", "to"]
    assert [row.split()[0] for row in rows] == [*found.feature_names, "intercept"]
    first = [float(number) for number in rows[0].split()[1:]]
    assert first == pytest.approx([found.coef[0], found.standard_errors[0], *found.confidence_intervals[0]], rel=1e-4)


def test_without_intercept_nothing_is_uncertain_about_it():
    found = RidgeRegression(fit_intercept=False).fit_release(released(people(20_000), sketch="sum")).inference()
    assert (found.intercept, found.intercept_standard_error) == (0, 0)
    assert (found.standard_errors > 0).all()


def test_what_an_interval_covers_makes_it_longer():
    fitted = RidgeRegression().fit_release(released(people(20_000), sketch="sum", epsilon=4.0))
    sample = fitted.inference(target="sample").standard_errors
    population = fitted.inference().standard_errors
    anything = fitted.inference(errors="any").standard_errors
    assert (sample < population).all()
    assert (population < anything).all()
    narrow, wide = (np.ptp(fitted.inference(level).confidence_intervals, axis=1) for level in (0.5, 0.99))
    assert wide / narrow == pytest.approx(np.full(3, 2.575829 / 0.674490))


def test_few_rows_have_few_degrees_of_freedom():
    release = released(people(20_000), sketch="countsketch", rows=20, epsilon=8.0)
    assert RidgeRegression().fit_release(release).inference().degrees == 16
    assert RidgeRegression(fit_intercept=False).fit_release(release).inference().degrees == 17


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"level": 0.0}, "level"),
        ({"level": 1.0}, "level"),
        ({"level": float("nan")}, "level"),
        ({"target": "people"}, "target"),
        ({"errors": "none"}, "errors"),
    ],
)
def test_bad_arguments(arguments, argument):
    fitted = RidgeRegression().fit_release(released(people(2_000), sketch="sum"))
    with rejects(argument):
        fitted.inference(**arguments)


def test_the_estimated_risk_of_rows_leaves_one_out():
    release = released(people(20_000), sketch="countsketch", rows=30, epsilon=8.0)
    gram, alpha, expected = release.gram(), 50.0, 0.0
    rows = np.column_stack([release.ones, release.sketch])
    for row, variance in zip(rows, release.noise_variance, strict=True):
        rest = gram.matrix - np.outer(row, row)
        weights = np.linalg.solve(rest[:4, :4] + np.diag([0, alpha, alpha, alpha]), rest[:4, 4])
        expected += (row[4] - row[:4] @ weights) ** 2 - variance * (1 + weights[1:] @ weights[1:])
    assert penalty._risk(release, gram, 3, alpha, True) == pytest.approx(expected)


@pytest.mark.statistical
def test_a_chosen_penalty_helps_where_the_noise_is_felt():
    """Risk of 30 releases, in pairs: on average below that of alpha = 1 by more than 2 standard errors."""
    gains = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (2_000, 10))
        y = X @ rng.uniform(-1, 1, 10) + 0.5 * rng.standard_normal(2_000)
        y /= np.abs(y).max()
        release = released(np.column_stack([X, y]), seed=seed, sketch="sum")
        fixed, chosen = (RidgeRegression(alpha).fit_release(release).model_ for alpha in (1.0, "auto"))
        gains.append(ridge_cost(fixed, X, y, 0.0) - ridge_cost(chosen, X, y, 0.0))
    assert np.mean(gains) > 2 * np.std(gains) / math.sqrt(len(gains))


@pytest.mark.parametrize("choices", [{"sketch": "sum"}, {"sketch": "countsketch", "rows": 40, "epsilon": 8.0}])
def test_a_chosen_penalty_comes_from_the_release(choices):
    rows = people(20_000)
    release = released(rows, **choices)
    first, again = (RidgeRegression("auto").fit_release(release) for _ in range(2))
    assert first.alpha_ == again.alpha_ >= 0
    assert first.approximation_factor(rows[:, :-1], rows[:, -1]) < 0.5 * first.trivial_factor(rows[:, :-1], rows[:, -1])
    plain = RidgeRegression("auto", fit_intercept=False).fit_release(release)
    assert plain.intercept_ == 0


def test_a_penalty_is_a_number_or_auto():
    for alpha in ("least", -1.0, float("inf"), True, 1j):
        with rejects("alpha", expected="a finite number >= 0 or 'auto'"):
            RidgeRegression(alpha).fit_release(released(people(2_000), sketch="sum"))


def test_a_closed_sketch_has_neither_intervals_nor_a_chosen_penalty():
    task = design(
        ReleaseSpec.of(
            Schema.unit(["a", "b", "y"]),
            600,
            1.0,
            1e-6,
            sketch="countsketch",
            rows=12,
            sharing="shamir",
            simulation_seed=1,
        )
    )
    closed = GramRelease(task, np.diag([600, *[1 << 40] * 3]))
    with rejects("release", given="products of a closed sketch"):
        RidgeRegression().fit_release(closed).inference()
    with rejects("release", given="products of a closed sketch"):
        RidgeRegression("auto").fit_release(closed)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 50, 301])
def test_tails_of_chi_squared_are_those_of_scipy(degrees):
    statistics = [1e-9, 0.3, 1.0, degrees, 3.0 * degrees, 700.0]
    found = [inference.chi2_tail(statistic, degrees) for statistic in statistics]
    np.testing.assert_allclose(found, scipy.stats.chi2.sf(statistics, degrees), rtol=1e-11)
    assert inference.chi2_tail(0.0, degrees) == 1
    assert inference.chi2_tail(math.inf, degrees) == 0
    assert math.isnan(inference.chi2_tail(math.nan, degrees))


@pytest.mark.parametrize("degrees", [3.0, 41.5, math.inf])
def test_quantiles_and_tails_are_those_of_scipy(degrees):
    law = scipy.stats.norm() if math.isinf(degrees) else scipy.stats.t(degrees)
    for probability in (1e-6, 0.025, 0.5, 0.9, 0.975, 1 - 1e-9):
        assert inference.t_quantile(probability, degrees) == pytest.approx(law.ppf(probability), rel=1e-12, abs=1e-15)
    statistics = np.array([[0.0, 1.96], [-3.0, 8.0]])
    np.testing.assert_allclose(inference.t_tail(statistics, degrees), law.sf(statistics), rtol=1e-12)


def test_normal_quantiles_are_infinite_at_the_ends():
    """(1 + level) / 2 is 1 for a level that is the last double below 1."""
    assert [inference.normal_quantile(probability) for probability in (0.0, 1.0)] == [-math.inf, math.inf]
    assert inference.t_quantile((1 + math.nextafter(1, 0)) / 2, math.inf) == math.inf
