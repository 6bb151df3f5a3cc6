"""The only source of secrecy: keys from the operating system, expanded with AES in counter mode.

A `Stream` is the AES-128-CTR key stream of one 16-byte key, read as bytes or as little-endian 64-bit
words. It is a pseudorandom generator under the assumption that AES is a pseudorandom permutation. Keys come
from `secrets`; keys for sub-tasks are derived with HKDF-SHA256 under the labels of `Label`, all of which stand
in this file, so that no two uses can share a key stream.

A stream that was made from a number (`Stream.from_seed`) is marked ``simulation``. It exists so that tests and
experiments can be repeated; every function that protects real people refuses it (`require_secret`).

A process that forks copies its streams, and two copies would draw the same noise and the same shares. So a secret
stream is refused in every process but the one that made it.
"""

from __future__ import annotations

import enum
import functools
import os
import secrets
from typing import Any, Literal

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from dpmpc._kernels import keys as _kernel
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import InputError, SimulationOnly

KEY_BYTES = 16
SEED_BYTES = 32
BLOCK_BYTES = 16
_FROM_ZERO = modes.CTR(bytes(BLOCK_BYTES))
_WORD = np.dtype("<u8")
_CHECKED_KEYS = 5  # four schedules side by side, and one alone
_CHECKED_WORDS = 5, 13, 21  # half of the last block is needed: of four side by side, of eight, and of four after eight
_ZEROS = memoryview(bytes(1 << 18))  # encrypted at once: more would leave the cache


class Label(bytes, enum.Enum):
    """Domain separation: one label for every use of a key derivation."""

    SIMULATION = b"dpmpc v1 simulation seed"
    SKETCH = b"dpmpc v1 sketch"
    SKETCH_SEED = b"dpmpc v1 sketch seed"
    NOISE = b"dpmpc v1 noise"
    SHARE = b"dpmpc v1 share"
    SHARE_REDRAW = b"dpmpc v1 share redraw"
    SUBSTREAM = b"dpmpc v1 substream"
    SIGNATURE = b"dpmpc v1 signature"
    GAUSSIAN_PROJECTION = b"dpmpc v1 gaussian projection"
    RADEMACHER = b"dpmpc v1 rademacher"
    BERNOULLI_MIXING = b"dpmpc v1 bernoulli mixing"
    COIN = b"dpmpc v1 coin"
    TOSS = b"dpmpc v1 coin toss"
    ALIGNMENT = b"dpmpc v1 alignment"
    ALIGNED_SET = b"dpmpc v1 set of ids"
    EQUALITY = b"dpmpc v1 equality"
    EQUALITY_PROOF = b"dpmpc v1 equality proof"
    SIMULTANEOUS = b"dpmpc v1 simultaneous exchange"
    MIXING_TOSS = b"dpmpc v1 toss of a mixed release"
    COLLECTION = b"dpmpc v1 collection"
    SERIES = b"dpmpc v2 series"
    REPORT_SHARE = b"dpmpc v1 report share"
    REPORT_ID = b"dpmpc v2 report id"
    SEALED_RECORD = b"dpmpc v2 record"
    SEALED_WITHDRAWAL = b"dpmpc v2 withdrawal"
    ADDED_KEY = b"dpmpc v2 key"
    CLIENT_TOKEN = b"dpmpc v1 client token"
    BATCH = b"dpmpc v1 batch"
    BATCH_CHOICE = b"dpmpc v1 batch choice"
    MANIFEST = b"dpmpc v1 manifest"
    CERTIFICATE = b"dpmpc v1 release certificate"
    LEDGER = b"dpmpc v2 ledger"
    SPOOL = b"dpmpc v2 spool"
    KEPT = b"dpmpc v1 kept"
    QUERY_POINT = b"dpmpc v1 query point"
    ANSWER = b"dpmpc v1 answer about a proof"
    DEALING_SEED = b"dpmpc v1 dealing check seed"
    DEALING = b"dpmpc v1 dealing check"
    SESSION = b"dpmpc v1 session"
    ANNOUNCEMENT = b"dpmpc v1 announcement"
    TRANSCRIPT = b"dpmpc v1 transcript"
    PRODUCT_CHECK = b"dpmpc v1 product check"
    NOISE_DEALING = b"dpmpc v1 dealt noise"
    NOISE_DEALINGS = b"dpmpc v1 list of dealings"
    PROOF_PART = b"part"  # the last three are followed by a zero byte, which no other label has
    PROOF_SEED = b"seed"
    PROOF_TOSS = b"toss"


def derive(key: bytes, label: Label, index: int = 0, length: int = KEY_BYTES) -> bytes:
    """Derive `length` bytes for one labelled use: HKDF-SHA256, info = label || 0x00 || index (8 bytes LE)."""
    info = label.value + b"\0" + index.to_bytes(8, "little")
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=info).derive(key)


class Stream:
    """The AES-128-CTR key stream of a key, read sequentially or from any block.

    Parameters
    ----------
    key : bytes
        16 bytes. Anyone who knows them knows the whole stream.
    simulation : bool
        Whether the key came from a number that a user chose: such a stream keeps no secret.
    """

    def __init__(self, key: bytes, *, simulation: bool = False):
        if len(key) != KEY_BYTES:
            raise InputError("key", f"{len(key)} bytes", KEY_BYTES)
        self._key = bytes(key)
        self.simulation = simulation
        self._process = os.getpid()
        self._cipher = self._at_block(0)

    @classmethod
    def from_os(cls) -> Stream:
        """Draw a fresh key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_seed(cls, seed: int) -> Stream:
        """Make a repeatable stream for simulations and tests; it protects no one."""
        return cls(derive(seed_bytes(seed), Label.SIMULATION), simulation=True)

    def substream(self, index: int, label: Label = Label.SUBSTREAM) -> Stream:
        """Derive an independent stream: the same key, label and index always give the same stream."""
        self._refuse_copies()
        return Stream(derive(self._key, label, index), simulation=self.simulation)

    def bytes(self, count: int) -> bytes:
        """Read the next `count` bytes."""
        buffer = np.empty(count, np.uint8)
        self._fill(buffer.data)
        return buffer.tobytes()

    def words(self, count: int) -> Words:
        """Read the next ``8 * count`` bytes as `count` little-endian words, uniform on [0, 2^64)."""
        buffer = np.empty(count, "<u8")
        self.fill(buffer)
        return buffer.astype(np.uint64, copy=False)

    def fill(self, out: Words) -> None:
        """Overwrite a contiguous array of words with the next part of the stream; reusing `out` is the fast way."""
        if not out.flags.c_contiguous:
            raise InputError("out", "a C-contiguous array is expected")
        self._fill(out.data.cast("B") if out.size else memoryview(b""))

    def seek_block(self, block: int) -> None:
        """Move to byte ``16 * block`` of the key stream."""
        self._cipher = self._at_block(block)

    def _at_block(self, block: int) -> CipherContext:
        # The counter block is the 128-bit big-endian block number: nonce zero, because every key is used once.
        nonce = block.to_bytes(BLOCK_BYTES, "big")
        return Cipher(algorithms.AES128(self._key), modes.CTR(nonce)).encryptor()

    def _refuse_copies(self) -> None:
        if self._process != os.getpid() and not self.simulation:
            raise InputError(
                "stream",
                f"one of process {self._process} given to process {os.getpid()}, whose fork made a copy of "
                "it: its own stream expected, Stream.from_os()",
            )

    def _fill(self, view: memoryview) -> None:
        self._refuse_copies()
        for start in range(0, len(view), len(_ZEROS)):
            part = view[start : start + len(_ZEROS)]
            self._cipher.update_into(_ZEROS[: len(part)], part)


def fill_key_streams(keys: Bytes, out: Words) -> None:
    """Overwrite each row of `out` (n, words) with the AES-CTR key stream, from block 0, of a key of 16 or 32 bytes.

    As `Stream` does for one key, without what a stream costs: for many short ones. The processor's AES instructions do
    it where there are any (`aes_kernel`). Keys that lie side by side are not copied, and round keys are wiped.
    """
    if keys.ndim != 2 or keys.dtype != np.uint8 or keys.shape[1] not in (KEY_BYTES, SEED_BYTES):
        raise InputError("keys", f"{keys.dtype} of shape {keys.shape} given, uint8 (n, {KEY_BYTES} or {SEED_BYTES})")
    if out.ndim != 2 or out.dtype != _WORD or len(out) != len(keys) or not out.flags.c_contiguous:
        actual = f"{out.dtype} of shape {out.shape}"
        raise InputError("out", actual, f"C-contiguous little-endian words with {len(keys)} rows")
    if out.size:
        fill = _kernel.fill if aes_kernel() == "used" else fill_one_by_one
        fill(np.ascontiguousarray(keys), out.view(np.uint8))


@functools.cache
def aes_kernel() -> Literal["used", "missing", "wrong"]:
    """Return whether AES instructions are used for many keys: they are there, and give what OpenSSL gives."""
    if not _kernel.has_aes():
        return "missing"
    for length in (KEY_BYTES, SEED_BYTES):
        keys = np.arange(_CHECKED_KEYS * length, dtype=np.uint8).reshape(_CHECKED_KEYS, length)
        for words in _CHECKED_WORDS:
            computed, expected = (np.zeros((_CHECKED_KEYS, 8 * words), np.uint8) for _ in range(2))
            _kernel.fill(keys, computed)
            fill_one_by_one(keys, expected)
            if not np.array_equal(computed, expected):
                return "wrong"
    return "used"


def fill_one_by_one(keys: Bytes, out: NDArray[Any]) -> None:
    """Do what `fill_key_streams` does by OpenSSL, some 10 us for each key, without checks."""
    rows = out.view(np.uint8)
    zeros = bytes(rows.shape[1])
    for key, row in zip(keys, rows, strict=True):
        Cipher(algorithms.AES(key.data), _FROM_ZERO).encryptor().update_into(zeros, row.data)


def seed_bytes(seed: int | bytes) -> bytes:
    """Return a 32-byte seed: bytes unchanged, a number (simulations) as 32 little-endian bytes."""
    if isinstance(seed, bytes):
        if len(seed) != SEED_BYTES:
            raise InputError("seed", f"{len(seed)} bytes", f"{SEED_BYTES} bytes or an integer")
        return seed
    if isinstance(seed, (bool, float)) or not hasattr(seed, "__index__"):
        raise InputError("seed", f"{seed!r}", f"{SEED_BYTES} bytes or an integer")
    number = int(seed)
    if not 0 <= number < 1 << (8 * SEED_BYTES):
        raise InputError("seed", number, "an integer in [0, 2^256)")
    return number.to_bytes(SEED_BYTES, "little")


def stream_for(seed: int | None) -> Stream:
    """Return the operating system's stream, or a repeatable one where a simulation gave a seed."""
    return Stream.from_os() if seed is None else Stream.from_seed(seed)


def require_secret(stream: Stream, where: str) -> Stream:
    """Return `stream`, or refuse one that was made from a number."""
    if stream.simulation:
        raise SimulationOnly(where, "a seeded stream keeps no secret; use Stream.from_os()")
    return stream
