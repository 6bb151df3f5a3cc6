"""Keep in a party's private folder what it has sent, so that a repetition sends the same again.

A party that drew fresh noise each time it is asked would give its rows away: the mean of many answers has little noise
left. So what it sends is written down before it is sent. `PartyFolder` is the folder, with the words that were sent;
`SealedRecord` is the file that says what they answer; `require_first_commitments` compares what the others commit to
now with what they committed to first.

Promised: two processes do not use a folder at the same time; whatever has been written is on the disk when the call
returns; words that are not those that were stored, and a record that was damaged or is gone from beside its words, are
refused, and nothing replaces them. Not promised: anything about a folder that was put back to an earlier state, from a
backup for example.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import BatchMismatch, InputError
from dpmpc.storage.files import write_private
from dpmpc.storage.records import canonical
from dpmpc.untrusted import ReadError, printable, read_bytes, read_json

_WORD = np.dtype("<u8")

#: SHA-256, or 32 random bytes, as a record has them
HexDigest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class SealedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON file that says what a folder has sent; its last field is the checksum of the others.

    Subclasses end with ``checksum: str = ""``, so that a bit that changed on the disk accuses nobody.

    Parameters
    ----------
    format : int
        Of the file.

    Attributes
    ----------
    file : str
        Its name.
    version : int
        The only format that is read.
    called : str
        What errors call it.
    beside : str
        The file of words that is never there without the record.
    largest : int
        Bytes; a longer file is refused unread.
    """

    file: ClassVar[str]
    version: ClassVar[int]
    called: ClassVar[str]
    beside: ClassVar[str]
    largest: ClassVar[int]

    format: int

    def content(self) -> bytes:
        """Return the bytes that the checksum is made of."""
        return canonical(self)

    def sealed(self) -> Self:
        """Return the fields with their checksum."""
        plain = msgspec.structs.replace(self, checksum="")
        return msgspec.structs.replace(plain, checksum=hashlib.sha256(plain.content()).hexdigest())

    def require_sound(self) -> None:
        """Refuse fields that do not fit together, by a `ReadError`; a subclass says which."""

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return what the record of a folder says, or None where there is none.

        Raises
        ------
        InputError
            If it cannot be read, was damaged, or is gone from beside the words that were sent.
        """
        path = folder / cls.file
        try:
            fields = read_json(read_bytes(path, largest=cls.largest), cls, largest=cls.largest)
            if fields.format == cls.version:
                if fields != fields.sealed():
                    raise ReadError("it is damaged")
                fields.require_sound()
        except FileNotFoundError:
            if cls.has_sent(folder):
                raise InputError(
                    f"{path}: none given, but {cls.beside} lies beside it: {cls.called} expected, which says what all "
                    "had committed to; restore it, nothing replaces it"
                ) from None
            return None
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path}: {cls.called} expected: {printable(str(error))}; restore it, nothing replaces it"
            ) from error
        if fields.format != cls.version:
            raise InputError(f"{path}: format {fields.format} given, {cls.version} expected")
        return fields

    def write(self, folder: Path) -> None:
        """Write the record with its checksum, on the disk when this returns."""
        write_private(folder / self.file, msgspec.json.encode(self.sealed()))

    @classmethod
    def has_sent(cls, folder: Path) -> bool:
        """Return whether a folder has stored words that others may have seen."""
        return (folder / cls.beside).exists()


class PartyFolder:
    """A private folder that one process at a time uses, and the words that it has sent.

    Parameters
    ----------
    folder : Path
        Must exist.
    lock : str
        The name of the file that is locked.

    Raises
    ------
    InputError
        If another process is using the folder.
    """

    def __init__(self, folder: Path, lock: str):
        self._folder = folder
        self._lock = os.open(folder / lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise InputError(f"folder: {folder.name!r} given, which another process is using") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock, so that another process may use the folder."""
        os.close(self._lock)

    def _store(self, name: str, words: NDArray[np.uint64]) -> str:
        """Write words to a file, on the disk when this returns; return their SHA-256."""
        content = np.ascontiguousarray(words, _WORD).tobytes()
        write_private(self._folder / name, content)
        return hashlib.sha256(content).hexdigest()

    def _load(self, name: str, digest: str, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Return the words of a file if they are those that were stored, or raise an `InputError`."""
        path, length = self._folder / name, int(np.prod(shape)) * _WORD.itemsize
        try:
            content = read_bytes(path, largest=length)
        except (OSError, ReadError) as error:
            raise InputError(f"{path}: the words of this folder expected: {printable(str(error))}") from error
        if len(content) != length or hashlib.sha256(content).hexdigest() != digest:
            raise InputError(f"{path}: damaged; the words that this folder has stored expected")
        return np.frombuffer(content, _WORD).reshape(shape)


def require_first_commitments(kept: Mapping[str, str], given: Mapping[int, bytes], what: str) -> dict[str, str]:
    """Return what all parties commit to as a record keeps it; refuse what differs from what was kept first.

    Parameters
    ----------
    kept : mapping of str to str
        What a record has; empty before the first time, when everything is accepted.
    given : mapping of int to bytes
        By party: what it commits to now.
    what : str
        What is committed to, as errors say it.

    Raises
    ------
    BatchMismatch
        With the party that commits to something else now.
    """
    now = {str(party): one.hex() for party, one in given.items()}
    for party, one in now.items():
        if kept and kept.get(party) != one:
            raise BatchMismatch(
                f"party {party} commits to another {what} than in an earlier run, when it may have seen those of the "
                "others since; or it has lost its folder, and can only take part with the one that it had",
                int(party),
            )
    return now
