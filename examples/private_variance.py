"""A new MPyC program: the variance of a column, of which nothing else is opened, neither mean nor mean square.

1. Each client sends Shamir shares of (sqrt(2) u, u^2) with its share of the noise, u in [-1, 1] being its number.
2. Each server adds up its shares, alone: z = 2^f (sqrt(2) sum u, sum u^2) + noise, which nobody sees.
3. The servers compute 2 n 2^f z_1 - z_0^2 = 2 4^f (n sum u^2 - (sum u)^2) + noise: one secure product, checked.
4. The analyst opens that number: post-processing of z, so the guarantee of z holds for it.

``python examples/private_variance.py`` starts three servers and an analyst, each a process of this machine.
"""

from functools import partial
from typing import Any

import numpy as np

from dpmpc.client import share_batch
from dpmpc.data import Column, Schema
from dpmpc.mpyc import checked_products, open_to_analyst, opened, require_room, secure_array, sketch_alone, with_room
from dpmpc.network.party import Party
from dpmpc.networked import run_parties
from dpmpc.planning import ReleaseSpec, design
from dpmpc.task import Task


async def main(party: Party) -> dict[str, Any]:
    """Run one party: a server, or the analyst, who returns the variance."""
    task = party.task
    require_room(task, bits(task))
    n, unit = task.clients, 2**task.encoding.fractional_bits
    if party.pid != party.analyst:
        z = await sketch_alone(party)
        square = await checked_products(party, task, z[:, :1])
        await open_to_analyst(party, secure_array(party, task, z)[:, 1:] * (2 * n * unit) - square)
        return {}
    number = int(task.encoding.ring.lift(await opened(party, task, (1, 1)))[0, 0])
    bias = int(task.noise_terms[0]) * task.noise.variance  # the noise's share of z_0^2
    return {"variance": (number + bias) / (2 * (n * unit) ** 2) * float(task.schema.slope[0]) ** 2}


def task_for(column: Column, clients: int, epsilon: float, delta: float) -> Task:
    """Design the release with about the most fractional bits with which the product cannot wrap around."""
    spec = partial(ReleaseSpec.of, Schema((column,)), clients, epsilon, delta, sketch="sum", sharing="shamir")
    return with_room(lambda f: design(spec(fractional_bits=f)), bits, most=16)


def bits(task: Task) -> int:
    """Bits of the largest number that is computed, with its sign: each of two terms is at most (largest |z|)^2."""
    largest = task.clients * task.statistic.largest_entry(task.encoding) + int(task.modulus_plan.tail) + 1
    return (largest**2).bit_length() + 2


if __name__ == "__main__":
    ages = np.random.default_rng(0).normal(40, 12, (20_000, 1)).clip(18, 90).round()
    task = task_for(Column("age", 18, 90), len(ages), 1.0, 1e-6)
    done = run_parties("private_variance", task, share_batch(task, ages))
    print(f"variance of age: private {done.answer['variance']:.2f}, not private {ages.var():.2f}")
    print(task.unopened_guarantee)
