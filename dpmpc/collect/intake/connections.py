"""Open the sockets of a server of a collection, and serve HTTP on them.

Strangers who send slowly, send nothing or come in thousands are kept in bounds by the reverse proxy before a web
endpoint; the pinned port and the monitor are for few, whom a firewall lets through.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from dpmpc.base.errors import InputError
from dpmpc.collect.intake.admission import Limits

try:
    from aiohttp import web
except ImportError as error:
    raise InputError("dpmpc.collect needs aiohttp: pip install '.[intake]' in its source folder") from error

LINGER_SECONDS = 1.0  # that the rest of a refused body is read, so that its sender sees the answer
SHUTDOWN_SECONDS = 10.0  # for the requests that have begun when a server stops
BACKLOG = 1024
Address: TypeAlias = "tuple[str, int]"
ProxyPlace: TypeAlias = "Address | Path"
_SILENT = logging.getLogger("dpmpc.collect.http")
_SILENT.disabled = True  # aiohttp quotes what clients send


def open_for_proxy(place: ProxyPlace) -> socket.socket:
    """Return a socket that listens for a proxy: at a port of the loopback interface, or at a path."""
    if isinstance(place, Path):
        return _open_path(place)
    host, port = place
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        raise InputError("proxy", f"cannot listen on {host}:{port}: {error}") from error


def close_for_proxy(place: ProxyPlace, listener: socket.socket) -> None:
    """Close the socket, and leave no path behind."""
    listener.close()
    if isinstance(place, Path):
        place.unlink(missing_ok=True)


def _open_path(path: Path) -> socket.socket:
    """Listen at a path that the proxy's group may connect to, instead of one that nobody listens at any more."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise InputError("proxy", path, "a path that is free")
            with socket.socket(socket.AF_UNIX) as other, contextlib.suppress(ConnectionRefusedError):
                other.connect(str(path))
                raise InputError("proxy", f"{path} given, where a program listens; a path that is free expected")
            path.unlink()
        listener.bind(str(path))
        path.chmod(0o660)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InputError("proxy", f"cannot listen at {path}: {error}") from error
    except InputError:
        listener.close()
        raise
    return listener


async def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at all addresses of a host."""
    listeners: list[socket.socket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, address in dict.fromkeys(found):
            listeners.append(socket.create_server(address, family=family, backlog=BACKLOG))
    except (OSError, UnicodeError) as error:  # the latter for a name that no host can have
        for listener in listeners:
            listener.close()
        raise InputError("listen", f"cannot listen on {host}:{port}: {error}") from error
    return listeners


async def serve_http(
    application: Any, limits: Limits, listeners: Iterable[socket.socket], context: ssl.SSLContext | None = None
) -> Any:
    """Serve an application on open sockets; return what ends that, with ``cleanup()``."""
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=_SILENT,
        auto_decompress=False,  # a body is as long as its header says
        keepalive_timeout=limits.read_seconds,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    for listener in listeners:
        await web.SockSite(runner, listener, backlog=BACKLOG, ssl_context=context).start()
    return runner
