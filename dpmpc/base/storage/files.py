"""Files that appear whole or not at all, files that are for their owner alone, and turns at a file.

Promised: nobody finds half of what `whole` writes; a file that was there stays as it is until the new one is complete;
what has been written outlasts a loss of power. The temporary file has a random name, is made by this process and by no
other, and is reached through its descriptor alone: a link that somebody has put into the folder is neither followed nor
written to, and of two processes that write the same file at once the later one's content stands, whole. What a process
that was killed has left is removed when the same file is written again. Anyone who reads a file, changes it and writes
it again does so while it is `locked`.

Not promised: anything in a folder whose own name another user may turn into a link; turns among processes that write
without the lock, or where a file system has no locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dpmpc.base.errors import DpmpcError, InputError

ENDING = ".partial"
LOCK_SECONDS = 30.0
_RANDOM_BYTES = 8
_LONGEST_PART = 40  # characters of a target's name in that of its temporary file: names have at most 255 bytes
_PAUSE_SECONDS = 0.002


@contextlib.contextmanager
def whole(path: str | os.PathLike[str], *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Write a file atomically: yield a temporary file, open for writing, and rename it on success.

    Parameters
    ----------
    path : path
        The file to write; one that is there is replaced, and a link is replaced too, not followed.
    mode : int
        Permissions, less the process's mask, and less those that a file in this place does not give.
    """
    target = Path(path)
    _remove_left_over(target)
    file, temporary = _fresh(target, mode)
    with contextlib.suppress(FileNotFoundError):
        there = target.lstat()
        if stat.S_ISREG(there.st_mode):  # what its owner has made private stays so
            os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode & there.st_mode))
    with file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    sync(target.absolute().parent)


def _fresh(target: Path, mode: int) -> tuple[BinaryIO, Path]:
    """Make a temporary file next to the target, and keep a lock on it that states that its process is alive."""
    while True:
        name = f"{_beginning(target)}{secrets.token_hex(_RANDOM_BYTES)}{ENDING}"
        temporary = target.with_name(name)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with contextlib.suppress(OSError):  # a file system without locks: nobody removes what is left over there
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_named(descriptor, temporary):  # else another process has removed it as left over before it was locked
            return open(descriptor, "wb"), temporary
        os.close(descriptor)


def _is_named(descriptor: int, path: Path) -> bool:
    """Return whether an open file still has this name; a hard link with another name does not count."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _beginning(target: Path) -> str:
    return f".{target.name[:_LONGEST_PART]}."


def _remove_left_over(target: Path) -> None:
    """Remove temporary files of this target whose processes have ended: nobody holds their lock."""
    random = f"[0-9a-f]{{{2 * _RANDOM_BYTES}}}"  # another name that ends so may be a user's
    ours = re.compile(re.escape(_beginning(target)) + random + re.escape(ENDING))
    with contextlib.suppress(OSError), os.scandir(target.absolute().parent) as entries:  # `_fresh` says what is wrong
        for entry in entries:
            if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_unlocked(Path(entry.path))


def _remove_unlocked(temporary: Path) -> None:
    with contextlib.suppress(OSError):  # in use, gone meanwhile, or somebody else's
        descriptor = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink()
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(path: str | os.PathLike[str], *, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Take turns at a file: while the body runs, no other process or thread is in a body for the same file.

    Parameters
    ----------
    path : path
        The file, which need not exist; the lock is a file next to it, which is removed again.
    seconds : float
        How long to wait for others.

    Raises
    ------
    InputError
        If others have not finished by then, or a file that is no lock has the lock's name.
    """
    target = Path(path)
    lock = target.with_name(f".{target.name}.lock")
    end = time.monotonic() + seconds
    while (descriptor := _taken(lock)) is None:
        if time.monotonic() >= end:
            raise InputError(
                "path",
                f"{os.fspath(path)} given, which another process has used for {seconds:g} s, a file that is "
                "free expected: try again when it has ended",
            )
        time.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is held: whoever waits for it finds that it has no name any more
        os.close(descriptor)


def _taken(lock: Path) -> int | None:
    """Return the descriptor of a lock that this process now holds, or None if another process does."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_named(descriptor, lock):
            _require_empty(descriptor, lock)
            return descriptor
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _require_empty(descriptor: int, lock: Path) -> None:
    status = os.fstat(descriptor)
    if status.st_size or not stat.S_ISREG(status.st_mode):
        raise InputError(
            "path",
            f"{lock} given, which is no lock but another file, an empty one or none expected: it would "
            "be removed; rename it",
        )


def write_private(path: Path, content: bytes) -> None:
    """Write a file for its owner alone, whole and on the disk when this returns; it replaces an older one."""
    with whole(path, mode=0o600) as file:
        file.write(content)


@contextlib.contextmanager
def whole_directory(target: Path) -> Iterator[Path]:
    """Write a new directory, all or nothing: yield a temporary one next to it, and rename that on success.

    Raises
    ------
    InputError
        If the directory exists.
    """
    if target.exists():
        raise InputError("out", target, "a directory that does not exist yet")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as temporary:
        partial = Path(temporary) / "partial"
        partial.mkdir(mode=0o700)
        yield partial
        partial.rename(target)


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
        raise error(argument, f"mode {mode:04o} of {path}", expected, "for its owner alone")
