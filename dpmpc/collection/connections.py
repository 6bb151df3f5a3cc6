"""Accept, bound and close the connections of a server of a collection.

A connection is counted from the moment at which it is accepted until its file descriptor is given back; handshakes that
are not done are counted a second time, against smaller limits. Each address has its share of both.

Promised: there are at most `Limits.connections` connections, `Limits.address_connections` of one address, some times as
many of a network around it (`dpmpc.network.callers.Places`), and as many as the system's limit of open files allows.
TLS begins with the caller's first byte; neither the silence before it nor the handshake lasts longer than
`HANDSHAKE_SECONDS`. No connection is without a request for longer than `Limits.read_seconds`. Where no place is free, a
connection without a request, or one that keeps the server waiting for its body, makes way for a newcomer, first in the
address that has most. Whoever is one too many then is closed. A lack of file descriptors is a pause and a line in the
log, at most one a minute. Not promised: that an attacker leaves places to others who has many addresses and makes
requests from all of them without a pause, or whose address others share.

All this is for the pinned port, which anybody can call. A door is called by a proxy, which bounds strangers itself;
`open_door` only lets it in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import resource
import socket
import ssl
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

from dpmpc.collection.admission import Limits
from dpmpc.collection.logs import RateLimitedLogger
from dpmpc.errors import InputError
from dpmpc.network.callers import Place, Places, Stage, accept_callers, handle
from dpmpc.network.sockets import TrackedSocket

try:
    from aiohttp import web
except ImportError as error:
    raise InputError("dpmpc.collection needs aiohttp: pip install '.[intake]' in its source folder") from error

HANDSHAKE_SECONDS = 10.0
GRACE_SECONDS = 2.0  # after which a connection makes way that the server waits for
LINGER_SECONDS = 1.0  # that the rest of a refused body is read, so that its sender sees the answer
SHUTDOWN_SECONDS = 10.0  # for the requests that have begun when a server stops
BACKLOG = 1024
DoorPlace: TypeAlias = "tuple[str, int] | Path"
_SILENT = logging.getLogger("dpmpc.collection.http")
_SILENT.disabled = True  # aiohttp quotes what clients send
OTHER_FILES = 128  # that a server has open beside its connections: spool, segments, listeners, logs


class IdleTimeout:
    """Closes connections that have not made a request for too long.

    aiohttp waits for the first request of a connection, and for the end of a request's head, as long as it takes.
    """

    def __init__(self, limits: Limits):
        self.http: Any = None
        self._limits = limits
        self._quiet_since: dict[Any, float] = {}  # of those that `sweep` has seen
        self._places: dict[Any, Place] = {}  # of each handler
        self._handlers: dict[Place, Any] = {}

    def protocol(self, place: Place | None = None) -> asyncio.Protocol:
        """Return what handles a new connection, whose place will say whether a request is under way."""
        handler: asyncio.Protocol = self.http()
        if place is not None:
            self._places[handler], self._handlers[place] = place, handler
        return handler

    def forget(self, place: Place) -> None:
        """Note that the connection of a place is closed."""
        handler = self._handlers.pop(place, None)
        self._places.pop(handler, None)

    @property
    def middleware(self) -> Any:
        """A middleware that notes which connections are busy."""

        @web.middleware  # type: ignore[untyped-decorator, unused-ignore]
        async def note(request: Any, handler: Any) -> Any:
            self._quiet_since[request.protocol] = math.inf
            place = self._places.get(request.protocol)
            if place is not None:
                place.ask(lambda: not request.content.is_eof())
            try:
                return await handler(request)
            finally:
                self._quiet_since[request.protocol] = asyncio.get_running_loop().time()
                if place is not None:
                    place.rest()

        return note

    async def sweep(self) -> None:
        """Close idle connections at intervals, until cancelled."""
        while True:
            now = asyncio.get_running_loop().time()
            self._quiet_since = {each: self._quiet_since.get(each, now) for each in self.http.connections}
            for connection, since in self._quiet_since.items():
                if now - since > self._limits.read_seconds:
                    connection.force_close()
            await asyncio.sleep(self._limits.read_seconds / 4)


class LimitedListener:
    """Accepts connections at an address and hands them to handlers that an `IdleTimeout` watches, within the limits."""

    def __init__(
        self,
        idle: IdleTimeout,
        limits: Limits,
        context: ssl.SSLContext | None,
        log: RateLimitedLogger,
        on_refused: Callable[[str], object] = lambda reason: None,
    ):
        self._idle, self._context, self._log, self._on_refused = idle, context, log, on_refused
        self._connections = Places(limits.connections, limits.address_connections, GRACE_SECONDS)
        self._handshakes = Places(limits.handshakes, limits.address_handshakes, GRACE_SECONDS)

    def __len__(self) -> int:
        """Count the open connections, handshakes included."""
        return len(self._connections)

    @property
    def handshakes(self) -> int:
        """Count the handshakes that are under way."""
        return len(self._handshakes)

    async def accept(self, listeners: list[TrackedSocket]) -> None:
        """Accept connections at all listeners until cancelled; handshakes that are not done by then are dropped."""
        async with asyncio.TaskGroup() as tasks:

            def admit(connection: TrackedSocket, address: str | None) -> None:
                place = self._connections.enter(address, lambda: task.cancel())
                if place is None:
                    self._on_refused("connections")
                    connection.close()
                    return
                connection.on_close = lambda: self._leave(place)

                def greet() -> Coroutine[Any, Any, None]:
                    place.speak()
                    return self._greet(connection, address, task, place)

                task = handle(connection, tasks.create_task, greet, HANDSHAKE_SECONDS)

            for listener in listeners:
                tasks.create_task(accept_callers(listener, admit, self._tell))

    def _leave(self, place: Place) -> None:
        self._connections.leave(place)
        self._idle.forget(place)

    async def _greet(
        self,
        connection: TrackedSocket,
        address: str | None,
        task: asyncio.Task[None],
        place: Place,
    ) -> None:
        """Make the TLS handshake, if there is one, then hand the connection to the handler."""
        handshake = self._handshakes.enter(address, task.cancel)
        if handshake is None:
            self._on_refused("handshakes")
            connection.close()
            return
        handshake.speak()
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._idle.protocol(place),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=None if self._context is None else LINGER_SECONDS,
            )
        except OSError:  # a failed handshake of a stranger is not logged
            return
        except Exception:  # others have to be served whatever it was
            self._log.log(logging.ERROR, "a handshake failed", traceback=True)
            return
        finally:
            self._handshakes.leave(handshake)

        def drop() -> None:
            self._on_refused("idle")
            transport.abort()  # at once: a peer that is slow to end TLS would keep the file descriptor

        place.drop = drop
        if place.stage is Stage.HEARD:  # unless its first request is there already
            place.rest()

    def _tell(self, error: OSError) -> None:
        self._log.log(logging.ERROR, "accept: %s; new connections wait", error.strerror)


def open_door(place: DoorPlace) -> socket.socket:
    """Return a socket that listens for a proxy: at a port of the loopback interface, or at a path."""
    if isinstance(place, Path):
        return _open_path(place)
    host, port = place
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        raise InputError(f"web: cannot listen on {host}:{port}: {error}") from error


def close_door(place: DoorPlace, listener: socket.socket) -> None:
    """Close the socket, and leave no path behind."""
    listener.close()
    if isinstance(place, Path):
        place.unlink(missing_ok=True)


def _open_path(path: Path) -> socket.socket:
    """Listen at a path that the proxy's group may connect to, in place of one that nobody listens at any more."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise InputError(f"web: {path} given, a path that is free expected")
            with socket.socket(socket.AF_UNIX) as other, contextlib.suppress(ConnectionRefusedError):
                other.connect(str(path))
                raise InputError(f"web: {path} given, where somebody listens; a path that is free expected")
            path.unlink()
        listener.bind(str(path))
        path.chmod(0o660)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InputError(f"web: cannot listen at {path}: {error}") from error
    except InputError:
        listener.close()
        raise
    return listener


async def listen(host: str, port: int) -> list[TrackedSocket]:
    """Return sockets that listen at all addresses of a host."""
    listeners: list[TrackedSocket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listener = TrackedSocket(family, kind, protocol)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
    except (OSError, UnicodeError) as error:  # the latter for a name that no host can have
        for listener in listeners:
            listener.close()
        raise InputError(f"listen: cannot listen on {host}:{port}: {error}") from error
    return listeners


def connections_allowed(connections: int) -> int:
    """Raise this process's limit of open files as far as it goes and is needed; return how many connections fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = connections + OTHER_FILES
    if soft != unlimited and soft < wanted:
        soft = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    allowed = connections if soft == unlimited else min(connections, soft - OTHER_FILES)
    if allowed < 1:
        raise InputError(
            f"open files: a limit of {soft} given, more than {OTHER_FILES} expected (ulimit -n, LimitNOFILE)"
        )
    return allowed


async def start_http(application: Any, limits: Limits, idle: IdleTimeout | None = None) -> Any:
    """Return aiohttp's runner of an application, set up; ``idle.protocol`` handles its connections now, if given."""
    if idle is not None:
        application.middlewares.append(idle.middleware)
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=_SILENT,
        auto_decompress=False,  # a body is as long as its header says
        keepalive_timeout=limits.read_seconds,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    if idle is not None:
        idle.http = runner.server
    return runner
