"""The Gaussian mechanism, exactly: how mu, epsilon and delta belong together.

A mechanism is mu-GDP when telling two neighbouring inputs apart is no easier than telling N(0, 1) from N(mu, 1)
(Dong, Roth and Su 2022). The Gaussian mechanism of L2 sensitivity Delta and standard deviation sigma is mu-GDP with
mu = Delta / sigma and with nothing smaller, so the curve below is tight (Balle and Wang 2018, Theorem 8).

Promised: nothing here is on the wrong side of the exact curve. delta and epsilon are never too small and mu never too
large, whatever floats do; each is within a few last digits of the exact number.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

from dpmpc.arguments import require_positive
from dpmpc.errors import GuaranteeError, InputError
from dpmpc.privacy.normal_tail import curve
from dpmpc.privacy.roots import last

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
        raise InputError(f"delta: {delta} given, {expected} expected{remedy}")


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Return the smallest delta such that mu-GDP implies (epsilon, delta)-DP (Balle and Wang 2018, Theorem 8).

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu). The result is never below that, and
    above it by at most a relative 1e-15 (`dpmpc.privacy.normal_tail`); it is 0 only below the smallest double.

    Raises
    ------
    InputError
        If mu is negative or not a number, or epsilon is not a number.
    """
    if not mu >= 0:
        raise InputError(f"mu: {mu} given, a number >= 0 expected")
    if math.isnan(epsilon):
        raise InputError("epsilon: nan given, a number expected")
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
        raise InputError(f"delta: {delta} given, a number >= 0 expected")
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
            f"epsilon, delta: ({epsilon:g}, {delta:g}) given, but no noise is computed for it: a budget that a mu from "
            f"{_SMALLEST_MU:g} to {_LARGEST_MU:g} gives is expected"
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
