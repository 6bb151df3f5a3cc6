"""Nothing secret on command lines, in environments, logs, answers or metrics; no file of a server for others.

A collection with a roster is run through by the commands, each in a process of its own, from tickets to the release.
All that a bystander on the machine or a reader of logs could see is searched for all that is secret. The mask for new
files is 0, so that modes are the commands' own doing.
"""

import asyncio
import base64
import csv
import os
import shutil
import ssl
import subprocess
import sys
import zipfile
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from bench.system.collection_servers import Servers
from dpmpc.base.errors import DpmpcError
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.terms.endpoints import SEALED_UPLOADS
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.roster import read_tickets
from dpmpc.collect.upload.sealing import Opener
from dpmpc.collect.upload.submission import Submission
from dpmpc.parties.network.identity import pinning_context, serving_context, sign
from support.sealed_doors import sealed_for

COUNT = 210
SMALL = {"minimum_batch": 200, "rows": 8, "sparsity": 2, "copies": "each", "largest_batch": 5000}


class Seen:
    """Everything that others can see of processes."""

    def __init__(self):
        self.texts = {}

    def watch(self, name, process):
        for file in ("cmdline", "environ"):
            self.texts[f"{file} of {name}"] = Path(f"/proc/{process.pid}/{file}").read_bytes()

    def run(self, name, *arguments, cwd):
        """Run a command to its end; keep what it shows."""
        command = [sys.executable, "-m", "dpmpc", *map(str, arguments)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            self.watch(name, process)
            try:
                self.texts[f"output of {name}"] = b"\n".join(process.communicate(timeout=120))
            finally:
                process.kill()
        return process.returncode

    def finding(self, secrets):
        """Where which secret is seen."""
        return [
            (place, kind)
            for place, text in self.texts.items()
            for kind, forms in secrets.items()
            for form in forms
            if form in text
        ]


def forms_of(secret):
    """How bytes may appear in a text."""
    written = [secret.hex(), base64.b64encode(secret).decode(), repr(secret)[2:-1]]
    return {secret, *(text.encode() for text in written), secret.hex().upper().encode()}


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """Servers that took reports, released them and stopped, what was seen, and what is secret."""
    folder = tmp_path_factory.mktemp("collected")
    mask = os.umask(0)
    try:
        seen, secrets = Seen(), {}
        with Servers.make(folder, authenticated=True, **SMALL) as servers:
            assert seen.run("roster", "roster", "collection.json", "--clients", COUNT, "--out", "out", cwd=folder) == 0
            for server in range(3):
                shutil.copy(folder / "out" / f"roster-{server}", servers.server_folder(server).roster)
                servers.server_folder(server).roster.chmod(0o600)
            rows = np.random.default_rng(3).uniform(0, 10, (COUNT, 3))
            with (folder / "data.csv").open("w", newline="") as file:
                csv.writer(file).writerows([["a", "b", "y"], *rows.tolist()])
            tickets = read_tickets(folder / "out" / "tickets.csv")
            secrets["row"] = {repr(value).encode() for value in rows.flat}
            secrets["ticket"] = set().union(*(forms_of(ticket.secret) for ticket in tickets))
            secrets["id"] = set().union(*(forms_of(ticket.report) for ticket in tickets))
            secrets["token"] = {form for ticket in tickets for j in range(3) for form in forms_of(ticket.token(j))}
            secrets["payload"] = payloads(servers, folder, rows, tickets)
            keys = [(servers.server_folder(j).identity / "party.key").read_bytes() for j in range(3)]
            secrets["key"] = {line for key in keys for line in key.splitlines()[1:-1]}
            servers.start()
            for server in range(3):
                seen.watch(f"server {server}", servers.processes[server])
            submit = ["submit", "collection.json", "data.csv", "--tickets", "out/tickets.csv", "--state", "state"]
            assert seen.run("client", *submit, "--seconds", 100, cwd=folder) == 0
            seen.texts["answers"] = asyncio.run(misuse(servers, tickets))
            secrets["words"] = words(servers)
            assert [servers.stop(server) for server in range(3)] == [0, 0, 0]
            seen.texts |= {f"log of server {server}": servers.log(server).encode() for server in range(3)}
        release(seen, folder)
        yield servers, seen, secrets
    finally:
        os.umask(mask)


def payloads(servers, folder, rows, tickets):
    """Make the reports that `dpmpc submit` then finds in its state, and return what is in them."""
    with Submission(collection=servers.collection, state=folder / "state", tickets=tickets).open(rows) as pending:
        sent = [record.content for part in pending.records(0, COUNT) for record in part]
    assert len(sent) == COUNT
    openers = [Opener(servers.collection, server, servers.server_folder(server).seals) for server in range(3)]
    records = [opener.open(report)[0] for report in sent for opener in openers]
    return set().union(*(forms_of(record[ID_BYTES:]) for record in records))


def words(servers):
    """Every word of every spool, in decimal."""
    found = set()
    for server in range(3):
        with servers.spool(server) as spool:
            found |= {str(word).encode() for word in spool.share(spool.ids()).rows(0, COUNT).flat}
    assert len(found) > COUNT
    return found


async def misuse(servers, tickets):
    """Send what is refused, with secrets in it; return all answers, and the metrics."""
    entry, ticket = servers.collection.servers[0], tickets[0]
    token = ticket.token(0).hex()
    uploads = SEALED_UPLOADS.format(digest=servers.collection.digest.hex())
    (stolen,) = sealed_for(servers.collection, 0, [ticket.report + tickets[1].token(0) + bytes(16)])
    requests = [
        ("POST", uploads, ticket.report + bytes(32), f"Bearer {token}"),
        ("POST", uploads, ticket.report + bytes(31), f"Bearer {token}"),
        ("POST", uploads, stolen, f"Bearer {tickets[1].token(0).hex()}"),
        ("POST", uploads, ticket.report + bytes(32), f"Basic {token}"),
        ("POST", f"{uploads}/{token}?token={token}", b"", token),
        ("GET", "/metrics", None, f"Bearer {token}"),
        ("GET", "/healthz", None, ""),
    ]
    await knock(*servers.address(0))
    answers = []
    connector = aiohttp.TCPConnector(ssl=pinning_context(entry.certificate.encode()))
    async with aiohttp.ClientSession(connector=connector) as session:
        for method, path, body, authorization in requests:
            headers = {"Authorization": authorization}
            url = entry.url + path
            name = "party-0"
            if method == "GET":
                url, name = servers.monitor(0) + path, None
            async with session.request(method, url, data=body, headers=headers, server_hostname=name) as response:
                answers.append(await response.read())
                assert (response.status == 200) == (method == "GET")
    return b"\n".join(answers)


async def knock(host, port):
    """Connect without TLS, and without trust in the server's certificate."""
    _, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await writer.drain()
    writer.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(host, port, ssl=ssl.create_default_context())


def release(seen, folder):
    """Let all servers release, and keep what they show and what is in the file."""
    pipe = subprocess.PIPE
    running = []
    for server in range(3):
        command = [sys.executable, "-m", "dpmpc", "release", "collection.json", "--server", str(server), "--close"]
        command += ["--folder", f"server-{server}", "--out", f"release-{server}.dpmpc"]
        running.append(subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe))
        seen.watch(f"release {server}", running[-1])
    try:
        for server, process in enumerate(running):
            seen.texts[f"output of release {server}"] = b"\n".join(process.communicate(timeout=120))
            assert process.returncode == 0, seen.texts[f"output of release {server}"]
    finally:
        for process in running:
            process.kill()
    with zipfile.ZipFile(folder / "release-0.dpmpc") as archive:
        seen.texts |= {f"release, {name}": archive.read(name) for name in archive.namelist()}


def test_nobody_sees_a_secret(collected):
    _, seen, secrets = collected
    assert {"row", "ticket", "token", "payload", "words", "key", "id"} == set(secrets)
    assert b"stopping" in seen.texts["log of server 0"]
    assert b'reason="Unknown"' in seen.texts["answers"]
    assert seen.finding(secrets) == []


def test_no_address_is_logged(collected):
    _, seen, _ = collected
    logs = {place: text.splitlines() for place, text in seen.texts.items() if place.startswith("log")}
    own = [line for lines in logs.values() for line in lines if b"listening on 127.0.0.1:" in line]
    assert len(own) == 3 * 3  # where each server itself listens; clients come from the same address here
    assert [line for lines in logs.values() for line in lines if b"127.0.0.1" in line and line not in own] == []


def test_a_secret_would_be_seen(collected):
    """The search finds what it is to find, wherever it is."""
    _, seen, secrets = collected
    for kind, forms in secrets.items():
        planted = Seen()
        planted.texts["somewhere"] = seen.texts["answers"] + min(forms) + b" and more"
        assert ("somewhere", kind) in planted.finding(secrets)


def test_all_files_are_for_their_owner_alone(collected):
    servers, _, _ = collected
    private = [servers.server_folder(server).path for server in range(3)]
    files = [file for folder in [*private, servers.folder / "out"] for file in [folder, *folder.rglob("*")]]
    assert {file.name for file in files} >= {"party.key", "spool.sqlite", "ledger.sqlite", "tickets.csv", "roster"}
    private = [
        file for file in [*files, servers.folder / "state"] if file.parent.name != "releases"
    ]  # that all may have
    assert [file for file in private if file.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("mode", [0o040, 0o004, 0o020], ids=["group reads", "all read", "group writes"])
@pytest.mark.parametrize("place", ["", "spool", "ledger", "identity/party.key"])
def test_what_others_may_touch_is_refused(collected, place, mode):
    servers, _, _ = collected
    own = servers.server_folder(1)
    path = own.path / place
    kept = path.stat().st_mode
    uses = {
        "": lambda: servers.server_folder(1),
        "spool": lambda: own.open_spool(servers.collection, 1, writer=True),
        "ledger": lambda: ReleaseLedger(own.ledger),
        "identity/party.key": lambda: (serving_context(own.identity), sign(own.identity, b"")),
    }
    path.chmod(kept | mode)
    try:
        with pytest.raises(DpmpcError, match=f"mode {kept & 0o777 | mode:04o}"):
            uses[place]()
    finally:
        path.chmod(kept)


def test_a_row_is_no_argument(collected):
    """A command line is everybody's to read, so that a row comes from a file or from standard input."""
    servers, _, _ = collected
    command = [sys.executable, "-m", "dpmpc", "submit", "collection.json", "--row", "a=1", "b=2", "y=3"]
    done = subprocess.run(command, cwd=servers.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
