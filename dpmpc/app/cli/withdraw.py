"""`dpmpc withdraw`: take reports back at all servers of a collection, until its release.

What states whose report it is, a secret or a ticket, is read from a file: everybody on the machine may read a command
line.
"""

from __future__ import annotations

import argparse
from typing import Any


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    withdraw = commands.add_parser(
        "withdraw",
        help="take reports back, until the release; safe to repeat",
        description="Status 0: enough servers have confirmed it. Status 2: it is too late, no server ever had the "
        "report, or the file is not of this collection. Status 3: too few servers have confirmed it; repeat the same "
        "command.",
    )
    withdraw.add_argument("collection", metavar="COLLECTION", help="the task file")
    withdraw.add_argument(
        "--state", metavar="FILE", help="of `dpmpc submit`: all its reports (default: submission-DIGEST.state)"
    )
    withdraw.add_argument("--receipt", metavar="FILE", help="instead: what the form of a browser has saved")
    withdraw.add_argument("--tickets", metavar="FILE", help="instead, with a roster: CSV of tickets")
    withdraw.add_argument(
        "--door", metavar="URL", help="ask this web address of one server alone, which hands withdrawals on"
    )
    withdraw.set_defaults(run=_withdraw)


def _withdraw(options: argparse.Namespace) -> None:
    from dpmpc.collect.terms.task_file import Collection
    from dpmpc.collect.upload.roster import read_tickets
    from dpmpc.collect.upload.withdrawing import secrets_of, withdraw

    collection = Collection.load(options.collection)
    tickets = () if options.tickets is None else tuple(read_tickets(options.tickets))
    state = options.state
    if options.tickets is None and options.receipt is None and state is None:
        state = f"submission-{collection.digest.hex()[:16]}.state"
    secrets = (
        ()
        if tickets and state is options.receipt is None
        else tuple(secrets_of(collection, state=state, receipt=options.receipt))
    )
    outcome = withdraw(collection, secrets, tickets=tickets, door=options.door)
    print("\n".join([*outcome.lines, *outcome.sentences]))
