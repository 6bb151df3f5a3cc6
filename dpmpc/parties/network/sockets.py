"""Bytes as they really pass: TLS handshake, records and alerts included.

A `CountingSocket` counts what the operating system takes from and gives to the process; `kernel_count` asks the
kernel for the same numbers by another route (TCP_INFO), where it offers them.

Not counted: TCP and IP headers, and retransmissions.
"""

from __future__ import annotations

import array
import fcntl
import ipaddress
import socket
import struct
import termios
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

import msgspec

from dpmpc.base.system import counts_tcp_bytes

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

# struct tcp_info of <linux/tcp.h>: tcpi_state, bytes_received, notsent_bytes, bytes_sent and bytes_retrans.
_STATE, _BYTES_RECEIVED, _NOT_SENT, _BYTES_SENT, _TCP_INFO_BYTES = 0, 128, 144, 200, 216
# The peer's FIN counts as a received byte: CLOSE_WAIT, LAST_ACK, CLOSING and TIME_WAIT come after it.
_AFTER_FIN = (8, 9, 11, 6)


class ByteCount(msgspec.Struct, frozen=True):
    """Bytes in both directions."""

    sent: int = 0
    received: int = 0

    def __add__(self, other: ByteCount) -> ByteCount:
        return ByteCount(self.sent + other.sent, self.received + other.received)

    def __sub__(self, other: ByteCount) -> ByteCount:
        return ByteCount(self.sent - other.sent, self.received - other.received)


class Traffic(msgspec.Struct, frozen=True):
    """What passed over the link to one peer."""

    payload: ByteCount  # content of frames, and messages of MPyC's own protocols, without headers
    socket: ByteCount  # everything that the socket passed
    kernel: ByteCount | None  # the same as the kernel counts it

    def __add__(self, other: Traffic) -> Traffic:
        kernel = None if self.kernel is None or other.kernel is None else self.kernel + other.kernel
        return Traffic(self.payload + other.payload, self.socket + other.socket, kernel)

    def __sub__(self, other: Traffic) -> Traffic:
        kernel = None if self.kernel is None or other.kernel is None else self.kernel - other.kernel
        return Traffic(self.payload - other.payload, self.socket - other.socket, kernel)


class TrackedSocket(socket.socket):
    """A socket that states when it is closed; what it accepts are sockets of its class, which do not block."""

    on_close: Callable[[], object] | None = None  # called once, when the file descriptor has been given back

    def accept(self) -> tuple[Self, Any]:
        """Accept a connection."""
        connection, address = super().accept()
        accepted = self.__class__(fileno=connection.detach())
        accepted.setblocking(False)
        return accepted, address

    def close(self) -> None:
        """Close the socket and call `on_close`."""
        super().close()
        told, self.on_close = self.on_close, None
        if told is not None:
            told()


class CountingSocket(TrackedSocket):
    """A socket that counts the bytes that pass; sockets that it accepts count too."""

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None):
        super().__init__(family, type, proto, fileno)
        self._sent = self._received = 0

    @property
    def count(self) -> ByteCount:
        """Bytes passed so far."""
        return ByteCount(self._sent, self._received)

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        """Send some bytes and count them."""
        return self._count_sent(super().send(data, flags))

    def sendmsg(self, buffers: Iterable[ReadableBuffer], *rest: Any) -> int:
        """Send some bytes from several buffers and count them."""
        return self._count_sent(super().sendmsg(buffers, *rest))

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Receive some bytes and count them."""
        data = super().recv(size, flags)
        self._received += len(data)
        return data

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        """Receive some bytes into a buffer and count them."""
        count = super().recv_into(buffer, nbytes, flags)
        self._received += count
        return count

    def _count_sent(self, count: int) -> int:
        self._sent += count
        return count


def kernel_count(link: socket.socket) -> ByteCount | None:
    """Ask the kernel how many bytes passed between the process and an open TCP socket."""
    if not counts_tcp_bytes() or link.fileno() < 0:
        return None
    try:
        waiting, grown = -1, _waiting(link)
        while waiting != grown:  # bytes that arrived between two system calls would be in one figure alone
            waiting = grown
            info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            grown = _waiting(link)
    except OSError:
        return None
    if len(info) < _TCP_INFO_BYTES:
        return None
    (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED)
    (not_sent,) = struct.unpack_from("=I", info, _NOT_SENT)
    sent, sent_again = struct.unpack_from("=QQ", info, _BYTES_SENT)
    fin = info[_STATE] in _AFTER_FIN
    return ByteCount(sent - sent_again + not_sent, received - waiting - fin)


def _waiting(link: socket.socket) -> int:
    """Return the number of bytes in the receive queue, which only grows while no party reads."""
    waiting = array.array("i", [0])
    fcntl.ioctl(link, termios.FIONREAD, waiting)
    return waiting[0]


def is_loopback(host: str) -> bool:
    """Return whether a name or an address is one of this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
