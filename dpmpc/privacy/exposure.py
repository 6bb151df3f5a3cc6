"""How much noise covers what one client moves, under what is assumed of clients and servers.

An `EffectiveNoise` is what the accountants need to know of the public matrix under a `TrustModel`. There is one for
each way in which noise enters the sums:

- `IndependentRowNoise`: the noise of different rows is independent. So it is where clients noise every copy of their
  rows, and where the servers add the noise.
- `dpmpc.privacy.leverage.OneCopyNoise`: clients noise one copy, whose noise reaches several rows.
"""

from __future__ import annotations

import abc
import dataclasses
from fractions import Fraction

import numpy as np

from dpmpc.errors import GuaranteeError
from dpmpc.privacy import integer_noise, rigorous
from dpmpc.sketching import PublicMatrix
from dpmpc.specification import TrustModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class EffectiveNoise(abc.ABC):
    """How much of the noise the worst-placed client can count on; the noise has variance v in each contribution.

    Attributes
    ----------
    leverage : float
        v times the largest s_i^T C^-1 s_i, for C the covariance of the noise in the rows and s_i what client i moves.
    fewest : float
        Smallest variance that the noise has in any direction that some client moves, divided by v.
    sparsity : int
        Rows that one client hits.
    """

    leverage: float
    fewest: float
    sparsity: int

    @abc.abstractmethod
    def integer_slack(self, sigma: float, columns: int) -> float:
        """Return the log-ratio of the sums of discrete Gaussians that a client's change meets to rounded Gaussians."""

    def with_margin(self) -> EffectiveNoise:
        """Return what to calibrate to, so that another machine's arithmetic agrees that the noise suffices."""
        return self

    @abc.abstractmethod
    def assumption(self) -> str:
        """Say what has to be true of a run."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndependentRowNoise(EffectiveNoise):
    """Rows with independent noise: row r holds m_r contributions that the adversary does not know.

    Attributes
    ----------
    leverage : float
        max_i sum_{r in R_i} 1/m_r.
    leverage_of_squares : float
        max_i sum_{r in R_i} 1/m_r^2.
    fewest, most : int
        Smallest and largest m_r among the rows that some client hits.
    by_servers : bool
        Whether servers contribute the noise, not clients.
    dealt : bool
        Whether servers deal it in shares, with proofs of its range.
    """

    fewest: int
    leverage_of_squares: float
    most: int
    by_servers: bool = False
    dealt: bool = False

    @classmethod
    def of_clients(cls, sketch: PublicMatrix, trust: TrustModel) -> IndependentRowNoise:
        """Measure a public matrix whose clients noise every copy.

        Raises
        ------
        GuaranteeError
            If some row would keep no noise that the adversary does not know.
        """
        occupancy = sketch.occupancy()
        lost = trust.lost_in_a_row(sketch)
        unknown = occupancy - lost
        hit = occupancy > 0
        if np.any(unknown[hit] <= 0):
            row = int(np.flatnonzero(hit & (unknown <= 0))[0])
            raise GuaranteeError(
                f"corrupt_clients + dropouts: {lost} given, but row {row} of the sketch collects only {occupancy[row]} "
                f"contributions ({sketch.columns} clients, {sketch.rows} rows, sparsity {sketch.sparsity}); fewer than "
                f"{int(occupancy[hit].min())} expected: take more clients, fewer rows or balanced hashing"
            )
        weights = np.divide(1.0, unknown, out=np.zeros(len(unknown)), where=hit)
        return cls(
            leverage=rigorous.sum_of_rounded_above(sketch.heaviest_client(weights), sketch.sparsity),
            leverage_of_squares=rigorous.sum_of_rounded_above(sketch.heaviest_client(weights**2), sketch.sparsity),
            fewest=int(unknown[hit].min()),
            most=int(unknown[hit].max()),
            sparsity=sketch.sparsity,
        )

    @classmethod
    def of_servers(cls, sketch: PublicMatrix, trust: TrustModel) -> IndependentRowNoise:
        """Measure a public matrix whose rows get their noise from the servers: m_r is the number of honest ones."""
        return cls._of_honest(sketch, trust.honest_servers)

    @classmethod
    def of_dealers(cls, sketch: PublicMatrix, honest: int) -> IndependentRowNoise:
        """Measure a public matrix whose rows get noise that servers deal, some of whom are honest."""
        return dataclasses.replace(cls._of_honest(sketch, honest), dealt=True)

    @classmethod
    def _of_honest(cls, sketch: PublicMatrix, honest: int) -> IndependentRowNoise:
        return cls(
            leverage=rigorous.above(Fraction(sketch.sparsity, honest)),
            leverage_of_squares=rigorous.above(Fraction(sketch.sparsity, honest**2)),
            fewest=honest,
            most=honest,
            sparsity=sketch.sparsity,
            by_servers=True,
        )

    def integer_slack(self, sigma: float, columns: int) -> float:
        """Return the slack of sums and rounding for all entries that a client moves (`dpmpc.privacy.integer_noise`)."""
        per_entry = integer_noise.sum_slack(sigma, self.most)
        per_entry += integer_noise.smoothing_slack(integer_noise.ROUNDING_WIDTH)
        return self.sparsity * columns * per_entry

    def assumption(self) -> str:
        """Say whose noise is counted on."""
        if self.dealt:
            return (
                f"at least {self.fewest} of the servers that deal noise draw it as agreed and keep it to themselves; "
                "that the noise of a server lies in its range is proved, and nothing of how it was drawn"
            )
        if self.by_servers:
            return f"at least {self.fewest} of the servers add their noise, as agreed, before they open anything"
        return f"every released sum keeps the noise of at least {self.fewest:,} honest contributions"
