"""Sums of a fit in rounds, answered from rows at hand, and people to fit."""

import numpy as np

from bench.secure_sketching.simulation import exact_sums, opened
from dpmpc.data import Schema
from dpmpc.models.common.releases import Releases
from dpmpc.privacy.specification import ReleaseSpec


def releases(rows, seed=0, epsilon=3.0, answer=opened):
    """Answer tasks from normalised rows; every release has noise of its own."""
    asked = iter(range(1000 * seed, 1000 * seed + 100))
    schema = Schema.unit(tuple(f"c{place}" for place in range(rows.shape[1])))
    spec = ReleaseSpec.of(schema, len(rows), epsilon, 1e-6, simulation_seed=seed)

    def ask(task):
        sums = exact_sums(task, rows)
        return answer(task, sums, next(asked)) if answer is opened else answer(task, sums)

    return Releases(spec, ask)


def numbers(clients, seed=0, features=2):
    """A lognormal feature with errors that are skewed and grow with it, and uniform ones."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, features))
    skewed = np.exp(rng.normal(0, 1, clients)).clip(0, 20)
    X[:, 0] = skewed / 10 - 1
    errors = (rng.gamma(1.0, 1.0, clients) - 1) * (1 + 0.3 * skewed.clip(0, 5)) / 30
    return np.column_stack([X, np.clip(0.1 + X @ np.resize([0.3, -0.2], features) + errors, -1, 1)])
