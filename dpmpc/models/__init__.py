"""Estimators, one class for each model: parameters, `fit` on rows at hand, and all that is read from a release.

They are scikit-learn's, and load it only where something of its own is asked for, so that a release is read without it.
They are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.models.common.private_estimator import PrivateLinearModel
    from dpmpc.models.components.frequency_moment import FrequencyMoment
    from dpmpc.models.components.low_rank_approximation import LowRankApproximation
    from dpmpc.models.groups.group_comparison import GroupComparison
    from dpmpc.models.groups.grouped_ridge_regression import GroupedRidgeRegression
    from dpmpc.models.regression.logistic_regression import LogisticRegression
    from dpmpc.models.regression.poisson_regression import PoissonRegression
    from dpmpc.models.regression.ridge_regression import RidgeRegression
    from dpmpc.models.rounds import SavedReleases, outlook
    from dpmpc.models.survival.cox_regression import CoxRegression
    from dpmpc.models.survival.kaplan_meier import KaplanMeier
    from dpmpc.models.tables.table_one import TableOne

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
    "SavedReleases",
    "TableOne",
    "outlook",
]

__getattr__, __dir__ = face(
    __name__,
    {
        "common.private_estimator": ["PrivateLinearModel"],
        "components.frequency_moment": ["FrequencyMoment"],
        "components.low_rank_approximation": ["LowRankApproximation"],
        "groups.group_comparison": ["GroupComparison"],
        "groups.grouped_ridge_regression": ["GroupedRidgeRegression"],
        "regression.logistic_regression": ["LogisticRegression"],
        "regression.poisson_regression": ["PoissonRegression"],
        "regression.ridge_regression": ["RidgeRegression"],
        "rounds": ["SavedReleases", "outlook"],
        "survival.cox_regression": ["CoxRegression"],
        "survival.kaplan_meier": ["KaplanMeier"],
        "tables.table_one": ["TableOne"],
    },
)
