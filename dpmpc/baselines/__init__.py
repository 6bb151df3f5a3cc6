"""What users compare a private fit with."""

from dpmpc.baselines.linear import (
    SSP,
    LinearModel,
    exact_gram,
    optimal_ridge,
    ridge_cost,
    solve_ridge,
    symmetric_noise,
    trivial_predictor,
)

__all__ = [
    "SSP",
    "LinearModel",
    "exact_gram",
    "optimal_ridge",
    "ridge_cost",
    "solve_ridge",
    "symmetric_noise",
    "trivial_predictor",
]
