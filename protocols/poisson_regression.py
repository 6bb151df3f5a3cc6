"""Poisson regression among real processes, in rounds of noisy sums.

Data: n clients, each with d features within public bounds, mapped to z in [-1, 1]^d, and a count y from 0 to a public
most. Wanted: theta with E[y] = exp(theta . (1, z)), its standard errors and rate ratios, while all rounds together give
each client (epsilon, delta)-differential privacy.

The steps are those of `dpmpc.protocols.logistic_regression`, with m = exp(theta . v) in the place of q. A count has no
bound that helps, so a client's residual is clip(y - m, -c, c) less what that is on average where the model holds
(Cantoni and Ronchetti 2001), with a public c: bounded, and without bias. Curvature then costs 3 % of noise (Theorem 3),
and there are three rounds, because the start is further off.

Three servers and an analyst, each a process of this machine, and generated people::

    python protocols/poisson_regression.py -M3 --clients 50000 --epsilon 1

On a file of your own: ``dpmpc fit FILE --model poisson --target COLUMN --bounds FILE -M3 ...``.
"""

from __future__ import annotations

import numpy as np

from dpmpc.data import Column, Schema
from dpmpc.models import PoissonRegression
from dpmpc.protocols._by_hand import by_hand
from dpmpc.protocols.logistic_regression import FEATURES, People, demonstrate, features

MOST = 20
EFFECTS = (0.01, 0.3, -0.2)  # on the log rate, by unit of each column


def visitors(clients: int) -> People:
    """Return people who see a doctor at a log rate of .2 + .01 age + .3 smoker - .2 dose; always the same ones."""
    X, rng = features(clients)
    visits = np.minimum(rng.poisson(np.exp(0.2 + X @ EFFECTS)), MOST)
    return People(np.column_stack([X, visits]), Schema((*FEATURES, Column("visits", 0, MOST))), EFFECTS)


if __name__ == "__main__":
    by_hand(
        lambda arguments: demonstrate(
            arguments, __doc__, visitors, lambda rounds: PoissonRegression(rounds=rounds, most=MOST)
        )
    )
