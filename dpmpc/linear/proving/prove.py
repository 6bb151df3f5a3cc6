"""A client's part: share a witness, derive the joint randomness from the shares, prove, and share the proof.

The order matters. The shares of the witness are fixed first; their hashes give sigma and v
(`dpmpc.linear.proving.joint`); the proof is computed for these and shared with what is left of the same keys. So nobody
can choose sigma and v, the client least of all.

Many reports are made at once, for simulations; a client makes one.

Promised: an honest report is accepted, with certainty. Fewer servers than the sharing scheme needs learn nothing of the
row, if each server answers at one query point only (theorem proof-privacy). Not promised: that it takes the
same time whatever the row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import KEY_BYTES, Stream
from dpmpc.linear.proving.circuit import FIELD, Circuit, require_block, require_bytes_block
from dpmpc.linear.proving.joint import BLIND_BYTES, ID_BYTES, MOST_SERVERS, PART_BYTES, Binding, joint_randomness
from dpmpc.linear.sharing import AdditiveSharing, ShamirSharing
from dpmpc.linear.sharing.batch import expand_many

Scheme = AdditiveSharing | ShamirSharing


@dataclasses.dataclass(frozen=True, eq=False)
class ProvedShares:
    """What one server gets of a block of n reports: keys, or blinds and words.

    Attributes
    ----------
    server : int
        Its number.
    ids : ndarray of uint8, shape (n, 16)
        The same at all servers.
    parts : ndarray of uint8, shape (n, M, 32)
        Hashes of the shares of all servers, in the client's words.
    keys : ndarray of uint8, shape (n, 16), optional
        Each stands for the words of a record (`dpmpc.linear.sharing.batch`).
    blinds : ndarray of uint8, shape (n, 16), optional
        They hide words from anyone who guesses them and knows their hash.
    words : ndarray of uint64, shape (n, words of a record), optional
        Witness, blinds of the wires, quotient.
    """

    server: int
    ids: Bytes
    parts: Bytes
    keys: Bytes | None = None
    blinds: Bytes | None = None
    words: Words | None = None

    def require_form(self, circuit: Circuit, scheme: Scheme) -> ProvedShares:
        """Return this, or raise `InputError` unless shapes, types and words are those of the circuit and the scheme.

        A word of p or more is refused: it would share what the word less p does, and overflow lazily reduced sums.
        """
        count, servers = len(self.ids), scheme.servers
        require_bytes_block("ids", self.ids, (count, ID_BYTES))
        require_bytes_block("parts", self.parts, (count, servers, PART_BYTES))
        require_whole("server", self.server, 0, servers - 1)
        if holds_key(scheme, self.server):
            if self.keys is None or self.words is not None or self.blinds is not None:
                raise InputError("shares", f"words given to server {self.server}, a key for each report expected")
            require_bytes_block("keys", self.keys, (count, KEY_BYTES))
        else:
            if self.keys is not None or self.words is None or self.blinds is None:
                raise InputError("shares", f"keys given to server {self.server}, blinds and words expected")
            require_bytes_block("blinds", self.blinds, (count, BLIND_BYTES))
            require_block("words", self.words, count, circuit.words)
        return self

    def own_parts(self, circuit: Circuit, binding: Binding) -> Bytes:
        """Return the hashes (n, 32) of this server's own shares of the witness."""
        if self.keys is not None:
            return binding.parts_of_keys(self.server, self.ids, self.keys)
        if self.words is None or self.blinds is None:
            raise InputError("shares", "neither keys nor blinds and words", "one of them")
        return binding.parts_of_words(self.server, self.ids, self.blinds, self.words[:, : circuit.witness_words])

    def records(self, circuit: Circuit) -> Words:
        """Return the words (n, words of a record), expanded where there are keys."""
        if self.words is not None:
            return self.words
        if self.keys is None:
            raise InputError("shares", "neither keys nor words", "one of them")
        return expand_many(self.keys, circuit.words, FIELD)


def holds_key(scheme: Scheme, server: int) -> bool:
    """Return whether a server gets a key instead of words: with additive shares all but the last."""
    return isinstance(scheme, AdditiveSharing) and server < scheme.servers - 1


class Prover:
    """Makes proved reports for the servers of one collection.

    Parameters
    ----------
    circuit : Circuit
        What is proved.
    scheme : AdditiveSharing or ShamirSharing
        In Z_p, p = 2^61 - 1.
    collection : bytes
        The collection's digest, 32 bytes.
    """

    def __init__(self, circuit: Circuit, scheme: Scheme, collection: bytes):
        if scheme.ring != FIELD or scheme.servers > MOST_SERVERS:
            raise InputError("scheme", f"{scheme!r}", f"shares in {FIELD.name} among up to {MOST_SERVERS}")
        self.circuit, self.scheme, self.binding = circuit, scheme, Binding(collection)

    def reports(self, witnesses: Words, ids: Bytes, stream: Stream | None = None) -> list[ProvedShares]:
        """Share and prove witnesses.

        Parameters
        ----------
        witnesses : ndarray of uint64, shape (n, witness words)
            Of `Circuit.witness`. A false one gives a report that servers refuse.
        ids : ndarray of uint8, shape (n, 16)
            Of the reports.
        stream : Stream, optional
            Source of keys and blinds: the operating system's by default.

        Returns
        -------
        list of ProvedShares
            One for each server.
        """
        circuit, count = self.circuit, len(witnesses)
        witnesses = require_block("witnesses", witnesses, count, circuit.witness_words)
        ids = require_bytes_block("ids", ids, (count, ID_BYTES))
        stream = stream or Stream.from_os()
        blinds = FIELD.uniform(stream, (count, circuit.wires))
        if isinstance(self.scheme, AdditiveSharing):
            keys = [_drawn(stream, count, KEY_BYTES) for _ in range(self.scheme.servers - 1)]
            masks = FIELD.sum_of([expand_many(key, circuit.words, FIELD) for key in keys])
            shared = [FIELD.subtract(witnesses, np.ascontiguousarray(masks[:, : circuit.witness_words]))]
        else:
            keys, masks = [], np.empty(0, np.uint64)
            shared = self.scheme.split(witnesses, stream=stream)
        hidden = [_drawn(stream, count, BLIND_BYTES) for _ in shared]
        parts = self._parts(ids, keys, hidden, shared)
        proofs = np.empty((count, circuit.words - circuit.witness_words), np.uint64)
        circuit.proofs.prove(witnesses, joint_randomness(circuit, self.binding.seeds(ids, parts)), blinds, proofs)
        if isinstance(self.scheme, AdditiveSharing):
            proved = [FIELD.subtract(proofs, np.ascontiguousarray(masks[:, circuit.witness_words :]))]
        else:
            proved = self.scheme.split(proofs, stream=stream)
        return [
            *(ProvedShares(server, ids, parts, keys=key) for server, key in enumerate(keys)),
            *(
                ProvedShares(len(keys) + place, ids, parts, blinds=blind, words=np.concatenate(halves, axis=1))
                for place, (blind, *halves) in enumerate(zip(hidden, shared, proved, strict=True))
            ),
        ]

    def _parts(self, ids: Bytes, keys: Sequence[Bytes], blinds: Sequence[Bytes], shared: Sequence[Words]) -> Bytes:
        """Return the lists of parts (n, M, 32): of servers with keys, then of those with words."""
        of_keys = [self.binding.parts_of_keys(server, ids, key) for server, key in enumerate(keys)]
        of_words = [
            self.binding.parts_of_words(len(keys) + place, ids, blind, words)
            for place, (blind, words) in enumerate(zip(blinds, shared, strict=True))
        ]
        return np.stack([*of_keys, *of_words], axis=1)


def _drawn(stream: Stream, count: int, length: int) -> Bytes:
    return np.frombuffer(stream.bytes(count * length), np.uint8).reshape(count, length)
