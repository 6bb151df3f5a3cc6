"""Clients and servers of proved collections with Shamir shares that misbehave: bad dealers of reports and of noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpmpc.base.randomness import Stream
from dpmpc.collect.opening.noise_dealing import NoiseDealer
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import records_of
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.proving import Prover
from dpmpc.linear.proving.joint import PART_BYTES
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.release.proved_reports import circuit_of, packed
from dpmpc.release.server import draw_dealt
from support.hostile.provers import honest, witness_of
from support.proof_inputs import CrookedDealer

P = Mersenne61.modulus
_HEAD_BYTES = 16


def deal_one_word_off(
    collection: Collection, ids: Sequence[bytes], server: int, words: Sequence[int]
) -> list[list[bytes]]:
    """Make the records of reports each of which has one word off at one server, with hashes that fit."""
    scheme = collection.plan.scheme
    assert isinstance(scheme, ShamirSharing)
    witness = witness_of(collection, [0] * len(collection.plan.schema))
    prover = Prover(circuit_of(collection.plan), CrookedDealer(scheme, server, words), collection.digest)
    listed = np.frombuffer(b"".join(ids), np.uint8).reshape(len(ids), -1)
    return records_of(prover.reports(np.repeat(witness, len(ids), axis=0), listed))


def list_another_hash(collection: Collection, report_id: bytes) -> list[bytes]:
    """Tell server 0 another hash of the last server's share than the others."""
    records = honest(collection, report_id)
    payload = bytearray(records[0][ID_BYTES:])
    payload[_HEAD_BYTES + PART_BYTES * len(records) - 1] ^= 1
    return [report_id + bytes(payload), *records[1:]]


# Servers that deal noise: what one of them does in place of `NoiseDealer`.


class DealsWitness(NoiseDealer):
    """Deals what `change` makes of the true witnesses, with the proof that an honest dealer would make of that."""

    def __init__(self, server, dealers, change=lambda witnesses: witnesses, scheme=None):
        super().__init__(server, dealers)
        self._change, self._dealing = change, self.scheme if scheme is None else scheme

    def deal(self):
        noise = draw_dealt(self._task, Stream.from_os())
        witnesses = self._change(self.statement.witnesses(noise.reshape(-1)))
        shares = Prover(self.circuit, self._dealing, self._digests[self._number]).reports(witnesses, self.statement.ids)
        return {share.server: packed(share) for share in shares}


def beyond_the_range(witnesses):
    """One digit is 4."""
    witnesses[0, 0] = 4
    return witnesses


class DealsOneWordOff(DealsWitness):
    """Deals one server one word that is off, with hashes that fit."""

    def __init__(self, server, dealers, victim, word):
        super().__init__(server, dealers)
        self._dealing = CrookedDealer(self.scheme, victim, [word])


class ChangesWhatIsDealt(NoiseDealer):
    """Deals noise as agreed, but for a change of what one server is sent."""

    def __init__(self, server, dealers, victim, change):
        super().__init__(server, dealers)
        self._victim, self._change = victim, change

    def deal(self):
        rows = super().deal()
        rows[self._victim] = self._change(rows[self._victim].copy())
        return rows


class AnswersWrongly(NoiseDealer):
    """Sends messages that are off about the noise of some dealers."""

    def __init__(self, server, dealers, about):
        super().__init__(server, dealers)
        self._about = about

    def answers(self, point, joint):
        words = super().answers(point, joint)
        for dealer in self._about:
            place = self.dealers.index(dealer) * self.statement.blocks
            words[place, 0] = (int(words[place, 0]) + 1) % P
        return words


def at_one_server(number, kind, *arguments):
    """Return what takes the place of `NoiseDealer`: `kind` at one server, and the true one at all others."""

    def make(server, dealers):
        return kind(server, dealers, *arguments) if server.number == number else NoiseDealer(server, dealers)

    return make
