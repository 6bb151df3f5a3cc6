"""Who adds the noise, and to what: the three ways in which it reaches the opened sums.

- *Clients, each copy*: the paper's randomizer (Burkhardt et al. 2025, Algorithm 1). The release's rows have independent
  noise.
- *Clients, one copy*: every client sends its noisy row once, and all its places in the sketch share that noise; every
  server adds as much noise as one client's to its sums (docs/one-copy.md). 1/s of the upload and of the work.
- *Servers*: clients send their rows without noise, every server adds to its sums what protects alone. It holds whatever
  the clients do and costs M times the variance; noise is fresh in every release, so that budgets of releases compose.
- *Servers, dealt*: with Shamir shares a server's own noise is no share of the sums. So each server deals its noise
  among all, with a proof of its range (`dpmpc.proving.noise`). Of the D servers that deal, t may know theirs or choose
  it: the noise of D - t of them protects, and the sums hold D/(D - t) times the variance that does.

All but the last need one server that follows the protocol and keeps its shares to itself; where servers add noise, that
server also has to add its own. The last one needs D - t such servers among those that deal.

Noise that is dealt is cut off at its range, which a draw leaves with a probability of 2^-128 for all draws together. So
what is released is within that distance of a release whose noise is not cut off, whatever the data, and delta grows by
(1 + e^epsilon) 2^-128. `CUT_OFF_DELTA`, 2^-60, is set aside for it; that is enough up to epsilon = 47.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.arguments import require_choice, require_whole
from dpmpc.errors import GuaranteeError, InputError
from dpmpc.privacy.exposure import EffectiveNoise, IndependentRowNoise
from dpmpc.privacy.guarantee import CUT_OFF_DELTA, NOISE_DEALT
from dpmpc.privacy.leverage import OneCopyNoise
from dpmpc.sketching import PublicMatrix
from dpmpc.specification import NOISED_BY, TrustModel

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
                raise InputError(f"dealers: {self.dealers} given with noise by {self.by}, none expected")

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
                f"dealers: {self.dealers} given, of whom {trust.colluding_servers} may be corrupt, more expected: "
                "nobody's noise could be counted on"
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
                f"epsilon: {epsilon:g} given, at most {_LARGEST_EPSILON:.4g} expected where servers deal their noise"
            )
        return CUT_OFF_DELTA

    def copies_for(self, sketch: PublicMatrix) -> int:
        """Return how many copies a client of this sketch sends."""
        if self.by == "servers":
            return 1
        copies = sketch.sparsity if self.copies is None else self.copies
        if copies not in (1, sketch.sparsity):
            raise InputError(f"copies: {copies} given, 1 or {sketch.sparsity} expected with this sketch")
        return copies

    def reaches_several_rows(self, sketch: PublicMatrix) -> bool:
        """Return whether the noise of one contribution goes to several rows of the sketch."""
        return self.by == "clients" and self.copies_for(sketch) < sketch.sparsity

    def by_servers(self, sketch: PublicMatrix) -> bool:
        """Return whether servers add noise to their sums, all of it or what completes one copy."""
        return self.by == "servers" or self.reaches_several_rows(sketch)

    def terms(self, sketch: PublicMatrix, servers: int) -> NDArray[np.int64]:
        """Return how many draws of the noise each row of the opened sums holds, int64 (k,)."""
        adding = servers if self.dealers is msgspec.UNSET else self.dealers
        drawn = np.full(sketch.rows, adding if self.by_servers(sketch) else 0, np.int64)
        return drawn if self.by == "servers" else drawn + sketch.occupancy()

    def describe(self, sketch: PublicMatrix) -> str:
        """Say whose noise it is."""
        if self.dealt:
            return f"in every sum from each of {self.dealers} servers, dealt in shares"
        if self.by == "servers":
            return "from each server in every sum"
        if self.reaches_several_rows(sketch):
            return "from each client in its one copy, and from each server in every sum"
        return "from each client" + (f" in each of its {sketch.sparsity} copies" if sketch.sparsity > 1 else "")

    def counted_on(self, sketch: PublicMatrix) -> str:
        """Say whose noise a guarantee counts on: a value of `dpmpc.privacy.guarantee.NOISE_MAKERS`."""
        if self.by == "servers":
            return NOISE_DEALT if self.dealt else "servers"
        return "clients and servers" if self.reaches_several_rows(sketch) else "clients"

    def exposure(self, sketch: PublicMatrix, trust: TrustModel) -> EffectiveNoise:
        """Measure how much noise covers the worst-placed client."""
        if self.dealt:
            return IndependentRowNoise.of_dealers(sketch, self.honest_servers(trust))
        if self.by == "servers":
            return IndependentRowNoise.of_servers(sketch, trust)
        if self.reaches_several_rows(sketch):
            return OneCopyNoise.of(sketch, trust)
        return IndependentRowNoise.of_clients(sketch, trust)
