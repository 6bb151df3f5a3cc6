"""The world of owners: they add up sums over the rows that each keeps, and repeat a fit until all have it."""

import asyncio
import contextvars
import queue
import ssl
import threading
import types

import numpy as np

from dpmpc.data import Column, Schema, Table, write_csv
from dpmpc.owners.rows.owner_parties import OwnerSource, load_releases, public_arguments
from dpmpc.owners.rows.owners_plan import OwnersPlan
from dpmpc.owners.rows.rounds_record import LEDGER_FILE
from dpmpc.parties.network.frames import Kind
from dpmpc.parties.network.settings import write_source
from dpmpc.privacy import BudgetLedger
from dpmpc.protocols import data_owners
from simulator import release
from simulator.disk import files_of
from simulator.loop import START, set_clock
from simulator.servers import Owner
from support.kept_files import kept_on_disk
from support.talk import identities

ROWS = (70, 120, 90)
SUMS = 2  # second moments and one steering round
SCHEMA = Schema((Column("a", -1, 1), Column("y", -1, 1)))


class _Fit(threading.local):
    """What the thread of a fit and the loop hand to each other."""

    asked: queue.SimpleQueue | None = None
    answered: queue.SimpleQueue | None = None


_fit = _Fit()


async def _in_turns(function, *given):
    """Run a function in a thread; the loop waits for it, but for the coroutines that the thread waits for."""
    asked, answered, context = queue.SimpleQueue(), queue.SimpleQueue(), contextvars.copy_context()

    def work():
        _fit.asked, _fit.answered = asked, answered
        try:
            asked.put((None, function(*given), None))
        except BaseException as error:
            asked.put((None, None, error))

    threading.Thread(target=context.run, args=(work,)).start()
    while True:
        coroutine, result, error = asked.get()
        if coroutine is not None:
            try:
                answered.put((await coroutine, None))
            except BaseException as failed:  # a task that is cancelled, too: the thread has to end
                answered.put((None, failed))
        elif error is not None:
            raise error
        else:
            return result


def _waited_for(coroutine, loop):
    """Hand a coroutine of a fit's thread to the loop, as `asyncio.run_coroutine_threadsafe` does."""

    def result():
        _fit.asked.put((coroutine, None, None))
        value, error = _fit.answered.get()
        if error is not None:
            raise error
        return value

    return types.SimpleNamespace(result=result)


def make_ready():
    """Have the thread of a fit and the loop run in turns."""
    changed = {"to_thread": _in_turns, "run_coroutine_threadsafe": _waited_for}
    data_owners.asyncio = types.SimpleNamespace(**(vars(asyncio) | changed))


class Base:
    """What all seeds share: the plan that all agree on, and the folders of the owners before any run."""

    frames = 130

    def __init__(self, folder, world):
        set_clock(START - 600)
        self.plan = OwnersPlan(
            owners=("north", "south", "east"),
            rows=ROWS,
            schema=SCHEMA,
            model="ridge",
            rounds=1,
            intervals=False,
            epsilon=3.0,
            delta=1e-6,
        )
        self.program, self.arguments = data_owners, public_arguments(self.plan)
        self.rows = np.random.default_rng(8).uniform(-1, 1, (sum(ROWS), 2))
        self.images, self.certificates = [], []
        parts = np.split(self.rows, np.cumsum(ROWS)[:-1])
        for there, part in zip(identities(folder / "owners", len(ROWS)), parts, strict=True):
            write_csv(there / "rows.csv", Table(SCHEMA.names, part))
            write_source(there, OwnerSource(str(there / "rows.csv")))
            self.images.append(files_of(there))
            self.certificates.append(ssl.PEM_cert_to_DER_cert((there / "party.crt").read_text()))


class OwnersWorld(release.World):
    """One simulation of owners, of whom none lies."""

    member = Owner
    stores_are_put_back = False  # an owner has none

    def _check_sent(self, owner, frame):
        """Check that what an owner shows of its rows is on its disk."""
        if frame.kind is not Kind.SHARE:
            return
        self._note_answer(owner, frame)
        words = np.ascontiguousarray(frame.words).tobytes()
        if not any(words in kept for kept in kept_on_disk(owner.path).values()):
            self.problem("words leave that their owner has not kept", f"owner {owner.number}")


class World(OwnersWorld):
    """Owners of many rows."""

    def is_done(self, owner):
        return owner.alive and len(load_releases(owner.path)) == SUMS

    def check(self):
        """Check that all have the same sums of these rows, which each has sent once and entered in its ledger once."""
        owners = [*self.servers.values()]
        if len({tuple(made.sums.tobytes() for made in load_releases(owner.path)) for owner in owners}) != 1:
            self.problem("sums differ", f"{len(owners)} owners")
        for owner in owners:
            entries = BudgetLedger.load(owner.path / LEDGER_FILE).entries
            if len(entries) != SUMS:
                self.problem("a sum is in a ledger twice, or not", f"owner {owner.number}: {len(entries)} entries")
            self._check_answers(owner, "an owner sends two answers")
        first = load_releases(owners[0].path)[0]
        exact = first.task.statistic.encode(SCHEMA.normalise(self.base.rows), first.task.encoding).sum(axis=0)
        if abs(first.sums[0] - exact).max() > release.NOISE * first.task.noise.sigma * np.sqrt(len(ROWS)):
            self.problem("the first sum is not that of all rows", f"{first.sums[0] - exact}")
