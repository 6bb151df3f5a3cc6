"""A fit in rounds, computed again from the releases that it was computed from.

Promised: nothing is asked of anybody, so that it costs no privacy. Every release is one that the fit would have asked
for, up to the rounding of another machine: its share of the budget, its columns, its public coefficients. What was
released at other coefficients, or with another budget, is refused. The guarantee is that of all releases given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpmpc.base.errors import InputError
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.contributions.residual_products import ResidualProducts
from dpmpc.linear.contributions.scores import Scores
from dpmpc.models.common.releases import Releases
from dpmpc.privacy import Guarantee
from dpmpc.privacy.specification import Budget, Mechanism, ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.release import Release

_SHARE = 1e-2  # relative; a round's noise is a little more than its share asks for
_COEFFICIENTS = 1e-6  # relative; what floating-point arithmetic may differ in between machines


class SavedReleases(Releases):
    """Hands out releases in the order in which they were made.

    Parameters
    ----------
    releases : sequence of Release
        In the order in which they were made.
    epsilon : float
        The whole budget, at the releases' delta.
    """

    def __init__(self, releases: Sequence[Release], epsilon: float):
        if not releases:
            raise InputError("releases", "none", "second moments and at least one round")
        first, clients = releases[0].task, [release.clients for release in releases]
        spec = ReleaseSpec(
            schema=first.schema,
            clients=max(clients),
            budget=Budget(epsilon, first.delta),
            trust=first.trust,
            mechanism=Mechanism(noise_by=first.noising.by, sharing=first.sharing),
        )
        super().__init__(spec, self._refuse, present=lambda number: clients[number])
        self._saved = list(releases)

    def make(self, share: float, contribution: Contribution | None = None) -> Release:
        """Return the next release, which must be the one that is expected.

        Raises
        ------
        InputError
            If there is none, or it is another.
        GuaranteeError
            If all releases together exceed the budget.
        """
        place = len(self.made)
        if place == len(self._saved):
            raise InputError("releases", place, "more", "the fit goes on for another round")
        release = self._saved[place]
        require_alike(release.task, self.task(share, contribution), place)
        return self._taken(release)

    @property
    def left(self) -> float:
        """How many are not handed out yet: a fit in steering rounds ends with the last of them."""
        return len(self._saved) - len(self.made)

    @property
    def guarantee(self) -> Guarantee:
        """What all files promise together: also those that a fit which ended early does not use were released."""
        for place in range(len(self.made), len(self._saved)):
            self._require_table(place)
        return self.promise([release.task for release in self._saved])

    def _require_table(self, place: int) -> None:
        """Refuse a release of another table or delta than those that were handed out."""
        task, delta = self._saved[place].task, self._saved[0].task.delta
        if (task.schema, task.delta) != (self.schema, delta):
            raise InputError("releases", f"number {place} given of another table or delta than the others")

    def _taken(self, release: Release) -> Release:
        """Count a release among those that were made, if all together are within the budget."""
        self.require_within_budget(release.task)
        self.made.append(release)
        return release

    @staticmethod
    def _refuse(task: Task) -> Release:
        raise InputError("releases", "those of files given, which no program adds to")


def require_alike(task: Task, expected: Task, place: int) -> None:
    """Refuse a task that is not the one that is expected, up to what floating-point arithmetic differs in."""
    mu = expected.guarantee.mu or 0.0
    compared = {
        "table": (task.schema, task.clients) == (expected.schema, expected.clients),
        "contribution": _alike(task.statistic, expected.statistic),
        "delta": task.delta == expected.delta,
        "share of the budget": abs((task.guarantee.mu or 0.0) - mu) <= _SHARE * mu
        and abs(task.epsilon - expected.epsilon) <= _SHARE * expected.epsilon,
    }
    for name, alike in compared.items():
        if not alike:
            raise InputError("releases", f"number {place} given with another {name} than the fit would have asked for")


def _alike(ours: Contribution, theirs: Contribution) -> bool:
    """Return whether two contributions are the same, at coefficients up to a relative error of their public numbers."""
    if ours.name != theirs.name or not isinstance(ours, Scores | ClippedScores | ResidualProducts):
        return ours.name == theirs.name and ours.parameters() == theirs.parameters()
    given, expected = (dict(one.parameters()) for one in (ours, theirs))
    links = [one.pop("link", {"name": None}) for one in (given, expected)]
    numbers, others = (
        {**one, **{k: v for k, v in link.items() if k != "name"}}
        for one, link in zip((given, expected), links, strict=True)
    )
    return (links[0]["name"], numbers.keys()) == (links[1]["name"], others.keys()) and all(
        np.shape(numbers[name]) == np.shape(others[name])
        and np.allclose(numbers[name], others[name], rtol=_COEFFICIENTS, atol=_COEFFICIENTS)
        for name in numbers
    )
