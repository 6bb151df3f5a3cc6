"""Deal noise among the servers of a collection, for sums that they hold in Shamir shares.

A server's own noise is no share of such sums. So each server that is present draws its noise, shares it among all, and
proves that it lies within its range (`dpmpc.linear.proving.noise`); each adds to its share of the sums its shares of
all noise that was dealt. The noise of t dealers is not counted on (`dpmpc.privacy.calibration`).

1. *Deal.* Each sends every other one its share. Each checks the hash of its own share, as for a report at the door.
2. *Lists.* Each announces the hash of its lists of parts. A dealer that sent a server others is named by that server.
3. *Point.* When all have all shares they toss one query point for all dealings of this run, and confirm it.
4. *Messages*, c + 1 words for each block of each dealing, to every other server; each announces the hash of its own.
5. *Verdicts.* Noise counts if every block of it is accepted. If a proof does not hold, its dealer lies: the run ends
   with its name, and can be repeated without it. If messages lie on no polynomial, the run ends too, and names whoever
   lies where that is sure (`judge`).
6. The digest of all lists is part of the manifest. Each server keeps its share of the noise (`openings`) before it
   seals the manifest.

**One point.** Two answers about one dealing at different points would give the noise away. A dealing lives in the
memory of one run, which answers once; a run that breaks before the manifest is sealed by all leaves nothing, and the
next one deals other noise. **One noise.** A server begins to open a manifest only after all have stated that they have
sealed it, and kept their share of its noise. So a repetition of what was begun deals nothing: each has its share, of
the same noise.

Promised, if at most t of the servers present lie and 2t + 1 are present: the noise of each lies in its range and is on
polynomials of degree t at all honest servers, but for `soundness_error`; fewer than t + 1 servers learn nothing of an
honest server's noise before the sums are opened; an honest server's noise is in the sums, or nothing is opened. Not
promised: how a lying server draws its own within the range, or that the dealing comes to an end while a server lies.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import InconsistentShares, InputError
from dpmpc.base.randomness import Label
from dpmpc.collect.opening.proof_checks import exchange_elements
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.linear.proving import ProofServer, Prover, QueryPoint, decide, joint_randomness
from dpmpc.linear.proving.circuit import FIELD
from dpmpc.linear.proving.decide import Verdicts
from dpmpc.linear.proving.noise import dealing_digest
from dpmpc.linear.proving.prove import ProvedShares
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.parties.network.conversation import Heard, confirm, exchange, in_frames, together, toss
from dpmpc.parties.network.frames import Kind, malformed_frame
from dpmpc.parties.network.party import Party
from dpmpc.release.proved_reports import packed, unpacked
from dpmpc.release.server import draw_dealt, noise_stream


@dataclasses.dataclass(frozen=True, eq=False)
class Dealt:
    """The outcome of a dealing at one server."""

    share: Words  # (k, width): its share of the noise of all dealers together. Secret
    dealers: tuple[int, ...]  # whose noise it is, ascending
    digest: bytes  # of all that was dealt, the same at all servers


class NoiseDealer:
    """One server's part: it deals, checks, answers, and adds up."""

    def __init__(self, server: ReleasingServer, dealers: Sequence[int]):
        self._task, scheme = server.collection.plan, server.collection.plan.scheme
        assert isinstance(scheme, ShamirSharing)
        self.scheme, self.statement, self.dealers = scheme, self._task.dealt_noise, tuple(dealers)
        self.circuit = self.statement.circuit
        self._number, self._threads = server.number, server.threads
        self._digests = {dealer: dealing_digest(server.collection.digest, dealer) for dealer in self.dealers}
        self._taken: dict[int, ProvedShares] = {}

    def deal(self) -> dict[int, Words]:
        """Draw this server's noise; return what each server gets of it, (blocks, words)."""
        stream = noise_stream(self._task)
        noise = draw_dealt(self._task, stream, threads=self._threads)
        prover = Prover(self.circuit, self.scheme, self._digests[self._number])
        shares = prover.reports(self.statement.witnesses(noise.reshape(-1)), self.statement.ids, stream)
        return {share.server: packed(share) for share in shares}

    def take(self, dealt: Mapping[int, Words]) -> None:
        """Check what this server was dealt."""
        for dealer, rows in dealt.items():
            shares = unpacked(self.scheme.servers, self._number, self.statement.ids, rows)
            door = ProofServer(self.circuit, self.scheme, self._digests[dealer], self._number)
            try:
                matching = door.own_parts_match(shares)
            except InputError as error:
                raise malformed_frame(dealer, Kind.NOISE, error) from error
            if not matching.all():
                raise InconsistentShares(
                    f"noise: server {dealer} lists another hash of the share of server {self._number} than the share "
                    f"that it dealt gives, in block {int(matching.argmin())}",
                    dealer,
                )
            self._taken[dealer] = shares

    def seeds(self, dealer: int) -> Bytes:
        """Return the seeds (blocks, 32) of the joint randomness of one dealing, which its lists of parts determine."""
        door = ProofServer(self.circuit, self.scheme, self._digests[dealer], self._number)
        return door.seeds(self._taken[dealer])

    def digest(self) -> bytes:
        """Return SHA-256(label || number of dealers || for each its number || its seeds), numbers in 4 bytes LE."""
        listed = [dealer.to_bytes(4, "little") + self.seeds(dealer).tobytes() for dealer in self.dealers]
        return hashlib.sha256(
            Label.NOISE_DEALINGS.value + len(self.dealers).to_bytes(4, "little") + b"".join(listed)
        ).digest()

    def joint(self) -> Words:
        """Return the joint randomness of all blocks, dealer by dealer."""
        return joint_randomness(self.circuit, np.concatenate([self.seeds(dealer) for dealer in self.dealers]))

    def answers(self, point: QueryPoint, joint: Words) -> Words:
        """Return this server's messages about all blocks, dealer by dealer."""
        server = ProofServer(self.circuit, self.scheme, self._digests[self._number], self._number)
        return server.query(point, joint, np.concatenate([self._records(dealer) for dealer in self.dealers]))

    def share(self) -> Words:
        """Return this server's share of the noise of all."""
        parts = [self.statement.outputs(self._records(dealer)) for dealer in self.dealers]
        return FIELD.sum_of(parts).reshape(self._task.sketch.rows, self._task.width)

    def _records(self, dealer: int) -> Words:
        return self._taken[dealer].records(self.circuit)


async def deal_noise(party: Party, server: ReleasingServer) -> Dealt:
    """Deal this server's noise, and check that of all others, together with them."""
    dealer = await together(party, lambda: NoiseDealer(server, party.present))
    shares = await together(party, dealer.deal)
    dealt = await exchange_dealt(party, shares)
    await together(party, lambda: dealer.take(dealt))
    lists = Heard(party)
    lists.take({number: dealer.seeds(number).view("<u8") for number in dealer.dealers})
    await lists.compare("lists of dealt noise")
    digest = dealer.digest()
    tossed = await toss(party, "the query point of noise")  # all have what was dealt to them: nothing of it changes now
    await confirm(party, hashlib.sha256(Label.NOISE_DEALINGS.value + digest + tossed).digest(), "query point of noise")
    point = QueryPoint.of_toss(dealer.circuit, tossed)
    with party.meter.phase("verify"):
        verdicts = await exchange_answers(party, dealer, point)
    await together(party, lambda: judge(dealer.scheme, dealer.dealers, verdicts))
    server.tell(f"noise of servers {', '.join(map(str, dealer.dealers))} is dealt, and proved to be within its range")
    return Dealt(await asyncio.to_thread(dealer.share), dealer.dealers, digest)


async def exchange_dealt(party: Party, shares: Mapping[int, Words]) -> dict[int, Words]:
    """Step 1: send each server its share in parts, and return what every server has dealt to this one."""
    mine, parts = shares[party.pid], []
    for part in in_frames(*mine.shape):
        shares_sent = {server: np.ascontiguousarray(share[part]) for server, share in shares.items()}
        parts.append(await exchange(party, Kind.NOISE, shares_sent))
    return {server: np.concatenate([mine[:0], *(received[server] for received in parts)]) for server in party.present}


async def exchange_answers(party: Party, dealer: NoiseDealer, point: QueryPoint) -> Verdicts:
    """Step 4: send and receive all messages; return the verdicts about all blocks, dealer by dealer."""
    joint = await asyncio.to_thread(dealer.joint)
    answers = await together(party, lambda: dealer.answers(point, joint))
    record, verdicts = Heard(party), []
    for part in in_frames(*answers.shape):
        messages = await exchange_elements(party, Kind.NOISE_PROOF, np.ascontiguousarray(answers[part]), record)
        verdicts.append(await asyncio.to_thread(decide, dealer.circuit, dealer.scheme, point, joint[part], messages))
    await record.compare("messages about noise")
    return Verdicts(
        np.concatenate([verdict.accepted for verdict in verdicts]),
        np.concatenate([verdict.inconsistent for verdict in verdicts]),
        {number: np.concatenate([verdict.odd[number] for verdict in verdicts]) for number in party.present},
    )


def judge(scheme: ShamirSharing, dealers: Sequence[int], verdicts: Verdicts) -> None:
    """Step 5: refuse unless every block of every dealing is accepted, and name anyone who lies where that is sure.

    Messages that lie on one polynomial are those of the dealer's own shares, as t + 1 honest servers fix it: if the
    proof then does not hold, the dealer lies. Where they do not, the dealer may have dealt other words, or a server may
    have sent others. Among 3t + 1 or more servers t wrong messages are always found, so that a server which is off in
    the noise of more than t others lies: one of these is honest. Among fewer no server is off by itself
    (`ShamirSharing.corrected`), since liars could make an honest one look so.
    """
    blocks = len(verdicts.accepted) // len(dealers)
    of = {dealer: slice(place * blocks, (place + 1) * blocks) for place, dealer in enumerate(dealers)}
    false = ~verdicts.accepted & ~verdicts.inconsistent
    liars = [dealer for dealer in dealers if false[of[dealer]].any()]
    if liars:
        raise InconsistentShares(
            f"noise: what servers {liars} dealt is not within its range: all messages agree, and the proof does not "
            "hold. Nothing was bound; the others can go on without them",
            liars[0],
        )
    unclear = [dealer for dealer in dealers if verdicts.inconsistent[of[dealer]].any()]
    if not unclear:
        return
    off = {
        server: [dealer for dealer in unclear if dealer != server and odd[of[dealer]].any()]
        for server, odd in verdicts.odd.items()
    }
    for server, others in off.items():
        if len(others) > scheme.threshold:
            raise InconsistentShares(
                f"noise: server {server} sent messages about the noise of servers {others} that are off, more than the "
                f"{scheme.threshold} of which may lie. Nothing was bound; the others can go on without it",
                server,
            )
    suspects = "; ".join(
        f"server {suspect} is off in that of servers {others}" for suspect, others in off.items() if others
    )
    raise InconsistentShares(
        f"noise: the messages about what servers {unclear} dealt lie on no polynomial of degree {scheme.threshold}: "
        f"one of these lies, or another server about them ({suspects or 'nobody is alone in being off'}). Nothing was "
        "bound; the run can be repeated"
    )
