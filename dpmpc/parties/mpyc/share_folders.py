"""Folders of shares: what each server of a program was sent by clients who are no parties, to be opened once.

``DIR/party-J`` of server J holds the task, with the public matrix S in it, and the server's share. So S is fixed once
the batch is closed: sketches of the same rows under several matrices would wear the noise off. `mark_used` writes down
that the folder was used, before anything is opened, and refuses it from then on.

Not promised: anything about a folder that was copied before it was used, or whose mark was deleted.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.storage.files import whole_directory, write_private
from dpmpc.base.storage.kept import KEPT_FILE, has_kept, keep_alone
from dpmpc.base.untrusted import ReadError, read_bytes, read_json
from dpmpc.linear.sharing.batch import SHARE_FILE, Share, open_share, save_share
from dpmpc.privacy.task import Task

TASK_FILE = "task.json"
LARGEST_TASK = 1 << 26  # bytes
_OPENED = "opened"


@dataclasses.dataclass(frozen=True)
class ShareFolder:
    """What one server holds of a batch.

    Parameters
    ----------
    folder : Path
        With the server's share.
    task : Task
        Of the batch.
    """

    folder: Path
    task: Task

    @classmethod
    def of_party(cls, out: str | os.PathLike[str], party: int) -> ShareFolder:
        """Open the folder of one party in a directory that `write_share_folders` has written."""
        folder = Path(out) / f"party-{party}"
        return cls(folder, read_task(folder / TASK_FILE))

    @property
    def share(self) -> Share:
        """The server's share, which is read chunk by chunk."""
        return open_share(self.folder / SHARE_FILE, self.task.encoding.ring)

    def refuse_used(self) -> None:
        """Refuse a folder that was used, before any other party is contacted; sums without noise may be repeated."""
        if not self.task.noiseless and has_kept(self.folder, _OPENED):
            raise self._used

    def mark_used(self) -> None:
        """Write down, for good, that the sketch of this share is about to be opened.

        Raises
        ------
        GuaranteeError
            If it was written down before.
        """
        if self.task.noiseless:
            return
        with keep_alone(self.folder, self.task.digest.hex()) as record:
            if record.get(_OPENED) is not None:
                raise self._used
            record.put({_OPENED: b"1"})

    @property
    def _used(self) -> GuaranteeError:
        return GuaranteeError(
            "shares",
            f"{self.folder} given, whose sketch was opened before ({KEPT_FILE}), a new batch expected: a "
            "second opening of the same rows spends more than the task promises",
        )


def read_task(path: str | os.PathLike[str]) -> Task:
    """Read a task from a JSON file, and verify it.

    Raises
    ------
    InputError
        If the file holds no task.
    GuaranteeError, OverflowRisk
        If the task does not give what it promises.
    """
    try:
        fields = read_json(read_bytes(Path(path), largest=LARGEST_TASK), dict, largest=LARGEST_TASK)
    except (OSError, ReadError) as error:
        raise InputError(path, f"the public facts of a release expected: {error}") from error
    return Task.from_dict(fields).require_checkable().verify()


def write_task(path: str | os.PathLike[str], task: Task) -> None:
    """Write a task to a JSON file, for `read_task`."""
    write_private(Path(path), msgspec.json.encode(task.to_dict()))


def write_share_folders(out: str | os.PathLike[str], task: Task, shares: Sequence[Share]) -> list[Path]:
    """Write ``out/party-J`` for each server J, whose share of all clients' rows it is to sketch.

    Parameters
    ----------
    out : path
        A directory that does not exist yet.
    task : Task
        Of the batch.
    shares : sequence of Share
        One for each server, as `dpmpc.release.client.share_batch` makes them.
    """
    if len(shares) != task.trust.servers:
        raise InputError("shares", f"{len(shares)}", f"one for each of {task.trust.servers} servers")
    names = [f"party-{server}" for server in range(len(shares))]
    with whole_directory(Path(out)) as partial:
        for name, share in zip(names, shares, strict=True):
            (partial / name).mkdir(mode=0o700)
            save_share(partial / name / SHARE_FILE, share)
            write_task(partial / name / TASK_FILE, task)
    return [Path(out) / name for name in names]
