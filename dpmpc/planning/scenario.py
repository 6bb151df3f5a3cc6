"""What is known before any data: sizes, budget, trust, an assumed population, and the noise that follows from them.

The noise is that of a calibrated release to first order, without a public matrix at hand. Not promised: the exact noise
of a task, which `dpmpc.planning.prediction.expected_of` uses.
"""

from __future__ import annotations

import dataclasses
import functools
import math

from dpmpc.arguments import require_choice, require_fraction, require_whole
from dpmpc.contributions import SecondMoments, moment_sensitivity
from dpmpc.data import largest_squared_norm
from dpmpc.errors import InputError
from dpmpc.privacy import released_sd
from dpmpc.specification import NOISED_BY, TrustModel
from dpmpc.task import Task


@dataclasses.dataclass(frozen=True)
class Population:
    """What a planner assumes about data that nobody has seen.

    Parameters
    ----------
    spread : float
        Standard deviation of a normalised feature; 0.4 is a bell that fills [-1, 1] without touching its ends.
    target_spread : float
        The same of the normalised target.
    explained : float
        Share of the target's variance that the best linear model explains (R^2); for a low-rank approximation, share
        of the total variance that lies in the best directions.
    """

    spread: float = 0.4
    target_spread: float = 0.4
    explained: float = 0.5

    def __post_init__(self) -> None:
        for name in ("spread", "target_spread"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{name}: {getattr(self, name)} given, a number in (0, 1] expected")
        require_fraction("explained", self.explained)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What a prediction depends on, apart from the option that is chosen.

    Parameters
    ----------
    columns, clients : int
        p and n.
    epsilon, delta : float
        The budget.
    noise : str
        Family of the noise.
    sparsity : int
        s, of a sketch.
    radius : float, optional
        L2 clipping radius of the normalised row.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    trust : TrustModel
        Servers, and who may collude.
    dealers : int, optional
        Where servers deal their noise in shares, how many do.
    population : Population
        What is assumed about the data.
    """

    columns: int
    clients: int
    epsilon: float
    delta: float
    noise: str = "discrete-gaussian"
    sparsity: int = 1
    radius: float | None = None
    noise_by: str = "clients"
    trust: TrustModel = dataclasses.field(default_factory=TrustModel)
    dealers: int | None = None
    population: Population = Population()

    def __post_init__(self) -> None:
        for name, least in (("columns", 1), ("clients", 1), ("sparsity", 1)):
            require_whole(name, getattr(self, name), least)
        require_choice("noise_by", self.noise_by, NOISED_BY)

    @classmethod
    def of(cls, task: Task, population: Population | None = None) -> Scenario:
        """Return the scenario of a task."""
        return cls(
            columns=len(task.schema),
            clients=task.clients,
            epsilon=task.epsilon,
            delta=task.delta,
            noise=task.noise.name,
            sparsity=task.sketch.sparsity,
            radius=task.statistic.radius,
            noise_by=task.noising.by,
            trust=task.trust,
            dealers=task.noising.dealers if isinstance(task.noising.dealers, int) else None,
            population=population or Population(),
        )

    @property
    def largest_batch(self) -> int:
        """Largest n below 1/delta, and at most 10^12."""
        return 10**12 if self.delta == 0 else min(10**12, math.ceil(1 / self.delta) - 1)

    def row_variance(self, rows: int) -> float:
        """Return sigma^2 of an entry of a sketch of k rows, normalised; infinite if the coalition may fill a row."""
        contributions = self.clients * self.sparsity / rows
        lost = self.trust.lost_of(rows, self.sparsity)
        return self._row_variance(self.sparsity) * self._inflation(contributions, lost)

    def moment_variance(self) -> float:
        """Return sigma^2 of an entry of summed second moments; off the diagonal of their matrix it is half of that."""
        l2 = moment_sensitivity(1 + largest_squared_norm(self.columns, self.radius))
        variance = _variance(self.noise, l2, SecondMoments().width(self.columns), 1, self.epsilon, self.delta)
        return variance * self._inflation(self.clients, self.trust.lost_of(1, 1))

    def local_variance(self) -> float:
        """Return sigma^2 of an entry of a row that its client hides alone."""
        return self._row_variance(1)

    def _row_variance(self, sparsity: int) -> float:
        """Return (Delta/mu)^2 (docs/mathematics.md, section 1.2), or (sqrt(2 s) Delta_1/epsilon)^2 (section 1.3)."""
        l2 = 2 * math.sqrt(largest_squared_norm(self.columns, self.radius))
        return _variance(self.noise, l2, self.columns, sparsity, self.epsilon, self.delta)

    def _inflation(self, contributions: float, lost: int) -> float:
        """Return all noise in a sum over the noise that is counted: M/h for h honest servers, else N/(N - t - q)."""
        if self.noise_by == "servers" and self.dealers is not None:
            return self.dealers / (self.dealers - self.trust.colluding_servers)
        if self.noise_by == "servers":
            return self.trust.servers / self.trust.honest_servers
        return contributions / (contributions - lost) if contributions > lost else math.inf


@functools.lru_cache(maxsize=64)
def _variance(noise: str, l2: float, width: int, sparsity: int, epsilon: float, delta: float) -> float:
    """Return the variance of the noise in a released entry, for contributions of `width` entries."""
    return released_sd(noise, l1=math.sqrt(width) * l2, l2=l2, sparsity=sparsity, epsilon=epsilon, delta=delta) ** 2
