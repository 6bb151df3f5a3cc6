"""Sealed reports, and requests that send them."""

import asyncio
import http.server
import json
import threading

import aiohttp
import numpy as np

from dpmpc.base.randomness import Stream
from dpmpc.collect.terms.sealing_suites import SUITES
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import make_reports
from dpmpc.collect.upload.sealing import FORMAT, SECRET_BYTES, SealedReports, report_id
from dpmpc.release.client import Client

ROWS = np.random.default_rng(11).uniform(0, 10, (30, 3))
PROVED = {"proved": True, "noise_by": "servers", "sketch": "sum", "rows": None}


def sealed_reports(collection, rows=ROWS[:1], ids=None):
    ids = [report_id(collection.digest, Stream.from_os().bytes(SECRET_BYTES)) for _ in rows] if ids is None else ids
    records = make_reports(Client(collection.plan.verify()), collection, rows, ids)
    form = SealedReports(collection)
    return [form.seal(own) for own in zip(*records, strict=True)]


def sealed_for(collection, server, records):
    """Return reports that hold these records for one server, and nothing that opens for the others."""
    form = SealedReports(collection)
    key, before = form.keys[server], sum(form.record_bytes[:server])
    after, found = sum(form.record_bytes[server + 1 :]), []
    for record in records:
        named, plain = record[:ID_BYTES], record[ID_BYTES:]
        own = SUITES[key.suite].seal(bytes.fromhex(key.public), plain, form.info(server, key.number, named))
        found.append(FORMAT + named + bytes(before) + bytes([key.number]) + own + bytes(after))
    return found


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


class AnsweringDoor:
    """A door that answers what it likes to all that is sent."""

    def __init__(self, status, content):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.reply(status, content if isinstance(content, bytes) else json.dumps(content).encode())

            def do_GET(self):  # which keys were added
                self.reply(200, b'{"keys": []}')

            def reply(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
