"""Curves and log-rank tests from exact cells against lifelines: the same numbers where no noise is added.

With a step every time is a cell of its own, and nothing is left to choose. In cells of some width whoever leaves counts
for half of it, which lifelines does with two half people.
"""

import numpy as np
import pandas as pd
import pytest

from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.survival.kaplan_meier import KaplanMeier
from dpmpc.models.survival.survival_cells import SurvivalCells, observed, survival_contribution, survival_schema

lifelines = pytest.importorskip("lifelines", reason="lifelines is not installed")
statistics = pytest.importorskip("lifelines.statistics")

ARMS = ("a", "b", "c")
LAST = 36


def people(count, seed, arms=ARMS):
    """Return times, whether the event happened, and arms: hazards that rise, and censoring at any time."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, len(arms), count)
    event, left = rng.weibull(1.2, count) * 30 * np.exp(-0.2 * arm), rng.uniform(5, 60, count)
    return np.minimum(event, left), event <= left, np.array(arms)[arm]


def exact(times, died, arms, **cells):
    """Return the reading of exact cells of these people."""
    values = sorted(set(arms))
    book = Codebook((Variable("t", 0, LAST, **cells), Variable("arm", values=values), Variable("died", 0, 1)))
    public = survival_schema(Schema.of_codebook(book), "t", "died", ["arm"])
    contribution = survival_contribution(public)
    table = observed(public, pd.DataFrame({"t": times, "arm": arms, "died": died.astype(int)}))
    sums = contribution.encode(public.normalise(table.values), FixedPoint(10)).sum(axis=0) / 2.0**10
    (variable, groups), *_ = contribution.counted(public)
    estimates = CellEstimates(contribution, sums, 0.0, len(times))
    return KaplanMeier(by="arm").read_cells(SurvivalCells(estimates, 0, variable, groups, groups[-1]))


def until_the_last(times, died):
    """Return people as they are observed until the upper bound: who has the event later has none."""
    return np.minimum(times, LAST + 0.5), died & (times <= LAST)


def test_a_step_gives_the_curves_of_lifelines():
    times, died, arms = people(900, seed=1)
    times = np.ceil(times)
    found = exact(times, died, arms, step=1)
    seen, events = until_the_last(times, died)
    for arm in ARMS:
        own, curve = arms == arm, found.curves_[arm]
        fitted = lifelines.KaplanMeierFitter().fit(seen[own], events[own])
        assert curve.end == LAST + 1
        assert curve.survival == pytest.approx(fitted.survival_function_at_times(curve.times).to_numpy(), abs=1e-12)
        greenwood = fitted._cumulative_sq_.reindex(curve.times).ffill().to_numpy()
        lower, upper = curve.pointwise(0.95)
        reach = 1.959963984540054 * np.sqrt(greenwood)
        assert lower == pytest.approx(curve.survival * np.exp(-reach), abs=1e-9)
        assert upper == pytest.approx(np.minimum(curve.survival * np.exp(reach), 1.0), abs=1e-9)
        assert found.median_survival_time_[arm] == fitted.median_survival_time_
        for until in (0.5, 7.0, 12.25, 36.0):
            mean = lifelines.utils.restricted_mean_survival_time(fitted, t=until)
            assert found.restricted_mean(until, arm).value == pytest.approx(mean, rel=1e-12)


def test_events_beyond_the_upper_bound_are_not_at_the_upper_bound():
    times = np.concatenate([np.full(50, 36.0), np.full(50, 40.0)])
    found = exact(times, np.ones(100, np.bool_), np.array(["a", "b"] * 50), step=1)
    assert found.curves_["a"].survival[-2:] == pytest.approx([1.0, 0.5])


def test_cells_of_some_width_give_the_curve_of_half_people():
    """And restricted means are linear within a cell: areas of trapezoids under lifelines' curve."""
    times, died, arms = people(900, seed=2)
    found = exact(times, died, arms, cells=18)
    width = LAST / 18
    ends = np.minimum(np.ceil(times / width), 19) * width
    events = died & (ends <= LAST)
    for arm in ARMS:
        own, curve = arms == arm, found.curves_[arm]
        halves = pd.DataFrame({"t": ends[own], "died": events[own], "weight": 1.0})
        gone = halves[~halves.died].assign(weight=0.5)
        both = pd.concat([halves[halves.died], gone, gone.assign(t=gone.t - width / 2)])
        with pytest.warns(lifelines.exceptions.StatisticalWarning):  # of weights that are not whole
            fitted = lifelines.KaplanMeierFitter().fit(both.t, both.died, weights=both.weight)
        told = fitted.survival_function_at_times(curve.times).to_numpy()
        assert curve.survival == pytest.approx(told, abs=1e-12)
        knots = np.concatenate([[1.0], told])
        area = width * (knots[:-1] + knots[1:]).sum() / 2
        assert found.restricted_mean(curve.times[-1], arm).value == pytest.approx(area, rel=1e-12)


@pytest.mark.parametrize("arms", [ARMS[:2], ARMS])
def test_log_rank_is_that_of_lifelines(arms):
    times, died, own = people(700, seed=3, arms=arms)
    times = np.ceil(times)
    found = exact(times, died, own, step=1).logrank()
    seen, events = until_the_last(times, died)
    oracle = statistics.multivariate_logrank_test(seen, own, events)
    assert found.statistic == pytest.approx(oracle.test_statistic, rel=1e-10)
    assert found.p_value == pytest.approx(oracle.p_value, rel=1e-8)
    assert (found.degrees, found.groups, found.until) == (len(arms) - 1, arms, LAST)
    if len(arms) == 2:
        pair = [(seen[own == arm], events[own == arm]) for arm in arms]
        two = statistics.logrank_test(pair[0][0], pair[1][0], pair[0][1], pair[1][1])
        assert found.statistic == pytest.approx(two.test_statistic, rel=1e-10)


def test_gbsg2_is_that_of_lifelines():
    """The trial of the German Breast Cancer Study Group, days in 36 steps of 75."""
    table = pytest.importorskip("lifelines.datasets").load_gbsg2()
    times = np.ceil(table.time.to_numpy() / 75)
    found = exact(times, table.cens.to_numpy() == 1, table.horTh.to_numpy(), step=1).logrank()
    seen, events = until_the_last(times, table.cens.to_numpy() == 1)
    oracle = statistics.multivariate_logrank_test(seen, table.horTh.to_numpy(), events)
    # it ends where an arm has one person left, at which hardly an event is lost
    assert found.statistic == pytest.approx(oracle.test_statistic, rel=0.02)
