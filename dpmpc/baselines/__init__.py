"""What users compare a private fit with.

`linear` and `low_rank` hold the optimum, the trivial answer and the mechanisms of a trusted curator, `likelihood` the
optimum of logistic and Poisson models, `local` the model without any trust, `common` what they share.
"""

from dpmpc.baselines.common import symmetric_noise
from dpmpc.baselines.likelihood import LikelihoodFit, maximum_likelihood, mean_loss, trivial_loss
from dpmpc.baselines.linear import SSP, AdaSSP, optimal_ridge, trivial_predictor
from dpmpc.baselines.local import LocalGaussian
from dpmpc.baselines.low_rank import AnalyzeGauss, ModSulq

__all__ = [
    "SSP",
    "AdaSSP",
    "AnalyzeGauss",
    "LikelihoodFit",
    "LocalGaussian",
    "ModSulq",
    "maximum_likelihood",
    "mean_loss",
    "optimal_ridge",
    "symmetric_noise",
    "trivial_loss",
    "trivial_predictor",
]
