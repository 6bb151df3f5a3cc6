"""An exchange in which nobody sees what the others say before its own words are fixed, and all are told the same.

1. Each party commits to its content: SHA-256 over a label, its number, the task, the step, 32 random bytes and the
   content.
2. When all commitments are there, the parties compare a digest of them. A party that has committed to different
   contents towards different parties ends the run here, before anybody has shown anything.
3. All show their contents, and each checks them against the commitments.

Promised: a content does not depend on another party's in the same step, and all parties read the same (SHA-256 as a
random oracle; the random bytes hide contents that could be guessed). Not promised: that a party shows its content after
it has read the others', or that it shows the same content when the program runs again. A step that may be repeated
takes the random bytes that it had before, so that the commitment is the same, and a function that keeps everybody's
commitments, and refuses others. A party sends its random bytes after it has kept the commitments, and its content after
it has the random bytes of all others: so nobody honest shows a content while another honest party may still crash
without having kept them. Where digests differ among three parties or more, an error names nobody: one of them lies, and
it may be the one whose digest differs or the one that told two stories.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import BatchMismatch, MalformedFrame
from dpmpc.network.coins import exchange_bytes
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.party import Party
from dpmpc.randomness import Label, Stream

DIGEST_BYTES = NONCE_BYTES = 32


@dataclasses.dataclass(frozen=True)
class Fixed:
    """What everybody has committed to in a step."""

    step: str  # its name, which occurs once in a program
    task: bytes  # what the parties work on
    nonce: bytes  # this party's random bytes
    commitments: Mapping[int, bytes]  # by party

    def require(self, number: int, nonce: bytes, content: bytes | memoryview) -> None:
        """Refuse a content that is not the one that a party has committed to."""
        if not hmac.compare_digest(
            content_commitment(number, self.task, self.step, nonce, content), self.commitments[number]
        ):
            raise MalformedFrame(f"party {number} has shown another {self.step} than it committed to", number)


def content_commitment(number: int, task: bytes, step: str, nonce: bytes, content: bytes | memoryview) -> bytes:
    """Return SHA-256(label || party, 4 bytes LE || task || SHA-256(step) || nonce || content)."""
    hashed = hashlib.sha256(Label.SIMULTANEOUS.value + number.to_bytes(4, "little") + task)
    hashed.update(hashlib.sha256(step.encode()).digest() + nonce)
    hashed.update(content)
    return hashed.digest()


async def fix(party: Party, step: str, content: bytes | memoryview, nonce: bytes | None = None) -> Fixed:
    """Commit to a content; return when all have, and all know the same commitments to the same step."""
    settings = party.runtime.settings
    nonce = nonce or Stream.from_os().bytes(NONCE_BYTES)
    own = content_commitment(party.pid, settings.task_digest, step, nonce, content)
    commitments = await exchange_bytes(party, Kind.COMMITMENT, own, DIGEST_BYTES)
    known = hashlib.sha256(hashlib.sha256(step.encode()).digest() + b"".join(commitments)).digest()
    for number, other in zip(
        settings.members, await exchange_bytes(party, Kind.DIGEST, known, DIGEST_BYTES), strict=True
    ):
        if other != known:
            alone = len(settings.members) == 2
            who = f"party {number} claims" if alone else f"party {number} claims, or was told,"
            raise BatchMismatch(
                f"{who} other commitments to the {step} than party {party.pid} knows", number if alone else None
            )
    return Fixed(step, settings.task_digest, nonce, dict(zip(settings.members, commitments, strict=True)))


async def show_bytes(party: Party, step: str, content: bytes) -> list[bytes]:
    """Exchange contents of the same length; return everybody's, in the order of the parties."""
    fixed = await fix(party, step, content)
    shown = await exchange_bytes(party, Kind.OPENING, fixed.nonce + content, NONCE_BYTES + len(content))
    for number, message in zip(fixed.commitments, shown, strict=True):
        fixed.require(number, message[:NONCE_BYTES], message[NONCE_BYTES:])
    return [message[NONCE_BYTES:] for message in shown]


async def show_words(
    party: Party,
    step: str,
    own: NDArray[np.uint64],
    shapes: Mapping[int, tuple[int, ...]],
    *,
    nonce: bytes | None = None,
    keep: Callable[[Mapping[int, bytes]], None] | None = None,
) -> list[NDArray[np.uint64]]:
    """Exchange arrays of 64-bit words, little-endian; return everybody's, in the order of the parties."""
    own = np.ascontiguousarray(own, "<u8")
    fixed = await fix(party, step, memoryview(own.data).cast("B"), nonce)
    if keep is not None:
        keep(fixed.commitments)
    # Also the sign that everybody has kept the commitments: no content is sent before all are here.
    nonces = await exchange_bytes(party, Kind.OPENING, fixed.nonce, NONCE_BYTES)
    for peer in party.runtime.peers:
        await party.runtime.send_frame(peer, party.runtime.frame(Kind.SHARE, own))
    shown = {party.pid: own}
    for peer in party.runtime.peers:
        shown[peer] = (await party.runtime.receive_frame(peer, Kind.SHARE, ContentType.WORDS, shapes[peer])).words
    for number, nonce in zip(fixed.commitments, nonces, strict=True):
        fixed.require(number, nonce, memoryview(shown[number].data).cast("B"))
    return [shown[number] for number in sorted(shown)]
