"""Run one server of a collection as a process: sockets, TLS, signals.

Beside the port that the collection names, a server of a collection of format 2 may have a *door*: plain HTTP on the
loopback interface, for a proxy that ends TLS with an ordinary web certificate. A process of its own answers there
(`door_link`), which this one starts and ends.

Promised: TLS 1.3 with the certificate that the collection pins, and nothing else on the port; connections and
handshakes are bounded in number and time (`dpmpc.collection.connections`); SIGTERM and SIGINT stop the server within
`connections.SHUTDOWN_SECONDS` and what the disk takes, and what was acknowledged stays. A server that is killed
loses nothing that it has acknowledged either.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import signal
import ssl
from collections.abc import Callable, Iterator, Sequence

from dpmpc.arguments import require_whole
from dpmpc.collection.admission import Limits
from dpmpc.collection.confinement import program_folders
from dpmpc.collection.connections import IdleTimeout, LimitedListener, connections_allowed, listen, start_http
from dpmpc.collection.door_link import START_SECONDS, DoorLink, require_apart
from dpmpc.collection.doors import Door, Outbox
from dpmpc.collection.ledger import ReleaseLedger
from dpmpc.collection.logs import RateLimitedLogger
from dpmpc.collection.proxy_protocol import Proxies
from dpmpc.collection.query_points import PointKeeper
from dpmpc.collection.report_store import ReportStore
from dpmpc.collection.roster import Roster
from dpmpc.collection.sealing import Opener
from dpmpc.collection.server_folder import ServerFolder
from dpmpc.collection.service import LOGGER, Service
from dpmpc.collection.state import StateReader
from dpmpc.collection.task_file import Collection
from dpmpc.collection.workers import MOST_WORKERS, supervise
from dpmpc.errors import InputError
from dpmpc.network.identity import public_context
from dpmpc.network.sockets import TrackedSocket

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    collection: Collection,
    server: int,
    folder: ServerFolder,
    host: str,
    port: int,
    *,
    limits: Limits | None = None,
    metrics_for_all: bool = False,
    web: tuple[str, int] | None = None,
    proxies: Proxies | None = None,
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
    web : tuple of str and int, optional
        Host and port of the door, on the loopback interface.
    proxies : Proxies, optional
        Whose connections begin with the header of the PROXY protocol, at the port and at the door.
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
    collection.require_clipping()
    folder.require_server(collection.verify(), server)
    if web is not None and collection.format == 1:
        raise InputError("web: a door given for a collection of format 1, whose reports no door can take; 2 expected")
    if web is not None and web[0] not in _LOOPBACK:
        raise InputError(f"web: {web[0]} given, one of {', '.join(_LOOPBACK)} expected: a proxy before it ends TLS")
    if web is not None:
        require_apart(folder.path, program_folders())
    if require_whole("workers", workers, 1, MOST_WORKERS) > 1 and store is None and folder.store is None:
        raise InputError(f"workers: {workers} given, 1 expected without a store that several can write to (--store)")
    others = [entry.certificate.encode() for number, entry in enumerate(collection.servers) if number != server]
    context = public_context(folder.identity, others if collection.format == 2 else ())
    roster = Roster(folder.roster, collection, server) if collection.authenticated else None
    if store is not None:
        folder.use_store(store)

    async def open_all() -> list[list[TrackedSocket]]:
        return [await listen(*place) for place in ((host, port), *([] if web is None else [web]))]

    async def run(
        spool: ReportStore,
        ledger: ReleaseLedger,
        listeners: list[list[TrackedSocket]] | None,
        tell: Callable[[int], None],
    ) -> None:
        with _sealed(collection, server, folder, spool) as (opener, door):
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
            try:
                await _listen(service, context, opened, door, proxies or Proxies(), tell)
            finally:
                for listener in itertools.chain(*opened):
                    listener.close()
                await service.close()

    def work(worker: int, listeners: list[list[TrackedSocket]] | None, tell: Callable[[int], None]) -> None:
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
            lambda: on_listening(listening[0][0].getsockname()[1]),
        )
    finally:
        for listener in itertools.chain(*listening):
            listener.close()


@contextlib.contextmanager
def _sealed(
    collection: Collection, server: int, folder: ServerFolder, spool: ReportStore
) -> Iterator[tuple[Opener | None, Door | None]]:
    """Open what reports of format 2 need: the outbox, and private keys, which are deleted where the time is over."""
    if collection.format == 1:
        yield None, None
        return
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
    listeners: Sequence[list[TrackedSocket]],
    door: Door | None,
    proxies: Proxies,
    on_listening: Callable[[int], None],
) -> None:
    """Serve until a signal arrives, then finish the requests that have begun.

    The first of the listeners are those of the pinned port; a door has others.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    limits = _within_open_files(service.limits)
    # a proxy that names nobody is one address for all
    behind_proxy = dataclasses.replace(limits, address_connections=limits.connections)
    at_door = limits if proxies.are_local else behind_proxy
    idle = IdleTimeout(limits)
    runner = await start_http(idle, service.application(), limits)
    refused = service.metrics.count_refused_connection
    limited = LimitedListener(idle, limits, context, service.log, refused, proxies)
    try:
        try:
            links = [
                DoorLink(found, service.door_routes(), service.longest, at_door, refused, proxies)
                for found in listeners[1:]
            ]
            service.connections = lambda: len(limited) + sum(link.connections for link in links)
            running = [
                limited.accept(listeners[0]),
                idle.sweep(),
                service.tell_times(),
                *([] if door is None else [door.run()]),
                *(link.run() for link in links),
            ]
            tasks = [asyncio.create_task(each) for each in running]
            stopping = asyncio.create_task(stop.wait())
            ready = asyncio.create_task(_tell_listening(listeners, links, on_listening))
            await asyncio.wait([stopping, ready, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done() and not any(task.done() for task in tasks):
                await ready
                await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            LOGGER.info("stopping")
            for link in links:
                await link.stop()
            for task in (stopping, ready, *tasks):
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended
        finally:
            for listener in itertools.chain(*listeners):
                listener.close()
    finally:
        await runner.cleanup()


async def _tell_listening(
    listeners: Sequence[Sequence[TrackedSocket]], links: Sequence[DoorLink], on_listening: Callable[[int], None]
) -> None:
    """Say where this server listens once its door answers, too."""
    for link in links:
        try:
            await asyncio.wait_for(link.ready.wait(), 2 * START_SECONDS)
        except TimeoutError:
            raise InputError("web: the door's process does not start; the log says why") from None
    ports = [found[0].getsockname() for found in listeners]
    for host, port, *_ in ports:
        LOGGER.info("listening on %s:%d", host, port)
    on_listening(ports[0][1])


def _within_open_files(limits: Limits) -> Limits:
    """Return limits that the system's limit of open files allows; say so if it lowers them."""
    allowed = connections_allowed(limits.connections)
    if allowed < limits.connections:
        LOGGER.warning(
            "open files: the system's limit allows %d connections, not %d (LimitNOFILE)", allowed, limits.connections
        )
    return dataclasses.replace(limits, connections=allowed)
