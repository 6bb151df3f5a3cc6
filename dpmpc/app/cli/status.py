"""`dpmpc status`: how the servers of a collection stand: what they collect, until when, how many reports they store."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dpmpc.base.errors import InputError, PartyMissing, ProtocolFailure

_URLS = ("https://", "http://")


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    status = commands.add_parser(
        "status",
        help="how a collection's servers stand: dates, counts, health",
        description="Status 3: a server does not answer, is another one, would not store uploads, or is not as far"
        " as the others.",
    )
    status.add_argument(
        "where",
        metavar="URL",
        help="https://HOST:PORT of a server, or the task file, for all its servers, whose certificates are checked; "
        "http://HOST:PORT of a server's monitor on this machine",
    )
    status.add_argument("--collection", metavar="FILE", help="the task file, to check the certificate behind a URL")
    status.add_argument(
        "--server", type=int, metavar="I", help="with --collection: whose URL it is, if the file has another for it"
    )
    status.add_argument("--json", action="store_true", help="print one JSON object")
    status.set_defaults(run=_status)


def _status(options: argparse.Namespace) -> None:
    import msgspec

    from dpmpc.collect.intake import status

    found = _ask(options)
    answers = [one for one in found if isinstance(one, status.Answer)]
    failures = [one for one in found if not isinstance(one, status.Answer)]
    if options.json:
        told = [msgspec.to_builtins(answer) for answer in answers]
        print(json.dumps({"answers": told, "failures": [str(failure) for failure in failures]}))
    else:
        for line in status.facts(answers[0].status) if answers else ():
            print(line)
        for answer in answers:
            print("\n".join(status.lines(answer)))
    ill = [f"server {one.status.server} would not store uploads" for one in answers if not one.status.healthy]
    apart = [differ] if (differ := status.differences(answers)) else []
    if len(failures) == 1 and not (ill or apart):
        raise failures[0]
    if failures or ill or apart:
        raise PartyMissing("; ".join([*map(str, failures), *ill, *apart]))


def _ask(options: argparse.Namespace) -> list[Any]:
    """Return what servers answered, or why one did not."""
    import asyncio

    from dpmpc.collect.intake.status import ask, ask_all
    from dpmpc.collect.terms.task_file import Collection

    if not options.where.startswith(_URLS):
        if options.collection is not None or options.server is not None:
            raise InputError("collection, server", f"given with the file {options.where!r}, a URL expected with them")
        if not Path(options.where).is_file():
            raise InputError("url", f"{options.where!r}", "https://HOST:PORT or a task file")
        return list(asyncio.run(ask_all(Collection.load(options.where))))
    number, entry = None, None
    if options.collection is not None:
        number, entry = _named(Collection.load(options.collection), options.where, options.server)
    elif options.server is not None:
        raise InputError("server", f"{options.server} given, expected with --collection alone")
    try:
        return [asyncio.run(ask(options.where, server=number, entry=entry))]
    except ProtocolFailure as error:
        return [error]


def _named(collection: Any, url: str, server: int | None) -> tuple[int, Any]:
    """Return the number and the entry of the server behind a URL."""
    if server is None:
        urls = [entry.url for entry in collection.servers]
        if url.rstrip("/") not in urls:
            raise InputError("url", f"{url!r} given, one of {', '.join(urls)} expected, or --server with its number")
        server = urls.index(url.rstrip("/"))
    if not 0 <= server < len(collection.servers):
        raise InputError("server", server, f"0 to {len(collection.servers) - 1}")
    return server, collection.servers[server]
