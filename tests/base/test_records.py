"""Every field of a record from elsewhere is accounted for, and what a record writes makes an equal one."""

import datetime
import json
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import pytest

from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.storage import Record, canonical
from dpmpc.base.storage.records import fields_of, plain
from dpmpc.linear.noise import DiscreteGaussian, Noise, noise_from
from support.rejections import rejects


class Part(Record, frozen=True):
    size: int
    kind: str = "round"


class Whole(Record, frozen=True, tag=2, tag_field="format"):
    called: ClassVar[str] = "whole"
    readers: ClassVar[dict[type, Any]] = {Noise: noise_from}
    parts: tuple[Part, ...]
    first: Part
    noise: Noise
    share: float = 0.5
    rows: int | None = None
    open: bool = False

    def __post_init__(self):
        if self.share > 1:
            raise GuaranteeError(f"share: {self.share} given, at most 1 expected")


class Kept(Record, frozen=True, omit_defaults=True):
    at: datetime.datetime
    limit: Annotated[int, msgspec.Meta(description="how many")] = 3


WHOLE = Whole((Part(1), Part(2, "flat")), Part(3), DiscreteGaussian(2.5))
PLAIN = {
    "format": 2,
    "parts": [{"size": 1, "kind": "round"}, {"size": 2, "kind": "flat"}],
    "first": {"size": 3, "kind": "round"},
    "noise": {"name": "discrete-gaussian", "sigma": 2.5},
    "share": 0.5,
    "rows": None,
    "open": False,
}


def test_what_is_expected_is_returned():
    assert fields_of("task", {"a": 1}, {"a"}) == {"a": 1}
    assert fields_of("task", {"a": 1, "b": 2}, {"a"}, {"b", "c"}) == {"a": 1, "b": 2}


def test_a_record_is_written_in_the_order_of_its_fields_and_read_again():
    assert WHOLE.to_dict() == PLAIN
    assert json.dumps(WHOLE.to_dict()) == json.dumps(PLAIN)
    assert Whole.from_dict(json.loads(json.dumps(PLAIN))) == WHOLE
    assert hash(Whole.from_dict(PLAIN)) == hash(WHOLE)
    shortened = {name: value for name, value in PLAIN.items() if name != "rows"}  # as TOML has it
    assert Whole.from_dict(shortened) == WHOLE


def test_times_stay_times_and_omitted_defaults_may_be_absent():
    at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    assert Kept(at).to_dict() == {"at": at}
    assert Kept(at, 4).to_dict() == {"at": at, "limit": 4}
    assert Kept.from_dict({"at": at.isoformat()}) == Kept(at) == Kept.from_dict({"at": at, "limit": 3})


def test_a_description_whose_name_is_no_text_is_refused():
    with rejects("noise"):
        noise_from({"name": ["discrete-gaussian"], "sigma": 2.5})


def test_the_canonical_form_has_sorted_keys_and_no_spaces():
    assert canonical(WHOLE) == json.dumps(PLAIN, sort_keys=True, separators=(",", ":")).encode()
    assert canonical({"b": np.float64(0.1), "a": (np.int64(1),)}) == b'{"a":[1],"b":0.1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": float("nan")})
    with pytest.raises(InputError, match="object given, plain data expected"):
        plain({"a": object()})


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        (["a"], "whole"),
        ({"share": ...}, "whole"),
        ({"open": ...}, "whole"),
        ({"format": ...}, "whole"),
        ({"b": 3}, "whole"),
        ({7: 3}, "whole"),
        ({"format": 1}, "whole"),
        ({"first": {"size": 1}}, "whole: first"),
        ({"first": None}, "whole: first"),
        ({"parts": [{"size": 1, "kind": "flat", "b": 2}]}, "whole: parts"),
        ({"parts": {}}, "whole"),
        ({"parts": [{"size": "1", "kind": "flat"}]}, "whole"),
        ({"rows": 1.5}, "whole"),
        ({"open": 0}, "whole"),
        ({"share": "\x1b[2J"}, "whole"),
        ({"noise": {"name": "nothing"}}, "noise"),
        ({"noise": {"name": "discrete-gaussian", "sigma": 0}}, "sigma"),
    ],
)
def test_what_is_missing_unknown_or_of_another_type_is_named(given, argument):
    changed = {**PLAIN, **given} if isinstance(given, dict) else given
    if isinstance(changed, dict):
        changed = {name: value for name, value in changed.items() if value is not ...}
    with rejects(argument):
        Whole.from_dict(changed)


def test_errors_of_the_record_itself_keep_their_type():
    with pytest.raises(GuaranteeError):
        Whole.from_dict({**PLAIN, "share": 1.5})
