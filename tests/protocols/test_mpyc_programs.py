"""`linear_transform` and the programs on it as users of MPyC start them: by -M, or each party by hand."""

import json
import os
import signal
import subprocess
import sys
import time

import msgspec
import numpy as np
import pytest

from bench.secure_sketching.unopened import ROUNDS
from bench.system.ports import free_ports
from dpmpc.base.errors import BatchMismatch, GuaranteeError, InputError, MalformedFrame, PartyLost
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.parties.mpyc.share_folders import ShareFolder, write_share_folders, write_task
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.statements import ASSUMPTIONS
from dpmpc.release import simulation as model
from dpmpc.release.client import Client, share_batch
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from support.mpyc_identities import write_mpyc_identities
from support.mpyc_launcher import MPYC_PROGRAMS, PROTOCOLS, by_hand, by_launcher, finish, start
from support.rejections import rejects

PROGRAM = PROTOCOLS / "linear_transform.py"
CLIENTS = 2000
SMALL = ("--clients", CLIENTS, "--rows", 16, "--corrupt-clients", 0, "--no-log")


def task_of(parties, **choices):
    choices = {"sketch": "osnap", "rows": 20, "sparsity": 4, "copies": "each", "servers": parties, **choices}
    names = ["a", "b", "c"]
    return design(ReleaseSpec.of(Schema.unit(names), CLIENTS, 1.0, 1e-6, simulation_seed=7, **choices))


def rows():
    return np.random.default_rng(5).uniform(-1, 1, (CLIENTS, 3))


def folders_of(task, out):
    """Play clients who are no parties."""
    return write_share_folders(out, task, share_batch(task, rows(), stream=Stream.from_seed(8)))


@pytest.mark.parametrize(
    ("parties", "options", "choices"),
    [
        (2, [], {}),
        (2, ["--analyst", "1"], {"sparsity": 1}),
        (3, ["--no-prss"], {"sparsity": 8}),
        (3, ["-W2"], {"ring": "mersenne61"}),
        (3, [], {"copies": "one"}),
        (3, ["--no-async"], {"sketch": "sum", "rows": None, "sparsity": None, "copies": "auto"}),
        (3, [], {"sharing": "shamir", "corrupt_servers": 1}),
        (5, ["-T2", "--analyst", "3"], {"sharing": "shamir", "sparsity": 8, "corrupt_servers": 2}),
        (5, [], {"sparsity": 1}),
        (4, ["-T1"], {"sharing": "shamir", "corrupt_servers": 1, "sparsity": 16}),
        (7, ["--analyst", "4"], {"copies": "one", "sparsity": 5}),
    ],
)
def test_parties_open_what_clients_have_sent_to_them(parties, options, choices, tmp_path):
    """In every integer; the folder says what the task is, whatever the other options are."""
    task = task_of(parties, **choices)
    folders_of(task, tmp_path / "shares")
    local = model.run(task, rows(), stream=Stream.from_seed(8))
    kept = ("--shares", tmp_path / "shares", "--release", tmp_path / "release", "--costs", tmp_path / "costs")
    done = by_launcher(PROGRAM, *kept, "--no-log", *options, parties=parties)
    assert done.returncode == 0, done.stderr
    release = Release.load(tmp_path / "release")
    assert release.task == task
    if task.servers_add_noise:  # drawn anew by each server of a program, whatever the task is
        exact = task.sketch.apply(
            task.encoding.ring.embed(Client(task).encode(rows())[:, None]), ring=task.encoding.ring
        )
        error = release.sums - task.encoding.ring.lift(exact)
        spread = np.mean(error.astype(float) ** 2 / (task.noise_terms[:, None] * task.noise.variance))
        assert spread == pytest.approx(1, abs=6 * np.sqrt(2 / error.size))
    else:
        assert (release.sums == local.sums).all()
    costs = json.loads((tmp_path / "costs").read_text())
    assert [cost["party"] for cost in costs] == list(range(parties))
    for cost in costs:
        assert cost["rounds"]["agree"] == 1
        assert {"agree", "read", "transform", "open"} <= set(cost["phases"])
        receivers = parties - 1 if "--analyst" not in options else int(cost["party"] != int(options[-1]))
        opened = receivers * (12 + 8 * task.sketch.rows * task.width)
        assert opened <= cost["bytes_sent"] < opened + 2000 * parties


def test_a_folder_of_shares_is_opened_once(tmp_path):
    folders_of(task_of(3), tmp_path / "shares")
    arguments = ("--shares", tmp_path / "shares", "--no-log")
    assert by_launcher(PROGRAM, *arguments).returncode == 0
    done = by_launcher(PROGRAM, *arguments)
    assert done.returncode == GuaranteeError.exit_status
    assert "GuaranteeError: shares: " in done.stderr
    assert "opened:" not in done.stdout
    with pytest.raises(GuaranteeError):
        ShareFolder.of_party(tmp_path / "shares", 2).mark_used()


def test_a_folder_is_not_used_up_by_a_run_that_has_opened_nothing(tmp_path):
    folders_of(task_of(3), tmp_path / "shares")
    arguments = ("--shares", tmp_path / "shares", "--no-log")
    addresses = [f"-P127.0.0.1:{port}" for port in free_ports(3)]
    command = [sys.executable, str(PROGRAM), *map(str, arguments), *addresses, "-I0"]
    alone = start(command, None)
    with pytest.raises(subprocess.TimeoutExpired):
        alone.communicate(timeout=3)
    alone.kill()
    alone.communicate()
    assert by_launcher(PROGRAM, *arguments).returncode == 0


def test_played_clients_toss_for_the_matrix(tmp_path):
    """Each run draws another public matrix; all parties print the guarantee and the costs of each."""
    seeds = set()
    for number in range(2):
        done = by_launcher(PROGRAM, *SMALL, "--release", tmp_path / f"{number}")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("links: MPyC 0.11, 3 parties on this machine, not encrypted")
        assert "opened: 16 x 10 numbers of 1,998 clients" in done.stdout
        assert "(1, 1e-07)-differential privacy for each of 1,998 clients" in done.stdout
        assert ASSUMPTIONS["trusted-network"] in done.stdout
        assert "TLS 1.3" not in done.stdout
        assert "4 agree 1 input 1 open" in done.stdout
        assert (
            "opened by all parties: a party that opens it is a server, and counts among the 2 of 3 that may pool"
            in done.stdout
        )
        seeds.add(Release.load(tmp_path / f"{number}").task.sketch.seed)
    assert len(seeds) == 2


def test_the_clients_of_parties_that_pool_what_they_know_count_as_corrupt():
    done = by_launcher(PROGRAM, "--clients", 120_000, "--no-log", parties=3)
    assert done.returncode == 0, done.stderr
    assert "2 of the 3 servers and 80,000 clients pool all they see" in done.stdout
    done = by_launcher(PROGRAM, *SMALL[:4], "--no-log", parties=3)
    assert (done.returncode, done.stdout) == (GuaranteeError.exit_status, "")
    assert "GuaranteeError: corrupt_clients" in done.stderr


@pytest.mark.parametrize("program", ["ridge_regression", "low_rank_approximation", "frequency_moments"])
def test_programs_on_the_transform_print_their_analysis(program):
    clear = ("--clients", 400_000, "--corrupt-clients", 0, "--epsilon", 20)  # coefficients are far above their errors
    done = by_launcher(PROTOCOLS / f"{program}.py", *clear, "--no-log")
    assert done.returncode == 0, done.stderr
    for words in ("links: ", "opened: ", "schooling_years", "differential privacy", "CPU, s"):
        assert words in done.stdout


def test_rounds_of_mpyc_are_counted_beside_those_of_each_phase(tmp_path):
    """MPyC's product is one; a coin is tossed in three here, with the digest of its purpose, and in two with us."""
    options = ("--clients", 20_001, "--rows", 16, "--costs", tmp_path / "costs", "--no-log")
    done = by_launcher(PROTOCOLS / "unopened_moment.py", *options)
    assert done.returncode == 0, done.stderr
    for cost in json.loads((tmp_path / "costs").read_text()):
        rounds = cost["rounds"]
        assert rounds == {"agree": 4 + 3, "input": 1 + 1, "multiply": 2, "mpyc": 1, "open": 1}
        rounds = rounds | {"agree": 2, "input": 1}  # of clients who are no parties, and a task that is known
        assert sum(rounds.values()) == ROUNDS["unopened"]


def test_parties_are_started_by_hand():
    ended = by_hand(PROGRAM, *SMALL, "--analyst", 2)
    assert [done.returncode for done in ended] == [0, 0, 0], [done.stderr for done in ended]
    assert ["opened: by party 2 alone" in done.stdout for done in ended] == [True, True, False]


def test_a_task_is_read_from_a_file(tmp_path):
    task = task_of(4)
    write_task(tmp_path / "task", task)
    done = by_launcher(PROGRAM, "--task", tmp_path / "task", "--release", tmp_path / "release", "--no-log", parties=4)
    assert done.returncode == 0, done.stderr
    assert Release.load(tmp_path / "release").task == task
    assert "SIMULATION" in done.stdout
    done = by_launcher(PROGRAM, "--task", tmp_path / "task", "--no-log", parties=3)
    assert done.returncode == InputError.exit_status
    assert "task: one for 4 servers of whom 3 may pool their shares given, 3 of whom 2 may expected" in done.stderr


def test_a_run_without_noise_is_that_of_a_task_without_noise(tmp_path):
    """Its guarantee is none, its sums are exact, and its folder may be used again."""
    task = task_of(3).without_noise()
    shares = share_batch(task, rows(), stream=Stream.from_seed(8))
    write_share_folders(tmp_path / "shares", task, shares)
    exact = task.sketch.apply(task.encoding.ring.embed(np.repeat(Client(task).encode(rows())[:, None], 4, axis=1)))
    for turn in range(2):
        release = tmp_path / f"release-{turn}"
        done = by_launcher(PROGRAM, "--shares", tmp_path / "shares", "--release", release, "--no-log")
        assert done.returncode == 0, done.stderr
        assert (Release.load(release).sums == task.encoding.ring.lift(exact)).all()
        assert "SIMULATION: no noise was added" in done.stdout
        assert "guarantee: none, for any of 2,000 clients" in done.stdout
        assert "differential privacy" not in done.stdout
    with rejects("noise", GuaranteeError, expected="some"):
        msgspec.structs.replace(task, simulation=False).verify()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-M1"], "-M: 1 party given, at least 2 expected"),
        (["-M3", "--analyst", "3"], "--analyst: 3 given, a party from 0 to 2 expected"),
        (["-M3", "--analyst", "-1"], "--analyst: -1 given, a party from 0 to 2 expected"),
        (["-M3", "--costs", "/nowhere/costs"], "--costs: /nowhere/costs given, a new file in a directory that exists"),
        (["-M3", "--shares", "a", "--task", "b"], "--task: given with --shares, none expected"),
        (["-M3", "--shares", "nowhere"], "nowhere/party-0/task.json: the public facts of a release expected"),
        (["-M2", "--sharing", "shamir"], "servers: 2 given, at least 3 expected"),
        (["-Pa.example:1", "-Pb.example:1", "-I0", "--shares", "a"], "--shares: given with parties on other machines"),
    ],
)
def test_what_cannot_be_had_is_refused_before_any_party_is_contacted(options, message):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--no-log", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == InputError.exit_status, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_parties_that_were_told_different_things_name_them():
    """Parties 0 and 1 open to all, and party 2 to itself; each prints what differs, and none waits for ever."""
    addresses = [f"-P127.0.0.1:{port}" for port in free_ports(3)]
    own = [[], [], ["--analyst", "2"]]
    python = sys.executable
    processes = [
        start([python, str(PROGRAM), *map(str, SMALL), *addresses, f"-I{party}", *own[party]], None)
        for party in range(3)
    ]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [BatchMismatch.exit_status] * 3
    for party in (0, 1):
        assert "BatchMismatch: analyst: party 2 gave another than None" in outputs[party][1]


def left_in(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("way", ["together", "by hand"])
def test_a_party_that_dies_ends_the_others(way, monkeypatch):
    """With an error that names it, and no process is left behind."""
    monkeypatch.setenv("DEED", "die")
    program, python = str(MPYC_PROGRAMS / "misbehaving_transform.py"), sys.executable
    ports = free_ports(3)
    if way == "together":
        commands = [["-M3", "-B", str(ports[0])]]
    else:
        commands = [[*(f"-P127.0.0.1:{port}" for port in ports), f"-I{party}"] for party in range(3)]
    processes = [start([python, program, *map(str, SMALL), *command], None) for command in commands]
    outputs = [process.communicate(timeout=60) for process in processes]
    statuses = [PartyLost.exit_status, -signal.SIGKILL, PartyLost.exit_status]
    assert [process.returncode for process in processes] == statuses[: len(processes)]
    assert "PartyLost: lost party 1" in outputs[0][1]
    assert "`dpmpc run FILE -M3 ...` starts the same program" in outputs[0][1]
    end = time.monotonic() + 20
    while any(left_in(process.pid) for process in processes):
        assert time.monotonic() < end, "a party is left behind"
        time.sleep(0.1)


def test_no_party_prints_that_an_analyst_has_opened_what_it_has_not_kept(monkeypatch):
    monkeypatch.setenv("DEED", "die before it keeps the release")
    ended = by_hand(MPYC_PROGRAMS / "misbehaving_transform.py", *SMALL, "--analyst", 1)
    assert [done.returncode for done in ended] == [PartyLost.exit_status, -signal.SIGKILL, PartyLost.exit_status]
    assert not any("opened" in done.stdout for done in ended)


def test_no_pickle_of_a_peer_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("DEED", "leave with a pickle")
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    ended = by_hand(MPYC_PROGRAMS / "misbehaving_transform.py", *SMALL, "--release", tmp_path / "release")
    assert ended[0].returncode == MalformedFrame.exit_status
    assert "MalformedFrame: a peer sent" in ended[0].stderr
    assert not (tmp_path / "mark").exists()
    assert Release.load(tmp_path / "release").clients == 1998  # was saved before the parties took leave


def test_the_programs_take_ssl_of_mpyc(tmp_path):
    write_mpyc_identities(tmp_path / ".config", 3)
    addresses = [f"-P127.0.0.1:{port}" for port in free_ports(3)]
    command = [
        sys.executable,
        str(PROGRAM),
        "--clients",
        "20001",
        "--epsilon",
        "4",
        "--rows",
        "16",
        *addresses,
        "--ssl",
    ]
    ended = finish([start([*command, f"-I{party}"], tmp_path) for party in range(3)])
    assert [done.returncode for done in ended] == [0] * 3, ended[0].stderr
    assert "All 3 parties connected via SSL." in ended[0].stdout
    assert "links: MPyC 0.11, 3 parties on this machine, TLS by --ssl" in ended[0].stdout
