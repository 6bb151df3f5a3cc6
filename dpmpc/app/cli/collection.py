"""The commands of who runs a collection: `dpmpc identity`, `collection`, `inspect`, `roster`, `serve`.

Keys are kept in files that only their owner may read, never given on a command line, which everybody on the machine may
read.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.options import add_release_options, address, release_choices
from dpmpc.app.cli.waiting import quiet
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.untrusted import ReadError, printable, read_bytes

if TYPE_CHECKING:
    from dpmpc.data import Schema

CERTIFIED_DAYS = 800
MOST_DAYS = 36500
_LARGEST_NAMES = 1 << 28  # bytes of the file of clients' names
_FORM_DATES = "YymdHMS"  # what a date may be made of in the form of a door (web/codebook.mjs)


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    identity = commands.add_parser("identity", help="make a server's key and the certificate that all others pin")
    identity.add_argument(
        "folder",
        metavar="DIR",
        help="a new directory, which the server's owner keeps; with --seal its seals/; with "
        "--reseal the server's folder",
    )
    what = identity.exclusive(required=True)
    what.add_argument("--server", type=int, metavar="I", help="the server's number, from 0")
    what.add_argument(
        "--seal",
        metavar="NAME",
        help="make the keys NAME.key and NAME.pub of one collection instead, which clients seal reports to",
    )
    what.add_argument(
        "--reseal",
        metavar="FILE",
        help="add one more key to the collection of this task file instead, signed; DIR is the server's folder: "
        "clients seal to it from then on",
    )
    identity.add_argument(
        "--suite",
        choices=("x25519", "x25519-mlkem768"),
        default="x25519",
        help="with --seal: how is sealed; x25519-mlkem768 also withstands quantum computers, reports are longer by "
        "1,088 bytes a server, and browsers cannot contribute (default %(default)s)",
    )
    identity.add_argument("--days", type=int, default=CERTIFIED_DAYS, help="how long it is valid (default %(default)s)")
    identity.set_defaults(run=_identity)

    collection = commands.add_parser("collection", help="write the task file of a collection, with its noise")
    collection.add_argument("file", metavar="FILE", help="a new file, JSON")
    collection.add_argument("--name", required=True, help="what people call it")
    collection.add_argument(
        "--purpose", rare=True, default="", metavar="TEXT", help="why people are asked, for the servers' pages"
    )
    collection.add_argument(
        "--contact", rare=True, default="", metavar="TEXT", help="whom people can ask, for the servers' pages"
    )
    collection.add_argument(
        "--bounds",
        required=True,
        metavar="FILE",
        help="TOML with the public bounds, values, dates and rules for what is missing, and texts for people",
    )
    collection.add_argument(
        "--describe",
        action="store_true",
        help="collect a Table 1: how many people are in each cell of each column, not second moments",
    )
    collection.add_argument(
        "--survival",
        nargs=2,
        metavar=("TIME", "EVENT"),
        help="collect survival curves in its place: the columns of times and of whether the event happened",
    )
    collection.add_argument(
        "--by", rare=True, metavar="COL", help="with --describe or --survival, by the values of this column"
    )
    collection.add_argument(
        "--server",
        action="append",
        nargs=4,
        required=True,
        metavar=("URL", "PEERS", "RELEASE", "CERTIFICATE"),
        help="for each server in order: its web endpoint https://HOST[:PORT] for clients; HOST:PORT where the other "
        "servers hand reports on to it, and where they reach it for the release; its party.crt",
    )
    collection.add_argument(
        "--public-certificate",
        rare=True,
        action="append",
        type=int,
        default=[],
        metavar="J",
        help="a reverse proxy answers at the web endpoint of server J, with a certificate of a public authority; "
        "otherwise clients pin the server's own",
    )
    collection.add_argument(
        "--seal",
        action="append",
        required=True,
        metavar="PUBLIC",
        help="for each server in order its NAME.pub of `dpmpc identity --seal`, which clients seal to",
    )
    collection.add_argument(
        "--organisation",
        rare=True,
        action="append",
        nargs=2,
        default=[],
        metavar=("J", "NAME"),
        help="who runs server J, for the servers' pages and the report",
    )
    collection.add_argument(
        "--epochs",
        rare=True,
        type=int,
        metavar="N",
        help="the first of so many collections of the same people: --epsilon for all",
    )
    collection.add_argument(
        "--series", rare=True, metavar="FILE", help="the one after this task file, of the same series"
    )
    for name, text in (
        ("opens", "when reports are taken, such as 2027-01-31T08:00+01:00"),
        ("closes", "when no more reports are taken"),
        ("expires", "when nothing is released any more"),
    ):
        collection.add_argument(f"--{name}", type=_time, required=True, metavar="TIME", help=text)
    collection.add_argument(
        "--minimum-batch",
        type=int,
        required=True,
        metavar="N",
        help="fewest reports that may be opened; the noise is calibrated for them",
    )
    collection.add_argument(
        "--largest-batch",
        type=int,
        required=True,
        metavar="N",
        help="most reports that may be opened; no sum of them wraps around",
    )
    collection.add_argument(
        "--proved",
        rare=True,
        action=argparse.BooleanOptionalAction,
        help="clients prove that what they share is well formed, and servers leave out what is not; the default with "
        "additive shares and noise by servers. With Shamir shares servers prove the range of their noise, too",
    )
    collection.add_argument("--authenticated", action="store_true", help="only clients of a roster, each once")
    collection.add_argument(
        "--even-if-hopeless",
        rare=True,
        action="store_true",
        help="write the file also where the plan states that a release of the minimum batch would be worth nothing",
    )
    add_release_options(collection, collected=True)
    collection.set_defaults(run=_collection)
    inspect = commands.add_parser("inspect", help="check a task file; print what it promises, and whose keys it names")
    inspect.add_argument("collection", metavar="COLLECTION", help="the task file")
    inspect.set_defaults(run=_inspect)
    _add_roster(commands)
    _add_serve(commands)


def _add_roster(commands: Any) -> None:
    roster = commands.add_parser("roster", help="draw tickets for known clients, and write what each server accepts")
    roster.add_argument("collection", metavar="COLLECTION", help="the task file, with authenticated = true")
    who = roster.exclusive(required=True)
    who.add_argument("--clients", type=int, metavar="N", help="how many, named 1 to N")
    who.add_argument("--names", metavar="FILE", help="what the clients are called, a name on each line")
    roster.add_argument("--out", required=True, metavar="DIR", help="a new directory: tickets.csv, roster-0, ..")
    roster.set_defaults(run=_roster)


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser("serve", help="take reports of a collection until SIGTERM")
    serve.add_argument("collection", metavar="COLLECTION", help="the task file")
    serve.add_argument("--server", type=int, required=True, metavar="I", help="this server's number")
    serve.add_argument("--folder", required=True, metavar="DIR", help="this server's folder, with identity/ in it")
    serve.add_argument(
        "--listen",
        type=address,
        default=("127.0.0.1", 8443),
        metavar="HOST:PORT",
        help="the pinned port, for the other servers alone (default 127.0.0.1:8443)",
    )
    serve.add_argument(
        "--web", type=address, metavar="HOST:PORT", help="for clients, who see this server's own certificate"
    )
    serve.add_argument(
        "--proxy",
        type=_proxy_place,
        metavar="HOST:PORT|unix:PATH",
        help="for clients through a reverse proxy, which a public collection needs: plain HTTP on loopback or at a "
        "UNIX socket",
    )
    serve.add_argument(
        "--unproved-proxy",
        action="store_true",
        help="--proxy though clients prove nothing: the program that ends TLS could spoil the release",
    )
    serve.add_argument(
        "--monitor",
        type=address,
        metavar="HOST:PORT",
        help="for the operator: /healthz, /metrics and /v1/status with exact counts, in plain HTTP",
    )
    serve.add_argument(
        "--store",
        metavar="ADDRESS",
        help="keep the reports in a PostgreSQL database, postgresql:///NAME; the folder remembers it for all commands",
    )
    serve.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that take requests; several need --store"
    )
    serve.add_argument("--rate", type=float, metavar="R", help="reports a second that an address may send")
    serve.add_argument("--max-body", type=int, metavar="BYTES", help="longest request")
    serve.add_argument("--max-waiting", type=int, metavar="BYTES", help="most that requests may hold together")
    serve.add_argument("--requests", type=int, metavar="N", help="most requests of clients at once")
    serve.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="the least that is logged (default %(default)s)",
    )
    serve.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="lines for people, or a JSON object on each (default %(default)s)",
    )
    serve.set_defaults(run=_serve)


def _proxy_place(text: str) -> tuple[str, int] | Path:
    """Parse where a reverse proxy reaches a server."""
    return Path(text.removeprefix("unix:")) if text.startswith("unix:") else address(text)


def _time(text: str) -> datetime.datetime:
    """Parse a time with its time zone."""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} given, a time such as 2027-01-31T08:00+01:00 expected")
    return time


def _identity(options: argparse.Namespace) -> None:
    from dpmpc.parties.network.identity import CERTIFICATE_FILE, fingerprint, write_identity

    if not 1 <= options.days <= MOST_DAYS:
        raise InputError("days", options.days, f"1 to {MOST_DAYS}")
    folder = Path(options.folder)
    if options.seal is not None:
        from dpmpc.collect.upload.seal_folder import SealFolder, read_public

        SealFolder(folder).draw(options.seal, options.suite)
        print(f"{folder / options.seal}.pub: public: give it to the author of the task file, and read out to them:")
        key = read_public(folder / f"{options.seal}.pub")
        print(f"{key.suite} {key.shown}")
        print(f"{folder / options.seal}.key: for one collection; keep no copy: it is deleted after the release")
        return
    if options.reseal is not None:
        _reseal(folder, options.reseal)
        return
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise InputError("folder", f"{folder} cannot be made: {error.strerror}") from error
    try:
        certificate = write_identity(folder, options.server, datetime.timedelta(days=options.days))
    except BaseException:
        shutil.rmtree(folder)
        raise
    print(f"{folder / CERTIFICATE_FILE}: the certificate, public: give it to the author of the task file")
    print("its SHA-256 fingerprint, to be read out to them by another channel:")
    print(fingerprint(certificate))


def _reseal(path: Path, task_file: str) -> None:
    from dpmpc.collect.store.server_folder import ServerFolder
    from dpmpc.collect.terms.task_file import Collection

    collection = Collection.load(task_file)
    folder = ServerFolder(path)
    added = folder.add_key(collection)
    print(f"key {added.number} of server {added.server} is added to collection {collection.digest.hex()[:16]}...")
    print("a server that runs hands it out within seconds, and the doors of the others within a minute;")
    print("older keys go on opening what was sealed to them, until their files are deleted")


def _collection(options: argparse.Namespace) -> None:
    from dpmpc.collect.terms.collection_design import CollectionTerms, design_collection
    from dpmpc.collect.terms.server_entries import ServerEntry
    from dpmpc.collect.upload.seal_folder import read_public
    from dpmpc.parties.network.identity import valid_until
    from dpmpc.privacy.specification import Budget

    seals = [(read_public(path),) for path in options.seal]
    if len(seals) != len(options.server):
        raise InputError("seal", f"{len(seals)}", f"one for each of {len(options.server)} servers")
    servers = tuple(
        ServerEntry(url, peers, release, _text(path), keys, number in options.public_certificate, organisation)
        for number, ((url, peers, release, path), keys, organisation) in enumerate(
            zip(options.server, seals, _organisations(options.organisation, len(seals)), strict=True)
        )
    )
    if unknown := [number for number in options.public_certificate if not 0 <= number < len(servers)]:
        raise InputError("public_certificate", f"{unknown[0]}", f"a server from 0 to {len(servers) - 1}")
    terms = CollectionTerms(
        name=options.name,
        servers=servers,
        opens=options.opens,
        closes=options.closes,
        expires=options.expires,
        minimum_batch=options.minimum_batch,
        largest_batch=options.largest_batch,
        authenticated=options.authenticated,
        purpose=options.purpose.strip(),
        contact=options.contact.strip(),
        series=_series(options, servers),
    )
    schema, choices = _collected(options)
    budget = Budget(options.epsilon, options.delta)
    collection = design_collection(terms, schema, budget, proved=options.proved, **choices)
    _require_useful(collection, refuse=not options.even_if_hopeless)
    collection.save(options.file)
    print(f"{options.file}: collection {collection.digest.hex()}")
    print(collection.promised)
    for number, server in enumerate(servers):
        ends = valid_until(server.certificate.encode())
        if ends < collection.expires:
            print(
                f"dpmpc collection: the certificate of server {number} ends {ends.isoformat()}, before the collection "
                f"expires: nothing is uploaded or released after that (dpmpc identity --days)",
                file=sys.stderr,
            )
    for variable in collection.plan.schema.variables:
        if variable.date is not None and not _form_reads(variable.date):
            print(
                f"dpmpc collection: column {variable.name!r}: date = {variable.date!r}: the form of a door cannot "
                f"read such dates and refuses the collection; with {', '.join(f'%{one}' for one in _FORM_DATES)} "
                "alone, and a year, it takes them, and dpmpc submit takes both",
                file=sys.stderr,
            )
    if not collection.proved:
        print(
            "dpmpc collection: no proofs, so that one client which shares arbitrary words can spoil the release "
            "(docs/threats.toml, threat 15)",
            file=sys.stderr,
        )
    if collection.plan.noising.by == "clients":
        print(f"dpmpc collection: {_of_clients_noise(collection)}", file=sys.stderr)


def _form_reads(date: str) -> bool:
    """Return whether the form of a door can read dates in a format: names of months or days are not supported."""
    parts = set(re.findall("%(.)", date, re.DOTALL))
    return parts <= {*_FORM_DATES, "%"} and not parts.isdisjoint("Yy")


def _series(options: argparse.Namespace, servers: Sequence[Any]) -> Any:
    """Return the place of a new collection in its series, or None."""
    from dpmpc.collect.terms.series import Series
    from dpmpc.collect.terms.task_file import Collection

    if options.epochs is not None and options.series is not None:
        raise InputError("epochs, series", "both given, --epochs for the first collection and --series for the others")
    if options.epochs is not None:
        return Series.of(options.name, options.epochs, options.epsilon, options.delta)
    if options.series is None:
        return None
    previous = Collection.load(options.series)
    if previous.series is None:
        raise InputError("series", options.series, "a collection of a series", condition="(--epochs)")
    if previous.series.identity([server.certificate for server in servers]) != previous.series_identity:
        raise InputError("server", "other certificates given than those of the series, the same in this order expected")
    return previous.series.next


def _organisations(given: Sequence[Sequence[str]], servers: int) -> list[str]:
    """Return the organisation of each server, empty where none is given."""
    found = [""] * servers
    for text, name in given:
        number = int(text) if text.isdecimal() and text.isascii() else servers
        if number >= servers or found[number] or not name.strip():
            expected = f"each server from 0 to {servers - 1} once at most, and a name expected"
            raise InputError("organisation", f"{printable(text)!r} {printable(name)!r} given, {expected}")
        found[number] = name.strip()
    return found


def _require_useful(collection: Any, *, refuse: bool) -> None:
    """State what releases of the smallest and of the largest batch are worth; refuse a smallest one worth nothing."""
    from dpmpc.app.render.readings import reading_of

    reading = reading_of(collection.plan.statistic)
    batches = {"minimum": collection.minimum_batch, "largest": collection.largest_batch}
    plans = [collection.plan, collection.plan_of(collection.largest_batch)]
    useful = []
    for (which, clients), plan in zip(batches.items(), plans, strict=True):
        is_useful, why = reading.verdict(plan)
        useful.append(is_useful)
        print(f"with the {which} batch of {clients:,} reports: {why}")
    if useful[0]:
        return
    hopeless = (
        f"with the minimum batch of {collection.minimum_batch:,} reports {reading.use} is WORTHLESS under the usual "
        "assumptions (dpmpc plan): raise --minimum-batch or --epsilon, or collect fewer columns"
    )
    if refuse:
        raise GuaranteeError(f"{hopeless}; --even-if-hopeless writes the file in spite of it")
    print(f"dpmpc collection: {hopeless}", file=sys.stderr)


def _collected(options: argparse.Namespace) -> tuple[Schema, dict[str, Any]]:
    """Return the bounds of what is collected, and the keywords of `ReleaseSpec.of`."""
    from dpmpc.data import Schema
    from dpmpc.models import KaplanMeier, TableOne

    schema, choices = Schema.from_toml(options.bounds), release_choices(options)
    if options.describe and options.survival:
        raise InputError("survival", f"{' '.join(options.survival)} given with --describe, one of the two expected")
    if options.describe:
        return schema, {**choices, **TableOne(options.by).task_choices(schema)}
    if options.survival:
        time, event = options.survival
        curves = KaplanMeier(time=time, event=event, by=options.by, bounds=schema)
        public = curves.public_schema()
        return public, {**choices, **curves.task_choices(public)}
    if options.by is not None:
        raise InputError(
            "by",
            f"{options.by!r} given, which belongs with --describe or --survival: moments by group are not collected",
        )
    return schema, choices


def _of_clients_noise(collection: Any) -> str:
    """Warn everybody who lets clients make the noise, with or without a roster."""
    least, t = collection.minimum_batch, collection.plan.trust.corrupt_clients
    many = "" if collection.authenticated else "; without --authenticated one person can be many clients"
    return (
        f"clients add the noise, so a server that denies reports can leave a victim among strangers: the guarantee "
        f"holds if at most {t} of any {least} reports are of people who work with a server, with a roster too "
        f"(docs/threats.toml, threats 12 and 27){many}; --noise-by servers needs no such bound"
    )


def _inspect(options: argparse.Namespace) -> None:
    from dpmpc.collect.terms.task_file import Collection

    collection = Collection.load(options.collection).verify()
    for line in _described(collection, options.collection):
        print(printable(line))  # whoever wrote the file may be anybody


def _described(collection: Any, path: str) -> Iterator[str]:
    """Yield what a task file holds, line by line."""
    from dpmpc.collect.terms.collection_design import noise_promise, omission, soundness
    from dpmpc.parties.network.identity import fingerprint, valid_until

    yield f"{path}: collection {collection.digest.hex()}, '{collection.name}'"
    for what in ("purpose", "contact"):
        if getattr(collection, what):
            yield f"{what}: {getattr(collection, what)}"
    for name in ("opens", "closes", "expires"):
        yield f"{name} {getattr(collection, name).isoformat()}"
    yield f"batch of {collection.minimum_batch} to {collection.largest_batch} reports"
    yield "one report for each client of a roster" if collection.authenticated else "reports of anyone"
    schema = collection.plan.schema
    yield "values outside the bounds are clipped to them, by each client for itself"
    for variable in schema.variables:
        yield f"column {variable.in_words}"
    for number, server in enumerate(collection.servers):
        shown = "a public authority's certificate" if server.public_certificate else "its own certificate"
        yield f"server {number}: {server.url} ({shown}), servers at {server.peers}, release at {server.release}"
        if server.organisation:
            yield f"  run by {server.organisation}, as the task file states"
        certificate = server.certificate.encode()
        yield f"  certificate {fingerprint(certificate)}, until {valid_until(certificate).isoformat()}"
        for key in server.keys:
            yield f"  reports are sealed to key {key.number}: {key.suite} {key.shown}"
    yield from collection.promised.split("\n")
    yield f"omission: {omission(collection)}"
    if collection.proved:
        yield f"proofs: clients prove that a report is well formed; {soundness(collection, collection.largest_batch)}"
        if collection.plan.noise_is_dealt:
            yield f"noise: {noise_promise(collection, ())}"
    else:
        yield (
            "proofs: none; one client that shares arbitrary words can spoil the release (docs/threats.toml, threat 15)"
        )


def _roster(options: argparse.Namespace) -> None:
    from dpmpc.collect.terms.task_file import Collection
    from dpmpc.collect.upload.roster import draw_tickets, write_roster, write_tickets

    collection = Collection.load(options.collection)
    tickets = draw_tickets(_names(options))
    out = Path(options.out)
    try:
        out.mkdir(mode=0o700)
    except OSError as error:
        raise InputError("out", f"{out} cannot be made: {error.strerror}") from error
    for server in range(len(collection.servers)):
        write_roster(out / f"roster-{server}", collection, server, tickets)
        print(f"{out / f'roster-{server}'}: for server {server}, as the file 'roster' of its folder")
    write_tickets(out / "tickets.csv", tickets)
    print(f"{out / 'tickets.csv'}: secret: one line for each of {len(tickets)} clients, for that client alone")


def _names(options: argparse.Namespace) -> list[str]:
    if options.names is None:
        if options.clients < 1:
            raise InputError("clients", options.clients, "at least 1")
        return [str(number + 1) for number in range(options.clients)]
    try:
        names = read_bytes(options.names, largest=_LARGEST_NAMES).decode("utf-8").split("\n")
    except (OSError, ReadError, UnicodeDecodeError) as error:
        raise InputError("names", f"{options.names} cannot be read: {error}") from error
    found = [name.strip() for name in names if name.strip()]
    if not found or len(set(found)) < len(found):
        raise InputError("names", f"{len(found)}", f"{len(set(found))} of them different; different ones")
    return found


def _serve(options: argparse.Namespace) -> None:
    with quiet():  # the log says what happens, and each of its lines has a time
        _serve_until_stopped(options)


def _serve_until_stopped(options: argparse.Namespace) -> None:
    from dpmpc.collect.intake.admission import Limits
    from dpmpc.collect.intake.logs import configure
    from dpmpc.collect.intake.serving import ServerPlaces, serve
    from dpmpc.collect.store.server_folder import ServerFolder
    from dpmpc.collect.terms.task_file import Collection

    configure(options.log_level, options.log_format)
    collection = Collection.load(options.collection)
    if options.web is None and options.proxy is None:
        raise InputError("web, proxy", "none", "one of the two", "no client would reach this server")
    if options.proxy is not None and not (collection.proved or options.unproved_proxy):
        raise InputError(
            "proxy",
            "one given for a collection without proofs: the program that ends TLS for it could exchange a record of "
            "an honest report and spoil the release; --unproved-proxy if that is as it should be "
            "(docs/security.md)",
        )
    given = {
        "rate": options.rate,
        "body_bytes": options.max_body,
        "waiting_bytes": options.max_waiting,
        "requests": options.requests,
    }

    def tell(bound: int) -> None:
        print(
            f"server {options.server} of collection {collection.digest.hex()} listens on {options.listen[0]}:{bound}",
            flush=True,
        )

    serve(
        collection,
        options.server,
        ServerFolder(Path(options.folder)),
        ServerPlaces(peers=options.listen, web=options.web, proxy=options.proxy, monitor=options.monitor),
        limits=Limits(**{name: value for name, value in given.items() if value is not None}),
        store=options.store,
        workers=options.workers,
        on_listening=tell,
    )


def _text(path: str) -> str:
    try:
        return read_bytes(path).decode("ascii")
    except (OSError, ReadError, UnicodeDecodeError) as error:
        raise InputError("server", f"certificate {path} cannot be read: {error}") from error
