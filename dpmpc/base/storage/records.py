"""Plain records whose every field is accounted for, and values of open families, rebuilt from the facts they state.

What is written down is a `Record`, a frozen struct of msgspec: a schema, a task, a guarantee, an entry of a ledger. Its
fields are numbers, texts, lists, further records, and values of open families (noises, contributions, public matrices),
which are `Described` and rebuilt by the name of their kind. `canonical` writes all of them for digests.

Promised: a record with a missing, unknown or mistyped field is an `InputError` that names it. Not promised: anything
about the values of a record's fields, which the caller checks.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast, get_args, get_origin

import msgspec
import numpy as np

from dpmpc.base.errors import DpmpcError, InputError
from dpmpc.base.plugins import Origin
from dpmpc.base.untrusted import ReadError, converted, printable

#: What building a value from malformed plain data may raise: fields of another type, absent or too large.
MALFORMED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)


@contextlib.contextmanager
def malformed(where: str) -> Iterator[None]:
    """Turn errors that malformed plain data causes in constructors into an `InputError` that names the data."""
    try:
        yield
    except DpmpcError:
        raise
    except MALFORMED as error:
        found = printable(f"{type(error).__name__}: {error}")
        raise InputError(where, f"fields of other types or sizes given than expected ({found})") from error


D = TypeVar("D", bound="Described")


class Described(abc.ABC):
    """A value of an open family, that a few public facts describe fully.

    Values with equal facts are equal, and `rebuilt` from them. Families are open: other distributions bring kinds of
    their own (`dpmpc.base.plugins`), while the kinds of a tagged struct are all known beforehand.

    Attributes
    ----------
    origin : Origin or None
        The distribution that the class comes from, if it is not this one.
    """

    origin: ClassVar[Origin | None] = None

    def plugin(self) -> dict[str, Any]:
        """Return the fact ``plugin``, of a value whose class another distribution brings; nothing of others."""
        return {} if self.origin is None else {"plugin": msgspec.to_builtins(self.origin)}

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the facts, fit for JSON: first the name of the kind, then what makes an equal value."""

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Make the value of this kind that has these facts, which are the constructor's arguments by default."""
        return cls(**facts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(canonical(self.describe()))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in list(self.describe().items())[1:])
        return f"{type(self).__name__}({facts})"


def rebuilt(where: str, kinds: Mapping[str, type[D]], description: Any, key: str = "name") -> D:
    """Make the value that `Described.describe` described, its kind found by `key`; `where` is for errors."""
    with malformed(where):
        if not isinstance(description, Mapping):
            raise InputError(where, f"{description!r}", f"a table with {key}")
        facts = dict(description)
        name = facts.pop(key, None)
        origin = None if (stated := facts.pop("plugin", None)) is None else converted(stated, Origin)
        if name not in kinds:
            if origin is not None:
                raise InputError(where, f"{name} of {origin}, which is not installed here", "one that is installed")
            raise InputError(where, f"{key}: {name!r}", f"one of {', '.join(kinds)}")
        if kinds[name].origin != origin:
            own = _whose(kinds[name].origin)
            raise InputError(where, f"{name} of {_whose(origin)}", f"{name} of {own}", "as it is installed here")
        return kinds[name].from_facts(facts)


def _whose(origin: Origin | None) -> str:
    return "dpmpc itself" if origin is None else str(origin)


def fields_of(where: str, entry: Any, required: Set[str], optional: Set[str] = frozenset()) -> Mapping[str, Any]:
    """Return a mapping if it has all the required fields, and no others but optional ones; `where` is for errors."""
    if not isinstance(entry, Mapping):
        raise InputError(where, f"{entry!r}", f"a table with {', '.join(sorted(required))}")
    for key in sorted(required - entry.keys()):
        raise InputError(where, f"{key} is missing, {', '.join(sorted(required))} expected")
    for key in sorted(map(str, entry.keys() - required - optional)):
        raise InputError(where, f"unknown key {key!r}, only {', '.join(sorted(required | optional))} expected")
    return entry


class Record(msgspec.Struct, frozen=True, dict=True):
    """Public facts that are written down: a frozen struct with a plain form, from which an equal record is made.

    All fields must be there, most of those with a default too: nobody has agreed to what is not written. Left out
    may be what is None by default, as TOML has no such value, what is unset, and all defaults of a struct that omits
    them.

    Attributes
    ----------
    called : str
        What errors call it.
    readers : mapping
        For types of fields that are not plain: what makes a value from its plain form.
    """

    called: ClassVar[str] = "record"
    readers: ClassVar[Mapping[type, Callable[[Any], Any]]] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers, texts, lists and dicts; times stay times."""
        return cast(dict[str, Any], plain(self, datetime.datetime))

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Rebuild a record from `to_dict`, whoever wrote it.

        Raises
        ------
        InputError
            If a field is missing, unknown or not what it must be.
        """

        def read(kind: type, value: Any) -> Any:
            return cls.readers[kind](value)

        with malformed(cls.called):
            _require_fields(cls.called, cls, given)
            try:
                return converted(given, cls, read)
            except ReadError as error:
                raise InputError(cls.called, error) from None


def plain(value: Any, *kept: type) -> Any:
    """Return records, and what they hold, as plain data; values of `kept` types stay unchanged."""
    return _listed(msgspec.to_builtins(value, builtin_types=kept or None, enc_hook=_plain))


def _listed(value: Any) -> Any:
    """Return plain data with lists for tuples, as it comes back from a file."""
    if isinstance(value, dict):
        return {name: _listed(one) for name, one in value.items()}
    return [_listed(one) for one in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Described):
        return value.describe()
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(f"{type(value).__name__} given, plain data expected")


def canonical(value: Any) -> bytes:
    """Return the JSON form of plain data or records that digests are made of: keys sorted, no spaces.

    Raises
    ------
    ValueError
        If a number is infinite or NaN, which JSON does not have.
    """
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _require_fields(where: str, kind: type[msgspec.Struct], given: Any) -> None:
    """Refuse a plain form with a missing or unknown field, of the record or of one in it; or of another format."""
    config, parts = kind.__struct_config__, _parts_of(kind)
    tag = set() if config.tag_field is None else {config.tag_field}
    number = _format_of(kind)
    if number is not None and isinstance(given, Mapping) and given.get("format", number) != number:
        raise InputError(where, f"not one of this version: format {given['format']!r}", number)
    left_out = {part.name for part in parts if part.may_be_left_out}
    fields = fields_of(where, given, {part.name for part in parts} - left_out | tag, left_out)
    for part in parts:
        held = fields.get(part.name, ()) if part.several else [fields.get(part.name)]
        if part.record is not None and isinstance(held, list | tuple):
            for one in held:
                _require_fields(f"{where}: {part.name}", part.record, one)


@functools.cache
def _format_of(kind: type[msgspec.Struct]) -> int | None:
    """Return the number of the format that a record is written in, if it states one."""
    if kind.__struct_config__.tag_field == "format":
        return cast(int, kind.__struct_config__.tag)
    for field in msgspec.structs.fields(kind):
        if field.name == "format" and len(get_args(field.type)) == 1:
            return cast(int, get_args(field.type)[0])
    return None


class _Part(NamedTuple):
    """A field of a struct as it is written, and the struct that it holds one or several of, if any."""

    name: str
    may_be_left_out: bool
    record: type[msgspec.Struct] | None
    several: bool


@functools.cache
def _parts_of(kind: type[msgspec.Struct]) -> tuple[_Part, ...]:
    found = []
    for field in msgspec.structs.fields(kind):
        may = field.default in (None, msgspec.UNSET) or (kind.__struct_config__.omit_defaults and not field.required)
        several = get_origin(field.type) in (tuple, list)
        inner = get_args(field.type)[0] if several else field.type
        record = inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None
        found.append(_Part(field.encode_name, may, record, several))
    return tuple(found)
