"""Sealed reports: keys, the task file that names them, and records that open for one server, key and id alone."""

import hashlib
import json
import shutil
import types

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy.stats import chi2

from bench.system.collection_servers import Servers
from dpmpc.app.cli.main import main
from dpmpc.base.errors import InputError, ReportRejected
from dpmpc.base.randomness import Stream
from dpmpc.collect.terms.server_entries import MOST_KEYS, SealKey, check_servers
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.reports import make_reports
from dpmpc.collect.upload.roster import draw_tickets
from dpmpc.collect.upload.seal_folder import SealFolder, read_public
from dpmpc.collect.upload.sealing import Opener, SealedReports, report_id
from dpmpc.release.client import Client
from support.rejections import rejects

ROWS = np.random.default_rng(3).uniform(0, 10, (2, 3))
PROVED = {"proved": True, "noise_by": "servers", "sketch": "sum", "rows": 1}


def made(root, **options):
    return Servers.make(root, doors=True, **options)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    return made(tmp_path_factory.mktemp("sealed"))


@pytest.fixture(scope="module", params=["plain", "proved", "roster"])
def sealed(request, tmp_path_factory):
    options = {"plain": {}, "proved": {"noise_by": "servers", "proved": True}, "roster": {"authenticated": True}}
    chosen = options[request.param]
    fields = {"sketch": "sum", "rows": None} if chosen.get("proved") else {}
    return made(tmp_path_factory.mktemp(request.param), **chosen, **fields)


def reports_of(collection, tickets=None):
    """Two reports and the records that are in them."""
    if tickets is None:
        ids = [report_id(collection.digest, Stream.from_os().bytes(32)) for _ in ROWS]
    else:
        ids = [ticket.report for ticket in tickets]
    records = list(zip(*make_reports(Client(collection.plan.verify()), collection, ROWS, ids), strict=True))
    form = SealedReports(collection)
    sealed = [form.seal(own, tickets[index] if tickets else None) for index, own in enumerate(records)]
    return sealed, records


def opener(servers, server):
    return Opener(servers.collection, server, servers.server_folder(server).seals)


def test_each_server_finds_its_record(sealed):
    tickets = draw_tickets(["x", "y"]) if sealed.collection.authenticated else None
    reports, records = reports_of(sealed.collection, tickets)
    form = SealedReports(sealed.collection)
    assert form.split(b"".join(reports)) == reports
    for server in range(3):
        for index, report in enumerate(reports):
            token = tickets[index].token(server) if tickets else None
            assert opener(sealed, server).open(report) == (records[index][server], token)


def test_a_changed_bit_is_noticed_by_the_server_whose_record_it_is_in(servers):
    """All of what a server reads but the id and its own record may change: the others' records are not for it."""
    (report, _), (records, _) = reports_of(servers.collection)
    form, openers = SealedReports(servers.collection), [opener(servers, server) for server in range(3)]
    first, fixed = 17, range(17)
    for server, length in enumerate(form.record_bytes):
        for place in [*fixed, *range(first, first + length)]:
            changed = bytearray(report)
            changed[place] ^= 1 << (place % 8)
            for other, one in enumerate(openers):
                if place < 17 or other == server:
                    with rejects("body", ReportRejected):
                        one.open(bytes(changed))
                else:
                    assert one.open(bytes(changed)) == (records[other], None)
        first, fixed = first + length, range(0)
    assert first == form.report_bytes == len(report)


def test_a_record_opens_at_no_other_server_key_id_or_collection(servers, tmp_path):
    form = SealedReports(servers.collection)
    (one, two), _ = reports_of(servers.collection)
    own = slice(17, 17 + form.record_bytes[0])
    second = slice(own.stop, own.stop + form.record_bytes[1])
    assert form.record_bytes[0] == form.record_bytes[1]
    for at, forged in (
        (0, one[:17] + two[17:]),  # the records of another report
        (0, one[: own.start] + one[second] + one[own.stop :]),  # of another server
        (1, one[: second.start] + one[own] + one[second.stop :]),
    ):
        with rejects("body", ReportRejected):
            opener(servers, at).open(forged)
    entries = servers.collection.servers
    later = msgspec.structs.replace(servers.collection, name="another trial")  # the same keys
    with rejects("body", ReportRejected):
        Opener(later, 0, servers.server_folder(0).seals).open(one)
    twice = SealFolder(tmp_path / "seals")  # two keys at server 0: what was sealed to one does not open by number 1
    twice.draw("next")
    keys = (*entries[0].keys, SealKey(1, "x25519", read_public(tmp_path / "seals" / "next.pub").public))
    both = msgspec.structs.replace(
        servers.collection, servers=(msgspec.structs.replace(entries[0], keys=keys), *entries[1:])
    )
    shutil.copy(servers.server_folder(0).seals.folder / "trial.key", tmp_path / "seals" / "trial.key")
    (report, _), (records, _) = reports_of(both)
    assert report[17] == 1  # clients use the last
    assert Opener(both, 0, twice).open(report) == (records[0], None)
    with rejects("body", ReportRejected):
        Opener(both, 0, twice).open(report[:17] + b"\0" + report[18:])
    with rejects("body", ReportRejected, given="a report of format 2, sealed to key 2 of server 0"):
        Opener(both, 0, twice).open(report[:17] + b"\2" + report[18:])


@pytest.mark.parametrize("cut", [0, 1, 17, -1])
def test_a_body_of_another_length_is_refused(servers, cut):
    reports, _ = reports_of(servers.collection)
    with rejects("body", ReportRejected, expected="a positive multiple of 220"):
        SealedReports(servers.collection).split(b"".join(reports)[:cut])


def test_a_key_of_small_order_in_a_report_is_refused(servers):
    (report, _), _ = reports_of(servers.collection)
    with rejects("body", ReportRejected):
        opener(servers, 0).open(report[:18] + bytes(32) + report[50:])


def test_the_file_is_its_content_and_its_hash_the_digest(servers, tmp_path):
    content = servers.task_file.read_bytes()
    assert hashlib.sha256(content).digest() == servers.collection.digest
    again = Collection.load(servers.task_file)
    assert (again, again.content) == (servers.collection, content)
    written_anew = tmp_path / "anew.json"
    for other in (json.dumps(json.loads(content)).encode(), content + b"\n"):
        written_anew.write_bytes(other)
        with rejects("collection"):
            Collection.load(written_anew)
    toml = tmp_path / "collection.json"
    toml.write_bytes(msgspec.toml.encode(servers.collection.to_dict()))
    with rejects("collection", expected="the task file of a collection"):
        Collection.load(toml)


SMALL = (bytes(32), b"\1" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda keys: {"format": 2}, "not one of this version: format 2 given, 4 expected"),
        (lambda keys: [(), *keys[1:]], "keys of server 0: numbers 0, 1, .. in this order expected, 1 to 256"),
        (lambda keys: [keys[0], keys[0], keys[2]], "each key once"),
        (lambda keys: [(replaced(keys[0][0], number=1),), *keys[1:]], "numbers 0, 1, .. in this order"),
        (lambda keys: [tuple(many(MOST_KEYS + 1)), *keys[1:]], "1 to 256"),
        (lambda keys: [(replaced(keys[0][0], public="00"),), *keys[1:]], "a public key of x25519 expected"),
        (lambda keys: [(replaced(keys[0][0], public="zz" * 32),), *keys[1:]], "a public key of x25519 expected"),
        (lambda keys: [(replaced(keys[0][0], public=keys[0][0].public.upper()),), *keys[1:]], "lower case"),
        *[(lambda keys, bad=bad: [(SealKey(0, "x25519", bad.hex()),), *keys[1:]], "a public key of") for bad in SMALL],
        (lambda keys: [({"number": 0, "suite": "none", "public": keys[0][0].public},), *keys[1:]], "suite"),
    ],
)
def test_wrong_keys_are_named(servers, changed, told):
    keys = [entry.keys for entry in servers.collection.servers]
    fields = json.loads(servers.collection.content)
    found = changed(keys)
    if isinstance(found, dict):
        fields |= found
    else:
        for entry, own in zip(fields["servers"], found, strict=True):
            entry["keys"] = msgspec.to_builtins(own)
    with pytest.raises(InputError, match=told):
        Collection.from_dict(fields)


def test_more_servers_than_a_byte_can_number_are_refused(servers):
    with rejects("servers", given="257"):
        check_servers([servers.collection.servers[0]] * 257)


@pytest.mark.parametrize(
    "count", [6000, pytest.param(100_000, marks=pytest.mark.long("seals a hundred thousand reports"))]
)
def test_sealed_reports_of_one_row_look_like_random_bytes(tmp_path, count):
    """At each place the bytes of all reports of one row are uniform, but for the format and the numbers of the keys.

    Chi-square at each place, with Bonferroni's bound over all: a false alarm in about 1e-6 of all runs, by the limit
    distribution. The keys of the senders are numbers below 2^255 - 19: their top bit is 0.
    """
    collection = Servers.make(tmp_path, servers=2, columns=["a"], doors=True).collection
    form, stream = SealedReports(collection), Stream.from_os()
    ids = [report_id(collection.digest, stream.bytes(32)) for _ in range(count)]
    rows = np.full((count, 1), 3.25)
    records = zip(*make_reports(Client(collection.plan.verify()), collection, rows, ids), strict=True)
    reports = np.frombuffer(b"".join(map(form.seal, records)), np.uint8).reshape(count, form.report_bytes)
    starts = [17, 17 + form.record_bytes[0]]
    fixed, halved = {0, *starts}, {start + 32 for start in starts}
    assert {tuple(np.unique(reports[:, place])) for place in fixed} == {(2,), (0,)}
    worst = chi2.isf(1e-6 / (form.report_bytes - len(fixed)), [127, 255])
    for place in set(range(form.report_bytes)) - fixed:
        cells = 128 if place in halved else 256
        found = np.bincount(reports[:, place], minlength=256)
        assert not found[cells:].any()
        distance = ((found[:cells] - count / cells) ** 2).sum() / (count / cells)
        assert distance < worst[cells // 256], (place, distance)
    assert len(set(ids)) == count


def replaced(key, **fields):
    return msgspec.structs.replace(key, **fields)


def many(count):
    for number in range(count):
        yield SealKey(number, "x25519", X25519PrivateKey.generate().public_key().public_bytes_raw().hex())


def test_keys_are_made_by_a_command_and_named_by_the_task_file(tmp_path, capsys):
    bounds = tmp_path / "bounds.toml"
    bounds.write_text("[columns.a]\nlower = 0.0\nupper = 10.0\n[columns.y]\nlower = 0.0\nupper = 10.0\n")
    argv = ["collection", str(tmp_path / "task.json"), "--name", "trial", "--bounds", str(bounds)]
    for server in range(3):
        folder = tmp_path / f"server-{server}"
        folder.mkdir(mode=0o700)
        assert main(["identity", str(folder / "identity"), "--server", str(server)]) == 0
        capsys.readouterr()
        assert main(["identity", str(folder / "seals"), "--seal", "trial"]) == 0
        shown = capsys.readouterr().out
        assert (folder / "seals" / "trial.pub").read_text().strip() in shown.splitlines()
        assert (folder / "seals" / "trial.key").read_text().split()[1] not in shown
        assert {path.stat().st_mode & 0o777 for path in (folder / "seals").iterdir()} == {0o600}
        url, peers, release = f"https://s{server}.example", f"s{server}.example:6000", f"s{server}.example:7000"
        argv += ["--server", url, peers, release, str(folder / "identity" / "party.crt")]
        argv += ["--seal", str(folder / "seals" / "trial.pub")]
    argv += ["--opens", "2027-01-01T00:00Z", "--closes", "2027-02-01T00:00Z", "--expires", "2027-03-01T00:00Z"]
    argv += ["--minimum-batch", "1000", "--largest-batch", "5000", "--epsilon", "1", "--delta", "1e-6"]
    assert main(argv) == 0
    collection = Collection.load(tmp_path / "task.json")
    assert [len(entry.keys) for entry in collection.servers] == [1] * 3
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "task.json")]) == 0
    shown = capsys.readouterr().out
    assert all(f"sealed to key 0: x25519 {entry.keys[0].public}" in shown for entry in collection.servers)
    for server in range(3):
        Opener(collection, server, SealFolder(tmp_path / f"server-{server}" / "seals"))
    with rejects("folder"):
        Opener(collection, 0, SealFolder(tmp_path / "server-1" / "seals"))


def test_as_many_public_keys_as_servers_are_needed(servers, tmp_path, capsys):
    bounds = tmp_path / "bounds.toml"
    bounds.write_text("[columns.a]\nlower = 0.0\nupper = 10.0\n[columns.y]\nlower = 0.0\nupper = 10.0\n")
    argv = ["collection", str(tmp_path / "task.json"), "--name", "trial", "--bounds", str(bounds)]
    for server in range(3):
        own = servers.folder / f"server-{server}"
        places = (f"https://s{server}.example", f"s{server}.example:6000", f"s{server}.example:7000")
        argv += ["--server", *places, str(own / "identity/party.crt")]
    argv += ["--opens", "2027-01-01T00:00Z", "--closes", "2027-02-01T00:00Z", "--expires", "2027-03-01T00:00Z"]
    argv += ["--minimum-batch", "1000", "--largest-batch", "5000", "--epsilon", "1", "--delta", "1e-6"]
    assert main([*argv, "--seal", str(servers.folder / "server-0" / "seals" / "trial.pub")]) == 2
    assert "seal: 1 given, one for each of 3 servers expected" in capsys.readouterr().err
    assert not (tmp_path / "task.json").exists()


def test_a_name_is_used_once_and_strangers_read_no_key(tmp_path):
    folder = SealFolder(tmp_path / "seals")
    folder.draw("trial")
    before = (tmp_path / "seals" / "trial.key").read_bytes()
    with rejects("seal"):
        folder.draw("trial")
    for name in ("", "../x", "a/b", ".hidden", "x" * 101, "ä"):
        with rejects("seal"):
            folder.draw(name)
    assert (tmp_path / "seals" / "trial.key").read_bytes() == before
    key = read_public(tmp_path / "seals" / "trial.pub")
    (tmp_path / "seals" / "trial.key").chmod(0o640)
    with pytest.raises(InputError, match=r"trial\.key"):
        folder.private([key])
    with rejects("seal"):
        SealFolder(tmp_path / "nowhere" / "seals").draw("trial")


@pytest.mark.parametrize(
    "content", [b"", b"x25519", b"x25519 00", b"p256 " + b"00" * 32, b"\xff", b"x25519 zz", b"0" * 2000]
)
def test_a_file_that_holds_no_key_is_refused_and_not_quoted(tmp_path, content):
    path = tmp_path / "bad.pub"
    path.write_bytes(content)
    with rejects("seal"):
        read_public(path)
    with rejects("seal"):
        read_public(tmp_path / "none.pub")


def having(key):
    """A collection whose only server has this key, and its number."""
    entry = types.SimpleNamespace(keys=(key,))
    return types.SimpleNamespace(servers=(entry,), digest=bytes(32)), 0


def test_a_deleted_key_is_gone_and_others_stay(tmp_path):
    folder = SealFolder(tmp_path / "seals")
    folder.draw("one")
    folder.draw("two")
    one, two = (read_public(tmp_path / "seals" / f"{name}.pub") for name in ("one", "two"))
    assert folder.delete(*having(one)) == [tmp_path / "seals" / "one.key"]
    assert sorted(path.name for path in (tmp_path / "seals").iterdir()) == ["one.pub", "two.key", "two.pub"]
    assert (folder.private([one]), list(folder.private([two]))) == ({}, [0])
    assert folder.delete(*having(one)) == []


def test_whatever_else_is_in_the_folder_a_key_is_deleted(tmp_path):
    """After a release nobody looks: a stray file, or a mode that others gave, may not keep the key."""
    folder = SealFolder(tmp_path / "seals")
    folder.draw("own")
    own = read_public(tmp_path / "seals" / "own.pub")
    (tmp_path / "seals" / "a.key").write_bytes(b"")
    (tmp_path / "seals" / "own.key").chmod(0o644)
    assert folder.delete(*having(own)) == [tmp_path / "seals" / "own.key"]
    (tmp_path / "seals" / "z.key").symlink_to(tmp_path / "nowhere")
    folder.draw("other")
    other = read_public(tmp_path / "seals" / "other.pub")
    with rejects("seal"):  # it may be the one that should go
        folder.delete(*having(other))
    assert sorted(path.name for path in (tmp_path / "seals").glob("o*.key")) == []
