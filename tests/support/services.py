"""The application of one server in this process, without its sockets and without the other servers."""

import contextlib

from dpmpc.collection.sealing import Opener
from dpmpc.collection.server_folder import open_spool
from dpmpc.collection.service import Service


class NoDoor:
    """Hands nothing on."""

    added = ()

    async def hand_on(self, reports):
        return [{} for _ in reports]

    async def withdraw(self, secrets, withdrawn, *, handing_on):
        pass


@contextlib.contextmanager
def service_in(folder, collection, server=0, *, seals=None, opener=None, **options):
    """Yield a service and its spool in the folder; without a `SealFolder` it opens no report."""
    opener = opener if seals is None else Opener(collection, server, seals)
    with open_spool(folder / "spool", collection, server, writer=True) as spool:
        yield Service(collection, server, spool, opener=opener, door=NoDoor(), **options), spool
