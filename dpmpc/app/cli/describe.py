"""`dpmpc describe`: a private Table 1 of a table, by real server processes on this machine.

What `--compare` computes from the rows at hand is for whoever owns them, and is not private.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from dpmpc.app.cli.options import (
    DATA_HELP,
    add_file_options,
    add_proved,
    add_run_options,
    add_task_options,
    dialect_of,
    task_choices,
)
from dpmpc.app.cli.output import OUT_HELP, ResultFolder, new_path


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
    describe.add_argument("--columns", nargs="+", metavar="COL", help="describe these only (default: all with bounds)")
    describe.add_argument("--by", metavar="COL", help="by the values of this column, which the bounds file lists")
    describe.add_argument("--level", type=float, default=0.95, help="of confidence intervals (default %(default)g)")
    describe.add_argument(
        "--compare",
        action="store_true",
        help="show medians and quartiles of the data itself too: not private, for whoever owns the data; with --out "
        "also in not_private.json",
    )
    describe.add_argument("--out", metavar="DIR", help=OUT_HELP)
    add_file_options(describe)
    add_proved(describe)
    add_task_options(describe)
    add_run_options(describe)
    describe.set_defaults(run=_describe)


def _describe(options: argparse.Namespace) -> None:
    from dpmpc.app.cli.fit import hand_out, run_and_fit
    from dpmpc.app.cli.fit_models import TableOneModel
    from dpmpc.base.arguments import require_fraction
    from dpmpc.data import Codebook
    from dpmpc.data.data_checks import warn_of_bounds
    from dpmpc.data.table_files import read_cells
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design

    began = time.perf_counter()
    require_fraction("level", options.level)
    out = None if options.out is None else new_path("out", options.out)
    model = TableOneModel.of(options)
    public = model.bounds(options.bounds)
    choices = {**task_choices(options), "proved": options.proved}
    choices = model.choices(choices, public)  # whatever cannot be counted is refused before data is read
    book = public.codebook
    assert isinstance(book, Codebook)
    table = book.encode(read_cells(options.data, book.sources, dialect=dialect_of(options)), counted=True)
    warn_of_bounds(public, table.values)
    task = design(ReleaseSpec.of(public, len(table), options.epsilon, options.delta, **choices))
    with ResultFolder(out) as kept:
        _, report = run_and_fit(task, table, options, model, kept, began=began)
        hand_out(options, kept, report, model.compare(table) if options.compare else None)
