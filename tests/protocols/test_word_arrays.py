"""Word arrays are MPyC's field arrays in everything but where their elements are kept."""

import copy
import operator
import pickle

import numpy as np
import pytest

from support.mpyc_launcher import MPYC_PROGRAMS, by_launcher

P = 2**61 - 1


@pytest.fixture(scope="module")
def field():
    from mpyc import finfields

    return finfields.GF(P)


@pytest.fixture
def words():
    return np.random.default_rng(4).integers(0, P, (4, 3), dtype=np.uint64)


def pair(field, words):
    """The same elements as a word array and as MPyC's own."""
    from dpmpc.parties.mpyc.word_arrays import word_array

    return word_array(field, words), field.array(words.astype(object))


def test_a_share_is_read_when_its_words_are_needed(field, words):
    from dpmpc.linear.sharing.batch import ArrayShare
    from dpmpc.parties.mpyc.word_arrays import holds_words, share_of, word_array, words_of

    share, reads = ArrayShare(words, "mersenne61"), []
    read = share.rows
    share.rows = lambda first, count: (reads.append((first, count)), read(first, count))[1]
    array = word_array(field, share)
    assert (array.shape, array.ndim, array.size, len(array)) == (words.shape, 2, words.size, len(words))
    assert holds_words(array)
    assert (share_of(array), reads) == (share, [])
    assert (words_of(array) == words).all()
    assert (words_of(array[1:]) == words[1:]).all()
    assert (share_of(array), reads) == (None, [(0, len(words))])
    assert (array.value == words.astype(object)).all()
    assert not holds_words(array)
    assert words_of(array) is None


@pytest.mark.parametrize(
    "move",
    [
        lambda a: a[1:],
        lambda a: a[:, None, 0],
        lambda a: a[[2, 0]],
        lambda a: a.reshape(2, 6),
        lambda a: a.reshape((3, -1)),
        lambda a: a.T,
        lambda a: a.transpose(1, 0),
        lambda a: a.copy(),
        lambda a: np.vstack([a, a]),
        lambda a: np.concatenate((a, a), axis=1),
        lambda a: np.stack([a, a], axis=1),
        lambda a: np.hstack([a, a[:, :1]]),
    ],
)
def test_moves_keep_words(field, words, move):
    from dpmpc.parties.mpyc.word_arrays import words_of

    ours, theirs = (move(array) for array in pair(field, words))
    assert words_of(ours) is not None
    assert isinstance(ours, field.array)
    assert (ours.shape, ours.ndim, ours.size, len(ours)) == (theirs.shape, theirs.ndim, theirs.size, len(theirs))
    assert (ours.value == theirs.value).all()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "eq", "ne", "iadd", "isub", "imul"])
@pytest.mark.parametrize("sides", ["both", "left", "right"])
def test_arithmetic_is_that_of_mpyc(field, words, name, sides):
    operation = getattr(operator, name)
    a, x = pair(field, words)
    b, y = pair(field, (words + np.uint64(1)) % np.uint64(P))
    found = operation(a if sides != "right" else x.copy(), b if sides != "left" else y)
    expected = operation(x, y)
    if isinstance(expected, np.ndarray):
        assert (found == expected).all()
    else:
        assert (found.value == expected.value).all()


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a @ a.T,
        lambda a: a * 5,
        lambda a: 7 - a,
        lambda a: -a,
        lambda a: a**3,
        lambda a: np.sum(a, axis=0),
        lambda a: np.negative(a),
        lambda a: np.roll(a, 1, axis=0),
        lambda a: np.linalg.det(a[:3]),
        lambda a: a[1, 2],
        lambda a: np.vstack([a, a.field.array(a.value.copy())]),
    ],
)
def test_everything_else_is_that_of_mpyc(field, words, function):
    ours, theirs = (function(array) for array in pair(field, words))
    assert np.all(ours.value == theirs.value)
    assert type(ours) is type(theirs)


@pytest.mark.parametrize(
    "again", [lambda a: pickle.loads(pickle.dumps(a)), copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"]
)
def test_they_are_pickled_and_copied_as_arrays_of_mpyc(field, words, again):
    """`mpc.transfer` pickles what it sends, and the peer may not have dpmpc."""
    ours, theirs = (again(array) for array in pair(field, words))
    assert type(ours) is type(theirs) is field.array
    assert (ours.value == theirs.value).all()


@pytest.mark.parametrize("part", [lambda a: a[:2], lambda a: a.T, lambda a: a.reshape(-1)])
def test_a_part_is_an_array_of_its_own(field, words, part):
    ours, untouched = pair(field, words)
    changed = part(ours)
    changed[0] = 5
    changed += 1
    assert (ours.value == untouched.value).all()


def test_what_is_written_to_the_value_is_what_is_read(field, words):
    from dpmpc.parties.mpyc.word_arrays import words_of

    ours, _ = pair(field, words)
    ours.value[0, 0] = 17
    assert words_of(ours) is None
    assert (ours[0, 0].value, ours[:1].value[0, 0]) == (17, 17)
    ours, _ = pair(field, words)
    ours[1, 1] = 23
    ours += 1
    assert (ours[1, 1].value, ours.value[0, 0]) == (24, (int(words[0, 0]) + 1) % P)


def test_noise_of_all_parties_in_one_call():
    """Three parties add noise to a sum: 300 draws have the promised spread.

    False alarm: a chi-square of 300 degrees of freedom leaves [.75, 1.3] times its mean with probability below 1e-3.
    Two of the integers, of a deviation of 1.4 million, are equal in one run of 114; more than two pairs below 1.2e-7.
    """
    import json

    done = by_launcher(MPYC_PROGRAMS / "noised_sum.py", "--no-log", parties=3)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    errors = np.array(found["errors"], float) / found["deviation"]
    assert 0.75 < (errors**2).mean() < 1.3
    assert len(np.unique(errors)) >= errors.size - 2
    assert found["promised"] == [1.0, 1e-6]
    assert "1 of the 3 servers and 599 clients pool all they see" in found["guarantee"]
    assert "follow the protocol (semi-honest)" in found["guarantee"]
    assert "one that all parties have tossed for expected" in found["refused"]
