"""F_2 of items from a noisy sketch that nobody sees (Burkhardt et al. 2025, section 4.1, finished inside MPyC).

Data: n clients, each with one item of a public list, of which item v is held f_v times.
Wanted: F_2 = sum_v f_v^2, while each client has (epsilon, delta)-differential privacy.

1. Each client sends its item's column of a public CountSketch S and its share of the noise, as Shamir shares.
2. Each server adds up its shares, alone: a share of z = S f + noise, k numbers.
3. The servers hand their shares over to MPyC, multiply z z^T there, and check the product before anybody opens it
   (`dpmpc.mpyc.checked`): six rounds; 2 k + 3 words, a commitment and a coin to each.
4. Each server sends its share of that one number to the analyst, who opens ||z||^2 and subtracts k times the noise
   variance, which is public (docs/mathematics.md, sections 5.2 and 5.3).

The guarantee is that of the opened sketch, since ||z||^2 is computed from it; the analyst learns one number in place
of k, and a server sends it 8 bytes in place of 8 k. The price is trust: an honest majority of servers, not one of them.
Wrong shares are noticed, those of a server that multiplies other numbers included, and end the run.

Five servers and an analyst, each a process of this machine, and generated people::

    python protocols/unopened_moment.py -M5 --clients 50000 --epsilon 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.contributions import ItemSketch
from dpmpc.data import Column, Schema
from dpmpc.errors import InputError
from dpmpc.mpyc import checked_products, open_to_analyst, opened, require_room, require_shamir, sketch_alone, with_room
from dpmpc.network.party import Party
from dpmpc.networked import Run, clients, run_parties
from dpmpc.planning import ReleaseSpec, design
from dpmpc.planning.designing import public_seed
from dpmpc.randomness import Stream
from dpmpc.task import Task

PROGRAM = "dpmpc.protocols.unopened_moment"
ROWS = 256


async def main(party: Party) -> dict[str, Any]:
    """Run one party: a server, or the analyst, who returns the estimate."""
    task = check(party.task)
    if party.pid == party.analyst:
        return await analyst(party, task)
    await server(party, task)
    return {}


async def server(party: Party, task: Task) -> None:
    """Steps 2 to 4 of a server: sketch, square, and have the square opened to the analyst."""
    sums = await sketch_alone(party)
    with party.meter.phase("multiply"):
        square = await checked_products(party, task, sums.T.copy())  # of the column z^T
    with party.meter.phase("open"):
        await open_to_analyst(party, square)


async def analyst(party: Party, task: Task) -> dict[str, Any]:
    """Step 4 of the analyst: open ||z||^2, and estimate."""
    with party.meter.phase("open"):
        square = int((await opened(party, task, (1, 1)))[0, 0])
    await party.runtime.shutdown()  # no server waits for what is left to do

    from dpmpc.estimators.components_and_moments import item_moment  # no server needs it

    moment, error = item_moment(square * task.unit**2, task.width, float(task.noise_variance[0]))
    return {"squared_norm": square, "moment": moment, "standard_error": error}


def task_for(
    column: Column,
    clients: int,
    epsilon: float,
    delta: float,
    *,
    rows: int = ROWS,
    servers: int = 3,
    simulation_seed: int | None = None,
    fractional_bits: int | None = None,
    **choices: Any,
) -> Task:
    """Design a release of items of which only ||z||^2 is opened; `choices` are others of `dpmpc.planning.design`.

    The fractional bits are about the most with which ||z||^2 cannot wrap around; beyond about a million clients, with
    all default choices, too few are left for the noise. Of M servers (M - 1) // 2 may collude.
    """
    contribution = ItemSketch.of(column, rows, public_seed(simulation_seed))

    def task_with(bits: int) -> Task:
        return design(
            ReleaseSpec.of(
                Schema((column,)),
                clients,
                epsilon,
                delta,
                contribution=contribution,
                sharing="shamir",
                servers=servers,
                fractional_bits=bits,
                simulation_seed=simulation_seed,
                **choices,
            )
        )

    if fractional_bits is not None:
        return check(task_with(fractional_bits))
    return check(with_room(task_with, bits_of_square, max(0, 31 - clients.bit_length())))


def check(task: Task) -> Task:
    """Return the task if ||z||^2 can be computed modulo p: Shamir shares of an item sketch, and nothing wraps around.

    Raises
    ------
    InputError
        If the shares are additive, or something else than items is summed.
    OverflowRisk
        If ||z||^2 might reach p.
    """
    require_shamir(task)
    if not isinstance(task.statistic, ItemSketch):
        raise InputError(f"statistic: {task.statistic.name!r} given, 'item-sketch' expected")
    require_room(task, bits_of_square(task))  # p = 2^61 - 1 is not a square
    return task


def bits_of_square(task: Task) -> int:
    """Return the bits of the largest ||z||^2, but for the failure probability of the task's modulus plan.

    Each client moves z by a vector of norm 2^f, so that ||z|| <= n 2^f + sqrt(k) tail, where every entry's noise stays
    below `tail`.
    """
    signal = task.clients * task.statistic.largest_entry(task.encoding)
    return ((signal + math.ceil(math.sqrt(task.width) * task.modulus_plan.tail)) ** 2).bit_length()


def run(task: Task, rows: NDArray[np.float64], *, stream: Stream | None = None, threads: int = 1) -> Run:
    """Play all the clients, then run servers and analyst as processes of this machine; see `dpmpc.networked.run`."""
    shares = clients(check(task), rows, stream=stream, threads=threads)
    return run_parties(PROGRAM, task, shares, threads=threads)


def demonstrate(arguments: Sequence[str]) -> None:
    """Estimate F_2 of the generated population's years of schooling, and print what it cost."""
    from dpmpc.cli.demonstrations import ITEM_COLUMN, demonstration_options, print_unopened_run
    from dpmpc.datasets import DEMO_BOUNDS, demo_population

    chosen = demonstration_options(__doc__, arguments)
    [column] = DEMO_BOUNDS.select([ITEM_COLUMN]).columns
    task = task_for(column, chosen.clients, chosen.epsilon, chosen.delta, servers=chosen.servers)
    items = demo_population(chosen.clients).table.select([ITEM_COLUMN]).values
    done = run(task, items)
    exact = float(np.sum(np.unique(items, return_counts=True)[1].astype(np.float64) ** 2))
    found = (
        f"{ITEM_COLUMN}, sum of f^2 over the items' counts f: private {done.answer['moment']:.6g} +- "
        f"{done.answer['standard_error']:.3g} (standard error), not private {exact:.6g}"
    )
    print_unopened_run([found, "opened: one number"], task, done)


if __name__ == "__main__":
    from dpmpc.cli.main import by_hand

    by_hand(demonstrate)
