"""How much noise covers what one client moves where clients noise one copy, which reaches several rows of the sketch.

The servers open S (Z + E) + E_0: S unscaled with entries +-1, E the clients' discrete Gaussian noise of parameter
sigma, one row a client, and E_0 the anchors, discrete Gaussian noise of the same sigma that every server adds to each
entry of its own transformed share. Proofs: theorems one-copy and coalition-leverage.

Matrices hold exact integers; what floating point finds for them is only a guess, which is then *proven* by a
computation whose own rounding is bounded beforehand, by the g(m) of `dpmpc.privacy.exposure`.

- *Inverse.* R is a guess for G^-1 and E = I - R G. If |E| < 1 in the maximum row sum, G^-1 = (I - E)^-1 R, hence
  |G^-1 - R| <= |E| |R| / (1 - |E|).
- *Smallest eigenvalue.* If the Cholesky factorisation of A runs to its end in floating point, then
  lambda_min(A) >= -g(k + 1)/(1 - g(k + 1)) tr(A) (Rump 2006, "Verification of positive definiteness", Theorem 2.3).
  Taken for A = G - a I, rounded downwards, it proves lambda_min(G) from a guess of it.

Promised: what `dpmpc.privacy.exposure` promises, or GuaranteeError where no bound is proven. Not promised: that bounds
are the least (in practice a relative 1e-10 to 1e-8 is lost); anything about a second release of the same row, servers
that leave out their anchors, or Shamir shares, whose recombination would multiply the anchors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import GuaranteeError
from dpmpc.linear.sketching import PublicMatrix
from dpmpc.privacy.exposure import ROUNDING_WIDTH, EffectiveNoise, above, rounding_error, smoothing_slack
from dpmpc.privacy.specification import TrustModel

MARGIN = 1e-9  # relative; far above what two machines' rounding of the same leverage differs by
MOST_PAIRWISE = 1 << 12  # clients up to which every pair is looked at: an (n, n) array of 128 MB
MOST_DIRECT = 256  # rows up to which all eigenvalues are found at once
ROUNDING = 1e-10  # relative; far above the rounding of the few operations, and sums of 4096 terms, after the inverse
_STEPS = 12  # how often a guess of an eigenvalue is lowered before the proof is given up
_EXACT = 1 << 53


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
        # Beside the anchors only: theorem coalition-leverage.
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
        """Return the slack of the sums' law and of rounding every row: a of theorem one-copy."""
        return self.sum_slack(sigma, columns) + columns * self.rows * smoothing_slack(ROUNDING_WIDTH)

    def sum_slack(self, sigma: float, columns: int) -> float:
        """Return the pure log-ratio of the opened noise to the lattice Gaussian on Z^k of covariance sigma^2 G_H.

        Theorem one-copy: columns ln((1 + e)/(1 - e)), e = 1/(exp(2 pi^2 sigma^2 / (1 + s)) / (2 n) - 1), and
        (1 + e)/(1 - e) = 1/(1 - 4 n exp(-2 pi^2 sigma^2 / (1 + s))). Infinite where that proves nothing.
        """
        excess = math.exp(min(math.log(4 * self.clients) - 2 * math.pi**2 * sigma**2 / (1 + self.sparsity), 0.0))
        return -columns * math.log1p(-excess) if excess < 1 else math.inf

    @property
    def assumption(self) -> str:
        """Code of whose noise is counted on."""
        return "noise-of-one-copy"


@functools.lru_cache(maxsize=16)
def _measured(sketch: PublicMatrix, lost: int, in_a_row: int) -> tuple[float, float]:
    """Measure the largest leverage and smallest eigenvalue without `lost` clients, at most `in_a_row` of any row.

    Theorem coalition-leverage; what is computed of G is proven as the header states.
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
        "corrupt_clients + dropouts",
        f"{lost} given, but they may hold a share of {share:.3g} of the noise in some direction ({figures}; "
        f"{sketch.columns} clients, {sketch.rows} rows, sparsity {sketch.sparsity}), and a share below 1 is "
        "expected: take more clients, fewer rows or a sparser sketch",
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


def inverse_within(G: Reals) -> tuple[Reals, float]:
    """Return a symmetric guess R of the inverse of a symmetric matrix, and a bound on the row sums of |G^-1 - R|."""
    _require_integers(G)
    k = len(G)
    R = np.linalg.inv(G)
    R = (R + R.T) / 2
    residual = R @ G
    residual[np.diag_indices(k)] -= 1.0  # one more rounding, within g(k + 1)
    size_R, size_G = _row_sum_above(R), _row_sum_above(G)
    error = _row_sum_above(residual) * (1 + rounding_error(1)) + rounding_error(k + 1) * (size_R * size_G + 1)
    if error >= 1:
        raise GuaranteeError(
            "rows",
            f"a matrix of {k} rows given, whose inverse is known within {float(error):.3g} only, and less "
            "than 1 is expected: nothing is proven of the noise; take fewer rows or more clients",
        )
    return R, above(error / (1 - error) * size_R)


def smallest_eigenvalue_below(G: Reals, guess: float) -> float:
    """Return a float that is proven not to exceed the smallest eigenvalue of a matrix; 0 where nothing is proven."""
    _require_integers(G)
    k, diagonal = len(G), G.diagonal().copy()
    trace = sum(Fraction(float(entry)) for entry in diagonal)
    error = rounding_error(k + 3)  # two more than needed, for libraries that divide by multiplying with a reciprocal
    hidden = error / (1 - error) * trace
    lowered = G.copy()
    for step in range(_STEPS):  # a guess may be off by more than the rounding of the factorisation
        shift = below(Fraction(guess) - hidden * (1 << step))
        if shift <= 0:
            break
        lowered[np.diag_indices(k)] = [below(Fraction(float(entry)) - Fraction(shift)) for entry in diagonal]
        try:
            np.linalg.cholesky(lowered)
        except np.linalg.LinAlgError:
            continue
        return below(Fraction(shift) - hidden)
    return 0.0


def forms_error(R: Reals, error: float, sparsity: int) -> float:
    """Bound |s_i^T G^-1 s_j - what is computed from R|, for columns of `sparsity` entries +-1.

    The first part is s |G^-1 - R|; the second the rounding of a sum of s^2 entries of R, in any order.
    """
    terms = sparsity * sparsity + 2
    return above(sparsity * (Fraction(error) + rounding_error(terms) * _row_sum_above(R)))


def below(value: Fraction) -> float:
    """Return the largest float that is not above a rational."""
    return -above(-value)


def sum_above(values: Iterable[float]) -> float:
    """Return a float that is not below the exact sum of floats: `math.fsum` rounds it once."""
    return math.nextafter(math.fsum(values), math.inf)


def _row_sum_above(matrix: Reals) -> Fraction:
    """Bound the maximum row sum of absolute values from above."""
    return Fraction(float(np.abs(matrix).sum(axis=1).max())) * (1 + rounding_error(len(matrix)))


def _require_integers(G: Reals) -> None:
    """Refuse a matrix that floats do not hold exactly."""
    largest = float(np.abs(G).max())
    if not largest < _EXACT or not np.array_equal(G, np.rint(G)):
        raise GuaranteeError("rows", f"overlaps up to {largest:g}", "integers below 2^53")
