"""The tail of the normal law and the curve of the Gaussian mechanism to any number of digits, with proven bounds.

With phi and Phi of the normal law, R(x) = Phi(-x)/phi(x), x = epsilon/mu - mu/2 and y = epsilon/mu + mu/2,

    delta(epsilon) = Phi(-x) - e^epsilon Phi(-y) = phi(x) (R(x) - R(y)),    as e^epsilon phi(y) = phi(x).

The two terms agree in many digits where mu is small. So they are computed in decimal arithmetic with as many digits as
cancel and `_DIGITS` more; how many cancel is seen in the result, and if that were too many it is computed again.

R is found in two ways, each with a bound of what it leaves out. Below `_NEAR` by Phi(x) = 1/2 + phi(x) S(x), where
S(x) = x + x^3/3 + x^5/(3 5) + ... has positive terms; from there on by the continued fraction
R(x) = 1/(x + 1/(x + 2/(x + ...))), whose convergents lie above and below R by turns.

Promised: `curve` is at least the exact delta, by at most a relative 1e-15, and 0 only below the smallest double.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from functools import lru_cache

_DIGITS = 30  # beyond those that cancel; rounding takes less than 6 of them, and what series leave out 1
_NEAR = 4  # where the series and the continued fraction take about as long
_FAR = 40  # beyond, Phi(-x) is less than the smallest double
_ABOVE = Decimal("1e-20")  # more than all errors together, relative


def curve(mu: float, epsilon: float) -> tuple[float, float, float]:
    """Return an upper bound of delta(epsilon), next to it, and its slopes in epsilon (downwards) and in mu, rounded."""
    lost = 8 + abs(math.frexp(mu)[1]) // 3  # digits of a small mu that cancel, or of a large one in x
    while True:
        with decimal.localcontext(_context(_DIGITS + lost)):
            found = _curve(Decimal(mu), Decimal(epsilon), lost)
        if found is not None:
            return found
        lost *= 2


def _curve(mu: Decimal, epsilon: Decimal, lost: int) -> tuple[float, float, float] | None:
    """Compute `curve` in the present context; None if more than `lost` digits cancel."""
    x, y = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if x > _FAR:
        return 0.0, 0.0, 0.0
    density = (-x * x / 2).exp() / _root_of_two_pi(decimal.getcontext().prec)
    first = density * _mills(x) if x >= 0 else 1 - density * _mills(-x)
    second = density * _mills(y) if y >= 0 else epsilon.exp() - density * _mills(-y)
    delta = first - second
    if delta.scaleb(lost) < first:
        return None
    return _above(delta * (1 + _ABOVE)), float(second), float(density)


def _mills(x: Decimal) -> Decimal:
    """Return R(x) for x >= 0."""
    if x < _NEAR:
        root = _root_of_two_pi(decimal.getcontext().prec)
        return (x * x / 2).exp() * root / 2 - _odd_series(x)
    least = Decimal(10) ** (1 - decimal.getcontext().prec)
    # A_n = x A_{n-1} + (n - 1) A_{n-2}, the same for B_n, and A_n/B_n - A_{n-1}/B_{n-1} = +-(n - 1)!/(B_n B_{n-1}).
    above, below, one, other = Decimal(1), x, Decimal(0), Decimal(1)
    step = 1
    while True:
        for _ in range(8):
            above, one = x * above + step * one, above
            below, other = x * below + step * other, below
            step += 1
        upper, lower = above / below, one / other
        if abs(upper - lower) <= least * lower:
            return upper


def _odd_series(x: Decimal) -> Decimal:
    """Return S(x) = x + x^3/3 + x^5/(3 5) + ... for 0 <= x < `_NEAR`."""
    square, term, total, odd = x * x, x, x, 1
    while True:
        odd += 2
        term = term * square / odd
        total += term
        if 2 * square < odd and total + term == total:  # the rest is less than the last term
            return total


@lru_cache(maxsize=8)
def _root_of_two_pi(digits: int) -> Decimal:
    """Return sqrt(2 pi), by Machin's pi/4 = 4 arctan(1/5) - arctan(1/239)."""
    with decimal.localcontext(_context(digits + 10)):
        return (8 * (4 * _arctan_of_inverse(5) - _arctan_of_inverse(239))).sqrt()


def _arctan_of_inverse(number: int) -> Decimal:
    """Return arctan(1/number) by its alternating series."""
    power, total, odd, square = Decimal(1) / number, Decimal(1) / number, 1, number * number
    while True:
        power, odd = -power / square, odd + 2
        term = power / odd
        if total + term == total:
            return total
        total += term


def _context(digits: int) -> decimal.Context:
    """Return arithmetic with so many digits whose exponents do not end."""
    return decimal.Context(
        prec=digits,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero],
    )


def _above(value: Decimal) -> float:
    """Return the least double that is not below a number from 0 to about 1; 0 below the smallest double, 1 at most."""
    nearest = float(value)
    if nearest == 0.0:
        return 0.0
    return min(1.0, nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf))
