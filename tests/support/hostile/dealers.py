"""Clients that misbehave: one that deals Shamir shares of no polynomial, one that uses an id in several collections.

    python -m support.hostile.dealers deal-badly COLLECTION.json --to 2 --count 3
    python -m support.hostile.dealers same-id ONE.json TWO.json

Both upload to servers on loopback addresses only, once for each report, and say what the servers answered.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import aiohttp
import numpy as np

from dpmpc.base.errors import InputError
from dpmpc.collect.terms.endpoints import SEALED_UPLOADS
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import make_reports
from dpmpc.collect.upload.sealing import SealedReports
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.parties.network.identity import pinning_context
from dpmpc.release.client import Client

MOST_REPORTS = 1000
SECONDS = 20.0


def deal_badly(collection: Collection, report_id: bytes, to: Sequence[int], entry: int | None = None) -> list[bytes]:
    """Make the records of a report whose shares at some servers are off the polynomial."""
    rows = np.array([[(column.lower + column.upper) / 2 for column in collection.plan.schema.columns]])
    records = [own[0] for own in make_reports(Client(collection.plan.verify()), collection, rows, [report_id])]
    for server in to:
        words = np.frombuffer(records[server][ID_BYTES:], "<u8").astype(np.uint64)
        if entry is None:
            words = np.random.default_rng().integers(0, Mersenne61.modulus, words.shape, np.uint64)
        else:
            words[entry] = (int(words[entry]) + 1) % Mersenne61.modulus
        records[server] = report_id + words.astype("<u8").tobytes()
    return records


def upload(collection: Collection, records: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Send each server its record; yield number and status of the answers."""
    for entry in collection.servers:
        require_loopback(entry.url)

    report = SealedReports(collection).seal(records)

    async def send_all() -> list[tuple[int, int]]:
        statuses = []
        for server, entry in enumerate(collection.servers):
            context = pinning_context(entry.certificate.encode())
            timeout = aiohttp.ClientTimeout(total=SECONDS)
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), timeout=timeout) as session:
                url = entry.url + SEALED_UPLOADS.format(digest=collection.digest.hex())
                async with session.post(url, data=report, server_hostname=f"party-{server}") as answer:
                    statuses.append((server, answer.status))
        return statuses

    yield from asyncio.run(send_all())


def require_loopback(url: str) -> None:
    """Refuse to speak to anybody but this machine."""
    host = url.removeprefix("https://").rpartition(":")[0] or url.removeprefix("https://")
    for *_, address in socket.getaddrinfo(host.strip("[]"), None):
        if not ipaddress.ip_address(address[0]).is_loopback:
            raise InputError(f"url: {url} given, a loopback address expected")


def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    deeds = parser.add_subparsers(dest="deed", required=True)
    dealing = deeds.add_parser("deal-badly", help="upload reports whose Shamir shares lie on no polynomial")
    dealing.add_argument("collection", type=Path)
    dealing.add_argument("--to", type=int, nargs="+", default=[0], help="servers that get wrong words")
    dealing.add_argument("--entry", type=int, help="the one word that is wrong (default: all)")
    dealing.add_argument("--count", type=int, default=1)
    same = deeds.add_parser("same-id", help="upload one report under one id to each of several collections")
    same.add_argument("collections", type=Path, nargs="+")
    options = parser.parse_args(argv)
    if options.deed == "deal-badly":
        collection = Collection.load(options.collection)
        for _ in range(min(options.count, MOST_REPORTS)):
            records = deal_badly(collection, os.urandom(16), options.to, options.entry)
            for server, status in upload(collection, records):
                print(f"server {server}: {status}")
    else:
        report_id = os.urandom(16)
        for path in options.collections:
            collection = Collection.load(path)
            for server, status in upload(collection, deal_badly(collection, report_id, ())):
                print(f"{path.name}, server {server}: {status}")


if __name__ == "__main__":
    main()
