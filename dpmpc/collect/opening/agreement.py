"""How the servers of a collection agree on the batch, the reports that all of them hold, and judge findings.

Promised: two honest servers go on with the same batch, which is part of what each of them holds. Not promised: that a
server which lies about its ids, and so drops reports, is caught. The others learn how many it states it lacks.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Collection, Mapping

import numpy as np

from dpmpc.base.arrays import Bytes
from dpmpc.base.errors import BatchMismatch, InconsistentShares
from dpmpc.base.randomness import Label
from dpmpc.collect.store.id_files import IdFile
from dpmpc.collect.upload.report_ids import ID_BYTES, as_strings, cut_at, found_in
from dpmpc.parties.network.announcing import announce
from dpmpc.parties.network.conversation import confirm, exchange, together
from dpmpc.parties.network.frames import Kind, malformed_frame
from dpmpc.parties.network.party import Party

IDS_IN_A_FRAME = 1 << 20
PIECE = 1 << 16  # ids in a piece, at most if they are spread evenly
_COUNT_BYTES = 8
_DIGEST_BYTES = 32 + _COUNT_BYTES
_MOST_PIECES = 1 << 16  # as many as the first two bytes of ids tell apart


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """The reports that all servers hold."""

    ids: Bytes  # (n, 16): ascending
    lacked: dict[int, int]  # how many of the reports that some server holds each server lacks


def require_unaccused(server: int, accused: Collection[int], what: str) -> None:
    """Refuse to go on with a finding against this server itself, whoever made it; all follow the same rule.

    While no more servers lie than are assumed to, the rule finds none that is honest. Where more do, this server's own
    share, which no other server can vouch for, is what tells it (theorem share-opening).
    """
    if server in accused:
        raise InconsistentShares(
            f"{what}: server {server} is itself among those found to be wrong, {sorted(accused)}: it is at fault, or "
            "more servers lie than are assumed to. It signs nothing; the others can go on without it if enough are left"
        )


def batch_digest(ids: Bytes) -> bytes:
    """Return SHA-256(label || number of ids, 8 bytes LE || the ids in ascending order)."""
    total = hashlib.sha256(Label.BATCH.value + len(ids).to_bytes(_COUNT_BYTES, "little"))
    total.update(np.ascontiguousarray(ids).data)
    return total.digest()


async def agree_on_batch(party: Party, ids: Bytes, largest: int) -> Batch:
    """Find the reports that all servers hold.

    The servers compare a hash of all ids. Only if these differ do they compare hashes of pieces of them, and send the
    ids of the pieces that differ; report ids reveal nothing about a row.

    Parameters
    ----------
    party : Party
        This server.
    ids : ndarray of uint8
        Of the reports that it holds, ascending, (n, 16).
    largest : int
        How many reports a server holds at most.
    """
    own = _summary(ids)
    announced = await announce(party, Kind.DIGEST, own, len(own))
    counts = {server: _counted(told) for server, told in announced.items()}
    await together(party, lambda: _require_counts(counts, largest))
    if set(announced.values()) == {own}:
        return Batch(ids, dict.fromkeys(party.present, 0))
    pieces = cut(ids, max(counts.values()), PIECE)
    summaries = b"".join(map(_summary, pieces))
    told = await announce(party, Kind.DIGEST, summaries, len(summaries))
    by_piece = await together(party, lambda: _read_summaries(told, len(pieces), counts))
    lacked = dict.fromkeys(party.present, 0)
    with IdFile(party.folder) as agreed:
        for piece, others in zip(pieces, by_piece, strict=True):
            common = piece
            if len(set(others.values())) > 1:
                held = await _exchange_ids(party, piece, {server: _counted(other) for server, other in others.items()})
                await together(party, functools.partial(_require_announced, held, others))
                for theirs in held.values():
                    common = common[found_in(as_strings(theirs), as_strings(common))]
                everything = len(np.unique(as_strings(np.concatenate(list(held.values())))))
                for server, theirs in held.items():
                    lacked[server] += everything - len(theirs)
            agreed.append(common)
        batch = agreed.ids()
    await confirm(party, batch_digest(batch), "batch: the reports that all hold")
    return Batch(batch, lacked)


def cut(ids: Bytes, most: int, size: int) -> list[Bytes]:
    """Cut ascending ids by their first bits, the same at all servers.

    Parameters
    ----------
    ids : ndarray of uint8
        Shape (n, 16).
    most : int
        How many ids a server has at most.
    size : int
        How many of so many are in a piece at most, if they are spread evenly.
    """
    pieces = min(1 << ((max(1, most) - 1) // size).bit_length(), _MOST_PIECES)
    step = _MOST_PIECES // pieces
    return np.split(ids, cut_at(as_strings(ids), range(step, _MOST_PIECES, step)))


def _summary(ids: Bytes) -> bytes:
    return batch_digest(ids) + len(ids).to_bytes(_COUNT_BYTES, "little")


def _counted(summary: bytes) -> int:
    return int.from_bytes(summary[-_COUNT_BYTES:], "little")


def _require_counts(counts: Mapping[int, int], largest: int) -> None:
    for server, count in counts.items():
        if count > largest:
            raise BatchMismatch(f"server {server} announced {count} reports, at most {largest} expected", server)


def _read_summaries(told: Mapping[int, bytes], pieces: int, counts: Mapping[int, int]) -> list[dict[int, bytes]]:
    """Return the summary of each piece by server; those of a server must be of as many reports as it announced."""
    read = {}
    for server, content in told.items():
        read[server] = [content[first : first + _DIGEST_BYTES] for first in range(0, len(content), _DIGEST_BYTES)]
        if len(content) != _DIGEST_BYTES * pieces or sum(map(_counted, read[server])) != counts[server]:
            raise malformed_frame(server, Kind.DIGEST, f"{pieces} pieces of {counts[server]} reports expected")
    return [{server: summaries[piece] for server, summaries in read.items()} for piece in range(pieces)]


def _require_announced(held: Mapping[int, Bytes], summaries: Mapping[int, bytes]) -> None:
    for server, theirs in held.items():
        if _summary(theirs) != summaries[server] or not _ascending(theirs):
            raise BatchMismatch(f"server {server} sent other report ids than it had announced", server)


async def _exchange_ids(party: Party, ids: Bytes, counts: Mapping[int, int]) -> dict[int, Bytes]:
    """Send all ids to every server in parts; the next part goes out when every server's last one has come in."""
    received: dict[int, list[bytes]] = {server: [] for server in party.present}
    for first in range(0, max(counts.values()), IDS_IN_A_FRAME):
        part = ids[first : first + IDS_IN_A_FRAME].tobytes()
        lengths = {peer: (ID_BYTES * min(max(counts[peer] - first, 0), IDS_IN_A_FRAME),) for peer in counts}
        for server, raw in (await exchange(party, Kind.IDS, part, lengths)).items():
            received[server].append(raw)
    return {one: np.frombuffer(b"".join(parts), np.uint8).reshape(-1, ID_BYTES) for one, parts in received.items()}


def _ascending(ids: Bytes) -> bool:
    strings = as_strings(ids)
    return bool((strings[:-1] < strings[1:]).all())
