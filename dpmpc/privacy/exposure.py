"""How much noise covers what one client moves, under what is assumed of clients and servers.

An `EffectiveNoise` is what the accountants need to know of the public matrix under a `TrustModel`. There is one for
each way in which noise enters the sums:

- `IndependentRowNoise`: the noise of different rows is independent. So it is where clients noise every copy of their
  rows, and where the servers add the noise.
- `OneCopyNoise`: clients noise one copy, whose noise reaches several rows. The servers open S (Z + E) + E_0: S unscaled
  with entries +-1, E the clients' discrete Gaussian noise of parameter sigma, one row a client, and E_0 the anchors,
  discrete Gaussian noise of the same sigma that every server adds to each entry of its own transformed share. The
  proofs stand in docs/one-copy.md.

Promised: bounds that hold for every coalition of `lost` clients, chosen after S is known and before anything is opened,
together with all servers but one. Not promised of one copy: anything about a second release of the same row, servers
that leave out their anchors, or Shamir shares, whose recombination would multiply the anchors.

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
import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpmpc.arguments import require_whole
from dpmpc.errors import GuaranteeError
from dpmpc.privacy import rigorous
from dpmpc.privacy.rigorous import above, forms_error, inverse_within, smallest_eigenvalue_below, sum_above
from dpmpc.sketching import PublicMatrix
from dpmpc.specification import TrustModel

Reals = NDArray[np.float64]

MARGIN = 1e-9  # relative; far above what two machines' rounding of the same leverage differs by
MOST_PAIRWISE = 1 << 12  # clients up to which every pair is looked at: an (n, n) array of 128 MB
MOST_DIRECT = 256  # rows up to which all eigenvalues are found at once
ROUNDING = 1e-10  # relative; far above the rounding of the few operations, and sums of 4096 terms, after the inverse

# Width at which rounding a Gaussian costs ln((1+e)/(1-e)) = 2^-80 or less per coordinate: e(w) <= 2^-81.
ROUNDING_WIDTH = math.sqrt(math.log(2.0**83) / (2 * math.pi**2))
EXACT_TERMS = 64  # of a sum, that are added one by one to bound its distance from a discrete Gaussian


def smoothing_slack(width: float) -> float:
    """Return ln((1 + e)/(1 - e)) with e = e(width) rounded upwards; infinity where the bound says nothing."""
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
        """Return the slack of sums and rounding for all entries that a client moves (`dpmpc.privacy.exposure`)."""
        per_entry = sum_slack(sigma, self.most)
        per_entry += smoothing_slack(ROUNDING_WIDTH)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneCopyNoise(EffectiveNoise):
    """What protects the worst-placed client when every client sends one noisy copy.

    Write H for the honest clients and G_H = S_H S_H^T + I, where I stands for one honest server's anchors.
    """

    rows: int  # k
    clients: int  # n, which is at least the number of honest clients

    @classmethod
    def of(cls, sketch: PublicMatrix, trust: TrustModel) -> OneCopyNoise:
        """Measure a public matrix whose clients hit two rows or more.

        Corrupt clients and dropouts are chosen after S is known; if corrupt clients were fixed before, the number of
        them in a row is bounded besides.
        """
        lost = require_whole("corrupt_clients + dropouts", trust.lost, 0, sketch.columns - 1)
        largest, smallest = _measured(sketch, lost, trust.lost_in_a_row(sketch))
        # Beside the anchors only; docs/one-copy.md, section 5.
        alone = above(Fraction(sketch.sparsity, 1 + sketch.sparsity))
        return cls(
            leverage=min(largest * (1 + ROUNDING), alone),
            fewest=max(smallest, 1.0),
            sparsity=sketch.sparsity,
            rows=sketch.rows,
            clients=sketch.columns,
        )

    def with_margin(self) -> OneCopyNoise:
        """Return this exposure with a leverage that is larger by a relative `MARGIN`."""
        return dataclasses.replace(self, leverage=self.leverage * (1 + MARGIN))

    def integer_slack(self, sigma: float, columns: int) -> float:
        """Return the slack of the sums' law and of rounding every row; docs/one-copy.md, section 4."""
        return self.sum_slack(sigma, columns) + columns * self.rows * smoothing_slack(ROUNDING_WIDTH)

    def sum_slack(self, sigma: float, columns: int) -> float:
        """Return the pure log-ratio of the opened noise to the lattice Gaussian on Z^k of covariance sigma^2 G_H.

        docs/one-copy.md, section 3: columns ln((1 + e)/(1 - e)), e = 1/(exp(2 pi^2 sigma^2 / (1 + s)) / (2 n) - 1), and
        (1 + e)/(1 - e) = 1/(1 - 4 n exp(-2 pi^2 sigma^2 / (1 + s))). Infinite where that proves nothing.
        """
        excess = math.exp(min(math.log(4 * self.clients) - 2 * math.pi**2 * sigma**2 / (1 + self.sparsity), 0.0))
        return -columns * math.log1p(-excess) if excess < 1 else math.inf

    def assumption(self) -> str:
        """Say whose noise is counted on."""
        return (
            "at least one honest server adds its noise, as agreed, before it opens anything, and the honest clients "
            f"noise their one copy: no client has a leverage above {self.leverage:.4g} in the public matrix"
        )


@functools.lru_cache(maxsize=16)
def _measured(sketch: PublicMatrix, lost: int, in_a_row: int) -> tuple[float, float]:
    """Measure the largest leverage and smallest eigenvalue without `lost` clients, at most `in_a_row` of any row.

    docs/one-copy.md, section 5; what is computed of G is bounded by `dpmpc.privacy.rigorous`.
    """
    G = sketch.overlaps()
    R, wrong = inverse_within(G)
    smallest = max(smallest_eigenvalue_below(G, _smallest_guess(G, R)), 1.0)
    error = forms_error(R, wrong, sketch.sparsity)
    leaders = heaviest(sketch.quadratic_forms(R), max(lost, 1)) + error
    if lost == 0:
        return float(leaders[0]), smallest
    products = _products(sketch, R) + error if sketch.columns <= MOST_PAIRWISE else None
    g = {
        "leverages": sum_above(leaders.tolist()),
        "overlaps": overlap_bound(sketch, lost, smallest),
        "rows": sketch.sparsity * in_a_row / smallest,
    }
    if products is not None:
        g["pairs"] = pairwise_bound(products, lost)
    share = _provable(g, sketch, lost)
    largest = float(leaders[0]) / (1 - share)
    if products is not None:
        largest = min(largest, pairwise_leverage(products, lost, share))
    return largest, (1 - share) * smallest * (1 - ROUNDING)


def _smallest_guess(G: Reals, R: Reals) -> float:
    """Guess the smallest eigenvalue of G, unproven, from the largest of its inverse, which Lanczos finds quickly."""
    if len(G) > MOST_DIRECT:
        from scipy.sparse.linalg import ArpackError, eigsh

        with contextlib.suppress(ArpackError):  # not converged: the slow way is sure
            return 1 / float(eigsh(R, k=1, which="LA", tol=1e-7, v0=np.ones(len(G)), return_eigenvectors=False)[0])
    return float(np.linalg.eigvalsh(G)[0])


def _provable(g: dict[str, float], sketch: PublicMatrix, lost: int) -> float:
    """Return the least of the bounds on lambda_max(S_T^T G^-1 S_T), if it is below 1."""
    share = min(g.values()) * (1 + ROUNDING)
    if share < 1:
        return share
    figures = ", ".join(f"by {name} {bound:.3g}" for name, bound in g.items())
    raise GuaranteeError(
        f"corrupt_clients + dropouts: {lost} given, but they may hold a share of {share:.3g} of the noise in some "
        f"direction ({figures}; {sketch.columns} clients, {sketch.rows} rows, sparsity {sketch.sparsity}), and a share "
        "below 1 is expected: take more clients, fewer rows or a sparser sketch"
    )


def heaviest(pieces: Iterable[Reals], count: int) -> Reals:
    """Return the `count` largest values of all pieces, the largest first, in memory of them and of a piece.

    The sum of the t largest leverages bounds lambda_max(S_T^T G^-1 S_T), because it bounds the trace.
    """
    leaders, least = np.empty(0), -math.inf
    for piece in pieces:
        leaders = np.concatenate([leaders, piece[piece > least]])
        if len(leaders) > 2 * count:  # seldom: once the least of the leaders is large, few values exceed it
            leaders = np.partition(leaders, -count)[-count:]
            least = float(leaders[0])
    return np.sort(leaders)[::-1][:count]


def overlap_bound(sketch: PublicMatrix, lost: int, smallest: float) -> float:
    """Bound lambda_max(S_T^T G^-1 S_T) by lambda_max(S_T^T S_T) / lambda_min(G), the former by Gershgorin's discs.

    The numerator is s + min(s (t - 1), t - 1 + P) with P = `PublicMatrix.shared_pairs`, because |s_j . s_l| is at most
    s and at most 1 plus the number of pairs of rows that j and l share.
    """
    others = lost - 1
    most = sketch.sparsity * others
    return (sketch.sparsity + (min(most, others + sketch.shared_pairs()) if others else 0)) / smallest


def pairwise_bound(products: Reals, lost: int) -> float:
    """Bound lambda_max(L_TT) by max_j of L_jj + the t - 1 largest |L_jl| (Gershgorin's discs); `products` is |L|."""
    return float((products.diagonal() + _largest(_off_diagonal(products), lost - 1)).max())


def pairwise_leverage(products: Reals, lost: int, g: float) -> float:
    """Return max_i of l_i + (the t largest L_ij^2, j != i) / (1 - g); `products` is |L|."""
    return float((products.diagonal() + _largest(_off_diagonal(products) ** 2, lost) / (1 - g)).max())


def _products(sketch: PublicMatrix, R: Reals) -> Reals:
    """Return |S^T R S|, float64 (n, n), for R near G^-1."""
    S = sketch.to_csc().astype(np.float64)
    products: Reals = np.abs(S.T @ (S.T @ R).T)
    return products


def _off_diagonal(products: Reals) -> Reals:
    """Return a copy with zeros on the diagonal."""
    return products - np.diag(products.diagonal())


def _largest(values: Reals, count: int) -> Reals:
    """Return the sum of the `count` largest along the last axis."""
    first = values.shape[-1] - count
    sums: Reals = np.partition(values, max(first - 1, 0))[..., first:].sum(axis=-1)
    return sums
