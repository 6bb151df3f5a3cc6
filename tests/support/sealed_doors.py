"""Reports of format 2, sealed by a client that sends them to a door."""

import asyncio
import json

import aiohttp
import numpy as np

from dpmpc.client import Client
from dpmpc.collection.reports import make_reports
from dpmpc.collection.sealing import SECRET_BYTES, SealedReports, report_id
from dpmpc.randomness import Stream

ROWS = np.random.default_rng(11).uniform(0, 10, (30, 3))
PROVED = {"proved": True, "noise_by": "servers", "sketch": "sum", "rows": None}


def sealed_reports(collection, rows=ROWS[:1], ids=None):
    ids = [report_id(collection.digest, Stream.from_os().bytes(SECRET_BYTES)) for _ in rows] if ids is None else ids
    records = make_reports(Client(collection.plan), collection, rows, ids)
    form = SealedReports(collection)
    return [form.seal(own) for own in zip(*records, strict=True)]


def path_of(collection):
    return f"/v2/collections/{collection.digest.hex()}/reports"


def exchange(method, url, data=None, **options):
    """Send one request; return status, JSON or bytes, and headers."""

    async def run():
        async with aiohttp.ClientSession() as session, session.request(method, url, data=data, **options) as response:
            content = await response.read()
            try:
                return response.status, json.loads(content), response.headers
            except ValueError:
                return response.status, content, response.headers

    return asyncio.run(run())
