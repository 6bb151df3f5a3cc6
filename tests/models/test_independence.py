"""Tests of ranks and of tables of cells: those of SciPy without noise, of their level with that of several parties.

Statistical tests have fixed seeds; each says how often a right program would fail it.
"""

import warnings

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.multitest import multipletests

from bench.secure_sketching.coverage import release_by_parties, release_of_law
from dpmpc.base.randomness import Stream
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.models.tables.cross_table import CrossTable
from dpmpc.models.tables.independence import Independence, holm
from dpmpc.models.tables.table_one import TableOne
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from support.rejections import rejects

ARMS, WARDS = ("new", "old", "none"), ("north", "south", "east", "west")
AGE, GAP = Variable("age", 0, 63, step=1), Variable("gap", 0, 63, step=1, if_missing="indicator")
WARD = Variable("ward", values=WARDS)
SMOKER = Variable("smoker", yes=("yes",), no=("no",), if_missing="indicator")
PUBLIC = Schema.of_codebook(Codebook((AGE, GAP, WARD, SMOKER, Variable("arm", values=ARMS))))


def task_of(clients, epsilon=1.0, public=PUBLIC, by="arm", **choices):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"contribution": CellCounts.of(public, by), "simulation_seed": 0, **choices}
        return design(ReleaseSpec.of(public, clients, epsilon, 1e-6, **options))


def people(rng, clients, p_arm=(0.5, 0.3, 0.2), shift=0.0):
    """Return places of arms, ages, gaps, who lacks one, wards and answers (2: none); those of arm 0 are older."""
    arm = rng.choice(3, clients, p=p_arm)
    age = np.clip(np.round(rng.normal(32 + 10 * shift * (arm == 0), 10)), 0, 63)
    gap, gone = np.clip(np.round(rng.exponential(8, clients)), 0, 63), rng.random(clients) < 0.1
    ward = rng.choice(4, clients, p=[0.4, 0.3, 0.2, 0.1])
    return arm, age, gap, gone, ward, rng.choice(3, clients, p=[0.6, 0.3, 0.1])


def coded(arm, age, gap, gone, ward, smoker):
    shown = [ward[:, None] == [1, 2, 3], np.where(smoker == 2, 0.5, smoker)[:, None], smoker[:, None] == 2]
    return np.column_stack([age, np.where(gone, 0, gap), gone, *shown, arm[:, None] == [1, 2]]).astype(float)


@pytest.mark.parametrize("p_arm", [(0.5, 0.3, 0.2), (0.6, 0.4, 0.0)], ids=["three", "two"])
def test_without_noise_ranks_are_tested_as_by_kruskal_and_by_mann_and_whitney(p_arm):
    rng = np.random.default_rng(0)
    found = people(rng, 4000, p_arm, shift=0.05)
    arm, age, gap, gone, *_ = found
    fit = TableOne().fit_release(release_of_law(task_of(4000, 1e5), coded(*found), rng))
    arms = sorted(set(arm.tolist()))
    for name, values, kept in (("age", age, gone | True), ("gap", gap, ~gone)):
        tested, groups = fit.rank_test(name), [values[kept & (arm == one)] for one in arms]
        oracle, n = scipy.stats.kruskal(*groups), kept.sum()
        assert tested.statistic == pytest.approx(oracle.statistic * n / (n - 1), rel=5e-3, abs=1e-3)
        assert (tested.degrees, tested.p_value) == (len(arms) - 1, pytest.approx(oracle.pvalue, rel=2e-2))
    if len(arms) == 2:
        two = scipy.stats.mannwhitneyu(age[arm == 0], age[arm == 1], method="asymptotic", use_continuity=False)
        assert fit.rank_test("age").p_value == pytest.approx(two.pvalue, rel=2e-2)


def test_without_noise_a_table_of_cells_is_that_of_the_people():
    rng = np.random.default_rng(1)
    found = people(rng, 4000)
    arm, ward, smoker = found[0], found[4], found[5]
    release = release_of_law(task_of(4000, 1e5), coded(*found), rng)
    for name, values, count in (("ward", ward, 4), ("smoker", smoker, 3)):
        table = CrossTable.of(release, name, "arm")
        exact = np.histogram2d(values, arm, bins=[np.arange(count + 1) - 0.5, np.arange(4) - 0.5])[0]
        assert table.counts == pytest.approx(exact, abs=0.05)
        oracle = scipy.stats.chi2_contingency(exact, correction=False)
        tested = table.independence()
        assert (tested.statistic, tested.degrees) == (pytest.approx(oracle.statistic, rel=5e-3), oracle.dof)
        turned = CrossTable.of(release, "arm", name)
        assert (turned.row, turned.rows, turned.columns) == ("arm", ARMS, table.rows)
        assert turned.counts == pytest.approx(table.counts.T)
        assert turned.independence().statistic == pytest.approx(tested.statistic, rel=1e-9)
    assert CrossTable.of(release, "smoker", "arm").rows == ("no", "yes", "missing")


@pytest.mark.statistical
def test_the_claimed_covariance_is_that_of_the_noise_in_cells():
    """Same people, fresh noise 400 times: squared distances are chi-squared; their mean fails in 1e-6 of the seeds."""
    rng, runs = np.random.default_rng(2), 400
    found, here = people(rng, 1000), task_of(1000, noise_by="servers")
    exact = np.histogram2d(found[4], found[0], bins=[np.arange(5) - 0.5, np.arange(4) - 0.5])[0]
    distances = []
    for run in range(runs):
        table = CrossTable.of(release_by_parties(here, coded(*found), Stream.from_seed(run)), "ward", "arm")
        values, vectors = np.linalg.eigh(table.covariance)
        kept = values > 1e-9 * values.max()  # the total is exact
        distances.append(((vectors.T @ (table.counts - exact).ravel())[kept] ** 2 / values[kept]).sum())
    assert kept.sum() == 11
    low, high = scipy.stats.chi2.ppf([5e-7, 1 - 5e-7], runs * kept.sum()) / runs
    assert low < np.mean(distances) < high


def p_values(runs, clients, epsilon, p_arm, shift=0.0, first=0):
    """Return the p-values that are told of ages and of wards, with fresh people and the noise of several servers."""
    rng, here = np.random.default_rng(3 + first), task_of(clients, epsilon, noise_by="servers")
    told = {"age": [], "ward": []}
    for run in range(first, first + runs):
        rows = coded(*people(rng, clients, p_arm, shift))
        fit = TableOne().fit_release(release_by_parties(here, rows, Stream.from_seed(run)))
        tested = {"age": fit.rank_test("age"), "ward": fit.crosstab("ward").independence()}
        for name, one in tested.items():
            told[name] += [one.p_value] if isinstance(one, Independence) else []
    return {name: np.array(found) for name, found in told.items()}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("clients", "epsilon", "p_arm"),
    [(2_000, 1.0, (0.5, 0.3, 0.2)), (1_000, 2.0, (0.6, 0.4, 0.0)), (600, 4.0, (0.5, 0.3, 0.2))],
)
@pytest.mark.parametrize("runs", [250, pytest.param(2_000, marks=pytest.mark.long("2,000 releases, not 250"))])
def test_tests_have_their_size(clients, epsilon, p_arm, runs):
    """.03 to .07 given that they are told, widened by binomial quantiles of 1e-4, so that a size just there passes."""
    for found in p_values(runs, clients, epsilon, p_arm).values():
        assert len(found) > runs / 20
        low, high = scipy.stats.binom.ppf(1e-4, len(found), 0.03), scipy.stats.binom.ppf(1 - 1e-4, len(found), 0.07)
        assert low <= np.sum(found < 0.05) <= high


@pytest.mark.statistical
def test_a_shift_of_ranks_is_found():
    """Half a standard deviation among 2,000 people, noise of three servers in four grids: found in all of 30.

    The mean z is 7.6 at epsilon 3 (11 without noise), so that the power is above .9999.
    """
    assert np.all(p_values(30, 2_000, 3.0, (0.5, 0.3, 0.2), shift=0.5)["age"] < 0.05)


def test_one_value_everywhere_and_one_group_are_not_tested():
    rng = np.random.default_rng(4)
    found = list(people(rng, 3000))
    found[1] = np.full(3000, 40.0)
    fit = TableOne().fit_release(release_of_law(task_of(3000), coded(*found), rng))
    assert fit.rank_test("age") == "all people are in one cell, as far as the noise shows"
    table, untested = fit.tests()
    assert list(untested) == ["age"]
    assert "age: no test: all people are in one cell, as far as the noise shows." in table.notes
    found = people(rng, 3000, (1.0, 0.0, 0.0))
    result = TableOne().fit_release(release_of_law(task_of(3000), coded(*found), rng)).result()
    assert result.data["tests"] is None
    assert result.data["not_tested"]["age"] == "fewer than two groups have enough people to distinguish from none"
    assert result.data["not_tested"]["ward"].startswith("too few people in arm = ")
    assert "No test of age: fewer than two groups have enough people to distinguish from none." in result.notes


def test_tests_are_a_table_of_table_one():
    rng = np.random.default_rng(5)
    fit = TableOne().fit_release(release_of_law(task_of(3000, 4.0), coded(*people(rng, 3000, shift=0.4)), rng))
    result = fit.result()
    assert result.data["tests"]["age"]["chi-squared"] == fit.rank_test("age").statistic
    assert result.data["tests"]["ward"]["p"] == fit.crosstab("ward").independence().p_value
    assert result.data["tests"]["age"]["p"] < 1e-6
    assert list(result.data["tests"]) == ["age", "gap", "ward", "smoker"]
    assert result.data["not_tested"] == {}
    assert result.tables[-1].title == "Tests: the same in all groups of arm"


def test_p_values_hold_together_as_those_of_holm():
    for p in ([0.01, 0.04, 0.03, 0.5], [0.2], [0.5, 0.5, 0.9]):
        assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


def test_what_is_no_test_is_refused():
    rng = np.random.default_rng(6)
    release = release_of_law(task_of(3000), coded(*people(rng, 3000)), rng)
    everybody = release_of_law(task_of(3000, by=None), coded(*people(rng, 3000)), rng)
    fit = TableOne().fit_release(release)
    for ask, argument in (
        (lambda: fit.rank_test("ward"), "name"),
        (lambda: fit.rank_test("height"), "name"),
        (lambda: fit.crosstab("age"), "name"),
        (lambda: TableOne().fit_release(everybody).rank_test("age"), "by"),
        (lambda: CrossTable.of(release, "ward", "smoker"), "crosstab"),
        (lambda: CrossTable.of(everybody, "ward", "smoker"), "crosstab"),
        (lambda: CrossTable.of(release, "age", "arm"), "crosstab"),
        (lambda: CrossTable.of(release, "arm", "arm"), "crosstab"),
    ):
        with rejects(argument):
            ask()
