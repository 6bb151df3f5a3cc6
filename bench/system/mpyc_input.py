"""Arrays into MPyC and through a sketch, ns a word: ours beside MPyC's own input and the kernel alone.

One party, so that nothing is sent, and what more it costs to split words among three: beside drawing one uniform word
for each and writing three arrays, less than which no way can cost. One thread, process CPU time, interleaved runs,
minima. MPyC's own input takes field arrays, which box each word in a Python integer, and is run on fewer words.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.harness import cpu_seconds, machine, markdown, write
from dpmpc.encoding import Mersenne61
from dpmpc.randomness import Stream
from dpmpc.sharing import ShamirSharing
from dpmpc.sketching import OSNAP

CLIENTS, COLUMNS, ROWS, SPARSITY = 100_000, 10, 1000, 4
OWN_CLIENTS = 2_000  # of MPyC's own input
SERVERS, THRESHOLD = 3, 1
RUNS = 11


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench mpyc_input", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each (default %(default)s)")
    runs = parser.parse_args(arguments).runs
    content = {"machine": machine(), "runs": runs, "ns_a_word": measure(runs)}
    text = render(content)
    print(text)
    if runs >= RUNS:
        write("mpyc_input", content, text)


def measure(runs: int) -> dict[str, float]:
    """Return the least CPU time of each step, in ns a word."""
    steps = steps_of(Stream.from_os())
    least = dict.fromkeys(steps, float("inf"))
    for _ in range(runs):
        for name, (words, step) in steps.items():
            least[name] = min(least[name], cpu_seconds(step) / words * 1e9)
    return least


def steps_of(stream: Stream) -> dict[str, tuple[int, Callable[[], Any]]]:
    """List what is measured: the name, how many words it takes, and the step."""
    from mpyc.runtime import mpc  # it reads the arguments of the program that imports it

    from dpmpc.mpyc import shared, sketch

    field, secure = Mersenne61(), mpc.SecFld(Mersenne61.modulus)
    words = field.uniform(stream, (CLIENTS, COLUMNS))
    halves = np.split(words, 2)
    few = words[:OWN_CLIENTS]
    own = secure.array(secure.field.array(few.astype(object)))
    S = OSNAP(ROWS, CLIENTS, SPARSITY, seed=1)
    (array,) = shared(words)
    parts = [shared(half)[0] for half in halves]
    scheme = ShamirSharing(SERVERS, THRESHOLD)
    return {
        "input": (words.size, lambda: shared(words)),
        "a copy of the words": (words.size, words.copy),
        "stacking two inputs": (words.size, lambda: mpc.np_vstack(parts)),
        "sketch": (words.size, lambda: mpc.run(sketch(S, array))),
        "the kernel alone": (words.size, lambda: S.apply(words, ring="mersenne61")),
        "MPyC's own input": (few.size, lambda: mpc.input(own, senders=0)),
        "MPyC's own field array, boxed": (few.size, lambda: secure.field.array(few.astype(object))),
        f"splitting among {SERVERS}": (words.size, lambda: scheme.split(words)),
        f"one uniform word, and {SERVERS} arrays written": (
            words.size,
            lambda: [field.uniform(stream, words.shape), *(np.full_like(words, 1) for _ in range(SERVERS))],
        ),
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    measured, where = content["ns_a_word"], content["machine"]
    kernel = measured["the kernel alone"]
    rows = [[name, f"{ns:.2f}", f"{ns / kernel:.1f}"] for name, ns in measured.items()]
    table = markdown(["step", "ns a word", "times the kernel"], rows)
    heading = (
        f"n = {CLIENTS:,} clients of {COLUMNS} words, k = {ROWS}, s = {SPARSITY}, one copy, p = 2^61 - 1; least of "
    )
    return "\n".join(["# Arrays into MPyC", "", f"{heading}{content['runs']} runs on {where['cpu']}.", "", table])
