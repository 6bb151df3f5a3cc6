"""Keep the index of a spool: which reports there are, where their words are, and a chain over both.

It holds one row for each report, with the position and the checksum of its words, and one *description*: whose spool it
is, whether it was closed, the number of the reports, a checksum over all of them in the order of their coming, and a
seal, which is a hash of the description itself.

Promised: a description that has changed is refused; a row that has changed, or is missing, no longer fits the number
or the checksum. Not promised: that the words are where the index says (`Spool.intact` looks).

An index of version 0.1 is given its chain when it is opened first, while nobody else writes to the spool. Its checksums
are those of the words alone, and stay so.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.collection.database import CHAIN_START, link, transaction
from dpmpc.collection.report_ids import ID_TYPE
from dpmpc.collection.segments import CHECKSUM_BYTES, NEW_CHECKSUM, OLD_CHECKSUM
from dpmpc.errors import SpoolError
from dpmpc.randomness import Label

INDEX_FILE, LOCK_FILE = "spool.sqlite", "spool.lock"
ADVICE = (
    "nothing was sent. Restore spool/ from a copy, an older one will do (reports that came since are then left out), "
    "or release without this server where the shares allow it (docs/deploy.md)"
)
_FIRST_VERSION, _VERSION = 1, 2
_ROWS_AT_ONCE = 1 << 14
_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (version INTEGER, digest TEXT, server INTEGER, copies INTEGER, width INTEGER, "
    "ring TEXT, segment_rows INTEGER, closed INTEGER, checksums TEXT, count INTEGER, chain INTEGER, seal BLOB)",
    "CREATE TABLE IF NOT EXISTS reports (id BLOB PRIMARY KEY, position INTEGER, checksum BLOB) WITHOUT ROWID",
)
_NEW_IN_2 = (
    "ALTER TABLE about ADD COLUMN checksums TEXT",
    "ALTER TABLE about ADD COLUMN count INTEGER",
    "ALTER TABLE about ADD COLUMN chain INTEGER",
    "ALTER TABLE about ADD COLUMN seal BLOB",
)
_DESCRIPTION = (
    "SELECT version, digest, server, copies, width, ring, segment_rows, closed, checksums, count, chain, seal "
    "FROM about"
)
_OLD_DESCRIPTION = "SELECT digest, server, copies, width, ring, segment_rows, closed FROM about"
_SET_DESCRIPTION = (
    "UPDATE about SET version = ?, digest = ?, server = ?, copies = ?, width = ?, ring = ?, segment_rows = ?, "
    "closed = ?, checksums = ?, count = ?, chain = ?, seal = ?"
)
_READABLE_ROWS = (
    "SELECT id, position, checksum FROM reports WHERE typeof(id) = 'blob' AND length(id) = 16 "
    "AND typeof(position) = 'integer' AND position >= 0 AND typeof(checksum) = 'blob' AND length(checksum) = 8"
)
_POINTS = "CREATE TABLE IF NOT EXISTS points (point BLOB, used INTEGER, seal BLOB)"
_ROW = np.dtype([("id", ID_TYPE), ("position", "<i8"), ("checksum", f"S{CHECKSUM_BYTES}")])

Row = tuple[bytes, int, bytes]  # a report's id, and position and checksum of its words


class SpoolDescription(NamedTuple):
    """What the index says about the spool as a whole."""

    version: int
    digest: str
    server: int
    copies: int
    width: int
    ring: str
    segment_rows: int
    closed: int
    checksums: str
    reports: int
    chain: int

    @property
    def seal(self) -> bytes:
        """A hash of all fields, kept beside them."""
        return link(Label.SPOOL, CHAIN_START, self)


class SealedPoint(NamedTuple):
    """The query point of a collection with proofs, and whether it is used: see `dpmpc.collection.query_points`."""

    toss: bytes
    used: bool

    @property
    def seal(self) -> bytes:
        """A hash of both, kept beside them."""
        return link(Label.SPOOL, CHAIN_START, (self.toss, int(self.used)))


class SpoolIndex:
    """The index of one spool, on a connection to its database."""

    def __init__(self, database: sqlite3.Connection, folder: Path):
        self._database, self._folder = database, folder

    def make(self, digest: str, server: int, shape: tuple[int, int], ring: str, segment_rows: int) -> None:
        """Make the tables and the description of a new spool; leave those of an old one alone."""
        with transaction(self._database):
            for table in _TABLES:
                self._database.execute(table)
            if self._database.execute("SELECT count(*) FROM about").fetchone() == (0,):
                self._database.execute("INSERT INTO about (version) VALUES (NULL)")
                self.describe(
                    SpoolDescription(_VERSION, digest, server, *shape, ring, segment_rows, 0, NEW_CHECKSUM, 0, 0)
                )

    def migrate(self, *, locked: bool) -> None:
        """Give a spool of version 0.1 its chain; `locked` says whether this process holds the writer's lock."""
        if self.first_description() is None:
            return
        held = None if locked else hold_lock(self._folder)
        try:
            with transaction(self._database):
                for statement in _NEW_IN_2:
                    self._database.execute(statement)
                fields = self._database.execute(_OLD_DESCRIPTION).fetchone()
                rows = self.rows()
                new = (OLD_CHECKSUM, len(rows), chained(rows))
                self.describe(SpoolDescription._make((_VERSION, *fields, *new)))
        finally:
            if held is not None:
                os.close(held)

    def first_description(self) -> SpoolDescription | None:
        """Return what an index of version 0.1 says about the spool, as yet without a chain; None for a later one."""
        if self._database.execute("SELECT version FROM about").fetchone() != (_FIRST_VERSION,):
            return None
        fields = self._database.execute(_OLD_DESCRIPTION).fetchone()
        return SpoolDescription._make((_FIRST_VERSION, *fields, OLD_CHECKSUM, 0, 0))

    def description(self) -> SpoolDescription:
        """Return what the index says about the spool; refuse an index whose description has changed."""
        rows = self._database.execute(_DESCRIPTION).fetchall()
        found = SpoolDescription._make(rows[0][:-1]) if len(rows) == 1 else None
        if found is None or rows[0][-1] != found.seal:
            raise SpoolError(f"{self._folder}: the spool is damaged: its description changed; {ADVICE}")
        if found.version != _VERSION:
            raise SpoolError(f"folder: a spool of version {found.version} in {self._folder}, {_VERSION} expected")
        return found

    def describe(self, description: SpoolDescription) -> None:
        """Write a description in place of the one that is there."""
        self._database.execute(_SET_DESCRIPTION, (*description, description.seal))

    def point(self) -> SealedPoint | None:
        """Return the query point, or None; refuse one that is not as it was written."""
        if not self._database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'points'").fetchone()[0]:
            return None
        rows = self._database.execute("SELECT point, used, seal FROM points").fetchall()
        found = SealedPoint(rows[0][0], bool(rows[0][1])) if len(rows) == 1 else None
        if found is None or rows[0][2] != found.seal:
            raise SpoolError(f"{self._folder}: the spool is damaged: its query point changed; {ADVICE}")
        return found

    def keep_point(self, point: SealedPoint) -> None:
        """Write a query point in place of the one that is there."""
        self._database.execute(_POINTS)
        self._database.execute("DELETE FROM points")
        self._database.execute("INSERT INTO points VALUES (?, ?, ?)", (point.toss, int(point.used), point.seal))

    def append(self, rows: list[Row]) -> None:
        """Add new reports, whose words are in the segments already, and extend the chain."""
        self._database.executemany("INSERT INTO reports VALUES (?, ?, ?)", rows)
        old = self.description()
        chain = chained(np.array(rows, _ROW), old.chain)
        self.describe(old._replace(reports=old.reports + len(rows), chain=chain))

    def snapshot(self) -> tuple[SpoolDescription, NDArray[np.void]]:
        """Return description and `rows` as of one moment, even while a writer adds to them."""
        self._database.execute("BEGIN")
        try:
            return self.description(), self.rows()
        finally:
            self._database.execute("ROLLBACK")

    def rows(self) -> NDArray[np.void]:
        """Return the readable rows, with fields id, position and checksum, in the order of their positions."""
        index = np.concatenate([np.empty(0, _ROW), *self.parts()])
        return index[np.argsort(index["position"], kind="stable")]

    def parts(self) -> Iterator[NDArray[np.void]]:
        """Yield the readable rows in no particular order, some at a time."""
        for ids, positions, checksums in self._columns(_READABLE_ROWS):
            part = np.empty(len(ids), _ROW)
            part["id"] = np.frombuffer(b"".join(ids), ID_TYPE)
            part["position"] = positions
            part["checksum"] = np.frombuffer(b"".join(checksums), part["checksum"].dtype)
            yield part

    def ids(self) -> bytes:
        """Return all ids in ascending order, one after another."""
        return b"".join(b"".join(ids) for (ids,) in self._columns("SELECT id FROM reports ORDER BY id"))

    def checksum(self, report: bytes) -> bytes | None:
        """Return the checksum of a report's words, or None if there is no such report."""
        row = self._database.execute("SELECT checksum FROM reports WHERE id = ?", (report,)).fetchone()
        return None if row is None else row[0]

    def __len__(self) -> int:
        count: int = self._database.execute("SELECT count(*) FROM reports").fetchone()[0]
        return count

    def end(self) -> int:
        """Return the position after the last one that is taken."""
        query = "SELECT max(position) FROM reports WHERE typeof(position) = 'integer'"
        (last,) = self._database.execute(query).fetchone()
        return 0 if last is None else int(last) + 1

    def _columns(self, query: str) -> Iterator[tuple[tuple[Any, ...], ...]]:
        """Yield a query's columns, some rows at a time."""
        cursor = self._database.execute(query)
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield tuple(zip(*rows, strict=True))


def chained(rows: NDArray[np.void], before: int = 0) -> int:
    """Extend the checksum over the rows of an index, which depends on all rows before them."""
    return zlib.crc32(rows.tobytes(), before)


def hold_lock(folder: Path) -> int:
    """Lock a spool for writing for as long as the file is open; the system unlocks it when the process dies."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise SpoolError(f"folder: another process writes to the spool {folder}, one writer expected") from None
    return descriptor
