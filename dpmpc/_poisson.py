"""The exponent of the exact Poisson sampler, and the decision where its evaluation in fixed point cannot decide.

The kernel (csrc/samplers.h) proposes y from the discrete Laplace distribution of scale t and accepts it as a value of
Poisson(m) - m with probability exp(-E(y)), where

    E(y) = L(y) - |y| / t + c,        L(y) = ln p(0) - ln p(y) = ln (m + y)! - ln m! - y ln m,

and c makes E positive everywhere. It knows E to about 2^-46 only. When that does not settle a comparison with a random
word, it hands the question back, and `PoissonPlan.finish` answers it with as many digits and as many further random
words as it takes. So what is sampled is exactly the Poisson distribution, cut off where its mass is below 2^-128.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from dpmpc._kernels.samplers import CentredPoisson

FRACTION_BITS = 52
"""The kernel holds exponents in units of 2^-52."""

MAX_MEAN = 1 << 52
SERIES_FROM = 1 << 16
"""Below this mean the exponent is tabulated, from it on it is a polynomial."""

_MAX_COEFFICIENTS = 1 << 10
_DIGITS = 60
_TABLE_DIGITS = 30
_GUARD_DIGITS = 40


class PoissonPlan:
    """All that the sampler of Poisson(mean) - mean has to know.

    Parameters
    ----------
    mean : int
        In [1, 2^52].
    slack : int, optional
        Bound on the error of the kernel's exponent, in units of 2^-52; by default the bound proven here. A larger one
        sends more decisions to `finish` and must not change a single sample, which is how the tests reach that code.

    Attributes
    ----------
    scale : int
        t, the least integer with t^2 >= mean: nearly the best proposal (CKS 2020, section 5.3).
    offset : int
        c in units of 2^-52.
    limit_bits : int
        Values with |y| >= 2^limit_bits are never drawn.
    """

    def __init__(self, mean: int, slack: int | None = None):
        self.mean = mean
        self.scale = math.isqrt(mean - 1) + 1
        # Bernstein: P(|Y| >= y) <= 2 exp(-y^2 / (2 (m + y / 3))), below 2^-140 from y = 64 + 14 sqrt(m) on. (The kernel
        # also rejects |y| >= 64 t, which is less only for mean 1, where 2^-131 remains.)
        self.limit_bits = (64 + 14 * self.scale).bit_length()
        self.offset = self._offset()
        table, series, bound = self._tabulate() if mean < SERIES_FROM else self._expand()
        self.slack = bound if slack is None else slack
        self.kernel = CentredPoisson(mean, self.scale, self.limit_bits, self.slack, table, series)

    def enclose(self, deviate: int, bits: int) -> tuple[int, int]:
        """Return integers (low, high) with low <= 2^bits E(deviate) <= high and high - low <= 3."""
        with localcontext() as context:
            # Every intermediate is below 10^18 and rounded correctly: 22 digits of the guard remain after the last sum.
            context.prec = bits * 3 // 10 + bits // 500 + 1 + _GUARD_DIGITS
            exponent = self._log_ratio(deviate) - Decimal(abs(deviate)) / self.scale
            scaled = math.floor(exponent * (1 << bits) + Decimal(self.offset << bits) / (1 << FRACTION_BITS))
        return scaled - 1, scaled + 2

    def finish(self, deviate: int, halves: int, round_: int, word: int, words: Iterator[int]) -> bool:
        """Bring an unsettled acceptance to its end: CKS 2020, Algorithm 1, from the coin of `round_` on.

        Parameters
        ----------
        deviate, halves, round_, word : int
            The question as the kernel left it: is a uniform real that starts with the 64 bits `word` below
            (E(deviate) - halves / 2) / round_?
        words : Iterator[int]
            The random words that follow.
        """
        while self._coin(deviate, halves, round_, word, words):
            round_ += 1
            word = next(words)
        return round_ % 2 == 1

    def _coin(self, deviate: int, halves: int, round_: int, uniform: int, words: Iterator[int]) -> bool:
        bits = 64
        while True:
            # 32 bits finer than the uniform, whose next word is then hardly ever read for want of digits of E.
            low, high = (bound - (halves << (bits + 31)) for bound in self.enclose(deviate, bits + 32))
            if (uniform + 1) * round_ << 32 <= low:
                return True
            if uniform * round_ << 32 >= high:
                return False
            uniform = uniform << 64 | next(words)
            bits += 64

    def _log_ratio(self, deviate: int) -> Decimal:
        """L(deviate), to the precision of the current decimal context less the size of ln m!."""
        return _log_factorial(self.mean + deviate) - _log_factorial(self.mean) - deviate * Decimal(self.mean).ln()

    def _offset(self) -> int:
        # L is convex, with steps ln(1 + y/m) from y - 1 to y > 0 and -ln(1 - (y-1)/m) from -(y-1) to -y, so that
        # |y| / t - L(y) is largest at the last y whose step is at most 1/t. One unit more covers rounding at 60 digits.
        with localcontext() as context:
            context.prec = _DIGITS
            slope = 1 / Decimal(self.scale)
            above = math.floor(self.mean * (slope.exp() - 1))
            below = math.floor(self.mean * (1 - (-slope).exp())) + 1
            largest = max(above * slope - self._log_ratio(above), below * slope - self._log_ratio(-below))
            return math.floor(largest * (1 << FRACTION_BITS)) + 1

    def _tabulate(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Round E(y) down for every y: one unit of error."""
        limit = 1 << self.limit_bits
        table = np.zeros(2 * limit, np.int64)
        with localcontext() as context:
            context.prec = _TABLE_DIGITS
            first = max(self.mean - limit, 1)
            logarithm = [Decimal(n).ln() for n in range(first, self.mean + limit)]
            ln_mean = Decimal(self.mean).ln()
            for sign, farthest in ((1, limit - 1), (-1, min(limit - 1, self.mean))):
                ratio = Decimal(0)
                for y in range(farthest + 1):
                    exponent = ratio - Decimal(y) / self.scale
                    table[limit + sign * y] = math.floor(exponent * (1 << FRACTION_BITS)) + self.offset
                    step = y + 1 if sign > 0 else -y
                    if y < farthest:
                        ratio += sign * (logarithm[self.mean + step - first] - ln_mean)
        return table, np.zeros((2, 0), np.int64), 1

    def _expand(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Expand E in powers of w = |y| / 2^limit_bits, once for y >= 0 and once for y < 0.

        Stirling's series for both factorials gives, with u = y / m,

            L(y) = m ((1 + u) ln(1 + u) - u) + ln(1 + u) / 2 + ((1 + u)^-1 - 1) / (12 m) - ((1 + u)^-3 - 1) / (360 m^3)
                 = sum over k >= 1 of (-u)^k b_k,
            b_k  = [k >= 2] m / (k (k - 1)) - 1 / (2 k) + 1 / (12 m) - binomial(k + 2, 2) / (360 m^3),

        up to 1 / (1260 n^5) at n = m + y > 2^15 and n = m, together below 2^-84. Here |u| < 2^limit_bits / m < 1/8.
        """
        limit, m = 1 << self.limit_bits, self.mean
        series: list[list[int]] = [[self.offset], [self.offset]]
        for k in count(1):
            b = Fraction(m, k * (k - 1)) if k > 1 else Fraction(0)
            b += Fraction(1, 12 * m) - Fraction(1, 2 * k) - Fraction(math.comb(k + 2, 2), 360 * m**3)
            coefficient = b * Fraction(limit, m) ** k * (1 << FRACTION_BITS)
            linear = Fraction(limit << FRACTION_BITS, self.scale) if k == 1 else 0
            series[0].append(round((-1) ** k * coefficient - linear))
            series[1].append(round(coefficient - linear))
            # The terms fall by u < 1/8 and more from one to the next: what is cut off is below a seventh of this one.
            if k > 1 and abs(coefficient) < 1:
                break
        for polynomial in series:
            if sum(map(abs, polynomial)) + 2 * k >= _MAX_COEFFICIENTS << FRACTION_BITS:
                raise AssertionError(f"mean {m}: the exponent does not fit 64 bits")
        # Units of error: k from Horner's rule, half of one from each of the k rounded coefficients (the offset is an
        # integer), and less than one from cutting the series, Stirling's included.
        return np.zeros(0, np.int64), np.array(series, np.int64), k + (k + 1) // 2 + 1


@lru_cache(maxsize=64)
def poisson_plan(mean: int) -> PoissonPlan:
    """Return the plan of Poisson(mean); made once."""
    return PoissonPlan(mean)


def _log_factorial(n: int) -> Decimal:
    """Return ln n! - ln(2 pi) / 2 to the precision of the decimal context, by Stirling's series.

    The series is used at z >= precision, where its terms fall below 10^-precision before they grow again, and its
    error is below the first term left out.
    """
    with localcontext() as context:
        precision = context.prec
    z = max(n, precision)
    result = (z + Decimal(1) / 2) * Decimal(z).ln() - z
    for k in count(1):
        term = _bernoulli(2 * k) / (2 * k * (2 * k - 1) * z ** (2 * k - 1))
        if abs(term) < Fraction(1, 10**precision):
            break
        result += Decimal(term.numerator) / term.denominator
    return result - Decimal(math.prod(range(n + 1, z + 1))).ln()


@lru_cache(maxsize=512)
def _bernoulli(n: int) -> Fraction:
    """The Bernoulli number B_n, B_1 = -1/2: sum over j <= n of binomial(n + 1, j) B_j = 0 for n >= 1."""
    if n == 0:
        return Fraction(1)
    return -sum(math.comb(n + 1, j) * _bernoulli(j) for j in range(n) if j < 2 or j % 2 == 0) / Fraction(n + 1)
