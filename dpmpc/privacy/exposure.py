"""How much noise covers what one client moves, under what is assumed of clients and servers.

An `EffectiveNoise` is what the accountants need to know of the public matrix under a `TrustModel`. There is one for
each way in which noise enters the sums: `IndependentRowNoise` where the noise of different rows is independent, because
clients noise every copy of their rows or because the servers add the noise; `dpmpc.privacy.one_copy.OneCopyNoise` where
clients noise one copy, whose noise reaches several rows.

Promised: bounds that hold for every coalition of `lost` clients, chosen after S is known and before anything is opened,
together with all servers but one, whatever floating point does. Scalars are exact rationals (`fractions.Fraction`), and
each result is the float next above. With u = 2^-53 and g(m) = m u / (1 - m u), a sum of m products in any order, with
or without fused operations, differs from the exact one by at most g(m) times the sum of the products' absolute values
(Higham 2002, section 3.1; nothing underflows in the numbers used here). The curve from mu to epsilon has bounds of its
own (`dpmpc.privacy.gaussian`).

What integers cost beside the Gaussian
--------------------------------------
Write rho_w(x) = exp(-x^2 / (2 w^2)) and let e(w) = 2 sum_{k>=1} exp(-2 pi^2 w^2 k^2). By Poisson summation, for every
real c, the mass rho_w(Z + c) lies within a factor 1 +- e(w) of w sqrt(2 pi): the mass of a wide lattice Gaussian
hardly depends on where its lattice lies. Two consequences, each a bound on log-ratios of probabilities, hence "pure":

*Sums.* If P is the discrete Gaussian of parameter sqrt(j) sigma and D that of parameter sigma, then (P * D)(z) is
proportional to rho_{sqrt(j+1) sigma}(z) rho_w(Z + c(z)) with w = sigma sqrt(j/(j+1)). So the sum of m discrete
Gaussians is the discrete Gaussian of parameter sqrt(m) sigma up to a log-ratio of at most sum_{j=1}^{m-1} ln((1 +
e)/(1 - e)), e = e(sigma sqrt(j/(j+1))). (Kairouz, Liu and Steinke 2021 state the same fact with a simpler constant.)

*Rounding.* Draw x from N(0, v - w^2) and round it to y = x + D, D the discrete Gaussian of parameter w on Z - x. The
law of y is that of the discrete Gaussian of variance parameter v up to ln((1 + e)/(1 - e)), e = e(w). Rounding
commutes with adding an integer, so the discrete Gaussian mechanism on integers *is* a rounded Gaussian mechanism of
variance v - w^2, up to that slack, and inherits its tight (epsilon, delta) curve.

Together: a release whose noise has slack a in total, and whose rounded Gaussian is mu-GDP, is (epsilon(mu, delta
e^-a) + 2 a, delta)-DP. In the units in which clients send their data (sigma in the thousands), a is below 1e-20.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from fractions import Fraction

import numpy as np

from dpmpc.base.errors import GuaranteeError
from dpmpc.linear.sketching import PublicMatrix
from dpmpc.privacy.specification import TrustModel

# Width at which rounding a Gaussian costs ln((1+e)/(1-e)) = 2^-80 or less per coordinate: e(w) <= 2^-81.
ROUNDING_WIDTH = math.sqrt(math.log(2.0**83) / (2 * math.pi**2))
EXACT_TERMS = 64  # of a sum, that are added one by one to bound its distance from a discrete Gaussian
_UNIT = Fraction(1, 1 << 53)


def above(value: Fraction) -> float:
    """Return the least float that is not below a rational."""
    nearest = float(value)
    return nearest if nearest == math.inf or Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def square_root_above(value: Fraction) -> float:
    """Return a float whose square is not below a rational >= 0, next to the least such float."""
    root = math.sqrt(above(value))
    while root < math.inf and Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def sum_of_rounded_above(total: float, terms: int) -> float:
    """Return a float not below the exact sum of `terms` numbers >= 0, whose sum in floats is `total`.

    Each number may have been rounded three times before it was added: a quotient, its square, and the quotient within.
    """
    return total if total == 0 else above(Fraction(total) * (1 + rounding_error(terms + 4)))


def rounding_error(terms: int) -> Fraction:
    """Return g(m)."""
    return terms * _UNIT / (1 - terms * _UNIT)


def smoothing_slack(width: float) -> float:
    """Return ln((1 + e)/(1 - e)) with e = e(width) rounded upwards; infinity where the bound is void."""
    decay = math.exp(-2 * math.pi**2 * width**2)
    if decay >= 0.4:
        return math.inf
    excess = 2 * decay / (1 - decay**3)  # k^2 >= 3k - 2 turns the tail into a geometric series
    return math.log1p(excess) - math.log1p(-excess) if excess < 1 else math.inf


def sum_slack(sigma: float, terms: int) -> float:
    """Return the log-ratio between a sum of `terms` discrete Gaussians and one of the same variance parameter.

    The first `EXACT_TERMS` terms of the sum are added one by one; the rest, which only get smaller, are bounded by the
    next one.
    """
    head = min(terms - 1, EXACT_TERMS)
    slack = sum(smoothing_slack(sigma * math.sqrt(j / (j + 1))) for j in range(1, head + 1))
    if terms - 1 > EXACT_TERMS:
        slack += (terms - 1 - EXACT_TERMS) * smoothing_slack(sigma * math.sqrt((EXACT_TERMS + 1) / (EXACT_TERMS + 2)))
    return slack


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

    @property
    @abc.abstractmethod
    def assumption(self) -> str:
        """Code of what must be true of a run."""


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
                "corrupt_clients + dropouts",
                f"{lost} given, but row {row} of the sketch collects only {occupancy[row]} contributions "
                f"({sketch.columns} clients, {sketch.rows} rows, sparsity {sketch.sparsity}); fewer than "
                f"{int(occupancy[hit].min())} expected: take more clients, fewer rows or balanced hashing",
            )
        weights = np.divide(1.0, unknown, out=np.zeros(len(unknown)), where=hit)
        return cls(
            leverage=sum_of_rounded_above(sketch.heaviest_client(weights), sketch.sparsity),
            leverage_of_squares=sum_of_rounded_above(sketch.heaviest_client(weights**2), sketch.sparsity),
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
            leverage=above(Fraction(sketch.sparsity, honest)),
            leverage_of_squares=above(Fraction(sketch.sparsity, honest**2)),
            fewest=honest,
            most=honest,
            sparsity=sketch.sparsity,
            by_servers=True,
        )

    def integer_slack(self, sigma: float, columns: int) -> float:
        """Return the slack of sums and rounding for all entries that a client moves (`dpmpc.privacy.exposure`)."""
        per_entry = sum_slack(sigma, self.most)
        per_entry += smoothing_slack(ROUNDING_WIDTH)
        return self.sparsity * columns * per_entry

    @property
    def assumption(self) -> str:
        """Code of whose noise is counted on."""
        if self.dealt:
            return "noise-of-dealers"
        return "noise-of-servers" if self.by_servers else "noise-of-clients"
