"""Mutated uploads, frames and files against the parsers: nothing but typed errors, nothing malformed taken.

Each input starts as a valid one and is changed: bytes flipped, cut, doubled or swapped with another's, numbers set to
extremes. An upload is *malformed* if a server finds a record in it that was not sealed for it before; a record, if it
does not say what its bytes do; a frame, if it is not the one that was expected, byte for byte. What a parser returns is
compared with that. The HTTP application gets a share of the uploads, with broken headers too, in this process and
without TLS. Parsers of files and descriptions (`bench.system.fuzz_parsers`) may take what was changed, and have a bound
on the time of one input.
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
from dpmpc.base.errors import DpmpcError, ProtocolFailure
from dpmpc.base.randomness import Stream
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import WORD, ReportFormat, make_reports
from dpmpc.collect.upload.sealing import Opener, SealedReports, id_of
from dpmpc.parties.network import frames
from dpmpc.release.client import Client

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
    made = [Servers.make(each, ring=ring) for each, ring in zip(folders, ("ring64", "mersenne61"), strict=True)]
    results = []
    for servers in made:
        collection = servers.collection
        records = _valid_records(collection)
        reports = list(map(SealedReports(collection).seal, zip(*records, strict=True)))
        for server in (0, 2):
            form = ReportFormat(collection, server)
            kind = f"{collection.plan.encoding.ring.name}, {'keys' if form.by_key else 'words'}"
            opener = Opener(collection, server, servers.server_folder(server).seals)
            judge = _judge_upload(SealedReports(collection), opener, records[server])
            results.append(_feed(f"uploads, {kind}", judge, [b"".join(reports[:3]), *reports], count // 8, changes))
            samples = [b"".join(records[server][:3]), *records[server]]
            results.append(_feed(f"records, {kind}", _judge_records(form), samples, count // 8, changes))
    for content, judge, samples in _frame_cases():
        results.append(_feed(f"frames, {content}", judge, samples, count // 6, changes))
    parsed = folder / "parsed"
    parsed.mkdir()
    for case in fuzz_parsers.cases(parsed, parquet=find_spec("pyarrow") is not None):
        results.append(_parse(case, count // 20, changes))
    requests = max(200, count // HTTP_SHARE // HTTP_AT_ONCE * HTTP_AT_ONCE)
    results.append(asyncio.run(_feed_http(made[0], requests, changes)))
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


def _valid_records(collection: Collection) -> list[list[bytes]]:
    """Return records for each server."""
    rows = np.linspace(0, 10, 24).reshape(8, 3)
    ids = [bytes([index + 1]) * ID_BYTES for index in range(len(rows))]
    return make_reports(Client(collection.plan.verify(), Stream.from_os()), collection, rows, ids)


def _judge_upload(form: SealedReports, opener: Opener, records: Sequence[bytes]) -> Judge:
    """Return whether all records that a server finds in an upload are valid ones of its own."""
    valid = set(records)
    return lambda data: all(opener.open(report)[0] in valid for report in form.split(data))


def _judge_records(form: ReportFormat) -> Judge:
    """Return whether what records are decoded to is what their bytes say."""

    def judge(data: bytes) -> bool:
        ids, words = form.decode(data)
        return data == b"".join(named + row.astype(WORD).tobytes() for named, row in zip(ids, words, strict=True))

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


async def _feed_http(servers: Servers, count: int, changes: random.Random) -> dict[str, Any]:
    """Send mutated uploads and heads to the application; any answer but a refusal must be to a valid part of it."""
    from dpmpc.collect.intake.admission import Limits
    from dpmpc.collect.intake.connections import listen, serve_http
    from dpmpc.collect.intake.service import Service
    from dpmpc.collect.intake.serving import keys_and_door
    from dpmpc.collect.terms.endpoints import OWN_UPLOADS

    print("fuzz: requests", file=sys.stderr)
    collection, folder = servers.collection, servers.server_folder(0)
    path = OWN_UPLOADS.format(digest=collection.digest.hex())
    form = SealedReports(collection)
    valid = list(map(form.seal, zip(*_valid_records(collection), strict=True)))
    parts = [report[: report.index(id_of(report)) + ID_BYTES + form.record_bytes[0]] for report in valid]
    taken = wrong = crashes = 0
    before, start = _peak_mb(), time.perf_counter()
    with (
        folder.open_spool(collection, 0, writer=True) as spool,
        keys_and_door(collection, 0, folder, spool) as (opener, door),
    ):
        limits = Limits(rate=1e9, read_seconds=0.3)
        service = Service(collection, 0, spool, limits=limits, opener=opener, door=door)
        listeners = await listen(HOST, 0)
        runner = await serve_http(service.clients(behind_proxy=False), limits, listeners)
        port = listeners[0].getsockname()[1]
        for _ in range(0, count, HTTP_AT_ONCE):
            requests = [_request(path, valid, changes) for _ in range(HTTP_AT_ONCE)]
            answers = await asyncio.gather(*(_exchange(port, request) for request in requests))
            for request, answer in zip(requests, answers, strict=True):
                accepted = answer.startswith(b"HTTP/1.1 200")
                taken += accepted
                wrong += accepted and not any(part in request for part in parts)
                crashes += answer.startswith(b"HTTP/1.1 5")
        await runner.cleanup()
        await service.close()
        stored = {bytes(report) for report in spool.ids()}
    wrong += len(stored - set(map(id_of, valid)))
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
