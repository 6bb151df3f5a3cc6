"""Reports that are changed after their proof was made, and counts of false ones that servers accept: none is expected.

`Reports` is a block of reports at all servers, in one process, which decide about them at a fresh point each time.
`try_lies` and `try_changes` count over as many as one likes, through the library's own prover and servers.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bench.system.false_reports import Draw, lies_about, not_zero, points, shifted, stated
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import SEED_BYTES
from dpmpc.linear.proving import ProofServer, Prover, QueryPoint, decide, joint_randomness
from dpmpc.linear.proving.circuit import FIELD, P, RowCircuit
from dpmpc.linear.proving.joint import ID_BYTES, PART_BYTES
from dpmpc.linear.proving.prove import ProvedShares
from dpmpc.linear.sharing import AdditiveSharing

BLOCK = 10_000

Verdicts = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class Reports:
    """A block of reports at all servers, in one process."""

    servers: list[ProofServer]  # one for each share
    shares: list[ProvedShares]  # what each server got
    records: list[Words]  # the words that these stand for
    joint: Words  # the joint randomness of each report, from the lists of hashes

    @classmethod
    def of(cls, circuit: RowCircuit, scheme: AdditiveSharing, witnesses: Words) -> Self:
        """Share witnesses, true or false, with the proofs that an honest client computes of them."""
        digest = secrets.token_bytes(PART_BYTES)
        shares = Prover(circuit, scheme, digest).reports(witnesses, new_ids(len(witnesses)))
        servers = [ProofServer(circuit, scheme, digest, number) for number in range(scheme.servers)]
        return cls.at(servers, shares)

    @classmethod
    def at(cls, servers: list[ProofServer], shares: list[ProvedShares]) -> Self:
        """Take what servers hold."""
        circuit = servers[0].circuit
        joint = joint_randomness(circuit, servers[0].seeds(shares[0]))
        return cls(servers, shares, [share.records(circuit) for share in shares], joint)

    def at_the_door(self) -> Verdicts:
        """Tell which reports all servers take."""
        pairs = zip(self.servers, self.shares, strict=True)
        taken: Verdicts = np.logical_and.reduce([server.own_parts_match(share) for server, share in pairs])
        return taken

    def accepted(
        self, *, joint: Words | None = None, messages: Callable[[dict[int, Words]], None] = lambda messages: None
    ) -> Verdicts:
        """Decide at a fresh point, with other joint randomness or messages where these are given."""
        first, joint = self.servers[0], self.joint if joint is None else joint
        point = QueryPoint.of_toss(first.circuit, secrets.token_bytes(SEED_BYTES))
        told = {
            server.server: server.query(point, joint, records)
            for server, records in zip(self.servers, self.records, strict=True)
        }
        messages(told)
        return decide(first.circuit, first.scheme, point, joint, told).accepted

    def with_words(self, words: Words) -> Reports:
        """Replace the words of the last server, and leave the hashes as they were."""
        return dataclasses.replace(self, records=[*self.records[:-1], words])

    def with_hashes_that_fit(self, words: Words) -> Reports:
        """Replace the words of the last server, and the hashes in all lists."""
        last = dataclasses.replace(self.shares[-1], words=words)
        parts = last.parts.copy()
        parts[:, last.server] = last.own_parts(self.servers[0].circuit, self.servers[0].binding)
        shares = [dataclasses.replace(share, parts=parts) for share in (*self.shares[:-1], last)]
        return Reports.at(self.servers, shares)


def new_ids(count: int) -> Bytes:
    """Draw report ids (n, 16)."""
    return np.frombuffer(secrets.token_bytes(ID_BYTES * count), np.uint8).reshape(count, ID_BYTES)


def _one_word(reports: Reports, draw: Draw) -> Verdicts:
    words = reports.records[-1].copy()
    places = draw.integers(0, words.shape[1], len(words))
    return reports.with_words(shifted(words, places, not_zero(draw, len(words)))).accepted()


def _one_bit(reports: Reports, draw: Draw) -> Verdicts:
    words, rows = reports.records[-1].copy(), np.arange(len(reports.joint))
    places = draw.integers(0, words.shape[1], len(words))
    flipped = words[rows, places] ^ (np.uint64(1) << draw.integers(0, FIELD.bits, len(words), np.uint64))
    words[rows, places] = np.where(flipped == P, flipped ^ np.uint64(1), flipped)  # two bits: p itself is no element
    return reports.with_words(words).accepted()


def _several_words(reports: Reports, draw: Draw) -> Verdicts:
    words = reports.records[-1].copy()
    for place in range(words.shape[1]):
        chosen = np.flatnonzero(draw.random(len(words)) < 0.1)
        words[chosen, place] = draw.integers(0, P, len(chosen), np.uint64)
    return reports.with_words(shifted(words, np.zeros(len(words), np.int64), not_zero(draw, len(words)))).accepted()


def _words_exchanged(reports: Reports, draw: Draw) -> Verdicts:
    words, rows = reports.records[-1].copy(), np.arange(len(reports.joint))
    first = draw.integers(0, words.shape[1], len(words))
    second = (first + draw.integers(1, words.shape[1], len(words))) % words.shape[1]
    words[rows, first], words[rows, second] = words[rows, second], words[rows, first]
    return reports.with_words(words).accepted()


def _words_of_another(reports: Reports, draw: Draw) -> Verdicts:
    return reports.with_words(np.roll(reports.records[-1], 1, axis=0)).accepted()


def _proof_of_another(reports: Reports, draw: Draw) -> Verdicts:
    words, start = reports.records[-1].copy(), reports.servers[0].circuit.witness_words
    words[:, start:] = np.roll(words[:, start:], 1, axis=0)
    return reports.with_words(words).accepted()


def _another_key(reports: Reports, draw: Draw) -> Verdicts:
    circuit, first = reports.servers[0].circuit, reports.shares[0]
    assert first.keys is not None
    other = dataclasses.replace(first, keys=np.roll(first.keys, 1, axis=0)).records(circuit)
    return dataclasses.replace(reports, records=[other, *reports.records[1:]]).accepted()


def _hash_that_fits(reports: Reports, draw: Draw) -> Verdicts:
    words = reports.records[-1].copy()
    places = draw.integers(0, reports.servers[0].circuit.witness_words, len(words))
    return reports.with_hashes_that_fit(shifted(words, places, not_zero(draw, len(words)))).accepted()


def _other_randomness(reports: Reports, draw: Draw) -> Verdicts:
    return reports.accepted(joint=np.roll(reports.joint, 1, axis=0))


def _message(reports: Reports, draw: Draw) -> Verdicts:
    def change(messages: dict[int, Words]) -> None:
        told = messages[len(messages) - 1]
        shifted(told, draw.integers(0, told.shape[1], len(told)), not_zero(draw, len(told)))

    return reports.accepted(messages=change)


Change = Callable[[Reports, Draw], Verdicts]
CHANGES: dict[str, tuple[str, Change]] = {
    "one word": ("one word of the last server's share is another element", _one_word),
    "one bit": ("one bit of a word of it is another", _one_bit),
    "several words": ("a tenth of its words and its first one are others", _several_words),
    "words exchanged": ("two words of it have changed places", _words_exchanged),
    "another's words": ("its words are those of another report", _words_of_another),
    "another's proof": ("the proof's words in it are those of another report", _proof_of_another),
    "another's key": ("a server with a key has that of another report", _another_key),
    "hashes that fit": ("one word of the witness is another, and so is its hash in all lists", _hash_that_fits),
    "another's randomness": ("all servers take the joint randomness of another report", _other_randomness),
    "a message": ("one word of a server's message is another", _message),
}


@dataclasses.dataclass(frozen=True)
class Tried:
    """How many of one kind were tried, and accepted."""

    kind: str
    does: str
    tried: int
    accepted: int


def try_lies(circuit: RowCircuit, scheme: AdditiveSharing, count: int, seed: int) -> Iterator[Tried]:
    """Decide about so many false statements of each kind, and as many true ones in all as a block has.

    Each has a proof that is computed as an honest client does, its own joint randomness, and hashes that fit; a block
    has one query point.
    """
    draw = np.random.default_rng(seed)
    honest = Reports.of(circuit, scheme, stated(circuit, points(circuit, min(count, BLOCK), draw)))
    yield Tried("none", "honest rows", len(honest.joint), int(honest.accepted().sum()))
    for name, lie in lies_about(circuit).items():
        accepted = 0
        for size in _blocks(count):
            reports = Reports.of(circuit, scheme, lie.make(circuit, points(circuit, size, draw), draw))
            if not reports.at_the_door().all():
                raise InputError("lie", f"{name!r} with hashes that do not fit", "ones that do")
            accepted += int(reports.accepted().sum())
        yield Tried(name, lie.does, count, accepted)


def try_changes(circuit: RowCircuit, scheme: AdditiveSharing, count: int, seed: int) -> Iterator[Tried]:
    """Decide about so many changed reports of each kind, and about the same ones before they were changed."""
    draw = np.random.default_rng(seed)
    accepted, unchanged = dict.fromkeys(CHANGES, 0), 0
    for size in _blocks(count):
        reports = Reports.of(circuit, scheme, stated(circuit, points(circuit, size, draw)))
        unchanged += int(reports.accepted().sum())
        for name, (_, change) in CHANGES.items():
            accepted[name] += int(change(reports, draw).sum())
    yield Tried("none", "as they were sent", count, unchanged)
    for name, (does, _) in CHANGES.items():
        yield Tried(name, does, count, accepted[name])


def _blocks(count: int) -> Iterator[int]:
    for first in range(0, count, BLOCK):
        yield min(BLOCK, count - first)
