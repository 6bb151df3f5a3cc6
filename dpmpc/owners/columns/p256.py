"""Compute in the group of the NIST curve P-256, as far as the comparison of sets of ids needs it.

Source: FIPS 186-5 for the curve; Renes, Costello and Batina, "Complete addition formulas for prime order elliptic
curves" (EUROCRYPT 2016), Algorithm 4, for the sum, which is right for all pairs of points, equal ones and 0 included.

Multiples of the generator are OpenSSL's. Promised of the others: the number and the order of the operations do not
depend on a scalar. Not promised: constant time, which Python's integers do not give. So each secret scalar that another
point than the generator is multiplied by is drawn for one comparison and used in no other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric import ec

from dpmpc.base.randomness import Stream

PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B

POINT_BYTES, SCALAR_BYTES = 33, 32
_WINDOW = 4

Point = tuple[int, int, int]  # X : Y : Z, with x = X/Z and y = Y/Z

ZERO: Point = (0, 1, 0)
GENERATOR: Point = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
    1,
)


def draw_scalar(stream: Stream) -> int:
    """Draw a number from 0 to ORDER - 1, uniform up to 2^-128."""
    return int.from_bytes(stream.bytes(SCALAR_BYTES + 16), "little") % ORDER


def add(p: Point, q: Point) -> Point:
    """Return p + q."""
    (x1, y1, z1), (x2, y2, z2) = p, q
    xx, yy, zz = x1 * x2 % PRIME, y1 * y2 % PRIME, z1 * z2 % PRIME
    xy = (x1 + y1) * (x2 + y2) - xx - yy
    yz = (y1 + z1) * (y2 + z2) - yy - zz
    xz = (x1 + z1) * (x2 + z2) - xx - zz
    m = 3 * (xz - _B * zz) % PRIME
    v = 3 * (xx - zz)
    w = 3 * (_B * xz - 3 * zz - xx) % PRIME
    return (
        (xy * (yy + m) - yz * w) % PRIME,
        ((yy + m) * (yy - m) + v * w) % PRIME,
        (yz * (yy - m) + xy * v) % PRIME,
    )


def negative(p: Point) -> Point:
    """Return -p."""
    return p[0], -p[1] % PRIME, p[2]


def combine(scalars: Sequence[int], points: Sequence[Point]) -> Point:
    """Return the sum of each scalar times its point; scalars from 0 to ORDER - 1."""
    terms = list(zip(scalars, points, strict=True))
    of_generator = [multiple_of_generator(scalar) for scalar, point in terms if point == GENERATOR]
    tables = [(scalar, _multiples(point)) for scalar, point in terms if point not in (GENERATOR, ZERO)]
    return functools.reduce(add, of_generator, _combine(tables) if tables else ZERO)


def multiple_of_generator(scalar: int) -> Point:
    """Return a scalar times the generator."""
    if scalar == 0:
        return ZERO
    numbers = ec.derive_private_key(scalar, ec.SECP256R1()).public_key().public_numbers()
    return numbers.x, numbers.y, 1


def _combine(tables: Sequence[tuple[int, list[Point]]]) -> Point:
    total = ZERO
    for shift in range(256 - _WINDOW, -1, -_WINDOW):
        for _ in range(_WINDOW):
            total = add(total, total)
        for scalar, table in tables:
            total = add(total, table[scalar >> shift & (1 << _WINDOW) - 1])
    return total


def encode(p: Point) -> bytes:
    """Return 33 bytes: SEC 1's compressed form; zeros for 0, which `decode` refuses."""
    if p[2] == 0:
        return bytes(POINT_BYTES)
    inverse = pow(p[2], -1, PRIME)
    x, y = p[0] * inverse % PRIME, p[1] * inverse % PRIME
    return bytes([2 + (y & 1)]) + x.to_bytes(SCALAR_BYTES, "big")


def decode(encoded: bytes) -> Point:
    """Return the point other than 0 that 33 bytes stand for."""
    x = int.from_bytes(encoded[1:], "big")
    square = (x**3 - 3 * x + _B) % PRIME
    y = pow(square, (PRIME + 1) // 4, PRIME)
    if len(encoded) != POINT_BYTES or encoded[0] not in (2, 3) or x >= PRIME or y * y % PRIME != square:
        raise ValueError(f"{encoded.hex()} given, a point of P-256 in 33 bytes expected")
    return x, (y if y & 1 == encoded[0] & 1 else PRIME - y), 1


def decode_scalar(encoded: bytes) -> int:
    """Return the number that 32 bytes stand for."""
    scalar = int.from_bytes(encoded, "big")
    if len(encoded) != SCALAR_BYTES or scalar >= ORDER:
        raise ValueError(f"{encoded.hex()} given, a number below the group's order in 32 bytes expected")
    return scalar


def encode_scalar(scalar: int) -> bytes:
    """Return a number below ORDER as 32 bytes."""
    return scalar.to_bytes(SCALAR_BYTES, "big")


def _multiples(p: Point) -> list[Point]:
    """Return 0, p, 2 p, .. of a window."""
    multiples = [ZERO]
    for _ in range((1 << _WINDOW) - 1):
        multiples.append(add(multiples[-1], p))
    return multiples
