"""Settings of the test suite: property tests have no deadline, because a busy machine is not a fault."""

from pathlib import Path

import pytest
from hypothesis import settings

from support import forks, processes

settings.register_profile("dpmpc", deadline=None)
settings.load_profile("dpmpc")


#: Files that take longest, in this order: a worker that began one of them last would keep all others waiting.
FIRST = (
    "collect/test_release.py",
    "test_docs.py",
    "bench/test_bench.py",
    "linear/test_sketching.py",
    "models/test_mutual_information.py",
    "audit/test_audit.py",
    "collect/test_dealing_release.py",
    "models/test_rounds.py",
    "collect/test_hostile_servers.py",
    "bench/test_experiments.py",
    "app/test_cli.py",
    "parties/test_runtime.py",
    "app/test_what_may_be_published.py",
    "owners/test_data_release.py",
    "owners/test_random_mixing.py",
    "protocols/test_protocols.py",
    "collect/test_proved_release.py",
    "collect/test_service.py",
    "protocols/test_mpyc_programs.py",
    "models/test_coinpress.py",
)


@pytest.fixture(scope="session", autouse=True)
def parties_are_forks():
    """Start no interpreter for each party of each run: that is most of what a run of few people costs."""
    with forks.forked():
        yield


@pytest.fixture(scope="session", autouse=True)
def all_that_ran_is_counted(pytestconfig):
    """Where coverage is measured, have every process write what it ran before that is added up."""
    yield
    if pytestconfig.getoption("cov_source", None):
        processes.end()


@pytest.fixture
def new_interpreters():
    """Parties as a launcher starts them where nobody tests, for tests of how they start."""
    with forks.not_forked():
        yield


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    """Keep commands from saying that they are still at work: how long a test takes is no part of what is checked."""
    monkeypatch.setattr("dpmpc.app.cli.waiting.FIRST_SECONDS", 3600.0)


def pytest_collection_modifyitems(items):
    """Put the longest files first, and refuse a `long` mark that does not say what takes long."""
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(FIRST)))  # stable: within a file nothing moves
    for item in items:
        for mark in item.iter_markers("long"):
            if len(mark.args) != 1 or not isinstance(mark.args[0], str):
                raise pytest.UsageError(f"{item.nodeid}: long{mark.args} given, a reason expected")
