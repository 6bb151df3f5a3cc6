"""What a party's folder keeps, as a crash at this moment would leave it."""

import shutil
import tempfile
from pathlib import Path

from dpmpc.base.storage.database import connect
from dpmpc.base.storage.kept import KEPT_FILE, MARK_FILE, Kept


def kept_on_disk(folder):
    """Return what a folder keeps, by name, read from a copy: a process may be using the folder."""
    with tempfile.TemporaryDirectory() as copy:
        for path in Path(folder).glob(f"{KEPT_FILE}*"):
            shutil.copy(path, copy)
        if not (Path(copy) / KEPT_FILE).exists():
            return {}
        path = Path(copy) / KEPT_FILE
        with Kept(connect(path, create=False, journal="DELETE"), path) as kept:
            return {name: kept.get(name) for name in kept.names()}


def forget_folder(folder):
    """Remove all that a folder keeps, with its mark: what an owner does that says it has lost its folder."""
    for name in (KEPT_FILE, MARK_FILE):
        (Path(folder) / name).unlink(missing_ok=True)


def commitments_of(folder, what="release"):
    """Return what a folder keeps of commitments, by party."""
    start = f"{what} of party "
    return {int(name.removeprefix(start)): one for name, one in kept_on_disk(folder).items() if name.startswith(start)}
