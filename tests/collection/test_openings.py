"""dpmpc.collection.openings: what is opened was committed to before, by all, also in a repetition."""

import hashlib
import json

import numpy as np
import pytest

from dpmpc.collection.openings import Openings, require_committed, share_commitment
from dpmpc.errors import AlreadyReleased, InconsistentShares, SpoolError

MANIFEST = bytes(range(32))
SHARE = np.arange(6, dtype=np.uint64).reshape(2, 3)


def test_a_commitment_is_to_server_manifest_salt_and_share():
    salt = b"s" * 32
    expected = b"dpmpc v1 opening commitment" + (3).to_bytes(4, "little") + MANIFEST + salt + SHARE.tobytes()
    assert share_commitment(3, MANIFEST, salt, SHARE) == hashlib.sha256(expected).digest()
    others = [
        share_commitment(2, MANIFEST, salt, SHARE),
        share_commitment(3, bytes(32), salt, SHARE),
        share_commitment(3, MANIFEST, bytes(32), SHARE),
        share_commitment(3, MANIFEST, salt, SHARE + np.uint64(1)),
    ]
    assert len({*others, share_commitment(3, MANIFEST, salt, SHARE)}) == 5


def test_another_share_than_was_committed_to_is_named():
    require_committed({0: b"a", 1: b"b", 2: b"c"}, {1: b"b", 2: b"c"})
    with pytest.raises(InconsistentShares, match="server 2 opened another share") as caught:
        require_committed({0: b"a", 1: b"b", 2: b"c"}, {1: b"b", 2: b"d"})
    assert caught.value.party == 2


def test_the_salt_is_drawn_once_and_outlasts_the_process(tmp_path):
    first = Openings(tmp_path)
    first.prepare(MANIFEST, begun=False)
    salt = first.salt(MANIFEST)
    assert len(salt) == 32
    again = Openings(tmp_path)
    for begun in (False, True):
        again.prepare(MANIFEST, begun=begun)
        assert again.salt(MANIFEST) == salt
    again.prepare(bytes(32), begun=False)
    assert again.salt(bytes(32)) != salt
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_commitments_are_kept_and_no_others_taken_later(tmp_path):
    openings, told = Openings(tmp_path), {0: b"a" * 32, 1: b"b" * 32}
    openings.prepare(MANIFEST, begun=False)
    openings.keep(MANIFEST, told)
    salt = openings.salt(MANIFEST)
    Openings(tmp_path).keep(MANIFEST, told)
    with pytest.raises(InconsistentShares, match="server 1 commits to another share") as caught:
        Openings(tmp_path).keep(MANIFEST, {0: b"a" * 32, 1: b"x" * 32})
    assert caught.value.party == 1
    Openings(tmp_path).keep(MANIFEST, {0: b"a" * 32, 2: b"c" * 32})  # with Shamir shares another one may take part
    with pytest.raises(InconsistentShares, match="server 2"):
        Openings(tmp_path).keep(MANIFEST, {2: b"d" * 32})
    with pytest.raises(InconsistentShares, match="server 1"):
        Openings(tmp_path).keep(MANIFEST, {1: b"d" * 32})
    assert openings.salt(MANIFEST) == salt


def test_with_shamir_shares_the_last_commitment_counts(tmp_path):
    openings = Openings(tmp_path)
    openings.prepare(MANIFEST, begun=False)
    openings.keep(MANIFEST, {0: b"a" * 32}, final=False)
    openings.keep(MANIFEST, {0: b"b" * 32}, final=False)
    openings.keep(MANIFEST, {0: b"b" * 32})


def test_a_release_that_was_begun_without_commitments_is_refused(tmp_path):
    with pytest.raises(AlreadyReleased, match=r"version 0\.1"):
        Openings(tmp_path).prepare(MANIFEST, begun=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[" * 100_000, b'{"format":1}', b'{"format":2,"salt":"%s","commitments":{}}' % (b"00" * 32)],
    ids=["empty", "no text", "deep", "short", "another format"],
)
def test_a_damaged_file_is_refused(tmp_path, content):
    openings = Openings(tmp_path)
    openings.prepare(MANIFEST, begun=False)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    for use in (lambda: openings.salt(MANIFEST), lambda: openings.keep(MANIFEST, {0: bytes(32)})):
        with pytest.raises(SpoolError, match="commitments"):
            use()
    assert path.read_bytes() == content


def test_the_file_holds_hexadecimal_digests_only(tmp_path):
    openings = Openings(tmp_path)
    openings.prepare(MANIFEST, begun=False)
    openings.keep(MANIFEST, {0: bytes(32)})
    (path,) = tmp_path.iterdir()
    assert MANIFEST.hex() in path.name
    fields = json.loads(path.read_text())
    assert len(fields.pop("checksum")) == 64
    assert fields == {"format": 1, "salt": openings.salt(MANIFEST).hex(), "commitments": {"0": "00" * 32}}


def test_a_digit_that_changed_accuses_nobody(tmp_path):
    """An honest server whose file was damaged stops by itself, before anything is bound or sent."""
    openings = Openings(tmp_path)
    openings.prepare(MANIFEST, begun=False)
    openings.keep(MANIFEST, {0: bytes(32), 1: b"1" * 32})
    (path,) = tmp_path.iterdir()
    kept = path.read_bytes()
    digits = [place for place, digit in enumerate(kept) if chr(digit) in "0123456789abcdef"]
    for place in digits:
        other = b"0" if kept[place : place + 1] != b"0" else b"1"
        path.write_bytes(kept[:place] + other + kept[place + 1 :])
        with pytest.raises(SpoolError, match="commitments"):
            openings.prepare(MANIFEST, begun=True)
    path.write_bytes(kept)
    openings.prepare(MANIFEST, begun=True)
