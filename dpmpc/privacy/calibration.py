"""From a budget to noise, and from noise back to what it guarantees.

Setting (Burkhardt et al. 2025, Algorithm 1): client i adds fresh integer noise of variance v to each of its s copies;
copy j goes through S_j; the servers open sum_j S_j Z^(j). The public matrix S is drawn independently of the data, so
everything holds *given* S. Row r of the release collects N_r copies; at least m_r = N_r - t - dropouts of them
carry noise that the adversary does not know (t corrupt clients, and q = dropouts clients in all from whom anything may
be missing, chosen after S is known; each hits a row once at most). Replacing client i moves only its rows R_i, each by
at most Delta, and noise in different rows is independent. For Gaussian noise the release is therefore exactly mu-GDP
with

    mu^2 = (Delta^2 / v) max_i sum_{r in R_i} 1 / m_r,
    (theorem sketch-gaussian)

one joint mechanism over all columns and copies, without composition and without a bound on the occupancy.
`EffectiveNoise` holds what this needs of S and of who adds the noise; a `Calibration` finds the least noise that is
enough, and turns noise into a `Guarantee`.

Who adds the noise, and to what (`NoisePlacement`)
--------------------------------------------------
- *Clients, each copy*: the setting above, the paper's randomizer. The release's rows have independent noise.
- *Clients, one copy*: every client sends its noisy row once, and all its places in the sketch share that noise; every
  server adds as much noise as one client's to its sums (theorem one-copy). 1/s of the upload and of the work.
- *Servers*: clients send their rows without noise, every server adds to its sums what protects alone. It holds whatever
  the clients do and costs M times the variance; noise is fresh in every release, so that budgets of releases compose.
- *Servers, dealt*: with Shamir shares a server's own noise is no share of the sums. So each server deals its noise
  among all, with a proof of its range (`dpmpc.linear.proving.noise`). Of the D servers that deal, t may know theirs or
  choose it: the noise of D - t of them protects, and the sums hold D/(D - t) times the variance that does.

All but the last need one server that follows the protocol and keeps its shares to itself; where servers add noise, that
server also has to add its own. The last one needs D - t such servers among those that deal.

Noise that is dealt is cut off at its range, which a draw leaves with a probability of 2^-128 for all draws together. So
what is released is within that distance of a release whose noise is not cut off, whatever the data, and delta grows by
(1 + e^epsilon) 2^-128. `CUT_OFF_DELTA`, 2^-60, is set aside for it; that is enough up to epsilon = 47.

The paper's own calibration, and pure epsilon
---------------------------------------------
The rule "paper" reproduces the printed calibration (Theorem 4.4, Corollary 4.7): basic composition over
d columns and s copies with the classical Gaussian, and the occupancy failure of Lemma 4.5 added to delta. For Laplace
noise it is Corollary 4.10, which counts all k rows as hit.

Pure epsilon: the least m_r shares of a discrete Laplace are in every row, and delta is 0 (theorem sketch-laplace).
Shares beyond those are independent noise on top, which is post-processing.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import msgspec
import numpy as np

from dpmpc.base.arguments import require_choice, require_whole
from dpmpc.base.arrays import Integers
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.noise import Noise
from dpmpc.linear.sketching import PublicMatrix
from dpmpc.privacy import gaussian
from dpmpc.privacy.accountants import accountant_of
from dpmpc.privacy.exposure import EffectiveNoise, IndependentRowNoise
from dpmpc.privacy.guarantee import CUT_OFF_DELTA, MISSING_CLIENTS, NOISE_DEALT, Guarantee, Preconditions
from dpmpc.privacy.one_copy import OneCopyNoise
from dpmpc.privacy.specification import CALIBRATIONS, NOISED_BY, TrustModel
from dpmpc.privacy.statements import CHECKERS

CUT_OFF = 2.0**-128
"""Probability that any draw of noise that is dealt in one release lies beyond its range."""

_LARGEST_EPSILON = math.log(CUT_OFF_DELTA / CUT_OFF - 1)


class NoisePlacement(msgspec.Struct, frozen=True):
    """Who adds noise, and where.

    Parameters
    ----------
    by : {"clients", "servers"}
        Clients add a share to what they send, or every server adds noise that suffices alone to its share of the sums.
    copies : int, optional
        Noisy copies of its row that a client sends, with noise by clients: 1, or the sketch's sparsity, which is the
        default. Of one copy the servers complete the noise with as much as one client's in every sum.
    dealers : int, optional
        Where servers deal their noise in shares, how many do so, at least: D. In the task of a release that exists, how
        many did.
    """

    by: str = "clients"
    copies: int | None = None
    dealers: int | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        require_choice("noise_by", self.by, NOISED_BY)
        if self.dealers is not msgspec.UNSET:
            require_whole("dealers", self.dealers, 1)
            if self.by != "servers":
                raise InputError("dealers", f"{self.dealers} given with noise by {self.by}, none expected")

    @property
    def dealt(self) -> bool:
        """Whether servers deal their noise in shares."""
        return self.dealers is not msgspec.UNSET

    def honest_servers(self, trust: TrustModel) -> int:
        """Return how many servers' noise is counted on, where servers add noise.

        Raises
        ------
        GuaranteeError
            If servers deal their noise, and no more of them than may be corrupt.
        """
        if self.dealers is msgspec.UNSET:
            return trust.honest_servers
        honest = self.dealers - trust.colluding_servers
        if honest < 1:
            raise GuaranteeError(
                "dealers",
                f"{self.dealers} given, of whom {trust.colluding_servers} may be corrupt, more expected: "
                "no dealer's noise could be counted on",
            )
        return honest

    def cut_off(self, epsilon: float) -> float:
        """Return the part of delta that is set aside because noise that is dealt ends at its range.

        Raises
        ------
        GuaranteeError
            If epsilon is so large that this is not enough.
        """
        if not self.dealt:
            return 0.0
        if epsilon > _LARGEST_EPSILON:
            raise GuaranteeError(
                "epsilon", f"{epsilon:g}", f"at most {_LARGEST_EPSILON:.4g}", condition="where servers deal their noise"
            )
        return CUT_OFF_DELTA

    def copies_for(self, sketch: PublicMatrix) -> int:
        """Return how many copies a client of this sketch sends."""
        if self.by == "servers":
            return 1
        copies = sketch.sparsity if self.copies is None else self.copies
        if copies not in (1, sketch.sparsity):
            raise InputError("copies", copies, f"1 or {sketch.sparsity}", condition="with this sketch")
        return copies

    def reaches_several_rows(self, sketch: PublicMatrix) -> bool:
        """Return whether the noise of one contribution goes to several rows of the sketch."""
        return self.by == "clients" and self.copies_for(sketch) < sketch.sparsity

    def by_servers(self, sketch: PublicMatrix) -> bool:
        """Return whether servers add noise to their sums, all of it or what completes one copy."""
        return self.by == "servers" or self.reaches_several_rows(sketch)

    def terms(self, sketch: PublicMatrix, servers: int) -> Integers:
        """Return how many draws of the noise each row of the opened sums holds, int64 (k,)."""
        adding = servers if self.dealers is msgspec.UNSET else self.dealers
        drawn = np.full(sketch.rows, adding if self.by_servers(sketch) else 0, np.int64)
        return drawn if self.by == "servers" else drawn + sketch.occupancy()

    def counted_on(self, sketch: PublicMatrix) -> str:
        """Return whose noise a guarantee counts on: a value of `dpmpc.privacy.guarantee.NOISE_MAKERS`."""
        if self.by == "servers":
            return NOISE_DEALT if self.dealt else "servers"
        return "clients-and-servers" if self.reaches_several_rows(sketch) else "clients"

    def exposure(self, sketch: PublicMatrix, trust: TrustModel) -> EffectiveNoise:
        """Measure how much noise covers the worst-placed client."""
        if self.dealt:
            return IndependentRowNoise.of_dealers(sketch, self.honest_servers(trust))
        if self.by == "servers":
            return IndependentRowNoise.of_servers(sketch, trust)
        if self.reaches_several_rows(sketch):
            return OneCopyNoise.of(sketch, trust)
        return IndependentRowNoise.of_clients(sketch, trust)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What noise must be enough for: a budget, what one client moves, and who may collude.

    Parameters
    ----------
    sketch : PublicMatrix
        The public matrix, k x n.
    sensitivity : Sensitivity
        By how much one client's encoded row can change, in integer units.
    epsilon, delta : float
        The budget of the whole release; delta may be 0 with the Laplace families, and does not matter to them.
    trust : TrustModel
        Who may collude; by default all but one of three servers and no client.
    noising : NoisePlacement
        Who adds the noise; by default clients, to each copy.
    rule : {"joint", "paper"}
        See the module docstring.
    simulation : bool
        Whether the guarantee is of a simulation, and states it.
    """

    sketch: PublicMatrix
    sensitivity: Sensitivity
    epsilon: float
    delta: float
    trust: TrustModel = dataclasses.field(default_factory=TrustModel)
    noising: NoisePlacement = dataclasses.field(default_factory=NoisePlacement)
    rule: str = "joint"
    simulation: bool = False

    @functools.cached_property
    def exposure(self) -> EffectiveNoise:
        """How much noise covers the worst-placed client."""
        return self.noising.exposure(self.sketch, self.trust)

    def least(self, noise: str = "discrete-gaussian") -> Noise:
        """Find the least noise of a family, per contribution and entry and in integer units, that gives the budget.

        Raises
        ------
        GuaranteeError
            If no noise of this family does.
        """
        accountant = accountant_of(noise)
        require_choice("calibration", self.rule, CALIBRATIONS)
        if self.rule == "paper" and self.noising.by_servers(self.sketch):
            raise InputError("calibration", "'paper'", "'joint'", condition="unless clients noise each of their copies")
        spendable = self._spendable(pure=accountant.pure)
        exposure = self.exposure
        if self.rule == "paper":
            return accountant.as_in_paper(self.sketch, self.sensitivity, self.epsilon, spendable, self.trust)
        return accountant.least(exposure.with_margin(), self.sensitivity, self.epsilon, spendable)

    def epsilon_of(self, noise: Noise) -> float:
        """Return the epsilon that noise gives at delta, whatever was promised; infinite where none is proven."""
        accountant = accountant_of(noise.name)
        spendable = self.delta - self.trust.failure - (CUT_OFF_DELTA if self.noising.dealt else 0.0)
        if spendable < 0 or (spendable == 0 and not accountant.pure):
            return math.inf
        try:
            return accountant.epsilon(noise, self.exposure, self.sensitivity, spendable)
        except GuaranteeError:  # so large a coalition that no bound holds, or too few shares of Laplace noise
            return math.inf

    def require_enough(self, noise: Noise) -> None:
        """Refuse noise that does not give the budget, recomputed from public facts alone.

        This is what `guarantee` refuses, for a server that prints no guarantee.

        Raises
        ------
        GuaranteeError
            If the noise is too small for the budget; the message holds both epsilons.
        """
        accountant = accountant_of(noise.name)
        spendable = self._spendable(pure=accountant.pure)
        _ = self._preconditions
        if not accountant.suffices(noise, self.exposure, self.sensitivity, self.epsilon, spendable):
            self.guarantee(noise)

    def guarantee(self, noise: Noise, conduct: str = "semi-honest") -> Guarantee:
        """Return what noise guarantees, recomputed from public facts alone.

        Parameters
        ----------
        noise : Noise
            In integer units.
        conduct : str
            Code of what is assumed of the servers' conduct, as the secret sharing scheme has it.

        Raises
        ------
        GuaranteeError
            If the noise is too small for the budget; the message holds both epsilons.
        """
        accountant = accountant_of(noise.name)
        spendable = self._spendable(pure=accountant.pure)
        sketch, trust, noising, exposure = self.sketch, self.trust, self.noising, self.exposure
        achieved = accountant.epsilon(noise, exposure, self.sensitivity, spendable)
        if achieved > self.epsilon:
            raise GuaranteeError(
                "epsilon",
                f"{self.epsilon:g} promised, but {noise.name} noise of variance {noise.variance:g} by "
                f"{noising.by} gives epsilon = {achieved:.6g} at delta = {self.delta:g}",
            )
        mu = accountant.mu(noise, exposure, self.sensitivity)
        by_clients = noising.by == "clients"
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            achieved_epsilon=achieved,
            noise=noise.name,
            noise_sd=math.sqrt(noise.variance),
            clients=sketch.columns,
            servers=trust.servers,
            corrupt_servers=trust.colluding_servers,
            corrupt_clients=trust.corrupt_clients if by_clients else sketch.columns - 1,
            dropouts=trust.dropouts,
            coalition=trust.coalition if by_clients else "adaptive",
            neighbouring=self.sensitivity.neighbouring,
            mu=mu,
            rho=None if mu is None else mu**2 / 2,
            slack=accountant.slack(noise, exposure, self.sensitivity),
            leverage=float(exposure.leverage),
            least_variance=float(exposure.fewest),
            calibration=self.rule,
            copies=noising.copies_for(sketch),
            dealers=0 if noising.dealers is msgspec.UNSET else noising.dealers,
            assumptions=(
                conduct,
                "honest-servers",
                exposure.assumption,
                *(["strangers", "one-release"] if by_clients else []),
                "pseudorandomness",
                "secret-links",
                *(["public-draw"] if by_clients and trust.failure else []),
                *accountant.assumptions,
            ),
            sources=("secure-sketching", *accountant.sources),
            simulation=self.simulation or noise.simulation_only,
            preconditions=self._preconditions,
        )

    @functools.cached_property
    def _preconditions(self) -> Preconditions:
        """What every proof here takes as given."""
        return Preconditions(
            clients=self.sketch.columns,
            count_is_public=True,
            missing=self.trust.dropouts,
            missing_means=MISSING_CLIENTS,
            noise_by=self.noising.counted_on(self.sketch),
            verified_by=tuple(CHECKERS),
        )

    def _spendable(self, *, pure: bool) -> float:
        """Return the delta that is left to the mechanism.

        Set aside are a static coalition's chance to be well placed, and what it costs that dealt noise ends at its
        range.
        """
        delta, failure = self.delta, self.trust.failure
        gaussian.check_budget(self.epsilon, delta, pure=pure)
        if failure and delta <= failure:
            raise GuaranteeError(
                "coalition",
                f"'static' given at delta = {delta:g}, but a static coalition is better placed than "
                f"accounted for with probability {failure:.3g}, a larger delta expected",
            )
        cut_off = self.noising.cut_off(self.epsilon)
        if cut_off and delta <= failure + cut_off:
            raise GuaranteeError(
                "delta",
                f"{delta:g}",
                f"more than {failure + cut_off:.3g}",
                "noise that servers deal ends at the range that is proved of it, so nothing is pure",
            )
        return delta - failure - cut_off


def calibrate(
    sketch: PublicMatrix,
    sensitivity: Sensitivity,
    epsilon: float,
    delta: float,
    *,
    noise: str = "discrete-gaussian",
    trust: TrustModel | None = None,
    noising: NoisePlacement | None = None,
    calibration: str = "joint",
) -> Noise:
    """Find the least noise per contribution and entry that gives (epsilon, delta)-DP.

    Parameters are those of `Calibration`, whose `rule` is `calibration` here.

    Parameters
    ----------
    noise : {"discrete-gaussian", "skellam", "discrete-laplace", "gaussian", "gamma-laplace"}
        The family; "gaussian" and "gamma-laplace" are for simulations only.

    Returns
    -------
    Noise
        In integer units.

    Raises
    ------
    GuaranteeError
        If no noise of this family gives the budget.
    """
    trust, noising = trust or TrustModel(), noising or NoisePlacement()
    return Calibration(sketch, sensitivity, epsilon, delta, trust, noising, calibration).least(noise)
