"""The workers of a Dask cluster on this machine, one of which may be killed."""

import contextlib
import os
import signal

import dask
import distributed


@contextlib.contextmanager
def two_workers():
    """Start two workers, each a process of its own, and return the address of their scheduler."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers,
    ):
        yield workers.scheduler_address


class Killing:
    """A cluster one of whose workers is killed after the first result of each map."""

    def __init__(self, inner):
        self._inner, self.killed = inner, []

    def __enter__(self):
        self._inner.__enter__()
        return self

    def __exit__(self, *error):
        self._inner.__exit__(*error)

    def map(self, task, items):
        for number, result in enumerate(self._inner.map(task, items)):
            if not number:
                process = next(iter(self._inner._client.run(os.getpid).values()))
                os.kill(process, signal.SIGKILL)
                self.killed.append(process)
            yield result
