"""Plain data from elsewhere, read as records whose every field is accounted for.

Promised: a field that is missing or unknown is an `InputError` that names it. Not promised: anything about the fields'
values, which are for whoever asked to check; `truth` is there for those that are true or false.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Set
from typing import Any

from dpmpc.errors import DpmpcError, InputError
from dpmpc.untrusted import printable

#: What building a value from somebody else's plain data may stumble over: fields of another type, absent or too large.
MALFORMED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)


@contextlib.contextmanager
def malformed(where: str) -> Iterator[None]:
    """Turn whatever somebody else's plain data makes constructors stumble over into an `InputError` that names it."""
    try:
        yield
    except DpmpcError:
        raise
    except MALFORMED as error:
        told = printable(f"{type(error).__name__}: {error}")
        raise InputError(f"{where}: fields of other types or sizes given than expected ({told})") from error


def fields_of(where: str, entry: Any, required: Set[str], optional: Set[str] = frozenset()) -> Mapping[str, Any]:
    """Return a mapping if it has all the required fields, and no others but optional ones; `where` is for errors."""
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: {entry!r} given, a table with {', '.join(sorted(required))} expected")
    for key in sorted(required - entry.keys()):
        raise InputError(f"{where}: {key} is missing")
    for key in sorted(map(str, entry.keys() - required - optional)):
        raise InputError(f"{where}: unknown key {key!r}, only {', '.join(sorted(required | optional))} expected")
    return entry


def truth(name: str, value: Any) -> bool:
    """Return a value that is true or false, and nothing that merely counts as such."""
    if not isinstance(value, bool):
        raise InputError(f"{name}: {value!r} given, true or false expected")
    return value


def fields_of_format(where: str, entry: Any, names: Set[str], number: int) -> Mapping[str, Any]:
    """Return a mapping if it has these fields, and "format" with this number."""
    fields = fields_of(where, entry, {*names, "format"})
    if fields["format"] != number:
        raise InputError(f"{where}: format {fields['format']!r} given, {number} expected")
    return fields
