"""An event loop with a virtual clock: waiting costs no time, and threads are functions that run whole, later."""

import asyncio
import contextvars
import ctypes
import itertools
import os

START = 1_900_000_000.0  # seconds since 1970, when a simulation begins
TURN_SECONDS = 2e-6  # that each turn of the loop takes, as it does on a machine
CALLED, RETURNED = 500, 2000  # functions in threads: calls that begin, and results that arrive, a second

#: The node whose code runs: tasks and callbacks inherit it.
NODE = contextvars.ContextVar("node", default=None)
#: The tasks of the run of a party, which its runtime cancels when it ends.
RUN = contextvars.ContextVar("run", default=None)

SHIM = ctypes.CDLL(os.environ["DPMPC_SIMULATOR_SHIM"])
SHIM.simulator_clock.argtypes = [ctypes.c_int, ctypes.c_int64]
SHIM.simulator_random.argtypes = [ctypes.c_int, ctypes.c_uint64]


def set_clock(seconds):
    """Make this the time of all clocks of the process, in seconds since 1970."""
    SHIM.simulator_clock(1, int(seconds * 1e9))


class Ordered(dict):
    """A set in the order in which its elements were added."""

    def add(self, element):
        self[element] = None

    def discard(self, element):
        self.pop(element, None)


class Stuck(Exception):
    """Nothing is scheduled, so that nothing can happen any more."""


_numbers = itertools.count()


class _Numbered:
    """Hashed by a number instead of its address, which no seed decides and which orders sets such as asyncio's."""

    __slots__ = ()

    def __hash__(self):
        if not hasattr(self, "number"):
            self.number = next(_numbers)
        return self.number


class _Task(_Numbered, asyncio.Task):
    pass


class _Future(_Numbered, asyncio.Future):
    pass


class _Clock:
    """In the place of the selector: where a loop would wait, time passes."""

    def __init__(self, loop):
        self._loop = loop

    def select(self, timeout):
        if timeout is None:
            raise Stuck("nothing is scheduled, and nothing can happen any more")
        self._loop.now += max(timeout, TURN_SECONDS)
        set_clock(self._loop.now)
        return []

    def close(self):
        pass


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs all nodes of a simulation; `errors` has what no task has taken."""

    def __init__(self, rng):
        super().__init__()
        self.rng, self.now, self.errors = rng, START, []
        self._selector, self._clock_resolution = _Clock(self), 1e-6
        self.set_task_factory(self._make_task)
        set_clock(self.now)

    def time(self):
        return self.now

    def create_future(self):
        return _Future(loop=self)

    def call_soon_threadsafe(self, callback, *args, context=None):
        return self.call_soon(callback, *args, context=context)

    def add_signal_handler(self, *_):
        pass

    def remove_signal_handler(self, *_):
        return True

    def set_exception_handler(self, handler):
        pass  # of one runtime among several

    def call_exception_handler(self, context):
        node = NODE.get()
        if node is None or node.alive:
            self.errors.append(f"{context.get('message')} {context.get('exception')!r}")

    def run_in_executor(self, executor, function, *args):
        """Run a function later, whole: what a thread does in between is not interleaved."""
        future, node = self.create_future(), NODE.get()

        def is_gone():
            return node is not None and not node.alive

        def call():
            if is_gone():
                return
            try:
                result, error = function(*args), None
            except BaseException as raised:
                result, error = None, raised
            self.call_later(self.rng.expovariate(RETURNED), arrive, result, error)

        def arrive(result, error):
            if future.done() or is_gone():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.call_later(self.rng.expovariate(CALLED), call)
        return future

    async def shutdown_default_executor(self):
        pass

    async def shutdown_asyncgens(self):
        pass

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass

    def _make_task(self, loop, coroutine, **options):
        task = _Task(coroutine, loop=loop, **options)
        for group in (getattr(NODE.get(), "tasks", None), RUN.get()):
            if group is not None:
                group.add(task)
                task.add_done_callback(group.discard)
        return task
