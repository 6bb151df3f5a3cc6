"""The same people in the same order at all parties (`dpmpc.mixing.alignment`, among real processes).

1. Everybody sends everybody the digest of its sorted keyed hashes. If all are equal, their order is the common one.
2. Otherwise party 0 and each party whose digest differs from its own count what they have in common, from blinded
   ids; party 0 tells all, and the run ends as a `BatchMismatch` at every party.

No id and no keyed hash of one is ever sent. What a count reveals, and to whom, is said in `dpmpc.mixing.alignment`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from dpmpc.errors import BatchMismatch, MalformedFrame
from dpmpc.mixing.alignment import (
    HASH_BYTES,
    Blinding,
    common_order,
    curve_point,
    digest_of_set,
    keyed_hashes,
    pack,
    unpack,
)
from dpmpc.network.coins import exchange_bytes
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.party import Party


async def align(party: Party, key: bytes, ids: Sequence[str]) -> list[int]:
    """Return the order of this party's rows, which is that of all others.

    Raises
    ------
    BatchMismatch
        At all parties, if not all have the same ids; with the number of rows that differ.
    """
    hashes = keyed_hashes(key, ids)
    digests = await exchange_bytes(party, Kind.DIGEST, digest_of_set(hashes), HASH_BYTES)
    differing = [number for number, digest in enumerate(digests) if digest != digests[0]]
    if differing:
        counts = await count_differences(party, hashes, differing)
        await party.runtime.shutdown()  # everybody knows the counts before anybody ends
        raise different_rows(counts)
    return common_order(hashes)


async def count_differences(
    party: Party, hashes: Sequence[bytes], differing: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """Return for each party that differs how many rows are at party 0 only and at that party only.

    Party 0 counts with each of them in turn and tells all.
    """
    points = await asyncio.to_thread(lambda: [curve_point(hashed) for hashed in hashes])
    if party.pid == 0:
        counts = np.array([await count_with(party, number, points) for number in differing], np.uint64)
        for peer in party.runtime.peers:
            await party.runtime.send_frame(peer, party.runtime.frame(Kind.RESULT, counts))
    else:
        if party.pid in differing:
            await be_counted(party, points)
        counts = (await party.runtime.receive_frame(0, Kind.RESULT, ContentType.WORDS, (len(differing), 2))).words
    return {number: (int(here), int(there)) for number, (here, there) in zip(differing, counts, strict=True)}


async def count_with(party: Party, peer: int, points: Sequence[bytes]) -> tuple[int, int]:
    """Count as party 0: a H(id) goes out and comes back as a b H(id), in another order; theirs becomes b a H(id)."""
    blinding = Blinding()
    await send_points(party, peer, await blinded(blinding, points, party.pid))
    theirs = await blinded(blinding, await receive_points(party, peer), peer)
    common = len(set(theirs) & set(await receive_points(party, peer)))
    return len(points) - common, len(theirs) - common


async def be_counted(party: Party, points: Sequence[bytes]) -> None:
    """Be counted with by party 0."""
    blinding = Blinding()
    await send_points(party, 0, await blinded(blinding, points, party.pid))
    await send_points(party, 0, await blinded(blinding, await receive_points(party, 0), 0))


async def blinded(blinding: Blinding, points: Sequence[bytes], sender: int) -> list[bytes]:
    """Blind the points of a party, or refuse those of a party that sent none of this curve's group."""
    try:
        return await asyncio.to_thread(blinding.blind, points)
    except ValueError as error:
        raise MalformedFrame(f"party {sender} sent no valid BLINDED frame: {error}", sender) from error


async def send_points(party: Party, peer: int, points: Sequence[bytes]) -> None:
    """Send points in one frame."""
    await party.runtime.send_frame(peer, party.runtime.frame(Kind.BLINDED, pack(points)))


async def receive_points(party: Party, peer: int) -> list[bytes]:
    """Receive the points of a frame."""
    frame = await party.runtime.receive_frame(peer, Kind.BLINDED, ContentType.BYTES)
    if len(frame.raw) % HASH_BYTES:
        raise MalformedFrame(f"party {peer} sent no valid BLINDED frame: {len(frame.raw)} bytes", peer)
    return unpack(frame.raw)


def different_rows(counts: Mapping[int, tuple[int, int]]) -> BatchMismatch:
    """Return the error that says how many rows differ, and never which."""
    told = [
        f"{here} rows of party 0 are missing at party {number} and {there} of party {number} at party 0"
        for number, (here, there) in counts.items()
    ]
    return BatchMismatch(f"key: {'; '.join(told)}; the same rows expected at all parties", min(counts))
