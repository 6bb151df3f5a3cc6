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
from dpmpc.app.render.page import layout
from dpmpc.app.render.plots import _at_risk, draw
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.survival.curves import (
    Curve,
    LogRank,
    least_statistic,
    log_rank,
    order_of_scores,
    score_law,
)
from dpmpc.models.survival.survival_cells import SurvivalCells, observed, survival_contribution, survival_schema
from dpmpc.release.results import NumberTable
from dpmpc.release.results.plot_data import Steps
from support.rejections import rejects

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
    """1,000 releases of populations with one hazard: rejected in 29 to 77 of them; by chance outside in 10^-4.

    Exits are where cells end, so that there is no order to allow for.
    """
    rng, rejected = np.random.default_rng(5), 0
    for run in range(1000):
        frame = people(2000, seed=1000 + run)
        sums = sums_of(frame.assign(t=np.where(frame.died == "n", 2 * np.ceil(frame.t / 2), frame.t)))
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
    with rejects("logrank"):
        model.logrank()
    with rejects("t"):
        model.restricted_mean(41)
    with rejects("group", expected="one of none"):
        model.median("a")


def of_frame(frame, noise=0.0):
    sums = sums_of(frame)
    cells = cells_of(sums + np.random.default_rng(8).normal(0, noise, len(sums)), len(frame), noise**2)
    return KaplanMeier(by="arm").read_cells(cells)


def test_an_arm_that_nobody_is_in_is_named():
    found = of_frame(people(2000, seed=9).assign(arm="a")).result()
    assert found.warnings == ["Too few people to show a curve: b."]
    assert found.data["curves"]["b"] == []
    assert found.data["not_tested"] == "1 of 2 groups with enough people at risk, two expected"
    noisy = of_frame(people(2000, seed=9).assign(arm="a"), noise=20.0).result()
    assert noisy.warnings == found.warnings


@pytest.mark.parametrize("noise", [0.0, 10.0])
def test_people_without_an_event_have_no_test(noise):
    found = of_frame(people(3000, seed=10).assign(died="n"), noise)
    assert "too few events to distinguish from none" in found.logrank()
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
        assert "where the curve ends" in str(draw(plot()).svg)


def test_too_few_people_are_a_verdict():
    found = of_frame(people(40, seed=12), noise=30.0).result()
    assert "The noise hides all curves" in found.verdict
    assert found.plots == {}


@pytest.mark.parametrize(
    ("variables", "names", "argument"),
    [
        ((TIME, DIED), ("t", "dead"), "event"),
        ((TIME, DIED), ("months", "died"), "time"),
        ((TIME, ARM), ("t", "arm"), "event"),
        ((TIME, DIED), ("t", "t"), "time, event, features"),
        ((DIED, ARM), ("arm", "died"), "time"),
        ((Variable("t", -1, 5), DIED), ("t", "died"), "time"),
        (
            (Variable("t", 0, 5, cells=512), DIED),
            ("t", "died"),
            "time",
        ),
        ((TIME, DIED, Variable("age", 0, 90)), ("t", "died", ["age"]), "features"),
    ],
)
def test_columns_that_cannot_be_read_are_refused(variables, names, argument):
    with rejects(argument):
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
    with rejects("bounds", given="none"):
        KaplanMeier(time="t", event="died").fit(frame)
    with rejects("groups"):
        KaplanMeier(bounds=(0, 40)).fit(frame.t, frame.died == "y", frame.arm)
    with rejects("bounds"):
        KaplanMeier(bounds=(0, 40), by="arm").fit(frame.t, frame.died == "y", frame.arm)
    with rejects("time, event", given="shapes [(100,), (2,)]"):
        KaplanMeier(bounds=(0, 40)).fit(frame.t, [1, 0])
    with rejects("X: column 'event', row 1", expected="one of 1, 1.0, true, 0, 0.0, false"):
        KaplanMeier(bounds=(0, 40)).fit(frame.t, np.full(100, 2))
    with rejects("until"):
        KaplanMeier(bounds=(0, 40), until=99, **QUIET).fit(frame.t, frame.died == "y")


def followed(count, seed, follow_up=12.0):
    """Return people of one hazard of whom arm b leaves when its follow-up ends, and arm a later."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, count)
    event, left = rng.exponential(25, count), np.where(arm, follow_up, rng.uniform(follow_up, 60, count))
    died = np.where(event <= left, "y", "n")
    return pd.DataFrame({"t": np.minimum(event, left), "arm": np.array(ARMS)[arm], "died": died})


def test_who_leaves_where_a_cell_ends_is_at_risk_until_there():
    """Without noise and censoring before, survival at the end of follow-up is a share of people, and told exactly."""
    frame = followed(2000, seed=21)
    curve = of_frame(frame).curves_["b"]
    assert curve.times[-1] == 12.0
    own = frame[frame.arm == "b"]
    assert curve.survival[-1] == pytest.approx((own.died == "n").mean(), abs=1e-9)
    low, high = curve.pointwise(0.95)
    reach = 1.96 * np.sqrt((own.died == "y").mean() / (own.died == "n").sum())
    assert low[-1] == pytest.approx(
        curve.survival[-1] * np.exp(-reach), rel=1e-4
    )  # Greenwood's, and nothing for an order
    assert high[-1] == pytest.approx(curve.survival[-1] * np.exp(reach), rel=1e-4)


def test_edges_that_binary_fractions_miss_are_edges():
    given = Schema.of_codebook(Codebook((Variable("t", 0, 1, cells=10), DIED)))
    public = survival_schema(given, "t", "died")
    (grid,) = survival_contribution(public).grids
    frame = pd.DataFrame({"t": [number / 10 for number in range(1, 11)], "died": ["n"] * 10})
    cells = grid.cell_of(public.normalise(observed(public, frame).values))
    assert cells.tolist() == list(range(1, 20, 2))


def within_cells(frame, seed, exits):
    """Move people to other times of the same cells: events evenly, exits to where in the cell `exits` says."""
    rng = np.random.default_rng(seed)
    begins = 2 * (np.ceil(frame.t / 2) - 1)
    part = np.where(frame.died == "y", rng.uniform(0.01, 0.99, len(frame)), exits(rng, frame))
    return frame.assign(t=begins + 2 * part)


ORDERS = {
    "first": lambda rng, frame: np.full(len(frame), 0.001),
    "last": lambda rng, frame: np.full(len(frame), 0.999),
    "a first, b last": lambda rng, frame: np.where(frame.arm == "a", 0.001, 0.999),
    "anywhere": lambda rng, frame: rng.uniform(0.001, 0.999, len(frame)),
}


@pytest.mark.parametrize("order", ORDERS)
def test_curves_and_means_of_exact_times_lie_between_those_of_the_extreme_orders(order):
    """Cells are the same in each order, so that their bounds hold for all: the product over single times is exact."""
    frame = people(1500, seed=22)
    frame = frame[frame.t < 40]
    moved = within_cells(frame, 23, ORDERS[order])
    found = of_frame(moved)
    assert np.allclose(found.cells_.estimates.counts[0], of_frame(frame).cells_.estimates.counts[0])
    for arm in ARMS:
        own = moved[moved.arm == arm].sort_values("t")
        died = (own.died == "y").to_numpy()
        at_risk = np.arange(len(own), 0, -1)
        exact = np.cumsum(np.where(died, np.log1p(-1 / np.maximum(at_risk, 1.5)), 0.0))
        curve = found.curves_[arm]
        last = np.searchsorted(own.t.to_numpy(), curve.times, side="right") - 1
        log_survival = np.where(last >= 0, exact[last], 0.0)
        assert np.all(curve.lowest.log_survival <= log_survival + 1e-12)
        assert np.all(log_survival <= curve.highest.log_survival + 1e-12)
        if order == "first":
            assert curve.lowest.log_survival == pytest.approx(log_survival, abs=1e-9)
        knots = np.concatenate([[0.0], own.t.to_numpy()])
        area = (np.diff(np.minimum(knots, 30.0)) * np.exp(np.concatenate([[0.0], exact[:-1]]))).sum()
        assert curve.lowest.restricted_mean(30.0)[0] <= area <= curve.highest.restricted_mean(30.0)[0]


def exact_scores(frame, end):
    """Return sums of d_a - D p_a over single times, those of events of one cell at its middle."""
    t = np.where(frame.died == "y", 2 * np.ceil(frame.t / 2) - 1, frame.t)
    score = 0.0
    for time in np.unique(t[(frame.died == "y") & (frame.t <= end)]):
        events, at_risk = (t == time) & (frame.died == "y"), t >= time
        score += (events & (frame.arm == "b")).sum() - events.sum() * (
            at_risk & (frame.arm == "b")
        ).sum() / at_risk.sum()
    return score


@pytest.mark.parametrize("order", ORDERS)
def test_log_rank_scores_of_exact_times_are_within_what_the_order_can_change(order):
    frame = within_cells(people(1500, seed=24), 25, ORDERS[order])
    cells = of_frame(frame).cells_
    members = list(cells.members(["arm"]).values())
    end = min(cells.ends(own) for own in members)
    (score,), _, _ = score_law(cells, members, end)
    moved = order_of_scores(cells, members, end)
    assert moved[0] == pytest.approx(moved[1])
    off = exact_scores(frame, cells.times[end - 1]) - score
    assert abs(off) <= moved[1] + 1e-9
    if order == "a first, b last":
        assert abs(off) > 0.8 * moved[1]


def test_the_least_statistic_is_that_of_the_nearest_score():
    rng = np.random.default_rng(26)
    root = rng.normal(size=(3, 3))
    covariance, score, moved = root @ root.T, rng.normal(size=3) * 4, np.array([0.5, 1.0, 0.2])
    found = least_statistic(score, covariance, moved)
    tried = score - moved * rng.uniform(-1, 1, (20_000, 3))
    values = np.einsum("ki,ij,kj->k", tried, np.linalg.inv(covariance), tried)
    assert values.min() * 0.9 <= found <= values.min()
    assert least_statistic(np.array([3.0]), np.array([[4.0]]), np.array([1.0])) == pytest.approx(1.0)
    assert least_statistic(np.array([0.5]), np.array([[4.0]]), np.array([1.0])) == pytest.approx(0.0, abs=1e-9)


def test_groups_that_leave_in_other_parts_of_cells_are_not_told_apart():
    """300 releases of one hazard, exits of a in the first hours of cells of two months and of b in the last ones.

    Rejected in at most 31: more in 10^-4 of the runs of this test, were the size all of .05. The halfway order
    alone, as an estimate takes it, rejects more often than that.
    """
    rng, rejected, halfway = np.random.default_rng(27), 0, 0
    for _ in range(300):
        arm = rng.integers(0, 2, 4000)
        event, left = rng.exponential(25, 4000), 2 * rng.integers(1, 15, 4000) + np.where(arm, 1.998, 0.002)
        died = np.where(event <= left, "y", "n")
        sums = sums_of(pd.DataFrame({"t": np.minimum(event, left), "arm": np.array(ARMS)[arm], "died": died}))
        cells = cells_of(sums + rng.normal(0, 4.0, len(sums)), 4000, 16.0)
        members = {label[0]: own for label, own in cells.members(["arm"]).items()}
        tested = log_rank(cells, members)
        rejected += isinstance(tested, LogRank) and tested.p_value < 0.05
        (score,), sampling, noise = score_law(cells, list(members.values()), 10)
        halfway += score**2 / (sampling + noise)[0, 0] > stats.chi2.ppf(0.95, 1)
    most = stats.binom.ppf(1 - 1e-4, 300, 0.05)
    assert rejected <= most < halfway


def test_what_is_the_orders_more_than_the_datas_is_withheld_and_the_remedy_said():
    """Most of one arm leaves within one of three cells; and a falling hazard in cells as wide as the follow-up."""
    rng = np.random.default_rng(28)
    count, arm = 20_000, rng.integers(0, 2, 20_000)
    event, left = 40 * rng.weibull(0.5, count), np.where(arm, rng.uniform(1, 20, count), rng.uniform(5, 60, count))
    frame = pd.DataFrame(
        {"t": np.minimum(event, left), "arm": np.array(ARMS)[arm], "died": np.where(event <= left, "y", "n")}
    )
    options = {"time": "t", "event": "died", "by": "arm", **QUIET, "delta": 1e-5}
    wide, narrow = (
        KaplanMeier(bounds=Schema.of_codebook(Codebook((Variable("t", 0, 40, cells=cells), ARM, DIED))), **options)
        for cells in (3, 240)
    )
    found, told = wide.fit(frame).result(), narrow.fit(frame).result()
    assert (
        "the order within cells could move it by more than a standard error: narrower cells" in found.data["not_tested"]
    )
    assert any("No restricted mean of a" in one and "narrower cells of the time" in one for one in found.warnings)
    assert found.data["people"]["a"]["restricted mean"] is None
    assert all(math.isnan(one) for one in wide.restricted_mean(13, "a"))
    assert told.data["not_tested"] is None
    assert told.data["people"]["a"]["restricted mean"] is not None
    assert not told.warnings
    assert any("Events at a time come before exits at that time" in note for note in told.notes)


SHORT = [Setting(2_000, 1.0), Setting(2_000, 3.0, parties=3, share=0.1)]
LONG = [Setting(500, 3.0), Setting(2_000, 1.0, parties=3), Setting(10_000, 1.0), Setting(10_000, 1.0, parties=3)]


def check_coverage(setting, runs):
    """Fail where a share is beyond the 10^-6 quantile of so many runs at .94 (sizes: .055), one by one.

    Restricted means are withheld where the order within cells could move them by more than a standard error.
    """
    found = measure(setting, runs, seed=31)
    for name in ("pointwise", "band", "median", "mean"):
        given = found["given"][name]
        assert given >= (0.7 if name == "mean" else 0.9) * runs
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
    """At least .65 is promised of one party's noise: fails below the 10^-6 quantile of as much."""
    assert check_coverage(SHORT[0], 1000)["shares"]["power"] >= stats.binom.ppf(1e-6, 1000, 0.65) / 1000
