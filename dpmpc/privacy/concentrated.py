"""Zero-concentrated differential privacy of integer sums, and the ledger that adds it up over rounds.

A mechanism is rho-zCDP when the Renyi divergence of order alpha between its laws on neighbouring inputs is at most
rho alpha, for all alpha > 1 (Bun and Steinke 2016). rho adds up when a later mechanism is chosen by what earlier ones
have shown. Gaussian mechanisms also are mu-GDP, with rho = mu^2 / 2; the squares of mu add up likewise (Dong, Roth and
Su 2022), and epsilon is read from their tight curve.

Promised: a ledger never holds more than its budget. Not promised: that everything that was released was entered.
"""

from __future__ import annotations

import math

from dpmpc.arguments import require_positive
from dpmpc.errors import GuaranteeError, InputError
from dpmpc.privacy.gaussian import epsilon_of_mu


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
        raise GuaranteeError(f"sigma: {sigma:g} given, at least 0.5 expected: the sum's law is not known below")
    tau = 10 * (terms - 1) * math.exp(-((math.pi * sigma) ** 2))
    return l2**2 / (2 * terms * sigma**2) + tau * columns / 4


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Return the smallest epsilon of Gaussian mechanisms, composed adaptively, whose zCDP adds up to rho."""
    return epsilon_of_mu(math.sqrt(2 * rho), delta)


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
            raise InputError(f"rho: {rho:g} given for {what}, a number >= 0 expected")
        total = math.fsum([self.spent, rho])
        if not total <= self.budget:
            raise GuaranteeError(
                f"rho: {rho:.6g} asked for {what}, but {self.spent:.6g} of {self.budget:g} is spent: at most "
                f"{self.budget - self.spent:.6g} expected"
            )
        self.entries.append((what, rho))
