"""What data owners agree on before any of them looks at a row."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from dpmpc.base.arguments import require_choice, require_whole
from dpmpc.base.errors import InputError
from dpmpc.base.storage import Record
from dpmpc.data import Schema
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.models import LogisticRegression, PoissonRegression, RidgeRegression
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.fit import MOST_ROUNDS, require_words, shares_of
from dpmpc.models.tables.table_one import TableOne
from dpmpc.privacy import Guarantee
from dpmpc.privacy.specification import MODELS_IN_ROUNDS, OWN_NOISE, ReleaseSpec, TrustModel
from dpmpc.privacy.task import Task
from dpmpc.release.release import Release

LEAST_OWNERS = 2
TABLE = TableOne.kind


class OwnersPlan(Record, frozen=True, kw_only=True, tag=2, tag_field="format"):
    """The public facts of a regression, or of a Table 1, between data owners; its digest is in every message.

    Parameters
    ----------
    owners : tuple of str
        What they are called, in order.
    rows : tuple of int
        How many rows each has; public.
    schema : Schema
        Columns and public bounds, the target of a regression last.
    model : {"logistic", "poisson", "ridge", "table-one"}
        What is fitted. A Table 1 is one sum, of cells.
    rounds : int
        Steering rounds after the first sum, 1 to 64 (`dpmpc.models.rounds.fit.rounds_of` states how many suit so many
        rows); 0 for a Table 1.
    intervals : bool
        Whether a part of the budget goes into sums for errors and intervals.
    epsilon, delta : float
        Budget of all rounds together.
    corrupt : int, optional
        Owners that may pool what they see, t, against all others: from 1 to all but one, which is the default. The
        noise in a sum has M/(M - t) times the variance that protects a row.
    simulation_seed : int, optional
        Repeatable noise, which protects no one.
    by : str, optional
        The column by whose values a Table 1 counts.
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
    by: str | None = None

    def __post_init__(self) -> None:
        if len(self.owners) < LEAST_OWNERS:
            raise InputError("owners", f"{len(self.owners)}", f"at least {LEAST_OWNERS}")
        if len(set(self.owners)) < len(self.owners):
            raise InputError("owners", "a name given twice, different names expected")
        if len(self.rows) != len(self.owners):
            raise InputError("rows", f"{len(self.rows)} numbers", f"one for each of {len(self.owners)} owners")
        for count in self.rows:
            require_whole("rows", count, 1)
        require_choice("model", self.model, (*MODELS_IN_ROUNDS, TABLE))
        table = self.model == TABLE
        require_whole("rounds", self.rounds, 0 if table else 1, 0 if table else MOST_ROUNDS)
        if table and self.intervals:
            raise InputError(
                "intervals", "true", "false", condition="of a Table 1, which is one sum with all intervals"
            )
        if self.by is not None and not table:
            raise InputError("by", f"{self.by!r}", "none", condition=f"of a {self.model} regression")
        if self.corrupt is not None:
            require_whole("corrupt", self.corrupt)
            if not 1 <= self.corrupt < len(self.owners):
                raise InputError(
                    "corrupt",
                    f"{self.corrupt} given, 1 to {len(self.owners) - 1} expected of {len(self.owners)} owners"
                    + ("" if self.corrupt else f": {OWN_NOISE}"),
                )
        if self.schema.outside != "clip":  # the others would notice, and no ledger counts it
            raise InputError(
                "bounds", f"outside = {self.schema.outside!r}", "'clip'", "no owner refuses because of a row"
            )

    def require_possible(self) -> Guarantee:
        """Return what all rounds promise together; refuse what cannot be planned, before any owner is asked.

        Raises
        ------
        GuaranteeError, OverflowRisk, InputError
            If the budget, the columns or the rounds do not allow a fit.
        """
        cells = self.cells
        if cells is None:
            require_words(len(self.schema), scores=self.intervals and self.model != "ridge")
        releases = Releases(self.specification(), _nobody)
        return releases.promise([releases.task(share, cells) for share in self.shares])

    @property
    def cells(self) -> CellCounts | None:
        """What the one sum of a Table 1 is of; None of a regression."""
        return CellCounts.of(self.schema, self.by) if self.model == TABLE else None

    @property
    def shares(self) -> tuple[float, ...]:
        """The parts of mu^2 that the sums take, in order."""
        if self.model == TABLE:
            return (1.0,)
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
        """Return what it costs in noise that so many owners may pool what they see, and how many sums there are."""
        trust, sums = self.specification().trust, len(self.shares)
        factor, last = len(self.owners) / trust.honest_servers, sums - 1 - self.rounds
        several = "s" if self.rounds > 1 else ""
        of = f"{sums} sums, an entry of the ledger each: second moments, {self.rounds} steering round"
        follow = f" and {last} sum{'s' if last > 1 else ''} for errors and intervals" if last else ""
        return (
            f"{self.pooling}: the noise in a sum has {factor:.3g} times the variance that protects a row, "
            f"M/(M - t) with M = {len(self.owners)} and t = {trust.colluding_servers}. "
            + ("One sum, one entry of the ledger: cells" if self.model == TABLE else f"{of}{several}{follow}")
        )

    @property
    def target(self) -> str | None:
        """The column that a regression predicts."""
        return None if self.model == TABLE else self.schema.names[-1]

    @property
    def answered(self) -> str:
        """What the rows answer for."""
        if self.model == TABLE:
            return "a Table 1" if self.by is None else f"a Table 1 by {self.by!r}"
        return f"a {self.model} regression of {self.target!r}"

    def specification(self) -> ReleaseSpec:
        """Return the sums that are wanted: the owners are the servers, and the noise of those who do not pool suffices.

        The noise of M - t owners hides a row of theirs from the t others, who subtract their own (theorem owner-noise).
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

    def fitted(self, releases: Releases) -> LogisticRegression | PoissonRegression | RidgeRegression | TableOne:
        """Have the sums made by what answers them, owners or files, and return what is read from them."""
        cells = self.cells
        if cells is None:
            return self.estimator().fit_rounds(releases)
        return TableOne().fit_release(releases.make(self.shares[0], cells))

    def estimator(self) -> LogisticRegression | PoissonRegression | RidgeRegression:
        """Return what reads the sums of a regression."""
        if self.model == "ridge":
            return RidgeRegression(rounds=self.rounds, intervals=self.intervals)
        if self.model == "logistic":
            return LogisticRegression(rounds=self.rounds, intervals=self.intervals)
        most = int(self.schema.columns[-1].upper)
        return PoissonRegression(rounds=self.rounds, intervals=self.intervals, most=most)


def _nobody(task: Task) -> Release:
    raise InputError("ask", "none given, a plan makes no release")
