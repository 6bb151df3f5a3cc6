"""What every public matrix can do: apply itself to shares chunk by chunk, and state what it is.

Subclasses state how S is added up (`PublicMatrix._add`) and which of its entries are not zero (`PublicMatrix.entries`).
"""

from __future__ import annotations

import abc
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_bool, require_hex, require_whole
from dpmpc.base.arrays import Integers, Reals, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import SEED_BYTES
from dpmpc.base.storage.records import Described
from dpmpc.linear.encoding.ring import Mersenne61, Ring, ring_named
from dpmpc.linear.sketching import overlaps

if TYPE_CHECKING:
    import scipy.sparse

Kind = Literal["ring64", "mersenne61", "float64"]
Number = TypeVar("Number", np.uint64, np.float64)
Clients = tuple[int, int]  # from the first to before the second

MOST_ROWS = (1 << 31) - 1  # a row and a sign share 32 bits
MOST_COLUMNS = 1 << 34  # four clients share a 32-bit counter
LINE = 64  # bytes of a cache line
COMPARED = 1 << 12  # clients at each end whose sums are compared with the entries, of a matrix that is not dpmpc's
PIECE = 1 << 16  # clients: what a thread is worth starting for, and what is copied at once where X is not contiguous


class PublicMatrix(Described):
    """A matrix S with k rows, and one column for each client, that everybody knows.

    Subclasses state how S is added up (`_add`) and which of its entries are not zero (`entries`); dense families
    override what is built on `entries`.

    Attributes
    ----------
    rows, columns : int
        k and n.
    sparsity : int
        s, the number of copies: each is a matrix with one entry +-1 in every column.
    balanced : bool
        Whether every copy's rows have floor(n/k) or ceil(n/k) clients.
    """

    family: ClassVar[str]

    def __init__(self, rows: int, columns: int, sparsity: int, balanced: bool):
        self.rows = require_whole("rows", rows, 1, MOST_ROWS)
        self.columns = require_whole("columns", columns, 1, MOST_COLUMNS)
        self.sparsity = require_whole("sparsity", sparsity, 1, self.rows)
        self.balanced = require_bool("balanced", balanced)

    @property
    def shape(self) -> tuple[int, int]:
        """(k, n)."""
        return self.rows, self.columns

    @property
    def scale(self) -> float:
        """1/sqrt(s): the factor that makes the entries +-1 of `apply` those of ``@``."""
        return 1.0 / math.sqrt(self.sparsity)

    def describe(self) -> dict[str, Any]:
        """Return the public facts, fit for JSON; `from_facts` makes the same matrix from them."""
        names = ("family", "rows", "columns", "sparsity", "balanced")
        return {name: getattr(self, name) for name in names} | self.plugin()

    @classmethod
    def drawn(cls, rows: int, columns: int, sparsity: int | None, seed: bytes, *, balanced: bool = True) -> Self:
        """Draw a matrix for a task: how `design` makes one of a family that another distribution brings.

        Parameters
        ----------
        rows, columns : int
            k and n.
        sparsity : int or None
            s; None for what the family usually has.
        seed : bytes
            32 bytes.
        balanced : bool
            Whether every copy hits every row of the sketch equally often, where the family has the choice.
        """
        raise InputError("sketch", f"{cls.family!r}, which `design` cannot draw", "a family with a method `drawn`")

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Make the matrix of this family that has these facts; those that the constructor does not take are left.

        Raises
        ------
        InputError
            If an argument of the constructor is missing, or is not what it must be.
        """
        for name in inspect.signature(cls).parameters:
            if name not in facts:
                raise InputError("sketch", f"{name} is missing")
        given = {name: facts[name] for name in inspect.signature(cls).parameters}
        if "seed" in given:
            given["seed"] = require_hex("seed", given["seed"], SEED_BYTES)
        return cls(**given)

    @abc.abstractmethod
    def entries(self, first: int, count: int) -> tuple[Integers, NDArray[np.int8]]:
        """Return the public draw of some clients.

        Parameters
        ----------
        first, count : int
            Clients first, .., first + count - 1.

        Returns
        -------
        rows : ndarray of int64, shape (count, s)
            The row of each copy.
        signs : ndarray of int8, shape (count, s)
            +1 or -1.
        """

    @abc.abstractmethod
    def _add(self, kind: Kind, first: int, X: Words, Y: Words) -> None:
        """Add S[:, first:first + m] X to Y (k, p), for C-contiguous X (m, p) or (m, s p): the words of the numbers."""

    def apply(
        self,
        X: NDArray[Number],
        *,
        out: NDArray[Number] | None = None,
        threads: int = 1,
        ring: str | Ring = "ring64",
        first: int = 0,
    ) -> NDArray[Number]:
        """Sketch a chunk of clients: sqrt(s) S[:, first:first + m] X, where S has the entries +-1/sqrt(s).

        Parameters
        ----------
        X : ndarray of uint64 or float64, shape (m, p), (m, 1, p) or (m, s, p)
            A row for each client, which all its copies take, or a row for each copy. Ring or field elements, or real
            numbers. Or a secret array of MPyC, of which the result is one, too (`dpmpc.parties.mpyc`).
        out : ndarray, shape (k, p), optional
            Sums so far, of the dtype of X, to which the chunk is added; without meaning after an error.
        threads : int
            At most so many threads; the result does not depend on them.
        ring : {"ring64", "mersenne61"} or dpmpc.linear.encoding.ring.Ring
            What uint64 stands for. Not used for float64.
        first : int
            The first client of the chunk.

        Returns
        -------
        ndarray, shape (k, p)
            `out` or a new array. Exact and canonical for uint64. float64 is added up by pieces of clients: chunks
            give the bits of the whole if each starts at a multiple of `piece`.

        Raises
        ------
        InputError
            For a wrong dtype or shape, clients that S does not have, field elements that are not canonical, or a class
            from elsewhere whose sums are not those of its entries.
        """
        if not isinstance(X, np.ndarray) and (applier := _applier(X)) is not None:
            self.check_clients(X.shape, first)
            return cast(NDArray[Number], applier(self, X, first=first, threads=threads))
        kind = _kind(X, ring)
        self.check_clients(X.shape, first)
        if not (type(self).__module__.startswith("dpmpc.") or self._sums_its_entries):
            raise InputError(
                "sketch",
                f"{self.family!r}, whose `_add` does not add up what its `entries` state",
                "exact sums for each kind of numbers",
                "the noise is calibrated to the entries",
            )
        if X.ndim == 3 and X.shape[1] == 1:
            X = X[:, 0]
        threads = require_whole("threads", threads, 1, 1 << 10)
        sums = self._check_out(X, out, kind)
        terms, totals = X.view(np.uint64), sums.view(np.uint64)
        parts = self._parts(kind, first, len(X), threads)
        if len(parts) == 1 and kind != "float64":
            self._add_part(kind, terms, first, parts[0], totals)
            return sums
        for start in range(0, len(parts), threads):
            for part in self._sum_parts(kind, terms, first, parts[start : start + threads], totals.shape[1]):
                _accumulate(kind, totals, part)
        return sums

    @property
    def piece(self) -> int:
        """Clients whose float64 rows are added up apart from those of others."""
        return max(PIECE, 1 << (16 * self.rows - 1).bit_length())

    def zeros(self, width: int) -> Words:
        """Return the sums over no client, to add chunks to: zeros, uint64 (k, width).

        They begin where a cache line does, so that fewer of the kernel's vectors lie in two lines. With several copies
        `apply` then takes less time than with an `out` that begins elsewhere; with one it may take more.
        """
        size = self.rows * width
        room: Words = np.zeros(size + LINE // 8, np.uint64)
        start = -room.ctypes.data % LINE // 8
        return room[start : start + size].reshape(self.rows, width)

    def __matmul__(self, X: Any) -> Reals:
        """Return S X, scaled, for real X of shape (n,), (n, p) or (n, s, p): float64 (k,) or (k, p)."""
        _refuse_secure(X)
        given = np.asarray(X)
        if given.dtype.kind not in "biuf":
            raise InputError("X", given.dtype, "real numbers")
        real: Reals = given.astype(np.float64, copy=False)
        if real.ndim == 0 or len(real) != self.columns:
            raise InputError("X", f"shape {real.shape} given, {self.columns} rows expected, one for each client")
        sums = self.apply(real[:, np.newaxis] if real.ndim == 1 else real)
        sums *= self.scale
        return sums[:, 0] if real.ndim == 1 else sums

    def to_csc(self) -> scipy.sparse.csc_matrix:
        """Return sqrt(s) S, entries +-1, as a scipy.sparse.csc_matrix of int8: for small n."""
        import scipy.sparse  # a server that only sketches starts without SciPy

        stored = self.columns * self.sparsity
        if stored > np.iinfo(np.int32).max:
            raise InputError("columns, sparsity", f"{stored} entries, at most {np.iinfo(np.int32).max} expected")
        rows, signs = self.entries(0, self.columns)
        starts = np.arange(0, stored + 1, self.sparsity, dtype=np.int32)
        matrix = scipy.sparse.csc_matrix((signs.ravel(), rows.ravel().astype(np.int32), starts), shape=self.shape)
        matrix.sort_indices()
        return matrix

    def occupancy(self) -> Integers:
        """Return N_r, int64 (k,): the number of pairs of a client and a copy that hit row r."""
        positive, negative = self._tally
        return positive + negative

    def column_sums(self) -> Reals:
        """Return S 1, float64 (k,), scaled: what the constant column of every client's row becomes."""
        positive, negative = self._tally
        sums: Reals = np.multiply(positive - negative, self.scale)
        return sums

    def heaviest_client(self, weights: Reals) -> float:
        """Return the largest sum, over the rows that one client hits, of public weights.

        Parameters
        ----------
        weights : ndarray of float64, shape (k,)
            One weight for each row, such as 1/(N_r - t) in the calibration of noise.

        Returns
        -------
        float
            max_i sum_{r in R_i} weights[r].
        """
        weights = weights_from(weights, self.rows)
        return max(float(weights[rows].sum(axis=1).max()) for rows, _ in self._pieces())

    def overlaps(self) -> Reals:
        """Return G = S S^T + I for the unscaled S, float64 (k, k), exact: the noise of clients and anchors.

        Raises
        ------
        InputError
            If k is above 2^14.
        """
        G = overlaps.signed_overlaps(self._pieces() if self.sparsity > 1 else (), self.rows)
        G[np.diag_indices(self.rows)] = self.occupancy() + 1
        return G

    def leverage(self) -> Reals:
        """Return l_i = s_i^T G^-1 s_i of every client, float64 (n,), for the unscaled S and G = S S^T + I.

        It is at most s/(1 + s), and below k/n on average: how far client i's row stands out of the noise of all
        (theorem one-copy). Memory of G, its inverse and the result; of the result alone where s is 1. For many clients,
        `leverages` gives the same numbers in pieces.
        """
        leverage = np.empty(self.columns)
        first = 0
        for piece in self.leverages():
            leverage[first : first + len(piece)] = piece
            first += len(piece)
        return leverage

    def leverages(self, G: Reals | None = None) -> Iterator[Reals]:
        """Return `leverage` a piece of clients at a time; memory holds G, its inverse and a piece, whatever n is.

        Parameters
        ----------
        G : ndarray of float64, shape (k, k), optional
            The result of `overlaps`, where it is at hand.
        """
        if self.sparsity == 1:
            reciprocals = 1.0 / (self.occupancy() + 1)
            return (reciprocals[rows[:, 0]] for rows, _ in self._pieces())
        return self.quadratic_forms(np.asarray(np.linalg.inv(self.overlaps() if G is None else G), np.float64))

    def quadratic_forms(self, K: Reals) -> Iterator[Reals]:
        """Return s_i^T K s_i, for symmetric K (k, k) and the unscaled S, of the clients of each piece."""
        return overlaps.quadratic_forms(self._pieces(), K)

    def shared_pairs(self) -> int:
        """Return max_j of the sum, over the pairs of rows that client j hits, of the other clients that hit both."""
        if self.sparsity == 1:
            return 0
        counts = overlaps.pair_counts(self._pieces(), self.rows)
        heaviest = (sum(counts[pair] - 1 for pair in overlaps.row_pairs(hit, self.rows)) for hit, _ in self._pieces())
        return max(int(np.max(shared)) for shared in heaviest)

    @cached_property
    def _sums_its_entries(self) -> bool:
        """Whether the sums of the first and of the last clients are those of the entries, for each kind of numbers."""
        count = min(self.columns, COMPARED)
        numbers = np.arange(1, count * self.sparsity + 1, dtype=np.uint64) * 0x9E3779B97F4A7C15
        cases: tuple[tuple[Kind, NDArray[Any], int | None], ...] = (
            ("ring64", numbers, 1 << 64),
            ("mersenne61", numbers % Mersenne61.modulus, Mersenne61.modulus),
            ("float64", (numbers >> 44).astype(np.float64), None),  # whole numbers, whose sums are exact
        )
        return all(
            np.array_equal(self._own_sums(kind, first, terms), self._stated_sums(first, terms, modulus))
            for first in (0, self.columns - count)
            for kind, terms, modulus in cases
        )

    def _own_sums(self, kind: Kind, first: int, terms: NDArray[Any]) -> NDArray[Any]:
        """Return the sums of one column, with a number of its own for each copy, as `_add` computes them."""
        sums = self.zeros(1)
        self._add(kind, first, terms.view(np.uint64).reshape(-1, self.sparsity), sums)
        return sums[:, 0].view(terms.dtype)

    def _stated_sums(self, first: int, terms: NDArray[Any], modulus: int | None) -> NDArray[Any]:
        """Return the same sums as the entries state them, of halves of 32 bits, which do not overflow."""
        numbers: Words = terms.astype(np.uint64)
        rows, signs = self.entries(first, len(numbers) // self.sparsity)
        low, high = np.zeros((2, self.rows), np.int64)
        for half, sums in ((numbers & 0xFFFFFFFF, low), (numbers >> 32, high)):
            np.add.at(sums, rows.ravel(), half.astype(np.int64) * signs.ravel())
        whole = (high.astype(object) << 32) + low
        return whole if modulus is None else whole % modulus

    @cached_property
    def _tally(self) -> tuple[Integers, Integers]:
        """The number of entries +1 and -1 in each row."""
        counts = np.zeros((2, self.rows), np.int64)
        for rows, signs in self._pieces():
            for sign, total in zip((1, -1), counts, strict=True):
                total += np.bincount(rows[signs == sign], minlength=self.rows)
        return counts[0], counts[1]

    def _pieces(self) -> Iterator[tuple[Integers, NDArray[np.int8]]]:
        """Return the entries of all clients, a piece at a time."""
        size = max(1, PIECE // self.sparsity)
        for first in range(0, self.columns, size):
            yield self.entries(first, min(size, self.columns - first))

    def _parts(self, kind: Kind, first: int, count: int, threads: int) -> list[Clients]:
        """Split a chunk into what is summed apart: float64 at multiples of `piece`, for rounding depends on the order.

        Exact sums can be split anywhere: one part for each thread that is worth its start and its sums.
        """
        last = first + count
        if kind == "float64":
            cuts = range((first // self.piece + 1) * self.piece, last, self.piece)
        else:
            useful = min(threads, max(1, count // max(PIECE, self.rows)))
            cuts = range(first, last, max(1, -(-count // useful)))[1:]
        return list(pairwise([first, *cuts, last]))

    def _sum_parts(self, kind: Kind, X: Words, first: int, parts: list[Clients], width: int) -> Iterable[Words]:
        """Sum parts of a chunk, each from zero and, if there are several, on its own thread."""

        def total(part: Clients) -> Words:
            sums = self.zeros(width)
            self._add_part(kind, X, first, part, sums)
            return sums

        if len(parts) == 1:
            return [total(parts[0])]
        with ThreadPoolExecutor(len(parts)) as pool:
            return list(pool.map(total, parts))

    def _add_part(self, kind: Kind, X: Words, first: int, part: Clients, sums: Words) -> None:
        """Add the clients of `part`; X, which begins with client `first`, is copied by pieces if not contiguous."""
        size = part[1] - part[0] if X.flags.c_contiguous else PIECE
        for start in range(*part, max(1, size)):
            chunk = X[start - first : min(start + size, part[1]) - first]
            self._add(kind, start, np.ascontiguousarray(chunk).reshape(len(chunk), -1), sums)

    def check_clients(self, shape: tuple[int, ...], first: int) -> None:
        """Refuse rows of a shape that `apply` does not take, or of clients that this matrix does not have."""
        if len(shape) not in (2, 3) or shape[-1] == 0 or (len(shape) == 3 and shape[1] not in (1, self.sparsity)):
            raise InputError("X", f"shape {shape}", f"(m, p), (m, 1, p) or (m, {self.sparsity}, p)")
        require_whole("first", first, 0, self.columns)
        if first + shape[0] > self.columns:
            last = first + shape[0] - 1
            raise InputError("X", f"clients {first} to {last}", f"clients below {self.columns}")

    def _check_out(self, X: NDArray[Number], out: NDArray[Number] | None, kind: Kind) -> NDArray[Number]:
        shape = (self.rows, X.shape[-1])
        if out is None:
            return self.zeros(X.shape[-1]).view(X.dtype)
        if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != X.dtype:
            given = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
            raise InputError("out", given, f"an array of {X.dtype} {shape}")
        if not (out.flags.c_contiguous and out.flags.writeable) or np.may_share_memory(X, out):
            raise InputError("out", "a writeable C-contiguous array apart from X is expected")
        if kind == "mersenne61":
            Mersenne61().require_canonical(out.view(np.uint64), "out")
        return out

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Any]], PublicMatrix], tuple[dict[str, Any]]]:
        return type(self).from_facts, (self.describe(),)


def _accumulate(kind: Kind, totals: Words, part: Words) -> None:
    """Add one part's sums to the totals, as the numbers that the words are."""
    if kind == "float64":
        np.add(totals.view(np.float64), part.view(np.float64), out=totals.view(np.float64))
    else:
        ring_named(kind).add(totals, part, out=totals)


#: What applies a public matrix to a secret array, by the package that its type comes from: `dpmpc.parties.mpyc` adds
# MPyC's.
secret_appliers: dict[str, Callable[..., Any]] = {}


def _packages(X: object) -> set[str]:
    """Return the packages that an object's type and its bases come from."""
    return {kind.__module__.partition(".")[0] for kind in type(X).__mro__}


def _applier(X: object) -> Callable[..., Any] | None:
    """Return what applies a public matrix to a secret array; None of anything else."""
    return next((secret_appliers[name] for name in _packages(X) if name in secret_appliers), None)


def _refuse_secure(X: object) -> None:
    """Refuse a secure array of MPyC, which is not imported here, and state what to call with it."""
    if "mpyc" in _packages(X):
        raise InputError(
            "X",
            f"{type(X).__name__}, a secure object of MPyC,",
            "numbers",
            "call S.apply(x), after 'import dpmpc.parties.mpyc', with a secure array",
        )


def _kind(X: object, ring: str | Ring) -> Kind:
    _refuse_secure(X)
    dtype = X.dtype if isinstance(X, np.ndarray) else type(X).__name__
    if dtype not in (np.uint64, np.float64):
        raise InputError("X", dtype, "an array of uint64 or float64")
    return "float64" if dtype == np.float64 else cast(Kind, ring_named(ring).name)


def weights_from(weights: Reals, rows: int) -> Reals:
    """Return a weight for each row, checked."""
    weights = np.asarray(weights, np.float64)
    if weights.shape != (rows,):
        raise InputError("weights", f"shape {weights.shape}", f"({rows},)")
    return weights
