"""Differentially private data analysis by secure sketching: no server ever sees a row.

The modules lie in the order in which data travels: `bounds`, `encoding`, `noise`, `sharing` on the client (`client`),
`sketching` on the servers (`server`), `release` and `estimators` with the analyst (`analyst`). `privacy` says how much
noise and what is promised; `model` composes the three roles in one process, `network` and `protocols` across real ones.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmpc.estimators import FrequencyMoment, LowRankApproximation, PrivateLinearModel, RidgeRegression
    from dpmpc.release import Release

    __version__: str

__all__ = [
    "FrequencyMoment",
    "LowRankApproximation",
    "PrivateLinearModel",
    "Release",
    "RidgeRegression",
    "__version__",
]

_HOMES = {
    "FrequencyMoment": "dpmpc.estimators",
    "LowRankApproximation": "dpmpc.estimators",
    "PrivateLinearModel": "dpmpc.estimators",
    "Release": "dpmpc.release",
    "RidgeRegression": "dpmpc.estimators",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: a server needs none of scikit-learn."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("dpmpc")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dpmpc' has no attribute {name!r}")
