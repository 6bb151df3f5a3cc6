"""Keep the tables of a release ledger, and the chain that shows whether they are as they were written.

Releases are chained by hashes (`dpmpc.base.storage.database`), with the head of the chain in its own table, and
every read checks the chain. The ids of the reports of a release are kept in ascending order, one after another, and the
release has a digest of them, which every read of them checks. Dealing seeds and query points are in a table of
`dpmpc.base.storage.kept`, and tombstones in one that `dpmpc.collect.store.tombstones` reads and checks.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.errors import SpoolError
from dpmpc.base.randomness import Label
from dpmpc.base.storage.database import CHAIN_START, first_difference, links, transaction
from dpmpc.collect.store.id_files import IdFile
from dpmpc.collect.store.openings import OPENINGS_FILE
from dpmpc.collect.upload.report_ids import ID_TYPE, as_strings

LEDGER_FILE = "ledger.sqlite"
_VERSION = 6
_IDS_IN_A_ROW = 1 << 16  # of a release
_TABLES = (
    "CREATE TABLE releases (number INTEGER PRIMARY KEY, digest BLOB, manifest TEXT, state TEXT, since TEXT, "
    "ids_digest BLOB, shape TEXT, sums BLOB, link BLOB)",
    "CREATE TABLE batches (number INTEGER PRIMARY KEY, release INTEGER, ids BLOB)",
    "CREATE TABLE head (length INTEGER, head BLOB)",
    "INSERT INTO head VALUES (0, x'')",
    "CREATE TABLE answers (collection BLOB, first BLOB, last BLOB, ids BLOB, hashes BLOB)",
    "CREATE TABLE tombstones (collection BLOB, id BLOB, came INTEGER, PRIMARY KEY (collection, id)) WITHOUT ROWID",
)
_ROWS = "SELECT number, digest, manifest, state, since, ids_digest, shape, sums FROM releases ORDER BY number"
_LINKS = "SELECT link FROM releases ORDER BY number"
_ANSWERS = "SELECT ids, hashes FROM answers WHERE collection = ? AND last >= ? AND first <= ?"
_SET_LINK = "UPDATE releases SET link = ? WHERE number = ?"
ADVICE = (
    "nothing was sent by this run. Do not repair it and do not restore an older copy, which may have forgotten "
    "releases: keep the file, and treat this server's ledger as lost (docs/deploy.md, 'The ledger is damaged')"
)


class ReleaseRow(NamedTuple):
    """A release as its table has it; `shape` and `sums` are None until its sums are computed."""

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
                if (folder / OPENINGS_FILE).exists():  # of releases that a ledger here had begun
                    raise SpoolError("folder", f"an empty ledger in {folder} next to commitments of releases; {ADVICE}")
                for statement in _TABLES:
                    database.execute(statement)
                self.chain()
                database.execute(f"PRAGMA user_version = {_VERSION}")
            elif version != _VERSION:
                raise SpoolError(
                    "folder",
                    f"{folder} holds no ledger of this version: {version} given, {_VERSION} expected; " + ADVICE,
                )

    def releases(self) -> list[ReleaseRow]:
        """Return all releases, the earliest first, once their chain shows that they are as they were recorded."""
        return [ReleaseRow(*row) for row in self._checked()]

    def chain(self) -> None:
        """Compute the links of the releases anew, after a change to rows that were checked."""
        rows = self._database.execute(_ROWS).fetchall()
        chain = links(Label.LEDGER, rows)
        self._database.executemany(_SET_LINK, [(one, row[0]) for one, row in zip(chain, rows, strict=True)])
        head = (len(rows), chain[-1] if chain else CHAIN_START)
        self._database.execute("UPDATE head SET length = ?, head = ?", head)

    def keep_ids(self, release: int, ids: NDArray[np.bytes_]) -> None:
        """Record the ids of a release, which ascend."""
        for first in range(0, len(ids), _IDS_IN_A_ROW):
            part = ids[first : first + _IDS_IN_A_ROW].tobytes()
            self._database.execute("INSERT INTO batches (release, ids) VALUES (?, ?)", (release, part))

    def ids(self, release: ReleaseRow) -> NDArray[np.bytes_]:
        """Return the ids of a release, once their digest shows that they are as they were recorded."""
        query = "SELECT ids FROM batches WHERE release = ? ORDER BY number"
        total = hashlib.sha256()
        with IdFile(self._folder) as file:
            for (part,) in self._database.execute(query, (release.number,)):
                if isinstance(part, bytes):
                    file.append(np.frombuffer(part, np.uint8))
                    total.update(part)
            if total.digest() != release.ids_digest:
                raise self.damaged(f"the reports of release {release.digest.hex()}")
            return as_strings(file.ids())

    def record_answers(
        self, collection: bytes, ids: NDArray[np.bytes_], hashes: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Record a hash of what is answered about some reports, whose ids ascend.

        Return for which of them it is the first one, or the same as before; all others keep the one that they have.
        """
        allowed, new = np.ones(len(ids), np.bool_), np.ones(len(ids), np.bool_)
        if not len(ids):
            return allowed
        bounds = ids[:1].tobytes(), ids[-1:].tobytes()
        for known, told in self._database.execute(_ANSWERS, (collection, *bounds)):
            earlier = np.frombuffer(known, ID_TYPE)
            places = np.searchsorted(earlier, ids).clip(max=len(earlier) - 1)
            here = earlier[places] == ids
            new &= ~here
            allowed &= ~here | (np.frombuffer(told, "<u8")[places] == hashes)
        if new.any():
            row = (
                collection,
                ids[new][:1].tobytes(),
                ids[new][-1:].tobytes(),
                ids[new].tobytes(),
                hashes[new].tobytes(),
            )
            self._database.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", row)
        return allowed

    def scrub(self) -> None:
        """Read everything; refuse tables in which a bit has changed since they were written."""
        known = self.releases()
        for release in known:
            self.ids(release)
        owners = {owner for (owner,) in self._database.execute("SELECT release FROM batches")}
        if not owners <= {release.number for release in known}:
            raise self.damaged("the release that reports belong to")

    def damaged(self, what: str) -> SpoolError:
        """Return the error that states what has changed, and what to do."""
        return SpoolError(self._folder, f"the ledger is damaged: {what} changed since it was recorded. " + ADVICE)

    def _checked(self) -> list[tuple[Any, ...]]:
        rows = self._database.execute(_ROWS).fetchall()
        kept = [one for (one,) in self._database.execute(_LINKS)]
        chain = links(Label.LEDGER, rows)
        wrong = first_difference(kept, chain)
        if wrong is not None:
            raise self.damaged(f"number {wrong + 1} of its {len(rows)} releases")
        head = self._database.execute("SELECT length, head FROM head").fetchall()
        if head != [(len(rows), chain[-1] if chain else CHAIN_START)]:
            raise self.damaged("the number or the last one of its releases")
        return rows
