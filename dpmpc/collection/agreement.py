"""How the servers of a collection agree: on whether to go on, on the batch, and on the bytes that each confirms.

Every server speaks to every other one over its own link, so that a server cannot answer for another one. It could tell
different servers different things; so whatever is agreed is announced (`dpmpc.network.announcing`), and all compare
what they have heard.

Promised: a server goes on only if every other one said that it does; two honest servers go on with the same batch,
which is part of what each of them holds. A refusal that blames a third server is passed on as what the refusing one
says, and convicts nobody. Reasons that may hold paths or other words of a machine stay at that machine. Not promised:
that a server which lies about its ids, and so drops reports, is caught. The others learn how many it says it lacks.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc import errors
from dpmpc.collection.report_ids import ID_BYTES, as_strings
from dpmpc.errors import BatchMismatch, DpmpcError, InconsistentShares, ProtocolFailure
from dpmpc.network.announcing import FLUSH_SECONDS, announce, announce_bytes, settle
from dpmpc.network.coins import COIN_BYTES, exchange_bytes, exchange_coins, toss_of
from dpmpc.network.frames import ContentType, Kind, malformed_frame
from dpmpc.network.party import Party
from dpmpc.randomness import Label, Stream
from dpmpc.untrusted import ReadError, printable, read_json

Result = TypeVar("Result")

IDS_IN_A_FRAME = 1 << 20
_COUNT_BYTES = 8
_LONGEST_REASON = 4000  # characters of another server's words that are believed to be a reason
# Errors whose text holds public facts alone, and is told; of the others a server tells the type.
_TOLD = (
    *("GuaranteeError", "OverflowRisk", "TooFewClients", "AlreadyReleased", "CollectionClosed", "VerificationFailed"),
    *("BatchMismatch", "InconsistentShares", "PartyMissing", "MalformedFrame", "Equivocation"),
)
_REASONS = (*_TOLD, "InputError", "SpoolError", "ProtocolFailure", "DpmpcError")
_LARGEST_REFUSAL = 1 << 16  # bytes


class _Refusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a server does not go on; `party` is whom it blames, if anybody."""

    type: Annotated[str, msgspec.Meta(max_length=100)]
    message: Annotated[str, msgspec.Meta(max_length=_LONGEST_REASON)]
    party: int | None


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """The reports that all servers hold."""

    ids: NDArray[np.uint8]  # (n, 16): ascending
    lacked: dict[int, int]  # how many of the reports that some server holds each server lacks


async def unless_refused(party: Party, step: Callable[[], Result]) -> Result:
    """Take a step of one's own, in a thread, and go on only if it succeeded at every server.

    If it failed anywhere, all take leave of one another first, so that each can tell the reason and not just that a
    link broke.
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
    await settle(party)  # all refuse, or somebody told different servers different things
    party.runtime.foresee(own or told[0])
    if party.analyst is None:
        await party.runtime.shutdown()
    else:  # who waits for sums, not for a farewell, and notices that the links are gone
        await asyncio.sleep(FLUSH_SECONDS)
    raise own or told[0]


async def confirm(party: Party, digest: bytes, what: str) -> None:
    """Return when every server has said that it is here with the same digest."""
    digests = await announce_bytes(party, Kind.DIGEST, digest, len(digest))
    for server, other in zip(party.present, digests, strict=True):
        if other != digest:
            raise BatchMismatch(f"{what}: server {server} has {other.hex()}, we have {digest.hex()}", server)


async def toss_announced(party: Party) -> bytes:
    """Toss with all other servers, who are known to have heard the same coins before the toss is used.

    `network.coins.toss_coins` is for parties that tell all others the same.
    """
    coin, servers = Stream.from_os().bytes(COIN_BYTES), party.present
    commitments, coins = await exchange_coins(party, coin, announce_bytes, servers)
    return await unless_refused(party, lambda: toss_of(party, commitments, coins, servers))


async def compare_told(party: Party, digests: Mapping[int, bytes], what: str) -> None:
    """Return when all servers were told the same by each server, as these SHA-256 digests say."""
    own = b"".join(digests[server] for server in party.present)
    heard = await exchange_bytes(party, Kind.DIGEST, own, len(own), party.present)
    for witness, told in zip(party.present, heard, strict=True):
        for at, server in enumerate(party.present):
            if told[32 * at : 32 * at + 32] != own[32 * at : 32 * at + 32]:
                raise InconsistentShares(
                    f"{what}: server {witness} says that server {server} told it others than server {party.pid} "
                    f"was told; server {server} or {witness} lies. Nothing was bound; the run can be repeated"
                )


def require_unaccused(server: int, accused: Collection[int], what: str) -> None:
    """Refuse to go on with a finding against this server itself, whoever made it; all follow the same rule.

    While no more servers lie than are assumed to, the rule finds none that is honest. Where more do, this server's own
    share, which nobody else can vouch for, is what tells it (docs/proved-reports.md, Theorem 5).
    """
    if server in accused:
        raise InconsistentShares(
            f"{what}: server {server} is itself among those found to be wrong, {sorted(accused)}: it is at fault, or "
            "more servers lie than are assumed to. It signs nothing; the others can go on without it if enough are left"
        )


def batch_digest(ids: NDArray[np.uint8]) -> bytes:
    """Return SHA-256(label || number of ids, 8 bytes LE || the ids in ascending order)."""
    content = np.ascontiguousarray(ids)
    return hashlib.sha256(Label.BATCH.value + _count(ids) + content.data).digest()


async def agree_on_batch(party: Party, ids: NDArray[np.uint8], largest: int) -> Batch:
    """Find the reports that all servers hold.

    The servers compare hashes. Only if these differ do they send their ids; report ids say nothing about a row.
    """
    own = batch_digest(ids) + _count(ids)
    announced = await announce(party, Kind.DIGEST, own, len(own))
    counts = {server: int.from_bytes(told[-_COUNT_BYTES:], "little") for server, told in announced.items()}
    await unless_refused(party, lambda: _require_counts(counts, largest))
    await settle(party)  # from here on ids are sent by all or by none
    if set(announced.values()) == {own}:
        return Batch(ids, dict.fromkeys(party.present, 0))
    held = {party.pid: ids, **await _exchange_ids(party, ids, counts)}
    await unless_refused(party, lambda: _require_announced(held, announced))
    common, union = ids, ids
    for server in party.runtime.peers:
        common = common[_found_in(held[server], common)]
        union = np.concatenate([union, held[server]])
    everything = len(np.unique(as_strings(union)))
    await confirm(party, batch_digest(common), "batch: the reports that all hold")
    return Batch(common, {server: everything - len(held[server]) for server in party.present})


def _require_counts(counts: Mapping[int, int], largest: int) -> None:
    for server, count in counts.items():
        if count > largest:
            raise BatchMismatch(f"server {server} announced {count} reports, at most {largest} expected", server)


def _require_announced(held: Mapping[int, NDArray[np.uint8]], announced: Mapping[int, bytes]) -> None:
    for server, theirs in held.items():
        if batch_digest(theirs) + _count(theirs) != announced[server] or not _ascending(theirs):
            raise BatchMismatch(f"server {server} sent other report ids than it had announced", server)


async def _exchange_ids(
    party: Party, ids: NDArray[np.uint8], counts: Mapping[int, int]
) -> dict[int, NDArray[np.uint8]]:
    """Send all ids to everybody in parts; the next part goes out when everybody's last one has come in."""
    received: dict[int, list[bytes]] = {peer: [] for peer in party.runtime.peers}
    for first in range(0, max(counts.values()), IDS_IN_A_FRAME):
        part = party.runtime.frame(Kind.IDS, ids[first : first + IDS_IN_A_FRAME].tobytes())
        for peer in party.runtime.peers:
            await party.runtime.send_frame(peer, part)
        for peer, parts in received.items():
            length = ID_BYTES * min(max(counts[peer] - first, 0), IDS_IN_A_FRAME)
            frame = await party.runtime.receive_frame(peer, Kind.IDS, ContentType.BYTES, (length,))
            parts.append(frame.raw)
    return {peer: np.frombuffer(b"".join(parts), np.uint8).reshape(-1, ID_BYTES) for peer, parts in received.items()}


def _found_in(those: NDArray[np.uint8], ids: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which ids are among those; both ascend."""
    if not len(those):
        return np.zeros(len(ids), np.bool_)
    sought, sorted_ones = as_strings(ids), as_strings(those)
    places = np.searchsorted(sorted_ones, sought).clip(max=len(sorted_ones) - 1)
    return np.asarray(sorted_ones[places] == sought, np.bool_)


def _ascending(ids: NDArray[np.uint8]) -> bool:
    strings = as_strings(ids)
    return bool((strings[:-1] < strings[1:]).all())


def _count(ids: NDArray[np.uint8]) -> bytes:
    return len(ids).to_bytes(_COUNT_BYTES, "little")


def _describe(error: DpmpcError) -> bytes:
    blamed = error.party if isinstance(error, ProtocolFailure) else None
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in _REASONS)
    reason = str(error) if kind in _TOLD else "the reason is in its own log: it may hold words of that machine"
    return msgspec.json.encode(_Refusal(kind, reason[:_LONGEST_REASON], blamed))


def _read_refusal(peer: int, content: bytes) -> DpmpcError:
    try:
        refusal = read_json(content, _Refusal, largest=_LARGEST_REFUSAL)
    except ReadError as error:
        return malformed_frame(peer, Kind.VERDICT, error)
    if refusal.type not in _REASONS:
        return malformed_frame(peer, Kind.VERDICT, f"a {refusal.type!r}")
    kind: type[DpmpcError] = getattr(errors, refusal.type)
    return kind(f"server {peer} refuses: {printable(refusal.message, _LONGEST_REASON)}")
