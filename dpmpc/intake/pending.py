"""What a client has still to send: records on its disk, until every server has acknowledged them.

A report that was sent once must not be made again: other noise for the same row would protect it less, and a server
refuses other words under the same id. So the records are here, durable, before the first byte leaves, and whoever
sends again sends these.

Promised: a record is forgotten when its server has acknowledged it, or later; the file is readable by its owner only.
What stays is a digest of the rows, so that the file is not used for others. Not promised: that a disk forgets what was
erased. Until then the file is as secret as the rows: together, the records of one report reveal it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from dpmpc.errors import InputError
from dpmpc.intake.collection import Collection

_PATIENCE_S = 30.0
_TABLES = (
    "CREATE TABLE about (collection TEXT, rows TEXT, reports INTEGER)",
    "CREATE TABLE records (server INTEGER, position INTEGER, record BLOB, PRIMARY KEY (server, position))",
)
_NAMES = {"about", "records"}


class Record(NamedTuple):
    """One record to one server."""

    position: int
    content: bytes


class Pending:
    """The records of one submission.

    Parameters
    ----------
    path : path
        The file; made, mode 0600, if there is none.
    collection : Collection
        What the records are for.
    rows_digest : bytes
        Of the rows that they are made of.
    reports : iterable of list of list of bytes
        What `make_reports` returns, block by block; not touched if the file has its records already.

    Attributes
    ----------
    reports : int
        How many the submission has, acknowledged or not.

    Raises
    ------
    InputError
        If the file cannot be used, or is for another collection or other rows.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        collection: Collection,
        rows_digest: bytes,
        reports: Iterable[list[list[bytes]]],
    ):
        self._path = Path(path)
        self._about = (collection.digest.hex(), rows_digest.hex())
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(self._path, timeout=_PATIENCE_S, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"state: {self._path} cannot be used: {error}") from error
        try:
            self.reports = self._fill(reports)
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise InputError(f"state: {self._path} cannot be used: {error}") from error
        except BaseException:
            self.close()
            raise

    def records(self, server: int, most: int) -> Iterator[list[Record]]:
        """Yield what a server has not acknowledged, at most so many records at a time, in order."""
        last = -1
        query = "SELECT position, record FROM records WHERE server = ? AND position > ? ORDER BY position LIMIT ?"
        while rows := self._database.execute(query, (server, last, most)).fetchall():
            yield list(itertools.starmap(Record, rows))
            last = rows[-1][0]

    def acknowledge(self, server: int, positions: Sequence[int]) -> None:
        """Forget what a server has acknowledged."""
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(
                "DELETE FROM records WHERE server = ? AND position = ?", [(server, position) for position in positions]
            )

    def __len__(self) -> int:
        """Count the records that are left."""
        count: int = self._database.execute("SELECT count(*) FROM records").fetchone()[0]
        return count

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _fill(self, reports: Iterable[list[list[bytes]]]) -> int:
        self._database.execute("PRAGMA synchronous = EXTRA")
        self._database.execute("PRAGMA secure_delete = ON")
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            tables = {name for (name,) in self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables not in (set(), _NAMES):
                raise InputError(f"state: {self._path} given, a database of something else; another file expected")
            self._path.chmod(0o600)  # of ours alone, before it holds a record
            if not tables:
                self._begin(reports)
            *about, count = self._database.execute("SELECT collection, rows, reports FROM about").fetchone()
        if tuple(about) != self._about:
            raise InputError(
                f"state: {self._path} is that of another submission; the same rows and tickets as then expected, or "
                "another file for other people"
            )
        return int(count)

    def _begin(self, reports: Iterable[list[list[bytes]]]) -> None:
        for table in _TABLES:
            self._database.execute(table)
        count = 0
        for block in reports:
            for server, records in enumerate(block):
                rows = ((server, count + index, record) for index, record in enumerate(records))
                self._database.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
            count += len(block[0])
        self._database.execute("INSERT INTO about VALUES (?, ?, ?)", (*self._about, count))


def digest_of(parts: Iterable[bytes]) -> bytes:
    """SHA-256 of the parts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.digest()
