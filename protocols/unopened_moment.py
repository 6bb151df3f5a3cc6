"""The second frequency moment from a noisy sketch that nobody sees (Burkhardt et al. 2025, section 4.1), on MPyC.

Data: n clients, each with one item of a public list, of which item v is held f_v times; here the years of schooling.
Wanted: F_2 = sum_v f_v^2, while each client has (epsilon, delta)-differential privacy.

Each client sends the column of its item in a public CountSketch S with k rows, so that the sum is z = S f + noise. The
parties hold Shamir shares of z and open ||z||^2 alone, which they have checked (`dpmpc.parties.mpyc.checked`): one
number instead of k. F_2 is estimated by ||z||^2 - k * noise variance.

    python protocols/unopened_moment.py -M3
    python protocols/unopened_moment.py -M5 -T2 --rows 64
"""

import functools
from typing import Any

from mpyc.runtime import mpc

from dpmpc.base.arrays import Reals
from dpmpc.data.demo import DEMO_BOUNDS, demo_population
from dpmpc.parties.mpyc.checked import checked_gram
from dpmpc.parties.mpyc.closed_tasks import OpenedProducts, design_square, require_square
from dpmpc.parties.mpyc.mpyc_links import errors_in_a_line
from dpmpc.parties.mpyc.programs import options, planned
from dpmpc.protocols.linear_transform import linear_transform
from dpmpc.release.results import NumberTable, Result

COLUMN = "schooling_years"  # whole numbers


def schooling(clients: int) -> Reals:
    """Return generated rows (n, 1)."""
    return demo_population(clients).table.select([COLUMN]).values


def second_moment(release: OpenedProducts) -> Result:
    """Return the estimate of F_2, and the standard error of the noise and the sketch."""
    from dpmpc.models.components.frequency_moment import item_moment  # no server needs it

    task, [[square]] = release.task, release.values.tolist()
    moment, error = item_moment(square * task.unit**2, task.width, float(task.noise_variance[0]))
    table = NumberTable("Second moment of the items", {"estimate": [moment], "std. error": [error]}, ["F_2"])
    return Result(tables=[table], data={"squared_norm": square, "moment": moment, "standard_error": error})


async def main() -> dict[str, Any]:
    """Run one party."""
    args = options(__doc__, sharing="shamir", rows=256)
    designed = functools.partial(design_square, rows=args.rows)
    plan = planned(args, DEMO_BOUNDS.select([COLUMN]), schooling, designed, sketch="sum")
    async with mpc:
        run = await plan.agreed()
        require_square(run.task)
        z = linear_transform(run)  # (1, k): S f + noise
        square = await checked_gram(z.T)
        release = await run.released(await mpc.output(run.once(square), receivers=run.analyst), OpenedProducts)
    return run.report(release, second_moment)


if __name__ == "__main__":
    with errors_in_a_line():
        mpc.run(main())
