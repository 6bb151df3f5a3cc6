"""What a release is to be, as one value: everything that `design` needs to choose noise and matrix.

A `ReleaseSpec` is made of small frozen values: how much may be spent (`Budget`), what may be assumed (`TrustModel`),
how noise is made and split (`Mechanism`), and the public matrix (`Sketch`). `ReleaseSpec.of` takes the same choices as
flat keywords, which is how estimators and the command take them.

This module is the one source of what each choice is called, what it means and what it may be: the options of the
command are drawn from it, and a test compares the docstrings of the estimators with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from dpmpc.base import plugins
from dpmpc.base.arguments import NOISES, choice, require_choice, require_float, require_whole
from dpmpc.base.errors import InputError

if TYPE_CHECKING:
    from dpmpc.data import Schema
    from dpmpc.linear.contributions.contribution import Contribution
    from dpmpc.linear.sketching import PublicMatrix
else:  # what they are imports NumPy, which the help of the command does without; signatures have to name something
    Schema = Contribution = PublicMatrix = Any

Part = TypeVar("Part", bound=msgspec.Struct)
Described = tuple[Any, msgspec.Meta, Any]  # type, description and default of a choice

SKETCHES = ("auto", "osnap", "countsketch", "rademacher", "sum")
COALITIONS = ("adaptive", "static")
NOISED_BY = ("clients", "servers")
CALIBRATIONS = ("joint", "paper")
SHARINGS = ("additive", "shamir")
RINGS = ("ring64", "mersenne61")
COPIES = ("auto", "one", "each")
MODELS_IN_ROUNDS = ("logistic", "poisson", "ridge")
MIXING_METHODS = ("rmgm", "dgm", "bgm")  # what a release of mixed columns is meant for
MIXING_PROTECTS = ("party", "subject")  # whose budget that is: the columns of a party, or a person's whole row
MIXING_CALIBRATIONS = ("analytic", "paper")
FRACTIONAL_BITS = 16
DELTA_IS = (
    "What is added to the bound P <= e^epsilon P' + delta, for the probabilities P and P' of anything that is "
    "published with one person's row and with any other row in its place"
)
STATIC_FAILURE = 2.0**-60  # chance that more of a static coalition meet in some row of a matrix than accounted for
MATRICES = 16  # that the servers of a collection may draw from one toss; any of them may be the one that is taken
SHARE_LIMIT = 4e9
OWN_NOISE = "who adds noise knows its own part, and takes it off the sum that is opened"
RADIUS = choice("Clip rows, scaled by their bounds, to this L2 norm; no such limit by default.", symbol="C")


class Budget(msgspec.Struct, frozen=True):
    """How much a release may show of one row.

    Examples
    --------
    >>> from dpmpc import Budget
    >>> Budget(epsilon=1.0, delta=1e-6)
    Budget(epsilon=1.0, delta=1e-06)
    """

    epsilon: Annotated[float, choice("The budget: how much one row may show; smaller is more private.")]
    delta: Annotated[
        float,
        choice(
            f"{DELTA_IS}: well below 1/N; 0 only with discrete-laplace noise.",
        ),
    ]

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            msgspec.structs.force_setattr(self, name, require_float(name, getattr(self, name)))


class TrustModel(msgspec.Struct, frozen=True):
    """Who may collude or be missing without breaking the guarantee.

    Dropouts are clients in all from whom anything may be missing, beyond the corrupt ones. Each client hits a row of
    the sketch once at most, so no row lacks more contributions than there are dropouts; but as many missing from every
    row are far more clients, and are not covered.

    Examples
    --------
    >>> from dpmpc import TrustModel
    >>> TrustModel(servers=5, dropouts=3).servers
    5
    """

    servers: Annotated[int, choice("Number of servers, at least 2.", symbol="M")] = 3
    corrupt_servers: Annotated[
        int | None,
        choice(
            "Servers that may pool their shares; by default as many as the shares allow: all but one with additive "
            "shares, fewer than half with Shamir's.",
            command=False,
        ),
    ] = None
    corrupt_clients: Annotated[int, choice("Most clients that may reveal their noise to the servers.", symbol="T")] = 0
    dropouts: Annotated[int, choice("Most clients from whom anything may be missing in the end.", symbol="N")] = 0
    coalition: Annotated[
        str,
        choice(
            "Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.", *COALITIONS
        ),
    ] = "adaptive"

    def __post_init__(self) -> None:
        for name, least in (("servers", None), ("corrupt_servers", None), ("corrupt_clients", 0), ("dropouts", 0)):
            if getattr(self, name) is not None:
                msgspec.structs.force_setattr(self, name, require_whole(name, getattr(self, name), least))
        if self.servers < 2:
            raise InputError("servers", self.servers, "at least 2", "one server alone would see every row")
        if not 0 <= self.colluding_servers < self.servers:
            raise InputError("corrupt_servers", self.corrupt_servers, f"0 to {self.servers - 1}")
        require_choice("coalition", self.coalition, COALITIONS)

    @property
    def colluding_servers(self) -> int:
        """Servers that may pool their shares: as stated, else all but one, which is the most."""
        return self.servers - 1 if self.corrupt_servers is None else self.corrupt_servers

    @property
    def honest_servers(self) -> int:
        """Servers that follow the protocol and keep what they see to themselves."""
        return self.servers - self.colluding_servers

    @property
    def lost(self) -> int:
        """Clients without whose noise the guarantee has to do, at most: corrupt ones and dropouts."""
        return self.corrupt_clients + self.dropouts

    @property
    def failure(self) -> float:
        """Probability that, in one of 16 public matrices, the coalition is better placed than accounted for."""
        return MATRICES * STATIC_FAILURE if self.coalition == "static" and self.corrupt_clients else 0.0

    def lost_in_a_row(self, sketch: PublicMatrix) -> int:
        """Return `lost_of` the matrix."""
        return self.lost_of(sketch.rows, sketch.sparsity)

    def lost_of(self, rows: int, sparsity: int) -> int:
        """Bound the contributions to one of k rows whose noise the adversary may know or that may be missing.

        A static coalition of t clients has X contributions in a row, whose moment generating function is at most that
        of a Poisson variable of mean m = t s/k: clients hit the row independently with probability s/k, or, with
        balanced hashing, as many as a sample without replacement from each batch (Hoeffding 1963, Theorem 4). Hence
        P[X >= m + a] <= exp(-m h(a/m)) with h(x) = (1 + x) ln(1 + x) - x (Bennett), and a union over k rows.
        """
        corrupt = self.corrupt_clients
        if self.failure:
            mean = corrupt * sparsity / rows
            corrupt = min(corrupt, _poisson_bound(mean, STATIC_FAILURE / rows))
        return corrupt + self.dropouts


def _poisson_bound(mean: float, failure: float) -> int:
    """Return the least integer b with exp(-(b ln(b/mean) - b + mean)) <= failure, for b > mean."""
    needed = -math.log(failure)
    bound = math.floor(mean) + 1
    while bound * math.log(bound / mean) - bound + mean < needed:
        bound += max(1, bound // 256)  # a coarser grid for large coalitions is on the safe side
    return bound


class Mechanism(msgspec.Struct, frozen=True):
    """How noise is made, and how contributions are split among the servers.

    Examples
    --------
    >>> from dpmpc import Mechanism
    >>> Mechanism(noise_by="servers").noise
    'discrete-gaussian'
    """

    noise: Annotated[
        str, choice("Family of the noise; all are drawn exactly, in whole numbers.", *NOISES, group=plugins.NOISES)
    ] = "discrete-gaussian"
    noise_by: Annotated[str, choice("Who adds the noise.", *NOISED_BY)] = "clients"
    copies: Annotated[
        str,
        choice(
            "Noisy copies of its row that a client sends, with noise by clients: one, or one for each row of the "
            "sketch that it hits. 'auto' is one where that is proven and costs at most a quarter more variance.",
            *COPIES,
        ),
    ] = "auto"
    calibration: Annotated[
        str,
        choice("Noise for the whole release at once, or by the paper's bound, which takes more.", *CALIBRATIONS),
    ] = "joint"
    sharing: Annotated[
        str,
        choice(
            "How a contribution is split: with additive shares all servers are needed and all but one may collude; "
            "with Shamir's fewer than half may collude and some may be missing.",
            *SHARINGS,
        ),
    ] = "additive"
    ring: Annotated[
        str | None, choice("Integers that shares are made of; by default what `sharing` needs.", *RINGS)
    ] = None
    fractional_bits: Annotated[
        int | None,
        choice(
            "Bits behind the point of the fixed-point encoding; by default 16, and 9 to 11 with proofs.",
            command=False,
        ),
    ] = None
    proved: Annotated[
        bool,
        choice(
            "Whether clients prove that what they share is well formed; needs noise by servers.",
            command=False,
        ),
    ] = False


class Sketch(msgspec.Struct, frozen=True):
    """The public matrix.

    Examples
    --------
    >>> from dpmpc import Sketch
    >>> Sketch("osnap", rows=64, sparsity=4).rows
    64
    """

    kind: Annotated[
        str,
        choice(
            "What is released: 'sum' adds up products of columns, the others are sketches by a public matrix. 'auto' "
            "is 'sum' while a client sends at most 8192 words, then 'osnap'.",
            *SKETCHES,
            group=plugins.SKETCHES,
        ),
    ] = "auto"
    rows: Annotated[int | None, choice("Rows k of the sketch; by default what suits the purpose.", symbol="K")] = None
    sparsity: Annotated[
        int | None, choice("Rows s of the sketch that each client hits, with 'osnap'; 4 by default.", symbol="S")
    ] = None
    balanced: Annotated[
        bool, choice("Whether every copy hits every row of the sketch equally often.", command=False)
    ] = True


class ReleaseSpec(msgspec.Struct, frozen=True):
    """Everything that is required of a release; `design` makes the task of it.

    Parameters
    ----------
    schema : Schema
        Columns and public bounds.
    clients : int
        Number of clients, n; public.
    budget : Budget
        How much may be spent.
    contribution : Contribution, optional
        What is summed over the clients instead of rows or second moments; there is then no sketch to choose.
    trust : TrustModel
        Who may collude or be missing.
    mechanism : Mechanism
        How noise is made and contributions are split.
    sketch : Sketch
        The public matrix.
    purpose : {"ridge", "low-rank"}
        What the release is for: decides the default number of rows.
    by : str, optional
        A variable of the schema's codebook with few public values: second moments are summed by its values.
    radius : float, optional
        Clip normalised rows to this L2 norm.
    share_limit : float
        Bytes that one server's share of the batch may take with a Rademacher matrix, which has clients send k copies.
    simulation_seed : int, optional
        Makes the public matrix repeatable and marks the task as a simulation, which protects no one.

    Examples
    --------
    >>> from dpmpc import Budget, ReleaseSpec, Schema, Sketch, design
    >>> schema = Schema.from_pair(["age", "income"], (0, 100))
    >>> spec = ReleaseSpec(schema=schema, clients=20_000, budget=Budget(1.0, 1e-6), sketch=Sketch("sum"))
    >>> design(spec).sketch.family
    'sum'
    """

    schema: Schema
    clients: int
    budget: Budget
    contribution: Contribution | None = None
    trust: TrustModel = TrustModel()
    mechanism: Mechanism = Mechanism()
    sketch: Sketch = Sketch()
    purpose: str = "ridge"
    by: str | None = None
    radius: float | None = None
    share_limit: float = SHARE_LIMIT
    simulation_seed: int | None = None

    def __post_init__(self) -> None:
        from dpmpc.data import Schema

        kinds = {"schema": Schema, "budget": Budget, "trust": TrustModel, "mechanism": Mechanism, "sketch": Sketch}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise InputError(
                    name,
                    f"{getattr(self, name)!r}",
                    f"a {kind.__name__}",
                    "ReleaseSpec.of takes epsilon, delta and every choice as plain values",
                )
        if self.contribution is not None:
            from dpmpc.linear.contributions.contribution import Contribution

            if not isinstance(self.contribution, Contribution):
                raise InputError(
                    "contribution",
                    f"{self.contribution!r} given, one of the classes of dpmpc.linear.contributions "
                    "expected, such as SecondMoments()",
                )

    @classmethod
    def of(cls, schema: Schema, clients: int, epsilon: float, delta: float, **choices: Any) -> ReleaseSpec:
        """Build a specification from flat keywords.

        Parameters
        ----------
        schema, clients, epsilon, delta
            As in the class.
        **choices
            The fields of `TrustModel`, `Mechanism` and `Sketch` by their names, with ``sketch`` for the kind of
            sketch, and the remaining fields of this class: ``servers=5, noise_by="servers", sketch="osnap"``.

        Raises
        ------
        InputError
            If a keyword is none of these.
        """
        values = dict(choices)
        if "sketch" in values:
            values["kind"] = values.pop("sketch")
        trust, mechanism, sketch = taken(TrustModel, values), taken(Mechanism, values), taken(Sketch, values)
        accepted = set(cls.__struct_fields__) - {"schema", "clients", "budget", "trust", "mechanism", "sketch"}
        unknown = values.keys() - accepted
        if unknown:
            raise InputError(
                min(unknown), f"given, one of {', '.join(sorted(accepted | flat_choices().keys()))} expected"
            )
        budget = Budget(epsilon, delta)
        return cls(
            schema=schema, clients=clients, budget=budget, trust=trust, mechanism=mechanism, sketch=sketch, **values
        )


@functools.cache  # the command asks once an option, and annotations take a while to read
def flat_choices() -> Mapping[str, Described]:
    """Return every choice of a release beside its budget by its flat name, in order."""
    return MappingProxyType({"radius": (float | None, RADIUS, None), **choices_of(Sketch, Mechanism, TrustModel)})


@functools.cache
def choices_of(*parts: type[msgspec.Struct]) -> Mapping[str, Described]:
    """Return the described fields of structs by their flat names, in order."""
    fields: dict[str, Described] = {}
    for part in parts:
        hints = get_type_hints(part, include_extras=True)
        for field in msgspec.structs.fields(part):
            annotation = hints[field.name]
            if get_origin(annotation) is Annotated:
                kind, meta = get_args(annotation)
                default = None if field.required else field.default
                fields["sketch" if field.name == "kind" else field.name] = (kind, meta, default)
    return MappingProxyType(fields)


def option_of(name: str, **changes: Any) -> dict[str, Any]:
    """Return what an option is made of, from the field of a specification that it fills; `changes` come in its place.

    The first of its types that is not None reads it, and its default stands in its help.
    """
    kind, meta, default = {**choices_of(Budget), **flat_choices()}[name]
    extra, default = meta.extra or {}, changes.pop("default", default)
    text = f"{default:g}" if isinstance(default, float) else default
    return {
        "type": next(member for member in (get_args(kind) or (kind,)) if member is not type(None)),
        "choices": extra["options"] or None,
        "metavar": extra["symbol"],
        "default": default,
        "help": (meta.description or "").rstrip(".") + ("" if default is None else f" (default {text})"),
        **changes,
    }


def taken(part: type[Part], values: dict[str, Any]) -> Part:
    """Make a struct from those of the values that are its fields, and take them out of the mapping."""
    return part(**{name: values.pop(name) for name in part.__struct_fields__ if name in values})
