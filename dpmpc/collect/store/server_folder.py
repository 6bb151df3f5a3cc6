"""Name and check the parts of a server's private folder.

======================  ===============================================================
``identity/``           party.crt and party.key, as `dpmpc identity` writes them
``spool/``              the shares of the reports, unless there is a file ``store``
``store``               address of the PostgreSQL database that has them, as `dpmpc serve --store` writes it
``seals/``              private keys that reports are sealed to, as `dpmpc identity --seal` writes them
``ledger/``             what this server has ever opened, and what was withdrawn; preferably on another disk
``roster``              who may contribute, where the collection requires that
``releases/``           the release files that this server hands out, and their pages, by digests of collections
``release.lock``        locked by the process that takes part in a release
``refused-DIGEST.csv``  which reports of a collection were refused because of their proofs, and why
======================  ===============================================================
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from dpmpc.base.arguments import require_whole
from dpmpc.base.errors import InputError, VerificationFailed
from dpmpc.base.storage.database import private_folder
from dpmpc.base.storage.files import require_private, write_private
from dpmpc.base.untrusted import ReadError, printable, read_bytes
from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.store.openings import Openings
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.sqlite_database import SPOOL_FILE, SqliteDatabase
from dpmpc.collect.store.state import state_of
from dpmpc.collect.store.store_description import ReportDatabase, StoreDescription
from dpmpc.collect.store.stored_reports import StoreLocation
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.added_keys import AddedKey
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.collect.upload.seal_folder import SealFolder
from dpmpc.parties.network.identity import CERTIFICATE_FILE, KEY_FILE, same_certificate

STORE_FILE = "store"
LEDGER = "ledger"
_TRIES, _TRY_SECONDS = 20, 0.05  # to lock a folder for a release


def refused_file(folder: Path, collection: Collection) -> Path:
    """Return the file of a server's folder that lists whose proofs failed, for its operator: lines of id and cause.

    With a roster, the file of tickets states which client an id belongs to.
    """
    return folder / f"refused-{collection.digest.hex()[:16]}.csv"


def open_spool(folder: Path, collection: Collection, server: int, *, writer: bool) -> ReportStore:
    """Open the spool of a collection and a server, which keeps payloads as they were sent; the ledger is next to it."""
    ledger = folder.parent / LEDGER
    return ReportStore(
        SqliteDatabase(folder, create=writer), **_description(collection, server), ledger=ledger, writer=writer
    )


def _description(collection: Collection, server: int) -> dict[str, Any]:
    """Return what a store is given to describe what it keeps."""
    form = ReportFormat(collection, server)
    return {
        "digest": collection.digest,
        "server": server,
        "shape": form.stored_shape,
        "ring": form.stored_ring,
        "keys": form.keeps_keys,
        "most_stored": collection.most_stored,
    }


def _locked(file: IO[str]) -> bool:
    """Lock a file, unless another process has; the system unlocks it when it is closed, or its process dies."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclasses.dataclass(frozen=True)
class ServerFolder:
    """The folder of one server."""

    path: Path  # must exist; mode 0700

    def __post_init__(self) -> None:
        if not self.path.is_dir():
            raise InputError("folder", self.path, f"a directory with identity/{KEY_FILE}")
        require_private("folder", self.path)

    @property
    def identity(self) -> Path:
        """Folder of the key and the certificate."""
        return self.path / "identity"

    @property
    def seals(self) -> SealFolder:
        """Folder of the keys that reports are sealed to."""
        return SealFolder(self.path / "seals")

    @property
    def spool(self) -> Path:
        """Folder of the shares."""
        return self.path / "spool"

    @property
    def ledger(self) -> Path:
        """Folder of what was opened."""
        return self.path / LEDGER

    @property
    def roster(self) -> Path:
        """File of who may contribute."""
        return self.path / "roster"

    def released(self, collection: Collection) -> Path:
        """Return the file of a collection's release, which is public."""
        return self.path / "releases" / f"{collection.digest.hex()}.dpmpc"

    def require_server(self, collection: Collection, server: int) -> None:
        """Refuse a folder whose certificate is not the one that the collection pins for this server."""
        require_whole("server", server, 0, len(collection.servers) - 1)
        if not same_certificate(self._certificate(), collection.servers[server].certificate.encode()):
            path = self.identity / CERTIFICATE_FILE
            raise InputError("folder", f"{path} is not the certificate that the collection gives server {server}")

    def _certificate(self) -> bytes:
        path = self.identity / CERTIFICATE_FILE
        try:
            return read_bytes(path)
        except (OSError, ReadError) as error:
            raise InputError("folder", f"{path} cannot be read: {error}") from error

    def add_key(self, collection: Collection) -> AddedKey:
        """Add one more key that clients seal to, for the server of the collection that this folder is of."""
        own = self._certificate()
        numbers = [j for j, entry in enumerate(collection.servers) if same_certificate(own, entry.certificate.encode())]
        if not numbers:
            raise InputError(
                "folder", f"{self.identity} is of no server of collection {collection.digest.hex()[:16]}..."
            )
        (number,) = numbers
        closing = None
        if self.store is not None or (self.spool / SPOOL_FILE).exists():  # a release may have closed it before its time
            with self.open_spool(collection, number, writer=False) as spool:
                closing = spool.closing
        if state_of(collection, datetime.datetime.now(datetime.UTC), closing).state not in ("not open yet", "open"):
            raise InputError("reseal", "a collection given that is closed: no client seals to it any more")
        return self.seals.add(collection, number, self.identity)

    @contextlib.contextmanager
    def releasing(self, server: int) -> Iterator[None]:
        """Hold the lock that lets one process at a time take part in a release for this folder."""
        with self._release_lock() as file:
            for _ in range(_TRIES):
                if _locked(file):
                    break
                time.sleep(_TRY_SECONDS)  # a server that looks whether the lock is free holds it for a moment
            else:
                raise InputError(
                    "folder",
                    f"{self.path} is in use by another `dpmpc release` of server {server} (process "
                    f"{printable(file.read(20).strip()) or 'unknown'}): wait for it, or end it first",
                )
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def take_back_left_announcement(self, spool: ReportStore) -> bool:
        """Take back an announcement that no process holds any more; return whether there was one to take back.

        A release that was killed has left it, and withdrawals would be refused for ever. While a release runs it holds
        the lock of this folder; what it has sealed stays announced in any case.
        """
        if not spool.announced:
            return False
        with self._release_lock() as file:
            if not _locked(file):
                return False
            spool.take_back_announcement()
            return not spool.announced

    def finish_left_release(self, collection: Collection) -> bool:
        """Record in the ledger a release that a killed process had written; return whether there was one to record.

        While a process takes part in a release it holds the lock of this folder, and records the release itself.
        """
        with self._release_lock() as file:
            if _locked(file):
                with self.open_ledger() as ledger:  # a connection of its own: the one that serves notices the change
                    return self.finish_written_release(collection, ledger)
        return False

    def finish_written_release(self, collection: Collection, ledger: ReleaseLedger) -> bool:
        """Do what `finish_left_release` does, in the process that holds the lock.

        A server writes the release file when all servers that take part have signed it, and records that afterwards
        (`dpmpc.collect.opening.releasing.ReleasingServer`). If it dies in between, the ledger still states that the
        release is opening. The file proves that it is opened if it verifies, signatures included, and holds the
        manifest that the ledger has bound.
        """
        path = self.released(collection)
        if not path.exists():
            return False
        entry = ledger.latest(collection.digest)
        if entry is None or entry.state is not State.OPENING:
            return False
        try:
            manifest = verify(path, collection).certificate.statement.manifest
        except VerificationFailed:  # of a damaged file: a repetition of the release replaces it
            return False
        if manifest.digest != entry.manifest_digest:
            return False
        Openings(self.ledger).forget_noise(collection.digest, manifest.digest)
        ledger.finish(manifest.digest)
        return True

    def _release_lock(self) -> IO[str]:
        return os.fdopen(os.open(self.path / "release.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+")

    def open_ledger(self) -> ReleaseLedger:
        """Open the record of what this server has ever opened."""
        return ReleaseLedger(self.ledger)

    @property
    def store(self) -> str | None:
        """Address of the database that has the shares; None if they are in the spool."""
        try:
            return read_bytes(self.path / STORE_FILE).decode().strip()
        except FileNotFoundError:
            return None
        except (OSError, ReadError, UnicodeDecodeError) as error:
            raise InputError("folder", f"{self.path / STORE_FILE} cannot be read: {error}") from error

    def use_store(self, address: str) -> None:
        """Have the database of an address take the shares, for good: every command finds it in this folder."""
        from dpmpc.collect.store.postgres_database import require_address  # needs an extra of the package

        require_address(address)
        if self.store not in (None, address):
            raise InputError("store", f"{address} given, {self.store} expected, as {self.path / STORE_FILE} says")
        if (self.spool / SPOOL_FILE).exists():
            raise InputError(
                "store",
                f"{address} given for a folder whose reports are in {self.spool}, none expected: finish "
                "this collection without a database",
            )
        private_folder(self.spool)  # for the outbox
        if self.store is None:
            write_private(self.path / STORE_FILE, f"{address}\n".encode())

    def location(self, collection: Collection, server: int) -> StoreLocation:
        """Return where other processes of the server find the shares."""
        parameters = _description(collection, server)
        return StoreLocation(
            functools.partial(self._database(), create=False), StoreDescription.of(**parameters), parameters["ring"]
        )

    def _database(self) -> Callable[..., ReportDatabase]:
        """Return what opens the database of the shares; ``create`` states whether it is made."""
        if self.store is None:
            return functools.partial(SqliteDatabase, self.spool.absolute())
        from dpmpc.collect.store.postgres_database import PostgresDatabase  # needs an extra of the package

        return functools.partial(PostgresDatabase, self.store)

    def open_spool(self, collection: Collection, server: int, *, writer: bool, workers: int = 1) -> ReportStore:
        """Open the shares, which must be of this collection and server."""
        database = self._database()(create=writer)
        return ReportStore(
            database, **_description(collection, server), ledger=self.ledger, writer=writer, workers=workers
        )
