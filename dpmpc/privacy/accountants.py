"""How each family of noise is accounted for: by the accountant that the noise names.

An accountant states what epsilon a given noise gives on a given `EffectiveNoise`, and finds the least noise that gives
a budget. Formulas stand in `gaussian`, `exposure` and theorems sketch-gaussian and sketch-laplace.

`paper_variance` and `Accountant.as_in_paper` are our reconstruction of the calibration of Burkhardt et al. (2025,
section 4), from a text that has lost its formulas. It is private, but costs about s^2 d times more variance than the
joint calibration (theorem sketch-gaussian).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np

from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.noise import DiscreteGaussian, DiscreteLaplace, Noise, family_named
from dpmpc.linear.noise.floating import GammaLaplace, Gaussian
from dpmpc.linear.noise.integer import MAX_SCALE
from dpmpc.linear.sketching import PublicMatrix
from dpmpc.privacy import gaussian
from dpmpc.privacy.exposure import ROUNDING_WIDTH, EffectiveNoise, IndependentRowNoise, square_root_above
from dpmpc.privacy.specification import TrustModel

RENYI_ORDERS = np.unique(np.concatenate([np.arange(2, 65), np.geomspace(65, 2**20, 400).astype(np.int64)])).astype(
    float
)
GAMMA = 0.5  # the paper's occupancy slack: every row holds at least (1 - gamma) n / k clients


def occupancy_failure(sketch: PublicMatrix, gamma: float = GAMMA) -> float:
    """Bound P[a row of one S_j collects below (1 - gamma) n / k clients] by k exp(-gamma^2 n / (2 k)) (Lemma 4.5)."""
    return sketch.rows * math.exp(-(gamma**2) * sketch.columns / (2 * sketch.rows))


def paper_variance(
    sketch: PublicMatrix, sensitivity: Sensitivity, epsilon: float, delta: float, trust: TrustModel
) -> float:
    """Return (2 eta)^2 2 ln(1.25/delta0) / epsilon0^2 k / ((1 - gamma)(n - t)), per entry and copy (Corollary 4.7).

    epsilon0 = epsilon/(s d), delta0 = (delta - failure)/(s d): the occupancy failure is part of the promised delta.
    """
    compositions = sketch.sparsity * sensitivity.columns
    remaining = delta - sketch.sparsity * occupancy_failure(sketch)
    honest = sketch.columns - trust.lost
    if remaining <= 0 or honest <= 0:
        raise GuaranteeError(
            "delta",
            f"{delta:g} given, but the paper's occupancy bound alone fails with {delta - remaining:.3g} at "
            f"{sketch.columns} clients and {sketch.rows} rows; use calibration='joint'",
        )
    sigma = sensitivity.linf * gaussian.classical_gaussian_sigma(epsilon / compositions, remaining / compositions)
    return sigma**2 * sketch.rows / ((1 - GAMMA) * honest)


class Accountant(abc.ABC):
    """How one family of noise is accounted for.

    Parameters
    ----------
    family : type
        The noise.

    Attributes
    ----------
    sources : tuple of str
        Codes of where that is proven.
    assumptions : tuple of str
        Codes of what it rests on, beyond what every release does.
    pure : bool
        Whether its epsilon is the same at delta = 0.
    """

    sources: tuple[str, ...]
    assumptions: tuple[str, ...] = ()
    pure = False

    def __init__(self, family: type[Any]):
        self.family = family

    @abc.abstractmethod
    def epsilon(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity, delta: float) -> float:
        """Return the epsilon that the noise gives at delta."""

    def suffices(
        self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity, epsilon: float, delta: float
    ) -> bool:
        """Return whether the noise gives (epsilon, delta)."""
        return self.epsilon(noise, exposure, sensitivity, delta) <= epsilon

    @abc.abstractmethod
    def least(self, exposure: EffectiveNoise, sensitivity: Sensitivity, epsilon: float, delta: float) -> Noise:
        """Return the least noise of this family that gives (epsilon, delta)."""

    def as_in_paper(
        self, sketch: PublicMatrix, sensitivity: Sensitivity, epsilon: float, delta: float, trust: TrustModel
    ) -> Noise:
        """Return noise of this family as the paper calibrates it; an error for families that it does not have."""
        raise InputError("calibration", "'paper'", "'joint'", condition="for a noise that the paper does not have")

    @abc.abstractmethod
    def released_sd(self, l1: float, l2: float, sparsity: int, epsilon: float, delta: float) -> float:
        """Return the deviation of a released entry over sqrt(s), to first order and before any public matrix."""

    def mu(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity) -> float | None:
        """Return the Gaussian-DP parameter of the release, where it has one."""
        return None

    def slack(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity) -> float:
        """Return the pure epsilon by which a client's rows may differ from Gaussian ones, in one direction."""
        return 0.0


class SearchedAccountant(Accountant):
    """A family whose noise is found by search on its variance.

    `sources`, `epsilon` and `with_variance` remain to be stated.
    """

    @abc.abstractmethod
    def with_variance(self, variance: float) -> Noise:
        """Return noise of this family of at least this variance."""

    def least(self, exposure: EffectiveNoise, sensitivity: Sensitivity, epsilon: float, delta: float) -> Noise:
        """Double the Gaussian's variance, which is the least that can do, until enough; then halve the bracket."""

        def suffices(variance: float) -> bool:
            return self.epsilon(self._drawable(variance, epsilon, delta), exposure, sensitivity, delta) <= epsilon

        low = high = exposure.leverage * (sensitivity.l2 / gaussian.mu_of_budget(epsilon, delta)) ** 2
        while not suffices(high):
            low, high = high, 2 * high
        while high > low * (1 + 1e-9):
            middle = (low + high) / 2
            if suffices(middle):
                high = middle
            else:
                low = middle
        return self.with_variance(high)

    def _drawable(self, variance: float, epsilon: float, delta: float) -> Noise:
        """Return noise of this variance, or return that the budget needs more than can be drawn."""
        try:
            return self.with_variance(variance)
        except InputError as error:
            raise GuaranteeError(
                "epsilon, delta",
                f"({epsilon:g}, {delta:g}) given, but no noise that can be drawn gives it ({error}): use "
                "fewer fractional bits, fewer columns or a larger epsilon",
            ) from error

    def as_in_paper(
        self, sketch: PublicMatrix, sensitivity: Sensitivity, epsilon: float, delta: float, trust: TrustModel
    ) -> Noise:
        """Return noise of the variance of Corollary 4.7."""
        return self.with_variance(paper_variance(sketch, sensitivity, epsilon, delta, trust))

    def released_sd(self, l1: float, l2: float, sparsity: int, epsilon: float, delta: float) -> float:
        """Return Delta / mu, whatever the sparsity (theorem sketch-gaussian)."""
        return l2 / gaussian.mu_of_budget(epsilon, delta)


class _GaussianAccountant(SearchedAccountant):
    sources: tuple[str, ...] = ("gaussian-curve",)

    def mu(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity) -> float:
        return _mu_above(sensitivity.l2, exposure.leverage, Fraction(_sigma(noise)) ** 2)

    def epsilon(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity, delta: float) -> float:
        slack = self.slack(noise, exposure, sensitivity)
        if not math.isfinite(slack):
            return math.inf
        epsilon = gaussian.epsilon_of_mu(self.mu(noise, exposure, sensitivity), _without(slack, delta))
        return epsilon if slack == 0 else math.nextafter(epsilon + 2 * slack, math.inf)

    def suffices(
        self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity, epsilon: float, delta: float
    ) -> bool:
        """Return whether the noise gives (epsilon, delta): one point of the curve, no search for the least epsilon."""
        slack = self.slack(noise, exposure, sensitivity)
        if not math.isfinite(slack):
            return False
        left = epsilon if slack == 0 else math.nextafter(epsilon - 2 * slack, -math.inf)
        mu = self.mu(noise, exposure, sensitivity)
        return left >= 0 and gaussian.delta_of_mu(mu, left) <= _without(slack, delta)

    def with_variance(self, variance: float) -> Noise:
        return cast(Noise, self.family(math.sqrt(variance)))


class _DiscreteGaussianAccountant(_GaussianAccountant):
    sources: tuple[str, ...] = (
        *_GaussianAccountant.sources,
        "discrete-gaussian-sums",
    )

    def mu(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity) -> float:
        # Rounding takes w^2 of the variance in each direction; 1/(m v - w^2) <= (1/m) / (v - w^2/fewest).
        taken = Fraction(ROUNDING_WIDTH) ** 2 / Fraction(exposure.fewest)
        return _mu_above(sensitivity.l2, exposure.leverage, Fraction(_sigma(noise)) ** 2 - taken)

    def slack(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity) -> float:
        if _sigma(noise) ** 2 * exposure.fewest <= ROUNDING_WIDTH**2:
            return math.inf
        return exposure.integer_slack(_sigma(noise), sensitivity.columns)


def skellam_renyi(
    order: float, *, variance: float, l1: float, l2: float, leverage: float, leverage_of_squares: float
) -> float:
    """Return the Renyi divergence bound of order alpha for Skellam noise on the rows that one client moves.

    Agarwal, Kairouz and Liu 2021, Theorem 3.5, for one row of noise variance V:
    alpha Delta_2^2 / (2 V) + min{((2 alpha - 1) Delta_2^2 + 6 Delta_1) / (4 V^2), 3 Delta_1 / (2 V)}.
    Rows are independent, so their divergences add; with V_r = m_r v the sums over a client's rows are `leverage` =
    max_i sum_r 1/m_r and `leverage_of_squares` = max_i sum_r 1/m_r^2.
    """
    gaussian = order * l2**2 * leverage / (2 * variance)
    quadratic = ((2 * order - 1) * l2**2 + 6 * l1) * leverage_of_squares / (4 * variance**2)
    linear = 3 * l1 * leverage / (2 * variance)
    return gaussian + min(quadratic, linear)


def epsilon_of_renyi(divergence: Callable[[float], float], delta: float) -> float:
    """Convert Renyi bounds to epsilon (Canonne, Kamath and Steinke 2020, Proposition 12); best of all orders."""
    best = math.inf
    for order in RENYI_ORDERS:
        epsilon = divergence(order) + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        best = min(best, epsilon)
    return max(best, 0.0)


class _SkellamAccountant(SearchedAccountant):
    sources: tuple[str, ...] = (
        "skellam",
        "renyi-conversion",
    )

    def epsilon(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity, delta: float) -> float:
        rows = independent_rows(noise.name, exposure)
        return epsilon_of_renyi(
            lambda order: skellam_renyi(
                order,
                variance=noise.variance,
                l1=sensitivity.l1,
                l2=sensitivity.l2,
                leverage=rows.leverage,
                leverage_of_squares=rows.leverage_of_squares,
            ),
            delta,
        )

    def with_variance(self, variance: float) -> Noise:
        return cast(Noise, self.family(variance))


class _LaplaceAccountant(Accountant):
    """Pure epsilon from m = min_r m_r shares of scale b = s Delta_1 / epsilon (theorem sketch-laplace)."""

    sources: tuple[str, ...] = ("laplace-shares",)
    pure = True

    def __init__(self, family: type[Any]):
        super().__init__(family)
        if family is DiscreteLaplace:
            self.assumptions = ("laplace-tails",)

    def epsilon(self, noise: Noise, exposure: EffectiveNoise, sensitivity: Sensitivity, delta: float) -> float:
        """Return s Delta_1 / b: a client moves s rows, each by at most Delta_1."""
        assert isinstance(noise, DiscreteLaplace | GammaLaplace)
        fewest = independent_rows(noise.name, exposure).fewest
        if fewest < noise.shares:
            raise GuaranteeError(
                "shares",
                f"{noise.shares} given, but some row of the sketch keeps the noise of only {fewest} honest "
                "contributions: they do not add up to Laplace noise",
            )
        return float(exposure.sparsity * Fraction(sensitivity.l1) / Fraction(noise.scale))

    def least(self, exposure: EffectiveNoise, sensitivity: Sensitivity, epsilon: float, delta: float) -> Noise:
        fewest = independent_rows(self.family.name, exposure).fewest
        return self._noise(exposure.sparsity, sensitivity, epsilon, fewest)

    def as_in_paper(
        self, sketch: PublicMatrix, sensitivity: Sensitivity, epsilon: float, delta: float, trust: TrustModel
    ) -> Noise:
        """Return noise of Corollary 4.10: b = k Delta_1 / epsilon (Delta_1 = 2 eta d), m = n/k - t."""
        shares = sketch.columns // sketch.rows - trust.lost
        if shares < 1:
            raise GuaranteeError(
                "corrupt_clients + dropouts", trust.lost, f"fewer than n/k = {sketch.columns // sketch.rows}"
            )
        return self._noise(sketch.rows, sensitivity, epsilon, shares)

    def released_sd(self, l1: float, l2: float, sparsity: int, epsilon: float, delta: float) -> float:
        """Return sqrt(2) b / sqrt(s)."""
        return math.sqrt(2 * sparsity) * l1 / epsilon

    def _noise(self, rows: int, sensitivity: Sensitivity, epsilon: float, shares: int) -> Noise:
        """Return noise of scale rows Delta_1 / epsilon."""
        scale = rows * Fraction(sensitivity.l1) / Fraction(epsilon)
        if scale > MAX_SCALE:
            raise GuaranteeError(
                "epsilon",
                f"{epsilon:g} given, but the scale of {self.family.name} noise would be {float(scale):.6g}, "
                "and at most 2^40 is expected: use fewer fractional bits, fewer columns or a sparser sketch",
            )
        return cast(Noise, self.family(scale, shares))


def independent_rows(noise: str, exposure: EffectiveNoise) -> IndependentRowNoise:
    """Expect rows with independent noise, for a proof that covers no others.

    Parameters
    ----------
    noise : str
        The family, for the message.
    exposure : EffectiveNoise
        What the accountant was given.

    Raises
    ------
    GuaranteeError
        If clients noise one copy.
    """
    if not isinstance(exposure, IndependentRowNoise):
        raise GuaranteeError(
            "copies", f"one given with {noise} noise, 'each' expected: one copy needs discrete-gaussian"
        )
    return exposure


def _sigma(noise: Noise) -> float:
    """Return the parameter sigma, which for a narrow discrete Gaussian is not the standard deviation."""
    assert isinstance(noise, Gaussian | DiscreteGaussian)
    return noise.sigma


def _without(slack: float, delta: float) -> float:
    """Return delta e^-slack, rounded downwards: `exp` errs by an ulp or two, and the product rounds."""
    return delta if slack == 0 else delta * math.exp(-slack) * (1 - 2.0**-50)


def _mu_above(l2: float, leverage: float, variance: Fraction) -> float:
    """Return l2 sqrt(leverage / variance), computed as a rational and rounded upwards."""
    if variance <= 0 or not math.isfinite(leverage):
        return math.inf
    return square_root_above(Fraction(l2) ** 2 * Fraction(leverage) / variance)


ACCOUNTANTS: dict[str, type[Accountant]] = {
    "gaussian": _GaussianAccountant,
    "discrete-gaussian": _DiscreteGaussianAccountant,
    "skellam": _SkellamAccountant,
    "laplace-shares": _LaplaceAccountant,
}
"""By the name that a noise says: `dpmpc.linear.Noise.accountant`."""


def accountant_of(noise: str) -> Accountant:
    """Return the accountant of a family of noise."""
    family = family_named(noise)
    kind = getattr(family, "accountant", None)
    kind = ACCOUNTANTS.get(kind) if isinstance(kind, str) else kind
    if not isinstance(kind, type) or not issubclass(kind, Accountant):
        raise InputError("noise", f"{noise!r} of {family.origin} without an accountant", "a subclass of Accountant")
    return kind(family)


def is_pure(noise: str) -> bool:
    """Return whether this family of noise gives its epsilon at delta = 0."""
    return accountant_of(noise).pure


def released_sd(noise: str, *, l1: float, l2: float, sparsity: int, epsilon: float, delta: float) -> float:
    """Return what calibrated noise amounts to in a released entry: a standard deviation, to first order.

    Parameters
    ----------
    noise : str
        The family.
    l1, l2 : float
        Sensitivities of a contribution, in the unit of the result.
    sparsity : int
        s.
    epsilon, delta : float
        The budget.
    """
    return accountant_of(noise).released_sd(l1, l2, sparsity, epsilon, delta)
