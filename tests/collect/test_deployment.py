"""What a deployment installs is pinned by hashes and fits what the package asks for; the units give it its files."""

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from bench.system.ports import free_ports
from dpmpc.collect.intake.admission import Limits
from dpmpc.collect.terms.verifying import verify
from support import restricted
from support.release_processes import COUNT, Trial

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(name):
    """The versions of a lock file, and how many hashes each has."""
    text = (DEPLOY / name).read_text()
    entries = re.findall(
        r"^([a-z0-9-]+)==([^ ]+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)", text, re.MULTILINE
    )
    rest = [line for line in text.splitlines() if not line.startswith(("#", "    --hash=sha256:"))]
    assert len(rest) == len(entries)  # nothing but comments, versions and hashes
    return {found: (Version(version), hashes.count("sha256:")) for found, version, hashes in entries}


def test_the_lock_file_holds_what_a_server_needs():
    optional = PROJECT["project"]["optional-dependencies"]
    asked = [
        Requirement(each) for each in PROJECT["project"]["dependencies"] + optional["intake"] + optional["parquet"]
    ]
    pinned = locked("requirements.lock")
    for requirement in asked:
        version, hashes = pinned[requirement.name]
        assert version in requirement.specifier, requirement.name
        assert hashes >= 1
    for requirement in map(Requirement, PROJECT["build-system"]["requires"]):
        assert locked("build.lock")[requirement.name][0] in requirement.specifier


def test_versions_of_aiohttp_that_queue_requests_without_limit_are_refused():
    """CVE-2026-54273: before 3.14.1 pipelined requests of one connection take any amount of memory."""
    (aiohttp,) = (each for each in PROJECT["project"]["optional-dependencies"]["intake"] if each.startswith("aiohttp"))
    specifier = Requirement(aiohttp).specifier
    assert Version("3.14.1") in specifier
    assert Version("3.14.0") not in specifier


def stages():
    """The instructions of the Containerfile, by stage: names and what follows, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line]
    begins = [place for place, (name, _) in enumerate(lines) if name == "FROM"]
    return lines[: begins[0]], *(lines[a:b] for a, b in itertools.pairwise([*begins, len(lines)]))


def test_the_container_installs_nothing_without_a_hash():
    arguments, build, run = stages()
    installs = [part for name, what in build if name == "RUN" for part in what.split("&&") if "pip install" in part]
    assert len(installs) == 2
    assert all("--require-hashes -r /" in each for each in installs)
    assert "--hash=sha256:${WHEEL_SHA256}" in dict(build)["RUN"]
    assert [name for name, _ in arguments] == ["ARG"]  # of the base, whose digest is given at the build
    assert [what.split()[0] for name, what in build + run if name == "FROM"] == ["${BASE}", "${BASE}"]
    assert "@sha256:" in (DEPLOY / "Containerfile").read_text()
    assert not [what for name, what in run if name == "RUN" and ("pip" in what or "apt" in what)]
    for name, what in build:  # what is copied from the sources is there
        if name == "COPY" and not what.startswith("${"):
            assert (ROOT / what.split()[0]).exists()


def test_the_container_runs_as_nobody_that_can_write_to_it():
    _, _, run = stages()
    names = dict(run)
    assert names["USER"] == "65532:65532"
    assert names["VOLUME"] == "/var/lib/dpmpc"
    assert [what for name, what in run if name == "RUN"] == [
        "mkdir -m 0700 /var/lib/dpmpc && chown 65532:65532 /var/lib/dpmpc"
    ]
    assert {name for name, _ in run} == {
        "FROM",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "ENTRYPOINT",
    }
    assert names["STOPSIGNAL"] == "SIGTERM"


@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_units_allow_the_files_that_connections_need(unit):
    (files,) = re.findall(r"^LimitNOFILE=(\d+)$", unit.read_text(), re.MULTILINE)
    assert int(files) >= 2 * Limits().requests


def test_units_are_restricted_in_the_same_way():
    texts = [unit.read_text().partition("[Install]")[0] for unit in UNITS]
    assert len({text[text.index("# The folders that it writes to") :].strip() for text in texts}) == 1
    assert all(
        "LoadCredential" not in text for text in texts
    )  # a service cannot delete one, and sealing keys have to go


@pytest.mark.skipif(restricted.SYSTEMD is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_units_are_exposed_to_little(unit):
    command = [restricted.SYSTEMD, "security", "--offline=yes", "--no-pager", str(unit)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    assert float(re.search(r"Overall exposure level for \S+: ([\d.]+)", told)[1]) <= 2.0


@pytest.mark.skipif(bool(restricted.missing()), reason=restricted.missing() or "nothing")
def test_servers_run_under_the_restrictions_of_their_units(tmp_path):
    """A server answers and a release is made where the kernel refuses all that the units refuse."""
    folder = Path(restricted.__file__)
    start = {unit.name.split("@")[0]: [sys.executable, str(folder), str(unit)] for unit in UNITS}
    program = [sys.executable, "-W", "ignore", "-m", "dpmpc"]
    probe = "import os, sys\ntry: os.sched_setaffinity(0, {0})\nexcept PermissionError: sys.exit(7)"
    for prefix in start.values():
        assert subprocess.run([*prefix, sys.executable, "-c", probe], timeout=60, check=False).returncode == 7
    deployment = Trial.filled(tmp_path / "trial", noise_by="servers", copies="auto", corrupt_clients=None)
    port, web = free_ports(2)
    options = ["--server", "0", "--folder", str(deployment.folder(0))]
    listening = ["--listen", f"127.0.0.1:{port}", "--web", f"127.0.0.1:{web}"]
    serving = subprocess.Popen(
        [*start["dpmpc-serve"], *program, "serve", str(deployment.task_file), *options, *listening],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout.readline().endswith(f":{port}\n")
        where = [f"https://127.0.0.1:{web}", "--collection", str(deployment.task_file), "--server", "0"]
        told = subprocess.run([*program, "status", *where], capture_output=True, text=True, timeout=60, check=False)
        assert "closed" in told.stdout
    finally:
        serving.terminate()
        assert serving.wait(60) == 0
        serving.stdout.close()
    releasing = []
    for server in range(3):
        own = [
            "--server",
            str(server),
            "--folder",
            str(deployment.folder(server)),
            "--out",
            str(deployment.out(server)),
        ]
        argv = [*start["dpmpc-release"], *program, "release", str(deployment.task_file), *own]
        releasing.append(subprocess.Popen([*argv, "--connect-deadline", "60"], stderr=subprocess.DEVNULL))
    try:
        assert [process.wait(120) for process in releasing] == [0, 0, 0]
    finally:
        for process in releasing:
            process.kill()
            process.wait()
    assert verify(deployment.out(0), deployment.collection).release.clients == COUNT
