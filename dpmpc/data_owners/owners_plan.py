"""What data owners agree on before any of them looks at a row."""

from __future__ import annotations

from typing import ClassVar

from dpmpc.arguments import require_choice, require_whole
from dpmpc.data import Schema
from dpmpc.errors import InputError
from dpmpc.estimators.in_rounds import LogisticFit, PoissonFit
from dpmpc.estimators.ridge import RidgeFit
from dpmpc.privacy import Guarantee
from dpmpc.release import Release
from dpmpc.rounds import AUTO, Releases, rounds_of, shares_of
from dpmpc.specification import MODELS_IN_ROUNDS, OWN_NOISE, ReleaseSpec
from dpmpc.storage import Record
from dpmpc.task import Task

LEAST_OWNERS = 2


class OwnersPlan(Record, frozen=True, kw_only=True):
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
        Rounds of scores after the first sum; 0 stands for "auto". A ridge regression has one, and 0 here.
    alpha : float
        Penalty of a ridge regression.
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
    alpha: float
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
        estimator = self.estimator()
        if isinstance(estimator, RidgeFit):
            estimator.check_parameters()
        model = estimator.round_model(self.schema.columns[-1])
        rounds = rounds_of(self.rounds or AUTO, sum(self.rows), intervals=True)
        shares = shares_of(model, rounds, intervals=True).all
        releases = Releases(self.specification(), _nobody)
        return releases.promise([releases.task(share) for share in shares])

    @property
    def pooling(self) -> str:
        """How many owners there are, and how many of them may pool what they see."""
        pooling = self.specification().trust.colluding_servers
        return f"{len(self.owners)} owners, of whom any {pooling} may pool what they see"

    def price(self) -> str:
        """Say what it costs in noise that so many owners may pool what they see."""
        trust = self.specification().trust
        factor = len(self.owners) / trust.honest_servers
        return (
            f"{self.pooling}: the noise in a sum has {factor:.3g} times the variance that protects a row, "
            f"M/(M - t) with M = {len(self.owners)} and t = {trust.colluding_servers}"
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
            return RidgeFit(rounds=self.rounds or AUTO)
        if self.model == "logistic":
            return LogisticFit(rounds=self.rounds or AUTO)
        return PoissonFit(rounds=self.rounds or AUTO, most=int(self.schema.columns[-1].upper))


def _nobody(task: Task) -> Release:
    raise InputError("ask: nobody given, a plan makes no release")
