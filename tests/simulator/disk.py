"""The disk of a server: what was written, and what of it is there after the process was killed or power was lost.

A killed process leaves all that it has written. After a power cut there is what was synced. Of the rest each sector of
512 bytes is there or not, by a chance that each file has; of the names of a folder that was not synced, the first ones.
"""

import collections
import contextlib
import ctypes
import errno
import os
import shutil
from pathlib import Path

from simulator.loop import SHIM

CREATE, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MAKE_FOLDER, OPEN_TO_CHANGE = range(1, 9)
SECTOR = 512
_HOOK = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_ulong,
    ctypes.c_long,
    ctypes.c_long,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
)

_disks = {}  # by the name of their folder
_disk_of = {}  # by inode
_root = ""


def watch(root):
    """Have every change below this folder pass through the disks."""
    global _root
    _root = f"{root}/"
    SHIM.simulator_hook(_before, _root.encode())


@_HOOK
def _before(operation, inode, offset, length, data, path, target):
    name = path.decode() if path else ""
    disk = _disks.get(name[len(_root) :].partition("/")[0]) if name.startswith(_root) else _disk_of.get(inode)
    return 0 if disk is None else disk.before(operation, inode, offset, length, data, name, target and target.decode())


def files_of(folder):
    """Return what a folder holds: bytes by the names of files, and None by those of folders."""
    files = sorted(path for path in folder.rglob("*") if not path.name.endswith("-shm"))
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in files}


class Disk:
    """The folder of one life of a server.

    Parameters
    ----------
    path : Path
        Below the folder that is watched.
    image : dict
        What it holds in the beginning, as `files_of` returns it.
    rng : Random
        Decides what a power cut leaves.
    """

    def __init__(self, path, image, rng):
        self.path, self._rng = path, rng
        self.count = 0  # operations so far
        self.crash_at = None  # before this one the server crashes
        self.crash_after_sync = None  # or before the first one that follows so many syncs
        self.syncs = 0
        self.on_crash = None
        self.frozen = self.full = False
        self.broken = 0.0  # chance of an input/output error
        self._operations, self._inodes, self._names = [], {}, {}
        os.makedirs(path, 0o700)
        for name, content in image.items():
            place = path / name
            if content is None:
                os.makedirs(place, 0o700, exist_ok=True)
                continue
            os.makedirs(place.parent, 0o700, exist_ok=True)
            with open(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(content)
                inode = os.fstat(file.fileno()).st_ino
            self._inodes[inode], self._names[str(place)] = content, inode
            _disk_of[inode] = self
        _disks[path.name] = self

    def forget(self):
        """Remove the folder."""
        _disks.pop(self.path.name, None)
        for inode in [inode for inode, disk in _disk_of.items() if disk is self]:
            del _disk_of[inode]
        shutil.rmtree(self.path, ignore_errors=True)

    def before(self, operation, inode, offset, length, data, path, target):
        """Return the number of the error with which an operation fails; 0 if it does not."""
        if self.frozen:
            return errno.EIO
        self.count += 1
        due = self.crash_at is not None and self.count >= self.crash_at
        due |= self.crash_after_sync is not None and self.syncs >= self.crash_after_sync
        self.syncs += operation == SYNC
        if due and operation != CREATE:
            self.frozen = True
            self.on_crash()
            return errno.EIO
        if self.full and operation in (WRITE, OPEN_TO_CHANGE, MAKE_FOLDER):
            return errno.ENOSPC
        if self.broken and operation in (WRITE, SYNC) and self._rng.random() < self.broken:
            return errno.EIO
        if operation == OPEN_TO_CHANGE:
            return 0
        if operation == CREATE:
            _disk_of[inode] = self
        content = ctypes.string_at(data, length) if operation == WRITE else None
        self._operations.append((operation, inode, offset, length, content, path, target))
        return 0

    def after_kill(self):
        """Return what there is after the process was killed."""
        return files_of(self.path)

    def after_power_cut(self):
        """Return what there may be after power was lost."""
        disk = _Platter(self._inodes, self._names, self._rng)
        for operation in self._operations:
            disk.take(*operation)
        files = {name: content for name, content in files_of(self.path).items() if content is None}
        for path, content in disk.read().items():
            with contextlib.suppress(ValueError):
                files[str(Path(path).relative_to(self.path))] = content
        return files


class _Platter:
    """Files by inode and names, as they are on the disk, and what the system still holds back."""

    def __init__(self, inodes, names, rng):
        self._inodes = {inode: bytearray(content) for inode, content in inodes.items()}
        self._names, self._rng = dict(names), rng
        self._writes, self._moves = collections.defaultdict(list), collections.defaultdict(list)

    def take(self, operation, inode, offset, length, content, path, target):
        """Take an operation of the process."""
        if operation == CREATE:
            self._inodes.setdefault(inode, bytearray())
            self._moves[os.path.dirname(path)].append((CREATE, path, inode))
        elif operation == WRITE:
            self._writes[inode].append((offset, content))
        elif operation == TRUNCATE:
            self._writes[inode].append((length, None))
        elif operation == RENAME:
            self._moves[os.path.dirname(target)].append((RENAME, path, target))
        elif operation == UNLINK:
            self._moves[os.path.dirname(path)].append((UNLINK, path, None))
        elif operation == SYNC and path:
            for move in self._moves.pop(path, []):
                self._move(*move)
        elif operation == SYNC:
            for write in self._writes.pop(inode, []):
                self._write(inode, *write)

    def read(self):
        """Return what is there by name once a part of what was not synced is, too."""
        rng = self._rng
        for moves in self._moves.values():
            for move in moves[: rng.randint(0, len(moves))]:
                self._move(*move)
        for inode, writes in self._writes.items():
            chance = rng.choice((0.0, 0.3, 0.7, 1.0))
            for offset, content in writes:
                for part in _sectors(offset, content):
                    if rng.random() < chance:
                        self._write(inode, *part)
        return {path: bytes(self._inodes.get(inode, b"")) for path, inode in self._names.items()}

    def _write(self, inode, offset, content):
        """Write at an offset; without content, make the file as long as the offset."""
        file = self._inodes.setdefault(inode, bytearray())
        end = offset + len(content or b"")
        file.extend(bytes(max(0, end - len(file))))
        if content is None:
            del file[end:]
        else:
            file[offset:end] = content

    def _move(self, kind, path, other):
        if kind == CREATE:
            self._names[path] = other
        elif kind == UNLINK:
            self._names.pop(path, None)
        elif path in self._names:
            self._names[other] = self._names.pop(path)


def _sectors(offset, content):
    """Yield the parts of a write that are there or not by themselves."""
    if content is None:
        yield offset, None
        return
    start = 0
    while start < len(content):
        end = min(len(content), ((offset + start) // SECTOR + 1) * SECTOR - offset)
        yield offset + start, content[start:end]
        start = end
