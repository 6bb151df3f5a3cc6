"""The commands of a real collection: `dpmpc identity`, `collection`.

Keys stand in files that their owner alone may read; none is ever given on a command line.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

from dpmpc.errors import InputError
from dpmpc.release_options import add_release_options, release_choices

CERTIFIED_DAYS = 800


def add_commands(commands: Any) -> None:
    """Add the commands to the parser's."""
    identity = commands.add_parser("identity", help="make a server's key and the certificate that all others pin")
    identity.add_argument("folder", metavar="DIR", help="a new directory, which the server's owner keeps")
    identity.add_argument("--server", type=int, required=True, metavar="I", help="the server's number, from 0")
    identity.add_argument("--days", type=int, default=CERTIFIED_DAYS, help="how long it is valid (default %(default)s)")
    identity.set_defaults(run=_identity)

    collection = commands.add_parser("collection", help="write the task file of a collection, with its noise")
    collection.add_argument("file", metavar="FILE", help="the TOML file, a new one")
    collection.add_argument("--name", required=True, help="what people call it")
    collection.add_argument("--bounds", required=True, metavar="FILE", help="TOML with the public bounds")
    collection.add_argument(
        "--server",
        action="append",
        nargs=3,
        required=True,
        metavar=("URL", "HOST:PORT", "CERTIFICATE"),
        help="for each server in order: where clients upload, where the other servers reach it, its party.crt",
    )
    for name, text in (
        ("opens", "when reports are taken, such as 2027-01-31T08:00+01:00"),
        ("closes", "when no more reports are taken"),
        ("expires", "when nothing is released any more"),
    ):
        collection.add_argument(f"--{name}", type=_time, required=True, metavar="TIME", help=text)
    collection.add_argument(
        "--minimum-batch", type=int, required=True, metavar="N", help="fewest reports, for the noise"
    )
    collection.add_argument("--largest-batch", type=int, required=True, metavar="N", help="most reports, for overflow")
    collection.add_argument("--authenticated", action="store_true", help="only clients of a roster, each once")
    add_release_options(collection)
    collection.set_defaults(run=_collection)


def _time(text: str) -> datetime.datetime:
    """A time with its time zone."""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} given, a time such as 2027-01-31T08:00+01:00 expected")
    return time


def _identity(options: argparse.Namespace) -> None:
    from dpmpc.network.identity import CERTIFICATE_FILE, write_identity

    folder = Path(options.folder)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise InputError(f"folder: {folder} cannot be made: {error.strerror}") from error
    write_identity(folder, options.server, datetime.timedelta(days=options.days))
    print(f"{folder / CERTIFICATE_FILE}: the certificate, public: give it to whoever writes the task file")


def _collection(options: argparse.Namespace) -> None:
    from dpmpc.bounds import Schema
    from dpmpc.intake.collection import ServerEntry, design_collection

    servers = tuple(ServerEntry(url, release, _text(path)) for url, release, path in options.server)
    collection = design_collection(
        options.name,
        Schema.from_toml(options.bounds),
        servers,
        options.epsilon,
        options.delta,
        opens=options.opens,
        closes=options.closes,
        expires=options.expires,
        minimum_batch=options.minimum_batch,
        largest_batch=options.largest_batch,
        authenticated=options.authenticated,
        **release_choices(options),
    )
    collection.save(options.file)
    print(f"{options.file}: collection {collection.digest.hex()}")
    print(collection.plan.guarantee)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"server: certificate {path} cannot be read: {error}") from error
