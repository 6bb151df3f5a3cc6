"""The servers of a collection in a simulation: their lives, and the parts of a party that meet network and loop."""

import asyncio
import functools
from pathlib import Path

from dpmpc.collect.opening import release_process, release_protocol
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.parties.network import backend
from dpmpc.parties.network.connecting import INTRODUCTION_SECONDS, Connector
from dpmpc.parties.network.links import PeerLink
from dpmpc.parties.network.naming import parties_are_servers
from dpmpc.parties.network.party import Party
from dpmpc.parties.network.runtime import PartyRuntime
from dpmpc.parties.network.settings import PartySettings, digest_of
from dpmpc.parties.network.sockets import ByteCount
from simulator.disk import Disk
from simulator.loop import RUN, Ordered
from simulator.net import Node

FIRST_PORT = 4000  # of the parties, which nobody opens
RELEASE = "release"  # the service of a server during a release

backend.default_options = functools.cache(backend.default_options)  # which parses them anew for each party


class _NoSocket:
    """In the place of the socket of a link, whose bytes nobody counts here."""

    count = ByteCount()

    def fileno(self):
        return -1


class SimulatedConnector(Connector):
    """Links a party over the network of the simulation: what differs is the dialling and accepting of one caller."""

    def __init__(self, runtime, node, net):
        self._runtime, self._settings, self._node, self._net = runtime, runtime.settings, node, net
        self._callers = [peer for peer in runtime.peers if peer < runtime.pid]
        self._began, self._admitted, self._obstacles = 0.0, asyncio.Event(), {}

    async def _listener(self):
        return self

    async def _dial_once(self, peer):
        await self._net.dial(self._node, peer, RELEASE, lambda: PeerLink(self._runtime, _NoSocket(), peer))

    async def _accept(self, listener):
        callers = asyncio.Queue()

        def make_link():
            link = PeerLink(self._runtime, _NoSocket())
            callers.put_nowait(link)
            return link

        self._net.listen(self._node.name, RELEASE, self._node, make_link)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    group.create_task(self._introduce(await callers.get()))
        finally:
            self._net.stop_listening(self._node, RELEASE)

    async def _introduce(self, link):
        ends = [link.introduced, link.closed]
        await asyncio.wait(ends, timeout=INTRODUCTION_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not link.introduced.done() or link.introduced.exception() is not None:
            link.transport.abort()
        elif all(peer in self._runtime.links for peer in self._callers):
            self._admitted.set()


class SimulatedRuntime(PartyRuntime):
    """A party on the loop of the simulation, which it shares with others.

    `on_frame` is called before a frame of words leaves.
    """

    def __init__(self, settings, node, net, on_frame):
        self._set_up(settings, asyncio.get_running_loop(), lambda: SimulatedConnector(self, node, net))
        self._on_frame = on_frame

    async def send_frame(self, receiver, frame):
        self._on_frame(frame)
        await super().send_frame(receiver, frame)

    async def run_to_end(self, program):
        """Run a program, and end what this runtime alone has started."""
        tasks = Ordered()
        RUN.set(tasks)
        try:
            return await self._run_or_fail(program)
        finally:
            self.closing = True
            pending = [task for task in tasks if task is not asyncio.current_task()]
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            for link in self.links.values():
                link.transport.abort()
            await self._close_links()
            RUN.set(None)


class Server(Node):
    """One life of a server, from its start to a crash."""

    def __init__(self, world, number, image, life):
        super().__init__(number, f"10.0.0.{number}", (number, world.base.certificates[number]))
        self.world, self.number, self.life = world, number, life
        self.path = Path(world.root) / f"server-{number}-{world.seed}-{life}"
        self.out = self.path / "out.dpmpc"
        self.disk = Disk(self.path, image, world.rng)
        self.disk.on_crash = lambda: world.crash(self)
        self.loses_power = False  # rather than being killed, at its end
        self.frames, self.crash_at_frame = 0, None  # how many it has sent in this run, and before which it crashes

    @property
    def folder(self):
        return ServerFolder(self.path)

    async def release(self):
        """Take part in the release, as `dpmpc release --close` does."""
        collection, world, own = self.world.base.collection, self.world, self.folder
        world.begin_run(self)

        def tell(line):
            world.log(f"  {self.number}: {line}")

        with (
            parties_are_servers(),
            release_process.releasing(collection, self.number, own, self.out, close=True, tell=tell) as (
                server,
                settings,
            ),
        ):
            runtime = SimulatedRuntime(settings, self, world.net, lambda frame: world.check_frame(self, frame))
            runtime.party = party = Party(runtime, own.identity, None)
            return await runtime.run_to_end(release_protocol.take_part(party, server))


class Owner(Server):
    """One life of an owner, who runs the program of its base with all others."""

    async def release(self):
        """Take part in a run, as `dpmpc mix --party` and `dpmpc owners --owner` do."""
        world, base = self.world, self.world.base
        world.begin_run(self)
        name, parties = base.program.__name__, len(base.images)
        addresses = [("127.0.0.1", FIRST_PORT + number) for number in range(parties)]
        task = digest_of(name, base.arguments)
        settings = PartySettings(self.number, parties, addresses, name, base.arguments, task)
        runtime = SimulatedRuntime(settings, self, world.net, lambda frame: world.check_frame(self, frame))
        runtime.party = party = Party(runtime, self.path, None)

        async def linked():
            await runtime.start()
            return await base.program.main(party)

        return await runtime.run_to_end(linked())
