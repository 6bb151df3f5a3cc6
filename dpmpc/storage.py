"""Files that appear whole or not at all, private files, records, arrays in files, and the file form of a release.

What is written down is a `Record`, a frozen struct of msgspec: a schema, a task, a guarantee, an entry of a ledger. Its
fields are numbers, texts, lists, further records, and values of open families (noises, contributions, public matrices),
which are `Described` and rebuilt by the name of their kind. `canonical` writes all of them for digests.

A release file is a zip of what is public about the release (JSON) and of its exact sums (NumPy's own format).

Promised: nobody finds half of what `whole` writes; a file that was there stays as it is until the new one is complete;
what has been written outlasts a loss of power. A record with a missing, unknown or mistyped field is an `InputError`
that names it. The same release gives the same bytes on every machine, without a date. Reading a release runs no code
from the file (no pickles); whatever is not a release is an `InputError`, and a file that claims another guarantee than
its own public facts give is refused.

Not promised: two processes that write the same file at once; anything about the values of a record's fields, which
the caller checks; that the facts in a release are true, which takes signatures
(`dpmpc.collection.certificate`).
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import datetime
import functools
import io
import json
import math
import os
import re
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol, Self, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from dpmpc.errors import DpmpcError, InputError
from dpmpc.untrusted import ReadError, converted, printable, read_json

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
        raise InputError(f"{where}: fields of other types or sizes given than expected ({found})") from error


D = TypeVar("D", bound="Described")


class Described(abc.ABC):
    """A value of an open family, that a few public facts say all about.

    Values with equal facts are equal, and `rebuilt` from them. Families are open: whoever uses the package may add a
    kind to their tables, while the kinds of a tagged struct are all known beforehand.
    """

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
            raise InputError(f"{where}: {description!r} given, a table with {key} expected")
        facts = dict(description)
        name = facts.pop(key, None)
        if name not in kinds:
            raise InputError(f"{where}: {key}: {name!r} given, one of {', '.join(kinds)} expected")
        return kinds[name].from_facts(facts)


def fields_of(where: str, entry: Any, required: Set[str], optional: Set[str] = frozenset()) -> Mapping[str, Any]:
    """Return a mapping if it has all the required fields, and no others but optional ones; `where` is for errors."""
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: {entry!r} given, a table with {', '.join(sorted(required))} expected")
    for key in sorted(required - entry.keys()):
        raise InputError(f"{where}: {key} is missing, {', '.join(sorted(required))} expected")
    for key in sorted(map(str, entry.keys() - required - optional)):
        raise InputError(f"{where}: unknown key {key!r}, only {', '.join(sorted(required | optional))} expected")
    return entry


class Record(msgspec.Struct, frozen=True, dict=True):
    """Public facts that are written down: a frozen struct with a plain form, from which an equal record is made.

    All fields have to be there, most of those with a default too: nobody has agreed to what is not written. Left out
    may be what is None by default, as TOML has no such value, and all defaults of a struct that omits them.

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
            If a field is missing, unknown or not what it has to be.
        """

        def read(kind: type, value: Any) -> Any:
            return cls.readers[kind](value)

        with malformed(cls.called):
            _require_fields(cls.called, cls, given)
            try:
                return converted(given, cls, read)
            except ReadError as error:
                raise InputError(f"{cls.called}: {error}") from None


def plain(value: Any, *kept: type) -> Any:
    """Return records, and what they hold, as plain data; types that are `kept` stay as they are."""
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
    """Return the one JSON form of plain data or records, of which digests are made: keys sorted, no spaces.

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
    left_out = {part.name for part in parts if part.may_be_left_out}
    fields = fields_of(where, given, {part.name for part in parts} - left_out | tag, left_out)
    for name in tag:
        if fields[name] != config.tag:
            raise InputError(f"{where}: {name} {fields[name]!r} given, {config.tag} expected")
    for part in parts:
        held = fields.get(part.name, ()) if part.several else [fields.get(part.name)]
        if part.record is not None and isinstance(held, list | tuple):
            for one in held:
                _require_fields(f"{where}: {part.name}", part.record, one)


class _Part(NamedTuple):
    """A field of a struct as it is written, and the struct that it holds, if any, or several of."""

    name: str
    may_be_left_out: bool
    record: type[msgspec.Struct] | None
    several: bool


@functools.cache
def _parts_of(kind: type[msgspec.Struct]) -> tuple[_Part, ...]:
    found = []
    for field in msgspec.structs.fields(kind):
        may = field.default is None or (kind.__struct_config__.omit_defaults and not field.required)
        may |= field.default is msgspec.UNSET
        several = get_origin(field.type) in (tuple, list)
        inner = get_args(field.type)[0] if several else field.type
        record = inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None
        found.append(_Part(field.encode_name, may, record, several))
    return tuple(found)


MAGIC = b"\x93NUMPY"
MOST_AXES = 8
LONGEST_HEADER = 1024  # bytes; NumPy pads to a multiple of 64, and needs fewer than 200 for 8 axes
_FIXED = len(MAGIC) + 4  # magic, version 1.0, length of the text that follows
_TEXT = re.compile(
    rb"\{'descr': '(?P<descr><[uif]8)', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9]{1,19},(?: [0-9]{1,19},?)*)\), \} *\n"
)


@dataclasses.dataclass(frozen=True)
class ArrayHeader:
    """What a `.npy` file says of the array in it.

    Attributes
    ----------
    dtype : numpy.dtype
        uint64, int64 or float64, little-endian.
    shape : tuple of int
        At least one axis.
    offset : int
        Bytes of the header.
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.offset + self.dtype.itemsize * math.prod(self.shape)


def read_header(file: BinaryIO) -> ArrayHeader:
    """Read the header of a `.npy` file from where the file stands; the numbers follow.

    Raises
    ------
    ReadError
        If it is not a header that dpmpc writes.
    """
    start = file.read(_FIXED)
    if len(start) < _FIXED or start[: len(MAGIC)] != MAGIC:
        raise ReadError("not a .npy array")
    version, length = tuple(start[len(MAGIC) : len(MAGIC) + 2]), int.from_bytes(start[-2:], "little")
    if version != (1, 0) or length > LONGEST_HEADER:
        raise ReadError(f".npy format {version} with a header of {length} bytes, (1, 0) and at most {LONGEST_HEADER}")
    found = _TEXT.fullmatch(file.read(length))
    if found is None:
        raise ReadError("a .npy header of something else than 64-bit numbers in C order with at least one axis")
    shape = tuple(int(axis) for axis in found["shape"].replace(b" ", b"").split(b",") if axis)
    if len(shape) > MOST_AXES:
        raise ReadError(f"a .npy array of {len(shape)} axes, at most {MOST_AXES}")
    return ArrayHeader(np.dtype(found["descr"].decode()), shape, _FIXED + length)


PUBLIC_MEMBER, SUMS_MEMBER = "release.json", "sums.npy"
ROUNDING = 1e-7  # relative, of what linear algebra gives a guarantee; rounded to the safe side since version 0.2
SENTENCES = frozenset({"mechanism", "assumptions", "sources"})
NEWER_FACTS = frozenset({"leverage", "least_variance", "preconditions"})  # which version 0.1 did not write
LARGEST_PUBLIC = 1 << 25  # bytes of JSON: the whitening matrix of 1,000 columns takes 20 MB, 100,000 columns 10 MB
MOST_MEMBERS = 16
_ENCRYPTED = 1  # a flag of a member
_END, _LOCATOR, _END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sLQL"), struct.Struct("<4sQ2H2L4Q")
_LARGEST_DIRECTORY = 1 << 14  # bytes of the zip's table of contents
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OverflowError, struct.error)


class Header(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a release file says beside its sums.

    Parameters
    ----------
    task, guarantee : dict
        In plain form. The guarantee is a claim, compared with what the task gives.
    provenance : dict, optional
        Where the release comes from, for readers.
    """

    task: dict[str, Any]
    guarantee: dict[str, Any]
    provenance: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


SumsReader: TypeAlias = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]


class Guaranteed(Protocol):
    """A release, of which only the guarantee matters here."""

    @property
    def guarantee(self) -> Any:
        """What the release promises, a record."""


R = TypeVar("R", bound=Guaranteed)


def write(
    file: Path | BinaryIO,
    header: Header,
    sums: NDArray[Any],
    beside: Mapping[str, bytes] | None = None,
    indent: int | None = None,
) -> None:
    """Write a release; `beside` are further members of the zip, by name, and `indent` is that of the header's JSON.

    Raises
    ------
    InputError
        If the public facts are longer than `read` would take.
    """
    public = json.dumps(plain(header), indent=indent).encode()
    if len(public) > LARGEST_PUBLIC:
        raise InputError(
            f"task: public facts of {len(public)} bytes given, at most {LARGEST_PUBLIC} expected in a file"
        )
    array = io.BytesIO()
    np.lib.format.write_array(array, np.ascontiguousarray(sums), allow_pickle=False)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {PUBLIC_MEMBER: public, SUMS_MEMBER: array.getvalue(), **(beside or {})}.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # dated 1980, like all of them


class Members:
    """The members of a release file, none of which is believed to be as long as it says."""

    def __init__(self, archive: zipfile.ZipFile, length: int):
        infos = archive.infolist()
        self._archive, self._infos = archive, {info.filename: info for info in infos}
        if len(self._infos) < len(infos):
            raise ReadError("two members of one name")
        for info in infos:
            name = printable(info.filename)
            if info.flag_bits & _ENCRYPTED:
                raise ReadError(f"{name}: encrypted, plain expected")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise ReadError(f"{name}: compressed (method {info.compress_type}), stored as it is expected")
            if info.file_size > length:
                raise ReadError(f"{name}: {info.file_size} bytes claimed by a file of {length} bytes")

    @property
    def names(self) -> list[str]:
        """The names of the members, sorted."""
        return sorted(self._infos)

    def read(self, name: str, largest: int) -> bytes:
        """Return the content of a member, or refuse one that is too long."""
        info = self._info(name)
        if info.file_size > largest:
            raise ReadError(f"{name}: {info.file_size} bytes, at most {largest} expected")
        try:
            return self._archive.read(info)
        except _ZIP_ERRORS as error:
            raise ReadError(f"{name}: {printable(str(error))}") from error

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of this shape and type; its header and its length are compared with them first."""
        info, expected = self._info(name), np.dtype(dtype).newbyteorder("<")
        largest = LONGEST_HEADER + expected.itemsize * math.prod(shape)
        if info.file_size > largest:
            raise ReadError(f"{name}: {info.file_size} bytes, at most {largest} expected of {expected} {shape}")
        try:
            with self._archive.open(info) as member:
                header = read_header(cast(BinaryIO, member))
        except _ZIP_ERRORS as error:
            raise ReadError(f"{name}: {printable(str(error))}") from error
        if (header.dtype, header.shape) != (expected, shape):
            raise ReadError(f"{name}: {header.dtype} {header.shape} given, {expected} {shape} expected")
        if header.size != info.file_size:
            raise ReadError(f"{name}: {info.file_size} bytes given, {header.size} expected of {expected} {shape}")
        content = self.read(name, largest)
        return np.frombuffer(content, expected, offset=header.offset).reshape(shape).astype(np.dtype(dtype))

    def _info(self, name: str) -> zipfile.ZipInfo:
        if name not in self._infos:
            raise ReadError(f"{name} is missing")
        return self._infos[name]


@contextlib.contextmanager
def open_members(path: str | os.PathLike[str]) -> Iterator[Members]:
    """Open a release file; its table of contents is compared with its length before anything is read.

    Raises
    ------
    OSError
        If it cannot be read.
    ReadError
        If it is not a zip file that `write` could have made.
    """
    with Path(path).open("rb") as file:
        length = _require_short_directory(file)
        try:
            archive = zipfile.ZipFile(file)
        except _ZIP_ERRORS as error:
            raise ReadError(f"not a zip file: {printable(str(error))}") from error
        with archive:
            yield Members(archive, length)


def _require_short_directory(file: BinaryIO) -> int:
    """Refuse a zip with a long table of contents, which would fill the memory; return the file's length."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _END_64.size - _LOCATOR.size - _END.size))
    tail = file.read()
    if len(tail) < _END.size or not tail[-_END.size :].startswith(b"PK\5\6"):
        raise ReadError("not a zip file that ends with its table of contents")
    _, _, _, _, members, directory, _, _ = _END.unpack(tail[-_END.size :])
    rest = tail[: -_END.size]
    if rest[-_LOCATOR.size :].startswith(b"PK\6\7"):  # files of more than 2 GB
        if len(rest) < _END_64.size + _LOCATOR.size:
            raise ReadError("a zip file without its table of contents")
        fields = _END_64.unpack(rest[: _END_64.size])
        members, directory = fields[7], fields[8]
    if members > MOST_MEMBERS or directory > _LARGEST_DIRECTORY:
        raise ReadError(f"a zip of {members} members, their table {directory} bytes, at most {MOST_MEMBERS} expected")
    return length


def read(path: str | os.PathLike[str], what: str, build: Callable[[Header, SumsReader], R]) -> R:
    """Read a release, and check what it claims.

    Parameters
    ----------
    path : path
        The file.
    what : str
        What is expected, in words.
    build : callable
        ``build(header, sums)`` returns the release that the public facts describe; ``sums(shape, dtype)`` reads the
        sums, once the facts say of which shape they have to be.

    Raises
    ------
    InputError
        If the file is something else, or claims another guarantee than the release has.
    """
    try:
        with open_members(path) as members:
            header = read_json(members.read(PUBLIC_MEMBER, LARGEST_PUBLIC), Header, largest=LARGEST_PUBLIC)
            release = build(header, lambda shape, dtype: members.array(SUMS_MEMBER, shape, dtype))
    except InputError as error:
        raise type(error)(f"release: {os.fspath(path)!r}: {error}") from error
    except (OSError, *MALFORMED) as error:
        raise InputError(f"release: {os.fspath(path)!r} is not a {what} ({printable(str(error))})") from error
    if not alike(header.guarantee, release.guarantee.to_dict()):
        raise InputError(f"release: {os.fspath(path)!r} claims another guarantee than its public facts give")
    return release


def alike(claimed: Any, found: dict[str, Any]) -> bool:
    """Return whether two guarantees agree in all but words and the rounding of other machines or of version 0.1."""
    if not isinstance(claimed, dict):
        return False
    newer = NEWER_FACTS & found.keys()
    if claimed.keys() != found.keys() and claimed.keys() != found.keys() - newer:
        return False
    return all(
        math.isclose(claimed[name], value, rel_tol=ROUNDING)
        if isinstance(value, float) and isinstance(claimed[name], float)
        else claimed[name] == value
        for name, value in found.items()
        if name in claimed and name not in SENTENCES
    )


def is_older(claimed: Any) -> bool:
    """Return whether a guarantee was written by version 0.1."""
    return isinstance(claimed, dict) and not NEWER_FACTS & claimed.keys()


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file atomically: yield a temporary path and rename it on success; remove it after an error."""
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    try:
        yield partial
        sync(partial)
        partial.replace(target)
        sync(target.absolute().parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Force a file's content, or the names of the files in a folder, onto the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_private(argument: str, path: Path, error: type[DpmpcError] = InputError) -> None:
    """Refuse a file or a folder that anybody but its owner may read or change.

    Parameters
    ----------
    argument : str
        What the error names.
    path : Path
        Must exist.
    error : type
        What to raise.

    Raises
    ------
    OSError
        If there is nothing, or it cannot be looked at.
    """
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        expected = "0700" if stat.S_ISDIR(status.st_mode) else "0600"
        raise error(f"{argument}: mode {mode:04o} of {path} given, {expected} expected: for its owner alone")
