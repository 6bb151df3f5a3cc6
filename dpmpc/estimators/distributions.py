"""Quantiles and tails of the laws behind intervals and tests.

The functions of SciPy that `scipy.stats` calls for them, called without it: importing it takes longer than all else
that reading a release does. Nor is `scipy.special` imported before there is something to compute.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def normal_quantile(probability: float) -> float:
    """Return the z with P(Z <= z) = probability."""
    from scipy.special import ndtri

    return float(ndtri(probability))


def t_quantile(probability: float, degrees: float) -> float:
    """Return the same of a t distribution; infinite degrees of freedom make it the normal one."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def t_tail(statistic: NDArray[np.float64], degrees: float) -> NDArray[np.float64]:
    """Return P(T > statistic) of a t distribution."""
    from scipy.special import stdtr

    return np.asarray(stdtr(degrees, -statistic))


def chi2_tail(statistic: float, degrees: float) -> float:
    """Return P(X > statistic) of a chi-squared distribution."""
    from scipy.special import chdtrc

    return float(chdtrc(degrees, statistic))


def f_tail(statistic: float, degrees: tuple[float, float]) -> float:
    """Return P(F > statistic) of an F distribution."""
    from scipy.special import fdtrc

    return float(fdtrc(*degrees, statistic))
