"""What a release of one kind of contribution can be read as: the base class, which serves sums of any kind.

A contribution states what clients send, and is independent of commands and pages. A `Reading` states what became of it:
in which words, how large the noise is beside it, what it shows without a model, which model fits it, what a page states
of it, and from how many people on it is of use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dpmpc.data.data_checks import require_column
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.models import RidgeRegression
from dpmpc.privacy.task import Task
from dpmpc.release.planning.advice import verdict
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result


def noise_table(entries: str, squares: Mapping[str, tuple[float, float]]) -> NumberTable:
    """Compare the typical sizes (root mean square) of the noise and of what is left of a release without it.

    Parameters
    ----------
    entries : str
        What the numbers are, and in which unit.
    squares : mapping
        By name, the mean square of what was released and the variance of the noise in it.
    """
    noise = [math.sqrt(variance) for _, variance in squares.values()]
    signal = [math.sqrt(max(square - variance, 0.0)) for square, variance in squares.values()]
    ratios = [one / other if other else math.inf for one, other in zip(signal, noise, strict=True)]
    notes = [f"Root mean square of the {entries}. What is left without the noise is an estimate."]
    columns = {"noise": noise, "signal": signal, "signal / noise": ratios}
    return NumberTable("Sizes", columns, list(squares), notes=notes)


class Reading:
    """What a release can be read as; methods hold for sums of which nothing else is known.

    Attributes
    ----------
    words, proved_words : str
        What was released of "their" contributions; the same where clients proved them. Empty for "the sum of their"
        and the contribution's name.
    use : str
        What a release may be too noisy for.
    entries : str
        What is compared with the noise, and in which unit.
    """

    words = proved_words = ""
    use = "a regression"
    entries = "released sums"

    def of(self, contribution: Contribution) -> Reading:
        """Return the reading of a contribution of this kind."""
        return self

    def noise(self, release: Release) -> NumberTable:
        """Compare what was released with the noise in it, from the release alone."""
        return noise_table(self.entries, self._sizes(release))

    def _sizes(self, release: Release) -> Mapping[str, tuple[float, float]]:
        """Return, by name, the mean square of released entries and the variance of the noise in them."""
        return {"all entries": (float(np.mean(release.sketch**2)), float(release.noise_variance.mean()))}

    def result(self, release: Release, level: float) -> Result:
        """Return what a release shows without a model, with intervals of this coverage."""
        return Result(notes=[f"The sums are those of {release.task.statistic.name}; models in rounds read them."])

    def regression(
        self,
        release: Release,
        target: str,
        features: Sequence[str] | None,
        groups: Mapping[str, Sequence[str]],
        level: float,
    ) -> Result:
        """Return the regression of a column on others, by default all; `groups` are features tested together."""
        require_column(release.task.schema, target)
        model = RidgeRegression().fit_release(release, target, features=features)
        return model.result(level, groups=groups)

    def sentences(self, release: Release) -> Iterator[tuple[str, str]]:
        """Yield what a page states of each question in words; intervals are of noise and of sampling."""
        yield from ()

    def verdict(self, task: Task) -> tuple[bool, str]:
        """Return whether a release is expected to be of any use, and why, with the numbers."""
        return verdict(task)
