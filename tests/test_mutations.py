"""The list of faults still fits the code: each can be made, and the tests of its part exist.

That the tests notice them takes minutes and is for `make mutations`.
"""

import collections
import functools
import shutil
from pathlib import Path

import mutation_check
import pytest
from mutation_check import LISTS, ROOT, Faults, Mutation

from support.lints import check_each

FAULTS = Faults.read()


@functools.cache
def text_of(file):
    """Read a file of the checkout."""
    return (ROOT / file).read_text()


def check_fault(mutation):
    times = text_of(mutation.file).count(mutation.old)
    assert times == 1, f"{mutation.old!r} occurs {times} times, once expected"
    assert mutation.old != mutation.new, "changes nothing"
    assert mutation.why, "no reason"
    for test in FAULTS.suite_of(mutation.file):
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file(), f"{file} does not exist"
        assert not name or f"def {name}(" in text_of(file), f"{test} does not exist"


def test_every_fault_can_be_made():
    check_each(check_fault, FAULTS.mutations, name=lambda one: f"{one.file}: {one.new.strip()}")


def test_every_suite_is_that_of_a_fault():
    """A prefix that fits no file, as after a move, would leave its faults to other tests."""
    prefixes = {prefix for prefix in FAULTS.suites if any(one.file.startswith(prefix) for one in FAULTS.mutations)}
    assert prefixes == FAULTS.suites.keys()


def test_no_fault_is_listed_twice_and_every_part_has_some():
    assert len(set(FAULTS.mutations)) == len(FAULTS.mutations) >= 150
    parts = collections.Counter(Path(one.file).parent.name for one in FAULTS.mutations)
    for part, least in (("privacy", 80), ("noise", 15), ("encoding", 12), ("sharing", 12), ("csrc", 5)):
        assert parts[part] >= least


def test_tests_left_out_exist():
    for name in FAULTS.slow:
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text()


def test_a_fault_is_made_in_the_copy_alone(tmp_path):
    shutil.copytree(LISTS, tmp_path / "tests" / "mutations")
    before = (LISTS / "core.toml").read_text()
    Mutation("tests/mutations/core.toml", "# [[suite]] says which", "# nobody says which", "a test").make(tmp_path)
    assert "# nobody says which" in (tmp_path / "tests" / "mutations" / "core.toml").read_text()
    assert (LISTS / "core.toml").read_text() == before
    with pytest.raises(ValueError, match="occurs 0 times, once expected"):
        Mutation("tests/mutations/core.toml", "# [[suite]] says which", "", "gone by now").make(tmp_path)


def test_the_page_names_what_was_not_noticed():
    fields = {"old": "a", "new": "b", "why": "c", "equivalent": "", "seconds": 2.0}
    results = [
        {**fields, "file": "x.py", "outcome": mutation_check.KILLED, "by": "test_x.py::test"},
        {**fields, "file": "y.py", "outcome": mutation_check.SURVIVED, "by": ""},
    ]
    text = mutation_check.page(results, lambda headings, rows: str([headings, *rows]))
    assert "of 2 faults" in text
    assert "notice 1 (50.0%), in 2 s on average" in text
    assert "- `y.py`: `a` → `b` (c): survived" in text
    assert "x.py`: `a`" not in text
