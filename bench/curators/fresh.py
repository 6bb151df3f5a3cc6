"""The same methods on data sets that nobody tuned on.

The constants of the fit in rounds were frozen before the first nine sets were opened. Columns, bounds and thinning of
three more were fixed in a commit before any method ran on them (`fresh_sets`). Losses are listed as wins are.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bench.curators.fresh_sets import NAMED_BEFORE, OPENED
from bench.curators.measuring import Comparison, add_options, run
from bench.harness import RESULTS

FRESH = Comparison(
    "fresh",
    {
        "Nine sets, opened after the constants were frozen": OPENED,
        "Three sets, named before any method ran on them": NAMED_BEFORE,
    },
    runs=15,
    short=(OPENED[-1],),
    first_number=20,
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the page and its plot."""
    parser = argparse.ArgumentParser(prog="python -m bench fresh", description=__doc__.splitlines()[0])
    add_options(parser, FRESH)
    options = parser.parse_args(arguments)
    options.out = options.out or RESULTS
    run(FRESH, options)
