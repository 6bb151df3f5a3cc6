"""Our fit in rounds of noisy sums: in integers, with the shipped encoding, calibration and noise.

What servers open is drawn as the exact integer sum of all rows plus the noise of all who add some, added up
(`simulation.opened`): shares cancel, so that it has the same law. Nothing is tuned: the number of rounds is given, all
else follows from releases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.curators.moments import seed_of, specification
from bench.curators.problem import Fits, Problem
from bench.secure_sketching.simulation import exact_sums, opened
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.randomness import Stream
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.models import LeastSquares
from dpmpc.models.rounds.steering import Steering
from dpmpc.privacy.task import Task
from dpmpc.release.release import Release

FIRST_SHARE = 0.2  # of mu^2, for the second moments
RUNS = 21  # at most; each run encodes all rows in each round
WORK, FEWER = 1e8, 9  # above so much n D^2 they are fewer
THREE_OWNERS: dict[str, Any] = {"servers": 3, "noise_by": "servers", "corrupt_servers": 2}
"""Three owners of rows, of whom two may pool what they know: the noise has three times the variance."""


def in_rounds(problem: Problem, epsilon: float, runs: int, stream: Stream, *, rounds: int, **trust: Any) -> Fits:
    """Fit so many steering rounds under the whole budget, no last round: predictions alone."""
    runs = min(runs, FEWER if problem.clients * problem.columns**2 > WORK else RUNS)
    answer = answers(problem, stream)
    theta = np.empty((problem.columns, runs))
    for run in range(runs):
        theta[:, run] = steered(Releases(specification(problem, epsilon, seed_of(stream), **trust), answer), rounds)
    return Fits(theta)


def answers(problem: Problem, stream: Stream) -> Callable[[Task], Release]:
    """Return who answers a task with a release of the problem's rows; second moments are summed once."""
    moments: list[Integers] = []

    def answer(task: Task) -> Release:
        if isinstance(task.statistic, ClippedScores):
            return opened(task, exact_sums(task, problem.rows), seed_of(stream))
        if not moments:
            moments.append(exact_sums(task, problem.rows))
        return opened(task, moments[0], seed_of(stream))

    return answer


def steered(releases: Releases, rounds: int) -> Reals:
    """Make all releases of a fit of so many steering rounds; return its coefficients, (D,), in normalised units."""
    first = releases.make(FIRST_SHARE)
    gram = first.gram().matrix
    response = LeastSquares().response(float(gram[0, -1]) / first.clients)
    steering = Steering(first, response, releases.mu_of(1 - FIRST_SHARE))
    for _ in range(rounds):
        steering.observe(releases.make((1 - FIRST_SHARE) / rounds, steering.contribution()))
    return steering.coefficients
