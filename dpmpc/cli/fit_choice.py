"""Which model `dpmpc fit` was asked for: one of a single release, or one of several sums."""

from __future__ import annotations

import argparse

from dpmpc.cli.fit_groups import GroupedFitModel
from dpmpc.cli.fit_models import FitModel, LowRankFitModel, MomentFitModel, RidgeFitModel
from dpmpc.cli.fit_rounds import LogisticFitModel, PoissonFitModel, RidgeRoundsFitModel
from dpmpc.errors import InputError

_MODELS: dict[str, type[RidgeFitModel | LowRankFitModel | MomentFitModel | LogisticFitModel | PoissonFitModel]] = {
    kind.name: kind for kind in (RidgeFitModel, LowRankFitModel, MomentFitModel, LogisticFitModel, PoissonFitModel)
}


def fit_model_of(options: argparse.Namespace) -> FitModel:
    """Make the model that `dpmpc fit --model` names; an option of another model is an error."""
    chosen = _MODELS[options.model]
    for other in _MODELS.values():
        for option in other.options:
            given = getattr(options, option)
            if option not in chosen.options and given is not None and given is not False:
                raise InputError(f"{option}: {given!r} given, but that is for --model {other.name}, not {chosen.name}")
    if chosen is RidgeFitModel and options.by is not None:
        return GroupedFitModel.of(options)
    if chosen is RidgeFitModel and options.rounds not in (None, 1):
        return RidgeRoundsFitModel.of(options)
    return chosen.of(options)
