"""The client side, for simulations of a million clients and more: how fast rows become shares, and how fast noise is.

Rows of d = 10 columns are clipped, encoded and shared among three servers; the peer is reading them once. A key for
each client is expanded by the processor's AES instructions, beside the loop over OpenSSL that takes their place where
there are none. The noise of one entry is compared with NumPy's Poisson variables, of which Skellam noise would take
two, and with OpenDP's vector sampler of the discrete Gaussian, where that is installed. One thread, process CPU time,
interleaved runs, medians: only ratios within one run mean anything. `--threads` adds wall-clock seconds with that many
threads for what takes threads.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from bench.harness import cpu_seconds, machine, markdown, summary, wall_seconds, write
from dpmpc.base.digests import hkdf_of_rows
from dpmpc.base.randomness import KEY_BYTES, Stream, aes_kernel, fill_key_streams, fill_one_by_one
from dpmpc.data import Schema
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.noise import DiscreteGaussian, DiscreteLaplace, Noise
from dpmpc.linear.noise.integer import Skellam
from dpmpc.linear.sharing import AdditiveSharing
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.client import share_batch
from dpmpc.release.planning import design

CLIENTS, COLUMNS, SERVERS, DRAWS, RUNS = 1_000_000, 10, 3, 1_000_000, 7
KEYS, KEY_WORDS = 20_000, (10, 40, 77, 256)
RADIUS = 1.5  # of the ball that some rows are clipped to; a row has norm 1.8, typically
OPENDP_DRAWS = 20_000  # a fraction of ours: it would take eleven seconds for a million
SIGMAS = (0.5, 30.0, 1e3, 1e6)
VARIANCES = (100, 10_000, 10**8)
SCALE = 1000.0
SALT, INFO = bytes(32), bytes(30)  # as long as those of a collection
READ, POISSON, OPENDP = "read the rows", "NumPy: a Poisson variable", "OpenDP: discrete Gaussian"


@dataclasses.dataclass(frozen=True)
class Way:
    """One thing to measure."""

    name: str  # for the table
    peer: str  # the way that it is compared with
    amount: int  # bytes of rows, or draws, that one call handles
    job: Callable[[int], object]  # ``job(threads)`` does it once
    threaded: bool = False  # whether `job` makes use of threads


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench clients", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each (default %(default)s)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="n (default %(default)s)")
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of noise (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads of the wall-clock runs (default %(default)s)")
    chosen = parser.parse_args(arguments)
    groups = {"rows": row_ways(chosen.clients), "keys": key_ways(), "noise": noise_ways(chosen.draws)}
    content = {
        "machine": machine(),
        "runs": chosen.runs,
        "clients": chosen.clients,
        "columns": COLUMNS,
        "servers": SERVERS,
        "threads": chosen.threads,
        "aes": aes_kernel(),
        "opendp": metadata.version("opendp") if importlib.util.find_spec("opendp") else None,
        **{group: measure(ways, chosen.runs, chosen.threads) for group, ways in groups.items()},
    }
    text = render(content)
    print(text)
    if (chosen.runs, chosen.clients, chosen.draws) == (RUNS, CLIENTS, DRAWS):
        write("clients", content, text)


def row_ways(clients: int) -> list[Way]:
    """List what can happen to the bytes of the rows."""
    rows = np.random.default_rng(0).uniform(-1, 1, (clients, COLUMNS))
    secret = Stream.from_seed(1).words(rows.size).reshape(rows.shape)
    elements = Mersenne61().uniform(Stream.from_seed(2), rows.shape)
    reused = [np.ones_like(secret) for _ in range(SERVERS)]
    tasks = {"box": task_of(clients), "ball": task_of(clients, radius=RADIUS), "field": task_of(clients, "mersenne61")}
    moments = task_of(clients, sketch="sum")
    ring, field = AdditiveSharing(SERVERS), AdditiveSharing(SERVERS, "mersenne61")

    def encode(task: Task) -> Callable[[int], object]:
        def job(threads: int) -> None:
            task.statistic.encode_raw(rows, task.schema, task.encoding, encoded)

        encoded = np.ones((clients, task.width), np.int64)  # memory that the first run need not touch first
        return job

    def whole(name: str) -> Callable[[int], object]:
        def share(threads: int) -> object:
            stream = Stream.from_seed(4)
            return share_batch(tasks[name], rows, stream=stream, storage=lambda server: last, threads=threads)

        last = np.ones(tasks[name].share_shape, np.uint64)
        return share

    jobs: dict[str, tuple[Callable[[int], object], bool]] = {
        READ: (lambda threads: rows.max(), False),
        "clip and encode, box": (encode(tasks["box"]), False),
        "clip and encode, ball": (encode(tasks["ball"]), False),
        "clip and encode, second moments": (encode(moments), False),
        "clip, encode, share as keys, Z_2^64": (whole("box"), True),
        "clip, encode, share as keys, ball": (whole("ball"), True),
        "clip, encode, share as keys, Z_p": (whole("field"), True),
        "split among 3, memory reused": (lambda threads: ring.split(secret, threads=threads, out=reused), True),
        "split among 3, fresh memory": (lambda threads: ring.split(secret, threads=threads), True),
        "split among 3, Z_p, memory reused": (lambda threads: field.split(elements, threads=threads, out=reused), True),
    }
    return [Way(name, READ, rows.nbytes, *job) for name, job in jobs.items()]


def task_of(clients: int, ring: str | None = None, sketch: str = "countsketch", radius: float | None = None) -> Task:
    """Design a task of clients that clip, encode and share; servers add the noise, which takes no time here."""
    return design(
        ReleaseSpec.of(
            Schema.from_pair([f"x{column}" for column in range(COLUMNS)], (-0.9, 0.9)),
            clients,
            1.0,
            1e-7,
            sketch=sketch,
            rows=None if sketch == "sum" else 1000,
            radius=radius,
            ring=ring,
            servers=SERVERS,
            noise_by="servers",
            simulation_seed=1,
        )
    )


def key_ways() -> list[Way]:
    """List what n keys, one for each client, cost a server."""
    keys = np.frombuffer(Stream.from_seed(3).bytes(KEYS * KEY_BYTES), np.uint8).reshape(KEYS, KEY_BYTES)

    def filled(fill: Callable[..., None], words: int) -> Callable[[int], object]:
        out = np.ones((KEYS, words), np.uint64)
        return lambda threads: fill(keys, out)

    ways = [Way("derive a key of a report (HKDF)", "", KEYS, lambda threads: hkdf_of_rows(keys, SALT, INFO, KEY_BYTES))]
    for words in KEY_WORDS:
        loop = f"{words} words, one key after the other"
        ways.append(Way(loop, "", KEYS, filled(fill_one_by_one, words)))
        ways.append(Way(f"{words} words, all keys in one call", loop, KEYS, filled(fill_key_streams, words)))
    return ways


def noise_ways(draws: int) -> list[Way]:
    """List a client's noise and its peers."""
    generator = np.random.default_rng(5)
    ways = [
        Way(f"{POISSON}, mean {variance // 2:,}", "", draws, _numpy_poisson(generator, variance / 2, draws))
        for variance in VARIANCES
    ]
    for variance, peer in zip(VARIANCES, list(ways), strict=True):
        ways.append(_sampler(f"Skellam, variance {variance:,}", peer.name, Skellam(variance), draws))
    laplace = f"share of a discrete Laplace, scale {SCALE:g}, 1 of"
    for shares in (1000, 1_000_000):
        ways.append(_sampler(f"{laplace} {shares:,}", ways[0].name, DiscreteLaplace(SCALE, shares), draws))
    for sigma in SIGMAS:
        rival = _opendp(sigma)
        peer_name = "" if rival is None else f"{OPENDP}, sigma {sigma:g}"
        if rival is not None:
            ways.append(Way(peer_name, "", OPENDP_DRAWS, rival))
        ways.append(_sampler(f"discrete Gaussian, sigma {sigma:g}", peer_name, DiscreteGaussian(sigma), draws))
    return ways


def _numpy_poisson(generator: np.random.Generator, mean: float, draws: int) -> Callable[[int], object]:
    return lambda threads: generator.poisson(mean, draws)


def _sampler(name: str, peer: str, noise: Noise, draws: int) -> Way:
    stream = Stream.from_seed(6)
    return Way(name, peer, draws, lambda threads: noise.sample(draws, stream=stream, threads=threads), True)


def _opendp(sigma: float) -> Callable[[int], object] | None:
    """Return OpenDP's vector sampler, or None where it is not installed."""
    if importlib.util.find_spec("opendp") is None:
        return None
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    mechanism = dp.m.make_gaussian(*space, scale=sigma)
    zeros = [0] * OPENDP_DRAWS
    return lambda threads: mechanism(zeros)


def measure(ways: Sequence[Way], runs: int, threads: int) -> list[dict[str, Any]]:
    """Measure CPU seconds of every job with one thread, and wall seconds with several; one run of each in turn."""
    cpu: dict[str, list[float]] = {way.name: [] for way in ways}
    wall: dict[str, list[float]] = {way.name: [] for way in ways if way.threaded and threads > 1}
    for number in range(runs):
        print(f"clients: run {number + 1} of {runs}", file=sys.stderr)
        for way in ways:
            cpu[way.name].append(cpu_seconds(functools.partial(way.job, 1)))
            if way.name in wall:
                wall[way.name].append(wall_seconds(functools.partial(way.job, threads)))
    medians = {way.name: summary(cpu[way.name])["median"] / way.amount for way in ways}
    return [
        {
            "name": way.name,
            "amount": way.amount,
            "cpu_s": summary(cpu[way.name]),
            "wall_s": summary(wall[way.name]) if way.name in wall else None,
            "peer": way.peer or None,
            "speed_over_peer": medians[way.peer] / medians[way.name] if way.peer else None,
        }
        for way in ways
    ]


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where, threads = content["machine"], content["threads"]
    wall = f"wall clock, {threads} threads"
    return "\n".join(
        [
            "# The client side",
            "",
            f"n = {content['clients']:,} rows of d = {content['columns']} columns, {content['servers']} servers; one "
            f"thread, CPU time, medians of {content['runs']} interleaved runs, and {wall}, the least of them. "
            f"{where['cpu']}, {where['cores']} cores, NumPy {where['versions']['numpy']}, "
            f"OpenDP {content['opendp'] or 'not installed'}, {where['date']}.",
            "",
            markdown(["rows", "GB/s of rows", "of read speed", f"GB/s, {wall}"], _lines(content["rows"], 1e9, 2)),
            "",
            f"A key for each of {KEYS:,} clients; AES instructions: {content['aes']}.",
            "",
            markdown(["keys", "ns a key", "times as fast as the loop"], _key_lines(content["keys"])),
            "",
            markdown(
                ["noise", "million draws/s", "speed over its peer", f"million draws/s, {wall}"],
                _lines(content["noise"], 1e6, 1),
            ),
        ]
    )


def _key_lines(measured: Sequence[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            entry["name"],
            f"{entry['cpu_s']['min'] / entry['amount'] * 1e9:.0f}",
            "" if entry["peer"] is None else f"{entry['speed_over_peer']:.0f}",
        ]
        for entry in measured
    ]


def _lines(measured: Sequence[dict[str, Any]], unit: float, digits: int) -> list[list[str]]:
    return [
        [
            entry["name"],
            f"{entry['amount'] / entry['cpu_s']['median'] / unit:.2f}",
            "" if entry["peer"] is None else f"{entry['speed_over_peer']:.{digits}f}",
            "" if entry["wall_s"] is None else f"{entry['amount'] / entry['wall_s']['min'] / unit:.2f}",
        ]
        for entry in measured
    ]
