"""How the noisy sum of a round comes about: a trusted curator, or clients and servers.

Both clip and encode rows alike, in integers, and add discrete Gaussian noise. With a `Curator` it is one draw of the
noise that the round's share of the budget requires. With `Servers` it is a `Sum` release in the linear-transformation
model (Burkhardt et al. 2025, Algorithm 1): the clients' draws, or the servers', add up to that much, and nobody sees a
row. The two agree in distribution but for the noise of corrupt clients, which is added on top of what is counted.

Promised: a round is entered in the ledger before it is made, and every round draws fresh noise, so that rounds compose.
Not promised: protection against clients that take part in some rounds only, or against a curator that is not honest.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import stream_for
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.noise import DiscreteGaussian
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.models.papers.coinpress.steps import Averaged, Round
from dpmpc.privacy import Guarantee, ZCDPBudget
from dpmpc.privacy.calibration import Calibration
from dpmpc.privacy.composition import epsilon_of_rho, rho_of_sum
from dpmpc.privacy.gaussian import check_budget, epsilon_of_mu
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release import simulation
from dpmpc.release.planning import design
from dpmpc.release.release import Release

FRACTIONAL_BITS = 24
ROUNDING = 1e-9  # relative part of a round's share that is left for the rounding of epsilon's search

Runner = Callable[..., Release]


class Summation(abc.ABC):
    """Answers rounds within one budget."""

    def __init__(self, rho: float, delta: float, simulation_seed: int | None = None):
        self.ledger = ZCDPBudget(rho)
        check_budget(1.0, delta)
        self.delta = delta
        self.simulation_seed = simulation_seed
        self._stream = stream_for(simulation_seed)
        self._released: list[Guarantee] = []

    @abc.abstractmethod
    def __call__(self, published: Round, rows: Reals) -> Averaged:
        """Clip the rows (n, p), sum what clients contribute, and divide the noisy sum by n."""

    @abc.abstractmethod
    def _trusted(self, last: Guarantee) -> Guarantee:
        """Return the guarantee of the last round with who is trusted."""

    def guarantee(self) -> Guarantee:
        """Return what all rounds together promise: mu^2 and rho add up, epsilon is read from mu at delta."""
        mu = math.sqrt(math.fsum(float(released.mu or 0.0) ** 2 for released in self._released))
        slack = math.fsum(released.slack for released in self._released)
        trusted = self._trusted(self._released[-1])
        return msgspec.structs.replace(
            trusted,
            epsilon=epsilon_of_rho(self.ledger.budget, self.delta),
            delta=self.delta,
            achieved_epsilon=epsilon_of_mu(mu, self.delta * math.exp(-slack)) + 2 * slack,
            sums=len(self._released),
            mu=mu,
            rho=self.ledger.spent,
            slack=slack,
            sources=(*trusted.sources, "coinpress", "zcdp-composition"),
            simulation=self.simulation_seed is not None,
        )

    def _epsilon(self, published: Round) -> float:
        """Turn a round's share of rho into the epsilon at which noise is calibrated."""
        epsilon = epsilon_of_rho(published.rho * (1 - ROUNDING), self.delta)
        if epsilon <= 0:
            raise InputError("rho", f"{published.rho:g} given to a round, more expected at delta = {self.delta:g}")
        return epsilon

    def _enter(self, published: Round, guarantee: Guarantee, rho: float) -> None:
        self.ledger.spend(rho, published.name)
        self._released.append(guarantee)


class Curator(Summation):
    """One party that is trusted with every row."""

    _clients = 0

    def __call__(self, published: Round, rows: Reals) -> Averaged:
        """Sum what the rows encode, and add one discrete Gaussian to each entry."""
        columns, self._clients = len(published.schema), len(rows)
        encoding, once = FixedPoint(FRACTIONAL_BITS), Sum(columns=1)
        sensitivity = published.contribution.sensitivity(columns, encoding)
        epsilon = self._epsilon(published)
        calibration = Calibration(once, sensitivity, epsilon, self.delta)
        noise = calibration.least()
        assert isinstance(noise, DiscreteGaussian)
        promised = calibration.guarantee(noise)
        self._enter(published, promised, rho_of_sum(sensitivity.l2, noise.sigma, 1, sensitivity.columns))
        sums = published.contribution.encode(published.schema.normalise(rows), encoding).sum(axis=0)
        sums += noise.sample(sums.shape, stream=self._stream)
        unit = 1 / (len(rows) * 2.0**FRACTIONAL_BITS)
        return Averaged(sums * unit, math.sqrt(noise.variance) * unit, len(rows))

    def _trusted(self, last: Guarantee) -> Guarantee:
        return msgspec.structs.replace(
            last,
            clients=self._clients,
            servers=1,
            corrupt_servers=0,
            corrupt_clients=self._clients - 1,
            assumptions=("curator", "fresh-rounds"),
            sources=("zcdp-of-noise", "gaussian-curve", "rounding"),
            preconditions=msgspec.structs.replace(
                last.preconditions, clients=self._clients, noise_by="curator", verified_by=("readers",)
            ),
        )


class Servers(Summation):
    """Clients who add noise shares and servers who add up, in this process or, with another `run`, across real ones."""

    def __init__(
        self,
        rho: float,
        delta: float,
        simulation_seed: int | None = None,
        *,
        servers: int = 3,
        sharing: str = "additive",
        noise_by: str = "clients",
        corrupt_clients: int = 0,
        run: Runner = simulation.run,
    ):
        super().__init__(rho, delta, simulation_seed)
        self._choices: dict[str, Any] = {
            "servers": servers,
            "sharing": sharing,
            "noise_by": noise_by,
            "corrupt_clients": corrupt_clients,
            "simulation_seed": simulation_seed,
        }
        self._run = run

    def task(self, published: Round, clients: int) -> Task:
        """Return the public facts of the round's release, verified."""
        return design(
            ReleaseSpec.of(
                published.schema,
                clients,
                self._epsilon(published),
                self.delta,
                contribution=published.contribution,
                fractional_bits=FRACTIONAL_BITS,
                **self._choices,
            )
        )

    def __call__(self, published: Round, rows: Reals) -> Averaged:
        """Make one `Sum` release of the round's task."""
        clients = len(rows)
        task = self.task(published, clients)
        counted = int(task.noising.exposure(task.sketch, task.trust).fewest)
        assert isinstance(task.noise, DiscreteGaussian)
        rho = rho_of_sum(task.sensitivity.l2, task.noise.sigma, counted, task.width)
        self._enter(published, task.guarantee, rho)
        release = self._run(task, rows, stream=self._stream)
        deviation = math.sqrt(float(release.noise_variance[0])) / clients
        return Averaged(np.asarray(release.sketch[0] / clients), deviation, clients)

    def _trusted(self, last: Guarantee) -> Guarantee:
        assumptions = tuple(code for code in last.assumptions if code != "one-release")
        return msgspec.structs.replace(last, assumptions=(*assumptions, "fresh-rounds", "corrupt-over-rounds"))
