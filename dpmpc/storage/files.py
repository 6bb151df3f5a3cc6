"""Files that appear whole or not at all, and files that are for their owner alone.

Promised: nobody finds half of what `whole` writes; a file that was there stays as it is until the new one is complete;
what has been written outlasts a loss of power. Not promised: two processes that write the same file at once.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dpmpc.errors import DpmpcError, InputError


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


def write_private(path: Path, content: bytes) -> None:
    """Write a file for its owner alone, whole and on the disk when this returns; it replaces an older one."""
    with whole(path) as partial:
        partial.unlink(missing_ok=True)
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)


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
