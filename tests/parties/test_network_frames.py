"""Frames: the bytes are those of the reference, and whatever else arrives is a typed refusal that names the peer."""

import json
import pickle

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpmpc.base import errors
from dpmpc.base.errors import MalformedFrame, ProtocolFailure
from dpmpc.parties.network.frames import Content, ContentType, Expectation, Frame, Kind, decode, encode
from dpmpc.parties.network.meter import Meter, statistics_from
from references import frames as reference_frames
from support.rejections import blames, rejects

TASK = reference_frames.TASK
VECTORS = json.loads(reference_frames.VECTORS.read_text())
AWAITED = Expectation(Kind.SHARE, 1, TASK, ContentType.WORDS, (2, 2))
ANY_WORDS = Expectation(Kind.SHARE, 1, TASK, ContentType.WORDS)


def frames():
    arrays = hnp.arrays(np.uint64, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5))
    contents = st.one_of(st.none(), st.binary(max_size=40), arrays)
    return st.builds(
        Frame, st.sampled_from(Kind), st.integers(0, 2**16 - 1), st.binary(min_size=32, max_size=32), contents
    )


def same(first: Content, second: Content) -> bool:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return first.shape == second.shape and bool((first == second).all())
    return type(first) is type(second) and first == second


def test_vectors_are_those_of_the_reference():
    assert json.loads(json.dumps(reference_frames.vectors())) == VECTORS


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["success"]], ids=lambda v: v["name"])
def test_good_vectors(vector):
    content = vector["value"]
    if vector["content"] == ContentType.WORDS:
        content = np.array(content, np.uint64).reshape(vector["shape"])
    elif vector["content"] == ContentType.BYTES:
        content = bytes.fromhex(content)
    frame = Frame(Kind(vector["kind"]), vector["sender"], TASK, content)
    assert encode(frame).hex() == vector["frame"]
    expected = Expectation(frame.kind, frame.sender, TASK, frame.content_type, frame.shape)
    assert same(decode(encode(frame), expected).content, content)


@pytest.mark.parametrize("vector", [v for v in VECTORS if not v["success"]], ids=lambda v: v["name"])
def test_bad_vectors_are_refused(vector):
    with pytest.raises(getattr(errors, vector["error"])) as refusal:
        decode(bytes.fromhex(vector["frame"]), AWAITED)
    assert refusal.value.party == 1
    assert "party 1" in str(refusal.value)


def test_the_sound_frame_behind_the_bad_vectors_is_accepted():
    sound = next(v for v in VECTORS if v["name"] == "share")
    assert decode(bytes.fromhex(sound["frame"]), AWAITED).words[1, 1] == 2**64 - 1


@given(frames())
def test_decode_inverts_encode(frame):
    expected = Expectation(frame.kind, frame.sender, frame.task, frame.content_type)
    decoded = decode(encode(frame), expected)
    assert same(decoded.content, frame.content)
    assert decoded.content_bytes == len(encode(frame)) - 56 - 8 * len(frame.shape)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data):
    with pytest.raises(ProtocolFailure):
        decode(data, ANY_WORDS)


@settings(max_examples=300)
@given(st.data())
def test_damaged_frames_never_raise_anything_else(data):
    """Flip, cut or lengthen a sound frame: it is refused, or the damage was within the payload or an allowed shape."""
    sound = encode(Frame(Kind.SHARE, 1, TASK, np.arange(6, dtype=np.uint64).reshape(2, 3)))
    damaged = bytearray(sound)
    for position in data.draw(st.lists(st.integers(0, len(sound) - 1), max_size=3)):
        damaged[position] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(sound)))] + data.draw(st.binary(max_size=20))
    try:
        frame = decode(bytes(damaged), ANY_WORDS)
    except ProtocolFailure:
        return
    assert frame.content_bytes == len(damaged) - 56 - 8 * len(frame.shape)


def test_absurd_sides_of_an_empty_array_are_refused():
    data = reference_frames.frame(16, 1, reference_frames.WORDS, (0, 2**63, 2**63))
    with pytest.raises(MalformedFrame, match="shape"):
        decode(data, ANY_WORDS)


def test_pickles_are_named_and_not_read():
    with pytest.raises(MalformedFrame, match="never read"):
        decode(pickle.dumps(print) + bytes(100), ANY_WORDS)


def test_arrays_are_read_only_views():
    frame = decode(encode(Frame(Kind.SHARE, 1, TASK, np.arange(4, dtype=np.uint64))), ANY_WORDS)
    assert not frame.words.flags.writeable
    assert frame.words.flags.aligned


def test_strided_arrays_are_sent_row_by_row():
    transposed = np.arange(6, dtype=np.uint64).reshape(2, 3).T
    assert (decode(encode(Frame(Kind.SHARE, 1, TASK, transposed)), ANY_WORDS).words == transposed).all()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((Kind.SHARE, 1, bytes(31), None), "task"),
        ((Kind.SHARE, -1, TASK, None), "sender"),
        ((Kind.SHARE, 1 << 16, TASK, None), "sender"),
        ((Kind.SHARE, 1, TASK, np.zeros(3)), "content"),
        ((Kind.SHARE, 1, TASK, np.zeros(3, np.int64)), "content"),
        ((Kind.SHARE, 1, TASK, np.zeros((), np.uint64)), "content"),
        ((Kind.SHARE, 1, TASK, np.zeros((1,) * 5, np.uint64)), "content"),
    ],
)
def test_frames_that_cannot_be_sent(arguments, named):
    with rejects(named):
        Frame(*arguments)


# What parties tell of their own cost


def cost(**changed):
    """A party's report as another one receives it."""
    meter = Meter(1, dict)
    with meter.phase("open"):
        pass
    return msgspec.json.encode(msgspec.to_builtins(meter.statistics()) | changed)


def test_a_cost_is_read_as_it_was_told():
    told = statistics_from(cost(cpu_s=2.5), 1)
    assert (told.server, told.cpu_s, told.phases["open"].bytes_sent) == (1, 2.5, 0)


@pytest.mark.parametrize(
    ("raw", "remark"),
    [
        (cost(server=2), "of party 2"),
        (cost(total_s=-1e-9), "total_s = -1e-09"),
        (cost(bytes_sent=2**61), f"bytes_sent = {2**61}"),
        (cost(peak_rss_mb=None), "peak_rss_mb"),
        (cost(phases={"open": {"wall_s": 1e300}}), "wall_s of open"),
        (b"[]", "no valid COST"),
        (b"", "no valid COST"),
        (pickle.dumps({}), "no valid COST"),
    ],
)
def test_a_cost_that_cannot_be_is_refused(raw, remark):
    with blames(1, MalformedFrame) as refused:
        statistics_from(raw, 1)
    assert remark in str(refused.value)


def test_a_party_that_runs_another_version_is_named_with_what_is_expected():
    older = next(v for v in VECTORS if v["name"] == "version of 0.3")
    with pytest.raises(MalformedFrame, match="version 1 given, 2 expected: the sender runs another dpmpc"):
        decode(bytes.fromhex(older["frame"]), AWAITED)
