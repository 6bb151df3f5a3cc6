"""Run one server of a collection as a process: sockets, TLS, signals.

Promised: TLS 1.3 with the certificate that the collection pins, and nothing else on the port; connections and
handshakes are bounded in number and time (`dpmpc.collection.connections`); SIGTERM and SIGINT stop the server within
`GRACE_SECONDS` and what the disk takes, and what was acknowledged stays. A server that is killed
loses nothing that it has acknowledged either.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import ssl
from collections.abc import Callable
from typing import Any

from dpmpc.collection.admission import Limits
from dpmpc.collection.connections import LINGER_SECONDS, IdleTimeout, LimitedListener, connections_allowed, listen
from dpmpc.collection.query_points import PointKeeper
from dpmpc.collection.roster import Roster
from dpmpc.collection.server_folder import ServerFolder
from dpmpc.collection.service import LOGGER, Service
from dpmpc.collection.task_file import Collection
from dpmpc.errors import InputError
from dpmpc.network.identity import public_context

try:
    from aiohttp import web
except ImportError as error:
    raise InputError("dpmpc.collection needs aiohttp: pip install '.[intake]' in its source folder") from error

GRACE_SECONDS = 10.0
_SILENT = logging.getLogger("dpmpc.collection.http")
_SILENT.disabled = True  # aiohttp quotes what clients send


def serve(
    collection: Collection,
    server: int,
    folder: ServerFolder,
    host: str,
    port: int,
    *,
    limits: Limits | None = None,
    metrics_for_all: bool = False,
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
    context = public_context(folder.identity)
    roster = Roster(folder.roster, collection, server) if collection.authenticated else None
    with folder.open_spool(collection, server, writer=True) as spool:
        if collection.proved:  # one store that was put back learns from the other
            with folder.open_ledger() as ledger:
                PointKeeper(collection.digest, spool, ledger).heal()

        LOGGER.info("server %d of collection %s, %d reports stored", server, collection.digest.hex(), len(spool))

        async def run() -> None:
            service = Service(collection, server, spool, roster=roster, limits=limits, metrics_for_all=metrics_for_all)
            try:
                await _listen(service, context, host, port, on_listening)
            finally:
                await service.close()

        asyncio.run(run())


async def _listen(
    service: Service, context: ssl.SSLContext, host: str, port: int, on_listening: Callable[[int], None]
) -> None:
    """Serve until a signal arrives, then finish the requests that have begun."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    limits = _within_open_files(service.limits)
    idle = IdleTimeout(limits)
    runner = await start_http(service, idle)
    limited = LimitedListener(idle, limits, context, service.log, service.count_refused)
    service.connections = lambda: len(limited)
    try:
        listeners = await listen(host, port)
        try:
            running = (limited.accept(listeners), idle.sweep(), service.tell_times())
            tasks = [asyncio.create_task(each) for each in running]
            bound = listeners[0].getsockname()[1]
            LOGGER.info("listening on %s:%d", host, bound)
            on_listening(bound)
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            LOGGER.info("stopping")
            for task in (stopping, *tasks):
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended
        finally:
            for listener in listeners:
                listener.close()
    finally:
        await runner.cleanup()


def _within_open_files(limits: Limits) -> Limits:
    """Return limits that the system's limit of open files allows; say so if it lowers them."""
    allowed = connections_allowed(limits.connections)
    if allowed < limits.connections:
        LOGGER.warning(
            "open files: the system's limit allows %d connections, not %d (LimitNOFILE)", allowed, limits.connections
        )
    return dataclasses.replace(limits, connections=allowed)


async def start_http(service: Service, idle: IdleTimeout) -> Any:
    """Return aiohttp's runner of a service, set up; ``idle.protocol`` handles connections now."""
    application = service.application()
    application.middlewares.append(idle.middleware)
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=_SILENT,
        auto_decompress=False,  # a body is as long as its header says
        keepalive_timeout=service.limits.read_seconds,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=GRACE_SECONDS,
    )
    await runner.setup()
    idle.http = runner.server
    return runner
