"""What is promised, to whom, against whom, and why: a `Guarantee` says it in words and in numbers."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from dpmpc.notebook import statement_html

REPLACE_ONE = "replace-one"
REPEATABLE = "the randomness can be repeated from a seed, so nobody is protected by it."


class Promise:
    """What every guarantee is, whatever it promises: data classes of plain facts that say themselves in words."""

    assumptions: tuple[str, ...]
    sources: tuple[str, ...]
    simulation: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers, strings and lists."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self).items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a guarantee from `to_dict`."""
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()})

    def _repr_html_(self) -> str:
        return statement_html(str(self))

    def _text(self, lines: list[str], warning: str = REPEATABLE) -> str:
        """Return the lines with what they rest on below them and, in a simulation, the warning above them."""
        warnings = [f"SIMULATION: {warning}"] if self.simulation else []
        assumptions = [f"  assumes: {assumption}" for assumption in self.assumptions]
        return "\n".join([*warnings, *lines, *assumptions, *(f"  source: {source}" for source in self.sources)])


@dataclasses.dataclass(frozen=True)
class Guarantee(Promise):
    """An (epsilon, delta) promise with its neighbouring relation, its trust assumptions and its sources.

    Parameters
    ----------
    epsilon, delta : float
        What is promised; delta = 0 is pure epsilon-differential privacy.
    achieved_epsilon : float
        What the noise gives at this delta; at most `epsilon`.
    mechanism : str
        The noise, in words.
    clients : int
        Number of clients in the release, public.
    servers : int
        Number of servers that hold shares.
    corrupt_servers : int
        How many servers may pool what they see with the analyst and the corrupt clients.
    corrupt_clients : int
        How many clients may reveal their own noise; all the others where the servers add the noise.
    dropouts : int
        How many further contributions a row of the sketch may lack.
    coalition : str
        "adaptive" if those clients may be chosen after the public matrix is known, "static" if they were fixed before.
    neighbouring : str
        The relation between neighbouring inputs: "replace-one" changes one client's row arbitrarily.
    mu, rho : float or None
        The Gaussian-DP and zero-concentrated-DP parameters where the mechanism has them.
    slack : float
        Pure epsilon paid for integer noise, already inside `achieved_epsilon`.
    calibration : str
        "joint" (one mechanism over all columns and copies) or "paper" (the paper's printed composition).
    assumptions, sources : tuple of str
        What the promise rests on, and where it is proven.
    simulation : bool
        True if seeded or floating-point noise was used: then nobody is protected.
    """

    epsilon: float
    delta: float
    achieved_epsilon: float
    mechanism: str
    clients: int
    servers: int
    corrupt_servers: int
    corrupt_clients: int
    dropouts: int
    coalition: str = "adaptive"
    neighbouring: str = REPLACE_ONE
    mu: float | None = None
    rho: float | None = None
    slack: float = 0.0
    calibration: str = "joint"
    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    simulation: bool = False

    @property
    def headline(self) -> str:
        """What is promised to how many, in a few words."""
        budget = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"pure {self.epsilon:g}"
        return f"{budget}-differential privacy for each of {self.clients:,} clients"

    @property
    def relation(self) -> str:
        """The neighbouring relation, in words."""
        return _NEIGHBOURING[self.neighbouring]

    def __repr__(self) -> str:
        return f"<Guarantee: {self.headline}, {self.neighbouring}{', SIMULATION' if self.simulation else ''}>"

    def __str__(self) -> str:
        lines = [
            self.headline,
            f"  neighbouring: {self.relation}",
            f"  noise: {self.mechanism}; at delta = {self.delta:g} it gives epsilon = {self.achieved_epsilon:.6g}"
            + (f" (mu = {self.mu:.6g}, rho = {self.rho:.6g})" if self.mu is not None and self.rho is not None else ""),
            f"  holds even if {self._coalition()} pool all they see"
            + (", those clients being fixed before the public matrix is drawn" if self.coalition == "static" else "")
            + (f", and {self.dropouts} contributions to a row are missing" if self.dropouts else ""),
        ]
        return self._text(lines)

    def _coalition(self) -> str:
        """Who may collude, in words."""
        servers = f"{self.corrupt_servers} of the {self.servers} servers"
        if not self.corrupt_clients:
            return f"the analyst and {servers}"
        return f"the analyst, {servers} and {self.corrupt_clients:,} client{'s' if self.corrupt_clients > 1 else ''}"


_NEIGHBOURING = {
    REPLACE_ONE: "one client's whole row is replaced by any other row within the public bounds",
    "zero-out": "one client's whole contribution is replaced by zeros, or zeros by one within the public bounds",
}
