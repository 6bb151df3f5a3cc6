"""The transformation T: a server applies the public matrix to its shares, chunk by chunk, alone.

Paper: Burkhardt et al. 2025, Algorithm 1, line "each server computes S [z] locally". The public matrix is linear, so
the transformed shares are shares of the transformed data; no message passes between servers. Memory is that of the
sketch and one chunk, whatever the number of clients.

Where the task states it, a server also adds noise to its share of the sums, and by additivity to what is opened
(`dpmpc.privacy.calibration.NoisePlacement`). That noise is drawn here and stays secret. A server does not trust others
that it suffices: it verifies the task before it reads a share, as each client does before it randomizes a row. With
Shamir shares a server's own noise is no share of the sums: it deals that among all, and adds its share of all that was
dealt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from dpmpc.base.arrays import Integers, Words
from dpmpc.base.errors import BatchMismatch, InputError
from dpmpc.base.randomness import KEY_BYTES, Stream, require_secret
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.linear.sharing.batch import Share
from dpmpc.linear.sketching import PublicMatrix
from dpmpc.privacy.task import Task, VerifiedTask, require_verified

CHUNK_BYTES = 1 << 22  # small enough that the kernel finds a chunk in the cache, large enough that calls cost nothing

Phase = Callable[[str], AbstractContextManager[object]]


def _untimed(name: str) -> AbstractContextManager[object]:
    return nullcontext()


def transform(
    task: VerifiedTask,
    share: Share,
    *,
    simulation_key: bytes | None = None,
    dealt: Words | None = None,
    threads: int = 1,
    phase: Phase = _untimed,
    progress: Callable[[float], None] | None = None,
    sums: Words | None = None,
) -> Words:
    """Apply the task's public matrix to one server's share of the batch.

    Parameters
    ----------
    task : VerifiedTask
        The public facts.
    share : Share
        This server's share, (n, copies, width) ring or field elements.
    simulation_key : bytes, optional
        Key of this server's noise in a repeatable simulation, from `simulation_keys`; by default noise is secret.
    dealt : ndarray of uint64, shape (k, width), optional
        This server's share of the noise that all have dealt; needed where the task has servers deal their noise.
    threads : int
        Threads of the kernel; the result does not depend on them.
    phase : callable
        ``phase(name)`` is entered around "read" and "transform", for a meter; noise belongs to "transform".
    progress : callable, optional
        Called with the fraction done.
    sums : ndarray of uint64, optional
        The public matrix times the share, where other processes have computed it; they are changed.

    Returns
    -------
    ndarray of uint64, shape (k, width)
        This server's share of the noisy sketch, unscaled and exact.

    Raises
    ------
    BatchMismatch
        If the share is not of the task's shape.
    InputError
        If the task has not been verified, or servers deal their noise and none is given, or the other way round.
    """
    require_verified(task)
    require_dealt(task, dealt)
    if (*share.shape[:-1], share.finished_width) != task.share_shape:
        raise BatchMismatch(f"share: shape {share.shape} given, {task.share_shape} expected by the task")
    stream = noise_stream(task, simulation_key)
    if sums is None:
        sums = sketch_share(task.sketch, share, threads=threads, phase=phase, progress=progress)
    with phase("transform"):
        return add_noise(task, share.finished(sums), stream, dealt=dealt, threads=threads)


def sketch_share(
    sketch: PublicMatrix,
    share: Share,
    *,
    threads: int = 1,
    phase: Phase = _untimed,
    progress: Callable[[float], None] | None = None,
) -> Words:
    """Return the public matrix times a share (n, copies, width) or (n, width), read chunk by chunk: uint64 (k, width).

    `threads`, `phase` and `progress` are those of `transform`.
    """
    if share.shape[0] != sketch.columns:
        raise InputError("share", f"{share.shape[0]} rows given, {sketch.columns} expected, one for each client")
    return sketch_rows(sketch, share, threads=threads, phase=phase, progress=progress)


def sketch_rows(
    sketch: PublicMatrix,
    share: Share,
    *,
    first: int = 0,
    threads: int = 1,
    phase: Phase = _untimed,
    progress: Callable[[float], None] | None = None,
) -> Words:
    """Return what the rows of a share add to the sketch, where the first one is the client of that number."""
    clients, *row = share.shape
    sums = sketch.zeros(row[-1])
    chunk = max(1, min(CHUNK_BYTES, share.chunk_bytes) // (8 * math.prod(row)))
    if threads > 1:  # the kernel hands out work in pieces of clients
        chunk = max(chunk, threads * sketch.piece)
    for begin in range(0, clients, chunk):
        count = min(chunk, clients - begin)
        with phase("read"):
            part = share.rows(begin, count)
        with phase("transform"):
            sketch.apply(part, out=sums, first=first + begin, threads=threads, ring=share.ring)
        if progress is not None:
            progress((begin + count) / clients)
    return sums


def noise_stream(task: Task, simulation_key: bytes | None = None) -> Stream:
    """Return the stream of this server's noise; a seeded one is refused unless the task is a simulation."""
    stream = Stream.from_os() if simulation_key is None else Stream(simulation_key, simulation=True)
    if not task.simulation:
        require_secret(stream, "transform")
    return stream


def add_noise(task: Task, sums: Words, stream: Stream, *, dealt: Words | None = None, threads: int = 1) -> Words:
    """Add this server's noise to its sums in place, if the task has servers add noise; return the sums.

    Noise that was `dealt` is a share of the noise of all servers; other noise is drawn here.
    """
    dealt = require_dealt(task, dealt)
    if dealt is not None:
        task.encoding.ring.add(sums, dealt, out=sums)
    elif task.servers_add_noise:
        task.encoding.ring.add(sums, server_noise(task, stream, threads=threads), out=sums)
    return sums


def server_noise(task: Task, stream: Stream, *, threads: int = 1) -> Words:
    """Draw the noise (k, width) that a server adds to its sums, as ring elements, from its `noise_stream`."""
    noise = task.noise.sample((task.sketch.rows, task.width), stream=stream, threads=threads)
    return task.encoding.ring.embed(noise)


def require_dealt(task: Task, dealt: Words | None) -> Words | None:
    """Return a share of dealt noise; refuse one that is missing, not needed or of the wrong shape.

    Sums of a task whose servers deal their noise are never opened without it.
    """
    if not task.noise_is_dealt:
        if dealt is not None:
            raise InputError("dealt", "a share of noise", "none", "the task has no noise that servers deal")
        return None
    shape = (task.sketch.rows, task.width)
    if dealt is None or dealt.shape != shape:
        raise InputError(
            "dealt",
            f"{'none' if dealt is None else dealt.shape}",
            f"this server's share {shape} of the noise that servers deal",
            "only servers of a collection deal noise",
        )
    return task.encoding.ring.require_canonical(dealt, "dealt")


def require_own_noise(task: Task) -> None:
    """Refuse a task whose servers deal noise among one another: only those of a collection do.

    Raises
    ------
    InputError
        If so.
    """
    if task.noise_is_dealt:
        raise InputError(
            "sharing",
            "'shamir' given with proofs, 'additive' expected in a run without a collection: servers deal "
            "noise to Shamir shares in a collection with proofs only",
        )


def draw_dealt(task: Task, stream: Stream, *, threads: int = 1) -> Integers:
    """Draw the noise (k, width) that one server deals, at most `Task.noise_bound` in size."""
    noise: Integers = task.noise.sample((task.sketch.rows, task.width), stream=stream, threads=threads)
    return noise.clip(-task.noise_bound, task.noise_bound)


def deal_together(task: Task, keys: Sequence[bytes | None], stream: Stream | None = None) -> list[Words | None]:
    """Deal the noise of all servers in one process; return each server's share of it, or None where none is dealt.

    This is what a simulation has instead of messages and proofs. As many servers deal as the task states.

    Parameters
    ----------
    task : Task
        The public facts.
    keys : sequence of bytes or None
        Of each server's noise, from `simulation_keys`.
    stream : Stream, optional
        Source of the shares: the operating system's by default.
    """
    scheme, dealers = task.scheme, task.noising.dealers
    if not isinstance(scheme, ShamirSharing) or not isinstance(dealers, int):
        return [None] * len(keys)
    ring = task.encoding.ring
    shape = (task.sketch.rows, task.width)
    shares = [np.zeros(shape, np.uint64) for _ in keys]
    for key in keys[:dealers]:
        noise = draw_dealt(task, noise_stream(task, key))
        for share, part in zip(shares, scheme.split(ring.embed(noise), stream=stream), strict=True):
            ring.add(share, part, out=share)
    return list(shares)


def simulation_keys(task: Task, stream: Stream | None) -> list[bytes | None]:
    """Draw the keys of the servers' noise, if they add any, from a simulation's seeded stream.

    None stands for secret noise. Keys are drawn from the stream first: servers get them before any client begins.
    """
    servers = task.trust.servers
    if stream is None or not stream.simulation or not task.servers_add_noise:
        return [None] * servers
    return [stream.bytes(KEY_BYTES) for _ in range(servers)]
