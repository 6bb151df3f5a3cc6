"""Run the tasks of one party, a server or a data owner, on the workers of a Dask cluster.

A scheduler and its workers run what this process sends them, and this process loads what they return: all of them are
parts of one party. They see its shares or rows, and could return anything. Two parties that use one cluster are one.

Promised: results come in the order of the items; a task whose worker dies is run again by another one, and where
workers die with it four times the error is a `ProtocolFailure`; a worker that has another version of dpmpc runs
nothing; links beyond this machine are encrypted.
"""

from __future__ import annotations

import collections
import importlib.metadata
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar

from dpmpc.base.errors import InputError, ProtocolFailure
from dpmpc.base.system import keep_freed_memory
from dpmpc.parties.network.sockets import is_loopback

try:
    import distributed
except ImportError as error:
    raise InputError(
        "cluster", "Dask is needed: pip install '.[cluster]' in the source folder of dpmpc, at all workers"
    ) from error

Item = TypeVar("Item")
Result = TypeVar("Result")

_CLIENT: Any = distributed.Client  # without types
AHEAD = 2  # items for each thread of a worker that are sent before their turn


class DaskCluster:
    """A connection to the scheduler of a cluster.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tls://HOST:PORT``, with the certificates that Dask's configuration names, or
        ``tcp://HOST:PORT`` where the host is this machine.
    patience : float
        Seconds that connecting, and each result, may take.
    """

    def __init__(self, address: str, patience: float):
        self.address, self._patience = require_encrypted(address), patience
        try:
            self._client: Any = _CLIENT(address, timeout=patience, set_as_default=False)
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise InputError("cluster", f"{address} cannot be reached: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of a task for each item, in order; what the task raises is raised here."""
        waiting = collections.deque[Any]()
        left = iter(items)
        try:
            while True:
                threads = sum(self._client.nthreads().values())
                while len(waiting) < max(1, AHEAD * threads) and (item := next(left, None)) is not None:
                    waiting.append(self._client.submit(run_same_version, _version(), task, item, pure=False))
                if not waiting:
                    return
                yield self._result(waiting.popleft())
        finally:
            if self._client.status == "running":  # once it is closed the scheduler has forgotten them
                self._client.cancel(list(waiting))

    def _result(self, future: Any) -> Any:
        try:
            return future.result(timeout=self._patience)
        except TimeoutError as error:
            future.cancel()
            raise ProtocolFailure(
                f"cluster: {self.address} returned no result within {self._patience:g} s; it has "
                f"{len(self._client.nthreads())} workers"
            ) from error
        except distributed.KilledWorker as error:
            raise ProtocolFailure(f"cluster: workers of {self.address} died again and again: {error}") from error


def run_same_version(version: str, task: Callable[[Item], Result], item: Item) -> Result:
    """Run a task at a worker that has this version of dpmpc."""
    if version != _version():
        raise InputError("cluster", f"a worker with dpmpc {_version()}", f"dpmpc {version}, that of this party")
    keep_freed_memory()
    return task(item)


def _version() -> str:
    return importlib.metadata.version("dpmpc")


def require_encrypted(address: str) -> str:
    """Return the address of a scheduler; refuse one whose links others could read."""
    parts = urllib.parse.urlsplit(address)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme == "tls" and host and port:
        return address
    if parts.scheme != "tcp" or not host or not port or not is_loopback(host):
        raise InputError(
            "cluster",
            f"{address!r}",
            "tls://HOST:PORT, or tcp://HOST:PORT where the host is this machine",
            "workers see what this party alone may see",
        )
    return address
