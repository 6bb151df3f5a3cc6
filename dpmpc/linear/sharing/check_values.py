"""Did each client deal points of polynomials? A check that opens one masked number for each report.

A dealer shares words x_1, ..., x_L and one more word r, the *mask*, fresh and uniform, each by its own polynomial
of degree t at most. Once all shares are dealt the parties learn random public coefficients a_1, ..., a_L, and party s
tells its *check value*

    c(s) = r(s) + sum_j a_j x_j(s)                                                                              (1)

from its shares r(s), x_j(s). If the shares lie on polynomials, (1) are points of one polynomial c of degree t at most.

**Soundness.** Let P be a set of parties that tell (1) as it is, with more than t + 1 members, whose shares of some word
or of the mask lie on no polynomial of degree t. Then their check values do with probability at most 1/p, p = 2^61 - 1,
over uniform coefficients that are drawn after the shares. Proof: let H be the parity-check matrix of the points of P:
H v = 0 just for those v that lie on a polynomial of degree t. H c = H r + sum_j a_j H x_j. If some H x_j is not 0, one
of its rows gives a linear form in the a_j that is not constant, and a uniform a_j makes it 0 with probability 1/p. If
all H x_j are 0, H c = H r is not 0. Of n such reports any passes with probability n/p at most. Here the coefficients
are a key stream of AES; whoever could do better could tell that from uniform words.

**Secrecy.** t parties know t points of r's polynomial, which leaves r uniform; so all of c, which is fixed by those
points and c(0) = r + sum_j a_j x_j, reveals nothing about the words. That holds for one choice of coefficients: the
difference of two choices is a linear function of the words without a mask. Anyone who calls this has to see to it.

**Decision.** A report is *good* if the check values of all m parties lie on a polynomial. Otherwise, where m >= 3t + 1,
the set of at most e = floor((m - t - 1) / 2) parties without whom they do is unique where there is one: these parties
are *odd* in that report, either because they lie or because the dealer gave them something else; nobody can tell which
from one report. A party that is odd in more than half of the reports is *set aside*: it is taken to be at fault, and
its values no longer count against a report. At most e parties are, otherwise nothing is decided. Where m < 3t + 1
nobody is odd and nobody set aside (`ShamirSharing.corrected`): t parties that lie in agreement would have an honest one
set aside.

So parties that lie can make reports look bad; these are counted, the odd party is told, and a party that does so to
more than half of them is set aside, where m >= 3t + 1. Dealers that are more than half of all, or more than t liars,
can have an honest party set aside; a party that finds itself set aside has to refuse, as the caller sees to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Words
from dpmpc.base.errors import InconsistentShares, InputError
from dpmpc.base.randomness import Label, Stream, derive
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sharing.batch import Expansion
from dpmpc.linear.sharing.shamir import ShamirSharing

_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)
_WORDS_AT_ONCE = 1 << 15  # they stay in the cache
_FIELD = Mersenne61()


def draw_coefficients(seed: bytes, count: int) -> Words:
    """Return a_1, ..., a_L: the expansion of a key that is derived from the seed."""
    out = np.empty(count, np.uint64)
    Expansion(Stream(derive(seed, Label.DEALING)), _FIELD).read(out)
    return out


def check_values(rows: Words, coefficients: Words) -> Words:
    """Return (1) for each report."""
    if rows.ndim != 2 or rows.shape[1] != len(coefficients) + 1:
        raise InputError("rows", f"shape {rows.shape}", f"(n, {len(coefficients) + 1})")
    weights = np.append(coefficients, np.uint64(1))
    values = np.empty(len(rows), np.uint64)
    step = max(1, _WORDS_AT_ONCE // len(weights))
    repeated = np.ascontiguousarray(np.broadcast_to(weights, (min(step, len(rows)), len(weights))))
    for first in range(0, len(rows), step):
        block = np.ascontiguousarray(rows[first : first + step])
        products = _FIELD.multiply(block, repeated[: len(block)])
        values[first : first + step] = _sums(products)
    return values


def _sums(products: Words) -> Words:
    """Add field elements along the last axis: halves of 32 and 29 bits, whose sums do not wrap around."""
    modulus = np.uint64(_FIELD.modulus)
    low = (products & _LOW).sum(axis=1, dtype=np.uint64) % modulus
    high = (products >> _HALF).sum(axis=1, dtype=np.uint64) % modulus
    return _FIELD.multiply_add(high, 1 << 32, low)


@dataclasses.dataclass(frozen=True, eq=False)
class Judgement:
    """What check values say about the reports of a batch."""

    good: NDArray[np.bool_]  # which reports are kept
    aside: tuple[int, ...]  # parties that are set aside
    odd: dict[int, int]  # in how many of the reports that are not kept each party is odd
    unexplained: int  # how many of the reports that are not kept have no such parties


def judge(sharing: ShamirSharing, values: Mapping[int, Words]) -> Judgement:
    """Decide which reports were dealt as they should be."""
    parties = sorted(values)
    count = len(values[parties[0]])
    compared = sharing.compare({party: np.ascontiguousarray(values[party]).reshape(-1, 1) for party in parties})
    aside = [party for party in parties if 2 * int(compared.odd[party].sum()) > count]
    most = sharing.corrected(len(parties))
    if len(aside) > most:
        raise InconsistentShares(
            f"check values of parties {aside} are wrong for most of {count} reports each, those of at most {most} of "
            f"{len(parties)} parties expected"
        )
    unexplained = compared.unexplained
    good = ~unexplained
    for party in set(parties) - set(aside):
        good &= ~compared.odd[party]
    odd = {party: int((compared.odd[party] & ~good).sum()) for party in parties}
    return Judgement(good, tuple(aside), odd, int(unexplained.sum()))
