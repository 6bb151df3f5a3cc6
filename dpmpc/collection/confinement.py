"""Give up, for the rest of a process, whatever it does not need: files, connections to others, signals to others.

It is Landlock of Linux, which a process applies to itself and cannot take back; programs that it starts inherit it.

Promised: once `confine` has returned, nothing outside the folders it was given is opened, and inside them nothing is
written; no connection is begun and no port opened; no other process is traced, and none outside gets a signal, where
the kernel offers that (6.12). What is open already stays open. A kernel that lacks Landlock is an `InputError`. Not
promised: that a process cannot use up time and memory.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from dpmpc.errors import InputError

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, on all machines
_VERSION_FLAG, _PATH_BENEATH, _NO_NEW_PRIVILEGES = 1, 1, 38
_READ = (1 << 0) | (1 << 2) | (1 << 3)  # execute, read a file, list a folder: of the rights below
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}  # how many there are, from this version on
_NETWORK_RIGHTS, _NETWORK_VERSION = 0b11, 4  # bind and connect of TCP
_SCOPES, _SCOPE_VERSION = 0b11, 6  # abstract sockets, signals


def confine(readable: Iterable[Path]) -> None:
    """Let this process open nothing any more but files in these folders, to read them; before it has threads."""
    version = landlock_version()
    if not version:
        raise InputError("confinement: this system has no Landlock (Linux 5.13, with it enabled)")
    files = (1 << max(count for since, count in _FILE_RIGHTS.items() if since <= version)) - 1
    network = _NETWORK_RIGHTS if version >= _NETWORK_VERSION else 0
    scopes = _SCOPES if version >= _SCOPE_VERSION else 0
    size = 8 * (1 + (version >= _NETWORK_VERSION) + (version >= _SCOPE_VERSION))
    ruleset = _call(_CREATE_RULESET, struct.pack("QQQ", files, network, scopes)[:size], size, 0)
    try:
        for folder in readable:
            descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            try:
                _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", _READ, descriptor), 0)
            finally:
                os.close(descriptor)
        if _library().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise InputError(f"confinement: {os.strerror(ctypes.get_errno())}")
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def landlock_version() -> int:
    """Return which version of Landlock this system has, 0 for none."""
    if sys.platform != "linux":
        return 0
    version: int = _library().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    return max(0, version)


def program_folders() -> list[Path]:
    """Return the folders that Python and its libraries are in, which a process may go on to need."""
    package = Path(__file__).parents[1]
    found = {Path(each) for each in (sys.prefix, sys.base_prefix, package, "/usr", "/lib", "/lib64")}
    found |= {Path(each) for each in sys.path if "-packages" in each}
    return sorted(each for each in found if each.is_dir())


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: bytes | int) -> int:
    """Make a system call, or say what it could not do."""
    result: int = _library().syscall(number, *arguments)
    if result < 0:
        raise InputError(f"confinement: {os.strerror(ctypes.get_errno())}")
    return result
