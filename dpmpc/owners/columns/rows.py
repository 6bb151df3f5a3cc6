"""Choose how many rows k of signs to mix with, from public numbers alone.

Few rows keep little of the data; many rows take much noise, which shrinks the fit.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.sketching.public_matrix import MOST_ROWS

# What "theory" takes for granted before any data is seen: columns uniform on [-1, 1], half of the label explained.
SECOND_MOMENT = 1 / 3
EXPLAINED = 1 / 2
_CANDIDATES = 1000


def choose_rows(rows: int | str, subjects: int, features: int, noise_sd: float, largest_party: int) -> int:
    """Return k, the number of mixed rows.

    Parameters
    ----------
    rows : int or {"theory", "paper"}
        A number; or the least `expected_error` for uncorrelated columns that are uniform on [-1, 1] and a label half of
        which is explained; or floor(sqrt(n)/sigma), as in the experiments of Wu et al. 2022 (section 5.1).
    subjects, features : int
        n and d.
    noise_sd : float
        Of a released entry, 2 sqrt(d_max) sigma.
    largest_party : int
        d_max.

    Raises
    ------
    InputError
        If k would be below d, so that there is no unique fit.
    """
    if rows == "theory":
        chosen = _least_error(subjects, features, noise_sd**2)
    elif rows == "paper":
        chosen = math.floor(math.sqrt(subjects) * 2 * math.sqrt(largest_party) / noise_sd)
    elif isinstance(rows, str):
        raise InputError("rows", f"{rows!r}", "a number, 'theory' or 'paper'")
    else:
        chosen = require_whole("rows", rows, 1, MOST_ROWS)
    if chosen < features:
        given = f"{rows!r}, hence {chosen}," if isinstance(rows, str) else str(chosen)
        raise InputError(
            "rows",
            f"{given} given, at least {features} expected, one for each feature ({subjects} subjects, noise "
            f"of standard deviation {noise_sd:.4g})",
        )
    return chosen


def expected_error(
    rows: ArrayLike,
    subjects: int,
    features: int,
    noise_variance: float,
    *,
    second_moment: float = SECOND_MOMENT,
    signal: float = EXPLAINED,
    residual: float = (1 - EXPLAINED) * SECOND_MOMENT,
) -> Reals:
    """Return E ||w - w*||^2 of RMGM for k rows, infinite up to k = d + 1.

    Uncorrelated features of second moment h make every row of the release nearly Gaussian, with second moment
    c = n h/k + tau^2 and a regression that is shrunk by lambda = (n h/k)/c:

        (1 - lambda)^2 ||w*||^2 + d s^2 / ((k - d - 1) c),    s^2 = tau^2 + n rho^2/k + lambda tau^2 ||w*||^2.

    Parameters
    ----------
    rows : array_like of int
        k, one or many.
    subjects, features : int
        n and d.
    noise_variance : float
        tau^2, of a released entry.
    second_moment, signal, residual : float
        h, ||w*||^2 and rho^2, the label's variance about the best fit.
    """
    k = np.asarray(rows, np.float64)
    kept = subjects * second_moment / k
    shrink = kept / (kept + noise_variance)
    spread = noise_variance + subjects * residual / k + shrink * noise_variance * signal
    bias = (1 - shrink) ** 2 * signal
    degrees = k - features - 1
    variance = features * spread / (np.where(degrees > 0, degrees, 1) * (kept + noise_variance))
    return np.where(degrees > 0, bias + variance, np.inf)


def _least_error(subjects: int, features: int, noise_variance: float) -> int:
    """Return the k between d + 2 and n of the least expected error, to a step of a grid."""
    least = features + 2
    grid = np.geomspace(least, max(least, subjects), _CANDIDATES)
    candidates = np.unique(grid.astype(np.int64).clip(least))
    return int(candidates[np.argmin(expected_error(candidates, subjects, features, noise_variance))])
