"""dpmpc.linear.sharing.batch: one server's share as an array, a key and a file."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Label, Stream
from dpmpc.linear.encoding.ring import Mersenne61, ring_named
from dpmpc.linear.sharing import batch
from dpmpc.linear.sharing.batch import (
    ArrayShare,
    Expansion,
    FileShare,
    SeededShare,
    Share,
    expand,
    expand_many,
    open_share,
    save_share,
)
from references import sharing as reference
from support.rejections import rejects
from support.sharing_inputs import KEY, P, words


class Forced(Stream):
    """A stream some of whose words are all ones, as are the first words of some streams for redraws."""

    def __init__(self, key, ones=frozenset(), depth=2):
        super().__init__(key)
        self.ones, self.depth, self.at = ones, depth, 0

    def seek_block(self, block):
        super().seek_block(block)
        self.at = 2 * block

    def fill(self, out):
        super().fill(out)
        for index in range(out.size):
            if self.at + index in self.ones:
                out[index] = (1 << 64) - 1
        self.at += out.size

    def substream(self, index, label):
        child = super().substream(index, label)
        return Forced(child._key, ones=frozenset(range(self.depth if index % 2 else 0)))


def test_redraws_of_a_share_are_those_of_the_specification():
    """Words 3, 4 and 10 come out as p; for the odd one so do two attempts. Any chunk of the share agrees."""
    ones = frozenset([3, 4, 10])

    def word(key, index):
        forced = index in ones if key == KEY else key == reference.redraw_key(KEY, 3) and index < 2
        return (1 << 64) - 1 if forced else reference.word(key, index)

    expected = [reference.element(KEY, e, P, word) for e in range(12)]
    assert P not in expected
    for first, size in [(0, 12), (3, 5), (4, 1), (9, 3)]:
        out = np.empty(size, np.uint64)
        Expansion(Forced(KEY, ones), Mersenne61(), first).read(out)
        assert out.tolist() == expected[first : first + size]
    reader, out = Expansion(Forced(KEY, ones), Mersenne61(), 2), np.empty((3, 3), np.uint64)
    for row in out:
        reader.read(row)
    assert out.reshape(-1).tolist() == expected[2:11]


@given(
    first=st.integers(0, 30),
    count=st.integers(0, 30),
    width=st.integers(0, 3),
    ring=st.sampled_from(["ring64", "mersenne61"]),
)
def test_rows_of_a_key_and_of_an_array_are_the_same(first, count, width, ring):
    seeded = SeededShare(KEY, (30, width), ring)
    array = ArrayShare(expand(KEY, (30, width), ring), ring)
    assert seeded.shape == array.shape
    for share in (seeded, array):
        if first + count > 30:
            with rejects("first, count", expected="rows within 30"):
                share.rows(first, count)
        else:
            assert share.rows(first, count).tolist() == array.array[first : first + count].tolist()


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, -1)])
def test_rows_are_not_counted_from_the_end(first, count):
    with rejects("first, count", expected="rows within 3"):
        SeededShare(KEY, (3, 1)).rows(first, count)


def test_an_array_share_that_is_not_canonical_is_refused_when_read():
    share = ArrayShare(words([[0], [P]]), "mersenne61")
    assert share.rows(0, 1).tolist() == [[0]]
    with rejects("share", given="element 0 is 2305843009213693951, a number below 2305843009213693951 expected"):
        share.rows(1, 1)


@pytest.mark.parametrize("ring", ["ring64", "mersenne61"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (5,), (4, 2, 3)])
@pytest.mark.parametrize("make", [SeededShare, lambda key, shape, ring: ArrayShare(expand(key, shape, ring), ring)])
def test_a_saved_share_is_opened_again(tmp_path, make, shape, ring):
    path = tmp_path / "share"
    path.write_bytes(bytes(10_000))
    path.chmod(0o644)
    share = make(KEY, shape, ring)
    save_share(path, share)
    assert path.stat().st_mode & 0o777 == 0o600
    opened = open_share(path, ring)
    assert type(opened) is (SeededShare if isinstance(share, SeededShare) else FileShare)
    assert (opened.shape, opened.ring) == (shape, ring_named(ring))
    assert (opened.rows(0, shape[0]) == share.rows(0, shape[0])).all()
    save_share(tmp_path / "copy", opened)
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("shape", [(0, 3), (5,), (700, 2, 3)])
def test_a_share_written_in_blocks_is_the_file_of_the_whole(tmp_path, shape):
    whole = expand(KEY, shape)
    save_share(tmp_path / "whole", ArrayShare(whole))
    (tmp_path / "blocks").write_bytes(bytes(100_000))
    (tmp_path / "blocks").chmod(0o644)
    share = FileShare.create(tmp_path / "blocks", shape)
    assert (open_share(tmp_path / "blocks").rows(0, shape[0]) == 0).all()
    for first in (0, 300, 200, 100, 400, 500, 600):
        share[first : first + 100] = whole[first : first + 100]
    assert (share.rows(0, shape[0]) == whole).all()
    assert (tmp_path / "blocks").read_bytes() == (tmp_path / "whole").read_bytes()
    assert (tmp_path / "blocks").stat().st_mode & 0o777 == 0o600


def test_a_block_of_another_shape_is_refused(tmp_path):
    share = FileShare.create(tmp_path / "share", (5, 2))
    for rows, block in ((slice(0, 5), np.ones((4, 2), np.uint64)), (slice(4, 6), np.ones((2, 2), np.uint64))):
        with pytest.raises(InputError, match="block: shape"):
            share[rows] = block
    with rejects("block", given="int64"):
        share[0:1] = np.ones((1, 2), np.int64)
    assert (share.rows(0, 5) == 0).all()


def test_a_share_that_the_disk_cannot_hold_is_refused_at_once(tmp_path):
    with pytest.raises(InputError, match=r"share cannot take \d+ bytes"):
        FileShare.create(tmp_path / "share", (1 << 58,))


def test_a_file_that_shrinks_after_it_was_opened_is_noticed(tmp_path):
    save_share(tmp_path / "share", SAMPLES["array"])
    opened = open_share(tmp_path / "share")
    (tmp_path / "share").write_bytes((tmp_path / "share").read_bytes()[:-8])
    with pytest.raises(InputError, match="ended early"):
        opened.rows(0, 3)


def test_rows_of_a_large_file_are_dropped_from_the_page_cache(tmp_path, monkeypatch):
    array = np.arange(40, dtype=np.uint64).reshape(10, 4)
    save_share(tmp_path / "share", ArrayShare(array))
    dropped = []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, *arguments: dropped.append(arguments))
    share = open_share(tmp_path / "share")
    share.rows(0, 10)
    assert not dropped
    monkeypatch.setattr("dpmpc.linear.sharing.batch._KEPT_BYTES", 319)
    assert (share.rows(2, 3) == array[2:5]).all()
    assert dropped == [(128 + 2 * 32, 3 * 32, os.POSIX_FADV_DONTNEED)]


def test_a_seeded_file_is_one_line_and_a_key(tmp_path):
    save_share(tmp_path / "share", SeededShare(KEY, (4, 2), "mersenne61"))
    header = b'{"format":"dpmpc seeded share","version":1,"ring":"mersenne61","shape":[4,2]}\n'
    assert (tmp_path / "share").read_bytes() == header + KEY
    with pytest.raises(InputError, match="holds a share in mersenne61, ring64 expected"):
        open_share(tmp_path / "share")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="none cannot be read: No such file"):
        open_share(tmp_path / "none")


SAMPLES = {"seeded": SeededShare(KEY, (3, 2)), "array": ArrayShare(expand(KEY, (3, 2)))}


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_truncation_and_addition_is_refused(tmp_path, kind):
    path = tmp_path / "share"
    save_share(path, SAMPLES[kind])
    content = path.read_bytes()
    for damaged in [*(content[:length] for length in range(len(content))), content + b"\0", content + bytes(5000)]:
        path.write_bytes(damaged)
        with rejects("path"):
            open_share(path)


@pytest.mark.parametrize(
    "array",
    [np.zeros(3), np.zeros(3, np.int64), np.zeros(3, ">u8"), np.zeros((), np.uint64), np.zeros((2, 3), np.uint64).T],
    ids=["float", "signed", "big-endian", "no axes", "fortran"],
)
def test_other_arrays_are_refused(tmp_path, array):
    np.save(tmp_path / "share.npy", array)
    with pytest.raises(InputError, match="uint64 in C order"):
        open_share(tmp_path / "share.npy")


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "share.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(InputError, match=r"not a readable \.npy"):
        open_share(tmp_path / "share.npy")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":1', b'"version":2'),
        (b"dpmpc seeded share", b"another format"),
        (b'"ring64"', b'"ring32"'),
        (b"[3,2]", b"[-3,2]"),
        (b"[3,2]", b"[3,2.5]"),
        (b"[3,2]", b"[]"),
        (b"[3,2]", b"[4294967296,4294967296]"),
        (b'"version":1', b'"version":1,"more":0'),
        (b"seeded", b"seeded\xff"),
    ],
)
def test_malformed_headers_are_refused(tmp_path, old, new):
    path = tmp_path / "share"
    save_share(path, SAMPLES["seeded"])
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(InputError, match=r"neither \.npy nor a seeded share"):
        open_share(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(kind=st.sampled_from([*SAMPLES]), at=st.integers(0, 200), noise=st.binary(min_size=1, max_size=4))
def test_a_damaged_file_is_a_share_or_an_input_error(tmp_path, kind, at, noise):
    path = tmp_path / "share"
    save_share(path, SAMPLES[kind])
    content = path.read_bytes()
    path.write_bytes(content[:at] + noise + content[at + len(noise) :])
    try:
        share = open_share(path)
    except InputError:
        return
    assert share.rows(0, min(3, share.shape[0])).dtype == np.uint64


def test_what_is_no_file_is_no_share(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe cannot be read"):
        open_share(tmp_path / "pipe")


def test_any_share_is_written_a_block_at_a_time(tmp_path):
    class Counting(Share):
        ring, shape = Mersenne61(), (batch.BLOCK // 2 + 3, 3)

        def _rows(self, first, count):
            return np.arange(3 * first, 3 * (first + count), dtype=np.uint64).reshape(count, 3)

    save_share(tmp_path / "share", Counting())
    again = open_share(tmp_path / "share", "mersenne61")
    assert again.shape == Counting.shape
    assert (again.rows(0, again.shape[0]) == Counting().rows(0, again.shape[0])).all()


def test_many_keys_are_expanded_as_each_alone(monkeypatch):
    keys = np.arange(32, dtype=np.uint8).reshape(2, 16)
    assert expand_many(keys, 4, "mersenne61").tolist() == [expand(bytes(k), (4,), "mersenne61").tolist() for k in keys]
    assert expand_many(keys, 0, "mersenne61").shape == (2, 0)

    def all_ones(keys, words):
        words[:] = (1 << 64) - 1

    monkeypatch.setattr(batch, "fill_key_streams", all_ones)  # every word is drawn again, by its key and place
    drawn = expand_many(keys, 3, "mersenne61")
    for row, key in enumerate(keys):
        streams = [Stream(bytes(key)).substream(element, Label.SHARE_REDRAW) for element in range(3)]
        assert drawn[row].tolist() == [int(Mersenne61().uniform(stream, 1)[0]) for stream in streams]
