"""Audit of claims of mutual information about one entry of X (`dpmpc.projection`), in bits.

The entry is -1 or 1, each half of the time, and everything else is known. `AdditiveNoise` hides entries one by one, so
that a fit of R rows is R releases. For `RandomProjection` all other rows are 0, so that nothing but the noise hides the
entry, and y, which counts as known, is 1 in its row: S y shows the entry's column of S. One fit gives sigma; S and the
noise are then drawn as its `fit` draws them, the rows of R projections at once.

A claim of bits holds for every law of the entry. The one that is tried here has at most one bit, and a decision in
place of the release loses some more, so that the bound stays below the claim by much where that is a bit or more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmpc.audit.mechanism import Claim, Mechanism
from dpmpc.noise import Gaussian
from dpmpc.projection import AdditiveNoise, RandomProjection
from dpmpc.randomness import SEED_BYTES, Stream
from dpmpc.sketching import GaussianProjection

Reals = NDArray[np.float64]


class NoisyEntry(Mechanism):
    """X + sigma N.

    Parameters
    ----------
    bits : float
        What is claimed.
    """

    shifts = np.array([[2.0]])

    def __init__(self, bits: float):
        self.claim = Claim(bits=bits)

    def observe(self, moved: int | None, releases: int, stream: Stream) -> Reals:
        """Fit as many rows as releases; return the released entries less -1."""
        X = np.full((releases, 1), -1.0 if moved is None else 1.0)
        fitted = AdditiveNoise(self.claim.bits or 0.0, seed=_seed(stream)).fit(X, np.zeros(releases))
        return np.asarray(fitted.released_X_ + 1)


class ProjectedEntry(Mechanism):
    """(S X + sigma N, S y) with a secret S.

    Parameters
    ----------
    bits : float
        What is claimed.
    rows : int
        n', of the projection.
    """

    def __init__(self, bits: float, rows: int = 3):
        self.claim = Claim(bits=bits)
        self.shifts = np.array([[2.0 * rows]])
        self._rows = rows

    def observe(self, moved: int | None, releases: int, stream: Stream) -> Reals:
        """Project; return the inner products of the two released columns, which are sufficient, less their mean."""
        entry = -1.0 if moved is None else 1.0
        fitted = RandomProjection(self.claim.bits or 0.0, rows=self._rows, seed=_seed(stream))
        sigma = fitted.fit([[entry]], [1.0]).sigma_
        many = releases * self._rows
        secret = GaussianProjection(many, 1, stream.bytes(SEED_BYTES)).apply(np.array([[entry, 1.0]]))
        noisy = secret[:, 0] + Gaussian(sigma).sample(many, stream=stream)
        products = (noisy * secret[:, 1]).reshape(releases, self._rows).sum(axis=1)
        return np.asarray(products + self._rows)[:, None]


def _seed(stream: Stream) -> int:
    return int.from_bytes(stream.bytes(SEED_BYTES), "little")
