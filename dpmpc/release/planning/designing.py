"""From what a user requires to a task: choose the public matrix and the noise, and prove that they fit.

Promised: a task of `design` is verified: its noise gives the budget, and no sum wraps around. Choices depend on public
facts alone. Not promised: that the release is of use; `dpmpc.release.planning.prediction` and
`dpmpc.release.planning.advice` state what to expect.
"""

from __future__ import annotations

import re

import msgspec

from dpmpc.base import plugins
from dpmpc.base.arguments import require_bytes, require_choice, require_whole
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.plugins import Open
from dpmpc.base.randomness import SEED_BYTES, Label, Stream, derive, seed_bytes
from dpmpc.data import Codebook
from dpmpc.linear.contributions import Rows, SecondMoments
from dpmpc.linear.contributions.contribution import Contribution, WeightedMoments
from dpmpc.linear.contributions.grouped_moments import MOST_GROUPS, GroupedMoments
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.encoding.ring import ring_named
from dpmpc.linear.proving.contributions import bits_for, with_proofs
from dpmpc.linear.proving.decide import fewest_present
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.linear.sketching import FAMILIES, OSNAP, CountSketch, PublicMatrix
from dpmpc.linear.sketching.dense import Rademacher
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.privacy.accountants import is_pure
from dpmpc.privacy.calibration import Calibration, NoisePlacement
from dpmpc.privacy.gaussian import check_budget
from dpmpc.privacy.specification import COPIES, FRACTIONAL_BITS, OWN_NOISE, SKETCHES, Mechanism, ReleaseSpec, TrustModel
from dpmpc.privacy.task import Task, VerifiedTask
from dpmpc.release.planning.prediction import LowRank, Regression, Scenario, UtilityMetric

PURPOSES: dict[str, UtilityMetric] = {metric.purpose: metric for metric in (Regression(), LowRank())}
AUTO_WIDTH = 8192  # "auto" sums second moments while a client sends at most so many words
ONE_COPY_NOISE = "discrete-gaussian"
DEAREST_COPY = 1.25  # "auto" pays so much more variance for one copy, at most, than for one copy a row
MOST_DENSE_ROWS = 2048  # leverages take a dense k x k matrix and time k^3: 34 MB, some seconds
DEFAULT_SPARSITY = 4
# What tables by group call rows that are no group's.
_ROW_OF_ALL = re.compile(r"\(.*: (pooled|fixed effects|random effects)\)")


def design(spec: ReleaseSpec, *, matrix_seed: bytes | None = None) -> VerifiedTask:
    """Make the task of one release: choose the public matrix and the noise that give the budget.

    No data is needed, and none is read.

    Parameters
    ----------
    spec : ReleaseSpec
        What is required of it. `ReleaseSpec.of` builds one from keywords.
    matrix_seed : bytes, optional
        The 32 bytes that the public matrix follows from, where the parties have drawn them together, after all rows
        were fixed. By default they come from the operating system.

    Returns
    -------
    Task
        Everything public about the release, verified: its noise gives the budget, and no sum wraps around.

    Raises
    ------
    InputError
        If a choice is not possible, alone or together with another.
    GuaranteeError, OverflowRisk
        If no noise gives the budget, or sums might wrap around.

    Examples
    --------
    >>> from dpmpc import ReleaseSpec, Schema, design
    >>> schema = Schema.unit(["age", "hours", "income"])
    >>> task = design(ReleaseSpec.of(schema, clients=20_000, epsilon=1.0, delta=1e-6, servers=2))
    >>> print(str(task.guarantee).splitlines()[0])
    (1, 1e-06)-differential privacy for each of 20,000 clients
    """
    schema, clients, mechanism = spec.schema, require_whole("clients", spec.clients, 1), spec.mechanism
    epsilon, delta, noise = spec.budget.epsilon, spec.budget.delta, mechanism.noise
    check_budget(epsilon, delta, pure=is_pure(noise))
    if delta * clients >= 1:
        raise InputError("delta", f"{delta:g} given for {clients} clients, less than 1/n = {1 / clients:g} expected")
    trust = _trust(spec)
    seed = (
        public_seed(spec.simulation_seed)
        if matrix_seed is None
        else require_bytes("matrix_seed", matrix_seed, SEED_BYTES)
    )
    contribution, matrix = _summed(spec, trust, seed)
    if mechanism.proved:
        contribution = _proved(contribution, mechanism)
    if clients < matrix.rows:
        raise InputError("clients", clients, f"at least {matrix.rows}", "as many as the sketch has rows")
    shamir = mechanism.sharing == "shamir"
    field = shamir or mechanism.proved
    encoding = FixedPoint(
        _bits(mechanism, clients), ring=ring_named(mechanism.ring or ("mersenne61" if field else "ring64"))
    )
    noising = _noising(mechanism, matrix, trust)
    sensitivity = contribution.sensitivity(len(schema), encoding)
    chosen = Calibration(matrix, sensitivity, epsilon, delta, trust, noising, mechanism.calibration).least(noise)
    task = Task(
        schema=schema,
        statistic=contribution,
        encoding=encoding,
        sketch=matrix,
        noise=chosen,
        trust=trust,
        noising=noising,
        epsilon=epsilon,
        delta=delta,
        sharing=mechanism.sharing,
        calibration=mechanism.calibration,
        simulation=spec.simulation_seed is not None,
    ).verify()
    if isinstance(matrix, Rademacher):
        _expect_storable(task, spec.share_limit)
    return task


def public_seed(seed: int | None = None) -> bytes:
    """Draw the seed of a public matrix from the operating system, or derive it from a simulation's number."""
    if seed is None:
        return Stream.from_os().bytes(SEED_BYTES)
    return derive(seed_bytes(seed), Label.SKETCH_SEED, length=SEED_BYTES)


def _bits(mechanism: Mechanism, clients: int) -> int:
    """Return the fractional bits: those that are given, or the usual ones."""
    if mechanism.fractional_bits is not None:
        return mechanism.fractional_bits
    return bits_for(clients) if mechanism.proved else FRACTIONAL_BITS


def _proved(contribution: Contribution, mechanism: Mechanism) -> Contribution:
    """Return the contribution with proofs, or return why there can be none."""
    if mechanism.noise_by != "servers":
        raise InputError(
            "proved",
            f"true given with noise by {mechanism.noise_by}, 'servers' expected: noise that a client adds "
            "cannot be proved, and would leave with a report that is dropped",
        )
    if mechanism.ring not in (None, "mersenne61"):
        raise InputError("ring", f"{mechanism.ring!r}", "'mersenne61'", condition="with proofs, or none")
    found = with_proofs(contribution)
    if found is None:
        raise InputError(
            "proved", f"true given with {contribution.name}, rows, second moments, a power, cells or items expected"
        )
    return found


def _trust(spec: ReleaseSpec) -> TrustModel:
    """Count on as many honest servers as the shares need: a majority with Shamir's, one with additive ones."""
    trust, shamir = spec.trust, spec.mechanism.sharing == "shamir"
    if shamir and trust.servers < 3:
        raise InputError(
            "servers", trust.servers, "at least 3", "a majority must be honest", condition="with Shamir shares"
        )
    if trust.corrupt_servers == 0 and spec.mechanism.noise_by == "servers":  # a server is an adversary of its own
        raise InputError(
            "corrupt_servers", "0", f"1 to {trust.servers - 1}", OWN_NOISE, condition="where servers add the noise"
        )
    usual = (trust.servers - 1) // 2 if shamir else trust.servers - 1
    return trust if trust.corrupt_servers is not None else msgspec.structs.replace(trust, corrupt_servers=usual)


def _summed(spec: ReleaseSpec, trust: TrustModel, seed: bytes) -> tuple[Contribution, PublicMatrix]:
    """Return what clients contribute, and the public matrix that it is multiplied by."""
    sketch = spec.sketch
    if spec.contribution is not None:
        _expect_plain_sum(spec)
        return spec.contribution, Sum(columns=spec.clients)
    if spec.by is not None:
        return _grouped(spec, spec.by)
    if spec.schema.weighted:
        return _weighted(spec)
    metric = PURPOSES[require_choice("purpose", spec.purpose, PURPOSES)]
    kind = _resolved(sketch.kind, len(spec.schema))
    if kind != "sum":
        return Rows(_radius(spec)), _of_several_rows(spec, kind, metric, trust, seed)
    if sketch.rows not in (None, 1) or sketch.sparsity not in (None, 1):
        raise InputError(
            "rows, sparsity", f"{sketch.rows}, {sketch.sparsity} given, but a sum has one row that every client hits"
        )
    return SecondMoments(_radius(spec)), Sum(columns=spec.clients)


def _of_several_rows(
    spec: ReleaseSpec, kind: str, metric: UtilityMetric, trust: TrustModel, seed: bytes
) -> PublicMatrix:
    """Draw a public matrix, with the usual k and s where none are given."""
    rows, sparsity, noise, columns = spec.sketch.rows, spec.sketch.sparsity, spec.mechanism.noise, len(spec.schema)
    usual = DEFAULT_SPARSITY if kind == "osnap" and not is_pure(noise) else 1
    if rows is None:
        if kind == "rademacher":
            raise InputError(
                "rows", "None", "a number", "that of a client's copies", condition="with a Rademacher matrix"
            )
        scenario = Scenario(
            columns,
            spec.clients,
            spec.budget.epsilon,
            spec.budget.delta,
            noise,
            sparsity or usual,
            _radius(spec),
            spec.mechanism.noise_by,
            trust,
        )
        rows = metric.default_rows(scenario)
    if rows <= columns:
        raise InputError("rows", rows, f"more than the {columns} columns", "the sketch would not be solvable")
    balanced = spec.sketch.balanced
    if kind not in SKETCHES:
        family: type[PublicMatrix] = FAMILIES[kind]
        return family.drawn(rows, spec.clients, sparsity, seed, balanced=balanced)
    if kind == "countsketch":
        if sparsity not in (None, 1):
            raise InputError("sparsity", sparsity, "1", condition="with a CountSketch")
        return CountSketch(rows, spec.clients, seed, balanced=balanced)
    if kind == "rademacher":
        if sparsity not in (None, rows):
            raise InputError("sparsity", sparsity, rows, condition=f"with a Rademacher matrix of {rows} rows")
        return Rademacher(rows, spec.clients, seed)
    return OSNAP(rows, spec.clients, min(usual, rows) if sparsity is None else sparsity, seed, balanced=balanced)


def _noising(mechanism: Mechanism, matrix: PublicMatrix, trust: TrustModel) -> NoisePlacement:
    """Choose how many copies a client sends, and how many servers deal noise where they do, at least."""
    copies = require_choice("copies", mechanism.copies, COPIES)
    if mechanism.noise_by == "servers" and mechanism.sharing == "shamir" and mechanism.proved:
        fewest = fewest_present(ShamirSharing(trust.servers, trust.colluding_servers))
        return NoisePlacement("servers", dealers=fewest)
    each, one = NoisePlacement(mechanism.noise_by), NoisePlacement(mechanism.noise_by, copies=1)
    if mechanism.noise_by == "servers" or matrix.sparsity == 1 or copies == "each":
        return each
    if copies == "one":
        return one
    proven = (mechanism.noise, mechanism.sharing, mechanism.calibration) == (ONE_COPY_NOISE, "additive", "joint")
    if not proven or matrix.rows > MOST_DENSE_ROWS:
        return each
    dearest = DEAREST_COPY * each.exposure(matrix, trust).leverage
    try:
        return one if one.exposure(matrix, trust).leverage <= dearest else each
    except GuaranteeError:  # the coalition is too large for one copy; the noise of each copy is accounted for as well
        return each


def _expect_storable(task: Task, limit: float) -> None:
    clients, copies, width = task.share_shape
    if 8 * clients * copies * width > limit:
        raise InputError(
            "share_limit",
            f"{limit:g} given, but a server's share of {clients} clients, {copies} copies and {width} "
            f"entries takes {8 * clients * copies * width:g} bytes: take fewer rows or clients, a sparse "
            "sketch, or a higher limit",
        )


def _expect_plain_sum(spec: ReleaseSpec) -> None:
    assert spec.contribution is not None
    name = spec.contribution.name
    if spec.by is not None:
        raise InputError("by", f"{spec.by!r}", "none", condition=f"with {name}")
    if spec.schema.weighted:
        raise InputError("bounds", "with weights or rows of zeros", "neither", condition=f"with {name}")
    if spec.sketch.kind not in ("auto", "sum"):
        raise InputError("sketch", f"{spec.sketch.kind!r}", "'auto' or 'sum'", condition=f"with {name}")
    for argument, value in (("rows", spec.sketch.rows), ("sparsity", spec.sketch.sparsity), ("radius", spec.radius)):
        if value is not None:
            raise InputError(argument, value, "none", condition=f"with {name}")


def _weighted(spec: ReleaseSpec) -> tuple[Contribution, PublicMatrix]:
    """Sum weighted second moments: no sketch gives the number of complete rows, which it would need."""
    _expect_sum(spec, "where rows have weights or lack values")
    return WeightedMoments(_radius(spec)), Sum(columns=spec.clients)


def _grouped(spec: ReleaseSpec, by: str) -> tuple[Contribution, PublicMatrix]:
    """Sum second moments by the values of a variable, whose indicators are then no part of the moments."""
    _expect_sum(spec, "where second moments are summed by group")
    book = spec.schema.codebook
    variable = book.variable(by) if isinstance(book, Codebook) else None
    if not isinstance(book, Codebook) or variable is None or not variable.categories:
        kind = "no category of the bounds" if variable is None else f"a {variable.kind}"
        raise InputError(
            "by",
            f"{by!r}",
            f"{kind}, a column",
            "values = [...], or yes and no",
            condition="whose values the bounds list",
        )
    if len(set(variable.categories)) < len(variable.categories):
        raise InputError(
            "by",
            f"{by!r} given, whose values have one called {variable.categories[-1]!r} beside the group of "
            "rows that lack a value, another name expected",
        )
    for name in variable.categories:
        if _ROW_OF_ALL.fullmatch(name):
            raise InputError(
                "by", f"{by!r} given, with a value {name!r}, which tables call other rows, another expected"
            )
    if len(variable.categories) > MOST_GROUPS:
        raise InputError("by", f"{by!r} given, with {len(variable.categories)} values, at most {MOST_GROUPS} expected")
    if variable.if_missing == "middle":
        raise InputError(
            "by",
            f"{by!r} given, whose missing values would be counted as {variable.categories[0]!r}: if_missing "
            '= "indicator", which makes them a group, or incomplete = "zeros" expected',
        )
    rest = book.without(by)
    first = spec.schema.index(variable.term.columns[0].name)
    contribution = GroupedMoments(first, len(variable.term.columns), _least(spec.radius, rest.radius), book.weighted)
    words = contribution.width(len(spec.schema))
    if words > AUTO_WIDTH and spec.sketch.kind != "sum":
        raise InputError(
            "by",
            f"{by!r} given, whose {contribution.groups} groups of {len(rest.columns)} columns take "
            f"{words:,} words a client, at most {AUTO_WIDTH:,} expected: take fewer columns or groups, or "
            "sketch='sum' to have clients send so many",
        )
    return contribution, Sum(columns=spec.clients)


def _expect_sum(spec: ReleaseSpec, where: str) -> None:
    """Refuse a sketch where only a sum will do."""
    if spec.sketch.kind not in ("auto", "sum"):
        raise InputError("sketch", f"{spec.sketch.kind!r}", "'auto' or 'sum'", condition=where)
    if spec.sketch.rows not in (None, 1) or spec.sketch.sparsity not in (None, 1):
        raise InputError(
            "rows, sparsity", f"{spec.sketch.rows}, {spec.sketch.sparsity}", "none", condition="with a sum"
        )


def _radius(spec: ReleaseSpec) -> float | None:
    """Return the norm to clip to: what is asked for, and no more than rows of a codebook have anyway."""
    return _least(spec.radius, spec.schema.radius)


def _least(*radii: float | None) -> float | None:
    """Return the least radius that there is."""
    return min((radius for radius in radii if radius is not None), default=None)


def _resolved(sketch: str, columns: int) -> str:
    """Choose what "auto" stands for."""
    if require_choice("sketch", sketch, Open(SKETCHES, plugins.SKETCHES)) != "auto":
        return sketch
    return "sum" if SecondMoments().width(columns) <= AUTO_WIDTH else "osnap"
