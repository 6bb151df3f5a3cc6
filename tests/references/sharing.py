"""Slow reference of encoding and sharing: Python integers, exact fractions, AES one block at a time.

Run it to write vectors/encoding.json and vectors/sharing.json anew.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from fractions import Fraction
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

VECTORS = Path(__file__).parents[1] / "vectors"
MODULI = {"ring64": 1 << 64, "mersenne61": (1 << 61) - 1}


def word(key: bytes, index: int) -> int:
    """Word `index` of the key's AES-128 stream: half of the encryption of the big-endian block number."""
    encryptor = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()
    block = encryptor.update((index // 2).to_bytes(16, "big"))
    half = 8 * (index % 2)
    return int.from_bytes(block[half : half + 8], "little")


def redraw_key(key: bytes, index: int) -> bytes:
    """HKDF-SHA256 (RFC 5869), one block of output, no salt."""
    extracted = hmac.digest(bytes(32), key, hashlib.sha256)
    info = b"dpmpc v1 share redraw" + b"\0" + index.to_bytes(8, "little")
    return hmac.digest(extracted, info + b"\1", hashlib.sha256)[:16]


def element(key: bytes, index: int, modulus: int, word=word) -> int:
    """Element `index` that a key stands for."""
    if modulus == 1 << 64:
        return word(key, index)
    value = word(key, index) & modulus
    attempt = 0
    while value == modulus:
        value = word(redraw_key(key, index), attempt) & modulus
        attempt += 1
    return value


def keys_of(stream_key: bytes, count: int) -> list[bytes]:
    """The first 16-byte keys that a stream gives."""
    return [b"".join(word(stream_key, 2 * j + half).to_bytes(8, "little") for half in (0, 1)) for j in range(count)]


def additive_split(x: list[int], servers: int, modulus: int, stream_key: bytes) -> list[list[int]]:
    masks = [[element(key, e, modulus) for e in range(len(x))] for key in keys_of(stream_key, servers - 1)]
    return [*masks, [(value - sum(mask[e] for mask in masks)) % modulus for e, value in enumerate(x)]]


def shamir_split(x: list[int], servers: int, threshold: int, stream_key: bytes) -> list[list[int]]:
    p = MODULI["mersenne61"]
    keys = keys_of(stream_key, threshold)
    polynomials = [[value, *(element(key, e, p) for key in keys)] for e, value in enumerate(x)]
    return [
        [sum(c * point**j for j, c in enumerate(polynomial)) % p for polynomial in polynomials]
        for point in range(1, servers + 1)
    ]


def lagrange(points: dict[int, int], at: int) -> int:
    """Value at `at` of the polynomial through the points, modulo p."""
    p = MODULI["mersenne61"]
    total = 0
    for i, y in points.items():
        numerator = math.prod(at - j for j in points if j != i)
        denominator = math.prod(i - j for j in points if j != i)
        total += y * numerator * pow(denominator, -1, p)
    return total % p


def encode_box(z: float, bits: int, lower: float, upper: float) -> int:
    low, high = round(Fraction(lower) * 2**bits), round(Fraction(upper) * 2**bits)
    return min(max(round(Fraction(z) * 2**bits), low), high)


def encode_ball(z: list[float], bits: int, radius: float) -> list[int]:
    """Truncated in exact arithmetic: |q_j| = floor(sqrt(z_j^2 C_f^2 / ||z||^2)) outside the ball."""
    limit = math.floor(Fraction(radius) * 2**bits)
    scaled = [Fraction(v) * 2**bits for v in z]
    square = sum(v**2 for v in scaled)
    shrink = min(Fraction(1), limit**2 / square) if square else Fraction(1)
    return [int(math.copysign(math.isqrt(math.floor(v**2 * shrink)), v)) for v in scaled]


def encoding_vectors() -> dict:
    awkward = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.7, 1e-300, 5e-324, 1e300, -1e300, 1 + 2**-52]
    ties = [(k + 0.5) * 2.0**-16 for k in (-3, -2, -1, 0, 1, 2)]
    z = [*awkward, *ties]
    boxes = []
    limits = [(16, -1.0, 1.0), (0, -2.0, 2.0), (16, -0.3, 0.7), (50, -2.0, 2.0), (20, -math.sqrt(2), 1.0)]
    for bits, lower, upper in limits:
        q = [encode_box(v, bits, lower, upper) for v in z]
        case = {"fractional_bits": bits, "lower": lower.hex(), "upper": upper.hex()}
        boxes.append({**case, "z": [v.hex() for v in z], "q": q})
    balls = []
    vectors = [[0.0, 0.0], [3.0, 4.0], [-0.3, 0.1], [1e300, -1e299], [1e-300, 0.25], [0.6, -0.7, 0.8], [2.0] * 5]
    for bits, radius in [(16, 1.0), (8, 0.9), (16, 2.2)]:
        for vector in vectors:
            case = {"fractional_bits": bits, "radius": radius.hex(), "z": [v.hex() for v in vector]}
            balls.append({**case, "q": encode_ball(vector, bits, radius)})
    refused = [
        {"z": ["nan"], "lower": -1.0, "upper": 1.0, "message": "nan at index (0,), a finite number"},
        {"z": [0.0, "inf"], "lower": -1.0, "upper": 1.0, "message": "inf at index (1,), a finite number"},
        {"z": ["-inf"], "lower": -1.0, "upper": 1.0, "message": "-inf at index (0,)"},
        {"z": [0.0], "lower": 1.0, "upper": 1.0, "message": "lower < upper"},
        {"z": [0.0], "lower": 0.0, "upper": 1e-9, "message": "lower < upper"},
        {"z": [0.0], "lower": "nan", "upper": 1.0, "message": "lower: "},
        {"z": [0.0], "lower": -1.0, "upper": 1e300, "message": "upper: 1e+300"},
    ]
    return {"box": boxes, "ball": balls, "refused": refused}


def sharing_vectors() -> dict:
    p = MODULI["mersenne61"]
    secrets = {
        "ring64": [0, 1, (1 << 64) - 1, 1 << 63, 12345678901234567890],
        "mersenne61": [0, 1, p - 1, 1 << 60, 1234567890123456789],
    }
    keys = [bytes(16), bytes(range(16)), bytes.fromhex("000102030405060708090a0b0c0d0eff")]
    expansions = [
        {"key": key.hex(), "ring": ring, "first": first, "words": [element(key, e, m) for e in range(first, first + 5)]}
        for ring, m in MODULI.items()
        for key in keys
        for first in (0, 1, 1000003)
    ]
    additive = [
        {"ring": ring, "servers": M, "stream_key": key.hex(), "x": x, "shares": additive_split(x, M, MODULI[ring], key)}
        for ring, x in secrets.items()
        for M in (2, 3, 5)
        for key in keys[1:]
    ]
    x = secrets["mersenne61"]
    shamir = [
        {"servers": M, "threshold": t, "stream_key": key.hex(), "x": x, "shares": shamir_split(x, M, t, key)}
        for M, t in [(2, 1), (3, 1), (3, 2), (5, 2), (9, 4)]
        for key in keys[1:]
    ]
    field = {"ring": "mersenne61", "servers": 2}
    refused = [
        {"scheme": "additive", **field, "shares": [[0], [p]], "message": "shares[1]: element 0"},
        {"scheme": "additive", **field, "shares": [[0, (1 << 64) - 1], [0, 0]], "message": "shares[0]: element 1"},
        {"scheme": "additive", **field, "shares": [[1]], "message": "1 given, 2 expected"},
        {"scheme": "additive", **field, "shares": [[1], [2], [3]], "message": "3 given, 2 expected"},
        {"scheme": "additive", **field, "shares": [[1, 2], [3]], "message": "equal shapes"},
        {"scheme": "shamir", "servers": 3, "threshold": 1, "shares": [[1], [p], [1]], "message": "share of party 1"},
        {"scheme": "shamir", "servers": 3, "threshold": 1, "shares": [[1], [1, 1], [1]], "message": "equal shapes"},
        {"scheme": "shamir", "servers": 3, "threshold": 1, "shares": [[1], [1]], "message": "2 given, 3 shares"},
        {"scheme": "shamir", "servers": 3, "threshold": 1, "shares": [[1], [2], [4]], "message": "one polynomial"},
    ]
    return {"expand": expansions, "additive": additive, "shamir": shamir, "refused": refused}


if __name__ == "__main__":
    for name, content in (("encoding", encoding_vectors()), ("sharing", sharing_vectors())):
        (VECTORS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
