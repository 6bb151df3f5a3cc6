"""Two-way tables from second moments: counted without noise, tests of their level with it, and silent where few are.

Statistical tests have fixed seeds; each says how often a right program would fail it.
"""

import warnings

import msgspec
import numpy as np
import pytest
import scipy.stats

from bench.secure_sketching.coverage import release_of_law
from dpmpc.data import Codebook, Schema
from dpmpc.data.codebook import Weight
from dpmpc.data.variables import Variable
from dpmpc.models.tables.cross_table import CrossTable, Independence
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from support.rejections import rejects

WARDS, OUTCOMES = ("north", "south", "east", "west"), ("home", "moved", "died")
WARD, OUTCOME = Variable("ward", values=WARDS), Variable("outcome", values=OUTCOMES)
SMOKER, AGE = Variable("smoker", yes=("yes",), no=("no",)), Variable("age", 0, 100)
VARIABLES = (AGE, WARD, SMOKER, OUTCOME)
P_WARD, P_OUTCOME = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.6, 0.3, 0.1])


def task_of(
    clients, epsilon=1.0, variables=VARIABLES, by=None, products=(), incomplete="refuse", radius=None, **choices
):
    public = Schema.of_codebook(Codebook(variables, products=products, incomplete=incomplete, **choices))
    spec = ReleaseSpec.of(public, clients, epsilon, 1e-6, by=by, simulation_seed=0, radius=radius)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return design(spec)


def people(rng, clients, tilt=0.0, p_ward=P_WARD):
    """Return places of wards, answers and outcomes; with `tilt` more of the north stay at home."""
    ward, smoker = rng.choice(4, clients, p=p_ward), rng.random(clients) < 0.25
    outcome = rng.choice(3, clients, p=P_OUTCOME)
    outcome[(ward == 0) & (outcome > 0) & (rng.random(clients) < tilt)] = 0
    return ward, smoker.astype(int), outcome


def coded(ward, smoker, outcome):
    age = np.full(len(ward), 40.0)
    shown = [ward[:, None] == [1, 2, 3], smoker[:, None] == 1, outcome[:, None] == [1, 2]]
    return np.column_stack([age, *shown]).astype(float)


def counted(first, second, shape):
    return np.histogram2d(first, second, bins=[np.arange(size + 1) - 0.5 for size in shape])[0]


PAIRS = {("ward", "outcome"): (0, 2), ("outcome", "smoker"): (2, 1), ("smoker", "ward"): (1, 0)}


@pytest.mark.parametrize("by", [None, "ward", "smoker"])
@pytest.mark.parametrize("pair", PAIRS)
def test_without_noise_counts_are_counts_and_the_test_is_that_of_pearson(pair, by):
    rng = np.random.default_rng(0)
    found = people(rng, 3000, tilt=0.1)
    release = release_of_law(task_of(3000, 1e5, by=by), coded(*found), rng)
    table = CrossTable.of(release, *pair)
    exact = counted(*(found[place] for place in PAIRS[pair]), table.counts.shape)
    assert table.counts == pytest.approx(exact, abs=0.2)
    oracle = scipy.stats.chi2_contingency(exact, correction=False)
    tested = table.independence()
    assert (tested.statistic, tested.degrees) == (pytest.approx(oracle.statistic, rel=1e-2, abs=5e-3), oracle.dof)
    assert tested.p_value == pytest.approx(oracle.pvalue, rel=3e-2)
    share, errors = table.shares()
    assert share == pytest.approx(exact / exact.sum(axis=1, keepdims=True), abs=1e-3)
    assert errors == pytest.approx(np.sqrt(share * (1 - share) / exact.sum(axis=1, keepdims=True)), rel=2e-2)
    turned = CrossTable.of(release, *pair[::-1])
    assert turned.counts == pytest.approx(table.counts.T, abs=1e-9)
    assert turned.independence().statistic == pytest.approx(tested.statistic, rel=1e-9)


def test_missing_values_are_a_value_and_incomplete_rows_are_not_counted():
    rng = np.random.default_rng(1)
    ward, smoker, outcome = people(rng, 3000)
    lacking = rng.random(3000) < 0.1
    variables = (msgspec.structs.replace(SMOKER, if_missing="indicator"), OUTCOME)
    rows = np.column_stack([np.where(lacking, 0.5, smoker), lacking, outcome[:, None] == [1, 2]])
    table = CrossTable.of(release_of_law(task_of(3000, 1e5, variables), rows, rng), "smoker", "outcome")
    assert table.rows == ("no", "yes", "missing")
    assert table.counts == pytest.approx(counted(np.where(lacking, 2, smoker), outcome, (3, 3)), abs=0.2)
    rows = np.column_stack([coded(ward, smoker, outcome), ~lacking])
    release = release_of_law(task_of(3000, 1e5, incomplete="zeros"), rows, rng)
    table = CrossTable.of(release, "ward", "outcome")
    assert table.counts == pytest.approx(counted(ward[~lacking], outcome[~lacking], (4, 3)), abs=0.2)
    assert table.total == pytest.approx(np.sum(~lacking), abs=0.2)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "choices", [{}, {"by": "ward"}, {"by": "smoker"}, {"incomplete": "zeros"}], ids=["plain", "by-row", "by", "zeros"]
)
def test_the_claimed_covariance_is_that_of_the_noise(choices):
    """Same people, fresh noise 400 times: squared distances are chi-squared; their mean fails in 1e-6 of the seeds."""
    rng = np.random.default_rng(2)
    found = people(rng, 1000)
    rows = coded(*found) if "incomplete" not in choices else np.column_stack([coded(*found), np.ones(1000)])
    here, exact, runs = task_of(1000, **choices), counted(found[0], found[2], (4, 3)), 400
    distances = []
    for _ in range(runs):
        table = CrossTable.of(release_of_law(here, rows, rng), "ward", "outcome")
        off = (table.counts - exact).ravel()
        values, vectors = np.linalg.eigh(table.covariance)
        kept = values > 1e-9 * values.max()  # the total is exact without groups and zeros
        distances.append(((vectors.T @ off)[kept] ** 2 / values[kept]).sum())
    assert kept.sum() == (11 if not choices or choices == {"by": "smoker"} else 12)
    low, high = scipy.stats.chi2.ppf([5e-7, 1 - 5e-7], runs * kept.sum()) / runs
    assert low < np.mean(distances) < high


def sizes(runs, clients, epsilon, tilt=0.0, by=None, p_ward=P_WARD):
    """Return p-values of tables that are tested, of fresh people and fresh noise."""
    rng, here = np.random.default_rng(3), task_of(clients, epsilon, by=by)
    found = []
    for _ in range(runs):
        release = release_of_law(here, coded(*people(rng, clients, tilt, p_ward)), rng)
        tested = CrossTable.of(release, "ward", "outcome").independence()
        if isinstance(tested, Independence):
            found.append(tested.p_value)
    return np.array(found)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("clients", "epsilon", "by"), [(1_000, 1.0, None), (3_000, 1.0, None), (3_000, 1.0, "ward"), (3_000, 4.0, None)]
)
@pytest.mark.parametrize("runs", [400, pytest.param(2_000, marks=pytest.mark.long("2,000 releases, not 400"))])
def test_the_test_has_its_size(clients, epsilon, by, runs):
    """.03 to .07 given that it is told, widened by binomial quantiles of 1e-4, so that a size just there passes."""
    found = sizes(runs, clients, epsilon, by=by)
    assert len(found) > runs / 20
    share = np.mean(found < 0.05)
    low, high = scipy.stats.binom.ppf(1e-4, len(found), 0.03), scipy.stats.binom.ppf(1 - 1e-4, len(found), 0.07)
    assert low / len(found) <= share <= high / len(found)


@pytest.mark.statistical
def test_dependence_is_found():
    """More of the north stay at home: found in at least 35 of 40 releases of 5,000 people, by a power near .99.

    With a power of .97 it would fail in 1e-3 of the seeds.
    """
    found = sizes(40, 5_000, 1.0, tilt=0.6)
    assert len(found) == 40
    assert np.sum(found < 0.05) >= 35


def test_values_of_few_people_are_joined_and_named():
    rng = np.random.default_rng(4)
    shares = np.array([0.6, 0.39, 0.006, 0.004])
    release = release_of_law(task_of(4000), coded(*people(rng, 4000, p_ward=shares)), rng)
    table = CrossTable.of(release, "ward", "outcome")
    joined = table.joined()
    assert joined.rows in (
        ("north", "south", "east or west"),
        ("north", "south or east or west"),
        ("north", "south or west or east"),
    )
    assert joined.columns == OUTCOMES
    assert joined.total == pytest.approx(table.total)
    assert joined.counts.sum(axis=0) == pytest.approx(table.counts.sum(axis=0))
    result = table.result()
    assert f"Joined for the test, because few people have them: {joined.rows[-1]}." in result.notes
    assert result.data["tested_rows"] == list(joined.rows)
    assert set(result.data["counts"]) == set(WARDS)
    assert np.isnan(table.shares()[0][-1]).all()


def test_too_few_people_are_not_tested():
    rng = np.random.default_rng(5)
    result = CrossTable.of(release_of_law(task_of(60), coded(*people(rng, 60)), rng), "ward", "outcome").result()
    assert result.data["independence"] is None
    assert "too few people in" in result.data["not_tested"] or "noise in all" in result.data["not_tested"]
    assert f"No test that ward and outcome are independent: {result.data['not_tested']}." in result.notes


@pytest.mark.parametrize(
    ("choices", "pair", "rejection"),
    [
        ({}, ("ward", "ward"), {"argument": "crosstab", "given": "'ward' given twice, two variables expected"}),
        ({}, ("ward", "age"), {"argument": "crosstab", "given": "'age'", "expected": "a variable with listed values"}),
        ({}, ("job", "ward"), {"argument": "crosstab", "given": "'job'", "expected": "a variable with listed values"}),
        (
            {"weight": Weight("w", 1.0)},
            ("ward", "outcome"),
            {"argument": "crosstab", "given": "given, but rows have weights (w), people that count once expected"},
        ),
        (
            {"radius": 1.0},
            ("ward", "outcome"),
            {
                "argument": "crosstab",
                "given": "given, but rows were clipped to a ball of radius 1, in which some do not lie",
            },
        ),
        (
            {"variables": (WARD, msgspec.structs.replace(SMOKER, if_missing="middle"))},
            ("ward", "smoker"),
            {
                "argument": "crosstab",
                "given": "'smoker' given, whose missing values are coded between others, "
                'if_missing = "indicator" expected',
            },
        ),
    ],
)
def test_what_holds_no_table_is_refused(choices, pair, rejection):
    here = task_of(100, **choices)
    release = release_of_law(here, np.tile(here.schema.offset, (100, 1)), np.random.default_rng(0))
    with rejects(**rejection):
        CrossTable.of(release, *pair)


def test_numbers_and_sketches_hold_no_table():
    rng = np.random.default_rng(0)
    plain = design(ReleaseSpec.of(Schema.unit(["a", "b"]), 100, 1.0, 1e-3, simulation_seed=0))
    with rejects("crosstab"):
        CrossTable.of(release_of_law(plain, np.zeros((100, 2)), rng), "a", "b")
    public = Schema.of_codebook(Codebook(VARIABLES))
    rows = design(ReleaseSpec.of(public, 1000, 1.0, 1e-6, sketch="osnap", rows=20, simulation_seed=0))
    with rejects("crosstab"):
        CrossTable.of(release_of_law(rows, np.zeros((1000, 7)), rng), "ward", "outcome")
    few = task_of(1000, variables=(AGE, WARD, SMOKER))
    with rejects("crosstab", given="'outcome'"):
        CrossTable.of(release_of_law(few, np.zeros((1000, 5)), rng), "ward", "outcome")
