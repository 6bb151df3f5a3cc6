"""Where a server keeps its shares of the reports until the release: words in segments, an index in SQLite.

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
- Files are for their owner alone. Memory does not grow with the words, only with the ids that are asked for.

Not promised: that nobody who may write to the folder changed it. Checksums find a failing disk, not a forger. The
folder must lie on a local disk that keeps its word when it says that data is synced. An unsynced log of SQLite that is
damaged before it is written back can take reports away, which are then lacking at this server; it changes none.

A spool of version 0.1 is given its chain when it is opened first, while nobody else writes to it. Its checksums are
those of the words alone, and stay so.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.collection.chain import START, link
from dpmpc.collection.database import Store, connect, private_folder, transaction, typed_errors
from dpmpc.collection.segments import Segments, npy_header
from dpmpc.encoding.ring import Ring, Words, ring_named
from dpmpc.errors import CollectionClosed, InputError, ReportConflict, SpoolError
from dpmpc.randomness import Label
from dpmpc.sharing.batch import Share

INDEX_FILE, LOCK_FILE = "spool.sqlite", "spool.lock"
ID_BYTES = 16
ID_TYPE = f"S{ID_BYTES}"  # NumPy compares these as a whole, byte by byte
_FIRST_VERSION, _VERSION = 1, 2
_CHECKSUM_BYTES = 8
_SEGMENT_BYTES = 1 << 28
_BLOCK_BYTES = 1 << 26  # of a batch's words that are in memory while it is read
_ROWS_AT_ONCE = 1 << 14  # of the index, or compared with it
_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (version INTEGER, digest TEXT, server INTEGER, copies INTEGER, width INTEGER, "
    "ring TEXT, segment_rows INTEGER, closed INTEGER, checksums TEXT, count INTEGER, chain INTEGER, seal BLOB)",
    "CREATE TABLE IF NOT EXISTS reports (id BLOB PRIMARY KEY, position INTEGER, checksum BLOB) WITHOUT ROWID",
)
_NEW_IN_2 = (
    "ALTER TABLE about ADD COLUMN checksums TEXT",
    "ALTER TABLE about ADD COLUMN count INTEGER",
    "ALTER TABLE about ADD COLUMN chain INTEGER",
    "ALTER TABLE about ADD COLUMN seal BLOB",
)
_ABOUT = (
    "SELECT version, digest, server, copies, width, ring, segment_rows, closed, checksums, count, chain, seal "
    "FROM about"
)
_OLD_ABOUT = "SELECT digest, server, copies, width, ring, segment_rows, closed FROM about"
_SET_ABOUT = (
    "UPDATE about SET version = ?, digest = ?, server = ?, copies = ?, width = ?, ring = ?, segment_rows = ?, "
    "closed = ?, checksums = ?, count = ?, chain = ?, seal = ?"
)
_INDEX = (
    "SELECT id, position, checksum FROM reports WHERE typeof(id) = 'blob' AND length(id) = 16 "
    "AND typeof(position) = 'integer' AND position >= 0 AND typeof(checksum) = 'blob' AND length(checksum) = 8"
)
_INDEX_ROW = np.dtype([("id", ID_TYPE), ("position", "<i8"), ("checksum", f"S{_CHECKSUM_BYTES}")])
_ADVICE = (
    "nothing was sent. Restore spool/ from a copy, an older one will do (reports that came since are then left out), "
    "or release without this server where the shares allow it (docs/deploy.md)"
)


class Added(NamedTuple):
    """What became of an upload: how many of its reports are new, and how many were there already."""

    stored: int
    duplicates: int


class Intact(NamedTuple):
    """What a scrub has found.

    Attributes
    ----------
    ids : ndarray of uint8, shape (n, 16)
        Ids of the reports that are as they were added, ascending.
    damaged : int
        How many more were added, and are damaged or lost.
    """

    ids: NDArray[np.uint8]
    damaged: int


class _About(NamedTuple):
    """What the index says about the spool as a whole."""

    version: int
    digest: str
    server: int
    copies: int
    width: int
    ring: str
    segment_rows: int
    closed: int
    checksums: str
    reports: int
    chain: int

    @property
    def seal(self) -> bytes:
        """A hash of all fields, kept beside them."""
        return link(Label.SPOOL, START, self)


class Spool(Store):
    """The reports of one collection at one server.

    Parameters
    ----------
    folder : path
        Made, with mode 0700, if there is none; its parent must exist.
    digest : bytes
        The collection's, 32 bytes.
    server : int
        Whose shares these are.
    shape : tuple of int
        Shape of a report's words: copies, width.
    ring : Ring, class or name
        Ring or field of the words.
    writer : bool
        Whether to `add`. There is one writer at a time. Without it the spool must be there already.

    Raises
    ------
    SpoolError
        If the spool belongs to another collection or server or holds words of another shape or ring, if there is
        another writer, or if the folder cannot be used or others may look into it.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        digest: bytes,
        server: int,
        shape: tuple[int, int],
        ring: Ring | type[Ring] | str = "ring64",
        *,
        writer: bool = True,
    ):
        if len(digest) != 32:
            raise InputError(f"digest: {len(digest)} bytes given, 32 expected")
        if len(shape) != 2 or min(shape) < 1:
            raise InputError(f"shape: {shape} given, copies and width expected, at least 1 each")
        self.folder, self.shape, self.ring = Path(folder), tuple(shape), ring_named(ring)
        self._turns = threading.Lock()
        self._held: int | None = None
        with typed_errors(self.folder):
            if writer:
                private_folder(self.folder)
                self._held = _hold(self.folder / LOCK_FILE)
            try:
                self._database = connect(self.folder / INDEX_FILE, create=writer)
                try:
                    self._begin(digest, server)
                except BaseException:
                    self._database.close()
                    raise
            except BaseException:
                self._let_go()
                raise

    def _begin(self, digest: bytes, server: int) -> None:
        copies, width = self.shape
        given = (digest.hex(), server, copies, width, self.ring.name)
        if self._held is not None:
            with transaction(self._database):
                for table in _TABLES:
                    self._database.execute(table)
                if self._database.execute("SELECT count(*) FROM about").fetchone() == (0,):
                    rows = max(1, _SEGMENT_BYTES // (8 * copies * width))
                    self._database.execute("INSERT INTO about (version) VALUES (NULL)")
                    self._write_about(_About(_VERSION, *given, rows, 0, "id and words", 0, 0))
        self._migrate()
        about = self._about()
        for name, value, other in zip(_About._fields[1:], given, about[1:], strict=False):
            if value != other:
                raise SpoolError(f"{name}: {value} given, {other} expected by the spool in {self.folder}")
        self._checksum = _CHECKSUMS[about.checksums]
        self._segments = Segments(self.folder, about.segment_rows, (copies, width))
        last = self._database.execute(
            "SELECT max(position) FROM reports WHERE typeof(position) = 'integer'"
        ).fetchone()[0]
        self._next = 0 if last is None else last + 1

    def _migrate(self) -> None:
        """Give a spool of version 0.1 its chain."""
        if self._database.execute("SELECT version FROM about").fetchone() != (_FIRST_VERSION,):
            return
        held = _hold(self.folder / LOCK_FILE) if self._held is None else None
        try:
            with transaction(self._database):
                for statement in _NEW_IN_2:
                    self._database.execute(statement)
                fields = self._database.execute(_OLD_ABOUT).fetchone()
                index = self._index()
                new = ("words", len(index), _chained(index.tobytes(), 0))
                self._write_about(_About._make((_VERSION, *fields, *new)))
        finally:
            if held is not None:
                os.close(held)

    def _about(self) -> _About:
        """Read what the index says about the spool, or refuse one whose description is not as it was written."""
        rows = self._database.execute(_ABOUT).fetchall()
        about = _About._make(rows[0][:-1]) if len(rows) == 1 else None
        if about is None or rows[0][-1] != about.seal:
            raise SpoolError(f"{self.folder}: the spool is damaged: its description changed; {_ADVICE}")
        if about.version != _VERSION:
            raise SpoolError(f"folder: a spool of version {about.version} in {self.folder}, {_VERSION} expected")
        return about

    def _write_about(self, about: _About) -> None:
        self._database.execute(_SET_ABOUT, (*about, about.seal))

    def _index(self) -> NDArray[np.void]:
        """Return the readable rows of the index in the order of their positions."""
        parts = [np.empty(0, _INDEX_ROW)]
        for ids, positions, checksums in self._columns(_INDEX):
            part = np.empty(len(ids), _INDEX_ROW)
            part["id"] = np.frombuffer(b"".join(ids), ID_TYPE)
            part["position"] = positions
            part["checksum"] = np.frombuffer(b"".join(checksums), f"S{_CHECKSUM_BYTES}")
            parts.append(part)
        index = np.concatenate(parts)
        return index[np.argsort(index["position"], kind="stable")]

    def add(self, ids: Sequence[bytes], words: Words) -> Added:
        """Store an upload and return when it will last.

        Parameters
        ----------
        ids : sequence of bytes
            Report ids, 16 bytes each.
        words : ndarray of uint64, shape (m, copies, width)
            Their words.

        Raises
        ------
        ReportConflict
            If an id was used for other words, here or earlier.
        CollectionClosed
            After `close_for_good`.
        SpoolError
            If the disk is full or fails.
        """
        (outcome,) = self.add_all([(ids, words)])
        if isinstance(outcome, ReportConflict):
            raise outcome
        return outcome

    def add_all(self, uploads: Sequence[tuple[Sequence[bytes], Words]]) -> list[Added | ReportConflict]:
        """Store several uploads at the price of one: `add` for each, except that a conflict is returned, not raised.

        An upload with a conflict is left out as a whole. The others are stored.
        """
        checked = [self._checked(ids, words) for ids, words in uploads]
        outcomes: list[Added | ReportConflict] = []
        new: dict[bytes, tuple[bytes, Words]] = {}
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._require_open()
            for ids, words in checked:
                try:
                    fresh = self._fresh(ids, words, new)
                except ReportConflict as conflict:
                    outcomes.append(conflict)
                else:
                    new |= fresh
                    outcomes.append(Added(len(fresh), len(ids) - len(fresh)))
            self._store(new)
        return outcomes

    def close_for_good(self) -> None:
        """Take no more reports, ever; a writer in another process is told when it adds the next."""
        with self._turns, typed_errors(self.folder), transaction(self._database):
            self._write_about(self._about()._replace(closed=1))

    @property
    def closed(self) -> bool:
        """Whether `close_for_good` was called, here or elsewhere."""
        with self._turns, typed_errors(self.folder):
            return self._closed()

    def __len__(self) -> int:
        """Count the reports; this reads the index."""
        with self._turns, typed_errors(self.folder):
            count: int = self._database.execute("SELECT count(*) FROM reports").fetchone()[0]
        return count

    def count_stored(self, ids: Sequence[bytes]) -> int:
        """Count which of these reports are here already; this asks the index for each."""
        with self._turns, typed_errors(self.folder):
            return sum(self._stored(report) is not None for report in ids)

    def ids(self) -> NDArray[np.uint8]:
        """Return the ids of all reports in ascending order, (n, 16)."""
        joined = bytearray()
        with self._turns, typed_errors(self.folder):
            for (ids,) in self._columns("SELECT id FROM reports ORDER BY id"):
                joined += b"".join(ids)
        return np.frombuffer(joined, np.uint8).reshape(-1, ID_BYTES)

    def intact(self) -> Intact:
        """Read the whole spool and find the reports that are as they were added.

        Raises
        ------
        SpoolError
            If the index cannot be read, or is damaged so that no single report can be named.
        """
        with self._turns, typed_errors(self.folder):
            self._database.execute("BEGIN")
            try:
                about, index = self._about(), self._index()
            finally:
                self._database.execute("ROLLBACK")
        good = np.zeros(len(index), np.bool_)
        step = max(1, _BLOCK_BYTES // self._segments.row_bytes)
        for first in range(0, len(index), step):
            good[first : first + step] = self._compare(index[first : first + step])
        damaged = about.reports - int(good.sum())
        if damaged < 0 or (damaged == 0 and _chained(index.tobytes(), 0) != about.chain):
            raise SpoolError(
                f"{self.folder}: the spool is damaged: its {len(index)} reports are not the {about.reports} that were "
                f"added; {_ADVICE}"
            )
        ids = np.unique(index["id"][good])
        return Intact(np.frombuffer(ids.tobytes(), np.uint8).reshape(-1, ID_BYTES), damaged)

    def _compare(self, index: NDArray[np.void]) -> NDArray[np.bool_]:
        """Tell which rows of the index lead to the words that were added; where a file fails, try each half."""
        try:
            block = self._segments.read(index["position"])
        except SpoolError:
            if len(index) == 1:
                return np.zeros(1, np.bool_)
            half = len(index) // 2
            return np.concatenate([self._compare(index[:half]), self._compare(index[half:])])
        return np.array(self._checksum_all(index["id"], block) == index["checksum"], np.bool_)

    def _checksum_all(self, ids: NDArray[np.bytes_], block: Words) -> NDArray[np.bytes_]:
        """Compute what `_checksum` gives for each row, on one buffer: a batch is checked more than once."""
        rows = np.ascontiguousarray(block).view(np.uint8).reshape(len(block), -1)
        if self._checksum is _checksum:
            names = np.frombuffer(ids.tobytes(), np.uint8).reshape(-1, ID_BYTES)
            rows = np.concatenate([names, rows], axis=1)
        data, size, sha256 = rows.reshape(-1).data, rows.shape[1], hashlib.sha256
        content = b"".join([sha256(data[at : at + size]).digest() for at in range(0, len(data), size)])
        digests = np.frombuffer(content, np.uint8).reshape(-1, sha256().digest_size)[:, :_CHECKSUM_BYTES]
        return np.ascontiguousarray(digests).view(f"S{_CHECKSUM_BYTES}")[:, 0]

    def share(self, ids: NDArray[np.uint8]) -> Share:
        """Return this server's share of a batch: one report's words a row, in the order of the ids.

        Parameters
        ----------
        ids : ndarray of uint8, shape (n, 16)
            Ascending, none twice.

        Returns
        -------
        Share
            Shape (n, copies, width). Rows are read when they are asked for, and a `SpoolError` if they are not those
            that were added. It is quick for rows that are asked for in order.

        Raises
        ------
        InputError
            If a report is not in the spool.
        """
        batch = sorted_ids(ids)
        positions = np.full(len(batch), -1, np.int64)
        checksums = np.empty(len(batch), f"S{_CHECKSUM_BYTES}")
        with self._turns, typed_errors(self.folder):
            for found, places, sums in self._columns(_INDEX) if len(batch) else ():
                stored = np.frombuffer(b"".join(found), batch.dtype)
                rows = np.searchsorted(batch, stored).clip(max=len(batch) - 1)
                wanted = batch[rows] == stored
                positions[rows[wanted]] = np.array(places, np.int64)[wanted]
                checksums[rows[wanted]] = np.frombuffer(b"".join(sums), checksums.dtype)[wanted]
        missing = int((positions < 0).sum())
        if missing:
            raise InputError(f"ids: {missing} of {len(batch)} are not in the spool {self.folder}")
        return SpoolShare(self, batch, positions, checksums)

    def close(self) -> None:
        """Let go of the files, so that another writer may open the spool."""
        with self._turns:
            self._database.close()
            self._let_go()

    def _checked(self, ids: Sequence[bytes], words: Words) -> tuple[Sequence[bytes], Words]:
        if self._held is None:
            raise InputError(f"writer: False given for {self.folder}, True expected for adding to it")
        if words.shape != (len(ids), *self.shape):
            raise InputError(f"words: shape {words.shape} given, {(len(ids), *self.shape)} expected")
        for index, report in enumerate(ids):
            if len(report) != ID_BYTES:
                raise InputError(f"ids: {len(report)} bytes given as number {index}, {ID_BYTES} expected")
        return ids, self.ring.require_canonical(words, "words")

    def _closed(self) -> bool:
        return bool(self._about().closed)

    def _require_open(self) -> None:
        if self._closed():
            raise CollectionClosed(f"ids: given for the spool {self.folder}, which was closed for good")

    def _fresh(
        self, ids: Sequence[bytes], words: Words, new: dict[bytes, tuple[bytes, Words]]
    ) -> dict[bytes, tuple[bytes, Words]]:
        """Return checksum and words of those reports of an upload that are neither stored nor among the new ones."""
        fresh: dict[bytes, tuple[bytes, Words]] = {}
        for report, row in zip(ids, words, strict=True):
            checksum = self._checksum(report, row)
            known = fresh.get(report) or new.get(report) or self._stored(report)
            if known is None:
                fresh[report] = checksum, row
            elif known[0] != checksum:
                raise ReportConflict(f"ids: {report.hex()} given for other words than before, the same words expected")
        return fresh

    def _stored(self, report: bytes) -> tuple[bytes] | None:
        row: tuple[bytes] | None = self._database.execute(
            "SELECT checksum FROM reports WHERE id = ?", (report,)
        ).fetchone()
        return row

    def _store(self, new: dict[bytes, tuple[bytes, Words]]) -> None:
        if not new:
            return
        self._segments.write(self._next, np.stack([words for _, words in new.values()]))
        rows = [(report, self._next + row, checksum) for row, (report, (checksum, _)) in enumerate(new.items())]
        self._database.executemany("INSERT INTO reports VALUES (?, ?, ?)", rows)
        about = self._about()
        content = np.array(rows, _INDEX_ROW).tobytes()
        self._write_about(about._replace(reports=about.reports + len(rows), chain=_chained(content, about.chain)))
        # Should the commit fail, these rows are not used again: after a crash it may turn out to have succeeded.
        self._next += len(new)

    def _columns(self, query: str) -> Iterator[tuple[tuple[Any, ...], ...]]:
        """Yield a query's columns, some rows at a time."""
        cursor = self._database.execute(query)
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield tuple(zip(*rows, strict=True))

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None


class SpoolShare(Share):
    """A share whose rows are gathered from the segments of a spool, a block of consecutive ones at a time.

    A batch is in the order of the ids, and the segments are in the order in which reports came in. So every block goes
    through the segments once, and its rows are near one another there. What is read is compared with its checksums.
    Threads may not share it.
    """

    def __init__(
        self, spool: Spool, ids: NDArray[np.bytes_], positions: NDArray[np.int64], checksums: NDArray[np.bytes_]
    ):
        self._spool, self._segments = spool, spool._segments
        self.shape, self.ring = (len(positions), *self._segments.shape), spool.ring
        self._ids, self._positions, self._checksums = ids, positions, checksums
        self._first, self._block = 0, np.empty((0, *self._segments.shape), np.uint64)

    def _rows(self, first: int, count: int) -> Words:
        if first < self._first or first + count > self._first + len(self._block):
            self._load(first, max(count, _BLOCK_BYTES // self._segments.row_bytes))
        return self._block[first - self._first :][:count]

    def _load(self, first: int, count: int) -> None:
        self._first, self._block = first, self._block[:0].copy()  # the old block's memory goes to the new one
        block = self._segments.read(self._positions[first : first + count])
        for start in range(first, first + len(block), _ROWS_AT_ONCE):
            rows = slice(start, min(start + _ROWS_AT_ONCE, first + len(block)))
            found = self._spool._checksum_all(self._ids[rows], block[rows.start - first : rows.stop - first])
            if (found != self._checksums[rows]).any():
                where = f"rows from {start} on, of {len(self._positions)} in the batch,"
                raise SpoolError(
                    f"segments: {where} are not as they were added; the next run finds and leaves out those that are "
                    "damaged, unless other servers have begun to open this batch"
                )
        self._block = block

    def write(self, file: IO[bytes]) -> None:
        """Write the rows as ``.npy``."""
        file.write(npy_header(self.shape))
        step = max(1, _BLOCK_BYTES // self._segments.row_bytes)
        for first in range(0, self.shape[0], step):
            file.write(self.rows(first, min(step, self.shape[0] - first)).data)


def as_strings(ids: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """View ids (n, 16) as n strings."""
    return np.ascontiguousarray(ids).view(ID_TYPE)[:, 0]


def sorted_ids(ids: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Return a batch's ids as an array of 16-byte strings, or refuse ids that are not in ascending order."""
    if ids.dtype != np.uint8 or ids.ndim != 2 or ids.shape[1] != ID_BYTES:
        raise InputError(f"ids: {ids.dtype} of shape {ids.shape} given, uint8 of shape (n, {ID_BYTES}) expected")
    strings = as_strings(ids)
    if not (strings[:-1] < strings[1:]).all():
        raise InputError("ids: not in order or not distinct, ascending and distinct ids expected")
    return strings


def _checksum_of_words(report: bytes, words: Words) -> bytes:
    return hashlib.sha256(words.data).digest()[:_CHECKSUM_BYTES]


def _checksum(report: bytes, words: Words) -> bytes:
    return hashlib.sha256(report + words.tobytes()).digest()[:_CHECKSUM_BYTES]


_CHECKSUMS: dict[str, Callable[[bytes, Words], bytes]] = {"words": _checksum_of_words, "id and words": _checksum}


def _chained(content: bytes, before: int) -> int:
    """Go on with a checksum over rows of the index, which depends on all rows before them."""
    return zlib.crc32(content, before)


def _hold(path: Path) -> int:
    """Lock a file for as long as it is open; the system unlocks it when the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise SpoolError(f"folder: another process writes to the spool {path.parent}, one writer expected") from None
    return descriptor
