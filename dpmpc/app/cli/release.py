"""The commands at the end of a collection: `dpmpc release`, for each server, and `dpmpc verify`, for everybody."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import msgspec

from dpmpc.app.cli.options import address, seconds
from dpmpc.base.untrusted import harmless


def add_commands(commands: Any) -> None:
    """Add the commands to the parser's."""
    release = commands.add_parser(
        "release",
        help="one server's part in opening a collection that has closed; it may be repeated if it fails",
        description="Status 2: this server or another one refuses; nothing is opened, unless the error is "
        "VerificationFailed or a file that cannot be written. Status 3: the run failed; repeat the same command.",
    )
    release.add_argument("collection", metavar="COLLECTION", help="the task file")
    release.add_argument("--server", type=int, required=True, metavar="I", help="this server's number")
    release.add_argument("--folder", required=True, metavar="DIR", help="its identity, spool and ledger")
    release.add_argument(
        "--out",
        default="release.dpmpc",
        metavar="FILE",
        help="default %(default)s; the page of dpmpc verify --html goes to FILE.html",
    )
    release.add_argument("--close", action="store_true", help="take no more reports here, before closing time")
    release.add_argument(
        "--without", type=int, nargs="+", default=[], metavar="J", help="servers that all others go on without"
    )
    release.add_argument(
        "--listen", type=address, metavar="HOST:PORT", help="where to listen, if not where the others find this server"
    )
    release.add_argument(
        "--connect-deadline", type=seconds, metavar="S", help="seconds within which all servers must be there"
    )
    release.add_argument("--deadline", type=seconds, metavar="S", help="seconds that a server may take for a step")
    release.add_argument(
        "--threads", type=int, default=1, metavar="N", help="threads of the transform (default %(default)s)"
    )
    release.add_argument(
        "--cluster", metavar="ADDRESS", help="the scheduler of a Dask cluster whose workers compute, as tls://HOST:PORT"
    )
    release.set_defaults(run=_release)

    verify = commands.add_parser("verify", help="check all that a release file claims, offline")
    verify.add_argument("file", metavar="FILE", help="the release of a collection")
    verify.add_argument("--collection", metavar="FILE", help="the task file, from a source that you trust")
    verify.add_argument(
        "--longest",
        type=seconds,
        metavar="S",
        help="seconds that drawing the matrix again may take, by the size that the file claims (default a minute)",
    )
    forms = verify.exclusive()
    forms.add_argument("--json", action="store_true", help="print one JSON object")
    forms.add_argument(
        "--html", action="store_true", help="print the page of the release, or of the first check that fails"
    )
    verify.set_defaults(run=_verify)


def _release(options: argparse.Namespace) -> None:
    from dpmpc.app.render.release_page import release_page
    from dpmpc.app.render.servers import servers_table
    from dpmpc.base.storage.files import whole
    from dpmpc.collect.opening.release_process import CONNECT_SECONDS, run_release
    from dpmpc.collect.store.server_folder import ServerFolder
    from dpmpc.collect.store.state import report_beside
    from dpmpc.collect.terms.task_file import Collection
    from dpmpc.collect.terms.verifying import verify
    from dpmpc.parties.network.meter import rounded, tenths

    collection = Collection.load(options.collection)
    released = run_release(
        collection,
        options.server,
        options.folder,
        options.out,
        close=options.close,
        without=tuple(options.without),
        listen=options.listen,
        connect_deadline=CONNECT_SECONDS if options.connect_deadline is None else options.connect_deadline,
        deadline=options.deadline,
        threads=options.threads,
        cluster=options.cluster,
        tell=lambda line: print(harmless(line), file=sys.stderr),
    )
    if released.costs:
        print(servers_table([rounded(spent, tenths) for spent in released.costs]), file=sys.stderr)
    clients = released.certificate.statement.manifest.clients
    print(f"{options.out}: release of {clients} reports, signed by all that took part", flush=True)
    page = release_page(verify(options.out, collection, longest=math.inf)).encode()
    path, shown = Path(f"{options.out}.html"), report_beside(ServerFolder(Path(options.folder)).released(collection))
    for place in (path, shown):  # the second is handed out by the server
        with whole(place) as file:
            file.write(page)
    print(f"{path}: what was released, for people", file=sys.stderr)


def _verify(options: argparse.Namespace) -> None:
    from dpmpc.app.render.release_page import release_page
    from dpmpc.base.errors import VerificationFailed
    from dpmpc.collect.terms.task_file import Collection
    from dpmpc.collect.terms.verifying import verify
    from dpmpc.privacy.task import LONGEST_CHECK

    trusted = None if options.collection is None else Collection.load(options.collection)
    longest = LONGEST_CHECK if options.longest is None else options.longest
    try:
        verified = verify(options.file, trusted, longest=longest)
    except VerificationFailed as failure:
        if options.html:
            print(release_page(failure), end="")
        raise
    if options.html:
        print(release_page(verified), end="")
    elif options.json:
        statement = msgspec.to_builtins(verified.certificate.statement)
        print(
            json.dumps(
                {"verified": True, "given": verified.given, "checks": list(verified.checks), "statement": statement}
            )
        )
    else:
        print("\n".join(map(harmless, verified.checks)))
