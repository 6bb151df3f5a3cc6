"""Ridge regression from a Gram matrix of normalised rows: the model, its cost, and the solution."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True)
class LinearModel:
    """y = X weights + intercept in normalised units."""

    weights: NDArray[np.float64]
    intercept: float = 0.0

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return X weights + intercept."""
        return X @ self.weights + self.intercept


def ridge_cost(model: LinearModel, X: NDArray[np.float64], y: NDArray[np.float64], alpha: float) -> float:
    """Return ||X w + b - y||^2 + alpha ||w||^2."""
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


def exact_gram(Z: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Compute the Gram matrix of (1, z) for normalised rows Z (n, p), weighted or not, float64 (p + 1, p + 1)."""
    if weights is not None:
        extended = np.column_stack([np.ones(len(Z)), Z])
        return np.asarray(extended.T @ (extended * weights[:, None]))
    gram = np.empty((Z.shape[1] + 1, Z.shape[1] + 1))
    gram[0, 0] = len(Z)
    gram[0, 1:] = gram[1:, 0] = Z.sum(axis=0)
    gram[1:, 1:] = Z.T @ Z
    return gram
