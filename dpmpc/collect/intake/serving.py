"""Run one server of a collection as a process: sockets, TLS, signals.

It listens at up to four places (`service` has what each answers): for clients at its *web endpoint*, where it shows its
own certificate; for a *reverse proxy*, in plain HTTP on the loopback interface or at the path of a UNIX socket; for the
other servers at its *pinned port*; and for its operator at a *monitor*. A public collection needs the proxy, which
keeps strangers in bounds who send slowly, send nothing or come in thousands, and shows an ordinary web certificate
(docs/deploy/).

Promised: TLS 1.3 with the certificate that the collection pins, at the pinned port for the other servers alone; bodies,
requests at once and the time of each are bounded (`dpmpc.collect.intake.admission`); SIGTERM and SIGINT stop the server
within `connections.SHUTDOWN_SECONDS` and what the disk takes, and what was acknowledged stays. A server that is killed
loses nothing that it has acknowledged either.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import signal
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from socket import socket
from typing import Any

from dpmpc.base.arguments import require_whole
from dpmpc.base.errors import InputError, SpoolError
from dpmpc.collect.intake.admission import Limits
from dpmpc.collect.intake.connections import Address, ProxyPlace, close_for_proxy, listen, open_for_proxy, serve_http
from dpmpc.collect.intake.doors import Door, Outbox
from dpmpc.collect.intake.logs import RateLimitedLogger
from dpmpc.collect.intake.metrics import share_figures
from dpmpc.collect.intake.service import LOGGER, Service
from dpmpc.collect.intake.workers import MOST_WORKERS, supervise
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.query_points import PointKeeper
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.store.state import CLOCK_SECONDS, StateReader
from dpmpc.collect.terms.endpoints import LOOPBACK
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.roster import Roster
from dpmpc.collect.upload.sealing import Opener
from dpmpc.parties.network.identity import serving_context


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerPlaces:
    """Where a server listens.

    Parameters
    ----------
    peers : tuple of str and int
        Host and port for the other servers; port 0 is any that is free.
    web : tuple of str and int, optional
        Host and port for clients, who see the server's own certificate.
    proxy : tuple of str and int, or path, optional
        Where a reverse proxy reaches it: host and port on the loopback interface, or a UNIX socket.
    monitor : tuple of str and int, optional
        Host and port for the operator: plain HTTP, with exact counts.
    """

    peers: Address
    web: Address | None = None
    proxy: ProxyPlace | None = None
    monitor: Address | None = None

    def __post_init__(self) -> None:
        if not (self.proxy is None or isinstance(self.proxy, Path) or self.proxy[0] in LOOPBACK):
            expected = f"one of {', '.join(LOOPBACK)} or unix:PATH expected: a proxy before it ends TLS"
            raise InputError("proxy", f"{self.proxy[0]} given, {expected}")

    async def open(self) -> _Listeners:
        """Open the sockets."""
        opened = _Listeners(self)
        try:
            opened.peers = await listen(*self.peers)
            opened.web = [] if self.web is None else await listen(*self.web)
            opened.monitor = [] if self.monitor is None else await listen(*self.monitor)
            opened.proxy = [] if self.proxy is None else [open_for_proxy(self.proxy)]
        except BaseException:
            opened.close()
            raise
        return opened


@dataclasses.dataclass
class _Listeners:
    """Open sockets, which the processes of a server share."""

    places: ServerPlaces
    peers: list[socket] = dataclasses.field(default_factory=list)
    web: list[socket] = dataclasses.field(default_factory=list)
    proxy: list[socket] = dataclasses.field(default_factory=list)
    monitor: list[socket] = dataclasses.field(default_factory=list)

    @property
    def all(self) -> list[socket]:
        """All of them."""
        return [*self.peers, *self.web, *self.proxy, *self.monitor]

    @property
    def port(self) -> int:
        """The pinned port."""
        port: int = self.peers[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Close this process's own."""
        for listener in self.all:
            listener.close()

    def end(self) -> None:
        """Close them for good."""
        self.close()
        if self.proxy and self.places.proxy is not None:
            close_for_proxy(self.places.proxy, self.proxy[0])


def serve(
    collection: Collection,
    server: int,
    folder: ServerFolder,
    places: ServerPlaces,
    *,
    limits: Limits | None = None,
    store: str | None = None,
    workers: int = 1,
    on_listening: Callable[[int], None] = lambda port: None,
) -> None:
    """Take reports until a signal stops it.

    Parameters
    ----------
    collection : Collection
        The public facts; verified here.
    server : int
        The number of the server.
    folder : ServerFolder
        Of this server.
    places : ServerPlaces
        Where to listen.
    limits : Limits, optional
        How much is taken.
    store : str, optional
        Address of the PostgreSQL database that takes the reports; the folder remembers it.
    workers : int
        How many processes take requests; several need such a database.
    on_listening : callable, optional
        Called with the pinned port.

    Raises
    ------
    InputError
        If the folder is not this server's, the address cannot be used or the collection does not hold what it states.
    SpoolError
        If the spool cannot be used.
    """
    folder.require_server(collection.verify(), server)
    if require_whole("workers", workers, 1, MOST_WORKERS) > 1 and store is None and folder.store is None:
        raise InputError("workers", workers, "1", "no store is given that several can write to")
    others = [entry.certificate.encode() for number, entry in enumerate(collection.servers) if number != server]
    pinned, shown = serving_context(folder.identity, others), serving_context(folder.identity)
    roster = Roster(folder.roster, collection, server) if collection.authenticated else None
    if store is not None:
        folder.use_store(store)

    async def run(
        spool: ReportStore, ledger: ReleaseLedger, listeners: _Listeners | None, tell: Callable[[int], None]
    ) -> None:
        limited = (limits or Limits()).for_one_of(workers)
        async with at_work(collection, server, folder, spool, ledger, roster, limited) as (service, tasks):
            opened = listeners or await places.open()
            try:
                async with _serving(service, opened, pinned, shown):
                    await _until_stopped(tasks, opened, tell)
            finally:
                opened.close() if listeners else opened.end()

    def work(worker: int, listeners: _Listeners | None, tell: Callable[[int], None]) -> None:
        with (
            folder.open_spool(collection, server, writer=True, workers=workers) as spool,
            folder.open_ledger() as ledger,
        ):
            of_several = f", worker {worker} of {workers}" if workers > 1 else ""
            count = len(spool)
            told = "server %d of collection %s%s, %d reports stored"
            LOGGER.info(told, server, collection.digest.hex(), of_several, count)
            asyncio.run(run(spool, ledger, listeners, tell))

    if workers == 1:
        work(0, None, on_listening)
        return
    with folder.open_spool(collection, server, writer=True, workers=workers):
        pass  # what is wrong with the database is an error of this process, before any worker is there
    listening = asyncio.run(places.open())
    try:
        with tempfile.TemporaryDirectory(prefix="dpmpc-figures-") as figures:

            def work_with_others(worker: int) -> None:
                share_figures(Path(figures), worker)
                work(worker, listening, lambda port: None)

            supervise(work_with_others, workers, lambda: on_listening(listening.port))
    finally:
        listening.end()


@contextlib.asynccontextmanager
async def at_work(
    collection: Collection,
    server: int,
    folder: ServerFolder,
    spool: ReportStore,
    ledger: ReleaseLedger,
    roster: Roster | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[tuple[Service, list[asyncio.Task[None]]]]:
    """Have what answers the requests of a server at work, and yield it with the tasks that have to go on meanwhile.

    They hand on what comes, log changes, and clear up what a killed release has left. Parameters are those of
    `Service`.
    """
    if collection.proved:  # one store that was put back learns from the other
        PointKeeper(collection.digest, spool, ledger).heal()
    with keys_and_door(collection, server, folder, spool) as (opener, door):
        service = Service(
            collection,
            server,
            spool,
            roster=roster,
            limits=limits,
            opener=opener,
            door=door,
            ledger=ledger,
            released=folder.released(collection),
        )
        work = (service.tell_times(), door.run(), _clear_up(service, folder, spool))
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield service, tasks
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            await service.close()
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def _clear_up(service: Service, folder: ServerFolder, spool: ReportStore) -> None:
    """Clear up what a release that was killed has left, until cancelled.

    Its announcement is taken back, and a release whose file it had written is recorded.
    """
    while True:
        try:
            if await asyncio.to_thread(folder.take_back_left_announcement, spool):
                LOGGER.warning("a release ended without a batch, and left its announcement: reports can be withdrawn")
            unrecorded = service.state.state != "released" and folder.released(service.collection).exists()
            if unrecorded and await asyncio.to_thread(folder.finish_left_release, service.collection):
                LOGGER.warning("a release ended before it recorded that its file is written; it is recorded now")
        except (SpoolError, OSError) as error:  # tried again a second later
            LOGGER.log(logging.ERROR, "release: %s", error)
        await asyncio.sleep(CLOCK_SECONDS)


@contextlib.contextmanager
def keys_and_door(
    collection: Collection, server: int, folder: ServerFolder, spool: ReportStore
) -> Iterator[tuple[Opener | None, Door]]:
    """Open what a `Service` needs: private keys, which are deleted where the time is over, and a door."""
    opener = None
    if StateReader(collection, spool).state.over:
        for path in folder.seals.delete(collection, server):
            LOGGER.info("%s: deleted, as no more reports are opened with it", path)
    else:
        folder.seals.bind(collection, server)
        opener = Opener(collection, server, folder.seals)
    with Outbox(folder.spool) as outbox:
        yield opener, Door(collection, server, folder.identity, outbox, RateLimitedLogger(LOGGER))


@contextlib.asynccontextmanager
async def _serving(
    service: Service, listeners: _Listeners, pinned: ssl.SSLContext, shown: ssl.SSLContext
) -> AsyncIterator[None]:
    """Answer requests at all places, with TLS for peers (`pinned`) and for clients without a proxy (`shown`)."""
    runners: list[Any] = []
    try:
        for application, opened, context in (
            (service.peers(), listeners.peers, pinned),
            (service.clients(behind_proxy=False), listeners.web, shown),
            (service.clients(behind_proxy=True), listeners.proxy, None),
            (service.monitor(), listeners.monitor, None),
        ):
            if opened:
                runners.append(await serve_http(application, service.limits, opened, context))
        yield
    finally:
        for runner in reversed(runners):  # each closes its sockets first
            await runner.cleanup()


async def _until_stopped(
    tasks: list[asyncio.Task[None]], listeners: _Listeners, on_listening: Callable[[int], None]
) -> None:
    """Wait until a signal arrives, or one of the tasks ends, which none does but by an error."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    for listener in listeners.all:
        LOGGER.info("listening on %s", _place_of(listener))
    on_listening(listeners.port)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
    LOGGER.info("stopping")


def _place_of(listener: socket) -> str:
    name = listener.getsockname()
    return name if isinstance(name, str) else "{}:{}".format(*name)
