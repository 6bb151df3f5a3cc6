"""What a party's folder remembers: one agreement, one coin, one release, and how often ids were compared."""

import json
import os
import stat

import numpy as np
import pytest

from dpmpc.data_release import record as record_module
from dpmpc.data_release.record import LOCK_FILE, MOST_COMPARISONS, OWN_FILE, RECORD_FILE, Record, refuse_spent
from dpmpc.errors import InputError

AGREEMENT, COIN, TOSS = "ab" * 32, b"c" * 32, b"t" * 32
OWN = np.arange(-3, 3).reshape(3, 2)


def record_of(folder, **changes):
    return Record(**{"folder": folder, "agreement": AGREEMENT, "coin": COIN} | changes)


def test_a_folder_keeps_its_first_coin_and_its_release(tmp_path):
    with record_of(tmp_path) as record:
        assert record.coin == COIN
        assert record.own_release(TOSS, OWN.shape) is None
        assert (record.keep(TOSS, OWN) == OWN).all()
    with record_of(tmp_path, coin=b"d" * 32) as record:
        assert record.coin == COIN
        assert (record.own_release(TOSS, OWN.shape) == OWN).all()
        assert record.own_release(TOSS, OWN.shape).dtype == np.int64
        with pytest.raises(InputError, match="which holds a release"):
            record.keep(TOSS, OWN)


def test_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        with record_of(tmp_path) as record:
            record.keep(TOSS, OWN)
    finally:
        os.umask(before)
    for name in (RECORD_FILE, OWN_FILE, LOCK_FILE):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([RECORD_FILE, OWN_FILE, LOCK_FILE])


def test_neither_the_toss_nor_its_plain_hash_is_kept(tmp_path):
    """From the toss follows the key of the keyed hashes."""
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
    import hashlib

    text = (tmp_path / RECORD_FILE).read_text()
    assert TOSS.hex() not in text
    assert hashlib.sha256(TOSS).hexdigest() not in text


def test_what_is_written_is_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    """The release first, then the record that names it, each synced: a crash between them leaves a folder unused."""
    synced = []
    honest = record_module.whole

    def whole(path):
        synced.append(path.name)
        return honest(path)

    monkeypatch.setattr(record_module, "whole", whole)
    with record_of(tmp_path) as record:
        record.begin_comparison()
        record.keep(TOSS, OWN)
    assert synced == [RECORD_FILE, RECORD_FILE, OWN_FILE, RECORD_FILE]


def test_another_toss_or_agreement_is_refused(tmp_path):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
        with pytest.raises(InputError, match="made under another toss"):
            record.own_release(b"u" * 32, OWN.shape)
    with pytest.raises(InputError, match=r"used for agreement abababababababab\.\.\., cdcdcdcdcdcdcdcd\.\.\. expected"):
        record_of(tmp_path, agreement="cd" * 32)
    record_of(tmp_path).close()


def test_comparisons_are_counted_over_all_runs(tmp_path):
    for _ in range(MOST_COMPARISONS):
        with record_of(tmp_path) as record:
            record.begin_comparison()
    with record_of(tmp_path) as record, pytest.raises(InputError, match=f"fewer than {MOST_COMPARISONS} expected"):
        record.begin_comparison()


def test_a_folder_is_for_one_process(tmp_path):
    with record_of(tmp_path), pytest.raises(InputError, match="which another process is using"):
        record_of(tmp_path)
    record_of(tmp_path).close()


@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw + b"x", lambda raw: b"\1" + raw[1:], None])
def test_a_damaged_release_is_not_sent(tmp_path, change):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
    path = tmp_path / OWN_FILE
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    with record_of(tmp_path) as record, pytest.raises(InputError, match=OWN_FILE):
        record.own_release(TOSS, OWN.shape)


GOOD = {"format": 1, "agreement": AGREEMENT, "coin": COIN.hex()}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b" " * (1 << 23),
        json.dumps(GOOD | {"format": 2}).encode(),
        json.dumps(GOOD | {"coin": "00"}).encode(),
        json.dumps(GOOD | {"coin": "x" * 64}).encode(),
        json.dumps(GOOD | {"comparisons": -1}).encode(),
        json.dumps(GOOD | {"toss": "00"}).encode(),
        json.dumps(GOOD | {"own": "00"}).encode(),
        json.dumps(GOOD | {"more": 1}).encode(),
    ],
    ids=lambda content: content[-20:].decode(errors="replace"),
)
def test_a_record_that_cannot_be_read_is_refused_and_not_replaced(tmp_path, content):
    (tmp_path / RECORD_FILE).write_bytes(content)
    with pytest.raises(InputError, match=RECORD_FILE):
        record_of(tmp_path)
    assert (tmp_path / RECORD_FILE).read_bytes() == content


def test_a_folder_of_version_0_1_that_has_sent_is_refused_and_one_that_has_not_is_used(tmp_path):
    refuse_spent(tmp_path)
    (tmp_path / "spent").touch()
    for use in (refuse_spent, record_of):
        with pytest.raises(InputError, match=r"version 0\.1 has sent a release .*; prepare anew if you accept that"):
            use(tmp_path)
