"""LocalParties that live for several runs: one start and one handshake, then a run is a message of their launcher."""

import os
import signal
import subprocess
import sys
import time

import pytest

from dpmpc.base.errors import PartyLost, ProtocolFailure
from dpmpc.parties.network.programs import Agreement, Callbacks, LocalParties
from dpmpc.parties.network.settings import read_settings
from support.rejections import rejects
from support.waiting import wait_for

PROGRAM = "network_programs.counting_runs"


def agreement(length, servers=3, **more):
    return Agreement(PROGRAM, servers, {"length": length, **more}, deadline=20)


def is_alive(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_same_processes_take_part_in_every_run():
    outcomes, folders = [], []
    with LocalParties() as parties:
        for number, length in enumerate((10, 2000, 10)):

            def place(own, number=number):
                folders[:] = own
                for folder in own:
                    (folder / f"given-{number}.run").touch()
                    (folder / "deep").mkdir()

            outcomes.append(
                parties.run(agreement(length), simulation={"seed": 100 + number}, callbacks=Callbacks(meanwhile=place))
            )
            assert {read_settings(folder).arguments["length"] for folder in folders} == {length}
            for folder in folders:
                assert f"{100 + number}" not in (folder / "party.json").read_text()
    for number, run in enumerate(outcomes):
        assert [outcome.party for outcome in run] == [0, 1, 2, 3]
        for outcome in run:
            assert outcome.result["runs"] == number + 1
            assert outcome.result["files"] == [f"given-{number}.run"], "what an earlier run has left is removed"
            assert outcome.result["simulation"] == {"seed": 100 + number}
    processes = [{outcome.result["process"] for outcome in run} for run in outcomes]
    assert processes[0] == processes[1] == processes[2]
    assert len(processes[0]) == 4
    assert not any(map(is_alive, processes[0])), "the parties end with the context"
    assert not folders[0].parent.exists()


def test_each_run_is_measured_by_itself():
    with LocalParties() as parties:
        runs = [[one.statistics for one in parties.run(agreement(length))] for length in (10, 2000, 10)]
    for length, run in zip((10, 2000, 10), runs, strict=True):
        assert [one.payload_sent for one in run] == [8 * length] * 3 + [0]
        assert [one.payload_received for one in run] == [0, 0, 0, 3 * 8 * length]
        for spent in run:
            assert spent.bytes_sent == sum(traffic.socket.sent for traffic in spent.peers.values())
            assert spent.bytes_sent >= spent.payload_sent + spent.setup_bytes_sent
            assert set(spent.phases) == ({"open"} if spent.server < 3 else set())
            if sys.platform == "linux":
                assert all(traffic.kernel == traffic.socket for traffic in spent.peers.values())
    assert runs[2][0].setup_bytes_sent < runs[0][0].setup_bytes_sent / 4, "certificates are sent once"
    assert runs[2][0].setup_s < runs[0][0].setup_s


@pytest.mark.parametrize(("deed", "error"), [("die", PartyLost), ("fail", ProtocolFailure)])
@pytest.mark.parametrize("culprit", [1, 3], ids=["server", "analyst"])
def test_a_party_that_fails_in_a_later_run_is_named(deed, error, culprit):
    with LocalParties() as parties:
        parties.run(agreement(10))
        with pytest.raises(error) as failure:
            parties.run(agreement(10, culprit=culprit, deed=deed))
        assert failure.value.party == culprit
        with rejects("parties", given="those of a run that has failed"):
            parties.run(agreement(10))


def test_a_party_that_is_killed_between_two_runs_is_named():
    with LocalParties() as parties:
        processes = [outcome.result["process"] for outcome in parties.run(agreement(10))]
        os.kill(processes[2], signal.SIGKILL)
        with pytest.raises(PartyLost, match="SIGKILL") as failure:
            parties.run(agreement(10))
        assert failure.value.party == 2
    assert not any(map(is_alive, processes))


@pytest.mark.parametrize("other", [agreement(10, servers=2), Agreement("network_programs.telling", 3)])
def test_another_program_needs_other_parties(other):
    with LocalParties() as parties:
        parties.run(agreement(10))
        with rejects("agreement", expected="('network_programs.counting_runs', 3, True)"):
            parties.run(other)
        assert [outcome.result["runs"] for outcome in parties.run(agreement(10))] == [2] * 4


LAUNCHER = """
import sys
from dpmpc.parties.network.programs import LocalParties
sys.path.append("tests")
from parties.test_several_runs import agreement
with LocalParties() as parties:
    folders = []
    outcomes = parties.run(agreement(10))
    print(*[outcome.result["process"] for outcome in outcomes], parties._folders[0].parent, flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("new_interpreters")
def test_parties_end_with_a_launcher_that_is_killed_between_two_runs():
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    *processes, folder = launcher.stdout.readline().split()
    launcher.kill()
    launcher.communicate()
    wait_for(lambda: not any(is_alive(int(process)) for process in processes), "the end of the parties")
    wait_for(lambda: not os.path.exists(folder), "the end of their folders")


def test_an_interrupted_launcher_ends_its_parties():
    began, processes = time.monotonic(), []

    def interrupted():
        with LocalParties() as parties:
            processes.extend(outcome.result["process"] for outcome in parties.run(agreement(10)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not any(map(is_alive, processes))
    assert time.monotonic() - began < 40
