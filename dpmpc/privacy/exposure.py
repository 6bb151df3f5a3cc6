"""Who may collude, and how much noise then still covers what one client moves.

`Trust` is what a user states. An `EffectiveNoise` is what the accountants need to know of the public matrix under that
trust; there is one for each way in which noise enters the sums:

- `IndependentRowNoise`: the noise of different rows is independent. So it is where clients noise every copy of their
rows, and
  where the servers add the noise.
- `dpmpc.privacy.leverage.OneCopyNoise`: clients noise one copy, whose noise reaches several rows.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from dpmpc.errors import GuaranteeError, InputError
from dpmpc.privacy import integer_noise, rigorous
from dpmpc.sketching import PublicMatrix

COALITIONS = ("adaptive", "static")
STATIC_FAILURE = (
    2.0**-60
)  # chance that a static coalition meets in a row of one matrix more often than is accounted for
MATRICES = 16  # that the servers of a collection may draw from one toss; any of them may be the one that is taken


@dataclasses.dataclass(frozen=True)
class Trust:
    """Who may collude without breaking the guarantee.

    Parameters
    ----------
    servers : int
        Number of servers, at least 2.
    corrupt_servers : int
        How many of them may pool their shares: M - 1 with additive shares.
    corrupt_clients : int
        t: clients whose noise the adversary knows.
    dropouts : int
        q: clients in all of whom anything may be missing, beyond the t. Each client hits a row once at most, so no row
        lacks more than q contributions; but q contributions to every row are far more clients, and are not covered.
    coalition : {"adaptive", "static"}
        Whether the t clients may be chosen after the public matrix is known, or were fixed before it was drawn. Few
        of a static coalition meet in one row; that more do, in any of `MATRICES` matrices, is part of delta.
    """

    servers: int = 3
    corrupt_servers: int = 2
    corrupt_clients: int = 0
    dropouts: int = 0
    coalition: str = "adaptive"

    def __post_init__(self) -> None:
        for name in ("servers", "corrupt_servers", "corrupt_clients", "dropouts"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        if self.servers < 2:
            raise InputError(
                f"servers: {self.servers} given, at least 2 expected: one server alone would see every row"
            )
        if not 0 <= self.corrupt_servers < self.servers:
            raise InputError(f"corrupt_servers: {self.corrupt_servers} given, 0 to {self.servers - 1} expected")
        for name, value in (("corrupt_clients", self.corrupt_clients), ("dropouts", self.dropouts)):
            if value < 0:
                raise InputError(f"{name}: {value} given, a number >= 0 expected")
        if self.coalition not in COALITIONS:
            raise InputError(f"coalition: {self.coalition!r} given, one of {', '.join(COALITIONS)} expected")

    @property
    def honest_servers(self) -> int:
        """Servers that follow the protocol and keep what they see to themselves."""
        return self.servers - self.corrupt_servers

    def assumption(self) -> str:
        """Say how many servers are counted on."""
        if self.honest_servers == 1:
            return "at least one of the servers keeps its shares to itself"
        return f"at least {self.honest_servers} of the servers keep their shares to themselves"

    @property
    def lost(self) -> int:
        """Clients without whose noise the guarantee has to do, at most: corrupt ones and dropouts."""
        return self.corrupt_clients + self.dropouts

    @property
    def failure(self) -> float:
        """Probability that, in one of 16 public matrices, the coalition is better placed than accounted for."""
        return MATRICES * STATIC_FAILURE if self.coalition == "static" and self.corrupt_clients else 0.0

    def lost_in_a_row(self, sketch: PublicMatrix) -> int:
        """`lost_of` the matrix."""
        return self.lost_of(sketch.rows, sketch.sparsity)

    def lost_of(self, rows: int, sparsity: int) -> int:
        """Contributions to one of k rows whose noise the adversary may know or that may be missing, at most.

        A static coalition of t clients has X contributions in a row, whose moment generating function is at most that
        of a Poisson variable of mean m = t s/k: clients hit the row independently with probability s/k, or, with
        balanced hashing, as many as a sample without replacement from each batch (Hoeffding 1963, Theorem 4). Hence
        P[X >= m + a] <= exp(-m h(a/m)) with h(x) = (1 + x) ln(1 + x) - x (Bennett), and a union over k rows.
        """
        corrupt = self.corrupt_clients
        if self.failure:
            mean = corrupt * sparsity / rows
            corrupt = min(corrupt, _poisson_bound(mean, STATIC_FAILURE / rows))
        return corrupt + self.dropouts


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
        """Log-ratio between the sums of discrete Gaussians that a client's change meets and rounded Gaussians."""

    def with_margin(self) -> EffectiveNoise:
        """Return what to calibrate to, so that another machine's arithmetic agrees that the noise suffices."""
        return self

    @abc.abstractmethod
    def assumption(self) -> str:
        """What has to be true of a run, in words."""


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
    """

    fewest: int
    leverage_of_squares: float
    most: int
    by_servers: bool = False

    @classmethod
    def of_clients(cls, sketch: PublicMatrix, trust: Trust) -> IndependentRowNoise:
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
    def of_servers(cls, sketch: PublicMatrix, trust: Trust) -> IndependentRowNoise:
        """Measure a public matrix whose rows get their noise from the servers: m_r is the number of honest ones."""
        honest = trust.honest_servers
        return cls(
            leverage=rigorous.above(Fraction(sketch.sparsity, honest)),
            leverage_of_squares=rigorous.above(Fraction(sketch.sparsity, honest**2)),
            fewest=honest,
            most=honest,
            sparsity=sketch.sparsity,
            by_servers=True,
        )

    def integer_slack(self, sigma: float, columns: int) -> float:
        """Slack of the sums and of rounding, for every entry that a client moves (`dpmpc.privacy.integer_noise`)."""
        per_entry = integer_noise.sum_slack(sigma, self.most)
        per_entry += integer_noise.smoothing_slack(integer_noise.ROUNDING_WIDTH)
        return self.sparsity * columns * per_entry

    def assumption(self) -> str:
        """Say whose noise is counted on."""
        if self.by_servers:
            return f"at least {self.fewest} of the servers add their noise, as agreed, before they open anything"
        return f"every released sum keeps the noise of at least {self.fewest:,} honest contributions"


def _whole(name: str, value: Any) -> int:
    """Return a number of parties, of whichever integer type, as an int."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{name}: {value!r} given, an integer expected")
    return operator.index(value)


def _poisson_bound(mean: float, failure: float) -> int:
    """Least integer b with exp(-(b ln(b/mean) - b + mean)) <= failure, for b > mean."""
    needed = -math.log(failure)
    bound = math.floor(mean) + 1
    while bound * math.log(bound / mean) - bound + mean < needed:
        bound += max(1, bound // 256)  # a coarser grid for large coalitions is on the safe side
    return bound
