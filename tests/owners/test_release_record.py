"""What a party's folder remembers: one agreement, one coin, one release, and how often ids were compared."""

import hashlib
import os
import random
import stat

import numpy as np
import pytest

from dpmpc.base.errors import BatchMismatch, SpoolError
from dpmpc.base.storage.kept import KEPT_FILE, MARK_FILE, Kept
from dpmpc.owners.columns.release_record import MOST_COMPARISONS, ReleaseRecord, has_sent
from support.kept_files import commitments_of, kept_on_disk
from support.rejections import blames, rejects

AGREEMENT, COIN, TOSS = "ab" * 32, b"c" * 32, b"t" * 32
OWN = np.arange(-3, 3).reshape(3, 2)
COMMITMENTS = {0: b"a" * 32, 1: b"b" * 32, 2: b"c" * 32}


def record_of(folder, **changes):
    return ReleaseRecord(**{"folder": folder, "agreement": AGREEMENT, "coin": COIN} | changes)


def test_a_folder_keeps_its_first_coin_and_its_release(tmp_path):
    with record_of(tmp_path) as record:
        assert record.coin == COIN
        assert record.own_release(TOSS, OWN.shape) is None
        assert (record.keep(TOSS, OWN) == OWN).all()
    with record_of(tmp_path, coin=b"d" * 32) as record:
        assert record.coin == COIN
        assert (record.own_release(TOSS, OWN.shape) == OWN).all()
        assert record.own_release(TOSS, OWN.shape).dtype == np.int64
        with rejects("folder"):
            record.keep(TOSS, OWN)


def test_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        with record_of(tmp_path) as record:
            record.keep(TOSS, OWN)
    finally:
        os.umask(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARK_FILE, KEPT_FILE]
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_neither_the_toss_nor_its_plain_hash_is_kept(tmp_path):
    """From the toss follows the key of the keyed hashes."""
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
    content = (tmp_path / KEPT_FILE).read_bytes()
    for secret in (TOSS, hashlib.sha256(TOSS).digest()):
        assert secret not in content
        assert secret.hex().encode() not in content


def test_what_is_written_is_on_the_disk_before_it_counts(tmp_path):
    """After each call, whatever may be sent then."""
    with record_of(tmp_path) as record:
        assert kept_on_disk(tmp_path)["coin"] == COIN
        record.begin_comparison()
        found = kept_on_disk(tmp_path)
        assert found["comparisons of ids"] == b"\1\0\0\0"
        assert "release" not in found
        record.keep(TOSS, OWN)
        found = kept_on_disk(tmp_path)
        assert (found["release"], found["nonce"]) == (OWN.astype("<i8").tobytes(), record.nonce)
        for _ in range(2):
            record.keep_commitments(COMMITMENTS)
            assert commitments_of(tmp_path) == COMMITMENTS
    assert has_sent(tmp_path)


def test_another_toss_or_agreement_is_refused(tmp_path):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
        with rejects("folder"):
            record.own_release(b"u" * 32, OWN.shape)
    with rejects("folder"):
        record_of(tmp_path, agreement="cd" * 32)
    record_of(tmp_path).close()


def test_comparisons_are_counted_over_all_runs(tmp_path):
    for _ in range(MOST_COMPARISONS):
        with record_of(tmp_path) as record:
            record.begin_comparison()
    with record_of(tmp_path) as record, rejects("folder"):
        record.begin_comparison()


def test_a_folder_is_for_one_process(tmp_path):
    with record_of(tmp_path), rejects("folder"):
        record_of(tmp_path)
    record_of(tmp_path).close()


@pytest.mark.parametrize("change", [lambda raw: raw[:-1] + b"x", lambda raw: b"\1" + raw[1:], lambda raw: bytes(48)])
def test_a_damaged_release_is_not_sent(tmp_path, change):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
    path, release = tmp_path / KEPT_FILE, OWN.astype("<i8").tobytes()
    content = path.read_bytes()
    assert content.count(release) == 1
    path.write_bytes(content.replace(release, change(release)))
    with record_of(tmp_path) as record, pytest.raises(SpoolError):
        record.own_release(TOSS, OWN.shape)


def test_a_release_of_another_shape_is_not_sent(tmp_path):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
        with pytest.raises(SpoolError):
            record.own_release(TOSS, (4, 2))


def test_the_nonce_of_the_commitment_is_drawn_once(tmp_path):
    with record_of(tmp_path) as record:
        with rejects("folder"):
            _ = record.nonce
        record.keep(TOSS, OWN)
        first = record.nonce
    assert len(first) == 32
    with record_of(tmp_path) as record:
        assert record.nonce == first
    other = tmp_path / "other"
    other.mkdir()
    with record_of(other) as record:
        record.keep(TOSS, OWN)
        assert record.nonce != first


@pytest.mark.parametrize("changed", COMMITMENTS)
def test_the_first_commitments_count_for_good_and_who_changes_one_is_named(tmp_path, changed):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
        record.keep_commitments(COMMITMENTS)
    before = (tmp_path / KEPT_FILE).read_bytes()
    for _ in range(2):
        with record_of(tmp_path) as record:
            record.keep_commitments(COMMITMENTS)
            with blames(changed, BatchMismatch):
                record.keep_commitments(COMMITMENTS | {changed: b"x" * 32})
            record.keep_commitments(COMMITMENTS)
    assert (tmp_path / KEPT_FILE).read_bytes() == before


def test_a_party_that_was_not_there_at_first_is_refused(tmp_path):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
        record.keep_commitments(COMMITMENTS)
        with blames(3, BatchMismatch):
            record.keep_commitments(COMMITMENTS | {3: b"d" * 32})


def test_a_release_that_a_crash_left_without_the_rest_was_never_shown_and_is_made_again(tmp_path, monkeypatch):
    """The process ends in the middle of `keep`: nothing of it is there."""
    with record_of(tmp_path) as record, monkeypatch.context() as patched:
        patched.setattr(Kept, "_seal", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            record.keep(TOSS, OWN)
    assert not has_sent(tmp_path)
    with record_of(tmp_path) as record:
        assert record.own_release(TOSS, OWN.shape) is None
        record.keep(TOSS, OWN + 1)
    with record_of(tmp_path) as record:
        assert (record.own_release(TOSS, OWN.shape) == OWN + 1).all()


def test_any_bit_of_a_record_that_changes_is_noticed_and_accuses_nobody(tmp_path):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
        record.keep_commitments(COMMITMENTS)
        nonce = record.nonce
    path, draw = tmp_path / KEPT_FILE, random.Random(3)
    content = path.read_bytes()
    places = draw.sample([place for place in range(len(content)) if content[place]], 300)
    noticed = 0
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :])
        for left in tmp_path.glob("*-journal"):
            left.unlink()
        try:
            with record_of(tmp_path) as record:
                found = record.coin, record.own_release(TOSS, OWN.shape).tolist(), record.nonce
                record.keep_commitments(COMMITMENTS)
            assert found == (COIN, OWN.tolist(), nonce), place
        except SpoolError:
            noticed += 1
    assert noticed > 150


@pytest.mark.parametrize(
    "content",
    [b"\xff" * 4096, b"[" * 100_000, b" " * (1 << 23), b"SQLite format 3\0" + bytes(4096)],
    ids=["no text", "deep", "long", "header"],
)
def test_a_record_that_cannot_be_read_is_refused_and_not_replaced(tmp_path, content):
    (tmp_path / KEPT_FILE).write_bytes(content)
    with pytest.raises(SpoolError, match=KEPT_FILE):
        record_of(tmp_path)
    assert (tmp_path / KEPT_FILE).read_bytes() == content
