"""Ridge weights averaged over priors, from a noisy Gram matrix alone (docs/mathematics.md, section 4.2).

In the eigenvectors of the features' noisy matrix, with eigenvalues l_i, least squares are z_i = w_i + noise of
variance v/2 (1 + |w|^2 + w_i^2) / l_i^2. Under the prior w_i ~ N(0, t l_i^-g) the posterior mean shrinks each z_i by a
factor of its own; g = 1 is what a ridge penalty assumes, g = 0 is that coefficients in weak directions are no larger.
The average over a grid of t and g is weighted by the likelihood of z.

Promised: a function of the matrix and of the noise's variance, which are public. Not promised: the best weights. No
rule is better than lifting the eigenvalues on all data sets (bench/results/penalties.md).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpmpc.linear_algebra.regression import LinearModel, solve_ridge

Reals = NDArray[np.float64]

EXPONENTS = (0.0, 0.5, 1.0)  # g
SCALES = np.exp(np.linspace(-16.0, 6.0, 45))  # t, in units of the weights squared
_REPEATS = 2  # the noise's variance depends on the weights, which are computed so often


def averaged_ridge(
    gram: Reals, target: int, variance: float, *, safe_alpha: float, fit_intercept: bool = True
) -> tuple[LinearModel, float]:
    """Fit a regression whose penalty is averaged over priors.

    Parameters
    ----------
    gram : ndarray of float64, shape (p + 1, p + 1)
        The noisy Gram matrix of (1, z); row and column 0 belong to the intercept.
    target : int
        Position of the target among the p columns.
    variance : float
        v: of the noise on the diagonal, and twice that of the noise off it.
    safe_alpha : float
        A penalty that lifts the smallest eigenvalue above the noise; its fit says how large the weights are.
    fit_intercept : bool
        Whether there is an intercept.

    Returns
    -------
    model : LinearModel
    alpha : float
        The median over the eigenvectors of the penalty that shrinks one of them as much.
    """
    features = [column for column in range(1, len(gram)) if column != target + 1]
    matrix, covariance = gram[np.ix_(features, features)], gram[features, target + 1]
    if fit_intercept:
        means = gram[features, 0] / gram[0, 0]
        matrix = matrix - np.outer(means, gram[0, features])
        covariance = covariance - means * gram[0, target + 1]
    eigenvalues, vectors = np.linalg.eigh(matrix)
    lifted = _soft_floor(eigenvalues, math.sqrt(variance))
    unpenalised = vectors.T @ covariance / lifted
    weights = solve_ridge(gram, target, safe_alpha, fit_intercept=fit_intercept).weights
    for _ in range(_REPEATS):
        squares = (vectors.T @ weights) ** 2
        noise = variance / 2 * (1 + squares.sum() + squares) / lifted**2
        kept = _kept(unpenalised, noise, lifted)
        weights = vectors @ (kept * unpenalised)
    intercept = float(gram[0, target + 1] / gram[0, 0] - means @ weights) if fit_intercept else 0.0
    return LinearModel(weights, intercept), float(np.median(lifted * (1 / kept - 1)))


def _kept(estimates: Reals, noise: Reals, eigenvalues: Reals) -> Reals:
    """Return the posterior mean of each estimate over the estimate, averaged over the priors by their likelihood."""
    relative = eigenvalues / eigenvalues.max()
    priors = np.array([scale * relative**-exponent for exponent in EXPONENTS for scale in SCALES])
    total = priors + noise
    logarithms = -0.5 * (np.log(total) + estimates**2 / total).sum(axis=1)
    likelihood = np.exp(logarithms - logarithms.max())
    return np.asarray(likelihood / likelihood.sum() @ (priors / total))


def _soft_floor(eigenvalues: Reals, deviation: float) -> Reals:
    """Return E[x | x + noise = eigenvalue] for x > 0 under a flat prior: near the eigenvalue where noise is small."""
    from scipy.special import log_ndtr  # a release is read without it, unless the penalty is chosen

    z = eigenvalues / deviation
    return np.asarray(eigenvalues + deviation * np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(z)))
