"""Store uploads in one thread: all that wait are written with one sync and one transaction, then acknowledged.

While a group is being written the next one gathers, so that decoding, hashes of proofs and the disk's delay are paid
once for a group and not once for a report; a single upload does not wait for others.

A server stores `Collection.most_stored` reports. An address stores at most as many as there is room left afterwards:
the first one may take a half, the next one a quarter, and anyone who has one report finds room as long as there is any.
What came through the door of a server (`dpmpc.collect.intake.doors`) counts against that door, too: each has room for
`Collection.entrance_room`, as the pinned port has, so that anyone who fills one door leaves the others alone. Whose a
report is that another server hands on is not stated, so that it counts against no address. What an address or a door
has stored is in memory only, of addresses for the `ADDRESSES` that stored last; after a restart it is zero again, and
the entrances have equal parts of the room that is left. Where clients are authenticated the roster is the limit, and
addresses do not count.

Promised: what `GroupCommit.commit` returns is done after its reports are durable, and fails if nothing of them was
stored by this call; a request that is malformed, or in conflict, or for which there is no room, does not fail the
others of its group.
The expanded shares of a group take at most `GROUP_BYTES`, or what one request takes. Bodies are not counted here
(`admission`).
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from dpmpc.base.errors import ReportRejected, SpoolError
from dpmpc.collect.intake.admission import ADDRESSES
from dpmpc.collect.store.blocks import Added, Upload
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.upload.reports import ReportFormat

GROUP_BYTES = 1 << 26
GROUP_REQUESTS = 1024

Outcome = Added | Exception


class NoRoom(SpoolError):
    """The sender has used up its share of the reports that the server stores."""


class Sender(NamedTuple):
    """Who a body came from."""

    address: str | None = ""  # None where another server has handed it on
    door: int | None = None  # of which server it took, or None for the pinned port


class _Request(NamedTuple):
    body: bytes
    sender: Sender
    future: asyncio.Future[Added]


class GroupCommit:
    """The writer of one spool, for the event loop that runs."""

    def __init__(
        self,
        form: ReportFormat,
        spool: ReportStore,
        on_group: Callable[[int, float], None] = lambda requests, seconds: None,
    ):
        self._form, self._spool, self._on_group = form, spool, on_group
        self.stored = len(spool)
        self._storing = threading.Lock()  # held while a group is stored and counted
        self._stored_of: collections.OrderedDict[str, int] = collections.OrderedDict()  # by what stands for an address
        self._stored_through: collections.Counter[int | None] = collections.Counter()  # by door
        free = max(0, spool.room())  # of what came before a restart the door is not known
        self._entrance_room = min(form.collection.entrance_room // spool.workers, free // form.collection.entrances)
        self.failing = False  # whether the last group found the disk full or failing
        self._row_bytes = 8 * math.prod(form.stored_shape)
        self._waiting: collections.deque[_Request] = collections.deque()
        self._wake = asyncio.Event()
        self._ending = False
        self._thread = ThreadPoolExecutor(1, "group commit")  # of its own: the others may be busy for long
        self._writing = asyncio.create_task(self._write())

    @property
    def alive(self) -> bool:
        """Whether uploads are still stored."""
        return not self._writing.done()

    def commit(self, body: bytes, address: str | None = "", door: int | None = None) -> asyncio.Future[Added]:
        """Return what is done once the reports of a body are durable, or fails; no task is made for it."""
        future: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        if self._ending:
            future.set_exception(SpoolError("commit", "the server is stopping, nothing was stored"))
        else:
            self._waiting.append(_Request(body, Sender(address, door), future))
            self._wake.set()
        return future

    def count_anew(self) -> None:
        """Count what is stored: other processes store too, and withdraw."""
        with self._storing:
            self.stored = len(self._spool)

    async def close(self) -> None:
        """Store the uploads that wait, then stop."""
        self._ending = True
        self._wake.set()
        await asyncio.wait([self._writing])  # which goes on if this is cancelled
        self._thread.shutdown()

    async def _write(self) -> None:
        """Store one group after another, until the end."""
        loop = asyncio.get_running_loop()
        while self._waiting or not self._ending:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            group = self._next_group()
            _deliver(group, await loop.run_in_executor(self._thread, self._outcomes, group))

    def _next_group(self) -> list[_Request]:
        """Take requests that wait: at least one."""
        group: list[_Request] = []
        expanded = 0
        while self._waiting and len(group) < GROUP_REQUESTS:
            expanded += len(self._waiting[0].body) // self._form.record_bytes * self._row_bytes
            if group and expanded > GROUP_BYTES:
                break
            group.append(self._waiting.popleft())
        return group

    def _outcomes(self, group: Sequence[_Request]) -> Sequence[Outcome]:
        """Store a group, and return the outcome of each request."""
        start = time.perf_counter()
        outcomes: Sequence[Outcome]
        try:
            outcomes = self._store(group)
            self.failing = False
        except Exception as error:  # any failure has to reach the requests that wait
            outcomes = [error] * len(group)
            self.failing = isinstance(error, SpoolError)
        self._on_group(len(group), time.perf_counter() - start)
        return outcomes

    def _store(self, group: Sequence[_Request]) -> list[Outcome]:
        """Store the reports of a group of requests and return the outcome of each request."""
        decoded = self._decoded([request.body for request in group])
        outcomes: dict[int, Outcome] = {
            index: one for index, one in enumerate(decoded) if isinstance(one, ReportRejected)
        }
        uploads = {index: one for index, one in enumerate(decoded) if not isinstance(one, ReportRejected)}
        senders = {index: group[index].sender for index in uploads}
        for index, refused in self._without_room(uploads, senders).items():
            del uploads[index]
            outcomes[index] = refused
        if uploads:
            with self._storing:
                added = self._spool.add_all(list(uploads.values()))
                for index, one in zip(uploads, added, strict=True):
                    outcomes[index] = one
                    if isinstance(one, Added):
                        self._count(senders[index], one.stored)
        return [outcomes[index] for index in range(len(group))]

    def _decoded(self, bodies: Sequence[bytes]) -> list[Upload | ReportRejected]:
        """Decode bodies at once, as most are well formed; where that fails, each half."""
        size = self._form.record_bytes
        counts = [len(body) // size for body in bodies]
        try:
            if len(bodies) > 1 and any(not body or len(body) % size for body in bodies):
                raise ReportRejected("body", "records that are cut, which make whole ones together")
            ids, words = self._form.decode(b"".join(bodies))
        except ReportRejected as error:
            if len(bodies) == 1:
                return [error]
            half = len(bodies) // 2
            return self._decoded(bodies[:half]) + self._decoded(bodies[half:])
        ends = list(itertools.accumulate(counts))
        return [(ids[end - count : end], words[end - count : end]) for end, count in zip(ends, counts, strict=True)]

    def _without_room(self, uploads: dict[int, Upload], senders: dict[int, Sender]) -> dict[int, NoRoom]:
        """Return which uploads bring more new reports than their senders may store; a repeated report is not new."""
        total = self._spool.room()
        left = {
            door: self._entrance_room - self._stored_through[door]
            for door in {sender.door for sender in senders.values()}
        }
        own = {
            each: self._stored_of.get(each, 0)
            for each in {sender.address for sender in senders.values()}
            if each is not None
        }
        refused: dict[int, NoRoom] = {}
        for index, (ids, _) in uploads.items():
            sender, new = senders[index], len(ids)
            room = min(total, left[sender.door])
            stored = None if sender.address is None else own[sender.address]
            if not self._fits(new, stored, room):
                new -= self._spool.count_stored(ids)
            if new and not self._fits(new, stored, room):
                by = "door" if stored is None else "address"
                refused[index] = NoRoom(f"reports: {new} new ones given, more than this {by} may store now")
                continue
            total -= new
            left[sender.door] -= new
            if sender.address is not None:
                own[sender.address] += new
        return refused

    def _fits(self, new: int, own: int | None, room: int) -> bool:
        return new <= self._largest_share(own, room)

    def _largest_share(self, own: int | None, room: int) -> int:
        """Return how many more reports an address may store that has stored `own`, with room for `room` in all.

        `own` is None for the door of another server.
        """
        if own is None or self._form.collection.authenticated:
            return room
        if own == 0:
            return max(min(room, 1), room // 2)
        return max(0, (room - own) // 2)

    def _count(self, sender: Sender, stored: int) -> None:
        self.stored += stored
        self._stored_through[sender.door] += stored
        if sender.address is None:
            return
        self._stored_of[sender.address] = self._stored_of.pop(sender.address, 0) + stored
        if len(self._stored_of) > ADDRESSES:
            self._stored_of.popitem(last=False)


def _deliver(group: Sequence[_Request], outcomes: Sequence[Outcome]) -> None:
    for request, outcome in zip(group, outcomes, strict=True):
        if request.future.done():  # the request was cancelled
            continue
        if isinstance(outcome, Exception):
            request.future.set_exception(outcome)
        else:
            request.future.set_result(outcome)
