"""What a private regression is compared with: the optimum, SSP and the predictor that ignores the features.

All work on normalised data (columns mapped to [-1, 1]), with or without an intercept that is not penalised, so that
their costs and those of a private fit are the same function of the same numbers.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError
from dpmpc.noise import Gaussian
from dpmpc.privacy import mu_of_budget
from dpmpc.randomness import Stream, stream_for


@dataclasses.dataclass(frozen=True)
class LinearModel:
    """y = X weights + intercept in normalised units."""

    weights: NDArray[np.float64]
    intercept: float = 0.0

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return X weights + intercept."""
        return X @ self.weights + self.intercept


def ridge_cost(model: LinearModel, X: NDArray[np.float64], y: NDArray[np.float64], alpha: float) -> float:
    """||X w + b - y||^2 + alpha ||w||^2."""
    residual = model.predict(X) - y
    return float(residual @ residual + alpha * model.weights @ model.weights)


def solve_ridge(gram: NDArray[np.float64], target: int, alpha: float, *, fit_intercept: bool = True) -> LinearModel:
    """Minimise the ridge cost from the Gram matrix of (1, z).

    Parameters
    ----------
    gram : ndarray of float64, shape (p + 1, p + 1)
        Row and column 0 belong to the intercept.
    target : int
        Position of the target among the p columns.
    alpha : float
        Penalty on the weights, not on the intercept.
    fit_intercept : bool
        Whether there is an intercept.
    """
    features = [column for column in range(1, len(gram)) if column != target + 1]
    if fit_intercept:
        features = [0, *features]
    matrix = gram[np.ix_(features, features)].copy()
    penalty = np.full(len(features), float(alpha))
    if fit_intercept:
        penalty[0] = 0.0
    matrix[np.diag_indices_from(matrix)] += penalty
    solution = np.asarray(np.linalg.lstsq(matrix, gram[features, target + 1], rcond=None)[0], dtype=np.float64)
    return LinearModel(solution[1:], float(solution[0])) if fit_intercept else LinearModel(solution)


def exact_gram(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gram matrix of (1, z) for normalised rows Z (n, p), float64 (p + 1, p + 1)."""
    gram = np.empty((Z.shape[1] + 1, Z.shape[1] + 1))
    gram[0, 0] = len(Z)
    gram[0, 1:] = gram[1:, 0] = Z.sum(axis=0)
    gram[1:, 1:] = Z.T @ Z
    return gram


def optimal_ridge(
    X: NDArray[np.float64], y: NDArray[np.float64], alpha: float, *, fit_intercept: bool = True
) -> LinearModel:
    """Ridge regression without any privacy: the optimum that phi divides by."""
    return solve_ridge(exact_gram(np.column_stack([X, y])), X.shape[1], alpha, fit_intercept=fit_intercept)


def trivial_predictor(features: int, y: NDArray[np.float64], *, fit_intercept: bool = True) -> LinearModel:
    """W = 0, with the target's true mean as intercept where there is one: what a release has to beat."""
    return LinearModel(np.zeros(features), float(np.mean(y)) if fit_intercept else 0.0)


class SSP:
    """Sufficient statistics perturbation with a trusted curator (Vu and Slavkovic 2009; Analyze Gauss, Dwork et al.
    2014).

    The curator adds symmetric Gaussian noise to the Gram matrix of (1, z): replacing a row of norm at most C moves
    it by at most sqrt(2)(1 + C^2) in Frobenius norm. Floating-point noise: for simulations only.

    Parameters
    ----------
    alpha : float
        Ridge penalty.
    epsilon, delta : float
        Replace-one budget.
    fit_intercept : bool
        Whether the extended row (1, z) or the row z is used.
    seed : int, optional
        Makes the noise repeatable.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        fit_intercept: bool = True,
        seed: int | None = None,
    ):
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.seed = seed

    def fit(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> SSP:
        """Fit to normalised data; sets `model_` and `sigma_` (standard deviation of the diagonal noise)."""
        Z = np.column_stack([X, y])
        if np.abs(Z).max(initial=0.0) > 1:
            raise InputError(f"X, y: largest magnitude {np.abs(Z).max():g} given, at most 1 expected: normalise first")
        squared_norm = Z.shape[1] + (1 if self.fit_intercept else 0)
        self.sigma_ = math.sqrt(2) * squared_norm / mu_of_budget(self.epsilon, self.delta)
        noise = symmetric_noise(Z.shape[1] + 1, self.sigma_, stream_for(self.seed))
        noise[0, 0] = 0.0  # the number of clients is public
        self.model_ = solve_ridge(exact_gram(Z) + noise, X.shape[1], self.alpha, fit_intercept=self.fit_intercept)
        return self


def symmetric_noise(size: int, sigma: float, stream: Stream) -> NDArray[np.float64]:
    """Symmetric Gaussian matrix: standard deviation sigma on the diagonal, sigma/sqrt(2) off it."""
    draws = Gaussian(sigma).sample((size, size), stream=stream)
    return np.asarray(np.diag(np.diag(draws)) + (np.triu(draws, 1) + np.triu(draws, 1).T) / math.sqrt(2))
