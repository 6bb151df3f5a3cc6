"""The score of a regression at public coefficients, shortened as a whole, beside how long it was.

One sum of these is a steering round of `dpmpc.models.rounds`. With v = S (1, z), the residual e of a link at eta =
theta . (1, z) and a public clip c, a client sends

    g = v e / c, shortened to norm 1,     and     sqrt(3) (1/2 - min(1, |v e| / c)),

one word more than the score has. A logistic score is shortened as far as the longer of its two outcomes requires, so
that its mean stays 0 where the model holds (Kuensch, Stefanski and Carroll 1989). The second part costs no privacy: for
lengths s, s' in [0, 1] and |g| <= s, |g'| <= s'

    |g - g'|^2 + 3 (s - s')^2  <=  (s + s')^2 + 3 (s - s')^2  <=  4,

since the middle is convex in s and in s', and at the corners it is 0 or 4 (theorem steering-round). Taken
about 1/2, it moves together with g by at most sqrt(7/4) where a client comes or goes.

Promised: the sensitivity holds for every row, every matrix, all coefficients and every clip, since what is sent is
bounded after it is computed. Not promised: a good direction where the clip is far from what residuals are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arguments import require_positive
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError
from dpmpc.data.schemas import clip_ball
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.contributions.scores import Link, link_from, require_theta, sensitivity_of_scores
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint

LENGTH_WEIGHT = math.sqrt(3.0)  # the largest at which the length is free: at (1, 0) the bound is 1 + its square
_LARGEST_WEIGHT = 1e8
_CLIPS = (1e-8, 1e8)


class ClippedSums(NamedTuple):
    """What a steering round yields, as means over the clients who took part.

    Attributes
    ----------
    score : ndarray of float64, shape (p,)
        Mean of the shortened v e, in units in which they are at most the clip.
    length : float
        Mean of ``min(1, |v e| / c)``, with noise: perhaps outside [0, 1].
    score_sd, length_sd : float
        Standard deviations of the noise in an entry of the score, and in the length.
    """

    score: Reals
    length: float
    score_sd: float
    length_sd: float


class ClippedScores(Contribution):
    """Score of a regression of the last column on the others, clipped as a whole, and its length.

    Parameters
    ----------
    matrix : array_like of float, shape (p, p)
        S, public and symmetric, for p - 1 features and the constant 1 before them.
    theta : array_like of float, shape (p,)
        The public coefficients of (1, z).
    clip : float
        c, from 1e-8 to 1e8.
    link : Link or mapping
        The model, or what `Link.describe` states of it.
    """

    name = "clipped-scores"

    def __init__(self, matrix: ArrayLike, theta: ArrayLike, clip: float, link: Link | Mapping[str, Any]):
        self.matrix = np.array(matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1] or not len(self.matrix):
            raise InputError("matrix", f"shape {self.matrix.shape}", "a square matrix")
        if not np.all(np.abs(self.matrix) <= _LARGEST_WEIGHT):  # a NaN fails too
            raise InputError("matrix", f"entries of magnitude at most {_LARGEST_WEIGHT:g} expected")
        if not np.array_equal(self.matrix, self.matrix.T):
            raise InputError("matrix", "one that is not symmetric", "a symmetric matrix")
        self.theta = require_theta(theta, len(self.matrix))
        self.clip = require_positive("clip", clip, _CLIPS[1])
        if self.clip < _CLIPS[0]:
            raise InputError("clip", clip, f"at least {_CLIPS[0]:g}")
        self.link = link if isinstance(link, Link) else link_from(link)

    def parameters(self) -> dict[str, Any]:
        """Return matrix and coefficients as lists, the clip and what the link is."""
        return {
            "matrix": self.matrix.tolist(),
            "theta": self.theta.tolist(),
            "clip": self.clip,
            "link": self.link.describe(),
        }

    def width(self, columns: int) -> int:
        """Return p + 1."""
        if columns != len(self.matrix):
            raise InputError("columns", columns, f"{len(self.matrix)}", condition="by the matrix")
        return columns + 1

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode the shortened score and what is left of its length."""
        score, length = self._clipped(rows)
        return encoding.encode(np.column_stack([score, LENGTH_WEIGHT * (0.5 - length)]))

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return 2 in units of 2^-f, plus what rounding each entry can add.

        Lemmas: length_is_free, rounding_distance.
        """
        return sensitivity_of_scores(2.0, self.width(columns), self.largest_entry(encoding), encoding)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the encoding of 1."""
        return 1 << encoding.fractional_bits

    def read(self, entries: Reals, deviation: float, clients: int) -> ClippedSums:
        """Read a released sum (width,) over so many clients, whose noise has this deviation in each entry."""
        return ClippedSums(
            score=entries[:-1] * (self.clip / clients),
            length=0.5 - float(entries[-1]) / (LENGTH_WEIGHT * clients),
            score_sd=deviation * self.clip / clients,
            length_sd=deviation / (LENGTH_WEIGHT * clients),
        )

    def _clipped(self, rows: Reals) -> tuple[Reals, Reals]:
        """Return g (m, p) of norm at most 1, and the lengths (m,) in [0, 1] that the norms do not exceed.

        Directions come from vectors whose largest entry is 1, so that neither squares nor quotients leave the range of
        floats, whatever matrix and clip are.
        """
        transformed = self.matrix[:, 0] + rows[:, :-1] @ self.matrix[:, 1:].T
        eta = self.theta[0] + rows[:, :-1] @ self.theta[1:]
        residual = self.link.residual(rows[:, -1], eta)
        size, largest = np.abs(residual), self.link.largest_residual(residual, eta)
        peak = np.abs(transformed.T, order="C").max(axis=0)  # of each row: a fifth of the time of max(axis=1)
        scaled = transformed / np.where(peak > 0, peak, 1.0)[:, None]
        norm = np.maximum(np.sqrt(np.einsum("ij,ij->i", scaled, scaled)), 1.0)  # below 1 only where v = 0
        length = np.minimum(1.0, peak * norm * (size / self.clip))
        part = np.divide(size, largest, out=np.zeros_like(size), where=largest > 0)
        shortened = part * np.minimum(
            1.0, peak * norm * (largest / self.clip)
        )  # at most the length, as part is at most 1
        # Clipped once more: rounding may leave a direction a little longer than 1.
        return clip_ball(scaled / norm[:, None] * (np.sign(residual) * shortened)[:, None], 1.0), length
