"""`dpmpc bounds`: bounds suggested from data, which is not private."""

from __future__ import annotations

import argparse
from typing import Any

from dpmpc.app.cli.options import DATA_HELP, add_file_options, dialect_of


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    bounds = commands.add_parser("bounds", help="suggest a bounds file from data; looking at data is not private")
    bounds.add_argument("data", metavar="DATA", nargs="+", help=DATA_HELP)
    bounds.add_argument(
        "--columns", nargs="+", metavar="COL", help="these columns only (default: all, which must hold numbers)"
    )
    bounds.add_argument("--drop-missing", action="store_true", help="leave out rows with missing values")
    add_file_options(bounds)
    bounds.set_defaults(run=_bounds)


def _bounds(options: argparse.Namespace) -> None:
    from dpmpc.data.data_checks import suggest
    from dpmpc.data.table_files import read_table

    table = read_table(options.data, options.columns, drop_missing=options.drop_missing, dialect=dialect_of(options))
    print("# Suggested from the data itself, which is NOT private: replace each pair by what is publicly known.")
    if table.dropped:
        print(f"# {table.dropped:,} rows with a missing value were left out.")
    print(suggest(table).to_toml(), end="")
