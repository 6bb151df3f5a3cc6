"""The worlds of releases: servers whose spools are filled release them, through crashes and bad weather.

Promised by the code, and checked: see `World.check`, and `World.check_frame` for what a server is about to send.
"""

import asyncio
import collections
import contextlib
import contextvars
import hashlib
import os
import random
import sqlite3
import ssl
import traceback

import numpy as np

from bench.system import collection_servers
from dpmpc.base.errors import DpmpcError
from dpmpc.base.randomness import Stream
from dpmpc.collect.opening import proof_checks
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.terms.certificate import FALSE_PROOF
from dpmpc.collect.terms.series import Series
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.reports import ReportFormat, make_reports
from dpmpc.collect.upload.sealing import SECRET_BYTES, report_id
from dpmpc.parties.network.frames import Kind
from dpmpc.release.client import Client
from simulator.disk import files_of
from simulator.loop import NODE, SHIM, START, SimulatedLoop, Stuck, set_clock
from simulator.net import Net
from simulator.servers import FIRST_PORT, Server
from support.hostile.provers import DEEDS
from support.report_words import words_of
from support.shamir_collections import kept_names

REPORTS, MINIMUM = 24, 8
NOISE = 12.0  # standard deviations of the noise, which sums never miss by
FAULTS_SECONDS = 60.0  # of faults
PUT_BACK_CHANCE = 0.2  # that the store of a server that has crashed is restored from a copy
LATE_CHANCE = 0.5  # that a server loses power once all have the release
LIMIT_SECONDS = 2400.0  # after the last fault, within which all servers have the release
ACCUSING = ("PartyImpersonated", "Equivocation", "MalformedFrame", "BatchMismatch", "InconsistentShares")


_SKETCH = {"rows": 8, "sparsity": 2, "copies": "each"}
_PROVED = {"proved": True, "sketch": "sum", "rows": None, "copies": "auto", "noise_by": "servers"}
#: Frames that a server sends in a run, about.
FRAMES = {
    "release": 90,
    "dealing": 180,
    "proved": 130,
    "shamir": 260,
    "damaged": 130,
    "doors": 90,
    "series": 90,
    "twins": 130,
}
#: What the collections of the worlds have: a sketch with the noise of clients; the same in Shamir shares of four
#: servers, who check how they were dealt; proofs, which the servers check, and noise of their own; the same in Shamir
#: shares of four servers, who deal the noise; the first epoch of a series.
WORLDS = {
    "release": _SKETCH,
    "dealing": _SKETCH | {"servers": 4, "sharing": "shamir"},
    "proved": _PROVED,
    "shamir": _PROVED | {"servers": 4, "sharing": "shamir"},
    "doors": _SKETCH,
    "damaged": _PROVED,
    "twins": _PROVED,
    "series": _PROVED | {"proved": False, "series": Series.of("yearly", 3, 1.0, 1e-7)},
}


class Base:
    """What all seeds of a world share: identities, the task, reports, and the folders of servers that hold them."""

    count = REPORTS

    def __init__(self, folder, world):
        self.frames, choices = FRAMES[world], WORLDS[world]
        collection_servers.free_ports = lambda count: list(range(FIRST_PORT, FIRST_PORT + count))
        set_clock(START - 600)
        choices = {"minimum_batch": MINIMUM, "largest_batch": 1000, **choices}
        servers = collection_servers.Servers.make(folder, columns=("a", "y"), **choices)
        self.collection = collection = servers.collection
        self.certificates = [ssl.PEM_cert_to_DER_cert(entry.certificate) for entry in collection.servers]
        rows = np.random.default_rng(5).uniform(0, 10, (self.count, 2))
        secrets = [os.urandom(SECRET_BYTES) for _ in range(self.count)]
        self.secrets = sorted(secrets, key=lambda secret: report_id(collection.digest, secret))  # an order that replays
        self.ids = [report_id(collection.digest, secret) for secret in self.secrets]
        client = Client(collection.plan.verify(), Stream.from_os())
        self.records = make_reports(client, collection, rows, self.ids)
        if collection.proved:  # one more client proves what is false
            self.ids.append(report_id(collection.digest, os.urandom(SECRET_BYTES)))
            for own, record in zip(self.records, DEEDS["wrong products"](collection, self.ids[-1]), strict=True):
                own.append(record)
        forms = [ReportFormat(collection, server) for server in range(len(collection.servers))]
        if collection.plan.noising.by == "servers":
            self._words = None
            self._integers = client.encode(rows)
        else:
            shares = [words_of(form, b"".join(own)) for form, own in zip(forms, self.records, strict=True)]
            self._words = collection.plan.scheme.combine(shares)
        self.images = []
        for form, own in zip(forms, self.records, strict=True):
            server = servers.server_folder(form.server)
            self._fill(server, form, own)
            self.images.append(files_of(server.path))

    def _fill(self, server, form, records):
        """Put into the folder of a server what it holds in the beginning: all reports."""
        with server.open_spool(self.collection, form.server, writer=True) as spool, server.open_ledger():
            for record in records:
                spool.add(*form.decode(record))

    def are_sums(self, release, batch):
        """Return whether a release holds the sums of these reports, with the noise that they have or servers add."""
        task, opened = release.task, release.sums
        if self._words is None:
            deviation = np.sqrt(task.noise_variance.max()) / task.unit
            return bool((np.abs(opened[0] - self._integers[batch].sum(axis=0)) <= NOISE * deviation).all())
        words = self._words[sorted(batch, key=lambda report: self.ids[report])]
        if self.collection.checked_dealing:  # the last word of a report is a mask
            words = words.reshape(len(batch), -1)[:, :-1].reshape(task.share_shape)
        total = np.zeros((task.sketch.rows, task.width), np.uint64)
        task.sketch.apply(np.ascontiguousarray(words), out=total, ring=task.encoding.ring)
        return np.array_equal(opened, task.encoding.ring.lift(total))


def make_ready():
    """Prepare the process for seeds of these worlds."""
    make_quick()
    watch_points()


def make_quick():
    """Have servers share the task of a collection, a pure function that takes long."""
    compute, known = Collection.task, {}

    def task(self, clients, toss, **more):
        key = self.digest, clients, toss, tuple(sorted(more.items()))
        if key not in known:
            known.clear()
            known[key] = compute(self, clients, toss, **more)
        return known[key]

    Collection.task = task


def watch_points():
    """Have a world look at each query point and each seed under which a server is about to answer for reports."""
    check, answer = proof_checks.check_at_point, ReleasingServer.check_values

    async def check_at_point(party, verifier):
        NODE.get().world.check_point(NODE.get(), verifier.toss)
        return await check(party, verifier)

    def check_values(self, ids, seed):
        NODE.get().world.check_point(NODE.get(), seed)
        return answer(self, ids, seed)

    proof_checks.check_at_point, ReleasingServer.check_values = check_at_point, check_values


class World:
    """One simulation.

    Parameters
    ----------
    base : Base
        What all seeds share.
    root : Path
        The folder that the disks watch.
    seed : int
        From which all follows.
    on_log : callable
        Called with each line of the trace.
    """

    member = Server
    faults_seconds = FAULTS_SECONDS
    stores_are_put_back = True
    operations = (120, 300)  # of its disk, before one of which a server crashes

    def __init__(self, base, root, seed, on_log=lambda line: None):
        self.base, self.root, self.seed = base, root, seed
        self.rng = random.Random(seed)
        SHIM.simulator_random(1, seed)
        self.loop = SimulatedLoop(self.rng)
        self.net = Net(self.loop, self.rng)
        self.problems, self.errors, self.crashes = [], collections.Counter(), collections.Counter()
        self.servers, self._ended, self._shown, self._points = {}, [], {}, {}
        self._answers = collections.defaultdict(list)  # what a server said of reports, by run
        self._on_log = on_log
        self._closing = self._closing_times(len(base.images))
        self._repetitions = [self.rng.choice((0, 0, 1)) for _ in base.images]  # of runs that had succeeded

    def _closing_times(self, servers):
        """Draw when the operator of each server begins the release."""
        return [START + self.rng.uniform(0, 15) for _ in range(servers)]

    def log(self, line):
        self._on_log(f"{self.loop.now - START:9.3f} {line}")

    def problem(self, kind, text):
        self.problems.append(f"{kind}: {text}")
        self.log(f"PROBLEM {kind}: {text}")

    def run(self):
        """Run to the end; return what is wrong."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._live())
        except Stuck as error:
            self.problem("deadlock", error)
        except Exception:
            self.problem("the simulation broke off", traceback.format_exc())
        for error in self.loop.errors:
            self.problem("an exception that no task takes", error)
        self._end()
        return self.problems

    async def _live(self):
        for number in range(len(self.base.images)):
            self._boot(number, self.base.images[number], 0)
        self._start_clients()
        await self._weather()
        if not await self._wait_for_all():
            return
        if self.rng.random() < LATE_CHANCE:  # what a server has is on its disk, and not only in the system's memory
            server = self.servers[self.rng.randrange(len(self.servers))]
            server.loses_power = server.disk.frozen = True
            self.crash(server)
            await asyncio.sleep(1)
            if not await self._wait_for_all():
                return
        self.check()

    def _start_clients(self):
        """Start who else takes part."""

    async def _wait_for_all(self):
        """Wait until all servers have the release, or something is wrong, as it is where they never have it."""
        for _ in range(int(LIMIT_SECONDS / 5)):
            if self.problems:
                return False
            if all(self.is_done(server) for server in self.servers.values()):
                await asyncio.sleep(3)
                return True
            await asyncio.sleep(5)
        if not self._may_lack_a_release():
            self.problem("no release", f"{LIMIT_SECONDS:g} s after the last fault: {dict(self.errors)}")
        return False

    def _may_lack_a_release(self):
        """Return whether too few have contributed for a release."""
        return False

    def _end(self):
        for server in self.servers.values():
            server.alive, server.disk.frozen = False, True
        tasks = sorted(asyncio.all_tasks(self.loop), key=hash)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(Stuck):
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for server in [*self._ended, *self.servers.values()]:
            server.disk.forget()
        self.loop.close()
        SHIM.simulator_random(0, 0)

    # Lives of servers

    def _boot(self, number, image, life, before=None):
        if before is not None:
            before.rebooted = True
        server = self.servers[number] = self.member(self, number, image, life)
        rng = self.rng
        if self.loop.now <= START + self.faults_seconds:
            server.loses_power = rng.random() < 0.5
            kind = rng.random()
            if kind < 0.3:
                crash_at = int(rng.uniform(1, rng.choice(self.operations)))
                if kind < 0.1:  # between two commits, however few operations the second one takes
                    server.disk.crash_after_sync = crash_at // 4
                else:
                    server.disk.crash_at = crash_at
            elif kind < 0.6:
                server.crash_at_frame = int(rng.uniform(1, self.base.frames))
            elif kind < 0.75:
                self.loop.call_later(rng.uniform(0, self.faults_seconds), self._kill_in_time, server)
        context = contextvars.copy_context()
        context.run(NODE.set, server)
        for work in self._lives_of(server):
            context.run(self.loop.create_task, work)

    def _lives_of(self, server):
        """Return what goes on at a server."""
        return [self._operate(server)]

    async def _operate(self, server):
        """Do what the operator of a server does: repeat the release until all have it, and at times once more."""
        rng = self.rng
        await asyncio.sleep(max(0.0, self._closing[server.number] - self.loop.now))
        while server.alive:
            if all(map(self.is_done, self.servers.values())) and self._repetitions[server.number] <= 0:
                await asyncio.sleep(5)
                continue
            if self.is_done(server):
                self._repetitions[server.number] -= 1
            try:
                await server.release()
                self.log(f"server {server.number}: released")
                if rng.random() < 0.3:
                    self.loop.call_later(rng.uniform(0, 0.05), self._kill_in_time, server, True)
                await asyncio.sleep(rng.uniform(1, 20))
            except (DpmpcError, OSError) as error:
                self._judge(server, error)
                await asyncio.sleep(rng.uniform(1, 40))
            except Exception:
                if server.alive and not server.disk.frozen:
                    self.problem("crash of the code", traceback.format_exc())
                return

    def _judge(self, server, error):
        """Count an error of a release; all servers are honest, so that none may be accused."""
        disk, name = server.disk, type(error).__name__
        if not server.alive or disk.frozen:
            return
        self.errors[name] += 1
        self.log(f"server {server.number}: {name}: {error}")
        if isinstance(error, OSError) and not isinstance(error, DpmpcError) and not (disk.full or disk.broken):
            self.problem("an error that is none of dpmpc", f"{error!r}")
        if name in ACCUSING:
            self.problem("an honest server is accused", f"{name}: {error}")

    def _kill_in_time(self, server, loses_power=None):
        """Kill a server between two operations, if it is alive and faults are not over."""
        if server.alive and self.loop.now <= START + self.faults_seconds:
            server.loses_power = server.loses_power if loses_power is None else loses_power
            server.disk.frozen = True
            self.crash(server)

    def crash(self, server):
        """Stop all of a server at this very moment: its process is killed, or its machine loses power."""
        how = "power" if server.loses_power else "kill"
        self.log(f"server {server.number} crashes ({how}) at operation {server.disk.count} of its disk")
        self.crashes[how] += 1
        server.alive = False
        self.net.stop_listening(server)
        self.loop.call_soon(self._bury, server)

    def _bury(self, server):
        image = server.disk.after_power_cut() if server.loses_power else server.disk.after_kill()
        for task in list(server.tasks):
            task.cancel()
        for end in list(server.transports):
            if not server.loses_power and not end.other.lost:  # the system of a killed process resets its links
                self.loop.call_later(self.net.delay(), end.other.lose, ConnectionResetError(104, "reset"))
            end.vanish()
        self._ended.append(server)
        image = self.image_after_crash(server, image)
        later = self.rng.expovariate(1 / 15)
        self.loop.call_later(later, self._boot, server.number, image, server.life + 1, server)

    def image_after_crash(self, server, image):
        """Return what a server finds on its disk, of what was there: its store may be put back from a copy."""
        if self.stores_are_put_back and self.rng.random() < PUT_BACK_CHANCE:
            self.log(f"the store of server {server.number} is put back to what it was in the beginning")
            image = {name: content for name, content in image.items() if not name.startswith("spool/")}
            image |= {name: one for name, one in self.base.images[server.number].items() if name.startswith("spool/")}
        return image

    async def _weather(self):
        """Let networks and disks misbehave for a while, then end all faults."""
        rng, net = self.rng, self.net
        while self.loop.now < START + self.faults_seconds:
            await asyncio.sleep(rng.expovariate(1 / 5))
            kind = rng.random()
            if kind < 0.25:
                pair = frozenset(rng.sample(range(len(self.servers)), 2))
                net.blocked[pair] = self.loop.now + rng.uniform(0, rng.choice((5, 90)))
                self.log(f"partition of {sorted(pair)} until {net.blocked[pair] - START:.1f}")
            elif kind < 0.4:
                net.slow = rng.choice((1.0, 1.0, 10.0, 50.0))
            elif kind < 0.55:
                net.breaking = rng.choice((0.0, 0.0, 0.005, 0.03))
            elif kind < 0.7 and net.links:
                rng.choice(list(net.links)).break_off()
            elif kind < 0.8:
                disk = self.servers[rng.randrange(len(self.servers))].disk
                disk.full = True
                self.loop.call_later(rng.uniform(0, 30), setattr, disk, "full", False)
            elif kind < 0.86:
                disk = self.servers[rng.randrange(len(self.servers))].disk
                disk.broken = 0.05
                self.loop.call_later(rng.uniform(0, 10), setattr, disk, "broken", 0.0)
        net.blocked.clear()
        net.slow, net.breaking = 1.0, 0.0
        for server in self.servers.values():
            server.disk.full, server.disk.broken = False, 0.0
            server.disk.crash_at = server.disk.crash_after_sync = None
        self.log("all faults have ended")

    # What has to hold

    def is_done(self, server):
        """Return whether a server has the release, and its ledger says so."""
        released = server.folder.released(self.base.collection) if server.alive else None
        if released is None or not (server.out.exists() and released.exists()):
            return False
        return [state for _, state in recorded(server)] == [State.OPENED]

    def begin_run(self, server):
        """Note that a server takes part in a release."""
        self._answers[server.number].append(set())
        server.frames = 0

    def check_frame(self, server, frame):
        """Check what a server is about to send, unless it crashes here: between two steps of the protocol."""
        server.frames += 1
        if server.frames == server.crash_at_frame:
            self._kill_in_time(server)
        else:
            self._check_sent(server, frame)

    def _check_sent(self, server, frame):
        """Check a frame that leaves, by its kind."""
        if frame.kind is Kind.SHARE:
            self._check_share(server, frame)
        elif frame.kind in (Kind.PROOF, Kind.CHECK):
            self._note_answer(server, frame)

    def _note_answer(self, server, frame):
        self._answers[server.number][-1].add(hashlib.sha256(np.ascontiguousarray(frame.words)).digest())

    def _check_share(self, server, frame):
        """Check that one release is bound on the disk whenever a share leaves, which is always the same."""
        bound = [digest for digest, state in recorded(server) if state != State.SEALED]
        if len(bound) != 1:
            self.problem("a share leaves, and one release is not bound", f"server {server.number}: {bound}")
            return
        share = hashlib.sha256(np.ascontiguousarray(frame.words)).hexdigest()
        if self._shown.setdefault((server.number, bound[0]), share) != share:
            self.problem("two shares of one server and manifest", f"server {server.number}")
        if len({digest for _, digest in self._shown}) > 1:
            self.problem("two manifests are opened", f"{sorted(self._shown)}")

    def check_point(self, server, tossed):
        """Check that a server answers for its reports at one point, or under one seed, ever."""
        if self._points.setdefault(server.number, tossed) != tossed:
            self.problem("a server answers at two points", f"server {server.number}")

    def check(self):
        """Check that all have the same release, of the batch in their ledgers, with the sums of these reports."""
        base, servers = self.base, [*self.servers.values()]
        files = {path.read_bytes() for one in servers for path in (one.out, one.folder.released(base.collection))}
        if len(files) != 1:
            self.problem("release files differ", f"{len(files)} different ones")
        verified = verify(servers[0].out, base.collection)
        manifest = verified.certificate.statement.manifest
        place = {report: number for number, report in enumerate(base.ids)}
        batches = []
        for server in servers:
            with ReleaseLedger(server.path / "ledger") as ledger:
                ledger.scrub()
                batches.append([place[row.tobytes()] for row in ledger.batch(manifest.digest)])
        if any(batch != batches[0] for batch in batches):
            self.problem("batches differ", f"{batches}")
        if len(set(batches[0])) < len(batches[0]) or manifest.clients != len(batches[0]):
            self.problem("reports are counted twice", f"{sorted(batches[0])}")
        self._check_batch(set(batches[0]))
        self._check_refused(manifest.refused)
        for server in servers:
            self._check_repetitions(server)
        if not base.are_sums(verified.release, batches[0]):
            self.problem("the sums are not those of the batch", f"{manifest.digest.hex()}")
        if {digest for _, digest in self._shown} != {manifest.digest}:
            self.problem("another manifest was opened", f"{sorted(self._shown)}")

    def _check_repetitions(self, server):
        """Check that a server said the same of the reports in all runs, and has forgotten its share of dealt noise."""
        self._check_answers(server, "a server answers for reports in two ways")
        if noise := [name for name in kept_names(server.folder.ledger) if name.startswith("noise of ")]:
            self.problem("dealt noise outlasts its release", f"server {server.number}: {noise}")

    def _check_answers(self, server, what):
        """Check that a server has answered the same in all runs, as far as each came."""
        runs = self._answers[server.number]
        whole = max(runs, key=len)
        if any(not said <= whole for said in runs):
            self.problem(what, f"server {server.number}")

    def _check_refused(self, refused):
        """Check that the reports whose proof is false are refused, and no others."""
        if refused != ({FALSE_PROOF: 1} if self.base.collection.proved else {}):
            self.problem("others are refused than who proves what is false", f"{refused}")

    def _check_batch(self, batch):
        """Check that all reports are in the batch."""
        if batch != set(range(self.base.count)):
            self.problem("reports are lost", f"{sorted(batch)}")


def recorded(server):
    """Return digest and state of the releases that the ledger on a server's disk holds."""
    with contextlib.closing(sqlite3.connect(f"file:{server.path}/ledger/ledger.sqlite?mode=ro", uri=True)) as database:
        try:
            return [
                (bytes(digest), State(state))
                for digest, state in database.execute("SELECT digest, state FROM releases")
            ]
        except sqlite3.OperationalError:  # in the middle of a change, or of a disk that is broken
            return []
