"""The lines of Python in a report: how to read a release again, and how to compute the result from its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_CLASSES = {
    "ridge": "RidgeRegression",
    "grouped-ridge": "GroupedRidgeRegression",
    "low-rank": "LowRankApproximation",
    "moment": "FrequencyMoment",
    "logistic": "LogisticRegression",
    "poisson": "PoissonRegression",
}


def reading_code(file: str) -> str:
    """Return the lines of Python that read a release and recompute what it promises."""
    return "\n".join(
        [
            "from dpmpc.release import Release",
            "",
            f"release = Release.load({file!r})",
            "print(release.guarantee)",
        ]
    )


def fit_code(
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


def rounds_code(files: Sequence[str], epsilon: float, model: str, parameters: Mapping[str, Any]) -> str:
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
