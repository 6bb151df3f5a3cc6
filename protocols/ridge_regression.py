"""Ridge regression in the linear-transformation model (Burkhardt et al. 2025, section 5.1), as an MPyC program.

Data: n clients, each with d features x and a target y within public bounds, here mapped to [-1, 1].
Wanted: w that nearly minimises ||Xw - y||^2 + alpha ||w||^2, while each client has (epsilon, delta)-differential
privacy.

    python protocols/ridge_regression.py -M3
    python protocols/ridge_regression.py -M2 --epsilon 2 --rows 200 --sparsity 4

On a file of your own: ``dpmpc fit FILE --model ridge --target COLUMN -M3 ...``.
"""

from typing import Any

from mpyc.runtime import mpc

from dpmpc.data.demo import DEMO_BOUNDS, DEMO_RADIUS, DEMO_TARGET, demo_population
from dpmpc.parties.mpyc.mpyc_links import errors_in_a_line
from dpmpc.parties.mpyc.programs import options, planned
from dpmpc.protocols.linear_transform import linear_transform
from dpmpc.release.release import Release
from dpmpc.release.results import Result


async def main() -> dict[str, Any]:
    """Run one party."""
    args = options(__doc__, clients=1_000_000, rows=64, model={"alpha": 1.0}, target=DEMO_TARGET)

    def ridge(release: Release) -> Result:
        """Solve (A^T A + alpha I) w = A^T b for the opened [A b]: post-processing, which costs no privacy."""
        from dpmpc.models import RidgeRegression  # no server needs it

        return RidgeRegression(**args.model).fit_release(release, target=args.target).result()

    plan = planned(args, DEMO_BOUNDS, lambda n: demo_population(n).table.values, radius=DEMO_RADIUS)
    async with mpc:
        run = await plan.agreed()
        y = linear_transform(run)  # [A b] = S [X y] + noise
        release = await run.released(await mpc.output(run.once(y), receivers=run.analyst))
    return run.report(release, ridge)


if __name__ == "__main__":
    with errors_in_a_line():
        mpc.run(main())
