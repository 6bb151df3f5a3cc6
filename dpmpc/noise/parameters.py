"""Parameters of noise, held exactly and rounded up to what a sampler can hold: never less noise than asked for."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational, Real

import numpy as np

from dpmpc.errors import InputError
from dpmpc.noise.base import _is_count

STEPS = 1 << 10
"""Steps per unit of a sigma or scale below 2^10; above, it is an integer."""

MAX_SHARES = 1 << 40


def positive(argument: str, value: object, largest: int | None) -> Fraction:
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


def in_steps(exact: Fraction) -> Fraction:
    """Round up to a multiple of 2^-10, and to an integer above 2^10."""
    steps = STEPS if exact < 1 << 10 else 1
    return Fraction(math.ceil(exact * steps), steps)


def checked_shares(shares: object) -> int:
    """Return the number of shares that make up one variable, if it is in [1, 2^40]."""
    if not isinstance(shares, (int, np.integer)) or not _is_count(shares) or not 1 <= shares <= MAX_SHARES:
        raise InputError(f"shares: {shares!r} given, an integer from 1 to 2^{MAX_SHARES.bit_length() - 1} expected")
    return int(shares)
