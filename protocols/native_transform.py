"""The linear transform on plain MPyC: secure arrays, MPyC's own launcher, links and linear algebra.

Data: M parties, each with rows of clients of its own. Wanted: a ridge regression of income over all of them, while each
client has (epsilon, delta)-differential privacy.

1. The parties toss a coin for the public CountSketch S, and each designs and verifies the same release.
2. Each clips, encodes and noises its clients' rows, and shares them among all (`dpmpc.mpyc.shared`).
3. Each applies S to its own shares by our kernel, alone (`dpmpc.mpyc.sketch`): secure arrays of S Z + noise.
4. They open it, and anybody solves the normal equations; or, with ``--closed``, they go on inside MPyC: A^T A for A =
   [S 1, S Z + noise], and w from it by a randomised Gaussian elimination (Blom et al. 2019, as MPyC's own demonstration
   of ridge regression). Only w is then opened, as numerators and a denominator.

The noise that counts is that of the parties that keep theirs: the release is calibrated for T parties that tell each
other the noise of all their clients. What this way lacks of the protections of our own links stands in
`dpmpc.mpyc.native`: messages are pickles, certificates name no party, no wait ends, and wrong shares go unnoticed.

All of MPyC's options work (``-H`` lists them). Three parties of this machine, five of whom two may collude, and one of
three on hosts of their own, each started by hand::

    python protocols/native_transform.py -M3
    python protocols/native_transform.py -M5 -T2 --closed
    python protocols/native_transform.py -P a.example:9000 -P b.example:9000 -P c.example:9000 -I 0 --ssl
"""

from __future__ import annotations

import argparse
import hashlib
import secrets
import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from mpyc.runtime import mpc
from numpy.typing import NDArray

from dpmpc.client import Client
from dpmpc.datasets import DEMO_BOUNDS, DEMO_FEATURES, DEMO_RADIUS, DEMO_TARGET, demo_population
from dpmpc.errors import InputError, ProtocolFailure
from dpmpc.estimators import RidgeRegression
from dpmpc.mpyc import open_sketch, shared, sketch, with_room
from dpmpc.planning import ReleaseSpec, design
from dpmpc.protocols.unopened_ridge import bits_of_products, public_ones
from dpmpc.release import Release
from dpmpc.sketching import CountSketch
from dpmpc.specification import FRACTIONAL_BITS
from dpmpc.task import Task

COIN_BYTES = 32


async def main(arguments: argparse.Namespace) -> None:
    """Run one party."""
    costs: dict[str, float] = {}
    parties = len(mpc.parties)
    each = arguments.clients // parties
    planned = plan(each * parties, arguments)  # what cannot be had is found out before anybody is called
    async with mpc:
        clock = Clock(costs)
        task = with_seed(planned, await toss())
        clock.stop("set-up")
        mine = slice(mpc.pid * each, (mpc.pid + 1) * each)
        rows = Client(task).randomize(demo_population(task.clients).table.values[mine])[:, 0]
        clock.stop("clients")
        parts = shared(rows)
        await mpc.gather(parts)
        clock.stop("input")
        y = await sketch_of(task, parts)
        clock.stop("sketch")
        if arguments.closed:
            coefficients, intercept = in_units(task, await solve(task, y, arguments.alpha))
        else:
            release = Release(task, await opened_sums(task, y))
            fitted = RidgeRegression(arguments.alpha).fit_release(release, target=DEMO_TARGET)
            coefficients, intercept = fitted.coef_, fitted.intercept_
        clock.stop("solve")
        sent = sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid)
        everybody = await mpc.transfer({"party": mpc.pid, "seconds": costs, "sent": sent})
    report(task, arguments.closed, coefficients, intercept, everybody)


class Clock:
    """Measures what this party does, step by step."""

    def __init__(self, seconds: dict[str, float]):
        self._seconds, self._began = seconds, time.perf_counter()

    def stop(self, step: str) -> None:
        """Note the seconds since the last step."""
        now = time.perf_counter()
        self._seconds[step], self._began = now - self._began, now


async def toss() -> bytes:
    """Step 1: toss 32 bytes that no party chose; commit, then open."""
    coin = secrets.token_bytes(COIN_BYTES)
    commitments = await mpc.transfer(hashlib.sha256(bytes([mpc.pid]) + coin).digest())
    coins = await mpc.transfer(coin)
    for party, (committed, opened) in enumerate(zip(commitments, coins, strict=True)):
        if hashlib.sha256(bytes([party]) + opened).digest() != committed:
            raise ProtocolFailure(f"party {party} opened another coin than it had committed to", party)
    return hashlib.sha256(b"".join(coins)).digest()


def plan(clients: int, arguments: argparse.Namespace) -> Task:
    """Step 1: design the release, for T parties that pool what they see and know the noise of their own clients."""
    parties, threshold = len(mpc.parties), mpc.threshold

    def task_with(bits: int) -> Task:
        return design(
            ReleaseSpec.of(
                DEMO_BOUNDS,
                clients,
                arguments.epsilon,
                arguments.delta,
                sketch="countsketch",
                rows=arguments.rows,
                radius=DEMO_RADIUS,
                sharing="shamir",
                servers=parties,
                corrupt_servers=threshold,
                corrupt_clients=threshold * clients // parties,
                coalition="static",  # who belongs to which party was fixed before the toss
                fractional_bits=bits,
            )
        )

    return with_room(task_with, bits_of_products, FRACTIONAL_BITS)


def with_seed(task: Task, seed: bytes) -> Task:
    """Step 1: design the same release with the matrix that the parties have tossed for."""
    S = task.sketch
    return msgspec.structs.replace(task, sketch=CountSketch(S.rows, S.columns, seed, balanced=S.balanced)).verify()


async def sketch_of(task: Task, parts: Sequence[Any]) -> Any:
    """Step 3: return the secure sketch of all parties' rows, as the sum of those of each."""
    each = task.clients // len(parts)
    total = await sketch(task.sketch, parts[0])
    for number, part in enumerate(parts[1:], start=1):
        total += await sketch(task.sketch, part, first=number * each)
    return total


async def opened_sums(task: Task, y: Any) -> NDArray[np.int64]:
    """Step 4, opened: return S Z + noise in integer units."""
    sums: Any = await open_sketch(task.sketch, y)
    return np.asarray(sums, np.int64)


async def solve(task: Task, y: Any, alpha: float) -> list[Fraction]:
    """Step 4, closed: return intercept and coefficients of the normalised columns, from numerators and a denominator.

    (A^T A + diagonal) w = A^T b in integer units: the diagonal takes the noise's expectation off and adds alpha for
    every column but that of the intercept.
    """
    field = type(y).sectype.field
    ones = public_ones(task).astype(object) << task.encoding.fractional_bits
    A = mpc.np_hstack((type(y)(field.array(ones[:, None])), y))
    gram = A.T @ A
    half = field.order // 2
    side = gram.shape[0]
    shifted = mpc.np_tolist((gram + half).reshape(side * side))
    whole = mpc.convert(shifted, mpc.SecInt(2 * field.order.bit_length()))
    largest = half + round(alpha / task.unit**2)
    bound = side ** (side // 2 + 1) * largest**side  # of every determinant (Hadamard), numerators included
    secfld = mpc.SecFld(min_order=2 * bound + 1, signed=True)
    exact = mpc.np_fromlist(mpc.convert(whole, secfld)).reshape(side, side) - half
    noise = round(float(task.noise_terms.sum()) * task.noise.variance)
    diagonal = np.diag([0, *[round(alpha / task.unit**2) - noise] * (side - 2)]).astype(object)
    *numerators, denominator = await solve_exactly(exact[:-1, :-1] + diagonal, exact[:-1, -1:])
    return [Fraction(numerator, denominator) for numerator in numerators]


async def solve_exactly(A: Any, b: Any) -> list[int]:
    """Return adj(A) b and det(A), opened; A itself is shown only as R A, for a random R = L U that nobody knows."""
    secfld, side = type(A).sectype, A.shape[0]
    random = await mpc.gather(mpc._np_randoms(secfld, side * side))
    entries = random.value.reshape(side, side)
    L = np.tril(entries, -1) + np.identity(side, dtype=int)
    U = np.triu(entries)
    R = secfld.array(secfld.field.array(L)) @ secfld.array(secfld.field.array(U))
    RA = await mpc.output(R @ A, raw=True)
    determinant_of_R = mpc.prod([secfld(secfld.field(int(entry))) for entry in np.diagonal(U)])
    determinant = np.linalg.det(RA) / determinant_of_R
    x = np.linalg.inv(RA) @ (R @ b)
    opened = await mpc.output([*mpc.np_tolist((x * determinant).reshape(side)), determinant])
    return [int(number) for number in opened]


def in_units(task: Task, w: Sequence[Fraction]) -> tuple[NDArray[np.float64], float]:
    """Return coefficients and intercept in the columns' units; every column is x = offset + slope z."""
    normalised = np.array([float(value) for value in w])
    slope, offset = task.schema.slope, task.schema.offset
    coefficients = normalised[1:] * slope[-1] / slope[:-1]
    return coefficients, float(offset[-1] + slope[-1] * normalised[0] - coefficients @ offset[:-1])


def report(task: Task, closed: bool, coefficients: Any, intercept: float, everybody: list[dict[str, Any]]) -> None:
    """Print what was found, what is promised, and what it cost each party."""
    truth = demo_population(task.clients).coefficients
    how = "solved inside MPyC, and only the answer opened" if closed else "opened, and solved by everybody"
    print(f"{task.clients:,} clients of {len(everybody)} parties; a sketch of {task.sketch.rows} rows, {how}")
    for name, found, true in zip(DEMO_FEATURES, coefficients, truth, strict=True):
        print(f"  {name:20} {found:12.4f}   truth {true:10.4f}")
    print(f"  {'intercept':20} {intercept:12.4f}\n")
    print(f"{task.passive_guarantee}\n")
    steps = list(everybody[0]["seconds"])
    print("party" + "".join(f"{step + ', s':>12}" for step in steps) + f"{'sent, bytes':>14}")
    for one in everybody:
        print(f"{one['party']:5}" + "".join(f"{one['seconds'][step]:12.3f}" for step in steps) + f"{one['sent']:14,}")


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read what MPyC has left of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=64, help="k (default %(default)s)")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-7)
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--closed", action="store_true", help="solve inside MPyC, and open nothing but the answer")
    chosen = parser.parse_args(arguments)
    if len(mpc.parties) < 3 or mpc.threshold < 1:
        raise InputError(
            f"-M, -T: {len(mpc.parties)} parties of whom {mpc.threshold} may collude given, at least 3 and 1 expected: "
            "fewer keep no secret (-M3)"
        )
    return chosen


if __name__ == "__main__":
    from dpmpc.cli.main import exit_status

    sys.exit(exit_status(lambda: mpc.run(main(options(sys.argv[1:])))))
