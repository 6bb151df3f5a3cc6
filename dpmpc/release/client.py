"""The randomizer R: what a client does with its row before anything leaves its device.

Paper: Burkhardt et al. 2025, Algorithm 1. A client

1. clips and normalises its row to the public bounds,
2. encodes it as integers,
3. makes one copy for each of its rows in the sketch, and adds fresh noise to each copy (or sends one noisy copy, or one
   without noise, as the task states: `dpmpc.privacy.calibration`),
4. splits the copies into shares, one per server; where the task requires proofs, together with a proof that what is
   shared is a well-formed row (`Client.prove`).

The noise of one client is too small to protect it; the noise of all that meet in a row of the sketch is what the
guarantee counts. `Client` verifies the task before it randomizes anything: it does not trust a server
that the noise suffices. The functions work on a block of clients at once, for tests and simulations of millions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpmpc.base.arrays import Bytes, Integers, Reals, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream, require_secret
from dpmpc.linear.proving import Prover
from dpmpc.linear.proving.prove import ProvedShares
from dpmpc.linear.sharing import AdditiveSharing
from dpmpc.linear.sharing.additive import Masks
from dpmpc.linear.sharing.batch import ArrayShare, FileShare, SeededShare, Share, in_parallel
from dpmpc.privacy.task import Task, VerifiedTask, require_verified
from dpmpc.release.proved_reports import circuit_of, scheme_of, statement_of

BLOCK = 1 << 15  # clients randomized at once: bounds the memory of a simulation
BLOCK_WORDS = 1 << 23  # but no more words than these at once, where clients send many copies
_CACHED_WORDS = 1 << 17  # encoded and masked at once by each thread, so that all of it stays in the cache


class Client:
    """One or many clients of a task.

    Parameters
    ----------
    task : VerifiedTask
        The public facts, as `design` or `Task.verify` returns them.
    stream : Stream, optional
        Source of noise and shares: the operating system's by default.

    Raises
    ------
    InputError
        If the task has not been verified.
    SimulationOnly
        If a seeded stream is given and the task does not state that it is a simulation.
    """

    def __init__(self, task: VerifiedTask, stream: Stream | None = None):
        self.task = require_verified(task)
        self.stream = stream or Stream.from_os()
        if not task.simulation:
            require_secret(self.stream, "Client")

    def encode(self, rows: Reals, *, first: int = 0, threads: int = 1) -> Integers:
        """Clip, normalise and encode rows (m, p) in the units of the schema; integers (m, width).

        Errors count the `first` rows that came before these.
        """
        return encode_rows(self.task, rows, first=first, threads=threads)

    def randomize(self, rows: Reals, *, first: int = 0, threads: int = 1) -> Words:
        """Return the copies (m, copies, width) as ring or field elements, still secret, noisy if clients add noise."""
        copies = self.encode(rows, first=first, threads=threads)[:, None, :]
        noisy = self.noise(len(rows), threads)
        if noisy is not None:
            noisy += copies
            copies = noisy
        return self.task.encoding.ring.embed(copies, out=copies.view(np.uint64))

    def noise(self, count: int, threads: int = 1) -> Integers | None:
        """Draw what `count` clients add to their copies (count, copies, width); None if clients add no noise."""
        if self.task.noising.by != "clients":
            return None
        shape = (count, self.task.copies, self.task.width)
        return self.task.noise.sample(shape, stream=self.stream, threads=threads)

    def report(self, rows: Reals) -> list[Words]:
        """Randomize rows and split them: one array of shares for each server."""
        return self.task.scheme.split(self.randomize(rows), stream=self.stream)

    def witnesses(self, rows: Reals, *, first: int = 0) -> Words:
        """Clip, normalise and encode rows as what is proved of them (m, words), still secret.

        Raises
        ------
        InputError
            If the task requires no proofs.
        """
        statement = statement_of(self.task)
        return statement.witness(statement.encode(self.task.schema.normalise(rows, first=first)))

    def prove(self, rows: Reals, ids: Bytes, collection: bytes, *, first: int = 0) -> list[ProvedShares]:
        """Share rows (m, p) and prove that they are well formed.

        Parameters
        ----------
        rows : ndarray of float64, shape (m, p)
            In the units of the schema.
        ids : ndarray of uint8, shape (m, 16)
            Of the reports.
        collection : bytes
            What the proofs are bound to, 32 bytes.
        first : int
            Rows that came before these, which errors count.

        Returns
        -------
        list of ProvedShares
            One for each server.
        """
        return self.share(self.witnesses(rows, first=first), ids, collection)

    def share(self, witnesses: Words, ids: Bytes, collection: bytes) -> list[ProvedShares]:
        """Share witnesses, true or not, with the proofs that the prover computes of them; see `prove`."""
        prover = Prover(circuit_of(self.task), scheme_of(self.task), collection)
        return prover.reports(witnesses, ids, self.stream)


def encode_rows(task: Task, rows: Reals, *, first: int = 0, threads: int = 1) -> Integers:
    """Clip, normalise and encode rows (m, p) as `Client.encode` does, of a task that its caller has verified."""
    encoded = np.empty((len(rows), task.width), np.int64)

    def part(begin: int, end: int) -> None:
        task.statistic.encode_raw(rows[begin:end], task.schema, task.encoding, encoded[begin:end], first + begin)

    in_parallel(part, len(rows), threads)
    return encoded


def share_batch(
    task: Task,
    rows: Reals,
    *,
    stream: Stream | None = None,
    storage: Callable[[int], Words | FileShare] | None = None,
    threads: int = 1,
    progress: Callable[[float], None] | None = None,
) -> list[Share]:
    """Simulate all the clients of a task.

    With additive shares, all servers but the last receive a 16-byte key for the batch instead of an array.

    Parameters
    ----------
    task : Task
        The public facts.
    rows : ndarray of float64, shape (n, p)
        One row per client, in the units of the schema.
    stream : Stream, optional
        As in `Client`.
    storage : callable, optional
        ``storage(server)`` returns what a server's share of ``task.share_shape`` is written to, block by block: an
        array of uint64, or a `FileShare`, so that no more than a block is in memory. By default a new array.
    threads : int
        Threads of every step; the shares do not depend on them.
    progress : callable, optional
        Called with the fraction done.

    Returns
    -------
    list of Share
        One for each server.
    """
    if rows.shape != (task.clients, len(task.schema)):
        raise InputError("rows", f"shape {rows.shape}", f"{(task.clients, len(task.schema))}", condition="by the task")
    client = Client(task.verify(), stream)
    place = storage or (lambda server: np.empty(task.share_shape, np.uint64))
    scheme = task.scheme
    servers = task.trust.servers
    keys = [client.stream.bytes(16) for _ in range(servers - 1)] if isinstance(scheme, AdditiveSharing) else []
    places = {server: place(server) for server in range(len(keys), servers)}
    step = min(BLOCK, max(1, BLOCK_WORDS // (task.copies * task.width)))
    last = places[servers - 1]
    if isinstance(scheme, AdditiveSharing) and isinstance(last, np.ndarray) and task.noising.by != "clients":
        step = max(1, BLOCK_WORDS // task.width)  # no client's noise has to be held
    buffer = np.empty((step, task.copies, task.width) if isinstance(last, FileShare) else 0, np.uint64)
    for first in range(0, task.clients, step):
        block = slice(first, min(first + step, task.clients))
        if isinstance(scheme, AdditiveSharing):
            masked = last[block] if isinstance(last, np.ndarray) else buffer[: block.stop - first]
            _mask_rows(client, rows[block], keys, masked, first, threads)
            if isinstance(last, FileShare):
                last[block] = masked
        else:
            noisy = client.randomize(rows[block], first=first, threads=threads)
            for server, part in enumerate(scheme.split(noisy, stream=client.stream)):
                places[server][block] = part
        if progress is not None:
            progress(block.stop / task.clients)
    ring = task.encoding.ring
    written = [target if isinstance(target, FileShare) else ArrayShare(target, ring) for target in places.values()]
    return [*(SeededShare(key, task.share_shape, ring) for key in keys), *written]


def _mask_rows(
    client: Client,
    rows: Reals,
    keys: Sequence[bytes],
    out: Words,
    first: int,
    threads: int,
) -> None:
    """Overwrite `out` with the last server's share of rows; `first` rows came before these.

    What `Client.randomize` and `AdditiveSharing.mask` do, in blocks that stay in the cache.
    """
    task = client.task
    ring, words = task.encoding.ring, task.copies * task.width
    noise = client.noise(len(rows), threads)

    def part(begin: int, end: int) -> None:
        masks = Masks(ring, keys, (first + begin) * words)
        scratch = np.empty((min(end - begin, max(1, _CACHED_WORDS // words)), task.width), np.int64)
        for start in range(begin, end, len(scratch)):
            block = slice(start, min(start + len(scratch), end))
            encoded = scratch[: block.stop - start]
            task.statistic.encode_raw(rows[block], task.schema, task.encoding, encoded, first + start)
            copies = encoded[:, None, :]
            if noise is not None:
                copies = np.add(noise[block], copies, out=noise[block])
            elements = ring.embed(copies, out=copies.view(np.uint64))
            masks.subtract(elements.reshape(-1), out[block].reshape(-1))

    in_parallel(part, len(rows), threads)
