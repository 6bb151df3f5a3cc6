"""Seal to a public key by one of two suites: HPKE (RFC 9180, base mode, one message), with HKDF-SHA256 and AES-128-GCM.

===================  ==========================================  ===========  ===========
suite                key encapsulation                           public key   seal adds
===================  ==========================================  ===========  ===========
``x25519``           DHKEM(X25519, HKDF-SHA256), 0x0020          32 bytes     48 bytes
``x25519-mlkem768``  MLKEM768-X25519 ("X-Wing"), 0x647a          1216         1136
===================  ==========================================  ===========  ===========

Of the second both parts must be broken before what somebody recorded can be read: that of today's curves, and that
of ML-KEM (FIPS 203), which is made to withstand quantum computers. Its draft is no RFC yet. A private key is a seed of
32 bytes in both; the second expands it by SHAKE-256 into the 64 of ML-KEM and the 32 of X25519.

Promised: a public key that `require_public` lets pass is one that everybody can seal to. Not promised: that anybody has
its private key.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from dpmpc.base.errors import InputError

SuiteName = Literal["x25519", "x25519-mlkem768"]
SEED_BYTES = 32  # of a private key
_TAG_BYTES = 16
_LATTICE_PUBLIC, _LATTICE_ENC, _LATTICE_SEED = 1184, 1088, 64  # of ML-KEM-768
_MODULUS, _COEFFICIENTS = 3329, 1152  # the last takes the first bytes of its public key, 12 bits each
_CURVE_BYTES = 32
_SOMEBODY = X25519PrivateKey.from_private_bytes(bytes(31) + b"\x40")  # whose key is no secret: checks others' keys


class SealingSuite:
    """The suite whose keys are of X25519 alone."""

    name: SuiteName = "x25519"
    public_bytes = _CURVE_BYTES
    added_bytes = _CURVE_BYTES + _TAG_BYTES  # what sealing adds: the encapsulated key, and a tag

    def require_public(self, public: bytes) -> None:
        """Refuse with a `ValueError` what is no public key, or one with which all exchange the same."""
        _SOMEBODY.exchange(X25519PublicKey.from_public_bytes(public))  # no point of small order

    def private(self, seed: bytes) -> Any:
        """Return the private key of a seed."""
        return X25519PrivateKey.from_private_bytes(seed)

    def public(self, seed: bytes) -> bytes:
        """Return the public key of a seed."""
        return X25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()

    def seal(self, public: bytes, plain: bytes, info: bytes) -> bytes:
        """Return what only the private key opens, and only with the same context."""
        return bytes(self._hpke.encrypt(plain, self._loaded(public), info=info))

    def open(self, private: Any, sealed: bytes, info: bytes) -> bytes:
        """Return what was sealed, or raise `ValueError` or `cryptography.exceptions.InvalidTag`."""
        return bytes(self._hpke.decrypt(sealed, private, info=info))

    def _loaded(self, public: bytes) -> Any:
        return X25519PublicKey.from_public_bytes(public)

    @functools.cached_property
    def _hpke(self) -> Any:
        hpke = _library()
        return hpke.Suite(self._kem(hpke), hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)

    def _kem(self, hpke: Any) -> Any:
        return hpke.KEM.X25519


class HybridSuite(SealingSuite):
    """The suite whose keys are of ML-KEM-768 and of X25519, in this order."""

    name: SuiteName = "x25519-mlkem768"
    public_bytes = _LATTICE_PUBLIC + _CURVE_BYTES
    added_bytes = _LATTICE_ENC + _CURVE_BYTES + _TAG_BYTES

    def require_public(self, public: bytes) -> None:
        """Refuse with a `ValueError` what is no public key; of ML-KEM by FIPS 203, section 7.2, without its library."""
        if len(public) != self.public_bytes:
            raise ValueError(f"{len(public)} bytes")
        packed = int.from_bytes(public[:_COEFFICIENTS], "little")
        if any((packed >> place) & 0xFFF >= _MODULUS for place in range(0, 8 * _COEFFICIENTS, 12)):
            raise ValueError("a coefficient that is too large")
        super().require_public(public[_LATTICE_PUBLIC:])

    def private(self, seed: bytes) -> Any:
        """Return the private key of a seed."""
        lattice, curve = self._parts(seed)
        return _library().MLKEM768X25519PrivateKey(lattice, curve)

    def public(self, seed: bytes) -> bytes:
        """Return the public key of a seed."""
        lattice, curve = self._parts(seed)
        return bytes(lattice.public_key().public_bytes_raw()) + curve.public_key().public_bytes_raw()

    def _parts(self, seed: bytes) -> tuple[Any, X25519PrivateKey]:
        expanded = hashlib.shake_256(seed).digest(_LATTICE_SEED + _CURVE_BYTES)
        lattice = _lattice().MLKEM768PrivateKey.from_seed_bytes(expanded[:_LATTICE_SEED])
        return lattice, X25519PrivateKey.from_private_bytes(expanded[_LATTICE_SEED:])

    def _loaded(self, public: bytes) -> Any:
        lattice = _lattice().MLKEM768PublicKey.from_public_bytes(public[:_LATTICE_PUBLIC])
        return _library().MLKEM768X25519PublicKey(lattice, super()._loaded(public[_LATTICE_PUBLIC:]))

    def _kem(self, hpke: Any) -> Any:
        return hpke.KEM.MLKEM768_X25519


SUITES: dict[str, SealingSuite] = {suite.name: suite for suite in (SealingSuite(), HybridSuite())}


def _library() -> Any:
    """Return the library's HPKE; a release, which opens no report, does without it."""
    try:
        from cryptography.hazmat.primitives import hpke
    except ImportError as error:
        raise InputError("sealing needs cryptography 47: pip install '.[intake]' in dpmpc's source folder") from error
    return hpke


def _lattice() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import mlkem
    except ImportError as error:
        raise InputError("x25519-mlkem768 needs a newer cryptography: pip install --upgrade '.[intake]'") from error
    return mlkem
