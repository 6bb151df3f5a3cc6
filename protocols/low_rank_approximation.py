"""Low-rank approximation in the linear-transformation model (Burkhardt et al. 2025, section 5.2), as an MPyC program.

Data: n clients, each with a row z of d columns within public bounds, here mapped to [-1, 1].
Wanted: an orthogonal projection P P^T of rank r that nearly minimises ||Z - Z P P^T||_F, while each client has
(epsilon, delta)-differential privacy.

    python protocols/low_rank_approximation.py -M3

On a file of your own: ``dpmpc fit FILE --model low-rank --components R -M3 ...``, where the noisy sum of second moments
is often far more accurate.
"""

from typing import Any

from mpyc.runtime import mpc

from dpmpc.data.demo import DEMO_BOUNDS, DEMO_RADIUS, demo_population
from dpmpc.parties.mpyc.mpyc_links import errors_in_a_line
from dpmpc.parties.mpyc.programs import options, planned
from dpmpc.protocols.linear_transform import linear_transform
from dpmpc.release.release import Release
from dpmpc.release.results import Result


async def main() -> dict[str, Any]:
    """Run one party."""
    args = options(__doc__, clients=1_000_000, rows=64, model={"n_components": 2})

    def low_rank(release: Release) -> Result:
        """Return the top r right singular vectors of the opened sketch: post-processing, which costs no privacy."""
        from dpmpc.models.components.low_rank_approximation import LowRankApproximation  # no server needs it

        return LowRankApproximation(**args.model).fit_release(release).result()

    plan = planned(args, DEMO_BOUNDS, lambda n: demo_population(n).table.values, radius=DEMO_RADIUS)
    async with mpc:
        run = await plan.agreed()
        y = linear_transform(run)  # A = S Z + noise
        release = await run.released(await mpc.output(run.once(y), receivers=run.analyst))
    return run.report(release, low_rank)


if __name__ == "__main__":
    with errors_in_a_line():
        mpc.run(main())
