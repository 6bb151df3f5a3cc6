"""Models of tables with categories, missing values and weights; read from a release whose count of rows is noisy.

Statistical tests have fixed seeds. Over `RUNS` releases a z score, mean error over claimed standard error, is above 4.4
with probability 1e-5, and a share of covered intervals is beyond the binomial bounds given with probability 1e-6.
"""

import math
import statistics

import numpy as np
import pytest
import scipy.stats

from bench.secure_sketching.coverage import release_of_law
from dpmpc import FrequencyMoment, LogisticRegression, LowRankApproximation, RidgeRegression
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.codebook import Weight
from dpmpc.data.data_checks import require_column
from dpmpc.data.variables import Variable
from dpmpc.models.common.release_parts import with_variables
from dpmpc.models.common.releases import Releases
from dpmpc.models.tables.coded_rows import predict_coded
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from support.rejections import rejects

RUNS = 300
CLIENTS = 4000
VARIABLES = (Variable("age", 20, 60), Variable("ward", values=("A", "B", "C")), Variable("cost", 0, 100))


def data(rng, *, weight=False):
    """Return coded rows: cost = 20 + age / 2 + 10 [ward B] + noise; a tenth of the rows weighs nothing."""
    age, ward = rng.uniform(20, 60, CLIENTS), rng.integers(0, 3, CLIENTS)
    cost = 20 + age / 2 + 10 * (ward == 1) + rng.uniform(-20, 20, CLIENTS)
    counts = rng.uniform(0, 4, CLIENTS) if weight else np.ones(CLIENTS)
    rows = np.column_stack([age, ward == 1, ward == 2, cost, counts * (rng.random(CLIENTS) > 0.1)])
    rows[rows[:, -1] == 0, :4] = [40, 0, 0, 50]
    return rows


def public(*, weight=False):
    return Schema.of_codebook(
        Codebook(VARIABLES, weight=Weight("w", 4)) if weight else Codebook(VARIABLES, incomplete="zeros")
    )


def task(schema, epsilon=1.0):
    return design(ReleaseSpec.of(schema, CLIENTS, epsilon, 1e-6, simulation_seed=0))


@pytest.mark.statistical
def test_the_claimed_errors_are_those_of_the_noise():
    """Same rows, fresh noise: the estimates spread as `of="sample"` says about what the rows themselves give."""
    rows = data(np.random.default_rng(0))
    here = task(public())
    kept = rows[rows[:, -1] == 1]
    truth = {
        "total": len(kept),
        "mean": kept[:, 0].mean(),
        "deviation": kept[:, 0].std(),
        "correlation": np.corrcoef(kept[:, 0], kept[:, 3])[0, 1],
        "coefficient": np.linalg.lstsq(np.column_stack([np.ones(len(kept)), kept[:, :3]]), kept[:, 3])[0][1],
        "sum": kept[:, 0].sum(),
        "squares": np.sum(kept[:, 0] ** 2),
    }
    rng, scores = np.random.default_rng(1), {name: [] for name in truth}
    for _ in range(RUNS):
        release = release_of_law(here, rows, rng)
        told = release.describe(of="sample")
        found = RidgeRegression().fit_release(release, "cost").inference(target="sample")
        moments = [FrequencyMoment(order).fit_release(release, "age") for order in (1, 2)]
        estimates = {
            "total": (release.total, math.sqrt(release.total_variance)),
            "mean": (told.means[0], told.mean_errors[0]),
            "deviation": (told.deviations[0], told.deviation_errors[0]),
            "correlation": (told.correlations[0, 3], told.correlation_errors[0, 3]),
            "coefficient": (found.coef[0], found.standard_errors[0]),
            "sum": (moments[0].moment_, moments[0].standard_error_),
            "squares": (moments[1].moment_, moments[1].standard_error_),
        }
        for name, (estimate, error) in estimates.items():
            scores[name].append((estimate - truth[name]) / error)
    low, high = scipy.stats.chi2.ppf([1e-6, 1 - 1e-6], RUNS) / RUNS
    for name, found in scores.items():
        assert low * 0.97 < statistics.fmean(score**2 for score in found) < high * 1.03, name


@pytest.mark.statistical
@pytest.mark.parametrize("weight", [False, True])
def test_intervals_cover_the_population(weight):
    """With weights errors are upper bounds."""
    rng, here, covered = np.random.default_rng(2), task(public(weight=weight)), []
    for _ in range(RUNS):
        release = release_of_law(here, data(rng, weight=weight), rng)
        found = RidgeRegression().fit_release(release, "cost").inference()
        low, high = found.confidence_intervals.T
        covered.append((low <= [0.5, 10, 0]) & (high >= [0.5, 10, 0]))
    least, most = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], RUNS, 0.95) / RUNS
    for share in np.mean(covered, axis=0):
        assert least <= share <= (1.0 if weight else most)


def test_weights_give_the_weighted_regression():
    rows = data(np.random.default_rng(0), weight=True)
    release = release_of_law(task(public(weight=True), epsilon=1e4), rows, np.random.default_rng(1))
    assert release.columns == ("age", "ward=B", "ward=C", "cost")
    assert release.total == pytest.approx(rows[:, -1].sum() / 4, rel=1e-3)
    root = np.sqrt(rows[:, -1:])
    exact = np.linalg.lstsq(root * np.column_stack([np.ones(CLIENTS), rows[:, :3]]), root[:, 0] * rows[:, 3])[0]
    model = RidgeRegression(alpha=0).fit_release(release, "cost")
    assert [model.intercept_, *model.coef_] == pytest.approx(exact, rel=1e-2, abs=0.05)
    assert model.compare(rows[:, :-1], weights=rows[:, -1] / 4).approximation_factor == pytest.approx(1, abs=1e-4)
    chosen = RidgeRegression(alpha="auto").fit_release(release, "cost", features=["age"])
    assert chosen.coef_[0] == pytest.approx(0.5, abs=0.05)
    assert "Rows that count: " in str(chosen.summary())
    assert "Rows that count: " in str(release.describe())


def test_nothing_released_tells_how_many_rows_are_complete():
    """Two tables that differ in one missing cell: the same task, the same public count, sums that noise covers."""
    rows = data(np.random.default_rng(0))
    other = rows.copy()
    other[7] = [40, 0, 0, 50, 0]
    here = task(public())
    sums = [here.statistic.encode(here.schema.normalise(each), here.encoding).sum(axis=0) for each in (rows, other)]
    assert sums[0][0] - sums[1][0] == 2**here.encoding.fractional_bits  # one row, before the noise
    assert np.linalg.norm(sums[0] - sums[1]) <= here.sensitivity.l2
    assert here.noise.variance * CLIENTS > (3 * 2**here.encoding.fractional_bits) ** 2
    releases = [release_of_law(here, each, np.random.default_rng(3)) for each in (rows, other)]
    assert {release.clients for release in releases} == {CLIENTS}


def test_a_release_keeps_its_codebook(tmp_path):
    release = release_of_law(task(public()), data(np.random.default_rng(0)), np.random.default_rng(1))
    release.save(tmp_path / "release")
    again = Release.load(tmp_path / "release")
    assert again.task.schema == public()
    model = RidgeRegression(alpha=0).fit_release(again, "cost")
    rows = model_rows = {"ward": ["B", "A", "", "A"], "age": ["30", "30", "30", "500"]}
    predicted = predict_coded(
        again.task.schema, dict(zip(model.feature_names_, model.coef_, strict=True)), model.intercept_, frame(rows)
    )
    assert predicted[0] - predicted[1] == pytest.approx(model.coef_[1])
    assert np.isnan(predicted[2])
    assert predicted[3] == pytest.approx(model.intercept_ + 60 * model.coef_[0])
    with rejects("coefficients"):
        predict_coded(again.task.schema, {"x": 1.0}, 0.0, frame(model_rows))


def frame(columns):
    """Return what the package takes for a data frame."""
    kind = type("Frame", (dict,), {"columns": property(list), "to_numpy": None})
    return kind(columns)


def test_models_in_rounds_take_categories_but_no_weights():
    rows = data(np.random.default_rng(0))[:, :-1]
    plain = Schema.of_codebook(Codebook((*VARIABLES[:2], Variable("ill", yes=("1",), no=("0",)))))
    table = Table(plain.names, np.column_stack([rows[:, :3], rows[:, 3] > 50]))
    model = LogisticRegression(epsilon=5.0, bounds=plain, simulation_seed=0)
    model.fit(table.select(plain.names[:-1]), table.column("ill"))
    assert model.coef_[0] > 0
    weighted = LogisticRegression(bounds=Schema.of_codebook(Codebook(VARIABLES, weight=Weight("y", 1))))
    with rejects("bounds", given="with weights or rows of zeros"):
        weighted.fit(Table(("age", "ward=B", "ward=C", "cost"), rows), np.arange(CLIENTS) % 2)
    with rejects("bounds", given="with weights or rows of zeros"):
        Releases(ReleaseSpec.of(public(), CLIENTS, 1.0, 1e-6), lambda _: pytest.fail("nothing is released"))


def test_low_rank_reads_weighted_moments():
    release = release_of_law(task(public(), 10.0), data(np.random.default_rng(0)), np.random.default_rng(1))
    fitted = LowRankApproximation(n_components=2).fit_release(release)
    assert fitted.normalised([[30, 0, 1, 50]]).tolist() == [[-0.5, 0, 1, 0]]
    assert fitted.components_.shape == (2, 4)


def test_the_name_of_a_variable_stands_for_its_columns_and_a_coded_target_is_named():
    book = Codebook((Variable("ward", values=("a", "b", "c")), Variable("crp", 0.1, 500, transform="log")))
    public = Schema.of_codebook(book)
    assert with_variables(public, ["ward", "log(crp)"]) == ["ward=b", "ward=c", "log(crp)"]
    assert with_variables(public, ["unknown"]) == ["unknown"]
    with rejects("target"):
        require_column(public, "crp")
