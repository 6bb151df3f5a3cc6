"""The Gaussian mechanism, exactly: how mu, epsilon and delta belong together.

A mechanism is mu-GDP when telling two neighbouring inputs apart is no easier than telling N(0, 1) from N(mu, 1)
(Dong, Roth and Su 2022). The Gaussian mechanism of L2 sensitivity Delta and standard deviation sigma is mu-GDP with
mu = Delta / sigma and with nothing smaller, so the curve below is tight (Balle and Wang 2018, Theorem 8).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpmpc.arguments import require_positive
from dpmpc.errors import GuaranteeError, InputError
from dpmpc.privacy.roots import last

_LARGEST_MU = 1e3
_SMALLEST_MU = 1e-9  # below, the tolerance of the search for mu takes more than 1e-5 of it
_TAYLOR_MU = 1e-6  # below, the first term of a series has 12 digits, which a difference of tails has not
_NO_DENSITY = 39.0  # where phi is 0 in floats
_NO_SECOND = (
    1e12  # epsilon above which e^epsilon Phi is less than 1e-5 of the first term, and its logarithm loses digits
)
_ROUNDING = 2.0**-53
_ERFC_ERROR = 2.0**-46  # 128 roundings: of erfc and exp in C libraries (a few), of the products and the difference
_LEAST_TAIL = 1e-290  # below, erfc has lost digits


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

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), evaluated in logarithms so that deltas
    far below the rounding error of 1 keep their digits. For small mu and epsilon >= 0 the two nearly cancel. Then, with
    a = epsilon/mu, R(x) = Phi(-x)/phi(x) and e^epsilon phi(a + mu/2) = phi(a - mu/2),

        delta(epsilon) = phi(a - mu/2) (R(a - mu/2) - R(a + mu/2)) = phi(a - mu/2) mu (1 - a R(a)) (1 + O(mu^2)).

    Raises
    ------
    InputError
        If mu is negative or not a number.
    """
    if not mu >= 0:
        raise InputError(f"mu: {mu} given, a number >= 0 expected")
    if mu == 0:
        return 0.0
    if mu == math.inf:
        return 1.0
    if epsilon == math.inf:
        return 0.0

    if mu < _TAYLOR_MU and epsilon >= 0:
        return _delta_of_small_mu(mu, epsilon / mu)

    from scipy.special import log_ndtr  # a server that only sketches starts without SciPy

    if epsilon > _NO_SECOND:  # the first term alone, from above: a bound
        half, ratio = mu / 2, epsilon / mu
        return 0.0 if ratio == math.inf else math.exp(log_ndtr(half - ratio + 8 * _ROUNDING * (half + ratio)))

    log_first = float(log_ndtr(mu / 2 - epsilon / mu))
    log_second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    if log_second >= log_first:
        return 0.0
    return math.exp(log_first) * -math.expm1(log_second - log_first)


def is_proven(mu: float, epsilon: float, delta: float) -> bool:
    """Return whether an upper bound of `delta_of_mu` that takes no SciPy is at most delta; False proves nothing.

    With Phi(-z sqrt(2)) = erfc(z)/2 the curve is (erfc(x) - e^epsilon erfc(y))/2 at x = (epsilon/mu - mu/2)/sqrt(2) and
    y = (epsilon/mu + mu/2)/sqrt(2). erfc falls, so that it is taken at a smaller x and a greater y than floats could
    give, and then enlarged and lessened by what erfc, exp and the products may err. It is tight to about 1e-11 of delta
    where mu is above 1e-2, so that a server finds an honest task proven, and starts without SciPy.
    """
    if not (0 < mu < math.inf and 0 <= epsilon <= 700 and delta > 0):
        return False
    ratio, half = epsilon / mu, mu / 2
    if ratio == math.inf:
        return False
    moved = 8 * _ROUNDING * (ratio + half)
    first = math.erfc((ratio - half) * math.sqrt(0.5) - moved) * (1 + _ERFC_ERROR)
    second = math.exp(epsilon) * math.erfc((ratio + half) * math.sqrt(0.5) + moved) * (1 - _ERFC_ERROR)
    if first < _LEAST_TAIL:
        return False
    return (first - (second if second > _LEAST_TAIL else 0.0)) / 2 * (1 + _ERFC_ERROR) <= delta


def _delta_of_small_mu(mu: float, a: float) -> float:
    """Return the series of `delta_of_mu`; R' = x R - 1."""
    if a > _NO_DENSITY:
        return 0.0
    from scipy.special import erfcx

    density = math.exp(-((a - mu / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
    mills = math.sqrt(math.pi / 2) * float(erfcx(a / math.sqrt(2)))
    return density * mu * (1 - a * mills)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the smallest epsilon such that mu-GDP implies (epsilon, delta)-DP; the inverse of `delta_of_mu`.

    Infinite where there is none, as at delta = 0 for every mu > 0.

    Raises
    ------
    InputError
        If mu or delta is negative or not a number.
    """
    if not delta >= 0:
        raise InputError(f"delta: {delta} given, a number >= 0 expected")
    if delta_of_mu(mu, 0.0) <= delta:
        return 0.0
    if delta == 0:  # the search below would end where delta_of_mu underflows
        return math.inf
    upper = 1.0  # in units of mu, so that a small epsilon has its digits too
    while upper * mu < math.inf and delta_of_mu(mu, upper * mu) > delta:
        upper *= 2
    if upper * mu == math.inf:
        return math.inf
    enough = math.nextafter(last(lambda a: delta_of_mu(mu, a * mu) > delta, 0.0, upper), math.inf)
    return mu * enough


@lru_cache(maxsize=64)
def mu_of_budget(epsilon: float, delta: float) -> float:
    """Return the largest mu such that mu-GDP implies (epsilon, delta)-DP.

    Raises
    ------
    InputError
        If epsilon or delta is not a privacy budget.
    GuaranteeError
        If that mu is out of the range in which it is computed.
    """
    check_budget(epsilon, delta)

    def excess(mu: float) -> float:
        return math.log(max(delta_of_mu(mu, epsilon), np.finfo(float).tiny)) - math.log(delta)

    if not excess(_SMALLEST_MU) < 0 < excess(_LARGEST_MU):
        raise GuaranteeError(
            f"epsilon, delta: ({epsilon:g}, {delta:g}) given, but no noise is computed for it: a budget that a mu from "
            f"{_SMALLEST_MU:g} to {_LARGEST_MU:g} gives is expected"
        )
    return last(lambda mu: excess(mu) <= 0, _SMALLEST_MU, _LARGEST_MU)


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
    return 1.0 / mu_of_budget(epsilon, delta)


def classical_gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return sqrt(2 ln(1.25/delta)) / epsilon, the textbook's sufficient sigma at L2 sensitivity 1.

    Proven for epsilon < 1 only (Dwork and Roth 2014, Theorem A.1); it serves ``calibration="paper"``.
    """
    check_budget(epsilon, delta)
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon
