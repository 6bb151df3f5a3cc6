"""Add up an owner's rows on the workers of a Dask cluster, which read the row groups of its Parquet files.

A worker is a part of the owner: it reads the rows, and an attacker there can read them and return anything. Noise,
shares and the ledger stay in the owner's process, which holds no row. Additions in the ring have one result in
whatever order, so the sum has the bits that one process computes.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.table_files import read_cells, read_table, row_groups
from dpmpc.owners.rows.own_rounds import total_of

if TYPE_CHECKING:
    from dpmpc.base.arrays import Words
    from dpmpc.owners.rows.owners_plan import OwnersPlan
    from dpmpc.parties.cluster import DaskCluster
    from dpmpc.privacy.task import Task


class RowGroup(NamedTuple):
    """Some rows of a Parquet file that a worker reads at once."""

    path: str
    number: int  # in the file
    first: int  # rows of the owner before these
    rows: int


class RowsOnWorkers:
    """An owner's rows in Parquet files, where workers read them anew for each sum.

    Parameters
    ----------
    path : str
        A Parquet file or a folder of them, the same at this process and at all workers.
    plan : OwnersPlan
        What was agreed on.
    cluster : str
        Address of the scheduler.
    patience : float
        Seconds that connecting, and each result, may take.

    Raises
    ------
    InputError
        If the workers cannot read these rows as the plan's columns.
    """

    def __init__(self, path: str, plan: OwnersPlan, cluster: str, patience: float):
        self._plan, self._cluster, self._patience = plan, cluster, patience
        groups = row_groups(path)
        with self._connected() as workers:
            counts = list(workers.map(functools.partial(count_rows, plan), groups))
        ends = itertools.accumulate(counts)
        self._groups = [
            RowGroup(file, number, end - rows, rows)
            for (file, number), end, rows in zip(groups, ends, counts, strict=True)
        ]
        self.shape = (sum(counts), len(plan.schema))

    def total(self, task: Task, threads: int) -> Words:
        """Return the sum (1, width) of what the rows contribute."""
        with self._connected() as workers:
            totals = workers.map(functools.partial(sum_rows, self._plan, task, threads), self._groups)
            return np.array(functools.reduce(task.encoding.ring.add, totals))  # may be written to

    def _connected(self) -> DaskCluster:
        from dpmpc.parties.cluster import DaskCluster  # needs an extra of the package

        return DaskCluster(self._cluster, self._patience)


def count_rows(plan: OwnersPlan, group: tuple[str, int]) -> int:
    """Read a row group as the columns of a plan, and return how many rows it has."""
    path, number = group
    return len(read_rows(path, plan.schema, plan.target, number))


def sum_rows(plan: OwnersPlan, task: Task, threads: int, group: RowGroup) -> Words:
    """Return the sum (1, width) of what the rows of a row group contribute to a task."""
    table = read_rows(group.path, plan.schema, plan.target, group.number)
    if len(table) != group.rows:
        raise InputError(
            group.path, f"{len(table)} rows in row group {group.number}", f"{group.rows}, as in the first sum"
        )
    return total_of(task, table.values, first=group.first, threads=threads)


def read_rows(path: str, public: Schema, target: str | None, row_group: int | None = None) -> Table:
    """Return the columns of a file, coded by the codebook where there is one; a regression has a target."""
    if not isinstance(public.codebook, Codebook):
        return read_table(path, public.names, row_group=row_group)
    cells = read_cells(path, public.codebook.sources, row_group=row_group)
    return public.codebook.encode(cells, target=target).select(public.names)
