"""Regressions that take several sums: second moments, then clients' scores at public coefficients, round by round.

`fit` is the whole: `releases` divides one budget among the sums, `start` reads the second moments, `steering` finds
coefficients that predict, `last_round` estimates them without shrinkage and says how far off they may be, `models` says
what a logistic, a Poisson and a linear regression differ in (docs/mathematics.md, section 12). `saved` computes a fit
again from its files, `outlook` says what to expect before any data.

Everybody who takes part is asked in every round, with fresh noise and fresh shares. Who answers is an argument: clients
simulated in this process, or servers that are processes.
"""

from dpmpc.rounds.fit import AUTO, RoundsFit, fit_in_rounds, fit_start, rounds_of, rounds_suit, shares_of
from dpmpc.rounds.last_round import Estimate
from dpmpc.rounds.models import LeastSquares, LogisticModel, PoissonModel, RoundModel
from dpmpc.rounds.outlook import Assumed, Expected, Outlook, outlook
from dpmpc.rounds.releases import CORRUPT, FRESH, Ask, Releases
from dpmpc.rounds.saved import SavedReleases
from dpmpc.rounds.steering import Steering

__all__ = [
    "AUTO",
    "CORRUPT",
    "FRESH",
    "Ask",
    "Assumed",
    "Estimate",
    "Expected",
    "LeastSquares",
    "LogisticModel",
    "Outlook",
    "PoissonModel",
    "Releases",
    "RoundModel",
    "RoundsFit",
    "SavedReleases",
    "Steering",
    "fit_in_rounds",
    "fit_start",
    "outlook",
    "rounds_of",
    "rounds_suit",
    "shares_of",
]
