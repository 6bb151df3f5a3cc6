"""Everything public about one release, agreed before a row is touched.

A `Task` travels to clients, servers and the analyst as JSON; its digest is bound into every frame that a server sends
and into the release. It holds no secret. Nobody has to take its word: `Task.verify` recomputes the privacy
guarantee and the proof that no sum wraps around, from the task's own facts, and returns a `VerifiedTask`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, cast

import msgspec
import numpy as np
from msgspec.structs import force_setattr

from dpmpc.base.arguments import require_bool, require_choice, require_float
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.storage import Record, canonical
from dpmpc.base.storage.records import malformed
from dpmpc.data import Schema
from dpmpc.linear.contributions import contribution_from
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint, ModulusPlan, plan_modulus
from dpmpc.linear.noise import Noise, noise_from
from dpmpc.linear.noise.integer import NoNoise
from dpmpc.linear.proving.contributions import ProvedContribution
from dpmpc.linear.proving.decide import fewest_present
from dpmpc.linear.proving.noise import ProvedNoise
from dpmpc.linear.proving.statements import Proved
from dpmpc.linear.sharing import AdditiveSharing, ShamirSharing
from dpmpc.linear.sketching import PublicMatrix, sketch_from
from dpmpc.privacy.calibration import CUT_OFF, Calibration, NoisePlacement
from dpmpc.privacy.guarantee import Guarantee, NoGuarantee, Promise
from dpmpc.privacy.specification import CALIBRATIONS, SHARINGS, TrustModel

LONGEST_CHECK = 60.0  # seconds of one core that checking somebody else's task may take, unless told otherwise
_ENTRY_SECONDS = 3e-8  # to draw an entry of a sparse matrix and to weigh it, on a slow core
_PRODUCT_SECONDS = 1e-9  # of linear algebra, for each product of three


class PublicFacts(Record, frozen=True):
    """The public facts of a release of any kind before it happens, and what follows from that.

    Subclasses have the fields `epsilon`, `delta` and `simulation`, and state what is guaranteed and why no sum wraps
    around.
    """

    called: ClassVar[str] = "task"

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):  # plain floats, whatever type was given: they are part of the digest
            force_setattr(self, name, require_float(name, getattr(self, name)))
        require_bool("simulation", getattr(self, "simulation", None))

    @property
    def guarantee(self) -> Promise:
        """What is promised, recomputed from the public facts; an error if they do not give it."""
        raise NotImplementedError

    @functools.cached_property
    def modulus_plan(self) -> ModulusPlan:
        """The proof that no released integer wraps around; an error if it might."""
        return self.prove_no_overflow()

    def verify(self) -> Self:
        """Recompute the guarantee and the overflow proof; return the facts themselves.

        Raises
        ------
        GuaranteeError
            If the noise does not give what is guaranteed.
        OverflowRisk
            If a sum might wrap around.
        """
        self._require_what_is_promised()
        return self

    def _require_what_is_promised(self) -> None:
        with malformed(self.called):
            self.require_enough_noise()
            self.prove_no_overflow()

    def require_enough_noise(self) -> None:
        """Raise a `GuaranteeError` unless the noise gives what is guaranteed."""
        raise NotImplementedError

    def prove_no_overflow(self) -> ModulusPlan:
        """Prove that no released integer wraps around; raise an `OverflowRisk` if it might."""
        raise NotImplementedError


class Task(PublicFacts, frozen=True, tag=2, tag_field="format"):
    """The public facts of one release.

    Parameters
    ----------
    schema : Schema
        Columns and their public bounds.
    statistic : Contribution
        What each client contributes. It is called `statistic` in files since version 0.1.
    encoding : FixedPoint
        Fixed point and the ring or field that the shares live in.
    sketch : PublicMatrix
        k x n, unscaled; n is the number of clients.
    noise : Noise
        What is added to each entry of a contribution, in integer units.
    trust : TrustModel
        Servers, and who of them and of the clients may collude.
    noising : NoisePlacement
        Who adds the noise, and to how many copies.
    epsilon, delta : float
        What is promised; delta may be 0 with discrete Laplace noise.
    sharing : {"additive", "shamir"}
        How a contribution is split among the servers.
    calibration : {"joint", "paper"}
        How the noise was chosen.
    simulation : bool
        Whether the clients' randomness can be repeated from a seed; the release then states that it protects no one.
    """

    readers: ClassVar[Mapping[type, Callable[[Any], Any]]] = {
        Contribution: contribution_from,
        FixedPoint: FixedPoint.from_facts,
        PublicMatrix: sketch_from,
        Noise: noise_from,
    }
    schema: Schema
    statistic: Contribution
    encoding: FixedPoint
    sketch: PublicMatrix
    noise: Noise
    trust: TrustModel
    noising: NoisePlacement
    epsilon: float
    delta: float
    sharing: str = "additive"
    calibration: str = "joint"
    simulation: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trust.corrupt_servers is None:
            raise InputError("corrupt_servers", "None", "a whole number", "a task states what it relies on")
        require_choice("sharing", self.sharing, SHARINGS)
        if self.sharing == "shamir" and self.encoding.ring.name != "mersenne61":
            raise InputError("ring", f"{self.encoding.ring.name!r}", "'mersenne61'", condition="with Shamir shares")
        require_choice("calibration", self.calibration, CALIBRATIONS)
        if not self.noise.integer:
            raise InputError("noise", self.noise.name, "an integer noise", "shares are integers")
        proved = isinstance(self.statistic, ProvedContribution)
        if self.sharing == "shamir" and self.servers_add_noise and not proved:
            raise InputError(
                "sharing",
                "'shamir'",
                "'additive'",
                "a server's own noise is no share, and noise is dealt in shares only in a collection with proofs",
                condition="where servers add noise and clients prove nothing",
            )
        if proved:
            self._require_provable()
        self._require_dealers()

    def _require_provable(self) -> None:
        """Refuse what cannot be proved: shares in another ring, and noise that clients add."""
        if self.encoding.ring.name != "mersenne61":
            raise InputError("ring", f"{self.encoding.ring.name!r}", "'mersenne61'", condition="where clients prove")
        if self.noising.by != "servers":
            raise InputError(
                "noise_by",
                f"{self.noising.by!r}",
                "'servers'",
                "no client can prove noise, and a report that is dropped would take its noise along",
                condition="where clients prove what they share",
            )

    def _require_dealers(self) -> None:
        """Refuse dealt noise where none is needed, or by fewer servers than may be present."""
        dealers, servers = self.noising.dealers, self.trust.servers
        fewest = fewest_present(self.scheme)  # the scheme rejects a threshold that it does not have
        if self.sharing != "shamir" or not self.servers_add_noise:
            if self.noising.dealt:
                raise InputError("dealers", dealers, "none", "only noise for Shamir shares is dealt")
            return
        if fewest > servers:
            raise InputError(
                "corrupt_servers",
                f"{self.trust.colluding_servers} of {servers}",
                "fewer than half",
                condition="where servers check proofs on Shamir shares",
            )
        if not isinstance(dealers, int) or not fewest <= dealers <= servers:
            raise InputError(
                "dealers",
                f"{dealers or 'none'}",
                f"{fewest} to {servers}",
                f"at least {fewest} of {servers} servers are present, and each of those deals its noise",
            )

    @property
    def clients(self) -> int:
        """Number of clients, n."""
        return self.sketch.columns

    @property
    def width(self) -> int:
        """Number of entries that a client contributes."""
        return self.statistic.width(len(self.schema))

    @property
    def copies(self) -> int:
        """Number of copies of its row that a client sends: one, or one for each of its rows in the sketch."""
        return self.noising.copies_for(self.sketch)

    @property
    def servers_add_noise(self) -> bool:
        """Whether every server adds noise to its share of the sums before it is opened."""
        return self.noising.by_servers(self.sketch)

    @property
    def noise_is_dealt(self) -> bool:
        """Whether each server deals its noise in shares, as Shamir shares need; it then ends at `noise_bound`."""
        return self.noising.dealt

    @functools.cached_property
    def noise_bound(self) -> int:
        """What noise that a server deals stays within, in integer units: a multiple of 3, as proofs write it.

        A server cuts off what lies beyond, which happens to any draw of the release with probability `CUT_OFF`.
        """
        draws = self.sketch.rows * self.width * self.trust.servers
        tail = self.noise.tail(1, math.log(2 * draws) - math.log(CUT_OFF))
        return 3 * math.ceil(tail / 3)

    @property
    def dealt_noise(self) -> ProvedNoise:
        """What a server proves of the noise that it deals.

        Raises
        ------
        InputError
            If no noise is dealt.
        OverflowRisk
            If the range is too wide for the field.
        """
        if not self.noise_is_dealt:
            raise InputError("task", "one whose servers deal no noise", "one with Shamir shares and proofs")
        return ProvedNoise(self.sketch.rows * self.width, self.noise_bound)

    @functools.cached_property
    def noise_terms(self) -> Integers:
        """Number of draws of the noise in each entry of a row of the opened sums, int64 (k,)."""
        return self.noising.terms(self.sketch, self.trust.servers)

    @property
    def share_shape(self) -> tuple[int, int, int]:
        """Shape of one server's share of the whole batch: clients, copies, entries."""
        return (self.clients, self.copies, self.width)

    @property
    def sensitivity(self) -> Sensitivity:
        """By how much one client moves its encoded contribution."""
        return self.statistic.sensitivity(len(self.schema), self.encoding)

    @functools.cached_property
    def units(self) -> Reals:
        """Value of one integer in each entry (width,) of the sums, in the scaled, normalised sketch: scale / 2^f.

        Where contributions are proved, entries have their own units, which differ by 0.03 %.
        """
        return self.sketch.scale * self.statistic.units(len(self.schema), self.encoding)

    @functools.cached_property
    def unit(self) -> float:
        """The largest of the `units`; of all entries the same unless contributions are proved."""
        return float(self.units.max())

    @functools.cached_property
    def proofs(self) -> Proved | None:
        """What clients prove of their contributions; None where they prove nothing."""
        if not isinstance(self.statistic, ProvedContribution):
            return None
        return self.statistic.statement(len(self.schema), self.encoding)

    @functools.cached_property
    def noise_variance(self) -> Reals:
        """Variance of the noise in each row's entries, float64 (k,), in the units of the scaled, normalised sketch."""
        return np.asarray(self.noise_terms * (self.noise.variance * self.unit**2), dtype=np.float64)

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee, recomputed from the public facts; an error if they do not give what is guaranteed."""
        return self.guarantee_under(self.scheme.conduct)

    @functools.cached_property
    def unopened_guarantee(self) -> Guarantee:
        """The guarantee where servers open products of the sketch that `parties.mpyc.checked.checked_gram` has checked.

        Raises
        ------
        InputError
            If the shares are additive: MPyC cannot multiply those.
        """
        return self.guarantee_under(self._shamir.unopened_conduct)

    @functools.cached_property
    def passive_guarantee(self) -> Guarantee:
        """The guarantee where MPyC computes on the sketch and nothing is checked, which takes honest servers.

        Raises
        ------
        InputError
            If the shares are additive.
        """
        return self.guarantee_under(self._shamir.passive_conduct)

    @property
    def _shamir(self) -> ShamirSharing:
        if not isinstance(self.scheme, ShamirSharing):
            raise InputError("sharing", f"{self.sharing!r}", "'shamir'", "MPyC computes on Shamir shares")
        return self.scheme

    @property
    def noiseless(self) -> bool:
        """Whether nobody adds noise; the task is then a simulation, and its guarantee is none."""
        return isinstance(self.noise, NoNoise)

    def without_noise(self) -> Task:
        """Return the same task without noise, for timing and for checks of exactness: it protects no one."""
        return msgspec.structs.replace(self, noise=NoNoise(), simulation=True)

    def guarantee_under(self, conduct: str) -> Guarantee:
        """Recompute the guarantee under what is assumed of the servers' conduct; `NoGuarantee` where there is none."""
        if self.noiseless:
            return cast(Guarantee, NoGuarantee(self.clients))
        return self._calibration.guarantee(self.noise, conduct)

    @functools.cached_property
    def _calibration(self) -> Calibration:
        return Calibration(
            self.sketch,
            self.sensitivity,
            self.epsilon,
            self.delta,
            self.trust,
            self.noising,
            self.calibration,
            self.simulation,
        )

    def require_enough_noise(self) -> None:
        """Raise a `GuaranteeError` unless the noise gives what is guaranteed.

        A server that verifies a task prints no guarantee, which takes longer.
        """
        if not self.noiseless:
            self._calibration.require_enough(self.noise)
        elif not self.simulation:
            raise GuaranteeError("noise", "none", "some", condition="in a task that is no simulation")

    def epsilon_against(self, corrupt_clients: int) -> float:
        """Return epsilon at the task's delta if this many clients reveal their noise; infinite if nothing is proven."""
        if self.noiseless:
            return math.inf
        trust = msgspec.structs.replace(self.trust, corrupt_clients=corrupt_clients)
        return dataclasses.replace(self._calibration, trust=trust).epsilon_of(self.noise)

    def prove_no_overflow(self) -> ModulusPlan:
        """Prove that no entry of the opened sum wraps around; raise an `OverflowRisk` if it might."""
        return plan_modulus(
            self.encoding.ring,
            int(self.sketch.occupancy().max()),
            self.statistic.largest_entry(self.encoding),
            self.noise_tail(int(self.noise_terms.max())),
            self.sketch.rows * self.width,
        )

    def noise_tail(self, draws: int) -> Callable[[float], float]:
        """Bound a sum of this many draws of the noise, as a function of the log-odds (`Noise.tail`).

        Where servers deal noise, lying ones may choose it within its range: all of it counts.
        """
        chosen = self.trust.servers * self.noise_bound if self.noise_is_dealt else 0
        return lambda log_odds: max(self.noise.tail(draws, log_odds), chosen)

    @property
    def check_seconds(self) -> float:
        """Estimate how long `verify` takes: the entries of the matrix are drawn once more, unless a formula will do.

        A sum needs no entry, whatever the number of clients. Where the noise of one copy reaches several rows, their
        overlaps (k, k) are inverted, and every client's place is weighed with the inverse.
        """
        if self.sketch.family == "sum":
            return 0.0
        clients, places, rows = self.sketch.columns, self.sketch.sparsity, self.sketch.rows
        seconds = _ENTRY_SECONDS * (clients * places + rows)
        if self.noising.reaches_several_rows(self.sketch):
            seconds += _PRODUCT_SECONDS * (clients * places**2 + 10 * rows**3)
        return seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def verify(self) -> VerifiedTask:
        """Recompute the guarantee and the overflow proof; return the same facts as a `VerifiedTask`.

        Raises
        ------
        GuaranteeError
            If the noise does not give what is guaranteed.
        OverflowRisk
            If a sum might wrap around.
        """
        return self._verified

    @functools.cached_property
    def _verified(self) -> VerifiedTask:
        return VerifiedTask(**msgspec.structs.asdict(self))

    def require_checkable(self, longest: float = LONGEST_CHECK) -> Task:
        """Return the task itself if `verify` takes no longer than that: whoever wrote the task chose its size.

        Raises
        ------
        InputError
            If it would take longer.
        """
        if self.check_seconds > longest:
            raise InputError(
                "task",
                f"{self.clients:,} clients in {self.sketch.sparsity:,} of {self.sketch.rows:,} rows each "
                f"given, whose guarantee takes about {self.check_seconds:.0f} s to recompute, at most "
                f"{longest:g} s expected: if you trust where the file comes from, allow more with "
                "longest=SECONDS (--longest SECONDS)",
            )
        return self

    @functools.cached_property
    def scheme(self) -> AdditiveSharing | ShamirSharing:
        """The secret sharing scheme among the servers."""
        if self.sharing == "shamir":
            return ShamirSharing(servers=self.trust.servers, threshold=self.trust.colluding_servers)
        return AdditiveSharing(servers=self.trust.servers, ring=self.encoding.ring)

    @functools.cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical JSON form: 32 bytes that two parties compare to know that they do the same task."""
        return hashlib.sha256(canonical(self)).digest()


class VerifiedTask(Task, frozen=True, tag=2, tag_field="format"):
    """A task whose guarantee and overflow proof this process has recomputed from its facts.

    There is none without that: the constructor does it, also for a copy with another field
    (`msgspec.structs.replace`). `Client` and `transform` take nothing else.

    Raises
    ------
    GuaranteeError
        If the noise does not give what is guaranteed.
    OverflowRisk
        If a sum might wrap around.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_what_is_promised()

    def verify(self) -> VerifiedTask:
        """Return the task itself."""
        return self

    def facts(self) -> Task:
        """Return the facts alone: another process that reads them need not recompute the guarantee."""
        return Task(**{name: getattr(self, name) for name in self.__struct_fields__})


def require_verified(task: Task) -> VerifiedTask:
    """Return a task that has been verified, and reject any other.

    Raises
    ------
    InputError
        If it is a mere `Task`.
    """
    if not isinstance(task, VerifiedTask):
        raise InputError("task", f"a {type(task).__name__} given, a VerifiedTask expected, as task.verify() returns it")
    return task
