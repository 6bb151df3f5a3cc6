"""Give up, for the rest of a process, whatever it does not need: files, sockets, programs, signals to others.

It is Landlock of Linux, for files, and a filter of system calls, since Landlock lets a process connect to the sockets
of other services on the machine. A process applies both to itself and cannot take them back.

Promised: once `confine` has returned, nothing outside the folders it was given is opened, and inside them nothing is
written; no socket is made and no program started; no other process is traced, and none outside gets a signal, where the
kernel offers that (6.12). What is open already stays open. A system that lacks any of it is an `InputError`. Not
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
# of a machine its number in filters, and what is refused: socket, connect, execve, execveat, ptrace, process_vm_readv,
# process_vm_writev, io_uring_setup
_REFUSED = {
    "x86_64": (0xC000003E, (41, 42, 59, 322, 101, 310, 311, 425)),
    "aarch64": (0xC00000B7, (198, 203, 221, 281, 117, 270, 271, 425)),
}
_SET_FILTER, _MODE_FILTER = 22, 2  # of prctl
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # of a filter
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_OTHER_ABI = 0x40000000  # x86_64 with pointers of 32 bits, whose calls have other numbers
_VERSION_FLAG, _PATH_BENEATH, _NO_NEW_PRIVILEGES = 1, 1, 38
_READ = (1 << 0) | (1 << 2) | (1 << 3)  # execute, read a file, list a folder: of the rights below
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}  # how many there are, from this version on
_NETWORK_RIGHTS, _NETWORK_VERSION = 0b11, 4  # bind and connect of TCP
_SCOPES, _SCOPE_VERSION = 0b11, 6  # abstract sockets, signals


def confine(readable: Iterable[Path]) -> None:
    """Let this process open nothing any more but files in these folders, to read them; before it has threads."""
    if not can_confine():
        raise InputError("confinement: Linux 5.13 with Landlock expected, on x86_64 or aarch64")
    version = landlock_version()
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
    _refuse_calls()


def can_confine() -> bool:
    """Return whether `confine` works on this system."""
    return landlock_version() > 0 and os.uname().machine in _REFUSED


def _refuse_calls() -> None:
    """Have the kernel refuse what makes sockets, starts programs, or looks into other processes."""
    machine, calls = _REFUSED[os.uname().machine]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    steps += [(_AT_LEAST, 0, 1, _OTHER_ABI), (_RETURN, 0, 0, _FAIL)]
    for call in calls:
        steps += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _FAIL)]
    steps.append((_RETURN, 0, 0, _ALLOW))
    content = b"".join(struct.pack("HBBI", *step) for step in steps)
    kept = ctypes.create_string_buffer(content, len(content))
    filter_ = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(kept))
    if _library().prctl(_SET_FILTER, ctypes.c_ulong(_MODE_FILTER), filter_, 0, 0):
        raise InputError(f"confinement: {os.strerror(ctypes.get_errno())}")


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
