"""Key streams of many keys: published answers of AES, and what one stream gives, byte by byte, kernel or none."""

import json
import platform
import shutil
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpmpc._kernels import keys as kernel
from dpmpc.app.cli import doctor
from dpmpc.base import randomness
from dpmpc.base.randomness import Stream, aes_kernel, fill_key_streams
from support.rejections import rejects

ROOT = Path(__file__).parents[1]
VECTORS = json.loads((ROOT / "tests" / "vectors" / "aes.json").read_text())
FLAGS = tomllib.loads((ROOT / "csrc" / "instruction_sets.toml").read_text())["own_flags"]
PROGRAM = ROOT / "tests" / "aes_blocks.c"
NATIVE = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
CROSS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
COUNTS, WORDS = range(10), (*range(1, 42), 77, 78, 256)
with_aes = pytest.mark.skipif(not kernel.has_aes(), reason="a processor or a build without AES instructions")


def by_openssl(key, words):
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * words))


def new_keys(count, length):
    return np.random.default_rng(length).integers(0, 256, (count, length), dtype=np.uint8)


@pytest.fixture(params=[pytest.param("kernel", marks=with_aes), "openssl"])
def way(request, monkeypatch):
    """Expand with the kernel, or as where it is missing."""
    monkeypatch.setattr(randomness, "aes_kernel", lambda: "used" if request.param == "kernel" else "missing")
    return request.param


@pytest.mark.parametrize("length", [16, 32])
def test_many_keys_give_what_each_gives(way, length):
    for words in WORDS:
        keys = new_keys(max(COUNTS), length)
        expected = [by_openssl(key.tobytes(), words) for key in keys]
        for count in COUNTS:
            out = np.full((count, words), 7, np.uint64)
            fill_key_streams(keys[:count], out)
            assert [row.tobytes() for row in out] == expected[:count], (words, count)


def test_a_key_of_16_bytes_gives_its_stream(way):
    keys, out = new_keys(5, 16), np.empty((5, 33), np.uint64)
    fill_key_streams(keys, out)
    for key, row in zip(keys, out, strict=True):
        np.testing.assert_array_equal(row, Stream(key.tobytes()).words(33))


@pytest.mark.parametrize("skipped", [1, 3, 8])
def test_no_alignment_is_needed_and_nothing_beyond_is_written(way, skipped):
    for words, count in ((1, 1), (7, 3), (40, 5)):
        size = 8 * words * count
        buffer = np.zeros(skipped + size + 8, np.uint8)
        out = buffer[skipped : skipped + size].view(np.uint64).reshape(count, words)
        fill_key_streams(new_keys(count, 16), out)
        expected = b"".join(by_openssl(key.tobytes(), words) for key in new_keys(count, 16))
        assert buffer.tobytes() == bytes(skipped) + expected + bytes(8)


def test_keys_need_not_lie_side_by_side(way):
    spread, out = new_keys(6, 32)[::2, :16], np.empty((3, 4), np.uint64)
    fill_key_streams(spread, out)
    assert out[2].tobytes() == by_openssl(spread[2].tobytes(), 4)


@pytest.mark.parametrize(
    ("keys", "out", "name"),
    [
        (np.zeros((2, 24), np.uint8), np.zeros((2, 4), np.uint64), "keys"),
        (np.zeros((2, 16), np.int8), np.zeros((2, 4), np.uint64), "keys"),
        (np.zeros(16, np.uint8), np.zeros((1, 4), np.uint64), "keys"),
        (np.zeros((3, 16), np.uint8), np.zeros((2, 4), np.uint64), "out"),
        (np.zeros((2, 16), np.uint8), np.zeros((2, 8), np.uint64)[:, ::2], "out"),
        (np.zeros((2, 16), np.uint8), np.zeros((2, 4), ">u8"), "out"),
        (np.zeros((2, 16), np.uint8), np.zeros((2, 4), np.uint32), "out"),
    ],
)
def test_what_would_be_read_or_written_elsewhere_is_refused(way, keys, out, name):
    before = out.copy()
    with rejects(name):
        fill_key_streams(keys, out)
    np.testing.assert_array_equal(out, before)


@pytest.fixture
def fresh():
    """Forget the self-check before a test and after it."""
    aes_kernel.cache_clear()
    yield
    aes_kernel.cache_clear()


@with_aes
@pytest.mark.usefixtures("fresh")
def test_a_kernel_that_is_wrong_is_not_used_and_doctor_says_so(monkeypatch):
    right = kernel.fill

    def wrong(keys, out):
        right(keys, out)
        out[-1, -1] ^= 1  # the tail of the last key

    assert aes_kernel() == "used"
    assert "many keys by the processor's AES instructions" in doctor.aes()[1]
    aes_kernel.cache_clear()
    monkeypatch.setattr(kernel, "fill", wrong)
    keys, out = new_keys(3, 16), np.empty((3, 5), np.uint64)
    fill_key_streams(keys, out)
    assert out[2].tobytes() == by_openssl(keys[2].tobytes(), 5)
    assert aes_kernel() == "wrong"
    state, found, advice = doctor.aes()
    assert (state, "another key stream than OpenSSL" in found, "report it" in advice) == ("warning", True, True)


@with_aes
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("length", [16, 32])
@pytest.mark.parametrize("key", [0, 4])
@pytest.mark.parametrize(("least", "most", "block"), [(0, 4, 0), (4, 8, 4), (8, 1000, 0), (8, 1000, 8), (8, 1000, 10)])
def test_the_self_check_looks_at_each_way_through_the_kernel(monkeypatch, length, key, least, most, block):
    """Up to four blocks, up to eight, and more, which are several passes, are encrypted by code of their own."""
    right = kernel.fill

    def wrong(keys, out):
        right(keys, out)
        if keys.shape[1] == length and least < out.shape[1] / 16 <= most and 16 * block < out.shape[1]:
            out[key, 16 * block] ^= 1

    monkeypatch.setattr(kernel, "fill", wrong)
    assert aes_kernel() == "wrong"


@pytest.mark.usefixtures("fresh")
def test_doctor_says_that_there_are_no_aes_instructions(monkeypatch):
    monkeypatch.setattr(kernel, "has_aes", lambda: False)
    state, found, _ = doctor.aes()
    assert (state, "many keys one by one" in found) == ("warning", True)


def answers(compiler, machine, folder, *flags, emulator=()):
    """Compile the kernel with a program around it; return what it answers to the published vectors."""
    program = folder / "aes_blocks"
    own = FLAGS[machine]["key_streams"]
    command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", *own, *flags, "-I", str(ROOT / "csrc")]
    subprocess.run([*command, str(PROGRAM), "-o", str(program)], check=True, timeout=180)
    lines = "".join(f"{case['key']} {case['plain']}\n" for case in VECTORS["blocks"])
    done = subprocess.run([*emulator, str(program)], input=lines.encode(), capture_output=True, check=True, timeout=120)
    return done.stdout


def require_published(answered):
    *blocks, streams = answered.split(b"\n", len(VECTORS["blocks"]))
    last_keys = {case["key"]: case["last_round_key"] for case in VECTORS["schedules"]}
    for case, line in zip(VECTORS["blocks"], blocks, strict=True):
        last, cipher = line.decode().split()
        assert cipher == case["cipher"]
        assert last == last_keys.get(case["key"], last)
    expected = []
    for length in (16, 32):
        for words in range(1, 90):
            for count in range(10):
                content = bytes((index * 37 + words * 11 + count) % 256 for index in range(length * count))
                keys = [content[length * key : length * (key + 1)] for key in range(count)]
                expected += [bytes(1), *(by_openssl(key, words) for key in keys), bytes(8)]
    assert streams == b"".join(expected)


@with_aes
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs GCC")
def test_the_kernel_gives_the_published_answers(tmp_path):
    require_published(answers("gcc", NATIVE, tmp_path))


@pytest.mark.skipif(not all(map(shutil.which, CROSS)), reason=f"needs {' and '.join(CROSS)}")
def test_the_kernel_of_arm_gives_the_published_answers_under_an_emulator(tmp_path):
    require_published(answers(CROSS[0], "aarch64", tmp_path, "-static", emulator=CROSS[1:]))


def test_openssl_gives_the_published_answers():
    for case in VECTORS["blocks"]:
        encryptor = Cipher(algorithms.AES(bytes.fromhex(case["key"])), modes.ECB()).encryptor()
        assert encryptor.update(bytes.fromhex(case["plain"])).hex() == case["cipher"]
