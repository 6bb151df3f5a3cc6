"""Differentially private statistics on data that no single server can read.

The modules lie in the order in which data travels: `data`, `encoding`, `noise` and `sharing` on the client, which
`client` composes; `sketching` on the servers (`server`); `release` and `estimators` with the analyst (`analyst`).
`privacy` states how much noise there must be and what is guaranteed. `simulation` composes the three roles in one
process, `network` across processes, `collection` over weeks.

What users need is exported here, and imported when it is first used. What has its own paper has its own room:
`dpmpc.models.papers.coinpress`, `dpmpc.owners.columns`, `dpmpc.models.papers.mutual_information`, and
`dpmpc.models.papers.baselines` to compare with.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmpc.base.errors import (
        AlreadyReleased,
        BatchMismatch,
        BudgetExceeded,
        CollectionClosed,
        DpmpcError,
        Equivocation,
        GuaranteeError,
        InconsistentShares,
        InputError,
        MachineUnfit,
        MalformedFrame,
        NotConfirmed,
        OverflowRisk,
        PartyImpersonated,
        PartyLost,
        PartyMissing,
        PrivacyWarning,
        ProtocolFailure,
        ReportConflict,
        ReportRejected,
        SimulationOnly,
        SpoolError,
        TooFewClients,
        TooLate,
        UtilityWarning,
        VerificationFailed,
        Withdrawn,
    )
    from dpmpc.data import Schema
    from dpmpc.models import (
        CoxRegression,
        FrequencyMoment,
        GroupComparison,
        GroupedRidgeRegression,
        KaplanMeier,
        LogisticRegression,
        LowRankApproximation,
        PoissonRegression,
        PrivateLinearModel,
        RidgeRegression,
        TableOne,
    )
    from dpmpc.privacy.specification import Budget, Mechanism, ReleaseSpec, Sketch, TrustModel
    from dpmpc.release.planning import design
    from dpmpc.release.release import Release
    from dpmpc.release.simulation import run as simulate

    __version__: str

__all__ = [
    "AlreadyReleased",
    "BatchMismatch",
    "Budget",
    "BudgetExceeded",
    "CollectionClosed",
    "CoxRegression",
    "DpmpcError",
    "Equivocation",
    "FrequencyMoment",
    "GroupComparison",
    "GroupedRidgeRegression",
    "GuaranteeError",
    "InconsistentShares",
    "InputError",
    "KaplanMeier",
    "LogisticRegression",
    "LowRankApproximation",
    "MachineUnfit",
    "MalformedFrame",
    "Mechanism",
    "NotConfirmed",
    "OverflowRisk",
    "PartyImpersonated",
    "PartyLost",
    "PartyMissing",
    "PoissonRegression",
    "PrivacyWarning",
    "PrivateLinearModel",
    "ProtocolFailure",
    "Release",
    "ReleaseSpec",
    "ReportConflict",
    "ReportRejected",
    "RidgeRegression",
    "Schema",
    "SimulationOnly",
    "Sketch",
    "SpoolError",
    "TableOne",
    "TooFewClients",
    "TooLate",
    "TrustModel",
    "UtilityWarning",
    "VerificationFailed",
    "Withdrawn",
    "__version__",
    "design",
    "simulate",
]

#: Where a public name comes from: a module, and the name there if it is another. All others are errors.
_SOURCES = {
    "Budget": "dpmpc.privacy.specification",
    "CoxRegression": "dpmpc.models",
    "FrequencyMoment": "dpmpc.models",
    "GroupComparison": "dpmpc.models",
    "GroupedRidgeRegression": "dpmpc.models",
    "KaplanMeier": "dpmpc.models",
    "LogisticRegression": "dpmpc.models",
    "LowRankApproximation": "dpmpc.models",
    "Mechanism": "dpmpc.privacy.specification",
    "PoissonRegression": "dpmpc.models",
    "PrivateLinearModel": "dpmpc.models",
    "Release": "dpmpc.release.release",
    "ReleaseSpec": "dpmpc.privacy.specification",
    "RidgeRegression": "dpmpc.models",
    "Schema": "dpmpc.data",
    "Sketch": "dpmpc.privacy.specification",
    "TableOne": "dpmpc.models",
    "TrustModel": "dpmpc.privacy.specification",
    "design": "dpmpc.release.planning",
    "simulate": "dpmpc.release.simulation:run",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: a server needs none of scikit-learn."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("dpmpc")
    if name in __all__:
        module, _, original = _SOURCES.get(name, "dpmpc.base.errors").partition(":")
        return getattr(importlib.import_module(module), original or name)
    raise AttributeError(f"module 'dpmpc' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
