"""What a release of noisy or projected rows promises, in bits; and what it does not."""

from __future__ import annotations

import dataclasses

from dpmpc.privacy.guarantee import Promise
from dpmpc.projection.information import delta_of_bits

ONE_ENTRY = "one-entry"


@dataclasses.dataclass(frozen=True)
class MutualInformationGuarantee(Promise):
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

    def __repr__(self) -> str:
        kind = "proven" if self.proven else "UNPROVEN"
        simulation = ", SIMULATION" if self.simulation else ""
        return f"<MutualInformationGuarantee: {self.epsilon:g} bits about one entry, {kind}{simulation}>"

    def __str__(self) -> str:
        verb = "tells at most" if self.proven else "is CLAIMED, WITHOUT PROOF, to tell at most"
        lines = [
            f"the release {verb} {self.epsilon:g} bits about one entry of X"
            + (f" (hence (0, {self.delta:.4g})-differential privacy)" if self.proven else ""),
            f"  neighbouring: {_NEIGHBOURING[self.neighbouring]}",
            f"  noise: {self.mechanism}; {self.rows:,} rows are released",
        ]
        return self._text(lines, "the noise is floating-point, so nobody is protected by it.")


_NEIGHBOURING = {ONE_ENTRY: "one entry of X becomes any other number within its bounds; a whole row may tell far more"}
