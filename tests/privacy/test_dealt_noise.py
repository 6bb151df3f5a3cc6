"""What is promised where servers deal their noise in shares: whose noise counts, and what its range costs."""

import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from bench.audit.views import exact_epsilon
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.sharing.batch import ArrayShare
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.parties import networked
from dpmpc.privacy import Guarantee
from dpmpc.privacy.calibration import CUT_OFF, NoisePlacement
from dpmpc.privacy.gaussian import delta_of_mu, mu_of_budget
from dpmpc.privacy.guarantee import CUT_OFF_DELTA, MISSING_CLIENTS, NOISE_DEALT, Preconditions
from dpmpc.privacy.specification import ReleaseSpec, TrustModel
from dpmpc.privacy.task import Task
from dpmpc.release import simulation
from dpmpc.release.planning import design
from dpmpc.release.planning.prediction import Scenario
from dpmpc.release.server import deal_together, draw_dealt, noise_stream, simulation_keys, transform
from support.rejections import rejects

SCHEMA = Schema.unit(["a", "b", "y"])


def plan(servers=3, clients=500, delta=1e-6, **options):
    choices = {"servers": servers, "sharing": "shamir", "noise_by": "servers", "proved": True, "sketch": "sum"}
    return design(ReleaseSpec.of(SCHEMA, clients, 1.0, delta, **{**choices, "simulation_seed": 3, **options}))


@pytest.mark.parametrize(
    ("servers", "corrupt", "dealers"), [(3, 1, 3), (4, 1, 3), (5, 2, 5), (6, 1, 4), (7, 2, 5)], ids=str
)
def test_the_noise_of_t_dealers_is_not_counted_on(servers, corrupt, dealers):
    """D servers deal at least, and the sums hold D/(D - t) times what a curator would add: M/(M - t) if D = M."""
    task = plan(servers, corrupt_servers=corrupt)
    assert task.noising.dealers == dealers
    assert task.noise_terms.tolist() == [dealers]
    counted = (dealers - corrupt) * task.noise.variance
    central = (task.sensitivity.l2 / mu_of_budget(1, 1e-6)) ** 2
    assert counted == pytest.approx(central, rel=1e-6)
    total = float(task.noise_variance[0]) / task.unit**2
    assert total == pytest.approx(Fraction(dealers, dealers - corrupt) * central, rel=1e-6)
    assert Scenario.of(task)._inflation(500, 0) == pytest.approx(dealers / (dealers - corrupt))


def test_more_dealers_than_at_least_make_more_noise_and_no_weaker_promise():
    task = plan(4)
    all_four = msgspec.structs.replace(task, noising=NoisePlacement("servers", dealers=4)).verify()
    assert all_four.noise == task.noise
    assert all_four.noise_terms.tolist() == [4]
    assert all_four.guarantee.achieved_epsilon < task.guarantee.achieved_epsilon
    with rejects("dealers", given="5"):
        msgspec.structs.replace(task, noising=NoisePlacement("servers", dealers=5))
    with rejects("dealers", given="2"):
        msgspec.structs.replace(task, noising=NoisePlacement("servers", dealers=2))


def test_the_guarantee_says_whose_noise_it_counts_on_and_what_is_proved_of_it():
    guarantee = plan(5).guarantee
    assert guarantee.noise_by == NOISE_DEALT
    assert guarantee.composes
    assert guarantee.corrupt_servers == 2
    assert guarantee.corrupt_clients == 499
    text = str(guarantee)
    assert "in every sum from each of 5 servers, dealt in shares" in text
    assert "at least 3 of the servers that deal noise draw it as agreed" in text
    assert "its range is proved, and nothing of how it was drawn" in text
    assert Guarantee.from_dict(guarantee.to_dict()) == guarantee


def test_preconditions_know_this_maker_of_noise():
    fields = {"count_is_public": True, "missing_means": MISSING_CLIENTS, "verified_by": ("clients",)}
    given = Preconditions(clients=4, missing=4, noise_by=NOISE_DEALT, **fields)
    assert Preconditions.from_dict(given.to_dict()) == given
    with rejects("noise_by", given="'nobody'"):
        Preconditions(clients=4, missing=0, noise_by="nobody", **fields)


def test_the_range_costs_a_part_of_delta_that_is_set_aside():
    """Two releases whose noise differs with probability 2^-128: delta grows by (1 + e^eps) 2^-128 <= 2^-60."""
    spent = CUT_OFF_DELTA
    task = plan(delta=2 * spent)
    assert (1 + math.exp(task.epsilon)) * CUT_OFF <= spent
    mu, achieved = task.guarantee.mu, task.guarantee.achieved_epsilon
    assert delta_of_mu(mu, achieved) == pytest.approx(spent, rel=1e-3, abs=0)
    assert task.guarantee.composition["delta"] == spent
    with rejects("delta", GuaranteeError, expected="more than 8.67e-19"):
        plan(delta=spent)
    own = design(ReleaseSpec.of(SCHEMA, 500, 1.0, 1e-6, servers=3, noise_by="servers", proved=True, sketch="sum"))
    assert own.guarantee.composition["delta"] == 0
    placement = NoisePlacement("servers", dealers=3)
    assert placement.cut_off(47.0) == spent
    assert (1 + math.exp(47.0)) * CUT_OFF <= spent
    with rejects("epsilon", GuaranteeError, given="48"):
        placement.cut_off(48.0)
    assert NoisePlacement("servers").cut_off(48.0) == 0


def test_no_draw_is_beyond_the_range_but_for_a_chance_that_is_counted():
    """The range from the tail of one draw, by another route: a normal tail at B is at most CUT_OFF over all draws."""
    task = plan(5)
    draws = task.sketch.rows * task.width * 5
    bound = task.noise_bound
    assert bound % 3 == 0
    sigma = math.sqrt(task.noise.variance)
    log_tail = -((bound / sigma) ** 2) / 2
    assert math.log(2 * draws) + log_tail <= math.log(CUT_OFF)
    assert bound < 15 * sigma
    assert task.dealt_noise.bound == bound


def test_the_range_of_noise_with_long_tails_is_wide():
    task = plan(noise="discrete-laplace", fractional_bits=8)
    assert 100 < task.noise_bound / math.sqrt(task.noise.variance) < 110


def test_nothing_is_pure_where_noise_ends_at_its_range():
    with rejects("delta", GuaranteeError, expected="more than 8.67e-19"):
        design(
            ReleaseSpec.of(
                SCHEMA,
                500,
                1.0,
                0.0,
                servers=3,
                sharing="shamir",
                noise_by="servers",
                proved=True,
                sketch="sum",
                noise="discrete-laplace",
            )
        )
    assert plan(noise="discrete-laplace").guarantee.delta == 1e-6


@pytest.mark.parametrize("noise", ["discrete-gaussian", "skellam", "discrete-laplace"])
def test_a_simulation_deals_what_servers_deal(noise):
    task = plan(4, noise=noise, fractional_bits=6)
    rows = np.zeros((500, 3))
    release = simulation.run(task, rows, stream=Stream.from_seed(1))
    away = np.abs(release.sums[0, 2:] - 0) * task.units[2:]
    assert 0 < away.max() < 12 * math.sqrt(release.noise_variance[0])
    again = simulation.run(task, rows, stream=Stream.from_seed(1))
    assert np.array_equal(release.sums, again.sums)


def test_shares_of_noise_are_those_of_the_sum_of_all_dealers():
    task = plan(4)
    keys = simulation_keys(task, Stream.from_seed(5))
    shares = deal_together(task, keys, Stream.from_seed(6))
    noise = sum(draw_dealt(task, noise_stream(task, key)) for key in keys[: task.noising.dealers])
    assert np.array_equal(task.encoding.ring.lift(task.scheme.combine(shares)), noise)
    own = design(ReleaseSpec.of(SCHEMA, 500, 1.0, 1e-6, servers=3, noise_by="servers", sketch="sum"))
    assert deal_together(own, [None] * 3) == [None] * 3


def test_sums_are_never_opened_without_noise_that_is_dealt():
    task = plan()
    share = ArrayShare(np.zeros(task.share_shape, np.uint64), task.encoding.ring)
    with rejects("dealt", given="none"):
        transform(task, share)
    with rejects("dealt", given="(1, 8)"):
        transform(task, share, dealt=np.zeros((1, 8), np.uint64))
    noise = np.full((1, 9), 5, np.uint64)
    assert np.array_equal(transform(task, share, dealt=noise), noise)
    own = design(ReleaseSpec.of(SCHEMA, 500, 1.0, 1e-6, servers=3, noise_by="servers", sketch="sum"))
    with rejects("dealt", expected="none"):
        transform(own, ArrayShare(np.zeros(own.share_shape, np.uint64), own.encoding.ring), dealt=noise)


def test_the_variance_is_as_stated():
    """Of 60,000 sums the mean square of the noise, over what is stated: chi-square, false alarm 1e-6."""
    task, stream = plan(5, 20_000, sketch="osnap", rows=2000, sparsity=1), Stream.from_seed(11)
    squares = []
    for _ in range(10):
        dealt = deal_together(task, simulation_keys(task, stream), stream)
        squares.append(np.square(task.encoding.ring.lift(task.scheme.combine(dealt)).astype(np.float64)))
    ratio = np.mean(squares) / (task.noise_terms[0] * task.noise.variance)
    assert np.size(squares) == 60_000
    assert abs(ratio - 1) < 4.9 * math.sqrt(2 / 60_000)


@pytest.mark.parametrize(
    ("change", "rejection"),
    [
        (
            {"noising": {"by": "servers", "copies": None}},
            {"argument": "dealers", "given": "none", "expected": "3 to 3"},
        ),
        (
            {"noising": {"by": "servers", "copies": None, "dealers": 2}},
            {"argument": "dealers", "given": "2", "expected": "3 to 3"},
        ),
        (
            {"noising": {"by": "servers", "copies": None, "dealers": 4}},
            {"argument": "dealers", "given": "4", "expected": "3 to 3"},
        ),
        ({"noising": {"by": "servers", "copies": None, "dealers": 0}}, {"argument": "dealers", "given": "0"}),
        (
            {"noising": {"by": "clients", "copies": None, "dealers": 3}},
            {"argument": "dealers", "given": "3 given with noise by clients, none expected"},
        ),
        ({"sharing": "additive"}, {"argument": "dealers", "remedy": "only noise for Shamir shares is dealt"}),
        (
            {"trust": {"corrupt_servers": 2}},
            {"argument": "corrupt_servers", "given": "2 of 3", "expected": "fewer than half"},
        ),
    ],
)
def test_a_task_that_somebody_else_wrote_is_held_to_the_same(change, rejection):
    fields = plan().to_dict()
    change = {name: {**fields[name], **value} if name == "trust" else value for name, value in change.items()}
    with rejects(**rejection):
        Task.from_dict({**fields, **change})


def test_a_task_without_dealt_noise_is_written_as_before():
    own = design(ReleaseSpec.of(SCHEMA, 500, 1.0, 1e-6, servers=3, noise_by="servers", sketch="sum"))
    assert own.to_dict()["noising"] == {"by": "servers", "copies": None}
    task = plan()
    assert task.to_dict()["noising"] == {"by": "servers", "copies": None, "dealers": 3}
    assert Task.from_dict(task.to_dict()).digest == task.digest
    with rejects("task", given="one whose servers deal no noise"):
        _ = own.dealt_noise


def test_noise_that_nobody_honest_deals_is_refused():
    placement = NoisePlacement("servers", dealers=2)
    with rejects(
        "dealers",
        GuaranteeError,
        given="2 given, of whom 2 may be corrupt, more expected: no dealer's noise could be counted on",
    ):
        placement.exposure(Sum(columns=10), TrustModel(servers=3, corrupt_servers=2))


def test_without_proofs_servers_deal_nothing():
    with rejects("sharing", expected="'additive'"):
        plan(proved=False)


def test_lying_dealers_may_use_their_whole_range_and_no_sum_wraps_around():
    task = plan()
    assert task.noise_tail(3)(1.0) == 3 * task.noise_bound
    assert task.modulus_plan.tail == 3 * task.noise_bound


@pytest.mark.parametrize("servers", [3, 4, 5])
def test_the_claim_is_what_the_noise_of_honest_dealers_gives(servers):
    """By the audit's route, from the covariance of the noise that is not known to t servers: no formula of ours."""
    task = plan(servers, clients=12)
    found = exact_epsilon(task, np.arange(12), task.sensitivity.l2)
    assert found is not None
    assert 0.99 * task.guarantee.achieved_epsilon < found <= task.guarantee.achieved_epsilon


def test_a_run_without_a_collection_is_refused_before_anything_is_started():
    with pytest.raises(InputError, match="'additive' expected in a run without a collection"):
        networked.run(plan(), np.zeros((500, 3)), stream=Stream.from_seed(1))
