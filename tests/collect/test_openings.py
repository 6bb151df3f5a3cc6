"""dpmpc.collect.store.openings: what is opened was committed to before, by all, also in a repetition."""

import hashlib
import sqlite3
from unittest.mock import ANY

import pytest

from dpmpc.base.errors import AlreadyReleased, InconsistentShares, SpoolError
from dpmpc.collect.store.openings import Openings
from support.rejections import blames, rejects

MANIFEST = bytes(range(32))


def test_the_salt_is_drawn_once_and_outlasts_the_process(tmp_path):
    salt = Openings(tmp_path).salt(MANIFEST, begun=False)
    assert len(salt) == 32
    again = Openings(tmp_path)
    for begun in (False, True):
        assert again.salt(MANIFEST, begun=begun) == salt
    assert again.salt(bytes(32), begun=False) != salt
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_commitments_are_kept_and_no_others_taken_later(tmp_path):
    openings, told = Openings(tmp_path), {0: b"a" * 32, 1: b"b" * 32}
    salt = openings.salt(MANIFEST, begun=False)
    openings.keep(MANIFEST, told)
    Openings(tmp_path).keep(MANIFEST, told)
    with blames(1, InconsistentShares):
        Openings(tmp_path).keep(MANIFEST, {0: b"a" * 32, 1: b"x" * 32})
    with blames(2, InconsistentShares):
        Openings(tmp_path).keep(MANIFEST, {0: b"a" * 32, 2: b"c" * 32})
    with_shamir = {0: b"a" * 32, 2: b"c" * 32}  # where another one may take part
    Openings(tmp_path).keep(MANIFEST, with_shamir, final=False)
    with blames(2, InconsistentShares):
        Openings(tmp_path).keep(MANIFEST, {2: b"d" * 32})
    with blames(1, InconsistentShares):
        Openings(tmp_path).keep(MANIFEST, {1: b"d" * 32})
    Openings(tmp_path).keep(bytes(32), {1: b"d" * 32})  # of another manifest
    assert openings.salt(MANIFEST, begun=True) == salt


def test_with_shamir_shares_the_last_commitment_counts(tmp_path):
    openings = Openings(tmp_path)
    openings.keep(MANIFEST, {0: b"a" * 32}, final=False)
    openings.keep(MANIFEST, {0: b"b" * 32}, final=False)
    openings.keep(MANIFEST, {0: b"b" * 32})
    with blames(0, InconsistentShares):
        openings.keep(MANIFEST, {0: b"a" * 32})


def test_a_release_that_was_begun_without_commitments_is_refused(tmp_path):
    with rejects("manifest", AlreadyReleased):
        Openings(tmp_path).salt(MANIFEST, begun=True)
    assert not list(tmp_path.iterdir())
    Openings(tmp_path).salt(bytes(32), begun=False)
    with rejects("manifest", AlreadyReleased):
        Openings(tmp_path).salt(MANIFEST, begun=True)


@pytest.mark.parametrize("content", [b"\xff" * 4096, b"[" * 100_000, b"SQLite format 3\0" + bytes(4096)])
def test_a_damaged_file_is_refused(tmp_path, content):
    openings = Openings(tmp_path)
    openings.salt(MANIFEST, begun=False)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    for use in (lambda: openings.salt(MANIFEST, begun=True), lambda: openings.keep(MANIFEST, {0: bytes(32)})):
        with rejects(ANY, SpoolError, given="file is not a database"):
            use()
    assert path.read_bytes() == content


def test_a_file_that_was_emptied_is_refused_once_the_ledger_has_bound(tmp_path):
    openings = Openings(tmp_path)
    openings.salt(MANIFEST, begun=False)
    (tmp_path / "openings.sqlite").write_bytes(b"")
    with rejects("manifest", AlreadyReleased):
        openings.salt(MANIFEST, begun=True)


def test_the_file_holds_a_salt_and_commitments_by_name(tmp_path):
    openings = Openings(tmp_path)
    salt = openings.salt(MANIFEST, begun=False)
    openings.keep(MANIFEST, {0: bytes(32)})
    (path,) = tmp_path.iterdir()
    database = sqlite3.connect(path)
    rows = database.execute("SELECT name, digest, value FROM kept ORDER BY name").fetchall()
    database.close()
    assert rows == [
        (name, hashlib.sha256(value).digest(), value)
        for name, value in (
            (f"salt of manifest {MANIFEST.hex()}", salt),
            (f"share of manifest {MANIFEST.hex()} of server 0", bytes(32)),
        )
    ]


def test_a_bit_that_changed_accuses_nobody(tmp_path):
    """An honest server whose file was damaged stops by itself, before anything is bound or sent."""
    openings, told = Openings(tmp_path), {0: b"0" * 32, 1: b"1" * 32}
    salt = openings.salt(MANIFEST, begun=False)
    openings.keep(MANIFEST, told)
    (path,) = tmp_path.iterdir()
    kept = path.read_bytes()
    for value, use in (
        (salt, lambda: openings.salt(MANIFEST, begun=True)),
        (hashlib.sha256(salt).digest(), lambda: openings.salt(MANIFEST, begun=True)),
        (hashlib.sha256(told[1]).digest(), lambda: openings.keep(MANIFEST, told)),
    ):
        first = kept.index(value)
        for place in range(first, first + 32):
            path.write_bytes(kept[:place] + bytes([kept[place] ^ 1]) + kept[place + 1 :])
            with pytest.raises(SpoolError):
                use()
    path.write_bytes(kept)
    assert openings.salt(MANIFEST, begun=True) == salt
