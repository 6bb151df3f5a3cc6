"""Hash many texts of one length at once: SHA-256, HMAC-SHA256 and HKDF-SHA256, a row of bytes for each.

Each row of a result is what `hashlib`, `hmac` and `cryptography` give for that row alone. The kernel,
``csrc/hashes.c``, hashes a text in each lane of a vector, and neither branches nor indexes memory by what it hashes. A
few texts are hashed by `hashlib`, which is quicker for them.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np

from dpmpc._kernels import keys as _kernel
from dpmpc.base.arrays import Bytes
from dpmpc.base.errors import InputError

DIGEST_BYTES = 32
_BLOCK_BYTES = 64
_FEW = 4  # texts that hashlib hashes sooner than the kernel does a vector of them
_INNER, _OUTER = 0x36, 0x5C  # RFC 2104


def sha256_of_rows(head: bytes, rows: Bytes) -> Bytes:
    """Return SHA-256(head || row), (n, 32), for each row of bytes (n, length)."""
    rows = np.ascontiguousarray(_require_rows("rows", rows))
    if len(rows) < _FEW or rows.shape[1] == 0:
        digests = b"".join(hashlib.sha256(head + row.tobytes()).digest() for row in rows)
        return np.frombuffer(digests, np.uint8).reshape(len(rows), DIGEST_BYTES)
    out = np.empty((len(rows), DIGEST_BYTES), np.uint8)
    _kernel.sha256(head, rows, out)
    return out


def hkdf_of_rows(keys: Bytes, salt: bytes, info: bytes, length: int) -> Bytes:
    """Return HKDF-SHA256 (RFC 5869), (n, length), of each row of keys (n, key bytes); at most 32 bytes each."""
    if not 1 <= length <= DIGEST_BYTES:
        raise InputError("length", length, f"1 to {DIGEST_BYTES}")
    if len(_require_rows("keys", keys)) < _FEW:
        few = b"".join(_hkdf(row.tobytes(), salt, info)[:length] for row in keys)
        return np.frombuffer(few, np.uint8).reshape(len(keys), length)
    padded = (hashlib.sha256(salt).digest() if len(salt) > _BLOCK_BYTES else salt).ljust(_BLOCK_BYTES, b"\0")
    # Extract: the salt is the key of an HMAC that all rows share.
    inner = sha256_of_rows(_masked(padded, _INNER), keys)
    extracted = sha256_of_rows(_masked(padded, _OUTER), inner)
    # Expand to one block: what was extracted is the key of each row's own HMAC.
    block = info + b"\1"
    text = np.empty((len(keys), _BLOCK_BYTES + max(len(block), DIGEST_BYTES)), np.uint8)
    text[:, :_BLOCK_BYTES] = _INNER
    text[:, :DIGEST_BYTES] ^= extracted
    text[:, _BLOCK_BYTES : _BLOCK_BYTES + len(block)] = np.frombuffer(block, np.uint8)
    inner = sha256_of_rows(b"", text[:, : _BLOCK_BYTES + len(block)])
    text[:, :_BLOCK_BYTES] ^= _INNER ^ _OUTER
    text[:, _BLOCK_BYTES : _BLOCK_BYTES + DIGEST_BYTES] = inner
    derived = sha256_of_rows(b"", text[:, : _BLOCK_BYTES + DIGEST_BYTES])
    extracted.fill(0)
    text.fill(0)
    return np.ascontiguousarray(derived[:, :length])


def _require_rows(name: str, rows: Bytes) -> Bytes:
    if rows.dtype != np.uint8 or rows.ndim != 2:
        raise InputError(name, f"{rows.dtype} of shape {rows.shape}", "uint8 with two axes")
    return rows


def _masked(key: bytes, mask: int) -> bytes:
    return bytes(byte ^ mask for byte in key)


def _hkdf(key: bytes, salt: bytes, info: bytes) -> bytes:
    """Return the first block of HKDF-SHA256."""
    return hmac.digest(hmac.digest(salt, key, "sha256"), info + b"\1", "sha256")
