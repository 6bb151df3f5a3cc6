"""Plans whose clients prove what they share: integers, sensitivities, wrap-around, bytes, and what is refused."""

import dataclasses
import math

import numpy as np
import pytest

from dpmpc.base.errors import OverflowRisk
from dpmpc.data import Schema
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.proving import proved
from dpmpc.linear.proving.contributions import bits_for
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.analyst import open_sums
from dpmpc.release.client import Client, share_batch
from dpmpc.release.planning import design
from dpmpc.release.planning.cost import MEASURED, Workload, estimate
from dpmpc.release.server import transform
from support.rejections import rejects

SCHEMA = Schema.unit(["x", "y", "z"])
CLIENTS = 2000
KINDS = {"sum": {"sketch": "sum"}, "ball": {"sketch": "sum", "radius": 1.0}, "sketch": {"sketch": "osnap", "rows": 64}}


def plan(clients=CLIENTS, **options):
    wanted = {"noise_by": "servers", "servers": 3, "proved": True} | options
    return design(ReleaseSpec.of(SCHEMA, clients, 1.0, 1e-6, **wanted))


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_a_task_says_that_contributions_are_proved(options):
    task = plan(**options)
    assert task.proofs is not None
    assert task.encoding.ring.name == "mersenne61"
    assert task.encoding.fractional_bits == 9
    assert Task.from_dict(task.to_dict()) == task
    assert Task.from_dict(task.to_dict()).digest == task.digest
    assert task.sensitivity == task.proofs.sensitivity()


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_what_is_encoded_is_what_servers_add_up_of_a_witness(options):
    task = plan(**options)
    rows = np.random.default_rng(3).uniform(-1, 1, (50, 3))
    proofs = task.proofs
    outputs = proofs.outputs(proofs.witness(proofs.encode(rows)), 1)
    np.testing.assert_array_equal(Client(task).encode(rows), task.encoding.ring.lift(outputs))
    assert np.abs(Client(task).encode(rows)).max() <= task.statistic.largest_entry(task.encoding)


def test_the_units_give_the_plain_sums_back():
    """Noise aside, the release of exact integers is that of reals to rounding z alone."""
    task = plan(sketch="sum")
    rows = np.random.default_rng(4).uniform(-1, 1, (CLIENTS, 3))
    sums = Client(task).encode(rows).sum(axis=0) * task.units
    extended = np.column_stack([np.ones(CLIENTS), rows])
    gram = SecondMoments.matrix(sums, CLIENTS)
    np.testing.assert_allclose(gram, extended.T @ extended, atol=0.6)
    release = open_sums(task, [transform(task, share) for share in share_batch(task, rows)])
    away = np.abs(release.gram().matrix - extended.T @ extended).max()
    assert 0 < away < 8 * math.sqrt(release.noise_variance[0])


def test_the_noise_is_that_of_a_plain_plan_but_for_what_is_counted_more():
    ours, plain = plan(sketch="sum"), plan(sketch="sum", proved=False)
    ratio = math.sqrt(ours.noise_variance[0] / plain.noise_variance[0])
    assert 1 < ratio < 1.01
    assert plain.proofs is None
    assert plain.statistic.name == "second-moments"


def test_bits_follow_the_clients():
    assert plan(sketch="sum").encoding.fractional_bits == bits_for(10**6) == 9
    assert bits_for(10**6 + 1) == 11
    assert plan(sketch="sum", fractional_bits=12).encoding.fractional_bits == 12
    assert plan(sketch="sum", proved=False).encoding.fractional_bits == 16


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"noise_by": "clients"}, "proved"),
        ({"sharing": "shamir", "noise_by": "clients"}, "proved"),
        ({"sharing": "shamir", "proved": False}, "sharing"),
        ({"ring": "ring64"}, "ring"),
    ],
)
def test_what_cannot_be_proved_is_refused_with_the_reason(options, argument):
    with rejects(argument):
        plan(**options)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"encoding": {"fractional_bits": 9, "ring": "ring64"}}, "ring"),
        ({"noising": {"by": "clients", "copies": None}}, "noise_by"),
        ({"sharing": "shamir"}, "corrupt_servers"),
    ],
)
def test_a_task_that_somebody_else_wrote_is_held_to_the_same(change, argument):
    with rejects(argument):
        Task.from_dict({**plan(sketch="sum").to_dict(), **change})


def test_neither_sums_nor_statements_may_wrap_around():
    choices = {"noise_by": "servers", "servers": 3, "proved": True, "sketch": "sum"}
    with pytest.raises(OverflowRisk):  # sums: 2 n 41 R^2
        design(ReleaseSpec.of(SCHEMA, 3 * 10**7, 1.0, 1e-8, fractional_bits=15, **choices))
    wide = Schema.unit([f"x{column}" for column in range(64)])
    with rejects("squared_radius", OverflowRisk):  # (T): d R^2
        design(ReleaseSpec.of(wide, 70, 1.0, 1e-6, fractional_bits=28, radius=1.0, **choices))


def test_bytes_are_those_of_the_records():
    task = plan(sketch="sum")
    work = Workload.of(task)
    circuit = proved(SecondMoments(), 3, 9).circuit
    assert work.other_bytes == 16 + 3 * 32
    assert work.share_bytes == 16 + 3 * 32 + 8 * circuit.words
    assert work.verification_bytes == CLIENTS * 6 * circuit.message_bytes
    assert estimate(work).sent_bytes > work.verification_bytes
    assert Workload.of(plan(sketch="sum", proved=False)).verification_bytes == 0


def test_with_shamir_shares_all_servers_keep_words_and_noise_is_dealt():
    task = plan(sketch="sum", sharing="shamir", corrupt_servers=1)
    work, circuit, noise = Workload.of(task), task.proofs.circuit, task.dealt_noise
    servers = task.trust.servers
    assert work.other_bytes == work.share_bytes == 16 + 32 * servers + 8 * circuit.words
    dealt = 16 + 32 * servers + 8 * noise.circuit.words
    to_each = CLIENTS * circuit.message_bytes + noise.blocks * (dealt + servers * noise.circuit.message_bytes)
    assert work.peer_bytes == to_each
    assert work.verification_bytes == servers * (servers - 1) * to_each


def test_the_check_of_proofs_takes_a_servers_time():
    """Five to seven microseconds for a report of ten columns at a server on average, as the bench measures."""
    spec = {"noise_by": "servers", "servers": 3, "sketch": "sum", "radius": 1.0}
    schema = Schema.unit([f"x{column}" for column in range(10)])
    proved_one, plain = (
        Workload.of(design(ReleaseSpec.of(schema, 100_000, 1.0, 1e-6, **spec, proved=proved)))
        for proved in (True, False)
    )
    checked = estimate(proved_one).core_s - estimate(plain).core_s
    assert 3 * 100_000 * 5e-6 < checked < 3 * 100_000 * 7e-6
    without = dataclasses.replace(MEASURED, check=0.0, check_word=0.0)
    assert estimate(proved_one).core_s - estimate(proved_one, slopes=without).core_s > 3 * 100_000 * 3.4e-6
