"""Differentially private statistics on data that no single server can read.

The modules lie in the order in which data travels: `data`, `encoding`, `noise` and `sharing` on the client, which
`client` composes; `sketching` on the servers (`server`); `release` and `estimators` with the analyst (`analyst`).
`privacy` says how much noise there has to be and what is promised. `simulation` composes the three roles in one
process, `network` across processes, `collection` over weeks.

What users need is exported here, and imported when it is first used. What has a paper of its own has a room of its own:
`dpmpc.coinpress`, `dpmpc.data_release`, `dpmpc.mutual_information`, and `dpmpc.baselines` to compare with.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmpc.data import Schema
    from dpmpc.errors import (
        AlreadyReleased,
        AuditFailed,
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
    from dpmpc.estimators import (
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
    from dpmpc.planning import design
    from dpmpc.release import Release
    from dpmpc.simulation import run as simulate
    from dpmpc.specification import Budget, Mechanism, ReleaseSpec, Sketch, TrustModel

    __version__: str

__all__ = [
    "AlreadyReleased",
    "AuditFailed",
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
    "Budget": "dpmpc.specification",
    "CoxRegression": "dpmpc.estimators",
    "FrequencyMoment": "dpmpc.estimators",
    "GroupComparison": "dpmpc.estimators",
    "GroupedRidgeRegression": "dpmpc.estimators",
    "KaplanMeier": "dpmpc.estimators",
    "LogisticRegression": "dpmpc.estimators",
    "LowRankApproximation": "dpmpc.estimators",
    "Mechanism": "dpmpc.specification",
    "PoissonRegression": "dpmpc.estimators",
    "PrivateLinearModel": "dpmpc.estimators",
    "Release": "dpmpc.release",
    "ReleaseSpec": "dpmpc.specification",
    "RidgeRegression": "dpmpc.estimators",
    "Schema": "dpmpc.data",
    "Sketch": "dpmpc.specification",
    "TableOne": "dpmpc.estimators",
    "TrustModel": "dpmpc.specification",
    "design": "dpmpc.planning",
    "simulate": "dpmpc.simulation:run",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: a server needs none of scikit-learn."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("dpmpc")
    if name in __all__:
        module, _, original = _SOURCES.get(name, "dpmpc.errors").partition(":")
        return getattr(importlib.import_module(module), original or name)
    raise AttributeError(f"module 'dpmpc' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
