"""Checks of arguments, and the descriptions of choices that docstrings and options of the command are drawn from.

Every check returns the value as the plain Python type that it must be, or raises an `InputError` that names the
argument, the value that was given and what was expected. A bool is never taken for a number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, TypeVar

import msgspec

from dpmpc.base.errors import InputError
from dpmpc.base.plugins import Open

T = TypeVar("T")

#: What help texts say of the choices of a fit in rounds, which several commands and models have.
ROUNDS = (
    "steering rounds after the first sum, 1 to 64, or auto: 8, or 32 with --predict-only and at most 100,000 rows; "
    "0: one release; all sums are within one budget"
)
PREDICT_ONLY = "of a fit in rounds: spend all of the budget on the prediction, and none on errors and intervals"
PRIVATE_BOUNDS = (
    "of a fit in rounds: spend 5% of the budget on counts that narrow the bounds of columns which use little of them; "
    "values outside count as the new bounds"
)

#: The noises of the package by name, and where in `dpmpc.linear.noise` each class is: a text, so that the help of the
# command, : which offers them, does without NumPy. All of these are drawn exactly.
NOISES = {
    "discrete-gaussian": "integer.DiscreteGaussian",
    "skellam": "integer.Skellam",
    "discrete-laplace": "integer.DiscreteLaplace",
}
#: Those of simulations, which are not offered.
SIMULATED_NOISES = {
    "gaussian": "floating.Gaussian",
    "gamma-laplace": "floating.GammaLaplace",
    "none": "integer.NoNoise",
}


def require_whole(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number within limits, of Python's or NumPy's types."""
    within = "" if least is None else f" >= {least}" if most is None else f" from {least} to {most}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(name, f"{value!r}", f"a whole number{within}")
    number = operator.index(value)
    if (least is not None and number < least) or (most is not None and number > most):
        raise InputError(name, number, f"a whole number{within}")
    return number


def require_float(name: str, value: Any) -> float:
    """Return a real number as Python's own float, finite or not; one too large for a float is infinite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(name, f"{value!r}", "a number")
    number: Any = value
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def require_finite(name: str, value: Any, least: float | None = None) -> float:
    """Return a finite number, within a limit."""
    number = require_float(name, value)
    if not math.isfinite(number) or (least is not None and number < least):
        within = "" if least is None else f" >= {least:g}"
        raise InputError(name, value, f"a finite number{within}")
    return number


def require_positive(name: str, value: Any, most: float | None = None) -> float:
    """Return a finite number above 0, up to a limit."""
    number = require_float(name, value)
    if not (math.isfinite(number) and 0 < number <= (math.inf if most is None else most)):
        expected = "a finite number above 0" if most is None else f"a positive number of at most {most:g}"
        raise InputError(name, value, expected)
    return number


def require_exact(name: str, value: Any, most: int | None = None) -> Fraction:
    """Return a number above 0 exactly, up to a power of two."""
    expected = "a positive finite number" if most is None else f"a number in (0, 2^{most.bit_length() - 1}]"
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value <= 0:
        raise InputError(name, f"{value!r}", expected)
    if isinstance(value, Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
    else:
        exact = Fraction(float(value))
    if most is not None and exact > most:
        raise InputError(name, f"{value!r}", expected)
    return exact


def require_fraction(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1."""
    number = require_float(name, value)
    if not 0 < number < 1:
        raise InputError(name, value, "a number strictly between 0 and 1")
    return number


def require_bool(name: str, value: Any) -> bool:
    """Return a value that is true or false, and nothing that merely counts as such."""
    if not isinstance(value, bool):
        raise InputError(name, f"{value!r}", "true or false")
    return value


def require_choice(name: str, value: Any, options: Collection[str]) -> str:
    """Return a text that is one of a few."""
    if not isinstance(value, str) or value not in options:
        raise InputError(name, f"{value!r}", f"one of {', '.join(options)}")
    return value


def require_bytes(name: str, value: bytes, length: int) -> bytes:
    """Return bytes of a given length."""
    if len(value) != length:
        raise InputError(name, f"{len(value)} bytes", length)
    return value


def require_hex(name: str, value: object, length: int) -> bytes:
    """Return the bytes of a given length that a text writes down in hexadecimal digits."""
    try:
        content = bytes.fromhex(str(value))
    except ValueError:
        raise InputError(name, f"{value!r}", f"{2 * length} hexadecimal digits") from None
    return require_bytes(name, content, length)


def choice(
    text: str, *options: str, symbol: str | None = None, command: bool = True, group: str | None = None
) -> msgspec.Meta:
    """Describe a choice that users have, as the annotation of a field.

    Parameters
    ----------
    text : str
        What it means, in one or two sentences.
    *options : str
        The values that it may have, where they are few.
    symbol : str, optional
        What stands for its value in the help of the command.
    command : bool
        Whether it is an option of the command.
    group : str, optional
        Of entry points, whose names are values as well.
    """
    values = options if group is None else Open(options, group)
    return msgspec.Meta(description=text, extra={"options": values, "symbol": symbol, "command": command})


def number_or_auto(text: str) -> float | str:
    """Read a number, or "auto"."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise InputError(f"{text!r} given, a number or 'auto' expected") from None


def whole_or_auto(text: str) -> int | str:
    """Read a whole number, or "auto"."""
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise InputError(f"{text!r} given, a number or 'auto' expected") from None


def names(text: str) -> tuple[str, ...]:
    """Read names between commas."""
    listed = tuple(part.strip() for part in text.split(","))
    if not all(listed):
        raise InputError(f"{text!r} given, names between commas expected")
    return listed
