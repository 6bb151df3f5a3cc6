"""One server's process in the release of a collection: folder, links, limits on waiting, and then the conversation.

Each server is started by its operator, on its own folder, and meets the others at the addresses of the task file.
What they send to one another is `dpmpc.collect.opening.release_protocol`.

Promised: one process at a time answers for a server, with the certificate that the collection pins; every wait ends. A
run that fails may be repeated with the same arguments.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict, Unpack

from dpmpc.base.arguments import require_whole
from dpmpc.base.errors import CollectionClosed, DpmpcError, InputError, SpoolError
from dpmpc.base.system import keep_freed_memory
from dpmpc.collect.opening import release_protocol
from dpmpc.collect.opening.pieces import Spread
from dpmpc.collect.opening.releasing import Released, ReleasingServer
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.query_points import PointKeeper
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.store.stored_reports import StoreLocation
from dpmpc.collect.terms.certificate import require_quorum
from dpmpc.collect.terms.task_file import Collection
from dpmpc.parties.network.identity import pin
from dpmpc.parties.network.naming import parties_are_servers
from dpmpc.parties.network.party import Party
from dpmpc.parties.network.programs import Agreement
from dpmpc.parties.network.runtime import PartyRuntime
from dpmpc.parties.network.settings import FRAME_HEADER, FRAME_LIMIT, PartySettings

CONNECT_SECONDS = 300.0
PATIENCE_SECONDS = 60.0
_SLOWEST = 20e6  # bytes of its share that a server handles in a second at least: read, checked and transformed
_LEDGER_RECORDS = 20e3  # report ids that a server looks up and records in a second at least


class ReleaseOptions(TypedDict, total=False):
    """What may be chosen of the run of a release, by keywords.

    Parameters
    ----------
    close : bool
        Whether a collection that is open is closed for good; False by default.
    without : tuple of int
        Servers that do not take part; none by default.
    listen : tuple of str and int, optional
        Host and port where this server waits for the others, instead of those that the collection names.
    connect_deadline : float
        Seconds that this server waits for the others, `CONNECT_SECONDS` by default.
    deadline : float, optional
        Seconds that a server may keep others waiting; by default what the longest step may take.
    threads : int
        Threads of the kernel, 1 by default.
    cluster : str, optional
        Address of the scheduler of a Dask cluster, whose workers compute; by default this process does.
    tell : callable, optional
        Called with each line of what happens.
    """

    close: bool
    without: tuple[int, ...]
    listen: tuple[str, int] | None
    connect_deadline: float
    deadline: float | None
    threads: int
    cluster: str | None
    tell: Callable[[str], None]


@parties_are_servers()
def run_release(
    collection: Collection,
    number: int,
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    **options: Unpack[ReleaseOptions],
) -> Released:
    """Take part in the release of a collection as one of its servers; call it once in a process."""
    own = ServerFolder(Path(folder))
    with releasing(collection, number, own, Path(out), **options) as (server, settings):
        party = Party(PartyRuntime(settings, own.identity), own.identity, sys.stderr)
        keep_freed_memory()
        party.runtime.loop.set_default_executor(ThreadPoolExecutor(1))  # steps follow one another
        return party.runtime.run_program(release_protocol.take_part(party, server))


@contextlib.contextmanager
def releasing(
    collection: Collection,
    number: int,
    own: ServerFolder,
    out: Path,
    *,
    close: bool = False,
    without: tuple[int, ...] = (),
    listen: tuple[str, int] | None = None,
    connect_deadline: float = CONNECT_SECONDS,
    deadline: float | None = None,
    threads: int = 1,
    cluster: str | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[tuple[ReleasingServer, PartySettings]]:
    """Hold what a server needs to take part in a release; how the body ends is recorded.

    The options are those of `ReleaseOptions`.

    Yields
    ------
    server : ReleasingServer
        What it does by itself.
    settings : PartySettings
        Whom it meets.
    """
    own.require_server(collection, number)
    require_quorum(collection, without)
    require_whole("threads", threads, 1)
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise InputError("out", out, "a file in a directory that exists")
    agreement = Agreement(
        release_protocol.__name__,
        len(collection.servers),
        analyst=False,
        task=collection.digest,
        deadline=deadline if deadline is not None else _allowance(collection),
        connect_deadline=connect_deadline,
    )
    settings = agreement.settings(
        number,
        [
            listen if listen is not None and server == number else entry.release_address
            for server, entry in enumerate(collection.servers)
        ],
        frame_limit=max(FRAME_LIMIT, 8 * collection.plan.sketch.rows * collection.plan.width + FRAME_HEADER),
        without=tuple(sorted(without)),
    )
    pin(own.identity, [entry.certificate.encode() for entry in collection.servers])
    with own.releasing(number), _opened(collection, number, own) as (spool, ledger):
        with contextlib.suppress(SpoolError):  # of what is damaged the others are told when they are there
            if own.finish_written_release(collection, ledger):
                tell("the release was written by a run that ended before it could record that; it is recorded now")
        public = own.released(collection)
        with _spread(cluster, own.location(collection, number), settings.deadline) as spread:
            server = ReleasingServer(
                collection, number, spool, ledger, own.identity, out, public, close, threads, tell, spread=spread
            )
            with _ending_noted(server, own):
                _begin(server, settings)
                yield server, settings


@contextlib.contextmanager
def _spread(address: str | None, store: StoreLocation, patience: float) -> Iterator[Spread | None]:
    """Connect to the cluster of an address, if there is one."""
    if address is None:
        yield None
        return
    from dpmpc.parties.cluster import DaskCluster  # needs an extra of the package

    with DaskCluster(address, patience) as workers:
        yield Spread(workers, store)


def _begin(server: ReleasingServer, settings: PartySettings) -> None:
    """Print who is waited for and how long; close early if that was requested, and print what all will receive."""
    others = [
        f"server {number} at {host}:{port}"
        for number, (host, port) in enumerate(settings.addresses)
        if number not in (server.number, *settings.without)
    ]
    server.tell(f"server {server.number} waits up to {settings.connect_deadline:g} s for {', '.join(others)}")
    try:
        server.close_early()  # before anybody is connected to, who may not be there
        server.spool.note_run()
    except (CollectionClosed, SpoolError) as error:
        server.tell(f"it is going to refuse, and informs the others when they are there: {error}")


@contextlib.contextmanager
def _ending_noted(server: ReleasingServer, folder: ServerFolder) -> Iterator[None]:
    """Record how a run ends that has closed the store for good, and delete the keys that reports were sealed to."""

    def note(failed: str) -> None:
        if server.spool.closed:
            server.spool.note_run(failed)

    def delete_keys() -> None:
        if server.spool.closed:  # what was recorded on the way stays closed even if this machine is taken later
            for path in folder.seals.delete(server.collection, server.number):
                server.tell(f"{path}: deleted, as no more reports are opened with it")

    def record_written() -> None:
        if folder.finish_written_release(server.collection, server.ledger):
            server.tell("the release is written, and signed by all servers that took part; it is recorded")

    try:
        yield
    except BaseException as error:
        failed = "SIGTERM" if isinstance(error, SystemExit) else type(error).__name__
        for step in (server.spool.take_back_announcement, record_written, lambda: note(failed), delete_keys):
            try:
                step()
            except (DpmpcError, OSError) as second:  # the run's own error is what its operator has to know first
                server.tell(f"{type(second).__name__}: {second}")
        raise
    delete_keys()


@contextlib.contextmanager
def _opened(collection: Collection, number: int, folder: ServerFolder) -> Iterator[tuple[ReportStore, ReleaseLedger]]:
    with folder.open_spool(collection, number, writer=False) as spool, folder.open_ledger() as ledger:
        if collection.proved:  # before the others are there: one store may have been put back
            with contextlib.suppress(SpoolError):  # of what is damaged the others are told when they are there
                PointKeeper(collection.digest, spool, ledger).heal()
        yield spool, ledger


def _allowance(collection: Collection) -> float:
    """Return the seconds that the longest step of a server may take."""
    copies, width = collection.record_shape
    share = 8 * copies * width * collection.largest_batch
    return PATIENCE_SECONDS + share / _SLOWEST + collection.most_stored / _LEDGER_RECORDS
