"""Parse the HTTP of strangers at a door, in a process that has nothing else: run as a module by `door_link`.

Its listening sockets and a socket to the opener are inherited. It is told paths and limits, and confines itself
(`confinement`) before it reads the first byte of a stranger. Whatever is asked, and by whom, it forwards; a body only
once the opener says so.

Promised: a body is as long as announced, and at most as long as it was told; connections, and how slow they may be,
are bounded as at the pinned port. It ends when the opener does. Not promised: that two requests of one connection are
answered before it ends, if the opener ends first.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import logging
import signal
import socket
import sys
from typing import Any

import msgspec
from aiohttp import web

from dpmpc.collection.admission import Limits
from dpmpc.collection.confinement import confine, program_folders
from dpmpc.collection.connections import IdleTimeout, LimitedListener, start_http
from dpmpc.collection.door_frames import (
    SMALL_BYTES,
    AnswerHead,
    DoorCounts,
    DoorFacts,
    DoorFrame,
    DoorKind,
    RequestHead,
    decode_answer,
    read_frame,
)
from dpmpc.collection.logs import RateLimitedLogger, configure
from dpmpc.collection.proxy_protocol import Proxies
from dpmpc.collection.replies import answer_errors
from dpmpc.network.sockets import TrackedSocket

LOGGER = logging.getLogger("dpmpc.collection")
COUNT_SECONDS = 1.0
_LONGEST_ANSWER = 1 << 30  # of the opener, which is trusted


class Forwarder:
    """The requests of one door."""

    def __init__(self, facts: DoorFacts, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.facts, self._reader, self._writer = facts, reader, writer
        self._numbers = itertools.cycle(range(1, 1 << 32))
        self._waiting: dict[int, asyncio.Queue[DoorFrame]] = {}
        self.refused: collections.Counter[str] = collections.Counter()

    def application(self) -> Any:
        """Return the aiohttp application."""
        log = RateLimitedLogger(LOGGER)
        application = web.Application(client_max_size=self.facts.longest, middlewares=[answer_errors(log)])
        for route, (method, path) in enumerate(self.facts.routes):
            application.router.add_route(method, path, lambda request, route=route: self._forward(request, route))
        application.on_response_prepare.append(_for_any_origin)
        return application

    async def run(self) -> None:
        """Take what the opener sends, until it ends."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await read_frame(self._reader, _LONGEST_ANSWER)
                if frame.number in self._waiting:
                    self._waiting[frame.number].put_nowait(frame)

    async def count(self, listener: LimitedListener) -> None:
        """Tell the opener at times how many connections there are."""
        while True:
            await asyncio.sleep(COUNT_SECONDS)
            counts = DoorCounts(len(listener), dict(self.refused))
            self.refused.clear()
            await self.send(DoorFrame(0, DoorKind.COUNTS, msgspec.json.encode(counts)))

    async def send(self, frame: DoorFrame) -> None:
        """Send the opener a frame."""
        self._writer.write(frame.encoded())
        await self._writer.drain()

    async def _forward(self, request: Any, route: int) -> Any:
        number = next(self._numbers)
        frames = self._waiting[number] = asyncio.Queue()
        try:
            digest = request.match_info.get("digest", "")[: 2 * 32]
            head = RequestHead(route, digest, request.remote or "", request.content_length)
            await self.send(DoorFrame(number, DoorKind.REQUEST, msgspec.json.encode(head)))
            frame = await frames.get()
            if frame.kind == DoorKind.SEND:
                frame = await self._send_body(request, number, frames)
            answer, body = decode_answer(frame.content)
            if not answer.left:
                return _end(request, answer, web.Response(status=answer.status, body=body, headers=answer.headers))
            return await self._stream(request, number, frames, answer, body)
        finally:
            del self._waiting[number]

    async def _send_body(self, request: Any, number: int, frames: asyncio.Queue[DoorFrame]) -> DoorFrame:
        """Read a body for the opener, unless it answers first, since that takes too long; return its answer."""
        reading, answering = asyncio.ensure_future(request.read()), asyncio.ensure_future(frames.get())
        try:
            await asyncio.wait([reading, answering], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                failed = reading.exception() is not None
                content = b"" if failed else reading.result()
                await self.send(DoorFrame(number, DoorKind.BROKEN if failed else DoorKind.BODY, content))
            return await answering
        finally:
            reading.cancel()
            answering.cancel()

    async def _stream(
        self, request: Any, number: int, frames: asyncio.Queue[DoorFrame], answer: AnswerHead, body: bytes
    ) -> Any:
        """Answer with a file that comes in pieces, each when the client has taken the one before."""
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.content_length = len(body) + answer.left
        await response.prepare(request)
        await response.write(body)
        while answer.left:
            await self.send(DoorFrame(number, DoorKind.MORE, b""))
            answer, body = decode_answer((await frames.get()).content)
            await response.write(body)
        return response


def _end(request: Any, answer: AnswerHead, response: Any) -> Any:
    if answer.end:
        response.force_close()
        request.protocol.force_close()
    return response


async def _for_any_origin(request: Any, response: Any) -> None:
    """Let pages of any origin read what the door answers: it asks for no credentials, and says nothing secret."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    if request.method == "OPTIONS":
        response.headers["Access-Control-Allow-Methods"] = "POST"
        response.headers["Access-Control-Allow-Headers"] = "Content-Type"
        response.headers["Access-Control-Max-Age"] = "86400"


async def serve_door(opener: socket.socket, listeners: list[TrackedSocket]) -> None:
    """Forward until a signal arrives or the opener ends."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    reader, writer = await asyncio.open_connection(sock=opener)
    facts = msgspec.json.decode((await read_frame(reader, SMALL_BYTES)).content, type=DoorFacts)
    configure(*facts.log)
    if facts.confined:
        confine(program_folders())
    limits = Limits(**{name: type(getattr(Limits(), name))(value) for name, value in facts.limits.items()})
    forwarder, idle = Forwarder(facts, reader, writer), IdleTimeout(limits)
    runner = await start_http(idle, forwarder.application(), limits)
    log, proxies = RateLimitedLogger(LOGGER), Proxies(facts.proxied)
    listener = LimitedListener(idle, limits, None, log, lambda reason: forwarder.refused.update([reason]), proxies)
    jobs = [forwarder.run(), listener.accept(listeners), idle.sweep(), forwarder.count(listener)]
    tasks = [asyncio.create_task(job) for job in jobs]
    await forwarder.send(DoorFrame(0, DoorKind.READY, b""))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    for task in tasks[1:]:
        task.cancel()
    for own in listeners:
        own.close()
    await runner.cleanup()  # the requests that have begun are still forwarded
    tasks[0].cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended


def main() -> None:
    """Begin with what was inherited."""
    opener, *listeners = (int(text) for text in sys.argv[1:])
    inherited = [TrackedSocket(fileno=descriptor) for descriptor in listeners]
    for listener in inherited:
        listener.setblocking(False)
    asyncio.run(serve_door(socket.socket(fileno=opener), inherited))


if __name__ == "__main__":
    main()
