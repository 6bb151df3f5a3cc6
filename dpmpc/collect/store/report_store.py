"""Keep the reports of one collection at one server, in an SQLite file of its folder or in a PostgreSQL database.

What a commit brings is stored as *blocks*: ids and checksums in one table, words in another. An id belongs to a *bin*
by its first bits, and so does the block that holds it, so that a release reads one bin after another, in ascending
order of the ids, and holds no more than that in memory. The databases are `dpmpc.collect.store.sqlite_database` and
`dpmpc.collect.store.postgres_database`; this module makes the same statements on both.

Promised, with either database:

- What `add` returned for is there after a crash of the process or the system and after a loss of power, with the words
  that were given. What it raised for is not there, or not yet: nothing of such a call is ever there in part. If the
  system fails to report whether a commit took place, a report may turn out to be stored that was not acknowledged;
  sending it again is always safe.
- A report counts once, with the words that were stored first, however often its id comes: `ids`, `intact` and `share`
  read the first copy. Of the reports that a process has stored last it remembers the ids, 65,536 to 131,072 of them;
  these are not stored a second time, and other words for one of them are a `ReportConflict`.
- Once `withdraw` has reported an id as withdrawn its words are overwritten, and a *tombstone* is in the ledger
  (`dpmpc.collect.store.tombstones`): no `add`, in whatever process, stores a report with this id again, and no release
  gathers it, even if this store is put back to an older state. The same holds of a report that comes after its
  withdrawal, for as many of these as a hundredth of `most_stored`.
- Once `close_for_good` has returned, in whatever process, no `add` stores anything; once `announce` has, `withdraw`
  changes nothing, until `take_back_announcement`.
- A bit that has changed is noticed. `intact` finds the reports whose id and words are as they were added, and counts
  those that are damaged or lost; a row of `share` that was damaged since is a `SpoolError`. A full disk is one too, and
  the store stays usable.

Not promised: that no one who may write to the store changed it. Checksums find a failing disk, not a forger. Nor
that `len` is the number of different reports: an id that was forgotten and came again is counted twice until the
release.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpmpc.base.arguments import require_bytes, require_whole
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import CollectionClosed, GuaranteeError, InputError, ReportConflict, SpoolError
from dpmpc.base.storage.database import Store
from dpmpc.collect.store.blocks import (
    MOST_REPORTS,
    Added,
    Incoming,
    RecentReports,
    Upload,
)
from dpmpc.collect.store.id_files import IdFile
from dpmpc.collect.store.ledger_tables import ADVICE
from dpmpc.collect.store.store_description import ReportDatabase, StoreDescription
from dpmpc.collect.store.stored_reports import StoredReports
from dpmpc.collect.store.tombstones import Tombstones, TombstoneSum
from dpmpc.collect.terms.withdrawal_verdict import Fate
from dpmpc.collect.upload.report_ids import ID_BYTES, as_bytes, found_in, sorted_ids, split
from dpmpc.linear.encoding.ring import Ring, ring_named
from dpmpc.linear.sharing.batch import Share

CLOSED_EARLY = "this server has closed the collection for good, ahead of its time; nothing was stored"
AHEAD_PART = 100  # of `most_stored`, one such part may be tombstones of reports that have not come
_CLOSED, _COUNTED, _FAILED, _POINT = "closed", "counted", "failed", "query point"
_LEDGER = "ledger"  # the identity of the ledger in which a release of these reports is recorded
_ERASED = "erased"  # number and hashes of the tombstones whose reports have no words any more


class Intact(NamedTuple):
    """The findings of `ReportStore.intact`."""

    ids: Bytes  # (n, 16): ids of the reports that are as they were added, ascending
    damaged: int  # how many more were added, and are damaged or lost
    withdrawn: int = 0  # and how many more were withdrawn


class Closing(NamedTuple):
    """When a store was closed for good, and how the last run of a release ended that began since."""

    since: str  # in ISO 8601, UTC
    failed: str  # the type of the error that ended the run; empty if none did


class Tally(NamedTuple):
    """How many reports were added, by what became of them; those that were withdrawn give no room back."""

    reports: int  # that are there
    withdrawn: int  # that were there


class ReportStore(Store):
    """The reports of one collection at one server.

    Parameters
    ----------
    database : ReportDatabase
        The database that holds them; the store closes it.
    digest : bytes
        Digest of the collection, 32 bytes. A store holds reports of one collection at one server, and is not opened for
        others.
    server : int
        Number of the server.
    shape : tuple of two int
        Copies and width of a report, uint64 words.
    ring : Ring or str
        Ring of the words.
    ledger : Path
        Folder of the server's ledger.
    keys : bool
        Whether the words of a report are a key, which is expanded in the release.
    writer : bool
        False for a process that adds nothing: it makes no store where there is none.
    most_stored : int
        How many reports are stored at most.
    workers : int
        How many processes of the server add reports.
    """

    def __init__(
        self,
        database: ReportDatabase,
        digest: bytes,
        server: int,
        shape: tuple[int, int],
        ring: Ring | type[Ring] | str = "ring64",
        *,
        ledger: Path,
        keys: bool = False,
        writer: bool = True,
        most_stored: int = MOST_REPORTS,
        workers: int = 1,
    ):
        self._database = database
        try:
            require_bytes("digest", digest, 32)
            self._most_stored = require_whole("most_stored", most_stored, 1, MOST_REPORTS)
            self.workers = require_whole("workers", workers, 1)
            if len(shape) != 2 or min(shape) < 1:
                raise InputError("shape", f"{shape} given, copies and width expected, at least 1 each")
            self.shape, self.ring, self._writer = (shape[0], shape[1]), ring_named(ring), writer
            described = StoreDescription.of(
                digest, server, self.shape, self.ring, keys=keys, most_stored=self._most_stored
            )
            self._stored = StoredReports(database, described, self.ring, make=writer)
            self._table, self._blocks = self._stored.table, self._stored.blocks
            self._recent: RecentReports | None = None  # read when the first upload comes
            self._folder, self._tombstones = ledger, Tombstones(ledger, digest)
            try:
                self._begin()
            except BaseException:
                self._tombstones.close()
                raise
        except BaseException:
            database.close()
            raise

    def _begin(self) -> None:
        """Compare the store with the ledger, and erase what a crash, or a store that was put back, has left."""
        with self._database.turn():
            erased = TombstoneSum.from_bytes(self._table.read().fact(_ERASED))
        self._tombstones.require_at_least(erased.number, self._database.place)
        if not self._writer:
            return
        if self._tombstones.sum() != erased:
            with self._database.turn(alone=True):
                places = self._blocks.find(split(self._tombstones.ids(came=True)))
                self._erase(self._table.read()._replace(withdrawn=0), places)
        self._database.empty_log()

    def add(self, ids: Sequence[bytes], words: Words) -> Added:
        """Store an upload durably before returning.

        Parameters
        ----------
        ids : sequence of bytes
            Of its reports, 16 bytes each.
        words : ndarray of uint64
            Shape (n, copies, width).

        Returns
        -------
        Added

        Raises
        ------
        ReportConflict
            An id was stored lately with other words, or its report was withdrawn; nothing is stored.
        CollectionClosed
            `close_for_good` was called.
        SpoolError
            The disk or the database fails, or there is no room.
        """
        (outcome,) = self.add_all([(ids, words)])
        if isinstance(outcome, ReportConflict):
            raise outcome
        return outcome

    def add_all(self, uploads: Sequence[Upload]) -> list[Added | ReportConflict]:
        """Store several uploads in one transaction: `add` for each, except that a conflict is returned, not raised.

        An upload with a conflict, or with the id of a report that was withdrawn, is left out as a whole. The others are
        stored.
        """
        incoming = self._incoming(uploads)
        try:
            with self._database.turn(alone=True):
                described = self._table.read()
                if described.closed:
                    raise CollectionClosed(CLOSED_EARLY)
                if self._recent is None:
                    self._recent = self._blocks.recent(described.added)
                outcomes, rows = incoming.settle(self._recent, self._tombstones.among(incoming.ids))
                if described.added + len(rows) > self._most_stored:
                    raise SpoolError(
                        "reports", f"{len(rows)} new ones", f"at most {self._most_stored - described.added}"
                    )
                if len(rows):
                    checksum = self._blocks.insert(incoming, rows, described.added)
                    added = described.added + len(rows)
                    self._table.write(described._replace(added=added, checksum=described.checksum + checksum))
                    self._recent.add(incoming, rows)
        except BaseException:
            self._recent = None  # whatever became of the commit
            raise
        return outcomes

    def _incoming(self, uploads: Sequence[Upload]) -> Incoming:
        """Return uploads as they are stored, or refuse them."""
        if not self._writer:
            raise InputError("writer", "False", "True", condition="for adding to a store")
        for ids, words in uploads:
            if words.shape != (len(ids), *self.shape):
                raise InputError("words", f"shape {words.shape}", f"{(len(ids), *self.shape)}")
            require_ids(ids)
            self.ring.require_canonical(words, "words")
        return Incoming(uploads, self.shape)

    def withdraw(self, ids: Sequence[bytes]) -> list[Fate]:
        """Put tombstones for reports durably, and overwrite their words; return what became of each.

        Once the reports are announced for a release nothing is changed any more: what was withdrawn before is, and all
        else is too late.
        """
        require_ids(ids)
        with self._database.turn(alone=True):
            places = self._blocks.find(ids)
            fates = self._tombstones.bury(ids, places, self._most_stored // AHEAD_PART)
            new = {report for report, fate in zip(ids, fates, strict=True) if fate is Fate.NOW}
            if new:
                self._erase(self._table.read(), {report: places.get(report, []) for report in new})
        if new:
            self._database.empty_log()
        return fates

    def _erase(self, described: StoreDescription, places: Mapping[bytes, Collection[tuple[int, int]]]) -> None:
        """Overwrite the words of reports that have tombstones, wherever they are."""
        found = sorted(place for copies in places.values() for place in copies)
        self._blocks.erase(found)
        erased = self._tombstones.sum().to_bytes()
        self._table.write(described._replace(withdrawn=described.withdrawn + len(found)).with_fact(_ERASED, erased))

    def room(self) -> int:
        """Return how many more reports may be added."""
        with self._database.turn():
            return self._most_stored - self._table.read().added

    def count_stored(self, ids: Sequence[bytes]) -> int:
        """Count which of these ids are of reports that were stored lately, or were withdrawn."""
        with self._database.turn():
            if self._recent is None:
                self._recent = self._blocks.recent(self._table.read().added)
            withdrawn = self._tombstones.among(ids)
            return sum(report in withdrawn or self._recent.get(report) is not None for report in ids)

    def tally(self) -> Tally:
        """Count what was added and withdrawn by all processes."""
        with self._database.turn():
            described = self._table.read()
        return Tally(described.added - described.withdrawn, described.withdrawn)

    def __len__(self) -> int:
        """Count the reports that were added and not withdrawn."""
        return self.tally().reports

    def ids(self) -> Bytes:
        """Return the ids of all reports in ascending order, (n, 16)."""
        with self._database.turn():
            spans = self._blocks.spans(self._table.read().added)
            ids = np.concatenate([np.empty(0, "S16"), *(self._blocks.entries(span).first_ids() for span in spans)])
        return as_bytes(ids[~found_in(self._tombstones.ids(), ids)])

    def intact(self, *, words: bool = True) -> Intact:
        """Read the whole store and find the reports that are as they were added.

        Without `words` these are not read, and reports whose words alone have changed count as intact.
        """
        tombstones = self._tombstones.ids()
        entries = damaged = withdrawn = checksum = 0
        with IdFile(self._folder) as good, self._database.turn():
            described = self._table.read()
            for span in self._blocks.spans(described.added):
                found = self._blocks.entries(span)
                ids = found.first_ids()
                gone = found_in(tombstones, ids)
                fits = (self._blocks.compare(found, ids) if words else True) & ~gone
                good.append(as_bytes(ids[fits]))
                entries, checksum = entries + len(found), checksum + found.total()
                withdrawn, damaged = withdrawn + int(gone.sum()), damaged + int((~fits & ~gone).sum())
            intact = good.ids()
        lost = described.added - entries
        if lost < 0 or (lost == damaged == 0 and not described.fits(checksum)):
            raise SpoolError(
                self._database.place,
                f"the store is damaged: its {entries} reports are not the {described.added} that were added; "
                f"{self._database.dialect.advice}",
            )
        return Intact(intact, lost + damaged, withdrawn)

    def share(self, ids: Bytes) -> Share:
        """Return this server's share of a batch: one report's words a row, in the order of the ids."""
        batch = sorted_ids(ids)
        parts = self._stored.parts(batch)
        with self._database.turn():
            missing = [
                len(part) - int(found_in(self._blocks.entries(span).first_ids(), part).sum()) for span, part in parts
            ]
        gone = int(found_in(self._tombstones.ids(), batch).sum())
        if sum(missing) + gone:
            raise InputError(
                "ids", f"{sum(missing) + gone} of {len(batch)} are not in the store {self._database.place}"
            )
        return self._stored.share(ids)

    def opened(self) -> contextlib.AbstractContextManager[StoredReports]:
        """Return the words of all reports, whose store stays open."""
        return self._stored.opened()

    @property
    def closed(self) -> bool:
        """Whether `close_for_good` was called, here or elsewhere."""
        with self._database.turn():
            return bool(self._table.read().closed)

    def close_for_good(self) -> None:
        """Refuse all further reports, for good, in all processes."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with self._database.turn(alone=True):
            described = self._table.read()
            if not described.closed:
                self._table.write(described._replace(closed=1).with_fact(_CLOSED, now.encode()))

    @property
    def closing(self) -> Closing | None:
        """When it was closed for good, and how a release has gone since; None while it takes reports."""
        with self._database.turn():
            described = self._table.read()
        if not described.closed:
            return None
        return Closing(*((described.fact(name) or b"").decode() for name in (_CLOSED, _FAILED)))

    def note_run(self, failed: str = "") -> None:
        """Record the type of the error that ended a run of the release, or that a new one has begun."""
        with self._database.turn(alone=True):
            described = self._table.read()
            if failed.encode() != (described.fact(_FAILED) or b""):
                self._table.write(described.with_fact(_FAILED, failed.encode() or None))

    def usable(self, least_free: int) -> bool:
        """Return whether uploads could be stored now; on a disk of this machine, with so many bytes free."""
        try:
            with self._database.turn():
                self._table.read()
                return self._database.usable(least_free)
        except SpoolError:
            return False

    @property
    def announced(self) -> bool:
        """Whether the reports are announced for a release."""
        return self._tombstones.announced

    def announce(self) -> None:
        """Refuse all withdrawals from now on, in all processes, before this server announces what it has."""
        self._tombstones.announce()

    def take_back_announcement(self) -> None:
        """Take withdrawals again, unless a release has come so far that its batch is fixed."""
        self._tombstones.take_back_announcement()

    def count_at(self, hour: str) -> int:
        """Count the reports once for an hour: all processes that ask give the number that the first one found."""
        with self._database.turn(alone=True):
            described = self._table.read()
            kept = (described.fact(_COUNTED) or b"").decode().split()
            if kept[:1] == [hour]:
                return int(kept[1])
            count = described.added - described.withdrawn
            self._table.write(described.with_fact(_COUNTED, f"{hour} {count}".encode()))
        return count

    def point(self) -> bytes | None:
        """Return the query point that `use_point` has recorded, or None."""
        with self._database.turn():
            return self._table.read().fact(_POINT)

    def use_point(self, toss: bytes) -> None:
        """Record the query point of a collection with proofs for good; see `dpmpc.collect.store.query_points`."""
        with self._database.turn(alone=True):
            described = self._table.read()
            known = described.fact(_POINT)
            if known not in (None, toss):
                raise GuaranteeError("toss", toss.hex(), known.hex(), "it is used, for good")
            if not described.closed:
                raise GuaranteeError(
                    "toss", "given for a spool that takes reports, one that is closed for good expected"
                )
            self._table.write(described.with_fact(_POINT, toss))

    def bind_ledger(self) -> None:
        """Record for good which ledger has the releases of these reports, before one is sealed; reject another ledger.

        Another ledger holds none of them: it was begun anew, or is that of a second folder with the same database.
        """
        identity = self._tombstones.ledger_identity()
        with self._database.turn(alone=True):
            described = self._table.read()
            bound = described.fact(_LEDGER)
            if bound is None:
                self._table.write(described.with_fact(_LEDGER, identity))
            elif bound != identity:
                raise SpoolError(
                    "ledger",
                    self._folder,
                    f"the one that has the releases of the reports in {self._database.place}",
                    f"if it is elsewhere, as where a link to it is missing, put it in place; else: {ADVICE}",
                )

    def forbid_points(self, mark: bytes) -> None:
        """Record a mark as the query point, whatever was recorded before."""
        with self._database.turn(alone=True):
            self._table.write(self._table.read().with_fact(_POINT, mark))

    def close(self) -> None:
        """Close the files, or the connection."""
        self._tombstones.close()
        self._database.close()


def require_ids(ids: Sequence[bytes]) -> None:
    """Refuse ids of another length."""
    for index, report in enumerate(ids):
        if len(report) != ID_BYTES:
            raise InputError("ids", f"{len(report)} bytes given as number {index}, {ID_BYTES} expected")
