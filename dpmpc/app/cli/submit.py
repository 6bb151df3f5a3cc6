"""`dpmpc submit`: make a report of each row and send it to all servers of a collection.

Rows are read as the collection's bounds file states: numbers, or words, dates and missing values where it has a
codebook. Neither a row nor a ticket is ever given on a command line, which everybody on the machine may read.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.options import seconds
from dpmpc.app.cli.output import progress
from dpmpc.base.errors import InputError
from dpmpc.base.untrusted import ReadError, printable, read_bytes

if TYPE_CHECKING:
    from dpmpc.base.arrays import Reals
    from dpmpc.data import Schema
    from dpmpc.data.table import Cells


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    submit = commands.add_parser("submit", help="send rows to all servers of a collection; safe to repeat")
    submit.add_argument("collection", metavar="COLLECTION", help="the task file")
    submit.add_argument("data", nargs="?", metavar="DATA", help="CSV or Parquet, a report for each row")
    submit.add_argument("--row", metavar="FILE", help="one row instead: COL=VALUE on each line; - is standard input")
    submit.add_argument("--rows", nargs=2, type=int, metavar=("FIRST", "LAST"), help="these rows only, counted from 1")
    submit.add_argument("--tickets", metavar="FILE", help="CSV of tickets, one for each row")
    submit.add_argument("--door", metavar="URL", help="one server's web address, which hands reports on to all")
    submit.add_argument(
        "--state", metavar="FILE", help="keeps what is not acknowledged (default: submission-DIGEST.state)"
    )
    submit.add_argument("--concurrency", type=int, default=8, metavar="N", help="requests to a server at a time")
    submit.add_argument("--batch", type=int, default=1, metavar="N", help="reports per request (default %(default)s)")
    submit.add_argument("--seconds", type=seconds, default=3600.0, help="longest time in all (default %(default)g)")
    submit.set_defaults(run=_submit)


def _submit(options: argparse.Namespace) -> None:
    from dpmpc.collect.terms.task_file import Collection

    collection = Collection.load(options.collection)
    if (options.data is None) == (options.row is None):
        raise InputError("data, row", "give a file or --row, one of the two")
    rows = _rows(options, collection.plan.schema)
    with progress() as on_progress:
        done = _send(options, collection, rows, lambda got, needed: on_progress("acknowledged", got / needed))
    by_whom = collection.proxies if options.door is None else f", according to the door {printable(options.door)}"
    print(f"{done.reports} {'report' if done.reports == 1 else 'reports'}: acknowledged by every server{by_whom}")


def _send(options: argparse.Namespace, collection: Any, rows: Any, on_progress: Callable[[int, int], None]) -> Any:
    """Send a report for each row; return what became of them."""
    from dpmpc.collect.upload.roster import read_tickets
    from dpmpc.collect.upload.submission import Submission

    submission = Submission(
        collection=collection,
        state=options.state or f"submission-{collection.digest.hex()[:16]}.state",
        tickets=None if options.tickets is None else read_tickets(options.tickets),
        batch=options.batch,
        concurrency=options.concurrency,
        seconds=options.seconds,
        door=options.door,
        tell=lambda line: print(f"dpmpc submit: {line}", file=sys.stderr, flush=True),
        on_progress=on_progress,
    )
    done = submission.run(rows)
    if done.finished_before and submission.tickets is None:
        raise InputError(
            "state",
            f"{submission.state} is that of a finished submission, whose rows it has forgotten: nothing was "
            "sent. For the same rows there is nothing to do; for others another file is expected",
        )
    return done


def _rows(options: argparse.Namespace, public: Schema) -> Reals:
    """Read the rows: numbers, or whatever the bounds have a codebook for."""
    import numpy as np

    from dpmpc.data import Codebook
    from dpmpc.data.table_files import read_cells, read_table

    if isinstance(book := public.codebook, Codebook):
        cells = read_cells(options.data, book.sources) if options.row is None else _cells(options.row, book.sources)
        values = book.encode(cells).select(public.names).values
    elif options.row is None:
        values = read_table(options.data, public.names).values
    else:
        values = np.array([_read_row(_pairs(options.row, public.names, "NUMBER"), public.names)])
    first, last = options.rows or (1, len(values))
    if not 1 <= first <= last <= len(values):
        raise InputError("rows", f"{first} to {last}", f"rows within 1 to {len(values)}")
    return values[first - 1 : last]


def _cells(path: str, names: Sequence[str]) -> Cells:
    """Read one row of words; a variable that is not named is missing."""
    from dpmpc.data.table import Cells

    found = _pairs(path, names, "VALUE")
    return Cells.of_row({name: found.get(name) for name in names}, "row")


def _lines(path: str) -> list[str]:
    """Return the lines of a file or of standard input, without the empty ones."""
    try:
        text = sys.stdin.read() if path == "-" else read_bytes(path).decode("utf-8")
    except (OSError, ReadError, UnicodeDecodeError) as error:
        raise InputError("row", f"{path} cannot be read: {type(error).__name__}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _pairs(path: str, names: Sequence[str], what: str) -> dict[str, str]:
    """Read COLUMN=... on each line, in any order; errors quote no value, which is nobody's business."""
    found: dict[str, str] = {}
    for line in _lines(path):
        name = max((one for one in names if line.startswith(f"{one}=")), key=len, default=None)
        if name is None or name in found:
            raise InputError("row", f"COLUMN={what} on each line expected, each once of {', '.join(names)}")
        found[name] = line.removeprefix(f"{name}=").strip()
    return found


def _read_row(found: dict[str, str], names: Sequence[str]) -> list[float]:
    """Read a number for each column."""
    values = []
    for name in names:
        if name not in found:
            missing = [name for name in names if name not in found]
            raise InputError("row", f"none given for {', '.join(missing)}, a number for each column expected")
        try:
            value = float(found[name])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError("row", f"COLUMN=NUMBER on each line expected, each once of {', '.join(names)}")
        values.append(value)
    return values
