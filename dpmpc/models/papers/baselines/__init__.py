"""What users compare a private fit with.

`linear` and `low_rank` hold the optimum, the trivial answer and the mechanisms of a trusted curator, `likelihood` the
optimum of logistic and Poisson models, `local` the model without any trust, `common` what they share.
"""

from dpmpc.models.papers.baselines.linear import SSP, AdaSSP
from dpmpc.models.papers.baselines.local import LocalGaussian
from dpmpc.models.papers.baselines.low_rank import AnalyzeGauss, ModSulq

__all__ = ["SSP", "AdaSSP", "AnalyzeGauss", "LocalGaussian", "ModSulq"]
