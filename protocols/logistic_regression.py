"""Logistic regression among real processes, in rounds of noisy sums.

Data: n clients, each with d features within public bounds, mapped to z in [-1, 1]^d, and an outcome y, 0 or 1.
Wanted: theta with P[y = 1] = 1 / (1 + exp(-theta . (1, z))), its standard errors and odds ratios, while all rounds
together give each client (epsilon, delta)-differential privacy.

1. The servers open the noisy sum of second moments of (1, z, 2 y - 1), and nothing else, here and later
   (`dpmpc.protocols.linear_transform`). From it the analyst reads coordinates v = S (1, z), and publishes S.
2. In each steering round, at public coefficients theta, every client computes q = 1 / (1 + exp(-theta . (1, z))) and
   g = (y - q) v / c, shortened to norm 1. It sends noisy shares of g and of how long g was, which costs no privacy
   beside it (`dpmpc.linear.contributions.clipped_scores.ClippedScores`). The analyst reads all sums so far together,
   and publishes the next theta (`dpmpc.models.rounds.steering`). The last one predicts.
3. In two last rounds a client sends noisy shares of its score (y - q) v, with v = (1, z) times public scales and short
   enough for every row of the box, of the score's outer product, and of its curvature q (1 - q) v v^T: from their sums
   s, J and H the analyst makes the step H^-1 s (`dpmpc.models.rounds.last_round`). No row is weighted.
4. It reports theta + H^-1 s in the columns' units, with errors of sampling and noise together,
   H^-1 (J - s s^T / n + noise) H^-1, which do not assume that the model is right (HC0). Where the sums show that
   nothing can be learned it states that, and reports no coefficients.

Every round draws fresh noise and starts its own servers; their squared parameters mu add up to that of the budget.
Three servers and an analyst, each a process of this machine, and generated people::

    python protocols/logistic_regression.py -M3 --clients 50000 --epsilon 1

On a file of your own: ``dpmpc fit FILE --model logistic --target COLUMN -M3 ...``, which requires the same sums.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import stream_for
from dpmpc.data import Column, Schema
from dpmpc.linear.contributions.scores import sigmoid
from dpmpc.models import LogisticRegression, PoissonRegression
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.fit import AUTO
from dpmpc.parties.network.meter import together
from dpmpc.parties.networked import Rounds
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.protocols._by_hand import add_noise_options, by_hand, parse_options, print_servers
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable

FEATURES = (Column("age", 18, 90), Column("smoker", 0, 1), Column("dose", 0, 3))
EFFECTS = (0.04, 0.8, -0.6)  # on the log odds, by unit of each column


class People(NamedTuple):
    """Generated people, and what generated their outcome."""

    rows: Reals  # (n, d + 1): in the columns' units, the outcome last
    schema: Schema  # names and public bounds
    effects: tuple[float, ...]  # the true coefficients


def patients(clients: int) -> People:
    """Return people who fall ill with log odds -2.5 + .04 age + .8 smoker - .6 dose; always the same ones."""
    X, rng = features(clients)
    ill = rng.random(clients) < sigmoid(-2.5 + X @ EFFECTS)
    return People(np.column_stack([X, ill]), Schema((*FEATURES, Column("ill", 0, 1))), EFFECTS)


def features(clients: int) -> tuple[Reals, np.random.Generator]:
    """Return the features of generated people, and the generator for their outcome: data, which need not be secret."""
    rng = np.random.default_rng(0)
    age, smoker = rng.uniform(18, 90, clients), rng.random(clients) < 0.25
    return np.column_stack([np.rint(age), smoker, rng.exponential(0.8, clients).clip(0, 3)]), rng


def demonstrate(
    arguments: Sequence[str],
    doc: str,
    population: Callable[[int], People],
    estimator: Callable[[int | str], LogisticRegression | PoissonRegression],
) -> None:
    """Fit generated people, and print what was found, what is guaranteed and what each server spent.

    Parameters
    ----------
    arguments, doc
        The command line and the docstring of the program.
    population : callable
        Returns so many people.
    estimator : callable
        Returns a model of so many rounds, or of "auto".
    """

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--rounds", type=int, help="rounds of scores (default: by the number of people)")
        add_noise_options(parser)

    chosen = parse_options(doc, arguments, more, clients=50_000, delta=1e-6)
    people = population(chosen.clients)
    spec = ReleaseSpec.of(
        people.schema,
        chosen.clients,
        chosen.epsilon,
        chosen.delta,
        servers=chosen.servers,
        noise_by=chosen.noise_by,
        simulation_seed=chosen.simulation_seed,
    )
    model = estimator(AUTO if chosen.rounds is None else chosen.rounds)
    # the clients, the servers and their links
    with Rounds(people.rows, stream=stream_for(chosen.simulation_seed)) as network:
        model.fit_rounds(Releases(spec, network))  # steps 1 to 4 of the analyst
    print_sums(model.releases_)
    for table in model.result().tables:
        print(with_truth(table, people), end="\n\n")
    print(model.guarantee_)
    print_servers(map(together, zip(*(run.servers for run in network.runs), strict=True)))


def print_sums(releases: Sequence[Release]) -> None:
    """Print what was released: the second moments, then the scores of each round."""
    for number, release in enumerate(releases):
        task = release.task
        name = f"round {number}" if number else "second moments"
        noise = math.sqrt(float(release.noise_variance[0]))
        print(f"{name}: {task.statistic.name} of {task.clients:,} people, standard deviation of the noise {noise:.4g}")
    print()


def with_truth(table: NumberTable, people: People) -> NumberTable:
    """Return a fit's table with what generated the people before it; nothing is known of the intercept."""
    if not table.columns:
        return table
    unknown = [math.nan] * (len(table.names) - len(people.effects))
    return dataclasses.replace(table, columns={"truth": [*people.effects, *unknown], **table.columns})


if __name__ == "__main__":
    by_hand(
        lambda arguments: demonstrate(arguments, __doc__, patients, lambda rounds: LogisticRegression(rounds=rounds))
    )
