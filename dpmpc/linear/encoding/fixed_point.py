"""Fixed-point numbers: reals as integers of a box or ball, how much one client moves them, and whether sums fit.

A sum of encoded rows and their noise fits the ring or field where a `ModulusPlan` states so (`plan_modulus`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpmpc._kernels import arithmetic
from dpmpc.base.arguments import require_finite, require_float, require_whole
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError, OverflowRisk
from dpmpc.base.storage.records import Described, fields_of
from dpmpc.data import Schema
from dpmpc.linear.encoding.ring import Ring, integers, ring_named

Clip = Literal["box", "ball"]

Neighbouring = Literal["replace-one", "zero-out"]

LARGEST_INTEGER = 1 << 51  # the kernels round exactly up to here

MAX_FRACTIONAL_BITS = 50

_CHUNK_CELLS = 1 << 10  # of rows that are encoded in several steps: they stay in the first-level cache

_PERIOD = 256  # bounds are repeated to at least this many elements, so that the kernel's inner loop is long


@dataclass(frozen=True)
class Sensitivity:
    """By how much the encoded contribution of one client can move, in integer units; never less than the truth.

    Parameters
    ----------
    l1, l2, linf : float
        Norms of the largest difference between the contributions of two neighbouring data sets.
    columns : int
        Number of entries of a contribution.
    neighbouring : {"replace-one", "zero-out"}
        Whether a client's row is replaced by any other, or by zero.
    """

    l1: float
    l2: float
    linf: float
    columns: int
    neighbouring: Neighbouring = "replace-one"


class FixedPoint(Described):
    """Fixed-point numbers: the real z is held as an integer q near 2^f z.

    Parameters
    ----------
    fractional_bits : int
        f, from 0 to 50.
    ring : Ring, class or name
        Where the integers will live: ``ring.embed(encode(z))``.
    """

    def __init__(self, fractional_bits: int = 16, ring: Ring | type[Ring] | str = "ring64"):
        self.fractional_bits = require_whole("fractional_bits", fractional_bits, 0, MAX_FRACTIONAL_BITS)
        self.ring = ring_named(ring)
        self._scale = 2.0**self.fractional_bits

    def describe(self) -> dict[str, Any]:
        """Return the arguments that make an equal value, fit for JSON."""
        return {"fractional_bits": self.fractional_bits, "ring": self.ring.name}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> FixedPoint:
        """Make the value that `describe` described; both facts must be there."""
        return cls(**fields_of("encoding", facts, {"fractional_bits", "ring"}))

    def __repr__(self) -> str:
        return f"FixedPoint(fractional_bits={self.fractional_bits}, ring={self.ring!r})"

    def encode(self, z: ArrayLike, lower: ArrayLike = -1.0, upper: ArrayLike = 1.0) -> Integers:
        """Return q = clip(round(2^f z), round(2^f lower), round(2^f upper)), rounding half to even.

        Clipping comes after rounding, so that rounding adds nothing to the sensitivity.

        Parameters
        ----------
        z : array_like of float, shape (..., p)
            Finite.
        lower, upper : float or array_like of shape (p,)
            Public bounds of all columns or of each; once encoded, `lower` must be less than `upper`.

        Returns
        -------
        ndarray of int64, the shape of `z`

        Raises
        ------
        InputError
            If `z` is not finite, or a bound does not fit.
        """
        reals = _reals(z)
        columns = max(1, reals.shape[-1]) if reals.ndim else 1
        bounds = self._bounds(lower, columns, "lower"), self._bounds(upper, columns, "upper")
        low, high = np.broadcast_arrays(*bounds)
        if not np.all(low < high):
            unit = f"2^-{self.fractional_bits}"
            raise InputError("lower, upper", f"{lower!r}, {upper!r}", "lower < upper", condition=f"in units of {unit}")
        out = np.empty(reals.shape, np.int64)
        if arithmetic.encode_box(reals.reshape(-1), self._scale, _repeat(low), _repeat(high), out.reshape(-1)):
            raise _not_finite(reals)
        return out

    def encode_within(
        self, rows: ArrayLike, schema: Schema, out: Integers, first: int = 0, radius: float | None = None
    ) -> None:
        """Overwrite `out` with ``encode(schema.normalise(rows))``, in one pass.

        Parameters
        ----------
        rows : array_like of numbers, shape (m, p)
            In the units of the schema, at least one.
        schema : Schema
            Public bounds of the columns.
        out : ndarray of int64, shape (m, p), C-contiguous
            Overwritten.
        first : int
            How many rows came before these; errors count them.
        radius : float, optional
            `encode_ball` with this radius instead of `encode`.

        Raises
        ------
        InputError
            If a value is not finite or is refused by the bounds; with its column and row.
        """
        reals = self._rows(rows, schema, out, len(schema))
        if radius is None:
            refused = arithmetic.encode_rows(reals.reshape(-1), schema.periods, self._scale, out.reshape(-1))
        else:
            scratch = np.empty((_chunk(len(schema)), len(schema)))
            limit = self._radius(radius)
            refused = arithmetic.encode_ball_rows(reals, schema.periods, self._scale, limit, scratch, out)
        if refused:
            schema.refuse(reals, first)

    def encode_moments_within(
        self, rows: ArrayLike, schema: Schema, weight: float, out: Integers, first: int = 0
    ) -> None:
        """Overwrite `out` with the upper triangle of (1, z)(1, z)^T, without its corner, for ``z = normalise(rows)``.

        Entries off the diagonal are multiplied by `weight`, and all are encoded by `encode` with bounds +-weight.
        Parameters and errors are those of `encode_within`; `out` has p + p (p + 1) / 2 columns.
        """
        columns = len(schema)
        width = columns + columns * (columns + 1) // 2
        reals = self._rows(rows, schema, out, width)
        chunk = _chunk(width)
        lower, upper = (np.repeat(self._bounds(end, 1, "weight"), chunk * width) for end in (-weight, weight))
        scratch = np.empty((chunk, columns + width))
        if arithmetic.encode_moment_rows(reals, schema.periods, self._scale, weight, lower, upper, scratch, out):
            schema.refuse(reals, first)

    def _rows(self, rows: ArrayLike, schema: Schema, out: Integers, width: int) -> Reals:
        """Return rows that fit the schema and `out`, as the kernels want them."""
        matrix = schema.matrix("X", rows)
        expected = (len(matrix), width)
        if out.dtype != np.int64 or out.shape != expected or not out.flags.c_contiguous:
            actual = f"{out.dtype} of shape {out.shape} given"
            raise InputError("out", f"{actual}, C-contiguous int64 of shape {expected} expected")
        return np.ascontiguousarray(matrix, np.float64)

    def encode_ball(self, z: ArrayLike, radius: float) -> Integers:
        """Encode vectors so that ||q||_2 <= floor(2^f radius), exactly.

        A vector outside the ball is first scaled onto it; entries are then truncated toward zero, which only shortens
        it. The kernel checks the squared norm in integers and, where floating point has erred, moves entries toward
        zero.

        Parameters
        ----------
        z : array_like of float, shape (..., p)
            Vectors along the last axis; finite.
        radius : float
            C, public.

        Returns
        -------
        ndarray of int64, the shape of `z`
        """
        reals = _reals(z)
        if reals.ndim == 0:
            raise InputError("z", "a number", "vectors")
        out = np.empty(reals.shape, np.int64)
        vectors = (-1, reals.shape[-1]) if reals.size else (0, 1)
        if arithmetic.encode_ball(reals.reshape(vectors), self._scale, self._radius(radius), out.reshape(vectors)):
            raise _not_finite(reals)
        return out

    def decode(self, q: Integers) -> Reals:
        """Return q / 2^f as float64."""
        return integers(q, "q") / self._scale

    def sensitivity(
        self, columns: int, eta: ArrayLike = 1.0, clip: Clip = "box", neighbouring: Neighbouring = "replace-one"
    ) -> Sensitivity:
        """Return by how much one client moves its encoded row.

        With D = 2 for replace-one and 1 for zero-out, eta_f = round(2^f eta) and C_f = floor(2^f C):
        box, linf = max_j D eta_fj, l2^2 = sum_j (D eta_fj)^2, l1 = sum_j D eta_fj; ball, linf = l2 = D C_f,
        l1 = sqrt(p) l2 rounded down to an integer, as integer vectors have an integer l1 norm. Lemma:
        rounding_moves_by_one.

        Parameters
        ----------
        columns : int
            p.
        eta : float or array_like of shape (p,)
            Entries are clipped to [-eta_j, eta_j] ("box"), or vectors to norm C = eta ("ball").
        clip : {"box", "ball"}
            `encode` or `encode_ball`.
        neighbouring : {"replace-one", "zero-out"}
            See `Sensitivity`.
        """
        if columns < 1:
            raise InputError("columns", columns, "at least 1")
        if neighbouring not in ("replace-one", "zero-out"):
            raise InputError("neighbouring", f"{neighbouring!r}", "'replace-one' or 'zero-out'")
        moves = 2 if neighbouring == "replace-one" else 1
        if clip == "box":
            reach = np.broadcast_to(self._bounds(eta, columns, "eta"), columns)
            if reach.min() < 1:
                raise InputError("eta", f"{eta!r}", f"at least 2^-{self.fractional_bits}", "smaller encodes as 0")
            sides = [moves * int(side) for side in reach]
            return Sensitivity(sum(sides), root_up(sum(side**2 for side in sides)), max(sides), columns, neighbouring)
        if clip == "ball":
            diameter = moves * self._radius(eta)
            return Sensitivity(math.isqrt(columns * diameter**2), diameter, diameter, columns, neighbouring)
        raise InputError("clip", f"{clip!r}", "'box' or 'ball'")

    def _bounds(self, bound: ArrayLike, columns: int, name: str) -> Reals:
        """Return round(2^f bound) as integers held in float64, of shape (1,) or (columns,)."""
        values = np.atleast_1d(np.asarray(bound, np.float64))
        if values.shape not in ((1,), (columns,)):
            raise InputError(name, f"shape {values.shape}", f"a number or one for each of {columns} columns")
        if not np.all(np.abs(values) <= LARGEST_INTEGER / self._scale):  # a NaN fails too
            raise InputError(name, f"{bound!r}", f"at most 2^51 in units of 2^-{self.fractional_bits}")
        return np.rint(values * self._scale)

    def _radius(self, radius: ArrayLike) -> int:
        """Return C_f = floor(2^f C)."""
        number = require_float("radius", radius)
        if not 1 <= number * self._scale <= LARGEST_INTEGER:
            limits = f"from 1 to 2^51 in units of 2^-{self.fractional_bits}"
            raise InputError("radius", f"{radius!r}", f"a number {limits}")
        return math.floor(number * self._scale)


def _reals(z: ArrayLike) -> Reals:
    array = np.asarray(z)
    if array.dtype.kind not in "fiu":
        raise InputError("z", array.dtype, "real numbers")
    return np.require(array, np.float64, "C")


def _chunk(width: int) -> int:
    """Return how many rows the kernels hold at a time."""
    return max(1, _CHUNK_CELLS // width)


def _repeat(bounds: Reals) -> Reals:
    return np.tile(bounds, -(-_PERIOD // bounds.size))


def _not_finite(reals: Reals) -> InputError:
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(reals))[0])
    return InputError("z", f"{reals[index]} at index {index}, a finite number expected")


def root_up(square: int) -> float:
    """Return a float whose square is not below an integer, the least that is found."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


@dataclass(frozen=True)
class ModulusPlan:
    """Proof that no cell of an opened sum wraps around, except with probability `failure`.

    Parameters
    ----------
    bits_needed, bits_available : int
        Bits of the largest centred sum, and of the ring or field.
    magnitude : int
        Largest sum of encoded entries without noise.
    tail : float
        What the noise of every cell stays below.
    failure : float
        Probability that some cell's noise does not.
    """

    bits_needed: int
    bits_available: int
    magnitude: int
    tail: float
    failure: float


def plan_modulus(
    ring: Ring | type[Ring] | str,
    occupancy_max: int,
    eta_int: int,
    tail: Callable[[float], float],
    cells: int,
    failure: float = 2.0**-40,
) -> ModulusPlan:
    """Check 2^bits > 2 (max_r N_r eta_f + tail) + 1 (theorem no-wraparound).

    Wrap-around would ruin the result, never privacy.

    Parameters
    ----------
    ring : Ring, class or name
        Where the sums live.
    occupancy_max : int
        Contributions in the fullest cell, max_r N_r.
    eta_int : int
        Largest absolute value of an encoded entry.
    tail : callable
        ``tail(L)`` is what the noise of a cell, in integer units, stays below in absolute value except with
        probability 2 exp(-L): `dpmpc.linear.Noise.tail` of so many draws.
    cells : int
        Number of cells that are opened, k p.
    failure : float
        beta, in (0, 1).

    Returns
    -------
    ModulusPlan

    Raises
    ------
    OverflowRisk
        If the sums do not fit; the message holds the numbers.
    """
    ring = ring_named(ring)
    for name, value, least in (("occupancy_max", occupancy_max, 0), ("eta_int", eta_int, 0), ("cells", cells, 1)):
        require_whole(name, value, least)
    if not 0 < failure < 1:
        raise InputError("failure", failure, "a probability between 0 and 1")
    log_odds = math.log(2 * cells) - math.log(failure)  # a union over cells and two sides
    noise = require_finite("noise", tail(log_odds), 0)
    magnitude = int(occupancy_max) * int(eta_int)
    bits_needed = (2 * (magnitude + math.ceil(noise)) + 1).bit_length()
    if bits_needed > ring.bits:
        raise OverflowRisk(
            ring.name,
            f"{bits_needed} bits needed, {ring.bits} available: up to {occupancy_max} contributions of at "
            f"most {eta_int} and noise of at most {noise:.6g} in each of {cells} cells; use fewer "
            "fractional bits or more rows",
        )
    return ModulusPlan(bits_needed, ring.bits, magnitude, noise, failure)
