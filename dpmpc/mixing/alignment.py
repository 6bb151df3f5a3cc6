"""The same people in the same order at all parties, without anybody telling who they are.

Each party knows its subjects by an id. Under a fresh key K that all parties share and the public does not know, a
party sorts its rows by HMAC-SHA256(K, id). SHA-256 of the sorted hashes is equal at two parties just if their sets of
ids are.

Where it is not, the size of the difference is found by private set intersection cardinality (Meadows 1986; De
Cristofaro, Gasti and Tsudik 2012), semi-honest: ids become points of Curve25519, and two parties with secret scalars a
and b compare a b H(id), which neither can compute alone. Points travel sorted, so that their places say nothing.

What the other parties learn: of a digest, whether their set of ids is the same, which also confirms a guess of the
whole set; of the count, how many ids differ, and never which, under the decisional Diffie-Hellman assumption and with
SHA-256 as a random oracle. Not promised: anything against a party that hands in ids it has made up to see whether
another one has them.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from dpmpc.errors import InputError

HASH_BYTES = 32
_PRIME = 2**255 - 19
_MONTGOMERY = 486662


def keyed_hashes(key: bytes, ids: Sequence[str]) -> list[bytes]:
    """Return HMAC-SHA256(key, id) of each id, in UTF-8."""
    return [hmac.digest(key, name.encode(), "sha256") for name in ids]


def check_unique(ids: Sequence[str]) -> None:
    """Refuse ids that stand in more than one row; the error says in how many and never which."""
    repeated = len(ids) - len(set(ids))
    if repeated:
        raise InputError(
            f"key: {repeated} of {len(ids)} rows repeat the id of another row, one row for each id expected"
        )


def common_order(hashes: Sequence[bytes]) -> list[int]:
    """Return the positions of the rows in the order of their keyed hashes: the same people at all parties."""
    return sorted(range(len(hashes)), key=hashes.__getitem__)


def digest_of_set(hashes: Sequence[bytes]) -> bytes:
    """Return SHA-256 of the sorted hashes: 32 bytes that are equal just if the sets are."""
    return hashlib.sha256(b"".join(sorted(hashes))).digest()


def curve_point(hashed: bytes) -> bytes:
    """Map 32 bytes to the u coordinate of a point of Curve25519 whose discrete logarithm nobody knows.

    Of SHA-256(hashed || 0), SHA-256(hashed || 1), .. the first that belongs to the curve and not to its twist: which of
    the two it is would survive blinding.
    """
    attempt = 0
    while True:
        u = int.from_bytes(hashlib.sha256(hashed + attempt.to_bytes(8, "little")).digest(), "little") % (1 << 255)
        # v^2 = u^3 + A u^2 + u has a solution (RFC 7748, section 4.1).
        if pow(u * (u * u + _MONTGOMERY * u + 1), (_PRIME - 1) // 2, _PRIME) == 1:
            return u.to_bytes(HASH_BYTES, "little")
        attempt += 1


class Blinding:
    """A party's secret scalar, for one count: blindings of two parties commute."""

    def __init__(self) -> None:
        self._secret = X25519PrivateKey.generate()

    def blind(self, points: Sequence[bytes]) -> list[bytes]:
        """Return all points multiplied by the secret scalar, sorted.

        Raises
        ------
        ValueError
            If one of them, which then no honest party has sent, has a small order.
        """
        return sorted(self._secret.exchange(X25519PublicKey.from_public_bytes(point)) for point in points)


def pack(points: Sequence[bytes]) -> bytes:
    """Return points side by side."""
    return b"".join(points)


def unpack(packed: bytes) -> list[bytes]:
    """Return the points that `pack` put side by side."""
    return [packed[start : start + HASH_BYTES] for start in range(0, len(packed), HASH_BYTES)]
