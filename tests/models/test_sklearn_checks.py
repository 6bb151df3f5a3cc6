"""scikit-learn's own checks of estimators, and what users of its pipelines, searches and data frames meet.

Budgets are huge and noise is seeded, so that what is checked are the habits of the estimators and not their accuracy.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from dpmpc import (
    FrequencyMoment,
    GroupComparison,
    KaplanMeier,
    LogisticRegression,
    LowRankApproximation,
    PoissonRegression,
    RidgeRegression,
    TableOne,
)
from dpmpc.base.errors import PrivacyWarning
from dpmpc.models.papers.baselines import SSP, AdaSSP, AnalyzeGauss, LocalGaussian, ModSulq, linear, local, low_rank
from dpmpc.models.papers.baselines.common import normalised_rows
from dpmpc.models.papers.coinpress import CoinPressRegression, PrivateCovariance, PrivateMean
from dpmpc.models.papers.mutual_information import AdditiveNoise, RandomProjection
from support.rejections import rejects

NO_NOISE = {"epsilon": 1e5, "delta": 1e-3, "servers": 2, "simulation_seed": 0}
OPTIONS = {**NO_NOISE, "bounds": (-10, 10)}  # what lies outside is clipped: bounds are never read off the data
CURATOR = {"epsilon": 1e5, "delta": 1e-3, "simulation_seed": 0}
ROUNDS = {"rho": 1e4, "delta": 1e-3, "simulation_seed": 0}
EXPECTED = {
    "check_dtype_object": "a cell that is not a number is refused by InputError, which names its column and row and is "
    "a ValueError; scikit-learn expects the TypeError of float()"
}


@parametrize_with_checks(
    [
        RidgeRegression(1e-6, **OPTIONS),
        LowRankApproximation(1, **OPTIONS),
        LogisticRegression(**OPTIONS),
        PoissonRegression(**OPTIONS),
        PrivateMean(center=0.0, radius=100.0, **ROUNDS),
        PrivateCovariance(**ROUNDS),
        CoinPressRegression(**ROUNDS),
        AdditiveNoise(10, bounds=(-10, 10), simulation_seed=0),
        RandomProjection(10, rows=50, bounds=(-10, 10), simulation_seed=0),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
@pytest.mark.filterwarnings("ignore:no coefficients can be trusted from")  # twenty rows; features that decide
def test_scikit_learn_checks(estimator, check):
    check(estimator)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", SkipTestWarning)  # most checks hand in many columns: skipped by the tag
    MOMENT_CHECKS = list(estimator_checks_generator(FrequencyMoment(**OPTIONS)))


@pytest.mark.parametrize(("estimator", "check"), MOMENT_CHECKS)
def test_scikit_learn_checks_of_one_column(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def population():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    return X, X @ [0.4, -0.2, 0.1]


# The checks' data lie outside [-1, 1], where the baselines refuse to guess bounds. So the checks hand them a tenth of
# the data, clipped, and nothing else is changed; that they refuse the rest is checked by itself.

BASELINES = [
    SSP(1e-6, **CURATOR),
    AdaSSP(1e-6, **CURATOR),
    LocalGaussian(1e-6, **CURATOR),
    AnalyzeGauss(1, **CURATOR),
    ModSulq(1, **CURATOR),
]
EXPECTED_OF_LOCAL_GAUSSIAN = EXPECTED | {
    "check_requires_y_none": "without a target it finds components: y=None is no error, though it is a regressor"
}


def expected_of_baseline(estimator):
    return EXPECTED_OF_LOCAL_GAUSSIAN if isinstance(estimator, LocalGaussian) else EXPECTED


@parametrize_with_checks(BASELINES, expected_failed_checks=expected_of_baseline)
def test_scikit_learn_checks_of_baselines(monkeypatch, estimator, check):
    def clipped(X, y=None, *, radius=None):
        return normalised_rows(tenth(X), None if y is None else tenth(y), radius=radius)

    def tenth(values):
        return np.clip(np.asarray(values) / 10, -1, 1)

    for module in (linear, local, low_rank):
        monkeypatch.setattr(module, "normalised_rows", clipped)
    check(estimator)


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda one: type(one).__name__)
def test_baselines_guess_no_bounds(population, baseline):
    X, y = population
    with rejects("X, y", given="largest magnitude 1.5"):
        clone(baseline).fit(np.where(X.max() == X, 1.5, X), y)


@pytest.mark.parametrize("baseline", [SSP, AdaSSP, LocalGaussian, AnalyzeGauss, ModSulq])
def test_baselines_have_the_habits_of_estimators(population, baseline):
    X, y = population
    estimator = baseline(epsilon=10.0, simulation_seed=1)
    before = estimator.get_params()
    assert estimator.fit(pd.DataFrame(X, columns=["a", "b", "c"]), y) is estimator
    assert estimator.get_params() == before == clone(estimator).get_params()
    assert estimator.n_features_in_ == 3
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]
    again = clone(estimator).fit(X, y)
    assert not hasattr(again, "feature_names_in_")
    if not hasattr(estimator, "predict"):
        assert (again.components_ == estimator.components_).all()
        return
    assert (again.coef_ == estimator.coef_).all()
    with pytest.raises(NotFittedError):
        clone(estimator).predict(X)
    with rejects("X"):
        again.predict(X[:, :2])
    if baseline is not LocalGaussian:  # without a target it finds components
        with rejects("y"):
            clone(estimator).fit(X, None)


# Pipelines and searches


def test_a_pipeline_fits_and_predicts(population):
    X, y = population
    fitted = make_pipeline(PolynomialFeatures(2, include_bias=False), RidgeRegression(1e-6, **NO_NOISE)).fit(X, y)
    assert fitted.score(X, y) > 0.99
    assert clone(fitted).fit(X, y)[-1].coef_ == pytest.approx(fitted[-1].coef_)


def test_a_private_transformer_feeds_a_private_regression(population):
    X, y = population
    steps = LowRankApproximation(3, **NO_NOISE), RidgeRegression(1e-6, bounds=(-2, 2), **NO_NOISE)
    fitted = make_pipeline(*steps).fit(X, y)
    assert fitted.score(X, y) > 0.99
    assert fitted[0].release_.guarantee.epsilon == fitted[1].release_.guarantee.epsilon == NO_NOISE["epsilon"]


def test_transformed_columns_have_names(population):
    X, _ = population
    transformer = LowRankApproximation(2, **NO_NOISE).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    names = ["lowrankapproximation0", "lowrankapproximation1"]
    assert transformer.get_feature_names_out().tolist() == names
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(len(X)) + 7)
    plain = transformer.transform(frame)
    out = transformer.set_output(transform="pandas").transform(frame)
    assert (out.columns.tolist(), out.index[0]) == (names, 7)
    assert (out.to_numpy() == plain).all()
    assert transformer.set_output(transform="polars").transform(frame).columns == names


def warned(start):
    """Privacy warnings that the default filter shows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        result = start()
    return result, [warning for warning in caught if warning.category is PrivacyWarning]


def test_a_search_finds_its_best_and_warns_once(population):
    X, y = population
    search = GridSearchCV(RidgeRegression(**NO_NOISE), {"alpha": [1e-3, 1e3]}, cv=3)
    _, found = warned(lambda: search.fit(X, y))
    assert search.best_params_ == {"alpha": 1e-3}
    assert search.best_score_ > 0.99
    assert len(found) == 1
    assert "spends its own budget" in str(found[0].message)
    assert "not private" in str(found[0].message)


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(PolynomialFeatures(2, include_bias=False), RidgeRegression(simulation_seed=1, delta=1e-3)),
        SSP(simulation_seed=1),
        LocalGaussian(simulation_seed=1),
        CoinPressRegression(**ROUNDS),
        AdditiveNoise(simulation_seed=1),
    ],
)
def test_every_cross_validation_warns_whatever_scores(population, estimator):
    X, y = population
    for scoring in ("r2", "neg_mean_squared_error"):
        original = type(estimator)(**estimator.get_params(deep=False))
        scores, found = warned(lambda scoring=scoring, one=original: cross_val_score(one, X, y, cv=2, scoring=scoring))
        assert np.isfinite(scores).all()
        assert len(found) == (scoring == "r2" or not isinstance(estimator, Pipeline))  # its steps stay the same


def test_a_transformer_in_a_search_warns(population):
    X, y = population
    pipeline = make_pipeline(LowRankApproximation(2, **NO_NOISE), RidgeRegression(bounds=(-2, 2), **NO_NOISE))
    search = GridSearchCV(pipeline, {"lowrankapproximation__n_components": [1, 3]}, cv=2)
    _, found = warned(lambda: search.fit(X, y))
    assert search.best_params_ == {"lowrankapproximation__n_components": 3}
    assert len(found) == 2  # of two private steps


def test_an_estimator_that_is_no_copy_does_not_warn(population):
    _, found = warned(lambda: RidgeRegression(**NO_NOISE).fit(*population))
    assert found == []


def test_one_release_can_be_fitted_in_many_ways_without_a_warning(population):
    X, y = population
    first = RidgeRegression(sketch="sum", **NO_NOISE).fit(X, y)
    scores = [RidgeRegression(alpha).fit_release(first.release_).score(X, y) for alpha in (1e-3, 1e3)]
    assert scores[0] > scores[1]


# Data frames

COLUMNS = ["age", "height", "weight"]
FRAMES = {
    "pandas": lambda X, names: pd.DataFrame(X, columns=names),
    "polars": lambda X, names: pl.DataFrame(X, schema=names),
    "pyarrow": lambda X, names: pa.table({name: X[:, j] for j, name in enumerate(names)}),
}
VECTORS = {"pandas": pd.Series, "polars": pl.Series, "pyarrow": pa.array}


@pytest.mark.parametrize("library", FRAMES)
def test_frames_are_read_like_arrays_and_keep_their_names(population, library):
    X, y = population
    frame, vector = FRAMES[library], VECTORS[library]
    bounds = {**dict.fromkeys(COLUMNS, (-1, 1)), "y": (-1, 1)}
    fitted = RidgeRegression(bounds=bounds, **NO_NOISE).fit(frame(X, COLUMNS), vector(y))
    plain = RidgeRegression(**NO_NOISE).fit(X, y)
    assert (fitted.coef_ == plain.coef_).all()
    assert fitted.feature_names_ == fitted.releases_[0].columns[:-1] == tuple(COLUMNS)
    assert fitted.feature_names_in_.tolist() == COLUMNS
    assert not hasattr(plain, "feature_names_in_")
    assert (fitted.predict(frame(X, COLUMNS)) == plain.predict(X)).all()
    with rejects("X"):
        fitted.predict(frame(X, COLUMNS[::-1]))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        fitted.predict(X)
    assert fitted.approximation_factor(frame(X, COLUMNS), vector(y)) == plain.approximation_factor(X, y)

    components = LowRankApproximation(2, **NO_NOISE).fit(frame(X, COLUMNS))
    assert components.feature_names_in_.tolist() == COLUMNS
    assert (components.transform(frame(X, COLUMNS)) == components.normalised(X) @ components.components_.T).all()


@pytest.mark.parametrize("library", FRAMES)
def test_frames_with_missing_values_or_text_are_refused_with_their_column(population, library):
    X, y = population
    holes = X.copy()
    holes[4, 1] = np.nan
    with rejects("X: column 'height', row 5"):
        RidgeRegression(**NO_NOISE).fit(FRAMES[library](holes, COLUMNS), y)
    text = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]({"age": ["young", "old"]})
    with rejects("X"):
        RidgeRegression(**NO_NOISE).fit(text, [0.1, 0.2])


@pytest.mark.parametrize("library", FRAMES)
def test_a_moment_of_a_frame_or_a_series(population, library):
    X, _ = population
    moment = FrequencyMoment(2, **NO_NOISE)
    of_frame = moment.fit(FRAMES[library](X[:, :1], ["age"]))
    assert (of_frame.column_, of_frame.moment_) == ("age", moment.fit(VECTORS[library](X[:, 0])).moment_)
    assert of_frame.exact_moment(FRAMES[library](X[:, :1], ["age"])) == moment.exact_moment(X[:, 0])


def test_names_come_from_the_release(population):
    X, y = population
    frame = pd.DataFrame(X, columns=COLUMNS)
    release = RidgeRegression(sketch="sum", **NO_NOISE).fit(frame, y).release_
    fitted = RidgeRegression().fit_release(release, target="height")
    assert fitted.feature_names_in_.tolist() == ["age", "weight", "y"]
    with rejects("X"):
        fitted.predict(frame)
    assert not hasattr(
        fitted.fit_release(RidgeRegression(sketch="sum", **NO_NOISE).fit(X, y).release_), "feature_names_in_"
    )


@pytest.mark.parametrize(
    ("y", "argument"),
    [
        (None, "y"),
        ([[1, 2]] * 300, "y"),
        ([1.0] * 299, "y"),
        ([np.inf] + [0.5] * 299, "y"),
        (["a"] * 300, "y"),
        ([1j] * 300, "y"),
    ],
)
def test_bad_targets(population, y, argument):
    with rejects(argument):
        RidgeRegression(**NO_NOISE).fit(population[0], y)


def test_the_example_of_the_documentation_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "scikit-learn.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope = {}
    exec(compile(code, "docs/scikit-learn.md", "exec"), scope)
    assert scope["model"].score(scope["X"], scope["y"]) > 0.5
    assert 0.5 < scope["ledger"].epsilon < 1
    assert "by 2 releases\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "ask",
    [
        lambda: TableOne().result(),
        lambda: TableOne().quantile("age", 0.5),
        lambda: TableOne().table_,
        lambda: TableOne().tests(),
        lambda: GroupComparison(values=("a", "b")).result(),
        lambda: GroupComparison(values=("a", "b")).differences(),
        lambda: KaplanMeier(time="months", event="died").result(),
        lambda: TableOne().numbers(),
    ],
)
def test_what_reads_a_release_says_that_it_has_read_none(ask):
    with pytest.raises(NotFittedError, match="has read no release: fit or fit_release expected before"):
        ask()


def test_what_reads_a_release_has_no_other_attributes():
    with pytest.raises(AttributeError, match="has no attribute 'wrong'") as found:
        _ = TableOne().wrong
    assert not isinstance(found.value, NotFittedError)
    assert not hasattr(TableOne(), "release_")
