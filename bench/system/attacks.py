"""Attacks on a collection whose clients prove what they share, and a million false reports of each sort.

Each attack of the registry that the tests have (`tests/support/hostile/attacks.py`) is played against three servers, as
parties of this process, that hold honest reports: the servers' own door, verification and opening decide, without
noise, so that sums are compared exactly with those of the honest rows. Then false statements with proofs computed as
honest clients do, and honest reports changed on the way, go through the library's prover and servers at full size:
d = 10 columns, f = 11 bits, a ball of radius 1. None may be accepted, and no honest one refused.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.harness import machine, markdown, write
from bench.system.changed_reports import CHANGES, Tried, try_changes, try_lies
from bench.system.false_reports import LIES, full_size
from dpmpc.base.errors import ProtocolFailure
from dpmpc.linear.proving.decide import soundness_error
from dpmpc.linear.sharing import AdditiveSharing

MANY, SERVERS, SEED = 1_000_000, 3, 1
TESTS = Path(__file__).parents[2] / "tests"


def main(arguments: Sequence[str]) -> None:
    """Play, count, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench attacks", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=MANY, help="false reports of each sort (default %(default)s)")
    chosen = parser.parse_args(arguments)
    circuit, scheme = full_size(), AdditiveSharing(SERVERS, "mersenne61")
    with tempfile.TemporaryDirectory(prefix="dpmpc-attacks-") as folder:
        attacks = list(play_all(Path(folder)))
    counts = {}
    for sort, kinds, count in (("statements", LIES, try_lies), ("changes", CHANGES, try_changes)):
        began = time.perf_counter()
        tried = [vars(one) for one in told(count(circuit, scheme, -(-chosen.count // len(kinds)), SEED))]
        counts[sort] = {"tried": tried, "seconds": time.perf_counter() - began}
    content = {
        "machine": machine(),
        "attacks": attacks,
        "counts": counts,
        "bound": soundness_error(circuit, scheme, 2 * chosen.count, hashes=1.0),
    }
    text = render(content)
    print(text)
    require_expected(content)
    if chosen.count == MANY:
        write("attacks", content, text)


def play_all(folder: Path) -> Iterator[dict[str, Any]]:
    """Play each attack on servers of its own; yield what it says and what was seen."""
    sys.path.append(str(TESTS))  # after this checkout's root: tests/ has a folder `bench` too
    registry, stage = (importlib.import_module(f"support.hostile.{name}") for name in ("attacks", "stage"))
    originals = {about: stage.stage_in(folder / about, about) for about in stage.COLLECTED}
    for number, (name, attack) in enumerate(registry.ATTACKS.items()):
        print(f"attacks: {number + 1} of {len(registry.ATTACKS)}, {name}", file=sys.stderr, flush=True)
        root, original = folder / str(number), originals[attack.about]
        shutil.copytree(original.root, root)
        deployment = type(original)(root, original.collection, original.ids, original.records, original.ports)
        seen = stage.played(attack, deployment)
        shutil.rmtree(root)
        yield {
            "name": name,
            "by": attack.by,
            "does": attack.does,
            "expected": attack.outcome,
            "seen": seen.outcome,
            "cause": attack.cause if attack.cause in seen.cause else seen.cause,
            "honest": seen.honest,
            "released": seen.released,
        }


def told(tried: Iterator[Tried]) -> Iterator[Tried]:
    """Say how far it is."""
    for one in tried:
        print(f"attacks: {one.kind}: {one.accepted:,} of {one.tried:,} accepted", file=sys.stderr, flush=True)
        yield one


def require_expected(content: dict[str, Any]) -> None:
    """Raise unless everything came as it is promised."""
    surprises = [f"{one['name']}: {one['seen']}" for one in content["attacks"] if one["seen"] != one["expected"]]
    for part in content["counts"].values():
        honest, *false = part["tried"]
        surprises += [f"{one['kind']}: {one['accepted']} accepted" for one in false if one["accepted"]]
        surprises += [f"{honest['kind']}: {honest['accepted']} accepted"] * (honest["accepted"] != honest["tried"])
    if surprises:
        raise ProtocolFailure(f"attacks: {'; '.join(surprises)}")


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where, attacks = content["machine"], content["attacks"]
    rows = [
        [one["by"], one["does"], one["seen"], one["cause"] or "-", str(one["honest"]), str(one["released"])]
        for one in attacks
    ]
    works = [f"{one['by']} that {one['does']}" for one in attacks if one["seen"] == "spoils the release"]
    return "\n".join(
        [
            "# Attacks on proved reports",
            "",
            f"{len(attacks)} attacks, each on {SERVERS} servers with additive shares that hold {attacks[0]['honest']} "
            "reports of honest clients, second moments of three columns in a ball, or cells of two grids; sums are "
            f"compared with those of the honest rows. {where['cpu']}, {where['date']}.",
            "",
            markdown(["by", "what it does", "what comes of it", "cause", "honest reports", "released"], rows),
            "",
            f"What works, of all these: {'; '.join(works) or 'nothing'}. With additive shares nothing promises that it "
            "fails; with Shamir shares such messages lie on no polynomial (theorem proof-soundness).",
            "",
            *counted(content, "statements", "False statements, each with a proof computed as an honest client does"),
            *counted(content, "changes", "Honest reports, changed after their proof was made"),
            f"Theorem 1 bounds the chance that any of all these is accepted by {content['bound']:.2g} "
            "(clients here choose no hashes).",
        ]
    )


def counted(content: dict[str, Any], sort: str, title: str) -> list[str]:
    """Return the lines of one of the two counts."""
    honest, *false = content["counts"][sort]["tried"]
    rows = [[one["kind"], one["does"], f"{one['tried']:,}", f"{one['accepted']:,}"] for one in false]
    total = [sum(one[key] for one in false) for key in ("tried", "accepted")]
    return [
        f"{title}: d = 10, f = 11, a ball, {SERVERS} servers; {content['counts'][sort]['seconds']:.0f} s. Of "
        f"{honest['tried']:,} {'honest reports' if sort == 'statements' else 'that were not changed'} "
        f"{honest['accepted']:,} were accepted.",
        "",
        markdown(["kind", "what is false", "tried", "accepted"], [*rows, ["all", "", *(f"{n:,}" for n in total)]]),
        "",
    ]
