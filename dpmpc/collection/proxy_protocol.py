"""Whose connection a proxy hands on: the header of the PROXY protocol, version 2.

A proxy that passes TCP through, or that ends TLS before a door, sends this header first, before TLS and before any
request: a signature of 12 bytes, version and command, address family, length, then source, destination and perhaps
further fields, which are read and left alone. Limits then count the caller and not the proxy.

Promised: no byte after the header is read; a header that is not complete within `HEADER_SECONDS`, is longer than
`LONGEST` or names nobody is an error. Only networks that were listed are read a header from (`Proxies.has`): from
anybody else the same bytes are a broken TLS handshake or request. Not promised: that a listed proxy tells the truth.
"""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections.abc import Sequence
from typing import TypeAlias

from dpmpc.errors import InputError
from dpmpc.network.sockets import TrackedSocket
from dpmpc.untrusted import printable

HEADER_SECONDS = 1.0
LONGEST = 1024  # bytes after the first 16
_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_LOCAL, _PROXY = 0x20, 0x21  # version 2, and the command
_SOURCES = {0x11: (4, 12), 0x21: (16, 36)}  # TCP over IPv4 and IPv6: bytes of an address, of addresses and ports
Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


class ProxyHeaderError(ConnectionError):
    """What a proxy sent is not a header of version 2 that names a caller."""


class Proxies:
    """Networks whose connections begin with a header: proxies alone, as whoever connects from there names itself."""

    def __init__(self, networks: Sequence[str] = ()):
        self._networks = tuple(map(_network, networks))

    @property
    def networks(self) -> list[str]:
        """Return them as they were given."""
        return [str(network) for network in self._networks]

    def has(self, address: str | None) -> bool:
        """Return whether a connection from an address begins with a header."""
        try:
            found = ipaddress.ip_address(address or "")
        except ValueError:
            return False  # a local socket
        return any(found in network for network in self._networks)

    @property
    def are_local(self) -> bool:
        """Whether one of them is on this host, and so may stand before a door."""
        return any(network.is_loopback for network in self._networks)


def _network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise InputError(f"proxied: {printable(text)!r} given, a network such as 10.0.0.7/32 expected") from error
    if not network.prefixlen:
        raise InputError(f"proxied: {network} given, the addresses of proxies expected: anybody could give any address")
    return network


async def read_header(connection: TrackedSocket) -> str | None:
    """Read the header, and nothing after it; return the caller's address, or None where the proxy calls for itself."""
    async with asyncio.timeout(HEADER_SECONDS):
        signature, command, family, length = struct.unpack("!12sBBH", await _exactly(connection, 16))
        if signature != _SIGNATURE or command not in (_LOCAL, _PROXY) or length > LONGEST:
            raise ProxyHeaderError("a header of version 2 expected")
        rest = await _exactly(connection, length)
    if command == _LOCAL:
        return None
    size, least = _SOURCES.get(family, (0, LONGEST + 1))
    if length < least:
        raise ProxyHeaderError("a caller's address expected")
    caller = ipaddress.ip_address(rest[:size])
    if isinstance(caller, ipaddress.IPv6Address) and caller.ipv4_mapped is not None:
        caller = caller.ipv4_mapped
    return str(caller)


async def _exactly(connection: TrackedSocket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        part = await asyncio.get_running_loop().sock_recv(connection, count - len(content))
        if not part:
            raise ProxyHeaderError("the proxy has closed the connection")
        content += part
    return content
