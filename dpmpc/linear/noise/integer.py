"""Integer noise, for data encoded in a ring or field: drawn exactly, by kernels that take words of a stream."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc._kernels import samplers
from dpmpc.base.arguments import require_exact, require_whole
from dpmpc.base.arrays import Integers, Words
from dpmpc.base.randomness import Stream
from dpmpc.linear.noise.base import MAX_SHARES, Noise, gaussian_tail, in_steps
from dpmpc.linear.noise.poisson import MAX_MEAN, PoissonPlan, poisson_plan

_BUFFER_WORDS = 1 << 15

_LEAST_BUFFER_WORDS = 1 << 10


class WordBuffer(Iterator[int]):
    """The words of a stream, in a buffer for the kernels and one by one for what they leave unsettled."""

    def __init__(self, stream: Stream, expected: int):
        self._stream = stream
        # There must be room for all the words of one attempt: more than 1000 are far less probable than 2^-128.
        size = min(max(expected, _LEAST_BUFFER_WORDS), _BUFFER_WORDS)
        self._buffer = np.empty(size, np.uint64)
        self._next = size
        self.refill()

    @property
    def unread(self) -> Words:
        """What is in the buffer and was not read."""
        return self._buffer[self._next :]

    def skip(self, count: int) -> None:
        """Count words as read."""
        self._next += count

    def refill(self) -> None:
        """Move what is unread to the front, and fill up from the stream."""
        left = self.unread.size
        self._buffer[:left] = self.unread
        self._stream.fill(self._buffer[left:])
        self._next = 0

    def __next__(self) -> int:
        if self._next == self._buffer.size:
            self.refill()
        self._next += 1
        return int(self._buffer[self._next - 1])


MAX_SIGMA = 1 << 40

MAX_VARIANCE = 2 * MAX_MEAN

MAX_SCALE = 1 << 40

TAIL_SCALES = 128
"""What of a discrete Laplace comes from points beyond at least so many scales is left out."""


class DiscreteGaussian(Noise):
    """P(x) proportional to exp(-x^2 / (2 sigma^2)) on the integers.

    Drawn exactly, after Canonne, Kamath and Steinke (2020), Algorithm 3.

    Parameters
    ----------
    sigma : float
        In (0, 2^40]; rounded up to a multiple of 2^-10, and to an integer above 2^10. In units of the encoded integers.

    Attributes
    ----------
    sigma : float
        The value in use.
    """

    name = "discrete-gaussian"
    parameters = ("sigma",)
    accountant = "discrete-gaussian"

    def __init__(self, sigma: float):
        rounded = in_steps(require_exact("sigma", sigma, MAX_SIGMA))
        self._scale, self._shift = rounded.numerator, rounded.denominator.bit_length() - 1
        self.sigma = float(rounded)

    @property
    def variance(self) -> float:
        """The variance of one draw: sigma^2 to double precision from sigma = 2 on, less below (CKS, Corollary 9)."""
        if self.sigma >= 2:
            return self.sigma**2
        mass = [math.exp(-((x / self.sigma) ** 2) / 2) for x in range(80)]
        return 2 * sum(x * x * p for x, p in enumerate(mass)) / (2 * sum(mass) - 1)

    def tail(self, draws: int, log_odds: float) -> float:
        """Return sqrt(2 v L), for v the variance of the sum.

        Completing the square, E exp(t X) is exp(t^2 sigma^2 / 2) times a ratio of Gaussian sums over shifted and
        unshifted integers, and the unshifted sum is the largest (Canonne, Kamath, Steinke 2020, section 2).
        """
        return gaussian_tail(draws * self.variance, log_odds)

    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        words, drawn = WordBuffer(stream, 12 * out.size), 0  # about 11 words make a draw
        while drawn < out.size:
            used, more = samplers.discrete_gaussian(words.unread, out[drawn:], self._scale, self._shift)
            words.skip(used)
            drawn += more
            if drawn < out.size:
                words.refill()


class Skellam(Noise):
    """The difference of two independent Poisson(variance / 2) variables.

    Sums of Skellam variables are Skellam variables, whose variance is the sum of the variances. The Poisson
    variables are drawn exactly (`dpmpc.linear.noise.poisson`).

    Parameters
    ----------
    variance : float
        In (0, 2^53]; rounded up to an even integer, so that 2 is the least.

    Attributes
    ----------
    variance : int
        The value in use.
    """

    name = "skellam"
    parameters = ("variance",)
    accountant = "skellam"

    def __init__(self, variance: float):
        self._mean = math.ceil(require_exact("variance", variance, MAX_VARIANCE) / 2)

    @property
    def variance(self) -> int:
        """The variance of one draw, an even integer."""
        return 2 * self._mean

    def tail(self, draws: int, log_odds: float) -> float:
        """Return sqrt(2 v L) + L/3, for v the variance of the sum.

        The sum is a difference of two Poisson(v/2): ln E exp(t X) = v (cosh t - 1) <= v t^2 / (2 (1 - t/3)) for
        0 < t < 3, so X is sub-gamma (Boucheron, Lugosi, Massart 2013, section 2.4).
        """
        return gaussian_tail(draws * self.variance, log_odds) + log_odds / 3

    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        plan = poisson_plan(self._mean)
        words = WordBuffer(stream, 2 * out.size + out.size // 16)  # of 64 words at most one or two are rejected
        subtrahend = np.empty_like(out)
        _fill_centred_poisson(out, plan, words)
        _fill_centred_poisson(subtrahend, plan, words)
        out -= subtrahend


class NoNoise(Noise):
    """No noise at all, for timing and checks of exactness; a task with it is a simulation and has no guarantee."""

    name = "none"
    parameters = ()
    accountant = "none"  # there is none: `dpmpc.privacy.task.Task.guarantee` says so
    simulation_only = True

    @property
    def variance(self) -> float:
        """Zero."""
        return 0.0

    def tail(self, draws: int, log_odds: float) -> float:
        """Return zero, which sums of no noise do not exceed."""
        return 0.0

    def _fill(self, out: Integers, stream: Stream) -> None:
        out[:] = 0


class DiscreteLaplace(Noise):
    """A client's share of discrete Laplace noise: `shares` independent draws add up to P(z) proportional to q^|z|.

    q = exp(-1 / scale). A share is the difference of two independent Polya (negative binomial) variables NB(1 / shares,
    q), and more than `shares` of them add up to a discrete Laplace variable plus independent noise. It is drawn as the
    sum of the points of a thinned Poisson process (theorem exact-samplers), exactly but for points beyond
    128 scales: a sum of `shares` draws is within total variation distance 2^-183 of the discrete Laplace distribution.

    Parameters
    ----------
    scale : float
        In (0, 2^40]; rounded up to a multiple of 2^-10, and to an integer above 2^10. In units of the encoded integers.
    shares : int
        m, from 1 to 2^40. With 1, a draw is the whole discrete Laplace variable.

    Attributes
    ----------
    scale : float
        The value in use.
    """

    name = "discrete-laplace"
    parameters = ("scale", "shares")
    accountant = "laplace-shares"

    def __init__(self, scale: float | Fraction, shares: int = 1):
        rounded = in_steps(require_exact("scale", scale, MAX_SCALE))
        self._scale, self._shift = rounded.numerator, rounded.denominator.bit_length() - 1
        # The least number of levels with 2^levels >= 128 scale, and at least 1.
        self._levels = max(1, (math.ceil(TAIL_SCALES * rounded) - 1).bit_length())
        self.scale = float(rounded)
        self.shares = require_whole("shares", shares, 1, MAX_SHARES)

    @property
    def variance(self) -> float:
        """The variance of one draw: 2 q / (1 - q)^2 / shares."""
        return 2 * math.exp(-1 / self.scale) / math.expm1(-1 / self.scale) ** 2 / self.shares

    def tail(self, draws: int, log_odds: float) -> float:
        """Return 2 b sinh(1/(2b)) sqrt(2 v L) + b L, for v the variance of the sum.

        With r times as many draws as make up one discrete Laplace variable, ln E exp(t X) = -r ln(1 - sinh^2(t/2) /
        sinh^2(1/(2b))) <= -r ln(1 - (b t)^2) <= r (b t)^2 / (1 - b t) for 0 < t < 1/b, as sinh(x)/x increases. So X is
        sub-gamma: tail = sqrt(2 w L) + b L with w = 2 r b^2 (Boucheron, Lugosi, Massart 2013, section 2.4), and w is
        (2 b sinh(1/(2b)))^2 v.
        """
        spread = gaussian_tail(draws * self.variance, log_odds) * 2 * self.scale * math.sinh(1 / (2 * self.scale))
        return spread + self.scale * log_odds

    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        # Few shares are cut into parts, in each of which the kernel expects half a point or less.
        parts = -(-4 * self._levels // self.shares)
        words = WordBuffer(stream, 12 * out.size)
        out[:] = 0
        for _ in range(parts):
            drawn = 0
            while drawn < out.size:
                used, more = samplers.discrete_laplace(
                    words.unread, out[drawn:], self._scale, self._shift, self._levels, parts * self.shares
                )
                words.skip(used)
                drawn += more
                if drawn < out.size:
                    words.refill()


def _fill_centred_poisson(out: Integers, plan: PoissonPlan, words: WordBuffer) -> None:
    drawn = 0
    while drawn < out.size:
        used, more, unsettled = plan.kernel.draw(words.unread, out[drawn:])
        words.skip(used)
        drawn += more
        if unsettled is None:
            if drawn < out.size:
                words.refill()
        elif plan.finish(*unsettled, words):
            out[drawn] = unsettled[0]
            drawn += 1
