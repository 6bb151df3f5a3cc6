"""Hashes of many texts: published answers, and on every instruction set what hashlib and cryptography give for each."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpmpc._kernels import dispatch
from dpmpc.base.digests import hkdf_of_rows, sha256_of_rows
from support.matrix_inputs import each_instruction_set
from support.rejections import rejects

CASES = json.loads((Path(__file__).parent / "vectors" / "hkdf.json").read_text())["cases"]
COUNTS = (0, 1, 3, 4, 5, 16, 17, 33)  # few, and around the texts of a vector
instruction_set = each_instruction_set(dispatch)


def rows_of(count, length):
    return np.random.default_rng(length).integers(0, 256, (count, length), dtype=np.uint8)


@pytest.mark.usefixtures("instruction_set")
def test_each_row_has_its_own_hash():
    """Lengths on both sides of every padding rule, after heads that end inside of a block, with one, and after it."""
    for head in (b"", b"label", b"h" * 63, b"h" * 64, b"h" * 65, b"h" * 130):
        for length in (1, 16, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 352):
            rows = rows_of(max(COUNTS), length)
            expected = [hashlib.sha256(head + row.tobytes()).digest() for row in rows]
            for count in COUNTS:
                assert [row.tobytes() for row in sha256_of_rows(head, rows[:count])] == expected[:count], (head, length)


@pytest.mark.usefixtures("instruction_set")
def test_rows_may_be_empty_or_lie_apart():
    empty = hashlib.sha256(b"head").digest()
    assert sha256_of_rows(b"head", np.empty((5, 0), np.uint8)).tobytes() == 5 * empty
    apart = rows_of(20, 40)[::2, 3:19]
    assert sha256_of_rows(b"", apart)[9].tobytes() == hashlib.sha256(apart[9].tobytes()).digest()


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("case", CASES, ids=["A.1", "A.2", "A.3"])
def test_published_keys_are_derived(case):
    key, salt, info, expected = (bytes.fromhex(case[name]) for name in ("key", "salt", "info", "derived"))
    for count in (1, 7):
        keys = np.tile(np.frombuffer(key, np.uint8), (count, 1))
        assert hkdf_of_rows(keys, salt, info, 32).tobytes() == count * expected


@pytest.mark.usefixtures("instruction_set")
def test_each_key_is_derived_as_by_itself():
    for salt in (b"", b"salt", bytes(32), b"s" * 64, b"s" * 65):
        for info in (b"", b"i" * 31, b"i" * 70):
            for length in (1, 16, 32):
                keys = rows_of(19, 16)
                one = [HKDF(hashes.SHA256(), length, salt, info).derive(key.tobytes()) for key in keys]
                for count in COUNTS[:6]:
                    assert [row.tobytes() for row in hkdf_of_rows(keys[:count], salt, info, length)] == one[:count]


def test_what_has_no_rows_of_bytes_is_refused():
    with rejects("rows", given="int64 of shape (4, 4)"):
        sha256_of_rows(b"", np.zeros((4, 4), np.int64))
    with rejects("rows", given="uint8 of shape (4,)"):
        sha256_of_rows(b"", np.zeros(4, np.uint8))
    with rejects("length", given="33"):
        hkdf_of_rows(np.zeros((4, 16), np.uint8), b"", b"", 33)
    for count in (2, 4):  # few, and many
        for keys in (np.zeros((count, 16), np.int64), np.zeros(count, np.uint8)):
            with rejects("keys", expected="uint8 with two axes"):
                hkdf_of_rows(keys, b"", b"", 16)
