"""Seal what each server gets of a row, so that one door can take the whole report.

======================  ===================================================================
1 byte                  2, the format
16                      report id, the same at all servers
for each server:
1                       number of the key that it was sealed to
n + 48 or n + 1136      HPKE of the n bytes that are for it, by the suite of its keys (`sealing_suites`)
======================  ===================================================================

docs/report-format.md has all that a client needs. What is sealed is the payload of
`dpmpc.collect.upload.reports`; with a roster the client's token for this server stands before it. The associated data
is empty: the context is in
``info``, framed("dpmpc v2 record", digest, server, number of the key, id). All lengths follow from the task file.
Clients use the newest key of each server, which may be younger than that file (`added_keys`).

The id is the beginning of SHA-256(framed("dpmpc v2 report id", digest, secret)) of a secret of 32 bytes that the client
keeps, so that later it, and nobody else, can state whose report it is; with a roster it is the ticket's.

A *withdrawal* of a collection with a roster has the same form. It holds the client's token for each server and nothing
else, and its label is "dpmpc v2 withdrawal", so that neither opens as the other.

Promised: anyone who has no private key of a server learns nothing of what is for it but the length, and a record that
an honest client has sealed for one collection, server, key and id opens under no other. Not promised: that a record was
made by whoever made the others of its report, which proofs show (docs/security.md), or that what was recorded on the
way stays closed if a private key is stolen; so each collection has keys of its own, deleted after its release
(`SealFolder.delete`).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import itertools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from cryptography.exceptions import InvalidTag

from dpmpc.base.errors import CollectionClosed, InputError, ReportRejected
from dpmpc.base.randomness import Label
from dpmpc.collect.terms.sealing_suites import SUITES
from dpmpc.collect.terms.server_entries import SealKey
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.added_keys import AddedKey, newest
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.collect.upload.roster import TOKEN_BYTES, Ticket
from dpmpc.collect.upload.seal_folder import SealFolder
from dpmpc.linear.proving.joint import framed

FORMAT = b"\2"
SECRET_BYTES = 32
OPENS_NO_MORE = "this server opens no reports any more; nothing was stored"
_START = len(FORMAT) + ID_BYTES
_LOGGER = logging.getLogger("dpmpc.collect")


def report_id(digest: bytes, secret: bytes) -> bytes:
    """Return the id of a report to a collection without a roster, whose secret a client has drawn."""
    return hashlib.sha256(framed(Label.REPORT_ID, digest, secret)).digest()[:ID_BYTES]


def id_of(report: bytes) -> bytes:
    """Return the id of a report."""
    return report[len(FORMAT) : _START]


@dataclasses.dataclass(frozen=True)
class SealedMessages(abc.ABC):
    """Messages that hold a part for each server, sealed to its key, as clients write them and servers read them."""

    collection: Collection
    added: tuple[AddedKey, ...] = ()  # since it began; each checked (`added_keys.read_added`)
    label: ClassVar[Label]

    @abc.abstractmethod
    def plain_bytes(self, server: int) -> int:
        """Return how many bytes are sealed for a server."""

    @functools.cached_property
    def keys(self) -> tuple[SealKey, ...]:
        """For each server, the key that clients seal to: its newest."""
        return newest(self.collection, self.added)

    @functools.cached_property
    def record_bytes(self) -> tuple[int, ...]:
        """For each server, how many bytes of a message are for it."""
        return tuple(
            1 + SUITES[entry.suite].added_bytes + self.plain_bytes(server)
            for server, entry in enumerate(self.collection.servers)
        )

    @functools.cached_property
    def report_bytes(self) -> int:
        """Length of a message."""
        return self._starts[-1]

    @functools.cached_property
    def _starts(self) -> tuple[int, ...]:
        """Where the part of each server begins, and where the last one ends."""
        return tuple(itertools.accumulate(self.record_bytes, initial=_START))

    def sealed(self, report: bytes, parts: Sequence[bytes]) -> bytes:
        """Return the message under the id of a report that holds these parts, one for each server."""
        message = [FORMAT, report]
        for server, (key, plain) in enumerate(zip(self.keys, parts, strict=True)):
            info = self.info(server, key.number, report)
            message += [bytes([key.number]), SUITES[key.suite].seal(bytes.fromhex(key.public), plain, info)]
        return b"".join(message)

    def part(self, message: bytes, server: int) -> bytes:
        """Return what a message holds for a server: the number of a key, and what is sealed to it."""
        return message[self._starts[server] : self._starts[server + 1]]

    def split(self, body: bytes) -> list[bytes]:
        """Return the messages of a body, or reject it."""
        size = self.report_bytes
        if not body or len(body) % size:
            raise ReportRejected("body", f"{len(body)} bytes", f"a positive multiple of {size}")
        return [body[first : first + size] for first in range(0, len(body), size)]

    def info(self, server: int, number: int, report: bytes) -> bytes:
        """Return the context that a part is sealed for: under any other it does not open."""
        return framed(self.label, self.collection.digest, bytes([server]), bytes([number]), report)


class SealedReports(SealedMessages):
    """The reports of a collection."""

    label = Label.SEALED_RECORD

    def plain_bytes(self, server: int) -> int:
        """Return how many bytes a payload has, and with a roster the client's token before it."""
        token = TOKEN_BYTES if self.collection.authenticated else 0
        return token + ReportFormat(self.collection, server).record_bytes - ID_BYTES

    def seal(self, records: Sequence[bytes], ticket: Ticket | None = None) -> bytes:
        """Return the report that holds what these records, one for each server, hold."""
        (report,) = {record[:ID_BYTES] for record in records}
        tokens = [b"" if ticket is None else ticket.token(server) for server in range(len(records))]
        return self.sealed(report, [token + record[ID_BYTES:] for token, record in zip(tokens, records, strict=True)])


class SealedWithdrawals(SealedMessages):
    """The withdrawals of a collection with a roster."""

    label = Label.SEALED_WITHDRAWAL

    def plain_bytes(self, server: int) -> int:
        """Return the length of a token."""
        return TOKEN_BYTES

    def seal(self, ticket: Ticket) -> bytes:
        """Return what takes the report of a ticket back at all servers."""
        return self.sealed(ticket.report, [ticket.token(server) for server in range(len(self.collection.servers))])


class Opener:
    """What opens the parts of one server."""

    def __init__(self, collection: Collection, server: int, folder: SealFolder):
        self._reports, self._withdrawals = SealedReports(collection), SealedWithdrawals(collection)
        self._server = server
        self._form = ReportFormat(collection, server)
        self._own = collection.servers[server]
        self._suite = SUITES[self._own.suite]
        self._folder, self._ended = folder, False
        self.added: tuple[AddedKey, ...] = ()
        self._keys: dict[int, object] = {}
        self.refresh()
        self._require_keys()

    @property
    def ended(self) -> bool:
        """Whether nothing is opened any more."""
        return self._ended

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
                "folder",
                f"{self._folder.folder} lacks the private keys with the numbers "
                f"{', '.join(map(str, missing))} that the collection names for server {self._server}: what "
                "was sealed to them could not be opened",
            )
        if missing:
            _LOGGER.warning("keys %s are gone: reports sealed to them are refused", ", ".join(map(str, missing)))

    def delete_keys(self) -> list[Path]:
        """Open nothing any more, for good: forget the private keys, and delete their files; return which these were."""
        self._ended, self._keys = True, {}
        return self._folder.delete(self._form.collection, self._server)

    def open(self, report: bytes) -> tuple[bytes, bytes | None]:
        """Return the record that this server finds in a report, and the client's token with a roster."""
        plain = self._open(self._reports, report)
        token = TOKEN_BYTES if self._form.collection.authenticated else 0
        return id_of(report) + plain[token:], plain[:token] or None

    def open_withdrawal(self, withdrawal: bytes) -> bytes:
        """Return the client's token for this server in a withdrawal."""
        return self._open(self._withdrawals, withdrawal)

    def _open(self, form: SealedMessages, message: bytes) -> bytes:
        """Return what a message holds for this server."""
        own = form.part(message, self._server)
        number, named = own[0], id_of(message)
        if not self._keys:
            raise CollectionClosed(OPENS_NO_MORE)
        key = self._keys.get(number)
        if message[: len(FORMAT)] != FORMAT or key is None:
            raise ReportRejected(
                "body",
                f"a report of format {message[0]}, sealed to key {number} of server {self._server}",
                "format 2 and a key that this server has",
            )
        try:
            return self._suite.open(key, own[1:], form.info(self._server, number, named))
        except (InvalidTag, ValueError):
            raise ReportRejected(
                "body",
                f"what is for server {self._server} does not open with its key {number}, this id and the "
                f"collection {self._form.collection.digest.hex()[:16]}...: it is damaged or not meant for it",
            ) from None
