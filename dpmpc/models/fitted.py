"""Every model by the name that `dpmpc fit` takes and writes: what is fitted by it, and read again from a folder.

A new model is one entry here beside its class. Classes are imported when they are needed: parsers read the names.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmpc.base import plugins
from dpmpc.base.errors import InputError
from dpmpc.base.plugins import Open

if TYPE_CHECKING:
    from dpmpc.models.common.commanded import Commanded, CommandedInRounds
    from dpmpc.release.release import Release

MODELS = {
    "ridge": "regression.ridge_regression.RidgeRegression",
    "grouped-ridge": "groups.grouped_ridge_regression.GroupedRidgeRegression",
    "compare": "groups.group_comparison.GroupComparison",
    "survival": "survival.kaplan_meier.KaplanMeier",
    "cox": "survival.cox_regression.CoxRegression",
    "low-rank": "components.low_rank_approximation.LowRankApproximation",
    "moment": "components.frequency_moment.FrequencyMoment",
    "logistic": "regression.logistic_regression.LogisticRegression",
    "poisson": "regression.poisson_regression.PoissonRegression",
    "table-one": "tables.table_one.TableOne",
}
KINDS = Open(MODELS, plugins.MODELS)
REGRESSIONS = ("ridge", "logistic", "poisson", "grouped-ridge")  # what predicts


def class_of(kind: str) -> Any:
    """Return the class of a model: of this package, or of an entry point."""
    if kind not in MODELS and kind in plugins.declared(plugins.MODELS):
        from dpmpc.models.common.commanded import Commanded

        return plugins.load(plugins.MODELS, kind, Commanded, "kind")[0]
    module, _, name = MODELS[kind].rpartition(".")
    return getattr(importlib.import_module(f"dpmpc.models.{module}"), name)


def predicts(kind: str) -> bool:
    """Return whether a model's result holds a linear predictor: of plug-ins, whether it has features."""
    return kind in REGRESSIONS or (kind not in MODELS and kind in KINDS and bool(class_of(kind).from_features))


def fit_again(kind: str, parameters: Mapping[str, object], release: Release, target: str | None) -> Commanded:
    """Fit a release as somebody did who wrote the model's kind, parameters and target down."""
    options = {} if target is None else {"target": target}
    try:
        model: Commanded = class_of(kind)(**parameters)
        if not hasattr(model, "fit_release"):
            raise TypeError(f"{kind} makes several sums")
        model.fit_release(release, **options)
    except (KeyError, TypeError) as error:
        raise InputError("model", f"{kind!r} with {dict(parameters)}", "a model of one release") from error
    return model


def fit_rounds_again(
    kind: str, parameters: Mapping[str, object], releases: Sequence[Release], epsilon: float
) -> CommandedInRounds:
    """Do the same from the sums of a fit in rounds and their budget."""
    from dpmpc.models.common.commanded import CommandedInRounds
    from dpmpc.models.rounds import SavedReleases

    try:
        model = class_of(kind)(**parameters)
    except (KeyError, TypeError) as error:
        raise InputError("model", f"{kind!r} with {dict(parameters)}", "a model in rounds") from error
    if not isinstance(model, CommandedInRounds):
        raise InputError("model", f"{kind!r}", "a model in rounds")
    model.fit_rounds(SavedReleases(releases, epsilon))
    return model
