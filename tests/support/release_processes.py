"""The servers of a collection as processes of this machine, some of which do what they should not."""

import contextlib
import dataclasses
import datetime
import hashlib
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from bench.system.ports import free_ports
from dpmpc.app.cli import main as cli
from dpmpc.base.randomness import Stream
from dpmpc.collect.opening import agreement, dealing_checks, noise_dealing, proof_checks, release_protocol, releasing
from dpmpc.collect.store.blocks import checksums
from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.store.openings import Openings
from dpmpc.collect.store.query_points import PointKeeper
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.store.store_description import StoreDescription
from dpmpc.collect.terms.collection_design import CollectionTerms, design_collection
from dpmpc.collect.terms.server_entries import ServerEntry
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.reports import ReportFormat, make_reports
from dpmpc.data import Schema
from dpmpc.parties.network import connecting, conversation, identity
from dpmpc.parties.network.frames import Kind
from dpmpc.parties.network.identity import write_identity
from dpmpc.parties.network.runtime import PartyRuntime
from dpmpc.privacy.specification import Budget, taken
from dpmpc.release.client import Client
from support.hostile import servers as servers_that_misbehave
from support.processes import begin
from support.report_words import words_of
from support.seal_keys import key_in

HOUR, DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)
MINIMUM, COUNT = 200, 210
PATIENCE = 120


@dataclasses.dataclass
class Trial:
    """A collection, its servers with their folders, and the reports of all clients."""

    root: Path
    collection: Collection
    ids: list[bytes]
    records: list[list[bytes]]
    ports: list[int]

    @classmethod
    def make(
        cls, root, servers=3, *, count=COUNT, columns=("a", "y"), addresses=None, ids=None, identities=None, **options
    ):
        """Make identities, a collection that closed an hour ago, and reports; the spools are still empty."""
        root.mkdir(exist_ok=True)
        ports = free_ports(servers)
        now = datetime.datetime.now(datetime.UTC)
        fields = {"opens": now - DAY, "closes": now - HOUR, "expires": now + DAY}
        fields |= {
            "minimum_batch": MINIMUM,
            "largest_batch": 5000,
            "sketch": "osnap",
            "rows": 8,
            "sparsity": 2,
            "copies": "each",
            "noise_by": "clients",
            "corrupt_clients": 0,
            "proved": False,
        } | options
        entries = []
        for server in range(servers):
            folder = root / f"server-{server}"
            folder.mkdir(mode=0o700)
            if identities is None:
                certificate = write_identity(folder / "identity", server, DAY)
            else:
                shutil.copytree(identities.folder(server) / "identity", folder / "identity")
                certificate = (folder / "identity" / "party.crt").read_bytes()
            address = (addresses or {}).get(server, f"127.0.0.1:{ports[server]}")
            entries.append(
                ServerEntry(
                    f"https://server-{server}.example", address, address, certificate.decode(), (key_in(folder),)
                )
            )
        schema, fields = Schema.from_pair(columns, (0.0, 10.0)), {"name": "a trial", "servers": tuple(entries)} | fields
        collection = design_collection(taken(CollectionTerms, fields), schema, Budget(1.0, 1e-6), **fields)
        collection.save(root / "collection.json")
        rows = np.random.default_rng(5).uniform(0, 10, (count, len(columns)))
        ids = [os.urandom(16) for _ in range(count)] if ids is None else ids
        records = make_reports(Client(collection.plan.verify(), Stream.from_os()), collection, rows, ids)
        return cls(root, collection, ids, records, ports)

    @classmethod
    def filled(cls, root, servers=3, **options):
        """Make a trial whose servers hold all reports."""
        trial = cls.make(root, servers, **options)
        for server in range(servers):
            trial.fill(server)
        return trial

    @property
    def task_file(self):
        return self.root / "collection.json"

    def folder(self, server):
        return self.root / f"server-{server}"

    def out(self, server):
        return self.root / f"release-{server}.dpmpc"

    def fill(self, server, count=COUNT, skip=()):
        """Put the reports into a server's spool."""
        form = ReportFormat(self.collection, server)
        chosen = [record for index, record in enumerate(self.records[server][:count]) if index not in skip]
        with ServerFolder(self.folder(server)).open_spool(self.collection, server, writer=True) as spool:
            spool.add(*form.decode(b"".join(chosen)))

    def expected(self, release, indices=None):
        """The sums that these reports give: their words, expanded one by one, put together before the sketch.

        Servers expand many keys at once, and put sums together after the sketch.
        """
        chosen = range(len(self.ids)) if indices is None else indices
        order = sorted(chosen, key=lambda index: self.ids[index])
        words = [
            words_of(ReportFormat(self.collection, server), b"".join(own[index] for index in order))
            for server, own in enumerate(self.records)
        ]
        task = release.task
        noisy = task.scheme.combine(words)
        if self.collection.checked_dealing:
            noisy = np.ascontiguousarray(noisy.reshape(len(order), -1)[:, :-1]).reshape(-1, task.copies, task.width)
        sums = np.zeros((task.sketch.rows, task.width), np.uint64)
        task.sketch.apply(noisy, out=sums, ring=task.encoding.ring)
        return task.encoding.ring.lift(sums)


def close_and_release(servers):
    """Run `dpmpc release --close` for all servers of a `Servers`, which do not serve any more; return what each told.

    The files are release-0.dpmpc and so on in the folder of the servers.
    """
    argv = [sys.executable, "-m", "dpmpc", "release", str(servers.task_file), "--close"]
    children = []
    for server in range(len(servers.collection.servers)):
        own = ["--server", str(server), "--folder", str(servers.folder / f"server-{server}")]
        own += ["--out", str(servers.folder / f"release-{server}.dpmpc")]
        children.append(subprocess.Popen([*argv, *own], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    told = [child.communicate(timeout=PATIENCE)[1] for child in children]
    assert [child.returncode for child in children] == [0] * len(children), told
    return told


def copied_or_linked(source, target):
    """Link the long files, which hold the shares and are appended to by one test at a time, and copy the others."""
    (os.link if os.path.getsize(source) > 1 << 20 else shutil.copy2)(source, target)


@dataclasses.dataclass
class Ended:
    """How a server's process ended: exit status, negative for a signal, and what it wrote to standard error."""

    status: int
    told: str


def run(trial, *, deeds=None, servers=None, options=(), only=None, seconds=PATIENCE):
    """Run `dpmpc release` for each server at once, with some deeds; return how they ended, by server."""
    chosen = range(len(trial.collection.servers)) if servers is None else servers
    children = {}
    for server in chosen:
        argv = ["release", str(trial.task_file), "--server", str(server)]
        argv += ["--folder", str(trial.folder(server)), "--out", str(trial.out(server))]
        argv += ["--connect-deadline", "20", "--deadline", "20", *options, *(only or {}).get(server, ())]
        log = trial.root / f"log-{server}"
        children[server] = begin(_serve, argv, str(log), (deeds or {}).get(server))
    end = time.monotonic() + seconds
    try:
        for child in children.values():
            child.join(max(0, end - time.monotonic()))
    finally:
        for child in children.values():
            child.kill()
            child.join()
    return {
        server: Ended(child.exitcode, (trial.root / f"log-{server}").read_text()) for server, child in children.items()
    }


def _serve(argv, log, deed):
    with open(log, "w") as file:
        os.dup2(file.fileno(), 2)
    if deed is not None:
        name, *arguments = deed
        deed_of(name)(*arguments)
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    status = cli.main(argv)
    sys.stderr.flush()
    os._exit(status)


def deed_of(name):
    """Find a deed here or in the library of hostile servers."""
    return globals().get(name) or getattr(servers_that_misbehave, name)


# Deeds: each changes what this process runs.

FOLDERS = {}
COLLECTIONS = []
HOLDERS = {
    "protocol": release_protocol,
    "conversation": conversation,
    "dealing": dealing_checks,
    "server": releasing.ReleasingServer,
    "ledger": ReleaseLedger,
    "points": PointKeeper,
    "proof_checks": proof_checks,
    "noise": noise_dealing,
    "openings": Openings,
}


def die(moment, holder, step, number=signal.SIGKILL):
    """Die before or after a step, or be asked to end by another signal."""
    place = HOLDERS[holder]
    original = getattr(place, step)

    def kill():
        os.kill(os.getpid(), number)

    def deadly(*arguments):
        if moment == "before":
            kill()
        result = original(*arguments)
        if moment == "after":
            kill()
        return result

    async def deadly_later(*arguments):
        if moment == "before":
            kill()
        result = await original(*arguments)
        if moment == "after":
            kill()
        return result

    setattr(place, step, deadly_later if original.__code__.co_flags & 0x80 else deadly)


def alter_share():
    """Commit to a share with one wrong element, send it to everybody, and sign that it was wrong."""
    original = releasing.ReleasingServer.bound_share

    def altered(*arguments):
        wrong = original(*arguments).copy()
        wrong[0, 0] = wrong[0, 0] ^ np.uint64(1)
        return wrong

    releasing.ReleasingServer.bound_share = altered
    servers_that_misbehave.disregard_accusations()


def lie_in_check_values(first=0, last=None):
    """Tell everybody wrong check values for some of the reports, and go on when all have found that."""
    original = dealing_checks.exchange_values

    async def lying(party, own):
        wrong = own.copy()
        wrong[first:last] ^= np.uint64(1)
        return await original(party, wrong)

    dealing_checks.exchange_values = lying
    servers_that_misbehave.disregard_accusations()


def tell_two_check_values():
    """Tell the first server other check values than the rest."""
    original = PartyRuntime.send_frame

    async def two_faced(runtime, receiver, frame):
        if frame.kind is Kind.CHECK and receiver == runtime.settings.present[0]:
            wrong = frame.words.copy()
            wrong[3] ^= np.uint64(1)
            frame = runtime.frame(Kind.CHECK, wrong)
        await original(runtime, receiver, frame)

    PartyRuntime.send_frame = two_faced


def show_a_seed_of_ones_own():
    """Claim that a seed of one's own choice was recorded, signed by oneself for everybody."""

    def forging(self, digest):
        collection, everybody = COLLECTIONS[-1], list(range(len(COLLECTIONS[-1].servers)))
        signature = identity.sign(FOLDERS["identity"], dealing_checks.seed_message(collection, everybody, bytes(32)))
        record = dealing_checks.SeedRecord(bytes(32).hex(), {str(number): signature.hex() for number in everybody})
        return record.encode()

    ReleaseLedger.seed = forging
    begin = ServerFolder.require_server

    def remembering(self, collection, number):
        FOLDERS["identity"] = self.identity
        COLLECTIONS.append(collection)
        return begin(self, collection, number)

    ServerFolder.require_server = remembering


def tell_what_is_sent(kind):
    """Write to standard error whenever a frame of this kind is about to be sent, with what the ledger holds by then."""
    original = PartyRuntime.frame

    def telling(self, given, content=None):
        if given is Kind[kind]:
            digest = None if content is None else hashlib.sha256(np.ascontiguousarray(content)).hexdigest()
            print(f"SENT {kind} {digest}", file=sys.stderr, flush=True)
        return original(self, given, content)

    PartyRuntime.frame = telling


def damage_before(holder, step, folder, report):
    """Flip one bit of the words of a report just before a step."""
    original = getattr(HOLDERS[holder], step)

    def damaged(*arguments):
        damage(folder, bytes.fromhex(report))
        return original(*arguments)

    setattr(HOLDERS[holder], step, damaged)


def damage(folder, report, byte=3, *, forge=False):
    """Flip one bit of a byte of the words of a report in the store of a server's folder; forge all checksums, too."""
    with contextlib.closing(sqlite3.connect(folder / "spool" / "spool.sqlite")) as database, database:
        ((number, ids, words),) = [
            row
            for row in database.execute("SELECT ids.number, ids, words FROM ids JOIN words USING (number)")
            if report in row[1]
        ]
        changed = bytearray(words)
        changed[len(words) * ids.index(report) // len(ids) + byte] ^= 0x20
        database.execute("UPDATE words SET words = ? WHERE number = ?", (bytes(changed), number))
        if forge:
            block = np.frombuffer(changed, np.uint64).reshape(len(ids) // 16, -1)
            sums = checksums(np.frombuffer(ids, "S16"), block).tobytes()
            database.execute("UPDATE ids SET checksums = ? WHERE number = ?", (sums, number))
            held = b"".join(sums for (sums,) in database.execute("SELECT checksums FROM ids"))
            (row,) = database.execute("SELECT * FROM description").fetchall()
            described = StoreDescription._make(row[:-1])._replace(checksum=int(np.frombuffer(held, np.uint64).sum()))
            new = str(described.checksum), described.seal
            database.execute("UPDATE description SET checksum = ?, seal = ?", new)


def flip(path, offset):
    """Flip one bit of a file."""
    with Path(path).open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 0x20]))


def exchange_in_parts(size):
    """Send so many ids at a time; all servers have to."""
    agreement.IDS_IN_A_FRAME = size


def send_other_ids():
    """Announce some ids and send others."""
    original = agreement._exchange_ids

    async def other(party, ids, counts):
        wrong = ids.copy()
        wrong[-1, -1] ^= 1
        return await original(party, wrong, counts)

    agreement._exchange_ids = other


def find_another_batch():
    """Claim that the reports that all hold are others."""
    original = agreement.found_in
    agreement.found_in = lambda those, ids: original(those, ids) & (np.arange(len(ids)) > 0)


def state_other_sums():
    """As the first server, state what the others have not seen."""
    original = release_protocol.state

    def other(*arguments):
        fields = {name: getattr(original(*arguments), name) for name in release_protocol.Statement.__struct_fields__}
        return release_protocol.Statement(**{**fields, "sums": "00" * 32})

    release_protocol.state = other


def sign_something_else():
    """Send a signature of other bytes."""
    release_protocol.checked_signature = lambda server, statement, own: release_protocol.Statement(
        **{
            **{name: getattr(own, name) for name in release_protocol.Statement.__struct_fields__},
            "sums": "00" * 32,
        }
    ).sign(server.identity)


def deny_all():
    """Claim to know of no earlier release, in one's standing and in one's ledger."""
    releasing.ReleasingServer.standing = lambda self: releasing.Standing([], [], time.time(), 0.0)
    ReleaseLedger.require_unreleased = lambda self, ids: None
    ReleaseLedger.begun = lambda self, ids: np.zeros(len(ids), np.bool_)


def allow_few_files(count):
    """Run with a soft limit of so many open files, and never hang up on a caller because it takes long."""
    connecting.INTRODUCTION_SECONDS = PATIENCE * 10
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def states(trial, server):
    """The states of all releases that a server knows."""
    with ReleaseLedger(ServerFolder(trial.folder(server)).ledger) as ledger:
        return [entry.state for entry in ledger.releases()]


def assert_released(trial, servers=(0, 1, 2), indices=None, expected=None):
    """Everybody has the same file, it verifies, and its sums are exactly those of the uploads."""
    contents = {trial.out(server).read_bytes() for server in servers}
    assert len(contents) == 1
    verified = verify(trial.out(servers[0]), trial.collection)
    expected = trial.expected(verified.release, indices) if expected is None else expected
    np.testing.assert_array_equal(verified.release.sums, expected)
    return verified


def assert_refused(trial, ended, kind, *numbers):
    """Everybody ended with this error and these numbers in it; nobody wrote a release or began to open anything."""
    for server, one in ended.items():
        assert one.status in (2, 3), one.told
        assert kind in one.told
        assert all(str(number) in one.told for number in numbers), one.told
        assert not trial.out(server).exists()
        assert State.OPENING not in states(trial, server)
        assert State.OPENED not in states(trial, server)
