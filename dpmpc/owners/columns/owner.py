"""Clip, encode, mix and noise the columns of one party before anything leaves it.

Paper: Wu et al. 2022, Algorithms 1 and 2. A party

1. clips and normalises its columns to the public bounds,
2. encodes them as integers,
3. mixes the rows of all subjects with the signs B that it shares with the other parties (Algorithm 2 only),
4. adds its own noise to each entry.

B D^j is computed exactly, in integers; anyone who reads the release divides by sqrt(k). Algorithm 2 has the first party
draw B and send it to the others: here all share 32 bytes, from which each derives B while it is applied. The parties
keep the seed to themselves, as the paper has it, but no privacy rests on that.

Promised: noise from the operating system's randomness unless the task states that it is a simulation. Not promised:
that the rows of all parties belong to the same people in the same order; they have to have agreed on that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream, require_secret
from dpmpc.linear.sketching import BernoulliMixing
from dpmpc.owners.columns.mixing_task import MixingTask


def mixing_of(task: MixingTask, seed: bytes | int) -> BernoulliMixing | None:
    """Return the signs B of a task, k x n, from the parties' common seed; None where the task does not mix.

    Parameters
    ----------
    task : MixingTask
        The public facts.
    seed : bytes or int
        32 bytes that one party drew before any party looked at the data
        (`dpmpc.release.planning.designing.public_seed`); or a number, in simulations.
    """
    return None if task.rows is None else BernoulliMixing(task.rows, task.subjects, seed)


class DataOwner:
    """One party of a task.

    Parameters
    ----------
    task : MixingTask
        The public facts; verified here.
    number : int
        Which of the task's parties this is, from 0.
    mixing : BernoulliMixing, optional
        The signs B of `mixing_of`, the same at all parties, where the task mixes.
    stream : Stream, optional
        Source of the noise: the operating system's by default. No two parties may have the same.

    Raises
    ------
    GuaranteeError, OverflowRisk
        If the task does not give what it promises.
    SimulationOnly
        If a seeded stream is given and the task does not state that it is a simulation.
    """

    def __init__(
        self,
        task: MixingTask,
        number: int,
        mixing: BernoulliMixing | None = None,
        stream: Stream | None = None,
    ):
        self.task = task.verify()
        self.number = require_whole("number", number, 0, len(task.parties) - 1)
        shape = None if mixing is None else mixing.shape
        expected = None if task.rows is None else (task.rows, task.subjects)
        if shape != expected:
            raise InputError("mixing", f"signs of shape {shape}", expected, condition="by the task")
        self.mixing = mixing
        self.stream = stream or Stream.from_os()
        if not task.simulation:
            require_secret(self.stream, "DataOwner")

    def release(self, rows: Reals, *, threads: int = 1) -> NDArray[Any]:
        """Return what this party publishes: sqrt(k) 2^f times B D^j/sqrt(k) + R^j, or 2^f times D^j + R^j.

        Parameters
        ----------
        rows : ndarray of float64, shape (n, d_j)
            This party's columns of all subjects, in the units of its schema.
        threads : int
            Threads of the sampler and of the kernel; the result does not depend on them.

        Returns
        -------
        ndarray of int64, shape (k, d_j) or (n, d_j)
            float64 with floating-point noise.
        """
        schema, encoding = self.task.parties[self.number], self.task.encoding
        if rows.shape != (self.task.subjects, len(schema)):
            expected = (self.task.subjects, len(schema))
            raise InputError("rows", f"shape {rows.shape}", expected, condition=f"of party {self.number} by the task")
        encoded = encoding.encode(schema.normalise(rows))
        if self.mixing is not None:
            encoded = encoding.ring.lift(self.mixing.apply(encoding.ring.embed(encoded), threads=threads))
        return np.asarray(encoded + self.task.noise.sample(encoded.shape, stream=self.stream, threads=threads))
