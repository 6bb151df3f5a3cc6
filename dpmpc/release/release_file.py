"""The file form of a release: a zip of what is public about it (JSON) and of its exact sums (NumPy's own format).

Promised: the same release gives the same bytes on every machine, without a date. Reading a release runs no code from
the file (no pickles), and takes no more memory than a file of its length may need. Whatever is not a release is an
`InputError`, and a file that claims another guarantee than its own public facts give is refused. Not promised: that
the facts in a release are true, which takes signatures (`dpmpc.collect.terms.verifying`).
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Protocol, TypeAlias, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from dpmpc.base.errors import InputError
from dpmpc.base.storage.npy_headers import LONGEST_HEADER, read_header
from dpmpc.base.storage.records import MALFORMED, plain
from dpmpc.base.untrusted import ReadError, open_regular, printable, read_json

FORMAT: Final = 2
PUBLIC_MEMBER, SUMS_MEMBER = "release.json", "sums.npy"
CERTIFICATE_MEMBER = "certificate.json"  # only in the release of a collection
ROUNDING = 1e-7  # relative, of what linear algebra gives a guarantee
LARGEST_PUBLIC = 1 << 25  # bytes of JSON: the whitening matrix of 1,000 columns takes 20 MB, 100,000 columns 10 MB
MOST_MEMBERS = 16
_ENCRYPTED = 1  # a flag of a member
_END, _LOCATOR, _END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sLQL"), struct.Struct("<4sQ2H2L4Q")
_LOCAL, _LOCAL_LENGTHS = 30, 26  # bytes of a member's own header, and where it has the lengths of name and extra field
_LARGEST_DIRECTORY = 1 << 14  # bytes of the zip's table of contents
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OverflowError, struct.error)


class Header(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a release file states beside its sums.

    Parameters
    ----------
    format : int
        `FORMAT`, which rises where a version writes other fields.
    task, guarantee : dict
        In plain form. The guarantee is a claim, compared with what the task gives.
    provenance : dict, optional
        Where the release comes from, for readers.
    """

    format: Literal[2]
    task: dict[str, Any]
    guarantee: dict[str, Any]
    provenance: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


SumsReader: TypeAlias = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]


class Guaranteed(Protocol):
    """A release, as far as it matters here: its guarantee."""

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
            "task", f"public facts of {len(public)} bytes", f"at most {LARGEST_PUBLIC}", condition="in a file"
        )
    array = io.BytesIO()
    np.lib.format.write_array(array, np.ascontiguousarray(sums), allow_pickle=False)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {PUBLIC_MEMBER: public, SUMS_MEMBER: array.getvalue(), **(beside or {})}.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # dated 1980, like all of them


class Members:
    """The members of a release file; the length that each claims is not believed."""

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
    with open_regular(path) as file:
        length = _require_short_directory(file)
        try:
            archive = zipfile.ZipFile(file)
        except _ZIP_ERRORS as error:
            raise ReadError(f"not a zip file: {printable(str(error))}") from error
        with archive:
            _require_nothing_between(file, archive)
            yield Members(archive, length)


def _require_nothing_between(file: BinaryIO, archive: zipfile.ZipFile) -> None:
    """Refuse bytes before, between or after the members, which a reader would not see and no signature covers."""
    end = 0
    for info in sorted(archive.infolist(), key=lambda one: one.header_offset):
        if info.header_offset != end:
            raise ReadError(f"{info.header_offset - end} bytes before {printable(info.filename)}, none expected")
        file.seek(end + _LOCAL_LENGTHS)
        lengths = file.read(4)
        end += _LOCAL + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        end += info.compress_size
    if end != archive.start_dir or archive.comment:
        raise ReadError(f"{archive.start_dir - end} bytes before the table of contents, none expected")


def _require_short_directory(file: BinaryIO) -> int:
    """Refuse a zip with a long table of contents, which would fill the memory; return the file's length."""
    length = file.seek(0, os.SEEK_END)
    longest = _END_64.size + _LOCATOR.size + _END.size
    file.seek(max(0, length - longest))
    tail = file.read(longest)
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
        sums, once the facts give their shape.

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
        raise InputError("release", f"{os.fspath(path)!r} is not a {what} ({printable(str(error))})") from error
    if not alike(header.guarantee, release.guarantee.to_dict()):
        raise InputError(
            "release", f"{os.fspath(path)!r} claims another guarantee than its public facts give in this version"
        )
    return release


def alike(claimed: Any, found: Any) -> bool:
    """Return whether two guarantees agree, in all but the rounding of other machines."""
    if isinstance(found, dict):
        same = isinstance(claimed, dict) and claimed.keys() == found.keys()
        return same and all(alike(claimed[name], value) for name, value in found.items())
    if isinstance(found, list | tuple):
        same = isinstance(claimed, list | tuple) and len(claimed) == len(found)
        return same and all(map(alike, claimed, found))
    if isinstance(found, float) and isinstance(claimed, float):
        return math.isclose(claimed, found, rel_tol=ROUNDING)
    return bool(claimed == found)
