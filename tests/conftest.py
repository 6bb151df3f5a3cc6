"""Settings of the test suite: property tests have no deadline, because a busy machine is not a fault."""

from pathlib import Path

import pytest
from hypothesis import settings

from support import forks, plugins, processes, tiers

settings.register_profile("dpmpc", deadline=None)
settings.load_profile("dpmpc")


#: Files that take longest, in this order: a worker that began one of them last would keep all others waiting.
FIRST = (
    "test_simulator.py",
    "collect/test_release.py",
    "test_docs.py",
    "bench/test_bench.py",
    "linear/test_sketching.py",
    "models/test_mutual_information.py",
    "bench/test_audit.py",
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


@pytest.fixture(scope="session")
def examples_installed(tmp_path_factory):
    """The folder in which the examples are installed as a distribution of their own."""
    return plugins.install(tmp_path_factory.mktemp("examples"))


@pytest.fixture
def new_interpreters():
    """Parties as a launcher starts them where nobody tests, for tests of how they start."""
    with forks.not_forked():
        yield


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    """Keep commands from saying that they are still at work: how long a test takes is no part of what is checked."""
    monkeypatch.setattr("dpmpc.app.cli.waiting.FIRST_SECONDS", 3600.0)


def pytest_addoption(parser):
    """Add what the Makefile uses."""
    parser.addoption("--slice", metavar="I/N", help="one of N parts of the tests, whatever number I is")
    parser.addoption("--write-durations", action="store_true", help="write the list of slow tests, tests/slow.json")


def pytest_configure(config):
    """Have the process that hears of all tests write how long they took."""
    if config.getoption("write_durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(tiers.Durations())


@pytest.hookimpl(tryfirst=True)  # before marks decide
def pytest_collection_modifyitems(config, items):
    """Put the longest files first, mark what is slow, and refuse a `long` mark that does not say what takes long."""
    here = Path(__file__).parent
    if which := config.getoption("slice"):
        config.hook.pytest_deselected(items=[item for item in items if not tiers.in_slice(item.nodeid, which)])
        items[:] = [item for item in items if tiers.in_slice(item.nodeid, which)]
    slow = tiers.slow_names()
    places = {here / name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(FIRST)))  # stable: within a file nothing moves
    for item in items:
        if tiers.name_of(item.nodeid) in slow:
            item.add_marker("slow")
        for mark in item.iter_markers("long"):
            if len(mark.args) != 1 or not isinstance(mark.args[0], str):
                raise pytest.UsageError(f"{item.nodeid}: long{mark.args} given, a reason expected")
