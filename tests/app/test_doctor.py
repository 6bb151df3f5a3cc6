"""`dpmpc doctor`: what is missing or broken is told, with what to do, and never ends the examination."""

import builtins
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import socket
import ssl
import tempfile
import time
from pathlib import Path

import pytest

from dpmpc._kernels import dense, sketch
from dpmpc.app.cli import doctor, self_test
from dpmpc.app.cli import main as cli
from dpmpc.base import system
from dpmpc.base.errors import PartyMissing

VECTORS = Path(__file__).parents[1] / "vectors"
HOMES = {"philox": "sketch", "sums": "sketch", "expand": "sharing", "box": "encoding", "ball": "encoding"}


def finding(subject):
    checks = {**doctor.CHECKS, **doctor.NETWORK}
    return doctor._careful(subject, checks[subject])


def test_the_command_says_a_line_for_each_check(capsys):
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line.split()[1] for line in lines if not line.startswith(" ")]
    assert told == list(doctor.CHECKS)
    assert all(line.split()[0] in ("ok", "warning", "problem", "->") for line in lines)


def test_a_problem_ends_with_status_1_and_every_finding(capsys, monkeypatch):
    monkeypatch.setattr(ssl, "HAS_TLSv1_3", False)
    assert cli.main(["doctor", "--json"]) == 1
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["ok"] is False
    assert [one["subject"] for one in told["findings"]] == list(doctor.CHECKS)
    (tls,) = [one for one in told["findings"] if one["state"] == "problem"]
    assert tls["subject"] == "tls"
    assert "OpenSSL 1.1.1" in tls["advice"]
    assert "MachineUnfit: doctor: 1 of 15 are a problem: tls" in err


def test_three_servers_run_on_the_loopback():
    told = finding("network")
    assert told.state == "ok"
    assert "3 servers and an analyst released a sum of 5,000 rows" in told.found


def test_a_run_that_fails_is_a_problem(monkeypatch):
    def fail():
        raise PartyMissing("party 2 had not come up", 2)

    monkeypatch.setattr(self_test, "network_seconds", fail)
    told = finding("network")
    assert told.state == "problem"
    assert told.found == "PartyMissing: party 2 had not come up"


def test_kernels_that_are_missing_are_a_problem(monkeypatch):
    original = builtins.__import__

    def without_kernels(name, *rest):
        if name == "dpmpc._kernels":
            raise ImportError("no kernels")
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_kernels)
    told = finding("kernels")
    assert (told.state, told.found) == ("problem", "ImportError: no kernels")
    assert "install dpmpc again" in told.advice


@pytest.mark.parametrize(("machine", "state"), [("x86_64", "warning"), ("aarch64", "ok")])
def test_the_portable_path_is_a_warning_where_there_are_wider_ones(monkeypatch, machine, state):
    monkeypatch.setattr(dense, "instruction_sets", lambda: ("portable",))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    if sketch.instruction_sets() == ("portable",):
        pytest.skip("this build has no wider bodies")
    assert finding("kernels").state == state


@pytest.mark.parametrize("kind", list(self_test.known_answers()))
def test_the_known_answers_are_among_the_vectors_and_are_compared(kind, monkeypatch):
    vectors = json.loads((VECTORS / f"{HOMES.get(kind, 'noise')}.json").read_text())
    known = self_test.known_answers()
    assert all(case in (vectors if kind == "noise" else vectors[kind]) for case in known[kind])
    wanted = {"philox": "result", "sums": "Y", "expand": "words", "noise": "sample"}.get(kind, "q")
    broken = {**known, kind: [{**known[kind][0], wanted: changed(known[kind][0][wanted])}]}
    monkeypatch.setattr(self_test, "known_answers", lambda: broken)
    bodies = [f" with {name}" for name in sketch.instruction_sets()] if kind in ("philox", "sums") else [""]
    assert self_test.wrong_answers()[1] == [f"{kind}[0]{body}" for body in bodies]
    assert "do not use this build" in finding("answers").advice


def changed(answer):
    """One bit of the last number is different."""
    if isinstance(answer, str):
        return answer[:-1] + f"{int(answer[-1], 16) ^ 1:x}"
    return [*answer[:-1], changed(answer[-1]) if isinstance(answer[-1], list) else answer[-1] ^ 1]


def test_the_self_test_leaves_the_best_instruction_set_in_place(monkeypatch):
    used = []
    monkeypatch.setattr(sketch, "use_instruction_set", used.append)
    compared, wrong = self_test.wrong_answers()
    assert (compared, wrong) == (6 + 5 * len(sketch.instruction_sets()), [])
    assert used[-1] == sketch.instruction_sets()[-1]
    assert set(used) == set(sketch.instruction_sets())


def test_packages_that_are_missing_or_too_old_are_named(monkeypatch):
    monkeypatch.setattr(doctor, "_requirements", lambda: ["numpy>=99", "absent_package>=1", "mpyc==0.11"])
    told = finding("packages")
    assert told.state == "problem"
    assert "not as needed: numpy>=99, absent_package>=1" in told.found
    assert told.advice == "pip install 'numpy>=99' 'absent_package>=1'"


@pytest.mark.parametrize(
    ("requirement", "version", "met"),
    [
        ("a>=1.20", "1.20.0", True),
        ("a>=1.20", "1.9", False),
        ("a==0.11", "0.11.0", True),
        ("a==0.11", "0.12", False),
        ("a[b,c]>=2024.8; extra == 'x'", "2024.10.1", True),
        ("a>=2", "2.0rc1", True),  # what is before a release is not told apart
    ],
)
def test_versions_are_compared_as_numbers(requirement, version, met, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert doctor._met(requirement) is met


def test_extras_that_are_missing_come_with_their_command(monkeypatch):
    monkeypatch.setattr(doctor, "_met", lambda requirement: "pyarrow" not in requirement)
    told = finding("extras")
    assert told.state == "ok"
    assert "parquet missing (pip install '.[parquet]' in its source folder)" in told.found
    assert "cluster present" in told.found


def test_a_full_temporary_folder_and_a_low_limit_are_warnings(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 5, 5))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 256))
    assert "set TMPDIR" in finding("temporary").advice
    assert finding("limits").advice.startswith("ulimit -n 1024")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert "any number of open files" in finding("limits").found


def test_a_temporary_folder_that_cannot_be_written_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    assert finding("temporary").state == "problem"


def test_slow_aes_and_a_slow_disk_are_warnings(monkeypatch):
    monkeypatch.setattr(doctor, "_seconds", lambda job: 1.0)
    assert finding("aes").state == finding("disk").state == "warning"


def test_a_closed_loopback_is_a_problem(monkeypatch):
    def refuse(address):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "create_server", refuse)
    told = finding("ports")
    assert told.state == "problem"
    assert "127.0.0.1" in told.advice


def test_a_clock_behind_the_installation_is_a_problem(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1e9)
    assert "set the clock" in finding("clock").advice


def test_entropy_that_is_not_ready_is_a_warning(monkeypatch):
    def wait(count, flags):
        raise BlockingIOError

    monkeypatch.setattr(os, "getrandom", wait, raising=False)
    monkeypatch.setattr(os, "GRND_NONBLOCK", 1, raising=False)
    assert finding("entropy").state == "warning"
    monkeypatch.delattr(os, "getrandom")
    assert finding("entropy").found == "os.urandom"


def test_no_compiler_is_no_fault(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert finding("compiler").found == "none; only a build from source needs one"


def test_what_the_system_lacks_is_a_warning(monkeypatch):
    monkeypatch.setattr(system, "lacking", lambda: ["TCP_INFO: no second count"])
    told = finding("system")
    assert told.state == "warning"
    assert "lacks TCP_INFO: no second count" in told.found


def test_an_old_or_other_python_is_a_problem(monkeypatch):
    monkeypatch.setattr(platform, "python_implementation", lambda: "PyPy")
    assert finding("python").advice == "use CPython 3.11 or later"
