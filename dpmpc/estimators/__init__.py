"""scikit-learn estimators that read a release, or make one from data at hand, and what they read from it.

What is read stands in modules that need no scikit-learn: `ridge`, `grouped_fit`, `group_comparison`, `in_rounds`,
`components_and_moments`, `table_one_fit`, `kaplan_meier_fit`, `cox_fit`, `inference` and `summary`. The estimators add
parameters of a release, `fit` and `predict`; they are imported when they are first used, so that a release is read
without them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmpc.estimators.by_group import GroupComparison, GroupedRidgeRegression
    from dpmpc.estimators.frequency_moment import FrequencyMoment
    from dpmpc.estimators.low_rank_approximation import LowRankApproximation
    from dpmpc.estimators.private_estimator import PrivateLinearModel
    from dpmpc.estimators.regressions_in_rounds import LogisticRegression, PoissonRegression
    from dpmpc.estimators.ridge_regression import RidgeRegression
    from dpmpc.estimators.survival import CoxRegression, KaplanMeier
    from dpmpc.estimators.table_one import TableOne

__all__ = [
    "CoxRegression",
    "FrequencyMoment",
    "GroupComparison",
    "GroupedRidgeRegression",
    "KaplanMeier",
    "LogisticRegression",
    "LowRankApproximation",
    "PoissonRegression",
    "PrivateLinearModel",
    "RidgeRegression",
    "TableOne",
]

_SOURCES = {
    "CoxRegression": "survival",
    "FrequencyMoment": "frequency_moment",
    "GroupComparison": "by_group",
    "GroupedRidgeRegression": "by_group",
    "KaplanMeier": "survival",
    "LogisticRegression": "regressions_in_rounds",
    "LowRankApproximation": "low_rank_approximation",
    "PoissonRegression": "regressions_in_rounds",
    "PrivateLinearModel": "private_estimator",
    "RidgeRegression": "ridge_regression",
    "TableOne": "table_one",
}


def __getattr__(name: str) -> Any:
    """Import an estimator when it is first used."""
    if name in _SOURCES:
        return getattr(importlib.import_module(f"dpmpc.estimators.{_SOURCES[name]}"), name)
    raise AttributeError(f"module 'dpmpc.estimators' has no attribute {name!r}")
