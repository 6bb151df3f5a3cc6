"""Bits: mutual information, the noise that keeps it low, and what it means as differential privacy.

A mechanism is epsilon-MI-DP if I(D_i; release | all other entries) <= epsilon bits for every entry i and every
distribution of the data (Showkatbakhsh et al. 2018, Definition 1, after Cuff and Yu 2016). Here an entry is one number
X_ij in [-1, 1], logarithms have base 2, and 2^(2 epsilon) - 1 is the signal-to-noise ratio that epsilon bits allow.

The paper's epsilon is a number of bits. It stands in formulas; in code it is `leakage_bits`, so that nobody takes it
for the epsilon of differential privacy.

The noise of a projection
-------------------------
How much noise a secret Gaussian projection needs beside what it mixes by itself: as printed, and repaired.

The release is (SX + sigma N, Sy) with S (n' x n) and N of independent N(0, 1) entries, S secret. Where column j meets
row i, the other rows act as noise that hides X_ij.

*As printed* (Equation 13, Lemma 2) the variance of that noise is sigma^2 + f^2, which takes the columns of the release
for conditionally independent. They are not: S is common to all. With two columns that differ in one entry alone the
difference of their projections shows it, whatever f (`dpmpc.models.papers.mutual_information.attack`).

*Repaired* (theorem projected-bits): what hides X_ij is only what the other columns and y cannot explain,

    v = min_ij [sigma^2 + min_{b,c} ||x_j - X_{-j} b - y c||^2 + sigma^2 ||b||^2],    each column without row i,

and the release reveals at most 1/2 log2(1 + n'/v) bits about any entry. v >= sigma^2 whatever the data, so that
sigma^2 = n'/(2^(2 epsilon) - 1) is enough without looking at them. Not promised: that what is computed here is private.
Everything but that last number depends on the data.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.optimize import brentq

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage import Record
from dpmpc.privacy.gaussian import last
from dpmpc.privacy.guarantee import Promise
from dpmpc.privacy.statements import assumptions, with_ground

ONE_ENTRY = "one-entry"
FLOATING = "the noise is floating-point, so no one is protected by it."


class MutualInformationGuarantee(Promise, Record, frozen=True):
    """How many bits a release reveals about one entry of X, given all others.

    Parameters
    ----------
    leakage_bits : float
        I(X_ij; release | all other entries) is at most this. A claim of its source only, unless `proven`.
    noise_sd : float or None
        Standard deviation of the Gaussian noise on every entry; None where it depends on the data and stays secret.
    calibration : str
        "sound", or "paper" for the noise as printed.
    proven : bool
        Whether the promise is a theorem for all distributions of the data that `assumptions` admit.
    rows : int
        Number of rows that are released, n or n'.
    neighbouring : str
        The relation: "one-entry" changes a single number of X within its bounds.
    projected : bool
        Whether SX is released, not X.
    floor : float
        Variance behind which the data are known to hide every entry when mixed.
    assumptions, sources : tuple of str
        Codes of what the promise rests on, and of where it is proven or claimed (`dpmpc.privacy.statements`).
    simulation : bool
        True: floating-point noise protects no one, from a seed or not.
    """

    called: ClassVar[str] = "guarantee"
    leakage_bits: float
    noise_sd: float | None
    calibration: str
    proven: bool
    rows: int
    projected: bool = False
    floor: float = 0.0
    neighbouring: str = ONE_ENTRY
    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    simulation: bool = True

    @property
    def delta(self) -> float:
        """The delta of (0, delta)-differential privacy for one entry that follows; 1 promises nothing."""
        return delta_of_bits(self.leakage_bits)

    def __repr__(self) -> str:
        kind = "proven" if self.proven else "UNPROVEN"
        simulation = ", SIMULATION" if self.simulation else ""
        return f"<MutualInformationGuarantee: {self.leakage_bits:g} bits about one entry, {kind}{simulation}>"

    def __str__(self) -> str:
        verb = "reveals at most" if self.proven else "is CLAIMED, WITHOUT PROOF, to reveal at most"
        lines = [
            f"the release {verb} {self.leakage_bits:g} bits about one entry of X"
            + (f" (hence (0, {self.delta:.4g})-differential privacy)" if self.proven else ""),
            f"  neighbouring: {_NEIGHBOURING[self.neighbouring]}",
            f"  noise: {self.noise_text}; {self.rows:,} rows are released",
        ]
        assumed = assumptions(self.assumptions, {"floor": self.floor})
        return with_ground(lines, assumed, self.sources, simulation=self.simulation, warning=FLOATING)

    @property
    def noise_text(self) -> str:
        """What the noise is."""
        entries = "on every entry of SX" if self.projected else "on every entry"
        if self.noise_sd is None:
            return f"Gaussian {entries}, with a standard deviation that depends on the data and stays secret"
        return f"Gaussian of standard deviation {self.noise_sd:.6g} {entries}"


_NEIGHBOURING = {
    ONE_ENTRY: "one entry of X becomes any other number within its bounds; a whole row may reveal far more"
}


MOST_BITS = 500.0  # 2^(2 epsilon) still is a double


def check_bits(leakage_bits: float) -> float:
    """Return a number of bits, or refuse what is not an amount of information."""
    if not (math.isfinite(leakage_bits) and 0 < leakage_bits <= MOST_BITS):
        raise InputError("leakage_bits", leakage_bits, f"a number of bits in (0, {MOST_BITS:g}]")
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


CALIBRATIONS = ("sound", "paper")
# Rounding must never overstate v: beyond these it counts as sigma^2, which it always is at least.
_WORST_CONDITION = 1e7
_LEAST_REMAINDER = 1e-6


def smallest_spread(X: Reals) -> float:
    """Return f^2 = min_j [sum_i X_ij^2 - max_i X_ij^2], samples i, features j (section II swaps the indices)."""
    squares = np.square(X)
    return float((squares.sum(axis=0) - squares.max(axis=0)).min())


def paper_variance(rows: int, leakage_bits: float, spread: float = 0.0) -> float:
    """Return sigma_RP^2 = (n'/(2^(2 epsilon) - 1) - f^2)_+ as printed (Equation 13); unproven unless `spread` is 0.

    Parameters
    ----------
    rows : int
        n'.
    leakage_bits : float
        The paper's epsilon.
    spread : float
        f^2 of the data (`smallest_spread`), or a public lower bound on it.
    """
    return max(0.0, require_whole("rows", rows, 1) * additive_variance(leakage_bits) - spread)


def hidden_variance(X: Reals, y: Reals, variance: float) -> float:
    """Return v of the module's docstring, or less where rounding could overstate it.

    With M = [X, y] and G = M^T M + diag(sigma^2, .., sigma^2, 0) the bracket is 1/[(G - m_i m_i^T)^-1]_jj, and
    (Sherman and Morrison)

        1/v = max_ij [(G^-1)_jj + (G^-1 m_i)_j^2 / (1 - m_i^T G^-1 m_i)].

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
    y : ndarray of float64, shape (n,)
    variance : float
        sigma^2.

    Returns
    -------
    float
        At least `variance`; 0 if nothing hides some entry.
    """
    d = X.shape[1]
    columns = np.column_stack([X, y]) if y.any() else X
    ridge = np.zeros((d, columns.shape[1]))
    np.fill_diagonal(ridge, np.sqrt(variance))
    norms = np.sqrt(np.square(columns).sum(axis=0) + np.square(ridge).sum(axis=0))
    if not norms.all():
        return variance
    # M / norms = Q R: rows of Q are q_i = R^-T m_i, so that m_i^T G^-1 m_i = ||q_i||^2 and G^-1 m_i = R^-1 q_i.
    R = qr(np.vstack([columns, ridge]) / norms, mode="r", check_finite=False)[0][: len(norms)]
    if len(R) < len(norms) or np.linalg.cond(R) > _WORST_CONDITION:
        return variance
    inverse = solve_triangular(R, np.eye(len(norms)))
    rows = (columns / norms) @ inverse
    remainder = 1 - np.square(rows).sum(axis=1)
    if remainder.min() < _LEAST_REMAINDER:
        return variance
    moved = (np.square(rows @ inverse.T) / remainder[:, None]).max(axis=0)
    hidden = np.square(norms) / (np.square(inverse).sum(axis=1) + moved)
    return max(variance, float(hidden[:d].min()))


def leak_bound(X: Reals, y: Reals, rows: int, variance: float) -> float:
    """Return 1/2 log2(1 + n'/v): the most bits that the release can reveal about one entry; maybe infinite.

    Not private: it depends on the data.
    """
    hidden = hidden_variance(X, y, variance)
    return bits(require_whole("rows", rows, 1) / hidden) if hidden > 0 else float("inf")


def sound_variance(X: Reals, y: Reals, rows: int, leakage_bits: float) -> float:
    """Return the smallest sigma^2 for which `leak_bound` of these data is at most `leakage_bits`.

    v - sigma^2 grows with sigma^2, so that v meets n'/(2^(2 epsilon) - 1) once, at the latest at that sigma^2.
    Not private, and no guarantee for anyone who learns it: sigma then depends on the entry that it protects.
    """
    enough = paper_variance(rows, leakage_bits)

    def excess(variance: float) -> float:
        return hidden_variance(X, y, variance) - enough

    if excess(0.0) >= 0:
        return 0.0
    root = float(brentq(excess, 0.0, enough, xtol=1e-9 * enough, rtol=1e-9))
    # A root may lie on the wrong side by the tolerance, and v jumps where rounding makes it count as sigma^2.
    return min(enough, root * (1 + 1e-6)) if excess(root * (1 + 1e-6)) >= 0 else enough
