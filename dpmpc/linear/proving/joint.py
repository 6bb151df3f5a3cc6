"""Joint randomness: what a client cannot choose, because it follows from all that it shares (Fiat and Shamir).

With SHA-256 as H, over the label, a zero byte, and each part after its length (8 bytes, little-endian),

    part_j = H("part", collection, id, j, blind_j, what server j got of the witness)
    seed   = H("seed", collection, id, part_0, ..., part_{M-1})

and sigma in K^c, v and v' in F^d are the expansion of all 256 bits of the seed: the key stream of AES-256 in counter
mode, counter from 0, whose words of 61 bits are taken in order; a word that is p, which is no element, is passed over.
`j` is one byte. What a server got is its key, 16 bytes, with an empty blind, or the words of its witness share, with a
blind of 16 secret bytes.

Each server checks its own part when a report arrives. All servers then hold the same list of parts: they compare
`seed`, which the list determines and which only a collision could give twice.

Promised: collection, id, server and every byte of a witness share change the seed, whatever a client does, if SHA-256
is a random oracle; a part reveals nothing of a share that is or has 128 secret bits. Not promised: that the shares of a
proof, which are not hashed, stay as they are: a server takes none once the query point is tossed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpmpc._kernels import arithmetic
from dpmpc.base.arguments import require_bytes, require_whole
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.digests import sha256_of_rows
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import KEY_BYTES, SEED_BYTES, Label, fill_key_streams
from dpmpc.linear.proving.circuit import WORD_BYTES, Circuit, P, require_bytes_block

ID_BYTES = 16
BLIND_BYTES = 16
PART_BYTES = 32
MOST_SERVERS = 255


def framed(label: Label, *parts: bytes) -> bytes:
    """Return what is hashed: the label, a zero byte, and each part after its length."""
    return label.value + b"\0" + b"".join(len(part).to_bytes(8, "little") + part for part in parts)


class Binding:
    """The hashes that tie a report to its collection, its id and every share of it.

    Parameters
    ----------
    collection : bytes
        The 32-byte digest that clients and servers agree on.
    """

    def __init__(self, collection: bytes):
        self.collection = require_bytes("collection", bytes(collection), PART_BYTES)

    def parts_of_keys(self, server: int, ids: Bytes, keys: Bytes) -> Bytes:
        """Return part_j (n, 32) of reports whose share is a key; `ids` and `keys` are (n, 16)."""
        keys = require_bytes_block("keys", keys, (len(ids), KEY_BYTES))
        return self._parts(server, ids, keys[:, :0], keys)

    def parts_of_words(self, server: int, ids: Bytes, blinds: Bytes, witnesses: Words) -> Bytes:
        """Return part_j (n, 32) of reports whose share is words (n, witness words), with blinds (n, 16)."""
        blinds = require_bytes_block("blinds", blinds, (len(ids), BLIND_BYTES))
        if witnesses.dtype != np.uint64 or witnesses.ndim != 2 or len(witnesses) != len(ids):
            actual = f"{witnesses.dtype} of shape {witnesses.shape}"
            raise InputError("witnesses", actual, f"uint64 with a row for each of {len(ids)} ids")
        shares = np.ascontiguousarray(witnesses, "<u8").view(np.uint8)
        return self._parts(server, ids, blinds, shares)

    def seeds(self, ids: Bytes, parts: Bytes) -> Bytes:
        """Return the seeds (n, 32) of the joint randomness from the lists of parts (n, M, 32) of all servers."""
        if parts.ndim != 3 or not 1 <= parts.shape[1] <= MOST_SERVERS:
            raise InputError("parts", f"shape {parts.shape}", f"(n, servers, {PART_BYTES})")
        parts = require_bytes_block("parts", parts, (len(ids), parts.shape[1], PART_BYTES))
        frame = (len(ids), parts.shape[1], WORD_BYTES)
        lengths = np.broadcast_to(np.frombuffer(PART_BYTES.to_bytes(8, "little"), np.uint8), frame)
        listed = np.concatenate([lengths, parts], axis=2).reshape(len(ids), parts.shape[1] * (WORD_BYTES + PART_BYTES))
        ids = require_bytes_block("ids", ids, (len(ids), ID_BYTES))
        return sha256_of_rows(self._head(Label.PROOF_SEED), np.concatenate([ids, listed], axis=1))

    def _parts(self, server: int, ids: Bytes, blinds: Bytes, shares: Bytes) -> Bytes:
        """Return part_j (n, 32) of shares (n, bytes)."""
        require_whole("server", server, 0, MOST_SERVERS - 1)
        ids = require_bytes_block("ids", ids, (len(ids), ID_BYTES))
        middle = (1).to_bytes(8, "little") + bytes([server]) + blinds.shape[1].to_bytes(8, "little")
        length = shares.shape[1].to_bytes(8, "little")
        texts = [ids, _repeated(middle, len(ids)), blinds, _repeated(length, len(ids)), shares]
        return sha256_of_rows(self._head(Label.PROOF_PART), np.concatenate(texts, axis=1))

    def _head(self, label: Label) -> bytes:
        """Return what is hashed before the id of a report."""
        return framed(label, self.collection) + ID_BYTES.to_bytes(8, "little")


def joint_randomness(circuit: Circuit, seeds: Bytes) -> Words:
    """Return sigma, in pairs, then v and v' (n, joint words) for seeds (n, 32)."""
    return expand_seeds(require_bytes_block("seeds", seeds, (len(seeds), SEED_BYTES)), circuit.joint_words)


def expand_seeds(seeds: Bytes, count: int) -> Words:
    """Return `count` uniform elements for each seed (n, 32): words of AES-256 in counter mode, p passed over."""
    stream = np.empty((len(seeds), count), "<u8")
    fill_key_streams(seeds, stream)
    words = stream.astype(np.uint64, copy=False)
    if words.size and arithmetic.mask(words.reshape(-1)):
        for index in np.flatnonzero((words == P).any(axis=1)):
            words[index] = _past_gaps(seeds[index].tobytes(), count)
    return words


def _past_gaps(seed: bytes, count: int) -> Words:
    """Return the first `count` words of a seed's stream that are elements, one after the other."""
    keys, length, elements = np.frombuffer(seed, np.uint8).reshape(1, -1), count, np.empty(0, np.uint64)
    while len(elements) < count:
        length *= 2
        stream = np.empty((1, length), "<u8")
        fill_key_streams(keys, stream)
        elements = elements_among(stream[0])
    return elements[:count]


def elements_among(words: Words) -> Words:
    """Return the low 61 bits of words, without those that are p."""
    low = words.astype(np.uint64) & np.uint64(P)
    return low[low < P]


def _repeated(text: bytes, count: int) -> Bytes:
    """Return a text as each of `count` rows."""
    return np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text)))


def as_block(texts: Sequence[bytes], length: int, name: str) -> Bytes:
    """Return texts of one length as an array (n, length)."""
    for index, text in enumerate(texts):
        require_bytes(f"{name}[{index}]", text, length)
    return np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), length)
