"""The Gaussian mechanism, exactly: how mu, epsilon and delta belong together.

A mechanism is mu-GDP when telling two neighbouring inputs apart is no easier than telling N(0, 1) from N(mu, 1)
(Dong, Roth and Su 2022). The Gaussian mechanism of L2 sensitivity Delta and standard deviation sigma is mu-GDP with
mu = Delta / sigma and with nothing smaller, so the curve below is tight (Balle and Wang 2018, Theorem 8).

The curve is computed to any number of digits, with proven bounds. With phi and Phi of the normal law,
R(x) = Phi(-x)/phi(x), x = epsilon/mu - mu/2 and y = epsilon/mu + mu/2,

    delta(epsilon) = Phi(-x) - e^epsilon Phi(-y) = phi(x) (R(x) - R(y)),    as e^epsilon phi(y) = phi(x).

The two terms agree in many digits where mu is small. So they are computed in decimal arithmetic with as many digits as
cancel and `_DIGITS` more; how many cancel is seen in the result, and if that were too many it is computed again.

R is found in two ways, each with a bound of what it leaves out. Below `_NEAR` by Phi(x) = 1/2 + phi(x) S(x), where
S(x) = x + x^3/3 + x^5/(3 5) + ... has positive terms; from there on by the continued fraction
R(x) = 1/(x + 1/(x + 2/(x + ...))), whose convergents lie above and below R by turns.

Promised: nothing here is on the wrong side of the exact curve. delta and epsilon are never too small and mu never too
large, whatever floats do; each is within a few last digits of the exact number. `curve` is at least the exact delta, by
at most a relative 1e-15, and 0 only below the smallest double.
"""

from __future__ import annotations

import decimal
import math
import struct
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from statistics import NormalDist

from dpmpc.base.arguments import require_positive
from dpmpc.base.errors import GuaranteeError, InputError

_LARGEST_MU = 1e3
_SMALLEST_MU = 1e-9
_STEPS = 60
_SAME = 2.0**-50  # Newton's method has ended where it moves by less, relative


def check_budget(epsilon: float, delta: float, *, pure: bool = False) -> None:
    """Refuse an (epsilon, delta) that is not a privacy budget.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    pure : bool
        Whether the mechanism can do with delta = 0.

    Raises
    ------
    InputError
        Unless epsilon is positive and finite and delta lies strictly between 0 and 1, or is 0 where `pure`.
    """
    require_positive("epsilon", epsilon)
    if not (0 < delta < 1 or (pure and delta == 0)):
        expected = "0 or a number between 0 and 1" if pure else "a number strictly between 0 and 1"
        remedy = "; only discrete-laplace noise gives delta = 0" if delta == 0 else ""
        raise InputError("delta", f"{delta} given, {expected} expected{remedy}")


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Return the smallest delta such that mu-GDP implies (epsilon, delta)-DP (Balle and Wang 2018, Theorem 8).

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu). The result is never below that, and
    above it by at most a relative 1e-15 (`dpmpc.privacy.gaussian`); it is 0 only below the smallest double.

    Raises
    ------
    InputError
        If mu is negative or not a number, or epsilon is not a number.
    """
    if not mu >= 0:
        raise InputError("mu", mu, "a number >= 0")
    if math.isnan(epsilon):
        raise InputError("epsilon", "nan", "a number")
    if mu == 0:
        return 0.0 if epsilon >= 0 else -math.expm1(epsilon)
    if mu == math.inf:
        return 1.0
    if math.isinf(epsilon):
        return 0.0 if epsilon > 0 else 1.0
    return curve(mu, epsilon)[0]


@lru_cache(maxsize=256)
def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the smallest epsilon such that mu-GDP implies (epsilon, delta)-DP; the inverse of `delta_of_mu`.

    Infinite where there is none, as at delta = 0 for every mu > 0. The result is proven: at it `delta_of_mu`, which is
    an upper bound, is at most delta, and at the double below it is not.

    Raises
    ------
    InputError
        If mu or delta is negative or not a number.
    """
    if not delta >= 0:
        raise InputError("delta", delta, "a number >= 0")
    if delta_of_mu(mu, 0.0) <= delta:
        return 0.0
    if delta == 0:  # delta_of_mu is 0 from some epsilon on, where the curve is only too small for a double
        return math.inf
    # delta <= Phi(-x) for x = epsilon/mu - mu/2. Newton's method on ln delta, which is concave, goes down from there.
    start = mu * max(-NormalDist().inv_cdf(delta), -mu / 2) + mu * mu / 2
    if start == math.inf:
        return math.inf

    def newton(epsilon: float) -> float:
        found, slope, _ = curve(mu, epsilon)
        return epsilon + math.log(found / delta) * found / slope if found > 0 and slope > 0 else epsilon

    near = _iterated(newton, start)
    high = max(near, math.ulp(0.0))
    while delta_of_mu(mu, high) > delta:
        high *= 2
        if high == math.inf:
            return math.inf
    return math.nextafter(last(lambda epsilon: delta_of_mu(mu, epsilon) > delta, 0.0, high, near), math.inf)


@lru_cache(maxsize=64)
def mu_of_budget(epsilon: float, delta: float) -> float:
    """Return the largest mu such that mu-GDP implies (epsilon, delta)-DP.

    The result is proven: at it `delta_of_mu`, which is an upper bound, is at most delta, and at the next double not.

    Raises
    ------
    InputError
        If epsilon or delta is not a privacy budget.
    GuaranteeError
        If that mu is out of the range in which it is computed.
    """
    check_budget(epsilon, delta)
    if delta < sys.float_info.min or not delta_of_mu(_SMALLEST_MU, epsilon) <= delta < delta_of_mu(
        _LARGEST_MU, epsilon
    ):
        raise GuaranteeError(
            "epsilon, delta",
            f"({epsilon:g}, {delta:g}) given, but no noise is computed for it: a budget that a mu from "
            f"{_SMALLEST_MU:g} to {_LARGEST_MU:g} gives is expected",
        )

    def newton(mu: float) -> float:  # on ln delta as a function of ln mu
        found, _, slope = curve(mu, epsilon)
        return mu * math.exp(math.log(delta / found) * found / (slope * mu)) if found > 0 and slope > 0 else mu

    # delta <= Phi(-x) for x = epsilon/mu - mu/2, so that this mu is small enough.
    x = -NormalDist().inv_cdf(delta)
    start = 2 * epsilon / (x + math.sqrt(x * x + 2 * epsilon)) if x > 0 else math.sqrt(x * x + 2 * epsilon) - x
    near = _iterated(newton, min(max(start, _SMALLEST_MU), _LARGEST_MU))
    return last(lambda mu: delta_of_mu(mu, epsilon) <= delta, _SMALLEST_MU, _LARGEST_MU, near)


def _iterated(step: Callable[[float], float], start: float) -> float:
    """Return where Newton's method ends, to about the last digit: a guess, which whoever takes it proves or mends."""
    here = start
    for _ in range(_STEPS):
        there = step(here)
        if not (math.isfinite(there) and there > 0) or abs(there - here) <= _SAME * here:
            break
        here = there
    return here


def analytic_gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return the smallest standard deviation of the Gaussian mechanism at L2 sensitivity 1 for (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        The budget; any positive epsilon, 0 < delta < 1.

    Returns
    -------
    float
        sigma, in units of the sensitivity: 3.730632 at (1, 1e-5), 4.22468 at (1, 1e-6).

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Algorithm 1.
    """
    return math.nextafter(1.0 / mu_of_budget(epsilon, delta), math.inf)


def classical_gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return sqrt(2 ln(1.25/delta)) / epsilon, the textbook's sufficient sigma at L2 sensitivity 1.

    Proven for epsilon < 1 only (Dwork and Roth 2014, Theorem A.1); it serves ``calibration="paper"``.
    """
    check_budget(epsilon, delta)
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


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


def last(holds: Callable[[float], bool], low: float, high: float, near: float | None = None) -> float:
    """Return a double at which a condition holds, and at the next one no more."""
    first, end = _place(low), _place(high)
    if near is not None:
        first, end = _around(holds, first, end, _place(near))
    while end - first > 1:
        middle = (first + end) // 2
        if holds(_double(middle)):
            first = middle
        else:
            end = middle
    return _double(first)


def _around(holds: Callable[[float], bool], first: int, end: int, place: int) -> tuple[int, int]:
    """Return a smaller bracket of where the condition stops to hold, next to a place between `first` and `end`."""
    step = 1
    place = min(max(place, first + 1), end - 1)
    upwards = first < place < end and holds(_double(place))
    while first < place < end:
        if holds(_double(place)):
            first = place
            if not upwards:
                break
            place += step
        else:
            end = place
            if upwards:
                break
            place -= step
        step *= 2
    return first, end


def _place(number: float) -> int:
    """Return the bits of a double as an integer that grows with it; 0 for 0.0 and -0.0."""
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return int(bits) if bits >= 0 else -(int(bits) & ((1 << 63) - 1))


def _double(place: int) -> float:
    """Return the double of a place."""
    (number,) = struct.unpack("<d", struct.pack("<q", abs(place)))
    return float(number) if place >= 0 else -float(number)
