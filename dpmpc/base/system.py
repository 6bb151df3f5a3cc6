"""What only some operating systems offer, with what is done where they do not; nothing else requires the platform.

Linux has all of it. Elsewhere results, guarantees and files are the same, and `lacking` states what differs: a server
over a large file may fill the page cache, a full disk is noticed while shares are written and not before, and some
figures of a report are missing or less exact.

Not promised: Windows, which has no ``fcntl``.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import struct
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_PEAK = "VmHWM:"
_PR_SET_PDEATHSIG = 1
_KEPT_BYTES = 1 << 28
_MALLOC = {-1: _KEPT_BYTES, -3: _KEPT_BYTES, -8: 1}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_ARENA_MAX of <malloc.h>
_CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group


def reserve(descriptor: int, size: int) -> None:
    """Set a file's size and, where the system can, reserve its space on the disk.

    Raises
    ------
    OSError
        If the disk has no room, or elsewhere if the file may not be so long.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def drop_from_cache(descriptor: int, start: int, count: int) -> None:
    """Advise the system to drop these bytes of a file from its cache, where that is possible."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, start, count, os.POSIX_FADV_DONTNEED)


def keep_freed_memory() -> None:
    """Have arrays take the memory that earlier ones left, where the allocator is glibc's.

    By default it returns what an array of some megabytes held to the system, which clears it before the next one.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # elsewhere than in glibc it may be missing
        if mallopt is not None:
            for parameter, value in _MALLOC.items():
                mallopt(parameter, value)


def end_with_parent(parent: int) -> None:
    """Have this process ended by SIGTERM when the process that began it dies, where the system can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has died before that
        os.kill(os.getpid(), signal.SIGTERM)


def usable_cores() -> int:
    """Return the number of cores that this process may use, or of all cores where the system does not report it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_rss_mb() -> float:
    """Return the most memory that this process has held, in 1e6 bytes.

    Linux's getrusage passes the peak of the process that forked us on to us; /proc starts anew with each program.
    """
    kilobytes = _peak_kilobytes()
    if kilobytes is not None:
        return kilobytes * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def counts_tcp_bytes() -> bool:
    """Return whether the kernel counts the bytes that passed a TCP socket, in the form of Linux."""
    return sys.platform.startswith("linux") and hasattr(socket, "TCP_INFO")


def maker_of(connection: socket.socket) -> tuple[int, int] | None:
    """Return process and user that made a pair of connected local sockets, or None where the system does not report it.

    Raises
    ------
    OSError
        If the socket is not connected.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    process, user, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return process, user


def lacking() -> list[str]:
    """List what this system does not offer, and what that means; empty on Linux."""
    lacks = {
        "posix_fallocate: a full disk is noticed only while shares are written": not hasattr(os, "posix_fallocate"),
        "posix_fadvise: files larger than the memory drive other files out of it": not hasattr(os, "posix_fadvise"),
        "TCP_INFO: bytes sent and received cannot be checked against the kernel's count": not counts_tcp_bytes(),
        "SO_PEERCRED: the process of a party does not check that its parent is its launcher": (
            not hasattr(socket, "SO_PEERCRED")
        ),
        "VmHWM: the peak memory of a server may include that of the program that started it": (
            _peak_kilobytes() is None
        ),
    }
    return [what for what, missing in lacks.items() if missing]


def _peak_kilobytes() -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(_PEAK)), None)
