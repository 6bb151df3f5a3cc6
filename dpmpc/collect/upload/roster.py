"""Admit only clients that are known beforehand, each with one report.

The operator of a roster gives every client a *ticket*: a report id and a secret of 32 bytes. A client shows server j
the token ``derive(secret, Label.CLIENT_TOKEN, j, 32)``; server j holds SHA-256 of it, next to the report id. As the id
is the roster's, a client that uploads again either repeats its report or is refused, at every server.

Promised: a server that knows its roster and all tokens shown to it cannot speak for a client at another server, nor can
a thief of its roster speak for a client anywhere. Not promised: anonymity. Anyone who holds the tickets knows whose
report an id is, and can contribute in the place of each client. What a report *contains* remains hidden from every
server, with or without a roster.
"""

from __future__ import annotations

import bisect
import csv
import hashlib
import hmac
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Label, Stream, derive
from dpmpc.base.storage.files import write_private
from dpmpc.base.untrusted import ReadError, read_bytes
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.report_ids import ID_BYTES, ID_TYPE

MAGIC = b"dpmpc roster v1\n"
SECRET_BYTES = TOKEN_BYTES = 32
_ENTRY_BYTES = ID_BYTES + hashlib.sha256().digest_size
_LARGEST_TICKETS = 1 << 30  # bytes of a file of tickets, those of some five million clients
_LARGEST_ROSTER = 1 << 30  # bytes, of some twenty million clients
_HEADINGS = ["client", "report", "secret"]


class Ticket(NamedTuple):
    """What a client is given."""

    client: str  # for people
    report: bytes  # the id of its one report
    secret: bytes  # 32 bytes

    def token(self, server: int) -> bytes:
        """Return what the client shows to a server."""
        return derive(self.secret, Label.CLIENT_TOKEN, server, TOKEN_BYTES)


class Roster:
    """Who may contribute, as one server holds it."""

    def __init__(self, path: Path, collection: Collection, server: int):
        try:
            content = read_bytes(path, largest=_LARGEST_ROSTER)
        except OSError as error:
            raise InputError("roster", f"{path} cannot be read: {error.strerror}") from error
        except ReadError as error:
            raise InputError("roster", f"{path} cannot be read: {error}") from error
        header = _header(collection, server)
        if not content.startswith(header) or (len(content) - len(header)) % _ENTRY_BYTES:
            raise InputError("roster", path, f"that of server {server} for this collection")
        self._entries = content[len(header) :]
        ids = np.frombuffer(self._entries, np.dtype([("id", ID_TYPE), ("hash", f"S{_ENTRY_BYTES - ID_BYTES}")]))["id"]
        if not (ids[:-1] < ids[1:]).all():
            raise InputError("roster", f"report ids of {path} out of order given, ascending ones expected, none twice")

    def __len__(self) -> int:
        return len(self._entries) // _ENTRY_BYTES

    def admits(self, report: bytes, token: bytes) -> bool:
        """Return whether the token is that of the client whose report this is."""
        row = bisect.bisect_left(range(len(self)), report, key=self._report)
        start = row * _ENTRY_BYTES
        entry = self._entries[start : start + _ENTRY_BYTES]
        found = hmac.compare_digest(entry, report + hashlib.sha256(token).digest())
        return found and len(token) == TOKEN_BYTES

    def _report(self, row: int) -> bytes:
        start = row * _ENTRY_BYTES
        return self._entries[start : start + ID_BYTES]


def draw_tickets(clients: Sequence[str]) -> list[Ticket]:
    """Give each client a fresh report id and secret."""
    stream = Stream.from_os()
    return [Ticket(client, stream.bytes(ID_BYTES), stream.bytes(SECRET_BYTES)) for client in clients]


def write_roster(path: Path, collection: Collection, server: int, tickets: Sequence[Ticket]) -> None:
    """Write what a server needs: report ids and hashes of tokens, in the order of the ids; mode 0600."""
    if not collection.authenticated:
        raise InputError("collection", "authenticated = false", "true", "the roster would not be used")
    entries = sorted(ticket.report + hashlib.sha256(ticket.token(server)).digest() for ticket in tickets)
    write_private(path, _header(collection, server) + b"".join(entries))


def write_tickets(path: Path, tickets: Sequence[Ticket]) -> None:
    """Write tickets as CSV with the columns client, report and secret; mode 0600."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_HEADINGS)
    rows.writerows((client, report.hex(), secret.hex()) for client, report, secret in tickets)
    write_private(path, text.getvalue().encode())


def read_tickets(path: str | os.PathLike[str]) -> list[Ticket]:
    """Read a file of `write_tickets`, or part of one with its first line."""
    try:
        content = read_bytes(path, largest=_LARGEST_TICKETS).decode("utf-8")
        headings, *rows = csv.reader(io.StringIO(content, newline=""))
        if headings != _HEADINGS:
            raise ValueError(f"columns {headings}")
        tickets = [Ticket(client, bytes.fromhex(report), bytes.fromhex(secret)) for client, report, secret in rows]
    except OSError as error:
        raise InputError("tickets", f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, csv.Error):  # its text may hold a secret
        raise InputError("tickets", path, f"CSV with the columns {', '.join(_HEADINGS)}") from None
    if any((len(ticket.report), len(ticket.secret)) != (ID_BYTES, SECRET_BYTES) for ticket in tickets):
        raise InputError("tickets", path, f"reports of {ID_BYTES} and secrets of {SECRET_BYTES} bytes")
    return tickets


def _header(collection: Collection, server: int) -> bytes:
    return MAGIC + collection.digest + server.to_bytes(4, "little")
