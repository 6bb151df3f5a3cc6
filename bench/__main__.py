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
from pathlib import Path

from bench.registry import BENCHES
from dpmpc.base.errors import BenchFailed
from dpmpc.base.exits import exit_status

ROOT = Path(__file__).parents[1]
ALL, SHORT, PAGE = "all", "short", "page"
SETS = {
    ALL: "every bench, one after another; --short: in its short form",
    SHORT: "the benches of speed that are marked with *, in their short forms: some minutes",
    PAGE: "draw docs/benchmarks.md and its plots again from the results",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is named; return the exit status."""
    options = parser().parse_args(argv)
    return exit_status(lambda: run(options.name, options.arguments))


def parser() -> argparse.ArgumentParser:
    """Build the parser."""
    top = argparse.ArgumentParser(
        prog="python -m bench",
        description="A table or figure of a paper, or a measurement beside its peers.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=listing(),
    )
    top.add_argument("name", type=full_name, choices=(*SETS, *BENCHES), metavar="NAME", help="see below")
    top.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="of the bench: --help tells them; every bench has --short"
    )
    return top


def full_name(given: str) -> str:
    """Return the name of a bench with its folder; the folder may be left out where only one bench bears the name."""
    name = given.replace("-", "_")
    found = [one for one in BENCHES if one.rpartition(".")[2] == name]
    if len(found) > 1:
        raise argparse.ArgumentTypeError(f"{given!r} given, one of {', '.join(found)} expected")
    return found[0] if found else name


def listing() -> str:
    """Return what can be run, a line each."""
    sets = [f"  {name:<28} {about}" for name, about in SETS.items()]
    single = [
        f"{'*' if bench.brief else ' ':>2} {name:<27} {bench.about}; beside {bench.peers}"
        for name, bench in BENCHES.items()
    ]
    return "\n".join([*sets, "", *single])


def run(name: str, arguments: Sequence[str]) -> None:
    """Run one bench in this process, or several in processes of their own."""
    if name in (ALL, SHORT):
        run_several(chosen(name, arguments))
        return
    if name == PAGE:
        importlib.import_module("bench.system.performance_page").main(arguments)
        return
    spelled = [word for given in arguments for word in (BENCHES[name].short if given == "--short" else (given,))]
    importlib.import_module(f"bench.{name}").main(spelled)


def chosen(name: str, arguments: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the benches of a set, each with its arguments."""
    options = argparse.ArgumentParser(prog=f"python -m bench {name}", description=SETS[name])
    options.set_defaults(short=name == SHORT)
    if name == ALL:
        options.add_argument("--short", action="store_true", help="short forms, which write no results")
    short = options.parse_args(arguments).short
    return {one: bench.short if short else () for one, bench in BENCHES.items() if name == ALL or bench.brief}


def run_several(benches: dict[str, tuple[str, ...]]) -> None:
    """Run benches one after another, but for those that lack something here: these are named, with the reason."""
    failed, skipped, began = [], [], time.perf_counter()
    for number, (name, arguments) in enumerate(benches.items(), 1):
        lacking = BENCHES[name].lacks()
        if lacking is not None:
            _tell(f"{number} of {len(benches)}: {name} SKIPPED: {lacking}")
            skipped.append(name)
            continue
        _tell(f"{number} of {len(benches)}: {' '.join([name, *arguments])}")
        started = time.perf_counter()
        status = subprocess.run([sys.executable, "-m", "bench", name, *arguments], cwd=ROOT, check=False).returncode
        ending = "done" if status == 0 else f"FAILED with exit status {status}"
        _tell(f"{name} {ending} after {time.perf_counter() - started:.0f} s")
        if status != 0:
            failed.append(f"{name} ({status})")
    done = len(benches) - len(failed) - len(skipped)
    passed_over = f", {len(skipped)} skipped ({', '.join(skipped)})" if skipped else ""
    _tell(f"{done} of {len(benches)} done in {time.perf_counter() - began:.0f} s{passed_over}")
    if failed:
        raise BenchFailed("bench", f"{len(failed)} of {len(benches)} failed, with exit status: {', '.join(failed)}")


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
