"""Principal components of second moments that are not centred: which they are, and how much they miss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmpc.arguments import require_whole


def top_components(moments: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return eigenvectors of the `count` largest eigenvalues of a symmetric matrix (d, d), one a row, largest first.

    A multiple of the identity more or less, such as the bias of noisy rows, does not change them.
    """
    check_rank(count, len(moments))
    return np.asarray(np.linalg.eigh(moments)[1][:, : -count - 1 : -1].T, dtype=np.float64)


def check_rank(count: int, columns: int) -> None:
    """Refuse more components than there are columns, or fewer than one."""
    require_whole("n_components", count, 1, columns)


def excess_risk(components: NDArray[np.float64], X: NDArray[np.float64]) -> float:
    """Return psi = (||X - X P P^T||_F^2 - ||X - X_r||_F^2) / n of components P^T (r, d).

    Burkhardt et al. 2025, section 6.2.

    ||X - X P P^T||_F^2 = ||X||_F^2 - tr(P^T X^T X P), and the best tr is the sum of the r largest eigenvalues.
    """
    moments = X.T @ X
    best = np.linalg.eigvalsh(moments)[-len(components) :].sum()
    return float(best - np.einsum("ij,jk,ik->", components, moments, components)) / len(X)


def random_excess_risk(count: int, X: NDArray[np.float64]) -> float:
    """Return the expected psi of `count` uniformly random components, which keep count/d of every direction."""
    spectrum = np.linalg.eigvalsh(X.T @ X)
    return float(spectrum[-count:].sum() - spectrum.sum() * count / len(spectrum)) / len(X)
