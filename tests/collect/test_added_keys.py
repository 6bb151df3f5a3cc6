"""Keys that a server adds while its collection runs: signed, handed out by every door, used by clients, deleted."""

import asyncio
import datetime
import hashlib
import json
import urllib.request

import msgspec
import numpy as np
import pytest
from aiohttp import web

from bench.system.collection_servers import Servers
from bench.system.ports import free_ports
from dpmpc.app.cli.main import main
from dpmpc.base.errors import ProtocolFailure, ReportRejected
from dpmpc.base.randomness import Label, Stream
from dpmpc.base.untrusted import ReadError
from dpmpc.collect.upload.added_keys import ADDED_KEYS, KeyList, newest, read_added
from dpmpc.collect.upload.reports import make_reports
from dpmpc.collect.upload.seal_folder import read_public
from dpmpc.collect.upload.sealing import Opener, SealedReports, report_id
from dpmpc.collect.upload.submission import Submission
from dpmpc.linear.proving.joint import framed
from dpmpc.parties.network.identity import sign
from dpmpc.release.client import Client
from support.node import WEB, node, run_node
from support.rejections import rejects
from support.waiting import wait_for

ROWS = np.random.default_rng(29).uniform(0, 10, (4, 3))
PROVED = {"proved": True, "noise_by": "servers", "sketch": "sum", "rows": None}


def new(folder):
    folder.mkdir()
    return folder


@pytest.fixture
def servers(tmp_path):
    return Servers.make(new(tmp_path / "servers"), doors=True)


def sealed(collection, added=(), row=ROWS[:1]):
    report = report_id(collection.digest, Stream.from_os().bytes(32))
    (own,) = zip(*make_reports(Client(collection.plan.verify()), collection, row, [report]), strict=True)
    return SealedReports(collection, tuple(added)).seal(own), own


def opener(servers, server):
    return Opener(servers.collection, server, servers.server_folder(server).seals)


def reseal(servers, server):
    return main(["identity", str(servers.folder / f"server-{server}"), "--reseal", str(servers.task_file)])


def keys_of(servers, server):
    """What a door hands out."""
    url = servers.door(server) + ADDED_KEYS.format(digest=servers.collection.digest.hex())
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


def test_old_and_new_keys_open_and_a_key_that_was_taken_away_does_not(servers, capsys):
    collection, folder = servers.collection, servers.server_folder(1).seals
    old, records = sealed(collection)
    before = opener(servers, 1)
    assert [reseal(servers, 1), reseal(servers, 1)] == [0, 0]
    assert "key 2 of server 1 is added" in capsys.readouterr().out
    added = folder.added(collection, 1)
    assert [(one.server, one.number) for one in added] == [(1, 1), (1, 2)]
    assert [key.number for key in newest(collection, added)] == [0, 2, 0]
    new, others = sealed(collection, added)
    with rejects("body", ReportRejected, given="a report of format 2, sealed to key 2 of server 1"):
        before.open(new)
    assert before.refresh()
    assert not before.refresh()  # nothing is new
    for one in (before, opener(servers, 1)):
        assert one.open(old) == (records[1], None)
        assert one.open(new) == (others[1], None)
    (folder.folder / "trial.key").unlink()
    without = opener(servers, 1)
    assert without.open(new) == (others[1], None)
    with rejects("body", ReportRejected, given="a report of format 2, sealed to key 0 of server 1"):
        without.open(old)
    (folder.folder / f"{collection.digest.hex()[:16]}-2.key").unlink()
    with rejects("folder"):
        opener(servers, 1)  # what clients seal to now could not be opened


def test_a_key_is_added_by_its_server_alone_and_while_the_collection_takes_reports(servers, tmp_path, capsys):
    collection = servers.collection
    folder = servers.server_folder(0)
    with rejects("folder"):
        servers.server_folder(0).add_key(Servers.make(new(tmp_path / "others"), doors=True).collection)
    hour = datetime.timedelta(hours=1)
    over = msgspec.structs.replace(collection, opens=collection.opens - 30 * hour, closes=collection.opens)
    with rejects("reseal"):
        folder.add_key(over)
    assert not list(folder.seals.folder.glob("*-*.key"))
    (folder.identity / "party.key").write_bytes((servers.server_folder(1).identity / "party.key").read_bytes())
    assert reseal(servers, 0) == 2  # another key than that of the certificate
    assert "certificate has signed expected" in capsys.readouterr().err
    assert sorted(path.name for path in folder.seals.folder.iterdir()) == ["trial.key", "trial.pub"]


CHANGES = {
    "another key": lambda one: {"public": "09" + "00" * 31},
    "another server": lambda one: {"server": 2},
    "another number": lambda one: {"number": one["number"] + 1},
    "a number of the task file": lambda one: {"number": 0},
    "no number": lambda one: {"number": 256},
    "no server": lambda one: {"server": 3},
    "another suite": lambda one: {"suite": "x25519-mlkem768"},
    "no signature": lambda one: {"signature": ""},
    "a changed signature": lambda one: {"signature": f"{int(one['signature'], 16) ^ 1:0{len(one['signature'])}x}"},
    "no digits": lambda one: {"signature": "zz"},
    "upper case": lambda one: {"public": one["public"].upper()},
    "another field": lambda one: {"until": "tomorrow"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_its_server_has_not_signed_is_refused(servers, change):
    collection, folder = servers.collection, servers.server_folder(1)
    folder.add_key(collection)
    (one,) = json.loads(KeyList(folder.seals.added(collection, 1)).encoded())["keys"]
    assert len(read_added(json.dumps({"keys": [one]}).encode(), collection)) == 1
    with pytest.raises(ReadError, match="key"):
        read_added(json.dumps({"keys": [one | CHANGES[change](one)]}).encode(), collection)
    with pytest.raises(ReadError, match="two with one number"):
        read_added(json.dumps({"keys": [one, one]}).encode(), collection)
    with pytest.raises(ReadError, match="server 1"):
        read_added(json.dumps({"keys": [one]}).encode(), collection, 0)
    elsewhere = msgspec.structs.replace(collection, name="another trial")  # the same servers and certificates
    with pytest.raises(ReadError, match="certificate has signed expected"):
        read_added(json.dumps({"keys": [one]}).encode(), elsewhere)


def test_the_signature_is_over_what_the_page_says(servers):
    collection, folder = servers.collection, servers.server_folder(2)
    added = folder.add_key(collection)
    parts = [collection.digest, b"\2", b"\1", b"x25519", bytes.fromhex(added.public)]
    statement = framed(Label.ADDED_KEY, *parts)
    assert statement.startswith(b"dpmpc v2 key\0")
    remade = sign(folder.identity, statement).hex()  # the same message, the same signature
    again = msgspec.structs.replace(added, signature=remade)
    assert read_added(KeyList((again,)).encoded(), collection) == (again,)


@pytest.mark.parametrize("damaged", [False, True])
def test_all_keys_of_a_collection_are_deleted_and_others_stay(servers, damaged):
    collection, folder = servers.collection, servers.server_folder(0)
    folder.add_key(collection)
    folder.seals.draw("other")
    if damaged:
        (folder.seals.folder / f"added-{collection.digest.hex()[:16]}.json").write_text("{}")
        (folder.seals.folder / f"{collection.digest.hex()[:16]}-1.key").write_text("nothing")
    deleted = {path.name for path in folder.seals.delete(collection, 0)}
    assert deleted == {"trial.key", f"{collection.digest.hex()[:16]}-1.key"}
    assert [path.name for path in folder.seals.folder.glob("*.key")] == ["other.key"]


def test_a_damaged_list_is_named_and_what_is_known_stays(servers):
    collection, folder = servers.collection, servers.server_folder(0)
    folder.add_key(collection)
    one = opener(servers, 0)
    path = folder.seals.folder / f"added-{collection.digest.hex()[:16]}.json"
    path.write_text('{"keys": 3}')
    with rejects("seal", expected="keys that this server has signed"):
        one.refresh()
    report, records = sealed(collection, one.added)
    assert one.open(report) == (records[0], None)


def test_one_key_is_named_by_one_collection_alone(servers, capsys):
    """It is noticed when a server of the second one starts, not at the release that deletes the key of both."""
    seals = servers.server_folder(0).seals
    seals.bind(servers.collection, 0)
    seals.bind(servers.collection, 0)
    later = msgspec.structs.replace(servers.collection, name="another trial")
    with rejects("seal"):
        seals.bind(later, 0)
    later.save(servers.folder / "later.json")
    argv = ["serve", str(servers.folder / "later.json"), "--server", "0", "--folder", str(servers.folder / "server-0")]
    listen, web = (f"127.0.0.1:{port}" for port in free_ports(2))
    assert main([*argv, "--listen", listen, "--web", web]) == 2
    assert "a key for each collection expected" in capsys.readouterr().err


def test_every_door_hands_out_a_new_key_and_clients_seal_to_it(tmp_path):
    """Three processes: one server adds a key while it runs, a client of another door uses it, all servers store it."""
    with Servers.make(tmp_path, doors=True, **PROVED) as servers:
        servers.start()
        collection = servers.collection
        options = {"collection": collection, "seconds": 120, "door": servers.door(2)}
        assert Submission(state=tmp_path / "before", **options).run(ROWS[:1]).stored == (1,)
        assert json.loads(keys_of(servers, 2)) == {"keys": []}
        assert reseal(servers, 0) == 0
        for door in range(3):
            wait_for(lambda door=door: len(read_added(keys_of(servers, door), collection)) == 1, "the new key")
        (servers.folder / "server-0" / "seals" / "trial.key").unlink()
        servers.stop(0)
        servers.start(0)
        assert Submission(state=tmp_path / "after", **options).run(ROWS[1:3]).stored == (2,)
        for server in range(3):
            with servers.spool(server) as spool:
                assert len(spool) == 3


def test_a_client_refuses_a_door_that_hands_out_a_key_of_its_own(servers, tmp_path):
    """It holds a good signature of another server: nothing is sealed to it, and nothing is sent."""
    collection = servers.collection
    added = servers.server_folder(1).add_key(collection)
    forged, posted = msgspec.structs.replace(added, server=0), []

    async def run(keys):
        async def answer(request):
            return web.Response(body=KeyList(keys).encoded())

        async def take(request):
            posted.append(await request.read())
            everywhere = {str(server): 200 for server in range(3)}
            return web.json_response({"stored": 1, "duplicates": 0, "servers": everywhere})

        app = web.Application()
        digest = collection.digest.hex()
        app.router.add_get(ADDED_KEYS.format(digest=digest), answer)
        app.router.add_post(f"/v2/collections/{digest}/reports", take)
        runner = web.AppRunner(app)
        await runner.setup()
        (port,) = free_ports(1)
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            door = f"http://127.0.0.1:{port}"
            state = tmp_path / "state"
            await Submission(collection=collection, state=state, seconds=20, door=door).send(ROWS[:1])
        finally:
            await runner.cleanup()

    with pytest.raises(ProtocolFailure, match="key 1 of server 0 given, one that this server's certificate has signed"):
        asyncio.run(run((forged,)))
    assert not posted
    assert not (tmp_path / "state").exists()
    asyncio.run(run((added,)))
    (body,) = posted
    assert opener(servers, 1).open(body)
    assert body[17 + SealedReports(collection).record_bytes[0]] == 1


def test_a_long_key_is_compared_by_its_hash(tmp_path, capsys):
    assert main(["identity", str(tmp_path / "seals"), "--seal", "own", "--suite", "x25519-mlkem768"]) == 0
    key = read_public(tmp_path / "seals" / "own.pub")
    digest = hashlib.sha256(bytes.fromhex(key.public)).hexdigest()
    assert f"x25519-mlkem768 SHA-256 {digest}\n" in capsys.readouterr().out
    servers = Servers.make(new(tmp_path / "servers"), doors=True, suite="x25519-mlkem768")
    assert main(["inspect", str(servers.task_file)]) == 0
    shown, entries = capsys.readouterr().out, servers.collection.servers
    assert all(f"sealed to key 0: x25519-mlkem768 {entry.keys[0].shown}" in shown for entry in entries)


def test_the_hybrid_suite_seals_and_opens_and_a_file_names_it(tmp_path):
    servers = Servers.make(new(tmp_path / "servers"), doors=True, suite="x25519-mlkem768")
    collection = servers.collection
    report, records = sealed(collection)
    plain = SealedReports(Servers.make(new(tmp_path / "plain"), doors=True).collection)
    assert len(report) == SealedReports(collection).report_bytes == plain.report_bytes + 3 * 1088
    for server in range(3):
        assert opener(servers, server).open(report) == (records[server], None)
    with rejects("body", ReportRejected):
        opener(servers, 0).open(report[:100] + bytes([report[100] ^ 1]) + report[101:])
    added = servers.server_folder(0).add_key(collection)
    assert added.suite == "x25519-mlkem768"
    again, others = sealed(collection, [added])
    assert opener(servers, 0).open(again) == (others[0], None)
    (bad,) = collection.servers[0].keys
    for public in (bad.public[:64], "ff" * 1184 + bad.public[-64:], bad.public[:-64] + "00" * 32):
        entry = msgspec.structs.replace(collection.servers[0], keys=(msgspec.structs.replace(bad, public=public),))
        with rejects("servers: keys of server 0"):
            msgspec.structs.replace(collection, servers=(entry, *collection.servers[1:])).verify()
    assert read_public(servers.folder / "server-0" / "seals" / "trial.pub") == bad


@node
def test_the_javascript_client_takes_signed_keys_alone(tmp_path):
    servers = Servers.make(tmp_path, doors=True, **PROVED)
    collection = servers.collection
    added = [servers.server_folder(1).add_key(collection) for _ in range(2)]
    good = [msgspec.to_builtins(one) for one in reversed(added)]
    taken = run_node("keys", collection, answers=[{"status": 200, "said": {"keys": good}}])
    assert taken == {"answer": [0, 2, 0], "public": added[1].public}
    for change in sorted(set(CHANGES) - {"another field"}):
        if change == "upper case" or (change == "another number"):
            continue
        bad = good[0] | CHANGES[change](good[0])
        refused = run_node("keys", collection, answers=[{"status": 200, "said": {"keys": [bad]}}])
        assert refused["error"] in ("CollectionError", "TypeError"), change
    for answer in (None, {"status": 503, "said": {}}, {"status": 404, "said": {}}):
        assert run_node("keys", collection, answers=[answer])["error"] == "SendError"


@node
def test_a_browser_is_told_that_a_hybrid_collection_needs_a_program(tmp_path):
    collection = Servers.make(tmp_path, doors=True, suite="x25519-mlkem768", **PROVED).collection
    refused = run_node("open", collection, now="2027-01-01")
    assert (refused["error"], "contribute by a program" in refused["message"]) == ("CollectionError", True)
    assert "learnKeys(location.origin)" in (WEB / "contribute.mjs").read_text()
