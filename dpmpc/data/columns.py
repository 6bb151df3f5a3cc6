"""A column of numbers and its public bounds, and the columns that stand together for one variable or product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import force_setattr

from dpmpc.base.arguments import require_finite
from dpmpc.base.errors import InputError
from dpmpc.base.storage import Record
from dpmpc.data.table import check_names

_LEAST_WIDTH, _LEAST_RELATIVE_WIDTH = 1e-300, 1e-12  # below, rounding would swallow the differences between rows


def finite_number(where: str, value: Any) -> float:
    """Return a finite number as float, or refuse it."""
    return require_finite(where, value) + 0.0  # -0.0 becomes 0.0: equal schemas are described by equal texts


class Column(Record, frozen=True):
    """A column and its public bounds.

    Parameters
    ----------
    name : str
        Printable text.
    lower, upper : float
        Finite, ``lower < upper``, in the column's own unit.

    Raises
    ------
    InputError
        If a bound is not a finite number or the two leave no room between them.
    """

    name: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        check_names([self.name], "name")
        for bound in ("lower", "upper"):
            force_setattr(self, bound, finite_number(f"{bound} of column {self.name!r}", getattr(self, bound)))
        name, given = f"bounds of column {self.name!r}", f"({self.lower}, {self.upper})"
        if not self.lower < self.upper:
            raise InputError(name, given, "lower < upper")
        if self.half_width < max(_LEAST_WIDTH, _LEAST_RELATIVE_WIDTH * max(abs(self.lower), abs(self.upper))):
            raise InputError(name, f"{given} are too close together for float64, measure the column from another zero")

    @property
    def middle(self) -> float:
        """What is mapped to 0."""
        return self.lower / 2 + self.upper / 2

    @property
    def half_width(self) -> float:
        """How far from the middle the bounds lie."""
        return self.upper / 2 - self.lower / 2


@dataclass(frozen=True)
class Term:
    """The columns that stand for a variable or a product of variables."""

    columns: tuple[Column, ...]  # with their bounds; the normalised values of each row have norm at most 1 together
    shown: int  # how many of them, from the first, are factors of products: all but an indicator of what is missing
