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
from dpmpc.errors import InputError, ReportRejected
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
        copies, width = self.collection.record_shape
        return HEADER_BYTES + (KEY_BYTES if self.by_key else WORD.itemsize * copies * width)

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
            Canonical.

        Raises
        ------
        ReportRejected
            If the length is not that of whole records, or a record is not for this server and collection, or holds an
            element that is not canonical. The message counts records from 0.
        """
        size = self.record_bytes
        if not body or len(body) % size:
            raise ReportRejected(f"body: {len(body)} bytes given, a positive multiple of {size} expected")
        ring = self.collection.plan.encoding.ring
        ids = []
        words = np.empty((len(body) // size, *self.collection.record_shape), np.uint64)
        for index, record in enumerate(_cut(body, size)):
            report_id, tag, payload = record[:ID_BYTES], record[ID_BYTES:HEADER_BYTES], record[HEADER_BYTES:]
            if not hmac.compare_digest(tag, self._tag(report_id, payload)):
                raise ReportRejected(
                    f"body: record {index} has another tag than its content, server {self.server} and the collection "
                    f"{self.collection.digest.hex()[:16]}... give: it is damaged or not meant for this server"
                )
            if self.by_key:
                self.expand(payload, words[index].reshape(-1))
            else:
                words[index] = np.frombuffer(payload, WORD).reshape(words.shape[1:])
            ids.append(report_id)
        if not self.by_key and not ring.is_canonical(words):
            raise ReportRejected(f"body: an element that is not canonical given, elements of {ring.name} expected")
        return ids, words

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


def _records(form: ReportFormat, report_ids: Sequence[bytes], payloads: Sequence[bytes]) -> list[bytes]:
    return [form.encode(report_id, payload) for report_id, payload in zip(report_ids, payloads, strict=True)]


def _payloads(words: NDArray[np.uint64]) -> list[bytes]:
    return [np.ascontiguousarray(share, WORD).tobytes() for share in words]


def _cut(body: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]
