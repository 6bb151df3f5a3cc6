"""Low-rank approximation in the linear-transformation model (Burkhardt et al. 2025, section 5.2).

Data: n clients, each with a row z of d columns within public bounds, here mapped to [-1, 1].
Wanted: an orthogonal projection P P^T of rank r that nearly minimises ||Z - Z P P^T||_F, while each client has
(epsilon, delta)-differential privacy.

1. and 2. The servers open the noisy sketch A = S Z + noise, and nothing else (`dpmpc.protocols.linear_transform`).
3. The analyst takes the top r right singular vectors of A (`dpmpc.LowRankApproximation`): post-processing, which costs
   no privacy.

Started by hand, this file shows two releases of generated people: that sketch, and beside it the noisy sum of second
moments, whose top eigenvectors are far more accurate at so few columns.

Three servers and an analyst, each a process of this machine::

    python protocols/low_rank_approximation.py -M3 --clients 50000 --epsilon 1

On a file of your own: ``dpmpc fit FILE --model low-rank --components R -M3 ...``. It opens and fits the same.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from dpmpc.network.party import Party
from dpmpc.protocols.linear_transform import open_then, ready
from dpmpc.release import Release

prepare = functools.partial(
    ready, "dpmpc.estimators.components_and_moments"
)  # run in every party, while clients are at work


async def main(party: Party) -> dict[str, Any]:
    """Run one party: a server, or the analyst, who returns the components in normalised units."""
    return await open_then(party, fit)


def fit(arguments: Mapping[str, Any], release: Release) -> dict[str, Any]:
    """Step 3: find the components."""
    from dpmpc.estimators.components_and_moments import LowRankFit  # no server needs it

    fitted = LowRankFit(**arguments["model"]).fit_release(release)
    return {
        "components": [dict(zip(fitted.feature_names_, row, strict=True)) for row in fitted.components_.tolist()],
    }


if __name__ == "__main__":
    from dpmpc.cli.main import demo_by_hand

    demo_by_hand("low-rank")
