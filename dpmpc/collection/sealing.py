"""Seal what each server gets of a row, so that one door can take the whole report.

======================  ===================================================================
1 byte                  2, the format
16                      report id, the same at all servers
for each server:
1                       number of the key that it was sealed to
n + 48 or n + 1136      HPKE of the n bytes that are for it, by the suite of its keys (`sealing_suites`)
======================  ===================================================================

docs/report-format.md has all that a client has to know. What is sealed is the payload of `dpmpc.collection.reports`;
with a roster the client's token for this server stands before it. The associated data is empty: the context is in
``info``, framed("dpmpc v2 record", digest, server, number of the key, id). All lengths follow from the task file.
Clients use the newest key of each server, which may be younger than that file (`added_keys`).

The id is the beginning of SHA-256(framed("dpmpc v2 report id", digest, secret)) of a secret of 32 bytes that the client
keeps, so that later it, and nobody else, can say whose report it is; with a roster it is the ticket's.

Promised: whoever has no private key of a server learns nothing of what is for it but the length, and a record that an
honest client has sealed for one collection, server, key and id opens under no other. Not promised: that a record was
made by whoever made the others of its report, which proofs show (docs/security.md), or that what was recorded on the
way stays closed if a private key is stolen; so each collection has keys of its own, deleted after its release
(`SealFolder.delete`).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag

from dpmpc.collection.added_keys import AddedKey, newest
from dpmpc.collection.report_ids import ID_BYTES
from dpmpc.collection.reports import ReportFormat
from dpmpc.collection.roster import TOKEN_BYTES, Ticket
from dpmpc.collection.seal_folder import SealFolder
from dpmpc.collection.sealing_suites import SUITES
from dpmpc.collection.server_entries import SealKey
from dpmpc.collection.task_file import Collection
from dpmpc.errors import CollectionClosed, InputError, ReportRejected
from dpmpc.proving.joint import framed
from dpmpc.randomness import Label

FORMAT = b"\2"
SECRET_BYTES = 32
OPENS_NO_MORE = "this server opens no reports any more; nothing was stored"
_START = len(FORMAT) + ID_BYTES
_LOGGER = logging.getLogger("dpmpc.collection")


def report_id(digest: bytes, secret: bytes) -> bytes:
    """Return the id of a report to a collection without a roster, whose secret a client has drawn."""
    return hashlib.sha256(framed(Label.REPORT_ID, digest, secret)).digest()[:ID_BYTES]


def id_of(report: bytes) -> bytes:
    """Return the id of a report."""
    return report[len(FORMAT) : _START]


@dataclasses.dataclass(frozen=True)
class SealedReports:
    """The reports of a collection, as clients write them and servers read them."""

    collection: Collection
    added: tuple[AddedKey, ...] = ()  # since it began; each checked (`added_keys.read_added`)

    @functools.cached_property
    def keys(self) -> tuple[SealKey, ...]:
        """For each server, the key that clients seal to: its newest."""
        return newest(self.collection, self.added)

    @functools.cached_property
    def record_bytes(self) -> tuple[int, ...]:
        """For each server, how many bytes of a report are for it."""
        forms = (ReportFormat(self.collection, server) for server in range(len(self.collection.servers)))
        token = TOKEN_BYTES if self.collection.authenticated else 0
        return tuple(
            1 + SUITES[entry.suite].added_bytes + token + form.record_bytes - ID_BYTES
            for form, entry in zip(forms, self.collection.servers, strict=True)
        )

    @functools.cached_property
    def report_bytes(self) -> int:
        """Length of a report."""
        return _START + sum(self.record_bytes)

    def seal(self, records: Sequence[bytes], ticket: Ticket | None = None) -> bytes:
        """Return the report that holds what these records, one for each server, hold."""
        (report,) = {record[:ID_BYTES] for record in records}
        sealed = [FORMAT, report]
        for server, record in enumerate(records):
            key = self.keys[server]
            plain = (b"" if ticket is None else ticket.token(server)) + record[ID_BYTES:]
            info = self.info(server, key.number, report)
            sealed += [bytes([key.number]), SUITES[key.suite].seal(bytes.fromhex(key.public), plain, info)]
        return b"".join(sealed)

    def split(self, body: bytes) -> list[bytes]:
        """Return the reports of a body, or refuse it."""
        size = self.report_bytes
        if not body or len(body) % size:
            raise ReportRejected(f"body: {len(body)} bytes given, a positive multiple of {size} expected")
        return [body[first : first + size] for first in range(0, len(body), size)]

    def info(self, server: int, number: int, report: bytes) -> bytes:
        """Return the context that a record is sealed for: under any other it does not open."""
        return framed(Label.SEALED_RECORD, self.collection.digest, bytes([server]), bytes([number]), report)


class Opener:
    """What opens the records of one server."""

    def __init__(self, collection: Collection, server: int, folder: SealFolder):
        self._sealed, self._server = SealedReports(collection), server
        self._form = ReportFormat(collection, server)
        self._own = collection.servers[server]
        self._suite = SUITES[self._own.suite]
        self._folder, self._ended = folder, False
        self.added: tuple[AddedKey, ...] = ()
        self._keys: dict[int, object] = {}
        self.refresh()
        self._require_keys()
        self._first = _START + sum(self._sealed.record_bytes[:server])

    def refresh(self) -> bool:
        """Read the keys in the folder again where one was added; return whether there are new ones."""
        collection = self._form.collection
        added = self._folder.added(collection, self._server)
        if self._ended or (self._keys and added == self.added):
            return False
        self.added, self._keys = added, self._folder.private([*self._own.keys, *(one.key for one in added)])
        return True

    def _require_keys(self) -> None:
        """Refuse to begin without a key that a client may use now; a key that was replaced may be gone."""
        numbers = [key.number for key in self._own.keys] + [one.number for one in self.added]
        missing = [number for number in numbers if number not in self._keys]
        if missing and (not self.added or numbers[-1] in missing):
            raise InputError(
                f"folder: {self._folder.folder} lacks the private keys with the numbers "
                f"{', '.join(map(str, missing))} that the collection names for server {self._server}: what was sealed "
                "to them could not be opened"
            )
        if missing:
            _LOGGER.warning("keys %s are gone: reports sealed to them are refused", ", ".join(map(str, missing)))

    def delete_keys(self) -> list[Path]:
        """Open nothing any more, for good: forget the private keys, and delete their files; return which these were."""
        self._ended, self._keys = True, {}
        return self._folder.delete(self._form.collection, self._server)

    def open(self, report: bytes) -> tuple[bytes, bytes | None]:
        """Return the record that this server finds in a report, and the client's token with a roster."""
        own = report[self._first : self._first + self._sealed.record_bytes[self._server]]
        number, named = own[0], id_of(report)
        if not self._keys:
            raise CollectionClosed(OPENS_NO_MORE)
        key = self._keys.get(number)
        if report[: len(FORMAT)] != FORMAT or key is None:
            raise ReportRejected(
                f"body: a report of format {report[0]}, sealed to key {number} of server {self._server} given, format "
                "2 and a key that this server has expected"
            )
        info = self._sealed.info(self._server, number, named)
        try:
            plain = self._suite.open(key, own[1:], info)
        except (InvalidTag, ValueError):
            raise ReportRejected(
                f"body: what is for server {self._server} does not open with its key {number}, this id and the "
                f"collection {self._form.collection.digest.hex()[:16]}...: it is damaged or not meant for it"
            ) from None
        token = TOKEN_BYTES if self._form.collection.authenticated else 0
        return named + plain[token:], plain[:token] or None
