"""Take reports: open and store what is for this server, and hand the rest on from its own door.

Nothing here depends on HTTP: a body comes with the address and the door that it came through, and its answer goes back.

Promised: each report of a body fails alone; one that was not stored here is not handed on; none is answered before it
is durable here and, through the own door, stored by the others or in the outbox (`dpmpc.collect.intake.doors`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from pathlib import Path

from dpmpc.base.errors import CollectionClosed, ReportRejected
from dpmpc.collect.intake.admission import Refusal
from dpmpc.collect.intake.doors import Door
from dpmpc.collect.intake.group_commit import GroupCommit
from dpmpc.collect.intake.metrics import Metrics
from dpmpc.collect.intake.replies import Reply
from dpmpc.collect.store.blocks import Added
from dpmpc.collect.terms.endpoints import STORED, Status
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.added_keys import KeyList
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.collect.upload.roster import Roster
from dpmpc.collect.upload.sealing import OPENS_NO_MORE, Opener, SealedReports
from dpmpc.parties.network.callers import network_of

LOGGER = logging.getLogger("dpmpc.collect")


class SealedUploads:
    """The uploads of one server."""

    def __init__(
        self,
        collection: Collection,
        server: int,
        commits: GroupCommit,
        metrics: Metrics,
        *,
        opener: Opener | None,
        roster: Roster | None,
        door: Door,
    ):
        self._form, self._server = SealedReports(collection), server
        self._record_bytes = ReportFormat(collection, server).record_bytes
        self._commits, self._metrics = commits, metrics
        self._opener, self._roster, self._door = opener, roster, door
        self.report_bytes = self._form.report_bytes

    def forget_keys(self) -> list[Path]:
        """Open no reports any more, for good: overwrite and delete the private keys; return which files these were."""
        deleted = [] if self._opener is None else self._opener.delete_keys()
        self._opener = None  # only now: what could not be deleted is tried again
        return deleted

    def refresh_keys(self) -> None:
        """Use the keys that were added in the folder since, and offer them to clients."""
        if self._opener is not None and self._opener.refresh():
            LOGGER.info("clients seal to key %d from now on", self._opener.added[-1].number)

    def keys(self) -> KeyList:
        """Return the keys that this server has added, and those of the other servers that it holds."""
        own = () if self._opener is None else self._opener.added
        return KeyList((*own, *self._door.added))

    async def take(self, body: bytes, address: str | None, door: int | None) -> Reply:
        """Store the own records of a body's reports, and hand on what came through the own door."""
        reports = self._form.split(body)
        own = await self._store(reports, address, door)
        handed: list[dict[int, Status]] = [{} for _ in reports]
        if door == self._server:
            stored = [index for index, one in enumerate(own) if isinstance(one, Added)]
            found = await self._door.hand_on([reports[index] for index in stored])
            for index, statuses in zip(stored, found, strict=True):
                handed[index] = statuses
        return self._answer(own, handed)

    async def _store(self, reports: list[bytes], address: str | None, door: int | None) -> list[Added | Reply]:
        """Open and store the own record of each report, which may fail alone."""
        if self._opener is None:
            raise CollectionClosed(OPENS_NO_MORE)
        if len(reports) == 1:  # one is opened sooner than a thread is given it
            opened = _opened(self._opener, self._roster, reports)
        else:
            opened = await asyncio.to_thread(_opened, self._opener, self._roster, reports)
        sender = network_of(address) if door in (None, self._server) else None
        jobs = [one if isinstance(one, Exception) else self._commits.commit(one, sender, door) for one in opened]
        results: list[Added | Reply] = []
        try:
            for job in jobs:  # one after the other: gathering them makes a call of the loop for each
                try:
                    results.append(self._metrics.refuse(job) if isinstance(job, Exception) else await job)
                except Exception as error:
                    results.append(self._metrics.refuse(error))
        finally:
            for job in jobs:  # those that are not done, of a request that is cancelled
                if not isinstance(job, Exception):
                    job.cancel()
        added = _added_by(results)
        self._metrics.count_stored(added, (added.stored + added.duplicates) * self._record_bytes)
        return results

    def _answer(self, own: list[Added | Reply], handed: list[dict[int, Status]]) -> Reply:
        """Return what became of a body: of a single report that was refused here, the reason."""
        if len(own) == 1 and isinstance(own[0], Reply):
            return own[0]
        reports: list[dict[str, Status]] = []
        for one, others in zip(own, handed, strict=True):
            at_all = {self._server: one.status if isinstance(one, Reply) else STORED, **others}
            reports.append({str(number): status for number, status in sorted(at_all.items())})
        numbers = dict.fromkeys(itertools.chain.from_iterable(reports))
        servers = {number: _together([one.get(number) for one in reports]) for number in numbers}
        content = {**_added_by(own)._asdict(), "servers": servers, "reports": reports}
        return Reply(200 if all(status == STORED for status in servers.values()) else 202, content)


def _opened(opener: Opener, roster: Roster | None, reports: list[bytes]) -> list[bytes | Exception]:
    """Return the record that each report has for this server, or why it has none."""
    found: list[bytes | Exception] = []
    for report in reports:
        try:
            record, token = opener.open(report)
            if roster is not None and not roster.admits(record[:ID_BYTES], token or b""):
                raise Refusal(403, "Unknown", "report: no token of the client whose report this is")
            found.append(record)
        except (ReportRejected, Refusal) as error:
            found.append(error)
    return found


def _added_by(results: list[Added | Reply]) -> Added:
    """Return what the reports of a body, each of which may have been refused, have added together."""
    added = [one for one in results if isinstance(one, Added)]
    return Added(sum(one.stored for one in added), sum(one.duplicates for one in added))


def _together(statuses: list[Status | None]) -> Status:
    """Return one status for all reports of a body: the first that is not 200, of those that got so far."""
    return next((status for status in statuses if status not in (STORED, None)), STORED)
