"""Say what a server's store of reports does, whatever database is below.

`ReportStore` is all that admission, group commit, release and status know. There are two: `sqlite_store` (the default:
files in the server's folder, one process that writes) and `postgres_store` (several worker processes).

Promised by every store:

- What `add` returned for is there after a crash of the process or the system and after a loss of power, exactly once,
  with the words that were given. What it raised for is not there, or not yet: nothing of such a call is ever there in
  part. If the system fails to say whether a commit took place, a report may turn out to be stored that was not
  acknowledged; sending it again is always safe.
- The same id with the same words is stored once. With other words it is refused, and nothing of its upload is stored.
- Once `withdraw` has told of an id that it is withdrawn its words are gone, and a *tombstone* is in the ledger
  (`dpmpc.collect.store.tombstones`): no `add`, in whatever process, stores a report with this id again, and no release
  gathers it, even if this store is put back to an older state. The same holds of a report that comes after its
  withdrawal, for as many of these as a hundredth of `most_stored`.
- Once `close_for_good` has returned, in whatever process, no `add` stores anything; once `announce` has, `withdraw`
  changes nothing, until `take_back_announcement`.
- A bit that has changed is noticed. `intact` finds the reports whose id and words are as they were added, and counts
  those that are damaged or lost; a row of `share` that was damaged since is a `SpoolError`. A full disk is one too, and
  the store stays usable.

Not promised: that nobody who may write to the store changed it. Checksums find a failing disk, not a forger.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import itertools
import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_bytes, require_whole
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.digests import sha256_of_rows
from dpmpc.base.errors import GuaranteeError, InputError, ReportConflict, Withdrawn
from dpmpc.base.storage.database import Store
from dpmpc.collect.store.tombstones import Tombstones
from dpmpc.collect.terms.withdrawal_verdict import Fate
from dpmpc.collect.upload.report_ids import ID_BYTES, ID_TYPE, split
from dpmpc.linear.encoding.ring import Ring, ring_named
from dpmpc.linear.sharing.batch import Share

CHECKSUM_BYTES = 8
CLOSED_EARLY = "this server has closed the collection for good, ahead of its time; nothing was stored"
KEYS = "keys"  # in place of the name of a ring: a key and two words of a share may look alike
MOST_REPORTS = 1 << 48
AHEAD_PART = 100  # of `most_stored`, one such part may be tombstones of reports that have not come
TOMBSTONE = b""  # in place of a checksum
_CLOSED, _COUNTED, _FAILED = "closed", "counted", "failed"
_POINT = "query point"

Upload = tuple[Sequence[bytes], Words]


class Added(NamedTuple):
    """The outcome of an upload: how many of its reports are new, and how many were stored before."""

    stored: int
    duplicates: int


class Intact(NamedTuple):
    """The findings of `ReportStore.intact`."""

    ids: Bytes  # (n, 16): ids of the reports that are as they were added, ascending
    damaged: int  # how many more were added, and are damaged or lost
    withdrawn: int = 0  # and how many more were withdrawn


class Closing(NamedTuple):
    """When a store was closed for good, and how the last run of a release ended that began since."""

    since: str  # in ISO 8601, UTC
    failed: str  # the type of the error that ended the run; empty if none did


class SealedPoint(NamedTuple):
    """The query point of a collection with proofs, and whether it is used: see `dpmpc.collect.store.query_points`."""

    toss: bytes
    used: bool


class Tally(NamedTuple):
    """How many reports were added, by what became of them; those that were withdrawn give no room back."""

    reports: int  # that are there
    withdrawn: int  # that were there


class ReportStore(Store):
    """The reports of one collection at one server.

    `shape` and `ring` are those of a report's words; with `keys` these are keys, which are expanded in the release. The
    store is of one collection (`digest`) and server, and refuses to be opened for others. A store that was opened with
    ``writer=False`` adds nothing; all else may be called by any process. `ledger` is the folder of the server's ledger.
    """

    workers = 1  # processes that may add at once

    def __init__(
        self,
        digest: bytes,
        server: int,
        shape: tuple[int, int],
        ring: Ring | type[Ring] | str = "ring64",
        *,
        ledger: Path,
        keys: bool = False,
        writer: bool = True,
        most_stored: int = MOST_REPORTS,
    ):
        require_bytes("digest", digest, 32)
        require_whole("most_stored", most_stored, 1)
        if len(shape) != 2 or min(shape) < 1:
            raise InputError("shape", f"{shape} given, copies and width expected, at least 1 each")
        self.shape, self.ring = (shape[0], shape[1]), ring_named(ring)
        self._most_stored, self._writer = most_stored, writer
        copies, width = self.shape
        content = KEYS if keys else self.ring.name
        self._own: dict[str, Any] = {
            "digest": digest.hex(),
            "server": server,
            "copies": copies,
            "width": width,
            "ring": content,
        }
        self._turns = threading.RLock()
        self._tombstones = Tombstones(ledger, digest)

    def add(self, ids: Sequence[bytes], words: Words) -> Added:
        """Store an upload durably before returning."""
        (outcome,) = self.add_all([(ids, words)])
        if isinstance(outcome, ReportConflict):
            raise outcome
        return outcome

    @abc.abstractmethod
    def add_all(self, uploads: Sequence[Upload]) -> list[Added | ReportConflict]:
        """Store several uploads in one transaction: `add` for each, except that a conflict is returned, not raised.

        An upload with a conflict, or with the id of a report that was withdrawn, is left out as a whole. The others are
        stored.
        """

    def withdraw(self, ids: Sequence[bytes]) -> list[Fate]:
        """Put tombstones for reports durably, then overwrite their words; return what became of each.

        Once the reports are announced for a release nothing is changed any more: what was withdrawn before is, and all
        else is too late.
        """
        require_ids(ids)
        with self._turns:
            fates = self._tombstones.bury(ids, self._checksums(ids), self._most_stored // AHEAD_PART)
            if new := [report for report, fate in zip(ids, fates, strict=True) if fate is Fate.NOW]:
                self._overwrite(new)
        return fates

    @abc.abstractmethod
    def room(self, new: int) -> int:
        """Return how many reports this process may add now; more may be found when `new` ask for more."""

    @abc.abstractmethod
    def count_stored(self, ids: Sequence[bytes]) -> int:
        """Count for which of these ids a report, or its tombstone, is here already."""

    @abc.abstractmethod
    def tally(self) -> Tally:
        """Count what was added and withdrawn by all processes."""

    def __len__(self) -> int:
        """Count the reports that were added and not withdrawn."""
        return self.tally().reports

    @abc.abstractmethod
    def ids(self) -> Bytes:
        """Return the ids of all reports in ascending order, (n, 16)."""

    @abc.abstractmethod
    def intact(self) -> Intact:
        """Read the whole store and find the reports that are as they were added."""

    @abc.abstractmethod
    def share(self, ids: Bytes) -> Share:
        """Return this server's share of a batch: one report's words a row, in the order of the ids."""

    @property
    def closed(self) -> bool:
        """Whether `close_for_good` was called, here or elsewhere."""
        with self._turn(alone=False):
            return self._is_closed()

    def close_for_good(self) -> None:
        """Refuse all further reports, for good, in all processes."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with self._turn(alone=True):
            self._refuse_reports()
            if self._get(_CLOSED) is None:
                self._put(_CLOSED, now.encode())

    @property
    def closing(self) -> Closing | None:
        """When it was closed for good, and how a release has gone since; None while it takes reports."""
        with self._turn(alone=False):
            if not self._is_closed():
                return None
            return Closing(*((self._get(name) or b"").decode() for name in (_CLOSED, _FAILED)))

    def note_run(self, failed: str = "") -> None:
        """Record the type of the error that ended a run of the release, or that a new one has begun."""
        with self._turn(alone=True):
            if failed:
                self._put(_FAILED, failed.encode())
            elif self._get(_FAILED) is not None:
                self._forget(_FAILED)

    @abc.abstractmethod
    def usable(self, least_free: int) -> bool:
        """Say whether uploads could be stored now; on a disk of this machine, with so many bytes free."""

    @property
    def announced(self) -> bool:
        """Whether the reports are announced for a release."""
        return self._tombstones.announced

    def announce(self) -> None:
        """Refuse all withdrawals from now on, in all processes, before this server tells others what it has."""
        self._tombstones.announce()

    def take_back_announcement(self) -> None:
        """Take withdrawals again, unless a release has come so far that its batch is fixed."""
        self._tombstones.take_back_announcement()

    def fact(self, name: str) -> bytes | None:
        """Return what was kept about the collection as a whole under this name, or None."""
        with self._turn(alone=False):
            return self._get(name)

    def keep_fact(self, name: str, value: bytes) -> None:
        """Keep something about the collection as a whole durably, in place of what is there."""
        with self._turn(alone=True):
            self._put(name, value)

    def count_at(self, hour: str) -> int:
        """Count the reports once for an hour: all processes that ask give the number that the first one found."""
        count = len(self)
        with self._turn(alone=True):
            kept = (self._get(_COUNTED) or b"").decode().split()
            if kept[:1] == [hour]:
                return int(kept[1])
            self._put(_COUNTED, f"{hour} {count}".encode())
        return count

    def point(self) -> SealedPoint | None:
        """Return the query point that `keep_point` has recorded, or None."""
        kept = self.fact(_POINT)
        return None if kept is None else _point(kept)

    def keep_point(self, toss: bytes, *, used: bool) -> None:
        """Record the query point durably, in place of the one there; `dpmpc.collect.store.query_points` says when."""
        with self._turn(alone=True):
            kept = self._get(_POINT)
            known = None if kept is None else _point(kept)
            if known is not None and known.used and (known.toss != toss or not used):
                raise GuaranteeError(
                    "toss", f"{toss.hex()} given, {known.toss.hex()} expected, which is used, for good"
                )
            if not self._is_closed():
                raise GuaranteeError(
                    "toss", "given for a spool that takes reports, one that is closed for good expected"
                )
            self._put(_POINT, toss + bytes([used]))

    def forbid_points(self, mark: bytes) -> None:
        """Record a mark as the used point, whatever was recorded before."""
        self.keep_fact(_POINT, mark + bytes([True]))

    @abc.abstractmethod
    def _checksums(self, ids: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the checksums of those of some reports that were ever added, by an index."""

    @abc.abstractmethod
    def _overwrite(self, ids: Sequence[bytes]) -> None:
        """Overwrite the words of reports that have tombstones, durably; it may be repeated."""

    @abc.abstractmethod
    def _turn(self, *, alone: bool) -> contextlib.AbstractContextManager[object]:
        """Do what follows as one transaction; `alone` means that no other call, in whatever process, passes it."""

    @abc.abstractmethod
    def _is_closed(self) -> bool:
        """Return, within a turn as the next ones, whether no more reports are stored."""

    @abc.abstractmethod
    def _refuse_reports(self) -> None:
        """Store no more reports from now on."""

    @abc.abstractmethod
    def _get(self, name: str) -> bytes | None:
        """Return a fact."""

    @abc.abstractmethod
    def _put(self, name: str, value: bytes) -> None:
        """Replace a fact."""

    @abc.abstractmethod
    def _forget(self, name: str) -> None:
        """Remove a fact."""

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


class Incoming:
    """The reports of several uploads, one after another."""

    def __init__(self, uploads: Sequence[Upload], shape: tuple[int, int]):
        self.ids = [report for ids, _ in uploads for report in ids]
        self.words = np.concatenate([np.empty((0, *shape), np.uint64), *(words for _, words in uploads)])
        self._sums = split(checksums(np.frombuffer(b"".join(self.ids), ID_TYPE), self.words))
        self._sizes = [len(ids) for ids, _ in uploads]

    def settle(
        self, stored: Mapping[bytes, bytes]
    ) -> tuple[list[Added | ReportConflict], dict[bytes, tuple[bytes, int]]]:
        """Return the outcome of each upload, and checksum and row of the words of what is new.

        `stored` has the checksums, or tombstones, of those of the ids that are known.
        """
        outcomes: list[Added | ReportConflict] = []
        new: dict[bytes, tuple[bytes, int]] = {}
        rows = zip(self.ids, self._sums, range(len(self.ids)), strict=True)
        for size in self._sizes:
            try:
                fresh = _fresh(list(itertools.islice(rows, size)), stored, new)
            except ReportConflict as conflict:
                outcomes.append(conflict)
            else:
                new |= fresh
                outcomes.append(Added(len(fresh), size - len(fresh)))
        return outcomes, new


def require_ids(ids: Sequence[bytes]) -> None:
    """Refuse ids of another length."""
    for index, report in enumerate(ids):
        if len(report) != ID_BYTES:
            raise InputError("ids", f"{len(report)} bytes given as number {index}, {ID_BYTES} expected")


def checksums(ids: NDArray[np.bytes_], block: Words) -> NDArray[np.bytes_]:
    """Return the checksum of each report, over its id and its words."""
    names = np.frombuffer(ids.tobytes(), np.uint8).reshape(-1, ID_BYTES)
    words = np.ascontiguousarray(block).view(np.uint8).reshape(len(block), block.itemsize * math.prod(block.shape[1:]))
    digests = sha256_of_rows(b"", np.concatenate([names, words], axis=1))[:, :CHECKSUM_BYTES]
    return np.ascontiguousarray(digests).view(f"S{CHECKSUM_BYTES}")[:, 0]


def _fresh(
    rows: Sequence[tuple[bytes, bytes, int]], stored: Mapping[bytes, bytes], new: Mapping[bytes, tuple[bytes, int]]
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
        elif known == TOMBSTONE:
            raise Withdrawn("ids", f"{report.hex()} given, which was withdrawn; another one expected")
        elif known != checksum:
            raise ReportConflict("ids", f"{report.hex()} given for other words than before, the same words expected")
    return fresh


def _point(kept: bytes) -> SealedPoint:
    return SealedPoint(kept[:-1], kept[-1:] != b"\0")
