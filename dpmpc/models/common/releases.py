"""The releases of one fit, and what they promise together.

Every round is a `Sum` release of its own: calibrated, verified and answered with fresh noise. With Gaussian noise a
round has a parameter mu, and the squares of all rounds' add up, also where a round is chosen by what earlier ones have
shown (Dong, Roth and Su 2022, Corollary 3.3; for shares that depend on them too, Smith and Thakurta 2022).

Promised: what all releases give together is computed before each is made, and none is made that would exceed the
budget. The neighbouring relation is that of each: one client's row is replaced, in all rounds alike, where it takes
part. Not promised: protection of clients whose reports of one round are opened twice; or secrecy of who takes part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from dpmpc.base.arguments import require_whole
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.data import Schema
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.privacy import Guarantee
from dpmpc.privacy.composition import Cost, composed_epsilon
from dpmpc.privacy.gaussian import epsilon_of_mu, mu_of_budget
from dpmpc.privacy.specification import Budget, ReleaseSpec, Sketch
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.release import Release

Ask: TypeAlias = Callable[[Task], Release]
Present: TypeAlias = Callable[[int], int]

FRACTIONAL_BITS = 24
ROUNDING = 1e-9  # relative part of the budget that is left for the rounding of searches
NOISE = "discrete-gaussian"
_IN_ROUNDS = "of a model in rounds"


def why_one_release(spec: ReleaseSpec) -> InputError | None:
    """Return the error of a public choice that only one release can have, and no model in rounds, if there is one."""
    mechanism = spec.mechanism
    for argument, given, expected in (
        ("noise", mechanism.noise, NOISE),
        ("calibration", mechanism.calibration, "joint"),
        ("coalition", spec.trust.coalition, "adaptive"),
    ):
        if given != expected:
            return InputError(argument, repr(given), repr(expected), condition=_IN_ROUNDS)
    if spec.by is not None:
        return InputError("by", repr(spec.by), "none", "groups share one release", condition=_IN_ROUNDS)
    return weights_in_rounds() if spec.schema.weighted else None


def weights_in_rounds() -> InputError:
    """Return the error of rows with weights, or that contribute zeros, in a model in rounds."""
    indicator = 'if_missing = "indicator" keeps rows that lack a feature'
    return InputError("bounds", "with weights or rows of zeros", "neither", indicator, condition=_IN_ROUNDS)


class Releases:
    """Makes releases within one budget.

    Parameters
    ----------
    spec : ReleaseSpec
        Columns, clients, the whole budget, trust and mechanism. Its contribution is replaced in each round.
    ask : callable
        ``ask(task)`` has clients and servers make the release of a task.
    present : callable, optional
        ``present(number)`` says, before the sum of that number is asked for, how many of the clients take part in it;
        0 is the number of the second moments. By default all. It is public, and must not depend on rows.

    Attributes
    ----------
    mu : float
        The whole budget, as the parameter of a Gaussian mechanism.
    made : list of Release
        So far.
    """

    def __init__(self, spec: ReleaseSpec, ask: Ask, *, present: Present | None = None):
        if (error := why_one_release(spec)) is not None:
            raise error
        require_whole("clients", spec.clients, 1)
        bits = msgspec.structs.replace(spec.mechanism, fractional_bits=FRACTIONAL_BITS)
        self._spec = msgspec.structs.replace(spec, mechanism=bits, sketch=Sketch(kind="sum"), contribution=None)
        self._ask, self._present = ask, present or (lambda number: spec.clients)
        self.mu = mu_of_budget(spec.budget.epsilon, spec.budget.delta)
        self.made: list[Release] = []

    @property
    def schema(self) -> Schema:
        """Columns and public bounds, the target last."""
        return self._spec.schema

    def narrow(self, schema: Schema) -> None:
        """Take these bounds of the same columns for all releases that follow."""
        self._spec = msgspec.structs.replace(self._spec, schema=schema)

    @property
    def clients(self) -> int:
        """Number of clients, n."""
        return self._spec.clients

    @property
    def columns(self) -> int:
        """Number of columns, target included."""
        return len(self._spec.schema)

    @property
    def left(self) -> float:
        """How many more can be made: no number where somebody answers."""
        return math.inf

    def task(self, share: float, contribution: Contribution | None = None) -> Task:
        """Return the verified task of a release that takes a share of mu^2: of second moments unless told otherwise."""
        budget = self._spec.budget
        epsilon = epsilon_of_mu(self.mu_of(share), budget.delta)
        if not epsilon > 0:
            design(self._spec)  # which names a delta that is too large for any release
            raise GuaranteeError(
                "epsilon",
                f"{budget.epsilon:g} given at delta = {budget.delta:g}, more expected: a share of {share:g} "
                "of it is no budget that noise is computed for",
            )
        own, number = Budget(epsilon, budget.delta), len(self.made)
        clients = require_whole(f"present({number})", self._present(number), 1, self.clients)
        return design(msgspec.structs.replace(self._spec, clients=clients, budget=own, contribution=contribution))

    def mu_of(self, share: float) -> float:
        """Return the parameter of a release that takes a share of mu^2."""
        return self.mu * math.sqrt(share * (1 - ROUNDING))

    def make(self, share: float, contribution: Contribution | None = None) -> Release:
        """Have one more release made.

        Raises
        ------
        GuaranteeError
            If all releases together would exceed the budget; then it is not made.
        """
        task = self.task(share, contribution)
        self.require_within_budget(task)
        release = self._ask(task)
        if release.task.digest != task.digest:
            raise InputError("ask", "the release of another task", "that of the task that was asked for")
        self.made.append(release)
        return release

    @property
    def guarantee(self) -> Guarantee:
        """What all releases so far promise together."""
        return self.promise([release.task for release in self.made])

    def promise(self, tasks: Sequence[Task]) -> Guarantee:
        """Return what the releases of these tasks promise together, if they are within the budget.

        Raises
        ------
        GuaranteeError
            If they are not.
        """
        last = min(tasks, key=lambda task: task.clients).guarantee  # the one that counts on the fewest
        absent = any(task.clients < self.clients for task in tasks)
        mu = math.sqrt(math.fsum(float(task.guarantee.mu or 0.0) ** 2 for task in tasks))
        kept = tuple(code for code in last.assumptions if code != "one-release")
        return msgspec.structs.replace(
            last,
            epsilon=self._spec.budget.epsilon,
            delta=self._spec.budget.delta,
            achieved_epsilon=self._require_within_budget(tasks),
            sums=len(tasks),
            mu=mu,
            rho=mu**2 / 2,
            slack=math.fsum(task.guarantee.slack for task in tasks),
            clients=self.clients,
            preconditions=msgspec.structs.replace(last.preconditions, clients=self.clients),
            assumptions=(*kept, "absent" if absent else "fresh-rounds", "corrupt-over-rounds"),
            sources=(*last.sources, "adaptive-gaussians"),
        )

    def require_within_budget(self, task: Task) -> None:
        """Refuse one more release that would exceed the budget.

        Raises
        ------
        GuaranteeError
            If all releases together would.
        """
        self._require_within_budget([*(release.task for release in self.made), task])

    def _require_within_budget(self, tasks: Sequence[Task]) -> float:
        """Return the epsilon of the tasks together, or refuse it."""
        budget = self._spec.budget
        epsilon = composed_epsilon([Cost.of(task.guarantee) for task in tasks], budget.delta)
        if not epsilon <= budget.epsilon:
            raise GuaranteeError(
                "epsilon",
                f"{epsilon:.6g} of {len(tasks)} releases together at delta = {budget.delta:g}, at most "
                f"{budget.epsilon:g} expected",
            )
        return epsilon
