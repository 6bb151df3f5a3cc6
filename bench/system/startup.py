"""How long a fresh interpreter takes to start with dpmpc, and for `dpmpc read`, against importing NumPy and SciPy.

Each way is a process of its own, run once per round, in turn. Seconds are CPU seconds of that process, in all of its
threads. Both releases have ten columns. Reading a sketch needs quantiles of the t distribution, for which SciPy is
imported.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import machine, markdown, summary, write
from dpmpc import ReleaseSpec, design, simulate
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema

RUNS, SHORT_RUNS = 21, 3
PEOPLE = 4000
GOAL = 3.3  # times importing NumPy, at most
WAYS = {  # name -> arguments of Python
    "import numpy": ("-c", "import numpy"),
    "import scipy.special": ("-c", "import scipy.special"),
    "import dpmpc": ("-c", "import dpmpc"),
    "dpmpc read, a sum": ("-m", "dpmpc", "read", "sum", "--target", "y"),
    "dpmpc read, a sketch": ("-m", "dpmpc", "read", "osnap", "--target", "y"),
}


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench startup", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help=f"{SHORT_RUNS} rounds; nothing is written")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="dpmpc-startup-") as folder:
        prepare(Path(folder))
        seconds = measure(Path(folder), SHORT_RUNS if chosen.short else RUNS)
    content = {"machine": machine(), "seconds": seconds}
    text = render(content)
    print(text)
    if not chosen.short:
        write("startup", content, text)


def prepare(folder: Path) -> None:
    """Write a release of a sum and one of a sketch, of people made up for the purpose."""
    table = np.random.default_rng(1).uniform(-1, 1, (PEOPLE, 10))
    schema = Schema.unit([*(f"x{column}" for column in range(9)), "y"])
    for sketch in ("sum", "osnap"):
        spec = ReleaseSpec.of(schema, PEOPLE, 3.0, 1e-6, sketch=sketch, simulation_seed=1)
        simulate(design(spec), table, stream=Stream.from_seed(1)).save(folder / sketch)


def measure(folder: Path, runs: int) -> dict[str, dict[str, float]]:
    """Run every way in turn: way -> summary of its CPU seconds."""
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(runs):
        for way, arguments in WAYS.items():
            before = _seconds_of_children()
            subprocess.run(
                [sys.executable, *arguments],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            taken[way].append(_seconds_of_children() - before)
    return {way: summary(seconds) for way, seconds in taken.items()}


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def render(content: dict[str, Any]) -> str:
    """Lay out the table."""
    numpy = content["seconds"]["import numpy"]["median"]
    rows = [
        [way, f"{1e3 * found['median']:.0f}", f"{found['median'] / numpy:.2f}"]
        for way, found in content["seconds"].items()
    ]
    return (
        "# Starting\n\nCPU milliseconds of a process, median of interleaved runs. The goal for `import dpmpc` and for "
        f"reading a sum is at most {GOAL} times importing NumPy. {content['machine']['cpu']}, "
        f"{content['machine']['date']}.\n\n" + markdown(["way", "ms", "times importing NumPy"], rows)
    )
