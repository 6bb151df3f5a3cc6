"""The two rings of shared integers against Python's big integers."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpmpc._kernels import dispatch
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.linear.encoding.ring import Mersenne61, Ring64, ring_named
from support.matrix_inputs import each_instruction_set
from support.rejections import rejects

P = (1 << 61) - 1
instruction_set = each_instruction_set(dispatch)
HOMES = [Ring64(), Mersenne61()]
EDGES = {
    "ring64": [0, 1, 2, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1],
    "mersenne61": [0, 1, 2, (1 << 60) - 1, 1 << 60, (1 << 60) + 1, P - 2, P - 1],
}
BINARY = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}


def words(values):
    return np.array(values, dtype=np.uint64)


def pairs(ring):
    """All pairs of edge cases, then random pairs: long enough for every vector width and its tail."""
    edges = EDGES[ring.name]
    left = [a for a in edges for _ in edges]
    right = [b for _ in edges for b in edges]
    random = ring.uniform(Stream.from_seed(1), (2, 200)).tolist()
    return left + random[0], right + random[1]


@pytest.fixture(params=HOMES, ids=lambda ring: ring.name)
def ring(request):
    return request.param


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", BINARY)
def test_binary_operations_equal_big_integers(ring, name):
    a, b = pairs(ring)
    expected = [BINARY[name](x, y) % ring.modulus for x, y in zip(a, b, strict=True)]
    assert getattr(ring, name)(words(a), words(b)).tolist() == expected


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("operand", [0, 1])
def test_out_may_be_an_operand(ring, name, operand):
    operands = [words(values) for values in pairs(ring)]
    expected = getattr(ring, name)(*operands)
    result = getattr(ring, name)(*operands, out=operands[operand])
    assert result is operands[operand]
    assert (result == expected).all()


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_masks_are_subtracted(ring, count):
    a, b = pairs(ring)
    masks = [b, a[::-1], b[::-1], a][:count]
    expected = [(x - sum(values)) % ring.modulus for x, *values in zip(a, *masks, strict=True)]
    for out in (words(a), np.zeros(len(a), np.uint64)):
        x = out if out.any() else words(a)
        ring.mask(x, [words(mask) for mask in masks], out)
        assert out.tolist() == expected


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("factor", [*range(-9, 10), 1 << 61, (1 << 61) - 2, 1 << 64, 3**50, -(5**40)])
def test_public_factors(ring, factor):
    a, b = pairs(ring)
    assert ring.scale(words(a), factor).tolist() == [x * factor % ring.modulus for x in a]
    expected = [(x * factor + y) % ring.modulus for x, y in zip(a, b, strict=True)]
    total = words(b)
    assert ring.multiply_add(words(a), factor, total, out=total).tolist() == expected


def test_sums(ring):
    a, b = pairs(ring)
    expected = [(2 * x + y) % ring.modulus for x, y in zip(a, b, strict=True)]
    assert ring.sum_of([words(a), words(b), words(a)]).tolist() == expected
    assert ring.sum_of([words(a)]).tolist() == a


def test_sums_of_more_than_a_block(ring):
    a, b = ring.uniform(Stream.from_seed(2), (2, 3, 30000))
    out = np.empty_like(a)
    assert ring.sum_of([a, b], out=out) is out
    assert (out == ring.add(a, b)).all()


@given(values=hnp.arrays(np.int64, st.integers(0, 40), elements=st.integers(-(P // 2), P // 2)))
def test_lift_inverts_embed(values):
    for ring in HOMES:
        embedded = ring.embed(values)
        assert embedded.tolist() == [v % ring.modulus for v in values.tolist()]
        assert ring.lift(embedded).tolist() == values.tolist()


@given(values=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=20))
def test_embed_takes_what_it_can_lift_and_refuses_the_rest(values):
    array = np.array(values, np.int64)
    assert Ring64().lift(Ring64().embed(array)).tolist() == values
    beyond = [index for index, v in enumerate(values) if abs(v) > P // 2]
    if beyond:
        with pytest.raises(InputError, match=f"element {beyond[0]} is {values[beyond[0]]}, at most {P // 2}"):
            Mersenne61().embed(array)
    else:
        assert Mersenne61().lift(Mersenne61().embed(array)).tolist() == values


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("value", [P // 2 + 1, -(P // 2) - 1, P, (1 << 63) - 1, -(1 << 63)])
def test_embed_refuses_the_first_values_beyond(value):
    with pytest.raises(InputError, match=f"element 1 is {value}"):
        Mersenne61().embed(np.array([0, value]))


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("position", [0, 1, 7, 8, 100])
@pytest.mark.parametrize("value", [P, P + 1, 1 << 62, 1 << 63, (1 << 64) - 1])
def test_elements_that_are_not_canonical_are_refused_everywhere(value, position):
    ring, good = Mersenne61(), np.zeros(101, np.uint64)
    bad = good.copy()
    bad[position] = value
    untouched = good.copy()
    assert not ring.is_canonical(bad)
    for call in (
        lambda: ring.add(bad, good, out=untouched),
        lambda: ring.subtract(good, bad, out=untouched),
        lambda: ring.multiply(bad, good, out=untouched),
        lambda: ring.multiply_add(good, 3, bad, out=untouched),
        lambda: ring.scale(bad, 3, out=untouched),
        lambda: ring.sum_of([good, bad], out=untouched),
        lambda: ring.lift(bad),
        lambda: ring.require_canonical(bad),
    ):
        with pytest.raises(InputError, match=f"element {position} is {value}, a number below {P} expected"):
            call()
    assert not untouched.any()


def test_every_word_is_canonical_in_the_ring():
    everything = words([0, (1 << 64) - 1])
    assert Ring64().is_canonical(everything)
    assert Ring64().require_canonical(everything) is everything


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_any_shape(ring, shape):
    a, b = (ring.uniform(Stream.from_seed(seed), shape) for seed in (3, 4))
    total = ring.add(a, b)
    assert total.shape == shape
    assert ring.lift(total).shape == shape
    assert (ring.subtract(total, b) == a).all()


def test_strided_arrays_are_read_in_their_own_order(ring):
    a = ring.uniform(Stream.from_seed(4), (6, 5))
    assert (ring.add(a.T, a.T) == ring.add(a, a).T).all()
    assert (ring.lift(a[::2]) == ring.lift(a)[::2]).all()


def bad_calls():
    a, b = np.zeros((2, 3), np.uint64), np.zeros(6, np.uint64)
    yield "a: int64", lambda ring: ring.add(np.zeros(2, np.int64), a)
    yield "b: list", lambda ring: ring.add(a, [0])
    yield "equal shapes", lambda ring: ring.add(a, b)
    yield "equal shapes", lambda ring: ring.sum_of([a, b])
    yield "none given", lambda ring: ring.sum_of([])
    yield "out: int64", lambda ring: ring.add(a, a, out=np.zeros((2, 3), np.int64))
    yield r"out: uint64 of shape \(6,\)", lambda ring: ring.add(a, a, out=b)
    yield "out: uint64", lambda ring: ring.add(a, a, out=np.zeros((3, 2), np.uint64).T)
    yield "values: uint64", lambda ring: ring.embed(a)
    yield "values: float64", lambda ring: ring.embed(np.zeros(2))
    yield "values: list", lambda ring: ring.embed([1])


@pytest.mark.parametrize(("message", "call"), list(bad_calls()))
def test_bad_arrays_are_refused(ring, message, call):
    with pytest.raises(InputError, match=message):
        call(ring)


def test_small_integers_are_embedded():
    assert Mersenne61().embed(np.array([-1, 2], np.int8)).tolist() == [P - 1, 2]


def test_rings_have_names():
    assert ring_named("ring64") == ring_named(Ring64) == ring_named(Ring64()) == Ring64()
    assert ring_named("mersenne61") == Mersenne61() != Ring64()
    assert len({Ring64(), Ring64(), Mersenne61()}) == 2
    assert repr(ring_named("mersenne61")) == "Mersenne61()"
    for value in ("ring32", 64, int, None):
        with rejects("ring", expected="one of ring64, mersenne61"):
            ring_named(value)


class Script(Stream):
    """A stream that gives the words it was told to."""

    def __init__(self, script):
        super().__init__(bytes(16), simulation=True)
        self.script = list(script)

    def fill(self, out):
        out.reshape(-1)[:] = [self.script.pop(0) for _ in range(out.size)]


@pytest.mark.usefixtures("instruction_set")
def test_field_elements_are_redrawn_from_the_words_that_follow():
    everything = (1 << 64) - 1
    stream = Script([5, P, (1 << 61) + 7, everything, everything, 11, 1 << 63])
    # Elements 1 and 3 come out as p; the next word for element 1 does so again.
    assert Mersenne61().uniform(stream, 4).tolist() == [5, 11, 7, 0]
    assert stream.script == []


def test_uniform_words_of_the_ring_are_the_stream():
    assert (Ring64().uniform(Stream.from_seed(5), (2, 2)).reshape(-1) == Stream.from_seed(5).words(4)).all()


@pytest.mark.usefixtures("instruction_set")
def test_integers_are_embedded_where_they_lie(ring):
    values = np.array([[0, 1, -1], [1 << 59, -(1 << 59), 7]])
    expected = [[v % ring.modulus for v in row] for row in values.tolist()]
    apart = np.empty(values.shape, np.uint64)
    assert ring.embed(values, out=apart) is apart
    assert apart.tolist() == expected
    assert ring.embed(values, out=values.view(np.uint64)).tolist() == expected
    assert values.view(np.uint64).tolist() == expected


@pytest.mark.parametrize("ring", [Ring64(), Mersenne61()])
def test_a_ring_states_the_bits_of_its_largest_element(ring):
    assert ring.bits == (ring.modulus - 1).bit_length()
