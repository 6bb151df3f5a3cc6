"""scikit-learn estimators that read a release, or make one from data at hand."""

from dpmpc.estimators.base import PrivateLinearModel
from dpmpc.estimators.ridge import RidgeRegression

__all__ = ["PrivateLinearModel", "RidgeRegression"]
