"""Write and read the bytes of an upload: records of one fixed size, one for each report, and nothing else.

======  =========  ===========================================================
offset  bytes      field
======  =========  ===========================================================
0       16         report id, the same at all servers
16      16         tag: the first bytes of SHA-256(label || collection's digest ||
                   server, 4 bytes LE || report id || payload)
32      16, or     payload: a key, or the words of a share: copies x entries,
        8 c w      64 bits little-endian
======  =========  ===========================================================

With additive shares all servers but the last get a key, hence 48 bytes; with Shamir shares all get words, and after
them, where dealing is checked, the share of one more word: a mask, uniform and fresh for each report, of which the
servers open one linear combination with the words (`dpmpc.collection.dealing`). A key stands
for the share that ``derive_share_key(key, collection, server)`` expands to (`dpmpc.sharing.batch`). The tag is no
secret: it lets a server check on arrival that the record is whole and meant for it and this collection, and proves
nothing else.

Where clients prove what they share, a payload holds the hashes of all shares too, a key stands for the record that
`dpmpc.sharing.expand_many` gives, and `decode` compares this server's own hash (`dpmpc.proved_reports`).

`decode` trusts nothing: whatever the bytes are, it returns canonical words or raises `ReportRejected`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import hmac
from collections.abc import Iterator, Sequence

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from dpmpc.arguments import require_whole
from dpmpc.client import Client
from dpmpc.collection.report_ids import ID_BYTES
from dpmpc.collection.task_file import Collection
from dpmpc.encoding.ring import Ring, Ring64
from dpmpc.errors import InputError, ReportRejected
from dpmpc.proved_reports import circuit_of, payloads, row_words, scheme_of, shares_of
from dpmpc.proving import ProofServer, ProvedShares
from dpmpc.randomness import KEY_BYTES, Label, Stream
from dpmpc.sharing import AdditiveSharing
from dpmpc.sharing.batch import Expansion

TAG_BYTES = 16
HEADER_BYTES = ID_BYTES + TAG_BYTES
WORD = np.dtype("<u8")


@dataclasses.dataclass(frozen=True)
class ReportFormat:
    """The records that one server of a collection receives.

    Parameters
    ----------
    collection : Collection
        The public facts.
    server : int
        The number of the server.
    """

    collection: Collection
    server: int

    def __post_init__(self) -> None:
        require_whole("server", self.server, 0, len(self.collection.servers) - 1)

    @functools.cached_property
    def by_key(self) -> bool:
        """Whether this server gets a key in place of its share."""
        additive = isinstance(self.collection.plan.scheme, AdditiveSharing)
        return additive and self.server < len(self.collection.servers) - 1

    @functools.cached_property
    def record_bytes(self) -> int:
        """Length of a record."""
        copies, width = self.stored_shape
        keyed = self.by_key and not self.collection.proved
        return HEADER_BYTES + (KEY_BYTES if keyed else WORD.itemsize * copies * width)

    @functools.cached_property
    def stored_shape(self) -> tuple[int, int]:
        """Shape of what this server keeps of a report: a proved one as it came, others as words."""
        if self.collection.proved:
            return (1, row_words(self.collection.plan, by_key=self.by_key))
        return self.collection.record_shape

    @property
    def stored_ring(self) -> Ring:
        """Ring of the words that are kept: of a proved report, any 64 bits."""
        return Ring64() if self.collection.proved else self.collection.plan.encoding.ring

    @functools.cached_property
    def proofs(self) -> ProofServer:
        """What checks proved reports at this server's door."""
        plan = self.collection.plan
        return ProofServer(circuit_of(plan), scheme_of(plan), self.collection.digest, self.server)

    def encode(self, report_id: bytes, payload: bytes) -> bytes:
        """Return the record of a report."""
        return report_id + self._tag(report_id, payload) + payload

    def decode(self, body: bytes) -> tuple[list[bytes], NDArray[np.uint64]]:
        """Return the report ids and the words of an upload.

        Parameters
        ----------
        body : bytes
            Of any length and content.

        Returns
        -------
        list of bytes
            m ids, 16 bytes each, in the order of the upload.
        ndarray of uint64, shape (m, copies, entries)
            Canonical; what is to be kept (`stored_shape`).

        Raises
        ------
        ReportRejected
            If the length is not that of whole records, or a record is not for this server and collection, or holds an
            element that is not canonical. The message counts records from 0.
        """
        size = self.record_bytes
        if not body or len(body) % size:
            raise ReportRejected(f"body: {len(body)} bytes given, a positive multiple of {size} expected")
        ring = self.stored_ring
        keyed = self.by_key and not self.collection.proved
        ids = []
        words = np.empty((len(body) // size, *self.stored_shape), np.uint64)
        for index, record in enumerate(_cut(body, size)):
            report_id, tag, payload = record[:ID_BYTES], record[ID_BYTES:HEADER_BYTES], record[HEADER_BYTES:]
            if not hmac.compare_digest(tag, self._tag(report_id, payload)):
                raise ReportRejected(
                    f"body: record {index} has another tag than its content, server {self.server} and the collection "
                    f"{self.collection.digest.hex()[:16]}... give: it is damaged or not meant for this server"
                )
            if keyed:
                self.expand(payload, words[index].reshape(-1))
            else:
                words[index] = np.frombuffer(payload, WORD).reshape(words.shape[1:])
            ids.append(report_id)
        if not keyed and not ring.is_canonical(words):
            raise ReportRejected(f"body: an element that is not canonical given, elements of {ring.name} expected")
        if self.collection.proved:
            self._require_own_parts(ids, words)
        return ids, words

    def _require_own_parts(self, ids: Sequence[bytes], words: NDArray[np.uint64]) -> None:
        """Refuse proved reports whose list of hashes does not hold that of this server's share."""
        shares = shares_of(
            self.collection.plan, self.server, np.frombuffer(b"".join(ids), np.uint8).reshape(-1, ID_BYTES), words
        )
        try:
            matching = self.proofs.own_parts_match(shares)
        except InputError as error:
            raise ReportRejected(f"body: {error}") from error
        if not matching.all():
            raise ReportRejected(
                f"body: record {int(matching.argmin())} lists another hash of the share of server {self.server} than "
                "the share gives, with this id and collection"
            )

    def expand(self, key: bytes, out: NDArray[np.uint64]) -> None:
        """Overwrite `out`, flat, with the share that the key of a report stands for."""
        stream = Stream(derive_share_key(key, self.collection, self.server))
        Expansion(stream, self.collection.plan.encoding.ring).read(out)

    def _tag(self, report_id: bytes, payload: bytes) -> bytes:
        tag = self._bound.copy()
        tag.update(report_id + payload)
        return tag.digest()[:TAG_BYTES]

    @functools.cached_property
    def _bound(self) -> hashlib._Hash:
        return hashlib.sha256(Label.REPORT.value + self.collection.digest + self.server.to_bytes(4, "little"))


def derive_share_key(key: bytes, collection: Collection, server: int) -> bytes:
    """Return HKDF-SHA256(key) with salt = the collection's digest, info = label || 0x00 || server (8 bytes LE)."""
    info = Label.REPORT_SHARE.value + b"\0" + server.to_bytes(8, "little")
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=collection.digest, info=info).derive(key)


def make_reports(
    client: Client, collection: Collection, rows: NDArray[np.float64], report_ids: Sequence[bytes]
) -> list[list[bytes]]:
    """Randomize rows and write the records of their reports.

    Parameters
    ----------
    client : Client
        Of ``collection.plan``.
    collection : Collection
        The public facts.
    rows : ndarray of float64, shape (m, p)
        One row per report, in the units of the schema.
    report_ids : sequence of m bytes
        16 bytes each.

    Returns
    -------
    list of list of bytes
        For each server, the m records. Whoever repeats an upload sends the same records again: new ones under the same
        ids would be refused, and two noisy reports of one row protect it less.
    """
    if len(report_ids) != len(rows) or any(len(report_id) != ID_BYTES for report_id in report_ids):
        raise InputError(f"report_ids: {len(report_ids)} given, one of {ID_BYTES} bytes for each of {len(rows)} rows")
    task = collection.plan
    if collection.proved:
        ids = np.frombuffer(b"".join(report_ids), np.uint8).reshape(-1, ID_BYTES)
        return records_of(collection, client.prove(rows, ids, collection.digest))
    noisy = client.randomize(rows)
    formats = [ReportFormat(collection, server) for server in range(task.trust.servers)]
    if not isinstance(task.scheme, AdditiveSharing):
        if collection.checked_dealing:
            masks = task.encoding.ring.uniform(client.stream, (len(noisy), 1, 1))
            noisy = np.concatenate([noisy.reshape(len(noisy), 1, -1), masks], axis=2)
        shares = task.scheme.split(noisy, stream=client.stream)
        return [_records(form, report_ids, _payloads(share)) for form, share in zip(formats, shares, strict=True)]
    *by_key, last = formats
    keys = [[client.stream.bytes(KEY_BYTES) for _ in report_ids] for _ in by_key]
    mask = np.empty(noisy.shape, np.uint64)
    for form, own in zip(by_key, keys, strict=True):
        for index, key in enumerate(own):
            form.expand(key, mask[index].reshape(-1))
        task.encoding.ring.subtract(noisy, mask, out=noisy)
    records = [_records(form, report_ids, own) for form, own in zip(by_key, keys, strict=True)]
    return [*records, _records(last, report_ids, _payloads(noisy))]


def records_of(collection: Collection, shares: Sequence[ProvedShares]) -> list[list[bytes]]:
    """Return for each server the records of proved shares."""
    return [
        _records(ReportFormat(collection, one.server), [own.tobytes() for own in one.ids], payloads(one))
        for one in shares
    ]


def _records(form: ReportFormat, report_ids: Sequence[bytes], payloads: Sequence[bytes]) -> list[bytes]:
    return [form.encode(report_id, payload) for report_id, payload in zip(report_ids, payloads, strict=True)]


def _payloads(words: NDArray[np.uint64]) -> list[bytes]:
    return [np.ascontiguousarray(share, WORD).tobytes() for share in words]


def _cut(body: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]
