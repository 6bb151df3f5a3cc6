"""Secret sharing among M servers: additive shares, as arrays or as keys, and Shamir shares.

Both schemes are linear: a server that adds, or scales by a public number, applies it to its share alone.

Promised: fewer shares than a scheme needs are independent of the secret, if AES is a pseudorandom permutation and the
stream is secret; the shares depend on the secret and the stream only, not on blocks or threads; Shamir shares that are
wrong are noticed, and corrected up to a number of them (`ShamirSharing.correct`). Not promised: that an additive share
was not tampered with, or that a wrong share is its holder's fault. A simulation stream is accepted and hides nothing;
code that protects real people refuses it (`dpmpc.randomness.require_secret`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dpmpc.errors import InconsistentShares, InputError
from dpmpc.interpolation import lagrange, outliers
from dpmpc.randomness import KEY_BYTES, Stream
from dpmpc.rings import Home, Mersenne61, Words, home, output
from dpmpc.shares import ArrayShare, Expansion, FileShare, SeededShare, Share, expand, open_share, save_share

__all__ = [
    "AdditiveSharing",
    "ArrayShare",
    "Corrected",
    "FileShare",
    "SeededShare",
    "ShamirSharing",
    "Share",
    "expand",
    "open_share",
    "save_share",
]

_BLOCK = 1 << 16  # elements that are split at once: a block of every share stays in the cache
_LEAST_PARALLEL = 1 << 15  # less than this is done sooner than threads are started


class AdditiveSharing:
    """Shares that add up to the secret: all of the M servers are needed, any M - 1 may collude.

    The first M - 1 shares are `expand` of keys, 16 bytes each, which are the next bytes of the stream; the last share
    is the secret minus their sum.

    Parameters
    ----------
    servers : int
        M, at least 2.
    ring : Home, class or name
        Ring or field of the elements.
    """

    def __init__(self, servers: int, ring: Home | type[Home] | str = "ring64"):
        if servers < 2:
            raise InputError(f"servers: {servers} given, at least 2 expected")
        self.servers = servers
        self.ring = home(ring)

    def __repr__(self) -> str:
        return f"AdditiveSharing(servers={self.servers}, ring={self.ring!r})"

    @property
    def conduct(self) -> str:
        """What is assumed of the servers' conduct, in words."""
        return (
            "the servers follow the protocol (semi-honest): an altered share goes unnoticed, and all "
            f"{self.servers} are needed"
        )

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
        *masks, last = _outputs(out, x.shape, self.servers)
        self._subtract_masks(x, _draw_keys(stream, self.servers - 1), masks, last, threads)
        return [*masks, last]

    def split_seeded(self, x: Words, stream: Stream | None = None, threads: int = 1) -> tuple[list[bytes], Words]:
        """Split as `split` does from the same stream, but return the M - 1 keys instead of their expansions."""
        x = self.ring.require_canonical(x, "x")
        keys = _draw_keys(stream, self.servers - 1)
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
            raise InputError(f"shares: {len(shares)} given, {self.servers} expected")
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
            for block in _blocks(begin, end):
                parts = None if kept is None else [mask[block] for mask in kept]
                reader.subtract(secret[block], remainder[block], parts)

        in_parallel(part, x.size, threads)


@dataclasses.dataclass(frozen=True, eq=False)
class Corrected:
    """A secret, and whose shares of it were wrong.

    Attributes
    ----------
    secret : ndarray of uint64
        Interpolated from the other shares, all of which agree.
    wrong : tuple of int
        Those parties, in order.
    """

    secret: Words
    wrong: tuple[int, ...]


class Masks:
    """The expansions of the keys of all servers but the last, read and subtracted block by block.

    Parameters
    ----------
    ring : Home
        Ring or field of the elements.
    keys : sequence of bytes
        One for each of these servers.
    first : int
        Element to begin with.
    """

    def __init__(self, ring: Home, keys: Sequence[bytes], first: int):
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


class ShamirSharing:
    """Points of a random polynomial of degree t through the secret: any t + 1 shares give it, any t tell nothing.

    Over Z_p, p = 2^61 - 1, as MPyC's. The share of party i, counted from 0, is f(i + 1), f(X) = x + sum_j c_j X^j. The
    coefficients c_1, ..., c_t are `expand` of keys, 16 bytes each, which are the next bytes of the stream.

    A linear computation, such as a sketch, works for every t < M. With t = M - 1 the secret is as safe as with additive
    shares and as fragile: every server is needed. With 2 t < M, an honest majority, M - t - 1 servers may be missing,
    the shares that are not needed reveal a lie, and MPyC can go on to multiply them.

    Shares are a Reed-Solomon code of distance m - t where m of them are present: up to m - t - 1 wrong ones are noticed
    by `combine`, and up to floor((m - t - 1) / 2) corrected by `correct`. A share is wrong if any entry of it is.

    Parameters
    ----------
    servers : int
        M, at least 2.
    threshold : int
        t, from 1 to M - 1: how many servers may collude.
    """

    def __init__(self, servers: int, threshold: int):
        if servers < 2:
            raise InputError(f"servers: {servers} given, at least 2 expected")
        if not 1 <= threshold < servers:
            raise InputError(f"threshold: {threshold} given, a number from 1 to {servers - 1} expected")
        self.servers = servers
        self.threshold = threshold
        self.ring = Mersenne61()

    def __repr__(self) -> str:
        return f"ShamirSharing(servers={self.servers}, threshold={self.threshold})"

    @property
    def conduct(self) -> str:
        """What is assumed of the servers' conduct, and what becomes of those who lie or are missing, in words."""
        assumed = f"at most {self.threshold} of the {self.servers} servers depart from the protocol"
        spare = self.servers - self.threshold - 1
        if spare == 0:
            return f"{assumed}: an altered share goes unnoticed, and all are needed"
        corrected = f"corrected and named (up to {spare // 2}, and more are then not always noticed)"
        return (
            f"{assumed}: wrong shares are noticed (up to {spare})"
            + (f", or {corrected}" if spare > 1 else ", but not corrected")
            + f"; servers may be missing (up to {spare}), each for one wrong share less that is noticed"
        )

    def split(
        self, x: Words, stream: Stream | None = None, threads: int = 1, out: Sequence[Words] | None = None
    ) -> list[Words]:
        """Split field elements of any shape into M arrays of that shape; parameters as in `AdditiveSharing.split`."""
        x = self.ring.require_canonical(x, "x")
        shares = _outputs(out, x.shape, self.servers)
        keys = _draw_keys(stream, self.threshold)
        secret, flat = x.reshape(-1), [share.reshape(-1) for share in shares]

        def part(begin: int, end: int) -> None:
            expansions = [Expansion(Stream(key), self.ring, begin) for key in keys]
            scratch = np.empty((self.threshold, min(_BLOCK, end - begin)), np.uint64)
            for block in _blocks(begin, end):
                coefficients = [row[: block.stop - block.start] for row in scratch]
                for expansion, coefficient in zip(expansions, coefficients, strict=True):
                    expansion.read(coefficient)
                for party, share in enumerate(flat):
                    self._evaluate([secret[block], *coefficients], party + 1, share[block])

        in_parallel(part, x.size, threads)
        return shares

    def combine(self, shares: Sequence[Words] | Mapping[int, Words]) -> Words:
        """Return the secret, after a check that all shares lie on one polynomial of degree t.

        Parameters
        ----------
        shares : sequence of M arrays, or mapping from party to array
            At least t + 1; with just t + 1 there is nothing to check.

        Raises
        ------
        InputError
            If there are too few shares, an unknown party, differing shapes, a wrong dtype or an element not canonical.
        InconsistentShares
            If they do not lie on one polynomial: always so with 1 to m - t - 1 wrong shares of m. Names those that
            `correct` would correct.
        """
        by_party = self._by_party(shares)
        if self._first_disagreement(by_party) is not None:
            raise self._inconsistent(by_party, self._wrong(by_party))
        return self._interpolate(by_party, 0)

    def correct(self, shares: Sequence[Words] | Mapping[int, Words]) -> Corrected:
        """Return the secret although some of the shares may be wrong, and say which were.

        Of m shares up to floor((m - t - 1) / 2) may be wrong in any of their entries: one where m >= t + 3. The secret
        and the parties are then right, whoever chose the wrong shares and however. With more wrong shares than that,
        and fewer than m - t, there is an error, or those who chose them together make honest parties appear wrong and
        the secret another; whoever would rather stop than be deceived by so many uses `combine`.

        A wrong share need not be the fault of the party that holds it: so it is where a dealer has dealt points that
        are on no polynomial.

        Parameters
        ----------
        shares : sequence of M arrays, or mapping from party to array
            At least t + 1; with t + 1 or t + 2 nothing can be corrected.

        Raises
        ------
        InputError
            As `combine`.
        InconsistentShares
            If more shares are wrong than can be corrected.
        """
        by_party = self._by_party(shares)
        wrong = self._wrong(by_party)
        if wrong is None:
            raise self._inconsistent(by_party, None)
        good = {party: share for party, share in by_party.items() if party not in wrong}
        return Corrected(self._interpolate(good, 0), tuple(sorted(wrong)))

    def _evaluate(self, coefficients: Sequence[Words], point: int, out: Words) -> None:
        """Overwrite `out` with sum_j coefficients[j] point^j, by Horner's rule."""
        value = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            value = self.ring.multiply_add(value, point, coefficient, out=out)

    def _by_party(self, shares: Sequence[Words] | Mapping[int, Words]) -> dict[int, Words]:
        if not isinstance(shares, Mapping):
            if len(shares) != self.servers:
                wanted = f"{self.servers} shares, or a mapping from party to share, expected"
                raise InputError(f"shares: {len(shares)} given, {wanted}")
            shares = dict(enumerate(shares))
        if len(shares) <= self.threshold:
            raise InputError(f"shares: {len(shares)} given, at least {self.threshold + 1} expected")
        for party in shares:
            if party not in range(self.servers):
                raise InputError(f"shares: party {party!r} given, a number from 0 to {self.servers - 1} expected")
        ordered = {
            party: self.ring.require_canonical(shares[party], f"share of party {party}") for party in sorted(shares)
        }
        if len({share.shape for share in ordered.values()}) > 1:
            raise InputError(
                f"shares: shapes {[share.shape for share in ordered.values()]} given, equal shapes expected"
            )
        return ordered

    def _interpolate(self, shares: Mapping[int, Words], at: int) -> Words:
        """Return f(at) from the first t + 1 shares: a weighted sum with Lagrange's coefficients."""
        chosen = list(shares)[: self.threshold + 1]
        value = np.zeros(shares[chosen[0]].shape, np.uint64)
        for party, weight in zip(chosen, lagrange([party + 1 for party in chosen], at, self.ring.modulus), strict=True):
            value = self.ring.multiply_add(shares[party], weight, value, out=value)
        return value

    def _first_disagreement(self, shares: Mapping[int, Words]) -> int | None:
        """Return the flat index of an entry whose shares are on no polynomial of degree t; None if there is none."""
        for party in list(shares)[self.threshold + 1 :]:
            differing = self._interpolate(shares, party + 1) != shares[party]
            if differing.any():
                return int(differing.argmax())
        return None

    def _wrong(self, shares: Mapping[int, Words]) -> set[int] | None:
        """Return the parties without whom the others agree, or None if there are more than can be corrected.

        An entry where shares disagree is decoded and tells of at least one more wrong party. If there are no more than
        can be corrected, each entry has no more, so that nobody is taken for wrong who is not.
        """
        most = (len(shares) - self.threshold - 1) // 2
        wrong: set[int] = set()
        parties = list(shares)
        while len(wrong) <= most:
            others = {party: share for party, share in shares.items() if party not in wrong}
            entry = self._first_disagreement(others)
            if entry is None:
                return wrong
            values = [int(shares[party].flat[entry]) for party in parties]
            found = outliers([party + 1 for party in parties], values, self.threshold, self.ring.modulus)
            if found is None:
                return None
            wrong |= {parties[index] for index in found}
        return None

    def _inconsistent(self, shares: Mapping[int, Words], wrong: set[int] | None) -> InconsistentShares:
        message = f"shares of parties {sorted(shares)} do not lie on one polynomial of degree {self.threshold}"
        if wrong is None:
            return InconsistentShares(f"{message}: which of them are wrong is unknown")
        if len(wrong) == 1:
            (liar,) = wrong
            return InconsistentShares(f"{message}: that of party {liar} is wrong", party=liar)
        return InconsistentShares(f"{message}: those of parties {sorted(wrong)} are wrong")


def _draw_keys(stream: Stream | None, count: int) -> list[bytes]:
    source = stream or Stream.from_os()
    return [source.bytes(KEY_BYTES) for _ in range(count)]


def _outputs(out: Sequence[Words] | None, shape: tuple[int, ...], servers: int) -> list[Words]:
    arrays = [None] * servers if out is None else list(out)
    if len(arrays) != servers:
        raise InputError(f"out: {len(arrays)} arrays given, {servers} expected")
    return [output(array, shape) for array in arrays]


def _blocks(begin: int, end: int) -> Iterator[slice]:
    for first in range(begin, end, _BLOCK):
        yield slice(first, min(first + _BLOCK, end))


def in_parallel(part: Callable[[int, int], None], size: int, threads: int) -> None:
    """Call ``part(begin, end)`` for ranges that make up ``range(size)``, one range per thread."""
    if threads < 1:
        raise InputError(f"threads: {threads} given, at least 1 expected")
    if threads == 1 or size <= _LEAST_PARALLEL:
        part(0, size)
        return
    length = -(-size // threads)
    ranges = [(begin, min(begin + length, size)) for begin in range(0, size, length)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(part, *limits) for limits in ranges]:
            done.result()
