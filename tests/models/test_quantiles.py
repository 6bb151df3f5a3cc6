"""Histograms of a release of cells, their error law, and quantiles with intervals: against exact laws and simulations.

Statistical tests have a fixed seed; each says how often it would fail if all were well.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import BITS, CellCounts, strategy_matrix
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.tables.quantiles import Distribution, _rising

ENCODING = FixedPoint(BITS)
AGE = Variable("age", 0, 19, step=1)
GAP = Variable("gap", 0, 10, cells=12, if_missing="indicator")
SEX = Variable("sex", values=("f", "m"))
WARD = Variable("ward", values=("north", "south", "east"), if_missing="indicator")


def cut(count):
    """Return a number with so many cells of equal width, of which none is a bound alone."""
    return Variable("x", 0, 1, edges=tuple(np.linspace(0, 1, count + 1)[1:-1].tolist()))


def public_of(*variables):
    return Schema.of_codebook(Codebook(variables))


def rows(rng, public, count):
    """Return normalised rows with every variable at random, one in ten missing where that may be."""
    parts = []
    for variable in public.codebook.variables:
        width, missing = len(variable.term.columns), variable.if_missing is not None
        gone = missing & (rng.random(count) < 0.1)
        if variable.kind == "number":
            found = np.where(gone, 0.0, rng.uniform(-1, 1, count))[:, None]
            parts += [found, gone[:, None].astype(float)] if missing else [found]
        else:
            shown = rng.integers(0, len(variable.categories) - missing, count)
            shown[gone] = len(variable.categories) - 1
            coded = (shown[:, None] == np.arange(1, width + 1)).astype(float)
            parts.append(2 * coded - 1 if width == 1 else coded)
    return np.column_stack(parts)


def everybody(estimates, grid, variable):
    return Distribution(estimates, grid, variable, np.ones(len(estimates.counts[grid]), np.bool_))


def histogram(contribution, grid, z):
    """Return the exact histogram (G, C) of a grid."""
    one = contribution.grids[grid]
    places = np.bincount(one.place_of(z), minlength=one.words)
    ordered = one.group_count * one.cells
    found = places[:ordered].reshape(one.group_count, one.cells)
    return found if one.missing is None else np.column_stack([found, places[ordered:]])


PUBLIC = public_of(AGE, GAP, SEX, WARD)
COUNTED = CellCounts.of(PUBLIC, by="ward")


def test_without_noise_every_histogram_is_exact():
    z = rows(np.random.default_rng(1), PUBLIC, 500)
    sums = COUNTED.encode(z, ENCODING).sum(axis=0) / 2.0**BITS
    found = CellEstimates(COUNTED, sums, 0.0, 500)
    for grid, counts in enumerate(found.counts):
        assert counts == pytest.approx(histogram(COUNTED, grid, z), abs=1e-8)


def test_histograms_agree_on_everybody_and_on_each_group():
    rng = np.random.default_rng(2)
    found = CellEstimates(COUNTED, rng.normal(0, 50, COUNTED.width(len(PUBLIC))), 2500.0, 700)
    sizes = [found.counts[0].sum(axis=1), found.counts[1].sum(axis=1), found.counts[2].reshape(2, 4).sum(axis=0)]
    assert sizes[0] == pytest.approx(sizes[1], abs=1e-8)
    assert sizes[0] == pytest.approx(sizes[2], abs=1e-8)
    assert sizes[0].sum() == pytest.approx(700)


def test_the_noise_is_that_of_many_releases():
    """Covariances of functions of each grid; fails once in 10^6 if all is well, by Bonferroni over all entries."""
    rng, draws, variance = np.random.default_rng(3), 4000, 25.0
    z = rows(rng, PUBLIC, 300)
    sums = COUNTED.encode(z, ENCODING).sum(axis=0) / 2.0**BITS
    noisy = [CellEstimates(COUNTED, sums + rng.normal(0, 5, len(sums)), variance, 300) for _ in range(draws)]
    for grid in range(3):
        truth = histogram(COUNTED, grid, z)
        gradients = rng.normal(size=(4, *truth.shape))
        expected = noisy[0].noise_covariance(grid, gradients)
        found = np.array([np.tensordot(gradients, one.counts[grid] - truth, 2) for one in noisy])
        assert np.diag(expected) == pytest.approx(noisy[0].noise_variance(grid, gradients))
        root = np.linalg.inv(np.linalg.cholesky(expected))
        white = found @ root.T
        for one, other in itertools.combinations_with_replacement(range(4), 2):
            scale = math.sqrt(2 / draws) if one == other else math.sqrt(1 / draws)
            z_score = (np.mean(white[:, one] * white[:, other]) - (one == other)) / scale
            assert abs(z_score) < 5.9  # 30 entries, 2 P(N > 5.9) = 4e-9 each; the law of squares has heavier tails
        assert np.abs(found.mean(axis=0) / np.sqrt(np.diag(expected) / draws)).max() < 5.5


def test_the_law_is_that_of_people_drawn_at_random_and_noise():
    """Within 5 standard errors (of 3,000 draws) of the mean of the estimated variances: fails once in 10^6."""
    rng, people, draws = np.random.default_rng(4), 400, 3000
    public = public_of(AGE, SEX)
    contribution = CellCounts.of(public, by="sex")
    pool = rows(rng, public, 60)
    codes = contribution.encode(pool, ENCODING) / 2.0**BITS
    law = rng.dirichlet(np.ones(60))
    gradient = rng.normal(size=(2, 20))
    values, variances = [], []
    for _ in range(draws):
        sums = rng.multinomial(people, law) @ codes + rng.normal(0, 4, codes.shape[1])
        found = CellEstimates(contribution, sums, 16.0, people)
        values.append(float(np.sum(found.counts[0] * gradient)))
        variances.append(found.variance(0, gradient))
    expected = float(np.mean(variances))
    assert np.var(values) == pytest.approx(expected, rel=5 * math.sqrt(2 / draws))


@pytest.mark.parametrize("law", [(0.1, 0.2, 0.3, 0.4), (0.5, 0.0, 0.0, 0.5), (0.97, 0.01, 0.01, 0.01), (0.25,) * 4])
def test_intervals_cover_for_every_small_sample_without_noise(law):
    """Exactly, over all samples of up to six people in four cells, for laws with ties and without."""
    variable = cut(4)
    contribution = CellCounts.of(public_of(variable))
    for people, q in itertools.product((1, 2, 5, 6), (0.1, 0.5, 0.75)):
        truth = int(np.argmax(np.cumsum(law) >= q - 1e-12))
        missed = 0.0
        for sample in itertools.product(range(people + 1), repeat=4):
            if sum(sample) == people:
                found = everybody(CellEstimates(contribution, np.array(sample, float), 0.0, people), 0, variable)
                first, last = found.cells_of(q, 0.8)
                if not first <= truth <= last:
                    missed += float(stats.multinomial.pmf(sample, people, law))
        assert missed <= 0.2 + 1e-9


def test_quantiles_without_noise_are_those_of_the_people():
    rng = np.random.default_rng(5)
    ages = rng.integers(0, 20, 801)
    public = public_of(AGE)
    contribution = CellCounts.of(public)
    sums = contribution.encode(public.normalise(ages[:, None]), ENCODING).sum(axis=0) / 2.0**BITS
    found = everybody(CellEstimates(contribution, sums, 0.0, 801), 0, AGE)
    for q in (0.1, 0.25, 0.5, 0.75, 0.9):
        value, lower, upper = found.quantile(q)
        assert value == np.quantile(ages, q, method="inverted_cdf")
        assert lower <= value <= upper
    assert found.mean()[0] == pytest.approx(ages.mean())
    assert found.mean()[1] == pytest.approx(ages.std() / math.sqrt(801))
    table = found.ecdf()
    assert table.columns["share"] == pytest.approx([np.mean(ages <= age) for age in range(19)])


def covered(rng, variable, law, people, sd, runs, q):
    """Return how often the interval of a quantile holds the true cell, and the band the true law."""
    contribution = CellCounts.of(public_of(variable))
    identity = np.linspace(*(variable.lower, variable.upper), len(law) * 2 + 1)[1::2]
    middles = identity if variable.step is None else variable.lower + variable.step * np.arange(len(law))
    codes = contribution.encode(public_of(variable).normalise(middles[:, None]), ENCODING) / 2.0**BITS
    truth, shares = int(np.argmax(np.cumsum(law) >= q - 1e-12)), np.cumsum(law)[:-1]
    hits = inside = 0
    for _ in range(runs):
        sums = rng.multinomial(people, law) @ codes + rng.normal(0, sd, codes.shape[1])
        found = everybody(CellEstimates(contribution, sums, sd**2, people), 0, variable)
        first, last = found.cells_of(q)
        hits += first <= truth <= last
        band = found.ecdf().columns
        inside += bool(np.all((np.array(band["lower"]) <= shares) & (shares <= np.array(band["upper"]))))
    return hits, inside


@pytest.mark.parametrize("name", ["bell", "ties"])
def test_intervals_and_bands_cover_with_noise(name):
    """Refused below the 10^-6 quantile of 200 runs that cover at .95 (bands: .94, their law is simulated)."""
    cells = 32
    law = np.diff(stats.norm.cdf(np.linspace(-3, 3, cells + 1)))
    if name == "ties":
        law = np.full(cells, 0.25 / (cells - 3))
        law[[4, 10, 20]] = 0.3, 0.25, 0.2
    law = law / law.sum()
    hits, inside = covered(np.random.default_rng(6), cut(cells), law, 1000, 8.0, 200, 0.5)
    assert hits >= stats.binom.ppf(1e-6, 200, 0.95)
    assert inside >= stats.binom.ppf(1e-6, 200, 0.94)


def at_zero(rng, count):
    return np.where(rng.random(count) < 0.4, np.exp(6.3 + 1.2 * rng.standard_normal(count)), 0.0)


COSTS = {"lower": 0, "upper": 20_000}
#: Name -> the number, and what draws it: laws within whose cells people are anywhere but in the middle.
PLACED = {
    "costs of which six in ten are 0": (Variable("x", **COSTS), at_zero),
    "lognormal": (Variable("x", **COSTS), lambda rng, count: np.exp(6.3 + 1.2 * rng.standard_normal(count))),
    "lognormal, cells of the logarithm": (
        Variable("x", 1, 20_000, transform="log"),
        lambda rng, count: np.exp(6.3 + 1.2 * rng.standard_normal(count)),
    ),
    "uniform": (Variable("x", 0, 7, cells=8), lambda rng, count: rng.uniform(0, 7, count)),
    "whole numbers": (Variable("x", 0, 40), lambda rng, count: rng.poisson(1.5, count).astype(float)),
    "whole numbers, step 1": (Variable("x", 0, 40, step=1), lambda rng, count: rng.poisson(1.5, count).astype(float)),
    "both bounds": (Variable("x", 0, 1, cells=16), lambda rng, count: rng.normal(0.5, 0.7, count)),
    "edges of its own": (Variable("x", 0, 100, edges=(30, 50)), lambda rng, count: rng.uniform(30, 31, count)),
}


@pytest.mark.parametrize("name", PLACED)
def test_means_cover_wherever_in_their_cells_people_are(name):
    """Of 200 runs fewer miss than the 1 - 10^-6 quantile of runs that cover at .94, for tails are long."""
    variable, draw = PLACED[name]
    rng, people, sd = np.random.default_rng(8), 2000, 8.0
    public = public_of(variable)
    contribution, (low, high) = CellCounts.of(public), (variable.lower, variable.upper)
    column = np.log if variable.transform == "log" else np.asarray
    truth, missed = draw(rng, 1_000_000).clip(low, high).mean(), 0
    for _ in range(200):
        z = public.normalise(column(draw(rng, people).clip(low, high))[:, None])
        own = np.bincount(contribution.grids[0].place_of(z), minlength=contribution.width(1))
        exact = strategy_matrix(contribution.grids[0].strategy, len(own)) @ own / 2.0**BITS
        found = everybody(CellEstimates(contribution, exact + rng.normal(0, sd, len(own)), sd**2, people), 0, variable)
        value, error = found.mean()
        missed += not abs(value - truth) <= 1.96 * error
    assert missed <= stats.binom.ppf(1 - 1e-6, 200, 0.06)


def test_no_mean_is_outside_the_bounds():
    """300 people at the bound of a long range: half of the means that noise gives would be below it."""
    variable = Variable("x", 0.1, 1000)
    contribution, rng = CellCounts.of(public_of(variable)), np.random.default_rng(9)
    exact = 300.0 * strategy_matrix("root", 130)[:, 0] / 2.0**BITS
    for _ in range(20):
        found = everybody(CellEstimates(contribution, exact + rng.normal(0, 8, 130), 64.0, 300), 0, variable)
        value, error = found.mean()
        assert 0.1 <= value <= 1000
        assert abs(value - 0.1) <= 5 * error


def test_a_bound_is_a_cell_of_its_own():
    """What half a cell can change counts for those between the bounds alone; a median at a bound is that bound."""
    variable = Variable("x", 0, 100, cells=10)
    public = public_of(variable)
    contribution = CellCounts.of(public)
    values = np.array([-3.0, 0.0, 0.0, 0.0, 1e-9, 7.0, 100.0, 101.0])
    assert contribution.grids[0].cell_of(public.normalise(values[:, None])).tolist() == [0, 0, 0, 0, 1, 1, 11, 11]
    sums = contribution.encode(public.normalise(values[:, None]), ENCODING).sum(axis=0) / 2.0**BITS
    found = everybody(CellEstimates(contribution, 100 * sums, 0.0, 800), 0, variable)
    assert found.ends.tolist() == [0, *range(0, 101, 10), 100]
    assert found.quantile(0.4) == (0.0, 0.0, 0.0)
    value, error = found.mean()
    assert value == pytest.approx((4 * 0 + 2 * 5 + 2 * 100) / 8)
    middles = np.repeat([0, 5, 100], [4, 2, 2])
    assert error == pytest.approx(math.hypot(middles.std() / math.sqrt(800), 5 * 2 / 8))
    assert found.ecdf().columns["up to"] == list(range(0, 100, 10))
    assert found.ecdf().columns["share"][0] == pytest.approx(0.5)
    ends, parts = found.bars(100)
    assert (np.diff(ends) > 0).all()
    assert parts.sum() == pytest.approx(1.0)


def test_quantiles_that_noise_hides_are_not_told():
    variable = cut(32)
    contribution = CellCounts.of(public_of(variable))
    sums = np.random.default_rng(7).normal(0, 50, 32)
    found = everybody(CellEstimates(contribution, sums, 2500.0, 60), 0, variable)
    assert not found.tells(0.5)
    assert all(math.isnan(value) for value in (*found.quantile(0.5), *found.mean()))


@pytest.mark.parametrize("q", [0.1, 0.5, 0.75])
def test_a_plan_knows_from_how_many_people_a_quantile_is_told(q):
    """`told_from` is where `tells` begins, at any noise."""
    variable = cut(8)
    contribution = CellCounts.of(public_of(variable))
    for variance in (0.01, 9.0, 900.0):
        least = everybody(CellEstimates(contribution, np.zeros(8), variance, 100), 0, variable).told_from(q)
        told = [
            everybody(CellEstimates(contribution, np.zeros(8), variance, people), 0, variable).tells(q)
            for people in (least - 1, least)
        ]
        assert told == [False, True]


def test_rising_pools_adjacent_violators():
    assert _rising(np.array([3.0, 1.0, 2.0, 5.0, 4.0])).tolist() == [2.0, 2.0, 2.0, 4.5, 4.5]
    assert _rising(np.empty(0)).tolist() == []
