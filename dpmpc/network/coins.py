"""Toss a joint coin: 32 bytes that every party knows and none could choose.

Each party commits to a coin of 32 random bytes by SHA-256 over a label, its number, the task and the coin; when all
commitments are there, all open. The toss is SHA-256 of all coins. It is uniform, and unknown to whoever is not a
party, as long as one party draws its coin at random (SHA-256 as a random oracle). A commitment holds the number of its
party, so that a copy of another's cannot be opened, and the numbers of all who take part: parties that go on without
different servers do not agree on a toss.

`toss_coins` is for parties that tell all others the same. Where one may tell different parties different things,
`exchange_coins` takes `dpmpc.network.announcing.announce_bytes`, and `toss_of` is called once all know that they heard
the same.

Not promised: that the toss comes to an end. The last party to open knows it before the others and may break off.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence

from dpmpc.network.frames import ContentType, Kind, malformed_frame
from dpmpc.network.party import Party
from dpmpc.randomness import Label

COIN_BYTES = 32

Exchange = Callable[[Party, Kind, bytes, int], Awaitable[list[bytes]]]


async def toss_coins(party: Party, coin: bytes, members: Sequence[int] | None = None) -> bytes:
    """Take part in a toss with a coin of one's own; return the 32 bytes of the toss."""
    exchange = functools.partial(exchange_bytes, members=members)
    return toss_of(party, *await exchange_coins(party, coin, exchange, members), members)


async def exchange_coins(
    party: Party, coin: bytes, exchange: Exchange, members: Sequence[int] | None = None
) -> tuple[list[bytes], list[bytes]]:
    """Commit to a coin, then open it; return everybody's commitments and coins, unchecked, in party order."""
    task, members = party.runtime.settings.task_digest, _tossing(party, members)
    commitments = await exchange(party, Kind.COMMITMENT, coin_commitment(party.pid, members, task, coin), COIN_BYTES)
    return commitments, await exchange(party, Kind.OPENING, coin, COIN_BYTES)


def toss_of(
    party: Party, commitments: Sequence[bytes], coins: Sequence[bytes], members: Sequence[int] | None = None
) -> bytes:
    """Return the toss of these coins, if each is the one that its party has committed to."""
    task, members = party.runtime.settings.task_digest, _tossing(party, members)
    for number, committed, opened in zip(members, commitments, coins, strict=True):
        if not hmac.compare_digest(committed, coin_commitment(number, members, task, opened)):
            raise malformed_frame(number, Kind.OPENING, f"not the coin that it committed to among parties {members}")
    return hashlib.sha256(Label.TOSS.value + task + b"".join(coins)).digest()


def coin_commitment(party: int, members: Sequence[int], task: bytes, coin: bytes) -> bytes:
    """Return SHA-256(label || party || members || task || coin), each number being 4 bytes LE."""
    numbers = b"".join(number.to_bytes(4, "little") for number in (party, *members))
    return hashlib.sha256(Label.COMMITMENT.value + numbers + task + coin).digest()


async def exchange_bytes(
    party: Party, kind: Kind, own: bytes, length: int, members: Sequence[int] | None = None
) -> list[bytes]:
    """Send the same bytes to all other members, all parties by default, and return everybody's in party order."""
    peers = [peer for peer in _tossing(party, members) if peer != party.pid]
    for peer in peers:
        await party.runtime.send_frame(peer, party.runtime.frame(kind, own))
    received = {party.pid: own}
    for peer in peers:
        frame = await party.runtime.receive_frame(peer, kind, ContentType.BYTES, (length,))
        received[peer] = frame.raw
    return [received[number] for number in sorted(received)]


def _tossing(party: Party, members: Sequence[int] | None) -> Sequence[int]:
    return party.runtime.settings.members if members is None else members
