"""What a deployment installs is pinned by hashes and fits what the package asks for; the units give it its files."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from dpmpc.collection.admission import Limits
from dpmpc.collection.connections import OTHER_FILES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
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


def test_the_container_installs_nothing_without_a_hash():
    text = (DEPLOY / "Containerfile").read_text()
    installs = re.findall(
        r"pip install ([^&\n\\]*)", "\n".join(re.sub(r"^#.*", "", line) for line in text.splitlines())
    )
    assert len(installs) == 3
    assert all("--require-hashes" in each or "--no-deps --no-build-isolation" in each for each in installs)
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert "@sha256:" in text


@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("*.service")), ids=lambda unit: unit.name)
def test_units_allow_the_files_that_connections_need(unit):
    (files,) = re.findall(r"^LimitNOFILE=(\d+)$", unit.read_text(), re.MULTILINE)
    assert int(files) >= Limits().connections + OTHER_FILES
