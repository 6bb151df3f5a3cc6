"""Additive shares: the shares add up to the secret, and all but one of them are expansions of keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.linear.encoding.ring import Ring, output, ring_named
from dpmpc.linear.sharing.batch import Expansion, blocks, draw_keys, in_parallel, outputs


class AdditiveSharing:
    """Shares that add up to the secret: all of the M servers are needed, any M - 1 may collude.

    The first M - 1 shares are `expand` of keys, 16 bytes each, which are the next bytes of the stream; the last share
    is the secret minus their sum.

    Parameters
    ----------
    servers : int
        M, at least 2.
    ring : Ring, class or name
        Ring or field of the elements.
    """

    def __init__(self, servers: int, ring: Ring | type[Ring] | str = "ring64"):
        self.servers = require_whole("servers", servers, 2)
        self.ring = ring_named(ring)

    def __repr__(self) -> str:
        return f"AdditiveSharing(servers={self.servers}, ring={self.ring!r})"

    @property
    def conduct(self) -> str:
        """Code of what is assumed of the servers' conduct (`dpmpc.privacy.statements`)."""
        return "additive"

    def split(
        self, x: Words, stream: Stream | None = None, threads: int = 1, out: Sequence[Words] | None = None
    ) -> list[Words]:
        """Split elements of any shape into M arrays of that shape.

        Parameters
        ----------
        x : ndarray of uint64
            Canonical elements.
        stream : Stream, optional
            Source of the keys: the operating system's by default.
        threads : int
            They release the GIL.
        out : sequence of M arrays, optional
            Overwritten and returned: for many blocks, reused memory is the fast way.

        Returns
        -------
        list of ndarray of uint64
        """
        x = self.ring.require_canonical(x, "x")
        *masks, last = outputs(out, x.shape, self.servers)
        self._subtract_masks(x, draw_keys(stream, self.servers - 1), masks, last, threads)
        return [*masks, last]

    def split_seeded(self, x: Words, stream: Stream | None = None, threads: int = 1) -> tuple[list[bytes], Words]:
        """Split as `split` does from the same stream, but return the M - 1 keys instead of their expansions."""
        x = self.ring.require_canonical(x, "x")
        keys = draw_keys(stream, self.servers - 1)
        last = np.empty(x.shape, np.uint64)
        self._subtract_masks(x, keys, None, last, threads)
        return keys, last

    def mask(self, x: Words, keys: Sequence[bytes], out: Words, *, first: int = 0, threads: int = 1) -> None:
        """Overwrite `out` with elements `first` and up of the last share that belongs to M - 1 keys.

        Blocks of a secret, masked one after the other, make up the last share of `split_seeded`.

        Parameters
        ----------
        x : ndarray of uint64
            These elements of the secret, canonical.
        keys : sequence of bytes
            What the other servers get.
        out : ndarray of uint64, the shape of `x`
            May be `x`.
        first : int
            How many elements of the secret came before these.
        threads : int
            They release the GIL.
        """
        x = self.ring.require_canonical(x, "x")
        self._subtract_masks(x, keys, None, output(out, x.shape), threads, first)

    def combine(self, shares: Sequence[Words]) -> Words:
        """Return the secret.

        Raises
        ------
        InputError
            If there are not M shares, or they differ in shape, are not uint64 or not canonical.
        """
        if len(shares) != self.servers:
            raise InputError("shares", f"{len(shares)}", self.servers)
        return self.ring.sum_of(shares, name="shares")

    def _subtract_masks(
        self,
        x: Words,
        keys: Sequence[bytes],
        masks: Sequence[Words] | None,
        last: Words,
        threads: int,
        first: int = 0,
    ) -> None:
        """Overwrite `last` with x minus the expansions of the keys, which are kept in `masks` where it is given."""
        secret, remainder = x.reshape(-1), last.reshape(-1)
        kept = None if masks is None else [mask.reshape(-1) for mask in masks]

        def part(begin: int, end: int) -> None:
            reader = Masks(self.ring, keys, first + begin)
            for block in blocks(begin, end):
                parts = None if kept is None else [mask[block] for mask in kept]
                reader.subtract(secret[block], remainder[block], parts)

        in_parallel(part, x.size, threads)


class Masks:
    """The expansions of the keys of all servers but the last, read and subtracted block by block.

    Parameters
    ----------
    ring : Ring
        Ring or field of the elements.
    keys : sequence of bytes
        One for each of these servers.
    first : int
        Element to begin with.
    """

    def __init__(self, ring: Ring, keys: Sequence[bytes], first: int):
        self._ring = ring
        self._expansions = [Expansion(Stream(key), ring, first) for key in keys]
        self._scratch = np.empty((len(keys), 0), np.uint64)

    def subtract(self, x: Words, out: Words, masks: Sequence[Words] | None = None) -> None:
        """Overwrite `out` with the flat, canonical `x` minus the next elements of all keys.

        Parameters
        ----------
        x, out : ndarray of uint64, shape (m,)
            May be the same. Blocks of about 2^16 elements are the fastest.
        masks : sequence of arrays like `out`, optional
            Overwritten with what is subtracted.
        """
        if masks is None:
            if x.size > self._scratch.shape[1]:
                self._scratch = np.empty((len(self._expansions), x.size), np.uint64)
            masks = [row[: x.size] for row in self._scratch]
        for expansion, mask in zip(self._expansions, masks, strict=True):
            expansion.read(mask)
        self._ring.mask(x, masks, out)
