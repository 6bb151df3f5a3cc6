"""What `dpmpc fit --out` and `dpmpc owners --out` have written, read again: the model, its target, its releases.

Promised: coefficients are those that were published; a fit can be computed again from its releases, which costs no
privacy. Whoever wrote the folder is believed as far as its releases bear it out.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from dpmpc.app.render.released import ONE_RELEASE, release_file
from dpmpc.base.errors import InputError
from dpmpc.base.untrusted import read_bytes
from dpmpc.data import Schema
from dpmpc.models.common.commanded import Commanded
from dpmpc.models.fitted import KINDS, REGRESSIONS, fit_again, fit_rounds_again, predicts
from dpmpc.models.groups.grouped_ridge_regression import GroupedRidgeRegression
from dpmpc.privacy import Guarantee
from dpmpc.privacy.task import LONGEST_CHECK
from dpmpc.release.release import Release

RESULT_FILE = "result.json"
EVERYBODY = ""  # the one group of a model without groups
Linear: TypeAlias = "tuple[dict[str, float], float]"  # coefficients by column, and the intercept
_LARGEST_RESULT = 1 << 26


@dataclasses.dataclass(frozen=True)
class FitFolder:
    """A folder of results."""

    path: Path  # where it is
    content: Mapping[str, Any]  # of its `RESULT_FILE`

    @classmethod
    def open(cls, folder: str | Path) -> FitFolder:
        """Read what a fit has found."""
        path = Path(folder) / RESULT_FILE
        try:
            content = json.loads(read_bytes(path, largest=_LARGEST_RESULT))
        except OSError as error:
            raise InputError("model", f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise InputError("model", f"{path} is not the result of a fit: {error}") from error
        kind = content.get("model") if isinstance(content, dict) else None
        if kind not in KINDS:
            raise InputError("model", f"{path} holds a model {kind!r}, one of {', '.join(KINDS)} expected")
        if not isinstance(content.get("parameters"), dict):
            raise InputError("model", f"{path} is not the result of a fit of this version: no parameters in it")
        return cls(Path(folder), content)

    @property
    def model(self) -> str:
        """Which model it is."""
        return str(self.content["model"])

    @property
    def parameters(self) -> dict[str, object]:
        """What its estimator was given."""
        return dict(self.content["parameters"])

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its releases: one, or all sums of a fit in rounds in their order."""
        if (self.path / ONE_RELEASE).exists():
            return (ONE_RELEASE,)
        found: list[str] = []
        while (self.path / release_file(len(found))).exists():
            found.append(release_file(len(found)))
        if not found:
            raise InputError(
                "model",
                f"{str(self.path)!r} holds neither {ONE_RELEASE} nor {release_file(0)}, the folder of a fit expected",
            )
        told = self.content.get("releases")
        others = {path.name for path in self.path.glob("release-*.dpmpc")}.difference(found)
        if others or (isinstance(told, list) and len(told) != len(found)):
            raise InputError(
                "model",
                f"{str(self.path)!r} holds {release_file(0)} to {release_file(len(found) - 1)}, and "
                f"{RESULT_FILE} or later files name others: every sum that was released is expected, "
                "since the guarantee is that of all together",
            )
        return tuple(found)

    @property
    def in_rounds(self) -> bool:
        """Whether the model was read from several sums, or could have been."""
        return self.files != (ONE_RELEASE,)

    def models(self) -> tuple[str, dict[str, Linear], str | None]:
        """Return the target, the models by group as published, and the column of groups where there is one."""
        path = self.path / RESULT_FILE
        if not predicts(self.model):
            raise InputError("model", f"{path} holds a model {self.model!r}, one of {', '.join(REGRESSIONS)} expected")
        result: Any = self.content.get("result")
        if isinstance(result, dict) and result.get("coefficients", "") is None:
            raise InputError("model", f"{path} holds a fit that has learned nothing: {result.get('verdict')}")
        try:
            target, by = str(result["target"]), str(result["by"]) if self.model == GroupedRidgeRegression.kind else None
            found = {EVERYBODY: result} if by is None else result["groups"]
            models = {str(group): _linear(one) for group, one in found.items() if by is None or "coefficients" in one}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                "model", f"{path} lacks a target, an intercept or coefficients that are numbers"
            ) from error
        if not models:
            raise InputError("model", f"{path} has no regression of any group, one at least expected")
        for coefficients, intercept in models.values():
            if not coefficients or not all(map(math.isfinite, (*coefficients.values(), intercept))):
                raise InputError("model", f"{path} has coefficients that are not finite, finite numbers expected")
        return target, models, by

    @property
    def schema(self) -> Schema:
        """Columns, codebook, and the bounds that the fit has used: those of its last sum."""
        return Release.load(self.path / self.files[-1]).task.schema

    def fit_again(self, longest: float = LONGEST_CHECK) -> tuple[Commanded, tuple[Release, ...], Guarantee]:
        """Compute the fit again from its releases, and what they promise together."""
        releases = tuple(Release.load(self.path / name, longest=longest) for name in self.files)
        given = self.parameters
        if not self.in_rounds:
            target = self.content.get("result", {}).get("target")
            return fit_again(self.model, given, releases[0], target), releases, releases[0].guarantee
        try:
            epsilon = float(self.content["privacy"]["epsilon"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("model", f"{self.path / RESULT_FILE} lacks the budget of the fit") from error
        model = fit_rounds_again(self.model, given, releases, epsilon)
        return model, releases, model.guarantee_


def _linear(result: Any) -> Linear:
    """Return coefficients and intercept of a result that was read."""
    return {str(name): float(value) for name, value in result["coefficients"].items()}, float(result["intercept"])
