"""Check the proofs of all reports among servers, after closing and before anything is bound.

1. *Point.* They announce which query point is sealed or used (`dpmpc.collect.store.query_points`). If no server
   has used one they toss; each seals the toss; all confirm it. Each marks it as used; **all confirm again; only then
   does any server send.** If one is used, all present must have sealed it, and they go on with it.
2. *Hashes.* Each reads its own shares, hashes them once more, and names the reports whose list has another hash: none,
   unless what it keeps has changed since it arrived. These are left out, under the name of the server that reports it.
   In the same pass over its shares it computes the messages of step 4.
3. *Lists.* They compare a hash over the seeds of all reports, which the lists of parts determine. Only if these differ
   do they send the seeds, 32 bytes for each report, those that have this hash. A report whose seeds differ is left out.
4. *Messages.* Each sends c + 1 words for each report to every other server, in blocks, in the order of the batch.
5. *Verdicts.* Each decides alone. Each announces the hash of its messages. Steps 2 to 5 are taken for one piece of the
   batch after another, so that memory does not grow with it. In the end they confirm the ids that are accepted.
   With Shamir shares the same messages show reports that were dealt on no polynomial: those are *inconsistent*, and the
   server whose message is off is counted, if there is one without whom the others agree.

Steps 2 to 5 are `check_at_point`, which a run without a collection takes as well (`dpmpc.collect.opening.run_proofs`).

Promised, if all servers follow the protocol, or with Shamir shares all but t of those present, of whom there are 2t + 1
or more: an accepted report is a point of the proved set, but for the probability that `soundness` states, and all
servers accept the same ones. Whatever servers do, as long as one of them is honest (additive), or no more than t lie
(Shamir): no two answers of honest servers for a report are at different points, in whatever runs, which break wherever
they like; so checks reveal nothing of an honest row. A repetition answers at the same point, with the same bytes, and
comes to the same verdicts. Not promised: that with additive shares a lying server accepts no false report of a client
that it works with, since it could always shift the sums; or that it drops no report. All see how many were refused.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.randomness import Label
from dpmpc.base.untrusted import ReadError, read_json
from dpmpc.collect.opening.agreement import batch_digest
from dpmpc.collect.opening.pieces import Cluster, Scan, ScanTask, Spread, ThisProcess
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.id_files import IdFile
from dpmpc.collect.store.query_points import PointStanding, point_to_go_on_with
from dpmpc.collect.terms.certificate import DIFFERENT_LISTS, FALSE_PROOF, wrong_hash
from dpmpc.collect.terms.shamir_claims import INCONSISTENT
from dpmpc.linear.proving import QueryPoint, decide, joint_randomness
from dpmpc.linear.proving.circuit import FIELD
from dpmpc.linear.proving.decide import Verdicts
from dpmpc.parties.network.announcing import announce
from dpmpc.parties.network.conversation import WORDS_IN_A_FRAME, Heard, confirm, exchange, in_frames, together, toss
from dpmpc.parties.network.frames import Kind, malformed_frame
from dpmpc.parties.network.party import Party
from dpmpc.release.proved_reports import circuit_of, scheme_of

PIECE = 1 << 15  # reports in a piece; all servers have the same


@dataclasses.dataclass(frozen=True, eq=False)
class Accepted:
    """The reports of a batch whose proofs hold."""

    ids: Bytes  # (n, 16): in the order of the batch
    refused: dict[str, int]  # how many others there are, by cause: see `dpmpc.collect.terms.certificate.refusal_causes`
    # with Shamir shares, for each server, in how many inconsistent reports its message was off and those of all others
    # agreed; servers with none are not listed. This does not prove a server at fault: clients may have dealt it other
    # words
    odd: dict[int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Checked:
    """What the servers have found out about a batch."""

    accepted: Bytes  # (n, 16): ids of the reports whose proofs hold, in the order of the batch
    refused: dict[str, Bytes]  # ids of the others, by cause; those of a cause may be none
    odd: dict[int, int]  # see `Accepted`

    @property
    def counts(self) -> dict[str, int]:
        """How many are refused, by cause, where there are any."""
        return {cause: len(ids) for cause, ids in self.refused.items() if len(ids)}


class Verifier:
    """What one server computes by itself.

    Parameters
    ----------
    work : ScanTask
        Its messages.
    ids : ndarray of uint8
        Of the reports of the batch, (n, 16).
    record : callable
        Called with ids and messages before these are sent; returns which of them may be sent.
    cluster : Cluster
        The processes that compute the messages.
    """

    def __init__(
        self,
        work: ScanTask,
        ids: Bytes,
        record: Callable[[Bytes, Words], NDArray[np.bool_]] = lambda ids, messages: np.ones(len(ids), np.bool_),
        cluster: Cluster = ThisProcess(),  # noqa: B008 - it holds nothing
    ):
        self.circuit, self.scheme = circuit_of(work.plan), scheme_of(work.plan)
        self.number, self.toss = work.number, work.toss
        self.point = QueryPoint.of_toss(self.circuit, work.toss)
        self.ids, self._record = ids, record
        self._frame = max(1, WORDS_IN_A_FRAME // (self.circuit.wires + 1))
        self._scans = cluster.map(work, self.pieces())

    def pieces(self) -> Iterator[Bytes]:
        """Cut the batch into pieces, the same at all servers; what is in memory is of a few pieces."""
        for first in range(0, max(1, len(self.ids)), PIECE):
            yield self.ids[first : first + PIECE]

    def frames(self, count: int) -> Iterator[slice]:
        """Cut the messages of this many reports into frames."""
        return (slice(first, min(first + self._frame, count)) for first in range(0, count, self._frame))

    def scan(self, ids: Bytes) -> Scan:
        """Return seeds and messages of the next piece, some of which are not sent.

        What may be sent is recorded first: a report that was answered differently in an earlier run does not fit.
        """
        scan = next(self._scans)
        fitting = scan.fitting.copy()
        fitting[fitting] = self._record(ids[fitting], scan.messages[fitting])
        return scan._replace(fitting=fitting)

    def verdicts(self, seeds: Bytes, messages: dict[int, Words]) -> Verdicts:
        """Decide on some reports by the messages of all servers."""
        return decide(self.circuit, self.scheme, self.point, joint_randomness(self.circuit, seeds), messages)


async def check_proofs(party: Party, server: ReleasingServer, ids: Bytes) -> Accepted:
    """Find the reports of a batch of a collection whose proofs hold, together with all other servers."""
    collection = server.collection
    with party.meter.phase("verify"):
        point = await agree_on_point(party, server)
        spread = server.spread or Spread(ThisProcess(), server.spool)
        work = ScanTask(collection.plan, collection.digest, server.number, spread.store, point)
        verifier = Verifier(work, ids, server.record_answers, spread.cluster)
        found = await check_at_point(party, verifier)
    for number, count in found.odd.items():
        server.tell(
            f"the message of server {number} was off in {count} inconsistent reports, and those of all others agreed: "
            "its fault, or that of the clients"
        )
    await together(party, lambda: server.keep_refused(found.refused))
    return Accepted(found.accepted, found.counts, found.odd)


async def check_at_point(party: Party, verifier: Verifier) -> Checked:
    """Find out (steps 2 to 5) which reports of a batch are well formed, at the point that all have marked as used."""
    refused, odd = collections.defaultdict[str, list[Bytes]](list), collections.Counter[int]()
    with IdFile(party.folder) as proved:
        for ids in verifier.pieces():
            piece = await check_piece(party, verifier, ids)
            proved.append(piece.accepted)
            odd.update(piece.odd)
            for cause, others in piece.refused.items():
                refused[cause].append(others)
        accepted = verifier.ids if len(proved) == len(verifier.ids) else proved.ids()
    await confirm(party, batch_digest(accepted), "batch: the reports whose proofs hold")
    joined = {cause: np.concatenate(others) for cause, others in refused.items()}
    return Checked(accepted, joined, dict(sorted(odd.items())))


async def check_piece(party: Party, verifier: Verifier, ids: Bytes) -> Checked:
    """Take steps 2 to 5 for a piece of a batch."""
    scan = await together(party, lambda: verifier.scan(ids))
    refused = {}
    left = np.ones(len(ids), np.bool_)
    for server, misfits in (await exchange_misfits(party, ~scan.fitting)).items():
        refused[wrong_hash(server)] = ids[misfits & left]
        left &= ~misfits
    ids, seeds, messages = (_among(rows, left) for rows in (ids, scan.seeds, scan.messages))
    alike = await compare_lists(party, seeds)
    refused[DIFFERENT_LISTS] = ids[~alike]
    ids, seeds, messages = (_among(rows, alike) for rows in (ids, seeds, messages))
    await confirm(party, batch_digest(ids), "batch: the reports whose lists agree")
    verdicts = await exchange_messages(party, verifier, seeds, messages)
    refused[FALSE_PROOF] = ids[~verdicts.accepted & ~verdicts.inconsistent]
    refused[INCONSISTENT] = ids[verdicts.inconsistent]
    odd = {number: int(off.sum()) for number, off in verdicts.odd.items() if off.any()}
    return Checked(ids[verdicts.accepted], refused, odd)


def _among(rows: NDArray[Any], chosen: NDArray[np.bool_]) -> NDArray[Any]:
    """Return some rows; no copy of all."""
    return rows if chosen.all() else rows[chosen]


async def agree_on_point(party: Party, server: ReleasingServer) -> bytes:
    """Step 1: return the toss of the query point, once all servers have marked it as used."""
    own = await together(party, server.points.standing)
    told = await announce(party, Kind.POINT, msgspec.json.encode(own))
    point = await together(
        party, lambda: point_to_go_on_with({number: read_point(raw, number) for number, raw in told.items()})
    )
    if point is None:
        tossed = point = await toss(party, "the query point")
        await together(party, lambda: server.points.seal(tossed))
    await confirm(party, point_digest(point), "query point that is sealed")
    used = point
    await together(party, lambda: server.points.use(used))
    await confirm(party, point_digest(point), "query point that is used")
    server.tell("all servers have closed and use one query point; each checks the proofs")
    return point


def read_point(raw: bytes, server: int) -> PointStanding:
    """Step 1: read what a server states of its point."""
    try:
        standing = read_json(raw, PointStanding)
        if standing.used and not standing.point:
            raise ReadError("a point that is used, and none")
    except ReadError as error:
        raise malformed_frame(server, Kind.POINT, error) from error
    return standing


def point_digest(toss: bytes) -> bytes:
    """Return SHA-256(label || toss)."""
    return hashlib.sha256(Label.QUERY_POINT.value + toss).digest()


async def exchange_misfits(party: Party, own: NDArray[np.bool_]) -> dict[int, NDArray[np.bool_]]:
    """Step 2: return the reports that do not fit a server's own hash, as each server states; a server may lie."""
    content = np.packbits(own).tobytes() if own.any() else b""
    told = await announce(party, Kind.MISFITS, content, largest=-(-len(own) // 8))
    misfits = {}
    for server, raw in told.items():
        bits = np.unpackbits(np.frombuffer(raw or bytes(-(-len(own) // 8)), np.uint8)).astype(np.bool_)
        if len(bits) != 8 * -(-len(own) // 8) or bits[len(own) :].any():
            raise malformed_frame(
                server, Kind.MISFITS, f"{len(raw)} bytes, a bit for each of {len(own)} reports or nothing expected"
            )
        misfits[server] = bits[: len(own)]
    return misfits


async def compare_lists(party: Party, seeds: Bytes) -> NDArray[np.bool_]:
    """Step 3: return whether all servers have the same seeds, for each report."""
    own = hashlib.sha256(seeds.data).digest()
    announced = await announce(party, Kind.DIGEST, own, len(own))
    alike = np.ones(len(seeds), np.bool_)
    if set(announced.values()) == {own}:
        return alike
    words, heard = np.ascontiguousarray(seeds).view("<u8"), Heard(party)
    for part in in_frames(*words.shape):
        received = await exchange(party, Kind.SEEDS, words[part])
        heard.take(received)
        for theirs in received.values():
            alike[part] &= (theirs == words[part]).all(axis=1)
    await together(party, lambda: heard.require(announced, "lists"))
    return alike


async def exchange_messages(party: Party, verifier: Verifier, seeds: Bytes, messages: Words) -> Verdicts:
    """Send (steps 4 and 5) and receive the messages of a piece, and return the verdicts."""
    accepted, inconsistent = np.zeros(len(seeds), np.bool_), np.zeros(len(seeds), np.bool_)
    odd = {number: np.zeros(len(seeds), np.bool_) for number in party.present}
    heard = Heard(party)
    for rows in verifier.frames(len(seeds)):
        told = await exchange_elements(party, Kind.PROOF, np.ascontiguousarray(messages[rows]), heard)
        verdicts = await asyncio.to_thread(verifier.verdicts, seeds[rows], told)
        accepted[rows] = verdicts.accepted
        inconsistent[rows] = verdicts.inconsistent
        for number, off in verdicts.odd.items():
            odd[number][rows] = off
    await heard.compare("messages about proofs")
    return Verdicts(accepted, inconsistent, odd)


async def exchange_elements(party: Party, kind: Kind, own: Words, heard: Heard) -> dict[int, Words]:
    """Exchange elements of the field, the same to all, and remember what was received."""
    received = await exchange(party, kind, own)
    for peer, words in received.items():
        if not FIELD.is_canonical(words):
            raise malformed_frame(peer, kind, "an element that is not canonical")
    heard.take(received)
    return received
