"""`python -m bench`: every bench can be named, sets run all of theirs, and a failure neither hides nor is hidden."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from bench import registry
from bench.registry import BENCHES
from dpmpc.cli import bench as bench_command
from dpmpc.cli.bench import chosen
from dpmpc.cli.main import main, parser
from dpmpc.errors import BenchFailed

#: Modules of bench/ that are parts of benches.
PARTS = {
    "__init__",
    "charts",
    "harness",
    "intake_servers",
    "mpr",
    "mpr_population",
    "plain_mpyc",
    "real_data",
    "registry",
}
PARTS |= {"runtime_tables", "scale_server", "simulation", "synthetic", "utility", "released", "wire"}


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_can_be_named(name, capsys):
    assert parser().parse_args(["bench", name.replace("_", "-")]).name == name
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"dpmpc.bench.{name}").main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert name in told
    assert all(argument in told for argument in BENCHES[name].short if argument.startswith("--"))


def test_every_module_is_a_bench_or_a_part_of_one():
    modules = {path.stem for path in Path(registry.__file__).parent.glob("*.py")}
    assert modules - PARTS - {"performance_goals", "performance_page", "performance_plots"} == set(BENCHES)


def test_help_tells_what_each_bench_repeats(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    told = capsys.readouterr().out
    assert all(f"{name} " in told and bench.about in told and bench.peers in told for name, bench in BENCHES.items())
    assert " * kernels" in told
    assert " * figure2" not in told


def test_sets_hold_what_they_say():
    assert list(chosen("all", [])) == list(chosen("all", ["--short"])) == list(BENCHES)
    assert set(chosen("all", []).values()) == {()}
    assert chosen("all", ["--short"]) == {name: bench.short for name, bench in BENCHES.items()}
    assert all(BENCHES[name].brief and arguments for name, arguments in chosen("short", []).items())
    assert {"kernels", "clients", "table3", "end_to_end"} < set(chosen("short", []))
    with pytest.raises(SystemExit):
        chosen("short", ["--short"])


def test_a_failure_does_not_hide_the_others(monkeypatch, capsys):
    commands = []

    def run(command, check):
        commands.append(command)
        return subprocess.CompletedProcess(command, 3 if "dense" in command else 0)

    monkeypatch.setattr(bench_command.subprocess, "run", run)
    assert main(["bench", "short"]) == BenchFailed.exit_status == 1
    assert [command[:5] for command in commands[:1]] == [[sys.executable, "-P", "-m", "dpmpc", "bench"]]
    assert [command[5] for command in commands] == [name for name, bench in BENCHES.items() if bench.brief]
    told = capsys.readouterr().err
    assert "bench: dense FAILED with exit status 3" in told
    assert told.endswith(f"dpmpc: BenchFailed: bench: 1 of {len(commands)} failed, with exit status: dense (3)\n")


def test_several_are_run_in_processes_of_their_own(capfd):
    with pytest.raises(BenchFailed, match=r"bench: 1 of 2 failed, with exit status: midp_attack \(2\)"):
        bench_command.run_several({"midp_attack": ("--trials", "0"), "noising": ("--help",)})
    told = capfd.readouterr()
    assert "trials: 0 given" in told.err
    assert "usage: python -m bench noising" in told.out
    assert "bench: 1 of 2 done" in told.err
