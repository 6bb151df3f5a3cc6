"""What every noise has in common: draws that depend on the stream alone, and a description in plain types.

Parameters are held exactly, and rounded up to what a sampler can hold: there is never less noise than requested.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_whole
from dpmpc.base.errors import SimulationOnly
from dpmpc.base.randomness import KEY_BYTES, Label, Stream
from dpmpc.base.storage.records import Described, fields_of

STEPS = 1 << 10
"""Steps per unit of a sigma or scale below 2^10; above, it is an integer."""

MAX_SHARES = 1 << 40


def in_steps(exact: Fraction) -> Fraction:
    """Round up to a multiple of 2^-10, and to an integer above 2^10."""
    steps = STEPS if exact < 1 << 10 else 1
    return Fraction(math.ceil(exact * steps), steps)


BLOCK_DRAWS = 1 << 16
"""Draws that share one substream: the unit of work of a thread. Part of the definition of what a stream draws."""


class Noise(Described):
    """A distribution from which each client draws its noise, one independent value for each number it sends.

    Attributes
    ----------
    name : str
        What the command line and saved releases call it.
    parameters : tuple of str
        The attributes that, with the name, describe it fully: the arguments of the constructor.
    accountant : str or type
        Who accounts for it: a name of `dpmpc.privacy.ACCOUNTANTS`, or a subclass of `dpmpc.privacy.Accountant`.
    integer : bool
        Whether draws are int64; float64 otherwise.
    simulation_only : bool
        Whether it must not protect real people.
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    accountant: ClassVar[str | type[Any]]
    integer: ClassVar[bool] = True
    simulation_only: ClassVar[bool] = False

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of one draw."""

    @abstractmethod
    def tail(self, draws: int, log_odds: float) -> float:
        """Bound the absolute value of a sum of `draws` draws, except with probability 2 exp(-L).

        Parameters
        ----------
        draws : int
            Number of independent draws in the sum.
        log_odds : float
            L, positive.
        """

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
            Sixteen bytes are read from it as the key of this call. By default a new key comes from the operating
            system, except where `simulation_only`: there a stream must be given.
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
        require_whole("threads", threads, 1)
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
                "stream",
                f"none given, and {self.name} noise must not protect real people: its floating-point "
                "rounding can give data away; use integer noise, or name a stream if this is a simulation",
            )
        source = Stream.from_os() if stream is None else stream
        return Stream(source.bytes(KEY_BYTES), simulation=source.simulation)

    def describe(self) -> dict[str, str | int | float]:
        """Return the name and the parameters, in plain types; `noise_from` is the inverse."""
        facts = {parameter: getattr(self, parameter) for parameter in self.parameters}
        return {"name": self.name, **facts, **self.plugin()}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Make the noise of this family with these parameters, which all must be there."""
        return cls(**fields_of(f"noise: {cls.name}", facts, set(cls.parameters)))


def gaussian_tail(variance: float, log_odds: float) -> float:
    """Return sqrt(2 v L), which a variable X with ln E exp(t X) <= v t^2 / 2 stays below (Chernoff)."""
    return math.sqrt(variance) * math.sqrt(2 * log_odds)


def _checked_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    dimensions = shape if isinstance(shape, tuple) else (shape,)
    return tuple(require_whole("shape", dimension, 0) for dimension in dimensions)
