"""Proved second moments with a ball: microseconds of a client, reports a second of a server, and bytes.

Additive shares among three servers. A *client* clips nothing: from integers to all records, hashes and masks included.
A *server* does all that it does for a report: its own part, the seed, the expansion of a key where it holds one, the
joint randomness, its message, and the verdict from three messages. Beside them the unproved path, sharing a client's
words as keys and expanding the key of one server, and the bytes of Prio3's SumVec in Field64 with three proofs, which
are computed from the draft's formulas and not run (draft-irtf-cfrg-vdaf; it proves ranges of entries, not W = z z^T).

One thread, process CPU time, interleaved runs, medians.
"""

from __future__ import annotations

import argparse
import functools
import secrets
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.harness import cpu_seconds, machine, markdown, summary, write
from dpmpc.base.randomness import KEY_BYTES, Stream
from dpmpc.collect.terms.sealing_suites import SUITES
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.sealing import FORMAT
from dpmpc.linear.proving import ProofServer, Prover, QueryPoint, decide, joint_randomness
from dpmpc.linear.proving.circuit import Circuit, RowCircuit
from dpmpc.linear.proving.joint import BLIND_BYTES, PART_BYTES
from dpmpc.linear.sharing import AdditiveSharing
from dpmpc.linear.sharing.batch import expand_many

COLUMNS, BITS, SERVERS, RUNS = (5, 10, 20, 50, 100), (8, 11, 16), 3, 7
WORDS = 1 << 19  # of all records of a block
WORD_BYTES = 8
ASKED = {10: 100_000, 100: 10_000}  # reports a second of one thread, by columns
ASKED_BITS, ASKED_MICROSECONDS, ASKED_UPLOAD, ASKED_MESSAGE = 11, 50, 2000, 136  # of a client, and bytes, at d = 10
CLIENT, BY_KEY, BY_WORDS = "client", "server with a key", "server with words"
PLAIN_CLIENT, PLAIN_SERVER = "client, unproved", "server with a key, unproved"


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench proving", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each (default %(default)s)")
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMNS, help="d (default %(default)s)")
    chosen = parser.parse_args(arguments)
    content = {
        "machine": machine(),
        "runs": chosen.runs,
        "servers": SERVERS,
        "measured": [measure(columns, bits, chosen.runs) for columns in chosen.columns for bits in BITS],
    }
    text = render(content)
    print(text)
    if chosen.runs == RUNS and tuple(chosen.columns) == COLUMNS:
        write("proving", content, text)


def circuit_of(columns: int, bits: int) -> RowCircuit:
    """Return the circuit of second moments whose ball is the box's own, C^2 = d R^2."""
    top = (1 << bits) - 1
    return RowCircuit(columns, -top, top, columns << 2 * bits, moments=True)


def upload_bytes(circuit: Circuit) -> int:
    """Return the bytes of a report: what is sealed to each server by suite x25519, with one id."""
    payloads = (SERVERS - 1) * KEY_BYTES + BLIND_BYTES + WORD_BYTES * circuit.words + SERVERS**2 * PART_BYTES
    return len(FORMAT) + ID_BYTES + SERVERS * (1 + SUITES["x25519"].added_bytes) + payloads


def sumvec_bytes(columns: int, bits: int) -> int:
    """Return the bytes of a SumVec share with three proofs in Field64, the chunks chosen to make it least."""
    entries = columns * (columns + 1) // 2
    measured = columns * (bits + 1) + entries * (2 * bits + 2)

    def proof(chunk: int) -> int:
        calls = -(-measured // chunk) + 1
        return 2 * chunk + 2 * ((1 << (calls - 1).bit_length()) - 1) + 1

    return WORD_BYTES * (measured + 3 * min(map(proof, range(1, measured + 1))))


def purpose_made_bytes(columns: int, bits: int, digit: int) -> int:
    """Return the bytes of a share of a Prio3 circuit for W = z z^T within the ball, three proofs in Field64.

    The input is W and the digits, of so many bits, of z and of the slack of the ball; z itself is linear in these. A
    gadget checks that digits are in range, another the products; binary digits may share that of the products.
    """
    products = columns * (columns + 1) // 2
    slack = (columns << 2 * bits).bit_length()
    digits = columns * -(-(bits + 1) // digit) + -(-slack // digit)

    def proof(checks: int, inputs: int, degree: int) -> int:
        def length(chunk: int) -> int:
            calls = -(-checks // chunk)
            return inputs * chunk + degree * ((1 << calls.bit_length()) - 1) + 1

        return min(map(length, range(1, checks + 1)))

    apart = proof(digits, 1, 1 << digit) + proof(products, 2, 2)
    together = proof(digits + products, 2, 2) if digit == 1 else apart
    return WORD_BYTES * (products + digits + 3 * min(apart, together))


def measure(columns: int, bits: int, runs: int) -> dict[str, Any]:
    """Measure all jobs of one size, one run of each in turn."""
    circuit = circuit_of(columns, bits)
    count = max(32, WORDS // circuit.words)
    print(f"proving: d = {columns}, f = {bits}", file=sys.stderr)
    jobs = jobs_of(circuit, count)
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            seconds[name].append(cpu_seconds(job))
    return {
        "columns": columns,
        "fractional_bits": bits,
        "rows": circuit.rows,
        "wires": circuit.wires,
        "reports": count,
        "bytes": {
            "unproved": WORD_BYTES * (columns + circuit.products),
            "words": WORD_BYTES * circuit.words,
            "upload": upload_bytes(circuit),
            "message": circuit.message_bytes,
            "sumvec": sumvec_bytes(columns, bits),
        },
        "microseconds": {name: summary([1e6 * second / count for second in times]) for name, times in seconds.items()},
    }


def jobs_of(circuit: RowCircuit, count: int) -> dict[str, Callable[[], object]]:
    """Return what is measured, each for a block of `count` reports."""
    scheme, collection = AdditiveSharing(SERVERS, "mersenne61"), secrets.token_bytes(32)
    z = np.random.default_rng(0).integers(circuit.low, circuit.high + 1, (count, circuit.columns))
    ids = np.frombuffer(secrets.token_bytes(16 * count), np.uint8).reshape(count, 16)
    prover, point = Prover(circuit, scheme, collection), QueryPoint.of_toss(circuit, secrets.token_bytes(32))
    shares = prover.reports(circuit.witness(z), ids)
    servers = [ProofServer(circuit, scheme, collection, number) for number in range(SERVERS)]
    plain = np.ascontiguousarray(shares[-1].records(circuit)[:, : circuit.columns + circuit.products])

    def messages_of(number: int) -> tuple[Any, Any]:
        server, share = servers[number], shares[number]
        if not server.own_parts_match(share).all():
            raise RuntimeError(f"server {number}: reports with their own parts given, and not found to match")
        joint = joint_randomness(circuit, server.seeds(share))
        return joint, server.query(point, joint, share.records(circuit))

    others = {number: messages_of(number)[1] for number in range(SERVERS)}

    def serve(number: int) -> None:
        joint, own = messages_of(number)
        if not decide(circuit, scheme, point, joint, {**others, number: own}).accepted.all():
            raise RuntimeError(f"server {number}: honest reports given, and refused")

    def plain_client() -> None:
        drawn = [Stream.from_os().bytes(KEY_BYTES * count) for _ in range(SERVERS - 1)]
        keys = [np.frombuffer(text, np.uint8).reshape(count, KEY_BYTES) for text in drawn]
        masks = scheme.ring.sum_of([expand_many(key, plain.shape[1], scheme.ring) for key in keys])
        scheme.ring.subtract(plain, masks)

    return {
        CLIENT: lambda: prover.reports(circuit.witness(z), ids),
        BY_KEY: functools.partial(serve, 0),
        BY_WORDS: functools.partial(serve, SERVERS - 1),
        PLAIN_CLIENT: plain_client,
        PLAIN_SERVER: lambda: expand_many(ids, plain.shape[1], scheme.ring),
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where, measured = content["machine"], content["measured"]
    sizes = [
        [
            *(str(entry[name]) for name in ("columns", "fractional_bits", "rows", "wires")),
            *(f"{entry['bytes'][name]:,}" for name in ("unproved", "words", "upload", "message", "sumvec")),
        ]
        for entry in measured
    ]
    return "\n".join(
        [
            "# Proved reports of second moments",
            "",
            f"Ball C² = d R², additive shares among {content['servers']} servers; one thread, CPU time, medians of "
            f"{content['runs']} interleaved runs. {where['cpu']}, {where['cores']} cores, NumPy "
            f"{where['versions']['numpy']}, {where['date']}.",
            "",
            "Bytes: an unproved share, the words of a record, all that a client uploads, what each server sends to "
            "each other for a report, and a share of Prio3's SumVec (Field64, three proofs; computed, not run).",
            "",
            markdown(["d", "f", "N", "c", "unproved", "record", "upload", "message", "SumVec"], sizes),
            "",
            "Microseconds a report; a server's are all of its work, from its own part to the verdict.",
            "",
            markdown(
                ["d", "f", CLIENT, BY_KEY, BY_WORDS, PLAIN_CLIENT, PLAIN_SERVER, "reports/s", "asked for"],
                [speed_row(entry) for entry in measured],
            ),
            "",
            *goals(measured),
        ]
    )


def goals(measured: Sequence[dict[str, Any]]) -> list[str]:
    """Return what is asked for at d = 10 and 100, f = 11, beside what was measured, as far as it was."""
    rows = []
    for entry in measured:
        if entry["fractional_bits"] != ASKED_BITS or entry["columns"] not in ASKED:
            continue
        d, medians = entry["columns"], {name: figures["median"] for name, figures in entry["microseconds"].items()}
        rate = 1e6 / max(medians[BY_KEY], medians[BY_WORDS])
        judged = [("verified reports/s of either server, at least", ASKED[d], rate, rate >= ASKED[d])]
        if d == min(ASKED):
            sizes = entry["bytes"]
            judged += [
                ("client, microseconds, at most", ASKED_MICROSECONDS, medians[CLIENT], None),
                ("uploaded by a client, bytes, at most", ASKED_UPLOAD, sizes["upload"], None),
                ("sent to each peer for a report, bytes, at most", ASKED_MESSAGE, sizes["message"], None),
            ]
        rows += [
            [str(d), what, f"{asked:,}", f"{found:,.0f}", "yes" if (found <= asked if met is None else met) else "no"]
            for what, asked, found, met in judged
        ]
    if not rows:
        return []
    title = f"What is asked for at f = {ASKED_BITS}, {SERVERS} servers, one thread."
    return [title, "", markdown(["d", "what", "asked for", "measured", "met"], rows)]


def speed_row(entry: dict[str, Any]) -> list[str]:
    """Return a line of the table of speeds; the slower of both kinds of server counts."""
    medians = {name: figures["median"] for name, figures in entry["microseconds"].items()}
    rate = 1e6 / max(medians[BY_KEY], medians[BY_WORDS])
    asked = ASKED.get(entry["columns"])
    met = "" if asked is None else f"{asked:,}" + ("" if rate >= asked else " (missed)")
    return [
        str(entry["columns"]),
        str(entry["fractional_bits"]),
        *(f"{medians[name]:.2f}" for name in (CLIENT, BY_KEY, BY_WORDS, PLAIN_CLIENT, PLAIN_SERVER)),
        f"{rate:,.0f}",
        met,
    ]
