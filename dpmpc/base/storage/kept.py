"""Keep what a party has sent or is about to send, so that a repetition sends the same again.

A party that drew fresh noise each time would give its rows away: the mean of many answers has little noise left. And a
party that forgot what the others had committed to would let them choose anew, once they know what it sent. So coins,
noisy words, nonces and the others' commitments are written down before anything that depends on them is sent.

`Kept` is a table of an SQLite database, with a value for each name and the SHA-256 of the value. One *seal*, in a table
next to it, is a hash of all names and all hashes. `keep_alone` makes the file of a party that takes part in one run.

`keep_alone` also leaves a *mark* in the folder, an empty file that outlasts `kept.sqlite`: it shows that it was lost.

Promised:

- What a call has written is on the disk when it returns, all of it or, after a crash or a loss of power, all or none.
  A call inside a transaction on the same connection becomes part of that.
- `once` and `words` return the same bytes whenever they are called, `first` takes no second commitment of a party, and
  `count` counts what begins before it begins.
- A name or a value that changed on the disk, or is gone, is refused by the call that needs it, and nothing replaces it.
  `scrub` reads everything. A changed bit accuses nobody else.
- One process at a time writes. The file of `keep_alone` belongs to one process until it ends, and to one purpose for
  good: a folder that has answered for one agreement answers for no other.
- A file of `keep_alone` that was deleted or emptied is refused as long as its mark is there, which this party itself
  wrote before anything was sent.

Not promised: anything about a file that was deleted together with its mark, that a forger changed, or that was *put
back*: an older copy has a seal that fits, and does not hold what was sent since. Do not restore one. What still
protects then is what lies elsewhere: the other parties refuse a party that commits to something else than they have
kept of it (additive shares, mixed releases, data owners); the query point of a collection lies in spool and ledger; a
budget ledger has its own file; and the other servers' ledgers refuse reports that were opened, if one of them is
honest.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from dpmpc.base.arrays import Words
from dpmpc.base.errors import BatchMismatch, InputError, ProtocolFailure, SpoolError
from dpmpc.base.randomness import Label
from dpmpc.base.storage.database import CHAIN_START, Store, Turns, connect, link, transaction, typed_errors
from dpmpc.base.storage.files import write_private

KEPT_FILE, MARK_FILE = "kept.sqlite", "kept.mark"
ADVICE = "keep the file and treat it as lost; an older copy may have forgotten what was sent, and nothing replaces it"
_PURPOSE = "purpose"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, digest BLOB, value BLOB)",
    "CREATE TABLE IF NOT EXISTS kept_seal (seal BLOB)",
)
_COUNT_TABLES = "SELECT count(*) FROM sqlite_master WHERE name IN ('kept', 'kept_seal')"
_PUT = "INSERT OR REPLACE INTO kept (name, digest, value) VALUES (?, ?, ?)"


class Kept(Store):
    """Values by name, in one database; `place` and `advice` are for errors."""

    def __init__(self, database: sqlite3.Connection, place: Path, advice: str = ADVICE):
        self._database, self._place, self._advice = database, place, advice

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def names(self) -> list[str]:
        """Return the names under which something is kept, ascending."""
        with self._turn("DEFERRED"):
            return list(self._digests())

    def get(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None."""
        with self._turn("DEFERRED"):
            return self._value(name, self._digests())

    def put(self, values: Mapping[str, bytes]) -> None:
        """Keep values, all or none, instead of those that are there."""
        with self._turn():
            self._write(self._digests(), values)

    def forget(self, names: Iterable[str]) -> None:
        """Forget values, all or none; a name that is not there is passed over."""
        with self._turn():
            digests = self._digests()
            gone = [name for name in names if name in digests]
            if gone:
                self._database.executemany("DELETE FROM kept WHERE name = ?", [(name,) for name in gone])
                self._seal({name: digest for name, digest in digests.items() if name not in gone})

    def once(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return what is kept under a name; the first time, make it and keep it before it is returned."""
        value = self.get(name)
        if value is not None:
            return value
        made = make()
        with self._turn():
            digests = self._digests()
            if name not in digests:  # else another process was faster, and its value counts
                self._write(digests, {name: made})
                return made
            kept = self._value(name, digests)
        assert kept is not None
        return kept

    def words(self, name: str, shape: tuple[int, ...], make: Callable[[], Words] | None = None) -> Words:
        """Return words that are kept, or are made and kept once; refuse those of another shape."""
        raw = self.get(name) if make is None else self.once(name, lambda: as_bytes(make()))
        if raw is None or len(raw) != 8 * math.prod(shape):
            found = "nothing" if raw is None else f"{len(raw)} bytes"
            raise self.damaged(f"{found} kept as {name!r}, words of shape {shape} expected")
        return np.frombuffer(raw, "<u8").astype(np.uint64).reshape(shape)

    def first(
        self,
        what: str,
        given: Mapping[int, bytes],
        *,
        party: str = "party",
        final: bool = True,
        error: type[ProtocolFailure] = BatchMismatch,
    ) -> None:
        """Keep what all parties commit to, or refuse one that had not, or had committed to something else, before.

        With ``final=False`` the latest commitments count, instead of the first ones.
        """
        told = {f"{what} of {party} {number}": one for number, one in given.items()}
        with self._turn():
            digests = self._digests()
            begun = final and any(name.startswith(f"{what} of {party} ") for name in digests)
            for number, (name, one) in zip(given, told.items(), strict=True):
                if begun and digests.get(name) != _digest(one):
                    raise error(
                        f"{party} {number} commits to another {what} than in an earlier run, when it may have seen "
                        "those of the others since; or it has lost its folder, and can only take part with the one "
                        "that it had",
                        number,
                    )
            self._write(digests, {name: one for name, one in told.items() if digests.get(name) != _digest(one)})

    def count(self, what: str, most: int, why: str) -> None:
        """Count one more of what is about to begin, of which at most so many may; `why` is for the error."""
        with self._turn():
            digests = self._digests()
            done = int.from_bytes(self._value(what, digests) or b"", "little")
            if done >= most:
                raise InputError(
                    "folder",
                    f"{self._place.parent.name!r} given, in which {done} {what} have begun, fewer than "
                    f"{most} expected: {why}",
                )
            self._write(digests, {what: (done + 1).to_bytes(4, "little")})

    def scrub(self) -> None:
        """Read everything, and refuse it if a bit has changed since it was kept."""
        with self._turn("DEFERRED"):
            digests = self._digests()
            for name in digests:
                self._value(name, digests)

    def damaged(self, what: str) -> SpoolError:
        """Return the error that states what is not as it was kept."""
        return SpoolError(self._place, f"damaged: {what}; {self._advice}")

    @contextlib.contextmanager
    def _turn(self, kind: Turns = "IMMEDIATE") -> Iterator[None]:
        """Take part in the transaction of the caller, or begin and commit one."""
        with typed_errors(self._place):
            if self._database.in_transaction:
                yield
            else:
                with transaction(self._database, kind):
                    yield

    def _digests(self) -> dict[str, bytes]:
        """Return the hash of each value by its name, ascending, if they are those of the seal."""
        (tables,) = self._database.execute(_COUNT_TABLES).fetchone()
        if tables == 0:  # made with the first value, so that a database without any stays as it was
            return {}
        seals = self._database.execute("SELECT seal FROM kept_seal").fetchall() if tables == 2 else []
        rows = self._database.execute("SELECT name, digest FROM kept ORDER BY name").fetchall() if seals else []
        if seals != [(_sealed(rows),)]:
            raise self.damaged("names or hashes are not those that were sealed")
        return dict(rows)

    def _value(self, name: str, digests: Mapping[str, bytes]) -> bytes | None:
        if name not in digests:
            return None
        (value,) = self._database.execute("SELECT value FROM kept WHERE name = ?", (name,)).fetchone() or (None,)
        if not isinstance(value, bytes) or _digest(value) != digests[name]:
            raise self.damaged(f"{name!r} changed since it was kept")
        return value

    def _write(self, digests: Mapping[str, bytes], values: Mapping[str, bytes]) -> None:
        if not values:
            return
        for table in _TABLES:
            self._database.execute(table)
        self._database.executemany(_PUT, [(name, _digest(value), value) for name, value in values.items()])
        self._seal({**digests, **{name: _digest(value) for name, value in values.items()}})

    def _seal(self, digests: Mapping[str, bytes]) -> None:
        self._database.execute("DELETE FROM kept_seal")
        self._database.execute("INSERT INTO kept_seal VALUES (?)", (_sealed(sorted(digests.items())),))


def keep_alone(folder: Path, purpose: str) -> Kept:
    """Open the file of a party's private folder for this process alone, and for one purpose for good.

    The purpose is a digest of what was agreed on. Another process that uses the folder, a folder that was used for
    something else, and one that has lost its file are an `InputError`.
    """
    require_kept(folder)
    kept = _open_alone(folder)
    try:
        known = kept.get(_PURPOSE)
        if known is None and (folder / MARK_FILE).exists():
            raise _lost(folder)
        if known is None:
            known = kept.once(_PURPOSE, purpose.encode)
        if known != purpose.encode():
            raise InputError(
                "folder",
                f"{folder.name!r} given, which was used for {known[:16].decode()}..., {purpose[:16]}... "
                "expected: another answer about the same rows spends further budget",
            )
        if not (folder / MARK_FILE).exists():  # after what it stands for: after a crash in between the folder goes on
            with typed_errors(folder):
                write_private(folder / MARK_FILE, b"")
    except BaseException:
        kept.close()
        raise
    return kept


def _open_alone(folder: Path) -> Kept:
    path = folder / KEPT_FILE
    try:
        with typed_errors(path):
            database = connect(path, create=True, journal="DELETE", patience=0)
            try:
                database.execute("PRAGMA locking_mode = EXCLUSIVE")  # from the next transaction on, until it is closed
                with transaction(database, "EXCLUSIVE"):
                    return Kept(database, path)
            except BaseException:
                database.close()
                raise
    except SpoolError as error:
        if getattr(error.__cause__, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise InputError("folder", f"{folder.name!r} given, which another process is using") from None
        raise


def has_kept(folder: Path, name: str) -> bool:
    """Return whether a party's folder, which no process is using, keeps something under a name."""
    if not (folder / KEPT_FILE).exists():
        return False
    with _open_alone(folder) as kept:
        return kept.get(name) is not None


def require_kept(folder: Path) -> None:
    """Refuse a party's folder that has lost what it kept."""
    if (folder / MARK_FILE).exists() and not (folder / KEPT_FILE).exists():
        raise _lost(folder)


def _lost(folder: Path) -> InputError:
    return InputError(
        "folder",
        f"{folder.name!r} given, whose {KEPT_FILE} was removed or emptied since this folder began to take "
        f"part ({MARK_FILE} says so): what it has sent cannot be sent again, and nothing replaces it. "
        "Whoever prepares anew answers about the same rows with other noise, which spends further budget",
    )


def as_bytes(words: Words) -> bytes:
    """Return words as they are kept: 64 bits little-endian, row by row."""
    return np.ascontiguousarray(words, "<u8").tobytes()


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def _sealed(rows: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the seal of rows in the order of their names: a hash of all of them, each field with type and length."""
    return link(Label.KEPT, CHAIN_START, itertools.chain.from_iterable(rows))
