"""Uploads: real servers over loopback TLS where processes matter, the application in this process where answers do."""

import asyncio
import contextlib
import datetime
import json
import logging
import shutil
import socket
import ssl
import types

import aiohttp
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

from bench.system.collection_servers import Servers
from bench.system.crash import crash
from bench.system.fuzz import fuzz
from bench.system.ports import free_ports
from dpmpc.app.cli.main import main
from dpmpc.app.cli.options import address
from dpmpc.base.errors import (
    CollectionClosed,
    PartyImpersonated,
    PartyMissing,
    ReportConflict,
    ReportRejected,
    SpoolError,
)
from dpmpc.collect.intake.admission import ADDRESSES, Admission, Buckets, Limits, Refusal, network_of
from dpmpc.collect.intake.group_commit import GroupCommit, NoRoom
from dpmpc.collect.intake.service import LEAST_FREE_BYTES
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.server_folder import open_spool
from dpmpc.collect.terms.endpoints import OWN_UPLOADS
from dpmpc.collect.upload import uploader
from dpmpc.collect.upload.pending import Pending
from dpmpc.collect.upload.reports import ReportFormat, make_reports
from dpmpc.collect.upload.roster import Roster, draw_tickets, read_tickets, write_roster, write_tickets
from dpmpc.collect.upload.sealing import SealedReports, id_of
from dpmpc.collect.upload.submission import Submission
from dpmpc.parties.network.identity import pinning_context, write_identity
from dpmpc.release.client import Client
from support import forks
from support.rejections import blames, rejects
from support.sealed_doors import sealed_for
from support.services import asking, service_in
from support.waiting import PATIENCE

ROWS = np.random.default_rng(7).uniform(0, 10, (40, 3))
MINUTE = datetime.timedelta(minutes=1)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Three servers that all tests of this module share."""
    with Servers.make(tmp_path_factory.mktemp("running"), "--max-body", "4800", "--rate", "100000") as servers:
        yield servers.start()


@pytest.fixture(scope="module")
def collection(running):
    return running.collection


def records(collection, rows=ROWS, first=0):
    ids = [(first + index + 1).to_bytes(16) for index in range(len(rows))]
    return make_reports(Client(collection.plan.verify()), collection, rows, ids)


def reports(collection, rows=ROWS, first=0):
    return list(map(SealedReports(collection).seal, zip(*records(collection, rows, first), strict=True)))


def answers(servers, requests, tmp_path=None, **options):
    """Send requests one after the other to a service in this process; return status, JSON and headers of each."""
    seals = servers.server_folder(0).seals

    async def run():
        with service_in(tmp_path, servers.collection, seals=seals, **options) as (service, spool):
            try:
                async with asking(service) as client:
                    found = []
                    for method, path, arguments in requests:
                        async with client.request(method, path, **arguments) as response:
                            content = await response.read()
                            found.append((response.status, content, response.headers))
                    return found, len(spool)
            finally:
                await service.close()

    return asyncio.run(run())


def uploads(collection):
    return OWN_UPLOADS.format(digest=collection.digest.hex())


def post(collection, body, **headers):
    return ("POST", uploads(collection), {"data": body, "headers": headers})


def test_an_upload_reaches_all_servers_and_repeating_it_changes_nothing(running, collection, tmp_path):
    before = [len_of(running, server) for server in range(3)]
    submission = Submission(collection=collection, state=tmp_path / "state", batch=7, seconds=60)
    done = submission.run(ROWS)
    assert (done.reports, done.stored, done.duplicates) == (40, (40,) * 3, (0,) * 3)
    again = submission.run(ROWS)  # nothing is left to send
    assert (again.stored, again.finished_before, done.finished_before) == ((0,) * 3, True, False)
    assert [len_of(running, server) for server in range(3)] == [count + 40 for count in before]
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600
    with rejects("state"):
        submission.run(ROWS[:39])


def len_of(servers, server):
    with servers.spool(server) as spool:
        return len(spool)


def test_a_submission_that_was_cut_short_sends_the_same_bytes(running, collection, tmp_path):
    submission = Submission(collection=collection, state=tmp_path / "state", seconds=60)
    with submission.open(ROWS) as pending:
        kept = [record for server in range(3) for part in pending.records(server, 9) for record in part]
        assert len(kept) == len(pending) == 120
    assert kept[:40] == kept[40:80] == kept[80:]
    for server in (0, 2):  # these have stored and acknowledged, but the client has not heard of it
        send_raw(collection, server, b"".join(content for _, content in kept[:40]))
    done = submission.run(ROWS)
    assert done.stored == (0, 40, 0)
    assert done.duplicates == (40, 0, 40)


def send_raw(collection, server, body):
    async def run():
        entry = collection.servers[server]
        size = SealedReports(collection).report_bytes
        context = pinning_context(entry.certificate.encode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            for start in range(0, len(body), size):
                url = entry.url + uploads(collection)
                part = body[start : start + size]
                async with session.post(url, data=part, server_hostname=f"party-{server}") as response:
                    assert response.status == 200

    asyncio.run(run())


def test_the_client_ends_where_a_server_is_missing_and_goes_on_later(tmp_path):
    with Servers.make(tmp_path, minimum_batch=2000) as servers:
        servers.start(0, 1)
        submission = Submission(collection=servers.collection, state=tmp_path / "state", seconds=3)
        with blames(2, PartyMissing):
            submission.run(ROWS[:3])
        servers.start(2)
        later = Submission(collection=servers.collection, state=tmp_path / "state", seconds=60)
        assert later.run(ROWS[:3]).stored[2] == 3
        assert [servers.stop(server) for server in range(3)] == [0, 0, 0]
        assert all("Traceback" not in servers.log(server) for server in range(3))


@pytest.mark.parametrize("listens", [True, False], ids=["silent", "away"])
def test_a_server_that_keeps_silent_is_told_of_within_seconds(tmp_path, monkeypatch, capsys, listens):
    monkeypatch.setattr(uploader, "SILENCE_SECONDS", 0.8)
    monkeypatch.setattr(uploader, "REMINDER_SECONDS", 0.8)
    monkeypatch.setattr(uploader, "ATTEMPT_SECONDS", 1.5)
    for delay in ("FIRST_DELAY", "LONGEST_DELAY"):  # a long pause would be the last, before anything is told again
        monkeypatch.setattr(uploader, delay, 0.1)
    with Servers.make(tmp_path, minimum_batch=2000) as servers, socket.socket() as quiet:
        servers.start(0, 1)
        if listens:  # takes connections, and says nothing
            quiet.bind(servers.address(2))
            quiet.listen()
        (tmp_path / "row").write_text("y=1\na=2\nb=3\n")
        row = ["--row", str(tmp_path / "row"), "--state", str(tmp_path / "state"), "--seconds", "3"]
        assert main(["submit", str(tmp_path / "collection.json"), *row]) == 3
    *told, ended = capsys.readouterr().err.splitlines()
    start = "dpmpc submit: server {}, {}: nothing acknowledged for "
    starts = [start.format(server, entry.url) for server, entry in enumerate(servers.collection.servers)]
    assert all(line.startswith(tuple(starts)) for line in told)  # the others may be slow on a busy machine
    told = [line for line in told if line.startswith(starts[2])]
    assert len(told) >= 2
    assert ("no answer yet" if listens else "ClientConnectorError") in told[0]
    assert "PartyMissing: server 2" in ended


@pytest.mark.parametrize("copies", [1_000, pytest.param(10_000, marks=pytest.mark.long("10,000 uploads, not 1,000"))])
def test_ten_thousand_copies_across_a_restart_count_once(tmp_path, copies):
    """One report, sent from 50 connections at once; the server is killed in the middle."""
    connections = 50
    with Servers.make(tmp_path, "--rate", "1000000") as servers:
        servers.start(0)
        body = reports(servers.collection, ROWS[:1])[0]
        stored = asyncio.run(hammer(servers, body, copies, connections))
        assert len_of(servers, 0) == 1
        assert sum(stored) <= 1
        assert len(stored) == copies


async def hammer(servers, body, copies, connections):
    entry = servers.collection.servers[0]
    url = entry.url + uploads(servers.collection)
    stored = []
    left = iter(range(copies))
    context = pinning_context(entry.certificate.encode())

    async def send(session):
        for number in left:
            if number == copies // 2:
                await asyncio.to_thread(servers.kill, 0)
                await asyncio.to_thread(servers.start, 0)
            while True:
                try:
                    async with session.post(url, data=body, server_hostname="party-0") as response:
                        assert response.status == 200
                        stored.append((await response.json())["stored"])
                        break
                except (aiohttp.ClientError, OSError):
                    await asyncio.sleep(0.1)

    connector = aiohttp.TCPConnector(ssl=context, limit=connections)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(send(session) for _ in range(connections)))
    return stored


@pytest.mark.parametrize(
    ("uploads", "kills"), [(50, 2), pytest.param(300, 6, marks=pytest.mark.long("6 kills, not 2"))]
)
def test_what_was_acknowledged_survives_kills(tmp_path, uploads, kills):
    outcome = crash(tmp_path, uploads=uploads, clients=2, kills=kills, seed=3)
    assert outcome.passed, outcome
    assert (outcome.uploads, outcome.kills >= kills) == (uploads, True)


def test_a_server_that_stops_has_answered_what_it_took(tmp_path):
    """SIGTERM while requests are under way: whoever got an answer is in the spool."""
    with Servers.make(tmp_path) as servers:
        servers.start(0)
        own = reports(servers.collection, np.repeat(ROWS, 5, axis=0))
        acknowledged = asyncio.run(stop_meanwhile(servers, own))
        assert servers.processes == {}
        with servers.spool(0) as spool:
            ids = {bytes(report) for report in spool.ids()}
        assert 0 < len(acknowledged) <= len(own)
        assert acknowledged <= ids
        assert "stopping" in servers.log(0)


async def stop_meanwhile(servers, own):
    entry = servers.collection.servers[0]
    acknowledged = set()
    connector = aiohttp.TCPConnector(ssl=pinning_context(entry.certificate.encode()), limit=8)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send(body):
            with contextlib.suppress(aiohttp.ClientError, OSError):
                url = entry.url + uploads(servers.collection)
                async with session.post(url, data=body, server_hostname="party-0") as response:
                    if response.status == 200:
                        acknowledged.add(id_of(body))

        sending = [asyncio.create_task(send(body)) for body in own]
        await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
        assert await asyncio.to_thread(servers.stop, 0) == 0
        await asyncio.gather(*sending)
    return acknowledged


def test_only_tls_1_3_with_the_pinned_certificate_is_spoken(running, collection, tmp_path):
    host, port = running.address(0)
    with socket.create_connection((host, port), timeout=10) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP" not in plain.recv(1000)
    older = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    older.check_hostname, older.verify_mode = False, ssl.CERT_NONE
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection((host, port), timeout=10) as plain, pytest.raises(ssl.SSLError):
        older.wrap_socket(plain)
    certificate = write_identity(tmp_path / "other", 0, datetime.timedelta(days=1))
    with socket.create_connection((host, port), timeout=10) as plain, pytest.raises(ssl.SSLCertVerificationError):
        pinning_context(certificate).wrap_socket(plain, server_hostname="party-0")


def test_a_request_that_is_none_is_refused_and_not_logged(running, collection):
    host, port = running.address(0)
    context = pinning_context(collection.servers[0].certificate.encode())
    with (
        socket.create_connection((host, port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="party-0") as link,
    ):
        link.sendall(b"POST /v1 HTTP/1.1\r\nAuthorization Bearer 00112233\r\n\r\n")
        assert b" 400 " in link.recv(1000)[:20]
    assert "00112233" not in running.log(0)


def test_a_client_believes_the_pinned_certificate_only(running, collection, tmp_path):
    certificate = write_identity(tmp_path / "other", 0, datetime.timedelta(days=1)).decode()
    fields = collection.to_dict()
    fields["servers"] = [{**fields["servers"][0], "certificate": certificate}, *fields["servers"][1:]]
    changed = type(collection).from_dict(fields)
    with blames(0, PartyImpersonated):
        Submission(collection=changed, state=tmp_path / "state", seconds=30).run(ROWS[:1])


@pytest.mark.parametrize("host", ["..", "x" * 300])
def test_a_name_that_no_host_can_have_is_named(tmp_path, host, capsys):
    Servers.make(tmp_path)
    command = ["serve", str(tmp_path / "collection.json"), "--server", "0", "--folder", str(tmp_path / "server-0")]
    assert main([*command, "--listen", f"{host}:8443", "--web", "127.0.0.1:0"]) == 2
    assert f"listen: cannot listen on {host}:8443" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [":1", "a", "a:", "a:65536", "::1:1", "[::1:1", "a]:1", "a b:1", "a:１"])
def test_an_address_to_listen_at_is_a_host_and_a_port(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "collection", "--server", "0", "--folder", "folder", "--listen", wrong])
    assert ended.value.code == 2
    assert "HOST:PORT expected" in capsys.readouterr().err
    assert address("[::1]:443") == ("::1", 443)


def test_a_server_refuses_a_folder_that_is_not_its_own(tmp_path):
    servers = Servers.make(tmp_path)
    command = ["serve", tmp_path / "collection.json", "--server", "1", "--web", "127.0.0.1:0"]
    command += ["--listen", f"127.0.0.1:{free_ports(1)[0]}"]
    done = forks.run(*command, "--folder", tmp_path / "server-0")
    assert (done.returncode, "not the certificate" in done.stderr) == (2, True)
    key = servers.server_folder(1).identity / "party.key"
    key.chmod(0o644)
    done = forks.run(*command, "--folder", tmp_path / "server-1")
    assert (done.returncode, "0600 expected" in done.stderr) == (2, True)


def test_answers_name_what_is_wrong(running, collection, tmp_path):
    first, second = reports(collection)[:2]
    again = reports(collection)[0]  # the same id for another report
    other = uploads(collection).replace(collection.digest.hex(), "00" * 32)
    own = 17 + SealedReports(collection).record_bytes[0]
    requests = [
        post(collection, first),
        post(collection, first),
        post(collection, again),
        post(collection, second + again),
        post(collection, second[:-1]),
        post(collection, b""),
        post(collection, second[: own - 1] + bytes([second[own - 1] ^ 1]) + second[own:]),
        post(collection, second[:1] + bytes(16) + second[17:]),
        ("POST", other, {"data": second}),
        ("GET", uploads(collection), {}),
        ("GET", "/elsewhere", {}),
        post(collection, second * 300),
    ]
    limits = Limits(body_bytes=len(second) * 100)
    found, stored = answers(running, requests, tmp_path=tmp_path, limits=limits)
    assert [status for status, _, _ in found] == [200, 200, 409, 202, 400, 400, 400, 400, 404, 405, 404, 413]
    told = [json.loads(content) for _, content, _ in found[:4]]
    assert told[0] == {"stored": 1, "duplicates": 0, "servers": {"0": 200}, "reports": [{"0": 200}]}
    assert (told[1]["stored"], told[1]["duplicates"]) == (0, 1)
    assert told[2]["error"] == "ReportConflict"
    assert told[3]["reports"] == [{"0": 200}, {"0": 409}]  # the one in conflict fails alone
    assert f"{len(second) * 300} bytes given, at most {len(second) * 100}".encode() in found[-1][1]
    assert stored == 2


def test_a_body_without_a_length_is_refused(running, collection, tmp_path):
    async def parts():
        yield reports(collection)[0]

    found, stored = answers(running, [post(collection, parts())], tmp_path=tmp_path)
    assert (found[0][0], stored) == (411, 0)


def test_reports_come_between_opening_and_closing(running, collection, tmp_path):
    body = reports(collection)[0]
    for moment, status in (
        (collection.opens - MINUTE, 425),
        (collection.opens, 200),
        (collection.closes - MINUTE, 200),
        (collection.closes, 410),
    ):
        found, _ = answers(running, [post(collection, body)], tmp_path=tmp_path, now=lambda moment=moment: moment)
        assert found[0][0] == status
        if status != 200:
            assert moment.isoformat(timespec="seconds").encode() in found[0][1]  # the numbers


def test_a_closed_spool_answers_410(running, collection, tmp_path):
    with open_spool(tmp_path / "spool", collection, 0, writer=True) as spool:
        spool.close_for_good()
    found, stored = answers(running, [post(collection, reports(collection)[0])], tmp_path=tmp_path)
    assert (found[0][0], stored) == (410, 0)


def test_an_address_has_its_rate(running, collection, tmp_path):
    own = reports(collection)
    limits = Limits(rate=0.2, body_bytes=4800)  # two reports at once, then one in five seconds
    requests = [post(collection, b"".join(own[:2])), post(collection, own[2])]
    found, stored = answers(running, requests, tmp_path=tmp_path, limits=limits)
    assert [status for status, _, _ in found] == [200, 429]
    assert found[1][2]["Retry-After"] in ("5", "4")  # the latter if a second has gone by meanwhile
    assert stored == 2


def test_a_rate_of_nearly_nothing_says_come_back_tomorrow(running, collection, tmp_path):
    own = reports(collection)
    requests = [post(collection, own[0]), post(collection, own[1])]
    found, stored = answers(running, requests, tmp_path=tmp_path, limits=Limits(rate=5e-324))
    assert [status for status, _, _ in found] == [200, 429]
    assert (found[1][2]["Retry-After"], stored) == ("86400", 1)


def test_buckets_are_bounded_and_fill_again():
    now = 0.0
    buckets = Buckets(2.0, lambda: now)
    assert [buckets.take("a", 1) for _ in range(20)] == [0.0] * 20
    assert buckets.take("a", 1) == 0.5
    assert buckets.take("b", 1) == 0.0
    now = 0.5
    assert buckets.take("a", 1) == 0.0
    for number in range(ADDRESSES + 5):
        buckets.take(str(number), 1)
    assert len(buckets) == ADDRESSES


def test_an_upload_larger_than_a_bucket_passes_when_it_is_full():
    now = 0.0
    buckets = Buckets(1.0, lambda: now)
    assert buckets.take("a", 25) == 0.0
    now = 10.0
    assert buckets.take("a", 1) == 6.0  # 15 are owed yet


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, ""),
    ],
)
def test_an_address_stands_for_a_household(address, network):
    assert network_of(address) == network


def test_an_address_has_its_share_of_what_is_stored(tmp_path):
    """Of 8,000 places an address gets 4,000, and whoever comes later still finds some: nobody is sent away for good."""
    servers = Servers.make(tmp_path, largest_batch=2000, minimum_batch=2000)
    collection = servers.collection
    assert collection.entrance_room == 8000
    own = sealed_for(collection, 0, [index.to_bytes(16) + bytes(16) for index in range(4002)])
    requests = [
        post(collection, b"".join(own[:3999])),
        post(collection, own[3999] + own[4000]),  # one too many
        post(collection, own[4001]),
        post(collection, own[5]),  # a client that sends again is told that it was heard
    ]
    found, stored = answers(servers, requests, tmp_path=tmp_path, limits=Limits(rate=1e6))
    assert [status for status, _, _ in found] == [200, 202, 503, 200]
    assert sorted(one["0"] for one in json.loads(found[1][1])["reports"]) == [200, 503]
    assert b"NoRoom" in found[2][1]
    assert b"1 new ones given, more than this address may store now" in found[2][1]  # and no count of others' reports
    assert int(found[2][2]["Retry-After"]) > 0
    assert stored == 4000


def commits(collection, folder, bodies, server=0):
    """Commit bodies one after the other, with their senders; return what became of each."""

    async def run():
        with open_spool(folder, collection, server, writer=True) as spool:
            commit = GroupCommit(ReportFormat(collection, server), spool)
            try:
                return [(await asyncio.gather(commit.commit(*each), return_exceptions=True))[0] for each in bodies]
            finally:
                await commit.close()

    return asyncio.run(run())


def test_strangers_leave_room_for_everybody_else(tmp_path):
    """Three addresses take all they can, also after a restart; then a hundred clients come with one report each."""
    collection = Servers.make(tmp_path, largest_batch=2000, minimum_batch=2000).collection
    number = iter(range(1 << 20))

    def reports(count):
        return b"".join(next(number).to_bytes(16) + bytes(16) for _ in range(count))

    sizes = [1000, 300, 100, 30, 10, 3, 1]
    hostile = [(reports(size), f"192.0.2.{address}") for address in range(3) for size in sizes for _ in range(4)]
    taken = commits(collection, tmp_path / "spool", hostile)
    again = commits(collection, tmp_path / "spool", [(reports(4000), "192.0.2.0"), (reports(1), "a")])
    honest = commits(collection, tmp_path / "spool", [(reports(1), f"198.51.100.{client}") for client in range(100)])
    assert sum(one.stored for one in taken if not isinstance(one, Exception)) > 6000
    assert {type(one).__name__ for one in taken} == {"Added", "NoRoom"}
    assert isinstance(again[0], NoRoom)  # what was stored before the restart still counts as stored
    assert again[1].stored == 1
    assert [one.stored for one in honest] == [1] * 100


def test_a_roster_is_its_own_limit(tmp_path):
    collection = Servers.make(tmp_path, largest_batch=2000, minimum_batch=2000, authenticated=True).collection
    body = b"".join(index.to_bytes(16) + bytes(16) for index in range(5000))
    (added,) = commits(collection, tmp_path / "spool", [(body, "192.0.2.1")])
    assert added.stored == 5000


def test_a_full_queue_and_a_full_disk_say_come_back(running, collection, tmp_path, monkeypatch, caplog):
    def full(self, uploads):
        raise SpoolError("no space left in /somewhere")

    monkeypatch.setattr(ReportStore, "add_all", full)
    found, stored = answers(running, [post(collection, reports(collection)[0])], tmp_path=tmp_path)
    assert (found[0][0], found[0][2]["Retry-After"], stored) == (503, "30", 0)
    assert b"somewhere" not in found[0][1]
    assert "somewhere" in caplog.text


def test_health_knows_a_full_disk(running, collection, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=LEAST_FREE_BYTES - 1))
    found, _ = answers(running, [("GET", "/healthz", {})], tmp_path=tmp_path)
    assert (found[0][0], b'"disk": false' in found[0][1], b'"healthy": false' in found[0][1]) == (503, True, True)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=LEAST_FREE_BYTES))
    found, _ = answers(running, [("GET", "/healthz", {})], tmp_path=tmp_path)
    assert (found[0][0], b'"disk": true' in found[0][1]) == (200, True)


def test_health_knows_that_storing_failed_and_that_it_works_again(running, collection, tmp_path, monkeypatch):
    real, failing = ReportStore.add_all, [True, False]

    def add_all(self, uploads):
        if failing.pop(0):
            raise SpoolError("no space left in /somewhere")
        return real(self, uploads)

    monkeypatch.setattr(ReportStore, "add_all", add_all)
    upload, health = post(collection, reports(collection)[0]), ("GET", "/healthz", {})
    found, _ = answers(running, [health, upload, health, upload, health], tmp_path=tmp_path)
    assert [status for status, _, _ in found] == [200, 503, 503, 200, 200]
    assert b"somewhere" not in found[2][1]


def test_memory_for_bodies_is_bounded(collection):
    form = ReportFormat(collection, 0)
    gate = Admission(form, Limits(waiting_bytes=12_000, body_bytes=480), None)
    assert gate.longest_of(48) == 480
    with gate.room("192.0.2.1", 480, 48), gate.room("192.0.2.2", 48, 48):
        for address in ("192.0.2.3", "192.0.2.1"):
            with pytest.raises(Refusal) as caught, gate.room(address, 48, 48):
                pass
            assert (caught.value.status, caught.value.reason) == (503, "Busy")
    assert gate.waiting == 0
    words = Admission(ReportFormat(collection, 2), Limits(share_bytes=20), None)
    assert words.longest_of(1000) == 1000  # one report always fits


def test_slow_bodies_of_eight_addresses_leave_memory_to_others(collection):
    """Each address announces bodies of a megabyte, then shorter ones, until no more are taken, and sends nothing."""
    gate, size = Admission(ReportFormat(collection, 0), Limits(), None), SealedReports(collection).report_bytes
    with contextlib.ExitStack() as held:
        for address in range(8):
            for length in (1 << power for power in range(20, 5, -1) for _ in range(64)):
                with contextlib.suppress(Refusal):
                    held.enter_context(gate.room(f"192.0.2.{address}", length, size))
        assert gate.waiting > 40 << 20
        for client in range(100):
            with gate.room(f"198.51.100.{client}", size, size):
                pass


def test_an_unexpected_error_reaches_whoever_waits(running, collection, tmp_path, monkeypatch):
    def broken(self, uploads):
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(ReportStore, "add_all", broken)
    found, _ = answers(running, [post(collection, reports(collection)[0])] * 2, tmp_path=tmp_path)
    assert [status for status, _, _ in found] == [500, 500]
    assert b"unforeseen" not in found[0][1]


def test_a_group_is_stored_at_once_and_a_conflict_fails_alone(collection, tmp_path):
    groups = []

    async def run():
        with open_spool(tmp_path / "spool", collection, 0, writer=True) as spool:
            commits = GroupCommit(ReportFormat(collection, 0), spool, lambda requests, seconds: groups.append(requests))
            own, bad = records(collection)[0], records(collection)[0][3]
            cut = [own[5][:20], own[5][20:]]  # one record, in two bodies
            bodies = [*own, bad, b"?", b"", *cut, own[0]]
            outcomes = await asyncio.gather(*map(commits.commit, bodies), return_exceptions=True)
            await commits.close()
            with rejects("commit", SpoolError, given="the server is stopping, nothing was stored"):
                await commits.commit(own[0])
            return outcomes, len(spool)

    outcomes, stored = asyncio.run(run())
    kinds = [type(outcome) for outcome in outcomes[40:]]
    assert kinds[:5] == [ReportConflict, *[ReportRejected] * 4]
    assert (outcomes[-1].stored, outcomes[-1].duplicates, stored) == (0, 1, 40)
    assert sum(groups) == 46
    assert len(groups) < 10


def test_health_metrics_and_the_public_file(running, collection, tmp_path):
    requests = [("GET", path, {}) for path in ("/healthz", "/metrics", "/v1/collection")]
    found, _ = answers(running, [post(collection, reports(collection)[0]), *requests], tmp_path=tmp_path)
    _, health, metrics, public = found
    assert (health[0], b'"healthy": true' in health[1]) == (200, True)
    assert b"dpmpc_reports_accepted_total 1.0" in metrics[1]
    assert b"dpmpc_reports_stored 1.0" in metrics[1]
    assert type(collection).from_dict(json.loads(public[1])).digest == collection.digest


@pytest.mark.parametrize("behind_proxy", [True, False])
def test_a_header_names_the_caller_behind_a_proxy_alone(running, collection, tmp_path, behind_proxy):
    """Two reports of two callers, as the header says, where one report of a caller is taken."""
    options = {"seals": running.server_folder(0).seals, "limits": Limits(rate=1e-3)}

    async def run():
        with service_in(tmp_path, collection, **options) as (service, _):
            async with TestClient(TestServer(service.clients(behind_proxy=behind_proxy))) as client:
                statuses = []
                for number, body in enumerate(reports(collection)[:2]):
                    headers = {"X-Forwarded-For": f"192.0.2.{number}"}
                    async with client.post(uploads(collection), data=body, headers=headers) as response:
                        statuses.append(response.status)
            await service.close()
            return statuses

    assert asyncio.run(run()) == [200, 200 if behind_proxy else 429]


def test_a_slow_body_is_cut_off(collection, tmp_path):
    async def run():
        with service_in(tmp_path, collection, limits=Limits(read_seconds=0.3)) as (service, spool):
            async with TestServer(service.clients(behind_proxy=False)) as server:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                head = f"POST {uploads(collection)} HTTP/1.1\r\nHost: x\r\nContent-Length: 48\r\n\r\n"
                writer.write(head.encode() + b"x")
                await asyncio.wait_for(reader.read(), PATIENCE)
                writer.close()
            await service.close()
            return len(spool)

    assert asyncio.run(run()) == 0


def test_a_roster_admits_its_clients_once_each(tmp_path):
    with Servers.make(tmp_path, authenticated=True) as servers:
        collection = servers.collection
        tickets = draw_tickets(["a", "b", "c"])
        write_tickets(tmp_path / "tickets.csv", tickets)
        assert read_tickets(tmp_path / "tickets.csv") == tickets
        for server in range(3):
            write_roster(servers.server_folder(server).roster, collection, server, tickets)
        servers.start()
        submission = Submission(collection=collection, state=tmp_path / "state", tickets=tickets[:2], seconds=60)
        assert submission.run(ROWS[:2]).stored == (2, 2, 2)
        second = Submission(collection=collection, state=tmp_path / "second", tickets=tickets[:1], seconds=60)
        with pytest.raises(ReportConflict):
            second.run(ROWS[:1])
        assert [len_of(servers, server) for server in range(3)] == [2, 2, 2]
        secrets = [text for ticket in tickets for text in (ticket.secret.hex(), ticket.token(0).hex())]
        assert not any(text in servers.log(server) for text in secrets for server in range(3))


def test_a_token_speaks_for_one_client_at_one_server(tmp_path):
    servers = Servers.make(tmp_path, authenticated=True)
    collection = servers.collection
    tickets = draw_tickets(["a", "b"])
    write_roster(tmp_path / "roster-0", collection, 0, tickets)
    roster = Roster(tmp_path / "roster-0", collection, 0)
    own = make_reports(Client(collection.plan.verify()), collection, ROWS[:2], [one.report for one in tickets])
    first, second = zip(*own, strict=True)
    stranger = draw_tickets(["c"])[0]
    seal = SealedReports(collection).seal
    shifted = types.SimpleNamespace(token=lambda server: tickets[0].token(server + 1))  # of another server
    requests = [
        *(post(collection, seal(first, ticket)) for ticket in (tickets[1], shifted, stranger)),
        post(collection, seal(first, tickets[1]) + seal(second, tickets[1])),
        post(collection, seal(first, tickets[0])),
    ]
    found, stored = answers(servers, requests, tmp_path=tmp_path, roster=roster)
    assert [status for status, _, _ in found] == [403, 403, 403, 202, 200]
    assert json.loads(found[3][1])["reports"] == [{"0": 403}, {"0": 200}]
    assert stored == 2
    with rejects("roster", expected="that of server 1 for this collection"):
        Roster(tmp_path / "roster-0", collection, 1)
    with rejects("roster"):
        answers(servers, [], tmp_path=tmp_path)


def test_a_permanent_refusal_is_a_typed_error(running, collection, tmp_path):
    state, content = tmp_path / "state", ROWS[:1].tobytes()
    submission = Submission(collection=collection, state=state, seconds=60)
    with Pending(state, collection, content, [reports(collection, ROWS[:1], first=900)], 3, secrets_of_ids=[bytes(32)]):
        pass
    submission.run(ROWS[:1])
    other = Submission(collection=collection, state=tmp_path / "other", seconds=60)
    with Pending(
        tmp_path / "other",
        collection,
        content,
        [reports(collection, ROWS[:1], first=900)],
        3,
        secrets_of_ids=[bytes(32)],
    ):
        pass
    with pytest.raises(ReportConflict, match="server"):
        other.run(ROWS[:1])


def test_too_late_is_told_by_the_client(tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    with Servers.make(tmp_path, opens=now - 3 * MINUTE, closes=now - MINUTE) as servers:
        servers.start()
        with pytest.raises(CollectionClosed, match="too late: it closed at"):
            Submission(collection=servers.collection, state=tmp_path / "state", seconds=30).run(ROWS[:1])


def test_nothing_of_a_client_is_logged(running, collection, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    body = reports(collection)[0]
    answers(running, [post(collection, body), post(collection, b"junk")], tmp_path=tmp_path)
    assert id_of(body).hex() not in caplog.text
    assert "junk" not in caplog.text


def test_the_commands(running, tmp_path):
    (tmp_path / "data.csv").write_text("y,b,a\n1,2,3\n4,5,6\n7,8,9\n")
    collection = str(running.folder / "collection.json")

    def submit(*arguments, row=None):
        return forks.run("submit", collection, *arguments, "--seconds", "60", input=row, cwd=tmp_path)

    before = len_of(running, 2)
    assert "2 reports" in submit("data.csv", "--rows", "2", "3").stdout
    assert "1 report:" in submit("--row", "-", "--state", "one", row="y=1\na=2\n\nb=3\n").stdout
    assert len_of(running, 2) == before + 3
    (tmp_path / "row").write_text("y=1\na=17x\nb=3\n")
    for wrong in (["--row", "-"], ["--row", "row"], ["--row", "none"], ["data.csv", "--rows", "0", "2"], []):
        done = submit(*wrong, row="y=1\n")
        assert done.returncode == 2
        assert "17" not in done.stderr  # errors are logged; a row is not


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.long("10,000 inputs, not 1,000"))])
def test_mutated_input_is_refused(tmp_path, count):
    """The bench has more of it; seed 5, nothing statistical."""
    results = fuzz(tmp_path, count, seed=5)
    assert sum(result["inputs"] for result in results) >= count
    assert [result["malformed_accepted"] for result in results] == [0] * len(results)
    assert [result["crashes"] for result in results] == [0] * len(results)
    assert all(result["accepted"] and result["refused"] for result in results)  # both branches are reached
    assert sum(result["grown_mb"] for result in results) < 50
