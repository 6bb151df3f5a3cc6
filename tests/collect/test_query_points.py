"""collect/store/query_points.py: no second point, in every interleaving of runs, crashes and one restored store."""

import contextlib
import dataclasses
import functools
import itertools
import random
import shutil

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dpmpc.base.errors import GuaranteeError, SpoolError
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.query_points import PointKeeper, PointStanding, point_to_go_on_with
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.sqlite_database import SqliteDatabase
from support.rejections import rejects
from support.state_machines import run_in

DIGEST = bytes(range(32))


def toss(number):
    return bytes([number]) * 32


class Crash(Exception):
    """A process ends here."""


@dataclasses.dataclass(frozen=True)
class Disk:
    """What lies on the disks of one server: the ledger's row of the collection, and the spool's."""

    ledger_closed: bool = False
    ledger_sealed: bytes | None = None
    ledger_point: bytes | None = None
    spool_closed: bool = False
    spool_point: bytes | None = None
    past: frozenset = frozenset()
    sent: frozenset = frozenset()
    closed_for: frozenset = frozenset()  # points tossed while this server was closed

    @property
    def spool(self):
        return (self.spool_closed, self.spool_point)

    @property
    def ledger(self):
        return (self.ledger_closed, self.ledger_sealed, self.ledger_point)


class Stores:
    """A spool and a ledger as `PointKeeper` uses them, on a `Disk`, that may crash after so many writes."""

    folder = "a folder"

    def __init__(self, disk, writes=None):
        self.disk, self.writes = disk, writes

    def _write(self, **changes):
        if self.writes is not None:
            if self.writes == 0:
                raise Crash
            self.writes -= 1
        new = dataclasses.replace(self.disk, **changes)
        self.disk = dataclasses.replace(new, past=new.past | {("spool", new.spool), ("ledger", new.ledger)})

    # the spool

    @property
    def closed(self):
        return self.disk.spool_closed

    def close_for_good(self):
        if not self.disk.spool_closed:
            self._write(spool_closed=True)

    def point(self):
        return self.disk.spool_point

    def use_point(self, point):
        if self.disk.spool_point not in (None, point):
            raise GuaranteeError("spool")
        if not self.disk.spool_closed:
            raise GuaranteeError("open")
        if self.disk.spool_point is None:
            self._write(spool_point=point)

    def forbid_points(self, mark):
        if self.disk.spool_point != mark:
            self._write(spool_point=mark)

    class Ledger:
        folder = "another folder"

        def __init__(self, stores):
            self.stores = stores

        def closed(self, collection):
            return self.stores.disk.ledger_closed

        def close_collection(self, collection):
            if not self.stores.disk.ledger_closed:
                self.stores._write(ledger_closed=True)

        def seal_point(self, collection, point):
            if not self.stores.disk.ledger_closed or self.stores.disk.ledger_point not in (None, point):
                raise GuaranteeError("ledger")
            if self.stores.disk.ledger_sealed != point:
                self.stores._write(ledger_sealed=point)

        def sealed_point(self, collection):
            return self.stores.disk.ledger_sealed

        def use_point(self, collection, point):
            if not self.stores.disk.ledger_closed:
                raise GuaranteeError("open")
            if self.stores.disk.ledger_point not in (None, point):
                raise GuaranteeError("ledger")
            if self.stores.disk.ledger_point is None:
                self.stores._write(ledger_sealed=None, ledger_point=point)

        def forbid_points(self, collection, mark):
            if self.stores.disk.ledger_point != mark:
                self.stores._write(ledger_sealed=None, ledger_point=mark)

        def point(self, collection):
            return self.stores.disk.ledger_point

    @property
    def keeper(self):
        return PointKeeper(DIGEST, self, self.Ledger(self))


LEFT, TOSSED, SEALED, HALF, USED, SENT = range(6)  # how far a server gets in a run
SECOND_CONFIRM = True  # whether all have marked a point as used before anybody sends


@functools.lru_cache(maxsize=1 << 16)
def after(disk, stage, point, fresh):
    """What a server's disks hold after it got so far in a run at this point."""
    stores = Stores(disk)
    keeper = stores.keeper
    keeper.close()
    keeper.standing()
    if fresh and stage >= TOSSED:
        stores.disk = dataclasses.replace(stores.disk, closed_for=stores.disk.closed_for | {point})
    if fresh and stage >= SEALED:
        keeper.seal(point)
    if stage == HALF:
        stores.writes = 1
        with contextlib.suppress(Crash):
            keeper.use(point)
        stores.writes = None
    if stage >= USED:
        keeper.use(point)
    if stage == SENT:
        stores.disk = dataclasses.replace(stores.disk, sent=stores.disk.sent | {point})
    return stores.disk


def runs(disks, most_points, elsewhere=frozenset()):
    """All states after one run: what the corrupt server states, whom it tells which toss, how far each server gets.

    Points that servers have heard of that are `elsewhere` are not tossed again.
    """
    opened, standings = [], {}
    for number, disk in enumerate(disks):
        stores = Stores(disk)
        try:
            stores.keeper.close()
            standings[number] = stores.keeper.standing()
        except GuaranteeError:
            return
        opened.append(stores.disk)
    known = {standing.point for standing in standings.values() if standing.point}
    claims = [PointStanding(), *(PointStanding(point, used=used) for point in sorted(known) for used in (False, True))]
    for claim in claims:
        try:
            going_on = point_to_go_on_with({**standings, len(disks): claim})
        except GuaranteeError:
            continue
        if going_on is not None:
            yield from stages(opened, [going_on] * len(opened), fresh=False)
            continue
        taken = elsewhere | {point for disk in disks for point in points_of(disk)}
        free = [toss(number) for number in range(1, most_points + 1) if toss(number) not in taken][:2]
        for choice in itertools.product(free, repeat=len(opened)):
            yield from stages(opened, choice, fresh=True)


def points_of(disk):
    """All points that a server has heard of."""
    past = {point for _, content in disk.past for point in content[1:]}
    return (past | {*disk.ledger[1:], disk.spool_point} | disk.sent | disk.closed_for) - {None}


def stages(opened, points, *, fresh):
    one = len(set(points)) == 1
    first = TOSSED if fresh else SEALED
    for reached in itertools.product([LEFT, *range(first, SENT + 1)], repeat=len(opened)):
        if max(reached) > SEALED and not (one and min(reached) >= SEALED):
            continue  # confirm: sealed by all
        if SECOND_CONFIRM and max(reached) == SENT and min(reached) < USED:
            continue  # confirm: used by all
        yield tuple(
            after(disk, stage, point, fresh) for disk, stage, point in zip(opened, reached, points, strict=True)
        )


def restored(disks):
    """All states after one store of one server was put back to an earlier state and the server was started."""
    for number, disk in enumerate(disks):
        for kind, content in disk.past | {("spool", (False, None)), ("ledger", (False, None, None))}:
            names = (
                ("ledger_closed", "ledger_sealed", "ledger_point")
                if kind == "ledger"
                else ("spool_closed", "spool_point")
            )
            old = dataclasses.replace(disk, **dict(zip(names, content, strict=True)))
            stores = Stores(old)
            stores.keeper.heal()  # all that a start does
            yield tuple(stores.disk if at == number else other for at, other in enumerate(disks))


@pytest.mark.parametrize(
    ("honest", "points"), [(1, 3), pytest.param(2, 3, marks=pytest.mark.long("both honest servers, three points"))]
)
def test_no_server_answers_at_two_points_whatever_happens(honest, points):
    """All runs, crashes, equivocation of the corrupt server, and one store put back between runs."""
    start = (Disk(),) * honest
    seen, layer = {start}, [start]
    while layer:
        following = []
        for disks in layer:
            for new in itertools.chain(runs(disks, points), restored(disks)):
                if new in seen:
                    continue
                for disk in new:
                    assert len(disk.sent) <= 1, new
                    assert disk.sent <= disk.closed_for, new
                    assert not disk.sent or (disk.spool_closed or disk.ledger_closed), new
                seen.add(new)
                following.append(new)
        layer = following
    assert any(disk.sent for disks in seen for disk in disks)
    assert len(seen) > 20


def runs_of_some(disks, most_points, fewest):
    """All states after one run in which at least so many of the honest servers take part."""
    everybody = range(len(disks))
    for size in range(fewest, len(disks) + 1):
        for present in itertools.combinations(everybody, size):
            absent = frozenset().union(*(points_of(disks[at]) for at in everybody if at not in present))
            for new in runs(tuple(disks[at] for at in present), most_points, absent):
                changed = dict(zip(present, new, strict=True))
                yield alike(changed.get(at, disks[at]) for at in everybody)


def alike(disks):
    """Servers in one order: honest ones do not differ but by what lies on their disks."""
    return tuple(sorted(disks, key=hash))


@pytest.mark.parametrize(
    ("honest", "fewest", "points", "restores"),
    [
        pytest.param(2, 2, 2, 1, id="three servers"),
        pytest.param(3, 2, 2, 0, id="four servers, one of whom may be missing"),
        pytest.param(3, 3, 2, 0, id="five servers"),
        pytest.param(
            *(3, 2, 3, 0), id="four servers, three points", marks=pytest.mark.long("three honest servers, three points")
        ),
        pytest.param(*(3, 2, 2, 1), id="four servers, one restored", marks=pytest.mark.long("one of three restored")),
    ],
)
def test_all_honest_servers_answer_at_one_point_whatever_happens(honest, fewest, points, restores):
    """With Shamir shares: whoever is missing, crashes, equivocates, or was put back; t corrupt servers are present."""
    seen = explored(honest, fewest, points, restores)
    assert any(disk.sent for disks, _ in seen for disk in disks)
    assert len(seen) > 20


def test_without_the_second_confirm_four_servers_answer_at_two_points(monkeypatch):
    """One marks and sends; the others, stopped before their mark, go on without it."""
    monkeypatch.setitem(globals(), "SECOND_CONFIRM", False)
    with pytest.raises(AssertionError, match="answers at several points"):
        explored(3, 2, 2, 0)


def explored(honest, fewest, points, restores):
    """Walk through all states, and return them; none has answers at different points, or one for a late report."""
    start = ((Disk(),) * honest, restores)
    seen, layer = {start}, [start]
    while layer:
        following = []
        for disks, left in layer:
            news = [(new, left) for new in runs_of_some(disks, points, fewest)]
            news += [(alike(new), left - 1) for new in restored(disks)] if left else []
            for new, still in news:
                if not still:  # nothing is put back any more
                    new = alike(dataclasses.replace(disk, past=frozenset()) for disk in new)
                if (new, still) in seen:
                    continue
                assert len(frozenset().union(*(disk.sent for disk in new))) <= 1, f"answers at several points: {new}"
                assert all(disk.sent <= disk.closed_for for disk in new), new
                seen.add((new, still))
                following.append((new, still))
        layer = following
    return seen


# The same walks on real stores


@dataclasses.dataclass
class Server:
    """A spool and a ledger on the disk."""

    root: object

    def open(self):
        spool = ReportStore(
            SqliteDatabase(self.root / "spool", create=True), DIGEST, 0, (1, 3), ledger=self.root / "ledger"
        )
        return spool, ReleaseLedger(self.root / "ledger")

    def act(self, deed):
        spool, ledger = self.open()
        with spool, ledger:
            return deed(PointKeeper(DIGEST, spool, ledger))


@pytest.fixture
def server(tmp_path):
    return Server(tmp_path)


def close_and_seal(number):
    def deed(keeper):
        keeper.close()
        keeper.seal(toss(number))

    return deed


def test_a_point_is_closed_sealed_and_used_in_this_order(server):
    with rejects("query point", GuaranteeError):
        server.act(lambda keeper: keeper.seal(toss(1)))
    server.act(close_and_seal(1))
    server.act(close_and_seal(2))  # not used: the next toss takes its place
    assert server.act(lambda keeper: keeper.standing()) == PointStanding(toss(2).hex())
    with rejects("query point", GuaranteeError):
        server.act(lambda keeper: keeper.use(toss(1)))
    server.act(lambda keeper: keeper.use(toss(2)))
    for _ in range(2):
        server.act(lambda keeper: keeper.use(toss(2)))
    with rejects("query point", GuaranteeError):
        server.act(close_and_seal(3))
    with rejects("query point", GuaranteeError):
        server.act(lambda keeper: keeper.use(toss(3)))
    assert server.act(lambda keeper: keeper.standing()) == PointStanding(toss(2).hex(), used=True)


@pytest.mark.parametrize("store", ["spool", "ledger"])
def test_one_store_that_is_put_back_learns_point_and_closing_from_the_other(server, tmp_path, store):
    server.act(lambda keeper: keeper.standing())
    shutil.copytree(tmp_path / store, tmp_path / "old")
    server.act(close_and_seal(1))
    server.act(lambda keeper: keeper.use(toss(1)))
    shutil.rmtree(tmp_path / store)
    shutil.copytree(tmp_path / "old", tmp_path / store)
    server.act(lambda keeper: keeper.heal())
    spool, ledger = server.open()
    with spool, ledger:
        assert spool.closed
        assert ledger.closed(DIGEST)
    assert server.act(lambda keeper: keeper.standing()) == PointStanding(toss(1).hex(), used=True)
    spool, ledger = server.open()
    with spool, ledger:
        assert spool.point() == toss(1)
        assert ledger.point(DIGEST) == toss(1)


def test_a_spool_that_is_put_back_forgets_no_sealed_point(server, tmp_path):
    """The others may have used it, and go on with nobody who has not sealed it."""
    server.act(lambda keeper: keeper.standing())
    shutil.copytree(tmp_path / "spool", tmp_path / "old")
    server.act(close_and_seal(1))
    shutil.rmtree(tmp_path / "spool")
    (tmp_path / "old").rename(tmp_path / "spool")
    assert server.act(lambda keeper: keeper.standing()) == PointStanding(toss(1).hex())
    server.act(lambda keeper: keeper.heal())
    server.act(lambda keeper: keeper.use(toss(1)))
    assert server.act(lambda keeper: keeper.standing()) == PointStanding(toss(1).hex(), used=True)


def test_stores_that_name_different_used_points_refuse_for_good(server, tmp_path):
    server.act(close_and_seal(1))
    server.act(lambda keeper: keeper.use(toss(1)))
    other = Server(tmp_path / "other")
    other.root.mkdir()
    other.act(close_and_seal(2))
    other.act(lambda keeper: keeper.use(toss(2)))
    shutil.rmtree(tmp_path / "ledger")
    shutil.copytree(other.root / "ledger", tmp_path / "ledger")
    for _ in range(2):
        with rejects("query point", GuaranteeError) as refusal:
            server.act(lambda keeper: keeper.standing())
        assert str(tmp_path) not in str(refusal.value), "the other servers are told"


def test_real_stores_do_what_the_model_of_them_does(server, tmp_path):
    """Random deeds on both, each with the same outcome."""
    draw, model = random.Random(7), Stores(Disk())
    for _ in range(120):
        number, name = draw.randint(1, 3), draw.choice(["close", "heal", "standing", "seal", "use"])
        if name in ("close",) and draw.random() < 0.7:
            continue

        def deed(keeper, name=name, number=number):
            try:
                return getattr(keeper, name)(*([toss(number)] if name in ("seal", "use") else []))
            except GuaranteeError:
                return "refused"

        assert server.act(deed) == deed(model.keeper)


class Interrupted(PointKeeper):
    """A keeper after whose look at the stores another process does something."""

    def __init__(self, *stores, deed):
        super().__init__(DIGEST, *stores)
        self._deed = deed

    def standing(self):
        standing, deed, self._deed = super().standing(), self._deed, lambda: None
        deed()
        return standing


DEEDS = st.tuples(st.sampled_from(["seal", "use", "heal"]), st.integers(1, 2))


class TwoKeepers(RuleBasedStateMachine):
    """Two processes on the stores of one server, each of which may act between what the other reads and writes."""

    folder = None

    @initialize()
    def begin(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.stores, self.used = [Server(self.folder).open() for _ in range(2)], set()
        PointKeeper(DIGEST, *self.stores[0]).close()

    def _do(self, keeper, deed, number):
        with contextlib.suppress(GuaranteeError):
            getattr(keeper, deed)(*([toss(number)] if deed in ("seal", "use") else []))
            if deed == "use":
                self.used.add(number)

    @rule(process=st.integers(0, 1), deed=DEEDS)
    def act(self, process, deed):
        self._do(PointKeeper(DIGEST, *self.stores[process]), *deed)

    @rule(process=st.integers(0, 1), deed=DEEDS, meanwhile=DEEDS)
    def interrupt(self, process, deed, meanwhile):
        other = PointKeeper(DIGEST, *self.stores[1 - process])
        self._do(Interrupted(*self.stores[process], deed=lambda: self._do(other, *meanwhile)), *deed)

    @invariant()
    def one_point_is_used(self):
        assert len(self.used) <= 1

    def teardown(self):
        for store in itertools.chain.from_iterable(self.stores):
            store.close()


def test_two_processes_use_one_point(tmp_path):
    run_in(tmp_path / "server", TwoKeepers, steps=10, examples=60)


def test_two_processes_that_do_not_compare_use_two_points(tmp_path, monkeypatch):
    monkeypatch.setattr(ReleaseLedger, "use_point", lambda self, collection, point: None)
    monkeypatch.setattr(ReportStore, "use_point", lambda self, point: None)
    with pytest.raises(AssertionError):
        run_in(tmp_path / "server", TwoKeepers, steps=10, examples=500, phases=[Phase.generate])


def test_a_point_that_changed_on_the_disk_is_refused(server):
    server.act(close_and_seal(1))
    spool, ledger = server.open()
    with spool, ledger:
        used = f'{{"closed": "", "query point": "{toss(1).hex()}"}}'
        spool._database._connection.execute("UPDATE description SET facts = ?", (used,))
        with pytest.raises(SpoolError):
            spool.point()
    server = Server(server.root.parent / (server.root.name + "-2"))
    server.root.mkdir()
    server.act(close_and_seal(1))
    server.act(lambda keeper: keeper.use(toss(1)))
    spool, ledger = server.open()
    with spool, ledger:
        ledger._database.execute("UPDATE kept SET value = ?", (toss(2),))
        with pytest.raises(SpoolError):
            ledger.point(DIGEST)
        ledger._database.execute("DROP TABLE kept")
        with pytest.raises(SpoolError):
            ledger.scrub()


def test_servers_go_on_with_the_point_that_one_of_them_used_or_not_at_all():
    used, sealed, other = PointStanding("ab" * 32, used=True), PointStanding("ab" * 32), PointStanding("cd" * 32)
    assert point_to_go_on_with({0: sealed, 1: other, 2: PointStanding()}) is None
    assert point_to_go_on_with({0: sealed, 1: used}) == b"\xab" * 32
    with rejects("query point", GuaranteeError):
        point_to_go_on_with({0: used, 1: other})
    with rejects("query point", GuaranteeError):
        point_to_go_on_with({0: used, 1: PointStanding("cd" * 32, used=True)})


def test_a_ledger_without_proofs_has_no_such_table(server):
    with ReleaseLedger(server.root / "ledger") as ledger:
        assert ledger.point(DIGEST) is None
        ledger.scrub()
        tables = {name for (name,) in ledger._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "points" not in tables
