"""What an operator watches, in the text format of Prometheus. No address, report id or token is among it."""

from __future__ import annotations

from collections.abc import Callable

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ImportError as error:
    from dpmpc.errors import InputError

    raise InputError("dpmpc.intake needs prometheus-client: pip install 'dpmpc[intake]'") from error

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_REQUESTS = (1, 3, 10, 30, 100, 300, 1000)


class Metrics:
    """The figures of one server, in a registry of their own.

    Parameters
    ----------
    stored : callable
        Reports in the spool.
    waiting : callable
        Bytes that requests hold.
    connections : callable
        Open ones.
    """

    def __init__(self, stored: Callable[[], float], waiting: Callable[[], float], connections: Callable[[], float]):
        registry = CollectorRegistry()
        self._registry = registry
        self.accepted = Counter("dpmpc_reports_accepted", "Reports stored and acknowledged", registry=registry)
        self.duplicates = Counter("dpmpc_reports_duplicate", "Reports acknowledged again", registry=registry)
        self.rejected = Counter("dpmpc_requests_rejected", "Uploads turned away", ["reason"], registry=registry)
        self.refused = Counter(
            "dpmpc_connections_refused", "Connections that were one too many", ["reason"], registry=registry
        )
        self.bytes = Counter("dpmpc_upload_bytes", "Bytes of accepted bodies", registry=registry)
        self._seconds = Histogram(
            "dpmpc_commit_seconds", "Time to store a group of uploads", buckets=_SECONDS, registry=registry
        )
        self._requests = Histogram("dpmpc_commit_requests", "Uploads of a group", buckets=_REQUESTS, registry=registry)
        for name, text, function in (
            ("dpmpc_reports_stored", "Reports in the spool", stored),
            ("dpmpc_waiting_bytes", "Bytes that uploads hold until they are stored", waiting),
            ("dpmpc_connections", "Open connections", connections),
        ):
            Gauge(name, text, registry=registry).set_function(function)

    def observe_group(self, requests: int, seconds: float) -> None:
        """Count one commit."""
        self._requests.observe(requests)
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """Return all figures."""
        return bytes(generate_latest(self._registry))
