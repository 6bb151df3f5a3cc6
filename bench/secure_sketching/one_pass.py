"""Peers of a server, each in a fresh process: one pass over a server's words, timed by the clock of the process.

``python -m bench.secure_sketching.one_pass WAY FOLDER`` prints one JSON object: CPU seconds of "read" and "transform",
and a digest of the sums. WAY is "kernel": our kernel, chunk by chunk; "csc": all words are read, and multiplied by a
matrix of `scipy.sparse`, which was made beforehand, in memory that making it has touched; "reading": they are read, and
their maximum is taken.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dpmpc.linear.sharing.batch import SHARE_FILE, Share, open_share
from dpmpc.parties.mpyc.share_folders import TASK_FILE, read_task
from dpmpc.privacy.task import Task
from dpmpc.release.server import sketch_share

WAYS = ("kernel", "csc", "reading")
seconds = {"read": 0.0, "transform": 0.0}


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count the CPU seconds of a phase."""
    began = time.process_time()
    yield
    seconds[name] += time.process_time() - began


def kernel(task: Task, share: Share) -> Any:
    """Sketch as a server does."""
    return sketch_share(task.sketch, share, phase=phase)


def csc(task: Task, share: Share) -> Any:
    """Multiply by a sparse matrix with a column for each copy of each client; words wrap around as ours do."""
    import scipy.sparse

    places, signs = task.sketch.entries(0, task.clients)
    values = np.where(signs.ravel() < 0, np.uint64(2**64 - 1), np.uint64(1))
    starts = np.arange(values.size + 1)
    matrix = scipy.sparse.csc_matrix((values, places.ravel(), starts), shape=(task.sketch.rows, values.size))
    with phase("read"):
        words = share.rows(0, task.clients).reshape(-1, task.width)
    with phase("transform"):
        return matrix @ words


def reading(task: Task, share: Share) -> Any:
    """Read the words, and look at each."""
    with phase("read"):
        words = share.rows(0, task.clients)
    with phase("transform"):
        return words.max()


def main(way: str, folder: Path) -> None:
    """Make one pass, and print what it took."""
    task = read_task(folder / TASK_FILE)
    share = open_share(folder / SHARE_FILE, task.encoding.ring)
    sums = {"kernel": kernel, "csc": csc, "reading": reading}[way](task, share)
    print(json.dumps({**seconds, "digest": hashlib.sha256(np.asarray(sums).tobytes()).hexdigest()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
