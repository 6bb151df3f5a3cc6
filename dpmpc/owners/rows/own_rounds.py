"""One round of one data owner, without a network: its noisy sum, the shares of it, and which task is answered.

The owners are the servers of a `Sum` release with noise by the servers, and each is the client of its own rows: it adds
up what they contribute, adds a server's noise, and splits the sum instead of the rows. What is opened has the law of
any such release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dpmpc.base.arrays import Reals, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.saved import require_alike
from dpmpc.owners.rows.owners_plan import OwnersPlan
from dpmpc.privacy.task import Task
from dpmpc.release.client import BLOCK, Client, encode_rows
from dpmpc.release.release import Release
from dpmpc.release.server import add_noise

Exchange = Callable[[int, Task], Release]


class OwnRows(Protocol):
    """The rows of one owner, (n_i, p), in the units of the schema."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""

    def total(self, task: Task, threads: int) -> Words:
        """Return the sum (1, width) of what the rows contribute to a task that the caller has verified."""


class RowsInMemory:
    """Rows that this process holds."""

    def __init__(self, rows: Reals):
        self._rows, self.shape = rows, rows.shape

    def total(self, task: Task, threads: int) -> Words:
        """Return the sum (1, width) of what the rows contribute."""
        return total_of(task, self._rows, threads=threads)


def total_of(task: Task, rows: Reals, *, first: int = 0, threads: int = 1) -> Words:
    """Return the sum (1, width) in the ring of what rows contribute; errors count the `first` rows before these."""
    ring = task.encoding.ring
    total = np.zeros((1, task.width), np.uint64)
    for begin in range(0, len(rows), BLOCK):
        encoded = encode_rows(task, rows[begin : begin + BLOCK], first=first + begin, threads=threads)
        ring.add(total, ring.embed(encoded.sum(axis=0, keepdims=True)), out=total)
    return total


class OwnRound:
    """What one owner computes of its rows in a round.

    Parameters
    ----------
    plan : OwnersPlan
        What was agreed on.
    number : int
        Which owner.
    rows : OwnRows
        Its rows.
    stream : Stream
        The source of noise and shares.
    """

    def __init__(self, plan: OwnersPlan, number: int, rows: OwnRows, stream: Stream):
        expected = (plan.rows[number], len(plan.schema))
        if rows.shape != expected:
            raise InputError("rows", f"shape {rows.shape}", expected, condition=f"of owner {number} by the plan")
        self._rows, self._stream = rows, stream

    def shares(self, task: Task, *, threads: int = 1) -> Words:
        """Return the shares (M, width) of the noisy sum over the own rows: fresh ones, with fresh noise.

        Raises
        ------
        GuaranteeError, OverflowRisk, SimulationOnly
            If the task does not give what it promises, or noise is not secret.
        InputError
            If the task has another party add noise.
        """
        Client(task.verify(), self._stream)  # whose noise has to be secret
        if not task.servers_add_noise or task.noising.by != "servers":
            raise InputError("noise_by", f"{task.noising.by!r}", "'servers'", condition="between data owners")
        total = self._rows.total(task, threads)
        add_noise(task, total, self._stream, threads=threads)
        return np.concatenate(task.scheme.split(total, stream=self._stream))


class AgreedReleases(Releases):
    """Releases that owners make together: one of them proposes each task, and all check that it is the one they want.

    Floating-point arithmetic may differ in the last bits between machines, and with it the coefficients of a round. All
    answer the same task, whose coefficients are nearly those that each has computed from the same earlier releases.

    Parameters
    ----------
    plan : OwnersPlan
        What was agreed on.
    exchange : callable
        ``exchange(number, task)`` takes part in a round, of which `task` is what this owner wants; returns its release.
    """

    def __init__(self, plan: OwnersPlan, exchange: Exchange):
        super().__init__(plan.specification(), lambda task: exchange(len(self.made), task))

    def make(self, share: float, contribution: Contribution | None = None) -> Release:
        """Take part in a round, and return its release."""
        asked = self.task(share, contribution)
        self.require_within_budget(asked)
        release = self._ask(asked)  # who takes part has compared the task with what is asked, and with the budget
        require_alike(release.task, asked, len(self.made))
        self.made.append(release)
        return release
