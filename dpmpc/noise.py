"""Infinitely divisible noise: each client adds a share of it, and what the sum hides is set by the sum.

`DiscreteGaussian`, `Skellam` and `DiscreteLaplace` are integer noise for data encoded in a ring or field. No
floating-point number comes between the AES key stream and the sample, and the distribution is the one named: the total
variation distance is below 2^-128 for each draw, all of it from cutting off far tails. A parameter is rounded *up* to
what the sampler can hold, so that there is never less noise than asked for; the attributes report the value in use.
`Gaussian` and `GammaLaplace` are floating-point noise: its rounding artefacts can give data away (Mironov 2012), and so
it is for simulations only.

What is drawn depends on the stream alone: not on the number of threads, and not on how the work was cut.

Not promised: a running time that is independent of the values drawn; secrecy when the stream is not secret
(`randomness.require_secret` tells); that the sum of discrete Gaussians is a discrete Gaussian (it is nearly one, and
`privacy` accounts for it; Skellam variables are closed under sums, and `shares` draws of `DiscreteLaplace` make up a
discrete Laplace variable).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmpc._kernels import samplers
from dpmpc._poisson import MAX_MEAN, PoissonPlan, poisson_plan
from dpmpc.errors import InputError, SimulationOnly
from dpmpc.randomness import KEY_BYTES, Label, Stream

BLOCK_DRAWS = 1 << 16
"""Draws that share one substream: the unit of work of a thread. Part of the definition of what a stream draws."""

MAX_SIGMA = 1 << 40
STEPS = 1 << 10
"""Steps per unit of a sigma or scale below 2^10; above, it is an integer."""

MAX_VARIANCE = 2 * MAX_MEAN

MAX_SCALE = 1 << 40
MAX_SHARES = 1 << 40
TAIL_SCALES = 128
"""What of a discrete Laplace comes from points beyond at least so many scales is left out."""

_BUFFER_WORDS = 1 << 15
_LEAST_BUFFER_WORDS = 1 << 10


class Noise(ABC):
    """A distribution from which each client draws its noise, one independent value for each number it sends.

    Attributes
    ----------
    name : str
        What the command line and saved releases call it.
    parameters : tuple of str
        The attributes that, with the name, say all about it: the arguments of the constructor.
    integer : bool
        Whether draws are int64; float64 otherwise.
    simulation_only : bool
        Whether it must not protect real people.
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    integer: ClassVar[bool] = True
    simulation_only: ClassVar[bool] = False

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of one draw."""

    @abstractmethod
    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Overwrite the one-dimensional `out`, of at most `BLOCK_DRAWS` entries, with draws from `stream`."""

    def sample(self, shape: int | tuple[int, ...], stream: Stream | None = None, threads: int = 1) -> NDArray[Any]:
        """Draw an array of independent values.

        Parameters
        ----------
        shape : int or tuple of int
            The shape of the result.
        stream : Stream, optional
            Sixteen bytes are read from it, and key this call. By default a new key comes from the operating system,
            except where `simulation_only`: there a stream has to be given.
        threads : int
            At least 1. The result does not depend on it.

        Returns
        -------
        ndarray
            Of `shape`; int64 where `integer`, float64 otherwise.

        Raises
        ------
        InputError
            If the shape or the number of threads makes no sense.
        SimulationOnly
            If the noise is for simulations only and no stream is given.
        """
        dimensions = _checked_shape(shape)
        if not _is_count(threads) or threads < 1:
            raise InputError(f"threads: {threads!r} given, a positive integer expected")
        call = self._call_stream(stream)
        out = np.empty(math.prod(dimensions), np.int64 if self.integer else np.float64)

        def fill(block: int) -> None:
            start = block * BLOCK_DRAWS
            self._fill(out[start : start + BLOCK_DRAWS], call.substream(block, Label.NOISE))

        blocks = range(-(-out.size // BLOCK_DRAWS))
        if threads == 1 or len(blocks) <= 1:
            for block in blocks:
                fill(block)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(fill, blocks))
        return out.reshape(dimensions)

    def _call_stream(self, stream: Stream | None) -> Stream:
        if stream is None and self.simulation_only:
            raise SimulationOnly(
                f"stream: none given, and {self.name} noise must not protect real people: its floating-point rounding "
                "can give data away; use integer noise, or name a stream if this is a simulation"
            )
        source = Stream.from_os() if stream is None else stream
        return Stream(source.bytes(KEY_BYTES), simulation=source.simulation)

    def describe(self) -> dict[str, str | int | float]:
        """Return the name and the parameters, in plain types; `noise_from` is the inverse."""
        return {"name": self.name} | {parameter: getattr(self, parameter) for parameter in self.parameters}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Noise) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(tuple(self.describe().items()))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{parameter}={getattr(self, parameter)!r}" for parameter in self.parameters)
        return f"{type(self).__name__}({arguments})"


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

    def __init__(self, sigma: float):
        rounded = _in_steps(_positive("sigma", sigma, MAX_SIGMA))
        self._scale, self._shift = rounded.numerator, rounded.denominator.bit_length() - 1
        self.sigma = float(rounded)

    @property
    def variance(self) -> float:
        """The variance of one draw: sigma^2 to double precision from sigma = 2 on, less below (CKS, Corollary 9)."""
        if self.sigma >= 2:
            return self.sigma**2
        mass = [math.exp(-((x / self.sigma) ** 2) / 2) for x in range(80)]
        return 2 * sum(x * x * p for x, p in enumerate(mass)) / (2 * sum(mass) - 1)

    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        words, drawn = _Words(stream, 12 * out.size), 0  # about 11 words make a draw
        while drawn < out.size:
            used, more = samplers.discrete_gaussian(words.unread, out[drawn:], self._scale, self._shift)
            words.skip(used)
            drawn += more
            if drawn < out.size:
                words.refill()


class Skellam(Noise):
    """The difference of two independent Poisson(variance / 2) variables.

    Sums of Skellam variables are Skellam variables, whose variance is the sum of the variances. The Poisson
    variables are drawn exactly (`dpmpc._poisson`).

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

    def __init__(self, variance: float):
        self._mean = math.ceil(_positive("variance", variance, MAX_VARIANCE) / 2)

    @property
    def variance(self) -> int:
        """The variance of one draw, an even integer."""
        return 2 * self._mean

    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        plan = poisson_plan(self._mean)
        words = _Words(stream, 2 * out.size + out.size // 16)  # of 64 words at most one or two are rejected
        subtrahend = np.empty_like(out)
        _fill_centred_poisson(out, plan, words)
        _fill_centred_poisson(subtrahend, plan, words)
        out -= subtrahend


class DiscreteLaplace(Noise):
    """A client's share of discrete Laplace noise: `shares` independent draws add up to P(z) proportional to q^|z|.

    q = exp(-1 / scale). A share is the difference of two independent Polya (negative binomial) variables NB(1 / shares,
    q), and more than `shares` of them add up to a discrete Laplace variable plus independent noise. It is drawn as the
    sum of the points of a thinned Poisson process (docs/mathematics.md, section 2), exactly but for points beyond
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

    def __init__(self, scale: float | Fraction, shares: int = 1):
        rounded = _in_steps(_positive("scale", scale, MAX_SCALE))
        self._scale, self._shift = rounded.numerator, rounded.denominator.bit_length() - 1
        # The least number of levels with 2^levels >= 128 scale, and at least 1.
        self._levels = max(1, (math.ceil(TAIL_SCALES * rounded) - 1).bit_length())
        self.scale = float(rounded)
        self.shares = _checked_shares(shares)

    @property
    def variance(self) -> float:
        """The variance of one draw: 2 q / (1 - q)^2 / shares."""
        return 2 * math.exp(-1 / self.scale) / math.expm1(-1 / self.scale) ** 2 / self.shares

    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        # Few shares are cut into parts, in each of which the kernel expects half a point or less.
        parts = -(-4 * self._levels // self.shares)
        words = _Words(stream, 12 * out.size)
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
    integer = False
    simulation_only = True

    def __init__(self, sigma: float):
        self.sigma = float(_positive("sigma", sigma, None))

    @property
    def variance(self) -> float:
        """The variance of one draw, sigma^2."""
        return self.sigma**2

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
    integer = False
    simulation_only = True

    def __init__(self, scale: float | Fraction, shares: int = 1):
        exact = _positive("scale", scale, None)
        nearest = float(exact)
        self.scale = nearest if nearest >= exact else math.nextafter(nearest, math.inf)
        self.shares = _checked_shares(shares)

    @property
    def variance(self) -> float:
        """The variance of one draw, 2 scale^2 / shares."""
        return 2 * self.scale**2 / self.shares

    def _fill(self, out: NDArray[Any], stream: Stream) -> None:
        from scipy.special import gammaincinv  # only simulations need SciPy

        minuend, subtrahend = (gammaincinv(1 / self.shares, _uniform(stream, out.size)) for _ in range(2))
        np.multiply(minuend - subtrahend, self.scale, out=out)


_FAMILIES: dict[str, type[Noise]] = {
    family.name: family for family in (DiscreteGaussian, Skellam, DiscreteLaplace, Gaussian, GammaLaplace)
}


def noise_from(description: Mapping[str, Any]) -> Noise:
    """Make the noise that `Noise.describe` described.

    Parameters
    ----------
    description : mapping
        ``name`` and the parameters of that family, nothing else.

    Returns
    -------
    Noise

    Raises
    ------
    InputError
        If the name is unknown, or a parameter is missing, superfluous or out of range.
    """
    name = description.get("name")
    family = _FAMILIES.get(name) if isinstance(name, str) else None
    if family is None:
        raise InputError(f"noise: name {name!r} given, one of {', '.join(_FAMILIES)} expected")
    arguments = {key: value for key, value in description.items() if key != "name"}
    if set(arguments) != set(family.parameters):
        raise InputError(f"noise: {name} with {sorted(arguments)} given, {sorted(family.parameters)} expected")
    return family(**arguments)


class _Words(Iterator[int]):
    """The words of a stream, in a buffer for the kernels and one by one for what they leave unsettled."""

    def __init__(self, stream: Stream, expected: int):
        self._stream = stream
        # There must be room for all the words of one attempt: more than 1000 are far less probable than 2^-128.
        size = min(max(expected, _LEAST_BUFFER_WORDS), _BUFFER_WORDS)
        self._buffer = np.empty(size, np.uint64)
        self._next = size
        self.refill()

    @property
    def unread(self) -> NDArray[np.uint64]:
        return self._buffer[self._next :]

    def skip(self, count: int) -> None:
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


def _fill_centred_poisson(out: NDArray[np.int64], plan: PoissonPlan, words: _Words) -> None:
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


def _uniform(stream: Stream, count: int) -> NDArray[np.float64]:
    """Odd multiples of 2^-53 in (0, 1), one for each word; every one of them is a double."""
    return ((stream.words(count) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _positive(argument: str, value: object, largest: int | None) -> Fraction:
    """Return `value` exactly, if it is a number in (0, largest]."""
    expected = f"a number in (0, 2^{largest.bit_length() - 1}]" if largest else "a positive finite number"
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value <= 0:
        raise InputError(f"{argument}: {value!r} given, {expected} expected")
    if isinstance(value, Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
    else:
        exact = Fraction(float(value))
    if largest is not None and exact > largest:
        raise InputError(f"{argument}: {value!r} given, {expected} expected")
    return exact


def _in_steps(exact: Fraction) -> Fraction:
    """Round up to a multiple of 2^-10, and to an integer above 2^10."""
    steps = STEPS if exact < 1 << 10 else 1
    return Fraction(math.ceil(exact * steps), steps)


def _checked_shares(shares: object) -> int:
    if not isinstance(shares, (int, np.integer)) or not _is_count(shares) or not 1 <= shares <= MAX_SHARES:
        raise InputError(f"shares: {shares!r} given, an integer from 1 to 2^{MAX_SHARES.bit_length() - 1} expected")
    return int(shares)


def _checked_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    dimensions = shape if isinstance(shape, tuple) else (shape,)
    if not all(_is_count(dimension) and dimension >= 0 for dimension in dimensions):
        raise InputError(f"shape: {shape!r} given, a tuple of non-negative integers expected")
    return tuple(int(dimension) for dimension in dimensions)


def _is_count(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
