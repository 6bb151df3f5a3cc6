"""What a server computes from its own reports, piece by piece: in its process, or on the workers of a cluster.

A task is pure: it reads the store and returns what follows from it, so a cluster may repeat it. The conversation, the
ledger and the noise stay in the server's process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Bytes, Words
from dpmpc.collect.store.blocks import Page
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.linear.proving import ProofServer, QueryPoint, joint_randomness
from dpmpc.linear.proving.joint import PART_BYTES
from dpmpc.linear.sharing.batch import Share
from dpmpc.privacy.task import Task
from dpmpc.release.proved_reports import circuit_of, scheme_of, share_of_one, shares_of, statement_of
from dpmpc.release.server import sketch_rows

Item = TypeVar("Item")
Result = TypeVar("Result")

SUMMED = 1 << 17  # reports whose sums a worker computes at once
_BLOCK_BYTES = 1 << 23  # of the records that are expanded at once


class Reports(Protocol):
    """The reports of a server: in a store, or in the file of a run."""

    def read(self, ids: Bytes) -> Iterator[Page]:
        """Yield the words (n, 1, words) of reports, some at a time, in any order."""

    def share(self, ids: Bytes) -> Share:
        """Return the words of reports, a row for each, in the order of the ids."""


class ReportSource(Protocol):
    """What opens the reports of a server."""

    def opened(self) -> contextlib.AbstractContextManager[Reports]:
        """Open them."""


class Cluster(Protocol):
    """The processes of a server that run its tasks."""

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of a task for each item, in order."""


class ThisProcess:
    """No other process: tasks run here."""

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of a task for each item, in order."""
        return map(task, items)


@dataclasses.dataclass(frozen=True)
class Spread:
    """How the tasks of a server are spread over processes."""

    cluster: Cluster
    store: ReportSource  # where these find the server's shares


class Scan(NamedTuple):
    """What a server computes from its own shares of some reports, in one pass."""

    seeds: Bytes  # (n, 32): of the joint randomness
    fitting: NDArray[np.bool_]  # (n,): whether its share is as it was stored, and has the hash that its list holds
    messages: Words  # (n, c + 1): at the query point


@dataclasses.dataclass(frozen=True)
class ScanTask:
    """Compute a server's messages about the proofs of some reports."""

    plan: Task  # of the collection
    digest: bytes  # of the collection
    number: int  # of the server
    store: ReportSource  # its shares
    toss: bytes  # of the query point

    def __call__(self, ids: Bytes) -> Scan:
        """Read the reports once; return seeds and messages of all, some of which are not sent."""
        circuit = circuit_of(self.plan)
        own = ProofServer(circuit, scheme_of(self.plan), self.digest, self.number)
        point = QueryPoint.of_toss(circuit, self.toss)
        step = max(1, _BLOCK_BYTES // (8 * max(circuit.words, circuit.joint_words)))
        seeds, fitting = np.zeros((len(ids), PART_BYTES), np.uint8), np.zeros(len(ids), np.bool_)
        messages = np.zeros((len(ids), circuit.wires + 1), np.uint64)
        with self.store.opened() as reports:
            for places, words, intact in reports.read(ids):
                for first in range(0, len(words), step):
                    block = slice(first, first + step)
                    rows = places[block]
                    shares = shares_of(self.plan, self.number, ids[rows], words[block])
                    seeds[rows] = own.seeds(shares)
                    fitting[rows] = intact[block] & own.own_parts_match(shares)
                    messages[rows] = own.query(point, joint_randomness(circuit, seeds[rows]), shares.records(circuit))
        return Scan(seeds, fitting, messages)


@dataclasses.dataclass(frozen=True)
class SumTask:
    """Apply the public matrix to a server's shares of some reports that follow one another in the batch."""

    collection: Collection
    number: int  # of the server
    store: ReportSource  # its shares
    task: Task  # of the batch
    threads: int  # of the kernel

    def __call__(self, piece: tuple[int, Bytes]) -> Words:
        """Return what the reports with some ids add to the sums; the first one is the client of that number."""
        first, ids = piece
        with self.store.opened() as reports:
            share = summed_share(self.collection, self.task, self.number, reports.share(ids), ids)
            return sketch_rows(self.task.sketch, share, first=first, threads=self.threads)


def sums_by_pieces(cluster: Cluster, task: SumTask, ids: Bytes) -> Words:
    """Return the public matrix times a server's shares of all reports of a batch, (k, width).

    Additions in the ring have one result in whatever order, so it has the bits that one process computes.
    """
    pieces = ((first, ids[first : first + SUMMED]) for first in range(0, len(ids), SUMMED))
    return np.array(functools.reduce(task.task.encoding.ring.add, cluster.map(task, pieces)))  # may be written to


def summed_share(collection: Collection, task: Task, number: int, stored: Share, ids: Bytes) -> Share:
    """Return a server's share of what some reports add to the sums.

    Parameters
    ----------
    collection : Collection
        Which they belong to.
    task : Task
        Of the batch.
    number : int
        Of the server.
    stored : Share
        What it stores of these reports.
    ids : ndarray of uint8
        Of the reports, (n, 16).
    """
    share = ReportFormat(collection, number).share(stored)
    if collection.checked_dealing:
        return WithoutMask(share, (len(ids), *task.share_shape[1:]))
    if collection.proved:
        return ProvedOutputs(share, ids, task, number)
    return share


class WithoutMask(Share):
    """A share of reports without the last word of each, which is the mask of the dealing check."""

    def __init__(self, share: Share, shape: tuple[int, ...]):
        self.shape, self.ring = shape, share.ring
        self._share = share

    def _rows(self, first: int, count: int) -> Words:
        rows = self._share.rows(first, count).reshape(count, -1)
        return np.ascontiguousarray(rows[:, :-1]).reshape(count, *self.shape[1:])


class ProvedOutputs(Share):
    """A share of what proved reports add to the sums: linear in their records, which are expanded as they are read."""

    chunk_bytes = 1 << 20  # records are some times as large

    def __init__(self, share: Share, ids: Bytes, task: Task, number: int):
        self._statement = statement_of(task)
        self.shape = (len(ids), *task.share_shape[1:-1], self._statement.added)
        self.ring = task.encoding.ring
        self._share, self._ids, self._task, self._number = share, ids, task, number

    @property
    def finished_width(self) -> int:
        """Words of a contribution."""
        return self._task.width

    def finished(self, sums: Words) -> Words:
        """Return the sums of contributions."""
        return self._statement.finished(sums)

    def _rows(self, first: int, count: int) -> Words:
        kept = shares_of(self._task, self._number, self._ids[first : first + count], self._share.rows(first, count))
        one = share_of_one(self._task, self._number)
        outputs = self._statement.outputs(kept.records(self._statement.circuit), one)
        return np.ascontiguousarray(outputs).reshape(count, *self.shape[1:])
