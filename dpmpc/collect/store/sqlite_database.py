"""Keep a store of reports in one SQLite file of a server's folder, with its log next to it.

Promised, beside what `dpmpc.base.storage.database` does: files are for their owner alone; any number of processes read
and write, which wait for one another; words that were withdrawn are overwritten in the file, and its log is emptied. If
another process is reading for longer than a second just then, or this one dies, the next withdrawal or the next start
empties it. Not promised: that a file system or a disk that writes elsewhere than it did before keeps no copy of
overwritten words.

The folder must lie on a local disk that keeps its word when it states that data is synced. A log that is damaged before
it is written back can take reports away, which are then lacking at this server; it changes none.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpmpc.base.storage.database import connect, private_folder, transaction, typed_errors
from dpmpc.collect.store.store_description import SqlDialect, UnreadableRows

SPOOL_FILE = "spool.sqlite"
_CACHE_KIB = 8 << 10
_PAGE_BYTES = 1 << 13  # blocks are larger than what most databases hold in a row
_READERS_MS = 1000
_UNREADABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR)


class SqliteDatabase:
    """The file of a folder; `create` makes both where they are missing."""

    dialect = SqlDialect(
        number="INTEGER",
        bytes="BLOB",
        find="SELECT number, ids FROM ids WHERE number >= ? AND number < ? AND instr(ids, ?) > 0",
        advice="nothing was sent. Restore spool/ from a copy, an older one will do (reports that came since are then "
        "left out), or release without this server where the shares allow it (docs/deploy.md)",
    )

    def __init__(self, folder: Path, *, create: bool):
        self.place, self._folder = str(folder), folder
        self._turns = threading.RLock()
        with typed_errors(folder):
            if create:
                private_folder(folder)
            self._connection = connect(folder / SPOOL_FILE, create=create, page_bytes=_PAGE_BYTES)
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")  # words are read once

    @contextlib.contextmanager
    def turn(self, *, alone: bool = False) -> Iterator[None]:
        """Do as `ReportDatabase.turn` does."""
        with self._turns, typed_errors(self._folder):
            try:
                with transaction(self._connection) if alone else self._reading():
                    yield
            except UnreadableRows as error:  # of what a store cannot do without
                raise error.error from None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Read as of one moment; a commit would fail where some rows could not be read."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def execute(self, statement: str, *given: Any) -> list[Any]:
        """Do as `ReportDatabase.execute` does."""
        try:
            return self._connection.execute(statement, given).fetchall()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNREADABLE:
                raise UnreadableRows(error) from error
            raise

    def insert(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Do as `ReportDatabase.insert` does."""
        self._connection.executemany(statement, rows)

    def tables(self) -> set[str]:
        """Return the names of the tables."""
        return {name for (name,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def empty_log(self) -> None:
        """Do as `ReportDatabase.empty_log` does, unless others go on reading what is in the log."""
        with self._turns, typed_errors(self._folder):
            ((patience,),) = self.execute("PRAGMA busy_timeout")
            self.execute(f"PRAGMA busy_timeout = {_READERS_MS}")  # a long read may not hold up what is uploaded
            try:
                self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                self.execute(f"PRAGMA busy_timeout = {patience}")

    def usable(self, least_free: int) -> bool:
        """Return whether its disk has so many bytes free."""
        try:
            return shutil.disk_usage(self._folder).free >= least_free
        except OSError:
            return False

    def close(self) -> None:
        """Close the file."""
        with self._turns:
            self._connection.close()
