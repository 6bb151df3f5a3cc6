"""How the servers of a collection agree on the batch, the reports that all of them hold, and judge findings.

Promised: two honest servers go on with the same batch, which is part of what each of them holds. Not promised: that a
server which lies about its ids, and so drops reports, is caught. The others learn how many it says it lacks.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Mapping

import numpy as np

from dpmpc.base.arrays import Bytes
from dpmpc.base.errors import BatchMismatch, InconsistentShares
from dpmpc.base.randomness import Label
from dpmpc.collect.upload.report_ids import ID_BYTES, as_strings, found_in
from dpmpc.parties.network.announcing import announce
from dpmpc.parties.network.conversation import confirm, exchange, together
from dpmpc.parties.network.frames import Kind
from dpmpc.parties.network.party import Party

IDS_IN_A_FRAME = 1 << 20
_COUNT_BYTES = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """The reports that all servers hold."""

    ids: Bytes  # (n, 16): ascending
    lacked: dict[int, int]  # how many of the reports that some server holds each server lacks


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


def batch_digest(ids: Bytes) -> bytes:
    """Return SHA-256(label || number of ids, 8 bytes LE || the ids in ascending order)."""
    content = np.ascontiguousarray(ids)
    return hashlib.sha256(Label.BATCH.value + _count(ids) + content.data).digest()


async def agree_on_batch(party: Party, ids: Bytes, largest: int) -> Batch:
    """Find the reports that all servers hold.

    The servers compare hashes. Only if these differ do they send their ids; report ids say nothing about a row.
    """
    own = batch_digest(ids) + _count(ids)
    announced = await announce(party, Kind.DIGEST, own, len(own))
    counts = {server: int.from_bytes(told[-_COUNT_BYTES:], "little") for server, told in announced.items()}
    await together(party, lambda: _require_counts(counts, largest))
    if set(announced.values()) == {own}:
        return Batch(ids, dict.fromkeys(party.present, 0))
    held = await _exchange_ids(party, ids, counts)
    await together(party, lambda: _require_announced(held, announced))
    common, union = ids, ids
    for server in party.runtime.peers:
        common = common[found_in(as_strings(held[server]), as_strings(common))]
        union = np.concatenate([union, held[server]])
    everything = len(np.unique(as_strings(union)))
    await confirm(party, batch_digest(common), "batch: the reports that all hold")
    return Batch(common, {server: everything - len(held[server]) for server in party.present})


def _require_counts(counts: Mapping[int, int], largest: int) -> None:
    for server, count in counts.items():
        if count > largest:
            raise BatchMismatch(f"server {server} announced {count} reports, at most {largest} expected", server)


def _require_announced(held: Mapping[int, Bytes], announced: Mapping[int, bytes]) -> None:
    for server, theirs in held.items():
        if batch_digest(theirs) + _count(theirs) != announced[server] or not _ascending(theirs):
            raise BatchMismatch(f"server {server} sent other report ids than it had announced", server)


async def _exchange_ids(party: Party, ids: Bytes, counts: Mapping[int, int]) -> dict[int, Bytes]:
    """Send all ids to everybody in parts; the next part goes out when everybody's last one has come in."""
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


def _count(ids: Bytes) -> bytes:
    return len(ids).to_bytes(_COUNT_BYTES, "little")
