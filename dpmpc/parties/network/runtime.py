"""A party of a computation: MPyC's `Runtime`, with peers that are authenticated, bounded in time and never unpickled.

The servers are MPyC's parties: its secure types, protocols and program counters work among them, with the largest
threshold that an honest majority allows. The analyst is linked to every server, exchanges frames with them, and has no
part in MPyC's secret sharing. Additive shares travel as frames, which MPyC does not see.

Promised: a peer is the party whose certificate it holds; every wait for a peer ends, at the latest when its deadline
does; the first failure ends the run as one typed error that names a party. Not promised: that a run succeeds when any
party fails, or that MPyC's own protocols, which are passively secure, notice a wrong share. A run without some of the
servers (`PartySettings.without`) exchanges frames; MPyC's protocols need them all.

There is one runtime in a process, because MPyC's secure types compute on a global one: ``from mpyc.runtime import mpc``
in the program of a party gives this runtime.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from dpmpc.base.errors import DpmpcError, InputError, MalformedFrame, PartyMissing, ProtocolFailure
from dpmpc.parties.network import backend
from dpmpc.parties.network.connecting import SHUTDOWN_SECONDS, Connector
from dpmpc.parties.network.frames import Content, ContentType, Disputed, Expectation, Frame, Kind, decode, kind_of
from dpmpc.parties.network.links import PeerLink
from dpmpc.parties.network.meter import Meter, RunStatistics
from dpmpc.parties.network.naming import called
from dpmpc.parties.network.settings import PartySettings
from dpmpc.parties.network.sockets import Traffic

Result = TypeVar("Result")

LINGER_SECONDS = 0.05
_logger = logging.getLogger(__name__)


class NoPickle:
    """Stands where MPyC has the pickle module: nothing that a peer sends is ever executed."""

    def __init__(self, party: int, fail: Callable[[ProtocolFailure], None]):
        self._party = party
        self._fail = fail

    def loads(self, data: bytes) -> NoReturn:
        """Refuse to read."""
        self._refuse("read")

    def dumps(self, value: object) -> NoReturn:
        """Refuse to write."""
        self._refuse("send")

    def _refuse(self, what: str) -> NoReturn:
        why = f"the program of {called(self._party)} was about to {what} a pickle; use typed frames or secure types"
        error = MalformedFrame(why, self._party)
        self._fail(error)
        raise error


class PartyRuntime(backend.mpyc_runtime.Runtime):  # type: ignore[misc]
    """One party of a run."""

    def __init__(self, settings: PartySettings, folder: Path):
        loop = asyncio.SelectorEventLoop()
        asyncio.set_event_loop(loop)
        self._set_up(settings, loop, lambda: Connector(self, folder))
        self.loop.set_exception_handler(self._on_loop_exception)
        backend.become_the_runtime(self, NoPickle(self.pid, self.fail))

    def _set_up(
        self, settings: PartySettings, loop: asyncio.AbstractEventLoop, connector: Callable[[], Connector]
    ) -> None:
        """Prepare a party that runs on a loop; `connector` makes what links it to the others."""
        self.loop = loop
        servers = [
            backend.mpyc_runtime.Party(number, host, port)
            for number, (host, port) in enumerate(settings.addresses[: settings.servers])
        ]
        super().__init__(settings.party, servers, backend.default_options(settings.servers))
        self.settings = settings
        self.links: dict[int, PeerLink] = {}
        self.meter = Meter(settings.party, self.traffic)
        self.closing = False
        self.conversation: object | None = None
        self.party: Any = None  # the `dpmpc.parties.network.party.Party` of this process
        self._foreseen: DpmpcError | None = None
        self._patience = settings.connect_deadline
        self._failed: asyncio.Future[ProtocolFailure] = self.loop.create_future()
        self._connector = connector()

    @property
    def peers(self) -> list[int]:
        """The numbers of all other parties that take part."""
        return [number for number in self.settings.members if number != self.pid]

    @property
    def other_servers(self) -> list[int]:
        """The numbers of all other servers that take part."""
        return [number for number in self.settings.present if number != self.pid]

    def traffic(self) -> dict[int, Traffic]:
        """Return what has passed over the link to each peer, until the links closed."""
        return {peer: link.traffic for peer, link in sorted(self.links.items())}

    # Frames

    def frame(self, kind: Kind, content: Content = None) -> Frame:
        """Make a frame of this party on this task."""
        return Frame(kind, self.pid, self.settings.task_digest, content)

    async def send_frame(self, receiver: int, frame: Frame) -> None:
        """Send a frame; frames to one receiver arrive in the order in which they were sent."""
        await self.links[receiver].send_frame(frame)

    async def receive_frame(
        self,
        sender: int,
        kind: Kind,
        content: ContentType = ContentType.NOTHING,
        shape: tuple[int, ...] | None = None,
        also: frozenset[Kind] = frozenset(),
    ) -> Frame:
        """Receive the next frame of a party, which must be the one that is described."""
        data = await self.links[sender].receive_frame(kind)
        arrived = kind_of(data)
        if arrived is Kind.DISPUTE:
            raise Disputed(sender, self.dispute(sender, data))
        expected_kind = arrived if arrived is not None and arrived in also else kind
        frame = decode(data, Expectation(expected_kind, sender, self.settings.task_digest, content, shape))
        self.links[sender].count_content(frame)
        return frame

    async def exchange_frames(
        self,
        kind: Kind,
        own: Mapping[int, Content],
        content: ContentType,
        shapes: Mapping[int, tuple[int, ...]] | None = None,
        also: frozenset[Kind] = frozenset(),
    ) -> dict[int, Frame]:
        """Send each of these peers its own content, then receive the next frame of each."""
        for peer, one in own.items():
            await self.send_frame(peer, self.frame(kind, one))
        return {
            peer: await self.receive_frame(peer, kind, content, None if shapes is None else shapes[peer], also)
            for peer in own
        }

    def dispute(self, sender: int, data: bytes) -> Frame:
        """Return the dispute that a party has sent in these bytes."""
        return decode(data, Expectation(Kind.DISPUTE, sender, self.settings.task_digest, ContentType.BYTES))

    def send_last_frame(self, receiver: int, frame: Frame) -> None:
        """Send a frame without waiting, to a party that may be gone."""
        link = self.links.get(receiver)
        if link is not None and not self.closing and not link.transport.is_closing():
            link.send_at_once(frame)

    async def barrier(self, name: str | None = None) -> None:
        """Wait until every party, the analyst included, has come this far; MPyC's own barrier is local to a party."""
        await self._end_coroutines(name)
        await self._meet(Kind.BARRIER)

    async def _end_coroutines(self, name: str | None = None) -> None:
        """Wait for what MPyC computes; an analyst's placeholders of shares, which it never gets, are not waited for."""
        if self.pid != self.settings.analyst:
            await super().barrier(name)

    async def _meet(self, kind: Kind) -> None:
        """Exchange empty frames with every party; all are there before the first is judged, so that all judge alike."""
        for peer in self.peers:
            await self.send_frame(peer, self.frame(kind))
        arrived = await asyncio.gather(*[self.links[peer].receive_frame(kind) for peer in self.peers])
        for peer, data in zip(self.peers, arrived, strict=True):
            decode(data, Expectation(kind, peer, self.settings.task_digest))

    # From the first connection to the last

    async def start(self) -> None:
        """Link this party to all others; return when every party is linked to every other and works on the same task.

        A second call does nothing: the process of a party links it before a program starts `mpc`.
        """
        if self.links:
            return
        self.meter.begin()
        await self._connector.connect()
        await self._begin()

    async def start_again(self, settings: PartySettings) -> None:
        """Begin another run over the links that there are; return when every party works on its task.

        Parameters
        ----------
        settings : PartySettings
            Of this run: another task and other arguments among the same parties.
        """
        self.settings, self.conversation = settings, None
        self.meter = Meter(self.pid, self.traffic)
        await self._begin()

    async def _begin(self) -> None:
        await self._meet(Kind.HELLO)
        self._patience = self.settings.deadline
        self.meter.connected()

    async def shutdown(self) -> None:
        """Take leave of every party and close the links, unless the party lives on; a second call does nothing.

        A program that goes on computing after its last message calls this first, so that no party waits for it.
        """
        if self.closing:
            return
        await self._end_coroutines()
        launched = self.settings.launched
        if launched is None or not launched.lasting:
            await self.leave()

    async def leave(self) -> None:
        """Take leave of every party and close the links."""
        self.closing = True
        await self._meet(Kind.GOODBYE)
        await self._close_links()

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        """Take leave of every party, unless the program failed: `run_program` then closes the links."""
        if error is None:
            await self.shutdown()

    def run(self, f: Any) -> Any:
        """Run a coroutine or a future of a script to its end, as MPyC's method, or to the first failure."""
        return super().run(f) if self.loop.is_running() else self._drive(self._run_or_fail(f))

    def run_script(self, script: Callable[[], Result]) -> tuple[Result, RunStatistics]:
        """Link this party, run a script that drives the loop by `run`, and take leave; the loop is then closed."""
        try:
            self._drive(self._run_or_fail(self.start()))
            result = script()
            self._drive(self._run_or_fail(self.shutdown()))
            return result, self.meter.statistics()
        finally:
            self.end()

    def take_options(self, options: Any) -> None:
        """Take over those of MPyC's options that a program chooses: threshold, bit length, security parameter."""
        self.options.bit_length, self.options.sec_param = options.bit_length, options.sec_param
        if options.threshold is not None:
            if not 0 <= 2 * options.threshold < len(self.parties):
                raise InputError("-T", options.threshold, f"fewer than half of {len(self.parties)} parties")
            self.threshold = options.threshold

    def run_program(self, program: Coroutine[Any, Any, Result]) -> Result:
        """Run a program to its end or to the first failure; the event loop is closed afterwards."""
        try:
            return self.run_step(program)
        finally:
            self.end()

    def run_step(self, program: Coroutine[Any, Any, Result]) -> Result:
        """Run one of several programs to its end or to the first failure; `end` is called after the last."""
        return self._drive(self._run_or_fail(program))

    def end(self) -> None:
        """Close the links that are still open, and the event loop; a second call does nothing."""
        if self.loop.is_closed():
            return
        self._drive(self._wind_up())
        asyncio.set_event_loop(None)
        self.loop.close()

    def _drive(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the loop until `work` is done, also where MPyC stops the loop because one of its coroutines failed."""
        task = self.loop.create_task(work)
        task.add_done_callback(lambda _: self.loop.stop())
        while not task.done():
            self.loop.run_forever()
        return task.result()

    async def _run_or_fail(self, program: Coroutine[Any, Any, Result]) -> Result:
        task = asyncio.ensure_future(program)
        either: list[asyncio.Future[Any]] = [task, self._failed]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await asyncio.wait([task], timeout=LINGER_SECONDS)  # what had arrived before a link broke may tell why
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            raise self._foreseen or self._failed.result()
        return task.result()

    async def _wind_up(self) -> None:
        """Close what is still open after a failure, so that nothing is left to the garbage collector."""
        self.closing = True
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for link in self.links.values():
            link.transport.abort()
        await self._close_links()
        await self.loop.shutdown_asyncgens()
        await self.loop.shutdown_default_executor()

    async def _close_links(self) -> None:
        for link in self.links.values():
            link.close_connection()
        still_open = [link.closed for link in self.links.values() if not link.closed.done()]
        if still_open:
            await asyncio.wait(still_open, timeout=2 * SHUTDOWN_SECONDS)

    # Failures

    def fail(self, error: ProtocolFailure) -> None:
        """Record what ends the run; the first cause stands, what follows from it is only logged."""
        if self._failed.done():
            _logger.debug("after the failure: %s", error)
        else:
            self._failed.set_result(error)

    def foresee(self, error: DpmpcError) -> None:
        """Let the run end with this error: whatever breaks from now on follows from it."""
        self._foreseen = error

    @property
    def failure(self) -> ProtocolFailure | None:
        """What ended the run, if anything has."""
        return self._failed.result() if self._failed.done() else None

    def bounded(self, peer: int) -> asyncio.Future[Any]:
        """Return a future that `peer` has to fulfil within the deadline; the run fails otherwise."""
        future = self.loop.create_future()
        late = PartyMissing(f"{called(peer)} kept us waiting for more than {self._patience:g} s", peer)
        alarm = self.loop.call_later(self._patience, self.fail, late)
        future.add_done_callback(lambda _: alarm.cancel())
        return future

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Record what went wrong in a callback, where the coroutines of MPyC end."""
        error = context.get("exception")
        if isinstance(error, ProtocolFailure):
            self.fail(error)
        elif isinstance(error, Exception) and not self._failed.done():
            _logger.error("%s", context["message"], exc_info=error)
            # Whoever dealt this party what does not fit may be to blame, so that nobody is named.
            self.fail(
                ProtocolFailure(f"a computation of {called(self.pid)} broke off: {type(error).__name__}: {error}")
            )
        else:
            _logger.debug("while ending: %s", context["message"], exc_info=error)

    # What MPyC calls

    def _send_message(self, peer_pid: int, data: bytes) -> None:
        """Send a message of a secure type, labelled by the program counter, to any party, the analyst included."""
        self.links[peer_pid].send(self._program_counter[0], data)

    def _receive_message(self, peer_pid: int) -> Any:
        return self.links[peer_pid].receive(self._program_counter[0])

    def set_protocol(self, peer_pid: int, protocol: PeerLink) -> None:
        """Register the link to a peer, once its number is certain."""
        self.links[peer_pid] = protocol
        if peer_pid < len(self.parties):
            self.parties[peer_pid].protocol = protocol

    def _distribute(self, x: Any, senders: Any) -> Any:
        """Share secrets among the servers, where MPyC keeps them secret; types with their own sharing use that."""
        if hasattr(type(x[0]), "_input") and not self.settings.without:
            return super()._distribute(x, senders)
        if self.pid == self.settings.analyst:
            raise InputError("input", f"called by {called(self.pid)}, a server expected: the analyst holds no share")
        if self.settings.without:
            raise InputError("input", f"servers {self.settings.without} left out, all expected where MPyC computes")
        if self.threshold == 0:
            raise InputError("input", f"{len(self.parties)} servers", "at least 3", "fewer keep no secret in MPyC")
        return super()._distribute(x, senders)
