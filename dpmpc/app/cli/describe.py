"""`dpmpc describe`: a private Table 1 of a table, by real server processes on this machine.

What `--compare` computes from the rows at hand is for anyone who owns them, and is not private.
"""

from __future__ import annotations

import argparse
from typing import Any

from dpmpc.app.cli.model_options import have_options
from dpmpc.app.cli.options import (
    DATA_HELP,
    add_file_options,
    add_proved,
    add_run_options,
    add_task_options,
    add_verbose,
)
from dpmpc.app.cli.output import OUT_HELP


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    describe = commands.add_parser(
        "describe",
        help="a private Table 1: people, medians, quartiles, means and shares, by group, from one release",
        description="Distributions of all columns from one release, by real server processes on this machine. Bounds "
        "and cells are public: they are never read off the data.",
    )
    describe.add_argument("data", metavar="DATA", nargs="+", help=DATA_HELP)
    describe.add_argument(
        "--bounds",
        metavar="FILE",
        required=True,
        help="TOML with the public bounds, values and cells; only its columns are read",
    )
    have_options(describe, ("table-one",), lambda arguments: "table-one")
    describe.add_argument("--level", type=float, default=0.95, help="of confidence intervals (default %(default)g)")
    describe.add_argument(
        "--compare",
        action="store_true",
        help="show medians and quartiles of the data itself too: not private, for the owner of the data; with --out "
        "also in not_private.json",
    )
    describe.add_argument("--out", metavar="DIR", help=OUT_HELP)
    add_file_options(describe)
    add_proved(describe)
    add_task_options(describe)
    add_run_options(describe)
    add_verbose(describe)
    describe.set_defaults(run=_describe)


def _describe(options: argparse.Namespace) -> None:
    from dpmpc.app.cli.fit import fit_table
    from dpmpc.base.arguments import require_fraction

    fit_table(options, "table-one", level=require_fraction("level", options.level))
