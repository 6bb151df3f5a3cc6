"""The transformation T of one server on more than one machine: chunks of clients on Dask.

`dpmpc.release.server.transform` adds up chunks of clients in the ring, where the order of additions does not matter. So
each worker sketches the chunks that it gets, `FAN_IN` results at a time are added up, and the sum is the one machine's,
bit for bit. Which worker does what, and what happens when one is lost, is up to Dask.

A share stays where it is: files must be at the same path for all workers, blocks of an array where Dask put them.

Promised: the bits of `dpmpc.release.server.transform`; noise is drawn once, in the process that calls `transform`,
never on a worker, however often Dask repeats a chunk. Not promised: secrecy from the cluster. Its scheduler and workers
see the share, so all of it belongs to **one** server: two servers that use one cluster are one server.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpmpc.base.arrays import Words
from dpmpc.base.errors import BatchMismatch, InputError, ProtocolFailure
from dpmpc.data.table_files import load_pyarrow
from dpmpc.linear.encoding.ring import Ring
from dpmpc.linear.sharing.batch import Share, open_share
from dpmpc.linear.sketching import PublicMatrix
from dpmpc.privacy.task import Task, VerifiedTask, require_verified
from dpmpc.release.server import CHUNK_BYTES, add_noise, noise_stream, require_dealt

BLOCK_BYTES = 1 << 27  # of a share, for one call of a worker: its reading outlasts Dask's work on it by far
FAN_IN = 16  # results that are added up at once


def transform(
    task: VerifiedTask,
    share: Share | Any,
    *,
    client: Any = None,
    chunk: int | None = None,
    simulation_key: bytes | None = None,
    dealt: Words | None = None,
    deadline: float | None = None,
) -> Words:
    """Apply the task's public matrix to one server's share of the batch, chunk by chunk on Dask.

    Parameters
    ----------
    task : VerifiedTask
        The public facts.
    share : Share, path or dask.array.Array
        This server's share, (n, copies, width) ring or field elements: a share, a file that
        `dpmpc.linear.sharing.batch.open_share` opens, or an array of uint64 that is chunked along the clients, such as
        `parquet_share` returns.
    client : distributed.Client, optional
        The cluster; by default whatever Dask's configuration says, which is threads of this process if it says nothing.
    chunk : int, optional
        Clients of a chunk, by default those of 128 MiB; a dask.array.Array has chunks of its own.
    simulation_key, dealt
        As in `dpmpc.release.server.transform`.
    deadline : float, optional
        Seconds that the client's cluster may take; by default any time, and a cluster without workers is waited for.

    Returns
    -------
    ndarray of uint64, shape (k, width)
        What `dpmpc.release.server.transform` returns.

    Raises
    ------
    InputError
        If Dask is not installed, the task has not been verified, or a share is not what it has to be.
    BatchMismatch
        If the share is not of the task's shape.
    ProtocolFailure
        If the deadline passes, or workers are lost again and again.
    """
    dask = _dask()
    require_verified(task)
    require_dealt(task, dealt)
    stream = noise_stream(task, simulation_key)
    if isinstance(share, str | os.PathLike):
        share = open_share(share, task.encoding.ring)
    if tuple(share.shape) != task.share_shape:
        raise BatchMismatch(f"share: shape {tuple(share.shape)} given, {task.share_shape} expected by the task")
    parts = _of_share(dask, task, share, chunk) if isinstance(share, Share) else _of_array(dask, task, share, chunk)
    add = dask.delayed(_add)
    while len(parts) > 1:
        parts = [add(task.encoding.ring, parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
    return add_noise(task, np.array(_computed(dask, parts[0], client, deadline)), stream, dealt=dealt)


def parquet_share(task: Task, paths: Sequence[str | os.PathLike[str]]) -> Any:
    """Return a share in Parquet files as a dask.array.Array, one chunk for each row group.

    Parameters
    ----------
    task : Task
        The public facts.
    paths : sequence of path
        The files in the order of the clients. Each row is a client, in ``copies * width`` columns of uint64: all
        entries of the first copy, then of the next.

    Returns
    -------
    dask.array.Array of uint64, shape (clients in the files, copies, width)
        Only the files' footers are read now.

    Raises
    ------
    InputError
        If Dask or pyarrow is not installed, or a file is not such a file. Values are checked when they are read.
    """
    dask = _dask()
    read = dask.delayed(_read_row_group)
    blocks = []
    for path in paths:
        for group, count in enumerate(_row_groups(Path(path), task.copies * task.width)):
            if count:
                shape = (count, task.copies, task.width)
                blocks.append(dask.array.from_delayed(read(Path(path), group, shape), shape, np.uint64))
    if not blocks:
        raise InputError(f"paths: {len(paths)} files without a row given, at least one row expected")
    return dask.array.concatenate(blocks)


def _of_share(dask: Any, task: Task, share: Share, chunk: int | None) -> list[Any]:
    """Sum the chunks of a share, each read by the worker that sketches it."""
    if chunk is None:
        chunk = max(1, BLOCK_BYTES // (8 * task.copies * task.width))
    if chunk < 1:
        raise InputError(f"chunk: {chunk} given, at least 1 expected")
    held, sketch = dask.delayed(share, traverse=False), dask.delayed(_sketch_rows)
    starts = range(0, task.clients, chunk)
    counts = [min(chunk, task.clients - first) for first in starts]
    return [sketch(task.sketch, task.encoding.ring, held, *piece) for piece in zip(starts, counts, strict=True)]


def _of_array(dask: Any, task: Task, array: Any, chunk: int | None) -> list[Any]:
    """Sum the chunks of a Dask array, each sketched on the worker that holds it."""
    if not isinstance(array, dask.array.Array) or array.dtype != np.uint64:
        given = array.dtype if isinstance(array, dask.array.Array) else type(array).__name__
        raise InputError(f"share: {given} given, a Share, a path or a dask.array.Array of uint64 expected")
    if chunk is not None:
        raise InputError(f"chunk: {chunk} given, none expected with a dask.array.Array: it has chunks of its own")
    whole = array.rechunk({1: -1, 2: -1})
    starts = np.cumsum([0, *whole.chunks[0][:-1]]).tolist()
    sketch = dask.delayed(_sketch_block)
    blocks = whole.to_delayed().reshape(-1)
    return [sketch(task.sketch, task.encoding.ring, block, first) for block, first in zip(blocks, starts, strict=True)]


def _sketch_rows(sketch: PublicMatrix, ring: Ring, share: Share, first: int, count: int) -> Words:
    sums = sketch.zeros(share.shape[-1])
    step = max(1, CHUNK_BYTES // (8 * math.prod(share.shape[1:])))
    for begin in range(first, first + count, step):
        part = share.rows(begin, min(step, first + count - begin))
        sketch.apply(part, out=sums, first=begin, ring=ring)
    return sums


def _sketch_block(sketch: PublicMatrix, ring: Ring, block: Words, first: int) -> Words:
    return sketch.apply(block, first=first, ring=ring)


def _add(ring: Ring, parts: Sequence[Words]) -> Words:
    return ring.sum_of(parts, name="parts")


def _computed(dask: Any, total: Any, client: Any, deadline: float | None) -> Words:
    """Compute on Dask; report what goes wrong there as a failure of this server."""
    if client is None:
        (sums,) = dask.compute(total)
        return np.asarray(sums, np.uint64)
    from distributed import KilledWorker

    future = client.compute(total)
    try:
        return np.asarray(future.result(timeout=deadline), np.uint64)
    except TimeoutError as error:
        future.cancel()
        raise ProtocolFailure(f"deadline: the cluster has not finished within {deadline} s") from error
    except KilledWorker as error:
        raise ProtocolFailure(f"the cluster lost workers again and again: {error}") from error


def _row_groups(path: Path, columns: int) -> list[int]:
    """Return the rows of each row group of a file whose columns are uint64."""
    pyarrow, parquet = load_pyarrow(path, "paths")
    try:
        with parquet.ParquetFile(path) as source:
            types, metadata = source.schema_arrow.types, source.metadata
            groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(f"paths: {path} cannot be read as Parquet: {error}") from error
    if len(types) != columns or any(kind != pyarrow.uint64() for kind in types):
        found = ", ".join(sorted({str(kind) for kind in types}))
        raise InputError(f"paths: {path} holds {len(types)} columns of {found}; {columns} of uint64 expected")
    return groups


def _read_row_group(path: Path, group: int, shape: tuple[int, int, int]) -> Words:
    _, parquet = load_pyarrow(path, "paths")
    words = np.empty((shape[0], shape[1] * shape[2]), np.uint64)
    with parquet.ParquetFile(path) as source:
        table = source.read_row_group(group)
    if len(table) != shape[0] or any(column.null_count for column in table.columns):
        raise InputError(f"paths: {path}, row group {group}: {shape[0]} rows without a missing value expected")
    for position, column in enumerate(table.columns):
        words[:, position] = column.to_numpy()
    return words.reshape(shape)


def _dask() -> Any:
    try:
        import dask
        import dask.array
        import distributed  # noqa: F401 -- half an installation is none
    except ImportError as error:
        raise InputError("dpmpc.parties.cluster needs Dask: pip install '.[cluster]' in its source folder") from error
    return dask
