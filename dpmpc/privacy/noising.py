"""Who adds the noise, and to what: the three ways in which it reaches the opened sums.

- *Clients, each copy*: the paper's randomizer (Burkhardt et al. 2025, Algorithm 1). The release's rows have independent
  noise.
- *Clients, one copy*: every client sends its noisy row once, and all its places in the sketch share that noise; every
  server adds as much noise as one client's to its sums (docs/one-copy.md). 1/s of the upload and of the work.
- *Servers*: clients send their rows without noise, every server adds to its sums what protects alone. It holds whatever
  the clients do and costs M times the variance; noise is fresh in every release, so that budgets of releases compose.

All three need one server that follows the protocol and keeps its shares to itself; with the last two that server also
has to add its noise.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.arguments import require_choice
from dpmpc.errors import InputError
from dpmpc.privacy.exposure import EffectiveNoise, IndependentRowNoise
from dpmpc.privacy.leverage import OneCopyNoise
from dpmpc.sketching import PublicMatrix
from dpmpc.specification import NOISED_BY, TrustModel


class NoisePlacement(msgspec.Struct, frozen=True):
    """Who adds noise, and where.

    Parameters
    ----------
    by : {"clients", "servers"}
        Clients add a share to what they send, or every server adds noise that suffices alone to its share of the sums.
    copies : int, optional
        Noisy copies of its row that a client sends, with noise by clients: 1, or the sketch's sparsity, which is the
        default. Of one copy the servers complete the noise with as much as one client's in every sum.
    """

    by: str = "clients"
    copies: int | None = None

    def __post_init__(self) -> None:
        require_choice("noise_by", self.by, NOISED_BY)

    def copies_for(self, sketch: PublicMatrix) -> int:
        """Copies that a client of this sketch sends."""
        if self.by == "servers":
            return 1
        copies = sketch.sparsity if self.copies is None else self.copies
        if copies not in (1, sketch.sparsity):
            raise InputError(f"copies: {copies} given, 1 or {sketch.sparsity} expected with this sketch")
        return copies

    def reaches_several_rows(self, sketch: PublicMatrix) -> bool:
        """Whether the noise of one contribution goes to several rows of the sketch."""
        return self.by == "clients" and self.copies_for(sketch) < sketch.sparsity

    def by_servers(self, sketch: PublicMatrix) -> bool:
        """Whether servers add noise to their sums, all of it or what completes one copy."""
        return self.by == "servers" or self.reaches_several_rows(sketch)

    def terms(self, sketch: PublicMatrix, servers: int) -> NDArray[np.int64]:
        """Return how many draws of the noise each row of the opened sums holds, int64 (k,)."""
        drawn = np.full(sketch.rows, servers if self.by_servers(sketch) else 0, np.int64)
        return drawn if self.by == "servers" else drawn + sketch.occupancy()

    def describe(self, sketch: PublicMatrix) -> str:
        """Say whose noise it is."""
        if self.by == "servers":
            return "from each server in every sum"
        if self.reaches_several_rows(sketch):
            return "from each client in its one copy, and from each server in every sum"
        return "from each client" + (f" in each of its {sketch.sparsity} copies" if sketch.sparsity > 1 else "")

    def counted_on(self, sketch: PublicMatrix) -> str:
        """Say whose noise a guarantee counts on: a value of `dpmpc.privacy.guarantee.NOISE_MAKERS`."""
        if self.by == "servers":
            return "servers"
        return "clients and servers" if self.reaches_several_rows(sketch) else "clients"

    def exposure(self, sketch: PublicMatrix, trust: TrustModel) -> EffectiveNoise:
        """Measure how much noise covers the worst-placed client."""
        if self.by == "servers":
            return IndependentRowNoise.of_servers(sketch, trust)
        if self.reaches_several_rows(sketch):
            return OneCopyNoise.of(sketch, trust)
        return IndependentRowNoise.of_clients(sketch, trust)
