"""Submit rows to a collection: make reports, keep them, send them until every server has acknowledged them.

A report is sealed, and the same bytes go to each server at its pinned port, or to the *door* of any one of them, which
hands it on (`dpmpc.collect.intake.doors`). What a door states of other servers only they could vouch for.

Promised: records are on the client's disk before the first byte leaves (`pending`), so a submission can be repeated
after any failure, and counts once; how each server is sent what is for it is in `uploader`. Not promised: that a report
is in the release. A server may be down until the collection closes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dpmpc.base.arguments import require_positive, require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.added_keys import AddedKey
from dpmpc.collect.upload.pending import Pending
from dpmpc.collect.upload.reports import make_reports
from dpmpc.collect.upload.roster import Ticket
from dpmpc.collect.upload.sealing import SECRET_BYTES, SealedReports, report_id
from dpmpc.collect.upload.uploader import Uploader, gather_all, keys_at, require_door, targets_of
from dpmpc.release.client import Client

SECONDS = 3600.0
_BLOCK_WORDS = 1 << 20  # of the reports that are made at once


@dataclasses.dataclass(frozen=True)
class Submitted:
    """The outcome of a submission.

    Parameters
    ----------
    reports : int
        All of it.
    stored, duplicates : tuple of int
        For each server, what it stored in this run, and what it had already.
    finished_before : bool
        Whether nothing was sent because an earlier run had finished. Without tickets the state file then no longer
        knows whose rows it was for: the rows of this run were not compared with them.
    """

    reports: int
    stored: tuple[int, ...]
    duplicates: tuple[int, ...]
    finished_before: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """Rows of one client, or of many whose reports somebody collects for them.

    Parameters
    ----------
    collection : Collection
        The public facts; verified before anything is sent.
    door : str, optional
        Where to send reports for all servers: ``https://HOST[:PORT]``, or http on the loopback interface.
    state : path
        File that keeps the reports until all servers have acknowledged them. Give it again to send again.
    tickets : sequence of Ticket, optional
        One for each row, where the collection asks who its clients are.
    batch : int
        Reports of one request.
    concurrency : int
        Requests to one server at a time.
    seconds : float
        Longest time for the whole submission.
    client : Client, optional
        Who randomizes the rows; of ``collection.plan``.
    tell : callable, optional
        Takes a line whenever a server has acknowledged nothing for `uploader.SILENCE_SECONDS`, once a minute at most.
    on_progress : callable, optional
        Takes how many acknowledgements have come, of earlier runs with this state too, and how many are needed: one of
        every server for each report.
    """

    collection: Collection
    state: str | os.PathLike[str]
    tickets: Sequence[Ticket] | None = None
    batch: int = 1
    concurrency: int = 8
    seconds: float = SECONDS
    client: Client | None = None
    door: str | None = None
    tell: Callable[[str], None] = lambda line: None
    on_progress: Callable[[int, int], None] = lambda acknowledged, needed: None

    def __post_init__(self) -> None:
        require_whole("batch", self.batch, 1)
        require_whole("concurrency", self.concurrency, 1)
        require_positive("seconds", self.seconds)
        if self.collection.authenticated != (self.tickets is not None):
            given = "none" if self.tickets is None else f"{len(self.tickets)}"
            raise InputError("tickets", f"{given} given for a collection with authenticated = {self.tickets is None}")
        if self.door is not None:
            require_door(self.door)

    def run(self, rows: Reals) -> Submitted:
        """Send one report for each row, and wait until every server has acknowledged all.

        Parameters
        ----------
        rows : ndarray of float64, shape (m, p)
            In the units of the schema.

        Raises
        ------
        PartyMissing
            If a server did not acknowledge in time. Run again with the same state and rows.
        ReportRejected, ReportConflict, CollectionClosed, PartyImpersonated, ProtocolFailure
            If a server refuses for good, or is another than the collection names. Other servers may have stored reports
            by then; a batch holds only what all have.
        """
        return asyncio.run(self.send(rows))

    async def send(self, rows: Reals) -> Submitted:
        """Do what `run` does, in the event loop that is running."""
        self.collection.verify()
        added: tuple[AddedKey, ...] = ()
        if not os.path.exists(self.state):  # what it holds is sealed
            added = await keys_at(self.collection, self.door, self.seconds)
        with self.open(rows, added) as pending:
            reports, finished = pending.reports, pending.finished
            if finished and reports != len(rows):
                raise InputError(
                    "state",
                    f"{self.state} is that of a finished submission of {reports} reports, {len(rows)} rows "
                    "given; another file for other people expected",
                )
            targets = targets_of(self.collection, self.door)
            needed = reports * len(targets)
            counter = _Counter(needed - len(pending), needed, self.on_progress)
            uploads = [
                Uploader(
                    target=target,
                    pending=pending,
                    batch=self.batch,
                    concurrency=self.concurrency,
                    seconds=self.seconds,
                    tell=self.tell,
                    acknowledged=counter.add,
                )
                for target in targets
            ]
            counts = await gather_all(upload.run() for upload in uploads)
        stored, duplicates = zip(*counts, strict=True)
        return Submitted(reports, stored, duplicates, finished)

    def open(self, rows: Reals, added: tuple[AddedKey, ...] = ()) -> Pending:
        """Make the reports of these rows unless the state has them; return what is still to be sent, open.

        They are sealed to the newest of the keys in the task file and those that servers have added.
        """
        if self.tickets is not None and len(self.tickets) != len(rows):
            raise InputError("tickets", f"{len(self.tickets)}", f"one for each of {len(rows)} rows")
        content = np.ascontiguousarray(rows, "<f8").tobytes()
        stream, own = Stream.from_os(), [ticket.report for ticket in self.tickets or ()]
        kept: list[bytes] = []
        if self.tickets is not None:
            ids = own
        else:
            kept = [stream.bytes(SECRET_BYTES) for _ in rows]
            ids = [report_id(self.collection.digest, secret) for secret in kept]
        targets = len(targets_of(self.collection, self.door))
        reports = self._reports(rows, ids, added)
        return Pending(self.state, self.collection, content, reports, targets, own, secrets_of_ids=kept)

    def _reports(self, rows: Reals, ids: Sequence[bytes], added: tuple[AddedKey, ...]) -> Iterator[list[bytes]]:
        """Yield the sealed reports, block by block."""
        client = self.client or Client(self.collection.plan.verify())
        step = max(1, _BLOCK_WORDS // math.prod(self.collection.record_shape))
        for first in range(0, len(rows), step):
            block = slice(first, first + step)
            records = make_reports(client, self.collection, rows[block], ids[block])
            form = SealedReports(self.collection, added)
            tickets = [None] * len(ids[block]) if self.tickets is None else self.tickets[block]
            yield [form.seal(own, ticket) for own, ticket in zip(zip(*records, strict=True), tickets, strict=True)]


@dataclasses.dataclass
class _Counter:
    """Count acknowledgements of all servers together, and state how many there are."""

    acknowledged: int
    needed: int
    on_progress: Callable[[int, int], None]

    def add(self, reports: int) -> None:
        """Count the reports that a server has acknowledged."""
        self.acknowledged += reports
        self.on_progress(self.acknowledged, self.needed)
