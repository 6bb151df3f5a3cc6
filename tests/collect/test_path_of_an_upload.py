"""The forms that a report takes on its way from the body of a request to the store, and the modules that handle it.

Every local variable of every function of `dpmpc.collect` is compared with one report while a server takes it, as a
function returns: variables that hold the sealed report, or its id together with its payload. The form of a variable is
its type, with the types of what it holds.
"""

import asyncio
import dataclasses
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dpmpc.collect
from bench.system.collection_servers import Servers
from dpmpc.collect.store.report_store import Incoming
from dpmpc.collect.terms.endpoints import OWN_UPLOADS
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import make_reports
from dpmpc.collect.upload.sealing import SealedReports
from dpmpc.release.client import Client
from support.proved_collections import PROVED
from support.services import asking, service_in

COLLECT = Path(dpmpc.collect.__file__).parent
MOST_FORMS, MOST_MODULES = 9, 11


class Tracer:
    """Notes in which form each function of `dpmpc.collect` has held one report."""

    def __init__(self, sealed, record):
        self._sealed, self._id, self._payload = sealed, record[:ID_BYTES], record[ID_BYTES:]
        self.forms, self.modules = set(), set()

    def __call__(self, frame, event, arg):
        path = Path(frame.f_code.co_filename)
        if event != "return" or not path.is_relative_to(COLLECT):
            return
        for value in [*frame.f_locals.values(), arg]:
            if self._holds_report(value):
                self.forms.add(form(value))
                self.modules.add(path.relative_to(COLLECT).as_posix())

    def _holds_report(self, value):
        content = b"|".join(contents(value))
        return self._sealed in content or (self._id in content and self._payload in content)


def parts(value):
    """Return what a container, a record or an array holds; nothing of any other object."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, Incoming):
        return list(vars(value).values())
    return [getattr(value, each.name) for each in dataclasses.fields(value)] if is_record(value) else []


def is_record(value):
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def contents(value):
    if isinstance(value, bytes):
        return [value]
    if isinstance(value, np.ndarray):
        return [value.tobytes()]
    return [content for part in parts(value) for content in contents(part)]


def form(value):
    """Return the type of a variable and the types that it holds, each once."""
    held = {form(part) for part in parts(value) if contents(part)}
    return type(value).__name__ + (f"[{', '.join(sorted(held))}]" if held else "")


@pytest.mark.parametrize("proved", [False, True], ids=["plain", "proved"])
def test_a_report_takes_few_forms_in_few_modules(tmp_path, proved):
    servers = Servers.make(tmp_path, **(PROVED if proved else {}))
    collection = servers.collection
    records = make_reports(
        Client(collection.plan.verify()), collection, np.full((2, 3), 5.0), [b"first, 16 bytes.", b"second, 16 bytes"]
    )
    sealed = list(map(SealedReports(collection).seal, zip(*records, strict=True)))
    last = len(collection.servers) - 1
    tracer = Tracer(sealed[0], records[last][0])

    async def upload():
        with service_in(tmp_path, collection, last, seals=servers.server_folder(last).seals) as (service, spool):
            try:
                async with asking(service) as client:
                    path = OWN_UPLOADS.format(digest=collection.digest.hex())
                    async with client.post(path, data=b"".join(sealed)) as response:
                        return response.status, len(spool)
            finally:
                await service.close()

    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        assert asyncio.run(upload()) == (200, 2)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert 5 <= len(tracer.forms) <= MOST_FORMS, sorted(tracer.forms)
    assert len(tracer.modules) <= MOST_MODULES, sorted(tracer.modules)
