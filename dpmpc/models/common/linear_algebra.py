"""The algebra that estimators and baselines share, without any privacy of its own.

Everything here works on normalised columns, and nothing here draws noise: ridge regressions from a Gram matrix of
(1, z), what they cost, and principal components of second moments that are not centred.

`averaged_ridge` averages ridge weights over priors, from a noisy Gram matrix alone.
In the eigenvectors of the features' noisy matrix, with eigenvalues l_i, least squares are z_i = w_i + noise of variance
``v/2 (1 + |w|^2 + w_i^2) / l_i^2``. Under the prior w_i ~ N(0, t l_i^-g) the posterior mean shrinks each z_i by a
factor of its own; g = 1 is what a ridge penalty assumes, g = 0 is that coefficients in weak directions are no larger.
The average over a grid of t and g is weighted by the likelihood of z.

Promised: a function of the matrix and of the noise's variance, which are public. Not promised: the best weights. No
rule is better than lifting the eigenvalues on all data sets (bench/results/penalties.md).
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Reals
from dpmpc.linear.contributions.noisy_gram import NoisyGram


@dataclasses.dataclass(frozen=True)
class LinearModel:
    """y = X weights + intercept in normalised units."""

    weights: Reals
    intercept: float = 0.0

    def predict(self, X: Reals) -> Reals:
        """Return X weights + intercept."""
        return X @ self.weights + self.intercept


def ridge_cost(model: LinearModel, X: Reals, y: Reals, alpha: float) -> float:
    """Return ||X w + b - y||^2 + alpha ||w||^2."""
    residual = model.predict(X) - y
    return float(residual @ residual + alpha * model.weights @ model.weights)


def solve_ridge(gram: Reals, target: int, alpha: float, *, fit_intercept: bool = True) -> LinearModel:
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


def exact_gram(Z: Reals, weights: Reals | None = None) -> Reals:
    """Compute the Gram matrix of (1, z) for normalised rows Z (n, p), weighted or not, float64 (p + 1, p + 1)."""
    if weights is not None:
        extended = np.column_stack([np.ones(len(Z)), Z])
        return np.asarray(extended.T @ (extended * weights[:, None]))
    gram = np.empty((Z.shape[1] + 1, Z.shape[1] + 1))
    gram[0, 0] = len(Z)
    gram[0, 1:] = gram[1:, 0] = Z.sum(axis=0)
    gram[1:, 1:] = Z.T @ Z
    return gram


EXPONENTS = (0.0, 0.5, 1.0)  # g
SCALES = np.exp(np.linspace(-16.0, 6.0, 45))  # t, in units of the weights squared
_REPEATS = 2  # the noise's variance depends on the weights, which are computed so often


def ridge_of_sums(
    gram: NoisyGram, target: int, variance: float, *, fit_intercept: bool = True
) -> tuple[LinearModel, float]:
    """Do what `averaged_ridge` does, with a safe penalty of at least 1; parameters and result are those."""
    safe_alpha = max(1.0, gram.safe_alpha(target, fit_intercept=fit_intercept))
    return averaged_ridge(gram.matrix, target, variance, safe_alpha=safe_alpha, fit_intercept=fit_intercept)


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
        A penalty that lifts the smallest eigenvalue above the noise; its fit states how large the weights are.
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


def top_components(moments: Reals, count: int) -> Reals:
    """Return eigenvectors of the `count` largest eigenvalues of a symmetric matrix (d, d), one a row, largest first.

    A multiple of the identity more or less, such as the bias of noisy rows, does not change them.
    """
    check_rank(count, len(moments))
    return np.asarray(np.linalg.eigh(moments)[1][:, : -count - 1 : -1].T, dtype=np.float64)


def check_rank(count: int, columns: int) -> None:
    """Refuse more components than there are columns, or fewer than one."""
    require_whole("n_components", count, 1, columns)


def excess_risk(components: Reals, X: Reals) -> float:
    """Return psi = (||X - X P P^T||_F^2 - ||X - X_r||_F^2) / n of components P^T (r, d).

    Burkhardt et al. 2025, section 6.2.

    ||X - X P P^T||_F^2 = ||X||_F^2 - tr(P^T X^T X P), and the best tr is the sum of the r largest eigenvalues.
    """
    moments = X.T @ X
    best = np.linalg.eigvalsh(moments)[-len(components) :].sum()
    return float(best - np.einsum("ij,jk,ik->", components, moments, components)) / len(X)


def random_excess_risk(count: int, X: Reals) -> float:
    """Return the expected psi of `count` uniformly random components, which keep count/d of every direction."""
    spectrum = np.linalg.eigvalsh(X.T @ X)
    return float(spectrum[-count:].sum() - spectrum.sum() * count / len(spectrum)) / len(X)


def contrast_variances(
    contrasts: Reals,
    covariance: Reals,
    hidden: Reals,
    left: Reals,
) -> tuple[Reals, Reals]:
    """Return the variance of each of the contrasts (m, p), and the part of it that is a bound.

    Matrices hold the least multiple of left left^T that bounds all contrasts; of a single one less is needed.

    Parameters
    ----------
    contrasts : ndarray of float64, shape (m, p)
        Of p coefficients.
    covariance : ndarray of float64, shape (p, p)
        Of all that is known of their error, bounds included as if they were deviations.
    hidden : ndarray of float64, shape (p, p)
        The part of it that is a bound.
    left : ndarray of float64, shape (p, w)
        What the step leaves, of which `hidden` and `covariance` hold p left left^T.
    """
    variance, bound = (np.einsum("mi,ij,mj->m", contrasts, each, contrasts) for each in (covariance, hidden))
    moved = np.abs(contrasts @ left)
    spared = len(left) * np.sum(moved**2, axis=1) - np.sum(moved, axis=1) ** 2
    return variance - spared, bound - spared
