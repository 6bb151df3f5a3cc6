"""`python -m bench`: one table or figure, the short set, all of them, or the page on performance.

Of several, each runs in a process of its own: none inherits another's memory or threads, and one that fails does not
hide the others. What failed is told at the end, with exit status 1. Pages go to standard output, progress to standard
error.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench.registry import BENCHES
from dpmpc.errors import BenchFailed

ALL, SHORT, PAGE = "all", "short", "page"
SETS = {
    ALL: "every bench, one after another; --short: in its short form",
    SHORT: "the benches of speed that are marked with *, in their short forms: some minutes",
    PAGE: "draw docs/performance.md and its plots again from the results",
}


def add_commands(commands: Any) -> None:
    """Add the command to the parser's."""
    bench = commands.add_parser(
        "bench",
        help="a table or figure of a paper, or a measurement beside its peers",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=listing(),
    )
    bench.add_argument(
        "name", type=lambda name: name.replace("-", "_"), choices=(*SETS, *BENCHES), metavar="NAME", help="see below"
    )
    bench.add_argument("arguments", nargs=argparse.REMAINDER, help="of the bench: --help tells them")
    bench.set_defaults(run=_bench)


def listing() -> str:
    """Return what can be run, a line each."""
    sets = [f"  {name:<18} {about}" for name, about in SETS.items()]
    single = [
        f"{'*' if bench.brief else ' ':>2} {name:<17} {bench.about}; beside {bench.peers}"
        for name, bench in BENCHES.items()
    ]
    return "\n".join([*sets, "", *single])


def _bench(options: argparse.Namespace) -> None:
    if options.name in (ALL, SHORT):
        run_several(chosen(options.name, options.arguments))
        return
    module = "performance_page" if options.name == PAGE else options.name
    importlib.import_module(f"dpmpc.bench.{module}").main(options.arguments)


def chosen(name: str, arguments: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the benches of a set, each with its arguments."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=SETS[name])
    parser.set_defaults(short=name == SHORT)
    if name == ALL:
        parser.add_argument("--short", action="store_true", help="short forms, which write no results")
    short = parser.parse_args(arguments).short
    return {one: bench.short if short else () for one, bench in BENCHES.items() if name == ALL or bench.brief}


def run_several(benches: dict[str, tuple[str, ...]]) -> None:
    """Run benches one after another.

    Parameters
    ----------
    benches : dict
        Name -> arguments.

    Raises
    ------
    BenchFailed
        After the last one, if any ended with an error.
    """
    failed, began = [], time.perf_counter()
    for number, (name, arguments) in enumerate(benches.items(), 1):
        _tell(f"{number} of {len(benches)}: {' '.join([name, *arguments])}")
        started = time.perf_counter()
        command = [sys.executable, "-P", "-m", "dpmpc", "bench", name, *arguments]
        status = subprocess.run(command, check=False).returncode
        ending = "done" if status == 0 else f"FAILED with exit status {status}"
        _tell(f"{name} {ending} after {time.perf_counter() - started:.0f} s")
        if status != 0:
            failed.append(f"{name} ({status})")
    _tell(f"{len(benches) - len(failed)} of {len(benches)} done in {time.perf_counter() - began:.0f} s")
    if failed:
        raise BenchFailed(f"bench: {len(failed)} of {len(benches)} failed, with exit status: {', '.join(failed)}")


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
