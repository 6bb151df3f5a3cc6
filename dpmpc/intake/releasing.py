"""One server of a release: what it looks up, refuses, computes and keeps by itself, and how it is started.

The conversation with the other servers is `dpmpc.protocols.collected_release`, which calls the steps of this module.
Paths, times and keys stay here: nothing of them is sent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import AlreadyReleased, CollectionClosed, InputError, TooFewClients
from dpmpc.intake.agreement import Batch
from dpmpc.intake.certificate import Certificate, Manifest, require_quorum
from dpmpc.intake.collection import Collection
from dpmpc.intake.ledger import Ledger, State
from dpmpc.intake.server_folder import ServerFolder
from dpmpc.intake.spool import Spool
from dpmpc.network.identity import pin
from dpmpc.network.meter import Meter, Report
from dpmpc.network.party import Party
from dpmpc.network.runtime import PartyRuntime
from dpmpc.network.settings import FRAME_HEADER, FRAME_LIMIT, PartySettings
from dpmpc.rings import Words
from dpmpc.server import transform
from dpmpc.task import Task

PROGRAM = "dpmpc.protocols.collected_release"
CONNECT_SECONDS = 300.0
PATIENCE_SECONDS = 60.0
_SLOWEST = 20e6  # bytes of its share that a server handles in a second at least: read, checked and transformed
_LEDGER_RECORDS = 20e3  # report ids that a server looks up and records in a second at least


class Standing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a server has come with this collection, as it tells the others.

    Parameters
    ----------
    begun : list of str
        Digests of the manifests that it has begun to open, or opened.
    sealed : list of str
        Of those that were only agreed on.
    time : float
        Its clock, in seconds since 1970, UTC.
    """

    begun: list[str]
    sealed: list[str]
    time: float


@dataclasses.dataclass(frozen=True)
class ReleasingServer:
    """What one server of a release has and decides by itself.

    Parameters
    ----------
    collection : Collection
        What everybody agreed on.
    number : int
        This server's.
    spool : Spool
        Its shares.
    ledger : Ledger
        What it has opened.
    identity : Path
        The folder of its key.
    out : Path
        The release file to write.
    close : bool
        Whether to close the intake before its time.
    threads : int
        Of the transform.
    tell : callable
        Takes what there is to say to whoever watches, a line each.
    """

    collection: Collection
    number: int
    spool: Spool
    ledger: Ledger
    identity: Path
    out: Path
    close: bool
    threads: int
    tell: Callable[[str], None]

    def require_due(self) -> None:
        """Refuse: too early, or too late for any release."""
        now = datetime.datetime.now(datetime.UTC)
        self.collection.require_unexpired(now)
        if now < self.collection.closes and not (self.close or self.spool.closed):
            raise CollectionClosed(
                f"collection {self.collection.name!r}: takes reports until {self.collection.closes.isoformat()}; it is "
                f"{now.isoformat(timespec='seconds')}; --close closes it at this server for good"
            )

    def require_ready(self) -> None:
        """Close the intake for good, or refuse as `require_due` does."""
        self.require_due()
        self.spool.close_for_good()

    def standing(self) -> Standing:
        """Look up how far this server has come."""
        begun: list[str] = []
        sealed: list[str] = []
        for entry in self.ledger.releases():
            if Manifest.from_json(entry.manifest).collection == self.collection.digest.hex():
                (sealed if entry.state is State.SEALED else begun).append(entry.manifest_digest.hex())
        return Standing(begun, sealed, datetime.datetime.now(datetime.UTC).timestamp())

    def sealed_manifest(self, digest: bytes) -> Manifest:
        """Return a manifest that the ledger holds."""
        entry = self.ledger.find(digest)
        if entry is None:
            raise AlreadyReleased(f"manifest: {digest.hex()} is not among those that this server has sealed")
        return Manifest.from_json(entry.manifest)

    def require_batch(self, batch: Batch) -> None:
        """Refuse a batch that is too small, or holds a report that was opened before."""
        try:
            self.collection.require_size(min(len(batch.ids), self.collection.largest_batch))
        except TooFewClients as error:
            lacked = ", ".join(f"server {server} lacks {number}" for server, number in batch.lacked.items())
            raise TooFewClients(f"{error}; of the reports that any server holds {lacked}") from error
        self.ledger.require_unreleased(batch.ids)

    def seal(self, manifest: Manifest, ids: NDArray[np.uint8]) -> None:
        """Record what was agreed on; see `Ledger.seal`."""
        self.ledger.seal(manifest.digest, manifest.to_json(), ids)

    def prepared_share(self, manifest: Manifest, task: Task, meter: Meter) -> Words:
        """Return this server's share of the noisy sums, the same ones whenever it is asked; `meter` measures how.

        What is returned may be sent: its reports are bound to this manifest, durably. Until then a server may die and
        draw other noise the next time; nobody has seen the first.
        """
        entry = self.ledger.find(manifest.digest)
        if entry is None:
            raise AlreadyReleased(f"manifest: {manifest.digest.hex()} was replaced by one that another run has sealed")
        if entry.sums is not None:
            return entry.sums
        share = self.spool.share(self.ledger.batch(manifest.digest))
        sums = transform(task, share, threads=self.threads, phase=meter.phase)
        return self.ledger.begin_opening(manifest.digest, sums)

    def finish(self, manifest: Manifest) -> None:
        """Record that the release file is written."""
        self.ledger.finish(manifest.digest)


@dataclasses.dataclass(frozen=True)
class Released:
    """What came of a release.

    Attributes
    ----------
    certificate : Certificate
        What all servers have signed; it is in the release file.
    costs : tuple of Report
        What the run has cost each server until the file was written, as it says itself; nobody has signed that.
    """

    certificate: Certificate
    costs: tuple[Report, ...]


def run_release(
    collection: Collection,
    number: int,
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    close: bool = False,
    without: tuple[int, ...] = (),
    listen: tuple[str, int] | None = None,
    connect_deadline: float = CONNECT_SECONDS,
    deadline: float | None = None,
    threads: int = 1,
    tell: Callable[[str], None] = lambda line: None,
) -> Released:
    """Take part in the release of a collection as one of its servers; call it once in a process.

    Parameters
    ----------
    collection : Collection
        The task file.
    number : int
        This server's number.
    folder : path
        Its folder, see `ServerFolder`.
    out : path
        The release file to write; one that is there is replaced.
    close : bool
        Whether to close the intake of this server for good before its time.
    without : tuple of int
        Servers that all others have agreed to go on without.
    listen : (host, port), optional
        Where to listen, if not at the address where the others find this server.
    connect_deadline : float
        Seconds until all servers have to be there.
    deadline : float, optional
        Seconds that another server may keep this one waiting; by default what the largest batch may take.
    threads : int
        Of the transform.
    tell : callable, optional
        Takes lines of progress.

    Returns
    -------
    Released

    Raises
    ------
    TooFewClients, AlreadyReleased, CollectionClosed, GuaranteeError
        If this server or another one refuses; nothing was opened.
    ProtocolFailure
        If the run breaks. It may be repeated with the same arguments.
    """
    from dpmpc.protocols import collected_release

    own, target = ServerFolder(Path(folder)), Path(out)
    own.require_server(collection, number)
    require_quorum(collection, without)
    if threads < 1:
        raise InputError(f"threads: {threads} given, a positive integer expected")
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InputError(f"out: {target} given, a file in a directory that exists expected")
    settings = PartySettings(
        party=number,
        servers=len(collection.servers),
        addresses=[
            listen if listen is not None and server == number else entry.release_address
            for server, entry in enumerate(collection.servers)
        ],
        program=PROGRAM,
        arguments={},
        task=collection.digest.hex(),
        deadline=deadline if deadline is not None else _allowance(collection),
        connect_deadline=connect_deadline,
        frame_limit=max(FRAME_LIMIT, 8 * collection.plan.sketch.rows * collection.plan.width + FRAME_HEADER),
        without=tuple(sorted(without)),
    )
    pin(own.identity, [entry.certificate.encode() for entry in collection.servers])
    with _opened(collection, number, own) as (spool, ledger):
        server = ReleasingServer(collection, number, spool, ledger, own.identity, target, close, threads, tell)
        _tell_beginning(server, settings)
        party = Party(PartyRuntime(settings, own.identity), own.identity, sys.stderr)
        released: Released = party.runtime.run_program(collected_release.take_part(party, server))
        return released


def _tell_beginning(server: ReleasingServer, settings: PartySettings) -> None:
    """Say who is waited for and how long, and at once what all are going to be told when they are there."""
    others = [
        f"server {number} at {host}:{port}"
        for number, (host, port) in enumerate(settings.addresses)
        if number not in (server.number, *settings.without)
    ]
    server.tell(f"server {server.number} waits up to {settings.connect_deadline:g} s for {', '.join(others)}")
    try:
        server.require_due()
    except CollectionClosed as error:
        server.tell(f"it is going to refuse, and tells the others when they are there: {error}")


@contextlib.contextmanager
def _opened(collection: Collection, number: int, folder: ServerFolder) -> Iterator[tuple[Spool, Ledger]]:
    with folder.open_spool(collection, number, writer=False) as spool, Ledger(folder.ledger) as ledger:
        yield spool, ledger


def _allowance(collection: Collection) -> float:
    """Seconds that the longest step of a server may take."""
    copies, width = collection.record_shape
    share = 8 * copies * width * collection.largest_batch
    return PATIENCE_SECONDS + share / _SLOWEST + collection.most_stored / _LEDGER_RECORDS
