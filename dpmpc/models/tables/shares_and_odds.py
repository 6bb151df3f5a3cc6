"""Intervals of shares and of odds ratios of noisy counts, from tests turned round.

Neither divides by a noisy count and hopes: a share p is in its interval if x - p N is no further from 0 than its own
error, of people drawn at random and of noise, lets it be; an odds ratio if T_11 T_22 - theta T_12 T_21 is not. Both are
quadratic, as with Wilson (1927) and with Fieller (1954).

Promised: functions of counts and of the covariance of their noise. Not promised: exact coverage where few people are
expected in a cell.
"""

from __future__ import annotations

import math

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.models.common.inference import normal_quantile
from dpmpc.models.tables.quantiles import Interval


def share_interval(part: float, size: float, noise: Reals, level: float) -> tuple[float, float]:
    """Return the ends for a share, given the noise's covariance (2, 2) in both counts; NaN where the size may be 0.

    All p with (x - p N)^2 <= z^2 (N p (1 - p) + Var of the noise in x - p N).
    """
    square = normal_quantile((1 + level) / 2) ** 2
    part = min(max(part, 0.0), size)  # no share is below 0 or above 1, so that less is covered by no less
    leading = size**2 + square * (size - noise[1, 1])
    if size <= 0 or leading <= 0:
        return math.nan, math.nan
    middle = part * size + square * (size / 2 - noise[0, 1])
    root = math.sqrt(max(middle**2 - leading * (part**2 - square * noise[0, 0]), 0.0))
    return max((middle - root) / leading, 0.0), min((middle + root) / leading, 1.0)


def odds_ratio(counts: Reals, noise: Reals, level: float) -> Interval:
    """Return T_11 T_22 / (T_12 T_21) of a table of two by two; NaN where no end above can be shown.

    All theta with D^2 <= z^2 Var(D), D = T_11 T_22 - theta T_12 T_21 less its mean by the noise. The variance is that
    of its linear part, by sampling under D = 0 and by noise, less what the noise adds to squares of counts.
    """
    square, hidden = normal_quantile((1 + level) / 2) ** 2, Interval(math.nan, math.nan, math.nan)
    t = [float(one) for one in counts.ravel()]
    found = []
    for one, other in ((0, 3), (1, 2)):
        gradient = np.zeros(4)
        gradient[one], gradient[other] = t[other], t[one]
        sampling = max(t[one], 0.0) * max(t[other], 0.0) * (max(t[one], 0.0) + max(t[other], 0.0))
        own = float(gradient @ noise @ gradient - noise[one, one] * noise[other, other] - noise[one, other] ** 2)
        found.append((t[one] * t[other] - float(noise[one, other]), sampling + own, gradient))
    (over, above, left), (under, below, right) = found
    leading = under**2 - square * below
    if under <= 0 or leading <= 0:
        return hidden
    middle = over * under - square * float(left @ noise @ right)
    inner = middle**2 - leading * (over**2 - square * above)
    if inner < 0:
        return hidden
    root = math.sqrt(inner)
    return Interval(max(over / under, 0.0), max((middle - root) / leading, 0.0), max((middle + root) / leading, 0.0))
