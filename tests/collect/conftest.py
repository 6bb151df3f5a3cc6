"""Deployments that several modules of tests share."""

import dataclasses
import shutil

import pytest

from bench.system import collection_servers
from dpmpc.collect.opening import noise_dealing
from support import forks
from support.hostile import shamir_servers
from support.release_processes import Trial, copied_or_linked
from support.report_stores import cluster_or_skip
from support.shamir_collections import SHAMIR, no_noise


@pytest.fixture(scope="session", autouse=True)
def servers_are_forks():
    """Start no interpreter for each server that takes uploads."""
    with forks.forked(collection_servers):
        yield


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """Servers that hold all reports, by their number."""
    made = {}

    def of(servers):
        if servers not in made:
            made[servers] = Trial.filled(tmp_path_factory.mktemp("shamir") / "trial", servers, **SHAMIR)
        return made[servers]

    return of


@pytest.fixture
def deployed(originals, tmp_path):
    """Return a copy of the trial of so many servers."""

    def copy(servers):
        original = originals(servers)
        shutil.copytree(original.root, tmp_path / "trial", copy_function=copied_or_linked)
        return dataclasses.replace(original, root=tmp_path / "trial")

    return copy


@pytest.fixture
def silent(monkeypatch):
    """Servers that deal zeros, so that sums can be compared exactly."""
    monkeypatch.setattr(noise_dealing, "draw_dealt", no_noise)
    monkeypatch.setattr(shamir_servers, "draw_dealt", no_noise)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of the tests' own; skips where there is none."""
    cluster = cluster_or_skip()
    yield cluster
    cluster.close()
