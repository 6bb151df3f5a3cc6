"""From a budget to noise, and from noise back to what it guarantees.

Setting (Burkhardt et al. 2025, Algorithm 1): client i adds fresh integer noise of variance v to each of its s copies;
copy j goes through S_j; the servers open sum_j S_j Z^(j). The public matrix S is drawn independently of the data, so
everything is said *given* S. Row r of the release collects N_r copies; at least m_r = N_r - t - dropouts of them
carry noise that the adversary does not know (t corrupt clients, chosen after S is known). Replacing client i moves
only its rows R_i, each by at most Delta, and noise in different rows is independent. For Gaussian noise the release
is therefore exactly mu-GDP with

    mu^2 = (Delta^2 / v) max_i sum_{r in R_i} 1 / m_r,
    (docs/mathematics.md, section 1.2)

one joint mechanism over all columns and copies, without composition and without a bound on the occupancy.
`Exposure` holds what this needs of S; `account` turns noise into a `Guarantee`, `calibrate` finds the least noise.

``calibration="paper"`` reproduces the printed calibration (Theorem 4.4, Corollary 4.7): basic composition over
d columns and s copies with the classical Gaussian, and the occupancy failure of Lemma 4.5 added to delta. For Laplace
noise it is Corollary 4.10, which counts all k rows as hit.

Pure epsilon: the least m_r shares of a discrete Laplace are in every row, and delta is 0 (docs/mathematics.md, section
1.3). Shares beyond those are independent noise on top, which is post-processing.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from fractions import Fraction

import numpy as np

from dpmpc.encoding import Sensitivity
from dpmpc.errors import GuaranteeError, InputError
from dpmpc.noise import MAX_SCALE, DiscreteGaussian, DiscreteLaplace, GammaLaplace, Gaussian, Noise, Skellam
from dpmpc.privacy import gaussian, integer_noise
from dpmpc.privacy.guarantee import Guarantee
from dpmpc.sketching import PublicMatrix

CALIBRATIONS = ("joint", "paper")
PAPER_GAMMA = 0.5  # the paper's occupancy slack: every row holds at least (1 - gamma) n / k clients


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
        Contributions that any row may lack, beyond the t.
    """

    servers: int = 3
    corrupt_servers: int = 2
    corrupt_clients: int = 0
    dropouts: int = 0

    def __post_init__(self) -> None:
        if self.servers < 2:
            raise InputError(
                f"servers: {self.servers} given, at least 2 expected: one server alone would see every row"
            )
        if not 0 <= self.corrupt_servers < self.servers:
            raise InputError(f"corrupt_servers: {self.corrupt_servers} given, 0 to {self.servers - 1} expected")
        for name, value in (("corrupt_clients", self.corrupt_clients), ("dropouts", self.dropouts)):
            if value < 0:
                raise InputError(f"{name}: {value} given, a number >= 0 expected")


@dataclasses.dataclass(frozen=True)
class Exposure:
    """How much of the public matrix's noise the worst-placed client can count on.

    Attributes
    ----------
    leverage : float
        max_i sum_{r in R_i} 1/m_r.
    leverage_of_squares : float
        max_i sum_{r in R_i} 1/m_r^2.
    fewest, most : int
        Smallest and largest m_r among the rows that some client hits.
    sparsity : int
        Rows that one client hits.
    """

    leverage: float
    leverage_of_squares: float
    fewest: int
    most: int
    sparsity: int

    @classmethod
    def of(cls, sketch: PublicMatrix, trust: Trust) -> Exposure:
        """Measure a public matrix.

        Raises
        ------
        GuaranteeError
            If some row would keep no noise that the adversary does not know.
        """
        occupancy = sketch.occupancy()
        lost = trust.corrupt_clients + trust.dropouts
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
            leverage=sketch.heaviest_client(weights),
            leverage_of_squares=sketch.heaviest_client(weights**2),
            fewest=int(unknown[hit].min()),
            most=int(unknown[hit].max()),
            sparsity=sketch.sparsity,
        )


class _Accountant(abc.ABC):
    """How one family of noise is accounted for.

    Attributes
    ----------
    sources : tuple of str
        Where that is proven.
    assumptions : tuple of str
        What it rests on, beyond what every release does.
    pure : bool
        Whether its epsilon is the same at delta = 0.
    """

    sources: tuple[str, ...]
    assumptions: tuple[str, ...] = ()
    pure = False

    @abc.abstractmethod
    def epsilon(self, noise: Noise, exposure: Exposure, sensitivity: Sensitivity, delta: float) -> float:
        """Epsilon that the noise gives at delta."""

    @abc.abstractmethod
    def least(self, exposure: Exposure, sensitivity: Sensitivity, epsilon: float, delta: float) -> Noise:
        """Least noise of this family that gives (epsilon, delta)."""

    @abc.abstractmethod
    def papers(
        self, sketch: PublicMatrix, sensitivity: Sensitivity, epsilon: float, delta: float, trust: Trust
    ) -> Noise:
        """Noise of this family as the paper calibrates it."""

    @abc.abstractmethod
    def released_sd(self, l1: float, l2: float, sparsity: int, epsilon: float, delta: float) -> float:
        """Standard deviation of a released entry, scaled by 1/sqrt(s), to first order and before any public matrix."""

    def mu(self, noise: Noise, exposure: Exposure, sensitivity: Sensitivity) -> float | None:
        """Gaussian-DP parameter of the release, where it has one."""
        return None

    def slack(self, noise: Noise, exposure: Exposure, sensitivity: Sensitivity) -> float:
        """Pure epsilon by which a client's rows may differ from Gaussian ones, in one direction."""
        return 0.0


class _SearchedAccountant(_Accountant):
    """A family whose noise is found by search on its variance."""

    @abc.abstractmethod
    def with_variance(self, variance: float) -> Noise:
        """Noise of this family of at least this variance."""

    def least(self, exposure: Exposure, sensitivity: Sensitivity, epsilon: float, delta: float) -> Noise:
        """Double the Gaussian's variance, which is the least that can do, until enough; then halve the bracket."""

        def suffices(candidate: Noise) -> bool:
            return self.epsilon(candidate, exposure, sensitivity, delta) <= epsilon

        low = exposure.leverage * (sensitivity.l2 / gaussian.mu_of_budget(epsilon, delta)) ** 2
        best = self.with_variance(low)
        if suffices(best):
            return best
        high = low
        for _ in range(200):
            high *= 2
            if suffices(self.with_variance(high)):
                break
        else:
            raise GuaranteeError(
                f"epsilon: ({epsilon:g}, {delta:g}) given, but no {best.name} noise below variance {high:g} gives it"
            )
        while high > low * (1 + 1e-9):
            middle = (low + high) / 2
            if suffices(self.with_variance(middle)):
                high = middle
            else:
                low = middle
        return self.with_variance(high)

    def papers(
        self, sketch: PublicMatrix, sensitivity: Sensitivity, epsilon: float, delta: float, trust: Trust
    ) -> Noise:
        """Noise of the variance of Corollary 4.7."""
        return self.with_variance(_paper_variance(sketch, sensitivity, epsilon, delta, trust))

    def released_sd(self, l1: float, l2: float, sparsity: int, epsilon: float, delta: float) -> float:
        """Delta / mu, whatever the sparsity (docs/mathematics.md, section 1.2)."""
        return l2 / gaussian.mu_of_budget(epsilon, delta)


class _GaussianAccountant(_SearchedAccountant):
    sources: tuple[str, ...] = ("Balle and Wang 2018, Theorem 8 (tight Gaussian curve)",)

    def mu(self, noise: Noise, exposure: Exposure, sensitivity: Sensitivity) -> float:
        return sensitivity.l2 * math.sqrt(exposure.leverage) / _sigma(noise)

    def epsilon(self, noise: Noise, exposure: Exposure, sensitivity: Sensitivity, delta: float) -> float:
        slack = self.slack(noise, exposure, sensitivity)
        if not math.isfinite(slack):
            return math.inf
        return gaussian.epsilon_of_mu(self.mu(noise, exposure, sensitivity), delta * math.exp(-slack)) + 2 * slack

    def with_variance(self, variance: float) -> Noise:
        return Gaussian(math.sqrt(variance))


class _DiscreteGaussianAccountant(_GaussianAccountant):
    sources: tuple[str, ...] = (
        *_GaussianAccountant.sources,
        "Kairouz, Liu and Steinke 2021 (sums of discrete Gaussians); smoothing bounds of dpmpc.privacy.integer_noise",
    )

    def mu(self, noise: Noise, exposure: Exposure, sensitivity: Sensitivity) -> float:
        # Rounding takes w^2 of each row's variance; 1/(m v - w^2) <= (1/m) / (v - w^2/m_fewest).
        usable = _sigma(noise) ** 2 - integer_noise.ROUNDING_WIDTH**2 / exposure.fewest
        return sensitivity.l2 * math.sqrt(exposure.leverage / usable) if usable > 0 else math.inf

    def slack(self, noise: Noise, exposure: Exposure, sensitivity: Sensitivity) -> float:
        if _sigma(noise) ** 2 * exposure.fewest <= integer_noise.ROUNDING_WIDTH**2:
            return math.inf
        per_entry = integer_noise.sum_slack(_sigma(noise), exposure.most)
        per_entry += integer_noise.smoothing_slack(integer_noise.ROUNDING_WIDTH)
        return exposure.sparsity * sensitivity.columns * per_entry

    def with_variance(self, variance: float) -> Noise:
        return DiscreteGaussian(math.sqrt(variance))


class _SkellamAccountant(_SearchedAccountant):
    sources: tuple[str, ...] = (
        "Agarwal, Kairouz and Liu 2021, Theorem 3.5 (Renyi divergence of the Skellam mechanism)",
        "Canonne, Kamath and Steinke 2020, Proposition 12 (conversion to epsilon)",
    )

    def epsilon(self, noise: Noise, exposure: Exposure, sensitivity: Sensitivity, delta: float) -> float:
        return integer_noise.epsilon_of_renyi(
            lambda order: integer_noise.skellam_renyi(
                order,
                variance=noise.variance,
                l1=sensitivity.l1,
                l2=sensitivity.l2,
                leverage=exposure.leverage,
                leverage_of_squares=exposure.leverage_of_squares,
            ),
            delta,
        )

    def with_variance(self, variance: float) -> Noise:
        return Skellam(variance)


class _LaplaceAccountant(_Accountant):
    """Pure epsilon from m = min_r m_r shares of scale b = s Delta_1 / epsilon (docs/mathematics.md, section 1.3)."""

    sources: tuple[str, ...] = (
        "Burkhardt et al. 2025, Theorem 4.8 and Corollary 4.10 (Laplace noise in shares), with s rows of each client "
        "in place of all k; delta = 0, whatever was asked for",
    )
    pure = True

    def __init__(self, family: type[DiscreteLaplace] | type[GammaLaplace]):
        self._family = family
        if family is DiscreteLaplace:
            self.assumptions = (
                "nobody notices the tails that the sampler cuts off: total variation distance below 2^-183 for each "
                "released number and each m = shares contributions to it",
            )

    def epsilon(self, noise: Noise, exposure: Exposure, sensitivity: Sensitivity, delta: float) -> float:
        """Return s Delta_1 / b: a client moves s rows, each by at most Delta_1."""
        assert isinstance(noise, DiscreteLaplace | GammaLaplace)
        if exposure.fewest < noise.shares:
            raise GuaranteeError(
                f"shares: {noise.shares} given, but some row of the sketch keeps the noise of only {exposure.fewest} "
                "honest contributions: they do not add up to Laplace noise"
            )
        return float(exposure.sparsity * Fraction(sensitivity.l1) / Fraction(noise.scale))

    def least(self, exposure: Exposure, sensitivity: Sensitivity, epsilon: float, delta: float) -> Noise:
        return self._noise(exposure.sparsity, sensitivity, epsilon, exposure.fewest)

    def papers(
        self, sketch: PublicMatrix, sensitivity: Sensitivity, epsilon: float, delta: float, trust: Trust
    ) -> Noise:
        """Corollary 4.10: b = k Delta_1 / epsilon (Delta_1 = 2 eta d), m = n/k - t."""
        shares = sketch.columns // sketch.rows - trust.corrupt_clients - trust.dropouts
        if shares < 1:
            raise GuaranteeError(
                f"corrupt_clients + dropouts: {trust.corrupt_clients + trust.dropouts} given, fewer than n/k = "
                f"{sketch.columns // sketch.rows} expected"
            )
        return self._noise(sketch.rows, sensitivity, epsilon, shares)

    def released_sd(self, l1: float, l2: float, sparsity: int, epsilon: float, delta: float) -> float:
        """sqrt(2) b / sqrt(s)."""
        return math.sqrt(2 * sparsity) * l1 / epsilon

    def _noise(self, rows: int, sensitivity: Sensitivity, epsilon: float, shares: int) -> Noise:
        """Noise of scale rows Delta_1 / epsilon."""
        scale = rows * Fraction(sensitivity.l1) / Fraction(epsilon)
        if scale > MAX_SCALE:
            raise GuaranteeError(
                f"epsilon: {epsilon:g} given, but the scale of {self._family.name} noise would be {float(scale):.6g}, "
                "and at most 2^40 is expected: use fewer fractional bits, fewer columns or a sparser sketch"
            )
        return self._family(scale, shares)


def _sigma(noise: Noise) -> float:
    """The parameter sigma, which for a narrow discrete Gaussian is not the standard deviation."""
    assert isinstance(noise, Gaussian | DiscreteGaussian)
    return noise.sigma


_ACCOUNTANTS: dict[str, _Accountant] = {
    "gaussian": _GaussianAccountant(),
    "discrete-gaussian": _DiscreteGaussianAccountant(),
    "skellam": _SkellamAccountant(),
    "discrete-laplace": _LaplaceAccountant(DiscreteLaplace),
    "gamma-laplace": _LaplaceAccountant(GammaLaplace),
}
NOISES = tuple(_ACCOUNTANTS)


def _accountant(name: str) -> _Accountant:
    if name not in _ACCOUNTANTS:
        raise InputError(f"noise: {name!r} given, one of {', '.join(NOISES)} expected")
    return _ACCOUNTANTS[name]


def is_pure(noise: str) -> bool:
    """Return whether this family of noise gives its epsilon at delta = 0."""
    return _accountant(noise).pure


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
    return _accountant(noise).released_sd(l1, l2, sparsity, epsilon, delta)


def calibrate(
    sketch: PublicMatrix,
    sensitivity: Sensitivity,
    epsilon: float,
    delta: float,
    *,
    noise: str = "discrete-gaussian",
    trust: Trust | None = None,
    calibration: str = "joint",
) -> Noise:
    """Find the least noise per client, copy and entry that gives (epsilon, delta)-DP.

    Parameters
    ----------
    sketch : PublicMatrix
        The public matrix, k x n.
    sensitivity : Sensitivity
        By how much one client's encoded row can change, in integer units.
    epsilon, delta : float
        The budget of the whole release; delta may be 0 with the Laplace families, and does not matter to them.
    noise : {"discrete-gaussian", "skellam", "discrete-laplace", "gaussian", "gamma-laplace"}
        The family; "gaussian" and "gamma-laplace" are for simulations only.
    trust : Trust, optional
        Who may collude; by default all but one of three servers and no client.
    calibration : {"joint", "paper"}
        See the module docstring.

    Returns
    -------
    Noise
        In integer units.

    Raises
    ------
    GuaranteeError
        If no noise of this family gives the budget.
    """
    trust = trust or Trust()
    accountant = _accountant(noise)
    gaussian.check_budget(epsilon, delta, pure=accountant.pure)
    exposure = Exposure.of(sketch, trust)
    if calibration == "paper":
        return accountant.papers(sketch, sensitivity, epsilon, delta, trust)
    if calibration != "joint":
        raise InputError(f"calibration: {calibration!r} given, one of {', '.join(CALIBRATIONS)} expected")
    return accountant.least(exposure, sensitivity, epsilon, delta)


def account(
    noise: Noise,
    sketch: PublicMatrix,
    sensitivity: Sensitivity,
    epsilon: float,
    delta: float,
    *,
    trust: Trust | None = None,
    calibration: str = "joint",
    simulation: bool = False,
) -> Guarantee:
    """Say what `noise` guarantees, recomputed from public facts alone.

    Parameters are those of `calibrate`, with the noise itself in place of its family's name.

    Raises
    ------
    GuaranteeError
        If the noise is too small for the budget; the message holds both epsilons.
    """
    trust = trust or Trust()
    accountant = _accountant(noise.name)
    gaussian.check_budget(epsilon, delta, pure=accountant.pure)
    exposure = Exposure.of(sketch, trust)
    achieved = accountant.epsilon(noise, exposure, sensitivity, delta)
    if achieved > epsilon:
        raise GuaranteeError(
            f"epsilon: {epsilon:g} promised, but {noise.name} noise of variance {noise.variance:g} per client gives "
            f"epsilon = {achieved:.6g} at delta = {delta:g}"
        )
    mu = accountant.mu(noise, exposure, sensitivity)
    lost = trust.corrupt_clients + trust.dropouts
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        achieved_epsilon=achieved,
        mechanism=f"{noise.name} of standard deviation {math.sqrt(noise.variance):.6g} (integers) from each client",
        clients=sketch.columns,
        servers=trust.servers,
        corrupt_servers=trust.corrupt_servers,
        corrupt_clients=trust.corrupt_clients,
        dropouts=trust.dropouts,
        neighbouring=sensitivity.neighbouring,
        mu=mu,
        rho=None if mu is None else mu**2 / 2,
        slack=accountant.slack(noise, exposure, sensitivity),
        calibration=calibration,
        assumptions=(
            "the servers follow the protocol (semi-honest) and at least "
            f"{trust.servers - trust.corrupt_servers} of them keep their shares to themselves",
            f"every row of the sketch keeps the noise of at least {exposure.fewest} honest contributions"
            + (f" after {lost} are taken away" if lost else ""),
            "each row of data enters one release only, with noise drawn once",
            "AES-128 in counter mode is a pseudorandom generator",
            *accountant.assumptions,
        ),
        sources=("Burkhardt et al. 2025, Lemma 4.1 and Algorithm 1 (linear-transformation model)", *accountant.sources),
        simulation=simulation or noise.simulation_only,
    )


def occupancy_failure(sketch: PublicMatrix, gamma: float = PAPER_GAMMA) -> float:
    """P[some row of one S_j collects fewer than (1 - gamma) n / k clients] <= k exp(-gamma^2 n / (2 k)) (Lemma 4.5)."""
    return sketch.rows * math.exp(-(gamma**2) * sketch.columns / (2 * sketch.rows))


def _paper_variance(
    sketch: PublicMatrix, sensitivity: Sensitivity, epsilon: float, delta: float, trust: Trust
) -> float:
    """Corollary 4.7: (2 eta)^2 2 ln(1.25/delta0) / epsilon0^2 k / ((1 - gamma)(n - t)), per entry and copy.

    epsilon0 = epsilon/(s d), delta0 = (delta - failure)/(s d): the occupancy failure is part of the promised delta.
    """
    compositions = sketch.sparsity * sensitivity.columns
    remaining = delta - sketch.sparsity * occupancy_failure(sketch)
    honest = sketch.columns - trust.corrupt_clients - trust.dropouts
    if remaining <= 0 or honest <= 0:
        raise GuaranteeError(
            f"delta: {delta:g} given, but the paper's occupancy bound alone fails with {delta - remaining:.3g} "
            f"at {sketch.columns} clients and {sketch.rows} rows; use calibration='joint'"
        )
    sigma = sensitivity.linf * gaussian.classical_gaussian_sigma(epsilon / compositions, remaining / compositions)
    return sigma**2 * sketch.rows / ((1 - PAPER_GAMMA) * honest)
