"""The calibration as the paper prints it (Burkhardt et al. 2025, section 4), for reproduction.

It is private, and pays about s^2 d times more variance than one joint mechanism (docs/mathematics.md, section 1.1).
"""

from __future__ import annotations

import math

from dpmpc.encoding import Sensitivity
from dpmpc.errors import GuaranteeError
from dpmpc.privacy import gaussian
from dpmpc.privacy.exposure import Trust
from dpmpc.sketching import PublicMatrix

GAMMA = 0.5  # the paper's occupancy slack: every row holds at least (1 - gamma) n / k clients


def occupancy_failure(sketch: PublicMatrix, gamma: float = GAMMA) -> float:
    """P[some row of one S_j collects fewer than (1 - gamma) n / k clients] <= k exp(-gamma^2 n / (2 k)) (Lemma 4.5)."""
    return sketch.rows * math.exp(-(gamma**2) * sketch.columns / (2 * sketch.rows))


def paper_variance(sketch: PublicMatrix, sensitivity: Sensitivity, epsilon: float, delta: float, trust: Trust) -> float:
    """Corollary 4.7: (2 eta)^2 2 ln(1.25/delta0) / epsilon0^2 k / ((1 - gamma)(n - t)), per entry and copy.

    epsilon0 = epsilon/(s d), delta0 = (delta - failure)/(s d): the occupancy failure is part of the promised delta.
    """
    compositions = sketch.sparsity * sensitivity.columns
    remaining = delta - sketch.sparsity * occupancy_failure(sketch)
    honest = sketch.columns - trust.lost
    if remaining <= 0 or honest <= 0:
        raise GuaranteeError(
            f"delta: {delta:g} given, but the paper's occupancy bound alone fails with {delta - remaining:.3g} "
            f"at {sketch.columns} clients and {sketch.rows} rows; use calibration='joint'"
        )
    sigma = sensitivity.linf * gaussian.classical_gaussian_sigma(epsilon / compositions, remaining / compositions)
    return sigma**2 * sketch.rows / ((1 - GAMMA) * honest)
