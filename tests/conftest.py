"""Settings of the test suite: property tests have no deadline, because a busy machine is not a fault."""

import pytest
from hypothesis import settings

settings.register_profile("dpmpc", deadline=None)
settings.load_profile("dpmpc")


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    """Keep commands from saying that they are still at work: how long a test takes is no part of what is checked."""
    monkeypatch.setattr("dpmpc.cli.waiting.FIRST_SECONDS", 3600.0)


def pytest_collection_modifyitems(items):
    """Refuse a `long` mark that does not say what takes long."""
    for item in items:
        for mark in item.iter_markers("long"):
            if len(mark.args) != 1 or not isinstance(mark.args[0], str):
                raise pytest.UsageError(f"{item.nodeid}: long{mark.args} given, a reason expected")
