"""A server's share of the noise that servers have dealt for a manifest, kept until the release exists.

Servers deal noise once for a manifest (`dpmpc.collection.noise_dealing`), and each adds its share of it to its share of
the sums. A repetition goes on with the same noise: other noise at one server would be no share of the same sums. So
each server keeps its share in a file beside its ledger, durably, before it seals the manifest.

==============  ===========================================================
bytes           content
==============  ===========================================================
32              SHA-256(label || manifest's digest || the words)
8 x k x width   the words, 64 bits little-endian, row by row
==============  ===========================================================

Promised: `load` returns what was kept under this manifest, or raises; a bit that has changed on the disk is noticed.
Not promised: anything about what the words are. They are secret, as shares of
reports are: t + 1 of them are the noise.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Set
from pathlib import Path

import numpy as np

from dpmpc.encoding.ring import Words
from dpmpc.errors import SpoolError
from dpmpc.randomness import Label
from dpmpc.storage import write_private
from dpmpc.untrusted import ReadError, read_bytes

_DIGEST_BYTES = 32
_PREFIX = "noise-"


class NoiseShares:
    """The shares of dealt noise that one server keeps."""

    def __init__(self, folder: Path):
        self._folder = folder

    def keep(self, manifest_digest: bytes, share: Words) -> None:
        """Write a share durably, in place of any that was kept under the same manifest."""
        content = np.ascontiguousarray(share, "<u8").tobytes()
        path = self._path(manifest_digest)
        try:
            write_private(path, _checksum(manifest_digest, content) + content)
        except OSError as error:
            raise SpoolError(f"noise: {path} cannot be written: {error.strerror}") from error

    def load(self, manifest_digest: bytes, shape: tuple[int, ...]) -> Words:
        """Return the share that was kept under a manifest."""
        path, size = self._path(manifest_digest), _DIGEST_BYTES + 8 * math.prod(shape)
        try:
            content = read_bytes(path, largest=size)
        except (OSError, ReadError) as error:
            raise SpoolError(f"noise: {path} cannot be read: {error}; restore it, nothing replaces it") from error
        checksum, words = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if len(content) != size or checksum != _checksum(manifest_digest, words):
            raise SpoolError(f"noise: {path} is damaged; restore it, nothing replaces it")
        return np.frombuffer(words, "<u8").astype(np.uint64).reshape(shape)

    def forget_all_but(self, known: Set[bytes]) -> None:
        """Remove what is kept under other manifests than those that the ledger knows: nobody goes on with them."""
        for path in self._folder.glob(f"{_PREFIX}*"):
            if path.name.removeprefix(_PREFIX) not in {digest.hex() for digest in known}:
                self._remove(path)

    def forget(self, manifest_digest: bytes) -> None:
        """Remove what is kept under a manifest, if anything is: its release exists."""
        self._remove(self._path(manifest_digest))

    def _remove(self, path: Path) -> None:
        try:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        except OSError as error:
            raise SpoolError(f"noise: {path} cannot be removed: {error.strerror}") from error

    def _path(self, manifest_digest: bytes) -> Path:
        return self._folder / f"{_PREFIX}{manifest_digest.hex()}"


def _checksum(manifest_digest: bytes, content: bytes) -> bytes:
    return hashlib.sha256(Label.NOISE_SHARE.value + manifest_digest + content).digest()
