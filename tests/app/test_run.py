"""`dpmpc run`: MPyC programs as they stand on authenticated links, here and by hand."""

import datetime
import subprocess
import sys
import time

import pytest

from bench.system.ports import free_ports
from dpmpc.base.errors import InputError, PartyLost, ProtocolFailure
from dpmpc.parties.network.identity import write_identity
from support import forks
from support.mpyc_launcher import MPYC_PROGRAMS, PROTOCOLS, finish, start

PLAIN = MPYC_PROGRAMS / "plain.py"
SMALL = ("--clients", 2001, "--rows", 16, "--corrupt-clients", 0)


def run(*arguments):
    return forks.run("run", *arguments)


def test_a_program_of_mpyc_runs_as_it_stands():
    done = run(PLAIN, "-M3", "-L40", "-n", 7)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "sum 51",
        "max 27",
        "sorted [-27, -17, -7]",
        "product [[2.75, 1.0], [0.125, 1.5]]",
        "bits 40 1",
    ]


def test_other_parties_print_to_files_if_asked_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(PLAIN, "-M3", "--output-file")
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"party3_{party}.log").read_text() for party in (1, 2)] == [done.stdout] * 2


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("linear_transform", ["-M3", *SMALL, "--analyst", 1]),
        ("linear_transform", ["-M2", *SMALL]),
        ("linear_transform", ["-M5", "-T2", "--sharing", "shamir", *SMALL]),
        ("unopened_moment", ["-M3", "--clients", 20_001, "--rows", 16]),
    ],
)
def test_the_programs_run_unchanged(program, options):
    done = run(PROTOCOLS / f"{program}.py", *options)
    assert done.returncode == 0, done.stderr
    parties = options[0].removeprefix("-M")
    first, second, *_ = done.stdout.splitlines()
    assert first == f"links: dpmpc.parties.network, {parties} parties, mutually authenticated TLS"
    assert second.startswith("opened: ")
    assert ("opened: by party 1 alone" if "--analyst" in options else "differential privacy") in done.stdout
    assert "CPU, s" in done.stdout


def test_a_party_that_dies_is_named():
    done = run(PLAIN, "-M3", "--dies", 1)
    assert done.returncode == PartyLost.exit_status
    assert "PartyLost: party 1 was killed by SIGKILL" in done.stderr


def test_a_run_on_one_machine_ends_after_its_longest_time():
    started = time.monotonic()
    done = run("--longest", 3, PLAIN, "-M2", "--waits", 500)
    assert done.returncode == ProtocolFailure.exit_status
    assert time.monotonic() - started < 60


def test_an_error_of_the_program_is_reported():
    done = run(PLAIN, "-M3", "--fails", 2)
    assert done.returncode == ProtocolFailure.exit_status
    assert "party 2 failed: ValueError: no good" in done.stderr
    done = run(PROTOCOLS / "linear_transform.py", "-M3", "--clients", 2001)
    assert done.returncode == InputError.exit_status
    assert "GuaranteeError: party 0: corrupt_clients" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([PLAIN], "-M: none given, at least 2 parties expected"),
        ([PLAIN, "-M3", "--ssl"], "--ssl: given, none expected"),
        ([PLAIN, "-M3", "-I1"], "-I: 1 given with -M, none expected"),
        ([PLAIN, "-M3", "-T2"], "-T: 2 given, fewer than half of 3 parties expected"),
        ([PLAIN, "-M3", "--nothing-known"], "program: plain.py ended with status 2"),
        (["nowhere.py", "-M3"], "the file of an MPyC program expected"),
        ([PLAIN, "-Pa.example:1", "-Pb.example:2", "-I2"], "-I: 2 given, a party from 0 to 1 expected"),
        ([PLAIN, "-Pa.example:1", "-Pb.example:2", "-I0"], "identity, certificate: None, 0 given"),
        ([PLAIN, "-Pnowhere", "-Pb.example:2", "-I0", "--identity"], "-P: 'nowhere' given"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, message, tmp_path):
    options = []
    if arguments[-1] == "--identity":
        arguments = arguments[:-1]
        options = ["--identity", tmp_path, "--certificate", __file__, "--certificate", __file__]
    done = run(*options, *arguments)
    assert (done.returncode, done.stdout) == (InputError.exit_status, "")
    assert message in done.stderr


def by_hand(tmp_path, programs):
    """Start each party as on a host of its own, with an identity of its own."""
    certificates = []
    for party in range(len(programs)):
        (tmp_path / f"{party}.crt").write_bytes(
            write_identity(tmp_path / f"{party}", party, datetime.timedelta(days=1))
        )
        certificates += ["--certificate", str(tmp_path / f"{party}.crt")]
    addresses = [f"-P127.0.0.1:{port}" for port in free_ports(len(programs))]
    command = [sys.executable, "-m", "dpmpc", "run", *certificates]
    return finish(
        [
            start([*command, "--identity", str(tmp_path / f"{party}"), str(program), *addresses, f"-I{party}"], None)
            for party, program in enumerate(programs)
        ]
    )


def test_parties_of_several_hosts_are_started_by_hand(tmp_path):
    ended = by_hand(tmp_path, [PLAIN] * 3)
    assert [done.returncode for done in ended] == [0] * 3, ended[0].stderr
    assert all("sum 39" in done.stderr for done in ended)


def test_another_program_of_one_party_is_refused(tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN.read_text().replace("max(numbers)", "min(numbers)"))
    ended = by_hand(tmp_path, [PLAIN, PLAIN, tmp_path / "plain.py"])
    assert all(done.returncode == ProtocolFailure.exit_status for done in ended)
    assert all("sum" not in done.stderr for done in ended)


def test_messages_of_peers_are_not_unpickled(tmp_path):
    """A program that would exchange pickles ends with an error."""
    program = tmp_path / "pickles.py"
    program.write_text("from mpyc.runtime import mpc\nmpc.run(mpc.start())\nmpc.run(mpc.transfer({1: 2}))\n")
    done = subprocess.run(
        [sys.executable, "-m", "dpmpc", "run", str(program), "-M3"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == ProtocolFailure.exit_status
    assert "was about to send a pickle" in done.stderr
