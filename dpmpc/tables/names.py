"""Names of columns."""

from __future__ import annotations

from collections.abc import Sequence

from dpmpc.errors import InputError


def check_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the column names as a tuple, or refuse an empty, unprintable or repeated one."""
    checked: dict[str, None] = {}  # in order, and quick to look up where there are many
    for name in [] if isinstance(names, str) else names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(f"{where}: column {len(checked) + 1} is named {name!r}, printable text expected")
        if name in checked:
            raise InputError(f"{where}: the column name {name!r} occurs twice")
        checked[name] = None
    if not checked:
        raise InputError(f"{where}: {names!r} given, a sequence of at least one column name expected")
    return tuple(checked)


def position_of(name: str, names: Sequence[str], where: str) -> int:
    """Return the position of a column, or refuse a name that is not among `names`."""
    if name not in names:
        raise InputError(f"{where}: no column {name!r}; there are {', '.join(names)}")
    return names.index(name)


def default_names(count: int) -> tuple[str, ...]:
    """Names that the columns of an array are given."""
    return tuple(f"x{j}" for j in range(count))
