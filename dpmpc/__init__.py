"""Differentially private statistics on data that no single server can read.

The modules lie in the order in which data travels: `bounds`, `encoding`, `noise` and `sharing` on the client, which
`client` composes; `sketching` on the servers (`server`); `release` and `estimators` with the analyst (`analyst`).
`privacy` says how much noise there has to be and what is promised. `simulation` composes the three roles in one
process, `network` across processes, `collection` over weeks.

What users need is exported here, and imported when it is first used. What has a paper of its own has a room of its own:
`dpmpc.coinpress`, `dpmpc.data_release`, `dpmpc.mutual_information`, and `dpmpc.baselines` to compare with.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from dpmpc.bounds import Schema
    from dpmpc.errors import (
        AlreadyReleased,
        AuditFailed,
        BatchMismatch,
        CollectionClosed,
        DpmpcError,
        Equivocation,
        GuaranteeError,
        InconsistentShares,
        InputError,
        MachineUnfit,
        MalformedFrame,
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
        UtilityWarning,
        VerificationFailed,
    )
    from dpmpc.estimators import (
        FrequencyMoment,
        GroupedRidgeRegression,
        LogisticRegression,
        LowRankApproximation,
        PoissonRegression,
        PrivateLinearModel,
        RidgeRegression,
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
    "CollectionClosed",
    "DpmpcError",
    "Equivocation",
    "FrequencyMoment",
    "GroupedRidgeRegression",
    "GuaranteeError",
    "InconsistentShares",
    "InputError",
    "LogisticRegression",
    "LowRankApproximation",
    "MachineUnfit",
    "MalformedFrame",
    "Mechanism",
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
    "TooFewClients",
    "TrustModel",
    "UtilityWarning",
    "VerificationFailed",
    "__version__",
    "design",
    "simulate",
]

#: Where a public name comes from: a module, and the name there if it is another. All others are errors.
_SOURCES = {
    "Budget": "dpmpc.specification",
    "FrequencyMoment": "dpmpc.estimators",
    "GroupedRidgeRegression": "dpmpc.estimators",
    "LogisticRegression": "dpmpc.estimators",
    "LowRankApproximation": "dpmpc.estimators",
    "Mechanism": "dpmpc.specification",
    "PoissonRegression": "dpmpc.estimators",
    "PrivateLinearModel": "dpmpc.estimators",
    "Release": "dpmpc.release",
    "ReleaseSpec": "dpmpc.specification",
    "RidgeRegression": "dpmpc.estimators",
    "Schema": "dpmpc.bounds",
    "Sketch": "dpmpc.specification",
    "TrustModel": "dpmpc.specification",
    "design": "dpmpc.planning",
    "simulate": "dpmpc.simulation:run",
}

#: Modules by their names of version 0.1. A module below one of these is sought below its new name.
_RENAMED = {
    "dpmpc.intake": "dpmpc.collection",
    "dpmpc.intake.collection": "dpmpc.collection.task_file",
    "dpmpc.mixing": "dpmpc.data_release",
    "dpmpc.mixing.party": "dpmpc.data_release.owner",
    "dpmpc.projection": "dpmpc.mutual_information",
    "dpmpc.projection.guarantee": "dpmpc.mutual_information.information",
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


class _OldNames:
    """A finder and loader of modules by their old names: it warns, and hands out the module of the new name."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Find the modules that were renamed, and those below them."""
        if name in _RENAMED or name.rpartition(".")[0] in _RENAMED:
            return ModuleSpec(name, cls)  # type: ignore[arg-type]
        return None

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Leave it to Python to make a module, in whose place `exec_module` puts another."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Put the module of the new name in the place of the old name."""
        import warnings

        old = module.__name__
        above, _, last = old.rpartition(".")
        new = _RENAMED.get(old) or f"{_RENAMED[above]}.{last}"
        warnings.warn(f"{old} is now called {new}; the old name goes with version 0.3", FutureWarning, stacklevel=2)
        sys.modules[old] = importlib.import_module(new)


if _OldNames not in sys.meta_path:
    sys.meta_path.insert(0, _OldNames)
