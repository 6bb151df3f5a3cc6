"""A release among processes where a client deals wrong Shamir shares, servers lie about it, or records are damaged."""

import os
import shutil
import sqlite3

import numpy as np
import pytest

from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.reports import ReportFormat
from support.hostile.dealers import deal_badly
from support.release_processes import COUNT, MINIMUM, Trial, assert_refused, assert_released, damage, flip, run, states

SHAMIR = {"sharing": "shamir"}


def join(trial, records):
    """Put a report's records into all spools, as the servers would have."""
    for server, record in enumerate(records):
        with ServerFolder(trial.folder(server)).open_spool(trial.collection, server, writer=True) as spool:
            spool.add(*ReportFormat(trial.collection, server).decode(record))


def with_bad_dealer(root, servers, to, entry=None):
    trial = Trial.filled(root, servers, **SHAMIR)
    join(trial, deal_badly(trial.collection, os.urandom(16), to, entry))
    return trial


def seeds(trial, servers):
    """The dealing seed that each server has recorded."""
    found = []
    for server in servers:
        with ReleaseLedger(ServerFolder(trial.folder(server)).ledger) as ledger:
            found.append(ledger.seed(trial.collection.digest))
    return found


every_number = pytest.mark.long("five servers; three and four are in the ordinary suite")


@pytest.mark.parametrize(
    ("servers", "to", "entry"),
    [
        (3, [2], None),
        (4, [3], 1),
        (4, [2, 3], None),
        pytest.param(5, [3, 4], None, marks=every_number),
        (3, [1], -1),
    ],
    ids=["three servers", "one word of four servers", "two of four", "two of five", "the mask"],
)
def test_a_bad_dealer_is_left_out_and_the_rest_is_released(tmp_path, servers, to, entry):
    trial = with_bad_dealer(tmp_path / "trial", servers, to, entry)
    ended = run(trial)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    verified = assert_released(trial, servers=range(servers))
    assert verified.release.clients == COUNT
    assert set(map(tuple, verified.certificate.statement.wrong.values())) == {()}
    left_out = verified.certificate.statement.manifest.left_out
    assert left_out == {str(server): {"dealt wrongly": 1} for server in range(servers)}
    assert f"1 of {COUNT + 1} reports are dealt wrongly" in ended[0].told
    if servers == 4 and to == [3]:
        assert "server 3: odd in 1" in ended[0].told


def test_dealers_that_leave_too_few_reports_end_the_run_before_anything_is_bound(tmp_path):
    trial = Trial.make(tmp_path / "trial", 3, **SHAMIR)
    for server in range(3):
        trial.fill(server, count=MINIMUM - 1)
    join(trial, deal_badly(trial.collection, os.urandom(16), [0]))
    assert_refused(trial, run(trial), "TooFewClients", MINIMUM - 1, MINIMUM)


def test_a_server_that_lies_in_all_check_values_is_not_listened_to(tmp_path):
    trial = with_bad_dealer(tmp_path / "trial", 4, [0])
    ended = run(trial, deeds={2: ("lie_in_check_values",)})
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    assert assert_released(trial, servers=range(4)).release.clients == COUNT
    assert "servers [2] sent wrong check values for most reports" in ended[0].told


@pytest.mark.parametrize(
    ("servers", "liars", "fitting", "told"),
    [
        (3, (2,), (0,), f"{COUNT} refused: dealt wrongly. More than half of all reports lie on no polynomial"),
        (4, (2, 3), (0,), "check values: server 1 is itself among those found to be wrong, [1]"),
        (5, (3, 4), (0, 1), f"{COUNT} refused: dealt wrongly. More than half of all reports lie on no polynomial"),
    ],
)
def test_servers_that_lie_in_agreement_have_no_honest_one_set_aside(tmp_path, servers, liars, fitting, told):
    trial = Trial.filled(tmp_path / "trial", servers, **SHAMIR)
    ended = run(trial, deeds={liar: ("shift_check_values", liar, fitting, 7) for liar in liars})
    for server in set(range(servers)) - set(liars):
        assert ended[server].status == 3, ended[server].told
        assert told in ended[server].told
        assert states(trial, server) == []
    assert not any(trial.out(server).exists() for server in range(servers))


def test_most_clients_cannot_have_an_honest_server_blamed(tmp_path):
    """They deal it wrong points: it refuses, and the others go on without it, with the reports of all."""
    trial = Trial.filled(tmp_path / "trial", 4, **SHAMIR)
    ids = sorted(os.urandom(16) for _ in range(COUNT + 1))
    join(
        trial,
        [b"".join(one) for one in zip(*(deal_badly(trial.collection, i, [2]) for i in ids), strict=True)],
    )
    ended = run(trial)
    assert {one.status for one in ended.values()} == {3}, ended[0].told
    assert "server 2 is itself among those found to be wrong, [2]" in ended[0].told
    ended = run(trial, servers=[0, 1, 3], options=["--without", "2"])
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    assert verify(trial.out(0), trial.collection).release.clients == 2 * COUNT + 1


def test_a_server_that_lies_in_some_check_values_is_counted(tmp_path):
    trial = Trial.filled(tmp_path / "trial", 4, **SHAMIR)
    ended = run(trial, deeds={2: ("lie_in_check_values", 0, 7)})
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    order = sorted(range(COUNT), key=lambda index: trial.ids[index])
    verified = assert_released(trial, servers=range(4), indices=order[7:])
    assert verified.certificate.statement.manifest.left_out["0"] == {"dealt wrongly": 7}
    assert "server 2: odd in 7" in ended[0].told


def test_different_check_values_for_different_servers_name_their_sender_and_bind_nothing(tmp_path):
    trial = Trial.filled(tmp_path / "trial", 4, **SHAMIR)
    ended = run(trial, deeds={3: ("tell_two_check_values",)})
    for server in (0, 1, 2):
        assert ended[server].status == 3
        assert "InconsistentShares: " in ended[server].told
        assert "server 3 sent server 0 others than it announced to all" in ended[server].told
        assert states(trial, server) == []
    recorded = seeds(trial, range(4))
    assert {one.status for one in run(trial, servers=[0, 1, 2], options=["--without", "3"]).values()} == {0}
    assert seeds(trial, range(4)) == recorded
    assert_released(trial, servers=(0, 1, 2))


def test_a_seed_that_no_quorum_signed_is_refused_and_its_server_named(tmp_path):
    trial = Trial.filled(tmp_path / "trial", 4, **SHAMIR)
    ended = run(trial, deeds={1: ("show_a_seed_of_ones_own",)})
    for server in (0, 2, 3):
        assert "server 1 sent no valid SEED frame" in ended[server].told
        assert seeds(trial, [server]) == [None]


@pytest.mark.parametrize(
    ("moment", "step"),
    [("before", "keep"), ("after", "keep"), ("after", "exchange_values")],
    ids=["the seed is not recorded", "it is recorded", "its values are sent"],
)
def test_check_values_are_sent_under_one_seed_whatever_breaks(tmp_path, moment, step):
    """Also by the servers that did not die, and although the second run has another company."""
    trial = Trial.filled(tmp_path / "trial", 4, **SHAMIR)
    telling = dict.fromkeys((0, 2, 3), ("tell_what_is_sent", "CHECK"))
    ended = run(trial, deeds={**telling, 1: ("die", moment, "dealing", step)})
    assert ended[1].status == -9
    first = {server: sent(ended[server]) for server in (0, 2, 3)}
    recorded = {seed for seed in seeds(trial, range(4)) if seed is not None}
    assert all(not values for values in first.values()) or len(recorded) == 1
    ended = run(trial, servers=[0, 2, 3], options=["--without", "1"], deeds=telling)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    assert_released(trial, servers=(0, 2, 3))
    for server in (0, 2, 3):
        second = sent(ended[server])
        assert not first[server] or not second or first[server] == second
    assert len({seed for seed in seeds(trial, (0, 2, 3)) if seed is not None}) == 1
    assert recorded <= set(seeds(trial, range(4)))


def sent(ended):
    """Digests of the check values that a server was about to send."""
    return {line for line in ended.told.splitlines() if line.startswith("SENT CHECK")}


def test_different_seeds_that_quorums_signed_are_never_mixed(tmp_path):
    """One server has recorded another seed than the rest, as no run of honest servers can bring about."""
    trial = Trial.filled(tmp_path / "trial", 4, **SHAMIR)
    shutil.copytree(trial.root, tmp_path / "apart")
    apart = trial.__class__(
        tmp_path / "apart",
        *[getattr(trial, name) for name in ("collection", "ids")],
        trial.records,
        trial.ports,
    )
    for one in (trial, apart):
        ended = run(one, deeds=dict.fromkeys(range(4), ("die", "after", "dealing", "exchange_values")))
        assert {end.status for end in ended.values()} == {-9}
    assert seeds(trial, [0]) != seeds(apart, [0])
    shutil.rmtree(trial.folder(2) / "ledger")
    shutil.copytree(apart.folder(2) / "ledger", trial.folder(2) / "ledger")
    ended = run(trial, deeds=dict.fromkeys(range(4), ("tell_what_is_sent", "CHECK")))
    for server in range(4):
        assert ended[server].status == 3
        assert "BatchMismatch: dealing seed: different ones are recorded" in ended[server].told
        assert not sent(ended[server])
    assert {one.status for one in run(trial, servers=[0, 1, 3], options=["--without", "2"]).values()} == {0}


def test_only_shamir_shares_have_their_dealing_checked(tmp_path):
    trial = Trial.make(tmp_path / "trial", 3, count=1)
    assert not trial.collection.checked_dealing
    assert Trial.make(tmp_path / "shamir", 3, count=1, **SHAMIR).collection.checked_dealing


# Damage on the disk


def test_a_damaged_record_is_left_out_and_counted(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    damage(trial.folder(2), trial.ids[40])
    ended = run(trial)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    verified = assert_released(trial, indices=[index for index in range(COUNT) if index != 40])
    assert verified.certificate.statement.manifest.left_out == {"2": {"damaged": 1}}
    assert "server 2: 1 damaged" in ended[0].told


def test_a_record_that_is_damaged_during_the_run_binds_no_ledger(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    deed = ("damage_before", "server", "transformed_share", trial.folder(1), trial.ids[40].hex())
    ended = run(trial, deeds={1: deed})
    assert_refused(trial, ended, "SpoolError")
    assert "not as they were added" in ended[1].told
    assert all("server 1 refuses: the reason is in its own log" in ended[other].told for other in (0, 2))
    assert {one.status for one in run(trial).values()} == {0}
    assert_released(trial, indices=[index for index in range(COUNT) if index != 40])


def test_sums_that_are_damaged_between_two_runs_are_never_sent(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    run(trial, deeds={1: ("die", "after", "ledger", "begin_opening")})
    path = trial.folder(1) / "ledger" / "ledger.sqlite"
    database = sqlite3.connect(path)
    (content,) = database.execute("SELECT sums FROM releases").fetchone()
    database.close()
    flip(path, path.read_bytes().find(content) + 5)
    ended = run(trial, deeds=dict.fromkeys(range(3), ("tell_what_is_sent", "SHARE")))
    for server, one in ended.items():
        assert one.status == 2
        expected = "the ledger is damaged: number 1 of its 1 releases changed" if server == 1 else "server 1 refuses"
        assert expected in one.told
        assert "SENT SHARE" not in one.told
        assert not trial.out(server).exists()


def test_a_damaged_ledger_refuses_before_another_ledger_is_bound(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    with ReleaseLedger(trial.folder(0) / "ledger") as ledger:
        ledger.seal(bytes(32), "{}", np.zeros((1, 16), np.uint8))
        ledger._database.execute("DELETE FROM batches")
    ended = run(trial)
    for server, one in ended.items():
        assert one.status == 2
        expected = "the ledger is damaged: the reports of release" if server == 0 else "server 0 refuses"
        assert expected in one.told
        assert State.OPENING not in (states(trial, server) if server else [])
