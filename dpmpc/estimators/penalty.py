"""A ridge penalty chosen from the release alone: the one with the least estimated prediction risk.

The noise's law is public, so the risk ||X w + b - y||^2 of every candidate has an estimate whose only inputs are the
release and that law (docs/mathematics.md, section 4.2): choosing costs no privacy. Not promised: the best
penalty. The estimate is itself noisy, and unbiased only for Gaussian noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmpc.baselines import solve_ridge
from dpmpc.release import NoisyGram, Release
from dpmpc.statistic import SecondMoments

Matrix = NDArray[np.float64]

_CANDIDATES = np.concatenate([[0.0], np.geomspace(1e-5, 1e2, 57)])  # in units of the features' mean squared norm


def choose_alpha(release: Release, gram: NoisyGram, position: int, *, fit_intercept: bool, least: float) -> float:
    """Return the penalty with the least estimated risk.

    Parameters
    ----------
    release : Release
        Of rows or of second moments.
    gram : NoisyGram
        Its Gram matrix, debiased or not, as the fit reads it.
    position : int
        The column to predict.
    fit_intercept : bool
        Whether there is an intercept.
    least : float
        Penalties below this are not safe.
    """
    estimate = _risk_of_second_moments if isinstance(release.task.statistic, SecondMoments) else _risk_of_rows
    features = np.delete(np.diag(gram.matrix), [0, position + 1])
    candidates = least + _CANDIDATES * max(float(features.mean()), 1.0)
    risks = [estimate(release, gram, position, alpha, fit_intercept) for alpha in candidates]
    return float(candidates[np.argmin(risks)])


def _risk_of_second_moments(
    release: Release, gram: NoisyGram, position: int, alpha: float, fit_intercept: bool
) -> float:
    """c^T M c - E[c^T N c], the latter by Stein's lemma: -v (tr(Q) |c|^2 + c^T Q c), less the corner without noise."""
    variance = float(release.noise_variance[0])
    c, Q = _contrast_and_inverse(gram, position, alpha, fit_intercept)
    follows = np.trace(Q) * (c @ c) + c @ Q @ c - 2 * Q[0, 0] * c[0] ** 2
    return float(c @ gram.matrix @ c + variance * follows)


def _risk_of_rows(release: Release, gram: NoisyGram, position: int, alpha: float, fit_intercept: bool) -> float:
    """Sum over the rows of (a_r . c)^2 - v_r |c_x|^2, with the c that is fitted without row r (Sherman, Morrison)."""
    c, Q = _contrast_and_inverse(gram, position, alpha, fit_intercept)
    rows = np.column_stack([release.ones, release.sketch])
    moved = rows @ Q
    left_out = (rows @ c) / (1 - np.einsum("ij,ij->i", moved, rows))
    contrasts = c + moved * left_out[:, None]
    norms = np.einsum("ij,ij->i", contrasts[:, 1:], contrasts[:, 1:])
    return float(left_out @ left_out - release.noise_variance @ norms)


def _contrast_and_inverse(gram: NoisyGram, position: int, alpha: float, fit_intercept: bool) -> tuple[Matrix, Matrix]:
    """Return c = (-theta, 1) and Q = (M + alpha I)^-1 at the features, 0 elsewhere; dc = -Q dM c."""
    model = solve_ridge(gram.matrix, position, alpha, fit_intercept=fit_intercept)
    c = np.insert(-np.array([model.intercept, *model.weights]), position + 1, 1.0)
    used = [column for column in range(len(c)) if column != position + 1 and (fit_intercept or column > 0)]
    penalised = gram.matrix[np.ix_(used, used)] + alpha * np.diag([float(column > 0) for column in used])
    Q = np.zeros_like(gram.matrix)
    Q[np.ix_(used, used)] = np.linalg.inv(penalised)
    return c, Q
