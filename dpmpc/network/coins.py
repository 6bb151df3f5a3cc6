"""A joint coin toss: 32 bytes that every party knows and none could choose.

Each party commits to a coin of 32 random bytes by SHA-256 over a label, its number, the task and the coin; when all
commitments are there, all open. The toss is SHA-256 of all coins. It is uniform, and unknown to whoever is not a
party, as long as one party draws its coin at random (SHA-256 as a random oracle). A commitment holds the number of its
party, so that a copy of another's cannot be opened.

Not promised: that the toss comes to an end. The last party to open knows it before the others and may break off.
"""

from __future__ import annotations

import hashlib
import hmac

from dpmpc.errors import MalformedFrame
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.party import Party
from dpmpc.randomness import Label

COIN_BYTES = 32


async def toss_coins(party: Party, coin: bytes) -> bytes:
    """Take part in a toss among all servers with a coin of one's own; return the 32 bytes of the toss.

    Raises
    ------
    MalformedFrame
        If a party opens another coin than it has committed to.
    """
    task = party.runtime.settings.task_digest
    commitments = await exchange_bytes(party, Kind.COMMITMENT, commitment(party.pid, task, coin), COIN_BYTES)
    coins = await exchange_bytes(party, Kind.OPENING, coin, COIN_BYTES)
    for number, (committed, opened) in enumerate(zip(commitments, coins, strict=True)):
        if not hmac.compare_digest(committed, commitment(number, task, opened)):
            raise MalformedFrame(
                f"party {number} sent no valid OPENING frame: not the coin that it committed to", number
            )
    return hashlib.sha256(Label.TOSS.value + task + b"".join(coins)).digest()


def commitment(party: int, task: bytes, coin: bytes) -> bytes:
    """Return SHA-256(label || party, 4 bytes LE || task || coin)."""
    return hashlib.sha256(Label.COMMITMENT.value + party.to_bytes(4, "little") + task + coin).digest()


async def exchange_bytes(party: Party, kind: Kind, own: bytes, length: int) -> list[bytes]:
    """Send the same bytes to all other servers and return everybody's, one's own included, in party order."""
    for peer in party.runtime.peers:
        await party.runtime.send_frame(peer, party.runtime.frame(kind, own))
    received = {party.pid: own}
    for peer in party.runtime.peers:
        frame = await party.runtime.receive_frame(peer, kind, ContentType.BYTES, (length,))
        received[peer] = frame.raw
    return [received[number] for number in sorted(received)]
