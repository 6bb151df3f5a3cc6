"""Mutated uploads, frames and files against the parsers: nothing but typed errors, nothing malformed taken.

Each input starts as a valid one and is changed: bytes flipped, cut, doubled or swapped with another's, numbers set to
extremes. An upload is *malformed* if it is not a list of records that were valid before; a frame, if it is not the one
that was expected, byte for byte. What a parser returns is compared with that. The HTTP application gets a share of the
uploads, with broken headers too, in this process and without TLS. Parsers of files and descriptions
(`bench.system.fuzz_parsers`) may take what was changed, and have a bound on the time of one input.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import machine, markdown, write
from bench.system import fuzz_parsers
from bench.system.collection_servers import Servers
from bench.system.fuzz_parsers import mutate
from bench.system.ports import HOST
from dpmpc.client import Client
from dpmpc.collection.report_ids import ID_BYTES
from dpmpc.collection.reports import ReportFormat, make_reports
from dpmpc.collection.task_file import Collection
from dpmpc.errors import DpmpcError, ProtocolFailure
from dpmpc.network import frames
from dpmpc.randomness import Stream

COUNT = 1_000_000
HTTP_SHARE = 100  # one request for so many inputs to the parsers
HTTP_AT_ONCE = 50
_TASK = bytes(range(32))

Judge = Callable[[bytes], bool]


def main(arguments: Sequence[str]) -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT, help="inputs to the parsers (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the changes (default %(default)s)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="dpmpc-fuzz-") as folder:
        results = fuzz(Path(folder), chosen.count, chosen.seed)
    content = {"machine": machine(), "seed": chosen.seed, "results": results}
    text = render(content)
    print(text)
    if any(result["crashes"] or result["malformed_accepted"] for result in results):
        raise ProtocolFailure(f"fuzz: {results}")
    if chosen.count == COUNT:
        write("fuzz", content, text)


def fuzz(folder: Path, count: int, seed: int) -> list[dict[str, Any]]:
    """Feed every parser; return the outcome of each."""
    changes = random.Random(seed)
    folders = [folder / name for name in ("ring", "field")]
    for each in folders:
        each.mkdir()
    collections = [
        Servers.make(each, ring=ring).collection for each, ring in zip(folders, ("ring64", "mersenne61"), strict=True)
    ]
    results = []
    for collection in collections:
        for server in (0, 2):
            valid = _valid_records(collection, server)
            form = ReportFormat(collection, server)
            name = f"uploads, {collection.plan.encoding.ring.name}, {'keys' if form.by_key else 'words'}"
            judge = _judge_upload(form, valid)
            results.append(_feed(name, judge, [b"".join(valid[:3]), *valid], count // 8, changes))
    for content, judge, samples in _frame_cases():
        results.append(_feed(f"frames, {content}", judge, samples, count // 6, changes))
    parsed = folder / "parsed"
    parsed.mkdir()
    for case in fuzz_parsers.cases(parsed, parquet=find_spec("pyarrow") is not None):
        results.append(_parse(case, count // 20, changes))
    valid = _valid_records(collections[0], 0)
    results.append(
        asyncio.run(
            _feed_http(
                folder, collections[0], valid, max(200, count // HTTP_SHARE // HTTP_AT_ONCE * HTTP_AT_ONCE), changes
            )
        )
    )
    return results


def _parse(case: fuzz_parsers.Case, count: int, changes: random.Random) -> dict[str, Any]:
    """Feed a parser of files or descriptions; one that takes too long counts as a crash."""
    print(f"fuzz: {case.name}", file=sys.stderr)
    before, start = _peak_mb(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, on numbers at the ends of its range
        found = fuzz_parsers.feed(case, count, changes)
    for crash in found.crashes:
        print(f"fuzz: {case.name}: {crash}", file=sys.stderr)
    crashes = len(found.crashes) + (found.slowest > fuzz_parsers.SLOWEST)
    return _result(case.name, count, found.taken, found.refused, 0, crashes, before, start)


def _feed(name: str, judge: Judge, samples: Sequence[bytes], count: int, changes: random.Random) -> dict[str, Any]:
    """Count inputs taken, refused, taken although malformed, and errors that are not of this package."""
    print(f"fuzz: {name}", file=sys.stderr)
    taken = refused = wrong = crashes = 0
    before, start = _peak_mb(), time.perf_counter()
    for _ in range(count):
        data = mutate(samples, changes)
        try:
            wrong += not judge(data)
            taken += 1
        except DpmpcError:
            refused += 1
        except Exception as error:  # that is what is looked for
            print(f"fuzz: {name}: {error!r} for {data.hex()[:400]}", file=sys.stderr)
            crashes += 1
    return _result(name, count, taken, refused, wrong, crashes, before, start)


def _result(
    name: str, count: int, taken: int, refused: int, wrong: int, crashes: int, before: float, start: float
) -> dict[str, Any]:
    return {
        "name": name,
        "inputs": count,
        "accepted": taken,
        "refused": refused,
        "malformed_accepted": wrong,
        "crashes": crashes,
        "peak_mb": _peak_mb(),
        "grown_mb": _peak_mb() - before,
        "seconds": time.perf_counter() - start,
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _valid_records(collection: Collection, server: int) -> list[bytes]:
    rows = np.linspace(0, 10, 24).reshape(8, 3)
    ids = [bytes([index + 1]) * ID_BYTES for index in range(len(rows))]
    return make_reports(Client(collection.plan, Stream.from_os()), collection, rows, ids)[server]


def _judge_upload(form: ReportFormat, valid: Sequence[bytes]) -> Judge:
    """Return whether an upload that was taken is made of valid records, and decoded to what they say."""
    size = form.record_bytes
    meaning = {record: form.decode(record) for record in valid}

    def judge(data: bytes) -> bool:
        ids, words = form.decode(data)
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        if any(piece not in meaning for piece in pieces) or len(ids) != len(pieces):
            return False
        expected = [meaning[piece] for piece in pieces]
        same = all(np.array_equal(row, known[1][0]) for row, known in zip(words, expected, strict=True))
        return same and ids == [known[0][0] for known in expected]

    return judge


def _frame_cases() -> list[tuple[str, Judge, list[bytes]]]:
    """Return a judge and valid frames for each type of content."""
    words = np.arange(12, dtype=np.uint64)
    contents: dict[str, list[frames.Content]] = {
        "words": [words, words.reshape(3, 4), words[:0]],
        "bytes": [b"some text", b""],
        "nothing": [None],
    }
    cases: list[tuple[str, Judge, list[bytes]]] = []
    for name, given in contents.items():
        samples = [frames.encode(frames.Frame(frames.Kind.SHARE, 1, _TASK, content)) for content in given]
        kind = frames.Frame(frames.Kind.SHARE, 1, _TASK, given[0]).content_type
        expected = frames.Expectation(frames.Kind.SHARE, 1, _TASK, kind)

        def judge(data: bytes, expected: frames.Expectation = expected) -> bool:
            return frames.encode(frames.decode(data, expected)) == data

        cases.append((name, judge, samples))
    return cases


async def _feed_http(
    folder: Path, collection: Collection, valid: Sequence[bytes], count: int, changes: random.Random
) -> dict[str, Any]:
    """Send mutated uploads and heads to the application; any answer but a refusal must be to valid records."""
    from dpmpc.collection.admission import Limits
    from dpmpc.collection.connections import IdleTimeout, start_http
    from dpmpc.collection.server_folder import open_spool
    from dpmpc.collection.service import Service

    print("fuzz: requests", file=sys.stderr)
    path = f"/v1/collections/{collection.digest.hex()}/reports"
    taken = wrong = crashes = 0
    before, start = _peak_mb(), time.perf_counter()
    with open_spool(folder / "spool", collection, 0, writer=True) as spool:
        limits = Limits(rate=1e9, read_seconds=0.3)
        service, guard = Service(collection, 0, spool, limits=limits), IdleTimeout(limits)
        runner = await start_http(guard, service.application(), limits)
        listener = await asyncio.get_running_loop().create_server(guard.protocol, HOST, 0)
        sweeping = asyncio.create_task(guard.sweep())
        port = listener.sockets[0].getsockname()[1]
        for _ in range(0, count, HTTP_AT_ONCE):
            requests = [_request(path, valid, changes) for _ in range(HTTP_AT_ONCE)]
            answers = await asyncio.gather(*(_exchange(port, request) for request in requests))
            for request, answer in zip(requests, answers, strict=True):
                accepted = answer.startswith(b"HTTP/1.1 200")
                taken += accepted
                wrong += accepted and not any(record in request for record in valid)
                crashes += answer.startswith(b"HTTP/1.1 5")
        sweeping.cancel()
        listener.close()
        await runner.cleanup()
        await service.close()
        stored = {bytes(report) for report in spool.ids()}
    wrong += len(stored - {record[:ID_BYTES] for record in valid})
    return _result("requests", count, taken, count - taken - crashes, wrong, crashes, before, start)


def _request(path: str, valid: Sequence[bytes], changes: random.Random) -> bytes:
    """Return a request with a mutated body, or one that is itself mutated."""
    whole = changes.random() < 0.3
    body = valid[0] if whole else mutate(valid, changes)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return mutate([head.encode() + body], changes) if whole else head.encode() + body


async def _exchange(port: int, sent: bytes) -> bytes:
    """Send, and return what is answered before the server closes."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(sent)
        return await reader.read(1 << 14)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where = content["machine"]
    rows = [
        [
            result["name"],
            *(f"{result[name]:,}" for name in ("inputs", "accepted", "refused", "malformed_accepted", "crashes")),
            f"{result['peak_mb']:.0f}",
            f"{result['grown_mb']:.0f}",
        ]
        for result in content["results"]
    ]
    headings = ["parser", "inputs", "taken", "refused", "malformed taken", "crashes", "peak MB", "grown by"]
    total = sum(result["inputs"] for result in content["results"])
    return "\n".join(
        [
            "# Mutated uploads and frames",
            "",
            f"{total:,} inputs, seed {content['seed']}. {where['cpu']}, {where['date']}. Inputs that are taken were "
            "changed into another valid one, such as the same records in another order.",
            "",
            markdown(headings, rows),
        ]
    )
