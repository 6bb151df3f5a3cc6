"""Tests that two variables are independent, with the noise of the counts as part of the law.

Two categories: with N the sum of a table T and r, c its shares by row and by column, u = T - N r c^T has under
independence the covariance

    N D_r (x) D_c  +  (P_r (x) P_c) Sigma (P_r (x) P_c)^T,    D_r = diag r - r r^T,  P_r = I - r 1^T,

of sampling and of noise, for Sigma that of the counts. u^T Cov^-1 u without the
last row and column is chi-squared; without noise it is the statistic of Pearson.

A number and groups: with m the mid-ranks of the cells of all groups together, as shares, U_a = sum_c h_ac (m_c - 1/2)
is how much higher the ranks of group a are. Under independence it has the covariance n (diag pi - pi pi^T) sum p (m -
1/2)^2 of sampling, pi and p the shares of groups and cells, and the noise of a linear function of the histogram with
coefficients (1{a = a'} - pi_a)(m_c - 1/2). Without noise and with two groups it is the test of Mann and
Whitney, with more that of Kruskal and Wallis.

Promised: functions of the release; where too little stands out of the noise there is no test, and the reason in its
place. Not promised: a test at the exact level where few people are expected in a cell.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.common.inference import chi2_tail, stands_out


@dataclasses.dataclass(frozen=True)
class Independence:
    """A test that two variables are independent.

    Attributes
    ----------
    statistic : float
        Chi-squared if they are.
    degrees : int
        Its degrees of freedom.
    p_value : float
        Probability of a larger statistic then.
    """

    statistic: float
    degrees: int
    p_value: float

    @classmethod
    def of(cls, u: Reals, covariance: Reals) -> Independence:
        """Test a vector whose mean is 0 under independence."""
        statistic = float(u @ np.linalg.solve(covariance, u))
        return cls(statistic, len(u), chi2_tail(statistic, len(u)))


class Departure(NamedTuple):
    """How far the counts (R, C) of a table are from independence: u, and its covariance (R C, R C) under it."""

    u: Reals
    covariance: Reals

    @classmethod
    def of(cls, counts: Reals, noise: Reals) -> Departure:
        """Take the departure of counts whose noise has this covariance; every margin stands out of it."""
        total = float(counts.sum())
        r, c = counts.sum(axis=1) / total, counts.sum(axis=0) / total
        projection = np.kron(
            np.eye(len(r)) - np.outer(r, np.ones(len(r))), np.eye(len(c)) - np.outer(c, np.ones(len(c)))
        )
        sampling = total * np.kron(np.diag(r) - np.outer(r, r), np.diag(c) - np.outer(c, c))
        return cls(counts - total * np.outer(r, c), sampling + projection @ noise @ projection.T)

    @property
    def in_errors(self) -> Reals:
        """The departure of each count, in standard errors under independence."""
        errors = np.sqrt(np.maximum(np.diag(self.covariance), 0.0)).reshape(self.u.shape)
        return np.divide(self.u, errors, out=np.zeros_like(self.u), where=errors > 0)

    def cramers_v(self, counts: Reals) -> float:
        """Return Cramer's V, from 0 to 1, less what sampling and noise alone would show of it on average."""
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0))  # N times the counts expected
        by_chance = np.diag(self.covariance).reshape(self.u.shape)
        square = float(np.sum((self.u**2 - by_chance) / expected)) / (min(self.u.shape) - 1)
        return math.sqrt(min(max(square, 0.0), 1.0))

    def test(self) -> Independence:
        """Test that there is none."""
        kept = np.arange(self.u.size).reshape(self.u.shape)[:-1, :-1].ravel()  # the last row and column follow
        return Independence.of(self.u.ravel()[kept], self.covariance[np.ix_(kept, kept)])


def rank_test(estimates: CellEstimates, grid: int, groups: Sequence[str]) -> Independence | str:
    """Test that a number has one distribution in all groups that stand out of the noise, or return why not."""
    cells, shape = estimates.grids[grid].cells, estimates.counts[grid].shape
    each = np.zeros((len(groups), *shape))
    each[np.arange(len(groups)), np.arange(len(groups)), :cells] = 1.0  # those who lack the number have no rank
    sizes = [estimates.total(grid, one) for one in each]
    kept = [place for place, (size, error) in enumerate(sizes) if stands_out(size, error**2) and size > 0]
    if len(kept) < 2:
        return "fewer than two groups have enough people to distinguish from none"
    h = estimates.counts[grid][kept, :cells]
    people, pooled = float(h.sum()), h.sum(axis=0)
    rest = each[kept].sum(axis=0)
    rest[:, int(np.argmax(pooled))] = 0.0
    others, error = estimates.total(grid, rest)
    if others <= 0 or not stands_out(others, error**2):
        return "all people are in one cell, as far as the noise shows"
    ranks = (np.cumsum(pooled) - pooled / 2) / people - 0.5
    share = h.sum(axis=1) / people
    gradients = np.zeros((len(kept), *shape))
    gradients[:, kept, :cells] = (np.eye(len(kept)) - share[:, None])[:, :, None] * ranks
    sampling = people * (np.diag(share) - np.outer(share, share)) * float(pooled @ ranks**2 / people)
    covariance = sampling + estimates.noise_covariance(grid, gradients)
    return Independence.of((h @ ranks)[:-1], covariance[:-1, :-1])


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that hold together: those of Holm (1979)."""
    found, largest = [0.0] * len(p_values), 0.0
    for place, number in enumerate(sorted(range(len(p_values)), key=lambda one: p_values[one])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[number]))
        found[number] = largest
    return found
