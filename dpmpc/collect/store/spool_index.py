"""Keep the index of a spool: which reports there are, where their words are, and a chain over both.

It holds the ids and checksums of reports in *blocks*, in the order of their coming: the words of the reports of a block
lie one after another from its position on. One *description* says whose spool it is, whether it was closed, the number
of the reports, a checksum over all of them in the order of their coming, and has a seal, which is a hash of the
description itself.

Promised: a description that has changed is refused; a report whose entry has changed, or is missing, no longer fits the
number or the checksum. Not promised: that the words are where the index says (`SqliteStore.intact` looks).

`KnownReports` finds reports by their ids, in memory: 32 bytes a report, and up to 38 more for those that came last.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.errors import SpoolError
from dpmpc.base.randomness import Label
from dpmpc.base.storage.database import CHAIN_START, link, transaction
from dpmpc.collect.store.report_store import CHECKSUM_BYTES, MOST_REPORTS
from dpmpc.collect.upload.report_ids import ID_BYTES, ID_TYPE, split

INDEX_FILE, LOCK_FILE = "spool.sqlite", "spool.lock"
ADVICE = (
    "nothing was sent. Restore spool/ from a copy, an older one will do (reports that came since are then left out), "
    "or release without this server where the shares allow it (docs/deploy.md)"
)
_VERSION = 5
_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (version INTEGER, digest TEXT, server INTEGER, copies INTEGER, width INTEGER, "
    "ring TEXT, segment_rows INTEGER, closed INTEGER, count INTEGER, chain INTEGER, seal BLOB)",
    "CREATE TABLE IF NOT EXISTS blocks (position INTEGER PRIMARY KEY, entries BLOB)",
)
_DESCRIPTION = (
    "SELECT version, digest, server, copies, width, ring, segment_rows, closed, count, chain, seal FROM about"
)
_SET_DESCRIPTION = (
    "UPDATE about SET version = ?, digest = ?, server = ?, copies = ?, width = ?, ring = ?, segment_rows = ?, "
    "closed = ?, count = ?, chain = ?, seal = ?"
)
_ENTRY_BYTES = ID_BYTES + CHECKSUM_BYTES
_BLOCK_ENTRIES = 256  # a block with fewer is written again with those that come next
_BLOCKS = (
    "SELECT position, entries FROM blocks WHERE typeof(position) = 'integer' AND typeof(entries) = 'blob' "
    "ORDER BY position"
)
_LAST_BLOCK = (
    "SELECT position, entries FROM blocks WHERE typeof(position) = 'integer' AND typeof(entries) = 'blob' "
    "AND position >= 0 AND position < 1 << 48 ORDER BY position DESC LIMIT 1"  # as `MOST_REPORTS`
)
_CHECKSUM_TYPE = f"S{CHECKSUM_BYTES}"
_ENTRY = np.dtype([("id", ID_TYPE), ("checksum", _CHECKSUM_TYPE)])
_ROW = np.dtype([("id", ID_TYPE), ("position", "<i8"), ("checksum", _CHECKSUM_TYPE)])
_FEWEST_RECENT = 1 << 14


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
    reports: int
    chain: int

    @property
    def content(self) -> tuple[int, int]:
        """Number and checksum of the reports: as long as they stay, the reports do."""
        return self.reports, self.chain

    @property
    def seal(self) -> bytes:
        """A hash of all fields, kept beside them."""
        return link(Label.SPOOL, CHAIN_START, self)


class KnownReports:
    """Checksums and positions of reports by their ids: most of them in order, the last ones in a dictionary."""

    def __init__(self, rows: NDArray[np.void]):
        order = np.argsort(rows["id"])
        self._ids = np.ascontiguousarray(rows["id"][order])
        self._checksums = np.ascontiguousarray(rows["checksum"][order])
        self._positions = np.ascontiguousarray(rows["position"][order])
        self._recent: dict[bytes, tuple[bytes, int]] = {}

    def among(self, ids: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the checksums of those of some reports that are known."""
        found = {report: self._recent[report][0] for report in self._recent.keys() & set(ids)}
        places = self._places(ids)
        found.update(zip(split(self._ids[places]), split(self._checksums[places]), strict=True))
        return found

    def positions(self, ids: Sequence[bytes]) -> list[int]:
        """Return where the words are of those of some reports that are known."""
        recent = [self._recent[report][1] for report in self._recent.keys() & set(ids)]
        return [*recent, *self._positions[self._places(ids)].tolist()]

    def add(self, new: dict[bytes, bytes], position: int) -> None:
        """Take in new reports by their checksums, whose words lie one after another from a position on."""
        self._recent.update(zip(new, zip(new.values(), itertools.count(position), strict=False), strict=True))
        if len(self._recent) > max(_FEWEST_RECENT, len(self._ids) // 8):
            ids = np.frombuffer(b"".join(self._recent), ID_TYPE)
            checksums = np.frombuffer(b"".join(checksum for checksum, _ in self._recent.values()), _CHECKSUM_TYPE)
            positions = np.array([position for _, position in self._recent.values()], np.int64)
            order = np.argsort(ids)
            places = np.searchsorted(self._ids, ids[order])
            self._ids = np.insert(self._ids, places, ids[order])
            self._checksums = np.insert(self._checksums, places, checksums[order])
            self._positions = np.insert(self._positions, places, positions[order])
            self._recent = {}

    def _places(self, ids: Sequence[bytes]) -> NDArray[np.intp]:
        """Return the places of those of some reports that are in order."""
        if not len(self._ids):
            return np.empty(0, np.intp)
        asked = np.unique(np.frombuffer(b"".join(ids), ID_TYPE))
        places = np.searchsorted(self._ids, asked).clip(max=len(self._ids) - 1)
        return np.asarray(places[self._ids[places] == asked])


class SpoolIndex:
    """The index of one spool, on a connection to its database."""

    def __init__(self, database: sqlite3.Connection, folder: Path):
        self._database, self._folder = database, folder

    def make(self, own: Mapping[str, Any], segment_rows: int) -> None:
        """Make the tables and the description of a new spool; leave those of an old one alone."""
        with transaction(self._database):
            for table in _TABLES:
                self._database.execute(table)
            if self._database.execute("SELECT count(*) FROM about").fetchone() == (0,):
                self._database.execute("INSERT INTO about (version) VALUES (NULL)")
                self.describe(
                    SpoolDescription(_VERSION, **own, segment_rows=segment_rows, closed=0, reports=0, chain=0)
                )

    def description(self) -> SpoolDescription:
        """Return what the index says about the spool; refuse an index whose description has changed."""
        rows = self._database.execute(_DESCRIPTION).fetchall()
        found = SpoolDescription._make(rows[0][:-1]) if len(rows) == 1 else None
        if found is None or rows[0][-1] != found.seal:
            raise SpoolError(self._folder, f"the spool is damaged: its description changed; {ADVICE}")
        if found.version != _VERSION:
            raise SpoolError(
                "folder", f"{self._folder} holds no spool of this version ({found.version}, {_VERSION} expected)"
            )
        return found

    def describe(self, description: SpoolDescription) -> None:
        """Write a description in place of the one that is there."""
        self._database.execute(_SET_DESCRIPTION, (*description, description.seal))

    def append(self, position: int, entries: dict[bytes, bytes], old: SpoolDescription) -> SpoolDescription:
        """Add ids and checksums of reports whose words are in the segments already; return the new description."""
        content = b"".join(map(bytes.__add__, entries.keys(), entries.values()))
        rows = _rows(position, content)
        for first, last in self._database.execute(_LAST_BLOCK).fetchall():
            known = len(_rows(first, last))  # none in a block that is damaged, which nothing is added to
            if 0 < known < _BLOCK_ENTRIES and first + known == position:
                position, content = first, last + content
        self._database.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?)", (position, content))
        new = old._replace(reports=old.reports + len(rows), chain=chained(rows, old.chain))
        self.describe(new)
        return new

    def rows(self) -> NDArray[np.void]:
        """Return the readable entries, with fields id, position and checksum, in the order of their positions."""
        blocks = (_rows(position, entries) for position, entries in self._database.execute(_BLOCKS))
        return np.concatenate([np.empty(0, _ROW), *blocks])

    def end(self) -> int:
        """Return the position after the last one that is taken."""
        last = self._database.execute(_LAST_BLOCK).fetchone()
        return 0 if last is None else int(last[0]) + len(last[1]) // _ENTRY_BYTES


def chained(rows: NDArray[np.void], before: int = 0) -> int:
    """Extend the checksum over the entries of an index, which depends on all those before them."""
    return zlib.crc32(rows.tobytes(), before)


def _rows(position: int, entries: bytes) -> NDArray[np.void]:
    """Return the rows that a block stands for: none where its place or length has changed."""
    if len(entries) % _ENTRY_BYTES or not 0 <= position < MOST_REPORTS:
        return np.empty(0, _ROW)
    read = np.frombuffer(entries, _ENTRY)
    rows = np.empty(len(read), _ROW)
    rows["id"], rows["checksum"] = read["id"], read["checksum"]
    rows["position"] = np.arange(position, position + len(read))
    return rows


def hold_lock(folder: Path) -> int:
    """Lock a spool for writing for as long as the file is open; the system unlocks it when the process dies."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise SpoolError("folder", f"another process writes to the spool {folder}, one writer expected") from None
    return descriptor
