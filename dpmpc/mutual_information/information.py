"""Bits: mutual information, the noise that keeps it low, and what it means as differential privacy.

A mechanism is epsilon-MI-DP if I(D_i; release | all other entries) <= epsilon bits for every entry i and every
distribution of the data (Showkatbakhsh et al. 2018, Definition 1, after Cuff and Yu 2016). Here an entry is one number
X_ij in [-1, 1], logarithms have base 2, and 2^(2 epsilon) - 1 is the signal-to-noise ratio that epsilon bits allow.

The paper's epsilon is a number of bits. It stands in formulas; in code it is `leakage_bits`, so that nobody takes it
for the epsilon of differential privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from dpmpc.errors import InputError
from dpmpc.privacy.gaussian import last
from dpmpc.privacy.guarantee import Promise
from dpmpc.storage import Record

ONE_ENTRY = "one-entry"


class MutualInformationGuarantee(Promise, Record, frozen=True):
    """How many bits a release tells about one entry of X, given all others.

    Parameters
    ----------
    leakage_bits : float
        I(X_ij; release | all other entries) is at most this. A claim of its source only, unless `proven`.
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

    called: ClassVar[str] = "guarantee"
    leakage_bits: float
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
        return delta_of_bits(self.leakage_bits)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Rebuild a guarantee from `to_dict`, also from that of version 0.1, which called the bits epsilon."""
        return super().from_dict({"leakage_bits" if key == "epsilon" else key: given[key] for key in given})

    def __repr__(self) -> str:
        kind = "proven" if self.proven else "UNPROVEN"
        simulation = ", SIMULATION" if self.simulation else ""
        return f"<MutualInformationGuarantee: {self.leakage_bits:g} bits about one entry, {kind}{simulation}>"

    def __str__(self) -> str:
        verb = "tells at most" if self.proven else "is CLAIMED, WITHOUT PROOF, to tell at most"
        lines = [
            f"the release {verb} {self.leakage_bits:g} bits about one entry of X"
            + (f" (hence (0, {self.delta:.4g})-differential privacy)" if self.proven else ""),
            f"  neighbouring: {_NEIGHBOURING[self.neighbouring]}",
            f"  noise: {self.mechanism}; {self.rows:,} rows are released",
        ]
        return self._text(lines, "the noise is floating-point, so nobody is protected by it.")


_NEIGHBOURING = {ONE_ENTRY: "one entry of X becomes any other number within its bounds; a whole row may tell far more"}


MOST_BITS = 500.0  # 2^(2 epsilon) still is a double


def check_bits(leakage_bits: float) -> float:
    """Return a number of bits, or refuse what is not an amount of information."""
    if not (math.isfinite(leakage_bits) and 0 < leakage_bits <= MOST_BITS):
        raise InputError(f"leakage_bits: {leakage_bits} given, a number of bits in (0, {MOST_BITS:g}] expected")
    return float(leakage_bits)


def additive_variance(leakage_bits: float) -> float:
    """Return sigma_AN^2 = 1/(2^(2 epsilon) - 1), the variance that hides an entry in [-1, 1] (Equation 9).

    Parameters
    ----------
    leakage_bits : float
        The paper's epsilon.

    Returns
    -------
    float
        6.725024, 3.129813, 1 and 0.333333 at 0.1, 0.2, 0.5 and 1 bit.
    """
    return 1 / math.expm1(2 * math.log(2) * check_bits(leakage_bits))


def bits(ratio: float) -> float:
    """Return 1/2 log2(1 + ratio): the capacity of a Gaussian channel with this signal-to-noise ratio (Equation 19)."""
    return math.log1p(ratio) / (2 * math.log(2))


def pinsker_delta(leakage_bits: float) -> float:
    """Return delta = sqrt(2 epsilon ln 2): epsilon-MI-DP implies (0, delta)-DP (Proposition 2, Pinsker's inequality).

    At most 1, which promises nothing: reached at 0.72 bits.
    """
    return min(1.0, math.sqrt(2 * check_bits(leakage_bits) * math.log(2)))


def delta_of_bits(leakage_bits: float) -> float:
    """Return the smallest delta that epsilon-MI-DP implies by Fano's inequality: 1 - h((1 - delta)/2) = epsilon.

    Let an entry take either of two values with probability 1/2. Who sees the release errs with probability
    (1 - TV)/2 at best, TV the total variation distance of the two releases, so that it tells at least
    1 - h((1 - TV)/2) bits, h the binary entropy. Never above `pinsker_delta`; 1 from one bit on.
    """
    if check_bits(leakage_bits) >= 1:
        return 1.0
    below = last(lambda delta: 1 - binary_entropy((1 - delta) / 2) < leakage_bits, 0.0, 1.0)
    return math.nextafter(below, 1.0)


def binary_entropy(probability: float) -> float:
    """Return h(p) = -p log2 p - (1 - p) log2(1 - p), in bits."""
    return -sum(p * math.log2(p) for p in (probability, 1 - probability) if p > 0)
