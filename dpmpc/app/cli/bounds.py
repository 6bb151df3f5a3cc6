"""`dpmpc bounds`: a codebook drafted from data, which is not private."""

from __future__ import annotations

import argparse
from typing import Any

from dpmpc.app.cli.options import DATA_HELP, add_file_options, dialect_of


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    bounds = commands.add_parser("bounds", help="draft a bounds file from data; looking at data is not private")
    bounds.add_argument("data", metavar="DATA", nargs="+", help=DATA_HELP)
    bounds.add_argument("--columns", nargs="+", metavar="COL", help="these columns only (default: all)")
    add_file_options(bounds)
    bounds.set_defaults(run=_bounds)


def _bounds(options: argparse.Namespace) -> None:
    from dpmpc.data.draft import draft

    guessed = options.separator is None and options.decimal == "."
    drafted = draft(options.data, options.columns, dialect=None if guessed else dialect_of(options))
    print(drafted.to_toml(), end="")
