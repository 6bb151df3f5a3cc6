"""Run the process of a door, and answer what it forwards: the opener's end.

The process (`door_process`) parses what strangers send and has nothing worth taking: no key, no store, no outbox, no
identity, and where the system has Landlock no file and no connection but those it was given. It knows neither the
collection nor its state: before it reads a body it asks here, and every answer is made here by the same functions that
answer at the pinned port.

Promised: what the process sends is bounded, and a process that breaks the rules, or ends, is replaced; nothing that was
acknowledged depends on it. It ends with this process. Not promised: that it tells of everybody who came, or their
true addresses: whoever takes it over can deny, and repeat what he has seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from dpmpc.collection.admission import Limits
from dpmpc.collection.confinement import can_confine
from dpmpc.collection.door_frames import (
    PIECE_BYTES,
    SMALL_BYTES,
    AnswerHead,
    DoorCounts,
    DoorFacts,
    DoorFrame,
    DoorKind,
    RequestHead,
    encode_answer,
    read_frame,
)
from dpmpc.collection.logs import configuration
from dpmpc.collection.proxy_protocol import Proxies
from dpmpc.errors import InputError, ProtocolFailure

LOGGER = logging.getLogger("dpmpc.collection")
START_SECONDS = 60.0  # until a new process accepts connections
STOP_SECONDS = 12.0  # for the requests that have begun
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # before a process is replaced
LASTING_SECONDS = 60.0  # after which the first pause holds again
_LONGEST_DIGEST = 64  # characters of one
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ")

Handler = Callable[[Any], Awaitable[Any]]


class DoorRequest:
    """A request that came through the door, as functions that answer requests of aiohttp see it."""

    headers: Mapping[str, str] = {}  # none of them is forwarded
    transport = None

    def __init__(self, head: RequestHead, method: str, path: str, ask: Callable[[], Awaitable[bytes]]):
        self.method, self.path, self.remote, self.content_length = method, path, head.remote, head.length
        self.match_info = {"digest": head.digest}
        self.protocol = self
        self.ended = False
        self._ask = ask

    async def read(self) -> bytes:
        """Have the door read the body."""
        body = await self._ask()
        if len(body) != self.content_length:
            raise ProtocolFailure(f"door: a body of {len(body)} bytes given, {self.content_length} expected")
        return body

    def force_close(self) -> None:
        """Have the door close the connection after the answer."""
        self.ended = True


class _Conversation:
    """What one process sends and is sent; its answers go to no other."""

    def __init__(self, link: DoorLink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._link, self._reader, self._writer = link, reader, writer
        self._open: dict[int, asyncio.Future[bytes] | None] = {}  # requests, and the bodies that some of them wait for
        self._files: dict[int, tuple[Path, int]] = {}  # of answers that are not complete: where, and from which byte
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Answer what the process sends until it ends."""
        link = self._link
        with contextlib.suppress(asyncio.IncompleteReadError):
            await self._send(DoorFrame(0, DoorKind.FACTS, msgspec.json.encode(link.facts)))
            async with asyncio.timeout(START_SECONDS):
                frame = await read_frame(self._reader, SMALL_BYTES)
            if frame.kind != DoorKind.READY:
                raise ProtocolFailure(f"door: a frame of kind {frame.kind} given, {DoorKind.READY} expected")
            link.tell_ready()
            while True:
                await self._writer.drain()  # of a door that does not read its answers no more is read
                self._take(await read_frame(self._reader, max(link.facts.longest, SMALL_BYTES)))

    def end(self) -> None:
        """Let no request wait for a body any more; what is being stored is stored."""
        for body in self._open.values():
            if body is not None and not body.done():
                body.set_exception(ConnectionResetError("the door has ended"))
        self._open.clear()
        self._writer.close()

    def _take(self, frame: DoorFrame) -> None:
        """Do what one frame says."""
        if frame.kind == DoorKind.REQUEST:
            most = 2 * self._link.limits.connections
            if frame.number in self._open or len(self._open) > most or len(self._files) > most:
                raise ProtocolFailure("door: too many requests at once, or two with one number")
            head = msgspec.json.decode(frame.content, type=RequestHead)
            if not 0 <= head.route < len(self._link.handlers) or len(head.digest) > _LONGEST_DIGEST:
                raise ProtocolFailure("door: a request for nothing that is here")
            self._open[frame.number] = None
            self._start(self._answer(frame.number, head))
        elif frame.kind in (DoorKind.BODY, DoorKind.BROKEN):
            body = self._open.get(frame.number)
            if body is None or body.done():
                return  # it came too late: the request is answered
            if frame.kind == DoorKind.BODY:
                body.set_result(frame.content)
            else:
                body.set_exception(ConnectionResetError("the client has left"))
        elif frame.kind == DoorKind.MORE:
            if frame.number in self._files:
                self._start(self._send_piece(frame.number, []))
        elif frame.kind == DoorKind.COUNTS:
            self._link.count(msgspec.json.decode(frame.content, type=DoorCounts))
        else:
            raise ProtocolFailure(f"door: a frame of kind {frame.kind} given")

    def _start(self, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(job)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, number: int, head: RequestHead) -> None:
        """Have a request answered as at the pinned port, and send the answer."""
        (method, path), handler = self._link.handlers[head.route]
        request = DoorRequest(head, method, path, lambda: self._body(number))
        try:
            response = await handler(request)
        except (ConnectionError, ProtocolFailure):  # nobody is there to be answered
            await self._send(DoorFrame(number, DoorKind.ANSWER, encode_answer(AnswerHead(400, [], end=True), b"")))
            return
        finally:
            self._open.pop(number, None)
        headers = [(str(name), value) for name, value in response.headers.items() if name != "Content-Length"]
        if isinstance(response, web.FileResponse):
            self._files[number] = Path(response._path), 0
            await self._send_piece(number, headers)
            return
        answer = AnswerHead(response.status, headers, end=request.ended)
        await self._send(DoorFrame(number, DoorKind.ANSWER, encode_answer(answer, bytes(response.body or b""))))

    async def _send_piece(self, number: int, headers: list[tuple[str, str]]) -> None:
        """Send the next piece of a file."""
        path, start = self._files.pop(number)
        try:
            piece, left = await asyncio.to_thread(_piece, path, start)
        except OSError as error:
            LOGGER.error("%s: %s", path, error.strerror)
            piece, left = b"", 0
        if left:
            self._files[number] = path, start + len(piece)
        head = AnswerHead(200 if piece else 404, headers, left)
        await self._send(DoorFrame(number, DoorKind.ANSWER, encode_answer(head, piece)))

    async def _body(self, number: int) -> bytes:
        """Have the door read a body."""
        if number not in self._open:
            raise ConnectionResetError("the door has ended")
        body = self._open[number] = asyncio.get_running_loop().create_future()
        await self._send(DoorFrame(number, DoorKind.SEND, b""))
        content: bytes = await body
        return content

    async def _send(self, frame: DoorFrame) -> None:
        with contextlib.suppress(ConnectionError):  # noticed where frames are read
            self._writer.write(frame.encoded())
            await self._writer.drain()


class DoorLink:
    """The process of one door, started again when it ends."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        routes: Mapping[tuple[str, str], Handler],
        longest: int,
        limits: Limits,
        on_refused: Callable[[str], object],
        proxies: Proxies,
    ):
        self.handlers, self.limits = list(routes.items()), limits
        self._listeners, self._on_refused = listeners, on_refused
        numbers = {name: float(value) for name, value in dataclasses.asdict(limits).items()}
        self.facts = DoorFacts(list(routes), longest, numbers, can_confine(), configuration(), proxies.networks)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self.ready = asyncio.Event()
        self.connections = 0

    async def run(self) -> None:
        """Keep a process running until `stop`, or until cancelled."""
        if not self.facts.confined:
            LOGGER.warning(
                "the door's process is not confined on this system: whoever takes it over reads this folder, too"
            )
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        while not self._stopping:
            began, why = loop.time(), "it has ended"
            try:
                await self._serve()
            except (ProtocolFailure, msgspec.DecodeError, OSError, TimeoutError) as error:
                why = f"{type(error).__name__}: {error}"
            if not self._stopping:
                LOGGER.error("the door's process is replaced: %s", why)
                pause = FIRST_PAUSE if loop.time() - began > LASTING_SECONDS else min(LONGEST_PAUSE, 2 * pause)
                await asyncio.sleep(pause)

    async def stop(self) -> None:
        """Let the process finish the requests that have begun, and end."""
        self._stopping = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, STOP_SECONDS)

    def tell_ready(self) -> None:
        """Note that the process accepts connections."""
        assert self._process is not None
        LOGGER.info("the door's process is %d", self._process.pid)
        self.ready.set()

    def count(self, counts: DoorCounts) -> None:
        """Note how many connections the process has, and has refused."""
        self.connections = counts.open
        for reason in set(counts.refused) & {"connections", "handshakes", "idle", "proxy"}:
            for _ in range(min(counts.refused[reason], self.limits.connections)):
                self._on_refused(reason)

    async def _serve(self) -> None:
        own, inherited = socket.socketpair()
        with inherited:
            descriptors = [inherited.fileno(), *(listener.fileno() for listener in self._listeners)]
            process = self._process = await asyncio.to_thread(_start, descriptors)
        reader, writer = await asyncio.open_connection(sock=own)
        conversation = _Conversation(self, reader, writer)
        try:
            await conversation.run()
        finally:
            self.ready.clear()
            self.connections = 0
            conversation.end()
            process.kill()
            process.wait()  # at once: it was killed


def require_apart(folder: Path, readable: Sequence[Path]) -> None:
    """Refuse a server's folder that the door's process could read."""
    for each in readable:
        if folder.resolve().is_relative_to(each.resolve()):
            raise InputError(f"folder: {folder} lies in {each}, which the door's process may read; another expected")


def _start(descriptors: list[int]) -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "dpmpc.collection.door_process", *map(str, descriptors)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environment,
        pass_fds=descriptors,
        start_new_session=True,  # an interrupt at the terminal is for this process, which then ends the door's
        cwd="/",
    )


def _piece(path: Path, start: int) -> tuple[bytes, int]:
    """Return some bytes of a file, and how many come after them."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(start)
        piece = file.read(PIECE_BYTES)
    return piece, max(0, size - start - len(piece))
