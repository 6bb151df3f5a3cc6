"""What a party's folder remembers: one agreement, one coin, one release, and how often ids were compared."""

import contextlib
import json
import os
import stat

import msgspec
import numpy as np
import pytest

from dpmpc.data_release.record import (
    LOCK_FILE,
    MOST_COMPARISONS,
    OWN_FILE,
    ReleaseFields,
    ReleaseRecord,
    refuse_spent,
)
from dpmpc.errors import BatchMismatch, InputError
from dpmpc.storage import files

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
        with pytest.raises(InputError, match="which holds a release"):
            record.keep(TOSS, OWN)


def test_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        with record_of(tmp_path) as record:
            record.keep(TOSS, OWN)
    finally:
        os.umask(before)
    for name in (ReleaseFields.file, OWN_FILE, LOCK_FILE):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([ReleaseFields.file, OWN_FILE, LOCK_FILE])


def test_neither_the_toss_nor_its_plain_hash_is_kept(tmp_path):
    """From the toss follows the key of the keyed hashes."""
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
    import hashlib

    text = (tmp_path / ReleaseFields.file).read_text()
    assert TOSS.hex() not in text
    assert hashlib.sha256(TOSS).hexdigest() not in text


def test_what_is_written_is_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    """The release first, then the record that names it, each synced: a crash between them leaves a folder unused."""
    synced = []
    honest = files.whole

    def whole(path, **options):
        synced.append(path.name)
        return honest(path, **options)

    monkeypatch.setattr(files, "whole", whole)
    with record_of(tmp_path) as record:
        record.begin_comparison()
        record.keep(TOSS, OWN)
        record.keep_commitments(COMMITMENTS)
        record.keep_commitments(COMMITMENTS)
    assert synced == [ReleaseFields.file, ReleaseFields.file, OWN_FILE, ReleaseFields.file, ReleaseFields.file]


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


def test_the_nonce_of_the_commitment_is_drawn_once(tmp_path):
    with record_of(tmp_path) as record:
        with pytest.raises(InputError, match="holds no release"):
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
    before = (tmp_path / ReleaseFields.file).read_bytes()
    for _ in range(2):
        with record_of(tmp_path) as record:
            record.keep_commitments(COMMITMENTS)
            with pytest.raises(BatchMismatch, match=f"party {changed} commits to another release") as failure:
                record.keep_commitments(COMMITMENTS | {changed: b"x" * 32})
            assert failure.value.party == changed
            record.keep_commitments(COMMITMENTS)
    assert (tmp_path / ReleaseFields.file).read_bytes() == before


def test_a_party_that_was_not_there_at_first_is_refused(tmp_path):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
        record.keep_commitments(COMMITMENTS)
        with pytest.raises(BatchMismatch, match="party 3"):
            record.keep_commitments(COMMITMENTS | {3: b"d" * 32})


def test_a_record_that_is_gone_from_beside_its_release_is_not_begun_anew(tmp_path):
    """Another coin, other noise and no commitments: what a party that has lost its memory may not do."""
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
    (tmp_path / ReleaseFields.file).unlink()
    with pytest.raises(InputError, match=r"own-release\.words lies beside it: .* restore it, nothing replaces it"):
        record_of(tmp_path)
    assert not (tmp_path / ReleaseFields.file).exists()


def test_a_release_that_a_crash_left_without_its_record_was_never_shown_and_is_made_again(tmp_path, monkeypatch):
    """The process ends between the two writes of `keep`: the record says that there is no release."""
    with record_of(tmp_path) as record, monkeypatch.context() as patched:
        patched.setattr(ReleaseFields, "write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            record.keep(TOSS, OWN)
    with record_of(tmp_path) as record:
        assert record.own_release(TOSS, OWN.shape) is None
        record.keep(TOSS, OWN + 1)
    with record_of(tmp_path) as record:
        assert (record.own_release(TOSS, OWN.shape) == OWN + 1).all()


def test_any_bit_of_a_record_that_changes_is_noticed_and_accuses_nobody(tmp_path):
    with record_of(tmp_path) as record:
        record.keep(TOSS, OWN)
        record.keep_commitments(COMMITMENTS)
    path, content = tmp_path / ReleaseFields.file, (tmp_path / ReleaseFields.file).read_bytes()
    honest = ReleaseFields.read(tmp_path)
    for position in range(len(content)):
        for bit in (0, 2, 5):
            path.write_bytes(content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :])
            with contextlib.suppress(InputError):
                assert ReleaseFields.read(tmp_path) == honest


GOOD = ReleaseFields(2, AGREEMENT, COIN.hex())
MADE = {"toss": "00" * 32, "own": "00" * 32, "nonce": "00" * 32}


def written(**changes):
    """A record with its checksum, changed or with fields that the class has not."""
    fields = json.loads(msgspec.json.encode(GOOD)) | changes
    known = ReleaseFields(**{name: fields[name] for name in ReleaseFields.__struct_fields__})
    return json.dumps(fields | {"checksum": known.sealed().checksum}).encode()


@pytest.mark.parametrize("changes", [{}, MADE, MADE | {"commitments": {"0": "00" * 32}}], ids=repr)
def test_a_record_is_read(tmp_path, changes):
    (tmp_path / ReleaseFields.file).write_bytes(written(**changes))
    record_of(tmp_path).close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b" " * (1 << 23),
        written(format=1),
        written(coin="00"),
        written(coin="x" * 64),
        written(comparisons=-1),
        written(toss="00" * 32),
        written(own="00" * 32),
        written(nonce="00" * 32),
        written(**MADE | {"nonce": None}),
        written(commitments={"0": "00" * 32}),
        written(**MADE, commitments={"0": "00"}),
        written(more=1),
        written()[:-3] + b'0"}',
    ],
    ids=lambda content: content[-20:].decode(errors="replace"),
)
def test_a_record_that_cannot_be_read_is_refused_and_not_replaced(tmp_path, content):
    (tmp_path / ReleaseFields.file).write_bytes(content)
    with pytest.raises(InputError, match=ReleaseFields.file):
        record_of(tmp_path)
    assert (tmp_path / ReleaseFields.file).read_bytes() == content


def test_a_folder_of_version_0_1_that_has_sent_is_refused_and_one_that_has_not_is_used(tmp_path):
    refuse_spent(tmp_path)
    (tmp_path / "spent").touch()
    for use in (refuse_spent, record_of):
        with pytest.raises(InputError, match=r"version 0\.1 has sent a release .*; prepare anew if you accept that"):
            use(tmp_path)
