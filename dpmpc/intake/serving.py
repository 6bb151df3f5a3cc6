"""One server of a collection as a process: sockets, TLS, signals.

Promised: TLS 1.3 with the certificate that the collection pins, and nothing else on the port; no connection without a
request lasts longer than `Limits.read_seconds`, no handshake longer than `HANDSHAKE_SECONDS`; SIGTERM and SIGINT stop
the server within `GRACE_SECONDS` and what the disk takes, and what was acknowledged stays. A server that is killed
loses nothing that it has acknowledged either.
"""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import ssl
from collections.abc import Callable
from typing import Any

from dpmpc.errors import InputError
from dpmpc.intake.admission import Limits
from dpmpc.intake.collection import Collection
from dpmpc.intake.roster import Roster
from dpmpc.intake.server_folder import ServerFolder
from dpmpc.intake.service import LOGGER, Service
from dpmpc.network.identity import public_context

try:
    from aiohttp import web
except ImportError as error:
    raise InputError("dpmpc.intake needs aiohttp: pip install 'dpmpc[intake]'") from error

GRACE_SECONDS = 10.0
HANDSHAKE_SECONDS = 10.0
LINGER_SECONDS = 1.0  # that the rest of a refused body is read, so that its sender sees the answer
_BACKLOG = 1024
_SILENT = logging.getLogger("dpmpc.intake.http")
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
    """Serve until a signal comes, then finish what has begun."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    guard = Guard(service.limits)
    runner = await start_http(service, guard)
    try:
        try:
            listener = await loop.create_server(
                guard.protocol,
                host,
                port,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=LINGER_SECONDS,
                backlog=_BACKLOG,
            )
        except (OSError, UnicodeError) as error:  # the latter of a name that no host can have
            raise InputError(f"listen: {host}:{port} cannot be listened on: {error}") from error
        sweeping = asyncio.create_task(guard.sweep())
        on_listening(listener.sockets[0].getsockname()[1])
        await stop.wait()
        LOGGER.info("stopping")
        listener.close()
        sweeping.cancel()
    finally:
        await runner.cleanup()


async def start_http(service: Service, guard: Guard) -> Any:
    """Return aiohttp's runner of a service, set up; ``guard.protocol`` handles connections now."""
    application = service.application()
    application.middlewares.append(guard.middleware)
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
    guard.http = runner.server
    service.connections = lambda: len(runner.server.connections)
    return runner


class Guard:
    """Closes connections that are too many, or that have not made a request for too long.

    aiohttp waits for the first request of a connection, and for the end of a request's head, as long as it takes.

    Parameters
    ----------
    limits : Limits
        How many, how long.
    """

    def __init__(self, limits: Limits):
        self.http: Any = None
        self._limits = limits
        self._quiet_since: dict[Any, float] = {}  # of those that `sweep` has seen

    def protocol(self) -> asyncio.Protocol:
        """Return what handles a new connection."""
        if len(self.http.connections) >= self._limits.connections:
            return _Closed()
        handler: asyncio.Protocol = self.http()
        return handler

    @property
    def middleware(self) -> Any:
        """Notes which connections are at work."""

        @web.middleware  # type: ignore[untyped-decorator, unused-ignore]
        async def note(request: Any, handler: Any) -> Any:
            self._quiet_since[request.protocol] = math.inf
            try:
                return await handler(request)
            finally:
                self._quiet_since[request.protocol] = asyncio.get_running_loop().time()

        return note

    async def sweep(self) -> None:
        """Close quiet connections, again and again."""
        while True:
            now = asyncio.get_running_loop().time()
            self._quiet_since = {each: self._quiet_since.get(each, now) for each in self.http.connections}
            for connection, since in self._quiet_since.items():
                if now - since > self._limits.read_seconds:
                    connection.force_close()
            await asyncio.sleep(self._limits.read_seconds / 4)


class _Closed(asyncio.Protocol):
    """A connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
