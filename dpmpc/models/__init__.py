"""scikit-learn estimators that read a release, or make one from data at hand, and what they read from it.

What is read stands in modules that need no scikit-learn: `ridge`, `grouped_fit`, `group_comparison`, `in_rounds`,
`components_and_moments`, `table_one_fit`, `kaplan_meier_fit`, `cox_fit`, `inference` and `summary`. The estimators add
parameters of a release, `fit` and `predict`; they are imported when they are first used, so that a release is read
without them.
"""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.models.common.private_estimator import PrivateLinearModel
    from dpmpc.models.components.frequency_moment import FrequencyMoment
    from dpmpc.models.components.low_rank_approximation import LowRankApproximation
    from dpmpc.models.groups.by_group import GroupComparison, GroupedRidgeRegression
    from dpmpc.models.regression.regressions_in_rounds import LogisticRegression, PoissonRegression
    from dpmpc.models.regression.ridge_regression import RidgeRegression
    from dpmpc.models.rounds import SavedReleases, outlook
    from dpmpc.models.survival.survival import CoxRegression, KaplanMeier
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
        "groups.by_group": ["GroupComparison", "GroupedRidgeRegression"],
        "regression.regressions_in_rounds": ["LogisticRegression", "PoissonRegression"],
        "regression.ridge_regression": ["RidgeRegression"],
        "rounds": ["SavedReleases", "outlook"],
        "survival.survival": ["CoxRegression", "KaplanMeier"],
        "tables.table_one": ["TableOne"],
    },
)
