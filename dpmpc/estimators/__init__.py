"""scikit-learn estimators that read a release, or make one from data at hand."""

from dpmpc.estimators.base import PrivateEstimator, PrivateLinearModel
from dpmpc.estimators.grouped import GroupedRidgeRegression
from dpmpc.estimators.in_rounds import LogisticRegression, PoissonRegression
from dpmpc.estimators.inference import Inference
from dpmpc.estimators.low_rank import LowRankApproximation
from dpmpc.estimators.moments import FrequencyMoment
from dpmpc.estimators.ridge import RidgeRegression

__all__ = [
    "FrequencyMoment",
    "GroupedRidgeRegression",
    "Inference",
    "LogisticRegression",
    "LowRankApproximation",
    "PoissonRegression",
    "PrivateEstimator",
    "PrivateLinearModel",
    "RidgeRegression",
]
