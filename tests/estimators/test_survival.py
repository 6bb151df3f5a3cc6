"""Survival curves from cells: gradients against differences, errors against simulated noise, and bad input.

Statistical tests have a fixed seed; each says how often it would fail if all were well.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench.system.survival_coverage import Setting, measure
from dpmpc import KaplanMeier
from dpmpc.data import Codebook, Schema, Variable
from dpmpc.encoding import FixedPoint
from dpmpc.errors import InputError
from dpmpc.estimators.cell_estimates import CellEstimates
from dpmpc.estimators.kaplan_meier_fit import Curve, KaplanMeierFit, LogRank, log_rank
from dpmpc.estimators.survival_cells import SurvivalCells, observed, survival_contribution, survival_schema
from dpmpc.results import NumberTable
from dpmpc.results.page import layout
from dpmpc.results.plots import Steps, _at_risk

ARMS = ("a", "b")
TIME = Variable("t", 0, 40, cells=20)
ARM = Variable("arm", values=ARMS)
DIED = Variable("died", yes=("y",), no=("n",))
GIVEN = Schema.of_codebook(Codebook((TIME, ARM, DIED)))
PUBLIC = survival_schema(GIVEN, "t", "died", ["arm"])
COUNTED = survival_contribution(PUBLIC)
QUIET = {"epsilon": 1e5, "delta": 1e-4, "servers": 2, "simulation_seed": 1}


def people(count, seed, ratio=1.0):
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, count)
    event, left = rng.exponential(25 / np.where(arm, ratio, 1.0)), rng.uniform(5, 60, count)
    died = np.where(event <= left, "y", "n")
    return pd.DataFrame({"t": np.minimum(event, left), "arm": np.array(ARMS)[arm], "died": died})


def sums_of(frame):
    table = observed(PUBLIC, frame)
    return COUNTED.encode(PUBLIC.normalise(table.values), FixedPoint(10)).sum(axis=0) / 2.0**10


def cells_of(sums, count, variance=0.0):
    (time, groups), *_ = COUNTED.counted(PUBLIC)
    return SurvivalCells(CellEstimates(COUNTED, sums, variance, count), 0, time, groups, groups[-1])


def moved(cells, direction):
    """Return cells whose counts are moved, beside what one least squares makes of them."""
    found = CellEstimates(COUNTED, np.zeros(COUNTED.width(len(PUBLIC))), 0.0, cells.estimates.people)
    found.counts = [cells.estimates.counts[0] + direction]
    return SurvivalCells(found, 0, cells.time, cells.groups, cells.event)


def test_gradients_are_those_of_differences():
    """Of the curve, its restricted mean; of the log-rank score where both arms have one hazard, as its law has it."""
    cells = cells_of(sums_of(people(4000, seed=1)), 4000)
    own = cells.members(["arm"])[("a",)]
    curve, rng = Curve(cells, own), np.random.default_rng(2)
    direction = rng.normal(size=cells.estimates.counts[0].shape)
    ahead, behind = (Curve(moved(cells, sign * 1e-4 * direction), own) for sign in (1, -1))
    slope = (ahead.log_survival - behind.log_survival) / 2e-4
    assert np.tensordot(curve.gradients, direction, 2) == pytest.approx(slope, rel=1e-5, abs=1e-9)
    assert curve.restricted_mean(33.0)[0] > 0
    by_mean = (ahead.restricted_mean(33.0)[0] - behind.restricted_mean(33.0)[0]) / 2e-4
    shares = [np.exp(curve.log_survival[:, None, None]) * curve.gradients]
    weights = np.concatenate([np.full(15, 2.0), [1.0 + 1.0 - 0.25, 0.25]])  # trapezoids of 2, the last one half
    assert np.tensordot(weights, np.tensordot(shares[0], direction, 2)[:17], 1) == pytest.approx(by_mean, rel=1e-5)


def test_errors_of_noise_are_those_of_simulated_releases():
    """Log survival and the log-rank score, 1,500 releases: variances within 18 %, five standard errors: 10^-6."""
    sums, count, sd = sums_of(people(20_000, seed=3)), 20_000, 10.0
    rng = np.random.default_rng(4)
    exact = cells_of(sums, count)
    own = exact.members(["arm"])[("b",)]
    places = [3, 10, 18]
    found = []
    for _ in range(1500):
        noisy = cells_of(sums + rng.normal(0, sd, len(sums)), count, sd**2)
        found.append(Curve(noisy, own).log_survival[places])
    curve = Curve(cells_of(sums, count, sd**2), own)
    expected = np.diag(curve.cells.estimates.noise_covariance(0, curve.gradients))[places]
    assert np.var(found, axis=0) == pytest.approx(expected, rel=0.18)


def test_the_log_rank_statistic_has_its_law_under_noise():
    """1,000 releases of populations with one hazard: rejected in 29 to 77 of them; by chance outside in 10^-4."""
    rng, rejected = np.random.default_rng(5), 0
    for run in range(1000):
        sums = sums_of(people(2000, seed=1000 + run))
        cells = cells_of(sums + rng.normal(0, 8.0, len(sums)), 2000, 64.0)
        tested = log_rank(cells, {label[0]: own for label, own in cells.members(["arm"]).items()})
        assert isinstance(tested, LogRank)
        rejected += tested.p_value < 0.05
    assert 29 <= rejected <= 77


def test_arrays_and_data_frames_give_one_release():
    frame = people(3000, seed=6, ratio=1.5)
    given = {"time": "t", "event": "died", "by": "arm", "bounds": GIVEN, **QUIET}
    one, other = (
        KaplanMeier(**given).fit(frame),
        KaplanMeier(**given).fit(frame.t, frame.died, frame.arm),
    )
    assert one.result().data == other.result().data
    assert one.groups_ == ARMS
    assert list(one.survival_function_.columns) == ["a", "b"]
    assert list(one.confidence_interval_.columns) == ["a lower", "a upper", "b lower", "b upper"]
    tested = one.logrank()
    assert tested.p_value < 1e-6
    assert one.median_survival_time_["a"] > one.median_survival_time_["b"]
    value, lower, upper = one.restricted_mean(30, "b")
    assert lower < value < upper


def test_a_pair_of_bounds_is_that_of_times():
    frame = people(3000, seed=7)
    model = KaplanMeier(bounds=(0, 40), **QUIET).fit(frame.t, frame.died == "y")
    assert model.median_survival_time_ == pytest.approx(25 * math.log(2), abs=2)
    assert model.curves_["all"].end == 128
    with pytest.raises(InputError, match="logrank: called without groups"):
        model.logrank()
    with pytest.raises(InputError, match="t: 41 given, at most 40 and more than 0 expected"):
        model.restricted_mean(41)
    with pytest.raises(InputError, match="group: 'a' given, one of none expected"):
        model.median("a")


def of_frame(frame, noise=0.0):
    sums = sums_of(frame)
    cells = cells_of(sums + np.random.default_rng(8).normal(0, noise, len(sums)), len(frame), noise**2)
    return KaplanMeierFit(by="arm").read(cells)


def test_an_arm_that_nobody_is_in_is_named():
    found = of_frame(people(2000, seed=9).assign(arm="a")).result()
    assert found.warnings == ["Too few people to tell a curve: b."]
    assert found.data["curves"]["b"] == []
    assert found.data["not_tested"] == "1 of 2 groups with enough people at risk, two expected"
    noisy = of_frame(people(2000, seed=9).assign(arm="a"), noise=20.0).result()
    assert noisy.warnings == found.warnings


@pytest.mark.parametrize("noise", [0.0, 10.0])
def test_people_without_an_event_have_no_test(noise):
    found = of_frame(people(3000, seed=10).assign(died="n"), noise)
    assert "too few events to tell from none" in found.logrank()
    assert found.median("a").upper == math.inf
    assert found.result().data["people"]["a"]["to"] is None


def test_a_band_holds_that_nobody_has_the_event_where_nobody_has():
    """300 releases: at 95 % less than 273 cover in 1 of 1,000 runs of this test."""
    frame = people(2000, seed=6).assign(died="n")
    sums, rng, variance = sums_of(frame), np.random.default_rng(7), 10.0**2
    covered = 0
    for _ in range(300):
        cells = cells_of(sums + rng.normal(0, 10.0, len(sums)), 2000, variance)
        curve = Curve(cells, cells.members([])[()])
        covered += bool(np.all(curve.band(0.95)[1] == 1.0))
    assert covered >= 273


def test_people_with_one_time_end_the_curve_behind_it():
    found = of_frame(people(3000, seed=11).assign(t=21.0))
    curve = found.curves_["a"]
    assert curve.times[-1] == 22.0
    assert curve.survival[:-1] == pytest.approx(np.ones(curve.end - 1))
    assert curve.survival[-1] < 0.9
    assert found.result().verdict is None


def test_beyond_the_end_of_a_curve_the_page_tells_nothing():
    """Neither people at risk nor an upper end of the median; within it, people at risk are rounded to the noise."""
    found = of_frame(people(700, seed=11), noise=9.0)
    curve = found.curves_["a"]
    assert curve.times[-1] < 40
    drawn = Steps("a", [10.0, 20.0], [0.8, 0.6], [[0.7, 0.5], [0.9, 0.7]], [312.0, 208.0, 104.0], 22.0)
    assert [_at_risk(drawn, mark) for mark in (0, 10, 19.9, 20, 30)] == ["310", "210", "210", "100", "–"]
    table = NumberTable("t", {"from": [23.0], "to": [math.inf]}, ["a"], intervals={"interval": ("from", "to")})
    assert [part.text for part in layout(table).rows[0][1][0]] == ["23", "or more"]
    for plot in found.result().plots.values():
        assert "where the curve ends" in str(plot().svg)


def test_too_few_people_are_a_verdict():
    found = of_frame(people(40, seed=12), noise=30.0).result()
    assert "The noise hides all curves" in found.verdict
    assert found.plots == {}


@pytest.mark.parametrize(
    ("variables", "names", "message"),
    [
        ((TIME, DIED), ("t", "dead"), r"event: 'dead' given, a column of the bounds expected; there are t, died"),
        ((TIME, DIED), ("months", "died"), r"time: 'months' given, a column of the bounds expected"),
        ((TIME, ARM), ("t", "arm"), r"event: 'arm' given, a category, an answer expected: yes = \[...\]"),
        ((TIME, DIED), ("t", "t"), r"time, event, features: t, t given, different columns expected"),
        ((DIED, ARM), ("arm", "died"), r"time: 'arm' given, a category, a number expected"),
        ((Variable("t", -1, 5), DIED), ("t", "died"), r"time: 't' with the lower bound -1 given, 0 or more expected"),
        (
            (Variable("t", 0, 5, cells=512), DIED),
            ("t", "died"),
            r"time: 't' with 512 cells given, at most 511 expected",
        ),
        ((TIME, DIED, Variable("age", 0, 90)), ("t", "died", ["age"]), r"continuous features are not offered; cut it"),
    ],
)
def test_columns_that_cannot_be_read_are_refused(variables, names, message):
    with pytest.raises(InputError, match=message):
        survival_schema(Schema.of_codebook(Codebook(variables)), *names)


def test_a_further_cell_holds_later_times_for_every_kind_of_cells():
    kinds = [{"step": 2}, {"edges": (3.0, 10.0)}, {}, {"transform": "log", "cells": 4}]
    for fields in kinds:
        given = Schema.of_codebook(Codebook((Variable("t", 2, 32, **fields), DIED)))
        public = survival_schema(given, "t", "died")
        contribution = survival_contribution(public)
        (grid,) = contribution.grids
        frame = pd.DataFrame({"t": [32.0, 32.001, 1e9, 2.0], "died": ["y"] * 4})
        cells = grid.cell_of(public.normalise(observed(public, frame).values)).tolist()
        if "step" in fields:
            cells[1] = grid.cells - 1  # a value between two steps is in the nearer one's cell
        assert cells == [grid.cells - 2, grid.cells - 1, grid.cells - 1, 0]


def test_what_does_not_belong_together_is_refused():
    frame = people(100, seed=13)
    with pytest.raises(InputError, match="bounds: none given"):
        KaplanMeier(time="t", event="died").fit(frame)
    with pytest.raises(InputError, match="groups: given without `by`"):
        KaplanMeier(bounds=(0, 40)).fit(frame.t, frame.died == "y", frame.arm)
    with pytest.raises(InputError, match="a bounds file or a Schema expected, which lists the values"):
        KaplanMeier(bounds=(0, 40), by="arm").fit(frame.t, frame.died == "y", frame.arm)
    with pytest.raises(InputError, match=r"time, event: shapes .* given, one number for each person expected"):
        KaplanMeier(bounds=(0, 40)).fit(frame.t, [1, 0])
    with pytest.raises(InputError, match=r"column 'event', row 1: 2 given, .* expected"):
        KaplanMeier(bounds=(0, 40)).fit(frame.t, np.full(100, 2))
    with pytest.raises(InputError, match="until: 99 given, more than 0 and at most 40 expected"):
        KaplanMeier(bounds=(0, 40), until=99, **QUIET).fit(frame.t, frame.died == "y")


SHORT = [Setting(2_000, 1.0), Setting(2_000, 3.0, parties=3, share=0.1)]
LONG = [Setting(500, 3.0), Setting(2_000, 1.0, parties=3), Setting(10_000, 1.0), Setting(10_000, 1.0, parties=3)]


def check_coverage(setting, runs):
    """Fail where a share is beyond the 10^-6 quantile of so many runs at .94 (sizes: .055), one by one."""
    found = measure(setting, runs, seed=31)
    for name in ("pointwise", "band", "median", "mean"):
        given = found["given"][name]
        assert given >= 0.9 * runs
        assert found["shares"][name] >= stats.binom.ppf(1e-6, given, 0.94) / given
    given = found["given"]["size"]
    assert found["shares"]["size"] <= stats.binom.ppf(1 - 1e-6, given, 0.055) / given
    return found


@pytest.mark.parametrize("setting", SHORT)
def test_intervals_cover_and_tests_have_their_size_with_the_noise_that_parties_add(setting):
    """100 runs."""
    check_coverage(setting, 100)


@pytest.mark.long("coverage of survival curves in 1,000 runs of four settings")
@pytest.mark.parametrize("setting", LONG)
def test_intervals_cover_in_many_runs(setting):
    check_coverage(setting, 1000)


@pytest.mark.long("power of the log-rank test in 1,000 runs")
def test_power_at_two_thousand_people_and_epsilon_one():
    """At least .75 is promised of one party's noise: fails below the 10^-6 quantile of as much."""
    assert check_coverage(SHORT[0], 1000)["shares"]["power"] >= stats.binom.ppf(1e-6, 1000, 0.75) / 1000
