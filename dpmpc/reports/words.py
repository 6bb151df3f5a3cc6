"""The sentences of a report: what is promised, what may be done with a release, and how to read it again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpmpc.privacy import Guarantee
from dpmpc.reports.drawing import figures
from dpmpc.statistic import Rows, SecondMoments
from dpmpc.task import Task

_CLASSES = {"ridge": "RidgeRegression", "low-rank": "LowRankApproximation", "moment": "FrequencyMoment"}


def promise(guarantee: Guarantee) -> str:
    """What (epsilon, delta) says of one client, in a sentence."""
    factor, failure = math.exp(guarantee.epsilon), guarantee.delta
    extra = f", up to an extra probability of {figures(failure)}" if failure else ""
    return (
        f"Had any one of the {guarantee.clients:,} clients sent another row, anything that can be computed from the "
        f"release in practice would have been at most exp(ε) = {figures(factor)} times more or less likely{extra}. The "
        "nearer that factor is to 1, the less anybody learns about one client, whatever else they know about it or "
        "about all the others."
    )


def terms(guarantee: Guarantee) -> list[tuple[str, list[str]]]:
    """The guarantee, item by item."""
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
        against.append(f"It holds where anything is missing of at most {guarantee.missing}.")
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
    """What nobody pays privacy for; after a simulation there is no privacy to keep."""
    if task.simulation:
        return ["Nothing: a simulation protects nobody. Publish it only where the data itself may be published."]
    said = ["Publish the release and this report, and compute anything from them: post-processing keeps the guarantee."]
    if isinstance(task.statistic, Rows | SecondMoments) and len(task.schema) > 1:
        said.append("Predict another column, change the penalty or the rank: one release serves them all.")
    if compared:
        said.append(
            "Not for publication: result.json and report.txt also hold comparisons with what the data itself gives. "
            "Those are for whoever owns the data, have no privacy, and are left out here."
        )
    return said


def costly(task: Task) -> list[str]:
    """What would add to the budget."""
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
    """The lines of Python that read a release, and recompute what it promises."""
    return "\n".join(
        [
            "from dpmpc.release import Release",
            "",
            f"release = Release.load({file!r})",
            "print(release.guarantee)",
        ]
    )


def recipe(file: str, model: str, parameters: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """The lines of Python that compute the result from the release's file."""
    name = _CLASSES[model]
    given = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    target = f", target={result['target']!r}" if model == "ridge" else ""
    return "\n".join(
        [
            f"from dpmpc import {name}",
            "from dpmpc.release import Release",
            "",
            f"model = {name}({given})",
            f"model.fit_release(Release.load({file!r}){target})",
        ]
    )


def sentence(text: str) -> str:
    """Begin with a capital and end with a full stop."""
    return f"{text[:1].upper()}{text[1:]}."
