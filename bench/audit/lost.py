"""Who is lost in the worst case that a guarantee still covers: clients who are corrupt, and clients who are missing.

The preconditions of a guarantee state what `missing` counts. This module looks for the set of clients that is worst for
somebody among all sets that this allows: so many clients, wherever they stand in the public matrix; or, for any other
code than `MISSING_CLIENTS`, so many contributions to *every* row of the sketch, which may be very many clients.

Small tasks are searched completely, larger ones greedily from the worst-placed clients; so what is found is a set
that is allowed, and perhaps not the worst one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from bench.audit.views import signs_of, view_of
from dpmpc.base.arrays import Integers
from dpmpc.privacy import Guarantee
from dpmpc.privacy.guarantee import MISSING_CLIENTS
from dpmpc.privacy.task import Task

MOST_SETS = 5000  # sets that are tried one by one; beyond that the search is greedy
VICTIMS = 4  # clients from whose rows a greedy search begins
NEAREST = 16  # clients that a greedy search tries as the next one
FLOOR = 1e-9  # of the noise in a row: rows that nobody hits have none


@dataclasses.dataclass(frozen=True)
class Lost:
    """Clients without whose noise a guarantee has to do."""

    corrupt: Integers  # those whose noise the adversary knows
    missing: Integers  # those who contribute nothing

    def honest(self, clients: int) -> Integers:
        """Return all other clients."""
        return np.setdiff1d(np.arange(clients), np.concatenate([self.corrupt, self.missing]))


def missing_in_each_row(guarantee: Guarantee) -> bool:
    """Return whether a guarantee lets every row of the sketch lack as many contributions as it names."""
    return guarantee.dropouts > 0 and guarantee.preconditions.missing_means != MISSING_CLIENTS


def worst_lost(task: Task, *, in_each_row: bool | None = None) -> Lost:
    """Return the lost clients of the worst case, which exposes somebody most."""
    if task.noising.by == "servers":  # nobody's noise is counted on, and who is lost does not matter
        return Lost(_indices(()), _indices(()))
    rowwise = missing_in_each_row(task.guarantee) if in_each_row is None else in_each_row
    search, corrupt, missing = _Search(task), task.trust.corrupt_clients, task.trust.dropouts
    if rowwise:
        return max(
            search.missing_in_rows(missing, corrupt), key=lambda lost: search.exposure([*lost.corrupt, *lost.missing])
        )
    worst = _indices(max(search.sets(corrupt + missing), key=search.exposure))
    return Lost(worst[:corrupt], worst[corrupt:])


class _Search:
    """Looks for sets of clients whose loss exposes somebody."""

    def __init__(self, task: Task):
        self.signs = signs_of(task)
        everybody = view_of(task, np.arange(task.clients))
        self.covariance = everybody.draws @ everybody.draws.T + FLOOR * np.eye(len(self.signs))
        self.alone = task.copies > 1  # whether each copy has noise of its own
        self.clients = task.clients

    def exposure(self, gone: Sequence[int], victim: int | None = None) -> float:
        """Return the leverage of one client, or the largest of all others, when some are lost."""
        lost = self.signs[:, list(gone)]
        noise = np.diag((lost**2).sum(axis=1)) if self.alone else lost @ lost.T
        left = self.signs[:, [victim]] if victim is not None else np.delete(self.signs, list(gone), axis=1)
        return float(np.einsum("mc,mc->c", left, np.linalg.solve(self.covariance - noise, left)).max())

    def sets(self, size: int) -> Iterator[Sequence[int]]:
        """Yield sets of this many clients: all, or one for each of some victims, grown by those who hurt it most."""
        if math.comb(self.clients, size) <= MOST_SETS:
            yield from itertools.combinations(range(self.clients), size)
            return
        for victim in self.victims():
            order = self.by_overlap(victim)
            chosen: list[int] = []
            while len(chosen) < size:
                beside = [client for client in order if client not in chosen][:NEAREST]
                hurt = [self.exposure([*chosen, client], victim) for client in beside]
                chosen.append(beside[int(np.argmax(hurt))])
            yield chosen

    def missing_in_rows(self, missing: int, corrupt: int) -> Iterator[Lost]:
        """Yield sets with at most this many clients of any row; then the corrupt, who share the victim's rows."""
        hit = self.signs != 0
        for victim in self.victims():
            lacking = np.zeros(len(hit), np.int64)
            gone, order = [], self.by_overlap(victim)
            for client in order:
                if (lacking[hit[:, client]] < missing).all():
                    lacking[hit[:, client]] += 1
                    gone.append(client)
            left = [client for client in order if client not in set(gone)]
            yield Lost(_indices(left[:corrupt]), _indices(gone))

    def victims(self) -> Integers:
        """Return the clients who are exposed most while all are there."""
        leverages = np.einsum("mc,mc->c", self.signs, np.linalg.solve(self.covariance, self.signs))
        return np.asarray(np.argsort(-leverages)[:VICTIMS], np.int64)

    def by_overlap(self, victim: int) -> list[int]:
        """Return all clients but the victim, those first who share most rows with it."""
        hit = (self.signs != 0).astype(np.int64)
        order = np.argsort(-(hit.T @ hit[:, victim]), kind="stable")
        return [int(client) for client in order if client != victim]


def _indices(clients: Sequence[int]) -> Integers:
    return np.asarray(clients, dtype=np.int64)
