"""The sentences of a report: what is promised, what may be done with a release, and how to read it again.

Noise against signal: how large the released numbers are beside the noise in them, from the release alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.contributions import GroupedMoments, ItemSketch, PowerSum, Rows, SecondMoments
from dpmpc.privacy import Guarantee
from dpmpc.release import Release
from dpmpc.render.drawing import figures
from dpmpc.task import Task


@dataclasses.dataclass(frozen=True)
class Signal:
    """Typical sizes (root mean square) in the release, in its own units: columns mapped to [-1, 1], summed.

    Attributes
    ----------
    entries, unit : str
        What the numbers are, and in which unit.
    noise : dict of float
        Name -> typical size of the noise.
    signal : dict of float
        Name -> typical size of what is left without the noise, an estimate; 0 where nothing stands out.
    """

    entries: str
    unit: str
    noise: dict[str, float]
    signal: dict[str, float]

    @classmethod
    def of(cls, release: Release) -> Signal:
        """Compare the squared entries of each column with the variance of the noise in them."""
        contribution, variance = release.task.statistic, release.noise_variance
        if isinstance(contribution, Rows):
            squares = np.mean(release.sketch**2, axis=0)
            entries = ("entries of the sketch, columns mapped to [−1, 1]", "typical size, no unit")
            return cls._of(entries, release.columns, squares, np.full(len(squares), variance.mean()))
        if isinstance(contribution, SecondMoments):
            matrix = release.gram().matrix[1:]
            noise = np.full(matrix.shape, variance[0] / 2)  # off the diagonal; see `SecondMoments`
            noise[:, 1:][np.diag_indices(len(noise))] *= 2
            squares = np.mean(matrix**2, axis=1)
            entries = ("sums of products that a column is part of, columns mapped to [−1, 1]", "typical size, no unit")
            return cls._of(entries, release.columns, squares, noise.mean(axis=1))
        if isinstance(contribution, GroupedMoments):
            entries = ("entries of a group's block, columns mapped to [−1, 1]", "typical size, no unit")
            squares = np.mean(release.sketch[0].reshape(contribution.groups, -1) ** 2, axis=1)
            names = contribution.variable(release.task.schema).categories
            return cls._of(entries, names, squares, np.full(len(squares), variance[0]))
        entries = ("released sums", "typical size, no unit")
        if isinstance(contribution, PowerSum):
            entries = ("released sum, the column divided by its largest bound", "size, no unit")
        if isinstance(contribution, ItemSketch):
            entries = ("entries of the items' sketch, in people", "typical size, people")
        squares = np.array([np.mean(release.sketch**2)])
        return cls._of(entries, ("all entries",), squares, np.array([variance.mean()]))

    @classmethod
    def _of(
        cls, entries: tuple[str, str], names: tuple[str, ...], squares: NDArray[np.float64], noise: NDArray[np.float64]
    ) -> Signal:
        left = np.sqrt(np.maximum(squares - noise, 0.0))
        return cls(
            *entries,
            dict(zip(names, np.sqrt(noise).tolist(), strict=True)),
            dict(zip(names, left.tolist(), strict=True)),
        )

    def ratio(self, name: str) -> float:
        """Return signal over noise."""
        return self.signal[name] / self.noise[name] if self.noise[name] else math.inf


_CLASSES = {
    "ridge": "RidgeRegression",
    "grouped-ridge": "GroupedRidgeRegression",
    "low-rank": "LowRankApproximation",
    "moment": "FrequencyMoment",
    "logistic": "LogisticRegression",
    "poisson": "PoissonRegression",
}


def promise(guarantee: Guarantee) -> str:
    """Say in a sentence what (epsilon, delta) means for one client."""
    factor, failure = math.exp(guarantee.epsilon), guarantee.delta
    extra = f", up to an extra probability of {figures(failure)}" if failure else ""
    return (
        f"Had any one of the {guarantee.clients:,} clients sent another row, anything that can be computed from the "
        f"release in practice would have been at most exp(ε) = {figures(factor)} times more or less likely{extra}. The "
        "nearer that factor is to 1, the less anybody learns about one client, whatever else they know about it or "
        "about all the others."
    )


def terms(guarantee: Guarantee) -> list[tuple[str, list[str]]]:
    """Return the guarantee, item by item."""
    achieved = f"The noise gives ε = {figures(guarantee.achieved_epsilon, 6)} at δ = {figures(guarantee.delta)}."
    when = {"adaptive": "chosen when all that is public is known", "static": "fixed before the public matrix is drawn"}
    pooled = ["the analyst", f"{guarantee.corrupt_servers} of the {guarantee.servers} servers"]
    if guarantee.corrupt_clients:
        pooled.append(f"{guarantee.corrupt_clients:,} clients, {when[guarantee.coalition]}")
    against = [
        "Everybody who reads the release or this report. Also all of these, if they pool what they see: "
        f"{'; '.join(pooled)}."
    ]
    if guarantee.dropouts:
        against.append(f"It holds even if anything from at most {guarantee.missing} is missing.")
    return [
        ("Who is protected", [f"Each of the {guarantee.clients:,} clients, with its whole row."]),
        ("Neighbouring relation", [f"{guarantee.neighbouring}: {guarantee.relation}."]),
        ("Budget", [f"ε = {figures(guarantee.epsilon)}, δ = {figures(guarantee.delta)}. {achieved}"]),
        ("Against whom", against),
        ("Noise", [sentence(f"{guarantee.mechanism}; calibration: {guarantee.calibration}")]),
        ("Given", [sentence(str(guarantee.preconditions))]),
        ("Assumes", [sentence(assumption) for assumption in guarantee.assumptions]),
        ("Proven in", [sentence(source) for source in guarantee.sources]),
    ]


def free(task: Task, *, compared: bool) -> list[str]:
    """Say what costs no further privacy; after a simulation there is no privacy to keep."""
    if task.simulation:
        return ["Nothing: a simulation protects nobody. Publish it only where the data itself may be published."]
    said = ["Publish the release and this report, and compute anything from them: post-processing keeps the guarantee."]
    if isinstance(task.statistic, Rows | SecondMoments | GroupedMoments) and len(task.schema) > 1:
        said.append("Predict another column, change the penalty or the rank: one release serves them all.")
    if compared:
        said.append(
            "Not for publication: result.json, under not_private and approximation_factor, and report.txt after "
            "--compare hold comparisons with what the data itself gives. Those are for whoever owns the data, have no "
            "privacy, and are left out here."
        )
    return said


def costly(task: Task) -> list[str]:
    """Say what would add to the budget."""
    said = ["Any further release of the same people, also of other columns or of some of them: budgets add up."]
    if task.noising.by == "clients":
        said.append(
            "Opening the same reports twice: a client's noise is in its report, and two sums that differ by one client "
            "subtract to nearly that client's row. Reports have to be made anew, with fresh noise."
        )
    said.append(
        "Bounds, columns or a sketch that were chosen by looking at the data: they are public, and not protected."
    )
    return said


def reading(file: str) -> str:
    """Return the lines of Python that read a release and recompute what it promises."""
    return "\n".join(
        [
            "from dpmpc.release import Release",
            "",
            f"release = Release.load({file!r})",
            "print(release.guarantee)",
        ]
    )


def recipe(
    file: str,
    model: str,
    parameters: Mapping[str, Any],
    result: Mapping[str, Any],
    features: Sequence[str] | None = None,
) -> str:
    """Return the lines of Python that compute the result from the release's file."""
    name = _CLASSES[model]
    given = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    target = f", target={result['target']!r}" if model in ("ridge", "grouped-ridge", "logistic") else ""
    target += f", features={list(features)!r}" if features is not None else ""
    return "\n".join(
        [
            f"from dpmpc import {name}",
            "from dpmpc.release import Release",
            "",
            f"model = {name}({given})",
            f"model.fit_release(Release.load({file!r}){target})",
        ]
    )


def rounds_recipe(files: Sequence[str], epsilon: float, model: str, parameters: Mapping[str, Any]) -> str:
    """Return the lines of Python that compute the result of a fit in rounds from the files of its sums."""
    name = _CLASSES[model]
    given = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    return "\n".join(
        [
            f"from dpmpc import {name}",
            "from dpmpc.release import Release",
            "from dpmpc.rounds import SavedReleases",
            "",
            f"files = {list(files)!r}",
            f"saved = SavedReleases([Release.load(file) for file in files], epsilon={epsilon!r})",
            f"model = {name}({given}).fit_rounds(saved)",
        ]
    )


def sentence(text: str) -> str:
    """Make a sentence: begin with a capital and end with a full stop."""
    return f"{text[:1].upper()}{text[1:]}."
