"""Floating-point noise, for simulations only: its rounding artefacts can give data away (Mironov 2012)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_exact, require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.linear.noise.base import MAX_SHARES, Noise, gaussian_tail


class Gaussian(Noise):
    """N(0, sigma^2) in double precision, for simulations only.

    One word gives one draw, by inverting the distribution function at a multiple of 2^-53: no draw is farther out than
    8.3 sigma, and the low-order bits are not those of a real number.

    Parameters
    ----------
    sigma : float
        Positive and finite.
    """

    name = "gaussian"
    parameters = ("sigma",)
    accountant = "gaussian"
    integer = False
    simulation_only = True

    def __init__(self, sigma: float):
        self.sigma = float(require_exact("sigma", sigma))

    @property
    def variance(self) -> float:
        """The variance of one draw, sigma^2."""
        return self.sigma**2

    def tail(self, draws: int, log_odds: float) -> float:
        """Return sqrt(2 v L), for v the variance of the sum."""
        return gaussian_tail(draws * self.variance, log_odds)

    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        from scipy.special import ndtri  # only simulations need SciPy

        np.multiply(ndtri(_uniform(stream, out.size)), self.sigma, out=out)


class GammaLaplace(Noise):
    """Gamma(1 / shares, scale) - Gamma(1 / shares, scale) in double precision, for simulations only.

    `shares` independent draws add up to a Laplace variable of this scale: the noise of Burkhardt et al. 2025, Theorem
    4.8. One word gives one Gamma variable, by inverting the distribution function at a multiple of 2^-53. With many
    shares most of them underflow to 0, and then so does the draw: at 20000 shares 93 % of the draws.

    Parameters
    ----------
    scale : float
        b, positive and finite; rounded up to a double.
    shares : int
        m, from 1 to 2^40.
    """

    name = "gamma-laplace"
    parameters = ("scale", "shares")
    accountant = "laplace-shares"
    integer = False
    simulation_only = True

    def __init__(self, scale: float | Fraction, shares: int = 1):
        exact = require_exact("scale", scale)
        nearest = float(exact)
        self.scale = nearest if nearest >= exact else math.nextafter(nearest, math.inf)
        self.shares = require_whole("shares", shares, 1, MAX_SHARES)

    @property
    def variance(self) -> float:
        """The variance of one draw, 2 scale^2 / shares."""
        return 2 * self.scale**2 / self.shares

    def tail(self, draws: int, log_odds: float) -> float:
        """Return sqrt(2 v L) + b L, for v the variance of the sum.

        With r times as many draws as make up one Laplace variable, ln E exp(t X) = -r ln(1 - (b t)^2) <= r (b t)^2 /
        (1 - b t) for 0 < t < 1/b: X is sub-gamma (Boucheron, Lugosi, Massart 2013, section 2.4).
        """
        return gaussian_tail(draws * self.variance, log_odds) + self.scale * log_odds

    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        from scipy.special import gammaincinv  # only simulations need SciPy

        minuend, subtrahend = (gammaincinv(1 / self.shares, _uniform(stream, out.size)) for _ in range(2))
        np.multiply(minuend - subtrahend, self.scale, out=out)


def _uniform(stream: Stream, count: int) -> Reals:
    """Turn each word into an odd multiple of 2^-53 in (0, 1), which is a double."""
    return ((stream.words(count) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
