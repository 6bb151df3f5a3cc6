"""Our sums over three servers beside methods of a trusted curator, on seven data sets at hand, or on your own.

All have the same replace-one (epsilon, delta), the same public bounds and the same rows; each peer is written from its
paper (`moments`, `mixing`, `gradients`, `tukey`), its privacy at replace-one derived in its docstring. With ``--data``
the methods run on a table of your own, and diffprivlib and OpenDP beside them where they are installed (`libraries`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.curators.libraries import MODULES, lacking
from bench.curators.measuring import METHODS, Comparison, add_options, run
from bench.curators.page import NOT_PRIVATE
from bench.curators.problem import SETS, RegressionSet
from bench.harness import RESULTS
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.table_files import read_cells, read_table

CENTRAL = Comparison("central", {"Seven sets": SETS}, runs=60, short=SETS[1:3])


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the page and its plot."""
    parser = argparse.ArgumentParser(prog="python -m bench central", description=__doc__.splitlines()[0])
    add_options(parser, CENTRAL)
    parser.add_argument("--data", metavar="FILE", help="a table of your own (CSV or Parquet) in place of the sets")
    parser.add_argument("--bounds", metavar="FILE", help="with --data: its public bounds, as dpmpc fit reads them")
    parser.add_argument("--target", metavar="COL", help="with --data: what is predicted (default: the last column)")
    options = parser.parse_args(arguments)
    if options.data is None and options.bounds is None and options.target is None:
        options.out = options.out or RESULTS
        run(CENTRAL, options)
        return
    if options.data is None or options.bounds is None:
        raise InputError("data, bounds", "one of the two", "both", condition="for a table of your own")
    if options.only or options.short:
        raise InputError("data", "given with --only or --short, neither expected for a table of your own")
    print(f"central: {NOT_PRIVATE}", file=sys.stderr, flush=True)
    run(own(own_set(options.data, options.bounds, options.target)), options)


def own(one: RegressionSet) -> Comparison:
    """Return the comparison on one set of your own, with the libraries that are installed."""
    lacks = {name: why for name in MODULES if (why := lacking(name)) is not None}
    methods = [name for name in METHODS if name not in lacks]
    return Comparison("own", {"Your data": [one]}, runs=15, short=(), first_number=40, methods=methods, missing=lacks)


def own_set(data: str, bounds: str, target: str | None = None) -> RegressionSet:
    """Return a table of one's own, which may have categories; its target is the last column unless another is named."""
    public = Schema.from_toml(bounds)
    if public.weighted:
        raise InputError("bounds", f"{bounds} has weights or rows of zeros, neither expected in a comparison")
    names = public.names
    if target is not None and target not in names:
        raise InputError("target", f"{target!r}", f"one of {', '.join(names)}")
    if len(names) < 2:
        raise InputError("bounds", f"{bounds} has {len(names)} column, a target and at least one feature expected")
    book = public.codebook
    chosen = target or names[-1]

    def load() -> Table:
        if isinstance(book, Codebook):
            return book.encode(read_cells([data], book.sources), chosen)
        return read_table([data], names)

    return RegressionSet(Path(data).name, load, Schema(public.columns), chosen, "whole", Path(bounds).name)
