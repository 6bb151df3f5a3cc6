"""Bound the numbers that a proof rests on from the safe side, whatever floating point does.

Scalars are exact rationals (`fractions.Fraction`), and each result is the float next above or below. Matrices hold
exact integers; what floating point finds for them is only a guess, which is then *proven* by a computation whose own
rounding is bounded beforehand. With u = 2^-53 and g(m) = m u / (1 - m u), a sum of m products in any order, with or
without fused operations, differs from the exact one by at most g(m) times the sum of the products' absolute values
(Higham 2002, section 3.1; nothing underflows in the numbers used here).

- *Inverse.* R is a guess for G^-1 and E = I - R G. If |E| < 1 in the maximum row sum, G^-1 = (I - E)^-1 R, hence
  |G^-1 - R| <= |E| |R| / (1 - |E|).
- *Smallest eigenvalue.* If the Cholesky factorisation of A runs to its end in floating point, then
  lambda_min(A) >= -g(k + 1)/(1 - g(k + 1)) tr(A) (Rump 2006, "Verification of positive definiteness", Theorem 2.3).
  Taken for A = G - a I, rounded downwards, it proves lambda_min(G) from a guess of it.

Promised: bounds that hold, or GuaranteeError where none is proven. Not promised: that they are the least; in practice a
relative 1e-10 to 1e-8 is lost. The curve from mu to epsilon has bounds of its own (`dpmpc.privacy.gaussian`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import GuaranteeError

Reals = NDArray[np.float64]

UNIT = Fraction(1, 1 << 53)
_STEPS = 12  # how often a guess of an eigenvalue is lowered before the proof is given up
_EXACT = 1 << 53


def above(value: Fraction) -> float:
    """Return the least float that is not below a rational."""
    nearest = float(value)
    return nearest if nearest == math.inf or Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def below(value: Fraction) -> float:
    """Return the largest float that is not above a rational."""
    return -above(-value)


def square_root_above(value: Fraction) -> float:
    """Return a float whose square is not below a rational >= 0, next to the least such float."""
    root = math.sqrt(above(value))
    while root < math.inf and Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def sum_above(values: Iterable[float]) -> float:
    """Return a float that is not below the exact sum of floats: `math.fsum` rounds it once."""
    return math.nextafter(math.fsum(values), math.inf)


def sum_of_rounded_above(total: float, terms: int) -> float:
    """Return a float not below the exact sum of `terms` numbers >= 0, whose sum in floats is `total`.

    Each number may have been rounded three times before it was added: a quotient, its square, and the quotient within.
    """
    return total if total == 0 else above(Fraction(total) * (1 + _error(terms + 4)))


def inverse_within(G: Reals) -> tuple[Reals, float]:
    """Return a symmetric guess R of the inverse of a symmetric matrix, and a bound on the row sums of |G^-1 - R|."""
    _require_integers(G)
    k = len(G)
    R = np.linalg.inv(G)
    R = (R + R.T) / 2
    residual = R @ G
    residual[np.diag_indices(k)] -= 1.0  # one more rounding, within g(k + 1)
    size_R, size_G = _row_sum_above(R), _row_sum_above(G)
    error = _row_sum_above(residual) * (1 + _error(1)) + _error(k + 1) * (size_R * size_G + 1)
    if error >= 1:
        raise GuaranteeError(
            f"rows: a matrix of {k} rows given, whose inverse is known within {float(error):.3g} only, and less than 1 "
            "is expected: nothing is proven of the noise; take fewer rows or more clients"
        )
    return R, above(error / (1 - error) * size_R)


def smallest_eigenvalue_below(G: Reals, guess: float) -> float:
    """Return a float that is proven not to exceed the smallest eigenvalue of a matrix; 0 where nothing is proven."""
    _require_integers(G)
    k, diagonal = len(G), G.diagonal().copy()
    trace = sum(Fraction(float(entry)) for entry in diagonal)
    error = _error(k + 3)  # two more than needed, for libraries that divide by multiplying with a reciprocal
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
    return above(sparsity * (Fraction(error) + _error(terms) * _row_sum_above(R)))


def _error(terms: int) -> Fraction:
    """Return g(m)."""
    return terms * UNIT / (1 - terms * UNIT)


def _row_sum_above(matrix: Reals) -> Fraction:
    """Bound the maximum row sum of absolute values from above."""
    return Fraction(float(np.abs(matrix).sum(axis=1).max())) * (1 + _error(len(matrix)))


def _require_integers(G: Reals) -> None:
    """Refuse a matrix that floats do not hold exactly."""
    largest = float(np.abs(G).max())
    if not largest < _EXACT or not np.array_equal(G, np.rint(G)):
        raise GuaranteeError(f"rows: overlaps up to {largest:g} given, integers below 2^53 expected")
