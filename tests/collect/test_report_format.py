"""docs/report-format.md: its known answers are the package's, and a client written from it alone is accepted."""

import asyncio
import datetime
import json
import re
from pathlib import Path

import aiohttp
import msgspec
import numpy as np
import pytest
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from bench.system.collection_servers import Servers
from dpmpc.base.errors import ReportRejected
from dpmpc.base.untrusted import ReadError
from dpmpc.collect.terms.sealing_suites import SUITES
from dpmpc.collect.terms.server_entries import SealKey
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.added_keys import newest, read_added
from dpmpc.collect.upload.roster import Ticket, draw_tickets, write_roster
from dpmpc.collect.upload.seal_folder import SealFolder
from dpmpc.collect.upload.sealing import Opener, SealedReports, SealedWithdrawals, report_id
from dpmpc.parties.network.identity import write_identity
from references import report_client
from support.release_processes import close_and_release
from support.remade_reports import CASES, design, remade

PAGE = (Path(__file__).parents[2] / "docs" / "report-format.md").read_text()
VECTORS = json.loads(report_client.VECTORS.read_text())
PROVED = {"proved": True, "noise_by": "servers", "sketch": "sum", "rows": None}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    root = tmp_path_factory.mktemp("identities")
    return [write_identity(root / str(party), party, datetime.timedelta(days=2)) for party in range(3)]


def test_the_vectors_are_what_the_reference_writes_and_the_page_names():
    assert report_client.vectors() == VECTORS
    fields = re.findall(r"`(\w+)`", PAGE[PAGE.index("## 10.") :])
    assert {*VECTORS["plain"], "added_key", "hybrid", "withdrawal"} <= set(fields)


@pytest.mark.parametrize("kind", ["plain", "proved"])
def test_servers_find_in_the_reports_what_was_sealed_and_refuse_all_others(certificates, tmp_path, kind):
    answer = VECTORS[kind]
    keys = [(SealKey(0, "x25519", public),) for public in answer["public_keys"]]
    collection = design(certificates, kind, keys, fractional_bits=answer["fractional_bits"])
    collection.__dict__["digest"] = bytes.fromhex(VECTORS["digest"])
    folder = SealFolder(tmp_path / "seals")
    folder.folder.mkdir(mode=0o700)
    openers = []
    for server, private in enumerate(answer["private_keys"]):
        path = folder.folder / f"{server}.key"
        path.write_text(f"x25519 {private}\n")
        path.chmod(0o600)
        openers.append(Opener(collection, server, folder))
    (report,) = SealedReports(collection).split(bytes.fromhex(answer["report"]))
    assert report[1:17] == report_id(collection.digest, bytes.fromhex(answer["secret"]))
    for server, opener in enumerate(openers):
        record, token = opener.open(report)
        assert (record.hex(), token) == (answer["id"] + answer["payloads"][server], None)
    for bad in answer["refused"]:
        for server, opener in enumerate(openers):
            if server in bad["refused_by"]:
                with pytest.raises(ReportRejected):
                    opener.open(*SealedReports(collection).split(bytes.fromhex(bad["report"])))
            else:
                opener.open(*SealedReports(collection).split(bytes.fromhex(bad["report"])))


def test_servers_find_in_a_withdrawal_the_tokens_of_its_ticket(certificates, tmp_path):
    answer, known = VECTORS["plain"], VECTORS["withdrawal"]
    keys = [(SealKey(0, "x25519", public),) for public in answer["public_keys"]]
    collection = design(certificates, "plain", keys, fractional_bits=answer["fractional_bits"], authenticated=True)
    collection.__dict__["digest"] = bytes.fromhex(VECTORS["digest"])
    folder = SealFolder(tmp_path / "seals")
    folder.folder.mkdir(mode=0o700)
    (withdrawal,) = SealedWithdrawals(collection).split(bytes.fromhex(known["body"]))
    ticket = Ticket("x", bytes.fromhex(known["id"]), bytes.fromhex(known["ticket_secret"]))
    for server, private in enumerate(answer["private_keys"]):
        path = folder.folder / f"{server}.key"
        path.write_text(f"x25519 {private}\n")
        path.chmod(0o600)
        token = Opener(collection, server, folder).open_withdrawal(withdrawal)
        assert token.hex() == known["tokens"][server] == ticket.token(server).hex()


@pytest.mark.parametrize("case", CASES)
def test_the_page_leads_to_the_payloads_of_the_package(certificates, case):
    """To the last byte; of rows that are cut to a ball some entry may be another by one, which no server can tell."""
    collection = design(certificates, case)
    task = collection.to_dict()["task"]
    for made in remade(collection, 6):
        keys, blind, blinds = made.drawn[:32], made.drawn[32:48], made.drawn[48:]
        draws = [blinds, keys[:16], keys[16:], blind] if collection.proved else [keys[:16], keys[16:]]
        left = iter(draws)
        found = report_client.payloads(task, collection.digest, made.id, made.row, lambda length, left=left: next(left))
        assert next(left, None) is None
        if case == "plain, rows in a ball":
            last, expected = (np.frombuffer(one[-1], "<i8") for one in (found, made.payloads))
            assert np.abs(last - expected).max() <= 1
            found[-1] = made.payloads[-1]
        assert found == made.payloads


def post(servers, server, body):
    async def run():
        url = f"{servers.door(server)}/v2/collections/{servers.collection.digest.hex()}/reports"
        async with aiohttp.ClientSession() as session, session.post(url, data=body) as response:
            return response.status, await response.json()

    return asyncio.run(run())


def test_proved_reports_of_a_client_from_the_page_alone_are_all_released(tmp_path):
    """It gets the task file from the door, and sends each report to one door; no proof of its is refused."""
    with Servers.make(tmp_path, doors=True, minimum_batch=50, largest_batch=200, **PROVED) as servers:
        servers.start()

        async def fetch():
            async with aiohttp.ClientSession() as session, session.get(f"{servers.door(0)}/v1/collection") as response:
                return await response.read()

        content = asyncio.run(fetch())
        rows = np.random.default_rng(8).uniform(-1, 11, (54, 3))
        for index, row in enumerate(rows.tolist()):
            report = report_client.contribute(content, servers.collection.digest, row)
            status, answer = post(servers, index % 3, report)
            assert (status, answer["servers"]) == (200, {"0": 200, "1": 200, "2": 200})
        for server in range(3):
            servers.stop(server)
        close_and_release(servers)
        manifest = verify(tmp_path / "release-0.dpmpc", servers.collection).certificate.statement.manifest
        assert manifest.clients == 54


@pytest.mark.parametrize("roster", [False, True])
def test_plain_reports_of_a_client_from_the_page_alone_are_stored(tmp_path, roster):
    options = {"noise_by": "servers", "proved": False, "sketch": "sum", "rows": None, "authenticated": roster}
    with Servers.make(tmp_path, doors=True, **options) as servers:
        tickets = draw_tickets(["x"]) if roster else [None]
        if roster:
            for server in range(3):
                write_roster(servers.server_folder(server).roster, servers.collection, server, tickets)
        servers.start()
        ticket = (tickets[0].report, tickets[0].secret) if roster else None
        report = report_client.contribute(
            servers.collection.content, servers.collection.digest, [1.0, 2.0, 9.5], ticket
        )
        assert post(servers, 1, report)[0] == 200
        scale = 2.0**servers.collection.plan.encoding.fractional_bits
        sums = servers.opened_sum().view(np.int64)[0] / scale
        assert sums[:3] == pytest.approx(np.sqrt(2) * np.array([-0.8, -0.6, 0.9]), abs=1 / scale)


def test_the_client_of_the_page_refuses_what_the_page_does_not_describe(certificates):
    key = [(SealKey(0, "x25519", X25519PrivateKey.generate().public_key().public_bytes_raw().hex()),) for _ in range(3)]
    collection = design(certificates, "plain", key)
    with pytest.raises(ValueError, match="another collection"):
        report_client.contribute(collection.content, bytes(32), [20.0, 3.0])
    shamir = design(certificates, "plain", key, sharing="shamir", noise_by="clients", corrupt_clients=0)
    with pytest.raises(ValueError, match="not on this page"):
        report_client.contribute(shamir.content, shamir.digest, [20.0, 3.0])
    with pytest.raises(ValueError, match="a ticket"):
        report_client.contribute(collection.content, collection.digest, [20.0, 3.0], (bytes(16), bytes(32)))


def test_a_later_key_of_the_vectors_is_signed_as_the_page_says(certificates):
    """The client from the page and the package take the same keys, and refuse a signature over anything else."""
    known = VECTORS["added_key"]
    own = [(SealKey(0, "x25519", public),) for public in VECTORS["plain"]["public_keys"]]
    collection = design([certificates[0], known["certificate"].encode(), certificates[2]], "plain", own)
    collection.__dict__["digest"] = bytes.fromhex(VECTORS["digest"])
    added = {name: known[name] for name in ("server", "number", "suite", "public", "signature")}
    public = bytes.fromhex(added["public"])
    assert report_client.signed_key(collection.digest, 1, 1, "x25519", public).hex() == known["signed"]
    answer = json.dumps({"keys": [added]}).encode()
    servers = {"servers": [msgspec.to_builtins(entry) for entry in collection.servers]}
    by_page = report_client.later_keys(servers, collection.digest, answer)
    by_package = newest(collection, read_added(answer, collection))
    assert by_page == [(key.number, bytes.fromhex(key.public)) for key in by_package]
    assert [number for number, _ in by_page] == [0, 1, 0]
    forged = json.dumps({"keys": [added | {"number": 2}]}).encode()
    with pytest.raises(InvalidSignature):
        report_client.later_keys(servers, collection.digest, forged)
    with pytest.raises(ReadError, match="certificate has signed expected"):
        read_added(forged, collection)


def test_a_record_of_the_hybrid_suite_opens_by_the_page_and_by_the_package():
    known, suite = VECTORS["hybrid"], SUITES["x25519-mlkem768"]
    seed, info, plain, sealed = (bytes.fromhex(known[name]) for name in ("private_key", "info", "plain", "sealed"))
    assert suite.public(seed).hex() == known["public_key"]
    assert suite.open(suite.private(seed), sealed, info) == report_client.open_hybrid(seed, info, sealed) == plain
    assert len(sealed) == len(plain) + suite.added_bytes
    again = suite.seal(bytes.fromhex(known["public_key"]), plain, info)
    assert report_client.open_hybrid(seed, info, again) == plain
    with pytest.raises(InvalidTag):
        report_client.open_hybrid(seed, info[:-1] + b"x", sealed)
