"""Run one server of a collection as a process: sockets, TLS, signals.

Beside the port that the collection names, a server may have a *door*: plain HTTP on the
loopback interface or at the path of a UNIX socket, for a reverse proxy. The proxy ends TLS with an ordinary web
certificate, and keeps strangers in bounds who send slowly, say nothing or come in thousands (docs/deploy/).

Promised: TLS 1.3 with the certificate that the collection pins, and nothing else on the port; connections and
handshakes are bounded in number and time (`dpmpc.collection.connections`), at the door bodies, requests at once and the
time of each (`dpmpc.collection.admission`); SIGTERM and SIGINT stop the server within
`connections.SHUTDOWN_SECONDS` and what the disk takes, and what was acknowledged stays. A server that is killed
loses nothing that it has acknowledged either.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import socket
from typing import NamedTuple

from aiohttp.web import SockSite

from dpmpc.arguments import require_whole
from dpmpc.collection.admission import Limits
from dpmpc.collection.connections import (
    BACKLOG,
    DoorPlace,
    IdleTimeout,
    LimitedListener,
    close_door,
    connections_allowed,
    listen,
    open_door,
    start_http,
)
from dpmpc.collection.doors import Door, Outbox
from dpmpc.collection.ledger import ReleaseLedger
from dpmpc.collection.logs import RateLimitedLogger
from dpmpc.collection.query_points import PointKeeper
from dpmpc.collection.report_store import ReportStore
from dpmpc.collection.roster import Roster
from dpmpc.collection.sealing import Opener
from dpmpc.collection.server_folder import ServerFolder
from dpmpc.collection.service import LOGGER, Service
from dpmpc.collection.state import CLOCK_SECONDS, StateReader
from dpmpc.collection.task_file import Collection
from dpmpc.collection.workers import MOST_WORKERS, supervise
from dpmpc.errors import InputError, SpoolError
from dpmpc.network.identity import public_context
from dpmpc.network.sockets import TrackedSocket

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _Listeners(NamedTuple):
    """Open sockets, which the processes of a server share."""

    pinned: list[TrackedSocket]
    door: socket | None  # where it has one
    door_place: DoorPlace | None

    def close(self) -> None:
        """Close this process's own."""
        for listener in (*self.pinned, *([] if self.door is None else [self.door])):
            listener.close()

    def end(self) -> None:
        """Close them for good."""
        self.close()
        if self.door is not None and self.door_place is not None:
            close_door(self.door_place, self.door)


def serve(
    collection: Collection,
    server: int,
    folder: ServerFolder,
    host: str,
    port: int,
    *,
    limits: Limits | None = None,
    metrics_for_all: bool = False,
    web: DoorPlace | None = None,
    store: str | None = None,
    workers: int = 1,
    on_listening: Callable[[int], None] = lambda port: None,
) -> None:
    """Take reports until a signal says to stop.

    Parameters
    ----------
    collection : Collection
        The public facts; verified here.
    server : int
        The number of the server.
    folder : ServerFolder
        Of this server.
    host, port : str, int
        Where to listen; port 0 is any that is free.
    limits : Limits, optional
        How much is taken.
    metrics_for_all : bool
        See `Service`.
    web : tuple of str and int, or path, optional
        Where a proxy reaches the door: host and port on the loopback interface, or a UNIX socket.
    store : str, optional
        Address of the PostgreSQL database that takes the reports; the folder remembers it.
    workers : int
        How many processes take requests; several need such a database.
    on_listening : callable, optional
        Called with the port.

    Raises
    ------
    InputError
        If the folder is not this server's, the address cannot be used or the collection does not hold what it says.
    SpoolError
        If the spool cannot be used.
    """
    folder.require_server(collection.verify(), server)
    if not (web is None or isinstance(web, Path) or web[0] in _LOOPBACK):
        expected = f"one of {', '.join(_LOOPBACK)} or unix:PATH expected: a proxy before it ends TLS"
        raise InputError(f"web: {web[0]} given, {expected}")
    if require_whole("workers", workers, 1, MOST_WORKERS) > 1 and store is None and folder.store is None:
        raise InputError(f"workers: {workers} given, 1 expected without a store that several can write to (--store)")
    others = [entry.certificate.encode() for number, entry in enumerate(collection.servers) if number != server]
    context = public_context(folder.identity, others)
    roster = Roster(folder.roster, collection, server) if collection.authenticated else None
    if store is not None:
        folder.use_store(store)

    async def open_all() -> _Listeners:
        pinned = await listen(host, port)
        try:
            return _Listeners(pinned, None if web is None else open_door(web), web)
        except BaseException:
            _Listeners(pinned, None, None).close()
            raise

    async def run(
        spool: ReportStore, ledger: ReleaseLedger, listeners: _Listeners | None, tell: Callable[[int], None]
    ) -> None:
        with keys_and_door(collection, server, folder, spool) as (opener, door):
            service = Service(
                collection,
                server,
                spool,
                roster=roster,
                limits=(limits or Limits()).for_one_of(workers),
                metrics_for_all=metrics_for_all,
                opener=opener,
                door=door,
                ledger=ledger,
                released=folder.released(collection),
            )
            opened = listeners or await open_all()
            watching = asyncio.create_task(_watch_announcement(folder, spool))
            try:
                await _listen(service, context, opened, door, tell)
            finally:
                watching.cancel()
                opened.close() if listeners else opened.end()
                await service.close()

    def work(worker: int, listeners: _Listeners | None, tell: Callable[[int], None]) -> None:
        with (
            folder.open_spool(collection, server, writer=True, worker=worker, workers=workers) as spool,
            folder.open_ledger() as ledger,
        ):
            if collection.proved:  # one store that was put back learns from the other
                PointKeeper(collection.digest, spool, ledger).heal()
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
    listening = asyncio.run(open_all())
    try:
        supervise(
            lambda worker: work(worker, listening, lambda port: None),
            workers,
            lambda: on_listening(listening.pinned[0].getsockname()[1]),
        )
    finally:
        listening.end()


async def _watch_announcement(folder: ServerFolder, spool: ReportStore) -> None:
    """Take back an announcement that a release which was killed has left, until cancelled."""
    while True:
        try:
            if await asyncio.to_thread(folder.take_back_left_announcement, spool):
                LOGGER.warning("a release ended without a batch, and left its announcement: reports can be withdrawn")
        except (SpoolError, OSError) as error:  # tried again a second later
            LOGGER.log(logging.ERROR, "announcement: %s", error)
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


async def _listen(
    service: Service,
    context: ssl.SSLContext,
    listeners: _Listeners,
    door: Door | None,
    on_listening: Callable[[int], None],
) -> None:
    """Serve until a signal arrives, then finish the requests that have begun."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    limits = _within_open_files(service.limits)
    idle = IdleTimeout(limits)
    runners = [await start_http(service.application(), limits, idle)]
    limited = LimitedListener(idle, limits, context, service.log, service.metrics.count_refused_connection)
    service.connections = lambda: len(limited)
    try:
        if listeners.door is not None:
            runners.append(await start_http(service.door(), limits))
            await SockSite(runners[-1], listeners.door, backlog=BACKLOG).start()
        running = [limited.accept(listeners.pinned), idle.sweep(), service.tell_times()]
        if door is not None:
            running.append(door.run())
        tasks = [asyncio.create_task(each) for each in (*running, stop.wait())]
        for listener in (*listeners.pinned, *([] if listeners.door is None else [listeners.door])):
            LOGGER.info("listening on %s", _place_of(listener))
        on_listening(listeners.pinned[0].getsockname()[1])
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        LOGGER.info("stopping")
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
    finally:
        for listener in listeners.pinned:
            listener.close()
        for runner in reversed(runners):  # that of a door closes its socket first
            await runner.cleanup()


def _place_of(listener: socket) -> str:
    name = listener.getsockname()
    return name if isinstance(name, str) else "{}:{}".format(*name)


def _within_open_files(limits: Limits) -> Limits:
    """Return limits that the system's limit of open files allows; say so if it lowers them."""
    allowed = connections_allowed(limits.connections)
    if allowed < limits.connections:
        LOGGER.warning(
            "open files: the system's limit allows %d connections, not %d (LimitNOFILE)", allowed, limits.connections
        )
    return dataclasses.replace(limits, connections=allowed)
