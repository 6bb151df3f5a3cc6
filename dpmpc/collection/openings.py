"""What a server commits to before it opens anything: its salt, and everybody's commitments, kept for repetitions.

With additive shares the last server to open could choose the sums, if it may choose its share after it has seen all
others. So each server first announces SHA-256(label || server || manifest || salt || share). When all have heard the
same commitments and stored them, they send the shares with the salts.

A run may break after that, and be repeated. A server that broke it has seen the shares of the others, which send the
same bytes again; so nobody may commit to another share in a repetition. Each server therefore keeps the commitments of
a manifest in one file beside its ledger, before its share leaves: its own salt for good, and, with additive shares,
those of the other servers as it first stored them. With Shamir shares the latest ones count: the shares of honest
servers determine the sums.

Promised, with additive shares: what is opened under a manifest is fixed by what all servers that take part committed to
before the first share of it was sent, through crashes and repetitions, if SHA-256 hides and binds. Not promised: that a
server commits to the right share. It may add an offset that it chose blindly, without knowing anything of the others.
Nor that it opens: a server that has seen the other shares may keep its own back. It alone then has the release, until
it opens the very bytes that it has committed to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from dpmpc.encoding.ring import Words
from dpmpc.errors import AlreadyReleased, InconsistentShares, SpoolError
from dpmpc.randomness import Label, Stream
from dpmpc.storage import write_private
from dpmpc.untrusted import LARGEST_FILE, ReadError, read_bytes, read_json

SALT_BYTES = COMMITMENT_BYTES = 32

_Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file of one manifest; everything in it is hexadecimal."""

    format: Literal[1]
    salt: _Hex
    commitments: dict[str, _Hex]
    checksum: _Hex


def _checksum(manifest_digest: bytes, salt: str, commitments: Mapping[str, str]) -> str:
    """Return the SHA-256 of what is kept, so that a bit that changes on the disk is not taken for a lie."""
    told = "".join(f"{server}:{commitments[server]};" for server in sorted(commitments))
    return hashlib.sha256(manifest_digest + f"{salt};{told}".encode()).hexdigest()


def share_commitment(server: int, manifest_digest: bytes, salt: bytes, share: Words) -> bytes:
    """Return SHA-256(label || server, 4 bytes LE || manifest || salt || the words of the share, LE, row by row)."""
    digest = hashlib.sha256(Label.OPENING_COMMITMENT.value + server.to_bytes(4, "little") + manifest_digest + salt)
    digest.update(np.ascontiguousarray(share, "<u8").data)
    return digest.digest()


def require_committed(commitments: Mapping[int, bytes], opened: Mapping[int, bytes]) -> None:
    """Refuse shares that are not those committed to; `opened` holds the commitments recomputed from what was sent."""
    for server, digest in opened.items():
        if digest != commitments[server]:
            raise InconsistentShares(f"server {server} opened another share than it had committed to", server)


class Openings:
    """The commitments that one server keeps."""

    def __init__(self, folder: Path):
        self._folder = folder

    def prepare(self, manifest_digest: bytes, *, begun: bool) -> None:
        """Draw and store the salt of a manifest, unless that was done before."""
        if self._path(manifest_digest).exists():
            self._read(manifest_digest)  # damage is noticed before anything is bound
            return
        if begun:
            raise AlreadyReleased(
                f"manifest: {manifest_digest.hex()} was begun, but no commitments to its shares are kept beside the "
                "ledger: version 0.1 began it, which has none, or the file was removed. A release of version 0.1 is "
                "finished with version 0.1, by all servers"
            )
        self._write(manifest_digest, Stream.from_os().bytes(SALT_BYTES).hex(), {})

    def salt(self, manifest_digest: bytes) -> bytes:
        """Return this server's salt, the same one whenever it is asked."""
        return bytes.fromhex(self._read(manifest_digest).salt)

    def keep(self, manifest_digest: bytes, commitments: Mapping[int, bytes], *, final: bool = True) -> None:
        """Store everybody's commitments durably, or refuse those that differ from what was stored before."""
        kept = self._read(manifest_digest)
        given = {str(server): one.hex() for server, one in commitments.items()}
        for server, one in given.items():
            if final and kept.commitments.get(server, one) != one:
                raise InconsistentShares(
                    f"server {server} commits to another share of manifest {manifest_digest.hex()} than in an earlier "
                    "run, when it may have seen those of the others since",
                    int(server),
                )
        together = {**kept.commitments, **given}
        if together != kept.commitments:
            self._write(manifest_digest, kept.salt, together)

    def _path(self, manifest_digest: bytes) -> Path:
        return self._folder / f"commitments-{manifest_digest.hex()}.json"

    def _read(self, manifest_digest: bytes) -> _Kept:
        path = self._path(manifest_digest)
        try:
            kept = read_json(read_bytes(path), _Kept, largest=LARGEST_FILE)
            if kept.checksum != _checksum(manifest_digest, kept.salt, kept.commitments):
                raise ReadError("it is damaged")
        except (OSError, ReadError) as error:
            raise SpoolError(f"commitments: {path} cannot be used: {error}; restore it, nothing replaces it") from error
        return kept

    def _write(self, manifest_digest: bytes, salt: str, commitments: dict[str, str]) -> None:
        path = self._path(manifest_digest)
        kept = _Kept(1, salt, commitments, _checksum(manifest_digest, salt, commitments))
        try:
            write_private(path, msgspec.json.encode(kept))
        except OSError as error:
            raise SpoolError(f"commitments: {path} cannot be written: {error.strerror}") from error
