"""Store reports in the folder of a server, the *spool*: words in segments, an index in SQLite.

Promised, beside what every `ReportStore` does:

- Words are synced before the index names them, and the index before `add` returns.
- One process writes. Others may read meanwhile, and see all of an upload or nothing.
- The index is chained: it holds the number of its reports and a checksum over all of them in the order of their coming.
- The words of a report that was withdrawn are overwritten in their segment, after its tombstone is in the ledger and
  before `withdraw` returns; after a crash in between, or if the spool is put back to an older state, it is done when
  the spool is opened next. Its entry stays in the index.
- Files are for their owner alone. Memory does not grow with the words, only with the number of reports: at the door by
  `KnownReports`, in a release by 157 bytes a report.

Not promised: that a file system or a disk that writes elsewhere than it did before keeps no copy of overwritten words.
The folder must lie on a local disk that keeps its word when it says that data is synced. An unsynced log of SQLite that
is damaged before it is written back can take reports away, which are then lacking at this server; it changes none.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import CollectionClosed, InputError, ReportConflict, SpoolError
from dpmpc.base.storage.database import connect, private_folder, transaction, typed_errors
from dpmpc.base.storage.kept import Kept
from dpmpc.collect.store.report_store import (
    CHECKSUM_BYTES,
    CLOSED_EARLY,
    MOST_REPORTS,
    TOMBSTONE,
    Added,
    Intact,
    ReportStore,
    Tally,
    Upload,
    checksums,
)
from dpmpc.collect.store.segments import Segments, SpoolShare
from dpmpc.collect.store.spool_index import (
    ADVICE,
    INDEX_FILE,
    KnownReports,
    SpoolDescription,
    SpoolIndex,
    chained,
    hold_lock,
)
from dpmpc.collect.store.tombstones import TombstoneSum
from dpmpc.collect.upload.report_ids import as_bytes, found_in, sorted_ids, split
from dpmpc.linear.encoding.ring import Ring
from dpmpc.linear.sharing.batch import Share

_SEGMENT_BYTES = 1 << 28
_OVERWRITTEN = "overwritten"  # number and hashes of the tombstones whose reports have no words any more


class SqliteStore(ReportStore):
    """The reports of one collection at one server, in a folder; the arguments are those of every store."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        digest: bytes,
        server: int,
        shape: tuple[int, int],
        ring: Ring | type[Ring] | str = "ring64",
        *,
        ledger: str | os.PathLike[str],
        keys: bool = False,
        writer: bool = True,
        most_stored: int = MOST_REPORTS,
    ):
        super().__init__(
            digest, server, shape, ring, ledger=Path(ledger), keys=keys, writer=writer, most_stored=most_stored
        )
        self.folder = Path(folder)
        self._held: int | None = None
        try:
            with typed_errors(self.folder):
                if writer:
                    private_folder(self.folder)
                    self._held = hold_lock(self.folder)
                self._database = connect(self.folder / INDEX_FILE, create=writer)
                try:
                    self._begin()
                except BaseException:
                    self._database.close()
                    raise
        except BaseException:
            self._unlock()
            self._tombstones.close()
            raise

    def _begin(self) -> None:
        self._index = SpoolIndex(self._database, self.folder)
        self._kept = Kept(self._database, self.folder / INDEX_FILE, ADVICE)
        if self._held is not None:
            segment_rows = max(1, _SEGMENT_BYTES // (8 * math.prod(self.shape)))
            self._index.make(self._own, segment_rows)
        found = self._index.description()
        for name, value in self._own.items():
            expected = getattr(found, name)
            if value != expected:
                raise SpoolError(name, value, expected, condition=f"by the spool in {self.folder}")
        self._segments = Segments(self.folder, found.segment_rows, self.shape)
        self._end = self._index.end()
        self._known: tuple[tuple[int, int], KnownReports] | None = None  # read when the first upload comes
        self._withdrawn: tuple[int, int] | None = None  # of so many tombstones, how many are of reports in the index
        with self._turn(alone=False):
            done = self._get(_OVERWRITTEN)
        self._tombstones.require_at_least(TombstoneSum.from_bytes(done).number, self.folder)
        if self._held is not None:
            self._overwrite_what_is_left(done)

    def add_all(self, uploads: Sequence[Upload]) -> list[Added | ReportConflict]:
        """Do as `ReportStore.add_all` says."""
        incoming = self._incoming(uploads)
        with self._turn(alone=True):
            described = self._index.description()
            if described.closed:
                raise CollectionClosed(CLOSED_EARLY)
            known, position = self._known_reports(described), self._end
            stored = known.among(incoming.ids) | dict.fromkeys(self._tombstones.among(incoming.ids), TOMBSTONE)
            outcomes, new = incoming.settle(stored)
            if new:
                described = self._store(new, incoming.words, described)
        # Only once it is committed: whatever a commit that failed has left, the description tells.
        with self._turns:
            known.add({report: checksum for report, (checksum, _) in new.items()}, position)
            self._known = described.content, known
        return outcomes

    def room(self, new: int) -> int:
        """Do as `ReportStore.room` says."""
        with self._turn(alone=False):
            return self._most_stored - self._index.description().reports

    def count_stored(self, ids: Sequence[bytes]) -> int:
        """Do as `ReportStore.count_stored` says."""
        here = self._checksums(ids).keys() | self._tombstones.among(ids)
        return sum(report in here for report in ids)

    def tally(self) -> Tally:
        """Do as `ReportStore.tally` says."""
        with self._turn(alone=False):
            described, tombstones = self._index.description(), self._tombstones.sum().number
            if self._withdrawn is None or self._withdrawn[0] != tombstones:
                buried = split(self._tombstones.ids(came=True)) if tombstones else []
                here = self._known_reports(described).among(buried) if buried else {}
                self._withdrawn = len(buried), len(here)
            return Tally(described.reports - self._withdrawn[1], self._withdrawn[1])

    def ids(self) -> Bytes:
        """Do as `ReportStore.ids` says."""
        with self._turn(alone=False):
            ids = np.sort(self._index.rows()["id"])
        return as_bytes(ids[~found_in(self._tombstones.ids(), ids)])

    def intact(self) -> Intact:
        """Do as `ReportStore.intact` says."""
        with self._turn(alone=False):
            description, index = self._index.description(), self._index.rows()
        good = np.zeros(len(index), np.bool_)
        step = self._segments.block_rows
        for first in range(0, len(index), step):
            good[first : first + step] = self._compare(index[first : first + step])
        good |= (gone := found_in(self._tombstones.ids(), index["id"]))
        damaged = description.reports - int(good.sum())
        if damaged < 0 or (damaged == 0 and chained(index) != description.chain):
            raise SpoolError(
                self.folder,
                f"the spool is damaged: its {len(index)} reports are not the {description.reports} that "
                f"were added; {ADVICE}",
            )
        return Intact(as_bytes(np.unique(index["id"][good & ~gone])), damaged, int(gone.sum()))

    def _compare(self, index: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return which rows of the index lead to the words that were added; where a read fails, try each half."""
        try:
            block = self._segments.read(index["position"])
        except SpoolError:
            if len(index) == 1:
                return np.zeros(1, np.bool_)
            half = len(index) // 2
            return np.concatenate([self._compare(index[:half]), self._compare(index[half:])])
        return np.array(checksums(index["id"], block) == index["checksum"], np.bool_)

    def share(self, ids: Bytes) -> Share:
        """Do as `ReportStore.share` says."""
        batch = sorted_ids(ids)
        positions = np.full(len(batch), -1, np.int64)
        expected = np.empty(len(batch), f"S{CHECKSUM_BYTES}")
        with self._turn(alone=False):
            index = self._index.rows()
        index = index[~found_in(self._tombstones.ids(), index["id"])]
        if len(batch):
            places = np.searchsorted(batch, index["id"]).clip(max=len(batch) - 1)
            asked = batch[places] == index["id"]
            positions[places[asked]] = index["position"][asked]
            expected[places[asked]] = index["checksum"][asked]
        missing = int((positions < 0).sum())
        if missing:
            raise InputError("ids", f"{missing} of {len(batch)} are not in the spool {self.folder}")
        return SpoolShare(self._segments, self.ring, batch, positions, expected)

    def usable(self, least_free: int) -> bool:
        """Do as `ReportStore.usable` says."""
        try:
            return shutil.disk_usage(self.folder).free >= least_free
        except OSError:
            return False

    def close(self) -> None:
        """Close the files, so that another writer may open the spool."""
        with self._turns:
            self._database.close()
            self._tombstones.close()
            self._unlock()

    @contextlib.contextmanager
    def _turn(self, *, alone: bool) -> Iterator[None]:
        """Do as `ReportStore._turn` says; other threads wait for a turn, and other processes for one that writes."""
        with self._turns, typed_errors(self.folder), transaction(self._database, "IMMEDIATE" if alone else "DEFERRED"):
            yield

    def _is_closed(self) -> bool:
        return bool(self._index.description().closed)

    def _refuse_reports(self) -> None:
        """Do as `ReportStore._refuse_reports` says; a writer in another process is refused at its next `add`."""
        self._index.describe(self._index.description()._replace(closed=1))

    def _get(self, name: str) -> bytes | None:
        return self._kept.get(name)

    def _put(self, name: str, value: bytes) -> None:
        self._kept.put({name: value})

    def _forget(self, name: str) -> None:
        self._kept.forget([name])

    def _checksums(self, ids: Sequence[bytes]) -> dict[bytes, bytes]:
        with self._turn(alone=False):
            return self._known_reports(self._index.description()).among(ids)

    def _overwrite(self, ids: Sequence[bytes]) -> None:
        with self._turn(alone=True):
            for position in self._known_reports(self._index.description()).positions(ids):
                self._segments.write(position, np.zeros((1, *self.shape), np.uint64))
            if self._held is not None:  # nobody else overwrites what this process withdraws
                self._put(_OVERWRITTEN, self._tombstones.sum().to_bytes())
        if self._withdrawn is not None:
            self._withdrawn = self._withdrawn[0] + len(ids), self._withdrawn[1] + len(ids)

    def _overwrite_what_is_left(self, done: bytes | None) -> None:
        """Overwrite the words of reports that were withdrawn, after a crash or in a spool that was put back."""
        sums = self._tombstones.sum()
        if sums.number and done != sums.to_bytes():
            self._overwrite(split(self._tombstones.ids(came=True)))
            self._withdrawn = None

    def _known_reports(self, described: SpoolDescription) -> KnownReports:
        """Return the reports that are stored, read anew where they are not those of this description."""
        if self._known is None or self._known[0] != described.content:
            self._known = described.content, KnownReports(self._index.rows())
        return self._known[1]

    def _store(
        self, new: dict[bytes, tuple[bytes, int]], words: Words, described: SpoolDescription
    ) -> SpoolDescription:
        """Write the words of new reports, then their entries; return the description after them."""
        self._segments.write(self._end, words[[row for _, row in new.values()]])
        entries = {report: checksum for report, (checksum, _) in new.items()}
        described = self._index.append(self._end, entries, described)
        # Should the commit fail, these rows are not used again: after a crash it may turn out to have succeeded.
        self._end += len(new)
        return described

    def _unlock(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None
