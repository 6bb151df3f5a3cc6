"""Bounds read off the data, for data that is public or old: not private."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from dpmpc.bounds.schemas import Column, Schema
from dpmpc.errors import InputError
from dpmpc.tables import Table, position_of

_SIGNIFICANT_DIGITS = 2


def check_table(table: Table, target: str | None = None) -> None:
    """Refuse a table that no model can be fitted to: an unknown target, no feature beside it, a constant column.

    Not private: whether a column is constant depends on the data. For those who hold all rows.

    Raises
    ------
    InputError
        With the name of the column.
    """
    if target is not None:
        position_of(target, table.names, "target")
        if len(table.names) == 1:
            raise InputError(f"target: {target!r} is the only column, at least one feature beside it expected")
    for name, low, high in zip(table.names, table.values.min(axis=0), table.values.max(axis=0), strict=True):
        if low == high:
            rows = f"all {len(table)} rows" if len(table) > 1 else "the only row (n_samples = 1)"
            raise InputError(f"column {name!r} is {low} in {rows}, at least two different values expected")


def suggest(table: Table) -> Schema:
    """Suggest bounds: the least and the greatest value of each column, rounded outward to two significant digits.

    Not private: the result depends on single rows. Use it on data that is public or old, and replace its numbers by
    what is known about the columns beforehand (an age is between 0 and 120) wherever the guarantee matters.

    Raises
    ------
    InputError
        If a column is constant, or a bound would not fit float64.
    """
    check_table(table)
    lows, highs = table.values.min(axis=0).tolist(), table.values.max(axis=0).tolist()
    return Schema(
        tuple(
            Column(name, _rounded(low, ROUND_FLOOR), _rounded(high, ROUND_CEILING))
            for name, low, high in zip(table.names, lows, highs, strict=True)
        )
    )


def _rounded(value: float, rounding: str) -> float:
    number = Decimal(repr(value))
    step = Decimal(1).scaleb(number.adjusted() - _SIGNIFICANT_DIGITS + 1)
    return float(number.quantize(step, rounding=rounding))
