"""Set-up: a party accepts those that come before it and dials those that come after it, all at once.

Each connection is TLS 1.3 with certificates on both sides. A party that is dialled and shows a wrong certificate
ends the run; a caller without a valid certificate is a stranger, who is turned away and noted, and cannot end the
run. So is a server that this run goes on without. Only the address that the roster gives is bound.

Until a handshake is done its caller has one of `CALLERS` places, `CALLERS_OF_AN_ADDRESS` of them for one address, for
`INTRODUCTION_SECONDS` at most. A silent one makes way for a newcomer at once, one that has spoken after `GRACE_SECONDS`
(`dpmpc.parties.network.callers`). So silent connections, however many, neither end the run nor keep a party out, which
dials until it is let in.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from dpmpc.base.errors import InputError, PartyImpersonated, PartyMissing
from dpmpc.base.untrusted import printable
from dpmpc.parties.network.callers import Places, accept_callers, handle
from dpmpc.parties.network.identity import dialling_context, listening_context, party_name
from dpmpc.parties.network.links import LinkOwner, PeerLink
from dpmpc.parties.network.naming import called
from dpmpc.parties.network.sockets import CountingSocket, TrackedSocket

REDIAL_SECONDS = 0.05
SHUTDOWN_SECONDS = 2.0
INTRODUCTION_SECONDS = 10.0  # that a caller has for its handshake, and again for its number
GRACE_SECONDS = 2.0  # that no newcomer takes the place of a caller that has spoken
CALLERS, CALLERS_OF_AN_ADDRESS = 256, 64  # connections that have not proven to be a party's
BACKLOG = 1024


class Connector:
    """Makes the links of one party."""

    def __init__(self, runtime: LinkOwner, folder: Path):
        self._runtime = runtime
        self._settings = runtime.settings
        self._callers = [peer for peer in runtime.peers if peer < runtime.pid]
        self._listening, self._dialling = listening_context(folder), dialling_context(folder)
        self._began = 0.0
        self._admitted = asyncio.Event()
        self._obstacles: dict[str, str] = {}

    async def connect(self) -> None:
        """Return when there is a link to every other party that takes part."""
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        before = signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(self._tell_who_is_missing))
        try:
            listener = await self._listener() if self._callers else None
            async with asyncio.timeout(self._settings.connect_deadline), asyncio.TaskGroup() as group:
                accepting = None if listener is None else group.create_task(self._accept(listener))
                async with asyncio.TaskGroup() as dialling:
                    for peer in self._runtime.peers:
                        if peer > self._runtime.pid:
                            dialling.create_task(self._dial(peer))
                if accepting is not None:  # until the last link is there: a caller that has started again dials anew
                    await self._admitted.wait()
                    accepting.cancel()
        except TimeoutError:
            raise self._missing() from None
        finally:
            signal.signal(signal.SIGTERM, before)

    async def _dial(self, peer: int) -> None:
        """Connect to a peer, however long it takes to come up; a wrong certificate is final."""
        while True:
            try:
                return await self._dial_once(peer)
            except ssl.SSLCertVerificationError as error:
                why = f"{called(self._runtime.pid)} refused the certificate of {called(peer)}: {error.verify_message}"
                self._runtime.fail(PartyImpersonated(why, peer))
                await asyncio.get_running_loop().create_future()  # until the failure cancels this task too
            except OSError as error:
                self._obstacles[called(peer)] = str(error)
                await asyncio.sleep(REDIAL_SECONDS)

    async def _dial_once(self, peer: int) -> None:
        loop = asyncio.get_running_loop()
        host, port = self._settings.addresses[peer]
        family, kind, protocol, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
        connection = CountingSocket(family, kind, protocol)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, address)
        except BaseException:
            connection.close()
            raise
        await loop.create_connection(
            lambda: PeerLink(self._runtime, connection, peer),
            sock=connection,
            ssl=self._dialling,
            server_hostname=party_name(peer),
            ssl_handshake_timeout=self._settings.connect_deadline,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )

    async def _accept(self, listener: CountingSocket) -> None:
        """Accept callers until cancelled; those that have not been admitted by then are dropped."""
        places = Places(CALLERS, CALLERS_OF_AN_ADDRESS, GRACE_SECONDS)

        def take(connection: TrackedSocket, address: str | None) -> None:
            place = places.enter(address, lambda: task.cancel())
            if place is None:
                connection.close()
                return

            def admit() -> Coroutine[Any, Any, None]:
                place.speak()
                return self._admit(connection, lambda: places.leave(place))

            task = handle(connection, callers.create_task, admit, INTRODUCTION_SECONDS)
            task.add_done_callback(lambda _: places.leave(place))

        def note(error: OSError) -> None:
            self._obstacles["accepting callers"] = str(error)

        with listener:
            async with asyncio.TaskGroup() as callers:
                await accept_callers(listener, take, note)

    async def _admit(self, connection: TrackedSocket, on_party: Callable[[], object]) -> None:
        """Let one caller in, if it proves to be a party; call `on_party` when its certificate is that of one."""
        assert isinstance(connection, CountingSocket)
        link = PeerLink(self._runtime, connection)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: link,
                connection,
                ssl=self._listening,
                ssl_handshake_timeout=min(INTRODUCTION_SECONDS, self._settings.connect_deadline),
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
            on_party()
            ends: list[asyncio.Future[None]] = [link.introduced, link.closed]
            await asyncio.wait(ends, timeout=INTRODUCTION_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not link.introduced.done():
                raise ConnectionAbortedError("it did not state which party it is")
            link.introduced.result()
        except OSError as error:
            self._obstacles["a caller that was turned away"] = printable(str(error))
            return
        finally:
            if link.transport is not None and not link.introduced.done():
                link.transport.abort()
        if all(peer in self._runtime.links for peer in self._callers):
            self._admitted.set()

    async def _listener(self) -> CountingSocket:
        """Return the listening socket: the launcher's, or one on the address that the roster gives."""
        launched = self._settings.launched
        if launched is not None and launched.listener is not None:
            listener = CountingSocket(fileno=launched.listener)
        else:
            host, port = self._settings.addresses[self._runtime.pid]
            listener = await bind(host, port)
        listener.setblocking(False)
        return listener

    def _tell_who_is_missing(self) -> None:
        """Fail in good order when this process is asked to end while it waits for others."""
        if len(self._runtime.links) < len(self._runtime.peers):
            self._runtime.fail(self._missing())

    def _missing(self) -> PartyMissing:
        missing = [peer for peer in self._runtime.peers if peer not in self._runtime.links]
        names = ", ".join(map(called, missing))
        remarks = "".join(f"; {who}: {what}" for who, what in sorted(self._obstacles.items()))
        waited = asyncio.get_running_loop().time() - self._began
        return PartyMissing(f"{names} had not come up after {waited:.1f} s{remarks}", missing[0])


async def bind(host: str, port: int) -> CountingSocket:
    """Return a socket that listens on this address and no other."""
    loop = asyncio.get_running_loop()
    try:
        family, kind, protocol, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
        listener = CountingSocket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise InputError("addresses", f"{host}:{port}", "an address of this machine", error) from error
    return listener
