"""Shamir shares: points of a random polynomial. Some of them may be missing, and wrong ones are noticed.

`lagrange` and `outliers` compute with polynomials over a prime field: their values elsewhere, and points that are off
them. Numbers there are Python's: a server has one point, so this is never the slow part.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Words
from dpmpc.base.errors import InconsistentShares, InputError
from dpmpc.base.randomness import Stream
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sharing.batch import BLOCK, Expansion, blocks, draw_keys, in_parallel, outputs


def lagrange(points: Sequence[int], at: int, modulus: int) -> list[int]:
    """Return weights w with f(at) = sum_j w_j f(points[j]) for every polynomial f of degree < the number of points."""
    weights = []
    for point in points:
        others = [other for other in points if other != point]
        numerator = math.prod(at - other for other in others)
        denominator = math.prod(point - other for other in others)
        weights.append(numerator * pow(denominator, -1, modulus) % modulus)
    return weights


def outliers(points: Sequence[int], values: Sequence[int], degree: int, modulus: int) -> list[int] | None:
    """Find the points that have to go for the others to lie on one polynomial (Berlekamp and Welch, US 4633470).

    With m points and at most e = floor((m - degree - 1) / 2) outliers there is one such polynomial f: two of them would
    agree in m - 2 e > degree points. Let E be the monic polynomial of degree e that is zero at the outliers, and at
    any other points where there are fewer. Then N = f E solves

        N(x_i) = y_i E(x_i) for all i,    deg N <= degree + e,

    which is linear in the coefficients of N and E. For every solution N - f E has degree at most degree + e and is zero
    at the m - e points where y_i = f(x_i), so it is zero: E is zero at all outliers.
    """
    most = (len(points) - degree - 1) // 2
    equations = []
    for x, y in zip(points, values, strict=True):
        powers = [pow(x, exponent, modulus) for exponent in range(degree + most + 1)]
        equations.append([*powers, *(-y * power % modulus for power in powers[:most]), y * powers[most] % modulus])
    solution = _solve(equations, modulus)
    if solution is None:
        return None
    locator = [*solution[degree + most + 1 :], 1]
    pairs = list(zip(points, values, strict=True))
    known = [(x, y) for x, y in pairs if _value(locator, x, modulus)][: degree + 1]
    xs, ys = [x for x, _ in known], [y for _, y in known]
    indices = [index for index, (x, y) in enumerate(pairs) if _dot(lagrange(xs, x, modulus), ys, modulus) != y]
    return indices if len(indices) <= most else None


def _dot(left: Sequence[int], right: Sequence[int], modulus: int) -> int:
    return sum(a * b for a, b in zip(left, right, strict=True)) % modulus


def _value(coefficients: Sequence[int], x: int, modulus: int) -> int:
    return _dot(coefficients, [pow(x, exponent, modulus) for exponent in range(len(coefficients))], modulus)


def _solve(equations: list[list[int]], modulus: int) -> list[int] | None:
    """Return a solution of the linear equations, right-hand sides last, or None where there is none."""
    unknowns = len(equations[0]) - 1
    rows: list[list[int]] = [list(row) for row in equations]
    pivots: list[int] = []
    for column in range(unknowns):
        done = len(pivots)
        pivot = next((index for index in range(done, len(rows)) if rows[index][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        inverse = pow(rows[done][column], -1, modulus)
        rows[done] = [entry * inverse % modulus for entry in rows[done]]
        for index, row in enumerate(rows):
            if index != done and row[column]:
                rows[index] = [(a - row[column] * b) % modulus for a, b in zip(row, rows[done], strict=True)]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    solution = [0] * unknowns
    for column, row in zip(pivots, rows, strict=False):
        solution[column] = row[-1]
    return solution


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


@dataclasses.dataclass(frozen=True, eq=False)
class Compared:
    """Shares of many secrets, compared with one another."""

    consistent: NDArray[np.bool_]  # (n,): whether the shares of all parties lie on polynomials of degree t
    # (n,): where they do not, whether a party is one of those without whom they do. All are False where more parties
    # are off than are corrected
    odd: dict[int, NDArray[np.bool_]]

    @property
    def unexplained(self) -> NDArray[np.bool_]:
        """Where shares are inconsistent, and nobody is odd."""
        named = np.logical_or.reduce(list(self.odd.values()))
        return np.asarray(~self.consistent & ~named, np.bool_)


class ShamirSharing:
    """Points of a random polynomial of degree t through the secret: any t + 1 shares give it, any t reveal nothing.

    Over Z_p, p = 2^61 - 1, as MPyC's. The share of party i, counted from 0, is f(i + 1), f(X) = x + sum_j c_j X^j. The
    coefficients c_1, ..., c_t are `expand` of keys, 16 bytes each, which are the next bytes of the stream.

    A linear computation, such as a sketch, works for every t < M. With t = M - 1 the secret is as safe as with additive
    shares and as fragile: every server is needed. With 2 t < M, an honest majority, M - t - 1 servers may be missing,
    the shares that are not needed reveal a lie, and MPyC can go on to multiply them.

    Shares are a Reed-Solomon code of distance m - t where m of them are present: up to m - t - 1 wrong ones are noticed
    by `combine`, and up to e = floor((m - t - 1) / 2) corrected by `correct`, where e >= t (`corrected`): t parties
    that lie in agreement could otherwise have a polynomial accepted that is not the dealer's, and an honest party
    blamed. A share is wrong if any entry of it is.

    Parameters
    ----------
    servers : int
        M, at least 2.
    threshold : int
        t, from 1 to M - 1: how many servers may collude.
    """

    def __init__(self, servers: int, threshold: int):
        self.servers = require_whole("servers", servers, 2)
        self.threshold = require_whole("threshold", threshold, 1, servers - 1)
        self.ring = Mersenne61()

    def __repr__(self) -> str:
        return f"ShamirSharing(servers={self.servers}, threshold={self.threshold})"

    @property
    def conduct(self) -> str:
        """Code of what is assumed of the servers' conduct (`dpmpc.privacy.statements`)."""
        return "shamir"

    def corrected(self, present: int) -> int:
        """Return how many wrong shares are corrected, and their parties named, where m parties are present.

        That is e = floor((m - t - 1) / 2) if e >= t, so if m >= 3 t + 1, and 0 otherwise. A polynomial that all but e
        parties are on is on the points of m - e - t honest ones or more, if t lie. That is t + 1 or more where
        m >= 3 t + 1, so that it is the dealer's. Where m < 3 t, t liars can choose a polynomial through t honest points
        and any other secret, which all but e parties are on. With m = 3 t that fails, but no t wrong shares could be
        corrected either.

        Parameters
        ----------
        present : int
            m.
        """
        most = (present - self.threshold - 1) // 2
        return most if most >= self.threshold else 0

    @property
    def unopened_conduct(self) -> str:
        """Code of what is assumed where products of shares are checked before they are opened."""
        return "checked-products"

    @property
    def passive_conduct(self) -> str:
        """Code of what is assumed where MPyC multiplies shares and nothing is checked."""
        return "passive-products"

    def split(
        self, x: Words, stream: Stream | None = None, threads: int = 1, out: Sequence[Words] | None = None
    ) -> list[Words]:
        """Split field elements of any shape into M arrays of that shape; parameters as in `AdditiveSharing.split`."""
        x = self.ring.require_canonical(x, "x")
        shares = outputs(out, x.shape, self.servers)
        keys = draw_keys(stream, self.threshold)
        secret, flat = x.reshape(-1), [share.reshape(-1) for share in shares]

        def part(begin: int, end: int) -> None:
            expansions = [Expansion(Stream(key), self.ring, begin) for key in keys]
            scratch = np.empty((self.threshold, min(BLOCK, end - begin)), np.uint64)
            for block in blocks(begin, end):
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
            raise self._inconsistent(by_party, self._wrong(by_party, self.corrected(len(by_party))))
        return self.interpolate(by_party, 0)

    def correct(self, shares: Sequence[Words] | Mapping[int, Words], spoilt: int = 0) -> Corrected:
        """Return the secret although some of the shares may be wrong, and state which were.

        Of m shares `corrected(m)` may be wrong in any of their entries, which is 0 where m < 3 t + 1. The secret and
        the parties are then right, whoever chose the wrong shares and however. With more wrong shares than that, and
        fewer than m - t, there is an error, or those who chose them together make honest parties appear wrong and the
        secret another. An honest party notices that by its own share: if m - t - 1 parties lie at most, t + 1 honest
        ones are left, and a polynomial with all their shares is the dealer's. So a party that finds itself among the
        wrong ones takes no part in what follows, and anyone who has no share of its own uses `combine`.

        A wrong share need not be the fault of the party that holds it: so it is where a dealer has dealt points that
        are on no polynomial.

        Parameters
        ----------
        shares : sequence of M arrays, or mapping from party to array
            At least t + 1.
        spoilt : int
            How many other parties sent what is no share at all: known to be wrong, and counted among the m.

        Raises
        ------
        InputError
            As `combine`.
        InconsistentShares
            If more shares are wrong than can be corrected.
        """
        by_party = self._by_party(shares)
        wrong = self._wrong(by_party, self.corrected(len(by_party) + spoilt) - spoilt)
        if wrong is None:
            raise self._inconsistent(by_party, None)
        good = {party: share for party, share in by_party.items() if party not in wrong}
        return Corrected(self.interpolate(good, 0), tuple(sorted(wrong)))

    def _evaluate(self, coefficients: Sequence[Words], point: int, out: Words) -> None:
        """Overwrite `out` with sum_j coefficients[j] point^j, by Horner's rule."""
        value = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            value = self.ring.multiply_add(value, point, coefficient, out=out)

    def _by_party(self, shares: Sequence[Words] | Mapping[int, Words]) -> dict[int, Words]:
        if not isinstance(shares, Mapping):
            if len(shares) != self.servers:
                expected = f"{self.servers} shares, or a mapping from party to share, expected"
                raise InputError("shares", f"{len(shares)} given, {expected}")
            shares = dict(enumerate(shares))
        if len(shares) <= self.threshold:
            raise InputError("shares", f"{len(shares)}", f"at least {self.threshold + 1}")
        for party in shares:
            if party not in range(self.servers):
                raise InputError("shares", f"party {party!r}", f"a number from 0 to {self.servers - 1}")
        ordered = {
            party: self.ring.require_canonical(shares[party], f"share of party {party}") for party in sorted(shares)
        }
        if len({share.shape for share in ordered.values()}) > 1:
            raise InputError("shares", f"shapes {[share.shape for share in ordered.values()]}", "equal shapes")
        return ordered

    def interpolate(self, shares: Mapping[int, Words], at: int) -> Words:
        """Return f(at) from the first t + 1 shares: a weighted sum with Lagrange's coefficients."""
        chosen = list(shares)[: self.threshold + 1]
        value = np.zeros(shares[chosen[0]].shape, np.uint64)
        for party, weight in zip(chosen, lagrange([party + 1 for party in chosen], at, self.ring.modulus), strict=True):
            value = self.ring.multiply_add(shares[party], weight, value, out=value)
        return value

    def _first_disagreement(self, shares: Mapping[int, Words]) -> int | None:
        """Return the flat index of an entry whose shares lie on no polynomial of degree t, or None."""
        for party in list(shares)[self.threshold + 1 :]:
            differing = self.interpolate(shares, party + 1) != shares[party]
            if differing.any():
                return int(differing.argmax())
        return None

    def compare(self, shares: Mapping[int, Words]) -> Compared:
        """Compare shares of n secrets, and find for each who is odd, if `corrected` allows to say so.

        The first secret with a disagreement is decoded; a party that is odd there explains others too, all at once. So
        there are no more decodings than inconsistent secrets, and no more passes than sets of parties that are odd
        together.

        Parameters
        ----------
        shares : mapping from party to ndarray of uint64, shape (n, k)
            Canonical, of t + 1 parties or more; each secret has k entries.
        """
        most = self.corrected(len(shares))
        consistent = self._consistent(shares)
        odd = {party: np.zeros(len(consistent), np.bool_) for party in shares}
        left = np.flatnonzero(~consistent) if most else np.empty(0, np.intp)
        while len(left):
            wrong = self._wrong({party: share[left[0]] for party, share in shares.items()}, most)
            if wrong is None:
                left = left[1:]
                continue
            others = {party: share[left] for party, share in shares.items() if party not in wrong}
            explained = self._consistent(others)
            for party in wrong:  # not all of whom are off wherever the others agree
                off = (self.interpolate(others, party + 1) != shares[party][left]).any(axis=1)
                odd[party][left[explained & off]] = True
            left = left[~explained]
        return Compared(consistent, odd)

    def _consistent(self, shares: Mapping[int, Words]) -> NDArray[np.bool_]:
        """Tell for each secret whether the shares of all parties lie on polynomials of degree t."""
        agreeing = np.ones(len(next(iter(shares.values()))), np.bool_)
        for party in list(shares)[self.threshold + 1 :]:
            agreeing &= (self.interpolate(shares, party + 1) == shares[party]).all(axis=1)
        return agreeing

    def _wrong(self, shares: Mapping[int, Words], most: int) -> set[int] | None:
        """Return the parties without whom the others agree, or None if there are more than `most`.

        An entry where shares disagree is decoded and tells of at least one more wrong party. If there are no more than
        can be corrected, each entry has no more, so that nobody is taken for wrong who is not.
        """
        wrong: set[int] = set()
        parties = list(shares)
        while len(wrong) <= most:
            others = {party: share for party, share in shares.items() if party not in wrong}
            entry = self._first_disagreement(others)
            if entry is None:
                return wrong
            values = [int(shares[party].flat[entry]) for party in parties]
            positions = outliers([party + 1 for party in parties], values, self.threshold, self.ring.modulus)
            if positions is None:
                return None
            wrong |= {parties[index] for index in positions}
        return None

    def _inconsistent(self, shares: Mapping[int, Words], wrong: set[int] | None) -> InconsistentShares:
        message = f"shares of parties {sorted(shares)} do not lie on one polynomial of degree {self.threshold}"
        if wrong is None:
            return InconsistentShares(f"{message}: which of them are wrong is unknown")
        if len(wrong) == 1:
            (liar,) = wrong
            return InconsistentShares(f"{message}: that of party {liar} is wrong", party=liar)
        return InconsistentShares(f"{message}: those of parties {sorted(wrong)} are wrong")
