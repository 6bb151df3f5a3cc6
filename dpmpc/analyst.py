"""From opened sums to a release: the only place where shares of the sketch meet.

The analyst receives one transformed share from each server, adds them up (or interpolates) and learns the noisy sketch
and nothing else. What follows, the analysis A of the paper, is an estimator that reads the `Release`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import BatchMismatch
from dpmpc.release import Release
from dpmpc.task import Task


def open_sums(task: Task, shares: Sequence[NDArray[np.uint64]]) -> Release:
    """Combine the servers' transformed shares.

    Parameters
    ----------
    task : Task
        The public facts.
    shares : sequence of ndarray of uint64, shape (k, width)
        One from each server, in the servers' order.

    Returns
    -------
    Release

    Raises
    ------
    BatchMismatch
        If a share is missing or of another shape.
    """
    expected = (task.sketch.rows, task.width)
    if len(shares) != task.trust.servers:
        raise BatchMismatch(f"shares: {len(shares)} given, one from each of {task.trust.servers} servers expected")
    for server, share in enumerate(shares):
        if share.shape != expected:
            raise BatchMismatch(
                f"share of server {server}: shape {share.shape} given, {expected} expected", party=server
            )
    return Release(task=task, sums=task.encoding.ring.lift(task.scheme.combine(list(shares))))
