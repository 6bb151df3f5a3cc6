"""Audit of what clients, servers and analyst do with a `Task`, and of what owners of different columns release.

Every line of the real way is run: `Client.randomize`, the task's sharing, `server.transform`, `analyst.open_sums`.
Many releases are simulated at once, side by side: a contribution is repeated R times (`Replicated`), so that one
release of R w entries is R releases of w. That is exact, because noise is drawn for each entry and the public matrix
acts on each column by itself.

The adversary knows the rows of all clients but one, the noise of the task's corrupt clients and what the corrupt
servers added. Clients who drop out contribute nothing. Who is corrupt and who drops out is what exposes somebody most
among all that the guarantee covers (`bench.audit.lost`).

What owners of different columns release (`dpmpc.owners.DataOwner`) is audited in the same way (`Parties`). DGM
and BGM read the same release of one noisy row a subject, so that R subjects are R releases. RMGM mixes rows: a release
of R k mixed rows is R releases of k, each with signs of its own, which the adversary knows. Either way
`DataOwner.release` itself is run, for every party whose columns move.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from bench.audit.lost import Lost, worst_lost
from bench.audit.mechanism import AuditedMechanism, Claim
from bench.audit.views import exact_epsilon, signs_of
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.randomness import KEY_BYTES, SEED_BYTES, Stream
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.noise import DiscreteLaplace
from dpmpc.linear.sharing.batch import ArrayShare
from dpmpc.owners.columns import DataOwner
from dpmpc.owners.columns.mixing_task import MixingTask
from dpmpc.owners.columns.owner import mixing_of
from dpmpc.privacy.task import Task, VerifiedTask
from dpmpc.release.analyst import open_sums
from dpmpc.release.client import Client
from dpmpc.release.server import add_noise, noise_stream, transform

BLOCK_WORDS = 1 << 21  # of all clients' copies that are simulated at once


class Replicated(Contribution):
    """Another contribution, `times` times side by side."""

    name = "replicated"

    def __init__(self, base: Contribution, times: int):
        self.base, self.times = base, times

    def width(self, columns: int) -> int:
        """Return R times the width of the base."""
        return self.times * self.base.width(columns)

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode once, and repeat."""
        return np.tile(self.base.encode(rows, encoding), (1, self.times))

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return the sensitivity of all R contributions, which move together."""
        one = self.base.sensitivity(columns, encoding)
        return dataclasses.replace(
            one, l1=self.times * one.l1, l2=self.times**0.5 * one.l2, columns=self.times * one.columns
        )

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the largest entry of the base's encoding."""
        return self.base.largest_entry(encoding)

    def parameters(self) -> dict[str, Any]:
        """Return the base's description and R."""
        return {"base": self.base.describe(), "times": self.times}


class SideBySide(VerifiedTask, frozen=True, tag=2, tag_field="format"):
    """So many releases in one task, each with noise of its own: nothing is promised of all of them together."""

    def require_enough_noise(self) -> None:
        """Accept the noise: the task of one release has been verified."""


def side_by_side(task: Task, times: int) -> SideBySide:
    """Return a wide task of so many releases."""
    return SideBySide(
        **msgspec.structs.asdict(task) | {"statistic": Replicated(task.statistic, times), "simulation": True}
    )


class Sums(AuditedMechanism):
    """A release of a task.

    Parameters
    ----------
    task : Task
        A small one, of some dozen clients.
    pair : array_like of float, shape (2, p)
        Two rows in the units of the schema, as far apart as the contribution allows. All clients hold the first.
    lost : Lost, optional
        Who is corrupt, and who is missing; by default whoever is worst of all that the task's guarantee covers.
    """

    def __init__(self, task: Task, pair: ArrayLike, lost: Lost | None = None):
        self.claim = claim_of(task)
        self._task = task
        self._pair = np.asarray(pair, dtype=np.float64)
        self._laplace = isinstance(task.noise, DiscreteLaplace)
        self._lost = worst_lost(task) if lost is None else lost
        self._honest = self._lost.honest(task.clients)
        first, second = task.statistic.encode(task.schema.normalise(self._pair), task.encoding)
        signs = signs_of(task)
        signs[:, self._lost.missing] = 0
        self._distance = distance_of(task, pair)
        self._still = np.outer(signs.sum(axis=1), first)
        self.shifts = np.stack([np.outer(signs[:, client], second - first).ravel() for client in self._honest])

    def least_epsilon(self) -> float | None:
        """Return what the noise of those who are left gives, if it is Gaussian."""
        return exact_epsilon(self._task, self._honest, self._distance)

    def observe(self, moved: int | None, releases: int, stream: Stream) -> Reals:
        """Run clients, servers and analyst; return the opened sums without what the adversary knows of them."""
        rows = np.tile(self._pair[0], (self._task.clients, 1))
        if moved is not None:
            rows[self._honest[moved]] = self._pair[1]
        task = self._task
        times = block_of(releases, BLOCK_WORDS // (task.clients * task.copies * task.width))
        wide = side_by_side(task, times)
        blocks = [self._releases(wide, rows, stream) for _ in range(-(-releases // times))]
        return np.concatenate(blocks)[:releases]

    def scores(self, observed: Reals, shift: Reals, direction: Reals) -> Reals:
        """Return scores; if the noise is Laplace they are its likelihood ratio: ``sum |x| - |x - D|``."""
        if not self._laplace:
            return super().scores(observed, shift, direction)
        return np.asarray((np.abs(observed) - np.abs(observed - shift)).sum(axis=1))

    def _releases(self, task: VerifiedTask, rows: Reals, stream: Stream) -> Reals:
        """Return R releases (R, k w) of these rows, less what all clients' first rows and known noise add to them."""
        ring = task.encoding.ring
        client = Client(task, stream)
        contributions = client.randomize(rows)
        corrupt = self._lost.corrupt
        contributions[corrupt] = ring.embed(client.encode(rows[corrupt]))[:, None]  # less the noise, which is known
        contributions[self._lost.missing] = 0
        shares = task.scheme.split(contributions, stream=stream)
        keys = [stream.bytes(KEY_BYTES) for _ in shares]
        sums = open_sums(
            task,
            [
                transform(task, ArrayShare(share, ring), simulation_key=key)
                for share, key in zip(shares, keys, strict=True)
            ],
        ).sums
        for key in keys[: task.trust.corrupt_servers]:
            sums = sums - ring.lift(add_noise(task, np.zeros(sums.shape, np.uint64), noise_stream(task, key)))
        apart = sums.reshape(task.sketch.rows, -1, self._task.width).transpose(1, 0, 2) - self._still
        return np.asarray(apart, dtype=np.float64).reshape(len(apart), -1)


def block_of(releases: int, most: int) -> int:
    """Return how many releases to simulate at once, in blocks of one size."""
    blocks = -(-releases // max(1, most))
    return -(-releases // blocks)


def claim_of(task: Task) -> Claim:
    """Return what a task claims of its release."""
    guarantee = task.guarantee
    return Claim(epsilon=guarantee.achieved_epsilon, delta=guarantee.delta, mu=guarantee.mu)


def distance_of(task: Task, pair: ArrayLike) -> float:
    """Return the L2 distance of the contributions of two rows, in the units of the schema, (2, p), in integer units."""
    rows = np.asarray(pair, dtype=np.float64)
    first, second = task.statistic.encode(task.schema.normalise(rows), task.encoding)
    return float(np.linalg.norm((second - first).astype(np.float64)))


BLOCK_CELLS = 1 << 20  # numbers that a party releases at once
NO_CLAIM = 1e300  # epsilon of many releases side by side; nothing is promised about them


class Parties(AuditedMechanism):
    """One subject's columns move from the lower bounds to the upper ones, at one party or at all."""

    def __init__(self, task: MixingTask):
        promised = task.guarantee
        whole = task.protects == "subject"
        self.claim = Claim(
            epsilon=promised.subject_epsilon if whole else promised.party_epsilon,
            delta=promised.delta,
            mu=promised.subject_mu if whole else promised.party_mu,
        )
        sizes = [len(party) for party in task.parties]
        self._moving = range(len(sizes)) if whole else [int(np.argmax(sizes))]
        columns = sum(sizes[number] for number in self._moving)
        self.shifts = np.full((1, (task.rows or 1) * columns), 2.0 ** (task.encoding.fractional_bits + 1))
        self._task = task

    def observe(self, moved: int | None, releases: int, stream: Stream) -> Reals:
        """Run the parties; return their releases less what the lower bounds contribute, in units of the known signs."""
        task = self._task
        times = block_of(releases, BLOCK_CELLS // self.shifts.shape[1])
        wide = msgspec.structs.replace(
            task,
            subjects=times if task.rows is None else task.subjects,
            rows=None if task.rows is None else task.rows * times,
            epsilon=NO_CLAIM,
            simulation=True,
        )
        blocks = [self._releases(wide, moved is not None, stream) for _ in range(-(-releases // times))]
        return np.concatenate(blocks)[:releases]

    def _releases(self, task: MixingTask, moved: bool, stream: Stream) -> Reals:
        """Return R releases (R, k columns)."""
        mixing, ring = mixing_of(task, stream.bytes(SEED_BYTES)), task.encoding.ring
        changed = slice(0, 1) if mixing is not None else slice(None)  # without mixing every subject is a release
        signs, total = np.ones((task.released_rows, 1)), np.ones((task.released_rows, 1))
        if mixing is not None:
            units = np.zeros((task.subjects, 2), np.int64)
            units[0, 0], units[:, 1] = 1, 1
            mixed = ring.lift(mixing.apply(ring.embed(units))).astype(np.float64)
            signs, total = mixed[:, :1], mixed[:, 1:]
        seen = []
        for number in self._moving:
            schema = task.parties[number]
            lower, upper = (np.array([getattr(column, end) for column in schema.columns]) for end in ("lower", "upper"))
            rows = np.tile(lower, (task.subjects, 1))
            if moved:
                rows[changed] = upper
            released = DataOwner(task, number, mixing, stream).release(rows)
            seen.append((released + total * 2.0**task.encoding.fractional_bits) * signs)
        return np.concatenate(seen, axis=1).reshape(-1, self.shifts.shape[1])
