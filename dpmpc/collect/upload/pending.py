"""Keep what a client still has to send: records on its disk, until every server has acknowledged them.

A report that was sent once must not be made again: other noise for the same row would protect it less, and a server
refuses other words under the same id. So the records are here, durable, before the first byte leaves, and whoever
sends again sends these.

So that the file is not used for other rows, it holds HMAC-SHA256 of a digest of the rows, under a random key of its
own. A digest without a key would give a row away to anybody who can try all rows there may be. Key and HMAC are deleted
together with the last record. What stays is the collection's digest, the number of reports and, with tickets, a digest
of their random ids.

Promised: a record is forgotten when its server has acknowledged it, or later; the file is readable by its owner only.
Once all servers have acknowledged everything, no file in the folder holds anything that depends on a row: deleted
content is overwritten with zeros in the database (``secure_delete``) and in its rollback journal, which SQLite would
only unlink. The secrets of the reports' ids stay, too: they state whose a report is, and nothing of it. Not
promised: that a disk forgets what was overwritten, or that a copy was not made before. Until the end
the file lets rows be guessed, by the HMAC and its key.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import os
import secrets
import sqlite3
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from dpmpc.base.errors import InputError
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.sealing import report_id

KEY_BYTES = 32
_PATIENCE_S = 30.0
_ZEROS = bytes(1 << 20)
_TABLES = (
    "CREATE TABLE about (collection TEXT, tickets TEXT, key BLOB, rows BLOB, reports INTEGER)",
    "CREATE TABLE records (server INTEGER, position INTEGER, record BLOB, PRIMARY KEY (server, position))",
)
_SECRETS = "CREATE TABLE secrets (position INTEGER PRIMARY KEY, secret BLOB, id BLOB)"  # of the ids of reports
_NAMES = {"about", "records"}
_VERSION = 3


class PendingRecord(NamedTuple):
    """One record to one server."""

    position: int
    content: bytes


class Pending:
    """The records of one submission."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        collection: Collection,
        rows: bytes,
        reports: Iterable[list[bytes]],
        targets: int,  # how many take all of them: the servers, or one door
        ids: Sequence[bytes] = (),
        *,
        secrets_of_ids: Sequence[bytes] = (),
    ):
        self._path = Path(os.path.realpath(path))  # SQLite names the journal after it
        self._collection, self._targets = f"{collection.digest.hex()} at {targets}", targets
        self._secrets, self._digest = secrets_of_ids, collection.digest
        self._names = _NAMES | {"secrets"} if secrets_of_ids else _NAMES
        self._tickets = hashlib.sha256(b"".join(ids)).hexdigest() if ids else ""
        self._rows = hashlib.sha256(rows + b"".join(ids)).digest()
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(self._path, timeout=_PATIENCE_S, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise InputError("state", f"{self._path} cannot be used: {error}") from error
        try:
            self.reports, self.finished = self._fill(reports)
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise InputError("state", f"{self._path} cannot be used: {error}") from error
        except BaseException:
            self.close()
            raise

    def records(self, server: int, most: int) -> Iterator[list[PendingRecord]]:
        """Yield the records that a server has not acknowledged, in order, at most so many at a time."""
        last = -1
        query = "SELECT position, record FROM records WHERE server = ? AND position > ? ORDER BY position LIMIT ?"
        while rows := self._database.execute(query, (server, last, most)).fetchall():
            yield list(itertools.starmap(PendingRecord, rows))
            last = rows[-1][0]

    def acknowledge(self, server: int, positions: Sequence[int]) -> None:
        """Forget what a server has acknowledged; with the last record, forget the key and the HMAC of the rows."""
        with self._transaction():
            self._database.executemany(
                "DELETE FROM records WHERE server = ? AND position = ?", [(server, position) for position in positions]
            )
            self._forget_rows_if_finished()

    def __len__(self) -> int:
        """Count the records that are left."""
        count: int = self._database.execute("SELECT count(*) FROM records").fetchone()[0]
        return count

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _fill(self, reports: Iterable[list[bytes]]) -> tuple[int, bool]:
        """Fill a new file or check an old one; return the number of reports, and whether all were acknowledged."""
        self._database.execute("PRAGMA synchronous = EXTRA")
        self._database.execute("PRAGMA secure_delete = ON")
        with self._transaction():
            tables = {name for (name,) in self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables not in (set(), self._names):
                raise InputError("state", self._path, "a database with other tables; another file")
            self._path.chmod(0o600)  # ours alone, before it holds a record
            if not tables:
                self._begin(reports)
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                raise InputError(
                    "state",
                    f"{self._path} is not the file of a submission of this version: {version}",
                    _VERSION,
                    "another file expected",
                )
            collection, tickets, key, rows, count = self._database.execute("SELECT * FROM about").fetchone()
            self._forget_rows_if_finished()  # of a submission without a row
        self._database.execute("PRAGMA journal_mode = DELETE")  # whose content `_transaction` overwrites
        known = key is None or hmac.compare_digest(rows, self._authenticated(key))
        if (collection, tickets) != (self._collection, self._tickets) or not known:
            raise self._other_submission()
        return int(count), key is None

    def _other_submission(self) -> InputError:
        return InputError(
            "state",
            f"{self._path} is that of another submission; the same rows and tickets as then expected, or "
            "another file for other people",
        )

    def _begin(self, reports: Iterable[list[bytes]]) -> None:
        self._database.execute(f"PRAGMA user_version = {_VERSION}")
        for table in _TABLES:
            self._database.execute(table)
        if self._secrets:
            self._database.execute(_SECRETS)
            named = ((place, one, report_id(self._digest, one)) for place, one in enumerate(self._secrets))
            self._database.executemany("INSERT INTO secrets VALUES (?, ?, ?)", named)
        count = 0
        for block in reports:
            for target in range(self._targets):
                rows = ((target, count + index, report) for index, report in enumerate(block))
                self._database.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
            count += len(block)
        self._describe(count)

    def _describe(self, count: int) -> None:
        key = secrets.token_bytes(KEY_BYTES)
        told = (self._collection, self._tickets, key, self._authenticated(key), count)
        self._database.execute("INSERT INTO about VALUES (?, ?, ?, ?, ?)", told)

    def _authenticated(self, key: bytes) -> bytes:
        return hmac.digest(key, self._rows, "sha256")

    def _forget_rows_if_finished(self) -> None:
        self._database.execute(
            "UPDATE about SET key = NULL, rows = NULL WHERE key IS NOT NULL AND NOT EXISTS (SELECT * FROM records)"
        )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit what is done inside, or nothing of it; overwrite the rollback journal after SQLite has unlinked it.

        The journal holds what the changed pages held before. It is opened while it has a name, and overwritten when it
        has none: nobody else can have begun to use it by then.
        """
        journal: int | None = None
        self._database.execute("BEGIN IMMEDIATE")
        try:
            try:
                yield
                with contextlib.suppress(FileNotFoundError):  # nothing was changed
                    journal = os.open(f"{self._path}-journal", os.O_WRONLY)
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
            if journal is not None:
                _overwrite(journal)
        finally:
            if journal is not None:
                os.close(journal)


def _overwrite(unlinked: int) -> None:
    """Overwrite an unlinked file with zeros."""
    status = os.fstat(unlinked)
    if status.st_nlink:
        return
    left = status.st_size
    while left > 0:
        left -= os.write(unlinked, _ZEROS[:left])
    os.fsync(unlinked)


def secrets_in(path: str | os.PathLike[str], collection: Collection) -> list[bytes]:
    """Return the secrets of the ids of a submission to this collection, from its file, which is only read."""
    place = f"file:{urllib.parse.quote(os.path.realpath(path))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=_PATIENCE_S)) as database:
            ((digest, count),) = database.execute("SELECT collection, reports FROM about").fetchall()
            rows = database.execute("SELECT secret, id FROM secrets ORDER BY position").fetchall()
    except (sqlite3.Error, ValueError) as error:
        raise InputError("state", path, "the file of a submission", error) from error
    if str(digest).split()[:1] != [collection.digest.hex()]:
        raise InputError("state", f"{path} is of collection {digest}, {collection.digest.hex()} expected")
    wrong = sum(report_id(collection.digest, secret) != report for secret, report in rows)
    if wrong or len(rows) != count:
        raise InputError(
            "state",
            f"{path}: {len(rows)} secrets of {count} reports, {wrong} of them not of their report's id; the "
            "file as `dpmpc submit` wrote it expected",
        )
    return [secret for secret, _ in rows]
