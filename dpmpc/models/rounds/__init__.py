"""Regressions that take several sums: second moments, then clients' scores at public coefficients, round by round.

`fit` is the whole: `releases` divides one budget among the sums, `start` reads the second moments, `steering` finds
coefficients that predict, `last_round` estimates them without shrinkage and states how far off they may be, `models`
states what a logistic, a Poisson and a linear regression differ in. `saved` computes a fit again from its files,
`outlook` states what to expect before any data.

Everybody who takes part is asked in every round, with fresh noise and fresh shares. Who answers is an argument: clients
simulated in this process, or servers that are processes.
"""

from dpmpc.models.rounds.outlook import outlook
from dpmpc.models.rounds.saved import SavedReleases

__all__ = ["SavedReleases", "outlook"]
