"""What several releases about the same people promise together.

A release is described by its `Cost`: privacy parameters that are known to hold for it. Costs compose as trade-off
functions do (Dong, Roth and Su 2022, Theorem 3.2), and where all of them are Gaussian or (epsilon, delta) the result
is exact for the costs given (theorem joint-ledger): for Gaussians it is the square root of the sum of the
mu^2, for (epsilon, delta) the optimal composition of Kairouz, Oh and Viswanath 2015, which never exceeds the
basic and the advanced one (Dwork, Rothblum and Vadhan 2010), up to the rounding of a grid, which is upwards.
With zCDP among them everything is added up as zCDP (Bun and Steinke 2016), which is sound and not tight.

A mechanism is rho-zCDP when the Renyi divergence of order alpha between its laws on neighbouring inputs is at most
rho alpha, for all alpha > 1. rho adds up when a later mechanism is chosen by what earlier ones have shown. Gaussian
mechanisms also are mu-GDP, with rho = mu^2 / 2; the squares of mu add up likewise, and epsilon is read from their tight
curve. `ZCDPBudget` is a ledger of rho over rounds of integer sums.

Promised: epsilon is never below that of the mechanisms which the costs describe, even if each is chosen by what earlier
ones have shown; every rounding is upwards. Of deltas a relative 2^-52 is free, as decimal numbers are off by that as
floats. Not promised: the same where the *costs* of later ones are chosen in that way, unless all costs are Gaussian
(Smith and Thakurta 2022) or all are zCDP (Feldman and Zrnic 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec.structs import force_setattr

from dpmpc.base.arguments import require_finite, require_positive
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.storage import Record
from dpmpc.privacy.gaussian import epsilon_of_mu
from dpmpc.privacy.guarantee import REPLACE_ONE, Promise

_GRID = 2**15  # steps that the sum of the pure epsilons is divided into; each epsilon is rounded up to whole steps
_LEAST_PURE = 1e-300  # sums of pure epsilons below it are added as they are: floats have no grid there
_ROUNDING = 2.0**-50  # 8 roundings
_OF_LOSSES = 2.0**-45  # of their sum; far above the rounding of the grid
_TOLERANCE = 1e-9  # relative, of the search for epsilon; its upper end is returned


class Cost(Record, frozen=True, kw_only=True):
    """What is known of one release: it composes no worse than all of these together.

    Parameters
    ----------
    mu : float
        Gaussian differential privacy.
    rho : float
        Zero-concentrated differential privacy; where the noise is Gaussian, mu = sqrt(2 rho) gives more.
    epsilon, delta : float
        (epsilon, delta)-differential privacy.
    slack : float
        Pure epsilon by which the laws of the release may differ from those, in one direction.

    Raises
    ------
    InputError
        If a parameter is negative or not finite, delta is 1 or more, or all are 0: no release is free.
    """

    mu: float = 0.0
    rho: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0
    slack: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            force_setattr(self, name, require_finite(name, getattr(self, name), 0))
        if self.delta >= 1:
            raise InputError("delta", f"{self.delta:g}", "less than 1")
        if not (self.mu or self.rho or self.epsilon or self.delta):
            raise InputError("cost", "nothing", "mu, rho, or epsilon and delta")

    @classmethod
    def of(cls, what: Any) -> Cost:
        """Return the cost of a release, of its guarantee, or of a pair (epsilon, delta).

        Parameters
        ----------
        what : Cost, Promise, pair of float, or an object with such a `guarantee`
            Of parties with different columns, the cost is that of a whole row.

        Raises
        ------
        InputError
            If it is none of these, or promises something else than replace-one differential privacy.
        """
        promise = getattr(what, "guarantee", what)
        if isinstance(promise, Cost):
            return promise
        if isinstance(promise, tuple) and len(promise) == 2:
            return cls(epsilon=promise[0], delta=promise[1])
        terms = promise.composition if isinstance(promise, Promise) else None
        if terms is None:
            raise InputError("release", f"{promise!r}", "a release, a guarantee or a pair (epsilon, delta)")
        if promise.neighbouring != REPLACE_ONE:
            raise InputError("release", f"neighbouring {promise.neighbouring!r}", f"{REPLACE_ONE!r}")
        return cls(**terms)


def composed_epsilon(costs: Sequence[Cost], delta: float) -> float:
    """Return the epsilon, at delta, of all releases together; infinite where no epsilon is proven.

    Parameters
    ----------
    costs : sequence of Cost
        Of releases that drew fresh noise each.
    delta : float
        Where epsilon is read off, from 0 to below 1.
    """
    if not 0 <= delta < 1:
        raise InputError("delta", delta, "a number from 0 to below 1")
    mu = _root_of_squares([cost.mu for cost in costs])
    rho = _total(cost.rho for cost in costs)
    slack = _total(cost.slack for cost in costs)
    pure = [cost.epsilon for cost in costs if cost.epsilon]
    left = _left(delta, slack, [cost.delta for cost in costs])
    if left < 0 or (left == 0 and (mu or rho)):
        return math.inf
    if rho:
        return _total([slack, slack, _with_concentrated(_total([rho, _above(mu * mu / 2)]), pure, left)])
    together = _total(pure)
    basic = _total([epsilon_of_mu(mu, left), together])
    exact = len(pure) + bool(mu) <= 1 or left == 0
    searched = not exact and together >= _LEAST_PURE and basic < math.inf
    return _total([slack, slack, _least_epsilon(mu, pure, left, basic) if searched else basic])


def epsilon_of_concentrated(rho: float, delta: float) -> float:
    """Return the epsilon that rho-zCDP implies at delta, rounded upwards.

    inf over alpha > 1 of rho alpha + ln((alpha - 1)/alpha) - (ln delta + ln alpha)/(alpha - 1) (Canonne, Kamath and
    Steinke 2020, Proposition 12). Every alpha is a proof, so the search for the best may stop short of it.
    """
    if rho == math.inf:
        return math.inf
    from scipy.optimize import minimize_scalar

    def terms(logarithm: float) -> tuple[float, float, float]:
        less_one = math.exp(logarithm)
        alpha = 1 + less_one
        return rho * alpha, -math.log1p(1 / less_one), -math.log(delta * alpha) / less_one

    # The best of the simpler rho alpha - ln(delta)/(alpha - 1).
    start = (math.log(-math.log(delta)) - math.log(rho)) / 2
    search = minimize_scalar(lambda at: sum(terms(at)), bounds=(start - 8, start + 8), method="bounded")
    summands = terms(float(search.x))
    # Each is off by a few roundings, the last also by one of the logarithm's argument.
    rounding = _ROUNDING * (sum(map(abs, summands)) + math.exp(-float(search.x)))
    return max(0.0, _above(sum(summands) + rounding))


def _with_concentrated(rho: float, pure: Sequence[float], delta: float) -> float:
    """Return the better of two: pure epsilons are added, or counted as (epsilon^2 / 2)-zCDP (Bun and Steinke 2016)."""
    added = _total([epsilon_of_concentrated(rho, delta), *pure])
    counted = epsilon_of_concentrated(_total([rho, *(_above(epsilon * epsilon / 2) for epsilon in pure)]), delta)
    return min(added, counted)


def _total(numbers: Iterable[float]) -> float:
    """Return the sum of numbers >= 0, rounded upwards; infinity where it is too large for a float."""
    numbers = list(numbers)
    try:
        total = math.fsum(numbers)
    except OverflowError:
        return math.inf
    exact = total if total == math.inf else sum(map(Fraction, numbers))
    while total < exact:
        total = math.nextafter(total, math.inf)
    return total


def _root_of_squares(numbers: Sequence[float]) -> float:
    """Return the root of the sum of squares, rounded upwards; infinity where it is too large for a float."""
    root, squares = math.hypot(*numbers), sum(Fraction(number) ** 2 for number in numbers)
    while root < math.inf and Fraction(root) ** 2 < squares:
        root = math.nextafter(root, math.inf)
    return root


def _above(number: float) -> float:
    """Return the next float above what was rounded once; 0 stays only where it is exact or less than all floats."""
    return math.nextafter(number, math.inf) if number > 0 else number


def _left(delta: float, slack: float, spent: Sequence[float]) -> float:
    """Return delta e^-slack less the deltas that are spent, rounded downwards."""
    remaining = Fraction(math.exp(-slack)) * (1 - Fraction(_ROUNDING)) if slack else Fraction(1)
    exact = remaining * Fraction(delta) - sum(map(Fraction, spent))
    if -Fraction(delta) * Fraction(2) ** -52 <= exact < 0:
        return 0.0
    left = float(exact)
    return math.nextafter(left, -math.inf) if left > exact else left


def _least_epsilon(mu: float, pure: Sequence[float], delta: float, highest: float) -> float:
    """Halve the bracket of the epsilon at which delta is what is left (theorem joint-ledger)."""
    losses, chances = _pure_losses(pure)
    margin = 1 + (len(chances) + 4 * len(pure)) * 2.0**-52  # for the rounding of chances and of their sum
    losses += _OF_LOSSES * losses[-1]

    def spent(epsilon: float) -> float:
        return margin * float(chances @ _delta_of_mu(mu, epsilon - losses))

    if spent(0.0) <= delta:  # or the bracket would shrink until floats have no smaller number
        return 0.0
    low, high = 0.0, highest
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        if spent(middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def _pure_losses(pure: Sequence[float]) -> tuple[Reals, Reals]:
    """Return the law of the sum of losses +-epsilon_i, + with probability e^epsilon_i / (1 + e^epsilon_i), on a grid.

    Randomised response is the worst mechanism of its epsilon (Kairouz, Oh and Viswanath 2015); every epsilon is rounded
    up to whole steps of the grid, which makes it only worse.
    """
    step = math.fsum(pure) / _GRID * (1 + 1e-12)  # so that equal epsilons are whole steps, whatever the rounding
    chances = np.ones(1)
    for epsilon in pure:
        steps = math.ceil(epsilon / step)
        steps += Fraction(steps) * Fraction(step) < Fraction(epsilon)
        likely = 1 / (1 + math.exp(-steps * step))  # of the rounded epsilon, or these were losses of no mechanism
        grown = np.zeros(len(chances) + steps)
        grown[: len(chances)] += (1 - likely) * chances
        grown[steps:] += likely * chances
        chances = grown
    reached = len(chances) - 1
    losses = step * np.arange(-reached, reached + 1, 2, dtype=np.float64)
    return losses, chances


def _delta_of_mu(mu: float, epsilons: Reals) -> Reals:
    """Bound `dpmpc.privacy.gaussian.delta_of_mu` of many epsilons of any sign from above.

    A difference of two tails, and what rounding may take of it: their logarithms err by a few ulps, and by what an
    argument that is a few ulps off moves them, which is the hazard phi/Phi times that.
    """
    from scipy.special import log_ndtr

    if mu == 0:
        return np.asarray(-np.expm1(np.minimum(epsilons, 0.0)))
    left, right = mu / 2 - epsilons / mu, -mu / 2 - epsilons / mu
    log_first, tail = log_ndtr(left), log_ndtr(right)
    log_second = np.minimum(epsilons + tail, log_first)
    difference = np.subtract(log_second, log_first, out=np.zeros_like(log_first), where=log_first > -math.inf)
    second = np.exp(log_second)
    hazard = np.maximum(-right, 0.0) + np.exp(-(np.clip(left, 0.0, 40.0) ** 2) / 2)  # at least that of either tail
    with np.errstate(over="ignore"):  # where there is no second tail
        moved = np.abs(epsilons) - tail - log_first + hazard * (np.abs(epsilons) / mu + mu)
    rounding = np.multiply(second, moved, out=np.zeros_like(second), where=second > 0) * _ROUNDING
    return np.asarray(np.exp(log_first) * -np.expm1(difference) + rounding)


def rho_of_sum(l2: float, sigma: float, terms: int, columns: int) -> float:
    """Return the zCDP of a sum that is released with the noise of `terms` discrete Gaussians in each entry.

    rho = Delta_2^2 / (2 m sigma^2) + tau p / 4, tau = 10 sum_{k=1}^{m-1} exp(-2 pi^2 sigma^2 k / (k + 1))
    (Kairouz, Liu and Steinke 2021, on sums of discrete Gaussians). One discrete Gaussian has tau = 0 (Canonne, Kamath
    and Steinke 2020, Theorem 4, entry by entry). Every term of tau is at most the first, exp(-pi^2 sigma^2), and is
    counted as that much.

    Parameters
    ----------
    l2 : float
        By how much one client moves the sum, in integer units.
    sigma : float
        Parameter of each discrete Gaussian, at least 1/2.
    terms : int
        m.
    columns : int
        p, entries of the sum.
    """
    if not sigma >= 0.5:
        raise GuaranteeError("sigma", f"{sigma:g}", "at least 0.5", "the sum's law is not known below")
    tau = 10 * (terms - 1) * math.exp(-((math.pi * sigma) ** 2))
    return l2**2 / (2 * terms * sigma**2) + tau * columns / 4


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Return the smallest epsilon of Gaussian mechanisms, composed adaptively, whose zCDP adds up to rho."""
    return epsilon_of_mu(_above(math.sqrt(2 * rho)), delta)


class ZCDPBudget:
    """What has been spent of a budget of zCDP.

    Parameters
    ----------
    budget : float
        rho, positive.

    Attributes
    ----------
    entries : list of (str, float)
        What was released, and its rho.
    """

    def __init__(self, budget: float):
        self.budget = require_positive("rho", budget)
        self.entries: list[tuple[str, float]] = []

    @property
    def spent(self) -> float:
        """The sum of the entries."""
        return math.fsum(rho for _, rho in self.entries)

    def spend(self, rho: float, what: str) -> None:
        """Enter a release before it is made.

        Raises
        ------
        InputError
            If rho is negative: nothing that was spent comes back.
        GuaranteeError
            If the budget would be exceeded; nothing is entered then.
        """
        if rho < 0:
            raise InputError("rho", f"{rho:g} given for {what}, a number >= 0 expected")
        total = math.fsum([self.spent, rho])
        if not total <= self.budget:
            raise GuaranteeError(
                "rho",
                f"{rho:.6g} asked for {what}, but {self.spent:.6g} of {self.budget:g} is spent: at most "
                f"{self.budget - self.spent:.6g} expected",
            )
        self.entries.append((what, rho))
