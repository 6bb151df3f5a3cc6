"""Squared residuals times products of columns, at public coefficients: what robust standard errors need.

With u = (1, z) a client sends, for i <= j,

    e^2 u_i u_j / R^2,     e = t - clip(theta . u, -1, 1),     R = min(2, 1 + |theta|_1).

The sum J over all clients is the middle of the sandwich (HC0) of a linear regression at theta. As the target t and
every u_j are in [-1, 1], |e| <= R, so that w = e u / R is in [-1, 1]^p.

*Theorem.* For w and w' in [-1, 1]^p the sum over i <= j of (w_i w_j - w'_i w'_j)^2 is at most p^2.

*Proof.* With a_i = w_i^2 and b_i = w'_i^2 the sum is

    (sum a)^2 / 2 + (sum b)^2 / 2 - (w . w')^2 + sum_i (a_i - b_i)^2 / 2.

Without the third term it is convex in (a, b) on [0, 1]^2p and largest at a corner, where a and b are indicators of sets
S and T of s >= t columns: (s^2 + t^2 + |S xor T|) / 2. For s = p this is (p^2 + t^2 + p - t) / 2, convex in t, p^2 at
t = p and (p^2 + p) / 2 at t = 0. For s < p it is at most (p - 1)^2 + p / 2 < p^2. QED. It is attained for even p.

In integers each entry is rounded once, which adds at most sqrt(W) + 1 to the distance of two clients, with
W = p (p + 1) / 2.

Promised: the sensitivity holds for every row and all coefficients, since w is bounded after it is computed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions.contribution import Contribution, symmetric
from dpmpc.linear.contributions.scores import require_theta, sensitivity_of_scores
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint


class ResidualSums(NamedTuple):
    """What a release of squared residuals times products shows.

    Attributes
    ----------
    products : ndarray of float64, shape (p, p)
        J, the noisy sum of e^2 u u^T.
    deviation : float
        Standard deviation of the noise in each entry on and above the diagonal.
    """

    products: Reals
    deviation: float


class ResidualProducts(Contribution):
    """The upper triangle of e^2 u u^T, for the last column as the target and u = (1, the other columns).

    Parameters
    ----------
    theta : array_like of float, shape (p,)
        The public coefficients of u.
    """

    name = "residual-products"

    def __init__(self, theta: ArrayLike):
        self.theta = require_theta(theta, max(1, np.size(theta)))
        self.reach = min(2.0, 1.0 + float(np.abs(self.theta).sum()))  # R

    def parameters(self) -> dict[str, Any]:
        """Return the coefficients as a list."""
        return {"theta": self.theta.tolist()}

    def width(self, columns: int) -> int:
        """Return W = p (p + 1) / 2."""
        if columns != len(self.theta):
            raise InputError("columns", columns, f"{len(self.theta)}", condition="by the coefficients")
        return columns * (columns + 1) // 2

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode w_i w_j for i <= j."""
        u = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
        residual = rows[:, -1] - np.clip(u @ self.theta, -1.0, 1.0)
        w = np.clip(u * (residual / self.reach)[:, None], -1.0, 1.0)
        first, second = np.triu_indices(len(self.theta))
        return encoding.encode(w[:, first] * w[:, second], -1.0, 1.0)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return p 2^f of the theorem, plus what rounding each entry can add.

        Lemma: rounding_distance; theorem second-sum is not checked by machine.
        """
        return sensitivity_of_scores(float(columns), self.width(columns), self.largest_entry(encoding), encoding)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the encoding of 1."""
        return 1 << encoding.fractional_bits

    def read(self, entries: Reals, deviation: float) -> ResidualSums:
        """Return released sums (W,) as a matrix; their noise has this deviation in each entry."""
        return ResidualSums(symmetric(entries * self.reach**2, len(self.theta)), deviation * self.reach**2)
