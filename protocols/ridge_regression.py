"""Ridge regression in the linear-transformation model (Burkhardt et al. 2025, section 5.1).

Data: n clients, each with d features x and a target y within public bounds, here mapped to [-1, 1].
Wanted: w that nearly minimises ||Xw - y||^2 + alpha ||w||^2, while each client has (epsilon, delta)-differential
privacy.

1. and 2. The servers open the noisy sketch [A b] = S [X y] + noise, or the noisy sum of second moments, and nothing
   else (`dpmpc.protocols.linear_transform`).
3. The analyst solves (A^T A + alpha I) w = A^T b (`dpmpc.RidgeRegression`): post-processing, which costs no privacy.

Three servers and an analyst, each a process of this machine, and generated people::

    python protocols/ridge_regression.py -M3 --clients 50000 --epsilon 1

On a file of your own: ``dpmpc fit FILE --model ridge --target COLUMN -M3 ...``. It opens and fits the same.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmpc.network.party import Party
from dpmpc.protocols.linear_transform import open_then, ready
from dpmpc.release import Release

if TYPE_CHECKING:
    from dpmpc.estimators.ridge import RidgeFit

prepare = functools.partial(ready, "dpmpc.estimators.ridge")  # run in every party, while clients are at work


async def main(party: Party) -> dict[str, Any]:
    """Run one party: a server, or the analyst, who returns the fit in the columns' units."""
    return await open_then(party, fit)


def fit(arguments: Mapping[str, Any], release: Release) -> dict[str, Any]:
    """Step 3: solve."""
    from dpmpc.estimators.ridge import RidgeFit  # no server needs it

    return answer_of(RidgeFit(**arguments["model"]).fit_release(release, target=arguments["target"]))


def answer_of(fitted: RidgeFit) -> dict[str, Any]:
    """Return a fit as plain data, in the columns' units."""
    return {
        "target": fitted.target_,
        "coefficients": dict(zip(fitted.feature_names_, fitted.coef_.tolist(), strict=True)),
        "intercept": fitted.intercept_,
        "alpha": float(fitted.alpha_),
        "debiased": fitted.debiased_,
    }


if __name__ == "__main__":
    from dpmpc.cli.main import demo_by_hand

    demo_by_hand("ridge")
