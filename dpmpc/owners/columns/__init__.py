"""Release the columns of several parties on the same people, and regress any of them on the others.

Paper: Wu et al., Differentially Private Multi-Party Data Release for Linear Regression (UAI 2022). The parties
agree on a `MixingTask`, everything public about the release; each `DataOwner` turns its own columns into noisy
integers; a `MixedRelease` puts those side by side; `DGM`, `BGM` and `RMGM` are the paper's three regressions, which
read one or make one from data at hand.

Promised: what `dpmpc.owners.columns.mixing_guarantee` states, for every matrix of signs. Not promised: that the fit is
any good. With few subjects all three are worse than the predictor 0, which is what BGM comes down to without much data.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpmpc.owners.columns.mixing_task import design
from dpmpc.owners.columns.owner import DataOwner

if TYPE_CHECKING:
    from dpmpc.owners.columns.mixing_estimators import BGM, DGM, RMGM

__all__ = ["BGM", "DGM", "RMGM", "DataOwner", "design"]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first used: a party needs none of scikit-learn."""
    if name in ("BGM", "DGM", "RMGM"):
        return getattr(importlib.import_module("dpmpc.owners.columns.mixing_estimators"), name)
    raise AttributeError(f"module 'dpmpc.owners.columns' has no attribute {name!r}")
