"""SQLite as a server's stores use it: commits that last, files for their owner alone, errors of this package.

Promised: what a transaction has committed survives a crash of the process, of the system, and a loss of power, because
what is committed is synced before a commit returns (synchronous=EXTRA) and directory entries are synced when files
appear. A transaction is in the file as a whole or not at all. Not promised: anything on a disk that says "synced"
before it is, or on a file system that others mount too.
"""

from __future__ import annotations

import abc
import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from dpmpc.errors import SpoolError
from dpmpc.storage import require_private, sync
from dpmpc.untrusted import printable

Journal = Literal["WAL", "DELETE"]

_PATIENCE_S = 60.0  # for another process's transaction, the longest of which writes a whole batch
_CACHE_KIB = 32 << 10
_LOG_PAGES = 8192  # of 4 KiB: pages that many commits touch are written back once


class Store(abc.ABC):
    """What holds files open: to be closed, or used in a `with` statement."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of the files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def private_folder(folder: Path) -> None:
    """Make a folder of mode 0700, or refuse one that others may look into."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        sync(folder.absolute().parent)
    require_private("folder", folder, SpoolError)


def connect(path: Path, *, create: bool, journal: Journal = "WAL") -> sqlite3.Connection:
    """Open a database in a private folder; one that is not there is made (mode 0600) or refused.

    Threads may take turns on the connection.

    Parameters
    ----------
    path : Path
        The file.
    create : bool
        Whether to make it if it is not there.
    journal : str
        "WAL" for many commits a second: what was committed last may lie in a second file, and a damaged bit of that
        file takes those commits back without a word. "DELETE" for few commits that must not be taken back: all that
        was committed lies in the database file.
    """
    if create:
        # An existing file is left alone: closing it would drop the locks that this process may hold on it.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        sync(path.parent)
    elif not path.is_file():
        raise SpoolError(f"folder: no {path.name} in {path.parent}")
    connection = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False)
    try:
        (mode,) = connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()
        if mode.upper() != journal:
            raise SpoolError(f"{path}: journal mode {mode} found and kept by another process, {journal} expected")
        connection.execute("PRAGMA synchronous = EXTRA")  # FULL, and the folder once a rollback journal is deleted
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what is done inside, or nothing of it; no other process writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def typed_errors(place: Path) -> Iterator[None]:
    """Turn what SQLite and the system report of a place into a `SpoolError`, a damaged database included."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise SpoolError(f"{place}: {error}") from error
    except (UnicodeDecodeError, OverflowError, MemoryError) as error:  # as Python reads what a damaged file holds
        raise SpoolError(f"{place}: a damaged database: {printable(str(error))}") from error
