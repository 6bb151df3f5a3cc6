"""How good the two mechanisms are: the relative error and the paper's bounds on it.

The bounds are functions of the data, hence not private, and infinite where they say nothing: Theorem 1 does so on the
paper's own Figure 1.
"""

from __future__ import annotations

import math

import numpy as np

from dpmpc.base.arguments import require_finite, require_positive
from dpmpc.base.arrays import Reals
from dpmpc.models.papers.mutual_information.information import additive_variance


def relative_error(X: Reals, y: Reals, coef: Reals) -> float:
    """Return eta, ||X theta - y||^2 over its minimum (Equation 5); infinite if only the minimum is 0."""
    least = _squared_residual(X, y, _optimum(X, y))
    given = _squared_residual(X, y, coef)
    return given / least if least > 0 else (1.0 if given == 0 else math.inf)


def additive_error_bound(X: Reals, y: Reals, leakage_bits: float, delta: float) -> float:
    """Return the error bound of Theorem 1 (Equation 11), which fails with the probability of `additive_failure`.

    eta_AN <= (1 + kappa (Delta + delta)/(1 - kappa (Delta + delta)) (kappa + r(y)))^2, with
    Delta = sigma_AN (sqrt(n) + sqrt(d))/sigma_max(X).

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
    y : ndarray of float64, shape (n,)
    leakage_bits : float
        Bits.
    delta : float
        The free parameter, positive.

    Returns
    -------
    float
        Infinite unless kappa (Delta + delta) < 1.
    """
    sizes = np.linalg.svd(X, compute_uv=False)
    shift = math.sqrt(additive_variance(leakage_bits)) * (math.sqrt(X.shape[0]) + math.sqrt(X.shape[1]))
    # kappa (Delta + delta) = (shift + sigma_max delta)/sigma_min.
    lost = (shift + sizes[0] * require_positive("delta", delta)) / sizes[-1] if sizes[-1] > 0 else math.inf
    if lost >= 1:
        return math.inf
    return float((1 + lost / (1 - lost) * (sizes[0] / sizes[-1] + _fitted_ratio(X, y))) ** 2)


def additive_failure(X: Reals, leakage_bits: float, delta: float) -> float:
    """Return the probability that Theorem 1 fails: 2 exp(-sigma_max(X)^2 delta^2/(2 sigma_AN^2)), at most 1."""
    largest = float(np.linalg.norm(X, 2))
    delta = require_positive("delta", delta)
    return min(1.0, 2 * math.exp(-((largest * delta) ** 2) / (2 * additive_variance(leakage_bits))))


def projection_error_bound(X: Reals, y: Reals, variance: float, delta: float) -> float:
    """Return the error bound of Theorem 2 (Equation 15): eta_RP <= (1 + delta)^2 (1 + l_1) (1 + l_2)^2.

    l_1 = sigma^2 (max_i s_i/(s_i^2 + sigma^2))^2 r(y)^2 and l_2 = sigma^2/(s_min^2 + sigma^2) r(y), s_i the singular
    values of X. Equation 36 bounds by ||X theta* - y|| what its proof, and l_1, bound by ||X theta*||.

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
    y : ndarray of float64, shape (n,)
    variance : float
        sigma_RP^2.
    delta : float
        The free parameter, positive; the theorem requires delta >= sqrt(c_0 d/n') and fails with probability
        c_1 exp(-c_2 n' delta^2), with constants that the paper does not give.
    """
    sizes = np.linalg.svd(X, compute_uv=False)
    variance = require_finite("variance", variance, 0)
    if sizes[-1] == 0:
        return math.inf
    ratio = _fitted_ratio(X, y) if variance > 0 else 0.0
    first = variance * float((sizes / (sizes**2 + variance)).max()) ** 2 * ratio**2
    second = variance / (sizes[-1] ** 2 + variance) * ratio
    return float((1 + require_positive("delta", delta)) ** 2 * (1 + first) * (1 + second) ** 2)


def _optimum(X: Reals, y: Reals) -> Reals:
    return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0])


def _squared_residual(X: Reals, y: Reals, coef: Reals) -> float:
    return float(np.square(X @ coef - y).sum())


def _fitted_ratio(X: Reals, y: Reals) -> float:
    """Return r(y) = ||X theta*|| / ||X theta* - y|| (Equation 7)."""
    coef = _optimum(X, y)
    residual = math.sqrt(_squared_residual(X, y, coef))
    return float(np.linalg.norm(X @ coef)) / residual if residual > 0 else math.inf
