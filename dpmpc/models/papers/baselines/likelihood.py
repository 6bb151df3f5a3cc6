"""Logistic and Poisson regression without any privacy: the maximum of the likelihood that a fit in rounds aims at.

Newton's method on the rows themselves. What it returns is not private.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dpmpc.base.arguments import require_choice
from dpmpc.base.arrays import Reals
from dpmpc.linear.contributions.scores import sigmoid

FAMILIES = ("logistic", "poisson")
_STEPS, _HALVINGS, _CLOSE = 100, 30, 1e-10
_MOST_ETA = 500.0  # beyond, exp is too large for a number


@dataclasses.dataclass(frozen=True)
class LikelihoodFit:
    """What maximises the likelihood.

    Attributes
    ----------
    coefficients : ndarray of float64, shape (p,)
        Intercept first.
    converged : bool
        Whether the likelihood has a maximum, as far as was looked: separated classes have none.
    """

    coefficients: Reals
    converged: bool


def maximum_likelihood(family: str, X: Reals, y: Reals) -> LikelihoodFit:
    """Fit y (n,) to X (n, d), without a penalty.

    Parameters
    ----------
    family : {"logistic", "poisson"}
        Of y, which is between 0 and 1, or a count.
    X, y : ndarray of float64
        Features and target.
    """
    require_choice("family", family, FAMILIES)
    rows = np.column_stack([np.ones(len(X)), X])
    theta = np.zeros(rows.shape[1])
    theta[0] = _constant(family, y)
    loss = mean_loss(family, theta, X, y)
    for _ in range(_STEPS):
        mean, weight = _mean_and_weight(family, rows @ theta)
        hessian = (rows * weight[:, None]).T @ rows / len(y)
        score = rows.T @ (y - mean) / len(y)
        change = np.linalg.lstsq(hessian, score, rcond=None)[0]
        for _ in range(_HALVINGS):
            moved = mean_loss(family, theta + change, X, y)
            if moved <= loss:
                break
            change = change / 2
        else:
            return LikelihoodFit(theta, converged=True)
        theta, gained, loss = theta + change, loss - moved, moved
        if float(score @ change) < _CLOSE and gained < _CLOSE:
            return LikelihoodFit(theta, converged=True)
    return LikelihoodFit(theta, converged=False)


def mean_loss(family: str, theta: Reals, X: Reals, y: Reals) -> float:
    """Return the mean of -log P[y | x], for counts half the mean deviance, at an intercept and weights (p,)."""
    eta = np.clip(theta[0] + X @ theta[1:], -_MOST_ETA, _MOST_ETA)
    if family == "logistic":
        return float(np.mean(np.logaddexp(0.0, eta) - y * eta))
    counts = np.maximum(y, 1e-300)  # 0 log 0 is 0
    return float(np.mean(y * (np.log(counts) - eta) - y + np.exp(eta)))


def trivial_loss(family: str, X: Reals, y: Reals) -> float:
    """Return the loss of predicting the mean of y for everybody."""
    theta = np.zeros(X.shape[1] + 1)
    theta[0] = _constant(family, y)
    return mean_loss(family, theta, X, y)


def _constant(family: str, y: Reals) -> float:
    least = 0.5 / len(y)
    mean = max(float(y.mean()), least)
    return float(np.log(mean) if family == "poisson" else np.log(mean / max(1 - mean, least)))


def _mean_and_weight(family: str, eta: Reals) -> tuple[Reals, Reals]:
    if family == "logistic":
        mean = sigmoid(eta)
        return mean, mean * (1 - mean)
    mean = np.exp(np.clip(eta, -_MOST_ETA, _MOST_ETA))
    return mean, mean
