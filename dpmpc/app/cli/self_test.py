"""Whether this machine computes what it should: kernels against known answers, and three servers on the loopback.

Every kernel is run with every instruction set that the processor has. The known answers are some of those in
``tests/vectors``, which slow references in Python integers give.

Not promised: more than these cases; the tests hold the others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import numpy as np

from dpmpc._kernels import dense, sketch
from dpmpc.base.randomness import Stream
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.noise import noise_from
from dpmpc.linear.sharing.batch import SeededShare
from dpmpc.linear.sketching import sketch_from

SERVERS = 3
CLIENTS = 5000


def known_answers() -> dict[str, list[dict[str, Any]]]:
    """Return the known answers that the package holds, by subject."""
    path = resources.files("dpmpc.app.cli") / "known_answers.json"
    read: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())
    return read


def wrong_answers() -> tuple[int, list[str]]:
    """Compare the kernels with the known answers."""
    known = known_answers()
    compared, wrong = 0, []
    for kind, answer in _ANSWERS.items():
        for name in sketch.instruction_sets() if kind in _BY_INSTRUCTION_SET else ("",):
            with _instruction_set(name):
                for place, case in enumerate(known[kind]):
                    compared += 1
                    if not answer(case):
                        wrong.append(f"{kind}[{place}]" + (f" with {name}" if name else ""))
    return compared, wrong


def network_seconds(deadline: float = 30.0) -> float:
    """Release a sum among three servers and an analyst over TLS on the loopback; return the seconds."""
    from dpmpc.data import Schema
    from dpmpc.parties.networked import run
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design

    began = time.perf_counter()
    task = design(ReleaseSpec.of(Schema.unit(["x", "y"]), CLIENTS, 1.0, 1e-6, servers=SERVERS, sketch="sum"))
    run(task, np.zeros((CLIENTS, 2)), deadline=deadline)
    return time.perf_counter() - began


@contextmanager
def _instruction_set(name: str) -> Iterator[None]:
    """Run the kernels of public matrices with one instruction set; afterwards with the best again."""
    kernels = (sketch, dense) if name else ()
    for kernel in kernels:
        kernel.use_instruction_set(name)
    try:
        yield
    finally:
        for kernel in kernels:
            kernel.use_instruction_set(kernel.instruction_sets()[-1])


def _philox(case: dict[str, Any]) -> bool:
    counter, key, result = ([int(word, 16) for word in case[name].split()] for name in ("counter", "key", "result"))
    return list(sketch.philox(counter, key)) == result


def _sum(case: dict[str, Any]) -> bool:
    words = np.array(case["X"], np.uint64)
    found = sketch_from(case["sketch"]).apply(words, ring=case["ring"], first=case["first"])
    return bool(found.tolist() == case["Y"])


def _expanded(case: dict[str, Any]) -> bool:
    first, count = case["first"], len(case["words"])
    share = SeededShare(bytes.fromhex(case["key"]), (first + count,), case["ring"])
    return bool(share.rows(first, count).tolist() == case["words"])


def _box(case: dict[str, Any]) -> bool:
    z = [float.fromhex(number) for number in case["z"]]
    found = FixedPoint(case["fractional_bits"]).encode(z, float.fromhex(case["lower"]), float.fromhex(case["upper"]))
    return bool(found.tolist() == case["q"])


def _ball(case: dict[str, Any]) -> bool:
    z = [float.fromhex(number) for number in case["z"]]
    return bool(FixedPoint(case["fractional_bits"]).encode_ball(z, float.fromhex(case["radius"])).tolist() == case["q"])


def _noise(case: dict[str, Any]) -> bool:
    drawn = noise_from(case["noise"]).sample(len(case["sample"]), Stream(bytes.fromhex(case["key"])))
    return bool(drawn.tolist() == case["sample"])


_ANSWERS = {"philox": _philox, "sums": _sum, "expand": _expanded, "box": _box, "ball": _ball, "noise": _noise}
_BY_INSTRUCTION_SET = ("philox", "sums")
