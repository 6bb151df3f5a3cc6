"""What parties send to one another: the seven steps that every program of several parties is made of.

`exchange`  words or bytes to all, or to each its own, and every party's in return
`Heard`     the words of exchanges, hashed: each party announces the hash of its own, and who sent others is named
`announce`  a few bytes to all, signed: two stories are noticed and proven (`dpmpc.parties.network.announcing`)
`together`  a step of one's own that all take, or none goes on; anyone who refuses states why
`confirm`   the same digest at all
`reveal`    contents that are fixed before anybody shows one
`toss`      32 bytes that are uniform, and unknown to whoever is not a party, if one party draws its coin at random

To reveal, all announce SHA-256(step) || SHA-256(label || party || task || SHA-256(step) || nonce || content). When all
are known to have heard, and kept, the same commitments, they show nonces and contents: bytes are announced, words are
exchanged.

Promised: where `compare`, `together`, `confirm`, `reveal` or `toss` return at two honest parties, these have received
the same from each party up to then; a content that is revealed does not depend on another one of the same step (SHA-256
as a random oracle). Anyone who announces two things is named by all, if they get to compare what they received: a lost
link, or silence until the deadline, ends a run before. Anyone who sends other words than it has announced or committed
to is named by those that it sent them to, and by no party that knows it from them alone. A step that may be
repeated takes the nonce that it had before, and a function that keeps every party's commitments, and refuses others,
before anything is shown. Reasons that may hold paths or other words of a machine stay at that machine. Not promised:
that a step comes to an end; the last party to show its content has read all others.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

from dpmpc.base import errors
from dpmpc.base.arrays import Words
from dpmpc.base.errors import BatchMismatch, DpmpcError, InconsistentShares, MalformedFrame, ProtocolFailure
from dpmpc.base.randomness import Label, Stream
from dpmpc.base.untrusted import ReadError, printable, read_json
from dpmpc.parties.network.announcing import FLUSH_SECONDS, announce, settle
from dpmpc.parties.network.frames import ContentType, Kind, malformed_frame
from dpmpc.parties.network.naming import called
from dpmpc.parties.network.party import Party

Result = TypeVar("Result")

NONCE_BYTES = DIGEST_BYTES = COIN_BYTES = 32
WORDS_IN_A_FRAME = 1 << 20
_LONGEST_REASON = 4000  # characters of another party's words that are believed to be a reason
_LARGEST_REFUSAL = 1 << 16  # bytes
# Errors whose text holds public facts alone, and is told; of the others a party tells the type.
_TOLD = (
    *("GuaranteeError", "OverflowRisk", "TooFewClients", "AlreadyReleased", "CollectionClosed", "VerificationFailed"),
    *("BatchMismatch", "InconsistentShares", "PartyMissing", "MalformedFrame", "Equivocation"),
)
_REASONS = (*_TOLD, "InputError", "SpoolError", "ProtocolFailure", "DpmpcError")


class _Refusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a party does not go on; `party` is whom it blames, if any."""

    type: Annotated[str, msgspec.Meta(max_length=100)]
    message: Annotated[str, msgspec.Meta(max_length=_LONGEST_REASON)]
    party: int | None


async def exchange(
    party: Party,
    kind: Kind,
    own: Words | bytes | Mapping[int, Words],
    shapes: Mapping[int, tuple[int, ...]] | None = None,
) -> dict[int, Any]:
    """Send words or bytes to all other parties, by number where they differ; return every party's, in party order.

    What others send has the shape of one's own, unless `shapes` states otherwise.
    """
    runtime, given = party.runtime, own if isinstance(own, Mapping) else dict.fromkeys(party.present, own)
    mine = given[party.pid]
    if runtime.conversation is not None:
        await settle(party)  # what is not announced is sent by all or by none, and meets no dispute
    content = ContentType.BYTES if isinstance(mine, bytes) else ContentType.WORDS
    usual = (len(mine),) if isinstance(mine, bytes) else mine.shape
    frames = await runtime.exchange_frames(
        kind, {peer: given[peer] for peer in runtime.other_servers}, content, shapes or dict.fromkeys(given, usual)
    )
    return {number: mine if number == party.pid else frames[number].content for number in party.present}


def in_frames(rows: int, width: int = 1) -> Iterator[slice]:
    """Cut rows of words into parts that a frame holds."""
    step = max(1, WORDS_IN_A_FRAME // max(width, 1))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


class Heard:
    """The words that each party has sent in exchanges, as a hash; they were meant to be the same for all."""

    def __init__(self, party: Party):
        self._party, self._hashes = party, {number: hashlib.sha256() for number in party.present}

    def take(self, received: Mapping[int, Words]) -> None:
        """Add the words of an exchange."""
        for number, words in received.items():
            self._hashes[number].update(np.ascontiguousarray(words, "<u8").data)

    def require(self, announced: Mapping[int, bytes], what: str) -> None:
        """Refuse words that are not those whose SHA-256 their sender has announced to all."""
        for number, digest in announced.items():
            if self._hashes[number].digest() != digest:
                raise InconsistentShares(
                    f"{what}: {called(number)} sent {called(self._party.pid)} others than it announced to all. "
                    "Nothing was bound; the run can be repeated",
                    number,
                )

    async def compare(self, what: str) -> None:
        """Announce the hash of one's own words; return when all have received those of all others."""
        own = self._hashes[self._party.pid].digest()
        announced = await announce(self._party, Kind.DIGEST, own, len(own))
        await together(self._party, lambda: self.require(announced, what))


async def together(party: Party, step: Callable[[], Result]) -> Result:
    """Take a step of one's own, in a thread, and go on only if it succeeded at every party.

    If it failed anywhere, all take leave of one another first, so that each can tell the reason and not just that a
    link broke. A refusal that blames a party convicts no party at the others: it is what the refusing one states.
    """
    own: DpmpcError | None = None
    try:
        result = await asyncio.to_thread(step)
    except DpmpcError as error:
        own = error
    refusal = b"" if own is None else _describe(own)
    verdicts = await announce(party, Kind.VERDICT, refusal, largest=_LARGEST_REFUSAL)
    told = [_read_refusal(peer, verdict) for peer, verdict in verdicts.items() if verdict and peer != party.pid]
    if own is None and not told:
        return result
    await settle(party)  # all refuse, or somebody told different parties different things
    party.runtime.foresee(own or told[0])
    if party.analyst is None:
        await party.runtime.shutdown()
    else:  # who waits for sums, not for a farewell, and notices that the links are gone
        await asyncio.sleep(FLUSH_SECONDS)
    raise own or told[0]


async def confirm(party: Party, digest: bytes, what: str) -> None:
    """Return when every party has stated that it is here with the same digest."""
    for number, other in (await announce(party, Kind.DIGEST, digest, len(digest))).items():
        if other != digest:
            raise BatchMismatch(f"{what}: {called(number)} has {other.hex()}, we have {digest.hex()}", number)


def commitment(number: int, task: bytes, step: str, nonce: bytes, content: Words | bytes) -> bytes:
    """Return SHA-256(label || party, 4 bytes LE || task || SHA-256(step) || nonce || content); words are 8 bytes LE."""
    hashed = hashlib.sha256(Label.SIMULTANEOUS.value + number.to_bytes(4, "little") + task)
    hashed.update(hashlib.sha256(step.encode()).digest() + nonce)
    hashed.update(content if isinstance(content, bytes) else np.ascontiguousarray(content, "<u8").data)
    return hashed.digest()


async def reveal(
    party: Party,
    step: str,
    own: Words | bytes,
    shapes: Mapping[int, tuple[int, ...]] | None = None,
    *,
    nonce: bytes | None = None,
    keep: Callable[[Mapping[int, bytes]], None] | None = None,
) -> dict[int, Any]:
    """Commit to words, or to bytes of one length, then show them; return every party's, in party order.

    `step` occurs once in a program. `shapes` states what others show, where that differs. In a repetition `nonce` is
    that of the first run, and `keep`, which gets every party's commitments, refuses those that differ from the first
    run's.
    """
    task, nonce = party.runtime.settings.task_digest, nonce or Stream.from_os().bytes(NONCE_BYTES)
    place = hashlib.sha256(step.encode()).digest()
    told = await announce(
        party, Kind.COMMITMENT, place + commitment(party.pid, task, step, nonce, own), 2 * DIGEST_BYTES
    )
    await settle(party)  # nobody keeps, or shows words under, commitments that others have not received
    committed = {number: one[DIGEST_BYTES:] for number, one in told.items()}
    for number, one in told.items():
        if one[:DIGEST_BYTES] != place:
            raise BatchMismatch(f"{called(number)} commits to something else than the {step}", number)
    if keep is not None:
        await together(party, lambda: keep(committed))
        await settle(party)  # nobody shows anything while another one may have been told that not all have kept them
    if isinstance(own, bytes):
        opened = await announce(party, Kind.OPENING, nonce + own, NONCE_BYTES + len(own))
        nonces = {number: one[:NONCE_BYTES] for number, one in opened.items()}
        shown: dict[int, Any] = {number: one[NONCE_BYTES:] for number, one in opened.items()}
    else:
        nonces = await exchange(party, Kind.SALT, nonce)
        shown = await exchange(party, Kind.SHARE, own, shapes)

    def check() -> None:
        for number, content in shown.items():
            if not hmac.compare_digest(commitment(number, task, step, nonces[number], content), committed[number]):
                raise MalformedFrame(f"{called(number)} has shown another {step} than it committed to", number)

    await together(party, check)
    return shown


async def toss(party: Party, what: str, coin: bytes | None = None) -> bytes:
    """Toss a joint coin, named once in a program: SHA-256 of every party's.

    A repetition may give the one that it had. Others know it then and may choose theirs to fit: that toss is agreed on,
    and unknown to the public, but no longer uniform.
    """
    coins = await reveal(party, f"coin for {what}", coin or Stream.from_os().bytes(COIN_BYTES))
    return hashlib.sha256(Label.TOSS.value + party.runtime.settings.task_digest + b"".join(coins.values())).digest()


def _describe(error: DpmpcError) -> bytes:
    blamed = error.party if isinstance(error, ProtocolFailure) else None
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in _REASONS)
    own = type(error).__name__
    reason = str(error) if own in _TOLD else f"the reason is in its own log ({own}): it may hold words of that machine"
    return msgspec.json.encode(_Refusal(kind, reason[:_LONGEST_REASON], blamed))


def _read_refusal(peer: int, content: bytes) -> DpmpcError:
    try:
        refusal = read_json(content, _Refusal, largest=_LARGEST_REFUSAL)
    except ReadError as error:
        return malformed_frame(peer, Kind.VERDICT, error)
    if refusal.type not in _REASONS:
        return malformed_frame(peer, Kind.VERDICT, f"a {refusal.type!r}")
    kind: type[DpmpcError] = getattr(errors, refusal.type)
    return kind(f"{called(peer)} refuses: {printable(refusal.message, _LONGEST_REASON)}")
