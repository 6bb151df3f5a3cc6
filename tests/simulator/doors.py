"""The world of doors: clients who send reports, and take some back, at servers that hand them on and then release."""

import asyncio
import collections
import contextvars
import json
import sqlite3
import traceback

import aiohttp

from dpmpc.base.errors import DpmpcError
from dpmpc.collect.intake import doors, service, serving
from dpmpc.collect.intake.admission import Limits
from dpmpc.collect.intake.connections import serve_http
from dpmpc.collect.intake.doors import Outbox
from dpmpc.collect.intake.withdrawals import Withdrawals
from dpmpc.collect.terms.endpoints import FINAL, SEALED_UPLOADS, STORED, WITHDRAWALS
from dpmpc.collect.terms.withdrawal_verdict import WITHDRAWN, Fate
from dpmpc.collect.upload.sealing import SealedReports
from simulator import release
from simulator.loop import NODE, START
from simulator.net import Node

WEB, PEERS = "web", "peers"  # services of a server, whose ports follow one another: see `collection_servers`
FEWEST = 12  # clients


class Base(release.Base):
    """Servers that hold nothing yet, and sealed reports."""

    count = 40

    def __init__(self, folder, world):
        super().__init__(folder, world)
        form = SealedReports(self.collection)
        self.sealed = [form.seal(records) for records in zip(*self.records, strict=True)]

    def _fill(self, server, form, records):
        """Leave a folder as it is."""


class _Connector(aiohttp.BaseConnector):
    """Connects a session of aiohttp over the network of the simulation."""

    def __init__(self, **options):
        super().__init__(limit=1)
        self._node = NODE.get()

    async def _create_connection(self, req, traces, timeout):
        world = self._node.world
        service_number, server = divmod(req.url.port - release.FIRST_PORT, len(world.base.images))
        try:
            return await world.net.dial(self._node, server, (WEB, PEERS)[service_number], self._factory)
        except OSError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error


def make_ready():
    """Have doors dial over the network of the simulation, look at the clock less often, and be watched."""
    release.make_ready()
    aiohttp.TCPConnector = _Connector
    service.CLOCK_SECONDS = serving.CLOCK_SECONDS = 5.0
    doors.KEYS_SECONDS = 60.0
    keep, take = Outbox.withdraw, Withdrawals.take

    def withdraw(self, entries):
        keep(self, entries)
        NODE.get().world.kept.update((NODE.get().number, name, server) for name, _, left in entries for server in left)

    async def taken(self, body, **options):
        reply = await take(self, body, **options)
        NODE.get().world.answered.update((NODE.get().number, name) for name in self._read_secrets(body))
        return reply

    Outbox.withdraw, Withdrawals.take = withdraw, taken


class Visitor(Node):
    """A client with one report, which may take it back: before, while or after it sends it, at any door."""

    def __init__(self, world, number):
        super().__init__(f"client-{number}", f"10.1.{number}.1")
        self.world, self.number = world, number

    async def visit(self):
        """Send the report until all servers have it, and withdraw it, or one of the two."""
        rng = self.world.rng
        await asyncio.sleep(rng.uniform(0, 40))
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(), timeout=aiohttp.ClientTimeout(total=30)
        ) as self._http:
            withdraws, sends = rng.random() < 0.4, rng.random() < 0.8
            if sends or not withdraws:
                await self._send(rng.choice((1, 2, 30)) if withdraws else 30)
            if withdraws:
                latest = self.world.faults_seconds + 60  # when a release is under way or over
                await asyncio.sleep(rng.choice((0.0, rng.uniform(0, 3), rng.uniform(0, 80), rng.uniform(0, latest))))
                await self._withdraw()
                for _ in range(rng.choice((0, 1, 3))):  # a proxy that repeats what it has seen
                    await self._send(1)

    async def _send(self, attempts):
        world = self.world
        for _ in range(attempts):
            status, content = await self._post(SEALED_UPLOADS, world.base.sealed[self.number])
            world.answers["report", status] += 1
            if status in (200, 202):
                for server, answer in content["reports"][0].items():
                    if answer == STORED:
                        world.stored[self.number].add(int(server))
            if len(world.stored[self.number]) == len(world.servers) or status in FINAL:
                return
            await asyncio.sleep(world.rng.expovariate(0.2))

    async def _withdraw(self):
        world = self.world
        world.withdrawing.add(self.number)
        for _ in range(20):
            status, content = await self._post(WITHDRAWALS, world.base.secrets[self.number])
            world.answers["withdrawal", status] += 1
            if set(content.get("reports", ["no answer"])) <= {*WITHDRAWN, Fate.NEVER}:
                world.withdrawn[self.number].add(content["server"])
            if status == 200 or (status in FINAL and world.rng.random() < 0.7):
                return
            await asyncio.sleep(world.rng.expovariate(0.2))

    async def _post(self, path, body):
        """Return status and content of the answer of some door; 0 without one."""
        world = self.world
        port = release.FIRST_PORT + world.rng.randrange(len(world.servers))
        url = f"https://127.0.0.1:{port}{path.format(digest=world.base.collection.digest.hex())}"
        try:
            async with self._http.post(url, data=body) as response:
                return response.status, json.loads(await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return 0, {}


class World(release.World):
    """One simulation of doors, clients and the release; see `release.World`."""

    faults_seconds = 200.0
    stores_are_put_back = False  # which would lose what was acknowledged since
    operations = (120, 900)

    def __init__(self, *given, **more):
        self.stored, self.withdrawn = collections.defaultdict(set), collections.defaultdict(set)
        self.withdrawing, self.answers = set(), collections.Counter()
        self.kept, self.answered = set(), set()
        super().__init__(*given, **more)

    def _closing_times(self, servers):
        first = START + self.rng.uniform(30, 120)
        return [first + self.rng.uniform(0, 30) for _ in range(servers)]

    def _lives_of(self, server):
        return [*super()._lives_of(server), self._serve(server)]

    async def _serve(self, server):
        """Run `dpmpc serve` again and again, as a supervisor of services does."""
        collection, number = self.base.collection, server.number
        while server.alive:
            try:
                with (
                    server.folder.open_spool(collection, number, writer=True) as spool,
                    server.folder.open_ledger() as ledger,
                ):
                    await self._take_requests(server, spool, ledger)
            except (DpmpcError, OSError) as error:
                self.log(f"server {number} serves no more: {type(error).__name__}: {error}")
                await asyncio.sleep(self.rng.uniform(1, 10))
            except Exception:
                if server.alive and not server.disk.frozen:
                    self.problem("crash of the code", traceback.format_exc())
                return

    async def _take_requests(self, server, spool, ledger):
        limits = Limits(rate=1e6)
        work = serving.at_work(self.base.collection, server.number, server.folder, spool, ledger, limits=limits)
        async with work as (answering, tasks):
            runners = []
            try:
                for application, name in ((answering.clients(behind_proxy=False), WEB), (answering.peers(), PEERS)):
                    runners.append(await serve_http(application, limits, []))
                    self.net.listen(server.number, name, server, runners[-1].server)
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.net.stop_listening(server, WEB, PEERS)
                for runner in runners:
                    await runner.cleanup()

    def _start_clients(self):
        numbers = self.rng.sample(range(self.base.count), self.rng.randint(FEWEST, self.base.count))
        self._visitors = [Visitor(self, number) for number in numbers]
        for visitor in self._visitors:
            context = contextvars.copy_context()
            context.run(NODE.set, visitor)
            context.run(self.loop.create_task, visitor.visit())

    def _end(self):
        for visitor in self._visitors:
            visitor.alive = False
        super()._end()

    # What has to hold

    def _complete(self):
        """Return the reports that all servers have acknowledged, and that no client took back."""
        return {
            number
            for number, servers in self.stored.items()
            if len(servers) == len(self.servers) and number not in self.withdrawing
        }

    def _may_lack_a_release(self):
        return len(self._complete()) < release.MINIMUM and self.errors["TooFewClients"] > 0

    def _check_batch(self, batch):
        """Check that the batch has what all have acknowledged, and nothing that one server said is withdrawn."""
        if lost := self._complete() - batch:
            self.problem("reports are lost", f"{sorted(lost)}, acknowledged by all servers")
        if released := {number for number, servers in self.withdrawn.items() if servers} & batch:
            self.problem("withdrawn reports are released", f"{sorted(released)}")
        for number, name, server in sorted(self.kept):
            if (server, name) not in self.answered and name not in self._waiting(number, server):
                self.problem("a withdrawal is lost", f"kept by server {number} for server {server}")

    def _waiting(self, number, server):
        """Return the ids of what waits in the outbox of one server for another."""
        path = self.servers[number].folder.spool / "outbox.sqlite"
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            return {bytes(name) for (name,) in database.execute("SELECT id FROM waiting WHERE server = ?", (server,))}
