"""Check the proofs of a run whose reports lie in the parties' folders: no spool, no ledger, and one run.

A collection takes weeks and survives crashes; a run of `dpmpc.parties.networked` ends or fails as a whole. So there is
less to keep: the reports are what `dpmpc.parties.networked.stored_reports` has written before any server was asked to
begin, and the one query point (`dpmpc.base.storage.kept`), before anything is sent; it is never replaced.

1. *Batch.* Each server opens its reports; all confirm the same ids in the same order.
2. *Point.* They toss; each writes it down. **All confirm that they have; only then does any server send.**
3. Steps 2 to 5 of `dpmpc.collect.opening.proof_checks`: hashes, lists, messages, verdicts.
4. The reports that are accepted are the batch: the task of so many clients takes the place of the first one, and each
   server reads its outputs as a share of the sums.

Promised: what `dpmpc.collect.opening.proof_checks` promises, as long as no folder is copied; a run on a folder whose
point is written down is refused, whether or not the first one came to an end. Not promised: anything about rows that
the process that plays all the clients leaves out or makes up.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import BatchMismatch, GuaranteeError, TooFewClients
from dpmpc.base.storage.kept import KEPT_FILE, keep_alone
from dpmpc.collect.opening.agreement import batch_digest
from dpmpc.collect.opening.pieces import ProvedOutputs, ScanTask
from dpmpc.collect.opening.proof_checks import Verifier, check_at_point, point_digest
from dpmpc.collect.store.blocks import Page
from dpmpc.collect.upload.report_ids import ID_BYTES, as_strings
from dpmpc.linear.proving.prove import holds_key
from dpmpc.linear.sharing.batch import Share, open_share
from dpmpc.linear.sketching import sketch_from
from dpmpc.parties.network.announcing import explained
from dpmpc.parties.network.conversation import confirm, together, toss
from dpmpc.parties.network.party import Party
from dpmpc.parties.networked import ids_file, share_file
from dpmpc.privacy.task import Task, VerifiedTask
from dpmpc.release.proved_reports import row_words

_POINT = "query point"
_READ_BYTES = 1 << 24  # of words at once


@dataclasses.dataclass(frozen=True, eq=False)
class ProvedRun:
    """What a server goes on with once the proofs are checked."""

    task: VerifiedTask  # of the clients whose reports are accepted; the task of the run if these are all
    share: Share  # this server's share of what they contribute, of ``task.share_shape``
    refused: dict[str, int]  # how many reports are left out, by cause


class RunReports:
    """The reports that lie in a party's folder."""

    def __init__(self, folder: Path, task: Task, server: int):
        self._share = open_share(share_file(folder), "ring64")
        words = row_words(task, by_key=holds_key(task.scheme, server))
        if self._share.shape != (task.clients, 1, words):
            raise BatchMismatch(
                f"share: shape {self._share.shape} given, {(task.clients, 1, words)} expected by the task"
            )
        ids = open_share(ids_file(folder), "ring64")
        if ids.shape != (task.clients, ID_BYTES // 8):
            raise BatchMismatch(f"ids: shape {ids.shape} given, {(task.clients, ID_BYTES // 8)} expected by the task")
        self.ids = np.ascontiguousarray(ids.rows(0, task.clients), "<u8").view(np.uint8)
        self._order = np.argsort(as_strings(self.ids), kind="stable")
        self._sorted = as_strings(self.ids)[self._order]
        if (self._sorted[1:] == self._sorted[:-1]).any():
            raise BatchMismatch("ids: one given twice, a different one for each report expected")

    @contextlib.contextmanager
    def opened(self) -> Iterator[RunReports]:
        """Yield the reports themselves."""
        yield self

    def share(self, ids: Bytes) -> Share:
        """Return the rows of some of these reports, in the order that they are in here."""
        return _SomeRows(self._share, self._order[np.searchsorted(self._sorted, as_strings(ids))])

    def read(self, ids: Bytes) -> Iterator[Page]:
        """Yield the words of some of these reports, some at a time, and that they are as they were written."""
        share = self.share(ids)
        step = max(1, _READ_BYTES // (8 * math.prod(share.shape[1:])))
        for first in range(0, len(ids), step):
            words = share.rows(first, min(step, len(ids) - first))
            yield Page(np.arange(first, first + len(words)), words, np.ones(len(words), np.bool_))


class _SomeRows(Share):
    """Rows of a share at ascending places."""

    def __init__(self, share: Share, places: NDArray[np.intp]):
        self.shape, self.ring = (len(places), *share.shape[1:]), share.ring
        self._share, self._places = share, places

    def _rows(self, first: int, count: int) -> Words:
        places = self._places[first : first + count]
        if not count:
            return np.empty((0, *self.shape[1:]), np.uint64)
        start = int(places[0])
        return np.ascontiguousarray(self._share.rows(start, int(places[-1]) + 1 - start)[places - start])


async def check_run(party: Party, task: VerifiedTask) -> ProvedRun:
    """Take the steps above."""
    return await explained(party, _check_run(party, task))


async def _check_run(party: Party, task: VerifiedTask) -> ProvedRun:
    with party.meter.phase("verify"):
        reports = await together(party, lambda: RunReports(party.folder, task, party.pid))
        await confirm(party, batch_digest(reports.ids), "batch: the ids of all reports")
        point = await toss(party, "the query point")
        await together(party, lambda: use_point(party.folder, point))
        await confirm(party, point_digest(point), "query point that is used")
        verifier = Verifier(ScanTask(task, task.digest, party.pid, reports, point), reports.ids)
        found = await check_at_point(party, verifier)
    accepted = await together(party, lambda: task_of(task, len(found.accepted), found.counts))
    share = ProvedOutputs(reports.share(found.accepted), found.accepted, accepted, party.pid)
    return ProvedRun(accepted, share, found.counts)


def use_point(folder: Path, point: bytes) -> None:
    """Write down, for good, at which point this server answers for the reports of a folder."""
    with keep_alone(folder, _POINT) as kept:
        if kept.get(_POINT) is not None:
            raise GuaranteeError(
                "query point",
                f"one given in the file {KEPT_FILE!r} of this server's folder, none expected: the proofs of "
                "these reports were checked in an earlier run, and messages at a second point would give "
                "rows away. Have the clients make new reports",
            )
        kept.put({_POINT: point})


def task_of(task: VerifiedTask, clients: int, refused: dict[str, int]) -> VerifiedTask:
    """Return the verified task of the clients that are left, whose public matrix has as many columns."""
    if clients == task.clients:
        return task
    if clients < task.sketch.rows:
        counts = "".join(f"; {count} refused: {cause}" for cause, count in refused.items())
        raise TooFewClients("clients", clients, f"at least {task.sketch.rows}", condition=f"by the sketch{counts}")
    matrix = sketch_from({**task.sketch.describe(), "columns": clients})
    return msgspec.structs.replace(task, sketch=matrix)
