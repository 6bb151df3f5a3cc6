"""Opening without a server, and in spite of one that sends something else than its share of the sums."""

import itertools

import numpy as np
import pytest

from dpmpc.base.errors import BatchMismatch, InconsistentShares, PartyMissing
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.analyst import open_robustly, open_sums
from dpmpc.release.client import share_batch
from dpmpc.release.planning import design
from dpmpc.release.server import transform
from support.rejections import blames, rejects

SCHEMA = Schema.unit(["a", "b"])
SHAMIR = [(3, 1), (4, 1), (5, 2)]  # M and t = (M - 1) // 2
P = (1 << 61) - 1


def sums_of(servers, sharing="shamir", corrupt_servers=None):
    """Return a task and each server's true share of its sums."""
    task = design(
        ReleaseSpec.of(
            SCHEMA,
            200,
            1.0,
            1e-4,
            sketch="osnap",
            rows=8,
            sparsity=2,
            servers=servers,
            sharing=sharing,
            corrupt_servers=corrupt_servers,
            simulation_seed=1,
        )
    )
    rows = np.random.default_rng(1).uniform(-1, 1, (200, 2))
    shares = share_batch(task, rows, stream=Stream.from_seed(2))
    return task, dict(enumerate(transform(task, share) for share in shares))


def altered(share):
    other = share.copy()
    other[3, 1] = (other[3, 1] + np.uint64(1)) % np.uint64(P)
    return other


@pytest.mark.parametrize(("servers", "threshold"), SHAMIR)
def test_one_altered_share_is_noticed_and_named_where_there_are_3_t_plus_1(servers, threshold):
    task, sums = sums_of(servers)
    assert task.scheme.threshold == threshold
    truth = open_sums(task, list(sums.values()))
    for liar in range(servers):
        sent = sums | {liar: altered(sums[liar])}
        with pytest.raises(InconsistentShares):
            open_sums(task, list(sent.values()))
        if servers < 3 * threshold + 1:
            with blames(None, InconsistentShares):
                open_robustly(task, sent)
            continue
        release, wrong = open_robustly(task, sent)
        assert wrong == (liar,)
        assert (release.sums == truth.sums).all()


@pytest.mark.parametrize(("servers", "threshold"), SHAMIR)
def test_missing_servers_change_nothing(servers, threshold):
    task, sums = sums_of(servers)
    truth = open_sums(task, list(sums.values()))
    for present in range(threshold + 1, servers + 1):
        for parties in itertools.combinations(range(servers), present):
            release, wrong = open_robustly(task, {party: sums[party] for party in parties})
            assert wrong == ()
            assert (release.sums == truth.sums).all()


def test_a_liar_beside_a_missing_server_is_noticed():
    task, sums = sums_of(5)
    del sums[4]
    with pytest.raises(InconsistentShares):
        open_robustly(task, sums | {1: altered(sums[1])})


NO_SUMS = {
    "another shape": lambda share: share[1:],
    "another type": lambda share: share.astype(np.float64),
    "no field element": lambda share: np.full_like(share, P),
}


@pytest.mark.parametrize("flaw", NO_SUMS)
def test_what_is_no_share_counts_as_wrong(flaw):
    """As many as could be corrected may be like this; where nobody could be, none may."""
    task, sums = sums_of(7, corrupt_servers=2)
    truth = open_sums(task, list(sums.values()))
    release, wrong = open_robustly(task, sums | {party: NO_SUMS[flaw](sums[party]) for party in (0, 3)})
    assert wrong == (0, 3)
    assert (release.sums == truth.sums).all()
    for servers, most, liars in ((7, 2, [0, 2, 3]), (5, 0, [1])):
        task, sums = sums_of(servers, corrupt_servers=2)
        told = rf"servers \[{', '.join(map(str, liars))}\] are not sums of this task, at most {most} such of {servers}"
        with pytest.raises(InconsistentShares, match=told) as caught:
            open_robustly(task, sums | {party: NO_SUMS[flaw](sums[party]) for party in liars})
        assert caught.value.party == liars[0]


def test_a_liar_beside_what_is_no_share_is_named_too():
    task, sums = sums_of(7, corrupt_servers=2)
    truth = open_sums(task, list(sums.values()))
    release, wrong = open_robustly(task, sums | {6: sums[6][1:], 2: altered(sums[2])})
    assert wrong == (2, 6)
    assert (release.sums == truth.sums).all()


@pytest.mark.parametrize(
    ("sharing", "servers", "present", "message"),
    [
        ("shamir", 3, [1], r"those of servers \[0, 2\] are missing; shamir sharing needs 2 of 3"),
        ("shamir", 5, [0, 1], r"those of servers \[2, 3, 4\] are missing; shamir sharing needs 3 of 5"),
        ("additive", 3, [0, 2], r"those of servers \[1\] are missing; additive sharing needs 3 of 3"),
    ],
)
def test_too_few_servers_are_named(sharing, servers, present, message):
    task, sums = sums_of(servers, sharing)
    with pytest.raises(PartyMissing, match=message) as caught:
        open_robustly(task, {party: sums[party] for party in present})
    assert caught.value.party == min(set(range(servers)) - set(present))


def test_additive_shares_of_all_servers_are_added_up_unchecked():
    task, sums = sums_of(3, "additive")
    release, wrong = open_robustly(task, sums)
    assert wrong == ()
    assert (release.sums == open_sums(task, list(sums.values())).sums).all()
    lied_to = open_robustly(task, sums | {1: sums[1] + np.uint64(1)})
    assert (lied_to.release.sums == release.sums + 1).all()
    assert lied_to.wrong == ()
    with blames(1, BatchMismatch):
        open_robustly(task, sums | {1: sums[1][1:]})


@pytest.mark.parametrize("server", [3, -1, "0"])
def test_a_share_of_nobody_is_refused(server):
    task, sums = sums_of(3)
    with rejects("shares", expected="a number from 0 to 2"):
        open_robustly(task, sums | {server: sums[0]})
