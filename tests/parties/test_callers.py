"""Places for callers, and the loop that accepts them whatever they and the system do."""

import asyncio
import concurrent.futures
import errno
import socket

import pytest

from dpmpc.parties.network import callers
from dpmpc.parties.network.callers import Places, accept_callers, handle
from dpmpc.parties.network.sockets import CountingSocket, TrackedSocket
from support.hostile.strangers import Silent
from support.release_processes import Trial, run
from support.waiting import PATIENCE, wait_for

PATIENTLY = ["--connect-deadline", "90", "--deadline", "90"]  # the strangers are waited for meanwhile


def test_places_are_bounded_in_all_and_for_each_address():
    places = Places(5, 2)

    def enter(address):
        place = places.enter(address)
        if place is not None:
            place.speak()
        return place

    for address in ("192.0.2.1", "2001:db8::1"):
        taken = [enter(address) for _ in range(2)]
        assert None not in taken
        assert enter(address) is None
    assert enter("2001:db8::ffff") is None  # the same household
    assert enter("2001:db9::1") is not None
    assert enter("198.51.100.4") is None
    assert len(places) == 5
    for _ in range(2):
        places.leave(taken[0])
    assert len(places) == 4
    assert enter("198.51.100.4") is not None


@pytest.mark.parametrize(
    ("addresses", "most"),
    [
        ([f"2001:db8:0:{number:x}::1" for number in range(256)], 20),  # one /56
        ([f"2001:db8:0:{number << 8:x}::1" for number in range(256)], 40),  # one /48, each in a /56 of its own
        ([f"192.0.2.{number}" for number in range(256)], 40),
        ([f"192.0.{number}.1" for number in range(256)], 100),  # no network of ours holds them
    ],
    ids=["56", "48", "24", "apart"],
)
def test_the_networks_around_an_address_are_bounded_too(addresses, most):
    """Callers within their grace: of 100, an address has 10."""
    places = Places(100, 10)
    for address in addresses:
        for _ in range(10):
            place = places.enter(address)
            if place is not None:
                place.speak()
    assert len(places) == most
    assert Places(10, 8).enter("192.0.2.1") is not None


def test_who_has_most_makes_way_first_and_without_a_grace():
    now, dropped = 0.0, []
    places = Places(12, 6, 2.0, lambda: now)

    def come(name, address):
        place = places.enter(address, lambda: dropped.append(name))
        if place is not None:
            place.speak()
        return place

    for number in range(6):
        come(f"many {number}", "192.0.2.1")
    for number in range(4):
        come(f"few {number}", "198.51.100.1")
    for number in range(2):
        come(f"alone {number}", f"203.0.{number}.1")
    assert len(places) == 12
    assert come("new", "203.0.9.1") is not None
    assert dropped == ["many 0"]
    assert come("another", "192.0.2.1") is None  # of the address that now has most with five: its own have a grace
    assert all(come(f"further {number}", f"203.0.10.{number}") is not None for number in range(4))
    assert dropped[1:] == ["many 1", "many 2", "few 0", "many 3"]
    assert come("fifth", "203.0.11.1") is not None
    assert dropped[5:] == ["few 1"]  # from now on no address has far more than a newcomer's
    now = 1.9
    assert come("late", "203.0.12.1") is None
    now = 2.0
    assert come("late", "203.0.12.1") is not None
    assert (dropped[6:], len(places)) == (["many 4"], 12)


def test_the_oldest_caller_makes_way_when_its_grace_is_over():
    """One of the newcomer's own address, if that has its share; else one of the address that has most."""
    now, dropped = 0.0, []
    places = Places(5, 3, 2.0, lambda: now)

    def come(name, address):
        place = places.enter(address, lambda: dropped.append(name))
        if place is not None and name != "s":
            place.speak()
        return place is not None

    assert all(come(name, "192.0.2.1") for name in "abc")
    now = 1.9
    assert not come("d", "192.0.2.1")
    now = 2.0
    assert come("d", "192.0.2.1")
    assert dropped == ["a"]
    assert come("e", "198.51.100.2")
    assert come("f", "203.0.113.3")
    assert come("g", "203.0.114.4")
    assert dropped == ["a", "b"]
    assert len(places) == 5
    now = 4.0
    assert come("s", "192.0.2.1")
    assert dropped.pop() == "c"
    assert come("h", "192.0.2.1")
    assert dropped.pop() == "s"  # has said nothing, and goes before older ones


def test_a_socket_says_once_that_it_is_closed():
    told = []
    with TrackedSocket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.on_close = lambda: told.append(one.fileno())
    one.close()
    assert told == [-1]


class Failing(TrackedSocket):
    """A listener for which the system has no file left, now and then."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.errors = [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED]

    def accept(self):
        if self.errors:
            raise OSError(self.errors.pop(0), "injected")
        connection, address = socket.socket.accept(self)
        connection.setblocking(False)
        return TrackedSocket(fileno=connection.detach()), address


def test_accepting_goes_on_after_errors(monkeypatch):
    monkeypatch.setattr(callers, "PAUSE_SECONDS", 0.01)
    told = []

    async def go():
        taken = asyncio.Queue()
        with Failing(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            listener.setblocking(False)
            loop = asyncio.create_task(accept_callers(listener, lambda *caller: taken.put_nowait(caller), told.append))
            with socket.create_connection(listener.getsockname()):
                connection, address = await asyncio.wait_for(taken.get(), PATIENCE)
            assert not connection.getblocking()
            connection.close()
            loop.cancel()
            return address

    assert asyncio.run(go()) == "127.0.0.1"
    assert [error.errno for error in told] == [errno.EMFILE, errno.ENFILE]


def test_accepting_lets_others_have_their_turn():
    """Callers that come all the time must not keep the loop to themselves."""

    class Endless(TrackedSocket):
        def accept(self):
            return TrackedSocket(socket.AF_INET, socket.SOCK_STREAM), ("127.0.0.1", 1)

    async def go():
        with Endless(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.setblocking(False)
            accepted = []
            loop = asyncio.create_task(
                accept_callers(listener, lambda connection, _: accepted.append(connection.close()))
            )
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            loop.cancel()
            return len(accepted)

    assert 0 < asyncio.run(asyncio.wait_for(go(), PATIENCE)) < 100


@pytest.mark.parametrize("moment", ["before the task began", "before the first byte", "after it", "too late"])
def test_a_connection_is_closed_whenever_its_task_ends(moment):
    async def go():
        caller, accepted = socket.socketpair()
        connection = CountingSocket(fileno=accepted.detach())
        connection.setblocking(False)
        closed, begun = asyncio.Event(), asyncio.Event()
        connection.on_close = closed.set

        async def job():
            begun.set()
            with connection:
                await asyncio.Event().wait()

        task = handle(connection, asyncio.create_task, job, 0.1 if moment == "too late" else 60)
        if moment == "after it":
            caller.sendall(b"x")
            await asyncio.wait_for(begun.wait(), PATIENCE)
        elif moment == "before the first byte":
            await asyncio.sleep(0.01)
        if moment != "too late":
            task.cancel()
        await asyncio.wait_for(closed.wait(), PATIENCE)
        assert begun.is_set() == (moment == "after it")
        assert connection.fileno() == -1
        caller.close()

    asyncio.run(go())


@pytest.mark.parametrize(
    "options", [{"again": False}, {"again": True, "source": "127.0.0.2"}], ids=["same address", "coming again"]
)
def test_silent_strangers_do_not_end_a_release(tmp_path, options):
    """600 connections that say nothing, at servers that may open 400 files."""
    trial = Trial.filled(tmp_path)
    deeds = dict.fromkeys(range(3), ("allow_few_files", 400))
    with (
        Silent(("127.0.0.1", trial.ports[2]), 600, seconds=2 * PATIENCE, **options) as silent,
        concurrent.futures.ThreadPoolExecutor() as threads,
    ):
        called = threads.submit(run, trial, deeds=deeds, servers=[2], options=PATIENTLY, seconds=PATIENCE)
        wait_for(lambda: silent.opened >= 600, "600 connections")
        if not options["again"]:  # 64 of one address have a place; what the stranger opens again is not counted
            wait_for(lambda: silent.held <= 100, "the end of all but 100 connections")
        ended = run(trial, deeds=deeds, servers=[0, 1], options=PATIENTLY, seconds=PATIENCE) | called.result()
    assert {server: each.status for server, each in ended.items()} == {0: 0, 1: 0, 2: 0}, ended
