"""Whatever a file or a description holds, its parser returns a value or raises a typed error, and soon.

`python -m bench fuzz` does the same with many more inputs.
"""

import random

import pytest

from bench.system.fuzz_parsers import SLOWEST, cases, feed
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions import contribution_from
from dpmpc.linear.sketching import sketch_from

INPUTS = 250  # to each of 16 parsers


@pytest.fixture(scope="module")
def parsers(tmp_path_factory):
    return {case.name: case for case in cases(tmp_path_factory.mktemp("parsers"))}


NAMES = (
    "release file",
    "release of mixed columns",
    "facts in a release",
    "facts in mixed columns",
    "task",
    "mixing task",
    "sketch",
    "noise",
    "statistic",
    "bounds",
    "bounds file",
    "ledger of budgets",
    "party settings",
    "share",
    "CSV",
    "Parquet",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_file_is_read_or_refused_with_a_type(name, parsers):
    count = feed(parsers[name], INPUTS, random.Random(name))
    assert count.inputs == INPUTS == count.taken + count.refused, count.crashes[:3]
    assert count.refused > 0
    assert count.slowest < 5 * SLOWEST  # other processes share the processor's cache


def test_all_parsers_are_fed(parsers):
    assert tuple(parsers) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_sound_inputs_are_taken(name, parsers):
    for sample in parsers[name].samples:
        parsers[name].parse(sample)


@pytest.mark.parametrize(
    "description", [{}, {"name": []}, {"name": {}}, {"name": "power-sum", "order": 2, "zero": "x"}]
)
def test_descriptions_that_crashed_a_parser(description):
    with pytest.raises(InputError, match=r"statistic|zero"):
        contribution_from(description)
    with pytest.raises(InputError):
        sketch_from({"family": [[]], **description})
