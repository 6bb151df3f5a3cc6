"""Record what a server has ever opened, so that each report is opened in one release only.

A client's noise lies in its report. Two releases that differ by one report, or two sketches of the same reports,
subtract to nearly raw data, whatever the seed. So a release passes through three states, each durable before the next:

- *sealed*: batch and toss are agreed, nothing has been sent, another release of the same reports may take its place;
- *opening*: this server is about to send its share of the sums, or has. Its reports belong to this release for good;
- *opened*: the release exists.

Beside releases it remembers the one *dealing seed* of each collection (`dpmpc.collect.opening.dealing_checks`), and of
one with proofs that it is closed, and the one *query point* that was used (`dpmpc.collect.store.query_points`).

Promised:

- A release is not sealed if any of its reports belongs to another one that is opening or opened, in whatever
  collection, under whatever seed. That holds across restarts and for a copied spool, because ids are remembered here.
- `begin_opening` has recorded all reports durably before it returns, through a crash or a loss of power, and returns
  the same sums whenever it is repeated: no second draw of this server's noise ever leaves.
- `keep_seed` never returns two different seeds for one collection, and `point` never two different points.
- Of several processes that open a ledger, one acts at a time.
- A bit that has changed on the disk is noticed before anything is sent: releases are chained by hashes
  (`dpmpc.collect.store.ledger_tables`), and seeds and points are sealed (`dpmpc.base.storage.kept`), which every call
  checks; the ids of each release have a digest, which every read of them checks. All that was committed lies in one
  file: there is no log whose damage would take the last commits back.
- Memory grows with the reports of the largest release, 16 bytes each and as much for those asked for. Each question
  about reports reads the ids of all releases: .1 s for every million that was ever opened.

Not promised: anything for a ledger that was deleted, replaced by an older copy, or kept by a server that lies. Every
server keeps its own, and one honest one is enough to refuse.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import hashlib
import json
import os
import threading
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_bytes
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import AlreadyReleased, GuaranteeError, InputError, SpoolError
from dpmpc.base.storage.database import Store, connect, private_folder, transaction, typed_errors
from dpmpc.base.storage.kept import Kept
from dpmpc.collect.store.ledger_tables import ADVICE, LEDGER_FILE, LedgerTables, ReleaseRow
from dpmpc.collect.store.sqlite_database import SPOOL_FILE
from dpmpc.collect.terms.series import Recorded, begun_epochs, require_epoch
from dpmpc.collect.upload.report_ids import ID_TYPE, as_bytes, found_in, sorted_ids
from dpmpc.linear.encoding.ring import elements

_SEALED = b"sealed"  # follows a query point that is not used


class State(enum.StrEnum):
    """How far a release has come at this server."""

    SEALED = "sealed"
    OPENING = "opening"
    OPENED = "opened"


@dataclasses.dataclass(frozen=True)
class LedgerEntry:
    """A release that the ledger holds."""

    manifest_digest: bytes  # 32 bytes
    manifest: str  # the manifest, JSON
    state: State  # how far it has come
    since: str  # when it got there, UTC
    sums: Words | None  # what this server sends; None until it has computed them


class ReleaseLedger(Store):
    """The record of all releases of one server."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self._turns = threading.Lock()
        with typed_errors(self.folder):
            private_folder(self.folder)
            if (self.folder / SPOOL_FILE).exists():
                raise SpoolError("folder", f"{self.folder} holds a spool, another folder expected for the ledger")
            self._database = connect(self.folder / LEDGER_FILE, create=True, journal="DELETE")
            try:
                self._tables = LedgerTables(self._database, self.folder)
                self._kept = Kept(self._database, self.folder / LEDGER_FILE, ADVICE)
            except BaseException:
                self._database.close()
                raise

    def scrub(self) -> None:
        """Read the whole ledger and refuse it if a bit of it has changed since it was written."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._tables.scrub()
            self._kept.scrub()

    def seal(self, manifest_digest: bytes, manifest: str, ids: Bytes) -> LedgerEntry:
        """Record a release that was agreed on; sealed ones that share a report with it are forgotten."""
        require_bytes("manifest_digest", manifest_digest, 32)
        batch = sorted_ids(ids)
        if not len(batch):
            raise InputError("ids", "none", "at least one")
        ids_digest = hashlib.sha256(batch.data).digest()
        with self._turns, typed_errors(self.folder), transaction(self._database):
            known = self._known(manifest_digest)
            if known is None:
                self._seal(manifest_digest, manifest, batch, ids_digest)
            elif (known.manifest, known.ids_digest) != (manifest, ids_digest):
                raise InputError(
                    "manifest_digest", f"{manifest_digest.hex()} given for another manifest or batch before"
                )
            return self._entry(manifest_digest)

    def keep_sums(self, manifest_digest: bytes, sums: Words) -> Words:
        """Keep what a sealed release is going to send, durably, unless something is kept; return what is kept."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            recorded = self._entry(manifest_digest).sums
            if recorded is None:
                recorded = elements(sums, "sums")
                self._database.execute(
                    "UPDATE releases SET shape = ?, sums = ? WHERE digest = ?",
                    (json.dumps(recorded.shape), recorded.astype("<u8").tobytes(), manifest_digest),
                )
                self._tables.chain()
        return recorded

    def begin_opening(self, manifest_digest: bytes, sums: Words) -> Words:
        """Bind the reports of a sealed release to it for good, durably, then return what to send."""
        words = self.keep_sums(manifest_digest, sums)
        with self._turns, typed_errors(self.folder), transaction(self._database):
            sealed = self._entry(manifest_digest)
            if sealed.state is State.SEALED:  # what the series has room for may have changed since it was sealed
                require_epoch(Recorded(manifest_digest, sealed.manifest, begun=True), self._recorded())
                self._database.execute(
                    "UPDATE releases SET state = ?, since = ? WHERE digest = ?",
                    (State.OPENING, _now(), manifest_digest),
                )
                self._tables.chain()
        return words

    def finish(self, manifest_digest: bytes) -> None:
        """Record that a release was opened; one that was opened before stays as it is."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            state = self._entry(manifest_digest).state
            if state is State.SEALED:
                raise InputError("manifest_digest", f"the release {manifest_digest.hex()} is sealed, opening expected")
            if state is State.OPENING:
                self._database.execute(
                    "UPDATE releases SET state = ?, since = ? WHERE digest = ?",
                    (State.OPENED, _now(), manifest_digest),
                )
                self._tables.chain()

    def keep_seed(self, collection: bytes, content: bytes) -> bytes:
        """Record the dealing seed of a collection for good, unless there is one; return the one that is there."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            return self._kept.once(_seed(collection), lambda: content)

    def seed(self, collection: bytes) -> bytes | None:
        """Return what `keep_seed` has recorded for a collection, or None."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            return self._kept.get(_seed(collection))

    def close_collection(self, collection: bytes) -> None:
        """Record for good that a collection with proofs takes no more reports here."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._kept.once(_point(collection), lambda: b"")

    def closed(self, collection: bytes) -> bool:
        """Return whether `close_collection` was called."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            return self._kept.get(_point(collection)) is not None

    def seal_point(self, collection: bytes, point: bytes) -> None:
        """Record the query point that was tossed for a collection that is closed, instead of one not used."""
        self._keep_point(collection, point, point + _SEALED)

    def use_point(self, collection: bytes, point: bytes) -> None:
        """Record for good the query point of a collection that is closed."""
        self._keep_point(collection, point, point)

    def _keep_point(self, collection: bytes, point: bytes, value: bytes) -> None:
        """Keep what stands for a query point, unless another one is used."""
        require_bytes("point", point, 32)
        with self._turns, typed_errors(self.folder), transaction(self._database):
            stored = self._kept.get(_point(collection))
            if stored is None:
                raise GuaranteeError(
                    "point", f"given for {collection.hex()}, a collection that is closed here expected"
                )
            if stored not in (b"", value) and not stored.endswith(_SEALED, 32):
                raise GuaranteeError("point", f"{point.hex()} given, {stored.hex()} expected, for good")
            self._kept.put({_point(collection): value})

    def forbid_points(self, collection: bytes, mark: bytes) -> None:
        """Record a mark instead of the point of a collection that is closed, whatever was recorded before."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._kept.put({_point(collection): mark})

    def point(self, collection: bytes) -> bytes | None:
        """Return what `use_point` has recorded for a collection, or None."""
        stored = self._kept_point(collection)
        return stored if len(stored) == 32 else None

    def sealed_point(self, collection: bytes) -> bytes | None:
        """Return what `seal_point` has recorded for a collection, and `use_point` has not; or None."""
        stored = self._kept_point(collection)
        return stored[:32] if len(stored) > 32 else None

    def _kept_point(self, collection: bytes) -> bytes:
        with self._turns, typed_errors(self.folder), transaction(self._database):
            return self._kept.get(_point(collection)) or b""

    def record_answers(self, collection: bytes, ids: Bytes, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Record, before they are sent, 8 bytes of a hash of what this server answers about proved reports.

        Parameters
        ----------
        collection : bytes
            Its digest.
        ids : ndarray of uint8
            Of the reports, (n, 16), ascending.
        hashes : ndarray of uint64
            Of the answers, (n,).

        Returns
        -------
        ndarray of bool
            Which may be sent, (n,): those of reports that were not answered before, or with the same hash.
        """
        with self._turns, typed_errors(self.folder), transaction(self._database):
            return self._tables.record_answers(collection, sorted_ids(ids), hashes)

    def find(self, manifest_digest: bytes) -> LedgerEntry | None:
        """Return a release, or None if the ledger does not hold it (or has forgotten it, sealed)."""
        with self._turns, typed_errors(self.folder):
            known = self._known(manifest_digest)
        return None if known is None else _entry_of(known)

    def releases(self) -> list[LedgerEntry]:
        """Return all releases that the ledger holds, the earliest first."""
        with self._turns, typed_errors(self.folder):
            return [_entry_of(known) for known in self._tables.releases()]

    def latest(self, collection: bytes) -> LedgerEntry | None:
        """Return the release of a collection that has come furthest, or None."""
        releases = [
            release for release in self.releases() if json.loads(release.manifest).get("collection") == collection.hex()
        ]
        return max(releases, key=lambda release: list(State).index(release.state), default=None)

    def begun_epochs(self, series: str) -> dict[str, str]:
        """Return the digests of the manifests of a series that were begun here, by epoch."""
        with self._turns, typed_errors(self.folder):
            return begun_epochs(series, self._recorded())

    def version(self) -> int:
        """Return a number that changes whenever another process has changed the ledger."""
        with self._turns, typed_errors(self.folder):
            (version,) = self._database.execute("PRAGMA data_version").fetchone()
        return int(version)

    def batch(self, manifest_digest: bytes) -> Bytes:
        """Return the report ids of a release in ascending order, (n, 16)."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            known = self._known(manifest_digest)
            return as_bytes(self._tables.ids(known) if known is not None else np.empty(0, ID_TYPE))

    def begun(self, ids: Bytes) -> NDArray[np.bool_]:
        """Return which of some reports belong to a release that is opening or opened, in any collection."""
        batch = sorted_ids(ids)
        begun = np.zeros(len(batch), np.bool_)
        with self._turns, typed_errors(self.folder), transaction(self._database):
            for release, shared in self._overlaps(batch):
                if release.state != State.SEALED:
                    begun |= shared
        return begun

    def require_unreleased(self, ids: Bytes) -> None:
        """Refuse what `seal` would refuse, before there is a manifest; nothing is recorded."""
        batch = sorted_ids(ids)
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._refuse(self._overlaps(batch))

    def close(self) -> None:
        """Close the database file."""
        with self._turns:
            self._database.close()

    def _seal(self, manifest_digest: bytes, manifest: str, batch: NDArray[np.bytes_], ids_digest: bytes) -> None:
        database = self._database
        overlaps = self._overlaps(batch)
        self._refuse(overlaps)
        rivals = require_epoch(Recorded(manifest_digest, manifest, begun=False), self._recorded())
        forgotten = [release for release in self._tables.releases() if release.digest in rivals]
        for release in {
            release.number: release for release in (*(overlapping for overlapping, _ in overlaps), *forgotten)
        }.values():
            database.execute("DELETE FROM batches WHERE release = ?", (release.number,))
            database.execute("DELETE FROM releases WHERE number = ?", (release.number,))
        (number,) = database.execute("SELECT coalesce(max(number), 0) + 1 FROM releases").fetchone()
        database.execute(
            "INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
            (number, manifest_digest, manifest, State.SEALED, _now(), ids_digest),
        )
        self._tables.keep_ids(number, batch)
        self._tables.chain()

    def _recorded(self) -> list[Recorded]:
        known = self._tables.releases()
        return [Recorded(release.digest, release.manifest, begun=release.state != State.SEALED) for release in known]

    def _overlaps(self, batch: NDArray[np.bytes_]) -> list[tuple[ReleaseRow, NDArray[np.bool_]]]:
        """Return the releases that have reports of a batch, and which of it."""
        shared_ids = ((release, found_in(self._tables.ids(release), batch)) for release in self._tables.releases())
        return [(release, shared) for release, shared in shared_ids if shared.any()]

    @staticmethod
    def _refuse(overlaps: list[tuple[ReleaseRow, NDArray[np.bool_]]]) -> None:
        earlier = [(release, shared) for release, shared in overlaps if release.state != State.SEALED]
        if earlier:
            where = "; ".join(
                f"{int(shared.sum())} in the release {release.digest.hex()} ({release.state} since {release.since})"
                for release, shared in earlier
            )
            count = len(earlier[0][1])
            raise AlreadyReleased("ids", f"of {count} reports, none expected in an earlier release: {where}")

    def _entry(self, manifest_digest: bytes) -> LedgerEntry:
        known = self._known(manifest_digest)
        if known is None:
            raise InputError(
                "manifest_digest", f"{manifest_digest.hex()}", "a sealed release", condition=f"in {self.folder}"
            )
        return _entry_of(known)

    def _known(self, manifest_digest: bytes) -> ReleaseRow | None:
        return next((known for known in self._tables.releases() if known.digest == manifest_digest), None)


def _entry_of(row: ReleaseRow) -> LedgerEntry:
    sums = None
    if row.sums is not None and row.shape is not None:
        sums = np.frombuffer(row.sums, "<u8").astype(np.uint64).reshape(json.loads(row.shape))
    return LedgerEntry(row.digest, row.manifest, State(row.state), row.since, sums)


def _seed(collection: bytes) -> str:
    return f"dealing seed of collection {collection.hex()}"


def _point(collection: bytes) -> str:
    """Return the name of a query point; while a collection is closed and has none, it is kept as no bytes."""
    return f"query point of collection {collection.hex()}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
