"""What data owners agree on before any of them looks at a row."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from dpmpc.arguments import require_choice, require_whole
from dpmpc.data import Schema
from dpmpc.errors import InputError
from dpmpc.estimators.in_rounds import LogisticFit, PoissonFit
from dpmpc.estimators.ridge import RidgeFit
from dpmpc.privacy import Guarantee
from dpmpc.release import Release
from dpmpc.rounds import Releases, shares_of
from dpmpc.rounds.fit import MOST_ROUNDS, require_words
from dpmpc.specification import MODELS_IN_ROUNDS, OWN_NOISE, ReleaseSpec, TrustModel
from dpmpc.storage import Record
from dpmpc.task import Task

LEAST_OWNERS = 2


class OwnersPlan(Record, frozen=True, kw_only=True, tag=2, tag_field="format"):
    """The public facts of a regression between data owners; its digest is in every message.

    Parameters
    ----------
    owners : tuple of str
        What they are called, in order.
    rows : tuple of int
        How many rows each has; public.
    schema : Schema
        Columns and public bounds, the target last.
    model : {"logistic", "poisson", "ridge"}
        What is fitted.
    rounds : int
        Steering rounds after the first sum, 1 to 64 (`dpmpc.rounds.rounds_of` says how many suit so many rows).
    intervals : bool
        Whether a part of the budget goes into last rounds, for errors and intervals.
    epsilon, delta : float
        Budget of all rounds together.
    corrupt : int, optional
        Owners that may pool what they see, t, against all others: from 1 to all but one, which is the default. The
        noise in a sum has M/(M - t) times the variance that protects a row.
    simulation_seed : int, optional
        Repeatable noise, which protects nobody.
    """

    called: ClassVar[str] = "plan"

    owners: tuple[str, ...]
    rows: tuple[int, ...]
    schema: Schema
    model: str
    rounds: int
    intervals: bool
    epsilon: float
    delta: float
    corrupt: int | None = None
    simulation_seed: int | None = None

    def __post_init__(self) -> None:
        if len(self.owners) < LEAST_OWNERS:
            raise InputError(f"owners: {len(self.owners)} given, at least {LEAST_OWNERS} expected")
        if len(set(self.owners)) < len(self.owners):
            raise InputError("owners: a name given twice, different names expected")
        if len(self.rows) != len(self.owners):
            raise InputError(
                f"rows: {len(self.rows)} numbers given, one for each of {len(self.owners)} owners expected"
            )
        for count in self.rows:
            require_whole("rows", count, 1)
        require_choice("model", self.model, MODELS_IN_ROUNDS)
        require_whole("rounds", self.rounds, 1, MOST_ROUNDS)
        if self.corrupt is not None:
            require_whole("corrupt", self.corrupt)
            if not 1 <= self.corrupt < len(self.owners):
                raise InputError(
                    f"corrupt: {self.corrupt} given, 1 to {len(self.owners) - 1} expected of {len(self.owners)} owners"
                    + ("" if self.corrupt else f": {OWN_NOISE}")
                )
        if self.schema.outside != "clip":  # the others would notice, and no ledger counts it
            raise InputError(
                f"bounds: outside = {self.schema.outside!r} given, 'clip' expected: no owner refuses because of a row"
            )

    def require_possible(self) -> Guarantee:
        """Return what all rounds promise together; refuse what cannot be planned, before anybody is asked.

        Raises
        ------
        GuaranteeError, OverflowRisk, InputError
            If the budget, the columns or the rounds do not allow a fit.
        """
        require_words(len(self.schema), intervals=self.intervals)
        releases = Releases(self.specification(), _nobody)
        return releases.promise([releases.task(share) for share in self.shares])

    @property
    def shares(self) -> tuple[float, ...]:
        """The parts of mu^2 that the sums take, in order."""
        model = self.estimator().round_model(self.schema.columns[-1])
        return shares_of(model, self.rounds, intervals=self.intervals).all

    @property
    def public(self) -> tuple[Schema, int, TrustModel]:
        """Columns, rows of all and trust, as every task of this plan has them."""
        spec = self.specification()
        trust = msgspec.structs.replace(spec.trust, corrupt_servers=spec.trust.colluding_servers)
        return self.schema, spec.clients, trust

    @property
    def pooling(self) -> str:
        """How many owners there are, and how many of them may pool what they see."""
        pooling = self.specification().trust.colluding_servers
        return f"{len(self.owners)} owners, of whom any {pooling} may pool what they see"

    def price(self) -> str:
        """Say what it costs in noise that so many owners may pool what they see, and how many sums there are."""
        trust, sums = self.specification().trust, len(self.shares)
        factor, last = len(self.owners) / trust.honest_servers, sums - 1 - self.rounds
        follow = f" and {last} last round{'s' if last > 1 else ''} for errors and intervals" if last else ""
        return (
            f"{self.pooling}: the noise in a sum has {factor:.3g} times the variance that protects a row, "
            f"M/(M - t) with M = {len(self.owners)} and t = {trust.colluding_servers}. {sums} sums, an entry of the "
            f"ledger each: second moments, {self.rounds} steering round{'s' if self.rounds > 1 else ''}{follow}"
        )

    def specification(self) -> ReleaseSpec:
        """Return the sums that are wanted: the owners are the servers, and the noise of those who do not pool suffices.

        The noise of M - t owners hides a row of theirs from the t others, who subtract their own (docs/mathematics.md,
        section 12).
        """
        return ReleaseSpec.of(
            self.schema,
            sum(self.rows),
            self.epsilon,
            self.delta,
            servers=len(self.owners),
            noise_by="servers",
            corrupt_servers=self.corrupt,
            simulation_seed=self.simulation_seed,
        )

    def estimator(self) -> LogisticFit | PoissonFit | RidgeFit:
        """Return what reads the sums."""
        if self.model == "ridge":
            return RidgeFit(rounds=self.rounds, intervals=self.intervals)
        if self.model == "logistic":
            return LogisticFit(rounds=self.rounds, intervals=self.intervals)
        most = int(self.schema.columns[-1].upper)
        return PoissonFit(rounds=self.rounds, intervals=self.intervals, most=most)


def _nobody(task: Task) -> Release:
    raise InputError("ask: nobody given, a plan makes no release")
