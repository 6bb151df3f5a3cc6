"""The algebra that estimators and baselines share, without any privacy of its own.

`regression` solves and judges ridge regressions from a Gram matrix, `empirical_bayes` averages them over penalties
where the matrix is noisy, `low_rank` has the principal components of second moments. Everything here works on
normalised columns, and nothing here draws noise.
"""

from dpmpc.linear_algebra.empirical_bayes import averaged_ridge
from dpmpc.linear_algebra.low_rank import check_rank, excess_risk, random_excess_risk, top_components
from dpmpc.linear_algebra.regression import LinearModel, exact_gram, ridge_cost, solve_ridge

__all__ = [
    "LinearModel",
    "averaged_ridge",
    "check_rank",
    "exact_gram",
    "excess_risk",
    "random_excess_risk",
    "ridge_cost",
    "solve_ridge",
    "top_components",
]
