"""Keep the tables of a release ledger, and the chain that shows whether they are as they were written.

Releases are chained by hashes (`dpmpc.storage.database`), with the head of the chain in a table of its own, and every
read checks the chain. The ids of the reports of a release are kept in ascending order, one after another, and the
release has a digest of them, which every read of them checks. Dealing seeds and query points are in a table of
`dpmpc.storage.kept`.

Up to version 0.3 each id had a row of its own, which is taken over when such a ledger is opened first; one of version
0.1 is given its chain then. What changed in that one before is noticed only where the digest of the ids of a release
tells. Those versions refuse the ledger from then on. So one in which they have begun what they alone can finish is
taken over only where its user gives that up; a collection that still takes reports leaves nothing in a ledger. Versions
0.2 and 0.3 had chains of dealing seeds and query points as well: `refuse_older` refuses a collection that stands in one
of them, which only they could have finished.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.collection.openings import OPENINGS_FILE
from dpmpc.collection.report_ids import ID_TYPE
from dpmpc.errors import GuaranteeError, InputError, SpoolError
from dpmpc.randomness import Label
from dpmpc.storage.database import CHAIN_START, first_difference, links, transaction

LEDGER_FILE = "ledger.sqlite"
_FIRST_VERSION, _ROWS_VERSION, _VERSION = 1, 2, 3  # without a chain; with a row for each report; now
_ROWS_AT_ONCE = 1 << 14
_PART_BYTES = 1 << 20  # of the ids of a release in one row
_TABLES = (
    "CREATE TABLE releases (number INTEGER PRIMARY KEY, digest BLOB, manifest TEXT, state TEXT, since TEXT, "
    "ids_digest BLOB, shape TEXT, sums BLOB, link BLOB)",
    "CREATE TABLE batches (number INTEGER PRIMARY KEY, release INTEGER, ids BLOB)",
)
_HEADS = "CREATE TABLE heads (name TEXT PRIMARY KEY, length INTEGER, head BLOB) WITHOUT ROWID"
_ROWS = {
    "releases": "SELECT number, digest, manifest, state, since, ids_digest, shape, sums FROM releases ORDER BY number",
    "seeds": "SELECT number, collection, content FROM seeds ORDER BY number",  # of versions 0.2 and 0.3, as the next
    "points": "SELECT number, collection, point FROM points ORDER BY number",
}
_LINKS = {
    "releases": "SELECT link FROM releases ORDER BY number",
    "seeds": "SELECT link FROM seeds ORDER BY number",
    "points": "SELECT link FROM points ORDER BY number",
}
_OPENED = "opened"  # the last state of a release (`dpmpc.collection.ledger`)
_BEGUN_BY = {"seeds": "dealing seed", "points": "query point, or was closed for one"}
_MOST_NAMED = 3
_SET_LINK = "UPDATE releases SET link = ? WHERE number = ?"
ADVICE = (
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

    def __init__(self, database: sqlite3.Connection, folder: Path, *, take_over: bool = False):
        self._database, self._folder = database, folder
        with transaction(database):
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version == 0 and not tables:
                for kept in (OPENINGS_FILE, "commitments-*"):  # the latter of versions 0.2 and 0.3
                    if next(folder.glob(kept), None) is not None:  # of releases that a ledger here had begun
                        raise SpoolError(
                            f"folder: an empty ledger in {folder} beside commitments of releases; {ADVICE}"
                        )
                self._make(*_TABLES, _HEADS)
            elif version == _FIRST_VERSION:
                self._make("ALTER TABLE releases ADD COLUMN link BLOB", _HEADS, _TABLES[1])
                self._take_over_ids()
            elif version == _ROWS_VERSION:
                self.releases()
                self._make(_TABLES[1])
                self._take_over_ids()
            elif version != _VERSION:
                raise SpoolError(
                    f"folder: a ledger of version {version} in {folder}, version {_VERSION} or older expected; "
                    "use the dpmpc that wrote it, or, if it is damaged, " + ADVICE
                )
            if version in (_FIRST_VERSION, _ROWS_VERSION) and not take_over:
                self._refuse_unfinished()  # an error undoes what was taken over

    def _make(self, *statements: str) -> None:
        for statement in statements:
            self._database.execute(statement)
        self.chain()
        self._database.execute(f"PRAGMA user_version = {_VERSION}")

    def releases(self) -> list[ReleaseRow]:
        """Return all releases, the earliest first, once their chain shows that they are as they were recorded."""
        return [ReleaseRow(*row) for row in self._checked("releases")]

    def _refuse_unfinished(self) -> None:
        """Refuse a ledger in which an older version has begun what it alone can finish."""
        known = self.releases()
        left = [f"release {one.digest.hex()[:16]}... is {one.state}" for one in known if one.state != _OPENED]
        done = {json.loads(one.manifest).get("collection") for one in known if one.state == _OPENED}
        for table in ("seeds", "points"):
            found = {collection.hex() for collection in self._begun_in(table)}
            left += [f"collection {one[:16]}... has its {_BEGUN_BY[table]}" for one in sorted(found - done)]
        if left:
            more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
            raise InputError(
                f"folder: the ledger in {self._folder} is of version 0.3 or older, which has begun what it alone can "
                f"finish: {', '.join(left[:_MOST_NAMED])}{more}. Nothing was changed. Finish it with that version, at "
                "all its servers, or give --take-over-ledger if it is given up for good; what was opened stays opened"
            )

    def refuse_older(self, collection: bytes) -> None:
        """Refuse a collection whose dealing seed or query point version 0.2 or 0.3 has recorded here."""
        for table in ("seeds", "points"):
            if collection in self._begun_in(table):
                raise GuaranteeError(
                    f"collection: {collection.hex()} given, whose release was begun by version 0.3 or older, which "
                    "alone could finish it, before a later version had taken over this ledger: collect anew "
                    "(docs/deploy.md)"
                )

    def chain(self) -> None:
        """Compute the links of the releases anew, after a change to rows that were checked."""
        rows = self._rows("releases")
        chain = links(Label.LEDGER, rows)
        self._database.executemany(_SET_LINK, [(one, row[0]) for one, row in zip(chain, rows, strict=True)])
        self._database.execute(
            "INSERT OR REPLACE INTO heads VALUES (?, ?, ?)",
            ("releases", len(rows), chain[-1] if chain else CHAIN_START),
        )

    def keep_ids(self, release: int, ids: NDArray[np.bytes_]) -> None:
        """Record the ids of a release, which ascend."""
        content = ids.tobytes()
        for first in range(0, len(content), _PART_BYTES):
            part = content[first : first + _PART_BYTES]
            self._database.execute("INSERT INTO batches (release, ids) VALUES (?, ?)", (release, part))

    def ids(self, release: ReleaseRow) -> NDArray[np.bytes_]:
        """Return the ids of a release, once their digest shows that they are as they were recorded."""
        query = "SELECT ids FROM batches WHERE release = ? ORDER BY number"
        parts = [part for (part,) in self._database.execute(query, (release.number,))]
        content = b"".join(part for part in parts if isinstance(part, bytes))
        if hashlib.sha256(content).digest() != release.ids_digest:
            raise self.damaged(f"the reports of release {release.digest.hex()}")
        return np.frombuffer(content, ID_TYPE)

    def scrub(self) -> None:
        """Read everything; refuse tables in which a bit has changed since they were written."""
        known = self.releases()
        for release in known:
            self.ids(release)
        owners = {owner for (owner,) in self._database.execute("SELECT release FROM batches")}
        if not owners <= {release.number for release in known}:
            raise self.damaged("the release that reports belong to")

    def damaged(self, what: str) -> SpoolError:
        """Return the error that says what has changed, and what to do."""
        return SpoolError(f"{self._folder}: the ledger is damaged: {what} changed since it was recorded. " + ADVICE)

    def _begun_in(self, table: str) -> set[bytes]:
        """Return the collections that a table of version 0.2 or 0.3 names, if there is one."""
        tables = self._database.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        heads = self._database.execute("SELECT count(*) FROM heads WHERE name = ?", (table,)).fetchone()
        if tables != heads:
            raise self.damaged(f"the table of its {table}")
        return {collection for _, collection, _ in self._checked(table)} if tables == (1,) else set()

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

    def _take_over_ids(self) -> None:
        """Keep ids that have a row each as those of releases, or refuse if they are not those that were recorded."""
        known = self.releases()
        found = {release.number: bytearray() for release in known}
        cursor = self._database.execute("SELECT id, release FROM reports ORDER BY id")
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            for report, number in rows:
                if not (isinstance(report, bytes) and number in found):
                    raise self.damaged("the release that reports belong to")
                found[number] += report
        for release in known:
            self.keep_ids(release.number, np.frombuffer(found[release.number], ID_TYPE))
            self.ids(release)
        self._database.execute("DROP TABLE reports")
