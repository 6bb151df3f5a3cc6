"""Ports of this machine for processes that are told beforehand where to listen.

A port that is asked of the system (port 0) and given back may be taken by the next outgoing connection of any process,
before whoever it was meant for listens. The ports here lie below those that Linux and macOS give to connections, and
each process begins at another place and goes on from there.
"""

from __future__ import annotations

import contextlib
import os
import socket

from dpmpc.base.errors import InputError

HOST = "127.0.0.1"
LOWEST, END = 10_000, 32_000
_STRIDE = 13_597  # between processes of neighbouring numbers: by the golden section of the range, so all lie far apart


class _Place:
    """Where this process goes on looking; after a fork each process has a place of its own."""

    process = 0
    port = LOWEST


def free_ports(count: int) -> list[int]:
    """Return so many ports in a row that nobody listens on now, and that this process was not given lately."""
    if not 1 <= count <= END - LOWEST:
        raise InputError("count", count, f"1 to {END - LOWEST} ports")
    if _Place.process != os.getpid():
        _Place.process = os.getpid()
        _Place.port = LOWEST + os.getpid() * _STRIDE % (END - LOWEST)
    for _ in range(2 * (END - LOWEST) // count):
        first = _Place.port if _Place.port + count <= END else LOWEST
        _Place.port = first + count
        if _are_free(range(first, first + count)):
            return list(range(first, first + count))
    raise InputError("count", f"{count} given, and fewer ports in a row are free between {LOWEST} and {END}")


def _are_free(ports: range) -> bool:
    with contextlib.ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.create_server((HOST, port)))
        except OSError:
            return False
    return True
