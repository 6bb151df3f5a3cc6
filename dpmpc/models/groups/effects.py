"""Means of groups with their errors, and an estimate with its interval and p-value: the law of a comparison."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.models.common.inference import t_quantile, t_tail
from dpmpc.release.results.number_tables import finite_or_none


@dataclasses.dataclass(frozen=True)
class Effect:
    """An estimate with its standard error, interval, and p-value of no effect."""

    estimate: float
    standard_error: float
    low: float
    high: float
    p_value: float = math.nan

    @classmethod
    def of(cls, estimate: float, variance: float, degrees: float, level: float) -> Effect:
        """Take the law of a t statistic."""
        error = math.sqrt(variance)
        reach = t_quantile((1 + level) / 2, degrees) * error
        p_value = 2 * float(t_tail(np.array(abs(estimate) / error), degrees)) if error > 0 else math.nan
        return cls(estimate, error, estimate - reach, estimate + reach, p_value)

    def to_dict(self, *, tested: bool = True) -> dict[str, object]:
        """Return plain data for JSON; null where there is no number."""
        found: dict[str, object] = {
            "estimate": finite_or_none(self.estimate),
            "standard_error": finite_or_none(self.standard_error),
            "confidence_interval": [finite_or_none(self.low), finite_or_none(self.high)],
        }
        return found | ({"p": finite_or_none(self.p_value)} if tested else {})


@dataclasses.dataclass(frozen=True)
class Arm:
    """Means of one group in the columns' units, and their covariance by sampling and by noise."""

    size: float
    means: Reals
    sampling: Reals
    noise: Reals

    @classmethod
    def of(cls, gram: Reals, variance: float, offset: Reals, slope: Reals) -> Arm:
        """Read the block of (1, columns) of a group that stands out of the noise."""
        size = float(gram[0, 0])
        m = gram[0, 1:] / size
        spread = gram[1:, 1:] / size - np.outer(m, m) + variance / (2 * size**2) * np.eye(len(m))
        values, vectors = np.linalg.eigh(spread)
        spread = (vectors * np.maximum(values, 0.0)) @ vectors.T  # noise may have made it less than nothing
        noise = (variance / 2 * np.eye(len(m)) + variance * np.outer(m, m)) / size**2
        units = np.outer(slope, slope)
        return cls(size, offset + slope * m, units * spread / max(size - 1, 1.0), units * noise)

    @property
    def covariance(self) -> Reals:
        """Covariance of the means, of sampling and noise together."""
        return self.sampling + self.noise

    def variance(self, contrast: Reals) -> float:
        """Return the variance of a contrast of the means."""
        return float(contrast @ self.covariance @ contrast)

    def sampled(self, contrast: Reals) -> float:
        """Return the part of the variance whose size is estimated from the group's own people."""
        return float(contrast @ self.sampling @ contrast)
