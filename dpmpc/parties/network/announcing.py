"""Announcements: what a server sends to all others at once, so that one that sends different things is found out.

A link shows its two ends who sends, but not what the sender tells others. So every announcement is signed, and each
one carries the hash of all announcements that its sender has heard before (the transcript). Two parties that heard
different things notice it with the next announcement of the other, before they judge what it states.

1. Before the first announcement all parties send one another a fresh random number. The session is the hash of the
   task, the parties and these numbers: a signature of an earlier run is worth nothing in this one.
2. In round r a party signs (session, r, its number, kind, transcript, SHA-256 of what it states), once, and sends that
   with what it states to all. transcript = SHA-256(transcript before || the signed records of the round, by party).
3. Anyone who receives another transcript than its own opens a dispute: it sends the signed records of the last rounds,
   and the other one does the same. Two different records of one round, both signed by the same party, prove that this
   party lied. A party whose own records do not bear out its transcript is the liar too. All others join in a dispute,
   and what any of them shows may prove it: a liar that opens the dispute itself, and shows nothing, gains nothing.

`settle` is an announcement without content: when it returns, all have heard the same. It comes before anything that is
sent without an announcement (lists of ids, shares, farewells), so that a dispute never meets a frame of another kind.

The parties are the servers that take part; an analyst neither speaks nor listens here.

Promised: two honest parties that complete a round, and the next one, have heard the same in it; an honest party is
never named in an `Equivocation`. Who lied is named where it has signed both versions or cannot show what it heard;
otherwise no party is. Not promised: that a run goes on after a dispute, that both honest parties end with the same
error (the liar may send its proof to one of them only), or anything about what is sent outside of announcements.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import ssl
from collections.abc import Awaitable
from typing import Annotated, NoReturn, TypeVar

import msgspec

from dpmpc.base.errors import (
    BatchMismatch,
    Equivocation,
    InconsistentShares,
    MalformedFrame,
    PartyImpersonated,
    PartyLost,
    PartyMissing,
    ProtocolFailure,
    VerificationFailed,
)
from dpmpc.base.randomness import Label, Stream
from dpmpc.base.untrusted import LARGEST_MESSAGE, ReadError, printable, read_bytes, read_json
from dpmpc.parties.network.frames import ContentType, Disputed, Frame, Kind, malformed_frame
from dpmpc.parties.network.identity import LONGEST_SIGNATURE, sign, verify_signature
from dpmpc.parties.network.naming import called
from dpmpc.parties.network.party import Party

Result = TypeVar("Result")

NONCE_BYTES = 32
ROUNDS_SHOWN = 3  # in a dispute: that of the other transcript, the one that told it, and one that may have begun
FLUSH_SECONDS = 0.05  # for a last word to leave before the links are cut
EVIDENCE_SECONDS = 2.0  # for what others show when one party has ended the run, and may have lied before
_ANNOUNCED = frozenset(
    {
        *(Kind.ECHO, Kind.VERDICT, Kind.DIGEST, Kind.COMMITMENT, Kind.OPENING, Kind.STANDING, Kind.LEFT_OUT),
        *(Kind.SEED, Kind.POINT, Kind.MISFITS, Kind.STATEMENT, Kind.SIGNATURE, Kind.COST),
    }
)
_FRAMES_PASSED_OVER = 8  # that an honest peer may have sent before it heard of a dispute
_DIGEST_BYTES = 32
# What may be told to other parties as the reason for an end: these errors hold no text of this machine.
_TELLABLE = (
    *(MalformedFrame, BatchMismatch, Equivocation, InconsistentShares),
    *(PartyImpersonated, PartyLost, PartyMissing),
)


@dataclasses.dataclass(frozen=True)
class SignedRecord:
    """What a party has signed in one round: kind and hash of what it sent, and the transcript that it had heard."""

    kind: int
    transcript: bytes
    content: bytes
    signature: bytes

    def message(self, session: bytes, number: int, party: int) -> bytes:
        """Return the bytes that are signed."""
        numbers = number.to_bytes(4, "little") + party.to_bytes(4, "little") + self.kind.to_bytes(1, "little")
        return Label.ANNOUNCEMENT.value + session + numbers + self.transcript + self.content


_Hex32 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_HexSignature = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})+$", max_length=2 * LONGEST_SIGNATURE)]


class _ShownRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record as a dispute shows it."""

    round: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    party: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
    kind: Annotated[int, msgspec.Meta(ge=0, lt=256)]
    transcript: _Hex32
    content: _Hex32
    signature: _HexSignature

    def record(self) -> SignedRecord:
        return SignedRecord(
            self.kind, bytes.fromhex(self.transcript), bytes.fromhex(self.content), bytes.fromhex(self.signature)
        )


class _Dispute(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a party ends the run, and what it has heard in the last rounds."""

    reason: str
    heard: list[_ShownRecord]


class Conversation:
    """What one party has heard from all so far, itself included."""

    def __init__(self, party: Party, nonces: dict[int, bytes]):
        told = b"".join(number.to_bytes(4, "little") + nonces[number] for number in sorted(nonces))
        digest = party.runtime.settings.task_digest
        self.session = hashlib.sha256(Label.SESSION.value + digest + told).digest()
        self.transcript = hashlib.sha256(Label.TRANSCRIPT.value + self.session).digest()
        self.rounds: list[dict[int, SignedRecord]] = []
        self._party = party
        self._certificates: dict[int, bytes] = {}

    def speak(self, kind: Kind, content: bytes) -> tuple[SignedRecord, bytes]:
        """Sign what this party states in the next round; return the record and the content of the frame."""
        unsigned = SignedRecord(kind, self.transcript, hashlib.sha256(content).digest(), b"")
        signature = sign(self._party.folder, unsigned.message(self.session, len(self.rounds), self._party.pid))
        record = dataclasses.replace(unsigned, signature=signature)
        head = self.session + record.transcript + len(signature).to_bytes(1, "little") + signature
        return record, head + content

    def listen(self, peer: int, frame: Frame) -> tuple[SignedRecord, bytes]:
        """Take an announcement of the round that is under way apart, after a check of its signature."""
        raw, fixed = frame.raw, 2 * _DIGEST_BYTES + 1
        end = fixed + (raw[fixed - 1] if len(raw) >= fixed else LONGEST_SIGNATURE)
        if len(raw) < end:
            raise malformed_frame(peer, frame.kind, f"{len(raw)} bytes, too few for a signed announcement")
        session, transcript, signature = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES : fixed - 1], raw[fixed:end]
        content = raw[end:]
        record = SignedRecord(frame.kind, transcript, hashlib.sha256(content).digest(), signature)
        if not self.is_signed(record, len(self.rounds), peer, session):
            raise malformed_frame(peer, frame.kind, "not signed with the key of its certificate")
        if session != self.session:
            peers = self._party.runtime.other_servers
            raise Equivocation(
                f"{called(peer)} has heard other opening words than {called(self._party.pid)}: somebody told the "
                "others different things, and nobody can prove who",
                peer if self.rounds or peers == [peer] else None,  # later on it has spoken in both sessions
            )
        return record, content

    def is_signed(self, record: SignedRecord, number: int, party: int, session: bytes | None = None) -> bool:
        """Return whether a party of this run has signed this record of round `number`, in this session by default."""
        try:
            message = record.message(self.session if session is None else session, number, party)
            verify_signature(self._certificate(party), message, record.signature)
        except VerificationFailed:
            return False
        return True

    def complete(self) -> None:
        """End a round that all have spoken in."""
        heard = self.rounds[-1]
        parts = [
            heard[party].message(self.session, len(self.rounds) - 1, party)
            for party in self._party.runtime.settings.present
        ]
        self.transcript = hashlib.sha256(Label.TRANSCRIPT.value + self.transcript + b"".join(parts)).digest()

    def shown(self, reason: str) -> bytes:
        """Return the content of a dispute: the reason, and the last rounds as this party heard them."""
        first = max(0, len(self.rounds) - ROUNDS_SHOWN)
        heard = [
            _ShownRecord(number, party, one.kind, one.transcript.hex(), one.content.hex(), one.signature.hex())
            for number in range(first, len(self.rounds))
            for party, one in self.rounds[number].items()
        ]
        return msgspec.json.encode(_Dispute(reason, heard))

    def liar(self, peer: int, shown: list[_ShownRecord]) -> Equivocation | None:
        """Compare what a peer shows with what this party has heard; return who is convicted by it, if any."""
        members = self._party.runtime.settings.present
        for one in shown:
            if one.round >= len(self.rounds) or one.party not in members:
                continue
            theirs, ours = one.record(), self.rounds[one.round].get(one.party)
            if ours is None or _same(theirs, ours):
                continue
            if not self.is_signed(theirs, one.round, one.party):
                return Equivocation(
                    f"{called(peer)} claims that {called(one.party)} announced what {called(one.party)} has not signed",
                    peer,
                )
            return Equivocation(
                f"{called(one.party)} announced different things, and signed both",
                one.party,
            )
        return None

    def bears_out(self, shown: list[_ShownRecord]) -> bool:
        """Return whether these records hold the whole of the last completed round."""
        last = len(self.rounds) - 2
        return {one.party for one in shown if one.round == last} >= set(self._party.runtime.settings.present)

    def _certificate(self, party: int) -> bytes:
        """Return the certificate (PEM) that a party has shown on its link; this party's own comes from its folder."""
        if party not in self._certificates:
            if party == self._party.pid:
                content = read_bytes(self._party.folder / "party.crt")
            else:
                session: ssl.SSLObject = self._party.runtime.links[party].transport.get_extra_info("ssl_object")
                content = ssl.DER_cert_to_PEM_cert(session.getpeercert(binary_form=True) or b"").encode()
            self._certificates[party] = content
        return self._certificates[party]


async def announce(
    party: Party, kind: Kind, own: bytes, length: int | None = None, largest: int = LARGEST_MESSAGE
) -> dict[int, bytes]:
    """Send something to all other parties, and receive what they send in the same round."""
    conversation = await _conversation(party)
    record, content = conversation.speak(kind, own)
    heard: dict[int, SignedRecord] = {party.pid: record}
    words = {party.pid: own}
    everybody = dict.fromkeys(party.runtime.other_servers, content)
    received = await party.runtime.exchange_frames(kind, everybody, ContentType.BYTES, also=_ANNOUNCED)
    for peer, frame in received.items():
        heard[peer], words[peer] = conversation.listen(peer, frame)
    conversation.rounds.append(heard)
    for peer, frame in received.items():
        if heard[peer].transcript != conversation.transcript:
            raise Disputed(peer)
        if frame.kind is not kind:
            raise malformed_frame(peer, kind, f"an announcement of kind {frame.kind.name}")
        if len(words[peer]) != (len(words[peer]) if length is None else length) or len(words[peer]) > largest:
            expected = f"at most {largest}" if length is None else str(length)
            raise malformed_frame(peer, kind, f"{len(words[peer])} bytes, {expected} expected")
    conversation.complete()
    return {number: words[number] for number in sorted(words)}


async def settle(party: Party) -> None:
    """Return when all have stated that they have heard the same so far; at once if nothing was announced since."""
    conversation = _begun(party)
    if conversation is None or conversation.rounds[-1][party.pid].kind is not Kind.ECHO:
        await announce(party, Kind.ECHO, b"", 0)


async def explained(party: Party, work: Awaitable[Result]) -> Result:
    """Await a conversation; if it fails, tell the other parties why, and find out who lied where that can be proven."""
    try:
        return await work
    except Disputed as dispute:
        await _resolve(party, dispute)
    except _TELLABLE as error:
        if not party.runtime.closing:  # else all have taken leave, and know
            _show(party, str(error))
            await asyncio.sleep(FLUSH_SECONDS)
        raise
    except asyncio.CancelledError:
        _explain_the_end(party)
        raise


def _explain_the_end(party: Party) -> None:
    """Tell why the run has failed, and hear whether a party had said more than that its link broke."""
    failure = party.runtime.failure
    if isinstance(failure, _TELLABLE):
        _show(party, str(failure))
    for peer in party.runtime.other_servers:
        link = party.runtime.links.get(peer)
        data = None if link is None else link.unread(Kind.DISPUTE)
        if data is not None:
            shown = _read(peer, party.runtime.dispute(peer, data))
            conversation = _begun(party)
            error = None if conversation is None else conversation.liar(peer, shown.heard)
            party.runtime.foresee(error or _told(peer, shown))


async def _resolve(party: Party, dispute: Disputed) -> NoReturn:
    conversation, peer = _begun(party), dispute.peer
    nobody: ProtocolFailure
    if dispute.frame is None:
        reason = f"{called(peer)} has heard other announcements than {called(party.pid)}"
        _show(party, reason)
        alone = party.runtime.other_servers == [peer]  # of two parties that heard different things the other one lied
        nobody = Equivocation(
            f"{reason}, and did not show which" + ("" if alone else ": no party can be named"), peer if alone else None
        )
        party.runtime.foresee(nobody)
    else:
        nobody = _told(peer, _read(peer, dispute.frame))
        party.runtime.foresee(nobody)
        _show(party, str(nobody))
    error = None if conversation is None else await _convicted(party, conversation, dispute)
    party.runtime.foresee(error or nobody)
    await asyncio.sleep(FLUSH_SECONDS)
    raise error or nobody


async def _convicted(party: Party, conversation: Conversation, dispute: Disputed) -> Equivocation | None:
    """Return who is convicted by what any party shows: the one in dispute may be a liar that shows nothing."""

    async def judged(peer: int) -> Equivocation | None:
        frame = dispute.frame if peer == dispute.peer else None
        shown = _read(peer, frame or await _dispute_of(party, peer))
        error = conversation.liar(peer, shown.heard)
        if error is None and peer == dispute.peer and frame is None:
            lacks = "" if conversation.bears_out(shown.heard) else ", and does not show all of it"
            error = Equivocation(
                f"{called(peer)} claims to have heard other announcements than {called(party.pid)}, but shows the "
                f"same{lacks}",
                peer,
            )
        return error

    shown_by = {asyncio.ensure_future(judged(peer)): peer for peer in party.runtime.other_servers}
    waiting, broken = set(shown_by), None
    end = None if dispute.frame is None else asyncio.get_running_loop().time() + EVIDENCE_SECONDS
    try:
        while waiting:
            left = None if end is None else max(0.0, end - asyncio.get_running_loop().time())
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                failure = one.exception()
                if failure is None and one.result() is not None:
                    return one.result()
                if failure is not None and (shown_by[one] == dispute.peer or not isinstance(failure, ProtocolFailure)):
                    broken = failure
            if not done:
                break
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*shown_by, return_exceptions=True)
    if broken is not None:
        raise broken
    return None


def _told(peer: int, shown: _Dispute) -> ProtocolFailure:
    """Return why a peer ended the run, in its words, which name no party here: nothing that it shows proves them."""
    return ProtocolFailure(f"{called(peer)} ended the run: {printable(shown.reason)}")


async def _dispute_of(party: Party, peer: int) -> Frame:
    """Return the next dispute of a peer; it may have sent other frames before it knew."""
    for _ in range(_FRAMES_PASSED_OVER):
        try:
            await party.runtime.receive_frame(peer, Kind.DISPUTE, ContentType.BYTES)
        except Disputed as dispute:
            if dispute.frame is not None:
                return dispute.frame
        except MalformedFrame:
            continue
    raise malformed_frame(peer, Kind.DISPUTE, f"{_FRAMES_PASSED_OVER} other frames")


def _show(party: Party, reason: str) -> None:
    """Send the last rounds to all other parties, without waiting for any party."""
    conversation = _begun(party)
    content = msgspec.json.encode(_Dispute(reason, [])) if conversation is None else conversation.shown(reason)
    for peer in party.runtime.other_servers:
        party.runtime.send_last_frame(peer, party.runtime.frame(Kind.DISPUTE, content))


def _read(peer: int, frame: Frame) -> _Dispute:
    try:
        return read_json(frame.raw, _Dispute)
    except ReadError as error:
        raise malformed_frame(peer, Kind.DISPUTE, str(error)) from error


def _begun(party: Party) -> Conversation | None:
    """Return the conversation of a run, if it has begun."""
    conversation = party.runtime.conversation
    assert conversation is None or isinstance(conversation, Conversation)
    return conversation


async def _conversation(party: Party) -> Conversation:
    """Return the conversation; the first call begins it with every party's fresh number."""
    conversation = _begun(party)
    if conversation is None:
        own, others = Stream.from_os().bytes(NONCE_BYTES), party.runtime.other_servers
        received = await party.runtime.exchange_frames(
            Kind.NONCE, dict.fromkeys(others, own), ContentType.BYTES, dict.fromkeys(others, (NONCE_BYTES,))
        )
        nonces = {party.pid: own, **{peer: frame.raw for peer, frame in received.items()}}
        conversation = party.runtime.conversation = Conversation(party, nonces)
    return conversation


def _same(one: SignedRecord, other: SignedRecord) -> bool:
    """Return whether two records state the same; a second signature under the same words is not a lie."""
    return (one.kind, one.transcript, one.content) == (other.kind, other.transcript, other.content)
