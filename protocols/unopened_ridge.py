"""Ridge regression from a noisy sketch that nobody sees (Burkhardt et al. 2025, section 5.1), as an MPyC program.

Data: n clients, each with d features x and a target y within public bounds, here mapped to [-1, 1]: p = d + 1 columns.
Wanted: w that nearly minimises ||Xw - y||^2 + alpha ||w||^2, while each client has (epsilon, delta)-differential
privacy.

The parties hold Shamir shares of S Z + noise, put the public column S 1 beside it, and open A^T A for that A, which
they have checked (`dpmpc.parties.mpyc.checked`): (p + 1) x (p + 1) numbers instead of the sketch. The guarantee is
that of the opened sketch, since A^T A is computed from it. The price is trust: an honest majority of servers, not one
of them.

    python protocols/unopened_ridge.py -M3
    python protocols/unopened_ridge.py -M5 -T2 --clients 400000 --rows 40
"""

from typing import Any

import numpy as np
from mpyc.runtime import mpc

from dpmpc.data.demo import DEMO_BOUNDS, DEMO_RADIUS, DEMO_TARGET, demo_population
from dpmpc.parties.mpyc.checked import checked_gram
from dpmpc.parties.mpyc.closed_tasks import design_products, public_ones, require_products
from dpmpc.parties.mpyc.mpyc_links import errors_in_a_line
from dpmpc.parties.mpyc.programs import options, planned
from dpmpc.protocols.linear_transform import linear_transform
from dpmpc.release.release import GramRelease
from dpmpc.release.results import NumberTable, Result


async def main() -> dict[str, Any]:
    """Run one party."""
    args = options(__doc__, sharing="shamir", rows=64, model={"alpha": 1.0}, target=DEMO_TARGET)

    def ridge(release: GramRelease) -> Result:
        """Solve (A^T A + alpha I) w = A^T b."""
        from dpmpc.models import RidgeRegression  # no server needs it

        w = RidgeRegression(**args.model).fit_release(release, target=args.target)
        coefficients = dict(zip(w.feature_names_, w.coef_.tolist(), strict=True))
        table = NumberTable("Coefficients", {"private": list(coefficients.values())}, list(coefficients))
        data = {"coefficients": coefficients, "intercept": w.intercept_, "products": release.products.tolist()}
        return Result(tables=[table], data=data)

    plan = planned(args, DEMO_BOUNDS, lambda n: demo_population(n).table.values, design_products, radius=DEMO_RADIUS)
    async with mpc:
        run = await plan.agreed()
        task = require_products(run.task)
        y = linear_transform(run)  # S Z + noise
        A = np.hstack((type(y)(public_ones(task)), y))  # [S 1, S Z + noise]: a public number is its own share
        products = await checked_gram(A)
        release = await run.released(await mpc.output(run.once(products), receivers=run.analyst), GramRelease)
    return run.report(release, ridge)


if __name__ == "__main__":
    with errors_in_a_line():
        mpc.run(main())
