"""What `python -m bench audit` audits: small tasks of every mechanism, made by the functions that make the large ones.

Tasks are small, so that many releases can be simulated: the calibration is the same code, and a dozen clients have the
leverages that a formula would have to get right. To add a mechanism, add a function of (epsilon, delta, seed).

`MECHANISMS` are run. `ATTACKS` are what servers and clients may do to a release within the words of its claim
(`bench.audit.system_attacks`). `SUBJECTS` are both.

Audit of claims of mutual information about one entry of X (`dpmpc.models.papers.mutual_information`), in bits.

The entry is -1 or 1, each half of the time, and everything else is known. `AdditiveNoise` hides entries one by one, so
that a fit of R rows is R releases. For `RandomProjection` all other rows are 0, so that nothing but the noise hides the
entry, and y, which counts as known, is 1 in its row: S y shows the entry's column of S. One fit gives sigma; S and the
noise are then drawn as its `fit` draws them, the rows of R projections at once.

A claim of bits holds for every law of the entry. The one that is tried here has at most one bit, and a decision in
place of the release loses some more, so that the bound stays below the claim by much where that is a bit or more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.audit.mechanism import AuditedMechanism, Claim, Subject
from bench.audit.sums import Parties, Sums
from bench.audit.system_attacks import MissingClients, RepeatedRelease, designed_again, surrounded
from bench.audit.whole_fit import WholeFit
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import SEED_BYTES, Stream
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.contributions.residual_products import ResidualProducts
from dpmpc.linear.contributions.scores import Logistic, Scores
from dpmpc.linear.noise.floating import Gaussian
from dpmpc.linear.sketching.dense import GaussianProjection
from dpmpc.models.papers.coinpress.steps import Round, covariance_round, mean_round
from dpmpc.models.papers.coinpress.summation import Servers
from dpmpc.models.papers.mutual_information import AdditiveNoise, RandomProjection
from dpmpc.owners import columns as data_release
from dpmpc.privacy.gaussian import mu_of_budget
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design


class NoisyEntry(AuditedMechanism):
    """X + sigma N."""

    shifts = np.array([[2.0]])

    def __init__(self, bits: float):
        self.claim = Claim(bits=bits)

    def observe(self, moved: int | None, releases: int, stream: Stream) -> Reals:
        """Fit as many rows as releases; return the released entries less -1."""
        X = np.full((releases, 1), -1.0 if moved is None else 1.0)
        fitted = AdditiveNoise(self.claim.bits or 0.0, simulation_seed=_seed(stream)).fit(X, np.zeros(releases))
        return np.asarray(fitted.released_X_ + 1)


class ProjectedEntry(AuditedMechanism):
    """(S X + sigma N, S y) with a secret S."""

    def __init__(self, bits: float, rows: int = 3):
        self.claim = Claim(bits=bits)
        self.shifts = np.array([[2.0 * rows]])
        self._rows = rows

    def observe(self, moved: int | None, releases: int, stream: Stream) -> Reals:
        """Return the inner products of the two projected columns, which are sufficient, less their mean."""
        entry = -1.0 if moved is None else 1.0
        fitted = RandomProjection(self.claim.bits or 0.0, rows=self._rows, simulation_seed=_seed(stream))
        sigma = fitted.fit([[entry]], [1.0]).sigma_
        many = releases * self._rows
        secret = GaussianProjection(many, 1, stream.bytes(SEED_BYTES)).apply(np.array([[entry, 1.0]]))
        noisy = secret[:, 0] + Gaussian(sigma).sample(many, stream=stream)
        products = (noisy * secret[:, 1]).reshape(releases, self._rows).sum(axis=1)
        return np.asarray(products + self._rows)[:, None]


def _seed(stream: Stream) -> int:
    return int.from_bytes(stream.bytes(SEED_BYTES), "little")


CLIENTS = 12
ROWS = 4
NAMES = ("a", "b")
MATRICES = 8
STEERING_ROUNDS = 8
CORNERS = ((-1.0, -1.0), (1.0, 1.0))

Factory = Callable[[float, float, int], AuditedMechanism]
SystemFactory = Callable[[float, float, int], Subject]


def sketched(epsilon: float, delta: float, seed: int, **choices: Any) -> AuditedMechanism:
    """Build the audit of rows of two columns, in a sketch of four rows."""
    options = {"sketch": "osnap", "rows": ROWS, "sparsity": 2, "copies": "each", "clients": CLIENTS, **choices}
    return Sums(
        design(ReleaseSpec.of(Schema.unit(NAMES), epsilon=epsilon, delta=delta, simulation_seed=seed, **options)),
        CORNERS,
    )


def pure(epsilon: float, delta: float, seed: int, **choices: Any) -> AuditedMechanism:
    """Build the audit of discrete Laplace noise, whose delta is 0, in a small sketch, because it is slow to draw."""
    small = {"clients": 6, "rows": 3, "sparsity": 1, "servers": 2, "fractional_bits": 8}
    return sketched(epsilon, 0.0, seed, noise="discrete-laplace", **small, **choices)


def second_moments(epsilon: float, delta: float, seed: int) -> AuditedMechanism:
    """Build the audit of summed second moments; the rows, each with its constant, are orthogonal."""
    task = design(
        ReleaseSpec.of(Schema.unit(("a", "b", "c")), CLIENTS // 2, epsilon, delta, sketch="sum", simulation_seed=seed)
    )
    return Sums(task, ((1.0, 1.0, 1.0), (1.0, -1.0, -1.0)))


def by_group(epsilon: float, delta: float, seed: int) -> AuditedMechanism:
    """Build the audit of second moments by group: two rows of the longest norm, in different groups."""
    numbers = tuple(Variable(name, -1.0, 1.0) for name in NAMES)
    public = Schema.of_codebook(Codebook((*numbers, Variable("group", values=("x", "y", "z")))))
    task = design(ReleaseSpec.of(public, CLIENTS // 2, epsilon, delta, by="group", simulation_seed=seed))
    return Sums(task, ((1.0, 1.0, 1.0, 0.0), (1.0, 1.0, 0.0, 1.0)))


def scores(epsilon: float, delta: float, seed: int) -> AuditedMechanism:
    """Build the audit of a round of logistic scores: two cases that nobody expected, with opposite features."""
    return _opposite_features(Scores([1.0, 20.0], [-60.0, 0.0], Logistic()), epsilon, delta, seed)


def second_sum(epsilon: float, delta: float, seed: int) -> AuditedMechanism:
    """Build the audit of squared residuals times products, at residuals as long as they can be.

    The target is 1 where -1 is predicted. Opposite features move a product by 2 and no square, as far as two columns
    allow (`dpmpc.linear.contributions.residual_products`).
    """
    return _opposite_features(ResidualProducts([-1.0, 0.0]), epsilon, delta, seed)


def _opposite_features(contribution: Contribution, epsilon: float, delta: float, seed: int) -> AuditedMechanism:
    """Build the audit of a sum of contributions, by two rows with a target of 1 and features of 1 and of -1."""
    options = {"contribution": contribution, "fractional_bits": 24, "simulation_seed": seed}
    return Sums(
        design(ReleaseSpec.of(Schema.unit(NAMES), CLIENTS, epsilon, delta, **options)), ((1.0, 1.0), (-1.0, 1.0))
    )


def steered_fit(epsilon: float, delta: float, seed: int) -> AuditedMechanism:
    """Build the audit of a regression of eight steering rounds, whatever each of them is steered by."""
    spec = ReleaseSpec.of(Schema.unit((*NAMES, "target")), CLIENTS, epsilon, delta, simulation_seed=seed)
    return WholeFit(spec, ((1.0, 1.0, 1.0), (1.0, 1.0, -1.0)), STEERING_ROUNDS)


def mixed(epsilon: float, delta: float, seed: int, *, rows: int | None, protects: str = "party") -> AuditedMechanism:
    """Build the audit of two parties of two columns and one."""
    columns = (("a", "b"), ("c",))
    return Parties(data_release.design(columns, 8, epsilon, delta, rows=rows, protects=protects, simulation=True))


def coinpress_mean(epsilon: float, delta: float, seed: int) -> AuditedMechanism:
    """Build the audit of one round of a mean about (0, 0) among servers."""
    published = mean_round(NAMES, np.zeros(2), 2.0, _rho(epsilon, delta))
    reach = float(published.schema.slope[0])
    return _round(published, delta, seed, ((-reach, 0.0), (reach, 0.0)))


def coinpress_covariance(epsilon: float, delta: float, seed: int) -> AuditedMechanism:
    """Build the audit of one round of a covariance of at most 4 I, with two orthogonal rows that are clipped."""
    published = covariance_round(NAMES, np.eye(2) / 2, 4.0, _rho(epsilon, delta), triangle=False)
    box = float(published.schema.slope[0])
    return _round(published, delta, seed, ((box, 0.0), (0.0, box)))


def _round(published: Round, delta: float, seed: int, pair: Any) -> AuditedMechanism:
    servers = Servers(published.rho, delta, seed)
    return Sums(servers.task(published, CLIENTS), pair)


def _rho(epsilon: float, delta: float) -> float:
    return mu_of_budget(epsilon, delta) ** 2 / 2


def missing(epsilon: float, delta: float, seed: int, **choices: Any) -> Subject:
    """Build the audit of sketches that promise to hold although three contributions are missing."""
    made = {"sketch": "osnap", "rows": 40, "sparsity": 2, "dropouts": 3, **choices}
    tasks = [
        design(ReleaseSpec.of(Schema.unit(NAMES), 160, epsilon, delta, simulation_seed=seed + matrix, **made))
        for matrix in range(MATRICES)
    ]
    return MissingClients(tasks, CORNERS)


def besieged(epsilon: float, delta: float, seed: int, *, people: int | None, **choices: Any) -> Subject:
    """Build the audit of a collection with a roster that a hostile server cuts down to the minimum batch; no seed."""
    options = {"sketch": "osnap", "rows": ROWS, "sparsity": 2, "epsilon": epsilon, "delta": delta, **choices}
    return surrounded(
        Schema.from_pair(NAMES, (-1.0, 1.0)), CORNERS, minimum_batch=2 * CLIENTS, people=people, **options
    )


def repeated(epsilon: float, delta: float, seed: int, **choices: Any) -> Subject:
    """Build the audit of a collection's release that is broken off and demanded again; no seed."""
    options = {"sketch": "osnap", "rows": ROWS, "sparsity": 2, "epsilon": epsilon, "delta": delta, **choices}
    schema = Schema.from_pair(NAMES, (-1.0, 1.0))
    return designed_again(lambda: RepeatedRelease(schema, CORNERS, clients=CLIENTS, **options))


MECHANISMS: Mapping[str, Factory] = {
    "each-copy": sketched,
    "one-copy": functools.partial(sketched, copies="one"),
    "by-servers": functools.partial(sketched, noise_by="servers"),
    "each-copy-corrupt": functools.partial(sketched, corrupt_clients=2),
    "one-copy-corrupt": functools.partial(sketched, copies="one", corrupt_clients=1),
    "shamir": functools.partial(sketched, sharing="shamir"),
    "ball": functools.partial(sketched, radius=1.0),
    "countsketch": functools.partial(sketched, sketch="countsketch", sparsity=None),
    "rademacher": functools.partial(sketched, sketch="rademacher", sparsity=None),
    "second-moments": second_moments,
    "by-group": by_group,
    "skellam": functools.partial(sketched, noise="skellam"),
    "skellam-by-servers": functools.partial(sketched, noise="skellam", noise_by="servers"),
    "discrete-laplace": pure,
    "discrete-laplace-by-servers": functools.partial(pure, noise_by="servers"),
    "dgm": functools.partial(mixed, rows=None),
    "rmgm": functools.partial(mixed, rows=ROWS),
    "rmgm-subject": functools.partial(mixed, rows=ROWS, protects="subject"),
    "coinpress-mean": coinpress_mean,
    "coinpress-covariance": coinpress_covariance,
    "scores": scores,
    "second-sum": second_sum,
    "steered-fit": steered_fit,
    "additive-noise": lambda epsilon, delta, seed: NoisyEntry(epsilon),
    "random-projection": lambda epsilon, delta, seed: ProjectedEntry(epsilon),
}

ATTACKS: Mapping[str, SystemFactory] = {
    "missing-each-copy": functools.partial(missing, copies="each"),
    "missing-one-copy": functools.partial(missing, copies="one"),
    "surrounded": functools.partial(besieged, people=2 * CLIENTS - 1),
    "surrounded-unstated": functools.partial(besieged, people=2 * CLIENTS - 1, noise_by="clients"),
    "surrounded-stated": functools.partial(besieged, people=None, noise_by="clients", corrupt_clients=6),
    "surrounded-by-servers": functools.partial(besieged, people=2 * CLIENTS - 1, noise_by="servers"),
    "repeated-one-copy": functools.partial(repeated, noise_by="clients", copies="one", corrupt_clients=0),
    "repeated-by-servers": functools.partial(repeated, noise_by="servers"),
}

SUBJECTS: Mapping[str, SystemFactory] = {**MECHANISMS, **ATTACKS}
