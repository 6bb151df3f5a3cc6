"""Withdrawals: who holds the secret takes the report back until the release, and nobody else does anything."""

import time

import numpy as np
import pytest

from bench.system.collection_servers import Servers
from dpmpc.cli.main import main
from dpmpc.collection.doors import MOST_WITHDRAWALS, WITHDRAWALS, Outbox
from dpmpc.collection.roster import draw_tickets, write_roster, write_tickets
from dpmpc.collection.sealing import SECRET_BYTES, id_of, report_id
from dpmpc.collection.server_folder import ServerFolder
from dpmpc.collection.verifying import verify
from dpmpc.collection.withdrawals import secrets_of, withdraw
from dpmpc.errors import InputError, PartyMissing, TooLate
from dpmpc.network.identity import pinning_context
from support.release_processes import COUNT, assert_released, filled, run
from support.sealed_doors import PROVED, ROWS, exchange, path_of, sealed_reports
from support.waiting import PATIENCE

EVERYWHERE = {"0": 200, "1": 200, "2": 200}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Three servers with doors that tests share, unless they stop one."""
    with Servers.make(tmp_path_factory.mktemp("doors"), "--rate", "100000", sealed=True, **PROVED) as servers:
        yield servers.start()


def drawn(collection, count=1):
    """Secrets of this many reports, and the reports."""
    secrets = [np.random.default_rng().bytes(SECRET_BYTES) for _ in range(count)]
    ids = [report_id(collection.digest, secret) for secret in secrets]
    return secrets, sealed_reports(collection, ROWS[:count], ids)


def take_back(servers, server, body, **options):
    url = servers.door(server) + WITHDRAWALS.format(digest=servers.collection.digest.hex())
    return exchange("POST", url, body, **options)[:2]


def send(servers, server, *reports):
    return exchange("POST", servers.door(server) + path_of(servers.collection), b"".join(reports))[:2]


def known_at(servers, report):
    """Which servers hold a report."""
    found = []
    for server in range(3):
        with servers.spool(server) as spool:
            if id_of(report) in {bytes(one) for one in spool.ids()}:
                found.append(server)
    return found


def test_who_holds_the_secret_takes_a_report_back_at_any_door(running):
    (secret, other), (report, kept) = drawn(running.collection, 2)
    assert send(running, 0, report, kept)[0] == 200
    assert take_back(running, 2, secret) == (200, {"withdrawn": 1, "reports": [EVERYWHERE]})
    assert (known_at(running, report), known_at(running, kept)) == ([], [0, 1, 2])
    assert take_back(running, 1, secret) == (200, {"withdrawn": 1, "reports": [EVERYWHERE]})  # safe to repeat
    status, answer = send(running, 1, report)  # the same bytes never come back
    assert (status, answer["error"]) == (409, "Withdrawn")
    assert take_back(running, 0, other)[0] == 200


def test_a_withdrawal_before_the_report_keeps_it_out(running):
    (secret,), (report,) = drawn(running.collection)
    assert take_back(running, 1, secret)[0] == 200
    for server in range(3):
        assert send(running, server, report)[0] == 409
    assert known_at(running, report) == []


def test_a_stranger_takes_nothing_back(running):
    """Who knows an id, and all that goes over the lines, but not the secret."""
    _, (report,) = drawn(running.collection)
    assert send(running, 0, report)[0] == 200
    named = id_of(report)
    for guess in (named + bytes(16), bytes(16) + named, named * 2, report[1:33], report[-32:]):
        assert take_back(running, 0, guess)[0] == 200  # of a report that never came
    assert known_at(running, report) == [0, 1, 2]


@pytest.mark.parametrize(
    "body", [b"", bytes(31), bytes(33), bytes(64), bytes(range(32)) * (MOST_WITHDRAWALS + 1)], ids=len
)
def test_bodies_that_are_no_secrets_are_refused(running, body):
    status, answer = take_back(running, 0, body)
    assert (status, answer["error"]) in ((400, "ReportRejected"), (413, "TooLarge"))


def test_unknown_reports_take_a_hundredth_of_the_room_and_no_more(tmp_path):
    with Servers.make(tmp_path, sealed=True, minimum_batch=2, largest_batch=10, **PROVED) as servers:
        servers.start(0)
        most = servers.collection.most_stored // 100
        secrets, (report, *_) = drawn(servers.collection, most + 3)
        assert send(servers, 0, report)[0] == 202
        _, answer = take_back(servers, 0, b"".join(secrets[1:]))
        assert [one["0"] for one in answer["reports"]] == [200] * most + [404] * 2
        assert take_back(servers, 0, secrets[0])[1]["reports"][0]["0"] == 200  # one that is here


def test_a_late_outbox_does_not_bring_a_withdrawn_report_back(tmp_path):
    """Server 2 is away while a report comes and is withdrawn; the door is killed in between, twice."""
    with Servers.make(tmp_path, sealed=True, **PROVED) as servers:
        servers.start(0, 1)
        (secret,), (report,) = drawn(servers.collection)
        assert send(servers, 0, report)[1]["servers"] == {"0": 200, "1": 200, "2": "unreachable"}
        servers.kill(0)
        servers.start(0)
        status, answer = take_back(servers, 0, secret)
        assert (status, answer["reports"]) == (202, [{"0": 200, "1": 200, "2": "unreachable"}])
        servers.kill(0)
        with Outbox(servers.server_folder(0).spool) as outbox:
            assert outbox.waiting(2, 9) == [(id_of(report), secret)]  # in the place of the report
        servers.start(0, 2)
        until = time.monotonic() + PATIENCE
        tally = None
        while tally != (0, 0, 1) and time.monotonic() < until:
            time.sleep(0.2)
            with servers.spool(2) as spool:
                tally = tuple(spool.tally())
        assert tally == (0, 0, 1)
        assert send(servers, 2, report)[0] == 409
        assert known_at(servers, report) == []


def test_a_server_that_is_too_late_hands_a_withdrawal_on(tmp_path, capsys):
    with Servers.make(tmp_path, sealed=True, **PROVED) as servers:
        servers.start()
        (secret, last), (report, other) = drawn(servers.collection, 2)
        assert send(servers, 0, report, other)[0] == 200
        with servers.spool(0) as spool:
            spool.announce()
        status, answer = take_back(servers, 0, secret)
        assert (status, answer["reports"]) == (202, [{"0": 409, "1": 200, "2": 200}])
        assert known_at(servers, report) == [0]  # and so in no batch
        for server in (1, 2):
            with servers.spool(server) as spool:
                spool.announce()
        status, answer = take_back(servers, 1, last)
        assert (status, answer["error"]) == (409, "TooLate")
        with pytest.raises(TooLate):
            withdraw(servers.collection, [last])
        receipt = tmp_path / "receipt.txt"
        receipt.write_text(f"a trial\nsecret {last.hex()}\n")
        assert main(["withdraw", str(servers.task_file), "--receipt", str(receipt), "--door", servers.door(0)]) == 2
        assert "TooLate" in capsys.readouterr().err
        with servers.spool(1) as spool:
            spool.take_back_announcement()
        assert take_back(servers, 0, last)[1]["reports"] == [{"0": 409, "1": 200, "2": 409}]


def test_the_command_takes_back_what_submit_sent(running, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "row.txt").write_text("a=1\nb=2\ny=3\n")
    common = [str(running.task_file), "--door", running.door(0)]
    assert main(["submit", *common, "--row", "row.txt"]) == 0
    (state,) = tmp_path.glob("submission-*.state")
    (secret,) = secrets_of(state, None)
    before = state.read_bytes()
    assert main(["withdraw", *common]) == 0
    told = capsys.readouterr().out
    assert "server 2: 1 withdrawn" in told
    assert "none of them is in the release" in told
    assert state.read_bytes() == before
    assert main(["withdraw", str(running.task_file), "--state", str(state)]) == 0  # at the pinned ports
    with running.spool(1) as spool:
        assert report_id(running.collection.digest, secret) not in {bytes(one) for one in spool.ids()}


def test_a_server_that_is_away_is_named(tmp_path):
    with Servers.make(tmp_path, sealed=True, **PROVED) as servers:
        servers.start(0, 1)
        with pytest.raises(PartyMissing, match=r"servers \[2\].*server 2: 1 unreachable"):
            withdraw(servers.collection, [bytes(32)])
        with pytest.raises(PartyMissing, match="the door has taken it and tries again"):
            withdraw(servers.collection, [bytes(32)], door=servers.door(0))


def test_arguments_that_fit_nothing_are_refused(running, tmp_path):
    for wrong in ({}, {"secrets": [bytes(32)], "tickets": draw_tickets(["a"])}, {"tickets": draw_tickets(["a"])}):
        with pytest.raises(InputError, match="secrets expected"):
            withdraw(running.collection, **wrong)
    for path, words in (("no", b"nothing"), ("short", b"secret 00")):
        (tmp_path / path).write_bytes(words)
        with pytest.raises(InputError, match="64 hexadecimal digits expected"):
            secrets_of(None, tmp_path / path)
        with pytest.raises(InputError, match="a submission of format 2 expected"):
            secrets_of(tmp_path / path, None)


def test_with_a_roster_the_ticket_takes_back(tmp_path, capsys):
    with Servers.make(tmp_path, sealed=True, authenticated=True, **PROVED) as servers:
        tickets = draw_tickets(["x", "y"])
        for server in range(3):
            write_roster(servers.server_folder(server).roster, servers.collection, server, tickets)
        servers.start()
        write_tickets(tmp_path / "tickets.csv", tickets[:1])
        (tmp_path / "row.txt").write_text("a=1\nb=2\ny=3\n")
        common = [str(servers.task_file), "--tickets", str(tmp_path / "tickets.csv")]
        options = ["--row", str(tmp_path / "row.txt"), "--state", str(tmp_path / "state"), "--door", servers.door(1)]
        assert main(["submit", *common, *options]) == 0
        entry = servers.collection.servers[0]
        pinned = {"ssl": pinning_context(entry.certificate.encode()), "server_hostname": "party-0"}
        url = entry.url + WITHDRAWALS.format(digest=servers.collection.digest.hex())
        for token in (tickets[1].token(0), tickets[0].token(1), bytes(32)):  # of another client, or server
            shown = {"Authorization": f"Bearer {token.hex()}"}
            assert exchange("POST", url, tickets[0].report, headers=shown, **pinned)[0] == 403
        assert exchange("POST", url, tickets[0].report, **pinned)[0] == 401
        assert main(["withdraw", *common]) == 0
        assert "server 1: 1 withdrawn" in capsys.readouterr().out
        for server in range(3):
            with servers.spool(server) as spool:
                assert tuple(spool.tally()) == (0, 1, 0)


def test_a_withdrawal_takes_the_place_of_a_report_in_the_outbox(tmp_path):
    collection = Servers.make(tmp_path, sealed=True, **PROVED).collection
    (secret, other), (report, kept) = drawn(collection, 2)
    (tmp_path / "spool").mkdir(mode=0o700)
    with Outbox(tmp_path / "spool") as outbox:
        outbox.put([(report, [1, 2]), (kept, [1])])
        (sent,) = [entry for entry in outbox.waiting(1, 9) if entry.body == report]
        outbox.withdraw([(id_of(report), secret, [])])  # while the report is on its way to server 1
        outbox.end(1, [sent])
        assert outbox.waiting(2, 9) == [(id_of(report), secret)]
        assert (id_of(report), secret) in outbox.waiting(1, 9)
        outbox.put([(report, [2])])  # a door that was slower than the withdrawal
        assert outbox.waiting(2, 9) == [(id_of(report), secret)]
        outbox.clear()  # at closing time
        assert outbox.waiting(1, 9) == [(id_of(report), secret)]
        for server in (1, 2):
            outbox.end(server, outbox.waiting(server, 9))
        assert len(outbox) == 0
        outbox.withdraw([(id_of(kept), other, [])])  # which nobody lacks
        assert len(outbox) == 0


def test_sums_after_withdrawals_are_those_of_the_rest(tmp_path):
    """A fifth of the reports is taken back, each at one server, or two, or all; the release is exact."""
    deployment = filled(tmp_path / "trial", minimum_batch=150)
    gone = list(range(0, COUNT, 5))
    told = {server: gone[server::3] if server else gone[::2] for server in range(3)}
    told[0] = sorted({*told[0], *(set(gone) - set(told[1]) - set(told[2]))})
    for server, indices in told.items():
        with ServerFolder(deployment.folder(server)).open_spool(deployment.collection, server, writer=True) as spool:
            assert spool.withdraw([deployment.ids[index] for index in indices]) == [True] * len(indices)
    ended = run(deployment)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    rest = [index for index in range(COUNT) if index not in gone]
    verified = assert_released(deployment, indices=rest)
    manifest = verified.certificate.statement.manifest
    assert manifest.clients == len(rest)
    assert manifest.left_out == {str(server): {"withdrawn": len(indices)} for server, indices in told.items()}
    assert verify(deployment.out(0), deployment.collection)
