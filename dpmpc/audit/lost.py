"""Who is lost in the worst case that a guarantee still covers: clients who are corrupt, and clients who are missing.

A guarantee says in its own words what may be missing. This module reads those words and looks for the set of clients
that is worst for somebody among all sets that the words allow:

- "... clients in all": so many clients, wherever they stand in the public matrix;
- anything else: so many contributions to *every* row of the sketch, which may be very many clients together.

The strictest reading is taken where the words leave it open: a promise that does not say "in all" is not taken to mean
it. Small tasks are searched completely, larger ones greedily from the worst-placed clients; so what is found is a set
that is allowed, and perhaps not the worst one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpmpc.audit.views import signs_of, view_of
from dpmpc.privacy import Guarantee
from dpmpc.task import Task

Indices = NDArray[np.int64]

MOST_SETS = 5000  # sets that are tried one by one; beyond that the search is greedy
VICTIMS = 4  # clients from whose rows a greedy search begins
UNIT = 1e6  # sigma at which views are compared: their order hardly depends on it


@dataclasses.dataclass(frozen=True)
class Lost:
    """Clients without whose noise a guarantee has to do.

    Parameters
    ----------
    corrupt : ndarray of int64
        Those whose noise the adversary knows.
    missing : ndarray of int64
        Those who contribute nothing.
    """

    corrupt: Indices
    missing: Indices

    def honest(self, clients: int) -> Indices:
        """Return all other clients."""
        return np.setdiff1d(np.arange(clients), np.concatenate([self.corrupt, self.missing]))


def missing_in_each_row(guarantee: Guarantee) -> bool:
    """Return whether a guarantee lets every row of the sketch lack as many contributions as it names."""
    return guarantee.dropouts > 0 and re.search(r"\bclients? in all\b", str(guarantee)) is None


def worst_lost(task: Task, *, in_each_row: bool | None = None) -> Lost:
    """Return who is lost where that exposes somebody most.

    Parameters
    ----------
    task : Task
        Says how many may be corrupt, and how many missing.
    in_each_row : bool, optional
        How the number of missing ones is meant: for each row, or in all. By default as the words of the task's
        guarantee say.
    """
    if task.noising.by == "servers":  # nobody's noise is counted on, and who is lost does not matter
        return Lost(_indices(()), _indices(()))
    rowwise = missing_in_each_row(task.guarantee) if in_each_row is None else in_each_row
    corrupt, missing = task.trust.corrupt_clients, task.trust.dropouts
    if rowwise:
        return max(_missing_in_rows(task, missing, corrupt), key=lambda lost: exposure(task, lost))
    worst = max(_sets(task, corrupt + missing), key=lambda lost: exposure(task, Lost(lost, _indices(()))))
    return Lost(worst[:corrupt], worst[corrupt:])


def exposure(task: Task, lost: Lost) -> float:
    """Return the largest leverage that somebody has without those who are lost."""
    return view_of(task, lost.honest(task.clients)).leverage(UNIT)


def _sets(task: Task, size: int) -> Iterator[Indices]:
    """Sets of so many clients: all of them, or one for each of some victims that grows by whoever hurts it most."""
    if math.comb(task.clients, size) <= MOST_SETS:
        yield from map(_indices, itertools.combinations(range(task.clients), size))
        return
    for victim in _victims(task):
        chosen: list[int] = []
        while len(chosen) < size:
            gone = set(chosen) | {victim}
            beside = [client for client in _by_overlap(task, victim) if client not in gone][: 2 * task.copies + 8]
            chosen.append(max(beside, key=lambda client: _exposure_of(task, victim, [*chosen, client])))
        yield _indices(chosen)


def _missing_in_rows(task: Task, missing: int, corrupt: int) -> Iterator[Lost]:
    """Sets of which every row lacks at most so many; then the corrupt, who share the victim's rows."""
    hit = signs_of(task) != 0
    for victim in _victims(task):
        lacking = np.zeros(task.sketch.rows, np.int64)
        gone, order = [], [client for client in _by_overlap(task, victim) if client != victim]
        for client in order:
            if (lacking[hit[:, client]] < missing).all():
                lacking[hit[:, client]] += 1
                gone.append(client)
        left = [client for client in order if client not in set(gone)]
        yield Lost(_indices(left[:corrupt]), _indices(gone))


def _victims(task: Task) -> Indices:
    """Clients who are exposed most while all are there."""
    view = view_of(task, np.arange(task.clients))
    covariance = view.draws @ view.draws.T + 1e-9 * np.eye(len(view.draws))
    leverages = np.einsum("mc,mc->c", view.moved, np.linalg.solve(covariance, view.moved))
    return np.asarray(np.argsort(-leverages)[:VICTIMS], np.int64)


def _by_overlap(task: Task, victim: int) -> list[int]:
    """All clients, those first who share most rows with the victim."""
    hit = (signs_of(task) != 0).astype(np.int64)
    return [int(client) for client in np.argsort(-(hit.T @ hit[:, victim]), kind="stable")]


def _exposure_of(task: Task, victim: int, gone: Sequence[int]) -> float:
    """Return the leverage of one client without some others."""
    view = view_of(task, np.setdiff1d(np.arange(task.clients), gone))
    own = signs_of(task)[:, [victim]]
    return dataclasses.replace(view, moved=own).leverage(UNIT)


def _indices(clients: Sequence[int]) -> Indices:
    return np.asarray(clients, dtype=np.int64)
