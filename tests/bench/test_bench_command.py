"""`python -m bench`: every bench can be named, sets run all of theirs, and a failure neither hides nor is hidden."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import bench.__main__ as command
from bench import registry
from bench.__main__ import chosen, full_name, main, parser
from bench.registry import BENCHES, HOME_VARIABLE
from dpmpc.base.errors import BenchFailed
from support.rejections import rejects

#: Modules of bench/ that are parts of benches.
PARTS = {
    "datasets.data_release",
    "datasets.dataset_files",
    "datasets.mutual_information",
    "datasets.secure_sketching",
    *("audit.lost", "audit.mechanism", "audit.rates", "audit.registry", "audit.sums"),
    *("audit.system_attacks", "audit.views", "audit.whole_fit"),
    *("curators.fresh_sets", "curators.gradients", "curators.in_rounds", "curators.libraries", "curators.measuring"),
    *("curators.mixing", "curators.moments", "curators.names", "curators.page"),
    *("curators.problem", "curators.tukey"),
    *("data_release.common", "data_release.population"),
    "secure_sketching.mp_spdz_home",
    *("secure_sketching.one_pass", "secure_sketching.plain_mpyc", "secure_sketching.plain_mpyc_runs"),
    *("secure_sketching.real_data", "secure_sketching.runtime_tables", "secure_sketching.second_pass"),
    "secure_sketching.setting",
    *("secure_sketching.families", "secure_sketching.printed"),
    *("secure_sketching.simulation", "secure_sketching.synthetic", "secure_sketching.utility"),
    *(
        "system.changed_reports",
        "system.collection_servers",
        "system.false_reports",
        "system.fuzz_parsers",
        "system.performance_goals",
        "system.performance_page",
        "system.performance_plots",
        "system.ports",
    ),
    *("system.performance_plots", "system.released", "system.rounds_populations"),
    *("system.scale_cluster", "system.scale_release", "system.scale_server", "system.wire"),
}
ROOT = Path(command.__file__).parent


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_can_be_named(name, capsys):
    assert parser().parse_args([name.replace("_", "-")]).name == name
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"bench.{name}").main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    usage = told.split("usage: python -m bench ")[1].split()[0]
    assert parser().parse_args([usage]).name == name  # the name that the usage prints runs this bench
    assert all(argument in told for argument in BENCHES[name].short if argument.startswith("--"))


@pytest.mark.parametrize("name", ["system.kernels", "data_release.table1"])
def test_short_is_the_short_form_of_every_bench(name, monkeypatch):
    given = []
    monkeypatch.setattr(importlib.import_module(f"bench.{name}"), "main", lambda arguments: given.extend(arguments))
    assert main([name, "--short", "--out", "x"]) == 0
    assert given == [*BENCHES[name].short, "--out", "x"]


def test_the_folder_may_be_left_out_where_one_bench_bears_the_name():
    assert full_name("kernels") == "system.kernels"
    assert full_name("sum-ssp") == "secure_sketching.sum_ssp"
    assert full_name("short") == "short"
    with pytest.raises(SystemExit):
        parser().parse_args(["figure2"])
    with pytest.raises(SystemExit):
        parser().parse_args(["figure9"])


def test_every_module_is_a_bench_or_a_part_of_one():
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.glob("*/*.py")}
    assert {name for name in modules if not name.endswith("__init__")} - PARTS == set(BENCHES)


def test_help_tells_what_each_bench_repeats(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert all(f"{name} " in told and bench.about in told and bench.peers in told for name, bench in BENCHES.items())
    assert " * system.kernels" in told
    assert " * secure_sketching.figure2" not in told


def test_sets_hold_what_they_say():
    assert list(chosen("all", [])) == list(chosen("all", ["--short"])) == list(BENCHES)
    assert set(chosen("all", []).values()) == {()}
    assert chosen("all", ["--short"]) == {name: bench.short for name, bench in BENCHES.items()}
    assert all(BENCHES[name].brief and arguments for name, arguments in chosen("short", []).items())
    assert {"system.kernels", "system.clients", "secure_sketching.table3"} < set(chosen("short", []))
    with pytest.raises(SystemExit):
        chosen("short", ["--short"])


def test_a_failure_does_not_hide_the_others(monkeypatch, capsys):
    commands = []

    def run(command, cwd, check):
        assert (cwd / "bench").is_dir()
        commands.append(command)
        return subprocess.CompletedProcess(command, 3 if "system.dense" in command else 0)

    monkeypatch.setattr(command.subprocess, "run", run)
    assert main(["short"]) == BenchFailed.exit_status == 1
    assert [command[:3] for command in commands[:1]] == [[sys.executable, "-m", "bench"]]
    assert [command[3] for command in commands] == [name for name, bench in BENCHES.items() if bench.brief]
    told = capsys.readouterr().err
    assert "bench: system.dense FAILED with exit status 3" in told
    assert told.endswith(
        f"dpmpc: BenchFailed: bench: 1 of {len(commands)} failed, with exit status: system.dense (3)\n"
    )


def test_what_this_machine_lacks_is_skipped_with_the_reason(monkeypatch, capsys):
    """Without MP-SPDZ and without root the whole set still ends with status 0; by its own name the bench says why."""
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    monkeypatch.setattr(registry.os, "geteuid", lambda: 1000)
    commands = []

    def run(command, cwd, check):
        commands.append(command[3])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(command.subprocess, "run", run)
    assert main(["all", "--short"]) == 0
    lacking = {"secure_sketching.hosts", "secure_sketching.mp_spdz", "system.namespaces"}
    assert set(commands) == set(BENCHES) - lacking
    told = capsys.readouterr().err
    assert "secure_sketching.mp_spdz SKIPPED: no MP-SPDZ: MP_SPDZ_HOME does not name its folder" in told
    assert "3 skipped (secure_sketching.hosts, secure_sketching.mp_spdz, system.namespaces)" in told
    assert main(["mp_spdz", "--short"]) == 2
    assert "home: nothing given, the folder of MP-SPDZ expected" in capsys.readouterr().err
    monkeypatch.setenv(HOME_VARIABLE, "/nowhere")
    assert main(["mp_spdz", "--short"]) == 2
    assert "home: /nowhere given" in capsys.readouterr().err


def test_several_are_run_in_processes_of_their_own(capfd):
    with rejects("bench", BenchFailed):
        command.run_several({"mutual_information.attack": ("--trials", "0"), "secure_sketching.noising": ("--help",)})
    told = capfd.readouterr()
    assert "trials: 0 given" in told.err
    assert "usage: python -m bench noising" in told.out
    assert "bench: 1 of 2 done" in told.err
