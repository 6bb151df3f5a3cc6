"""Every field of a record from elsewhere is accounted for."""

import pytest

from dpmpc.errors import InputError
from dpmpc.storage import fields_of, fields_of_format


def test_what_is_expected_is_returned():
    assert fields_of("task", {"a": 1}, {"a"}) == {"a": 1}
    assert fields_of("task", {"a": 1, "b": 2}, {"a"}, {"b", "c"}) == {"a": 1, "b": 2}
    assert fields_of_format("task", {"a": 1, "format": 2}, {"a"}, 2) == {"a": 1, "format": 2}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (["a"], r"task: \['a'\] given, a table with a, format expected"),
        ({"format": 2}, "task: a is missing"),
        ({"a": 1}, "task: format is missing"),
        ({"a": 1, "format": 2, "b": 3}, "task: unknown key 'b', only a, format expected"),
        ({"a": 1, "format": 2, 7: 3}, "task: unknown key '7', only"),
        ({"a": 1, "format": 1}, "task: format 1 given, 2 expected"),
    ],
)
def test_what_is_missing_unknown_or_of_another_format_is_named(entry, said):
    with pytest.raises(InputError, match=said):
        fields_of_format("task", entry, {"a"}, 2)
