"""Processes of tests: children of one fork server that has everything imported already.

A server of a release imports NumPy, SciPy, scikit-learn and Matplotlib, which takes seconds. A fork of a process that
has them starts at once.
"""

import functools
import multiprocessing
import os
import threading
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

TESTS = Path(__file__).parents[1]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["support.preloaded"])
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
_starting = threading.Lock()


def begin(target, *arguments):
    """Start a process that calls a function; return it."""
    with _starting:
        _start_server()
    process = CONTEXT.Process(target=target, args=arguments)
    process.start()
    return process


@functools.cache
def _start_server():
    """Start the fork server; Python 3.11 does not tell it where our modules are, so the environment does."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", *ONE_THREAD)}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), str(TESTS.parent), *filter(None, [before["PYTHONPATH"]])])
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def end():
    """End the fork server and what watches it, and wait: what they have written is whole then."""
    forkserver._forkserver._stop()
    resource_tracker._resource_tracker._stop()
