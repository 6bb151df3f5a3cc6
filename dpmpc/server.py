"""The transformation T: a server applies the public matrix to its shares, chunk by chunk, alone.

Paper: Burkhardt et al. 2025, Algorithm 1, line "each server computes S [z] locally". The public matrix is linear, so
the transformed shares are shares of the transformed data; no message passes between servers. Memory is that of the
sketch and one chunk, whatever the number of clients.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import BatchMismatch
from dpmpc.sharing import Share
from dpmpc.task import Task

CHUNK_BYTES = 1 << 22  # small enough that the kernel finds a chunk in the cache, large enough that calls cost nothing

Phase = Callable[[str], AbstractContextManager[object]]


def _untimed(name: str) -> AbstractContextManager[object]:
    return nullcontext()


def transform(
    task: Task,
    share: Share,
    *,
    threads: int = 1,
    phase: Phase = _untimed,
    progress: Callable[[float], None] | None = None,
) -> NDArray[np.uint64]:
    """Apply the task's public matrix to one server's share of the batch.

    Parameters
    ----------
    task : Task
        The public facts.
    share : Share
        This server's share, (n, copies, width) ring or field elements.
    threads : int
        Threads of the kernel; the result does not depend on them.
    phase : callable
        ``phase(name)`` is entered around "read" and "transform", for a meter.
    progress : callable, optional
        Called with the fraction done.

    Returns
    -------
    ndarray of uint64, shape (k, width)
        This server's share of the noisy sketch, unscaled and exact.

    Raises
    ------
    BatchMismatch
        If the share is not of the task's shape.
    """
    if share.shape != task.share_shape:
        raise BatchMismatch(f"share: shape {share.shape} given, {task.share_shape} expected by the task")
    sums = np.zeros((task.sketch.rows, task.width), np.uint64)
    chunk = max(1, CHUNK_BYTES // (8 * task.copies * task.width))
    if threads > 1:  # the kernel hands out work in pieces of clients
        chunk = max(chunk, threads * task.sketch.piece)
    for first in range(0, task.clients, chunk):
        count = min(chunk, task.clients - first)
        with phase("read"):
            part = share.rows(first, count)
        with phase("transform"):
            task.sketch.apply(part, out=sums, first=first, threads=threads, ring=task.encoding.ring)
        if progress is not None:
            progress((first + count) / task.clients)
    return sums
