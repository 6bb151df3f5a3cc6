"""Keep the tables of a release ledger, and the chains that show whether they are as they were written.

Releases, dealing seeds and query points are chained by hashes (`dpmpc.collection.database`), with the head of each
chain in a table of its own, and every read checks the chain. The ids of the reports are too many for that: each release
has a digest of its own ids, which `LedgerTables.scrub` checks.

A ledger of version 0.1 is given its chains when it is opened first. What changed in it before that is noticed only
where the digest of the ids of a release tells.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

from dpmpc.collection.database import CHAIN_START, first_difference, links, transaction
from dpmpc.errors import SpoolError
from dpmpc.randomness import Label

LEDGER_FILE = "ledger.sqlite"
_FIRST_VERSION, _VERSION = 1, 2
_ROWS_AT_ONCE = 1 << 14
_TABLES = (
    "CREATE TABLE releases (number INTEGER PRIMARY KEY, digest BLOB, manifest TEXT, state TEXT, since TEXT, "
    "ids_digest BLOB, shape TEXT, sums BLOB, link BLOB)",
    "CREATE TABLE reports (id BLOB PRIMARY KEY, release INTEGER) WITHOUT ROWID",
)
_NEW_IN_2 = (
    "CREATE TABLE seeds (number INTEGER PRIMARY KEY, collection BLOB, content BLOB, link BLOB)",
    "CREATE TABLE heads (name TEXT PRIMARY KEY, length INTEGER, head BLOB) WITHOUT ROWID",
)
_POINTS = "CREATE TABLE IF NOT EXISTS points (number INTEGER PRIMARY KEY, collection BLOB, point BLOB, link BLOB)"
_ROWS = {
    "points": "SELECT number, collection, point FROM points ORDER BY number",
    "releases": "SELECT number, digest, manifest, state, since, ids_digest, shape, sums FROM releases ORDER BY number",
    "seeds": "SELECT number, collection, content FROM seeds ORDER BY number",
}
_LINKS = {
    "points": "SELECT link FROM points ORDER BY number",
    "releases": "SELECT link FROM releases ORDER BY number",
    "seeds": "SELECT link FROM seeds ORDER BY number",
}
_SET_LINK = {
    "points": "UPDATE points SET link = ? WHERE number = ?",
    "releases": "UPDATE releases SET link = ? WHERE number = ?",
    "seeds": "UPDATE seeds SET link = ? WHERE number = ?",
}
_ADVICE = (
    "nothing was sent by this run. Do not repair it and do not restore an older copy, which may have forgotten "
    "releases: keep the file, and treat this server's ledger as lost (docs/deploy.md, 'When the ledger is damaged')"
)


class ReleaseRow(NamedTuple):
    """A release as its table has it; `shape` and `sums` are None until it is opening."""

    number: int
    digest: bytes
    manifest: str
    state: str
    since: str
    ids_digest: bytes
    shape: str | None
    sums: bytes | None


class LedgerTables:
    """The tables of one ledger, on a connection to its database."""

    def __init__(self, database: sqlite3.Connection, folder: Path):
        self._database, self._folder = database, folder
        with transaction(database):
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version == 0 and not tables:
                if next(folder.glob("commitments-*"), None) is not None:  # of releases that a ledger here had begun
                    raise SpoolError(f"folder: an empty ledger in {folder} beside commitments of releases; " + _ADVICE)
                self._make(*_TABLES, *_NEW_IN_2)
            elif version == _FIRST_VERSION:
                self._make("ALTER TABLE releases ADD COLUMN link BLOB", *_NEW_IN_2)
                self._require_ids([ReleaseRow(*row) for row in self._rows("releases")])
            elif version != _VERSION:
                raise SpoolError(
                    f"folder: a ledger of version {version} in {folder}, version {_VERSION} or older expected; "
                    "use the dpmpc that wrote it, or, if it is damaged, " + _ADVICE
                )

    def _make(self, *statements: str) -> None:
        for statement in statements:
            self._database.execute(statement)
        self.chain("releases")
        self.chain("seeds")
        self._database.execute(f"PRAGMA user_version = {_VERSION}")

    def releases(self) -> list[ReleaseRow]:
        """Return all releases, the earliest first, once their chain shows that they are as they were recorded."""
        return [ReleaseRow(*row) for row in self._checked("releases")]

    def seeds(self) -> dict[bytes, bytes]:
        """Return the dealing seeds by collection, checked as `releases` does."""
        return {collection: content for _, collection, content in self._checked("seeds")}

    def points(self) -> dict[bytes, bytes | None]:
        """Return the query point of each collection with proofs that was closed here, checked as `releases` does.

        Their table is made with the first of them, so that the ledger of a server without such collections stays as it
        was.
        """
        tables = self._database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'points'").fetchone()
        heads = self._database.execute("SELECT count(*) FROM heads WHERE name = 'points'").fetchone()
        if tables != heads:
            raise self.damaged("the table of its query points")
        return {collection: point for _, collection, point in self._checked("points")} if tables == (1,) else {}

    def keep_point(self, collection: bytes, point: bytes | None) -> None:
        """Record that a collection is closed, and its point where it has one, in place of what was recorded of it."""
        known = self.points()
        if collection in known:
            self._database.execute("UPDATE points SET point = ? WHERE collection = ?", (point, collection))
        else:
            self._database.execute(_POINTS)
            self._database.execute("INSERT INTO points VALUES (?, ?, ?, NULL)", (len(known) + 1, collection, point))
        self.chain("points")

    def chain(self, table: str) -> None:
        """Compute the links of a table anew, after a change to rows that were checked."""
        rows = self._rows(table)
        chain = links(Label.LEDGER, rows)
        self._database.executemany(
            _SET_LINK[table],
            [(one, row[0]) for one, row in zip(chain, rows, strict=True)],
        )
        self._database.execute(
            "INSERT OR REPLACE INTO heads VALUES (?, ?, ?)", (table, len(rows), chain[-1] if chain else CHAIN_START)
        )

    def scrub(self) -> None:
        """Read everything; refuse tables in which a bit has changed since they were written."""
        self.seeds()
        self.points()
        self._require_ids(self.releases())

    def damaged(self, what: str) -> SpoolError:
        """Return the error that says what has changed, and what to do."""
        return SpoolError(f"{self._folder}: the ledger is damaged: {what} changed since it was recorded. " + _ADVICE)

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._database.execute(_ROWS[table]).fetchall()

    def _checked(self, table: str) -> list[tuple[Any, ...]]:
        rows = self._rows(table)
        kept = [one for (one,) in self._database.execute(_LINKS[table])]
        chain = links(Label.LEDGER, rows)
        wrong = first_difference(kept, chain)
        if wrong is not None:
            raise self.damaged(f"number {wrong + 1} of its {len(rows)} {table}")
        head = self._database.execute("SELECT length, head FROM heads WHERE name = ?", (table,)).fetchone()
        if head != (len(rows), chain[-1] if chain else CHAIN_START):
            raise self.damaged(f"the number or the last one of its {table}")
        return rows

    def _require_ids(self, known: list[ReleaseRow]) -> None:
        """Refuse if the report ids are not in order, or not those of the releases that they belong to."""
        digests = {release.number: hashlib.sha256() for release in known}
        cursor = self._database.execute("SELECT id, release FROM reports")
        last = b""
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            for report, number in rows:
                if not (isinstance(report, bytes) and last < report and number in digests):
                    raise self.damaged(f"the report after {last.hex() or 'none'}")
                digests[number].update(report)
                last = report
        for release in known:
            if digests[release.number].digest() != release.ids_digest:
                raise self.damaged(f"the reports of release {release.digest.hex()}")
