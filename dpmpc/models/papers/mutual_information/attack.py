"""Show why the printed noise of a projection is not enough: two columns that differ in one entry.

Let x_1 = x_2 but for the first row, where X_11 is -1 or 1 and X_12 = 1. The difference of the projected columns is
S_1 (X_11 - 1) + sigma (N_1 - N_2), S_1 the first column of S: nothing of the other rows is left in it. Where
f^2 >= n'/(2^(2 epsilon) - 1) the printed sigma is 0, and the difference is 0 or not: one bit leaks, whatever epsilon.
y instead of x_2, released without noise, does the same to a single column.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.models.papers.mutual_information.information import binary_entropy

_FAILURE = 1e-3  # of the confidence bound
_ROUNDING = 1e-18  # of a squared difference that is 0 without rounding, beside the squared lengths


def copied_columns(n: int, entry: float, generator: np.random.Generator) -> tuple[Reals, Reals]:
    """Return the counterexample: X (n, 2) uniform on [-1, 1], columns equal but for X_11 = entry and X_12 = 1; and y.

    y (n,) is their half sum plus N(0, 1/4).
    """
    column = generator.uniform(-1, 1, n)
    X = np.column_stack([column, column])
    X[0] = entry, 1.0
    return X, X.mean(axis=1) + 0.5 * generator.standard_normal(n)


def guess_entry(first: Reals, second: Reals, variance: float) -> float:
    """Guess X_11 in {-1, 1} from two released columns that the likelihood-ratio test compares.

    Parameters
    ----------
    first, second : ndarray of float64, shape (n',)
        The projected columns x_1 and x_2; y may stand for x_2.
    variance : float
        Of the noise in an entry of their difference: 2 sigma^2, or sigma^2 where `second` is y.

    Returns
    -------
    float
        1 or -1.
    """
    difference = float(np.square(first - second).sum())
    if variance == 0:
        return 1.0 if difference <= _ROUNDING * float(np.square(first).sum() + np.square(second).sum()) else -1.0
    # Entries are N(0, a) for X_11 = 1 and N(0, b) for X_11 = -1: the likelihoods cross at n' ln(b/a)/(1/a - 1/b).
    a, b = variance, variance + 4
    return 1.0 if difference <= len(first) * np.log(b / a) / (1 / a - 1 / b) else -1.0


def least_leak(successes: int, trials: int) -> float:
    """Lower-bound the bits that a release reveals about a fair bit, from how often an attacker guessed it (Fano).

    1 - h(p), with p the Clopper-Pearson upper bound on the attacker's error at 99.9 %; 0 where p >= 1/2.

    Raises
    ------
    InputError
        Unless 0 <= successes <= trials and there is a trial.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise InputError("successes, trials", f"{successes}, {trials}", "0 <= successes <= trials >= 1")
    error = 1.0 if successes == 0 else float(beta.ppf(1 - _FAILURE, trials - successes + 1, successes))
    return 0.0 if error >= 0.5 else 1 - binary_entropy(error)
