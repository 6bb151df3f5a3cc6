"""What a server commits to before it opens anything, and its share of dealt noise: kept for repetitions of a run.

With additive shares the last server to open could choose the sums, if it may choose its share after it has seen all
others. So the servers reveal them (`dpmpc.parties.network.conversation`): when all have received the same commitments
and stored them, they send the shares, with the salts.

A run may break after that, and be repeated. A server that broke it has seen the shares of the others, which send the
same bytes again; so no server may commit to another share in a repetition. Each server therefore keeps (`Openings`), in
one file next to its ledger and before its share leaves, its own salt for good, and every server's commitments: with
additive shares those that it first stored; with Shamir shares the latest ones, because the shares of honest servers
determine the sums.

Servers that deal noise do so once for a manifest (`dpmpc.collect.opening.noise_dealing`), and each adds its share of it
to its share of the sums. A repetition goes on with the same noise: other noise at one server would be no share of the
same sums. So each keeps its share in the same file before it seals the manifest, and forgets it once the release
exists. It is secret, as shares of reports are: t + 1 of them are the noise.

Promised, with additive shares: what is opened under a manifest is fixed by what all servers that take part committed to
before the first share of it was sent, through crashes and repetitions, if SHA-256 hides and binds. What is returned is
what was kept under this manifest (`dpmpc.base.storage.kept`): a bit that has changed on the disk is noticed. The file
is apart from the ledger, so that a ledger which is emptied or put back alone is noticed by it. Not promised: that a
server commits to the right share. It may add an offset that it chose blindly, without knowing anything of the others.
Nor that it opens: a server that has seen the other shares may keep its own back. It alone then has the release, until
it opens the very bytes that it has committed to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from dpmpc.base.arrays import Words
from dpmpc.base.errors import AlreadyReleased, InconsistentShares
from dpmpc.base.randomness import Stream
from dpmpc.base.storage.database import connect, typed_errors
from dpmpc.base.storage.kept import Kept, as_bytes

OPENINGS_FILE = "openings.sqlite"
SALT_BYTES = 32


class Openings:
    """What one server keeps of manifests, in the folder of its ledger."""

    def __init__(self, folder: Path):
        self._path = folder / OPENINGS_FILE

    def salt(self, manifest_digest: bytes, *, begun: bool) -> bytes:
        """Return this server's salt of a manifest, always the same one; `begun` states that the ledger has bound it."""
        name = f"salt of manifest {manifest_digest.hex()}"
        if begun and not (self._path.exists() and self._has(name)):
            raise AlreadyReleased(
                "manifest",
                f"{manifest_digest.hex()} was begun, and {self._path.name} was removed since: no "
                "commitments to its shares are kept next to the ledger",
            )
        with self._open() as kept:
            return kept.once(name, lambda: Stream.from_os().bytes(SALT_BYTES))

    def keep(self, manifest_digest: bytes, commitments: Mapping[int, bytes], *, final: bool = True) -> None:
        """Store every server's commitments durably, or refuse those that differ from what was stored before."""
        what = f"share of manifest {manifest_digest.hex()}"
        with self._open() as kept:
            kept.first(what, commitments, party="server", final=final, error=InconsistentShares)

    def keep_noise(self, collection: bytes, manifest_digest: bytes, share: Words) -> None:
        """Store a share of dealt noise durably, instead of any that was kept under the same manifest."""
        with self._open() as kept:
            kept.put({_noise(collection, manifest_digest): as_bytes(share)})

    def noise(self, collection: bytes, manifest_digest: bytes, shape: tuple[int, ...]) -> Words:
        """Return the share of dealt noise that was kept under a manifest."""
        with self._open() as kept:
            return kept.words(_noise(collection, manifest_digest), shape)

    def forget_noise_but_of(self, collection: bytes, known: Set[bytes]) -> None:
        """Forget the noise of a collection's manifests but these, which the ledger holds: nobody goes on with the rest.

        Other collections may share the ledger, and one of them may be about to seal a manifest whose noise it has kept.
        """
        with self._open() as kept:
            known_names = {_noise(collection, digest) for digest in known}
            every = _noise(collection, b"")
            kept.forget(name for name in kept.names() if name.startswith(every) and name not in known_names)

    def forget_noise(self, collection: bytes, manifest_digest: bytes) -> None:
        """Forget the share of noise that is kept under a manifest, if one is: its release exists."""
        with self._open() as kept:
            kept.forget([_noise(collection, manifest_digest)])

    def _has(self, name: str) -> bool:
        with self._open() as kept:
            return kept.get(name) is not None

    @contextlib.contextmanager
    def _open(self) -> Iterator[Kept]:
        with typed_errors(self._path):
            database = connect(self._path, create=True, journal="DELETE")
            database.execute("PRAGMA secure_delete = ON")  # noise that is forgotten leaves the file too
        with Kept(database, self._path) as kept:
            yield kept


def _noise(collection: bytes, manifest_digest: bytes) -> str:
    return f"noise of collection {collection.hex()}, manifest {manifest_digest.hex()}"
