"""The kinds of stores that tests of `ReportStore` are run for, and what they do to one by hand."""

import shutil

STORES = ["sqlite"]


def place_of(request, tmp_path):
    """Return where a new store of the kind that is asked for may be opened."""
    return tmp_path / "spool"


def wipe(place):
    """Remove a store."""
    shutil.rmtree(place, ignore_errors=True)


def crash(store):
    """Let go of a store as a crash does: SQLite's log is not written back before the next process reads it."""
    store._unlock()
