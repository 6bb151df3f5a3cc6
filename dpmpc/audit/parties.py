"""Audit what parties with different columns release (`dpmpc.data_release.DataOwner`).

DGM and BGM read the same release of one noisy row a subject, so that R subjects are R releases. RMGM mixes rows: a
release of R k mixed rows is R releases of k, each with signs of its own, which the adversary knows. Either way
`DataOwner.release` itself is run, for every party whose columns move.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.audit.mechanism import AuditedMechanism, Claim
from dpmpc.audit.sums import block_of
from dpmpc.data_release import DataOwner, MixingTask
from dpmpc.data_release.owner import mixing_of
from dpmpc.randomness import SEED_BYTES, Stream

Reals = NDArray[np.float64]

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
