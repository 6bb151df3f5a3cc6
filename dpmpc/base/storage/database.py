"""Open the databases of a server's stores with durable commits, and chain their rows by hashes.

Promised: what a transaction has committed survives a crash of the process, of the system, and a loss of power, because
what is committed is synced before a commit returns (synchronous=EXTRA) and directory entries are synced when files
appear. A transaction is in the file as a whole or not at all. Files are for their owner alone, and errors are those of
this package. Not promised: anything on a disk that reports "synced" before it is, or on a file system that others mount
too.

Link i of a chain is SHA-256(label || link i-1 || fields of row i), and link 0 is 32 zero bytes. A store keeps each
row's link next to it, and the last link with the number of rows in its own place, the *head*. Promised: whatever
bit of a row, a link or the head changes, the links no longer agree. Not promised: that a forger is noticed, who
computes all links anew; a store lies in a private folder, and this is for disks that fail.
"""

from __future__ import annotations

import abc
import contextlib
import errno
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from dpmpc.base.errors import SpoolError
from dpmpc.base.randomness import Label
from dpmpc.base.storage.files import require_private, sync
from dpmpc.base.untrusted import printable

Journal = Literal["WAL", "DELETE"]
Turns = Literal["DEFERRED", "IMMEDIATE", "EXCLUSIVE"]
Field = int | float | str | bytes | None

CHAIN_START = bytes(32)
_PATIENCE_S = 60.0  # for another process's transaction, the longest of which writes a whole batch
_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CACHE_KIB = 4 << 10
_LOG_BYTES = 32 << 20  # pages that many commits touch are written back once


class Store(abc.ABC):
    """Base of a store that holds files open until `close`, or until its `with` statement ends."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def private_folder(folder: Path) -> None:
    """Make a folder with mode 0700; refuse an existing one that others can read."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        sync(folder.absolute().parent)
    require_private("folder", folder, SpoolError)


def connect(
    path: Path,
    *,
    create: bool,
    journal: Journal = "WAL",
    patience: float = _PATIENCE_S,
    page_bytes: int = 4096,
) -> sqlite3.Connection:
    """Open a database in a private folder; create a missing one (mode 0600), with pages of a size, or refuse it.

    Threads may take turns on the connection, and it waits `patience` seconds for another process's transaction.
    """
    if create:
        # An existing file is left alone: closing it would drop the locks that this process may hold on it.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        sync(path.parent)
    elif not path.is_file():
        raise SpoolError("folder", f"no {path.name} in {path.parent}")
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {page_bytes}")  # of a file that is empty
        (mode,) = connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()
        if mode.upper() != journal:
            raise SpoolError(path, f"journal mode {mode} in use by another process, {journal} expected")
        connection.execute("PRAGMA synchronous = EXTRA")  # FULL, and the folder once a rollback journal is deleted
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_BYTES // page_bytes}")
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: Turns = "IMMEDIATE") -> Iterator[None]:
    """Commit all statements of the body, or none of them.

    Meanwhile no other process writes, or reads either (``"EXCLUSIVE"``). A ``"DEFERRED"`` body reads as of one moment.
    """
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def typed_errors(place: Path) -> Iterator[None]:
    """Turn errors of SQLite and the system into a `SpoolError` that names the place."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise SpoolError(place, f"{error}{_remedy(place, error)}") from error
    except (UnicodeDecodeError, OverflowError, MemoryError) as error:  # as Python reads what a damaged file holds
        raise SpoolError(place, f"the database is damaged: {printable(str(error))}") from error


def _remedy(place: Path, error: sqlite3.Error | OSError) -> str:
    """Return what to do where a disk is full or fails, with how much of it is free; else nothing."""
    # The system's numbers have less than 8 bits too; SQLite adds in higher bits what it was doing.
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DISK and getattr(error, "errno", None) not in _NO_ROOM:
        return ""
    try:
        disk = os.statvfs(place if place.exists() else place.parent)
    except OSError:  # the disk fails, as it says already
        return ""
    return (
        f"; {disk.f_bavail * disk.f_frsize:,} bytes are free on its disk: make room if these are few, else look at the "
        "disk, and then run the same again; what was kept before is still there"
    )


def link(label: Label, previous: bytes, fields: Iterable[Field]) -> bytes:
    """Return the link of a row."""
    return hashlib.sha256(label.value + previous + b"".join(map(_framed, fields))).digest()


def links(label: Label, rows: Iterable[Sequence[Field]]) -> list[bytes]:
    """Return the links of all rows, in their order."""
    chain: list[bytes] = []
    for fields in rows:
        chain.append(link(label, chain[-1] if chain else CHAIN_START, fields))
    return chain


def first_difference(kept: Sequence[object], expected: Sequence[bytes]) -> int | None:
    """Return the index of the first row whose link differs from the one that was kept; None if none does."""
    for index, (one, other) in enumerate(zip(kept, expected, strict=True)):
        if one != other:
            return index
    return None


def _framed(value: Field) -> bytes:
    content = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
    return f"{type(value).__name__}:{len(content)}:".encode() + content
