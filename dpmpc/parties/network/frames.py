"""Encode and decode the messages between parties: one fixed binary layout, checked before a byte of it is used.

======  =====  ==================================================================
offset  bytes  field (integers are unsigned and little-endian)
======  =====  ==================================================================
0       8      magic, ``dpmpcfrm``
8       1      version, 2
9       1      kind: what the frame is for, `Kind`
10      1      content: 0 nothing, 1 raw bytes, 2 an array of 64-bit words
11      1      ndim: 0 for nothing, 1 for bytes, 1 to 4 for an array
12      4      sender, a party number
16      32     task: the digest of what sender and receiver agreed to do
48      8      length of the payload in bytes
56      8 n    shape, `ndim` numbers
...            payload, row-major; the words start at a multiple of 8 bytes
======  =====  ==================================================================

`decode` trusts nothing: each field must be what the receiver expects, the length must follow from the shape, and not a
byte may be missing or left over. Whatever the bytes are, it either returns the frame or raises a `ProtocolFailure`
that names the peer; no code in a peer's bytes is ever run. It does not promise that the content is *true*: a server
that lies about its share is caught, if at all, by the sharing scheme.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import struct

import numpy as np

from dpmpc.base.arguments import require_bytes, require_whole
from dpmpc.base.arrays import Words
from dpmpc.base.errors import BatchMismatch, InputError, MalformedFrame, PartyImpersonated, ProtocolFailure
from dpmpc.parties.network.naming import called

MAGIC = b"dpmpcfrm"
VERSION = 2
TASK_BYTES = 32
PARTIES = 1 << 16  # their numbers are below this
MAX_DIMENSIONS = 4
WORD = np.dtype("<u8")
_HEADER = struct.Struct(f"<8sBBBBI{TASK_BYTES}sQ")
_PICKLES = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))

Content = Words | bytes | None


class Kind(enum.IntEnum):
    """What a frame is for; a receiver always knows which kind comes next."""

    HELLO = 1
    BARRIER = 2
    GOODBYE = 3
    SHARE = 16
    COMMITMENT = 17
    OPENING = 18
    DIGEST = 19
    RESULT = 20
    VERDICT = 22
    STANDING = 23
    IDS = 24
    STATEMENT = 25
    SIGNATURE = 26
    COST = 27
    NONCE = 28
    ECHO = 29
    DISPUTE = 30
    SALT = 32
    LEFT_OUT = 40
    SEED = 41
    CHECK = 42
    POINT = 46
    SEEDS = 47
    PROOF = 48
    NOISE = 49
    NOISE_PROOF = 50
    MISFITS = 52


class ContentType(enum.IntEnum):
    """What the payload of a frame holds."""

    NOTHING = 0
    BYTES = 1
    WORDS = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """One message."""

    kind: Kind  # what the frame is for
    sender: int  # the number of the party that sends it
    task: bytes  # 32 bytes, the digest of the task that both parties agreed on
    content: Content = None  # what is sent

    def __post_init__(self) -> None:
        require_bytes("task", self.task, TASK_BYTES)
        require_whole("sender", self.sender, 0, PARTIES - 1)
        if isinstance(self.content, np.ndarray):
            if self.content.dtype != WORD:
                raise InputError("content", f"dtype {self.content.dtype}", "uint64")
            if not 1 <= self.content.ndim <= MAX_DIMENSIONS:
                raise InputError("content", f"{self.content.ndim} dimensions", f"1 to {MAX_DIMENSIONS}")

    @property
    def content_type(self) -> ContentType:
        """What the payload holds."""
        if self.content is None:
            return ContentType.NOTHING
        return ContentType.BYTES if isinstance(self.content, bytes) else ContentType.WORDS

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array, the length of the bytes, or nothing."""
        if self.content is None:
            return ()
        return (len(self.content),) if isinstance(self.content, bytes) else self.content.shape

    @property
    def words(self) -> Words:
        """The content of a frame that carries an array."""
        assert isinstance(self.content, np.ndarray), "the receiver asked for another type of content"
        return self.content

    @property
    def raw(self) -> bytes:
        """The content of a frame that carries bytes."""
        assert isinstance(self.content, bytes), "the receiver asked for another type of content"
        return self.content

    @property
    def content_bytes(self) -> int:
        """Length of the payload: what is sent beyond the header."""
        return _payload_bytes(self.content_type, self.shape)


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What a receiver knows about the next frame before it arrives."""

    kind: Kind  # what the frame has to be for
    sender: int  # the party at the other end of the link
    task: bytes  # 32 bytes, the digest of the receiver's own task
    content: ContentType = ContentType.NOTHING  # what the payload has to hold
    shape: tuple[int, ...] | None = None  # the exact shape; any is accepted where None is given


class Disputed(ProtocolFailure):
    """A peer has heard other announcements than this party, or ends the run: see `dpmpc.parties.network.announcing`."""

    def __init__(self, peer: int, frame: Frame | None = None):
        super().__init__(f"{called(peer)} ended the run in a dispute about what was announced")
        self.peer = peer
        self.frame = frame


def kind_of(data: bytes) -> Kind | None:
    """Return the kind that a frame states, or None for bytes without a header of this version or a known kind."""
    if len(data) < _HEADER.size:
        return None
    magic, version, kind, *_ = _HEADER.unpack_from(data)
    return Kind(kind) if (magic, version) == (MAGIC, VERSION) and kind in set(Kind) else None


def encode(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    header = _HEADER.pack(
        MAGIC,
        VERSION,
        frame.kind,
        frame.content_type,
        len(frame.shape),
        frame.sender,
        frame.task,
        frame.content_bytes,
    )
    shape = struct.pack(f"<{len(frame.shape)}Q", *frame.shape)
    if isinstance(frame.content, np.ndarray):
        return b"".join((header, shape, np.ascontiguousarray(frame.content, WORD).data))
    return b"".join((header, shape, frame.content or b""))


def decode(data: bytes, expected: Expectation) -> Frame:
    """Return the frame that `data` holds, if it is the one that was expected."""
    if len(data) < _HEADER.size:
        raise _malformed(expected, f"{len(data)} bytes, a header has {_HEADER.size}{_pickle_remark(data)}")
    magic, version, kind, content, ndim, sender, task, length = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _malformed(expected, f"it does not begin with {MAGIC!r}{_pickle_remark(data)}")
    if version != VERSION:
        raise _malformed(expected, f"version {version} given, {VERSION} expected: the sender runs another dpmpc")
    if sender != expected.sender:
        raise PartyImpersonated(
            f"{called(expected.sender)} sent a frame in the name of {called(sender)}", expected.sender
        )
    if kind != expected.kind:
        raise _malformed(expected, f"kind {kind}, {expected.kind.value} ({expected.kind.name}) expected")
    if task != expected.task:
        raise BatchMismatch(
            f"{called(sender)} works on task {task.hex()[:16]}..., we on {expected.task.hex()[:16]}...", sender
        )
    if content != expected.content:
        raise _malformed(
            expected, f"content type {content}, {expected.content.value} ({expected.content.name}) expected"
        )
    shape = _shape(data, ndim, expected)
    payload = memoryview(data)[_HEADER.size + 8 * ndim :]
    if not length == len(payload) == _payload_bytes(expected.content, shape):
        raise _malformed(expected, f"shape {shape}, announced length {length}, {len(payload)} bytes of payload")
    return Frame(expected.kind, sender, task, _content(payload, expected.content, shape))


def _shape(data: bytes, ndim: int, expected: Expectation) -> tuple[int, ...]:
    """Read the shape, or refuse a number of dimensions or a shape that does not fit."""
    allowed = {ContentType.NOTHING: (0, 0), ContentType.BYTES: (1, 1), ContentType.WORDS: (1, MAX_DIMENSIONS)}
    least, most = allowed[expected.content]
    if not least <= ndim <= most or len(data) < _HEADER.size + 8 * ndim:
        raise _malformed(expected, f"{ndim} dimensions in {len(data)} bytes")
    shape: tuple[int, ...] = struct.unpack_from(f"<{ndim}Q", data, _HEADER.size)
    if expected.shape is not None and shape != expected.shape:
        raise _malformed(expected, f"shape {shape}, {expected.shape} expected")
    if math.prod(max(side, 1) for side in shape) >= 1 << 60:  # an array of no words may still have absurd sides
        raise _malformed(expected, f"shape {shape}")
    return shape


def _payload_bytes(content: ContentType, shape: tuple[int, ...]) -> int:
    """Return the length that a payload of this type and shape has."""
    if content is ContentType.NOTHING:
        return 0
    return math.prod(shape) * (WORD.itemsize if content is ContentType.WORDS else 1)


def _content(payload: memoryview, content: ContentType, shape: tuple[int, ...]) -> Content:
    if content is ContentType.NOTHING:
        return None
    if content is ContentType.BYTES:
        return bytes(payload)
    return np.frombuffer(payload, WORD).reshape(shape)


def malformed_frame(party: int, kind: Kind, why: object) -> MalformedFrame:
    """Return the error that states why what a party sent is not a frame of this kind, or holds what it must not."""
    return MalformedFrame(f"{called(party)} sent no valid {kind.name} frame: {why}", party)


def _malformed(expected: Expectation, why: str) -> MalformedFrame:
    return malformed_frame(expected.sender, expected.kind, why)


def _pickle_remark(data: bytes) -> str:
    """Return a remark if the bytes look like a pickle: the peer runs plain MPyC, or attacks."""
    return "; it looks like a pickle, which is never read" if data.startswith(_PICKLES) else ""
