"""What data show about bounds: warnings of columns that bounds do not suit.

Everything here depends on the data: it is not private, and is for the holder of all rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Set

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError, UtilityWarning
from dpmpc.data.codebook import LACKING_TARGET, Codebook
from dpmpc.data.schemas import Bounds, Schema
from dpmpc.data.table import Table, position_of

MOST_CLIPPED = 0.05


def check_table(table: Table, target: str | None = None, public: Schema | None = None) -> None:
    """Refuse an unknown target, or one without a feature beside it, and warn of constant columns.

    What is refused depends on names alone, which are public. The warning depends on the data: it is not private, and
    for the holder of all rows. Columns of a codebook that stand for values may be constant.

    Raises
    ------
    InputError
        With the name of the column.
    """
    if target is not None:
        if public is not None:
            require_column(public, target)
        position_of(target, table.names, "target")
        if public is not None and isinstance(public.codebook, Codebook) and public.codebook.fills(target):
            raise InputError(
                "target",
                f"{target!r} given, which has if_missing in the bounds, one without it expected: rows that "
                f"lack it would count with a made-up value; {LACKING_TARGET}",
            )
        if len(table.names) == 1:
            raise InputError("target", f"{target!r} is the only column, at least one more feature expected")
    book = None if public is None else public.codebook
    for text in _constant(table, book.indicators if isinstance(book, Codebook) else frozenset()):
        warnings.warn(
            f"{text}: nothing can be learned of it (this warning depends on the data and is not private)",
            UtilityWarning,
            stacklevel=3,
        )


def require_column(public: Schema, target: str) -> None:
    """Refuse a target that the bounds code as columns of other names, with these names."""
    book = public.codebook
    variable = book.variable(target) if isinstance(book, Codebook) and target not in public.names else None
    columns = [] if variable is None else [one.name for one in variable.term.columns if one.name in public.names]
    if columns:
        names = " or ".join(map(repr, columns))
        raise InputError(
            "target", f"{target!r} given, which the bounds code as {names}: name that column as the target"
        )


def _constant(table: Table, spared: Set[str] = frozenset()) -> Iterator[str]:
    """Say of each column that all rows have the same value, but of those that may be so."""
    for name, low, high in zip(table.names, table.values.min(axis=0), table.values.max(axis=0), strict=True):
        if low == high and name not in spared:
            rows = f"all {len(table)} rows" if len(table) > 1 else "the only row (n_samples = 1)"
            yield f"column {name!r} is {low} in {rows}"


def warn_of_bounds(public: Schema, rows: Reals, given: Bounds = None, *, stacklevel: int = 2) -> None:
    """Warn of each column with more than 5 % of its cells clipped, and of one pair of bounds for several columns.

    Parameters
    ----------
    public : Schema
        The bounds.
    rows : ndarray of float64, shape (n, p)
        In the columns' units.
    given : Schema, pair, dict, path or None
        The bounds as a user gave them.
    stacklevel : int
        As in `warnings.warn`.
    """
    if isinstance(given, tuple) and len(public) > 1:
        warnings.warn(
            f"bounds: one pair {given} for {len(public)} columns: each gets noise for that whole range; give each "
            "column bounds of its own",
            UtilityWarning,
            stacklevel=stacklevel + 1,
        )
    for name, share in zip(public.names, public.clipped_fraction(rows), strict=True):
        if share > MOST_CLIPPED:
            warnings.warn(
                f"bounds of {name!r} clip more than {MOST_CLIPPED:.0%} of its cells, which biases every result: choose "
                "wider bounds from public knowledge (this warning depends on the data and is not private)",
                UtilityWarning,
                stacklevel=stacklevel + 1,
            )
