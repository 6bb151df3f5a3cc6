"""Record a party's part in one agreement, so that a repetition reveals nothing more.

A party that loses the others after it has sent its release may run again. With fresh noise the others would have two
releases of the same rows, and with every further repetition one more, whose mean has less and less noise. So the record
in the party's folder keeps, from before anything is sent,

- the agreement that the folder is for, and the party's coin, so that the parties' toss is the same again;
- how many comparisons of ids have begun: each tells a dishonest party one bit;
- the toss of the release, and the release itself, noise included.

Promised: a folder sends one release, the same bytes each time, to one agreement and one toss; whatever the record says
is on the disk before anything that depends on it is sent; two processes do not use a folder at the same time. Not
promised: anything about another folder. Whoever prepares anew and runs on the same rows makes a release with noise of
its own, and the budgets add up.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError
from dpmpc.randomness import Label
from dpmpc.storage import whole
from dpmpc.untrusted import ReadError, printable, read_bytes, read_json

RECORD_FILE, OWN_FILE, LOCK_FILE = "record.json", "own-release.words", "record.lock"
SPENT_FILE = "spent"  # version 0.1: a release was sent and not kept
FORMAT = 1
MOST_COMPARISONS = 10
_WORD = np.dtype("<u8")


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `RECORD_FILE` holds.

    Parameters
    ----------
    format : int
        Of the file.
    agreement : str
        Digest of what the parties agreed on.
    coin : str
        What this party puts into the toss, 64 hexadecimal digits.
    comparisons : int
        How many comparisons of ids have begun.
    toss, own : str or None
        SHA-256 of the toss that the release was made under, and of the release; None while there is none.
    """

    format: int
    agreement: str
    coin: str
    comparisons: int = 0
    toss: str | None = None
    own: str | None = None


class Record:
    """The record of one folder, held by one process at a time.

    Parameters
    ----------
    folder : Path
        The party's private folder.
    agreement : str
        Digest of what the parties agreed on.
    coin : bytes
        32 bytes to put into the toss, if the folder has no record yet.

    Raises
    ------
    InputError
        If the folder is in use, was used for something else or by version 0.1, or holds a record that cannot be read.
    """

    def __init__(self, folder: Path, agreement: str, coin: bytes):
        self._folder = folder
        refuse_spent(folder)
        self._lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InputError(f"folder: {folder.name!r} given, which another process is using") from None
        try:
            found = read_record(folder)
            if found is not None and found.agreement != agreement:
                raise InputError(
                    f"folder: {folder.name!r} given, which was used for agreement "
                    f"{printable(found.agreement[:16])}..., {agreement[:16]}... expected: another release of the same "
                    "rows spends further budget"
                )
            self._fields = found or Fields(FORMAT, agreement, coin.hex())
            if found is None:
                self._write()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock, so that another process may use the folder."""
        os.close(self._lock)

    @property
    def coin(self) -> bytes:
        """What this party puts into the toss, in each run the same."""
        return bytes.fromhex(self._fields.coin)

    def begin_comparison(self) -> None:
        """Count a comparison of ids, before anything of it is sent.

        Raises
        ------
        InputError
            If there were `MOST_COMPARISONS` already.
        """
        if self._fields.comparisons >= MOST_COMPARISONS:
            raise InputError(
                f"folder: {self._folder.name!r} given, in which {self._fields.comparisons} comparisons of ids have "
                f"begun, fewer than {MOST_COMPARISONS} expected: each tells a dishonest party whether its guess of all "
                "ids is right; find out why runs end early before you prepare anew"
            )
        self._fields = msgspec.structs.replace(self._fields, comparisons=self._fields.comparisons + 1)
        self._write()

    def own_release(self, toss: bytes, shape: tuple[int, int]) -> NDArray[np.int64] | None:
        """Return the release that this folder has made, or None while it has made none.

        Raises
        ------
        InputError
            If it was made under another toss, or is not on the disk as it was made.
        """
        if self._fields.own is None:
            return None
        if self._fields.toss != _toss_digest(toss):
            raise InputError(
                f"folder: {self._folder.name!r} given, which holds a release made under another toss: a party has "
                "changed its coin since; another release of the same rows spends further budget"
            )
        path = self._folder / OWN_FILE
        length = shape[0] * shape[1] * _WORD.itemsize
        try:
            content = read_bytes(path, largest=length)
        except (OSError, ReadError) as error:
            raise InputError(f"{path}: the release of this folder expected: {printable(str(error))}") from error
        if len(content) != length or hashlib.sha256(content).hexdigest() != self._fields.own:
            raise InputError(f"{path}: damaged; the release that this folder has made expected")
        return np.frombuffer(content, _WORD).view(np.int64).reshape(shape)

    def keep(self, toss: bytes, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Store the release durably, before it is sent to anybody; return it."""
        if self._fields.own is not None:
            raise InputError(f"folder: {self._folder.name!r} given, which holds a release, an unused one expected")
        content = np.ascontiguousarray(own).view(np.uint64).astype(_WORD, copy=False).tobytes()
        _write_private(self._folder / OWN_FILE, content)
        digest = hashlib.sha256(content).hexdigest()
        self._fields = msgspec.structs.replace(self._fields, toss=_toss_digest(toss), own=digest)
        self._write()
        return own

    def _write(self) -> None:
        _write_private(self._folder / RECORD_FILE, msgspec.json.encode(self._fields))


def read_record(folder: Path) -> Fields | None:
    """Return what the record of a folder says, or None where there is none."""
    path = folder / RECORD_FILE
    try:
        fields = read_json(read_bytes(path), Fields)
        if (
            len(bytes.fromhex(fields.coin)) != 32
            or fields.comparisons < 0
            or (fields.toss is None) != (fields.own is None)
        ):
            raise ReadError("fields that do not fit together")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the record of a party expected: {printable(str(error))}") from error
    if fields.format != FORMAT:
        raise InputError(f"{path}: format {fields.format} given, {FORMAT} expected")
    return fields


def refuse_spent(folder: Path) -> None:
    """Refuse a folder from which version 0.1 has sent a release, which it did not keep.

    Raises
    ------
    InputError
        If there is such a mark.
    """
    if (folder / SPENT_FILE).exists():
        raise InputError(
            f"folder: {folder.name!r} given, from which version 0.1 has sent a release that it did not keep: it cannot "
            "be sent again, and another one of the same rows spends further budget; prepare anew if you accept that"
        )


def _toss_digest(toss: bytes) -> str:
    return hashlib.sha256(Label.MIXING_TOSS.value + toss).hexdigest()


def _write_private(path: Path, content: bytes) -> None:
    """Write a file for its owner alone, whole and on the disk when this returns."""
    with whole(path) as partial:
        partial.unlink(missing_ok=True)
        partial.touch(mode=0o600)
        partial.write_bytes(content)
