"""Who may collude, and how much noise is then left in the rows of the public matrix.

`Trust` is what a user states; `Exposure` is what the accountants need to know of the matrix under that trust.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dpmpc.errors import GuaranteeError, InputError
from dpmpc.sketching import PublicMatrix


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
