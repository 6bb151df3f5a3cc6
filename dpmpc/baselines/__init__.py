"""What users compare a private fit with.

`linear` and `low_rank` hold the optimum, the trivial answer and the mechanisms of a trusted curator, `local` the model
without any trust, `common` what they share.
"""

from dpmpc.baselines.common import symmetric_noise
from dpmpc.baselines.linear import (
    SSP,
    AdaSSP,
    LinearModel,
    exact_gram,
    optimal_ridge,
    ridge_cost,
    solve_ridge,
    trivial_predictor,
)
from dpmpc.baselines.local import LocalGaussian
from dpmpc.baselines.low_rank import (
    AnalyzeGauss,
    ModSulq,
    check_rank,
    excess_risk,
    random_excess_risk,
    top_components,
)

__all__ = [
    "SSP",
    "AdaSSP",
    "AnalyzeGauss",
    "LinearModel",
    "LocalGaussian",
    "ModSulq",
    "check_rank",
    "exact_gram",
    "excess_risk",
    "optimal_ridge",
    "random_excess_risk",
    "ridge_cost",
    "solve_ridge",
    "symmetric_noise",
    "top_components",
    "trivial_predictor",
]
