"""Withdrawals: who holds the secret takes the report back until the release, and nobody else does anything."""

import asyncio
import itertools
import time

import numpy as np
import pytest

from bench.system.collection_servers import Servers
from dpmpc.app.cli.main import main
from dpmpc.base.errors import NotConfirmed, TooLate
from dpmpc.base.randomness import Label
from dpmpc.collect.intake.doors import Door, Outbox
from dpmpc.collect.intake.logs import RateLimitedLogger
from dpmpc.collect.intake.service import LOGGER
from dpmpc.collect.intake.withdrawals import Withdrawals
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.endpoints import MOST_WITHDRAWALS, WITHDRAWALS
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.terms.withdrawal_verdict import Fate
from dpmpc.collect.upload.reports import make_reports
from dpmpc.collect.upload.roster import Roster, draw_tickets, write_roster, write_tickets
from dpmpc.collect.upload.sealing import SECRET_BYTES, Opener, SealedReports, SealedWithdrawals, id_of, report_id
from dpmpc.collect.upload.withdrawing import secrets_of, withdraw
from dpmpc.release.client import Client
from support.announcements import announced
from support.rejections import rejects
from support.release_processes import COUNT, Trial, assert_released, run
from support.sealed_doors import PROVED, ROWS, exchange, path_of, sealed_reports
from support.services import NoDoor
from support.waiting import PATIENCE, wait_for

NOW, BEFORE, NEVER, LATE = "withdrawn now", "was withdrawn", "never here", "too late"


def said(server, *words):
    """What a server that withdraws everything answers, of itself."""
    return 200, {"server": server, "reports": list(words)}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Three servers with doors that tests share, unless they stop one."""
    with Servers.make(tmp_path_factory.mktemp("doors"), "--rate", "100000", doors=True, **PROVED) as servers:
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


def receipt_of(folder, collection, secret):
    """What the form saves."""
    path = folder / "receipt.txt"
    name = report_id(collection.digest, secret).hex()
    path.write_text(f"a trial\ndigest {collection.digest.hex()}\nreport {name}\nsecret {secret.hex()}\n")
    return path


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
    assert take_back(running, 2, secret) == said(2, NOW)
    assert (known_at(running, report), known_at(running, kept)) == ([], [0, 1, 2])
    assert take_back(running, 1, secret) == said(1, BEFORE)  # safe to repeat
    status, answer = send(running, 1, report)  # the same bytes never come back
    assert (status, answer["error"]) == (409, "Withdrawn")
    assert take_back(running, 0, other)[0] == 200


def test_a_report_that_comes_after_its_withdrawal_is_stored_by_no_server_that_had_it(running):
    (secret,), (report,) = drawn(running.collection)
    status, answer = take_back(running, 1, secret)
    assert (status, answer["error"], answer["server"], answer["reports"]) == (404, "NeverHere", 1, [NEVER])
    for server in range(3):
        with Outbox(running.server_folder(server).spool) as outbox:
            assert len(outbox) == 0  # nothing waits on behalf of a secret of no report
    status, answer = send(running, 1, report)  # on its way until now
    assert (status, answer["error"]) == (409, "Withdrawn")
    assert take_back(running, 1, secret)[1]["reports"] == [NEVER]
    assert known_at(running, report) == []


def test_a_stranger_takes_nothing_back(running):
    """Who knows an id, and all that goes over the lines, but not the secret."""
    _, (report,) = drawn(running.collection)
    assert send(running, 0, report)[0] == 200
    named = id_of(report)
    for guess in (named + bytes(16), bytes(16) + named, named * 2, report[1:33], report[-32:]):
        assert take_back(running, 0, guess)[1]["reports"] == [NEVER]
    assert known_at(running, report) == [0, 1, 2]


@pytest.mark.parametrize(
    "body", [b"", bytes(31), bytes(33), bytes(64), bytes(range(32)) * (MOST_WITHDRAWALS + 1)], ids=len
)
def test_bodies_that_are_no_secrets_are_refused(running, body):
    status, answer = take_back(running, 0, body)
    assert (status, answer["error"]) in ((400, "ReportRejected"), (413, "TooLarge"))


def test_a_server_that_is_too_late_hands_a_withdrawal_on(tmp_path, capsys):
    with Servers.make(tmp_path, doors=True, **PROVED) as servers:
        servers.start()
        (secret, last), (report, other) = drawn(servers.collection, 2)
        assert send(servers, 0, report, other)[0] == 200
        receipt = receipt_of(tmp_path, servers.collection, last)
        command = ["withdraw", str(servers.task_file), "--receipt", str(receipt)]
        with announced(servers, 0):
            status, answer = take_back(servers, 0, secret)
            assert (status, answer["error"], answer["reports"]) == (409, "TooLate", [LATE])
            assert known_at(servers, report) == [0]  # and so in no batch
            with announced(servers, 2):
                with announced(servers, 1):
                    status, answer = take_back(servers, 1, last)
                    assert (status, answer["error"]) == (409, "TooLate")
                    with rejects("withdrawal", TooLate):
                        withdraw(servers.collection, [last])
                    assert main(command) == 2
                    assert "TooLate" in capsys.readouterr().err
                    assert main([*command, "--door", servers.door(0)]) == 3
                    assert "so that every server is asked for itself" in capsys.readouterr().err
                assert take_back(servers, 0, last)[1]["reports"] == [LATE]  # which hands it on
                assert withdraw(servers.collection, [last]).sentences == [
                    "1 report: in no release, if server 1 is honest"
                ]


def test_the_command_takes_back_what_submit_sent(running, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "row.txt").write_text("a=1\nb=2\ny=3\n")
    common = [str(running.task_file), "--door", running.door(0)]
    assert main(["submit", *common, "--row", "row.txt"]) == 0
    (state,) = tmp_path.glob("submission-*.state")
    (secret,) = secrets_of(running.collection, state=state)
    before = state.read_bytes()
    assert main(["withdraw", *common]) == 0
    told = capsys.readouterr().out
    assert f"{running.door(0)}, as server 0: 1 withdrawn now\n1 report" in told
    assert told.endswith(f"in no release, if server 0 answers at {running.door(0)} and is honest\n")
    assert state.read_bytes() == before
    assert main(["withdraw", str(running.task_file), "--state", str(state)]) == 0  # at the pinned ports
    assert "1 report: in no release, if one of servers 0, 1, 2 is honest" in capsys.readouterr().out
    with running.spool(1) as spool:
        assert report_id(running.collection.digest, secret) not in {bytes(one) for one in spool.ids()}


def test_a_server_that_is_away_is_named(tmp_path):
    with Servers.make(tmp_path, doors=True, **PROVED) as servers:
        servers.start(0, 1)
        with pytest.raises(NotConfirmed, match=r"1 of 3 servers have to confirm.*repeat") as caught:
            withdraw(servers.collection, [bytes(32)])
        assert "server 0: 1 never here; server 1: 1 never here; server 2: 1 no answer" in str(caught.value)


def test_arguments_that_fit_nothing_are_refused(running, tmp_path):
    for wrong in ({}, {"secrets": [bytes(32)], "tickets": draw_tickets(["a"])}, {"tickets": draw_tickets(["a"])}):
        with rejects("withdrawal", expected="secrets"):
            withdraw(running.collection, **wrong)
    for path, words in (("no", b"nothing"), ("short", b"secret 00")):
        (tmp_path / path).write_bytes(words)
        with rejects("receipt"):
            secrets_of(running.collection, receipt=tmp_path / path)
        with rejects("state", expected="the file of a submission"):
            secrets_of(running.collection, state=tmp_path / path)


@pytest.mark.parametrize("door", [None, 2], ids=["at each server", "through a door"])
def test_with_a_roster_the_ticket_takes_back(tmp_path, capsys, door):
    with Servers.make(tmp_path, doors=True, authenticated=True, **PROVED) as servers:
        tickets = draw_tickets(["x", "y"])
        for server in range(3):
            write_roster(servers.server_folder(server).roster, servers.collection, server, tickets)
        servers.start()
        write_tickets(tmp_path / "tickets.csv", tickets[:1])
        (tmp_path / "row.txt").write_text("a=1\nb=2\ny=3\n")
        common = [str(servers.task_file), "--tickets", str(tmp_path / "tickets.csv")]
        options = ["--row", str(tmp_path / "row.txt"), "--state", str(tmp_path / "state"), "--door", servers.door(1)]
        assert main(["submit", *common, *options]) == 0
        form, (own, other) = SealedWithdrawals(servers.collection), tickets
        honest = form.seal(own)
        url = servers.door(0) + WITHDRAWALS.format(digest=servers.collection.digest.hex())
        for token in (other.token(0), own.token(1), bytes(32)):  # of another client, of another server
            stolen = form.sealed(own.report, [token] * 3)
            assert exchange("POST", url, stolen)[0] == 403
        elsewhere = honest[:1] + other.report + honest[17:]
        as_report = Relabelled(servers.collection).seal(own)
        for wrong in (own.report, elsewhere, as_report, honest[:-1]):
            assert exchange("POST", url, wrong)[0] == 400
        assert exchange("POST", url, honest * 2)[0] == 413
        for server in range(3):
            with servers.spool(server) as spool:
                assert tuple(spool.tally()) == (1, 0)
        options = [] if door is None else ["--door", servers.door(door)]
        assert main(["withdraw", *common, *options]) == 0
        shown = capsys.readouterr().out
        assert ("server 1: 1 withdrawn now" in shown) == (door is None)
        for server in range(3):
            with servers.spool(server) as spool:
                wait_for(lambda spool=spool: tuple(spool.tally()) == (0, 1), "the withdrawal at each server")


class Relabelled(SealedWithdrawals):
    label = Label.SEALED_RECORD


def test_after_the_keys_are_gone_a_server_answers_and_changes_nothing(tmp_path):
    made = Servers.make(tmp_path, authenticated=True, **PROVED)
    tickets, seals = draw_tickets(["x"]), made.server_folder(0).seals
    write_roster(made.server_folder(0).roster, made.collection, 0, tickets)
    roster = Roster(made.server_folder(0).roster, made.collection, 0)
    body = SealedWithdrawals(made.collection).seal(tickets[0])

    async def run(withdrawals):
        return (await withdrawals.take(body, through_door=False)).content["reports"]

    opener = Opener(made.collection, 0, seals)
    with made.server_folder(0).open_spool(made.collection, 0, writer=True) as spool:
        withdrawals = Withdrawals(made.collection, 0, spool, None, opener=opener, roster=roster, door=NoDoor())
        for _ in range(2):
            assert asyncio.run(run(withdrawals)) == [Fate.NEVER]
            opener.delete_keys()
        assert opener.ended


def test_a_withdrawal_takes_the_place_of_a_report_in_the_outbox(tmp_path):
    collection = Servers.make(tmp_path, doors=True, **PROVED).collection
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
        outbox.clear(len(report))  # at closing time
        assert outbox.waiting(1, 9) == [(id_of(report), secret)]
        for server in (1, 2):
            outbox.end(server, outbox.waiting(server, 9))
        assert len(outbox) == 0
        outbox.withdraw([(id_of(kept), other, [])])  # which nobody lacks
        assert len(outbox) == 0


def test_after_a_withdrawal_by_ticket_the_outbox_hands_on_the_other_reports(tmp_path):
    """Server 2 is away while two reports come, one of which is taken back; it gets the other one later."""
    with Servers.make(tmp_path, doors=True, authenticated=True, **PROVED) as servers:
        tickets = draw_tickets(["x", "y"])
        for server in range(3):
            write_roster(servers.server_folder(server).roster, servers.collection, server, tickets)
        servers.start(0, 1)
        records = make_reports(
            Client(servers.collection.plan.verify()), servers.collection, ROWS[:2], [x.report for x in tickets]
        )
        form = SealedReports(servers.collection)
        sealed = [form.seal(own, one) for own, one in zip(zip(*records, strict=True), tickets, strict=True)]
        for report in sealed:
            assert send(servers, 0, report)[1]["servers"] == {"0": 200, "1": 200, "2": "unreachable"}
        assert withdraw(servers.collection, tickets=tickets[:1]).reports == [{0: NOW, 1: NOW, 2: "no answer"}]
        servers.start(2)
        until, left = time.monotonic() + PATIENCE, 1
        while left and time.monotonic() < until:
            time.sleep(0.2)
            with Outbox(servers.server_folder(0).spool) as outbox:
                left = len(outbox)  # nothing that stays there keeps what is behind it
        assert (left, known_at(servers, sealed[0]), known_at(servers, sealed[1])) == (0, [], [0, 1, 2])


def test_what_is_withdrawn_twice_at_once_is_handed_on_once(running):
    """A request that holds a secret twice is refused, with the withdrawals of everybody else in it."""
    (secret, other), reports = drawn(running.collection, 2)
    assert send(running, 0, *reports)[0] == 200
    folder = running.server_folder(0)

    async def hand_on():
        with Outbox(folder.spool) as outbox:
            door = Door(running.collection, 0, folder.identity, outbox, RateLimitedLogger(LOGGER))
            handed = [part for courier in door._couriers.values() for part in courier.hand((secret, other, secret))]
            task = asyncio.create_task(door.run())
            found = await asyncio.wait_for(asyncio.gather(*(part.statuses for part in handed)), PATIENCE)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return list(itertools.chain.from_iterable(found))

    assert asyncio.run(hand_on()) == [200] * 6
    assert [known_at(running, report) for report in reports] == [[0], [0]]


def test_sums_after_withdrawals_are_those_of_the_rest(tmp_path):
    """A fifth of the reports is taken back, each at one server, or two, or all; the release is exact."""
    trial = Trial.filled(tmp_path / "trial", minimum_batch=150)
    gone = list(range(0, COUNT, 5))
    told = {server: gone[server::3] if server else gone[::2] for server in range(3)}
    told[0] = sorted({*told[0], *(set(gone) - set(told[1]) - set(told[2]))})
    for server, indices in told.items():
        with ServerFolder(trial.folder(server)).open_spool(trial.collection, server, writer=True) as spool:
            assert spool.withdraw([trial.ids[index] for index in indices]) == [NOW] * len(indices)
    ended = run(trial)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    rest = [index for index in range(COUNT) if index not in gone]
    verified = assert_released(trial, indices=rest)
    manifest = verified.certificate.statement.manifest
    assert manifest.clients == len(rest)
    assert manifest.left_out == {str(server): {"withdrawn": len(indices)} for server, indices in told.items()}
    assert verify(trial.out(0), trial.collection)
