"""The world of twins: two processes of one server take part in a release from one folder.

In half of the seeds the second process meets the lock of the folder. In the others it does not, as where the folder
lies on a network file system that keeps locks on each machine: every write to the ledger compares what stands there
first, so that a server still never answers in two ways. Not promised without the lock: that others do not take the two
for an impersonation, and that a run succeeds while there are two.
"""

import asyncio
import collections
import contextlib
import types

from dpmpc.collect.store import server_folder
from dpmpc.collect.store.server_folder import ServerFolder
from simulator import damaged
from simulator.damaged import Base, DamagedWorld
from simulator.loop import NODE, START

__all__ = ["Base", "TwinsWorld", "make_ready"]

LATEST = 10.0  # seconds after the first process that the second one begins


def make_ready():
    """Prepare the process for seeds of this world."""
    damaged.make_ready()
    server_folder.time = types.SimpleNamespace(sleep=lambda seconds: None)  # a simulation has one thread
    locked = server_folder._locked

    def locked_if_that_holds(file):
        server = NODE.get()
        return server.world.has_twins_without_lock(server) or locked(file)

    server_folder._locked = locked_if_that_holds
    releasing = ServerFolder.releasing

    @contextlib.contextmanager
    def counted(self, number):
        with releasing(self, number), NODE.get().world.one_more(NODE.get()):
            yield

    ServerFolder.releasing = counted


class TwinsWorld(DamagedWorld):
    """A release of proved reports, at one server of which two processes take part."""

    def __init__(self, *given):
        super().__init__(*given)
        self._doubled = self.rng.randrange(len(self.base.images))
        self._lock_holds = self.rng.random() < 0.5
        self._releasing = collections.Counter()  # processes that take part, by life

    def has_twins_without_lock(self, server):
        """Return whether two processes of a server may hold its lock."""
        return server.number == self._doubled and not self._lock_holds and self._is_time_of_two()

    @contextlib.contextmanager
    def one_more(self, server):
        """Note that a process of a server takes part in a release, which it must do alone where the lock holds."""
        self._releasing[server] += 1
        if self._releasing[server] > 1 and self._lock_holds:
            self.problem("two processes of a server take part", f"server {server.number}")
        try:
            yield
        finally:
            self._releasing[server] -= 1

    def _is_time_of_two(self):
        return self.loop.now < START + self.faults_seconds

    def _lives_of(self, server):
        lives = super()._lives_of(server)
        return [*lives, self._operate_too(server)] if server.number == self._doubled else lives

    async def _operate_too(self, server):
        """Do what the operator does by a second process, which is ended with the faults."""
        await asyncio.sleep(self.rng.uniform(0, LATEST))
        if self._is_time_of_two():
            try:
                async with asyncio.timeout_at(START + self.faults_seconds):
                    await self._operate(server)
            except TimeoutError:
                self.log(f"server {server.number}: the second process is ended")

    def _judge(self, server, error):
        if self._lock_holds or getattr(error, "party", None) != self._doubled:
            super()._judge(server, error)

    def image_after_crash(self, server, image):
        return image  # undamaged


World = TwinsWorld
