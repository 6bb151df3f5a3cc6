"""Composition of releases against privacy loss distributions and brute force; the ledger and its file."""

import errno
import functools
import itertools
import json
import math
import os
import random
import stat
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import mpmath
import msgspec
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from dpmpc import RidgeRegression
from dpmpc.base.errors import BudgetExceeded, GuaranteeError, InputError
from dpmpc.models.papers.coinpress import PrivateMean
from dpmpc.models.papers.mutual_information import AdditiveNoise
from dpmpc.owners.columns import RMGM
from dpmpc.privacy import BudgetLedger
from dpmpc.privacy.accountants import epsilon_of_renyi
from dpmpc.privacy.composition import Cost, composed_epsilon, epsilon_of_concentrated
from dpmpc.privacy.gaussian import delta_of_mu, epsilon_of_mu
from support.exact_gaussian import exact_delta
from support.rejections import rejects

INTERVAL = 1e-4  # of the privacy losses that dp-accounting rounds


@functools.cache
def gaussians(mus, *, pessimistic):
    """dp-accounting's distribution of the composition of Gaussian mechanisms."""
    parts = [
        privacy_loss_distribution.from_gaussian_mechanism(
            1 / mu,
            value_discretization_interval=INTERVAL,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        for mu in mus
    ]
    return functools.reduce(lambda one, other: one.compose(other), parts)


def true_delta(mu, pure, epsilon):
    """Delta of a Gaussian beside randomised responses, by enumeration of all responses."""
    total = 0.0
    for signs in itertools.product((1, -1), repeat=len(pure)):
        chance = math.prod(1 / (1 + math.exp(-sign * one)) for sign, one in zip(signs, pure, strict=True))
        rest = epsilon - math.fsum(sign * one for sign, one in zip(signs, pure, strict=True))
        total += chance * (delta_of_mu(mu, rest) if mu else max(0.0, -math.expm1(rest)))
    return total


# Composition


@pytest.mark.parametrize("mus", [(0.2,), (0.2, 0.3), (0.1,) * 20, (1.0, 2.0, 0.5)])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_gaussians_agree_with_dp_accounting(mus, delta):
    ours = composed_epsilon([Cost(mu=mu) for mu in mus], delta)
    assert ours == pytest.approx(gaussians(mus, pessimistic=True).get_epsilon_for_delta(delta), rel=1e-3)
    assert ours >= gaussians(mus, pessimistic=False).get_epsilon_for_delta(delta)
    assert ours == pytest.approx(epsilon_of_mu(math.sqrt(math.fsum(mu**2 for mu in mus)), delta), rel=1e-14)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("costs", "epsilon"),
    [
        ([Cost(mu=1e200)], math.inf),
        ([Cost(epsilon=1e308)] * 2, math.inf),
        ([Cost(rho=1e308)] * 2, math.inf),
        ([Cost(mu=1, slack=1e308)] * 2, math.inf),
        ([Cost(mu=1, epsilon=1e300)] * 2, 2e300),
        ([Cost(rho=1, epsilon=1e300)], 1e300),
        ([Cost(rho=5e-324)], 0.0),
        ([Cost(epsilon=5e-324)] * 2, 1e-323),
        ([Cost(mu=1e-200)], 0.0),
    ],
)
def test_the_ends_of_the_float_range_compose(costs, epsilon):
    found = composed_epsilon(costs, 1e-6)
    assert epsilon <= found <= epsilon * (1 + 1e-15)


@pytest.mark.parametrize("seed", range(4))
def test_gaussians_together_are_never_below_the_exact_epsilon(seed):
    """Of 400 lists of mu 64 were, by a relative 4.5e-15 of delta at most."""
    draw = random.Random(seed)
    for _ in range(100):
        mus = [10 ** draw.uniform(-3, 0.5) for _ in range(draw.randint(2, 12))]
        delta = 10 ** draw.uniform(-12, -3)
        found = composed_epsilon([Cost(mu=mu) for mu in mus], delta)
        assert exact_delta(mus, found) <= mpmath.mpf(delta) < exact_delta(mus, found * (1 - 1e-14))


@pytest.mark.parametrize("seed", range(10))
def test_other_costs_together_are_never_below_the_exact_sums(seed):
    """Pure epsilons without a delta, and slack, in fractions; zCDP at the order that was taken, in 60 digits."""
    draw = random.Random(seed)
    pure = [draw.uniform(0, 2) for _ in range(draw.randint(2, 12))]
    exact = sum(map(Fraction, pure))
    found = composed_epsilon([Cost(epsilon=one) for one in pure], 0.0)
    assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 2**52))
    rho, delta = 10 ** draw.uniform(-4, 1), 10 ** draw.uniform(-12, -3)
    found = epsilon_of_concentrated(rho, delta)
    with mpmath.workdps(60):
        near = mpmath.sqrt(-mpmath.log(delta) / rho)  # of alpha - 1
        best = mpmath.findroot(lambda less_one: mpmath.diff(lambda x: concentrated(rho, delta, x), less_one), near)
        assert concentrated(rho, delta, best) <= found <= concentrated(rho, delta, best) * (1 + mpmath.mpf("1e-9"))


def concentrated(rho, delta, less_one):
    alpha, rho, delta = 1 + less_one, mpmath.mpf(rho), mpmath.mpf(delta)
    return rho * alpha + mpmath.log(less_one / alpha) - mpmath.log(delta * alpha) / less_one


def test_ten_tenths_of_a_limit_are_within_it():
    ledger = BudgetLedger(1.0, 1e-6)
    for number in range(10):
        ledger.spend((0.1, 1e-7), f"release {number}")
    with pytest.raises(BudgetExceeded):
        ledger.spend((1e-9, 0.0), "one more")


def test_tiny_costs_are_not_free_without_a_delta():
    assert composed_epsilon([Cost(mu=1e-200)], 0.0) == math.inf


@pytest.mark.parametrize(
    ("mu", "pure"),
    [(0.0, [0.1] * 10), (0.0, [0.3, 0.01, 0.2, 0.05]), (0.4, [0.3]), (0.4, [0.1, 0.25]), (0.3, [0.05] * 8)],
)
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_mixed_costs_are_never_below_the_truth_and_close_to_it(mu, pure, delta):
    costs = [Cost(epsilon=one, delta=delta / 100) for one in pure] + ([Cost(mu=mu)] if mu else [])
    left = delta - math.fsum(cost.delta for cost in costs)
    truth = brentq(lambda epsilon: true_delta(mu, pure, epsilon) - left, 0, 50, xtol=1e-12)
    ours = composed_epsilon(costs, delta)
    assert truth * (1 - 1e-9) <= ours <= truth * (1 + 1e-3)


@pytest.mark.parametrize("delta", [0.1, 0.3])
def test_epsilons_far_below_a_step_of_the_grid_do_not_make_up_for_others(delta):
    large = [Cost(epsilon=1)] * 2
    assert composed_epsilon([*large, *[Cost(epsilon=1e-12)] * 1000], delta) >= composed_epsilon(large, delta)


def test_the_end_of_the_search_that_is_returned_is_proven():
    """Equal epsilons fall on the grid: delta = p^2 (1 - exp(E - 2 epsilon)) for two, p = 1/(1 + exp(-epsilon))."""
    for epsilon in (0.05, 0.3, 1.0):
        for delta in (1e-3, 1e-6):
            likely = 1 / (1 + math.exp(-epsilon))
            truth = 2 * epsilon + math.log1p(-delta / likely**2)
            assert truth * (1 - 1e-13) <= composed_epsilon([Cost(epsilon=epsilon)] * 2, delta) <= truth * (1 + 1e-8)


def test_many_small_epsilons_cost_less_than_advanced_composition():
    """Kairouz, Oh and Viswanath 2015, Theorem 3.5, itself no worse than Dwork, Rothblum and Vadhan 2010."""
    k, epsilon, delta = 100, 0.05, 1e-6
    squares = k * epsilon**2
    theirs = k * epsilon * math.tanh(epsilon / 2) + math.sqrt(2 * squares * math.log(1 / delta))
    ours = composed_epsilon([Cost(epsilon=epsilon)] * k, delta)
    assert 0.5 * theirs < ours < theirs < k * epsilon


@given(st.lists(st.floats(0.01, 2), min_size=1, max_size=6), st.floats(1e-9, 1e-3))
@settings(max_examples=8, deadline=None)
def test_composition_lies_between_the_largest_and_the_sum(pure, delta):
    costs = [Cost(epsilon=one, delta=delta / 10) for one in pure]
    together = composed_epsilon(costs, delta)
    assert together <= math.fsum(pure) * (1 + 1e-15)
    assert together >= composed_epsilon(costs[:-1], delta) * (1 - 1e-3)


def test_concentrated_costs_add_up():
    delta = 1e-6
    tight = composed_epsilon([Cost(mu=math.sqrt(0.2))], delta)
    alone = composed_epsilon([Cost(rho=0.03), Cost(rho=0.07)], delta)
    assert tight < alone < 1.1 * tight
    assert alone == pytest.approx(epsilon_of_renyi(lambda order: 0.1 * order, delta), rel=1e-2)
    assert alone <= epsilon_of_renyi(lambda order: 0.1 * order, delta)
    beside_gaussian = composed_epsilon([Cost(rho=0.05), Cost(mu=math.sqrt(0.1))], delta)
    assert beside_gaussian == pytest.approx(alone, rel=1e-9)
    beside_pure = composed_epsilon([Cost(rho=0.1), Cost(epsilon=0.01, delta=1e-8)], delta)
    left = delta - 1e-8
    assert beside_pure == min(
        epsilon_of_concentrated(0.1, left) + 0.01, epsilon_of_concentrated(0.1 + 0.01**2 / 2, left)
    )


def test_slack_is_paid_twice_and_from_delta():
    cost = Cost(mu=0.3, slack=0.01)
    both = composed_epsilon([cost, cost], 1e-5)
    assert both == pytest.approx(epsilon_of_mu(0.3 * math.sqrt(2), 1e-5 * math.exp(-0.02)) + 0.04, rel=1e-12)
    beside_concentrated = composed_epsilon([cost, Cost(rho=0.1)], 1e-5)
    without = epsilon_of_concentrated(0.1 + 0.3**2 / 2, 1e-5 * math.exp(-0.01))
    assert beside_concentrated == pytest.approx(without + 0.02, rel=1e-12)


def test_delta_is_spent_and_runs_out():
    assert composed_epsilon([Cost(epsilon=1, delta=1e-6)], 1e-6) == 1
    assert composed_epsilon([Cost(epsilon=1), Cost(epsilon=0.5)], 0.0) == 1.5
    assert composed_epsilon([], 1e-6) == 0
    for costs in ([Cost(epsilon=1, delta=2e-6)], [Cost(mu=1), Cost(delta=1e-6)], [Cost(rho=1), Cost(delta=1e-6)]):
        assert composed_epsilon(costs, 1e-6) == math.inf


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_epsilon_is_read_off_between_0_and_1(delta):
    with rejects("delta", expected="a number from 0 to below 1"):
        composed_epsilon([Cost(epsilon=1)], delta)


# Costs


@pytest.fixture(scope="module")
def population():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 2))
    return X, X @ [0.5, -0.3]


@pytest.mark.parametrize(
    "options",
    [
        {"sketch": "sum"},
        {"sketch": "countsketch", "rows": 20},
        {"sketch": "sum", "noise": "skellam"},
        {"sketch": "sum", "noise": "discrete-laplace", "delta": 0.0},
        {"sketch": "countsketch", "rows": 20, "copies": "each", "corrupt_clients": 5, "coalition": "static"},
    ],
)
def test_one_release_costs_what_its_guarantee_says(population, options):
    release = RidgeRegression(simulation_seed=1, **{"delta": 1e-6, **options}).fit(*population).release_
    delta = options.get("delta", 1e-6)
    assert composed_epsilon([Cost.of(release)], delta) == pytest.approx(release.guarantee.achieved_epsilon, rel=1e-9)
    ledger = BudgetLedger(release.guarantee.epsilon, delta)
    ledger.spend(release, "all of it")
    with pytest.raises(GuaranteeError):
        ledger.spend(release.guarantee, "twice")


def test_a_guarantee_at_one_delta_says_nothing_at_a_smaller_one(population):
    release = RidgeRegression(simulation_seed=1, sketch="sum", noise="skellam", delta=1e-6).fit(*population).release_
    assert composed_epsilon([Cost.of(release)], 0.5e-6) == math.inf
    assert composed_epsilon([Cost.of(release), Cost(mu=0.1)], 1e-6) == math.inf


def test_slack_and_static_coalitions_are_part_of_the_cost(population):
    static = {"sketch": "countsketch", "rows": 20, "copies": "each", "corrupt_clients": 5, "coalition": "static"}
    guarantee = RidgeRegression(simulation_seed=1, **static).fit(*population).release_.guarantee
    assert guarantee.slack > 0
    assert Cost.of(guarantee) == Cost(mu=guarantee.mu, slack=guarantee.slack, delta=2.0**-56)


def test_promises_about_other_neighbours_do_not_add_up(population):
    guarantee = RidgeRegression(simulation_seed=1, sketch="sum").fit(*population).release_.guarantee
    with rejects("release", given="neighbouring 'add-remove'"):
        Cost.of(msgspec.structs.replace(guarantee, neighbouring="add-remove"))


def test_other_releases_have_costs(population):
    X, y = population
    mean = PrivateMean(rho=0.1, simulation_seed=1, center=0.0, radius=10.0).fit(X)
    assert composed_epsilon([Cost.of(mean.guarantee_)], 1e-6) == pytest.approx(mean.guarantee_.achieved_epsilon)
    mixed = RMGM(simulation_seed=1).fit([X[:, :1], np.column_stack([X[:, 1:], y])]).release_
    assert composed_epsilon([Cost.of(mixed)], 1e-5) == pytest.approx(mixed.guarantee.subject_epsilon)


def test_what_has_no_cost_is_refused(population):
    with rejects("release", expected="a release, a guarantee or a pair (epsilon, delta)"):
        Cost.of(AdditiveNoise(simulation_seed=1).fit(*population).guarantee_)
    with rejects("release", given="'all'"):
        Cost.of("all")


@pytest.mark.parametrize(
    ("fields", "rejection"),
    [
        ({"mu": -1.0}, {"argument": "mu", "given": "-1.0"}),
        ({"rho": math.inf}, {"argument": "rho", "given": "inf"}),
        ({"epsilon": math.nan}, {"argument": "epsilon", "given": "nan"}),
        ({"epsilon": 1.0, "delta": 1.0}, {"argument": "delta", "given": "1"}),
        ({"epsilon": True}, {"argument": "epsilon", "given": "True"}),
        ({}, {"argument": "cost", "given": "nothing"}),
        ({"slack": 1.0}, {"argument": "cost", "given": "nothing"}),
    ],
)
def test_bad_costs(fields, rejection):
    with rejects(**rejection):
        Cost(**fields)


# The ledger


def test_the_ledger_refuses_what_exceeds_its_limit_and_keeps_what_it_had():
    ledger = BudgetLedger(1.0, 1e-6)
    ledger.spend(Cost(mu=0.15), "first")
    ledger.spend((0.2, 1e-8), "second")
    before = ledger.epsilon
    assert before == composed_epsilon([Cost(mu=0.15), Cost(epsilon=0.2, delta=1e-8)], 1e-6)
    with pytest.raises(GuaranteeError, match=r"epsilon: third with the 2 releases before it costs .* at most 1 exp"):
        ledger.spend(Cost(mu=0.2), "third")
    assert [entry.what for entry in ledger.entries] == ["first", "second"]
    assert ledger.epsilon == before < ledger.epsilon_with(Cost(mu=0.01)) < 1
    with pytest.raises(GuaranteeError, match="costs no finite epsilon"):
        ledger.spend((0.01, 1e-5), "too much delta")


def test_the_ledger_is_kept_in_a_file(tmp_path, population):
    path = tmp_path / "ledger.json"
    ledger = BudgetLedger(3.0, 1e-5)
    ledger.spend(RidgeRegression(sketch="sum", simulation_seed=1).fit(*population).release_, "a <model>")
    ledger.spend(Cost(rho=0.01, slack=0.001), "a mean")
    ledger.save(path)
    loaded = BudgetLedger.load(path)
    assert loaded.entries == ledger.entries
    assert (loaded.limit, loaded.delta, loaded.epsilon) == (ledger.limit, ledger.delta, ledger.epsilon)
    assert repr(loaded) == repr(ledger)
    assert "by 2 releases, SIMULATION" in repr(ledger)
    assert "SIMULATION" not in repr(BudgetLedger(1, 1e-6))
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.json"]


def test_a_saved_ledger_outlasts_a_loss_of_power(tmp_path, monkeypatch):
    path, done = tmp_path / "ledger.json", []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def rename(partial, target):
        done.append("rename")
        return replace(partial, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    BudgetLedger(1.0, 1e-6).save(path)
    assert done == ["file", "rename", "folder"]


def test_a_ledger_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    ledger = BudgetLedger(3.0, 1e-5)
    ledger.spend(Cost(mu=0.1), "first")
    ledger.save(path)
    ledger.spend(Cost(mu=0.2), "second")

    def full_disk(descriptor):
        os.truncate(descriptor, 40)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        ledger.save(path)
    assert [entry.what for entry in BudgetLedger.load(path).entries] == ["first"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.json"]


def test_a_ledger_prints_what_each_release_costs(population):
    ledger = BudgetLedger(3.0, 1e-5)
    ledger.spend((0.25, 1e-8), "a mean\n")
    ledger.spend(RidgeRegression(sketch="sum", simulation_seed=1).fit(*population).release_, "a model")
    total, first, second = str(ledger).splitlines()
    assert total.endswith("by 2 releases, SIMULATION")
    assert first == "  a mean\\n: epsilon = 0.25 alone"
    assert second.startswith("  a model: epsilon = ")
    assert second.endswith(" alone, SIMULATION")


def test_spending_that_a_ledger_has_not_read_is_not_overwritten(tmp_path):
    path = tmp_path / "ledger.json"
    BudgetLedger(1.0, 1e-6).save(path)
    first, second = BudgetLedger.load(path), BudgetLedger.load(path)
    first.spend((0.4, 0.0), "a mean")
    second.spend((0.4, 0.0), "another mean")
    first.save(path)
    with pytest.raises(InputError, match="not read, its own last state or a new file expected"):
        second.save(path)
    with pytest.raises(InputError, match="not read"):
        BudgetLedger(1.0, 1e-6).save(path)
    first.spend((0.5, 0.0), "a variance")
    first.save(path)
    assert BudgetLedger.load(path).entries == first.entries


TURNS = """
import sys
from dpmpc.base.errors import InputError
from dpmpc.privacy import BudgetLedger
from dpmpc.privacy.composition import Cost
path, how, name, times = sys.argv[1:]
ledgers = [BudgetLedger.load(path) for _ in range(int(times))]
sys.stdout.write("r")
sys.stdout.flush()
sys.stdin.readline()
for number, ledger in enumerate(ledgers):
    try:
        if how == "save":
            ledger.spend(Cost(mu=1e-3), f"{name}.{number}")
            ledger.save(path)
        else:
            BudgetLedger.spend_in(path, Cost(mu=1e-3), f"{name}.{number}")
        print(f"{name}.{number}")
    except InputError as error:
        assert "load it and spend again" in str(error)
"""


def in_two_processes(path, how, times):
    """Have two processes spend at the same moment; return what each says that it has entered."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TURNS, str(path), how, name, str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for process in started:
        assert process.stdout.read(1) == "r"
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=100) for process in started]
    assert [process.returncode for process in started] == [0, 0], ended
    return [line for said, _ in ended for line in said.split()]


def test_processes_that_save_one_ledger_take_turns(tmp_path):
    """Each process has read the ledger, both save: one succeeds, the other is told to read it again."""
    path = tmp_path / "ledger.json"
    for number in range(3):
        path.unlink(missing_ok=True)
        BudgetLedger(1.0, 1e-6).save(path)
        said = in_two_processes(path, "save", 1)
        assert [entry.what for entry in BudgetLedger.load(path).entries] == said, number
        assert len(said) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.json"]


def test_no_spending_is_lost_among_processes(tmp_path):
    path = tmp_path / "ledger.json"
    BudgetLedger(1.0, 1e-6).save(path)
    said = in_two_processes(path, "spend in", 10)
    entered = [entry.what for entry in BudgetLedger.load(path).entries]
    assert sorted(entered) == sorted(said)
    assert len(entered) == 20


def test_spending_in_a_file_that_is_new_or_full(tmp_path):
    path = tmp_path / "ledger.json"
    with pytest.raises(InputError, match="cannot be read"):
        BudgetLedger.spend_in(path, (0.5, 0.0), "first")
    first = BudgetLedger.spend_in(path, (0.5, 0.0), "first", limit=(0.6, 1e-6))
    assert BudgetLedger.load(path).entries == first.entries
    before = path.read_bytes()
    with pytest.raises(GuaranteeError, match="second with the 1 releases before it costs"):
        BudgetLedger.spend_in(path, (0.5, 0.0), "second", limit=(9.0, 1e-6))
    assert path.read_bytes() == before
    first.spend((0.05, 0.0), "third")
    first.save(path)
    assert len(BudgetLedger.load(path).entries) == 2


def test_files_that_are_no_ledger_are_refused(tmp_path):
    path = tmp_path / "ledger.json"
    with pytest.raises(InputError, match="cannot be read"):
        BudgetLedger.load(path)
    ledger = BudgetLedger(1.0, 1e-6)
    ledger.spend((1.0, 1e-6), "everything")
    ledger.save(path)
    good = json.loads(path.read_text())
    changes = [
        {"format": "dpmpc budget 9"},
        {"entries": [{"what": "x"}]},
        {"entries": 3},
        {"entries": {}},
        {"epsilon": -1},
        {"entries": [{"what": "x", "cost": {"mu": 10**400}, "simulation": False}]},
    ]
    for change in changes:
        path.write_text(json.dumps({**good, **change}))
        with rejects("path"):
            BudgetLedger.load(path)
    path.write_text(json.dumps({**good, "epsilon": 0.5}))
    with pytest.raises(GuaranteeError, match=r"cost 1 at delta = 1e-06, at most 0\.5 expected"):
        BudgetLedger.load(path)
    path.write_text("no JSON")
    with pytest.raises(InputError, match="is not a ledger"):
        BudgetLedger.load(path)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-6), (math.inf, 1e-6), (1, -1e-6), (1, 1)])
def test_bad_limits(epsilon, delta):
    with pytest.raises(InputError, match=r"epsilon|delta"):
        BudgetLedger(epsilon, delta)


def test_an_epsilon_of_zero_is_found_at_once_and_only_where_it_is_one():
    """A bracket that shrinks towards 0 takes a thousand halvings, each of the whole grid of losses."""
    costs, began = [Cost(mu=0.3), Cost(epsilon=0.5, delta=1e-7)], time.process_time()
    assert composed_epsilon(costs, 0.5) == 0.0
    assert time.process_time() - began < 5
    pair = [Cost(epsilon=0.1), Cost(epsilon=0.1)]
    nothing = math.tanh(0.05) / 2 + math.tanh(0.05) / 2  # at epsilon = 0: P[both +] - P[both -] of randomised response
    assert composed_epsilon(pair, nothing * (1 + 1e-9)) == 0.0
    assert composed_epsilon(pair, nothing * (1 - 1e-6)) > 0.0


def test_a_link_to_a_ledger_is_another_name_of_the_same_one(tmp_path):
    """Spending through the link is in the one ledger that all others read."""
    shared, link = tmp_path / "shared.json", tmp_path / "link.json"
    BudgetLedger.spend_in(shared, (1.0, 1e-6), "first", limit=(4.0, 1e-5))
    link.symlink_to(shared)
    BudgetLedger.spend_in(link, (1.0, 1e-6), "second")
    ledger = BudgetLedger.load(link)
    ledger.spend((1.0, 1e-6), "third")
    ledger.save(link)
    assert [entry.what for entry in BudgetLedger.load(shared).entries] == ["first", "second", "third"]
    assert link.is_symlink()
    (tmp_path / "dangling.json").symlink_to(tmp_path / "none.json")
    for enter in (ledger.save, lambda path: BudgetLedger.spend_in(path, (1.0, 1e-6), "fourth", limit=(4.0, 1e-5))):
        with pytest.raises(InputError, match=r"a link to .*none\.json, which is not there"):
            enter(tmp_path / "dangling.json")
    assert not (tmp_path / "none.json").exists()
