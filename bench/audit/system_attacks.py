"""Attacks on the whole system: what a claim is worth when servers and clients do their worst within its words.

- `MissingClients`: as many clients drop out as the guarantee allows, where that exposes somebody most.
- `surrounded`: a hostile server denies reports of a collection until the smallest batch that may be opened is left,
  which holds the victim and the attacker's own people.
- `RepeatedRelease`: hostile servers break a release off after they have seen an honest server's share, have it
  repeated, and demand the same reports again with another public matrix and without one client.

Every attack takes its claim from what the code promises at that time, through the functions that users call, and
computes from the noise that is then there what the claim is worth (`bench.audit.views`). A refusal with a typed error
is not a promise, so nothing of it can be refuted: `Unpromised` carries the reason.

Not promised: that these are all attacks, or that the sets of clients that are tried are the worst ones.
"""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bench.audit.lost import Lost, worst_lost
from bench.audit.mechanism import Claim, Subject
from bench.audit.sums import Sums, claim_of, distance_of
from bench.audit.views import exact_epsilon, signs_of
from dpmpc.base.arrays import Bytes, Reals, Words
from dpmpc.base.errors import DpmpcError, GuaranteeError, InputError
from dpmpc.base.randomness import SEED_BYTES, Stream
from dpmpc.collect.opening.agreement import Batch, batch_digest
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.certificate import manifest_of
from dpmpc.collect.terms.collection_design import CollectionTerms, design_collection
from dpmpc.collect.terms.server_entries import ServerEntry
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.report_ids import ID_BYTES, as_strings
from dpmpc.collect.upload.reports import ReportFormat, make_reports
from dpmpc.collect.upload.seal_folder import SealFolder, read_public
from dpmpc.data import Schema
from dpmpc.parties.network.identity import write_identity
from dpmpc.parties.network.meter import Meter
from dpmpc.privacy.specification import Budget, taken
from dpmpc.privacy.task import Task, VerifiedTask
from dpmpc.release.client import Client

SERVERS = 3
REPETITIONS = 3  # of a release that hostile servers break off
T = TypeVar("T")
DESIGNS = 5  # of a collection: of the smallest ones some in a hundred find no matrix that is good enough
_DAY = datetime.timedelta(days=1)


class Unpromised(Subject):
    """What the code refuses to promise."""

    def __init__(self, reason: str):
        self.claim = Claim()
        self.note = f"refused, so nothing is promised: {reason}"


class MissingClients(Subject):
    """A release from which as many clients are missing as its guarantee allows."""

    def __init__(self, tasks: Sequence[Task], pair: ArrayLike):
        found = [self._epsilon(task, pair) for task in tasks]
        worst = int(np.argmax([epsilon for epsilon, _ in found]))
        self._epsilon_found, gone = found[worst]
        self.claim = claim_of(tasks[worst])
        self.note = f"{gone} of {tasks[worst].clients} clients are missing"

    def least_epsilon(self) -> float:
        """Return what the noise of those who are there gives."""
        return self._epsilon_found

    @staticmethod
    def _epsilon(task: Task, pair: ArrayLike) -> tuple[float, int]:
        lost = worst_lost(task)
        epsilon = exact_epsilon(task, lost.honest(task.clients), distance_of(task, pair))
        if epsilon is None:
            raise InputError("noise", task.noise.name, "a Gaussian one")
        return epsilon, len(lost.missing)


def designed_again(build: Callable[[], T]) -> T:
    """Build what needs a collection anew while its noise does not suffice for the matrix, `DESIGNS` times at most."""
    for _ in range(DESIGNS - 1):
        with contextlib.suppress(GuaranteeError):
            return build()
    return build()


def surrounded(schema: Schema, pair: ArrayLike, *, minimum_batch: int, people: int | None, **options: Any) -> Subject:
    """Return the release of the smallest batch that hostile servers can leave of a collection."""

    def smallest() -> VerifiedTask:
        with tempfile.TemporaryDirectory() as folder:
            collection = trial_collection(Path(folder), schema, minimum_batch=minimum_batch, **options)
            return collection.task(minimum_batch, Stream.from_os().bytes(SEED_BYTES))

    try:
        task = designed_again(smallest)
    except InputError as error:
        return Unpromised(str(error))
    if people is None:
        return Sums(task, pair)
    others = np.arange(1, task.clients)
    return Sums(task, pair, Lost(corrupt=others[:people], missing=others[:0]))


class RepeatedRelease(Subject):
    """An honest server whose release is broken off, repeated and demanded anew by all others."""

    def __init__(self, schema: Schema, pair: ArrayLike, *, clients: int, **options: Any):
        with tempfile.TemporaryDirectory() as folder:
            server = HonestServer(Path(folder), schema, pair, clients, **options)
            toss = Stream.from_os().bytes(SEED_BYTES)
            first, shares = server.answer(server.ids, toss), {}
            shares[first.tobytes()] = server.opening(server.ids, toss)
            for _ in range(REPETITIONS):
                shares[server.answer(server.ids, toss).tobytes()] = server.opening(server.ids, toss)
            refused = 0
            for ids, other in ((server.ids, Stream.from_os().bytes(SEED_BYTES)), (server.ids[1:], toss)):
                try:
                    shares[server.answer(ids, other).tobytes()] = server.opening(ids, other)
                except DpmpcError:
                    refused += 1
        self._task = server.collection.task(clients, toss)
        self._openings = list(shares.values())
        self._distance = distance_of(self._task, pair)
        self.claim = claim_of(self._task)
        seen = f"{len(shares)} share{'s' if len(shares) > 1 else ''} seen in {1 + REPETITIONS} runs of one release"
        self.note = f"{seen}; of 2 other releases of the same reports {refused} refused"

    def least_epsilon(self) -> float | None:
        """Return what all different shares that were seen give away together."""
        return exact_epsilon(self._task, np.arange(self._task.clients), self._distance, self._openings)


class HonestServer:
    """The first server of a collection that has closed, with its spool and its ledger, alone among hostile ones."""

    def __init__(self, folder: Path, schema: Schema, pair: ArrayLike, clients: int, **options: Any):
        self.collection = trial_collection(folder, schema, minimum_batch=clients - 1, **options)
        self.folder = ServerFolder(folder / "server-0")
        stream = Stream.from_os()
        names = sorted(stream.bytes(ID_BYTES) for _ in range(clients))
        rows = np.tile(np.asarray(pair, np.float64)[0], (clients, 1))
        records = make_reports(Client(self.collection.plan.verify(), stream), self.collection, rows, names)
        with self.folder.open_spool(self.collection, 0, writer=True) as spool:
            spool.add(*ReportFormat(self.collection, 0).decode(b"".join(records[0])))
        self.ids: Bytes = np.frombuffer(b"".join(names), np.uint8).reshape(-1, ID_BYTES)

    def answer(self, ids: Bytes, toss: bytes) -> Words:
        """Run this server's part of the release, after a restart; return the share that it sends."""
        collection = self.collection
        task = collection.task(len(ids), toss)
        manifest = manifest_of(collection, task, batch=batch_digest(ids), toss=toss, time=collection.closes + _DAY / 2)
        with self.folder.open_spool(collection, 0, writer=False) as spool, self.folder.open_ledger() as ledger:
            server = ReleasingServer(
                collection=collection,
                number=0,
                spool=spool,
                ledger=ledger,
                identity=self.folder.identity,
                out=self.folder.path / "release.dpmpc",
                public=self.folder.released(collection),
                close=False,
                threads=1,
                tell=lambda line: None,
            )
            server.require_ready()
            if manifest.digest.hex() not in server.standing().begun:
                server.require_batch(Batch(ids, dict.fromkeys(range(SERVERS), 0)))
                server.seal(manifest, ids)
            return server.bound_share(manifest, server.transformed_share(manifest, task, Meter(0, dict)))

    def opening(self, ids: Bytes, toss: bytes) -> Reals:
        """Return the public matrix of such a release, with zeros for clients who are not in it, (k, clients)."""
        task = self.collection.task(len(ids), toss)
        signs = np.zeros((task.sketch.rows, len(self.ids)))
        signs[:, np.isin(as_strings(self.ids), as_strings(ids))] = signs_of(task)
        return signs


def trial_collection(folder: Path, schema: Schema, *, minimum_batch: int, **options: Any) -> Collection:
    """Make identities of servers in a folder, and a collection with a roster that closed yesterday."""
    entries = []
    for server in range(SERVERS):
        own = folder / f"server-{server}"
        own.mkdir(mode=0o700)
        certificate = write_identity(own / "identity", server, 2 * _DAY).decode()
        SealFolder(own / "seals").draw("trial")
        keys = (read_public(own / "seals" / "trial.pub"),)
        name = f"server-{server}.example"
        entries.append(ServerEntry(f"https://{name}", f"{name}:7443", f"{name}:7444", certificate, keys))
    now = datetime.datetime.now(datetime.UTC)
    terms = CollectionTerms(
        name="a trial",
        servers=tuple(entries),
        opens=now - 2 * _DAY,
        closes=now - _DAY,
        expires=now + _DAY,
        minimum_batch=minimum_batch,
        largest_batch=8 * minimum_batch,
        authenticated=True,
    )
    return design_collection(terms, schema, taken(Budget, options), **options)
