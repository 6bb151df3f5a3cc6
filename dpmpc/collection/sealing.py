"""Seal what each server gets of a row, so that one door can take the whole report: reports of format 2.

======================  ===================================================================
1 byte                  2, the format
16                      report id, the same at all servers
for each server:
1                       number of the key that it was sealed to
32 + n + 16             HPKE (RFC 9180, base mode, one message) of the n bytes that are for it
======================  ===================================================================

docs/report-format.md has all that a client has to know. What is sealed is the payload of `dpmpc.collection.reports`;
with a roster the client's token for this server stands before it. The suite is DHKEM(X25519, HKDF-SHA256), HKDF-SHA256,
AES-128-GCM, with empty associated data: the context is in ``info``, framed("dpmpc v2 record", digest, server, number of
the key, id). All lengths follow from the task file.

The id is the beginning of SHA-256(framed("dpmpc v2 report id", digest, secret)) of a secret of 32 bytes that the client
keeps, so that later it, and nobody else, can say whose report it is; with a roster it is the ticket's.

Promised: whoever has no private key of a server learns nothing of what is for it but the length, and a record that an
honest client has sealed for one collection, server, key and id opens under no other. Not promised: that a record was
made by whoever made the others of its report, which proofs show (docs/security.md), or that what was recorded on the
way stays closed if a private key is stolen; so each collection has keys of its own, deleted after its release
(`SealFolder.delete`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from dpmpc.collection.report_ids import ID_BYTES
from dpmpc.collection.reports import HEADER_BYTES, ReportFormat
from dpmpc.collection.roster import TOKEN_BYTES, Ticket
from dpmpc.collection.server_entries import SealKey
from dpmpc.collection.task_file import Collection
from dpmpc.errors import InputError, ReportRejected
from dpmpc.proving.joint import framed
from dpmpc.randomness import Label
from dpmpc.storage import require_private, sync, write_private
from dpmpc.untrusted import ReadError, read_bytes

FORMAT = b"\2"
KEY_BYTES = 32  # of X25519, public and private
SEAL_BYTES = KEY_BYTES + 16  # what sealing adds: the sender's public key, and a tag
SECRET_BYTES = 32
SUITE: Literal["x25519"] = "x25519"
_START = len(FORMAT) + ID_BYTES
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LARGEST_KEY = 1 << 10  # bytes of a file


@functools.cache
def _hpke() -> Any:
    """Return the suite; a release, which opens no report, does without it."""
    try:
        from cryptography.hazmat.primitives import hpke
    except ImportError as error:
        raise InputError("sealing needs cryptography 47: pip install '.[intake]' in dpmpc's source folder") from error
    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)


def report_id(digest: bytes, secret: bytes) -> bytes:
    """Return the id of a report to a collection without a roster, whose secret a client has drawn."""
    return hashlib.sha256(framed(Label.REPORT_ID, digest, secret)).digest()[:ID_BYTES]


def id_of(report: bytes) -> bytes:
    """Return the id of a report."""
    return report[len(FORMAT) : _START]


@dataclasses.dataclass(frozen=True)
class SealedReports:
    """The reports of format 2 of a collection, as clients write them and servers read them."""

    collection: Collection

    def __post_init__(self) -> None:
        if self.collection.format != 2:
            raise InputError("collection: of format 1 given, whose servers have no keys to seal to; format 2 expected")

    @functools.cached_property
    def record_bytes(self) -> tuple[int, ...]:
        """For each server, how many bytes of a report are for it."""
        forms = (ReportFormat(self.collection, server) for server in range(len(self.collection.servers)))
        token = TOKEN_BYTES if self.collection.authenticated else 0
        return tuple(1 + SEAL_BYTES + token + form.record_bytes - HEADER_BYTES for form in forms)

    @functools.cached_property
    def report_bytes(self) -> int:
        """Length of a report."""
        return _START + sum(self.record_bytes)

    def seal(self, records: Sequence[bytes], ticket: Ticket | None = None) -> bytes:
        """Return the report that holds what these records of format 1, one for each server, hold."""
        (report,) = {record[:ID_BYTES] for record in records}
        sealed = [FORMAT, report]
        for server, record in enumerate(records):
            key = self.collection.servers[server].keys[-1]
            plain = (b"" if ticket is None else ticket.token(server)) + record[HEADER_BYTES:]
            public = X25519PublicKey.from_public_bytes(bytes.fromhex(key.public))
            info = self.info(server, key.number, report)
            sealed += [bytes([key.number]), _hpke().encrypt(plain, public, info=info)]
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


class SealFolder:
    """The private keys of one server, in files ``NAME.key`` of a private folder beside ``NAME.pub``."""

    def __init__(self, folder: Path):
        self.folder = folder

    def draw(self, name: str) -> str:
        """Make a pair of keys for one collection; return what is in its public file."""
        if _NAME.fullmatch(name) is None:
            raise InputError(f"seal: {name!r} given, letters, digits, '.', '-' and '_' expected, no more than 100")
        try:
            with contextlib.suppress(FileExistsError):
                self.folder.mkdir(mode=0o700)
            require_private("seal", self.folder)
        except OSError as error:
            raise InputError(f"seal: {self.folder} cannot be made or used: {error.strerror}") from error
        key, public_file = self.folder / f"{name}.key", self.folder / f"{name}.pub"
        for path in (key, public_file):
            if path.exists():
                raise InputError(f"seal: {path} is there already; each collection has keys of its own: another name")
        private = X25519PrivateKey.generate()
        public = f"{SUITE} {_public(private)}\n"
        write_private(key, f"{SUITE} {private.private_bytes_raw().hex()}\n".encode())
        try:
            write_private(public_file, public.encode())
        except BaseException:
            key.unlink()
            raise
        return public

    def private(self, keys: Sequence[SealKey]) -> dict[int, X25519PrivateKey]:
        """Return the private keys to public ones, by number; those that are not here are left out."""
        numbers = {key.public: key.number for key in keys}
        return {numbers[public]: private for _, public, private in self._pairs() if public in numbers}

    def delete(self, keys: Sequence[SealKey]) -> list[Path]:
        """Overwrite and delete the private keys to public ones; return which files these were.

        Whatever else lies in the folder keeps none of them: neither a file that holds no key, nor a mode.
        """
        publics, deleted, unread = {key.public for key in keys}, [], []
        for path in sorted(self.folder.glob("*.key")):
            try:
                private = _key_in(path)
            except InputError as error:
                unread.append(error)
                continue
            if private is not None and _public(X25519PrivateKey.from_private_bytes(private)) in publics:
                with path.open("r+b") as file:
                    file.write(bytes(path.stat().st_size))
                    file.flush()
                    os.fsync(file.fileno())
                path.unlink()
                deleted.append(path)
        if deleted:
            sync(self.folder)
        if unread:
            raise unread[0]
        return deleted

    def _pairs(self) -> Iterator[tuple[Path, str, X25519PrivateKey]]:
        for path in sorted(self.folder.glob("*.key")):
            require_private("seal", path)
            private = X25519PrivateKey.from_private_bytes(_read_key(path))
            yield path, _public(private), private


class Opener:
    """What opens the records of one server."""

    def __init__(self, collection: Collection, server: int, folder: SealFolder):
        self._sealed, self._server = SealedReports(collection), server
        self._form = ReportFormat(collection, server)
        self._keys = folder.private(collection.servers[server].keys)
        missing = [str(key.number) for key in collection.servers[server].keys if key.number not in self._keys]
        if missing:
            raise InputError(
                f"folder: {folder.folder} lacks the private keys with the numbers {', '.join(missing)} that the "
                f"collection names for server {server}: what was sealed to them could not be opened"
            )
        self._first = _START + sum(self._sealed.record_bytes[:server])

    def open(self, report: bytes) -> tuple[bytes, bytes | None]:
        """Return the record of format 1 that this server finds in a report, and the client's token with a roster."""
        own = report[self._first : self._first + self._sealed.record_bytes[self._server]]
        number, named = own[0], id_of(report)
        key = self._keys.get(number)
        if report[: len(FORMAT)] != FORMAT or key is None:
            raise ReportRejected(
                f"body: a report of format {report[0]}, sealed to key {number} of server {self._server} given, format "
                f"2 and a key of the task file expected"
            )
        info = self._sealed.info(self._server, number, named)
        try:
            plain = _hpke().decrypt(own[1:], key, info=info)
        except (InvalidTag, ValueError):
            raise ReportRejected(
                f"body: what is for server {self._server} does not open with its key {number}, this id and the "
                f"collection {self._form.collection.digest.hex()[:16]}...: it is damaged or not meant for it"
            ) from None
        token = TOKEN_BYTES if self._form.collection.authenticated else 0
        return self._form.encode(named, plain[token:]), plain[:token] or None


def _public(private: X25519PrivateKey) -> str:
    return private.public_key().public_bytes_raw().hex()


def read_public(path: str | os.PathLike[str]) -> SealKey:
    """Read a public file of `SealFolder.draw`, as key 0 of its server."""
    return SealKey(0, SUITE, _read_key(path).hex())


def _read_key(path: str | os.PathLike[str]) -> bytes:
    """Read the key in a file, public or private; what it says is in no error."""
    key = _key_in(path)
    if key is None:
        raise InputError(f"seal: {path} given, a file with {SUITE!r} and 64 hexadecimal digits expected")
    return key


def _key_in(path: str | os.PathLike[str]) -> bytes | None:
    """Return the key in a file, or None if it holds none."""
    try:
        suite, text = read_bytes(path, largest=_LARGEST_KEY).decode("ascii").split()
        key = bytes.fromhex(text)
    except OSError as error:
        raise InputError(f"seal: {path} cannot be read: {error.strerror}") from error
    except (ReadError, ValueError):
        return None
    return key if suite == SUITE and len(key) == KEY_BYTES else None
