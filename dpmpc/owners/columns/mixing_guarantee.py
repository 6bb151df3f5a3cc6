"""Noise for parties with different columns of the same people, and what it promises.

Paper: Wu et al., Differentially Private Multi-Party Data Release for Linear Regression (UAI 2022). Party j releases
B D^j + R^j, where D^j (n x d_j) are its encoded columns, R^j is noise that it draws alone, and B is a k x n matrix of
signs that all parties know, or the identity. Everything holds *given* B. Replacing one subject's row at party j moves
B D^j by at most 2 sqrt(s d_j) in units of the bounds, with s = k rows that a subject reaches, or 1 without mixing. All
parties add noise of the same standard deviation sigma, hence

    mu_party = 2 sqrt(s d_max) / sigma,    mu_joint = 2 sqrt(s (d + 1)) / sigma = sqrt((d + 1)/d_max) mu_party,
    (theorem columns-party)

where d_max is the largest d_j and d + 1 their sum, the label among them. The paper's (epsilon, delta) is the first. A
person whose row spans all parties has only the second, so both are computed, whichever was asked for.

Promised: the tight curve of the Gaussian, for integer noise with its slack; for the columns of an honest party it holds
whatever the other parties do, because its release depends on nothing of theirs but B. Not promised: more than the sum
of budgets when the same columns are released again, each time with fresh noise; anything about ids, of which the
program `dpmpc.protocols.random_mixing` reveals one bit for each comparison.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

from dpmpc.base.arguments import require_choice
from dpmpc.base.errors import GuaranteeError
from dpmpc.base.storage import Record
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.noise import DiscreteGaussian, Noise
from dpmpc.linear.noise.floating import Gaussian
from dpmpc.privacy import gaussian
from dpmpc.privacy.accountants import accountant_of
from dpmpc.privacy.exposure import IndependentRowNoise
from dpmpc.privacy.guarantee import REPLACE_ONE, Promise
from dpmpc.privacy.specification import MIXING_CALIBRATIONS, MIXING_PROTECTS
from dpmpc.privacy.statements import assumptions, drawn, with_ground

FRACTIONAL_BITS = 16
PARTY_NOISES: dict[str, type[DiscreteGaussian] | type[Gaussian]] = {
    noise.name: noise for noise in (DiscreteGaussian, Gaussian)
}


class MixingGuarantee(Promise, Record, frozen=True):
    """What parties with different columns promise, for the columns of one of them and for a whole row."""

    called: ClassVar[str] = "guarantee"
    epsilon: float  # what is promised
    delta: float
    # whether that holds for the columns of a subject at one party, as in the paper, or at all parties together
    protects: str
    # what the noise gives at this delta for the columns at one party, at most d_max, and for all columns
    party_epsilon: float
    subject_epsilon: float
    party_mu: float  # the Gaussian-DP parameters; the second is sqrt((d + 1)/d_max) times the first
    subject_mu: float
    noise: str  # its family
    noise_sd: float  # standard deviation of a draw, in the integers that are shared
    subjects: int  # n, public
    columns: tuple[int, ...]  # d_j of each party, public
    slack: float  # pure epsilon paid for integer noise for a whole row, already inside both epsilons
    calibration: str  # how the noise was chosen
    # "replace-one": a subject's row becomes any other within the public bounds, at one party or at all
    neighbouring: str = REPLACE_ONE
    assumptions: tuple[str, ...] = ()  # codes of what the promise rests on, and of where it is proven
    sources: tuple[str, ...] = ()
    simulation: bool = False  # true if seeded or floating-point noise was used: then nobody is protected

    @property
    def composition(self) -> dict[str, float]:
        """That of a person's whole row: Gaussian differential privacy."""
        return {"mu": self.subject_mu, "slack": self.slack}

    @property
    def relation(self) -> str:
        """What neighbouring data differs in."""
        return _NEIGHBOURING[self.protects]

    @property
    def noise_text(self) -> str:
        """What the noise is and who adds it."""
        return f"{drawn(self.noise, self.noise_sd)}, from each party in every entry that it releases"

    def __repr__(self) -> str:
        return (
            f"<MixingGuarantee: ({self.epsilon:g}, {self.delta:g})-differential privacy for each of {self.subjects:,} "
            f"subjects, {self.protects}, {self.neighbouring}{', SIMULATION' if self.simulation else ''}>"
        )

    def __str__(self) -> str:
        what = {
            "party": f"the columns of each of {self.subjects:,} subjects at any one party",
            "subject": f"the whole row of each of {self.subjects:,} subjects, over all parties",
        }
        at = f"at delta = {self.delta:g} epsilon ="
        lines = [
            f"({self.epsilon:g}, {self.delta:g})-differential privacy for {what[self.protects]}",
            f"  neighbouring: {self.relation}",
            f"  noise: {self.noise_text}",
            f"  one party's columns (at most {max(self.columns)}): {at} {self.party_epsilon:.6g} (mu = "
            f"{self.party_mu:.6g})",
            f"  a subject's row at all {len(self.columns)} parties ({sum(self.columns)} columns): {at} "
            f"{self.subject_epsilon:.6g} (mu = {self.subject_mu:.6g})",
            "  the first holds even if the public and all other parties pool all they see; the second against the "
            "public, and against parties as far as columns are not their own",
        ]
        return with_ground(lines, assumptions(self.assumptions, {}), self.sources, simulation=self.simulation)


_WITHIN = "replaced by any other within the public bounds"
_NEIGHBOURING = {
    "party": f"one subject's columns at one party are {_WITHIN}",
    "subject": f"one subject's whole row, its columns at every party, is {_WITHIN}",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartyCalibration:
    """What the noise of each party must be enough for: a budget, and what one subject moves."""

    columns: Sequence[int]  # d_j of each party
    epsilon: float
    delta: float
    protects: str = "party"
    rule: str = "analytic"  # how noise is chosen
    rows: int = 1  # s, the rows of the release that one subject reaches: k, or 1 without mixing
    fractional_bits: int = FRACTIONAL_BITS

    def __post_init__(self) -> None:
        require_choice("guarantee", self.protects, MIXING_PROTECTS)
        require_choice("calibration", self.rule, MIXING_CALIBRATIONS)

    @property
    def sd(self) -> float:
        """Standard deviation of the noise in a released entry, for columns in [-1, 1] and B / sqrt(k)."""
        return 2 * math.sqrt(_protected_columns(self.columns, self.protects)) * self._sigma()

    def least(self, noise: str = "discrete-gaussian") -> Noise:
        """Find the noise that each party adds to each entry of B D^j, in integer units.

        The family "gaussian" is for simulations only.
        """
        require_choice("noise", noise, PARTY_NOISES)
        sensitivity = self._sensitivity(self.protects)
        if self.rule == "paper":
            return PARTY_NOISES[noise](math.sqrt(self.rows) * sensitivity.l2 * self._sigma())
        return accountant_of(noise).least(_exposure(self.rows), sensitivity, self.epsilon, self.delta)

    def guarantee(self, noise: Noise, subjects: int, *, simulation: bool = False) -> MixingGuarantee:
        """Return what noise guarantees to so many subjects, recomputed from public facts; too little is refused."""
        gaussian.check_budget(self.epsilon, self.delta)
        require_choice("noise", noise.name, PARTY_NOISES)
        accountant, exposure = accountant_of(noise.name), _exposure(self.rows)
        achieved, mu = {}, {}
        for whose in MIXING_PROTECTS:
            sensitivity = self._sensitivity(whose)
            achieved[whose] = accountant.epsilon(noise, exposure, sensitivity, self.delta)
            mu[whose] = accountant.mu(noise, exposure, sensitivity) or 0.0
        if achieved[self.protects] > self.epsilon:
            raise GuaranteeError(
                "epsilon",
                f"{self.epsilon:g} promised for each {self.protects}, but {noise.name} noise of variance "
                f"{noise.variance:g} gives epsilon = {achieved[self.protects]:.6g} at delta = {self.delta:g}",
            )
        return MixingGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            protects=self.protects,
            party_epsilon=achieved["party"],
            subject_epsilon=achieved["subject"],
            party_mu=mu["party"],
            subject_mu=mu["subject"],
            noise=noise.name,
            noise_sd=math.sqrt(noise.variance),
            subjects=subjects,
            columns=tuple(self.columns),
            slack=accountant.slack(noise, exposure, self._sensitivity("subject")),
            calibration=self.rule,
            assumptions=(
                *(["independent-signs"] if self.rows > 1 else []),
                "protected-parties",
                "fresh-mixing",
                "compared-ids",
                "pseudorandomness",
                *accountant.assumptions,
            ),
            sources=("data-release", *accountant.sources),
            simulation=simulation or noise.simulation_only,
        )

    def _sensitivity(self, whose: str) -> Sensitivity:
        """Return by how much the columns at one party, or all of a subject, move what is released."""
        return FixedPoint(self.fractional_bits).sensitivity(_protected_columns(self.columns, whose))

    def _sigma(self) -> float:
        """Return sigma at sensitivity 1."""
        if self.rule == "analytic":
            return gaussian.analytic_gaussian_sigma(self.epsilon, self.delta)
        if self.epsilon > 1:
            raise GuaranteeError(
                "epsilon",
                f"{self.epsilon:g}",
                "at most 1",
                "the classical Gaussian is not proven beyond; use calibration='analytic'",
                condition="with calibration='paper'",
            )
        return gaussian.classical_gaussian_sigma(self.epsilon, self.delta)


def _protected_columns(columns: Sequence[int], protects: str) -> int:
    """Return how many columns move together: d_max, or d + 1."""
    return max(columns) if protects == "party" else sum(columns)


def _exposure(rows: int) -> IndependentRowNoise:
    """Return the exposure of a subject that reaches `rows` rows with one draw of the noise each."""
    return IndependentRowNoise(leverage=float(rows), leverage_of_squares=float(rows), fewest=1, most=1, sparsity=rows)
