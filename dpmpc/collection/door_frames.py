"""Say how a door's process and the opener talk, over a socket that only these two have.

======================  =============================================================================
4 bytes                 length of the content, little-endian
4                       number of the request, chosen by the door; 0 for none
1                       kind
content                 JSON, but for `DoorKind.BODY`, and what follows the head of `DoorKind.ANSWER`
======================  =============================================================================

The door asks `DoorKind.REQUEST` before it reads a body; the opener refuses, or says `DoorKind.SEND`, gets
`DoorKind.BODY` and answers. A long answer, which is a file, comes in pieces: the door asks for the next by
`DoorKind.MORE`.

Promised: both ends refuse a frame that is longer than what they expect, before they read it. Not promised: that a door
says the truth of anybody's address, or forwards anything.
"""

from __future__ import annotations

import asyncio
import enum
from typing import NamedTuple

import msgspec

from dpmpc.errors import ProtocolFailure

HEAD_BYTES = 9
PIECE_BYTES = 1 << 18  # of a file, in one answer
SMALL_BYTES = 1 << 16  # longest content of a frame with neither a body nor an answer


class DoorKind(enum.IntEnum):
    """What a frame is."""

    FACTS = 1  # to the door, first
    READY = 2  # from the door: it accepts connections
    REQUEST = 3
    SEND = 4  # to the door: read the body
    BODY = 5
    BROKEN = 6  # from the door: there is no body, since the connection broke
    ANSWER = 7
    MORE = 8
    COUNTS = 9  # from the door: its connections


class DoorFrame(NamedTuple):
    """One message."""

    number: int
    kind: int
    content: bytes

    def encoded(self) -> bytes:
        """Return its bytes."""
        head = len(self.content).to_bytes(4, "little") + self.number.to_bytes(4, "little")
        return head + bytes([self.kind]) + self.content


class DoorFacts(msgspec.Struct, frozen=True):
    """What a door's process has to know, none of it secret."""

    routes: list[tuple[str, str]]  # methods and paths, with ``{digest}`` for any collection
    longest: int  # bytes of a body
    limits: dict[str, float]
    confined: bool  # whether it has to be
    log: tuple[str, str]  # level and form
    proxied: list[str]  # networks of proxies that name their callers


class RequestHead(msgspec.Struct, frozen=True):
    """A request, without its body."""

    route: int
    digest: str
    remote: str
    length: int | None


class AnswerHead(msgspec.Struct, frozen=True):
    """An answer, without its content."""

    status: int
    headers: list[tuple[str, str]]
    left: int = 0  # bytes of the file that come after this piece
    end: bool = False  # whether the connection is to be closed


class DoorCounts(msgspec.Struct, frozen=True):
    """Connections of a door: how many are open, and how many were refused since the last frame, by the cause."""

    open: int
    refused: dict[str, int]


async def read_frame(reader: asyncio.StreamReader, longest: int) -> DoorFrame:
    """Return the next frame, or refuse one that is too long."""
    head = await reader.readexactly(HEAD_BYTES)
    length = int.from_bytes(head[:4], "little")
    if length > longest:
        raise ProtocolFailure(f"door: a frame of {length} bytes given, at most {longest} expected")
    return DoorFrame(int.from_bytes(head[4:8], "little"), head[8], await reader.readexactly(length))


def encode_answer(head: AnswerHead, body: bytes) -> bytes:
    """Return the content of an answer."""
    encoded = msgspec.json.encode(head)
    return len(encoded).to_bytes(4, "little") + encoded + body


def decode_answer(content: bytes) -> tuple[AnswerHead, bytes]:
    """Return the head and the body of an answer."""
    stop = 4 + int.from_bytes(content[:4], "little")
    return msgspec.json.decode(content[4:stop], type=AnswerHead), content[stop:]
