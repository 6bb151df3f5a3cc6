"""Write and read what a report holds for one server: its id, the same at all servers, and the payload.

The payload is a key, 16 bytes, or the words of a share: copies x entries, 64 bits little-endian. With additive shares
all servers but the last get a key; with Shamir shares all get words, and after them, where dealing is checked, the
share of one more word: a mask, uniform and fresh for each report, of which the servers open one linear combination with
the words (`dpmpc.collect.opening.dealing_checks`). A key stands for the share that the key of `derive_share_keys`
expands to (`dpmpc.linear.sharing.batch`). That a record is whole and meant for this server and collection is what
`sealing` shows.

A server keeps the payload as it came: a key stays a key until the release expands it (`KeyedShare`).

Where clients prove what they share, a payload holds the hashes of all shares too, a key stands for the record that
`dpmpc.linear.sharing.batch.expand_many` gives, and `decode` compares this server's own hash
(`dpmpc.release.proved_reports`).

`decode` trusts nothing: whatever the bytes are, it returns what is to be kept, words of a share being canonical, or
raises `ReportRejected`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Bytes, Reals, Words
from dpmpc.base.digests import hkdf_of_rows
from dpmpc.base.errors import InputError, ReportRejected
from dpmpc.base.randomness import KEY_BYTES, Label
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.linear.encoding.ring import Ring, Ring64
from dpmpc.linear.proving import ProofServer
from dpmpc.linear.proving.prove import ProvedShares
from dpmpc.linear.sharing import AdditiveSharing
from dpmpc.linear.sharing.batch import Share, expand_many
from dpmpc.release.client import Client
from dpmpc.release.proved_reports import circuit_of, payloads, row_words, scheme_of, shares_of

WORD = np.dtype("<u8")


@dataclasses.dataclass(frozen=True)
class ReportFormat:
    """The records that one server of a collection receives."""

    collection: Collection  # the public facts
    server: int  # the number of the server

    def __post_init__(self) -> None:
        require_whole("server", self.server, 0, len(self.collection.servers) - 1)

    @functools.cached_property
    def by_key(self) -> bool:
        """Whether this server gets a key instead of its share."""
        additive = isinstance(self.collection.plan.scheme, AdditiveSharing)
        return additive and self.server < len(self.collection.servers) - 1

    @functools.cached_property
    def record_bytes(self) -> int:
        """Length of a record."""
        return ID_BYTES + WORD.itemsize * math.prod(self.stored_shape)

    @property
    def keeps_keys(self) -> bool:
        """Whether what this server keeps of a report is its key and nothing else."""
        return self.by_key and not self.collection.proved

    @functools.cached_property
    def stored_shape(self) -> tuple[int, int]:
        """Shape, in 64-bit words, of what this server keeps of a report: the payload as it came."""
        if self.collection.proved:
            return (1, row_words(self.collection.plan, by_key=self.by_key))
        return (1, KEY_BYTES // WORD.itemsize) if self.by_key else self.collection.record_shape

    @property
    def stored_ring(self) -> Ring:
        """Ring of the words that are kept: of a key or a proved report, any 64 bits."""
        return Ring64() if self.by_key or self.collection.proved else self.collection.plan.encoding.ring

    @functools.cached_property
    def proofs(self) -> ProofServer:
        """What checks proved reports at this server's door."""
        plan = self.collection.plan
        return ProofServer(circuit_of(plan), scheme_of(plan), self.collection.digest, self.server)

    def decode(self, body: bytes) -> tuple[list[bytes], Words]:
        """Return the report ids of an upload, and what is to be kept of each."""
        size = self.record_bytes
        if not body or len(body) % size:
            raise ReportRejected("body", f"{len(body)} bytes", f"a positive multiple of {size}")
        records = np.frombuffer(body, np.uint8).reshape(-1, size)
        named, payloads = np.split(records, [ID_BYTES], axis=1)
        kept = np.ascontiguousarray(payloads).view(WORD).astype(np.uint64, copy=False)
        words = kept.reshape(len(records), *self.stored_shape)
        ring = self.stored_ring
        if not ring.is_canonical(words):
            raise ReportRejected("body", "an element that is not canonical", f"elements of {ring.name}")
        ids = [one.tobytes() for one in named]
        if self.collection.proved:
            self._require_own_parts(ids, words)
        return ids, words

    def _require_own_parts(self, ids: Sequence[bytes], words: Words) -> None:
        """Refuse proved reports whose list of hashes does not hold that of this server's share."""
        shares = shares_of(self.collection.plan, self.server, _block(b"".join(ids), ID_BYTES), words)
        try:
            matching = self.proofs.own_parts_match(shares)
        except InputError as error:
            raise ReportRejected("body", error) from error
        if not matching.all():
            raise ReportRejected(
                "body",
                f"record {int(matching.argmin())} lists another hash of the share of server {self.server} "
                "than the share gives, with this id and collection",
            )

    def share(self, kept: Share) -> Share:
        """Return the share that what this server keeps of unproved reports stands for."""
        return KeyedShare(kept, self) if self.keeps_keys else kept

    def expanded(self, keys: Bytes) -> Words:
        """Return the shares (n, copies, entries) that the keys (n, 16) of reports stand for."""
        plan = self.collection.plan
        derived = derive_share_keys(keys, self.collection, self.server)
        words = expand_many(derived, plan.copies * plan.width, plan.encoding.ring)
        return words.reshape(len(keys), plan.copies, plan.width)


def derive_share_keys(keys: Bytes, collection: Collection, server: int) -> Bytes:
    """Return HKDF-SHA256 of keys (n, 16): salt = collection's digest, info = label || 0x00 || server (8 bytes LE)."""
    info = Label.REPORT_SHARE.value + b"\0" + server.to_bytes(8, "little")
    return hkdf_of_rows(keys, collection.digest, info, KEY_BYTES)


class KeyedShare(Share):
    """A share of reports whose keys a server keeps; they are expanded as rows are read, and never stored."""

    chunk_bytes = 1 << 18  # what is expanded is sketched before it leaves the second-level cache

    def __init__(self, share: Share, form: ReportFormat):
        plan = form.collection.plan
        self.shape, self.ring = (share.shape[0], plan.copies, plan.width), plan.encoding.ring
        self._share, self._form = share, form

    def _rows(self, first: int, count: int) -> Words:
        keys = np.ascontiguousarray(self._share.rows(first, count), WORD).view(np.uint8)
        return self._form.expanded(keys.reshape(count, KEY_BYTES))


def make_reports(client: Client, collection: Collection, rows: Reals, report_ids: Sequence[bytes]) -> list[list[bytes]]:
    """Randomize rows and write the records of their reports."""
    if len(report_ids) != len(rows) or any(len(report_id) != ID_BYTES for report_id in report_ids):
        raise InputError("report_ids", f"{len(report_ids)} given, one of {ID_BYTES} bytes for each of {len(rows)} rows")
    task = collection.plan
    ids = _block(b"".join(report_ids), ID_BYTES)
    if collection.proved:
        return records_of(client.prove(rows, ids, collection.digest))
    noisy = client.randomize(rows)
    if not isinstance(task.scheme, AdditiveSharing):
        if collection.checked_dealing:
            masks = task.encoding.ring.uniform(client.stream, (len(noisy), 1, 1))
            noisy = np.concatenate([noisy.reshape(len(noisy), 1, -1), masks], axis=2)
        shares = task.scheme.split(noisy, stream=client.stream)
        return [_records(ids, _payloads(share)) for share in shares]
    by_key = [ReportFormat(collection, server) for server in range(task.trust.servers - 1)]
    keys = [_block(client.stream.bytes(KEY_BYTES * len(report_ids)), KEY_BYTES) for _ in by_key]
    for form, own in zip(by_key, keys, strict=True):
        task.encoding.ring.subtract(noisy, form.expanded(own), out=noisy)
    return [_records(ids, own) for own in (*keys, _payloads(noisy))]


def records_of(shares: Sequence[ProvedShares]) -> list[list[bytes]]:
    """Return for each server the records of proved shares."""
    return [_records(one.ids, payloads(one)) for one in shares]


def _records(ids: Bytes, payloads: Bytes) -> list[bytes]:
    """Return the records of reports with ids (n, 16) and payloads (n, bytes)."""
    return [record.tobytes() for record in np.concatenate([ids, payloads], axis=1)]


def _payloads(words: Words) -> Bytes:
    return np.ascontiguousarray(words, WORD).reshape(len(words), math.prod(words.shape[1:])).view(np.uint8)


def _block(content: bytes, length: int) -> Bytes:
    return np.frombuffer(content, np.uint8).reshape(-1, length)
