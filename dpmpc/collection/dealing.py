"""Find the reports whose Shamir shares lie on no polynomial, before anything is bound to a release.

One client that deals such shares would otherwise make the opened sums inconsistent, and end the collection. The check
and its proof are `dpmpc.sharing.check_values`: the servers open one linear combination of the words of each report,
under a mask that the client has shared along with them. **Two combinations under one mask would tell a linear function
of the row.** So every server uses one seed of the coefficients for one collection, for ever, whatever runs break and
whoever lies:

===============  =======================  =====================================================================
state            durable in the ledger    what the server may do
===============  =======================  =====================================================================
no seed          nothing                  take part in a toss; sign the seed that comes of it once all servers of
                                          the run say that they have the same one; begin anew in the next run
seed recorded    the seed, and the        say so; show the record to others, who record the same seed; refuse any
                 signature of each        other seed, for ever
                 server of its toss
all have         the same                 send check values under this seed, in this run and any later one
recorded it
===============  =======================  =====================================================================

There is no way back from "recorded", so a server that has sent check values need not record that too.

**No two honest servers send check values under different seeds.** A server sends them only in a run of whose servers
each has said, after recording, that it has recorded the same seed. Let h send under X among the servers P, and g under
Y among Q, both honest. Releases need more than (M + t) / 2 servers (`require_quorum`), so P and Q have more than t
servers in common, one of which is honest. It has recorded X and Y, hence X = Y. Whom a lying third server told what
plays no part in this.

**The seed is one that no client knew.** A server that has no seed takes another server's only with the signatures of a
quorum under it. An honest server signs only what came of a toss with its own coin, after it took no more reports; so
the honest servers had their shares of every report before the seed existed. A server that breaks runs off until it
likes the seed chooses among as many: after r runs a badly dealt report passes with probability r / p.

Not promised: that a run comes to an end where a server lies. It can tell different servers different things before the
seed is recorded, and so end the run, or, if a link breaks at that moment too, leave one honest server with a seed that
the others do not have; the others can go on without that one (`--without`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.collection.agreement import compare_told, require_unaccused, unless_refused
from dpmpc.collection.certificate import require_quorum
from dpmpc.collection.releasing import ReleasingServer
from dpmpc.collection.task_file import Collection
from dpmpc.encoding.ring import Mersenne61, Words
from dpmpc.errors import BatchMismatch, DpmpcError, VerificationFailed
from dpmpc.network.coins import COIN_BYTES, exchange_bytes, toss_coins
from dpmpc.network.frames import ContentType, Kind, malformed_frame
from dpmpc.network.identity import sign, verify_signature
from dpmpc.network.party import Party
from dpmpc.randomness import SEED_BYTES, Label, Stream, derive
from dpmpc.sharing import ShamirSharing
from dpmpc.sharing.check_values import Judgement, judge
from dpmpc.untrusted import ReadError, read_json

VALUES_IN_A_FRAME = 1 << 20
_LARGEST_RECORD = 1 << 16


class SeedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A seed of coefficients, and the signatures that prove that it was tossed."""

    seed: str  # 32 bytes, hexadecimal
    signatures: dict[str, str]  # the signature of each server that took part in the toss, by number, hexadecimal

    def encode(self) -> bytes:
        """Return the record as JSON."""
        return msgspec.json.encode(self)


@dataclasses.dataclass(frozen=True, eq=False)
class CheckedDealing:
    """A batch whose reports were dealt correctly."""

    ids: NDArray[np.uint8]  # (n, 16): ascending
    judgement: Judgement  # what was found


async def check_dealing(party: Party, server: ReleasingServer, ids: NDArray[np.uint8]) -> CheckedDealing:
    """Leave out the reports of a batch whose shares lie on no polynomial."""
    seed = await agree_on_seed(party, server)
    own = await unless_refused(party, lambda: server.check_values(ids, seed))
    values = await exchange_values(party, own)
    await compare_values(party, values)
    judgement = await unless_refused(party, lambda: judge_unaccused(server, values))
    return CheckedDealing(np.ascontiguousarray(ids[judgement.good]), judgement)


def judge_unaccused(server: ReleasingServer, values: Mapping[int, Words]) -> Judgement:
    """Judge check values, tell who is set aside, and refuse if that is this server."""
    scheme = server.collection.plan.scheme
    assert isinstance(scheme, ShamirSharing)
    judgement = judge(scheme, values)
    if judgement.aside:
        server.tell(f"servers {list(judgement.aside)} told wrong check values for most reports, and do not count")
    require_unaccused(server.number, judgement.aside, "check values")
    return judgement


async def agree_on_seed(party: Party, server: ReleasingServer) -> bytes:
    """Return the seed of this collection's check when all servers of the run have recorded it."""
    collection = server.collection
    recorded = await exchange_records(party, collection, server.ledger.seed(collection.digest))
    seeds = {record.seed for record in recorded.values()}
    if len(seeds) > 1:
        told = ", ".join(f"server {number} {record.seed[:16]}..." for number, record in recorded.items())
        raise BatchMismatch(
            f"dealing seed: different ones are recorded for this collection by {told}; check values under two seeds "
            "would tell something of the rows, so that no server takes another one; go on --without one of them"
        )
    record = next(iter(recorded.values()), None)
    await compare_seeds(party, b"" if record is None else bytes.fromhex(record.seed))
    if record is None:
        record = await toss_seed(party, server)
    await unless_refused(party, lambda: keep(server, record))
    return bytes.fromhex(record.seed)


def keep(server: ReleasingServer, record: SeedRecord) -> None:
    """Record a seed durably, or refuse it for one that is recorded already."""
    kept = read_json(server.ledger.keep_seed(server.collection.digest, record.encode()), SeedRecord)
    if kept.seed != record.seed:
        raise BatchMismatch(f"dealing seed: {record.seed} given, {kept.seed} expected, which is recorded")


async def exchange_records(party: Party, collection: Collection, own: bytes | None) -> dict[int, SeedRecord]:
    """Exchange the seeds that servers have recorded, with their signatures."""
    for peer in party.runtime.peers:
        await party.runtime.send_frame(peer, party.runtime.frame(Kind.SEED, own or b""))
    told = {party.pid: own or b""}
    for peer in party.runtime.peers:
        told[peer] = (await party.runtime.receive_frame(peer, Kind.SEED, ContentType.BYTES)).raw
    return {server: read_record(collection, content, server) for server, content in sorted(told.items()) if content}


def read_record(collection: Collection, content: bytes, sender: int) -> SeedRecord:
    """Read a record of another server and check that a quorum has signed its seed."""
    try:
        record = read_json(content, SeedRecord, largest=_LARGEST_RECORD)
        seed = bytes.fromhex(record.seed)
        numbers = [int(number) for number in record.signatures]
        if len(seed) != SEED_BYTES or seed.hex() != record.seed or numbers != sorted(set(numbers)):
            raise ReadError("32 bytes and the numbers of servers in order expected")
        if not set(numbers) <= set(range(len(collection.servers))):
            raise ReadError("numbers of servers of the collection expected")
        absent = set(range(len(collection.servers))) - set(numbers)
        require_quorum(collection, tuple(absent))
        for number, signature in zip(numbers, record.signatures.values(), strict=True):
            certificate = collection.servers[number].certificate.encode()
            verify_signature(certificate, seed_message(collection, numbers, seed), bytes.fromhex(signature))
    except (ValueError, IndexError, DpmpcError) as error:
        raise malformed_frame(sender, Kind.SEED, error) from None
    return record


def seed_message(collection: Collection, members: list[int], seed: bytes) -> bytes:
    """Return what each server of a toss signs."""
    numbers = b"".join(number.to_bytes(4, "little") for number in members)
    return Label.DEALING_SEED.value + collection.digest + len(members).to_bytes(4, "little") + numbers + seed


async def toss_seed(party: Party, server: ReleasingServer) -> SeedRecord:
    """Toss a seed and sign it; nothing is on the disk yet."""
    toss = await toss_coins(party, Stream.from_os().bytes(COIN_BYTES))
    seed = derive(toss, Label.DEALING_SEED, 0, SEED_BYTES)
    await compare_seeds(party, seed)
    message = seed_message(server.collection, party.present, seed)
    signature = await unless_refused(party, lambda: sign(server.identity, message))
    for peer in party.runtime.peers:
        await party.runtime.send_frame(peer, party.runtime.frame(Kind.SIGNATURE, signature))
    signatures = {party.pid: signature}
    for peer in party.runtime.peers:
        signatures[peer] = (await party.runtime.receive_frame(peer, Kind.SIGNATURE, ContentType.BYTES)).raw
        pinned = server.collection.servers[peer].certificate.encode()
        try:
            verify_signature(pinned, message, signatures[peer])
        except VerificationFailed as error:
            raise malformed_frame(peer, Kind.SIGNATURE, error) from error
    return SeedRecord(seed.hex(), {str(number): signatures[number].hex() for number in party.present})


async def compare_seeds(party: Party, seed: bytes) -> None:
    """Return when all servers of the run say that they have the same seed, or none."""
    own = hashlib.sha256(Label.DEALING_SEED.value + seed).digest()
    for number, other in zip(party.present, await exchange_bytes(party, Kind.DIGEST, own, len(own)), strict=True):
        if other != own:
            raise BatchMismatch(
                f"dealing seed: server {number} has another one than server {party.pid}; a server has told them "
                "different things, or one of them lies. Nothing was sent; the run can be repeated"
            )


async def exchange_values(party: Party, own: Words) -> dict[int, Words]:
    """Send one's check values to everybody in parts, and return everybody's."""
    received: dict[int, list[Words]] = {peer: [] for peer in party.runtime.peers}
    for first in range(0, len(own), VALUES_IN_A_FRAME):
        part = own[first : first + VALUES_IN_A_FRAME]
        for peer in party.runtime.peers:
            await party.runtime.send_frame(peer, party.runtime.frame(Kind.CHECK, part))
        for peer, parts in received.items():
            words = (await party.runtime.receive_frame(peer, Kind.CHECK, ContentType.WORDS, part.shape)).words
            parts.append(words)
    values = {party.pid: own, **{peer: np.concatenate(parts) for peer, parts in received.items()}}
    for peer, words in values.items():
        if not Mersenne61().is_canonical(words):
            raise malformed_frame(peer, Kind.CHECK, "an element that is not canonical")
    return dict(sorted(values.items()))


async def compare_values(party: Party, values: Mapping[int, Words]) -> None:
    """Return when all servers have received the same check values from each server."""
    digests = {
        server: hashlib.sha256(np.ascontiguousarray(words, "<u8").data).digest() for server, words in values.items()
    }
    await compare_told(party, digests, "check values")
