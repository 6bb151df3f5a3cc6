"""Make the histogram of the exact Poisson sampler, and decide where fixed point is too coarse to decide.

The kernel (csrc/samplers_draw.c) takes one word for a point of a plane, in which

    C f(y),        f(y) = p(y) / p(0),        p(y) = P(Poisson(m) = m + y),

lies below steps of integer height: floor(C f) + 1 at the edge of the step that is nearest to y = 0, where f is largest.
A point below C f is accepted. C is an integer such that the areas of the steps add up to less than 2^64, and the steps
are 2^b wide: b = 0 for small means, where a step is one y, and about a hundredth of a standard deviation for large
ones.

The kernel knows C f to about 2^-43 of itself within a wide step, and to an integer otherwise. When that does not settle
whether a point lies below, it hands the question back, and `PoissonPlan.finish` answers it with as many digits and as
many further random words as it takes. So what is sampled is exactly the Poisson distribution, cut off where its mass is
below 2^-139.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import count

import numpy as np

from dpmpc._kernels.samplers import CentredPoisson
from dpmpc.base.arrays import Integers, Words

FRACTION_BITS = 52
"""The kernel holds exponents in units of 2^-52."""

MAX_MEAN = 1 << 52
SERIES_FROM = 1 << 16
"""From this mean on steps are wide, and L = -ln f is a polynomial."""

_MAX_COEFFICIENTS = 1 << 10
_GUIDE_BITS = 12
_GUARD_DIGITS = 60
_HEIGHT_BITS = 160  # f is held in units of 2^-160 while the steps are made
_HEIGHT_DIGITS = 60
_EXPONENT_BITS = 140
_HEIGHT_ERROR = 1 << 52  # in these units: f(y) is at most so much larger than the number held


class PoissonPlan:
    """All that the sampler of Poisson(mean) - mean needs."""

    def __init__(self, mean: int, slack: int | None = None):
        self.mean = mean
        scale = math.isqrt(mean - 1) + 1
        # Bernstein: P(|Y| >= y) <= 2 exp(-y^2 / (2 (m + y / 3))), below 2^-140 from y = 64 + 14 sqrt(m) on.
        self.limit = 64 + 14 * scale
        self.width_bits = max(0, scale.bit_length() - 7) if mean >= SERIES_FROM else 0
        self._limit_bits = (self.limit + (1 << self.width_bits)).bit_length()
        if mean < SERIES_FROM:
            series, bound = np.zeros(0, np.int64), 0
            first, inner, outer = self._single()
        else:
            series, bound = self._series()
            first, inner, outer = self._wide()
        self.slack = bound if slack is None else slack
        room = ((1 << 64) - 1 >> self.width_bits) - 2 * len(inner)
        self.peak = (room << _HEIGHT_BITS) // (sum(inner) + len(inner) * _HEIGHT_ERROR)
        steps = self._steps(inner, outer)
        guide = np.searchsorted(steps[:, 0], np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(52), "right") - 1
        self.kernel = CentredPoisson(
            steps,
            np.append(guide, len(inner)).astype(np.uint32),
            self.peak,
            first,
            self.width_bits,
            self.slack,
            series,
            self._limit_bits,
        )

    def enclose(self, deviate: int, bits: int) -> tuple[int, int]:
        """Return integers (low, high) with low <= 2^bits C f(deviate) <= high and high - low <= 3."""
        with localcontext() as context:
            # Every intermediate of L is below 10^18 and rounded correctly, and C is below 10^20: 20 digits of the guard
            # remain after the last product.
            context.prec = bits * 3 // 10 + bits // 500 + 1 + _GUARD_DIGITS
            scaled = math.floor((-self._log_ratio(deviate)).exp() * (self.peak << bits))
        return scaled - 1, scaled + 2

    def finish(self, deviate: int, height: int, words: Iterator[int]) -> bool:
        """Return whether a uniform real in [height, height + 1) is below C f(deviate)."""
        bits, uniform = 0, height
        while True:
            # 32 bits finer than the uniform: lack of digits of f is then hardly ever why its next word is read.
            low, high = self.enclose(deviate, bits + 32)
            if (uniform + 1) << 32 <= low:
                return True
            if uniform << 32 >= high:
                return False
            uniform = uniform << 64 | next(words)
            bits += 64

    def _log_ratio(self, deviate: int) -> Decimal:
        """Return L(y) = ln p(0) - ln p(y) = ln (m + y)! - ln m! - y ln m, but for digits lost to the size of ln m!."""
        return _log_factorial(self.mean + deviate) - _log_factorial(self.mean) - deviate * Decimal(self.mean).ln()

    def _single(self) -> tuple[int, list[int], list[int]]:
        """Return the first deviate, and f at every deviate from there on, by p(y) = p(y - 1) m / (m + y), rounded down.

        A factor is at most 1, so that each of fewer than 2^12 steps adds at most one unit of error.
        """
        m, unit = self.mean, 1 << _HEIGHT_BITS
        above, below = [unit], [unit]
        for y in range(1, self.limit + 1):
            above.append(above[-1] * m // (m + y))
        for y in range(min(m, self.limit)):
            below.append(below[-1] * (m - y) // m)
        heights = below[:0:-1] + above
        return 1 - len(below), heights, heights

    def _wide(self) -> tuple[int, list[int], list[int]]:
        """Return the first deviate, and f at the inner and at the outer edge of every step."""
        edges = -(-self.limit >> self.width_bits) + 1
        above, below = ([self._height(sign * edge << self.width_bits) for edge in range(edges)] for sign in (1, -1))
        return -(edges - 1) << self.width_bits, below[-2::-1] + above[:-1], below[:0:-1] + above[1:]

    def _height(self, deviate: int) -> int:
        """Return f in units of 2^-160, too low by at most 2^51.

        L is known to 2^-112: Stirling's remainder is 2^-114, rounding and Horner's rule add a few units of 2^-140.
        """
        total = 0
        for coefficient in reversed(self._coefficients):
            total = coefficient + (total * -deviate >> self._limit_bits)
        with localcontext() as context:
            context.prec = _HEIGHT_DIGITS
            height = (Decimal(-total) / (1 << _EXPONENT_BITS)).exp()
            return max(0, math.floor(height * (1 << _HEIGHT_BITS)) - (1 << 50))

    def _steps(self, inner: list[int], outer: list[int]) -> Words:
        """Return where every step starts, and up to which height it is sure; then where the last one ends."""
        steps, area = [], 0
        for high, low in zip(inner, outer, strict=True):
            sure = self.peak * low >> _HEIGHT_BITS
            doubt = self.peak * low * self.slack >> (_HEIGHT_BITS + FRACTION_BITS - 2) if not self.width_bits else 0
            steps.append((area, max(0, sure - doubt)))
            area += ((self.peak * (high + _HEIGHT_ERROR) >> _HEIGHT_BITS) + 1) << self.width_bits
        if area >= 1 << 64:
            raise AssertionError(f"mean {self.mean}: the steps do not fit 64 bits")
        return np.array([*steps, (area, 0)], np.uint64)

    def _series(self) -> tuple[Integers, int]:
        """Expand L in powers of -y / 2^limit_bits; return the kernel's coefficients and the slack they leave.

        Stirling's series for both factorials gives, with u = y / m,

            L(y) = m ((1 + u) ln(1 + u) - u) + ln(1 + u) / 2 + ((1 + u)^-1 - 1) / (12 m) - ((1 + u)^-3 - 1) / (360 m^3)
                   + ((1 + u)^-5 - 1) / (1260 m^5)
                 = sum over k >= 1 of (-u)^k b_k,
            b_k  = [k >= 2] m / (k (k - 1)) - 1 / (2 k) + 1 / (12 m) - binomial(k + 2, 2) / (360 m^3)
                   + binomial(k + 4, 4) / (1260 m^5),

        up to 1 / (1680 n^7) at n = m + y > 2^15 and n = m, together below 2^-114. Here |u| < 2^limit_bits / m < 1/8.
        """
        limit, m = 1 << self._limit_bits, self.mean
        self._coefficients = [0]
        for k in count(1):
            b = Fraction(m, k * (k - 1)) if k > 1 else Fraction(0)
            b += Fraction(1, 12 * m) - Fraction(1, 2 * k) - Fraction(math.comb(k + 2, 2), 360 * m**3)
            b += Fraction(math.comb(k + 4, 4), 1260 * m**5)
            self._coefficients.append(round(b * Fraction(limit, m) ** k * (1 << _EXPONENT_BITS)))
            # The terms fall by u < 1/8 and more from one to the next: what is cut off is below a seventh of this one.
            if k > 1 and self._coefficients[-1] == 0:
                break
        rounded = [round(Fraction(c, 1 << (_EXPONENT_BITS - FRACTION_BITS))) for c in self._coefficients]
        series = np.trim_zeros(np.array(rounded, np.int64), "b")
        degree = len(series) - 1
        if sum(map(abs, rounded)) + 2 * degree >= _MAX_COEFFICIENTS << FRACTION_BITS:
            raise AssertionError(f"mean {m}: the exponent does not fit 64 bits")
        # Units of error: one for each step of Horner's rule, half of one for each rounded coefficient, and less than
        # one for cutting the series, Stirling's included.
        return series, degree + (degree + 1) // 2 + 1


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
    """Return the Bernoulli number B_n, B_1 = -1/2: sum over j <= n of binomial(n + 1, j) B_j = 0 for n >= 1."""
    if n == 0:
        return Fraction(1)
    return -sum(math.comb(n + 1, j) * _bernoulli(j) for j in range(n) if j < 2 or j % 2 == 0) / Fraction(n + 1)
