"""Regressions that take several sums: a start from second moments, then Newton steps from clients' scores.

`releases` divides one budget among the sums, `start` reads a start and a whitening from second moments, `models` says
what a logistic, a Poisson and a linear regression differ in, `newton` iterates and says how far off the result may be
(docs/mathematics.md, section 12). `saved` computes a fit again from its files, `outlook` says
what to expect before any data. `last_round` estimates without shrinkage, with errors that assume nothing of the law of
the target, and says what cannot be told apart.

Everybody who takes part is asked in every round, with fresh noise and fresh shares. Who answers is an argument: clients
simulated in this process, or servers that are processes.
"""

from dpmpc.rounds.models import LeastSquares, LogisticModel, PoissonModel, RoundModel
from dpmpc.rounds.newton import RoundsFit, fit_in_rounds, fit_start
from dpmpc.rounds.outlook import Assumed, Outlook, outlook
from dpmpc.rounds.releases import CORRUPT, FRESH, Ask, Releases
from dpmpc.rounds.saved import SavedReleases
from dpmpc.rounds.steering import Steering

__all__ = [
    "CORRUPT",
    "FRESH",
    "Ask",
    "Assumed",
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
]
