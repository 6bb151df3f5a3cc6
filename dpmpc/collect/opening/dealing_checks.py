"""Find the reports whose Shamir shares lie on no polynomial, before anything is bound to a release.

One client that deals such shares would otherwise make the opened sums inconsistent, and end the collection. The check
and its proof are `dpmpc.linear.sharing.check_values`: the servers open one linear combination of the words of each
report, under a mask that the client has shared along with them. **Two combinations under one mask would reveal a linear
function of the row.** So every server uses one seed of the coefficients for one collection, for ever, whatever runs
break and whichever server lies:

===============  =======================  =====================================================================
state            durable in the ledger    what the server may do
===============  =======================  =====================================================================
no seed          nothing                  take part in a toss; sign the seed that comes of it once all servers of
                                          the run have received the same coins; begin anew in the next run
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

Not promised: that a run comes to an end where a server lies. If a link breaks while the seed is recorded, one honest
server may be left with a seed that the others do not have; they can go on without that one (`--without`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec
import numpy as np

from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import BatchMismatch, DpmpcError, VerificationFailed
from dpmpc.base.randomness import SEED_BYTES, Label, derive
from dpmpc.base.untrusted import ReadError, read_json
from dpmpc.collect.opening.agreement import require_unaccused
from dpmpc.collect.opening.proof_checks import exchange_elements
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.id_files import selected_ids
from dpmpc.collect.terms.certificate import require_quorum
from dpmpc.collect.terms.task_file import Collection
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.linear.sharing.check_values import Judgement, judge
from dpmpc.parties.network.announcing import announce, settle
from dpmpc.parties.network.conversation import Heard, in_frames, together, toss
from dpmpc.parties.network.frames import Kind, malformed_frame
from dpmpc.parties.network.identity import LONGEST_SIGNATURE, sign, verify_signature
from dpmpc.parties.network.party import Party

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

    ids: Bytes  # (n, 16): ascending
    judgement: Judgement  # what was found


async def check_dealing(party: Party, server: ReleasingServer, ids: Bytes) -> CheckedDealing:
    """Leave out the reports of a batch whose shares lie on no polynomial."""
    seed = await agree_on_seed(party, server)
    own = await together(party, lambda: server.check_values(ids, seed))
    values = await exchange_values(party, own)
    judgement = await together(party, lambda: judge_unaccused(server, values))
    return CheckedDealing(selected_ids(party.folder, ids, judgement.good), judgement)


def judge_unaccused(server: ReleasingServer, values: Mapping[int, Words]) -> Judgement:
    """Judge check values, report who is set aside, and refuse if that is this server."""
    scheme = server.collection.plan.scheme
    assert isinstance(scheme, ShamirSharing)
    judgement = judge(scheme, values)
    if judgement.aside:
        server.tell(f"servers {list(judgement.aside)} sent wrong check values for most reports, and do not count")
    require_unaccused(server.number, judgement.aside, "check values")
    return judgement


async def agree_on_seed(party: Party, server: ReleasingServer) -> bytes:
    """Return the seed of this collection's check when all servers of the run have recorded it."""
    collection = server.collection
    told = await announce(party, Kind.SEED, server.ledger.seed(collection.digest) or b"", largest=_LARGEST_RECORD)
    record = await together(party, lambda: recorded_by_any(collection, told))
    if record is None:
        record = await toss_seed(party, server)
    await settle(party)  # nobody records a seed that others have not seen
    await together(party, lambda: keep(server, record))
    return bytes.fromhex(record.seed)


def recorded_by_any(collection: Collection, told: Mapping[int, bytes]) -> SeedRecord | None:
    """Return the record that servers show, who may all show one seed only, or None if no server shows any."""
    recorded = {server: read_record(collection, content, server) for server, content in told.items() if content}
    if len({record.seed for record in recorded.values()}) > 1:
        by = ", ".join(f"server {number} {record.seed[:16]}..." for number, record in recorded.items())
        raise BatchMismatch(
            f"dealing seed: different ones are recorded for this collection by {by}; check values under two seeds "
            "would reveal something of the rows, so that no server takes another one; go on without one of them"
        )
    return next(iter(recorded.values()), None)


def keep(server: ReleasingServer, record: SeedRecord) -> None:
    """Record a seed durably, or refuse it for one that is recorded already."""
    kept = read_json(server.ledger.keep_seed(server.collection.digest, record.encode()), SeedRecord)
    if kept.seed != record.seed:
        raise BatchMismatch(f"dealing seed: {record.seed} given, {kept.seed} expected, which is recorded")


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
    collection = server.collection
    seed = derive(await toss(party, "the check of dealings"), Label.DEALING_SEED, 0, SEED_BYTES)
    message = seed_message(collection, party.present, seed)
    own = await together(party, lambda: sign(server.identity, message))
    signatures = await announce(party, Kind.SIGNATURE, own, largest=LONGEST_SIGNATURE)
    await together(party, lambda: require_signed(collection, message, signatures))
    return SeedRecord(seed.hex(), {str(number): one.hex() for number, one in signatures.items()})


def require_signed(collection: Collection, message: bytes, signatures: Mapping[int, bytes]) -> None:
    """Refuse a seed that not all servers of the toss have signed with their pinned keys."""
    for server, signature in signatures.items():
        try:
            verify_signature(collection.servers[server].certificate.encode(), message, signature)
        except VerificationFailed as error:
            raise malformed_frame(server, Kind.SIGNATURE, error) from error


async def exchange_values(party: Party, own: Words) -> dict[int, Words]:
    """Send one's check values to every server in parts, and return every server's, when each has sent all the same."""
    heard, parts = Heard(party), []
    for part in in_frames(len(own)):
        parts.append(await exchange_elements(party, Kind.CHECK, own[part], heard))
    await heard.compare("check values")
    return {server: np.concatenate([own[:0], *(told[server] for told in parts)]) for server in party.present}
