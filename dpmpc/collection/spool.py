"""Store a server's shares of the reports until the release: words in segments, an index in SQLite.

Promised:

- What `add` returned for is there after a crash of the process or the system and after a loss of power, exactly once,
  with the words that were given. The words are synced before the index names them, and the index before `add` returns.
- What `add` raised for is not there, or not yet: nothing of such a call is ever there in part. If the system fails to
  say whether a commit took place, a report may turn out to be stored that was not acknowledged; sending it again is
  always safe.
- The same id with the same words is stored once. With other words it is refused, and nothing of its upload is stored.
- A full disk is a `SpoolError`. The spool stays usable: the call can be repeated once there is room.
- Once `close_for_good` has returned, in whatever process, no `add` stores anything.
- One process writes. Others may read meanwhile, and see all of an upload or nothing.
- A bit that has changed on the disk is noticed. `intact` finds the reports whose id, place and words are as they were
  added, and counts those that are damaged or lost; a row of `share` that was damaged since is a `SpoolError`. The index
  is chained: it holds the number of its reports and a checksum over all of them in the order of their coming.
- Files are for their owner alone. Memory does not grow with the words, only with the number of reports: at the door by
  `KnownReports`, in a release by about 100 bytes a report.

Not promised: that nobody who may write to the folder changed it. Checksums find a failing disk, not a forger. The
folder must lie on a local disk that keeps its word when it says that data is synced. An unsynced log of SQLite that is
damaged before it is written back can take reports away, which are then lacking at this server; it changes none.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.arguments import require_bytes
from dpmpc.collection.report_ids import ID_BYTES, ID_TYPE, as_bytes, sorted_ids, split
from dpmpc.collection.segments import CHECKSUM_BYTES, Segments, SpoolShare, checksums
from dpmpc.collection.spool_index import (
    ADVICE,
    INDEX_FILE,
    KnownReports,
    SpoolDescription,
    SpoolIndex,
    chained,
    hold_lock,
)
from dpmpc.encoding.ring import Ring, Words, ring_named
from dpmpc.errors import CollectionClosed, GuaranteeError, InputError, ReportConflict, SpoolError
from dpmpc.sharing.batch import Share
from dpmpc.storage.database import Store, connect, private_folder, transaction, typed_errors
from dpmpc.storage.kept import Kept

CLOSED_EARLY = "this server has closed the collection for good, ahead of its time; nothing was stored"
KEYS = "keys"  # in the index, in place of the name of a ring: a key and two words of a share may look alike
_SEGMENT_BYTES = 1 << 28
_POINT = "query point"


class SealedPoint(NamedTuple):
    """The query point of a collection with proofs, and whether it is used: see `dpmpc.collection.query_points`."""

    toss: bytes
    used: bool


class Added(NamedTuple):
    """The outcome of an upload: how many of its reports are new, and how many were stored before."""

    stored: int
    duplicates: int


class Intact(NamedTuple):
    """The findings of `Spool.intact`."""

    ids: NDArray[np.uint8]  # (n, 16): ids of the reports that are as they were added, ascending
    damaged: int  # how many more were added, and are damaged or lost


class Spool(Store):
    """The reports of one collection at one server."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        digest: bytes,
        server: int,
        shape: tuple[int, int],
        ring: Ring | type[Ring] | str = "ring64",
        *,
        keys: bool = False,
        writer: bool = True,
    ):
        require_bytes("digest", digest, 32)
        if len(shape) != 2 or min(shape) < 1:
            raise InputError(f"shape: {shape} given, copies and width expected, at least 1 each")
        self.folder, self.shape, self.ring = Path(folder), (shape[0], shape[1]), ring_named(ring)
        self._content = KEYS if keys else self.ring.name
        self._turns = threading.Lock()
        self._held: int | None = None
        with typed_errors(self.folder):
            if writer:
                private_folder(self.folder)
                self._held = hold_lock(self.folder)
            try:
                self._database = connect(self.folder / INDEX_FILE, create=writer)
                try:
                    self._begin(digest, server)
                except BaseException:
                    self._database.close()
                    raise
            except BaseException:
                self._unlock()
                raise

    def _begin(self, digest: bytes, server: int) -> None:
        self._index = SpoolIndex(self._database, self.folder)
        self._kept = Kept(self._database, self.folder / INDEX_FILE, ADVICE)
        self._index.require_version()
        if self._held is not None:
            segment_rows = max(1, _SEGMENT_BYTES // (8 * math.prod(self.shape)))
            self._index.make(digest.hex(), server, self.shape, self._content, segment_rows)
        found = self._index.description()
        self._require_own(found, digest, server)
        self._segments = Segments(self.folder, found.segment_rows, self.shape)
        self._end = self._index.end()
        self._known: tuple[tuple[int, int], KnownReports] | None = None  # read when the first upload comes

    def _require_own(self, found: SpoolDescription, digest: bytes, server: int) -> None:
        """Refuse a spool of anything but what the caller expects."""
        copies, width = self.shape
        given = {"digest": digest.hex(), "server": server, "copies": copies, "width": width, "ring": self._content}
        for name, value in given.items():
            expected = getattr(found, name)
            if value != expected:
                raise SpoolError(f"{name}: {value} given, {expected} expected by the spool in {self.folder}")

    def add(self, ids: Sequence[bytes], words: Words) -> Added:
        """Store an upload durably before returning."""
        (outcome,) = self.add_all([(ids, words)])
        if isinstance(outcome, ReportConflict):
            raise outcome
        return outcome

    def add_all(self, uploads: Sequence[tuple[Sequence[bytes], Words]]) -> list[Added | ReportConflict]:
        """Store several uploads in one transaction: `add` for each, except that a conflict is returned, not raised.

        An upload with a conflict is left out as a whole. The others are stored.
        """
        checked = [self._checked(ids, words) for ids, words in uploads]
        ids = [report for reports, _ in checked for report in reports]
        words = np.concatenate([np.empty((0, *self.shape), np.uint64), *(block for _, block in checked)])
        sums = split(checksums(np.frombuffer(b"".join(ids), ID_TYPE), words))
        outcomes: list[Added | ReportConflict] = []
        new: dict[bytes, tuple[bytes, int]] = {}  # checksum, and row of the words
        with self._turns, typed_errors(self.folder):
            with transaction(self._database):
                described = self._index.description()
                if described.closed:
                    raise CollectionClosed(CLOSED_EARLY)
                known = self._known_reports(described)
                stored = known.among(ids)
                rows = zip(ids, sums, range(len(ids)), strict=True)
                for reports, _ in checked:
                    try:
                        fresh = _fresh(list(itertools.islice(rows, len(reports))), stored, new)
                    except ReportConflict as conflict:
                        outcomes.append(conflict)
                    else:
                        new |= fresh
                        outcomes.append(Added(len(fresh), len(reports) - len(fresh)))
                if new:
                    described = self._store(new, words, described)
            # Only once it is committed: whatever a commit that failed has left, the description tells.
            known.add({report: checksum for report, (checksum, _) in new.items()})
            self._known = described.content, known
        return outcomes

    def close_for_good(self) -> None:
        """Refuse all further reports, for good; a writer in another process is refused at its next `add`."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._index.describe(self._index.description()._replace(closed=1))

    def keep_point(self, toss: bytes, *, used: bool) -> None:
        """Record the query point durably, in place of the one there; `dpmpc.collection.query_points` says when."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            known = self._point()
            if known is not None and known.used and (known.toss != toss or not used):
                raise GuaranteeError(f"toss: {toss.hex()} given, {known.toss.hex()} expected, which is used, for good")
            if not self._closed():
                raise GuaranteeError("toss: given for a spool that takes reports, one that is closed for good expected")
            self._keep(SealedPoint(toss, used))

    def forbid_points(self, mark: bytes) -> None:
        """Record a mark as the used point, whatever was recorded before."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._keep(SealedPoint(mark, True))

    def point(self) -> SealedPoint | None:
        """Return the query point that `keep_point` has recorded, or None."""
        with self._turns, typed_errors(self.folder):
            return self._point()

    @property
    def closed(self) -> bool:
        """Whether `close_for_good` was called, here or elsewhere."""
        with self._turns, typed_errors(self.folder):
            return self._closed()

    def __len__(self) -> int:
        """Count the reports that were added."""
        with self._turns, typed_errors(self.folder):
            return self._index.description().reports

    def count_stored(self, ids: Sequence[bytes]) -> int:
        """Count which of these reports are here already."""
        with self._turns, typed_errors(self.folder):
            known = self._known_reports(self._index.description()).among(ids)
        return sum(report in known for report in ids)

    def ids(self) -> NDArray[np.uint8]:
        """Return the ids of all reports in ascending order, (n, 16)."""
        with self._turns, typed_errors(self.folder):
            return as_bytes(np.sort(self._index.rows()["id"]))

    def intact(self) -> Intact:
        """Read the whole spool and find the reports that are as they were added."""
        with self._turns, typed_errors(self.folder):
            description, index = self._index.snapshot()
        good = np.zeros(len(index), np.bool_)
        step = self._segments.block_rows
        for first in range(0, len(index), step):
            good[first : first + step] = self._compare(index[first : first + step])
        damaged = description.reports - int(good.sum())
        if damaged < 0 or (damaged == 0 and chained(index) != description.chain):
            raise SpoolError(
                f"{self.folder}: the spool is damaged: its {len(index)} reports are not the {description.reports} that "
                f"were added; {ADVICE}"
            )
        return Intact(as_bytes(np.unique(index["id"][good])), damaged)

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

    def share(self, ids: NDArray[np.uint8]) -> Share:
        """Return this server's share of a batch: one report's words a row, in the order of the ids."""
        batch = sorted_ids(ids)
        positions = np.full(len(batch), -1, np.int64)
        expected = np.empty(len(batch), f"S{CHECKSUM_BYTES}")
        with self._turns, typed_errors(self.folder):
            index = self._index.rows()
        if len(batch):
            places = np.searchsorted(batch, index["id"]).clip(max=len(batch) - 1)
            asked = batch[places] == index["id"]
            positions[places[asked]] = index["position"][asked]
            expected[places[asked]] = index["checksum"][asked]
        missing = int((positions < 0).sum())
        if missing:
            raise InputError(f"ids: {missing} of {len(batch)} are not in the spool {self.folder}")
        return SpoolShare(self._segments, self.ring, batch, positions, expected)

    def close(self) -> None:
        """Close the files, so that another writer may open the spool."""
        with self._turns:
            self._database.close()
            self._unlock()

    def _checked(self, ids: Sequence[bytes], words: Words) -> tuple[Sequence[bytes], Words]:
        if self._held is None:
            raise InputError(f"writer: False given for {self.folder}, True expected for adding to it")
        if words.shape != (len(ids), *self.shape):
            raise InputError(f"words: shape {words.shape} given, {(len(ids), *self.shape)} expected")
        for index, report in enumerate(ids):
            if len(report) != ID_BYTES:
                raise InputError(f"ids: {len(report)} bytes given as number {index}, {ID_BYTES} expected")
        return ids, self.ring.require_canonical(words, "words")

    def _point(self) -> SealedPoint | None:
        kept = self._kept.get(_POINT)
        return None if kept is None else SealedPoint(kept[:-1], kept[-1:] != b"\0")

    def _keep(self, point: SealedPoint) -> None:
        self._kept.put({_POINT: point.toss + bytes([point.used])})

    def _closed(self) -> bool:
        return bool(self._index.description().closed)

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


def _fresh(
    rows: Sequence[tuple[bytes, bytes, int]], stored: dict[bytes, bytes], new: dict[bytes, tuple[bytes, int]]
) -> dict[bytes, tuple[bytes, int]]:
    """Return checksum and row of those reports of an upload that are neither stored nor among the new ones."""
    fresh = {report: (checksum, row) for report, checksum, row in rows}
    if len(fresh) == len(rows) and fresh.keys().isdisjoint(stored) and fresh.keys().isdisjoint(new):
        return fresh
    fresh = {}
    for report, checksum, row in rows:
        earlier = fresh.get(report) or new.get(report)
        known = stored.get(report) if earlier is None else earlier[0]
        if known is None:
            fresh[report] = checksum, row
        elif known != checksum:
            raise ReportConflict(f"ids: {report.hex()} given for other words than before, the same words expected")
    return fresh
