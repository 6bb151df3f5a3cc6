"""Lay out what a server keeps of a proved report: its share, and the hashes of the shares of all servers.

==========================  ================================================================
a server with keys          key 16 | parts 32 M
a server with words         blind 16 | parts 32 M | words of the record, 64 bits LE each
==========================  ================================================================

M is the number of servers, all of which have words with Shamir shares. These bytes are the payload of an upload
(`dpmpc.collect.upload.reports`), and a row of the spool, or of the file of a run on one machine
(`dpmpc.parties.networked`): 64-bit words of them as they are, so that a key stays a key, 16 bytes instead of the 1.4
kB that it stands for. What the fields mean is `dpmpc.linear.proving.prove`.

Promised: `shares_of` gives back what `payloads` was given. Not promised: anything about the fields; the door checks
them (`ProofServer.own_parts_match`).
"""

from __future__ import annotations

import numpy as np

from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import KEY_BYTES
from dpmpc.linear.proving import ProofServer
from dpmpc.linear.proving.circuit import WORD_BYTES, Circuit
from dpmpc.linear.proving.joint import BLIND_BYTES, PART_BYTES
from dpmpc.linear.proving.prove import ProvedShares
from dpmpc.linear.proving.statements import Proved
from dpmpc.linear.sharing import AdditiveSharing, ShamirSharing
from dpmpc.privacy.task import Task

_HEAD_BYTES = KEY_BYTES
assert _HEAD_BYTES == BLIND_BYTES, "a key and a blind take the same place"


def row_words(plan: Task, *, by_key: bool) -> int:
    """Return how many 64-bit words a server keeps of a report."""
    circuit = circuit_of(plan)
    return (_HEAD_BYTES + PART_BYTES * plan.trust.servers) // WORD_BYTES + (0 if by_key else circuit.words)


def statement_of(plan: Task) -> Proved:
    """Return what clients prove of their contributions; refuse a task whose clients prove nothing."""
    if plan.proofs is None:
        raise InputError("task", f"of {plan.statistic.name}", "a proved contribution")
    return plan.proofs


def circuit_of(plan: Task) -> Circuit:
    """Return the circuit of what clients prove."""
    return statement_of(plan).circuit


def scheme_of(plan: Task) -> AdditiveSharing | ShamirSharing:
    """Return how proved reports are shared; refuse a task that has none."""
    circuit_of(plan)
    return plan.scheme


def share_of_one(plan: Task, server: int) -> int:
    """Return a server's share of the constant 1."""
    return ProofServer(circuit_of(plan), scheme_of(plan), bytes(PART_BYTES), server).one


def payloads(shares: ProvedShares) -> Bytes:
    """Return the payload (n, bytes) of each report of a block, as one server gets it."""
    count = len(shares.ids)
    head = shares.keys if shares.keys is not None else shares.blinds
    assert head is not None
    fields = [head, shares.parts.reshape(count, -1)]
    if shares.words is not None:
        fields.append(np.ascontiguousarray(shares.words, "<u8").view(np.uint8))
    return np.ascontiguousarray(np.concatenate(fields, axis=1))


def rows_of(shares: ProvedShares) -> Words:
    """Return a block of reports (n, 1, words) as a server keeps them: what `shares_of` reads."""
    return packed(shares).reshape(len(shares.ids), 1, -1)


def packed(shares: ProvedShares) -> Words:
    """Return a block of reports as 64-bit words (n, words), which `unpacked` reads."""
    return payloads(shares).view("<u8").astype(np.uint64, copy=False)


def shares_of(plan: Task, server: int, ids: Bytes, rows: Words) -> ProvedShares:
    """Return a block of reports as a server keeps them.

    Parameters
    ----------
    plan : Task
        That of the collection.
    server : int
        Its number.
    ids : ndarray of uint8, shape (n, 16)
        Of the reports.
    rows : ndarray of uint64, shape (n, 1, words)
        As they lie in the spool.
    """
    return unpacked(plan.trust.servers, server, ids, rows.reshape(len(ids), rows.shape[-1]))


def unpacked(servers: int, server: int, ids: Bytes, rows: Words) -> ProvedShares:
    """Return a block of reports from the words (n, words) that one of the servers keeps or was sent."""
    count = len(ids)
    content = np.ascontiguousarray(rows, "<u8").view(np.uint8)
    body = _HEAD_BYTES + PART_BYTES * servers
    head = np.ascontiguousarray(content[:, :_HEAD_BYTES])
    parts = np.ascontiguousarray(content[:, _HEAD_BYTES:body]).reshape(count, servers, PART_BYTES)
    if content.shape[1] == body:
        return ProvedShares(server, ids, parts, keys=head)
    words = np.ascontiguousarray(rows[:, body // WORD_BYTES :])
    return ProvedShares(server, ids, parts, blinds=head, words=words)
