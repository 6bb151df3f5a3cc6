"""Intervals of shares and odds ratios of noisy counts, and Cramer's V: known formulas without noise, coverage with it.

Statistical tests have fixed seeds; each says how often a right program would fail it.
"""

import math

import numpy as np
import pytest
import scipy.stats
from scipy.stats.contingency import association, odds_ratio
from statsmodels.stats.proportion import proportion_confint

from dpmpc.app.render.plots import draw
from dpmpc.models.tables.cross_table import CrossTable
from dpmpc.models.tables.independence import Departure, Independence
from dpmpc.models.tables.shares_and_odds import odds_ratio as interval_of_odds
from dpmpc.models.tables.shares_and_odds import share_interval
from support.rejections import rejects


def table_of(counts, variance=0.0):
    """Return a table with independent noise of a variance in each cell, less what makes the total exact."""
    counts = np.asarray(counts, float)
    noise = variance * (np.eye(counts.size) - 1 / counts.size)
    names = [tuple(f"{kind}{place}" for place in range(size)) for kind, size in zip("rc", counts.shape, strict=True)]
    return CrossTable("row", "column", *names, counts, noise)


def noisy(rng, law, clients, variance):
    """Return a table of people drawn at random, with such noise."""
    drawn = rng.multinomial(clients, np.ravel(law)) + math.sqrt(variance) * rng.standard_normal(law.size)
    return table_of((drawn - (drawn.sum() - clients) / law.size).reshape(law.shape), variance)


@pytest.mark.parametrize(("part", "size"), [(0, 40), (3, 200), (77, 180), (40, 40)])
def test_without_noise_the_interval_of_a_share_is_that_of_wilson(part, size):
    for level in (0.9, 0.95):
        low, high = share_interval(part, size, np.zeros((2, 2)), level)
        assert (low, high) == pytest.approx(proportion_confint(part, size, 1 - level, method="wilson"), abs=1e-12)


def test_counts_beyond_the_ends_have_an_interval_and_faint_sizes_none():
    noise = np.array([[25.0, 20.0], [20.0, 50.0]])
    low, high = share_interval(-8.0, 200.0, noise, 0.95)
    assert low == 0.0
    assert 0.03 < high < 0.1
    low, high = share_interval(205.0, 200.0, noise, 0.95)
    assert high == 1.0
    assert 0.9 < low < 1.0
    assert np.isnan(share_interval(3.0, 12.0, noise, 0.95)).all()


def at_least(hits, told, share=0.93):
    """Whether so many intervals cover that a coverage of `share` is not refuted at 1e-4."""
    return hits >= scipy.stats.binom.ppf(1e-4, told, share)


@pytest.mark.statistical
@pytest.mark.parametrize(("clients", "variance"), [(200, 0.0), (200, 25.0), (1000, 100.0)])
def test_intervals_of_shares_cover(clients, variance):
    """At least .93 of those that are shown: each cell of each setting fails in 1e-4 of the seeds."""
    rng, law = np.random.default_rng(1), np.array([[0.36, 0.2, 0.04], [0.24, 0.12, 0.04]])
    truth, hits, told = law / law.sum(axis=1, keepdims=True), np.zeros((2, 3)), np.zeros((2, 3))
    for _ in range(1000):
        low, high = noisy(rng, law, clients, variance).share_intervals()
        told += np.isfinite(low)
        hits += (low <= truth) & (truth <= high)
    assert np.all(told > 500)
    assert at_least(hits, told).all()


ODDS = [(200, 0.0, 1.0), (500, 25.0, 3.0), (500, 225.0, 1.0), (2000, 225.0, 3.0)]


def law_of(odds, row, column):
    """Return the law of a table of two by two with these margins and this odds ratio."""
    low, high = max(row + column - 1, 0.0), min(row, column)
    for _ in range(60):
        both = (low + high) / 2
        found = both * (1 - row - column + both) / ((row - both) * (column - both))
        low, high = (both, high) if found < odds else (low, both)
    return np.array([[both, row - both], [column - both, 1 - row - column + both]])


@pytest.mark.statistical
@pytest.mark.parametrize(("clients", "variance", "odds"), ODDS)
@pytest.mark.parametrize("margins", [(0.5, 0.5), (0.3, 0.2)])
def test_intervals_of_odds_ratios_cover(clients, variance, odds, margins):
    """At least .93 of those that are told; each fails in 1e-4 of the seeds."""
    rng, law, told = np.random.default_rng(2), law_of(odds, *margins), []
    for _ in range(1000):
        found = noisy(rng, law, clients, variance).odds_ratio()
        told += [] if found is None else [found.lower <= odds <= found.upper]
    assert len(told) > 50
    assert at_least(sum(told), len(told))


def test_an_odds_ratio_without_noise_is_near_that_of_scipy():
    counts = [[120, 240], [75, 310]]
    found = table_of(counts).odds_ratio(0.9)
    oracle = odds_ratio(counts, kind="sample")
    low, high = oracle.confidence_interval(0.9)
    assert found.value == pytest.approx(oracle.statistic)
    assert (found.lower, found.upper) == pytest.approx((low, high), rel=0.05)


def test_odds_ratios_that_noise_hides_are_not_told():
    assert table_of([[900, 60], [800, 4]], 30.0).odds_ratio() is not None
    assert table_of([[900, 4], [3, 2]]).odds_ratio() is None  # less than 5 people expected
    assert table_of([[500, 6], [8, 500]], 400.0).odds_ratio() is None  # no end above
    assert table_of([[50, 12], [20, 50]], 400.0).odds_ratio() is None  # the noise hides the table
    assert table_of([[500, 120, 30], [20, 500, 100]]).odds_ratio() is None


def test_an_odds_ratio_over_a_count_below_zero_is_not_told():
    """Though it is many standard errors below: nobody is in the cell, and no end above can be told."""
    found = interval_of_odds(np.array([[500.0, -50.0], [40.0, 500.0]]), np.eye(4), 0.95)
    assert np.isnan([found.value, found.lower, found.upper]).all()


def test_cramers_v_is_the_known_one_less_chance():
    """Without noise and with many people as SciPy's; of independent variables 0 in half of the runs, and small.

    The last fails in 1e-5 of the seeds: V^2 has a mean of 0, and the mean of what is cut at 0 is known.
    """
    counts = np.array([[5200, 2400, 1000], [3000, 3600, 2200]])
    departure = Departure.of(counts.astype(float), np.zeros((6, 6)))
    assert departure.cramers_v(counts) == pytest.approx(association(counts, method="cramer"), rel=1e-2)
    rng, law = np.random.default_rng(3), np.outer([0.4, 0.6], [0.5, 0.3, 0.2])
    found = []
    for _ in range(400):
        table = noisy(rng, law, 2000, 225.0)
        found.append(table.departure().cramers_v(table.counts))
    assert 0.4 < np.mean(np.array(found) == 0) < 0.8
    assert np.max(found) < 0.12


def test_a_result_says_how_the_variables_depend_on_each_other():
    result = table_of([[700, 200], [300, 400]], 50.0).result(0.9)
    data = result.data
    assert data["confidence_level"] == 0.9
    assert data["share_intervals"]["lower"]["r0"]["c0"] < 7 / 9 < data["share_intervals"]["upper"]["r0"]["c0"]
    assert data["odds_ratio"]["estimate"] == pytest.approx(14 / 3, rel=1e-3)
    assert data["departure"]["r0"]["c0"] > 5
    assert 0.3 < data["cramers_v"] < 0.45
    assert any(note.startswith("Odds of column = c0 rather than c1, where row = r0") for note in result.notes)
    assert [table.title for table in result.tables][-1] == "row by column: more or fewer than if independent"
    drawn = str(draw(result.plots["departure"]()).svg)
    assert "r0, c0" in drawn
    faint = table_of([[350, 350], [300, 310]], 50.0).result()
    assert "No cell is beyond 2 standard errors" in str(draw(faint.plots["departure"]()).svg)
    hidden = table_of([[12, 10], [9, 11]], 400.0).result()
    assert (hidden.data["departure"], hidden.data["cramers_v"], hidden.data["odds_ratio"]) == (None, None, None)
    assert not hidden.plots
    assert isinstance(table_of([[700, 200], [300, 400]]).independence(), Independence)


@pytest.mark.parametrize("ask", [lambda table: table.result(1.5), lambda table: table.odds_ratio(1.5)])
def test_levels_that_are_none_are_refused(ask):
    with rejects("level", given="1.5"):
        ask(table_of([[700, 200], [300, 400]]))
