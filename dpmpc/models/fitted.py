"""Every model that a result is made of, by the name that `dpmpc fit` writes: what a folder of results is read again by.

A new model is one entry here beside its class, which has `kind`, `parameters` and `result`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from dpmpc.base.errors import InputError
from dpmpc.models.components.frequency_moment import FrequencyMoment
from dpmpc.models.components.low_rank_approximation import LowRankApproximation
from dpmpc.models.groups.group_comparison import GroupComparison
from dpmpc.models.groups.grouped_ridge_regression import GroupedRidgeRegression
from dpmpc.models.regression.logistic_regression import LogisticRegression
from dpmpc.models.regression.poisson_regression import PoissonRegression
from dpmpc.models.regression.ridge_regression import RidgeRegression
from dpmpc.models.rounds import SavedReleases
from dpmpc.models.survival.cox_regression import CoxRegression
from dpmpc.models.survival.kaplan_meier import KaplanMeier
from dpmpc.models.tables.table_one import TableOne
from dpmpc.release.release import Release
from dpmpc.release.results import Result


class FittedModel(Protocol):
    """What is known of every model."""

    kind: ClassVar[str]

    @property
    def parameters(self) -> dict[str, object]:
        """What it was given, so that it can be made again."""

    def result(self, level: float = 0.95) -> Result:
        """Return all that its releases say."""


_OF_ONE = {
    kind.kind: kind
    for kind in (
        RidgeRegression,
        GroupedRidgeRegression,
        GroupComparison,
        LowRankApproximation,
        FrequencyMoment,
        TableOne,
        KaplanMeier,
        CoxRegression,
    )
}
_IN_ROUNDS = {kind.kind: kind for kind in (RidgeRegression, LogisticRegression, PoissonRegression)}
REGRESSIONS = (*_IN_ROUNDS, GroupedRidgeRegression.kind)  # what predicts
MODELS = tuple(dict.fromkeys((*_OF_ONE, *_IN_ROUNDS)))


def fit_again(kind: str, parameters: Mapping[str, object], release: Release, target: str | None) -> FittedModel:
    """Fit a release as somebody did who wrote the model's kind, parameters and target down."""
    given = {} if target is None else {"target": target}
    try:
        return _OF_ONE[kind](**parameters).fit_release(release, **given)  # type: ignore[arg-type]
    except (KeyError, TypeError) as error:
        raise InputError(f"model: {kind!r} with {dict(parameters)} given, a model of one release expected") from error


def fit_rounds_again(
    kind: str, parameters: Mapping[str, object], releases: Sequence[Release], epsilon: float
) -> RidgeRegression | LogisticRegression | PoissonRegression:
    """Do the same from the sums of a fit in rounds and their budget."""
    try:
        model = _IN_ROUNDS[kind](**parameters)  # type: ignore[arg-type]
    except (KeyError, TypeError) as error:
        raise InputError(f"model: {kind!r} with {dict(parameters)} given, a model in rounds expected") from error
    return model.fit_rounds(SavedReleases(releases, epsilon))
