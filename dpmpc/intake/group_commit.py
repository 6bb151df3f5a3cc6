"""One thread that stores uploads: all that wait are written with one sync and one transaction, then acknowledged.

While a group is being written the next one gathers, so that the disk's delay is paid once for a group and not once for
a report; a lone upload waits for nobody.

Promised: `GroupCommit.commit` returns after its reports are durable, and raises if nothing of them was stored by this
call; a request that is malformed, or in conflict, or comes when the collection is full, does not fail the others of its
group. The expanded shares of a group take at most `GROUP_BYTES`, or what one request takes. Bodies are not counted
here (`admission`).
"""

from __future__ import annotations

import asyncio
import collections
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dpmpc.errors import CollectionClosed, ReportRejected, SpoolError
from dpmpc.intake.reports import ReportFormat
from dpmpc.intake.spool import ID_TYPE, Added, Spool, sorted_ids
from dpmpc.rings import Words

GROUP_BYTES = 1 << 26
GROUP_REQUESTS = 1024

Upload = tuple[list[bytes], Words]
Outcome = Added | Exception


class _Request(NamedTuple):
    body: bytes
    future: asyncio.Future[Added]


class GroupCommit:
    """The writer of one spool, for one event loop.

    Parameters
    ----------
    form : ReportFormat
        What bodies hold.
    spool : Spool
        Open for writing; nobody else may `add` to it.
    on_group : callable, optional
        Called in the writer's thread with the number of requests of a group and the seconds that it took.
    """

    def __init__(
        self, form: ReportFormat, spool: Spool, on_group: Callable[[int, float], None] = lambda requests, seconds: None
    ):
        self._form, self._spool, self._on_group = form, spool, on_group
        self.stored = len(spool)
        self._known = np.empty(0, ID_TYPE)  # ids in the spool, once it is nearly full
        self._row_bytes = 8 * math.prod(form.collection.record_shape)
        self._waiting: collections.deque[_Request] = collections.deque()
        self._wake = threading.Condition()
        self._ending = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="group commit")
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether uploads are still stored."""
        return self._thread.is_alive()

    async def commit(self, body: bytes) -> Added:
        """Store the reports of a body and return when they will last.

        Raises
        ------
        ReportRejected
            If the body is no list of reports to this server, or a report id was used for another report.
        CollectionClosed
            If the collection has as many reports as it takes, or the spool was closed for good.
        SpoolError
            If the disk is full or fails, or the server is stopping.
        """
        future: asyncio.Future[Added] = self._loop.create_future()
        with self._wake:
            if self._ending:
                raise SpoolError("commit: the server is stopping, nothing was stored")
            self._waiting.append(_Request(body, future))
            self._wake.notify()
        return await future

    async def close(self) -> None:
        """Store what waits, then stop."""
        with self._wake:
            self._ending = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while group := self._next_group():
            start = time.perf_counter()
            outcomes: Sequence[Outcome]
            try:
                outcomes = self._store([request.body for request in group])
            except Exception as error:  # whatever it is, those who wait must hear of it
                outcomes = [error] * len(group)
            self._on_group(len(group), time.perf_counter() - start)
            self._loop.call_soon_threadsafe(_deliver, group, outcomes)

    def _next_group(self) -> list[_Request]:
        """Wait for requests; none are returned when none will come."""
        group: list[_Request] = []
        expanded = 0
        with self._wake:
            self._wake.wait_for(lambda: self._waiting or self._ending)
            while self._waiting and len(group) < GROUP_REQUESTS:
                expanded += len(self._waiting[0].body) // self._form.record_bytes * self._row_bytes
                if group and expanded > GROUP_BYTES:
                    break
                group.append(self._waiting.popleft())
        return group

    def _store(self, bodies: Sequence[bytes]) -> list[Outcome]:
        """Return what became of each body."""
        outcomes: dict[int, Outcome] = {}
        uploads: dict[int, Upload] = {}
        for index, body in enumerate(bodies):
            try:
                uploads[index] = self._form.decode(body)
            except ReportRejected as error:
                outcomes[index] = error
        for index in self._beyond(uploads):
            del uploads[index]
            outcomes[index] = CollectionClosed(
                f"collection {self._form.collection.name!r}: has {self.stored} reports, "
                f"at most {self._form.collection.largest_batch} expected"
            )
        if uploads:
            added = self._spool.add_all(list(uploads.values()))
            self.stored += sum(one.stored for one in added if isinstance(one, Added))
            outcomes.update(zip(uploads, added, strict=True))
        return [outcomes[index] for index in range(len(bodies))]

    def _beyond(self, uploads: dict[int, Upload]) -> list[int]:
        """Return which uploads bring more reports than the collection takes; a repeated one brings none."""
        room = self._form.collection.largest_batch - self.stored
        if sum(len(ids) for ids, _ in uploads.values()) <= room:
            return []
        if len(self._known) != self.stored:
            self._known = sorted_ids(self._spool.ids())
        beyond = []
        for index, (ids, _) in uploads.items():
            new = len(ids) - int(np.isin(np.array(ids, ID_TYPE), self._known).sum())
            if new > room:
                beyond.append(index)
            else:
                room -= new
        return beyond


def _deliver(group: Sequence[_Request], outcomes: Sequence[Outcome]) -> None:
    for request, outcome in zip(group, outcomes, strict=True):
        if request.future.done():  # whoever asked has gone
            continue
        if isinstance(outcome, Exception):
            request.future.set_exception(outcome)
        else:
            request.future.set_result(outcome)
