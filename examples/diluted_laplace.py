"""A new noise: few clients add any, and each of them adds all of it.

An entry of a client's row gets a whole discrete Laplace variable with probability `chance`, else nothing (Shi et al.
2011). A client moves s d entries, each a sum of m honest contributions or more. Where each entry has one, the release
is s Delta_1 / scale differentially private; some entry has none with probability at most s d (1 - chance)^m = delta.
"""

import math
from fractions import Fraction
from typing import Any

from dpmpc.base.arguments import require_exact
from dpmpc.linear import DiscreteLaplace, Noise, Sensitivity
from dpmpc.privacy import Accountant, EffectiveNoise, accountant_of, independent_rows


class DilutedLaplaceAccountant(Accountant):
    """A variable in each of the s d entries, or delta."""

    sources, assumptions = ("Shi et al. 2011 (diluted noise)",), accountant_of("discrete-laplace").assumptions

    def epsilon(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity, delta: float) -> float:
        m, moved = independent_rows(noise.name, exposure).fewest, exposure.sparsity * sensitivity.columns
        if moved * (1 - noise.chance) ** m > delta:
            return math.inf
        return float(exposure.sparsity * Fraction(sensitivity.l1) / Fraction(noise.scale))

    def least(self, exposure: EffectiveNoise, sensitivity: Sensitivity, epsilon: float, delta: float) -> Noise:
        m, moved = independent_rows("diluted-laplace", exposure).fewest, exposure.sparsity * sensitivity.columns
        chance = min(1.0, 2**-32 - math.expm1(math.log(delta / moved) / m))  # a step more than rounding can take off
        return DilutedLaplace(exposure.sparsity * Fraction(sensitivity.l1) / Fraction(epsilon), chance)

    def released_sd(self, l1: float, l2: float, sparsity: int, epsilon: float, delta: float) -> float:
        return math.sqrt(2 * sparsity * math.log(sparsity * (l1 / l2) ** 2 / delta)) * l1 / epsilon


class DilutedLaplace(Noise):
    """Discrete Laplace noise with probability `chance`, rounded up to a multiple of 2^-32; else 0."""

    name, parameters, accountant = "diluted-laplace", ("scale", "chance"), DilutedLaplaceAccountant

    def __init__(self, scale: float | Fraction, chance: float):
        self._laplace, self._threshold = DiscreteLaplace(scale), math.ceil(require_exact("chance", chance, 1) * 2**32)
        self.scale, self.chance = self._laplace.scale, self._threshold / 2**32

    @property
    def variance(self) -> float:
        return self.chance * self._laplace.variance

    def tail(self, draws: int, log_odds: float) -> float:
        return DiscreteLaplace(self.scale, int(1 / self.chance)).tail(draws, log_odds)  # of the same variance or more

    def _fill(self, out: Any, stream: Any) -> None:
        out[:], adds = 0, stream.words(out.size) >> 32 < self._threshold
        out[adds] = self._laplace.sample(int(adds.sum()), stream)
