"""How much noise a secret Gaussian projection needs beside what it mixes by itself: as printed, and repaired.

The release is (SX + sigma N, Sy) with S (n' x n) and N of independent N(0, 1) entries, S secret. Where column j meets
row i, the other rows act as noise that hides X_ij.

*As printed* (Equation 13, Lemma 2) the variance of that noise is sigma^2 + f^2, which takes the columns of the release
for conditionally independent. They are not: S is common to all. With two columns that differ in one entry alone the
difference of their projections shows it, whatever f (`dpmpc.mutual_information.attack`).

*Repaired* (docs/mathematics.md, section 9): what hides X_ij is only what the other columns and y cannot explain,

    v = min_ij [sigma^2 + min_{b,c} ||x_j - X_{-j} b - y c||^2 + sigma^2 ||b||^2],    each column without row i,

and the release tells at most 1/2 log2(1 + n'/v) bits about any entry. v >= sigma^2 whatever the data, so that
sigma^2 = n'/(2^(2 epsilon) - 1) is enough without looking at them. Not promised: that what is computed here is private.
Everything but that last number depends on the data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.optimize import brentq

from dpmpc.arguments import require_whole
from dpmpc.mutual_information.information import additive_variance, bits

CALIBRATIONS = ("sound", "paper")
# Rounding must never overstate v: beyond these it counts as sigma^2, which it always is at least.
_WORST_CONDITION = 1e7
_LEAST_REMAINDER = 1e-6

Matrix = NDArray[np.float64]


def smallest_spread(X: Matrix) -> float:
    """Return f^2 = min_j [sum_i X_ij^2 - max_i X_ij^2], samples i, features j (section II swaps the indices)."""
    squares = np.square(X)
    return float((squares.sum(axis=0) - squares.max(axis=0)).min())


def paper_variance(rows: int, leakage_bits: float, spread: float = 0.0) -> float:
    """Return sigma_RP^2 = (n'/(2^(2 epsilon) - 1) - f^2)_+ as printed (Equation 13); unproven unless `spread` is 0.

    Parameters
    ----------
    rows : int
        n'.
    leakage_bits : float
        The paper's epsilon.
    spread : float
        f^2 of the data (`smallest_spread`), or a public lower bound on it.
    """
    return max(0.0, require_whole("rows", rows, 1) * additive_variance(leakage_bits) - spread)


def hidden_variance(X: Matrix, y: Matrix, variance: float) -> float:
    """Return v of the module's docstring, or less where rounding could overstate it.

    With M = [X, y] and G = M^T M + diag(sigma^2, .., sigma^2, 0) the bracket is 1/[(G - m_i m_i^T)^-1]_jj, and
    (Sherman and Morrison)

        1/v = max_ij [(G^-1)_jj + (G^-1 m_i)_j^2 / (1 - m_i^T G^-1 m_i)].

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
    y : ndarray of float64, shape (n,)
    variance : float
        sigma^2.

    Returns
    -------
    float
        At least `variance`; 0 if nothing hides some entry.
    """
    d = X.shape[1]
    columns = np.column_stack([X, y]) if y.any() else X
    ridge = np.zeros((d, columns.shape[1]))
    np.fill_diagonal(ridge, np.sqrt(variance))
    norms = np.sqrt(np.square(columns).sum(axis=0) + np.square(ridge).sum(axis=0))
    if not norms.all():
        return variance
    # M / norms = Q R: rows of Q are q_i = R^-T m_i, so that m_i^T G^-1 m_i = ||q_i||^2 and G^-1 m_i = R^-1 q_i.
    R = qr(np.vstack([columns, ridge]) / norms, mode="r", check_finite=False)[0][: len(norms)]
    if len(R) < len(norms) or np.linalg.cond(R) > _WORST_CONDITION:
        return variance
    inverse = solve_triangular(R, np.eye(len(norms)))
    rows = (columns / norms) @ inverse
    remainder = 1 - np.square(rows).sum(axis=1)
    if remainder.min() < _LEAST_REMAINDER:
        return variance
    moved = (np.square(rows @ inverse.T) / remainder[:, None]).max(axis=0)
    hidden = np.square(norms) / (np.square(inverse).sum(axis=1) + moved)
    return max(variance, float(hidden[:d].min()))


def leak_bound(X: Matrix, y: Matrix, rows: int, variance: float) -> float:
    """Return 1/2 log2(1 + n'/v): the most bits that the release can tell about one entry of these data; maybe infinite.

    Not private: it depends on the data.
    """
    hidden = hidden_variance(X, y, variance)
    return bits(require_whole("rows", rows, 1) / hidden) if hidden > 0 else float("inf")


def sound_variance(X: Matrix, y: Matrix, rows: int, leakage_bits: float) -> float:
    """Return the smallest sigma^2 for which `leak_bound` of these data is at most `leakage_bits`.

    v - sigma^2 grows with sigma^2, so that v meets n'/(2^(2 epsilon) - 1) once, at the latest at that sigma^2.
    Not private, and no guarantee for whoever learns it: sigma then depends on the entry that it protects.
    """
    enough = paper_variance(rows, leakage_bits)

    def excess(variance: float) -> float:
        return hidden_variance(X, y, variance) - enough

    if excess(0.0) >= 0:
        return 0.0
    found = float(brentq(excess, 0.0, enough, xtol=1e-9 * enough, rtol=1e-9))
    # A root may lie on the wrong side by the tolerance, and v jumps where rounding makes it count as sigma^2.
    return min(enough, found * (1 + 1e-6)) if excess(found * (1 + 1e-6)) >= 0 else enough
