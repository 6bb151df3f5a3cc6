"""MP-SPDZ beside our servers: the same shares, n, k, d and s, the same cores, in the same run.

All parties of both read their shares as words from their disks: no server of ours has a key in place of its words here.

MP-SPDZ is the user's own (`--home`); without one the bench says how to get it. Every setting of Tables 3 and 4, and
five parties besides, is compiled once and run several times; between its runs our servers run on the very same shares,
and both have to open the same sums, word for word. MP-SPDZ's timers count seconds on the clock, so ours are on the
clock here too. Where there are enough cores each of its parties has one of its own, and our servers share the same.

What is timed of MP-SPDZ: reading the shares, the transform, vectorised (with the public matrix sorted beforehand, which
is not timed) and as a plain loop, and the opening. Compiling is counted apart; our servers have nothing to compile.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import RESULTS, machine, markdown, summary, write
from bench.secure_sketching.mp_spdz_home import (
    PHASES,
    PartyFigures,
    Shape,
    compile_program,
    cores_for,
    home_of,
    make_certificates,
    require_sums,
    run_parties,
    sorted_by_row,
    version_of,
    write_public,
    write_share,
)
from bench.secure_sketching.plain_mpyc_runs import as_words, figures
from bench.secure_sketching.setting import CLIENTS, COLUMNS, ROWS, Setting, task_of
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.parties.networked import NetworkedRun, run_servers
from dpmpc.release.client import share_batch

NAME, TITLE = "mp_spdz", "MP-SPDZ (semi2k) beside our servers"
SPARSITIES, SERVERS = (1, 4, 8), (2, 3, 5)
RUNS = 3
SHORT_CLIENTS = 2000
ABOUT = "MP-SPDZ, semi2k: additive shares over Z_2^64; seconds on the clock, medians over runs and parties"


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the comparison."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {NAME}", description=TITLE)
    parser.add_argument("--home", type=Path, metavar="DIR", help="the folder of your MP-SPDZ, compiled")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of every setting (default %(default)s)")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="the n (default: those of Table 3)")
    parser.add_argument("--sparsity", type=int, nargs="+", default=SPARSITIES, help="the s (default: 1 4 8)")
    parser.add_argument("--servers", type=int, nargs="+", default=SERVERS, help="how many parties (default: 2 3 5)")
    parser.add_argument(
        "--short", action="store_true", help=f"{SHORT_CLIENTS} clients, s = 1, one run; written only if --out is given"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"where results are written (default {RESULTS})")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        raise InputError("runs", options.runs, "at least 1")
    home = home_of(options.home)
    if options.short:
        options.clients, options.sparsity, options.runs = (SHORT_CLIENTS,), (1,), 1
    settings = [Setting(n, s, m) for m in options.servers for s in options.sparsity for n in options.clients]
    measured = []
    for setting in settings:
        print(f"{NAME}: {setting}", file=sys.stderr)
        measured.append(measure(home, setting, options.runs))
    content = {
        "about": ABOUT,
        "transcribed": False,
        "machine": machine(),
        "version": version_of(home),
        "runs": options.runs,
        "columns": COLUMNS,
        "rows": ROWS,
        "measured": measured,
    }
    text = render(content)
    print(text)
    folder = options.out or (None if options.short else RESULTS)
    if folder is not None:
        write(NAME, content, text, folder)


def measure(home: Path, setting: Setting, runs: int) -> dict[str, Any]:
    """Run one setting on MP-SPDZ and on our servers in turn, from the same shares."""
    task = task_of(setting)
    rows = np.random.default_rng(setting.clients).uniform(-1, 1, (setting.clients, COLUMNS))
    shares = as_words(share_batch(task, rows, stream=Stream.from_seed(setting.clients)))
    places, signs = task.sketch.entries(0, setting.clients)
    depth = len(sorted_by_row(places, signs, ROWS))
    shape = Shape(setting.clients, setting.sparsity, COLUMNS, ROWS, depth)
    theirs: list[PartyFigures] = []
    ours: list[NetworkedRun] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_s = compile_program(home, folder, shape)
        make_certificates(home, folder, setting.servers)
        write_public(folder, shape, places, signs)
        for party, share in enumerate(shares):
            write_share(folder, party, share)
        for _ in range(runs):
            theirs += run_parties(home, folder, shape, setting.servers)
            with on_cores(cores_for(setting.servers)):
                ours.append(run_servers(task, shares))
            require_sums(folder, shape, ours[-1].release.sums)
    sent = [party.sent_mb for party in theirs]
    return {
        **dataclasses.asdict(setting),
        "compile_s": compile_s,
        "pinned": cores_for(setting.servers) is not None,
        **{phase: statistics.median(party.wall_s[phase] for party in theirs) for phase in PHASES},
        "sent_mb": {**summary(sent), "max": max(sent)},
        "peak_rss_mb": max(party.peak_rss_mb for party in theirs),
        "ours": figures(ours),
    }


@contextlib.contextmanager
def on_cores(cores: list[int] | None) -> Iterator[None]:
    """Let this process, and what it starts, use these cores only; all that there are if None."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, before if cores is None else cores)
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclasses.dataclass(frozen=True)
class Pair:
    """MP-SPDZ and our servers at one setting: medians, on one clock."""

    clients: int
    sparsity: int
    theirs: dict[str, float]
    ours: dict[str, float]


def pairs(content: Mapping[str, Any], table3: Mapping[str, Any], servers: int = 3) -> list[Pair]:
    """Pair a file of results with our figures: of the same run, or of Table 3 where the file is transcribed."""
    found, of = [], "min" if content["transcribed"] else "median"  # Table 3 has no medians of each server
    for entry in content["measured"]:
        if entry.get("servers", content.get("servers")) != servers:
            continue
        shape = {"clients": entry["clients"], "sparsity": entry["sparsity"], "servers": servers}
        if content["transcribed"]:
            own = next(one for one in table3["measured"] if shape.items() <= one.items())
        else:
            own = entry["ours"]
        seconds = {phase: float(own["phases"][phase][f"{clock(content)}_s"][of]) for phase in own["phases"]}
        theirs = {phase: float(entry[phase]) for phase in PHASES}
        found.append(Pair(entry["clients"], entry["sparsity"], theirs, seconds))
    return found


def clock(content: Mapping[str, Any]) -> str:
    """Return what the seconds of a file of results count: "cpu" of the transcribed one, "wall" of a run."""
    return "cpu" if content["transcribed"] else "wall"


def render(content: Mapping[str, Any]) -> str:
    """Return the Markdown page."""
    rows = []
    for entry in content["measured"]:
        ours = {phase: value["wall_s"]["median"] for phase, value in entry["ours"]["phases"].items()}
        rows.append(
            [
                *(f"{entry[name]:,}" for name in ("clients", "sparsity", "servers")),
                *(f"{entry[phase]:.4f} ({entry[phase] / ours[phase]:.0f})" for phase in ("read", "transform")),
                f"{entry['loop']:.4f} ({entry['loop'] / ours['transform']:.0f})",
                f"{entry['open']:.4f} ({entry['open'] / ours['open']:.1f})",
                *(f"{ours[phase]:.4f}" for phase in ("read", "transform", "open")),
                f"{entry['sent_mb']['mean']:.4f}",
                f"{entry['ours']['phases']['open']['sent_mb']['mean']:.4f}",
                f"{entry['peak_rss_mb']:.0f}",
                f"{entry['ours']['peak_rss_mb']:.0f}",
                f"{entry['compile_s']:.1f}",
                "yes" if entry["pinned"] else "no",
            ]
        )
    headings = (
        *("n", "s", "servers", "read (s)", "transform (s)", "plain loop (s)", "open (s)"),
        *("ours: read (s)", "ours: transform (s)", "ours: open (s)", "open sends (MB)", "ours: open sends (MB)"),
        *("peak RSS (MB)", "ours: peak RSS (MB)", "compile (s)", "a core each"),
    )
    where = content["machine"]
    return "\n".join(
        [
            f"# {TITLE}",
            "",
            f"MP-SPDZ {content['version']}; d = {COLUMNS}, k = {ROWS}; medians over parties and {content['runs']} "
            "runs, seconds on the clock; in brackets: times ours, of the same run on the same shares. Both open the "
            f"same sums. {where['cpu']}, {where['cores']} cores, {where['date']}.",
            "",
            markdown(headings, rows),
        ]
    )
