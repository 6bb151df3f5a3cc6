"""Comparisons of groups: textbook tests without noise, calibrated with it, and silent where nothing is known.

Statistical tests have fixed seeds; each says how often a right program would fail it.
"""

import math
import warnings

import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone

from bench.secure_sketching.coverage import release_of_law
from dpmpc import GroupComparison, Release
from dpmpc.app.render.plots import draw
from dpmpc.base.errors import UtilityWarning
from dpmpc.data import Codebook, Schema
from dpmpc.data.codebook import Weight
from dpmpc.data.variables import Variable
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from support.rejections import rejects

ARMS = ("old", "new", "none")
EFFECTS = np.array([0.0, 2.0, -3.0])
VARIABLES = (
    Variable("last", 0, 100),
    Variable("arm", values=ARMS),
    Variable("age", 18, 100),
    Variable("spend", 0, 100),
)


def people(rng, clients, shares=(0.4, 0.4, 0.2), middle=40.0):
    """Return rows (last, new, none, age, spend) and arms; nearly nobody is clipped."""
    arm = rng.choice(3, clients, p=shares)
    habit = middle + 10 * rng.standard_normal(clients)
    last, spend = habit + 4 * rng.standard_normal(clients), habit + 4 * rng.standard_normal(clients) + EFFECTS[arm]
    return np.column_stack([last, arm == 1, arm == 2, rng.uniform(18, 100, clients), spend]), arm


def task_of(clients, epsilon=1.0, variables=VARIABLES, **choices):
    public = Schema.of_codebook(Codebook(variables, **choices))
    return design(ReleaseSpec.of(public, clients, epsilon, 1e-6, by="arm", simulation_seed=0))


def fitted(release, **choices):
    return GroupComparison(**choices).fit_release(release, "spend")


@pytest.fixture(scope="module")
def clear():
    """A release with next to no noise, and the data behind it."""
    rows, arm = people(np.random.default_rng(0), 3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return release_of_law(task_of(len(rows), 1e5), rows, np.random.default_rng(1)), rows, arm


def test_without_noise_differences_are_those_of_welch(clear):
    release, rows, arm = clear
    model = fitted(release, before=["last"])
    spend = np.clip(rows[:, 4], 0, 100)
    assert (model.control_, model.before_, model.groups_) == ("old", ("last",), ARMS)
    for place, group in enumerate(ARMS):
        mean = model.means(0.9)[group]
        exact = scipy.stats.ttest_1samp(spend[arm == place], 0).confidence_interval(0.9)
        assert [mean.estimate, mean.low, mean.high] == pytest.approx([spend[arm == place].mean(), *exact], rel=2e-3)
    for place, group in enumerate(ARMS[1:], 1):
        exact = scipy.stats.ttest_ind(spend[arm == place], spend[arm == 0], equal_var=False)
        found = model.differences()[group]
        assert found.estimate / found.standard_error == pytest.approx(exact.statistic, rel=5e-3)
        assert [found.low, found.high] == pytest.approx(list(exact.confidence_interval()), abs=5e-3)
        assert math.log(found.p_value) == pytest.approx(math.log(exact.pvalue), rel=1e-2)
        degrees = model._degrees([model.arms_[group], model.arms_["old"]], np.array([0.0, 1.0]))
        assert degrees == pytest.approx(exact.df, rel=1e-2)


def test_without_noise_the_adjustment_is_the_multiple_of_least_variance(clear):
    release, rows, arm = clear
    found = fitted(release, before=["last", "age"]).adjusted()["new"]
    rows = np.clip(rows, [0, 0, 0, 18, 0], 100)
    parts = [rows[arm == place][:, [0, 3, 4]] for place in (0, 1)]
    whole = sum(np.cov(part.T) / len(part) for part in parts)
    slopes = np.linalg.solve(whole[:2, :2], whole[:2, 2])
    adjusted = [part[:, 2] - part[:, :2] @ slopes for part in parts]
    error = math.sqrt(sum(part.var(ddof=1) / len(part) for part in adjusted))
    assert found.estimate == pytest.approx(adjusted[1].mean() - adjusted[0].mean(), abs=2e-3)
    assert found.standard_error == pytest.approx(error, rel=1e-2)


def test_ratios_are_those_that_a_test_does_not_reject(clear):
    """Fieller: at both ends of the interval the control's mean times the end differs by just as much as is rejected."""
    release, _, _ = clear
    model = fitted(release, control="none")
    assert list(model.ratios()) == ["old", "new"]
    last = np.array([1.0])
    for group, found in model.ratios(0.9).items():
        over, under = model.arms_[group], model.arms_["none"]
        quantile = scipy.stats.t.ppf(0.95, model._degrees([over, under], last))
        assert found.estimate == pytest.approx(float(over.means[0] / under.means[0]), rel=1e-12)
        assert found.low < found.estimate < found.high
        for end in (found.low, found.high):
            statistic = (over.means[0] - end * under.means[0]) ** 2 / (
                over.variance(last) + end**2 * under.variance(last)
            )
            assert float(statistic) == pytest.approx(quantile**2, rel=1e-9)


def measured(runs, clients, epsilon, middle=40.0, shares=(0.5, 0.5, 0.0), before=("last",)):
    """Return how often intervals cover what they should, and how often a true zero was rejected, of releases told."""
    rng, here = np.random.default_rng(3), task_of(clients, epsilon)
    truth = {"mean": middle, "difference": 2.0, "adjusted": 2.0, "ratio": (middle + 2) / middle, "before": 0.0}
    covered, rejected, told = {name: [] for name in truth}, [], 0
    for _ in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            release = release_of_law(here, people(rng, clients, shares, middle)[0], rng)
            model = fitted(release, before=before)
        if not {"old", "new"} <= set(model.arms_):
            continue
        told += 1
        found = {"mean": model.means()["old"], "difference": model.differences()["new"]}
        found |= {"adjusted": model.adjusted()["new"], "ratio": model.ratios().get("new")}
        found["before"] = model.differences_before()["last"]["new"]
        for name, one in found.items():
            if one is not None:
                covered[name].append(one.low <= truth[name] <= one.high)
        rejected.append(found["before"].p_value < 0.05)
    return {name: np.mean(hits) for name, hits in covered.items()}, np.mean(rejected), told


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("clients", "epsilon", "middle"),
    [(200, 1.0, 40.0), (400, 1.0, 40.0), (2_000, 1.0, 40.0), (2_000, 1.0, 20.0), (2_000, 4.0, 40.0)],
)
@pytest.mark.parametrize("runs", [400, pytest.param(2_000, marks=pytest.mark.long("2,000 releases, not 400"))])
def test_intervals_cover_and_tests_have_their_size(clients, epsilon, middle, runs):
    """Given that they are told, coverage is at least .93 and size .03 to .07, fresh people and fresh noise each time.

    Bounds are widened by the binomial quantile of 1e-4, so that a program with coverage of just .93 fails one of 20
    checks in 2e-3 of the seeds. Of 200 people, groups are near 4 standard errors of their noise, and some are told.
    """
    covered, size, told = measured(runs, clients, epsilon, middle)
    least = scipy.stats.binom.ppf(1e-4, told, 0.93) / told
    assert told > runs / 20
    assert all(share >= least for share in covered.values()), covered
    assert scipy.stats.binom.ppf(1e-4, told, 0.03) / told <= size <= scipy.stats.binom.ppf(1 - 1e-4, told, 0.07) / told


@pytest.mark.statistical
def test_adjusting_never_makes_an_interval_longer_and_helps_where_there_are_many():
    rng = np.random.default_rng(4)
    for clients, gain in ((1_000, 0.0), (40_000, 0.1)):
        model = fitted(release_of_law(task_of(clients), people(rng, clients)[0], rng), before=["last", "age"])
        for group, plain in model.differences().items():
            error = model.adjusted()[group].standard_error
            assert error <= plain.standard_error * (1 + 1e-12)
            assert error <= plain.standard_error * (1 - gain)


def test_a_group_of_few_people_has_no_mean_and_says_why():
    rng = np.random.default_rng(5)
    rows, _ = people(rng, 6_000, shares=(0.5, 0.499, 0.001))
    model = fitted(release_of_law(task_of(6_000), rows, rng), before=["last"])
    assert list(model.means()) == ["old", "new"]
    assert list(model.differences()) == ["new"]
    found = model.result()
    assert found.verdict is None
    assert "Too few people in none to distinguish from none" in str(found)
    assert "mean" not in found.data["groups"]["none"]
    assert "left_out" in found.data["groups"]["none"]
    gone = fitted(release_of_law(task_of(6_000), rows, rng), control="none").result()
    assert gone.verdict.startswith(
        "No group can be compared with none: too few people in none to distinguish from none: "
    )
    assert gone.verdict.endswith("; a control of old or new would do.")
    assert gone.data["differences"] == {}
    assert not gone.plots


def test_a_mean_that_is_not_told_apart_from_zero_has_no_ratio():
    rng = np.random.default_rng(6)
    rows, _ = people(rng, 500, shares=(0.5, 0.5, 0), middle=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model = fitted(release_of_law(task_of(500), np.clip(rows, 0, 100), rng))
    assert model.ratios() == {}
    assert "No ratio of means: that of old is not distinguished from 0." in model.result().notes
    below = (*VARIABLES[:3], Variable("spend", -50, 100))
    model = fitted(release_of_law(task_of(3_000, variables=below), people(rng, 3_000)[0], rng))
    assert model.ratios() == {}
    assert model.differences()
    assert "No ratio of means: the bounds of spend begin below 0, at -50." in model.result().notes


def test_groups_that_differed_before_are_doubtful():
    rng = np.random.default_rng(7)
    rows, arm = people(rng, 20_000)
    rows[:, 0] += 5 * (arm == 1)
    with pytest.warns(UtilityWarning, match="arm = new: last differed before"):
        model = fitted(release_of_law(task_of(20_000), rows, rng), before=["last"])
    assert len(model.warnings_) == 1
    assert model.result().data["warnings"] == list(model.warnings_)


def test_weights_make_errors_no_smaller_than_those_of_weighted_means():
    """Half of the rows count a quarter; the error of a weighted mean is known, and the one that is told is above it."""
    rng = np.random.default_rng(8)
    rows, arm = people(rng, 5_000)
    weights = np.where(rng.random(5_000) < 0.5, 0.25, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = task_of(5_000, 1e5, weight=Weight("w", 1.0))
        model = fitted(release_of_law(here, np.column_stack([rows, weights]), rng))
    for place, group in enumerate(ARMS):
        own, y = weights[arm == place], np.clip(rows[arm == place, 4], 0, 100)
        mean = own @ y / own.sum()
        exact = math.sqrt(own**2 @ (y - mean) ** 2) / own.sum()
        found = model.means()[group]
        assert found.estimate == pytest.approx(mean, abs=1e-2)
        assert exact <= found.standard_error * 1.01
        assert found.standard_error < 1.3 * exact


def test_fit_makes_one_release_that_says_the_same_when_it_is_read(tmp_path):
    rng = np.random.default_rng(9)
    rows, arm = people(rng, 4_000)
    bounds = {"x0": (0, 100), "y": (0, 100)}
    model = GroupComparison(ARMS, before=["x0"], control="new", bounds=bounds, simulation_seed=1)
    model.fit(rows[:, :1], rows[:, 4], groups=np.array(ARMS)[arm])
    assert clone(model).get_params() == model.get_params()
    model.release_.save(tmp_path / "trial.dpmpc")
    again = GroupComparison(**model.parameters).fit_release(Release.load(tmp_path / "trial.dpmpc"), "y")
    assert again.result().data == model.result().data
    assert str(again.result()) == str(model.result())
    drawn = draw(model.result().plots["differences"]())
    assert "old" in drawn.svg
    assert "95" in drawn.caption
    alone = GroupComparison(ARMS, bounds={"y": (0, 100)}, simulation_seed=1).fit(
        None, rows[:, 4], groups=np.array(ARMS)[arm]
    )
    assert alone.release_.task.width == 3 * 3
    assert list(alone.differences()) == ["new", "none"]


@pytest.mark.parametrize(
    ("choices", "target", "argument"),
    [
        ({"before": "last"}, "spend", "before"),
        ({"before": ["last", "last"]}, "spend", "before"),
        ({"before": ["weight"]}, "spend", "before"),
        ({"before": ["spend"]}, "spend", "before"),
        ({"before": ["arm"]}, "spend", "before"),
        ({"control": "other"}, "spend", "control"),
        ({}, "income", "target"),
        ({}, 3, "target"),
    ],
)
def test_what_is_refused_of_a_release(clear, choices, target, argument):
    with rejects(argument):
        GroupComparison(**choices).fit_release(clear[0], target)


def test_a_release_without_groups_and_a_level_of_one_are_refused(clear):
    here = design(ReleaseSpec.of(Schema.unit(["a", "b"]), 100, 1.0, 1e-3, simulation_seed=0))
    with rejects("group"):
        GroupComparison().fit_release(release_of_law(here, np.zeros((100, 2)), np.random.default_rng(0)))
    with rejects("level", given="1.0"):
        fitted(clear[0]).result(1.0)
    with rejects("groups", given="'x' given in row 1, one of old, new, none expected"):
        GroupComparison(ARMS, bounds=(0, 1)).fit(None, np.zeros(2), groups=["x", "old"])


def test_a_target_whose_values_are_the_groups_is_refused_without_a_circle():
    release = release_of_law(task_of(500), people(np.random.default_rng(8), 500)[0], np.random.default_rng(8))
    for target in ("arm", "arm=new"):
        with rejects("target", expected="one of last, age, spend"):
            GroupComparison().fit_release(release, target)
