"""Audit of a whole fit in rounds, each of which is chosen by what the rounds before it have shown.

The adversary knows everybody's row but one, whose target is at one end of its bounds or at the other. From what was
opened before, it knows matrix, coefficients and clip of a round, and so what that person sends in either case: in a
steering round two scores in opposite directions, of norm 1 or nearly so, as far apart as two can be. What is observed
of a release is its part along that difference, less what is known, in units of the farthest that two can be apart.

Releases are those of `dpmpc.models.rounds.fit.fit_in_rounds`, and each runs the whole way of
`dpmpc.release.simulation`:
clients, shares, servers, analyst. To be fast, fits come in bundles: the first fit of a bundle steers all of them, and
the others answer the same tasks side by side, with noise of their own. Bounds hold in bundles too. Noise is the same in
all directions, so that false positives are independent; and whatever steers a fit, a decision misses the exchange at
least as often as the claimed mu says, so that misses are at least as many as in independent trials.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from bench.audit.mechanism import AuditedMechanism, Claim
from bench.audit.sums import side_by_side
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.fit import fit_in_rounds
from dpmpc.models.rounds.models import LeastSquares
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release import simulation
from dpmpc.release.release import Release

BUNDLES = 12  # of fits; each release costs milliseconds, however many stand side by side


class WholeFit(AuditedMechanism):
    """Audit a linear regression in rounds, by a spec of a dozen simulated clients whose last column is the target.

    Of the pair of rows, which differ in the target, the first client holds one; all others hold a row of zeros.
    """

    def __init__(self, spec: ReleaseSpec, pair: ArrayLike, rounds: int, bundles: int = BUNDLES):
        self._spec, self._rounds = spec, rounds
        self._bundles = bundles  # as many fits are steered by releases of their own, where so many are made
        self._pair = np.asarray(pair, dtype=np.float64)
        self.shifts = np.ones((1, rounds + 1))
        promised = self._fits(None, 1, Stream.from_seed(0))[1].guarantee
        self.claim = Claim(epsilon=promised.achieved_epsilon, delta=promised.delta, mu=promised.mu)

    def observe(self, moved: int | None, releases: int, stream: Stream) -> Reals:
        """Fit so often; return how far each release has moved, in units of what the exchange moves at most."""
        sizes = [len(part) for part in np.array_split(np.arange(releases), min(self._bundles, releases))]
        return np.concatenate([self._fits(moved, size, stream)[0] for size in sizes])

    def _fits(self, moved: int | None, times: int, stream: Stream) -> tuple[Reals, Releases]:
        """Return what is observed of a bundle (times, rounds + 1), and the releases of the fit that steers it."""
        rows = np.zeros((self._spec.clients, len(self._spec.schema)))
        rows[0] = self._pair[0 if moved is None else 1]
        seen = []

        def answer(task: Task) -> Release:
            opened = simulation.run(side_by_side(task, times), rows, stream=stream).sums.reshape(times, task.width)
            others = task.statistic.encode(task.schema.normalise(rows[1:]), task.encoding).sum(axis=0)
            first, second = task.statistic.encode(task.schema.normalise(self._pair), task.encoding)
            difference = (second - first).astype(np.float64)
            length = float(np.linalg.norm(difference))
            farthest = (
                2.0 ** (task.encoding.fractional_bits + 1) if isinstance(task.statistic, ClippedScores) else length
            )
            seen.append((opened - others - first) @ (difference / max(length, 1.0)) / farthest)
            return Release(msgspec.structs.replace(task, simulation=True), opened[:1])

        releases = Releases(self._spec, answer)
        fit_in_rounds(LeastSquares(), releases, self._rounds, intervals=False)
        return np.column_stack(seen), releases
