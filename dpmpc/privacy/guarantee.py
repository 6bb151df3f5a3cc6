"""What is promised, to whom, against whom, and why, in numbers and codes (`dpmpc.privacy.statements` has sentences).

A `Guarantee` is built from `Preconditions` alone, which are checked when they are made: that the number of clients is
public, how many clients in all may have something missing, whose noise is counted on, and who has verified the task.
"""

from __future__ import annotations

import math
from typing import ClassVar, Self

import msgspec

from dpmpc.base.arguments import require_choice, require_whole
from dpmpc.base.errors import GuaranteeError
from dpmpc.base.storage import Record
from dpmpc.privacy.specification import MATRICES, STATIC_FAILURE
from dpmpc.privacy.statements import (
    CHECKERS,
    NEIGHBOURING,
    assumptions,
    drawn,
    honest_servers,
    with_ground,
    wrong_shares,
)

REPLACE_ONE = "replace-one"


class Promise:
    """Base of every guarantee: a record of numbers and codes."""

    __slots__ = ()
    assumptions: tuple[str, ...]
    sources: tuple[str, ...]
    simulation: bool
    neighbouring: str

    @property
    def composition(self) -> dict[str, float] | None:
        """The fields of the `dpmpc.privacy.composition.Cost` by which it composes with others; None if it does not."""
        return None

    def over(self, links: str) -> Self:
        """Return the same guarantee where shares travel over other links than encrypted ones.

        Parameters
        ----------
        links : str
            Code of what is assumed of the links instead of "secret-links".
        """
        assumed = tuple(links if code == "secret-links" else code for code in self.assumptions)
        return msgspec.structs.replace(self, assumptions=assumed)  # type: ignore[type-var]


MISSING_CLIENTS = "clients-in-all"  # the one sense of "missing" that every proof here covers
NOISE_DEALT = "dealers"
NOISE_MAKERS = ("clients", "servers", "clients-and-servers", "curator", NOISE_DEALT)
FRESH_EACH_TIME = frozenset({"servers", "curator", NOISE_DEALT})  # these draw noise for each release anew
CUT_OFF_DELTA = 2.0**-60
"""What delta pays where servers deal noise, which ends at its range (`dpmpc.privacy.calibration`)."""


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
        What `missing` counts: "clients-in-all".
    noise_by : {"clients", "servers", "clients-and-servers", "curator", "dealers"}
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
                "count_is_public",
                f"{self.count_is_public!r}",
                "True",
                "replacing a row keeps n, so nothing is proven of an n that depends on the data",
            )
        if self.missing_means != MISSING_CLIENTS:
            raise GuaranteeError(
                "missing_means",
                f"{self.missing_means!r}",
                f"{MISSING_CLIENTS!r}",
                "what is missing is counted by clients, in whichever rows of the sketch they lie",
            )
        require_choice("noise_by", self.noise_by, NOISE_MAKERS)
        if self.missing >= self.clients and self.noise_by not in FRESH_EACH_TIME:
            raise GuaranteeError("missing", f"{self.missing} given of {self.clients} clients, fewer expected")
        if not self.verified_by or not set(self.verified_by) <= CHECKERS.keys():
            raise GuaranteeError(
                "verified_by",
                f"{self.verified_by!r}",
                f"some of {', '.join(CHECKERS)}",
                "a task that no party has verified promises nothing",
            )

    def statement(self, counted: str = "clients") -> str:
        """Return them in words; of "rows", where a few owners are both the clients and the servers."""
        checkers = [CHECKERS[code] for code in self.verified_by]
        if counted != "clients":
            checkers = [who.replace("client", "owner").replace("server", "owner") for who in checkers]
        return (
            f"n = {self.clients:,} is public whatever the data; what the task promises is recomputed by "
            f"{', '.join(dict.fromkeys(checkers))}"
        )


NO_NOISE = "no noise was added, so no one is protected."


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
        return with_ground([self.headline], (), (), simulation=self.simulation, warning=NO_NOISE)


class Guarantee(Promise, Record, frozen=True, kw_only=True):
    """An (epsilon, delta) promise with its neighbouring relation, its trust assumptions and its sources.

    Parameters
    ----------
    epsilon, delta : float
        What is promised; delta = 0 is pure epsilon-differential privacy.
    achieved_epsilon : float
        What the noise gives at this delta; at most `epsilon`.
    noise : str
        Family of the noise.
    noise_sd : float
        Standard deviation of one draw, in the integers that are shared.
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
        variance (`dpmpc.privacy.EffectiveNoise`). Of several sums, those of the one with the fewest clients.
    copies : int
        Noisy copies that a client sends.
    dealers : int
        How many servers deal noise in shares; 0 where none does.
    sums : int
        How many sums, each with fresh noise, are released together.
    calibration : str
        "joint" (one mechanism over all columns and copies) or "paper" (the paper's printed composition).
    assumptions, sources : tuple of str
        Codes of what the promise rests on, and of where it is proven (`dpmpc.privacy.statements`).
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
    noise: str
    noise_sd: float
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
    copies: int = 1
    dealers: int = 0
    sums: int = 1
    calibration: str = "joint"
    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    simulation: bool = False
    preconditions: Preconditions

    def __post_init__(self) -> None:
        given = self.preconditions
        if not isinstance(given, Preconditions):
            raise GuaranteeError("preconditions", f"{given!r}", "checked Preconditions")
        if (given.clients, given.missing) != (self.clients, self.dropouts):
            raise GuaranteeError(
                "preconditions",
                f"of {given.clients} clients and {given.missing} missing ones",
                f"of {self.clients} and {self.dropouts}",
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
        budget = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"pure {self.epsilon:g}"
        return f"{budget}-differential privacy for each of {self.clients:,} clients"

    def __repr__(self) -> str:
        return f"<Guarantee: {self.headline}, {self.neighbouring}{', SIMULATION' if self.simulation else ''}>"

    def __str__(self) -> str:
        return self.statement()

    def statement(self, counted: str = "clients") -> str:
        """Return the guarantee in words; of "rows", where clients are no more than rows of a few owners."""
        parameters = ""
        if self.mu is not None and self.rho is not None:
            parameters = f" (mu = {self.mu:.6g}, rho = {self.rho:.6g})"
        static = ", those clients being fixed before the public matrix is drawn" if self.coalition == "static" else ""
        lines = [
            self.headline.replace("clients", counted),
            f"  neighbouring: {self.relation(counted)}",
            f"  noise: {self.noise_text}; at delta = {self.delta:g} it gives epsilon = {self.achieved_epsilon:.6g}"
            + parameters,
            f"  holds even if {self._coalition(counted)} pool all they see{static}"
            + (f", and anything from at most {self.missing_text} is missing" if self.dropouts else ""),
            f"  given: {self.preconditions.statement(counted)}",
        ]
        return with_ground(lines, self.assumption_texts, self.sources, simulation=self.simulation)

    @property
    def assumption_texts(self) -> list[str]:
        """What the promise rests on, in sentences."""
        lost = self.corrupt_clients + self.dropouts
        shamir = "shamir" in self.assumptions
        return assumptions(
            self.assumptions,
            {
                **msgspec.structs.asdict(self),
                "honest": honest_servers(self.servers - self.corrupt_servers),
                "lost": f" after {lost:,} are taken away" if lost else "",
                "wrong_shares": wrong_shares(self.servers, self.corrupt_servers) if shamir else "",
            },
        )

    @property
    def noise_text(self) -> str:
        """What the noise is and who adds it."""
        if self.sums > 1:
            return f"{self.sums} sums with fresh {self.noise} noise each"
        copies = f" in each of its {self.copies} copies" if self.copies > 1 else ""
        added = {
            "clients": f"from each client{copies}",
            "clients-and-servers": "from each client in its one copy, and from each server in every sum",
            "servers": "from each server in every sum",
            NOISE_DEALT: f"in every sum from each of {self.dealers} servers, dealt in shares",
            "curator": "from the curator",
        }
        return f"{drawn(self.noise, self.noise_sd)}, {added[self.noise_by]}"

    def relation(self, counted: str = "clients") -> str:
        """Return the neighbouring relation in words."""
        text = NEIGHBOURING[self.neighbouring]
        return text if counted == "clients" else text.replace("client's whole row", "row")

    @property
    def missing_text(self) -> str:
        """From whom anything may be missing."""
        return f"{self.dropouts:,} client{'s' if self.dropouts > 1 else ''} in all"

    def parties(self, counted: str) -> str:
        """Return what those who hold shares are called: the owners of rows, where rows are counted."""
        return "servers" if counted == "clients" else "owners"

    def _coalition(self, counted: str) -> str:
        """Return who may collude."""
        servers, t = f"{self.corrupt_servers} of the {self.servers} {self.parties(counted)}", self.corrupt_clients
        if not t:
            return f"the analyst and {servers}"
        others = f"{t:,} client{'s' if t > 1 else ''}" if counted == "clients" else f"whoever knows {t:,} {counted}"
        return f"the analyst, {servers} and {others}"
