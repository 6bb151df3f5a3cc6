"""The audit: what it asks of a mechanism, and what it says of its claim.

What is audited is a `Subject`. A claim is held against two things. `Subject.least_epsilon` computes from the noise that
is really there a lower bound on epsilon, in closed form (`bench.audit.views`). An `AuditedMechanism` can also be run:
it is simulated very often, and how well its two inputs can be told apart is measured.

Half of the runs train the distinguisher, the other half is counted. From the training runs come, in this order, the
covariance C of what is seen, the worst-placed candidate, who maximises D^T C^-1 D for the shift D that replacing him
causes, the direction C^-1 D of the likelihood ratio between Gaussians, and the threshold. C is measured, not computed
from the calibration's formulas, so that noise which is correlated by mistake is found as well.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import numpy as np

from bench.audit.rates import AuditScores, Bound, least_bits, least_epsilon, least_mu, lower_bound
from dpmpc.base.arguments import require_fraction, require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.privacy.gaussian import epsilon_of_mu

FEWEST_RELEASES = 1000
METHODS = 2  # bounds that a mechanism gets, at most
SINGULAR = 1e-9  # relative; directions of so little noise count as having that much


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """What a mechanism says of itself; None where it says nothing.

    Parameters
    ----------
    epsilon, delta : float
        (epsilon, delta)-differential privacy.
    mu : float, optional
        mu-GDP, for each pair of neighbouring inputs.
    bits : float, optional
        Mutual information about an entry.
    """

    epsilon: float | None = None
    delta: float = 0.0
    mu: float | None = None
    bits: float | None = None


class Subject(abc.ABC):
    """Something to audit: a claim, and what is known of its truth without running it.

    Attributes
    ----------
    claim : Claim
        What is audited.
    note : str
        What is to be said beside the numbers, or nothing.
    """

    claim: Claim
    note: str = ""

    def least_epsilon(self) -> float | None:
        """Return a lower bound on the true epsilon at the claim's delta, in closed form; None where there is none."""
        return None


class AuditedMechanism(Subject):
    """Something to run: one small task, two worst rows, and candidates for whom they are exchanged.

    Attributes
    ----------
    shifts : ndarray of float64, shape (candidates, m)
        By how much exchanging each candidate's row moves the mean of what is observed.
    """

    shifts: Reals

    @abc.abstractmethod
    def observe(self, moved: int | None, releases: int, stream: Stream) -> Reals:
        """Simulate releases, and return what the adversary makes of each.

        Parameters
        ----------
        moved : int or None
            Whose row is exchanged.
        releases : int
            How many.
        stream : Stream
            Source of all randomness.

        Returns
        -------
        ndarray of float64, shape (releases, m)
            What is opened, without all that the adversary knows: others' rows, and the noise of whom it has corrupted.
        """

    def scores(self, observed: Reals, shift: Reals, direction: Reals) -> Reals:
        """Return the distinguisher's score of each release (releases, m): large if the row was exchanged.

        The likelihood ratio of Gaussians grows with it. Overridden where the noise has another shape.
        """
        return observed @ direction


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditResult:
    """A claim beside what was measured; every bound is None where the claim has no such number.

    Parameters
    ----------
    mechanism : str
        Its name.
    claim : Claim
        What is claimed.
    releases : int
        Simulated releases of each of the two inputs; 0 if it was not run.
    failure : float
        Probability that one of the bounds exceeds the truth, at most.
    by_rates : Bound or None
        On epsilon at the claim's delta, from (epsilon, delta)-DP alone.
    by_curve : Bound or None
        On mu, from mu-GDP: tighter, and it refutes a claim of mu only.
    by_bits : Bound or None
        On bits of mutual information.
    by_noise : float or None
        On epsilon, from the noise that is there, in closed form: no chance is in it.
    note : str
        What is to be said beside the numbers.
    """

    mechanism: str
    claim: Claim
    releases: int
    failure: float
    by_rates: Bound | None = None
    by_curve: Bound | None = None
    by_bits: Bound | None = None
    by_noise: float | None = None
    note: str = ""

    @property
    def epsilon_by_curve(self) -> float | None:
        """The epsilon that the tight curve of the Gaussian gives for the lower bound on mu."""
        if self.by_curve is None:
            return None
        return epsilon_of_mu(self.by_curve.value, self.claim.delta)

    @property
    def refuted(self) -> tuple[str, ...]:
        """What of the claim is refuted, in words."""
        measured = (
            ("epsilon", self.claim.epsilon, self.by_rates),
            ("mu", self.claim.mu, self.by_curve),
            ("bits", self.claim.bits, self.by_bits),
        )
        bounds = [(name, claimed, bound.value, "measured") for name, claimed, bound in measured if bound is not None]
        if self.by_noise is not None:
            bounds.append(("epsilon", self.claim.epsilon, self.by_noise, "computed"))
        return tuple(
            f"{name} of {self.mechanism}: {claimed:.4g} claimed, at least {least:.4g} {how}"
            for name, claimed, least, how in bounds
            if claimed is not None and least > claimed
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers, strings and dicts."""
        return {
            **dataclasses.asdict(self),
            "epsilon_by_curve": self.epsilon_by_curve,
            "refuted": list(self.refuted),
        }


def audit(name: str, subject: Subject, releases: int, failure: float, stream: Stream) -> AuditResult:
    """Compare a claim with lower bounds: from the noise and, for an `AuditedMechanism`, from simulated releases.

    Parameters
    ----------
    name : str
        What the mechanism is called.
    subject : Subject
        What is audited.
    releases : int
        Simulated releases of each input of an `AuditedMechanism`; half of them choose direction and threshold.
    failure : float
        Probability that one of the bounds exceeds the truth, at most.
    stream : Stream
        Source of all randomness.

    Returns
    -------
    AuditResult
    """
    require_whole("releases", releases, FEWEST_RELEASES)
    require_fraction("failure", failure)
    found = AuditResult(
        mechanism=name,
        claim=subject.claim,
        releases=0,
        failure=failure,
        by_noise=subject.least_epsilon(),
        note=subject.note,
    )
    return _measured(found, subject, releases // 2, stream) if isinstance(subject, AuditedMechanism) else found


def _measured(found: AuditResult, mechanism: AuditedMechanism, half: int, stream: Stream) -> AuditResult:
    """Add what many releases tell to the results so far."""
    still = mechanism.observe(None, half, stream)
    precision = _precision(still)
    shifts = mechanism.shifts
    moved = int(np.argmax(np.einsum("cm,mn,cn->c", shifts, precision, shifts)))
    shift, direction = shifts[moved], precision @ shifts[moved]

    def scores(whose: int | None) -> Reals:
        return mechanism.scores(mechanism.observe(whose, half, stream), shift, direction)

    training = AuditScores(mechanism.scores(still, shift, direction), scores(moved))
    counted = AuditScores(scores(None), scores(moved))
    claim, each = mechanism.claim, found.failure / METHODS
    dp = claim.epsilon is not None
    return dataclasses.replace(
        found,
        releases=2 * half,
        by_rates=lower_bound(least_epsilon(claim.delta), training, counted, each) if dp else None,
        by_curve=lower_bound(least_mu, training, counted, each) if dp and claim.delta > 0 else None,
        by_bits=None if claim.bits is None else lower_bound(least_bits, training, counted, each),
    )


def _precision(observed: Reals) -> Reals:
    """Return the inverse of the covariance of the observations (releases, m)."""
    covariance = np.atleast_2d(np.cov(observed, rowvar=False))
    least = SINGULAR * max(float(np.trace(covariance)) / len(covariance), 1.0)
    return np.asarray(np.linalg.inv(covariance + least * np.eye(len(covariance))))
