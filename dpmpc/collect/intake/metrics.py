"""Count what a server takes and refuses, and log refusals by their cause.

Every refused upload is counted and logged by its cause, a line a minute for each at most, with the number of those kept
back (`logs.RateLimitedLogger`).

The workers of one server write their figures to files in a folder that they share (`share_figures`), by the
multiprocess mode of prometheus_client, and each answers with the sums of all.

Promised: nothing that a client sends is logged. The metrics are in the text format of Prometheus, and hold no address,
report id or token.
"""

from __future__ import annotations

import collections
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dpmpc.base.errors import InputError, SpoolError
from dpmpc.collect.intake.logs import RateLimitedLogger
from dpmpc.collect.intake.replies import Reply, reply_to
from dpmpc.collect.store.blocks import Added

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.multiprocess import MultiProcessCollector
except ImportError as error:
    raise InputError("dpmpc.collect needs prometheus-client: pip install '.[intake]' in its source folder") from error

_COMMIT_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_COMMIT_REQUESTS = (1, 3, 10, 30, 100, 300, 1000)


_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # of prometheus_client


def share_figures(folder: Path, worker: int) -> None:
    """Have this process, a worker, keep its figures in a folder that all workers share, before it makes `Metrics`.

    A worker that begins again goes on with its figures.
    """
    os.environ[_FOLDER] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: worker)


class Metrics:
    """What one server takes and refuses, in its own registry and in the log.

    Parameters
    ----------
    log : RateLimitedLogger
        Where refusals go.
    stored : callable
        Returns how many reports the store has, whichever worker added them.
    """

    def __init__(self, log: RateLimitedLogger, stored: Callable[[], float]):
        registry = CollectorRegistry()
        self._registry, self._stored, self._log = registry, stored, log
        self._refused: collections.Counter[str] = collections.Counter()
        self._accepted = Counter("dpmpc_reports_accepted", "Reports stored and acknowledged", registry=registry)
        self._duplicates = Counter("dpmpc_reports_duplicate", "Reports acknowledged again", registry=registry)
        self._rejected = Counter("dpmpc_requests_rejected", "Uploads turned away", ["reason"], registry=registry)
        self._bytes = Counter("dpmpc_upload_bytes", "Bytes of accepted bodies", registry=registry)
        self._seconds = Histogram(
            "dpmpc_commit_seconds", "Time to store a group of uploads", buckets=_COMMIT_SECONDS, registry=registry
        )
        self._requests = Histogram(
            "dpmpc_commit_requests", "Uploads of a group", buckets=_COMMIT_REQUESTS, registry=registry
        )
        self._waiting = Gauge(
            "dpmpc_waiting_bytes",
            "Bytes that uploads hold until they are stored",
            multiprocess_mode="sum",
            registry=registry,
        )
        self._waiting.set(0)  # a worker that was killed held some

    def count_stored(self, added: Added, length: int) -> None:
        """Count what was stored of a body."""
        self._accepted.inc(added.stored)
        self._duplicates.inc(added.duplicates)
        self._bytes.inc(length)

    def refuse(self, error: Exception) -> Reply:
        """Count and log a refused upload or report; return the reply to its sender. Others are raised again."""
        reply = reply_to(error)
        if isinstance(error, SpoolError) and reply.cause == "SpoolError":
            self._log.log(logging.ERROR, "SpoolError: %s", error)
        self.count_refusal(reply)
        return reply

    def count_refusal(self, reply: Reply) -> None:
        """Count and log an upload that is refused."""
        self._rejected.labels(reply.cause).inc()
        self._refused[reply.cause] += 1
        self._log.log(logging.INFO, f"upload refused: {reply.status} {reply.cause}", cause=reply.cause)

    def hold(self, change: int) -> None:
        """Count bytes that an upload holds from now on, or holds no more where they are negative."""
        self._waiting.inc(change)

    def observe_group(self, requests: int, seconds: float) -> None:
        """Count one commit."""
        self._requests.observe(requests)
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """Return all figures, added up over the workers of this server."""
        registry = self._registry
        if folder := os.environ.get(_FOLDER):
            MultiProcessCollector(registry := CollectorRegistry(), folder)
        return bytes(generate_latest(registry) + generate_latest(self))

    def collect(self) -> Iterator[Any]:
        """Yield what the store holds, which no worker adds to the figure of another, as prometheus_client requires."""
        yield GaugeMetricFamily("dpmpc_reports_stored", "Reports in the spool", self._stored())

    def totals(self) -> str:
        """Return how many uploads were refused, by cause."""
        return ", ".join(f"{cause} {count:,}" for cause, count in sorted(self._refused.items())) or "none"
