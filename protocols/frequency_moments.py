"""Frequency moments in the linear-transformation model (Burkhardt et al. 2025, section 4.1).

Data: n clients, each with one number x, or with one item of a public list, of which item v is held f_v times.
Wanted: sum_i x_i^k, or F_2 = sum_v f_v^2, while each client has (epsilon, delta)-differential privacy.

1. Each client sends x^k, or the item's column of a public CountSketch S, with its share of the noise.
2. The servers add up and open that sum, and nothing else (`dpmpc.protocols.linear_transform`).
3. The analyst reads sum_i x_i^k from it, or estimates F_2 by ||z||^2 - rows * noise variance for z = S f + noise
   (`dpmpc.FrequencyMoment`; docs/mathematics.md, section 5.2): post-processing, which costs no privacy.

Started by hand, this file shows two releases of generated people: sum_i x_i^2, and beside it F_2 of the items.

Three servers and an analyst, each a process of this machine::

    python protocols/frequency_moments.py -M3 --clients 50000 --epsilon 1

On a file of your own: ``dpmpc fit FILE --model moment --column COLUMN -M3 ...``. It opens and fits the same.
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
    """Run one party: a server, or the analyst, who returns the moment in the column's units."""
    return await open_then(party, fit)


def fit(arguments: Mapping[str, Any], release: Release) -> dict[str, Any]:
    """Step 3: estimate the moment."""
    from dpmpc.estimators.components_and_moments import MomentFit  # no server needs it

    fitted = MomentFit(**arguments["model"]).fit_release(release)
    return {
        "column": fitted.column_,
        "order": fitted.order,
        "of": fitted.of,
        "moment": fitted.moment_,
        "standard_error": fitted.standard_error_,
    }


if __name__ == "__main__":
    from dpmpc.cli.main import demo_by_hand

    demo_by_hand("moment")
