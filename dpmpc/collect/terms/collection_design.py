"""Design a collection before its first upload, and state what denied reports can do to it.

Any server can deny reports until the minimum batch is left, and so choose who is in it. Where clients make the noise,
the guarantee counts on the minimum batch less t clients, and t has to bound those that work with a server in
*whichever* batch remains; so `design_collection` asks its caller for t, and has servers make the noise by default.
`omission` puts this into words.

Clients prove that what they share is well formed wherever that can be proved: with additive shares and noise by
servers. Without proofs one client that shares arbitrary words spoils the release for everybody. `soundness` states what
the proofs promise.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from dpmpc.base.arguments import require_bool
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.collect.terms.series import Series
from dpmpc.collect.terms.server_entries import ServerEntry
from dpmpc.collect.terms.task_file import Collection
from dpmpc.data import Schema
from dpmpc.linear.noise import noise_from
from dpmpc.linear.proving.contributions import bits_for
from dpmpc.linear.proving.decide import fewest_present, soundness_error
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.privacy.specification import Budget, ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.proved_reports import circuit_of, scheme_of

MARGINS = (1.0, 1.02, 1.05, 1.1, 1.2)  # of the noise: matrices that are drawn later may need more than the first one
PROVED_BY_DEFAULT = ("additive", "servers")  # sharing, and who adds the noise
MOST_COUNTED_ROWS = 256  # of one copy: an epsilon against more clients takes time k^3 for each number of them


class CollectionTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What is agreed on about a collection beside what it releases.

    Parameters
    ----------
    name, servers, opens, closes, expires, minimum_batch, largest_batch, authenticated, purpose, contact, series
        See `Collection`.
    """

    name: str
    servers: tuple[ServerEntry, ...]
    opens: datetime.datetime
    closes: datetime.datetime
    expires: datetime.datetime
    minimum_batch: int
    largest_batch: int
    authenticated: bool = False
    purpose: str = ""
    contact: str = ""
    series: Series | None = None


def design_collection(
    terms: CollectionTerms,
    schema: Schema,
    budget: Budget,
    *,
    noise_by: str | None = None,
    corrupt_clients: int | None = None,
    proved: bool | None = None,
    **options: Any,
) -> Collection:
    """Make a collection whose noise protects a minimum batch.

    Parameters
    ----------
    terms : CollectionTerms
        Who the servers are, when reports are taken, and how many are opened together.
    schema : Schema
        Columns and public bounds.
    budget : Budget
        Of the one release; in a series the total of all its epochs.
    noise_by : {"servers", "clients"}, optional
        Who adds the noise; "servers" by default. With Shamir shares and no proofs "clients" must be given explicitly.
    corrupt_clients : int
        t, needed where clients add the noise: how many reports of any batch that may remain, however a server has
        chosen it, come from people who tell the server their noise or add none. It can be 0 only if each client is
        known to be honest.
    proved : bool, optional
        Whether clients prove that what they share is well formed; by default wherever shares are additive and servers
        add the noise. With Shamir shares servers then prove the range of theirs. Noise of clients cannot be proved.
    **options
        Others of `ReleaseSpec.of`, but `by`: collections do not take groups.

    Returns
    -------
    Collection
        Verified.

    Raises
    ------
    InputError
        If an argument is not what it must be, the schema refuses values outside its bounds,
        clients are to add the noise and t is not given, or there are no proofs of what
        is collected.
    GuaranteeError, OverflowRisk
        If the guarantee cannot be given.
    """
    if options.get("by") is not None:
        raise InputError("by", f"{options['by']!r}", "none", "collections do not take groups yet; a fit does")
    if terms.series is not None:
        total = Budget(terms.series.epsilon, terms.series.delta)
        if budget != total:
            raise InputError(
                "budget",
                f"epsilon {budget.epsilon:g} and delta {budget.delta:g}",
                "the total of the series",
                f"{total.epsilon:g} and {total.delta:g}",
            )
        budget = Budget(terms.series.epsilon_of_epoch, terms.series.delta)
    sharing = options.get("sharing", "additive")
    unproved_shamir = sharing == "shamir" and not proved
    noise_by, corrupt_clients = _noise_of(
        noise_by, corrupt_clients, terms.minimum_batch, unproved_shamir=unproved_shamir
    )
    options |= {"noise_by": noise_by, "corrupt_clients": corrupt_clients}
    options["proved"] = (sharing, noise_by) == PROVED_BY_DEFAULT if proved is None else require_bool("proved", proved)
    options |= {"clients": terms.minimum_batch, "servers": len(terms.servers), **msgspec.structs.asdict(budget)}
    task = _designed(schema, terms.largest_batch, by_default=proved is None, **options)
    fields = _without_none(task.to_dict())
    for derived in ("columns", "seed"):
        fields["sketch"].pop(derived, None)
    noise = fields.pop("noise")
    for margin in MARGINS[task.noising.reaches_several_rows(task.sketch) :]:
        collection = Collection(
            format=4,
            **msgspec.structs.asdict(terms),
            template={**fields, "noise": _raised(noise, margin)},
        )
        try:
            return collection.verify()
        except GuaranteeError:
            if margin == MARGINS[-1]:
                raise
    raise AssertionError("unreachable")


def omission(collection: Collection, task: Task | None = None) -> str:
    """Return what a server can do by denying reports.

    Parameters
    ----------
    collection : Collection
        The public facts.
    task : Task, optional
        Of the batch in question; that of a minimum batch by default.
    """
    task = task or collection.plan
    if task.noising.by == "servers":
        return (
            "a server that denies reports chooses whose reports are summed, which biases the result; it costs "
            "no client's privacy, since "
            + ("the noise of honest servers suffices" if task.noise_is_dealt else "each server's noise suffices alone")
        )
    n, t = task.clients, task.trust.corrupt_clients
    said = (
        "a server that denies reports (selective dropping) chooses which clients are left, down to "
        f"{collection.minimum_batch:,}; the noise of {n - t:,} of {n:,} clients is counted on, so t = {t:,} has to "
        "bound those that give away their noise or add none in any such batch"
    )
    if task.noising.reaches_several_rows(task.sketch) and task.sketch.rows > MOST_COUNTED_ROWS:
        return said
    most = max(0, n - 1 - task.trust.dropouts)
    more = sorted(count for count in {n // 10, n // 2, most} if count > t)
    told = ", ".join(f"with {count:,} {_epsilon(task.epsilon_against(count))}" for count in more)
    return f"{said}. If there were more of them: {told}" if told else said


def soundness(collection: Collection, reports: int) -> str:
    """Return what the proofs of this many reports promise, and on what condition (theorem proof-soundness)."""
    scheme = scheme_of(collection.plan)
    error = soundness_error(circuit_of(collection.plan), scheme, reports)
    if isinstance(scheme, ShamirSharing):
        condition = f"at least {fewest_present(scheme)} servers took part and at most {scheme.threshold} of them lied"
        beyond = f"if more than {scheme.threshold} servers helped a client"
    else:
        condition = f"all {len(collection.servers)} servers followed the protocol"
        beyond = "if a server helped a client"
    return (
        f"if {condition} each is a point of the proved set, whatever "
        f"its client did: the chance that any of {reports:,} false ones passes is at most 2^{math.log2(error):.1f}. "
        f"Not proved: that a row is true, that one person sent one report, and anything {beyond}"
    )


def _designed(schema: Schema, largest_batch: int, *, by_default: bool, **options: Any) -> Task:
    """Design the task of a minimum batch; if only proofs that nobody has asked for stand in its way, say so."""
    if not options["proved"]:
        return design(ReleaseSpec.of(schema, **options))
    bits = bits_for(largest_batch) if options.get("fractional_bits") is None else options["fractional_bits"]
    try:
        return design(ReleaseSpec.of(schema, **{**options, "fractional_bits": bits}))
    except InputError as error:
        if not by_default:
            raise
        try:
            design(ReleaseSpec.of(schema, **{**options, "proved": False}))
        except InputError:
            raise error from None
        raise type(error)(
            f"{error}; without proofs (proved=False, --no-proved) it could be, and one client could spoil the release"
        ) from error


def noise_promise(collection: Collection, dealers: Sequence[int]) -> str:
    """Return what is guaranteed of noise that servers have dealt, and what is not (theorem dealt-noise)."""
    plan, statement, scheme = collection.plan, collection.plan.dealt_noise, scheme_of(collection.plan)
    assert isinstance(scheme, ShamirSharing)
    error = soundness_error(statement.circuit, scheme, scheme.threshold * statement.blocks)
    by = f"servers {', '.join(map(str, dealers))}" if dealers else f"each of {plan.noising.dealers} or more servers"
    return (
        f"dealt by {by}, the noise of {scheme.threshold} of whom is not counted on; that of each is proved to be "
        f"within {statement.bound} units of 0 in every sum, but for a chance of 2^{math.log2(error):.1f}. Not proved: "
        "how it was drawn, so that a lying server may choose its own within this range"
    )


def _noise_of(
    noise_by: str | None, corrupt_clients: int | None, minimum_batch: int, *, unproved_shamir: bool
) -> tuple[str, int]:
    """Fill in who adds the noise, and t; where clients add it, refuse a missing t."""
    if noise_by is None and unproved_shamir:
        raise InputError(
            "noise_by",
            "none given with Shamir shares, 'clients' expected, together with corrupt_clients, or proofs: "
            "a server's own noise is not a share, servers deal it in shares only in a collection with "
            "proofs, and noise by clients needs a bound on those that work with a server",
        )
    noise_by = noise_by or "servers"
    if noise_by == "clients" and corrupt_clients is None:
        raise InputError(
            "corrupt_clients",
            "none",
            "a number",
            f"how many of any {minimum_batch} reports, chosen by a server that may deny all others, come "
            "from people who reveal their noise to it or add none; or noise_by='servers', which needs no such "
            "number",
            condition="where clients add the noise",
        )
    return noise_by, corrupt_clients or 0


def _raised(noise: dict[str, Any], factor: float) -> dict[str, Any]:
    """Return the description of a noise with `factor` times the standard deviation."""
    powers = {"sigma": 1, "scale": 1, "variance": 2}
    raised = {name: value * factor ** powers[name] if name in powers else value for name, value in noise.items()}
    return noise_from(raised).describe()


def _without_none(value: Any) -> Any:
    """Leave out fields that are None, which TOML cannot express; all of them are None by default."""
    if isinstance(value, dict):
        return {name: _without_none(one) for name, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list) else value


def _epsilon(epsilon: float) -> str:
    """Return an epsilon as part of a sentence."""
    return f"epsilon = {epsilon:.4g}" if math.isfinite(epsilon) else "no epsilon that is proven"
