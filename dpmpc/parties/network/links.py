"""The link between this party and one peer: MPyC's `MessageExchanger` without its trust.

MPyC's messages are kept: 8 bytes of label, 4 bytes of length, payload. What is added: the peer's number is checked
against its certificate before anything else is read; a message that is longer than the limit is refused when its
length arrives; unread messages are bounded in number and bytes, and never overwritten; anyone who waits for a message
that cannot come any more gets an error.

Labels. MPyC's own protocols label a message with a pseudorandom program counter. Frames count down from -1 in each
direction of each link, so two frames can never share a label, and the analyst, who takes no part in MPyC's
protocols, need not know their counters. The last message of a link has its own label.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Protocol

from dpmpc.base.errors import InputError, MalformedFrame, PartyImpersonated, PartyLost, PartyMissing, ProtocolFailure
from dpmpc.parties.network.backend import asyncoro
from dpmpc.parties.network.frames import Frame, Kind, encode, kind_of
from dpmpc.parties.network.identity import certified_names, party_name
from dpmpc.parties.network.naming import called
from dpmpc.parties.network.settings import PartySettings
from dpmpc.parties.network.sockets import ByteCount, CountingSocket, Traffic, kernel_count

FRAME_LABELS = range(-(1 << 32), 0)
FAREWELL = FRAME_LABELS.start
_MESSAGE = struct.Struct("<qI")
_PARTY_NUMBER_BYTES = 2
MOST_UNREAD = 1 << 16  # messages of a peer; an empty one takes some 300 bytes of memory beside its content

Message = bytes | asyncio.Future[bytes]


class LinkOwner(Protocol):
    """The part of `dpmpc.parties.network.runtime.PartyRuntime` that links, and the code that makes them, use."""

    loop: asyncio.AbstractEventLoop  # what the party runs on
    settings: PartySettings  # who takes part, where, and how long anybody may take
    links: dict[int, PeerLink]  # the link to each peer, by party number

    @property
    def pid(self) -> int:
        """The number of this party."""

    @property
    def peers(self) -> list[int]:
        """The numbers of all other parties that take part."""

    def fail(self, error: ProtocolFailure) -> None:
        """End the run."""

    def bounded(self, peer: int) -> asyncio.Future[Any]:
        """Return a future that a peer has to fulfil within the deadline."""

    def set_protocol(self, peer_pid: int, protocol: PeerLink) -> None:
        """Register the link to a peer, once its number is certain."""


class PeerLink(asyncoro.MessageExchanger):  # type: ignore[misc]
    """One authenticated link.

    `introduced` is done once the number of a peer that dialled us is certain, `closed` when the link is gone.
    """

    def __init__(self, runtime: LinkOwner, socket: CountingSocket, peer: int | None = None):
        super().__init__(runtime, peer)
        self.runtime: LinkOwner
        self.peer_pid: int | None
        self.buffers: dict[int, Message]
        self.introduced: asyncio.Future[None] = runtime.loop.create_future()
        self.closed: asyncio.Future[None] = runtime.loop.create_future()
        self._finished = self._took_leave = False
        self._final_traffic: Traffic | None = None
        self._socket = socket
        self._resumed: asyncio.Future[None] | None = None
        self._unread = 0
        self._payload_sent = self._payload_received = 0
        self._frames_sent = self._frames_received = 0

    @property
    def traffic(self) -> Traffic:
        """What has passed so far; after both farewells, what had passed until then."""
        if self._final_traffic is not None:
            return self._final_traffic
        payload = ByteCount(self._payload_sent, self._payload_received)
        return Traffic(payload, self._socket.count, kernel_count(self._socket))

    def send(self, label: int, payload: bytes) -> None:
        """Send a message of one of MPyC's own protocols."""
        super().send(label, payload)
        self._payload_sent += len(payload)

    async def send_frame(self, frame: Frame) -> None:
        """Send a frame; wait while the peer is slow to take what was sent before."""
        self.send_at_once(frame)
        if self._resumed is not None:
            await self._resumed

    def send_at_once(self, frame: Frame) -> None:
        """Hand a frame over, however much the peer has not taken yet."""
        data, limit = encode(frame), self.runtime.settings.frame_limit
        if len(data) > limit:
            raise InputError("frame", f"{len(data)} bytes", f"at most {limit}", "send it in parts")
        self._frames_sent += 1
        self._took_leave = frame.kind is Kind.GOODBYE
        super().send(FAREWELL if self._took_leave else -self._frames_sent, data)
        self._payload_sent += frame.content_bytes
        self._settle_account()

    async def receive_frame(self, kind: Kind) -> bytes:
        """Return the bytes of the next frame."""
        self._frames_received += 1
        message = self.receive(FAREWELL if kind is Kind.GOODBYE else -self._frames_received)
        return await message if isinstance(message, asyncio.Future) else message

    def unread(self, kind: Kind) -> bytes | None:
        """Return the first frame of this kind that no party has asked for yet, if there is one."""
        messages = [self.buffers[label] for label in sorted(self.buffers, reverse=True) if label in FRAME_LABELS]
        found = (message for message in messages if isinstance(message, bytes) and kind_of(message) is kind)
        return next(found, None)

    def count_content(self, frame: Frame) -> None:
        """Count the content of a frame that was received and found to be sound."""
        self._payload_received += frame.content_bytes

    def receive(self, label: int) -> Message:
        """Return the message with this label, or a future for it; MPyC's own protocols call this too."""
        message = self.buffers.pop(label, None)
        if isinstance(message, bytes):
            self._unread -= len(message)
            return message
        assert self.peer_pid is not None
        future = self.runtime.bounded(self.peer_pid)
        self.buffers[label] = future
        self._refuse_vain_waits()
        return future

    def data_received(self, data: bytes) -> None:
        """Take what arrived apart into messages; whatever breaks the rules ends the run."""
        self.bytes.extend(data)
        try:
            if self.peer_pid is None:
                self._learn_peer()
            if self.peer_pid is not None:
                self._split_messages()
        except ProtocolFailure as error:
            self.runtime.fail(error)
            self.transport.abort()

    def pause_writing(self) -> None:
        """Let senders wait while the peer is slow, but not for ever."""
        assert self.peer_pid is not None
        self._resumed = self.runtime.bounded(self.peer_pid)

    def resume_writing(self) -> None:
        """Let senders go on: the peer has caught up."""
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)
        self._resumed = None

    def close_connection(self) -> None:
        """Close the link, unless it is closing: Python 3.11.2 cannot abort a TLS transport that was closed twice."""
        if not self.transport.is_closing():
            super().close_connection()

    def connection_lost(self, error: Exception | None) -> None:
        """End the run because the link is gone, unless a newer one replaced it or both sides had said farewell."""
        self.closed.set_result(None)
        replaced = self.peer_pid is not None and self.runtime.links.get(self.peer_pid) is not self
        if self.peer_pid is None or replaced or (self._finished and self._took_leave):
            return
        self.runtime.fail(PartyLost(f"lost {called(self.peer_pid)}: {error or 'it closed the link'}", self.peer_pid))

    def _learn_peer(self) -> None:
        """Bind the number that the peer claims to the certificate that it has proven to hold."""
        if len(self.bytes) < _PARTY_NUMBER_BYTES:
            return
        claimed = int.from_bytes(self.bytes[:_PARTY_NUMBER_BYTES], "little")
        names = certified_names(self.transport.get_extra_info("peercert"))
        if names in [[party_name(server)] for server in self.runtime.settings.without]:
            self.introduced.set_exception(ConnectionRefusedError(f"{names[0]} called, but is left out of this run"))
            self.transport.abort()
            return
        if names != [party_name(claimed)]:
            raise PartyImpersonated(f"a peer with the certificate of {names} claimed to be {called(claimed)}", claimed)
        if claimed >= self.runtime.pid:
            raise PartyImpersonated(f"{called(claimed)} connected out of turn", claimed)
        del self.bytes[:_PARTY_NUMBER_BYTES]
        self.peer_pid = claimed
        # A party that lost power and has started again dials anew, and its earlier link may never break on this side.
        # Nothing was sent over that link yet: callers are accepted only until all parties are linked.
        earlier = self.runtime.links.get(claimed)
        self.runtime.set_protocol(claimed, self)
        self.introduced.set_result(None)
        if earlier is not None:
            earlier.transport.abort()

    def _split_messages(self) -> None:
        limit = self.runtime.settings.frame_limit
        while len(self.bytes) >= _MESSAGE.size:
            label, size = _MESSAGE.unpack_from(self.bytes)
            if self._unread + size > limit:
                why = f"{called(self.peer_pid)} announced {size} bytes with {self._unread} unread; the limit is {limit}"
                raise MalformedFrame(why, self.peer_pid)
            end = _MESSAGE.size + size
            if len(self.bytes) < end:
                return
            with memoryview(self.bytes) as view:
                payload = bytes(view[_MESSAGE.size : end])
            del self.bytes[:end]
            self._deliver(label, payload)

    def _deliver(self, label: int, payload: bytes) -> None:
        """Hand a message to anyone who waits for it, or keep it."""
        if label not in FRAME_LABELS:
            self._payload_received += len(payload)
        waiting = self.buffers.get(label)
        if isinstance(waiting, asyncio.Future):
            del self.buffers[label]
            if not waiting.done():
                waiting.set_result(payload)
        elif waiting is None:
            if len(self.buffers) >= MOST_UNREAD:
                why = f"{called(self.peer_pid)} sent more than {MOST_UNREAD} messages that no one has read"
                raise MalformedFrame(why, self.peer_pid)
            self.buffers[label] = payload
            self._unread += len(payload)
        else:
            raise MalformedFrame(f"{called(self.peer_pid)} sent two messages under one label", self.peer_pid)
        if label == FAREWELL:
            self._finished = True
            self._settle_account()
            self._refuse_vain_waits()

    def _settle_account(self) -> None:
        """Read the counters after both farewells: from then on the peer may close, and the kernel forgets the link."""
        if self._finished and self._took_leave and self._final_traffic is None:
            self._final_traffic = self.traffic

    def _refuse_vain_waits(self) -> None:
        """Fail if a message is awaited that cannot come: bytes arrive in order, and a farewell is the last."""
        gone = self._finished or self.closed.done()
        if gone and any(isinstance(message, asyncio.Future) for message in self.buffers.values()):
            why = f"{called(self.peer_pid)} took its leave before it had sent all that was awaited"
            self.runtime.fail(PartyMissing(why, self.peer_pid))
