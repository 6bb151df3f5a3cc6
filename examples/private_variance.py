"""A new MPyC program: the variance of a column, of which nothing else is opened, neither mean nor mean square.

1. Each client sends Shamir shares of (sqrt(2) u, u^2) with its share of the noise, u in [-1, 1] being its number.
2. Each server adds up its shares, alone: z = 2^f (sqrt(2) sum u, sum u^2) + noise, which nobody sees.
3. The servers compute 2 n 2^f z_1 - z_0^2 = 2 4^f (n sum u^2 - (sum u)^2) + noise: one secure product, checked.
4. They open that number: post-processing of z, so the guarantee of z holds for it.

``python examples/private_variance.py -M3`` starts three parties of this machine.
"""

import numpy as np
from mpyc.runtime import mpc

from dpmpc.data import Column, Schema
from dpmpc.parties.mpyc.checked import checked_gram
from dpmpc.parties.mpyc.closed_tasks import OpenedProducts, design_with_room
from dpmpc.parties.mpyc.mpyc_links import errors_in_a_line
from dpmpc.parties.mpyc.programs import options, planned
from dpmpc.privacy.task import Task
from dpmpc.protocols.linear_transform import linear_transform
from dpmpc.release import NumberTable, Result

AGE = Schema((Column("age", 18, 90),))


def ages(clients: int) -> np.ndarray:
    """Return generated rows (n, 1)."""
    return np.random.default_rng(0).normal(40, 12, (clients, 1)).clip(18, 90).round()


def bits(task: Task) -> int:
    """Return the bits of the largest number that is computed, a difference of two at most (largest |z|)^2."""
    largest = task.clients * task.statistic.largest_entry(task.encoding) + int(task.modulus_plan.tail) + 1
    return (largest**2).bit_length() + 2


def variance(release: OpenedProducts) -> Result:
    """Scale the opened number, and add the noise's share of z_0^2, whose law is public."""
    task, [[number]] = release.task, release.values.tolist()
    n, unit = task.clients, 2**task.encoding.fractional_bits
    bias = int(task.noise_terms[0]) * task.noise.variance
    found = (number + bias) / (2 * (n * unit) ** 2) * float(task.schema.slope[0]) ** 2
    return Result(
        tables=[NumberTable("Variance of age", {"private": [found], "not private": [ages(n).var()]}, ["age"])]
    )


async def main() -> dict[str, object]:
    """Run one party."""
    args = options(__doc__, sharing="shamir", clients=60_000)
    plan = planned(args, AGE, ages, design_with_room(bits), sketch="sum")
    async with mpc:
        run = await plan.agreed()
        task = run.task
        z = linear_transform(run)  # (1, 2)
        square = await checked_gram(z[:, :1])
        number = z[:, 1:] * (2 * task.clients * 2**task.encoding.fractional_bits) - square
        release = await run.released(await mpc.output(run.once(number), receivers=run.analyst), OpenedProducts)
    return run.report(release, variance)


if __name__ == "__main__":
    with errors_in_a_line():
        mpc.run(main())
