"""scikit-learn estimators that read a release, or make one from data at hand."""

from dpmpc.estimators.base import PrivateEstimator, PrivateLinearModel
from dpmpc.estimators.inference import Inference
from dpmpc.estimators.low_rank import LowRankApproximation
from dpmpc.estimators.moments import FrequencyMoment
from dpmpc.estimators.ridge import RidgeRegression

__all__ = [
    "FrequencyMoment",
    "Inference",
    "LowRankApproximation",
    "PrivateEstimator",
    "PrivateLinearModel",
    "RidgeRegression",
]
