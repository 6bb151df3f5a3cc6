"""What a linear fit in rounds shows: coefficients without shrinkage, and how far off they may be.

Read are the sum of second moments, whose noisy Gram matrix of u = (1, z) is N and whose column of the target is m, and
the sum J of squared residuals times u u^T (`ResidualProducts`), at the coefficients theta_s that were steered to. With
the eigenvectors q of N whose eigenvalues l stand out of its noise, l >= sd sqrt(p / 2),

    K = sum of q q^T / l,     P = I - K N,     theta = theta_s + K (m - N theta_s).

*Identity*, for every N and theta_s. With e the residuals at the least squares theta* of all rows, and nu the noise of m
less that of N times theta*,

    theta - theta* = K (sum of u e + nu) + P (theta_s - theta*),

as m - N theta_s = N (theta* - theta_s) + sum of u e + nu, and K N = I - P. For a contrast c and k = K c the first term
has the variance S^2 = k^T V k + D: V is that of nu and D that of sampling, an estimate of sum e^2 (k . u)^2 that errs
upwards. The second term is at most B = L max_i |(P c)_i| where |theta_s - theta*|_1 <= L. L = max(1, |theta_s|_1) is an
assumption: what the sums did not show is no more than what steering found, or than 1, a range of the target. The
half-width is z sqrt(S^2 + B^2), and an interval with B > S *rests on the bounds*: it prints with that flag and has no
level of its own.

V depends on where theta* may be. Its second moments E are led by theta theta^T and by theta_s theta_s^T, and the larger
S^2 counts: noise can lift a weak direction over the threshold, which shrinks theta.

Promised: everything is computed from releases. No interval is withheld, but of fewer people than a public number. The
level is claimed for all lines of a table together, where L holds. Not promised: a short interval where columns use
little of their bounds.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions.residual_products import ResidualProducts
from dpmpc.models.common.estimates import Estimate, why_too_few
from dpmpc.release.release import Release

_ITERATIONS = 30  # of V, which depends on the covariance that it is a part of


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class LinearEstimate(Estimate):
    """A linear regression without shrinkage. Contrasts are of coefficients `to_scale` away from the normalised ones.

    Attributes
    ----------
    inverse : ndarray of float64, shape (p, p)
        K, in normalised units, as all that follow.
    hidden : ndarray of float64, shape (p, p)
        P, the projection on what the sums do not show.
    largest : float
        L.
    moments : ndarray of float64, shape (p, p)
        The variance of a residual times N.
    residuals : ndarray of float64, shape (p, p)
        J.
    deviation : float
        Standard deviation of the noise in an entry of J.
    noises : tuple of ndarray of float64, shape (p, p)
        V, led by theta and by theta_s.
    to_scale : ndarray of float64, shape (p, p)
        What normalised coefficients are multiplied by, beside a shift.
    """

    inverse: Reals
    hidden: Reals
    largest: float
    moments: Reals
    residuals: Reals
    deviation: float
    noises: tuple[Reals, ...]
    to_scale: Reals

    withholds = False

    @classmethod
    def of(
        cls, N: Reals, sd: float, steered: Reals, *, J: Reals, deviation: float, residual: float = 0.0
    ) -> LinearEstimate:
        """Return K, P and L, without an estimate and the noise in it.

        Parameters
        ----------
        N : ndarray of float64, shape (p, p)
            The noisy Gram matrix of u, with noise of the deviation `sd` on its diagonal.
        steered : ndarray of float64, shape (p,)
            theta_s.
        J, deviation : ndarray of float64, shape (p, p), and float
            Squared residuals times products, and the deviation of the noise in them.
        residual : float
            Variance of a residual.
        """
        eigenvalues, vectors = np.linalg.eigh(N)
        seen = eigenvalues >= sd * math.sqrt(len(N) / 2)
        return cls(
            coefficients=steered,
            weak=vectors[:, ~seen].T,
            inverse=(vectors[:, seen] / eigenvalues[seen]) @ vectors[:, seen].T,
            hidden=vectors[:, ~seen] @ vectors[:, ~seen].T,
            largest=max(1.0, float(np.abs(steered).sum())),
            moments=residual * N,
            residuals=J,
            deviation=deviation,
            noises=(),
            to_scale=np.eye(len(N)),
        )

    def variances(self, contrasts: Reals) -> tuple[Reals, Reals]:
        """Return S^2 + B^2 and B^2 of each of the contrasts (m, p)."""
        rows = contrasts @ self.to_scale
        k = rows @ self.inverse
        noise = np.max([np.einsum("mi,ij,mj->m", k, each, k) for each in self.noises], axis=0)
        bound = self.largest * np.max(np.abs(rows @ self.hidden), axis=1)
        return np.maximum(noise + self.sampling(k), 0.0) + bound**2, bound**2

    @property
    def assumption(self) -> str:
        """What an interval that rests on the bounds assumes: L."""
        return (
            "the interval rests on the bounds, and has no level of its own. It assumes that what the sums did not show "
            f"is at most {self.largest:.2g} times the range of the target, for the whole range of a column: as much as "
            "steering found, and at least once the range."
        )

    def sampling(self, k: Reals) -> Reals:
        """Return D for each of the k (m, p): of even residuals, or the sandwich and half a deviation of its noise.

        As |k . u| <= |k|_1 in the box, sum e^2 (k . u)^2 is at most |k|_1^2 sum e^2 for every law.
        """
        even, sandwich = (np.einsum("mi,ij,mj->m", k, each, k) for each in (self.moments, self.residuals))
        squares = np.sum(k**2, axis=1)  # the sum over i <= j of ((2 - [i = j]) k_i k_j)^2 is 2 |k|_2^4 - |k|_4^4
        noise = self.deviation * np.sqrt(np.maximum(2 * squares**2 - np.sum(k**4, axis=1), 0.0))
        most = np.sum(np.abs(k), axis=1) ** 2 * max(float(self.residuals[0, 0]) + self.deviation / 2, 0.0)
        return np.asarray(np.maximum(even, np.minimum(sandwich + noise / 2, most)))

    def in_units(self, linear: Reals, shift: Reals | float) -> LinearEstimate:
        """Return the estimate of ``linear @ coefficients + shift``."""
        return dataclasses.replace(
            self,
            coefficients=linear @ self.coefficients + shift,
            weak=self.weak @ linear.T,
            to_scale=linear @ self.to_scale,
        )

    @property
    def covariance(self) -> Reals | None:
        """(p, p): of all coefficients, for joint tests, with the variances of single ones on its diagonal.

        B^2 <= L^2 c^T P c, and of several coefficients together the sandwich counts. None where there are few people.
        """
        if self.why is not None:
            return None
        positive = _positive(self.residuals) + self.deviation / math.sqrt(2) * np.eye(len(self.inverse))
        whole = self.inverse @ (self.noises[0] + positive) @ self.inverse + self.largest**2 * self.hidden
        whole = self.to_scale @ whole @ self.to_scale.T
        ratios = np.sqrt(self.variances(np.eye(len(whole)))[0] / np.maximum(np.diag(whole), 1e-300))
        return np.asarray(whole * np.outer(ratios, ratios))


def read_linear(first: Release, second: Release, steered: Reals) -> LinearEstimate:
    """Read a linear fit.

    Parameters
    ----------
    first : Release
        The second moments of the features and, last, the target.
    second : Release
        Squared residuals times products, at `steered`.
    steered : ndarray of float64, shape (p,)
        theta_s: public coefficients of (1, normalised features).
    """
    contribution = second.task.statistic
    if not isinstance(contribution, ResidualProducts):
        raise InputError("release", f"of {contribution.name}", "of residual products")
    gram, clients, side = first.gram().matrix, first.clients, len(steered)
    variance = float(first.noise_variance[0])  # sd^2, of an entry on the diagonal; off it it is half of that
    N, m = gram[:side, :side], gram[:side, side]
    sums = contribution.read(second.sketch[0], math.sqrt(float(second.noise_variance[0])))
    stayed = first.clients / second.clients  # who stayed away from the second sum does not depend on rows
    J, deviation = sums.products * stayed, sums.deviation * stayed
    estimate = LinearEstimate.of(N, math.sqrt(variance), steered, J=J, deviation=deviation)
    theta = steered + estimate.inverse @ (m - N @ steered)
    f = np.append(-theta, 1.0)
    residual = max(float(f @ gram @ f), float(J[0, 0]), 0.0) / clients
    few = why_too_few(min(first.clients, second.clients), side)
    estimate = dataclasses.replace(estimate, coefficients=theta, moments=residual * N, why=few)
    return dataclasses.replace(
        estimate, noises=tuple(_noise(estimate, lead, variance, theta, steered) for lead in (theta, steered))
    )


def _noise(estimate: LinearEstimate, lead: Reals, variance: float, theta: Reals, steered: Reals) -> Reals:
    """Return V, the covariance of nu, where theta* has second moments that this vector leads."""
    K, P, side = estimate.inverse, estimate.hidden, len(lead)
    unseen = len(estimate.weak)
    sampling = np.diag(estimate.sampling(K))  # of the coefficients one by one: K is symmetric
    away = estimate.largest**2 * max(float(np.max(np.diag(P))), 0.0) / max(unseen, 1) * P
    longest = max(1.0, float(steered @ steered), float(theta @ theta))
    if unseen:  # B grants that theta* is as far as L from what was steered to
        longest = max(longest, (float(np.linalg.norm(steered)) + estimate.largest) ** 2)
    covariance = sampling
    for _ in range(_ITERATIONS):
        more = covariance + away
        trace = float(np.trace(more))
        part = min(1.0, max(longest - float(lead @ lead), 0.0) / trace) if trace > 0 else 0.0
        E = np.outer(lead, lead) + part * more
        V = variance / 2 * ((1 + float(np.trace(E))) * np.eye(side) + E)
        V[0, 0] -= variance * E[0, 0]  # n is exact: so is the first entry of N
        covariance = K @ V @ K + sampling
    return np.asarray(V)


def _positive(matrix: Reals) -> Reals:
    """Return the positive part of a symmetric matrix."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T)
