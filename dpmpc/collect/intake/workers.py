"""Run several processes of one server, which share its open sockets and its database.

Promised: a worker that ends, or is killed, begins again a second later, and meanwhile the others take what comes to the
sockets; SIGTERM and SIGINT reach all of them; none outlives the process that began it, where the system can see to
that. Not promised: that the limits of one address are exact: each worker counts for itself, and has its part.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from dpmpc.base import system
from dpmpc.base.errors import DpmpcError

LOGGER = logging.getLogger("dpmpc.collect")
MOST_WORKERS = 64
RESTART_SECONDS = 1.0  # until a worker that ended begins again


def supervise(work: Callable[[int], None], workers: int, on_started: Callable[[], None]) -> None:
    """Run workers as processes that share the open sockets, until a signal stops them; begin those anew that end.

    Whatever one of them had acknowledged is in the database, and what came to the sockets meanwhile goes to the others.
    """
    running: dict[int, int] = {}  # the number of each worker by its process
    stopping = threading.Event()

    def stop(number: int, frame: object) -> None:
        stopping.set()
        for process in running:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(process, signal.SIGTERM)

    def begin(worker: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, before)  # a signal finds a process that is begun in `running`
        try:
            if not stopping.is_set():
                running[_begin(work, worker, before)] = worker
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, before)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for worker in range(workers):
            begin(worker)
        on_started()
        while running:
            process, status = os.wait()
            if process not in running:
                continue
            worker = running.pop(process)
            if not stopping.is_set():
                LOGGER.error(
                    "worker %d ended with status %d; it begins again", worker, os.waitstatus_to_exitcode(status)
                )
                time.sleep(RESTART_SECONDS)
            begin(worker)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _begin(work: Callable[[int], None], worker: int, handlers: Mapping[signal.Signals, Any]) -> int:
    """Begin a worker while signals are blocked, which end it once its own handlers are there; return its process."""
    parent = os.getpid()
    process = os.fork()
    if process:
        return process
    try:
        system.end_with_parent(parent)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
        work(worker)
    except DpmpcError as error:
        LOGGER.error("%s: %s", type(error).__name__, error)
        os._exit(1)
    except BaseException:
        LOGGER.exception("a worker failed")
        os._exit(1)
    os._exit(0)
