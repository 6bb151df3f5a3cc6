"""`dpmpc doctor`: what is missing or broken is told, with what to do, and never ends the examination."""

import builtins
import json
import platform
import resource
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
    monkeypatch.setattr(self_test, "wrong_answers", lambda: (9, ["box[0]"]))
    assert cli.main(["doctor", "--json"]) == 1
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["ok"] is False
    assert [one["subject"] for one in told["findings"]] == list(doctor.CHECKS)
    assert [one["subject"] for one in told["findings"] if one["state"] == "problem"] == ["answers"]
    assert "MachineUnfit: doctor: 1 of 6 are a problem: answers" in err


def test_three_servers_run_on_the_loopback():
    told = finding("network")
    assert told.state == "ok"
    assert "3 servers and an analyst released a sum of 5,000 rows" in told.result


def test_a_run_that_fails_is_a_problem(monkeypatch):
    def fail():
        raise PartyMissing("party 2 had not come up", 2)

    monkeypatch.setattr(self_test, "network_seconds", fail)
    told = finding("network")
    assert told.state == "problem"
    assert told.result == "PartyMissing: party 2 had not come up"


def test_kernels_that_are_missing_are_a_problem(monkeypatch):
    original = builtins.__import__

    def without_kernels(name, *rest):
        if name == "dpmpc._kernels":
            raise ImportError("no kernels")
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_kernels)
    told = finding("kernels")
    assert (told.state, told.result) == ("problem", "ImportError: no kernels")
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


def test_a_low_limit_of_open_files_is_a_warning(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 256))
    assert finding("limits").advice.startswith("ulimit -n 1024")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert "any number of open files" in finding("limits").result


def test_slow_aes_and_a_slow_disk_are_warnings(monkeypatch):
    monkeypatch.setattr(doctor, "_seconds", lambda job: 1.0)
    assert finding("aes").state == finding("disk").state == "warning"


def test_what_the_system_lacks_is_a_warning(monkeypatch):
    monkeypatch.setattr(system, "lacking", lambda: ["TCP_INFO: no second count"])
    told = finding("system")
    assert told.state == "warning"
    assert "lacks TCP_INFO: no second count" in told.result
