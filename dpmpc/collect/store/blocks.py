"""Write and read the blocks of a store of reports: ids, checksums and words, by bins.

Bin b of 2^k has the ids whose first k bits are b. A *block* holds what one commit brings to a bin, at most a mebibyte
of words: one row of the table ``ids`` and one of ``words``, with the same number, b 2^40 + p, where p is the number of
reports that were stored before, in whatever bin. So the blocks of a bin are one range of numbers, in which they ascend
in the order of their coming, and the first copy of an id is the one that counts.

A checksum is the first 8 bytes of SHA-256(id || words). Reading compares it each time.

A *span* is as many bins as hold about 16,384 reports, or one bin that holds more. The ids of one span are read at once,
and the words of the reports of some 4 MiB of blocks.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Integers, Words
from dpmpc.base.digests import sha256_of_rows
from dpmpc.base.errors import ReportConflict, SpoolError, Withdrawn
from dpmpc.collect.store.store_description import ReportDatabase, UnreadableRows
from dpmpc.collect.upload.report_ids import ID_BYTES, ID_TYPE, cut_at, split
from dpmpc.linear.encoding.ring import Ring
from dpmpc.linear.sharing.batch import Share

CHECKSUM_BYTES = 8
MOST_REPORTS = 1 << 40
_CHECKSUM_TYPE = "<u8"
_BLOCK_BYTES = 1 << 20  # of words in one row
_PAGE_BYTES = 1 << 22  # of words that are read at once
_HASHED_BYTES = 1 << 20  # at once
_SPAN_REPORTS = 1 << 14
_SHARE_BYTES = 1 << 25  # of words of a share that are held in memory
_RECENT = 1 << 16  # ids in one generation of `RecentReports`

Upload = tuple[Sequence[bytes], Words]
Span = tuple[int, int]  # the first number, and the one after the last


class Added(NamedTuple):
    """The outcome of an upload: how many of its reports are new, and how many were stored before."""

    stored: int
    duplicates: int


class Incoming:
    """The reports of several uploads, one after another."""

    def __init__(self, uploads: Sequence[Upload], shape: tuple[int, int]):
        self.ids = [report for ids, _ in uploads for report in ids]
        self.words = np.concatenate([np.empty((0, *shape), np.uint64), *(words for _, words in uploads)])
        self.names = np.frombuffer(b"".join(self.ids), ID_TYPE)
        self.checksums = checksums(self.names, self.words)
        self._sizes = [len(ids) for ids, _ in uploads]

    def settle(self, recent: RecentReports, withdrawn: set[bytes]) -> tuple[list[Added | ReportConflict], Integers]:
        """Return the outcome of each upload, and the rows of the new reports."""
        if len(set(self.ids)) == len(self.ids) and not withdrawn and not recent.any_of(self.ids):
            return [Added(size, 0) for size in self._sizes], np.arange(len(self.ids))
        outcomes: list[Added | ReportConflict] = []
        new: dict[bytes, int] = {}
        first = 0
        for size in self._sizes:
            rows = range(first, first := first + size)
            try:
                fresh = self._fresh(rows, recent, withdrawn, new)
            except ReportConflict as conflict:
                outcomes.append(conflict)
            else:
                new |= fresh
                outcomes.append(Added(len(fresh), size - len(fresh)))
        return outcomes, np.array(list(new.values()), np.int64)

    def _fresh(
        self, rows: range, recent: RecentReports, withdrawn: set[bytes], new: Mapping[bytes, int]
    ) -> dict[bytes, int]:
        """Return the rows of those reports of an upload that are neither stored nor among the new ones."""
        fresh: dict[bytes, int] = {}
        for row in rows:
            report = self.ids[row]
            if report in withdrawn:
                raise Withdrawn("ids", f"{report.hex()} given, which was withdrawn; another one expected")
            earlier = fresh.get(report, new.get(report))
            known = recent.get(report) if earlier is None else self.checksums[earlier]
            if known is None:
                fresh[report] = row
            elif known != self.checksums[row]:
                raise ReportConflict(
                    "ids", f"{report.hex()} given for other words than before, the same words expected"
                )
        return fresh


class RecentReports:
    """The checksums of the reports that a process has stored last, by their ids, in two generations."""

    def __init__(self) -> None:
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}

    def get(self, report: bytes) -> int | None:
        """Return the checksum of a report; None if it is not among them."""
        young = self._young.get(report)
        return self._old.get(report) if young is None else young

    def any_of(self, ids: Sequence[bytes]) -> bool:
        """Return whether any of some reports is among them."""
        return not (self._young.keys().isdisjoint(ids) and self._old.keys().isdisjoint(ids))

    def put(self, ids: Sequence[bytes], sums: NDArray[np.uint64]) -> None:
        """Take in reports; forget the oldest where they are too many."""
        if len(self._young) >= _RECENT:
            self._old, self._young = self._young, {}
        self._young.update(zip(ids, sums.tolist(), strict=True))

    def add(self, incoming: Incoming, rows: Integers) -> None:
        """Take in the new reports of some uploads."""
        self.put([incoming.ids[row] for row in rows.tolist()], incoming.checksums[rows])


class Entries(NamedTuple):
    """The ids and checksums of a span, in the order of their blocks."""

    ids: NDArray[np.bytes_]  # (n,)
    checksums: NDArray[np.uint64]  # (n,)
    numbers: Integers  # (n,): of the blocks
    rows: Integers  # (n,): in the blocks

    def __len__(self) -> int:
        return len(self.ids)

    def first_ids(self) -> NDArray[np.bytes_]:
        """Return the different ids, ascending."""
        return np.unique(self.ids)

    def total(self) -> int:
        """Return the sum of the checksums modulo 2^64."""
        return int(self.checksums.sum())

    def firsts(self, ids: NDArray[np.bytes_]) -> tuple[Entries, NDArray[np.bool_]]:
        """Return the first entry of each of some ids, which ascend, and whether there is one."""
        if not len(self):
            return self, np.zeros(len(ids), np.bool_)
        order = np.argsort(self.ids, kind="stable")
        chosen = order[np.searchsorted(self.ids[order], ids).clip(max=len(self) - 1)]
        found = Entries(self.ids[chosen], self.checksums[chosen], self.numbers[chosen], self.rows[chosen])
        return found, np.asarray(found.ids == ids, np.bool_)


class Page(NamedTuple):
    """Some of the reports that were asked for."""

    places: Integers  # (n,): their places among the ids
    words: Words  # (n, copies, width): zero where they are not as they were added
    fits: NDArray[np.bool_]  # (n,): which are


class BlockTables:
    """The tables of ids and words, on a connection to their database.

    Calls are within a turn, except for `pages` and `read`, which take turns of their own.
    """

    def __init__(self, database: ReportDatabase, shape: tuple[int, int], bins: int):
        self._database, self.shape, self._bins = database, shape, bins
        self.place = database.place
        self._row_bytes = 8 * math.prod(shape)

    def insert(self, incoming: Incoming, rows: Integers, before: int) -> int:
        """Insert new reports, `before` of which others were stored; return the sum of their checksums."""
        bins = self._bins_of(incoming.names[rows])
        order = np.argsort(bins, kind="stable")
        rows, bins = rows[order], bins[order]
        most = max(1, _BLOCK_BYTES // self._row_bytes)
        cuts = [cut for first, last in _runs(bins) for cut in range(first, last, most)]
        ids, words = [], []
        for first, last in zip(cuts, [*cuts[1:], len(rows)], strict=True):
            number, part = (int(bins[first]) << 40) + before + first, rows[first:last]
            ids.append((number, incoming.names[part].tobytes(), incoming.checksums[part].tobytes()))
            words.append((number, incoming.words[part].tobytes()))
        self._database.insert("INSERT INTO ids VALUES (?, ?, ?)", ids)
        self._database.insert("INSERT INTO words VALUES (?, ?)", words)
        return int(incoming.checksums[rows].sum())

    def _bins_of(self, ids: NDArray[np.bytes_]) -> Integers:
        first = np.frombuffer(ids.tobytes(), ">u2").reshape(-1, ID_BYTES // 2)[:, 0].astype(np.int64)
        return first * self._bins >> 16

    def spans(self, reports: int) -> Iterator[Span]:
        """Cut the bins, of which all together hold so many reports."""
        step = max(1, min(self._bins, self._bins * _SPAN_REPORTS // max(1, reports)))
        for first in range(0, self._bins, step):
            yield first << 40, min(first + step, self._bins) << 40

    def cut(self, ids: NDArray[np.bytes_], spans: Sequence[Span]) -> list[NDArray[np.bytes_]]:
        """Cut ascending ids into those of each of all spans."""
        return np.split(ids, cut_at(ids, ((number >> 40 << 16) // self._bins for number, _ in spans[1:])))

    def entries(self, span: Span) -> Entries:
        """Return the readable entries of a span."""
        found = self._database.execute(
            "SELECT number, ids, checksums FROM ids WHERE number >= ? AND number < ? ORDER BY number", *span
        )
        whole = [
            (number, ids, sums)
            for number, ids, sums in found
            if isinstance(ids, bytes) and isinstance(sums, bytes) and len(ids) == 2 * len(sums) and not len(sums) % 8
        ]
        counts = [len(sums) // CHECKSUM_BYTES for _, _, sums in whole]
        starts = np.repeat(np.cumsum([0, *counts])[:-1], counts)
        return Entries(
            np.frombuffer(b"".join(ids for _, ids, _ in whole), ID_TYPE),
            np.frombuffer(b"".join(sums for _, _, sums in whole), _CHECKSUM_TYPE),
            np.repeat(np.array([number for number, _, _ in whole], np.int64), counts),
            np.arange(sum(counts)) - starts,
        )

    def recent(self, reports: int) -> RecentReports:
        """Return the reports that are remembered at first: all, or none where they are too many."""
        remembered = RecentReports()
        if reports <= _RECENT:
            for span in self.spans(reports):
                found = self.entries(span)
                order = np.argsort(found.numbers, kind="stable")[::-1]  # the first copy comes last, and counts
                remembered.put(split(found.ids[order]), found.checksums[order])
        return remembered

    def compare(self, entries: Entries, ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        """Return of which ids, ascending, the words of the first copy are as they were added."""
        fits = np.zeros(len(ids), np.bool_)
        for page in self._pages(entries.firsts(ids)[0], contextlib.nullcontext):
            fits[page.places] = page.fits
        return fits

    def read(self, span: Span, ids: NDArray[np.bytes_]) -> tuple[Words, NDArray[np.bool_]]:
        """Return the words of reports of a span, in the order of their ids, and which are as they were added.

        All others are zero.
        """
        words, fits = np.zeros((len(ids), *self.shape), np.uint64), np.zeros(len(ids), np.bool_)
        for page in self.pages(span, ids):
            words[page.places], fits[page.places] = page.words, page.fits
        return words, fits

    def pages(self, span: Span, ids: NDArray[np.bytes_]) -> Iterator[Page]:
        """Yield the reports of a span that have some ids, ascending, in the order in which they came."""
        with self._database.turn():
            firsts, there = self.entries(span).firsts(ids)
        for places, words, fits in self._pages(firsts, self._database.turn):
            fits &= there[places]
            words[~fits] = 0
            yield Page(places, words, fits)

    def _pages(self, entries: Entries, turn: Callable[[], contextlib.AbstractContextManager[object]]) -> Iterator[Page]:
        """Yield the words of some entries, some blocks at a time, each of which is read in a turn."""
        order = np.argsort(entries.numbers, kind="stable")
        numbers, starts = np.unique(entries.numbers[order], return_index=True)
        if not len(numbers):
            return
        ends = np.append(starts[1:], len(order))
        sizes = self._row_bytes * (np.maximum.reduceat(entries.rows[order], starts) + 1)
        for first, last in _runs(np.cumsum(sizes) // _PAGE_BYTES):
            with turn():
                blocks = self._contents(numbers[first:last].tolist())
            contents = [blocks.get(number, b"") for number in numbers[first:last].tolist()]
            counts = [len(content) // self._row_bytes for content in contents]
            contents = [one[: count * self._row_bytes] for one, count in zip(contents, counts, strict=True)]
            rows = np.frombuffer(b"".join(contents), np.uint64).reshape(-1, *self.shape)
            asked = ends[first:last] - starts[first:last]
            offsets = np.repeat(np.cumsum([0, *counts])[:-1], asked)
            places = order[starts[first] : ends[last - 1]]
            inside = entries.rows[places] < np.repeat(counts, asked)
            places = places[inside]
            words = rows[offsets[inside] + entries.rows[places]]
            yield Page(places, words, checksums(entries.ids[places], words) == entries.checksums[places])

    def _contents(self, numbers: list[int]) -> dict[int, bytes]:
        """Return the words of some blocks; where they cannot be read, try each half."""
        try:
            found = self._database.execute(
                "SELECT number, words FROM words WHERE number >= ? AND number <= ?", numbers[0], numbers[-1]
            )
        except UnreadableRows:
            if len(numbers) == 1:
                return {}
            half = len(numbers) // 2
            return self._contents(numbers[:half]) | self._contents(numbers[half:])
        return {number: words for number, words in found if isinstance(words, bytes)}

    def find(self, ids: Sequence[bytes]) -> dict[bytes, list[tuple[int, int]]]:
        """Return, for those of some reports that are stored, block and row of each copy."""
        places: dict[bytes, list[tuple[int, int]]] = {}
        for report in dict.fromkeys(ids):
            low = int(self._bins_of(np.frombuffer(report, ID_TYPE))[0]) << 40
            rows = self._database.execute(self._database.dialect.find, low, low + (1 << 40), report)
            copies = [(number, row) for number, held in rows for row, one in enumerate(_cut(held)) if one == report]
            if copies:
                places[report] = copies
        return places

    def erase(self, places: Sequence[tuple[int, int]]) -> None:
        """Overwrite the words of copies of reports, by block and row."""
        for number, group in itertools.groupby(places, key=lambda place: place[0]):
            for (content,) in self._database.execute("SELECT words FROM words WHERE number = ?", number):
                words = bytearray(content)
                for _, row in group:
                    part = slice(row * self._row_bytes, (row + 1) * self._row_bytes)
                    words[part] = bytes(len(words[part]))
                self._database.execute("UPDATE words SET words = ? WHERE number = ?", bytes(words), number)


class StoredShare(Share):
    """A share whose rows are read from a store, a span at a time; threads may not share it.

    Parameters
    ----------
    blocks : BlockTables
        Of the store.
    ring : Ring
        Of the words.
    count : int
        How many reports it has.
    parts : sequence of (Span, ndarray of bytes)
        Their ids, ascending, by spans.
    """

    def __init__(self, blocks: BlockTables, ring: Ring, count: int, parts: Sequence[tuple[Span, NDArray[np.bytes_]]]):
        self.shape, self.ring = (count, *blocks.shape), ring
        most = max(1, _SHARE_BYTES // (8 * math.prod(blocks.shape)))
        self._blocks = blocks
        self._parts = [(span, ids[first : first + most]) for span, ids in parts for first in range(0, len(ids), most)]
        self._ends = np.cumsum([len(ids) for _, ids in self._parts])
        self._first, self._block = 0, np.empty((0, *blocks.shape), np.uint64)

    def _rows(self, first: int, count: int) -> Words:
        found = [self._block[:0]]
        while count:
            if not self._first <= first < self._first + len(self._block):
                self._load(int(np.searchsorted(self._ends, first, "right")))
            part = self._block[first - self._first :][:count]
            found.append(part)
            first, count = first + len(part), count - len(part)
        return found[1] if len(found) == 2 else np.concatenate(found)

    def _load(self, part: int) -> None:
        self._block = self._block[:0].copy()  # its memory goes to the next one
        span, ids = self._parts[part]
        self._first = int(self._ends[part]) - len(ids)
        self._block, fits = self._blocks.read(span, ids)
        if not fits.all():
            raise SpoolError(
                self._blocks.place,
                f"{int((~fits).sum())} reports of the batch are not as they were added; the next run finds and leaves "
                "out those that are damaged, unless other servers have begun to open this batch",
            )


def checksums(ids: NDArray[np.bytes_], block: Words) -> NDArray[np.uint64]:
    """Return the checksum of each report, over its id and its words."""
    names = np.frombuffer(ids.tobytes(), np.uint8).reshape(-1, ID_BYTES)
    words = np.ascontiguousarray(block).view(np.uint8).reshape(len(block), block.itemsize * math.prod(block.shape[1:]))
    found = np.empty(len(block), np.uint64)
    step = max(1, _HASHED_BYTES // (ID_BYTES + words.shape[1]))
    for rows in (slice(first, first + step) for first in range(0, len(block), step)):
        digests = sha256_of_rows(b"", np.concatenate([names[rows], words[rows]], axis=1))[:, :CHECKSUM_BYTES]
        found[rows] = np.ascontiguousarray(digests).view(_CHECKSUM_TYPE)[:, 0]
    return found


def _runs(values: Integers) -> Iterator[tuple[int, int]]:
    """Yield first and end of each run of equal values."""
    edges = np.flatnonzero(np.diff(values)) + 1
    yield from itertools.pairwise([0, *edges.tolist(), len(values)])


def _cut(content: bytes) -> Iterator[bytes]:
    return (content[first : first + ID_BYTES] for first in range(0, len(content), ID_BYTES))
