"""The application of one server in this process, without its sockets and without the other servers."""

import contextlib

from aiohttp.test_utils import TestClient, TestServer

from dpmpc.collect.intake.service import Service
from dpmpc.collect.store.server_folder import open_spool
from dpmpc.collect.upload.sealing import Opener


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


MONITORED = ("/healthz", "/metrics")


class Asking:
    """Requests to the application for clients; to the monitor for its paths, or with "monitor:" before a path."""

    def __init__(self, clients, monitor):
        self._clients, self._monitor = clients, monitor

    def request(self, method, path, **options):
        asked = self._monitor if path in MONITORED or path.startswith("monitor:") else self._clients
        return asked.request(method, path.removeprefix("monitor:"), **options)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)


@contextlib.asynccontextmanager
async def asking(service):
    """Yield what sends requests to a service without a proxy."""
    async with (
        TestClient(TestServer(service.clients(behind_proxy=False))) as clients,
        TestClient(TestServer(service.monitor())) as monitor,
    ):
        yield Asking(clients, monitor)
