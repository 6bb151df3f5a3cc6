"""What is promised, to whom, against whom, and why: a `Guarantee` says it in words and in numbers.

A `Guarantee` is built from `Preconditions` alone, which are checked when they are made: that the number of clients is
public, how many clients in all may have something missing, whose noise is counted on, and who has verified the task.
"""

from __future__ import annotations

import math
from typing import ClassVar

from dpmpc.base.arguments import require_choice, require_whole
from dpmpc.base.errors import GuaranteeError
from dpmpc.base.notebook import statement_html
from dpmpc.base.storage import Record
from dpmpc.privacy.specification import MATRICES, STATIC_FAILURE

REPLACE_ONE = "replace-one"
REPEATABLE = "the randomness can be repeated from a seed, so nobody is protected by it."


class Promise:
    """Base of every guarantee: a record of plain facts that can put itself into words."""

    __slots__ = ()
    assumptions: tuple[str, ...]
    sources: tuple[str, ...]
    simulation: bool
    neighbouring: str

    @property
    def composition(self) -> dict[str, float] | None:
        """The fields of the `dpmpc.privacy.composition.Cost` by which it composes with others; None if it does not."""
        return None

    def _repr_html_(self) -> str:
        return statement_html(str(self))

    def _text(self, lines: list[str], warning: str = REPEATABLE) -> str:
        """Return the lines with what they rest on below them and, in a simulation, the warning above them."""
        warnings = [f"SIMULATION: {warning}"] if self.simulation else []
        assumptions = [f"  assumes: {assumption}" for assumption in self.assumptions]
        return "\n".join([*warnings, *lines, *assumptions, *(f"  source: {source}" for source in self.sources)])


MISSING_CLIENTS = "clients in all"  # the one sense of "missing" that every proof here covers
NOISE_DEALT = "servers that deal it"
NOISE_MAKERS = ("clients", "servers", "clients and servers", "a curator", NOISE_DEALT)
FRESH_EACH_TIME = frozenset({"servers", "a curator", NOISE_DEALT})  # these draw noise for each release anew
CUT_OFF_DELTA = 2.0**-60
"""What delta pays where servers deal noise, which ends at its range (`dpmpc.privacy.calibration`)."""
CHECKERS = ("each honest client", "each honest server", "whoever computes this guarantee")


class Preconditions(Record, frozen=True):
    """What a guarantee takes as given, checked.

    Parameters
    ----------
    clients : int
        n.
    count_is_public : bool
        Whether n is known whatever the data is. No proof here holds otherwise.
    missing : int
        How many clients, beyond the corrupt ones, may have something missing.
    missing_means : str
        What `missing` counts: "clients in all".
    noise_by : {"clients", "servers", "clients and servers", "a curator", "servers that deal it"}
        Whose noise is counted on: honest clients', one honest server's, both together, that of one trusted party, or
        that of several honest servers who deal theirs in shares.
    verified_by : tuple of str
        Who recomputes, before it uses a row or a share, what the task promises: of `CHECKERS`.

    Raises
    ------
    GuaranteeError
        If no proof covers what is given.
    """

    clients: int
    count_is_public: bool
    missing: int
    missing_means: str
    noise_by: str
    verified_by: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, least in (("clients", 1), ("missing", 0)):
            require_whole(name, getattr(self, name), least)
        if self.count_is_public is not True:
            raise GuaranteeError(
                f"count_is_public: {self.count_is_public!r} given, True expected: replacing a row keeps n, so nothing "
                "is proven of an n that depends on the data"
            )
        if self.missing_means != MISSING_CLIENTS:
            raise GuaranteeError(
                f"missing_means: {self.missing_means!r} given, {MISSING_CLIENTS!r} expected: what is missing is "
                "counted by clients, in whichever rows of the sketch they lie"
            )
        require_choice("noise_by", self.noise_by, NOISE_MAKERS)
        if self.missing >= self.clients and self.noise_by not in FRESH_EACH_TIME:
            raise GuaranteeError(f"missing: {self.missing} given of {self.clients} clients, fewer expected")
        if not self.verified_by or not set(self.verified_by) <= set(CHECKERS):
            raise GuaranteeError(
                f"verified_by: {self.verified_by!r} given, some of {', '.join(CHECKERS)} expected: a task that nobody "
                "has verified promises nothing"
            )

    def __str__(self) -> str:
        return self.said_of("clients")

    def said_of(self, counted: str) -> str:
        """Return them in words; of "rows", where a few owners are both the clients and the servers."""
        checkers = self.verified_by if counted == "clients" else map(_of_owners, self.verified_by)
        return (
            f"n = {self.clients:,} is public whatever the data; what the task promises is recomputed by "
            f"{', '.join(dict.fromkeys(checkers))}"
        )


def _of_owners(who: str) -> str:
    """Name data owners, each of whom has the part of a client and of a server."""
    return who.replace("client", "owner").replace("server", "owner")


class NoGuarantee(Promise, Record, frozen=True):
    """What a release without noise promises: nothing, to nobody.

    Parameters
    ----------
    clients : int
        In the release.
    simulation : bool
        True: such a release is a simulation.
    neighbouring : str
        The relation under which nothing is promised.
    assumptions, sources : tuple of str
        None.
    """

    called: ClassVar[str] = "guarantee"
    epsilon: ClassVar[float] = math.inf
    delta: ClassVar[float] = 1.0
    clients: int
    simulation: bool = True
    neighbouring: str = REPLACE_ONE
    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """What is promised, in a few words."""
        return f"guarantee: none, for any of {self.clients:,} clients"

    def __str__(self) -> str:
        return self._text([self.headline], "no noise was added, so nobody is protected.")


class Guarantee(Promise, Record, frozen=True, kw_only=True):
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
        How many further clients, in all, may have something missing from the sums.
    coalition : str
        "adaptive" if those clients may be chosen after the public matrix is known, "static" if they were fixed before.
    neighbouring : str
        The relation between neighbouring inputs: "replace-one" changes one client's row arbitrarily.
    mu, rho : float or None
        The Gaussian-DP and zero-concentrated-DP parameters where the mechanism has them.
    slack : float
        Pure epsilon paid for integer noise, already inside `achieved_epsilon`.
    leverage, least_variance : float or None
        What mu rests on, rounded to the safe side: the noise's variance times the largest s_i^T C^-1 s_i over the
        clients, for the covariance C of the noise that is counted on, and the smallest eigenvalue of C, divided by that
        variance (`dpmpc.privacy.EffectiveNoise`).
    calibration : str
        "joint" (one mechanism over all columns and copies) or "paper" (the paper's printed composition).
    assumptions, sources : tuple of str
        What the promise rests on, and where it is proven.
    simulation : bool
        True if seeded or floating-point noise was used: then nobody is protected.
    preconditions : Preconditions
        What it takes as given.

    Raises
    ------
    GuaranteeError
        If the preconditions are missing, or are those of something else.
    """

    called: ClassVar[str] = "guarantee"
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
    leverage: float | None = None
    least_variance: float | None = None
    calibration: str = "joint"
    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    simulation: bool = False
    preconditions: Preconditions

    def __post_init__(self) -> None:
        given = self.preconditions
        if not isinstance(given, Preconditions):
            raise GuaranteeError(f"preconditions: {given!r} given, checked Preconditions expected")
        if (given.clients, given.missing) != (self.clients, self.dropouts):
            raise GuaranteeError(
                f"preconditions: of {given.clients} clients and {given.missing} missing ones given, of {self.clients} "
                f"and {self.dropouts} expected"
            )

    @property
    def noise_by(self) -> str:
        """Whose noise is counted on."""
        return self.preconditions.noise_by

    @property
    def composes(self) -> bool:
        """Whether another release of the same reports draws fresh noise, so that budgets add up."""
        return self.noise_by in FRESH_EACH_TIME

    @property
    def composition(self) -> dict[str, float]:
        """Gaussian differential privacy where the noise has it; a static coalition adds its chance to delta.

        So does noise that ends at its range.
        """
        if self.mu is None:
            return {"epsilon": self.achieved_epsilon, "delta": self.delta}
        beside = MATRICES * STATIC_FAILURE if self.coalition == "static" else 0.0
        beside += CUT_OFF_DELTA if self.noise_by == NOISE_DEALT else 0.0
        return {"mu": self.mu, "slack": self.slack, "delta": beside}

    @property
    def headline(self) -> str:
        """What is promised to how many, in a few words."""
        return self._headline("clients")

    def _headline(self, counted: str) -> str:
        budget = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"pure {self.epsilon:g}"
        return f"{budget}-differential privacy for each of {self.clients:,} {counted}"

    @property
    def relation(self) -> str:
        """The neighbouring relation, in words."""
        return _NEIGHBOURING[self.neighbouring]

    def relation_of(self, counted: str) -> str:
        """Return the neighbouring relation in words; of "rows", where clients are no more than these."""
        return self.relation if counted == "clients" else self.relation.replace(_CLIENTS_ROW, "row")

    def __repr__(self) -> str:
        return f"<Guarantee: {self.headline}, {self.neighbouring}{', SIMULATION' if self.simulation else ''}>"

    def __str__(self) -> str:
        return self.said_of("clients")

    def said_of(self, counted: str) -> str:
        """Return the guarantee in words; of "rows", where clients are no more than rows of a few owners."""
        lines = [
            self._headline(counted),
            f"  neighbouring: {self.relation_of(counted)}",
            f"  noise: {self.mechanism}; at delta = {self.delta:g} it gives epsilon = {self.achieved_epsilon:.6g}"
            + (f" (mu = {self.mu:.6g}, rho = {self.rho:.6g})" if self.mu is not None and self.rho is not None else ""),
            f"  holds even if {self._coalition(counted)} pool all they see"
            + (", those clients being fixed before the public matrix is drawn" if self.coalition == "static" else "")
            + (f", and anything from at most {self.missing} is missing" if self.dropouts else ""),
            f"  given: {self.preconditions.said_of(counted)}",
        ]
        return self._text(lines)

    @property
    def missing(self) -> str:
        """From whom anything may be missing, in words."""
        return f"{self.dropouts:,} client{'s' if self.dropouts > 1 else ''} in all"

    def parties(self, counted: str) -> str:
        """Return what those who hold shares are called; of "rows" they are the owners of these."""
        return "servers" if counted == "clients" else _of_owners("servers")

    def _coalition(self, counted: str) -> str:
        """Say who may collude."""
        servers, t = f"{self.corrupt_servers} of the {self.servers} {self.parties(counted)}", self.corrupt_clients
        if not t:
            return f"the analyst and {servers}"
        others = f"{t:,} client{'s' if t > 1 else ''}" if counted == "clients" else f"whoever knows {t:,} {counted}"
        return f"the analyst, {servers} and {others}"


_CLIENTS_ROW = "client's whole row"
_NEIGHBOURING = {
    REPLACE_ONE: f"one {_CLIENTS_ROW} is replaced by any other row within the public bounds",
    "zero-out": "one client's whole contribution is replaced by zeros, or zeros by one within the public bounds",
}
