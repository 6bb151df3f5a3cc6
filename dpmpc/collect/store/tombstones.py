"""Remember at a server which reports were withdrawn, and that the others are announced; an old copy undoes neither.

A spool may be lost or put back to an older state, the ledger never is. So both facts are in the ledger's file: a
*tombstone* for each report that was withdrawn here, by its id, and whether the reports of the collection are announced
for a release. The words of a report are in the spool, and are overwritten after its tombstone is there:

==================  =======================  ===============================================================
durable             the spool states what this server does
==================  =======================  ===============================================================
nothing             the report is there      gather it for a release
the tombstone       the report is there      leave it out; overwrite its words when the spool is opened next
the tombstone       its words are gone       leave it out
==================  =======================  ===============================================================

So a crash in between leaves the report out, and so does a spool that was put back. A report may also come after its
withdrawal, through a door's outbox. So the id of a report that has not come gets a tombstone, too, with ``came = 0``:
as many as an allowance has room for, since any client can send secrets that belong to no report.

Promised:

- Once `bury` has returned "withdrawn", in whatever process, the tombstone is there for good, through a crash or a loss
  of power.
- `bury` and `announce` exclude one another: what is withdrawn has its tombstone before the announcement, and nothing is
  withdrawn after it. An announcement is taken back only while no release of the collection is sealed.
- A lookup reads an index, and no more than the ids that are asked for: its cost does not grow with what is stored.
- Whatever bit of a tombstone changes, `ids` refuses, which every release asks before it states anything: besides the
  tombstones are their number and the sum of their hashes.

- A ledger that was deleted or put back is refused if the store has overwritten the words of more reports than
  it has tombstones. The reverse is a crash in between, or a store that was put back.

Not promised: that any other loss is noticed, as where both were put back (`dpmpc.collect.store.ledger`).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_bytes
from dpmpc.base.errors import SpoolError
from dpmpc.base.storage.database import Store, connect, private_folder, transaction, typed_errors
from dpmpc.base.storage.kept import Kept
from dpmpc.collect.store.ledger_tables import ADVICE, LEDGER_FILE, LedgerTables, ReleaseRow
from dpmpc.collect.terms.withdrawal_verdict import Fate
from dpmpc.collect.upload.report_ids import ID_BYTES, ID_TYPE, found_in, split

_ALL = "SELECT id FROM tombstones WHERE collection = ? AND came = ? ORDER BY id"
_ONE = "SELECT came FROM tombstones WHERE collection = ? AND id = ?"
_BURY = "INSERT OR REPLACE INTO tombstones (collection, id, came) VALUES (?, ?, ?)"
_HASHES = 1 << 256
_IDENTITY = "identity"  # under which a ledger keeps 16 random bytes of its own


class TombstoneSum(NamedTuple):
    """What is kept next to the tombstones of a collection, by which a change to one of them is noticed."""

    number: int = 0
    hashes: int = 0  # their sum, which does not depend on an order

    def plus(self, collection: bytes, ids: Iterable[bytes]) -> TombstoneSum:
        """Return the sum with further tombstones."""
        hashes = _hashes(collection, ids)
        return TombstoneSum(self.number + len(hashes), (self.hashes + sum(hashes)) % _HASHES)

    def minus(self, collection: bytes, ids: Iterable[bytes]) -> TombstoneSum:
        """Return the sum without some tombstones that are in it."""
        hashes = _hashes(collection, ids)
        return TombstoneSum(self.number - len(hashes), (self.hashes - sum(hashes)) % _HASHES)

    def to_bytes(self) -> bytes:
        """Return the sum as it is kept."""
        return self.number.to_bytes(8, "little") + self.hashes.to_bytes(32, "little")

    @classmethod
    def from_bytes(cls, kept: bytes | None) -> TombstoneSum:
        """Return a sum that was kept; of no tombstones if none was."""
        return cls() if kept is None else cls(int.from_bytes(kept[:8], "little"), int.from_bytes(kept[8:], "little"))


def _hashes(collection: bytes, ids: Iterable[bytes]) -> list[int]:
    return [int.from_bytes(hashlib.sha256(collection + report).digest(), "little") for report in ids]


class Tombstones(Store):
    """The withdrawals of one collection at one server, in the folder of its ledger."""

    def __init__(self, ledger: Path, collection: bytes):
        self._folder, self._collection = ledger, require_bytes("collection", collection, 32)
        self._turns = threading.Lock()
        self._batches: tuple[int, list[NDArray[np.bytes_]]] = -1, []  # of releases, and of which state of the file
        with typed_errors(ledger):
            private_folder(ledger)
            self._database = connect(ledger / LEDGER_FILE, create=True, journal="DELETE")
            try:
                self._tables = LedgerTables(self._database, ledger)
                self._kept = Kept(self._database, ledger / LEDGER_FILE, ADVICE)
            except BaseException:
                self._database.close()
                raise

    def bury(self, ids: Sequence[bytes], here: Container[bytes], allowance: int = 0) -> list[Fate]:
        """Put tombstones for some ids, durably; return what became of each.

        `here` holds those that the spool has. Of the others as many get one as the collection's `allowance` has room
        for.
        """
        with self._turns, typed_errors(self._folder), transaction(self._database):
            buried, late = self._came(ids), self._is_announced()
            released = self._released(ids) if late else set()  # of which a spool that was put back knows nothing
            fates = []
            for one in ids:
                if buried.get(one):
                    fates.append(Fate.BEFORE)
                elif one in here or one in released:  # a tombstone is older than any announcement
                    fates.append(Fate.LATE if late and one not in buried else Fate.NOW)
                else:
                    fates.append(Fate.NEVER)
            came = {one for one, fate in zip(ids, fates, strict=True) if fate is Fate.NOW}
            ahead = [one for one, fate in zip(ids, fates, strict=True) if fate is Fate.NEVER and one not in buried]
            left = 0 if late else max(0, allowance - self._sum(came=False).number)
            self._put(came, set(list(dict.fromkeys(ahead))[:left]), promoted=came & buried.keys())
        return fates

    def among(self, ids: Iterable[bytes]) -> set[bytes]:
        """Return which of some reports are never stored here: they were withdrawn, before or after they came."""
        with self._turns, typed_errors(self._folder), transaction(self._database, "DEFERRED"):
            if not (self._sum(came=True).number or self._sum(came=False).number):  # most collections have none
                return set()
            return set(self._came(ids))

    def sum(self) -> TombstoneSum:
        """Return number and hashes of the tombstones of reports that came, as they are kept next to them."""
        with self._turns, typed_errors(self._folder), transaction(self._database, "DEFERRED"):
            return self._sum(came=True)

    def ledger_identity(self) -> bytes:
        """Return 16 bytes that the ledger drew when it was new; a copy of it has the same."""
        with self._turns, typed_errors(self._folder):
            return self._kept.once(_IDENTITY, lambda: os.urandom(16))

    def require_at_least(self, overwritten: int, place: object) -> None:
        """Refuse a ledger that holds fewer withdrawals than a store has carried out, a number read before this."""
        known = self.sum().number
        if known < overwritten:
            raise SpoolError(
                "ledger",
                f"{known} withdrawals from collection {self._collection.hex()} in {self._folder}, at least "
                f"{overwritten} expected, for so many reports were overwritten in {place}: this ledger is "
                "new, or older. If the one that belongs here is elsewhere, as where a link to it is "
                f"missing, put it in place; else: {ADVICE}",
            )

    def ids(self, *, came: bool = False) -> NDArray[np.bytes_]:
        """Return the ids of all tombstones, or of reports that came, ascending, once they agree with their sums.

        A spool leaves out all of them, and overwrites the words of those that came.
        """
        found: list[bytes] = []
        with self._turns, typed_errors(self._folder), transaction(self._database, "DEFERRED"):
            for kind in [True] if came else [True, False]:
                ids = [one for (one,) in self._database.execute(_ALL, (self._collection, kind))]
                whole = all(isinstance(one, bytes) and len(one) == ID_BYTES for one in ids)
                if not whole or TombstoneSum().plus(self._collection, ids) != self._sum(came=kind):
                    raise self._tables.damaged(f"the withdrawals of collection {self._collection.hex()}")
                found += ids
        return np.sort(np.frombuffer(b"".join(found), ID_TYPE))

    @property
    def announced(self) -> bool:
        """Whether the reports are announced for a release."""
        with self._turns, typed_errors(self._folder), transaction(self._database, "DEFERRED"):
            return self._is_announced()

    def announce(self) -> None:
        """Refuse all withdrawals from now on, in all processes."""
        with self._turns, typed_errors(self._folder), transaction(self._database):
            self._kept.put({self._name("announcement"): b"1"})

    def take_back_announcement(self) -> bool:
        """Take withdrawals again unless a release of the collection is sealed; return whether they are taken."""
        with self._turns, typed_errors(self._folder), transaction(self._database):
            if self._releases():
                return False
            if self._is_announced():
                self._kept.forget([self._name("announcement")])
            return True

    def close(self) -> None:
        """Close the file."""
        with self._turns:
            self._database.close()

    def _name(self, what: str) -> str:
        return f"{what} of collection {self._collection.hex()}"

    def _is_announced(self) -> bool:
        return self._kept.get(self._name("announcement")) is not None

    def _sum(self, *, came: bool) -> TombstoneSum:
        return TombstoneSum.from_bytes(self._kept.get(self._sum_name(came)))

    def _sum_name(self, came: bool) -> str:
        return self._name("tombstones" if came else "tombstones ahead")

    def _put(self, came: set[bytes], ahead: set[bytes], *, promoted: set[bytes]) -> None:
        """Write tombstones and their sums; `promoted` are those whose report has come since they were written."""
        for ids, kind in ((came, True), (ahead, False)):
            self._database.executemany(_BURY, [(self._collection, one, kind) for one in ids])
        changed = {True: self._sum(came=True).plus(self._collection, came)}
        if ahead or promoted:
            earlier = self._sum(came=False).minus(self._collection, promoted)
            changed[False] = earlier.plus(self._collection, ahead)
        if came or ahead:
            self._kept.put({self._sum_name(kind): sums.to_bytes() for kind, sums in changed.items()})

    def _released(self, ids: Sequence[bytes]) -> set[bytes]:
        """Return which of some reports are in a release of the collection that is sealed, or came further."""
        (version,) = self._database.execute("PRAGMA data_version").fetchone()  # another process may have sealed one
        if self._batches[0] != version:
            self._batches = version, [self._tables.ids(one) for one in self._releases()]
        asked = np.frombuffer(b"".join(ids), ID_TYPE)
        return {one for batch in self._batches[1] for one in split(asked[found_in(batch, asked)])}

    def _releases(self) -> list[ReleaseRow]:
        """Return the releases of the collection that the ledger holds."""
        own = self._collection.hex()
        return [one for one in self._tables.releases() if json.loads(one.manifest).get("collection") == own]

    def _came(self, ids: Iterable[bytes]) -> dict[bytes, bool]:
        """Return, for those of some ids that have a tombstone, whether the report came."""
        found = ((one, self._database.execute(_ONE, (self._collection, one)).fetchone()) for one in ids)
        return {one: bool(row[0]) for one, row in found if row is not None}
