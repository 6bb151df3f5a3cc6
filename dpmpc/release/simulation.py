"""The linear-transformation model in one process: clients, servers and analyst composed without a network.

This is what an estimator's `fit(X, y)` runs, and what every run over real servers is compared with.
"""

from __future__ import annotations

from collections.abc import Callable

from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.privacy.task import Task
from dpmpc.release.analyst import open_sums
from dpmpc.release.client import share_batch
from dpmpc.release.release import Release
from dpmpc.release.server import deal_together, simulation_keys, transform


def run(
    task: Task,
    rows: Reals,
    *,
    stream: Stream | None = None,
    threads: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Release:
    """Run R, T and the opening of Algorithm 1 (Burkhardt et al. 2025) on simulated clients.

    Parameters
    ----------
    task : Task
        The public facts.
    rows : ndarray of float64, shape (n, p)
        One row per client, in the units of the schema.
    stream : Stream, optional
        Source of noise and shares; a seeded one needs a task that states it is a simulation.
    threads : int
        Threads of the sampler and of the kernel; the result does not depend on them.
    progress : callable, optional
        Called with the fraction of clients randomized.

    Returns
    -------
    Release

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import Budget, ReleaseSpec, Schema, design, simulate
    >>> rows = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    >>> spec = ReleaseSpec(schema=Schema.unit(["a", "b"]), clients=len(rows), budget=Budget(1.0, 1e-6))
    >>> simulate(design(spec), rows).sums.shape
    (1, 5)
    """
    task = task.verify()
    keys = simulation_keys(task, stream)
    shares = share_batch(task, rows, stream=stream, threads=threads, progress=progress)
    dealt = deal_together(task, keys, stream)
    transformed = [
        transform(task, share, simulation_key=key, dealt=noise, threads=threads)
        for share, key, noise in zip(shares, keys, dealt, strict=True)
    ]
    return open_sums(task, transformed)
