"""What a server has ever opened, by report: it opens anything of a report in one release only.

A client's noise lies in its report. Two releases that differ by one report, or two sketches of the same reports,
subtract to nearly raw data, whatever the seed. So a release passes through three states, each durable before the next:

- *sealed*: batch and toss are agreed, nothing has been sent, another release of the same reports may take its place;
- *opening*: this server is about to send its share of the sums, or has. Its reports belong to this release for good;
- *opened*: the release exists.

Beside releases it remembers the one *dealing seed* of each collection (`dpmpc.collection.dealing`).

Promised:

- A release is not sealed if any of its reports belongs to another one that is opening or opened, in whatever
  collection, under whatever seed. That holds across restarts and for a copied spool, because ids are remembered here.
- `begin_opening` has recorded all reports durably before it returns, through a crash or a loss of power, and returns
  the same sums whenever it is repeated: no second draw of this server's noise ever leaves.
- `keep_seed` never returns two different seeds for one collection.
- Of several processes that open a ledger, one acts at a time.
- A bit that has changed on the disk is noticed before anything is said or sent: releases and seeds are chained by
  hashes (`dpmpc.collection.chain`), which every call checks; the ids of each release have a digest, which `scrub`
  checks. All that was committed lies in one file: there is no log whose damage would take the last commits back.

Not promised: anything for a ledger that was deleted, replaced by an older copy, or kept by a server that lies. Every
server keeps its own, and one honest one is enough to refuse.

A ledger of version 0.1 is given its chain when it is opened first. What changed in it before that is noticed only where
the digest of the ids of a release tells.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.collection.chain import START, first_difference, links
from dpmpc.collection.database import Store, connect, private_folder, transaction, typed_errors
from dpmpc.collection.spool import ID_BYTES, INDEX_FILE, sorted_ids
from dpmpc.encoding.ring import Words, elements
from dpmpc.errors import AlreadyReleased, InputError, SpoolError
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
_ROWS = {
    "releases": "SELECT number, digest, manifest, state, since, ids_digest, shape, sums FROM releases ORDER BY number",
    "seeds": "SELECT number, collection, content FROM seeds ORDER BY number",
}
_LINKS = {
    "releases": "SELECT link FROM releases ORDER BY number",
    "seeds": "SELECT link FROM seeds ORDER BY number",
}
_SET_LINK = {
    "releases": "UPDATE releases SET link = ? WHERE number = ?",
    "seeds": "UPDATE seeds SET link = ? WHERE number = ?",
}
_ADVICE = (
    "nothing was sent by this run. Do not repair it and do not restore an older copy, which may have forgotten "
    "releases: keep the file, and treat this server's ledger as lost (docs/deploy.md, 'When the ledger is damaged')"
)
_OVERLAPS = (
    "SELECT number, digest, state, since, count(*) FROM temp.batch CROSS JOIN reports USING (id) "
    "JOIN releases ON number = release GROUP BY number"
)


class State(enum.StrEnum):
    """How far a release has come at this server."""

    SEALED = "sealed"
    OPENING = "opening"
    OPENED = "opened"


@dataclasses.dataclass(frozen=True)
class LedgerEntry:
    """A release that the ledger knows.

    Attributes
    ----------
    manifest_digest : bytes
        32 bytes.
    manifest : str
        The manifest, JSON.
    state : State
        How far it has come.
    since : str
        When it got there, UTC.
    sums : ndarray of uint64, optional
        What this server sends; None while the release is only sealed.
    """

    manifest_digest: bytes
    manifest: str
    state: State
    since: str
    sums: Words | None


class ReleaseLedger(Store):
    """A server's memory of its releases.

    Parameters
    ----------
    folder : path
        A place of its own, apart from the spool; made, with mode 0700, if there is none.

    Raises
    ------
    SpoolError
        If the folder cannot be used, others may look into it, or it holds a spool.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self._turns = threading.Lock()
        with typed_errors(self.folder):
            private_folder(self.folder)
            if (self.folder / INDEX_FILE).exists():
                raise SpoolError(f"folder: {self.folder} holds a spool, a place of its own expected for the ledger")
            self._database = connect(self.folder / LEDGER_FILE, create=True, journal="DELETE")
            try:
                self._begin()
            except BaseException:
                self._database.close()
                raise

    def _begin(self) -> None:
        with transaction(self._database):
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            (tables,) = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version == 0 and not tables:
                self._make(*_TABLES, *_NEW_IN_2)
            elif version == _FIRST_VERSION:
                self._make("ALTER TABLE releases ADD COLUMN link BLOB", *_NEW_IN_2)
                self._require_ids(self._unchecked_releases())
            elif version != _VERSION:
                raise SpoolError(
                    f"folder: a ledger of version {version} in {self.folder}, version {_VERSION} or older expected; "
                    "use the dpmpc that wrote it, or, if it is damaged, " + _ADVICE
                )
        self._database.execute("CREATE TEMP TABLE batch (id BLOB PRIMARY KEY) WITHOUT ROWID")

    def _make(self, *statements: str) -> None:
        for statement in statements:
            self._database.execute(statement)
        self._chain("releases")
        self._chain("seeds")
        self._database.execute(f"PRAGMA user_version = {_VERSION}")

    def scrub(self) -> None:
        """Read the whole ledger and refuse it if a bit of it has changed since it was written.

        Raises
        ------
        SpoolError
            If so; it says what to do.
        """
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._seeds()
            self._require_ids(self._releases())

    def seal(self, manifest_digest: bytes, manifest: str, ids: NDArray[np.uint8]) -> LedgerEntry:
        """Record a release that was agreed on; sealed ones that share a report with it are forgotten.

        Parameters
        ----------
        manifest_digest : bytes
            32 bytes, different for every batch and toss.
        manifest : str
            JSON.
        ids : ndarray of uint8, shape (n, 16)
            All report ids of the batch, ascending, none twice.

        Returns
        -------
        LedgerEntry
            The release as it stands. One that was sealed before with the same manifest and ids stays as it is,
            however far it has come.

        Raises
        ------
        AlreadyReleased
            If a report belongs to another release that is opening or opened; nothing is recorded.
        """
        if len(manifest_digest) != 32:
            raise InputError(f"manifest_digest: {len(manifest_digest)} bytes given, 32 expected")
        batch = sorted_ids(ids)
        if not len(batch):
            raise InputError("ids: none given, at least one expected")
        ids_digest = hashlib.sha256(batch.data).digest()
        with self._turns, typed_errors(self.folder), transaction(self._database):
            known = self._known(manifest_digest)
            if known is None:
                self._seal(manifest_digest, manifest, ids, ids_digest)
            elif (known.manifest, known.ids_digest) != (manifest, ids_digest):
                raise InputError(f"manifest_digest: {manifest_digest.hex()} given for another manifest or batch before")
            return self._entry(manifest_digest)

    def begin_opening(self, manifest_digest: bytes, sums: Words) -> Words:
        """Bind the reports of a sealed release to it for good, then return what to send.

        Parameters
        ----------
        manifest_digest : bytes
            Of a release that was sealed.
        sums : ndarray of uint64
            This server's share of the noisy sums.

        Returns
        -------
        ndarray of uint64
            The sums of the first call, whatever is given afterwards.
        """
        sums = elements(sums, "sums")
        with self._turns, typed_errors(self.folder), transaction(self._database):
            if self._entry(manifest_digest).state is State.SEALED:
                self._database.execute(
                    "UPDATE releases SET state = ?, since = ?, shape = ?, sums = ? WHERE digest = ?",
                    (State.OPENING, _now(), json.dumps(sums.shape), sums.astype("<u8").tobytes(), manifest_digest),
                )
                self._chain("releases")
            kept = self._entry(manifest_digest).sums
        assert kept is not None
        return kept

    def finish(self, manifest_digest: bytes) -> None:
        """Record that a release was opened; one that was opened before stays as it is."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            state = self._entry(manifest_digest).state
            if state is State.SEALED:
                raise InputError(f"manifest_digest: the release {manifest_digest.hex()} is sealed, opening expected")
            if state is State.OPENING:
                self._database.execute(
                    "UPDATE releases SET state = ?, since = ? WHERE digest = ?",
                    (State.OPENED, _now(), manifest_digest),
                )
                self._chain("releases")

    def keep_seed(self, collection: bytes, content: bytes) -> bytes:
        """Record the dealing seed of a collection for good, unless there is one; return the one that is there.

        Parameters
        ----------
        collection : bytes
            The collection's digest.
        content : bytes
            The seed and what proves it.
        """
        with self._turns, typed_errors(self.folder), transaction(self._database):
            known = self._seeds()
            if collection not in known:
                self._database.execute(
                    "INSERT INTO seeds VALUES (?, ?, ?, NULL)", (len(known) + 1, collection, content)
                )
                self._chain("seeds")
            return self._seeds()[collection]

    def seed(self, collection: bytes) -> bytes | None:
        """Return what `keep_seed` has recorded for a collection, or None."""
        with self._turns, typed_errors(self.folder):
            return self._seeds().get(collection)

    def find(self, manifest_digest: bytes) -> LedgerEntry | None:
        """Return a release, or None if the ledger does not know it (or has forgotten it, sealed)."""
        with self._turns, typed_errors(self.folder):
            known = self._known(manifest_digest)
        return None if known is None else known.entry()

    def releases(self) -> list[LedgerEntry]:
        """Return all releases that the ledger knows, the earliest first."""
        with self._turns, typed_errors(self.folder):
            return [known.entry() for known in self._releases()]

    def batch(self, manifest_digest: bytes) -> NDArray[np.uint8]:
        """Return the report ids of a release in ascending order, (n, 16)."""
        query = "SELECT id FROM reports WHERE release = ? ORDER BY id"
        with self._turns, typed_errors(self.folder):
            known = self._known(manifest_digest)
            rows = self._database.execute(query, (known.number,)).fetchall() if known is not None else []
        content = b"".join(report for (report,) in rows)
        if known is not None and hashlib.sha256(content).digest() != known.ids_digest:
            raise self._damaged(f"the reports of release {known.digest.hex()}")
        return np.frombuffer(content, np.uint8).reshape(-1, ID_BYTES)

    def begun(self, ids: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Tell which of some reports belong to a release that is opening or opened, in any collection.

        Parameters
        ----------
        ids : ndarray of uint8, shape (n, 16)
            Ascending, none twice.
        """
        batch = sorted_ids(ids)
        query = (
            "SELECT id FROM temp.batch CROSS JOIN reports USING (id) JOIN releases ON number = release WHERE state <> ?"
        )
        with self._turns, typed_errors(self.folder), transaction(self._database):
            if all(known.state == State.SEALED for known in self._releases()):
                return np.zeros(len(batch), np.bool_)
            self._database.executemany("INSERT INTO temp.batch VALUES (?)", _each(ids))
            found = self._database.execute(query, (State.SEALED,)).fetchall()
            self._database.execute("DELETE FROM temp.batch")
        return np.isin(batch, np.array([report for (report,) in found], batch.dtype))

    def require_unreleased(self, ids: NDArray[np.uint8]) -> None:
        """Refuse what `seal` would refuse, before there is a manifest; nothing is recorded.

        Raises
        ------
        AlreadyReleased
            If a report belongs to a release that is opening or opened.
        """
        sorted_ids(ids)
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._releases()
            self._refuse(self._overlaps(ids), len(ids))
            self._database.execute("DELETE FROM temp.batch")

    def close(self) -> None:
        """Let go of the files."""
        with self._turns:
            self._database.close()

    def _seal(self, manifest_digest: bytes, manifest: str, ids: NDArray[np.uint8], ids_digest: bytes) -> None:
        database = self._database
        overlaps = self._overlaps(ids)
        self._refuse(overlaps, len(ids))
        for number, *_ in overlaps:
            database.execute("DELETE FROM reports WHERE release = ?", (number,))
            database.execute("DELETE FROM releases WHERE number = ?", (number,))
        (number,) = database.execute("SELECT coalesce(max(number), 0) + 1 FROM releases").fetchone()
        database.execute(
            "INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
            (number, manifest_digest, manifest, State.SEALED, _now(), ids_digest),
        )
        database.execute("INSERT INTO reports SELECT id, ? FROM temp.batch", (number,))
        database.execute("DELETE FROM temp.batch")
        self._chain("releases")

    def _overlaps(self, ids: NDArray[np.uint8]) -> list[tuple[int, bytes, str, str, int]]:
        """Put the ids into temp.batch; return number, digest, state, since and shared reports of earlier releases."""
        self._database.executemany("INSERT INTO temp.batch VALUES (?)", _each(ids))
        return self._database.execute(_OVERLAPS).fetchall()

    @staticmethod
    def _refuse(overlaps: list[tuple[int, bytes, str, str, int]], count: int) -> None:
        earlier = [overlap[1:] for overlap in overlaps if overlap[2] != State.SEALED]
        if earlier:
            where = "; ".join(
                f"{shared} in the release {digest.hex()} ({state} since {since})"
                for digest, state, since, shared in earlier
            )
            raise AlreadyReleased(f"ids: of {count} reports, none expected in an earlier release: {where}")

    def _entry(self, manifest_digest: bytes) -> LedgerEntry:
        known = self._known(manifest_digest)
        if known is None:
            raise InputError(
                f"manifest_digest: {manifest_digest.hex()} given, a sealed release expected in {self.folder}"
            )
        return known.entry()

    def _known(self, manifest_digest: bytes) -> _Release | None:
        return next((known for known in self._releases() if known.digest == manifest_digest), None)

    def _releases(self) -> list[_Release]:
        """Return all releases once the chain shows that they are as they were recorded."""
        return [_Release(*row) for row in self._checked("releases")]

    def _unchecked_releases(self) -> list[_Release]:
        return [_Release(*row) for row in self._rows("releases")]

    def _seeds(self) -> dict[bytes, bytes]:
        """Return the dealing seeds by collection, checked as `_releases` does."""
        return {collection: content for _, collection, content in self._checked("seeds")}

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._database.execute(_ROWS[table]).fetchall()

    def _checked(self, table: str) -> list[tuple[Any, ...]]:
        rows = self._rows(table)
        kept = [one for (one,) in self._database.execute(_LINKS[table])]
        chain = links(Label.LEDGER, rows)
        wrong = first_difference(kept, chain)
        if wrong is not None:
            raise self._damaged(f"number {wrong + 1} of its {len(rows)} {table}")
        head = self._database.execute("SELECT length, head FROM heads WHERE name = ?", (table,)).fetchone()
        if head != (len(rows), chain[-1] if chain else START):
            raise self._damaged(f"the number or the last one of its {table}")
        return rows

    def _chain(self, table: str) -> None:
        """Compute the links of a table anew, after a change to rows that were checked."""
        rows = self._rows(table)
        chain = links(Label.LEDGER, rows)
        self._database.executemany(
            _SET_LINK[table],
            [(one, row[0]) for one, row in zip(chain, rows, strict=True)],
        )
        self._database.execute(
            "INSERT OR REPLACE INTO heads VALUES (?, ?, ?)", (table, len(rows), chain[-1] if chain else START)
        )

    def _require_ids(self, known: list[_Release]) -> None:
        """Refuse if the report ids are not in order, or not those of the releases that they belong to."""
        digests = {release.number: hashlib.sha256() for release in known}
        cursor = self._database.execute("SELECT id, release FROM reports")
        last = b""
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            for report, number in rows:
                if not (isinstance(report, bytes) and last < report and number in digests):
                    raise self._damaged(f"the report after {last.hex() or 'none'}")
                digests[number].update(report)
                last = report
        for release in known:
            if digests[release.number].digest() != release.ids_digest:
                raise self._damaged(f"the reports of release {release.digest.hex()}")

    def _damaged(self, what: str) -> SpoolError:
        return SpoolError(f"{self.folder}: the ledger is damaged: {what} changed since it was recorded. " + _ADVICE)


class _Release(NamedTuple):
    """A row of the ledger."""

    number: int
    digest: bytes
    manifest: str
    state: str
    since: str
    ids_digest: bytes
    shape: str | None
    sums: bytes | None

    def entry(self) -> LedgerEntry:
        sums = None
        if self.sums is not None and self.shape is not None:
            sums = np.frombuffer(self.sums, "<u8").astype(np.uint64).reshape(json.loads(self.shape))
        return LedgerEntry(self.digest, self.manifest, State(self.state), self.since, sums)


def _each(ids: NDArray[np.uint8]) -> Iterator[tuple[bytes]]:
    content = ids.tobytes()
    for first in range(0, len(content), ID_BYTES):
        yield (content[first : first + ID_BYTES],)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
