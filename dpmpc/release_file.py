"""The file form of a release: a zip of what is public about it (JSON) and of its exact sums (NumPy's own format).

Promised: the same content gives the same bytes on every machine, without a date. Reading runs no code from the file
(no pickles), whatever is no release is an `InputError`, and a file that claims another guarantee than its own public
facts give is refused. A guarantee is compared by its numbers and facts. Its sentences are not: they are nobody's
evidence, may differ between versions, and readers print those of the recomputed guarantee. Reading takes memory in
proportion to the length of the file: members are stored, never compressed, the length of each is compared with what is
left of the file and with what the task says of the sums before it is read, and JSON is bounded in length and depth. Not
promised: that the facts are true; that takes signatures (`dpmpc.intake.certificate`).
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
from typing import Any, BinaryIO, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dpmpc.array_files import LONGEST_HEADER, read_header
from dpmpc.errors import InputError
from dpmpc.records import MALFORMED
from dpmpc.untrusted import ReadError, printable, read_json

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

SumsReader: TypeAlias = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]


class Guaranteed(Protocol):
    """A release, of which only the guarantee matters here."""

    @property
    def guarantee(self) -> Any:
        """What it promises; has `to_dict`."""


R = TypeVar("R", bound=Guaranteed)


def write(file: Path | BinaryIO, public: bytes, sums: NDArray[Any], beside: Mapping[str, bytes] | None = None) -> None:
    """Write a release; `public` is JSON, and `beside` are further members of the zip, by name.

    Raises
    ------
    InputError
        If the public facts are longer than `read` would take.
    """
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
        """Return the content of a member that is not longer than it may be."""
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
    """Open a release file; what stands in it is compared with its length before anything is read.

    Raises
    ------
    OSError
        If it cannot be read.
    ReadError
        If it is no zip file as `write` makes them.
    """
    with Path(path).open("rb") as file:
        length = _require_short_directory(file)
        try:
            archive = zipfile.ZipFile(file)
        except _ZIP_ERRORS as error:
            raise ReadError(f"no zip file: {printable(str(error))}") from error
        with archive:
            yield Members(archive, length)


def _require_short_directory(file: BinaryIO) -> int:
    """Refuse a zip with a long table of contents, of which Python's reader makes objects; return the file's length."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _END_64.size - _LOCATOR.size - _END.size))
    tail = file.read()
    if len(tail) < _END.size or not tail[-_END.size :].startswith(b"PK\5\6"):
        raise ReadError("no zip file that ends with its table of contents")
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


def read(path: str | os.PathLike[str], what: str, build: Callable[[dict[str, Any], SumsReader], R]) -> R:
    """Read a release, and check what it claims.

    Parameters
    ----------
    path : path
        The file.
    what : str
        What is expected, in words.
    build : callable
        ``build(public, sums)`` returns the release that the public facts describe; ``sums(shape, dtype)`` reads the
        sums, once the facts say of which shape they have to be.

    Raises
    ------
    InputError
        If the file is something else, or claims another guarantee than the release has.
    """
    try:
        with open_members(path) as members:
            public = read_json(members.read(PUBLIC_MEMBER, LARGEST_PUBLIC), dict, largest=LARGEST_PUBLIC)
            release = build(public, lambda shape, dtype: members.array(SUMS_MEMBER, shape, dtype))
        claimed = public["guarantee"]
    except InputError as error:
        raise type(error)(f"release: {os.fspath(path)!r}: {error}") from error
    except (OSError, *MALFORMED) as error:
        raise InputError(f"release: {os.fspath(path)!r} is no {what} ({printable(str(error))})") from error
    if not alike(claimed, json.loads(json.dumps(release.guarantee.to_dict()))):
        raise InputError(f"release: {os.fspath(path)!r} claims another guarantee than its public facts give")
    return release


def alike(claimed: Any, found: dict[str, Any]) -> bool:
    """Whether two guarantees agree in all but words, up to how linear algebra rounds elsewhere or in version 0.1."""
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
    """Whether a guarantee was written by version 0.1."""
    return isinstance(claimed, dict) and not NEWER_FACTS & claimed.keys()
