"""Frequency moments in the linear-transformation model (Burkhardt et al. 2025, section 4.1), as an MPyC program.

Data: n clients, each with one number x, here the years of schooling.
Wanted: sum_i x_i^p, while each client has (epsilon, delta)-differential privacy.

    python protocols/frequency_moments.py -M3

F_2 = sum_v f_v^2 of items, of which v is held f_v times, is read from another release: ``dpmpc demo --model moment``
shows both. On a file of your own: ``dpmpc fit FILE --model moment --column COLUMN -M3 ...``.
"""

from mpyc.runtime import mpc

from dpmpc.data.demo import DEMO_BOUNDS, demo_population
from dpmpc.linear.contributions.powers_and_items import PowerSum
from dpmpc.parties.mpyc.mpyc_links import errors_in_a_line
from dpmpc.parties.mpyc.programs import options, planned
from dpmpc.protocols.linear_transform import linear_transform
from dpmpc.release.release import Release
from dpmpc.release.results import Result

SCHEMA = DEMO_BOUNDS.select(["schooling_years"])


async def main() -> object:
    """Run one party."""
    args = options(__doc__, model={"order": 2})

    def moment(release: Release) -> Result:
        """Read sum_i x_i^p from the opened sum: post-processing, which costs no privacy."""
        from dpmpc.models.components.frequency_moment import FrequencyMoment  # no server needs it

        return FrequencyMoment(**args.model).fit_release(release).result()

    people = lambda n: demo_population(n).table.select(SCHEMA.names).values  # noqa: E731
    powers = PowerSum.of(SCHEMA.columns[0], args.model["order"])  # client i sends x_i^p
    plan = planned(args, SCHEMA, people, contribution=powers, sketch="sum")
    async with mpc:
        run = await plan.agreed()
        y = linear_transform(run)  # sum_i x_i^p + noise: S is a row of ones
        release = await run.released(await mpc.output(run.once(y), receivers=run.analyst))
    return run.report(release, moment)


if __name__ == "__main__":
    with errors_in_a_line():
        mpc.run(main())
