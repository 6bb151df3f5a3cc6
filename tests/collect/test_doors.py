"""Doors: one POST reaches all servers, at once or from the outbox, and strangers do no more than deny."""

import asyncio
import contextlib
import socket
import ssl
import time
from unittest.mock import ANY

import aiohttp
import numpy as np
import pytest
from aiohttp import web

from bench.system.collection_servers import Servers
from bench.system.ports import free_ports
from dpmpc.app.cli.main import main
from dpmpc.base.errors import PartyMissing, ReportRejected, SpoolError
from dpmpc.base.randomness import Stream
from dpmpc.collect.intake import doors as doors_module
from dpmpc.collect.intake.doors import Door, Outbox
from dpmpc.collect.intake.group_commit import GroupCommit, NoRoom
from dpmpc.collect.intake.logs import RateLimitedLogger
from dpmpc.collect.intake.service import LOGGER
from dpmpc.collect.store.server_folder import open_spool
from dpmpc.collect.terms.endpoints import OWN_UPLOADS
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.added_keys import ADDED_KEYS
from dpmpc.collect.upload.reports import ReportFormat, make_reports
from dpmpc.collect.upload.roster import draw_tickets, write_roster
from dpmpc.collect.upload.sealing import SECRET_BYTES, SealedReports, id_of, report_id
from dpmpc.collect.upload.submission import Submission
from dpmpc.parties.network.identity import pinning_context
from dpmpc.release.client import Client
from support.rejections import rejects
from support.release_processes import close_and_release
from support.sealed_doors import PROVED, ROWS, AnsweringDoor, exchange, path_of, sealed_reports
from support.waiting import PATIENCE


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Three servers with doors that all tests of this module share, unless they stop one."""
    with Servers.make(tmp_path_factory.mktemp("doors"), "--rate", "100000", doors=True, **PROVED) as servers:
        yield servers.start()


def send(servers, server, *reports):
    status, answer, _ = exchange("POST", servers.door(server) + path_of(servers.collection), b"".join(reports))
    return status, answer


def send_pinned(servers, server, body, own, path=None):
    """Send to the pinned port, with the certificate of a server's folder."""
    collection = servers.collection
    entry = collection.servers[server]
    context = pinning_context(entry.certificate.encode(), own)
    url = f"https://{entry.peers}{path or path_of(collection)}"
    status, answer, _ = exchange("POST", url, body, ssl=context, server_hostname=f"party-{server}")
    return status, answer


def lengths(servers):
    found = []
    for server in range(3):
        with servers.spool(server) as spool:
            found.append(len(spool))
    return found


def ids_at(servers, server):
    with servers.spool(server) as spool:
        return {bytes(one) for one in spool.ids()}


def bodies(outbox, server):
    return sorted(entry.body for entry in outbox.waiting(server, 9))


def test_one_post_to_any_door_reaches_all_servers(running):
    before = lengths(running)
    for server in range(3):
        (report,) = sealed_reports(running.collection)
        status, answer = send(running, server, report)
        everywhere = {"0": 200, "1": 200, "2": 200}
        assert (status, answer) == (200, {"stored": 1, "duplicates": 0, "servers": everywhere, "reports": [everywhere]})
        assert send(running, (server + 1) % 3, report) == (200, {**answer, "stored": 0, "duplicates": 1})
    assert lengths(running) == [count + 3 for count in before]


def test_dpmpc_submit_sends_through_a_door(running, tmp_path, capsys):
    before = lengths(running)
    submission = Submission(
        collection=running.collection, state=tmp_path / "state", batch=7, seconds=60, door=running.door(1)
    )
    done = submission.run(ROWS)
    assert (done.reports, done.stored, done.duplicates) == (30, (30,), (0,))
    assert submission.run(ROWS).finished_before
    assert lengths(running) == [count + 30 for count in before]
    row = tmp_path / "row"
    row.write_text("a=1\nb=2\ny=3\n")
    argv = ["submit", str(running.task_file), "--row", str(row), "--door", running.door(2)]
    assert main([*argv, "--state", str(tmp_path / "other")]) == 0
    assert f"1 report: acknowledged by every server, according to the door {running.door(2)}" in capsys.readouterr().out
    assert lengths(running) == [count + 31 for count in before]


@pytest.mark.parametrize("servers", [{}, {"0": 200}, {"0": 200, "1": 200, "3": 200}, {"0": 200, "1": 200, "2": "x"}])
def test_submit_ends_when_a_door_has_named_every_server_and_not_before(running, tmp_path, capsys, servers):
    (tmp_path / "row").write_text("a=1\nb=2\ny=3\n")
    argv = ["submit", str(running.task_file), "--row", str(tmp_path / "row"), "--state", str(tmp_path / "state")]
    with AnsweringDoor(200, {"stored": 1, "duplicates": 0, "servers": servers}) as door:
        assert main([*argv, "--door", door.url, "--seconds", "1"]) == 3
    told = capsys.readouterr()
    assert (told.out, "taken, and not acknowledged by" in told.err) == ("", True)
    assert main([*argv, "--door", running.door(0)]) == 0  # nothing is forgotten, and the same bytes are sent
    with rejects("state"):  # reports made anew would be others
        Submission(collection=running.collection, state=tmp_path / "state", seconds=60).run(ROWS)


def test_hundreds_of_reports_go_in_one_request(running, tmp_path):
    """The answer has a status for each and every server; the other servers get them in several groups."""
    before, rows = lengths(running), np.tile(ROWS[:1], (600, 1))
    submission = Submission(
        collection=running.collection, state=tmp_path / "state", batch=600, seconds=60, door=running.door(0)
    )
    assert submission.run(rows).stored == (600,)
    assert lengths(running) == [count + 600 for count in before]


def test_a_proxy_that_exchanges_a_record_of_an_honest_report_costs_that_report_alone(tmp_path):
    """Server 1 gets a record of the attacker's own making under the honest id; its proof does not fit the others'."""
    with Servers.make(tmp_path, doors=True, minimum_batch=50, largest_batch=200, **PROVED) as servers:
        servers.start()
        ids = [report_id(servers.collection.digest, Stream.from_os().bytes(SECRET_BYTES)) for _ in range(60)]
        rows = np.random.default_rng(9).uniform(0, 10, (60, 3))
        honest, forged = (sealed_reports(servers.collection, rows, ids) for _ in range(2))
        start = 17 + SealedReports(servers.collection).record_bytes[0]
        stop = start + SealedReports(servers.collection).record_bytes[1]
        mixed = honest[0][:start] + forged[0][start:stop] + honest[0][stop:]
        assert send(servers, 0, mixed, *honest[1:])[0] == 200
        assert send(servers, 2, honest[0])[1]["servers"] == {"0": 200, "1": 409, "2": 200}
        for server in range(3):
            servers.stop(server)
        close_and_release(servers)
        manifest = verify(tmp_path / "release-0.dpmpc", servers.collection).certificate.statement.manifest
        assert manifest.clients == 59
        (refused,) = (tmp_path / "server-0").glob("refused-*.csv")
        assert refused.read_text().splitlines()[1].startswith(ids[0].hex())


def test_reports_go_to_pinned_ports_under_ids_from_secrets(running, tmp_path):
    before = lengths(running)
    submission = Submission(collection=running.collection, state=tmp_path / "state", seconds=60)
    with submission.open(ROWS[:2]) as pending:
        kept = [one for part in pending.records(0, 9) for one in part]
        secrets = [bytes(one) for (one,) in pending._database.execute("SELECT secret FROM secrets ORDER BY position")]
    assert [id_of(record.content) for record in kept] == [report_id(running.collection.digest, one) for one in secrets]
    submission.run(ROWS[:2])
    assert lengths(running) == [count + 2 for count in before]


@pytest.mark.parametrize(
    "door", ["http://example.org", "ftp://x", "https://", "https://a@b", "https://x/y", "x", "http://[", "https://x:0"]
)
def test_a_door_is_an_https_address_or_on_this_machine(running, tmp_path, door):
    with rejects("door"):
        Submission(collection=running.collection, state=tmp_path / "state", door=door)


def test_a_door_is_on_the_loopback_interface_and_asks_for_proofs(running, tmp_path, capsys):
    folder = str(running.folder / "server-0")
    argv = ["serve", str(running.task_file), "--server", "0", "--folder", folder]
    assert main([*argv, "--proxy", "192.0.2.1:80"]) == 2
    assert "one of 127.0.0.1, ::1, localhost or unix:PATH expected" in capsys.readouterr().err
    plain = Servers.make(tmp_path, doors=True)
    argv = ["serve", str(plain.task_file), "--server", "0", "--folder", str(tmp_path / "server-0")]
    assert main([*argv, "--proxy", "127.0.0.1:0"]) == 2
    assert "--unproved-proxy if that is as it should be" in capsys.readouterr().err
    (tmp_path / "server-0" / "seals" / "trial.key").unlink()
    assert main(argv) == 2
    assert "web, proxy: none given" in capsys.readouterr().err
    assert main([*argv, "--web", "127.0.0.1:0"]) == 2
    assert "lacks the private keys" in capsys.readouterr().err


def test_a_page_of_any_origin_may_use_the_door_and_sees_no_more_than_is_public(running):
    door, collection = running.door(0), running.collection
    status, _, headers = exchange("OPTIONS", door + path_of(collection), headers={"Origin": "https://x.example"})
    assert (status, headers["Access-Control-Allow-Origin"]) == (204, "*")
    for path in ("/", "/v1/status", "/v1/collection"):
        status, content, headers = exchange("GET", door + path)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, "*")
        assert "Access-Control-Allow-Credentials" not in headers
        if path == "/v1/status":
            assert (content["exact"], content["stored"]) == (False, None)  # from a proxy's address come strangers
    for path in ("/metrics", "/healthz"):
        assert exchange("GET", door + path)[0] == 404
    status, answer, headers = exchange("POST", door + path_of(collection), b"")
    assert (status, answer["error"], headers["Access-Control-Allow-Origin"]) == (400, "ReportRejected", "*")


def raw(servers, server, content, seconds=PATIENCE):
    """Send bytes to a door and return all that comes back until it closes."""
    host, port = servers.door(server).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(content)
        found = b""
        while part := connection.recv(1 << 16):
            found += part
    return found


def test_bad_requests_are_refused_before_their_bodies_are_read(running):
    path, host = path_of(running.collection), "Host: a\r\nConnection: close\r\n"
    for head, status in (
        (f"POST {path} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (f"POST {path} HTTP/1.1\r\n{host}Content-Length: 99999999\r\n\r\n", b"413"),
        (f"POST {path.replace('/v2/', '/v1/')} HTTP/1.1\r\n{host}Content-Length: 3\r\n\r\nabc", b"404"),
        (f"POST /v2/collections/{'0' * 64}/reports HTTP/1.1\r\n{host}Content-Length: 3\r\n\r\nabc", b"404"),
        (f"DELETE {path} HTTP/1.1\r\n{host}\r\n", b"405"),
        (f"GET /metrics HTTP/1.1\r\n{host}\r\n", b"404"),
        (f"GET /healthz HTTP/1.1\r\n{host}\r\n", b"404"),
        ("nonsense\r\n\r\n", b"400"),
    ):
        answer = raw(running, 0, head.encode())
        assert answer.split(b" ", 2)[1] == status, (head, answer)


def test_a_client_that_leaves_in_the_middle_costs_nobody_anything(running):
    (report,) = sealed_reports(running.collection)
    path = path_of(running.collection)
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(report)}\r\n\r\n".encode()
    host, port = running.door(0).removeprefix("http://").split(":")
    for cut in (0, 1, len(report) - 1):
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            connection.sendall(head + report[:cut])
            time.sleep(0.05)
    assert send(running, 0, report)[0] == 200
    assert "InternalError" not in running.log(0)


def test_the_digest_is_the_hash_of_what_a_door_answers(running):
    async def run():
        async with aiohttp.ClientSession() as session, session.get(running.door(2) + "/v1/collection") as response:
            return await response.read()

    assert asyncio.run(run()) == running.task_file.read_bytes()


def test_an_unsealed_record_is_refused_at_the_door_and_at_the_pinned_port(running):
    collection = running.collection
    ids = [report_id(collection.digest, Stream.from_os().bytes(SECRET_BYTES))]
    records = make_reports(Client(collection.plan.verify()), collection, ROWS[:1], ids)
    assert exchange("POST", running.door(0) + path_of(collection), records[0][0])[0] == 400
    assert send_pinned(running, 0, records[0][0], running.server_folder(1).identity)[0] == 400
    assert ids[0] not in ids_at(running, 0)


def test_a_report_fails_alone_in_its_group_and_nothing_of_it_is_handed_on(running):
    good, bad, last = sealed_reports(running.collection, ROWS[:3])
    changed = bad[:30] + bytes([bad[30] ^ 1]) + bad[31:]  # the record of server 0
    status, answer = send(running, 0, good, changed, last)
    everywhere = {"0": 200, "1": 200, "2": 200}
    assert (status, answer["reports"]) == (202, [everywhere, {"0": 400}, everywhere])
    assert (answer["stored"], answer["servers"]) == (2, {"0": 400, "1": 200, "2": 200})
    assert [id_of(bad) in ids_at(running, server) for server in range(3)] == [False] * 3
    assert send(running, 0, changed)[1]["error"] == "ReportRejected"


def test_a_changed_bit_in_anothers_record_is_that_servers_refusal(running, tmp_path, monkeypatch):
    (report,) = sealed_reports(running.collection)
    changed = report[:-1] + bytes([report[-1] ^ 1])  # of server 2
    status, answer = send(running, 0, changed)
    assert (status, answer["servers"]) == (202, {"0": 200, "1": 200, "2": 400})
    with Outbox(running.server_folder(0).spool) as outbox:
        assert outbox.waiting(2, 9) == []  # that was final
    assert send(running, 0, report)[0] == 200  # the honest one, whose record 2 was never there
    changed_id = report[:3] + bytes([report[3] ^ 1]) + report[4:]
    assert send(running, 0, changed_id)[0] == 400
    assert send(running, 0, b"\1" + report[1:])[0] == 400


def test_two_reports_under_one_id_conflict_where_the_first_came(running):
    """And what a proxy exchanged under an honest id is another report there: proofs refuse the sum of both."""
    ids = [report_id(running.collection.digest, Stream.from_os().bytes(SECRET_BYTES))]
    (first,), (second,) = (sealed_reports(running.collection, ROWS[index : index + 1], ids) for index in range(2))
    assert send(running, 0, first)[0] == 200
    assert send(running, 0, second)[1]["error"] == "ReportConflict"
    form = SealedReports(running.collection)
    own = form.record_bytes[0]
    mixed = first[: 17 + own] + second[17 + own :]
    assert send(running, 0, mixed)[1]["servers"] == {"0": 200, "1": 409, "2": 409}


def test_replays_to_another_collection_are_refused(running, tmp_path):
    (report,) = sealed_reports(running.collection)
    status, answer, _ = exchange("POST", f"{running.door(0)}/v2/collections/{'00' * 32}/reports", report)
    assert (status, answer["error"]) == (404, "NotFound")


@pytest.mark.parametrize("peer", [True, False], ids=["a server", "a client that sends to each"])
def test_a_report_is_taken_for_the_own_server_alone(running, peer):
    (report,) = sealed_reports(running.collection)
    if peer:
        status, answer = send_pinned(running, 1, report, running.server_folder(0).identity)
    else:
        path = OWN_UPLOADS.format(digest=running.collection.digest.hex())
        status, answer, _ = exchange("POST", running.door(1) + path, report)
    assert (status, answer["servers"]) == (200, {"1": 200})
    found = [id_of(report) in ids_at(running, server) for server in range(3)]
    assert found == [False, True, False]


@pytest.mark.parametrize("who", ["nobody", "a stranger", "itself"])
def test_a_stranger_cannot_speak_as_a_server(running, tmp_path, who):
    other = Servers.make(tmp_path, doors=True, **PROVED)
    owns = {"nobody": None, "a stranger": other.server_folder(0).identity, "itself": running.server_folder(1).identity}
    (report,) = sealed_reports(running.collection)
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
        send_pinned(running, 1, report, owns[who])
    assert id_of(report) not in ids_at(running, 1)


def test_what_a_server_missed_comes_from_the_outbox(tmp_path):
    """Server 2 is down, then the door is killed; when both are back nothing that was acknowledged is lacking."""
    with Servers.make(tmp_path, doors=True, **PROVED) as servers:
        servers.start(0, 1)
        reports = sealed_reports(servers.collection, ROWS[:5])
        status, answer = send(servers, 0, *reports)
        assert (status, answer["servers"]) == (202, {"0": 200, "1": 200, "2": "unreachable"})
        servers.kill(0)
        with Outbox(servers.server_folder(0).spool) as outbox:
            assert (len(outbox), bodies(outbox, 2), outbox.waiting(1, 9)) == (5, sorted(reports), [])
        servers.start(0, 2)
        until = time.monotonic() + PATIENCE
        while len(ids_at(servers, 2)) < 5 and time.monotonic() < until:
            time.sleep(0.1)
        assert lengths(servers) == [5] * 3
        assert send(servers, 0, *reports)[0] == 200
        servers.stop(0)
        with Outbox(servers.server_folder(0).spool) as outbox:
            assert len(outbox) == 0


async def no_keys(request):
    return web.json_response({"keys": []})


@contextlib.asynccontextmanager
async def answering(collection, answer):
    """Answer uploads on the loopback interface, as a server or a door; yield the address."""
    app = web.Application()
    app.router.add_post(path_of(collection), answer)
    app.router.add_get(ADDED_KEYS.format(digest=collection.digest.hex()), no_keys)
    runner = web.AppRunner(app)
    await runner.setup()
    (port,) = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def test_a_door_that_drops_is_noticed_and_another_one_helps(running, tmp_path):
    """It says 202 for ever: the submission ends with an error that says so, and the same bytes go to another door."""

    async def drop(request):
        body = await request.read()
        count = len(body) // SealedReports(running.collection).report_bytes
        status = {"0": 200, "1": "unreachable", "2": 503}
        return web.json_response(
            {"stored": count, "duplicates": 0, "servers": status, "reports": [status] * count}, status=202
        )

    async def run(answer):
        async with answering(running.collection, answer) as url:
            submission = Submission(collection=running.collection, state=tmp_path / "state", seconds=2, door=url)
            await submission.send(ROWS[:1])

    with pytest.raises(PartyMissing, match=r"not acknowledged by server 1: unreachable, server 2: 503"):
        asyncio.run(run(drop))
    with pytest.raises(
        ReportRejected, match=r"server 1 reports that it has refused a report with 409, for good.*could count twice"
    ):
        asyncio.run(run(refuse))
    again = Submission(collection=running.collection, state=tmp_path / "state", seconds=60, door=running.door(0))
    assert again.run(ROWS[:1]).stored == (1,)  # the same bytes, at another door


async def refuse(request):
    await request.read()
    return web.json_response({"stored": 1, "duplicates": 0, "servers": {"0": 200, "1": 409}}, status=202)


def test_with_a_roster_the_token_is_sealed_and_the_roster_decides(tmp_path):
    with Servers.make(tmp_path, doors=True, authenticated=True, **PROVED) as servers:
        tickets = draw_tickets(["x", "y"])
        for server in range(3):
            write_roster(servers.server_folder(server).roster, servers.collection, server, tickets)
        servers.start()
        options = {"collection": servers.collection, "seconds": 60, "door": servers.door(1)}
        done = Submission(state=tmp_path / "state", tickets=tickets[:1], **options).run(ROWS[:1])
        assert done.stored == (1,)
        form = SealedReports(servers.collection)
        forged = tickets[1]._replace(secret=bytes(32))  # who knows the id alone
        records = make_reports(Client(servers.collection.plan.verify()), servers.collection, ROWS[:1], [forged.report])
        report = form.seal([one for (one,) in records], forged)
        assert send(servers, 0, report)[1]["error"] == "Unknown"
        assert lengths(servers) == [1] * 3


def test_reports_through_doors_are_released_and_the_keys_are_gone(tmp_path):
    """Sixty clients, each at one door; three servers release, and whoever has recorded all opens nothing later."""
    with Servers.make(tmp_path, doors=True, minimum_batch=50, largest_batch=200, **PROVED) as servers:
        servers.start()
        rows = np.random.default_rng(5).uniform(0, 10, (60, 3))
        reports = sealed_reports(servers.collection, rows)
        for server in range(3):
            status, answer = send(servers, server, *reports[server::3])
            assert (status, answer["stored"]) == (200, 20)
        assert lengths(servers) == [60] * 3
        for server in range(3):
            servers.stop(server)
        told = close_and_release(servers)
        assert all("trial.key: deleted" in one for one in told)
        verified = verify(tmp_path / "release-0.dpmpc", servers.collection)
        assert verified.certificate.statement.manifest.clients == 60
        assert [sorted(path.name for path in (tmp_path / f"server-{j}" / "seals").iterdir()) for j in range(3)] == [
            ["trial.collection", "trial.pub"]
        ] * 3
        servers.start(0)  # which tells that all is over
        status, answer = send(servers, 0, reports[0])
        assert (status, answer["error"]) == (410, "CollectionClosed")


def commits(servers, folder, uploads):
    """Commit records one after the other through doors; return what became of each."""
    collection = servers.collection

    async def run():
        with open_spool(folder, collection, 0, writer=True) as spool:
            commit = GroupCommit(ReportFormat(collection, 0), spool)
            try:
                return [(await asyncio.gather(commit.commit(*one), return_exceptions=True))[0] for one in uploads]
            finally:
                await commit.close()

    return asyncio.run(run())


def test_whoever_fills_one_door_leaves_the_others_alone(tmp_path):
    """A stranger fills the room of server 1's door at server 0; clients of other doors and of the port find theirs."""
    servers = Servers.make(tmp_path, doors=True, minimum_batch=50, largest_batch=60)
    collection = servers.collection
    assert (collection.entrance_room, collection.most_stored) == (240, 960)
    ids = [index.to_bytes(16) for index in range(700)]
    rows = np.tile(ROWS[:1], (len(ids), 1))
    own, *_ = make_reports(Client(collection.plan.verify()), collection, rows, ids)
    uploads = [(b"".join(own[:240]), None, 1), (own[240], None, 1), (own[241], None, 2)]
    uploads += [(b"".join(own[250:490]), None, 0), (own[242], "192.0.2.1", None), (own[0], None, 1)]
    found = commits(servers, tmp_path / "spool", uploads)
    assert [isinstance(one, NoRoom) for one in found] == [False, True, False, False, False, False]
    assert "more than this door may store now" in str(found[1])
    assert found[-1].duplicates == 1  # what is known takes no room
    again = [(own[index], None, 1) for index in range(500, 620)]  # after a restart: a quarter of the 478 that are left
    found = commits(servers, tmp_path / "spool", again)
    assert [isinstance(one, NoRoom) for one in found] == [False] * 119 + [True]


def test_an_outbox_keeps_the_first_report_of_an_id_and_forgets_at_the_end(tmp_path, monkeypatch):
    folder = tmp_path / "spool"
    folder.mkdir(mode=0o700)
    one, other = b"\2" + bytes(16) + b"one", b"\2" + bytes(16) + b"other"
    with Outbox(folder) as outbox:
        outbox.put([(one, [1, 2])])
        outbox.put([(other, [1])])
        assert bodies(outbox, 1) == [one]
        outbox.end(1, outbox.waiting(1, 9))
        assert (bodies(outbox, 1), bodies(outbox, 2), len(outbox)) == ([], [one], 1)
    with Outbox(folder) as outbox:
        assert bodies(outbox, 2) == [one]
        more = [b"\2" + index.to_bytes(16) + b"one" for index in range(1, 6)]
        outbox.put([(report, [2]) for report in more])
        assert [entry.body for entry in outbox.waiting(2, 2, more[1][1:17])] == more[
            2:4
        ]  # one that has to stay keeps nobody behind it
        outbox.clear(len(one))
        assert len(outbox) == 0
    (folder / "outbox.sqlite").write_bytes(b"no database" * 99)
    with rejects(ANY, SpoolError, given="file is not a database"):
        Outbox(folder)


def test_nothing_is_tried_after_closing(tmp_path):
    """The other servers answer no more, and what waits for them is forgotten."""
    servers = Servers.make(tmp_path, doors=True, **PROVED)
    folder = tmp_path / "spool"
    folder.mkdir(mode=0o700)
    (report,) = sealed_reports(servers.collection)

    async def run(outbox):
        door = Door(
            servers.collection,
            0,
            servers.server_folder(0).identity,
            outbox,
            RateLimitedLogger(LOGGER),
            now=lambda: servers.collection.closes,
        )
        task = asyncio.create_task(door.run())
        while len(outbox):
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with Outbox(folder) as outbox:
        outbox.put([(report, [1])])
        asyncio.run(asyncio.wait_for(run(outbox), PATIENCE))


def test_a_disk_that_fails_at_the_end_does_not_stop_the_server(tmp_path, monkeypatch):
    """What waits is forgotten once the disk works again."""
    monkeypatch.setattr(doors_module, "LONGEST_PAUSE", 0.02)
    servers = Servers.make(tmp_path, doors=True, **PROVED)
    folder, tries = tmp_path / "spool", []
    folder.mkdir(mode=0o700)

    class Failing(Outbox):
        def clear(self, report_bytes):
            tries.append(None)
            if len(tries) < 3:
                raise SpoolError("disk I/O error")
            super().clear(report_bytes)

    async def run(outbox):
        folder = servers.server_folder(0).identity
        end = servers.collection.closes
        task = asyncio.create_task(
            Door(servers.collection, 0, folder, outbox, RateLimitedLogger(LOGGER), now=lambda: end).run()
        )
        while len(tries) < 3 and not task.done():
            await asyncio.sleep(0.02)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with Failing(folder) as outbox:
        asyncio.run(asyncio.wait_for(run(outbox), PATIENCE))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no JSON",
        b"[]",
        b'{"reports": []}',
        b'{"reports": [{"0": 200}]}',
        b'{"reports": [{"1": 200}, {"1": 200}]}',
        b'{"reports": [{"1": "%s", "2": "no status"}]}' % (b"x" * 60_000),
        b'{"reports": [{"1": -7, "2": 600}]}',
        b'{"reports": [{"1": %s, "2": %s}]}' % (b"9" * 99, b"9" * 99),
    ],
    ids=range(9),
)
def test_an_answer_that_is_none_is_no_acknowledgement(running, tmp_path, monkeypatch, content):
    """Whatever another server answers, the report waits in the outbox until it says 200 for this one."""
    (report,) = sealed_reports(running.collection)
    folder = tmp_path / "spool"
    folder.mkdir(mode=0o700)

    async def answer(request):
        await request.read()
        return web.Response(body=content)

    async def run(outbox):
        door = Door(running.collection, 0, running.server_folder(0).identity, outbox, RateLimitedLogger(LOGGER))
        async with answering(running.collection, answer) as url:
            for courier in door._couriers.values():
                courier._url = f"{url}{path_of(running.collection)}"
            task = asyncio.create_task(door.run())
            try:
                return await door.hand_on([report])
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await asyncio.sleep(0.25)  # connections that were being made are closed by the loop

    with Outbox(folder) as outbox:
        assert asyncio.run(run(outbox)) == [{1: doors_module.UNREACHABLE, 2: doors_module.UNREACHABLE}]
        assert bodies(outbox, 1) == bodies(outbox, 2) == [report]
