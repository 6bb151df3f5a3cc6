"""Keep the private keys that one server's reports are sealed to, and what it has published of them.

======================  ================================================================================
``NAME.key``            the seed of a private key (`sealing_suites`), mode 0600
``NAME.pub``            its public key, for whoever writes the task file
``NAME.collection``     the digest of the one collection that the key is for, once a server has used it
``added-DIGEST.json``   keys that the server has added to a collection since, with signatures (`added_keys`)
======================  ================================================================================

Promised: a key is used for one collection; `delete` leaves none of those of a collection, whatever else is in the
folder. Not promised: that a file that was overwritten is gone from every disk; some write elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.base.storage.files import require_private, sync, write_private
from dpmpc.base.untrusted import ReadError, read_bytes
from dpmpc.collect.terms.sealing_suites import SEED_BYTES, SUITES, SuiteName
from dpmpc.collect.terms.server_entries import SealKey
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.added_keys import AddedKey, KeyList, add_key, read_added

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LARGEST_KEY = 1 << 13  # bytes of a file
_LARGEST_LIST = 1 << 20


class _Private(NamedTuple):
    """What a file holds."""

    path: Path
    suite: SuiteName
    seed: bytes

    @property
    def public(self) -> str:
        return SUITES[self.suite].public(self.seed).hex()


class SealFolder:
    """The private folder of the keys of one server."""

    def __init__(self, folder: Path):
        self.folder = folder

    def draw(self, name: str, suite: SuiteName = "x25519") -> str:
        """Make a pair of keys for one collection; return what is in its public file."""
        if _NAME.fullmatch(name) is None:
            raise InputError("seal", f"{name!r} given, letters, digits, '.', '-' and '_' expected, no more than 100")
        try:
            with contextlib.suppress(FileExistsError):
                self.folder.mkdir(mode=0o700)
            require_private("seal", self.folder)
        except OSError as error:
            raise InputError("seal", f"{self.folder} cannot be made or used: {error.strerror}") from error
        key, public_file = self.folder / f"{name}.key", self.folder / f"{name}.pub"
        for path in (key, public_file):
            if path.exists():
                raise InputError("seal", f"{path} is there already; each collection has its own keys: another name")
        private = _Private(key, suite, Stream.from_os().bytes(SEED_BYTES))
        public = f"{suite} {private.public}\n"
        write_private(key, f"{suite} {private.seed.hex()}\n".encode())
        try:
            write_private(public_file, public.encode())
        except BaseException:
            key.unlink()
            raise
        return public

    def add(self, collection: Collection, server: int, identity: Path) -> AddedKey:
        """Make one more key for a collection that has begun, which the server's identity signs."""
        known = self.added(collection, server)
        number = len(collection.servers[server].keys) + len(known)
        name = f"{collection.digest.hex()[:16]}-{number}"
        _, public = self.draw(name, collection.servers[server].suite).split()
        try:
            added = add_key(collection, server, number, public, identity)
            write_private(self._list_of(collection), KeyList((*known, added)).encoded())
        except BaseException:
            for kind in ("key", "pub"):
                (self.folder / f"{name}.{kind}").unlink()
            raise
        return added

    def added(self, collection: Collection, server: int) -> tuple[AddedKey, ...]:
        """Return the keys that were added to a collection, in the order of their numbers."""
        path = self._list_of(collection)
        try:
            content = read_bytes(path, largest=_LARGEST_LIST)
        except FileNotFoundError:
            return ()
        except (OSError, ReadError) as error:
            raise InputError("seal", f"{path} cannot be read: {error}") from error
        try:
            return read_added(content, collection, server)
        except ReadError as error:
            raise InputError("seal", path, "keys that this server has signed", error) from None

    def bind(self, collection: Collection, server: int) -> None:
        """Give the keys of a server to this collection; refuse those that another one has."""
        publics = {key.public for key in collection.servers[server].keys}
        for private in self._pairs():
            if private.public not in publics:
                continue
            mark = private.path.with_suffix(".collection")
            if not mark.exists():
                write_private(mark, f"{collection.digest.hex()}\n".encode())
            other = read_bytes(mark, largest=_LARGEST_KEY).decode("ascii", "replace").strip()
            if other != collection.digest.hex():
                raise InputError(
                    "seal",
                    f"{private.path} is the key of collection {other[:16]}... and named by collection "
                    f"{collection.digest.hex()[:16]}..., too: the first release would delete it; a key for "
                    "each collection expected",
                )

    def private(self, keys: Sequence[SealKey]) -> dict[int, object]:
        """Return the private keys to public ones, by number; those that are not here are left out."""
        numbers = {key.public: key.number for key in keys}
        return {
            numbers[found.public]: SUITES[found.suite].private(found.seed)
            for found in self._pairs()
            if found.public in numbers
        }

    def delete(self, collection: Collection, server: int) -> list[Path]:
        """Overwrite and delete the private keys of a collection; return which files these were.

        Whatever else lies in the folder keeps none of them: neither a file that holds no key, nor a mode.
        """
        unread: list[InputError] = []
        publics, deleted = {key.public for key in collection.servers[server].keys}, []
        added = f"{collection.digest.hex()[:16]}-"  # by name, too: a list that is damaged keeps no key
        for path in sorted(self.folder.glob("*.key")):
            try:
                private = _key_in(path, private=True)
            except InputError as error:
                unread.append(error)
                continue
            own = private is not None and _Private(path, *private).public in publics
            if own or path.name.startswith(added):
                with path.open("r+b") as file:
                    file.write(bytes(path.stat().st_size))
                    file.flush()
                    os.fsync(file.fileno())
                path.unlink()
                deleted.append(path)
        if deleted:
            sync(self.folder)
        if unread:
            raise unread[0]
        return deleted

    def _list_of(self, collection: Collection) -> Path:
        return self.folder / f"added-{collection.digest.hex()[:16]}.json"

    def _pairs(self) -> Iterator[_Private]:
        for path in sorted(self.folder.glob("*.key")):
            require_private("seal", path)
            yield _Private(path, *_read_key(path, private=True))


def read_public(path: str | os.PathLike[str]) -> SealKey:
    """Read a public file of `SealFolder.draw`, as key 0 of its server."""
    suite, public = _read_key(path, private=False)
    return SealKey(0, suite, public.hex())


def _read_key(path: str | os.PathLike[str], *, private: bool) -> tuple[SuiteName, bytes]:
    """Read the key in a file, public or private; what it states is in no error."""
    key = _key_in(path, private=private)
    if key is None:
        raise InputError(
            "seal", path, f"a file with {' or '.join(map(repr, SUITES))} and a key of it in hexadecimal digits"
        )
    return key


def _key_in(path: str | os.PathLike[str], *, private: bool) -> tuple[SuiteName, bytes] | None:
    """Return the suite and the key in a file, or None if it holds none."""
    try:
        name, text = read_bytes(path, largest=_LARGEST_KEY).decode("ascii").split()
        key, suite = bytes.fromhex(text), SUITES[name]
    except OSError as error:
        raise InputError("seal", f"{path} cannot be read: {error.strerror}") from error
    except (ReadError, ValueError, KeyError):
        return None
    return (suite.name, key) if len(key) == (SEED_BYTES if private else suite.public_bytes) else None
