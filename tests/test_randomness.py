"""Key streams and key derivation, against the cryptography library used another way and published answers."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.base.errors import InputError, SimulationOnly
from dpmpc.base.randomness import Label, Stream, derive, require_secret, seed_bytes, stream_for
from support.rejections import rejects

KEY = bytes(range(16))
VECTORS = json.loads((Path(__file__).parent / "vectors" / "randomness.json").read_text())


def key_stream(key, count):
    return Cipher(algorithms.AES128(key), modes.CTR(bytes(16))).encryptor().update(bytes(count))


@given(st.integers(0, 200_000))
def test_bytes_are_the_aes_ctr_key_stream(count):
    assert Stream(KEY).bytes(count) == key_stream(KEY, count)


def test_words_are_little_endian():
    assert Stream(KEY).words(3).tolist() == np.frombuffer(key_stream(KEY, 24), "<u8").tolist()
    assert Stream(KEY).words(0).tolist() == []


@given(st.integers(0, 5000), st.integers(0, 500))
def test_any_block_can_be_reached(block, count):
    stream = Stream(KEY)
    stream.seek_block(block)
    assert stream.bytes(count) == key_stream(KEY, 16 * block + count)[16 * block :]


def test_fill_goes_on_where_the_last_read_ended():
    stream, out = Stream(KEY), np.empty((3, 5), np.uint64)
    stream.bytes(7)
    stream.fill(out)
    assert out.tobytes() == key_stream(KEY, 127)[7:]
    with rejects("out", given="a C-contiguous array is expected"):
        stream.fill(out.T)


@pytest.mark.parametrize("case", VECTORS["derive"], ids=lambda case: case["label"])
def test_derivation_vectors(case):
    derived = derive(bytes.fromhex(case["key"]), Label(case["label"].encode()), case["index"], case["length"])
    assert derived.hex() == case["derived"]


def test_labels_and_indices_separate():
    derived = {derive(KEY, label, index) for label in Label for index in range(3)}
    assert len(derived) == 3 * len(Label)
    streams = {Stream(KEY).substream(index, label).bytes(16) for label in Label for index in range(3)}
    assert len(streams) == 3 * len(Label)


def test_streams_from_the_operating_system_differ_and_are_secret():
    first, second = Stream.from_os(), stream_for(None)
    assert first.bytes(16) != second.bytes(16)
    assert require_secret(first, "test") is first


def in_a_fork(what):
    """Whether `what` raises no InputError in a child process that has copied this one's memory."""
    child = os.fork()
    if child == 0:
        try:
            what()
        except InputError:
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system whose processes do not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_secret_stream_is_refused_where_a_fork_has_copied_it():
    secret, simulated = Stream.from_os(), Stream.from_seed(1)
    assert not in_a_fork(lambda: secret.bytes(16))
    assert not in_a_fork(lambda: secret.substream(0))
    assert in_a_fork(lambda: Stream.from_os().bytes(16))
    assert in_a_fork(lambda: simulated.substream(0).bytes(16))
    assert len(secret.bytes(16)) == 16


def test_streams_from_a_seed_repeat_and_are_refused_as_secrets():
    stream = stream_for(5)
    assert stream.bytes(16) == Stream.from_seed(5).bytes(16) != Stream.from_seed(6).bytes(16)
    for simulated in (stream, stream.substream(1)):
        with rejects("here", SimulationOnly, given="a seeded stream keeps no secret; use Stream.from_os()"):
            require_secret(simulated, "here")


def test_seeds():
    assert seed_bytes(258) == b"\x02\x01" + bytes(30)
    assert seed_bytes(np.int64(1)) == b"\x01" + bytes(31)
    assert seed_bytes(bytes(32)) == bytes(32)
    for bad in (b"short", -1, 1 << 256, 1.0, True, "1", None):
        with rejects("seed"):
            seed_bytes(bad)
    for length in (0, 15, 17):
        with rejects("key", expected="16"):
            Stream(bytes(length))
