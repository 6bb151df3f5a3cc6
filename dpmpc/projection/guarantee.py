"""What a release of noisy or projected rows promises, in bits; and what it does not."""

from __future__ import annotations

import dataclasses
from typing import Any

from dpmpc.notebook import statement_html
from dpmpc.projection.information import delta_of_bits

ONE_ENTRY = "one-entry"


@dataclasses.dataclass(frozen=True)
class MutualInformationGuarantee:
    """How many bits a release tells about one entry of X, given all others.

    Parameters
    ----------
    epsilon : float
        Bits: I(X_ij; release | all other entries) is at most this. A claim of its source only, unless `proven`.
    mechanism : str
        The noise, in words. A standard deviation that depends on the data is not named.
    calibration : str
        "sound", or "paper" for the noise as printed.
    proven : bool
        Whether the promise is a theorem for all distributions of the data that `assumptions` admit.
    rows : int
        Number of rows that are released, n or n'.
    neighbouring : str
        The relation: "one-entry" changes a single number of X within its bounds.
    assumptions, sources : tuple of str
        What the promise rests on, and where it is proven or claimed.
    simulation : bool
        True: floating-point noise protects nobody, from a seed or not.
    """

    epsilon: float
    mechanism: str
    calibration: str
    proven: bool
    rows: int
    neighbouring: str = ONE_ENTRY
    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    simulation: bool = True

    @property
    def delta(self) -> float:
        """The delta of (0, delta)-differential privacy for one entry that follows; 1 promises nothing."""
        return delta_of_bits(self.epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers, strings and lists."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self).items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> MutualInformationGuarantee:
        """Rebuild a guarantee from `to_dict`."""
        lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
        return cls(**{**fields, **lists})

    def __repr__(self) -> str:
        kind = "proven" if self.proven else "UNPROVEN"
        simulation = ", SIMULATION" if self.simulation else ""
        return f"<MutualInformationGuarantee: {self.epsilon:g} bits about one entry, {kind}{simulation}>"

    def _repr_html_(self) -> str:
        return statement_html(str(self))

    def __str__(self) -> str:
        verb = "tells at most" if self.proven else "is CLAIMED, WITHOUT PROOF, to tell at most"
        lines = [
            f"the release {verb} {self.epsilon:g} bits about one entry of X"
            + (f" (hence (0, {self.delta:.4g})-differential privacy)" if self.proven else ""),
            f"  neighbouring: {_NEIGHBOURING[self.neighbouring]}",
            f"  noise: {self.mechanism}; {self.rows:,} rows are released",
        ]
        lines += [f"  assumes: {assumption}" for assumption in self.assumptions]
        lines += [f"  source: {source}" for source in self.sources]
        if self.simulation:
            lines.insert(0, "SIMULATION: the noise is floating-point, so nobody is protected by it.")
        return "\n".join(lines)


_NEIGHBOURING = {ONE_ENTRY: "one entry of X becomes any other number within its bounds; a whole row may tell far more"}
