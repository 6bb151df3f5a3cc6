"""Public matrices, noises and models that other distributions bring, by entry points of Python packages.

A distribution declares each by its name::

    [project.entry-points."dpmpc.noises"]
    diluted-laplace = "acme_noise:DilutedLaplace"

What it brings is code of others, which runs wherever a task names it. So a description of such a value states the
distribution, its version and the SHA-256 of the module that defines the class, and anyone who reads it compares all
three with what is installed. Not promised: that other modules, which that one imports, are the same too.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from dpmpc.base.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SKETCHES, NOISES, MODELS = "dpmpc.sketches", "dpmpc.noises", "dpmpc.models"  # groups of entry points


class Origin(msgspec.Struct, frozen=True):
    """Where the class of a value comes from."""

    distribution: str
    version: str
    digest: str  # SHA-256 of the module's file, in hex

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({self.digest[:16]}...)"


@functools.cache
def declared(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by their names.

    Raises
    ------
    InputError
        If two distributions declare one name.
    """
    import importlib.metadata  # which takes longer to import than all else that the command's help needs

    found: dict[str, EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=group):
        other = found.setdefault(point.name, point)
        if other.value != point.value or _distribution(other) != _distribution(point):
            both = sorted((_distribution(other)[0], _distribution(point)[0]))
            raise InputError(group, f"{point.name!r} of {' and of '.join(both)}", "one distribution that declares it")
    return found


@functools.cache
def load(group: str, name: str, base: type, naming: str) -> tuple[type[Any], Origin]:
    """Import the class that an entry point names.

    Parameters
    ----------
    group, name : str
        The group of entry points, and one in it.
    base : type
        What the class must be a subclass of.
    naming : str
        The attribute of the class that holds its name, which must be that of the entry point.

    Returns
    -------
    type, Origin

    Raises
    ------
    InputError
        If it cannot be imported, or is no such class.
    """
    point = declared(group)[name]
    distribution, version = _distribution(point)
    try:
        kind = point.load()
    except (ImportError, AttributeError) as error:
        raise InputError(group, f"{name!r} of {distribution} {version}, which cannot be imported: {error}") from error
    if not isinstance(kind, type) or not issubclass(kind, base):
        raise InputError(group, f"{name!r} of {distribution} {version}: {kind!r}", f"a subclass of {base.__name__}")
    own = getattr(kind, naming, None)
    if own != name:
        raise InputError(group, f"{name!r} for a class whose {naming} is {own!r}", name)
    source = getattr(sys.modules[kind.__module__], "__file__", None)
    if source is None:
        raise InputError(group, f"{name!r} of {distribution} {version}, whose module has no file", "a file")
    return kind, Origin(distribution, version, hashlib.sha256(Path(source).read_bytes()).hexdigest())


def _distribution(point: EntryPoint) -> tuple[str, str]:
    if point.dist is None:
        raise InputError(point.group, f"{point.name!r} of no distribution", "one with a name and a version")
    return point.dist.name, point.dist.version


class Open(tuple[str, ...]):
    """Names of the package, among which those are too that entry points of a group declare.

    These are looked up where another name is asked for, and are not listed.
    """

    group: str

    def __new__(cls, names: Iterable[str], group: str) -> Self:
        """Make it of the package's names and a group."""
        made = super().__new__(cls, names)
        made.group = group
        return made

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in declared(self.group)


class Kinds(collections.UserDict[str, Any]):
    """The classes of a family by their names: those of the package, and those that entry points declare.

    Parameters
    ----------
    group : str
        The group of entry points.
    own : mapping
        Those of the package, whose names no other distribution can take.
    base : type
        What all are subclasses of.
    naming : str
        The attribute of a class that holds its name.
    """

    def __init__(self, group: str, own: Mapping[str, Any], base: type, naming: str):
        super().__init__(own)
        self._group, self._own, self._base, self._naming = group, frozenset(own), base, naming

    def __contains__(self, name: object) -> bool:
        return name in self.data or name in declared(self._group)

    def foreign(self, name: object) -> bool:
        """Return whether a name is that of another distribution's class, without importing it."""
        return isinstance(name, str) and name not in self._own and name in declared(self._group)

    def __missing__(self, name: str) -> Any:
        if name not in declared(self._group):
            raise KeyError(name)
        kind, origin = load(self._group, name, self._base, self._naming)
        kind.origin = origin
        self.data[name] = kind
        return kind
