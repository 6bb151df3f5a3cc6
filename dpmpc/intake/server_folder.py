"""Where a server of a collection keeps what it has: one folder for its owner alone, whose parts are named here.

======================  ===============================================================
``identity/``           party.crt and party.key, as `dpmpc identity` writes them
``spool/``              the shares of the reports
``ledger/``             what this server has ever opened; better on another disk
``roster``              who may contribute, where the collection asks for that
======================  ===============================================================
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from dpmpc.errors import InputError
from dpmpc.files import require_private
from dpmpc.intake.collection import Collection
from dpmpc.intake.spool import Spool
from dpmpc.network.identity import CERTIFICATE_FILE, KEY_FILE, same_certificate


@dataclasses.dataclass(frozen=True)
class ServerFolder:
    """The folder of one server.

    Parameters
    ----------
    path : Path
        Must exist; mode 0700.
    """

    path: Path

    def __post_init__(self) -> None:
        if not self.path.is_dir():
            raise InputError(f"folder: {self.path} given, a directory with identity/{KEY_FILE} expected")
        require_private("folder", self.path)

    @property
    def identity(self) -> Path:
        """Folder of the key and the certificate."""
        return self.path / "identity"

    @property
    def spool(self) -> Path:
        """Folder of the shares."""
        return self.path / "spool"

    @property
    def ledger(self) -> Path:
        """Folder of what was opened."""
        return self.path / "ledger"

    @property
    def roster(self) -> Path:
        """File of who may contribute."""
        return self.path / "roster"

    def require_server(self, collection: Collection, server: int) -> None:
        """Refuse a folder whose certificate is not the one that the collection pins for this server."""
        if not 0 <= server < len(collection.servers):
            raise InputError(f"server: {server} given, 0 to {len(collection.servers) - 1} expected by the collection")
        path = self.identity / CERTIFICATE_FILE
        try:
            own = path.read_bytes()
        except OSError as error:
            raise InputError(f"folder: {path} cannot be read: {error.strerror}") from error
        if not same_certificate(own, collection.servers[server].certificate.encode()):
            raise InputError(f"folder: {path} is not the certificate that the collection gives server {server}")

    def open_spool(self, collection: Collection, server: int, *, writer: bool) -> Spool:
        """Open the shares, which must be of this collection and server."""
        ring = collection.plan.encoding.ring
        return Spool(self.spool, collection.digest, server, collection.record_shape, ring, writer=writer)
