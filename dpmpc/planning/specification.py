"""From what a user asks for to a task: choose the public matrix and the noise, and prove that they fit.

Promised: a task of `design` is verified: its noise gives the budget, and no sum wraps around. Choices depend on public
facts alone. Not promised: that the release is of use; `dpmpc.planning.prediction` and `dpmpc.planning.advice` say what
to expect.
"""

from __future__ import annotations

from dpmpc.bounds import Schema
from dpmpc.contributions import Rows, SecondMoments, Statistic
from dpmpc.encoding import FixedPoint, home
from dpmpc.errors import GuaranteeError, InputError
from dpmpc.planning.prediction import Aim, LowRank, Regression
from dpmpc.planning.scenario import Setting
from dpmpc.privacy import Noising, Trust, calibrate, check_budget, is_pure, plain_float
from dpmpc.randomness import SEED_BYTES, Label, Stream, derive, seed_bytes
from dpmpc.sketching import OSNAP, CountSketch, PublicMatrix, Rademacher, Sum
from dpmpc.task import Task

PURPOSES: dict[str, Aim] = {aim.purpose: aim for aim in (Regression(), LowRank())}
SKETCHES = ("auto", "osnap", "countsketch", "rademacher", "sum")
AUTO_WIDTH = 8192  # "auto" sums second moments while a client sends at most so many words
COPIES = ("auto", "one", "each")
ONE_COPY_NOISE = "discrete-gaussian"
DEAREST_COPY = 1.25  # "auto" pays so much more variance for one copy, at most, than for one copy a row
MOST_DENSE_ROWS = 2048  # leverages take a dense k x k matrix and time k^3: 34 MB, some seconds
SHARE_LIMIT = 4e9  # bytes that a dense matrix may make one server's share of the batch take, unless raised
DEFAULT_SPARSITY = 4
FRACTIONAL_BITS = 16


def design(
    schema: Schema,
    clients: int,
    epsilon: float,
    delta: float,
    *,
    statistic: Statistic | None = None,
    purpose: str = "ridge",
    sketch: str = "auto",
    rows: int | None = None,
    sparsity: int | None = None,
    balanced: bool = True,
    noise: str = "discrete-gaussian",
    radius: float | None = None,
    sharing: str = "additive",
    ring: str | None = None,
    servers: int = 3,
    noise_by: str = "clients",
    copies: str = "auto",
    corrupt_clients: int = 0,
    dropouts: int = 0,
    coalition: str = "adaptive",
    calibration: str = "joint",
    fractional_bits: int = FRACTIONAL_BITS,
    share_limit: float = SHARE_LIMIT,
    seed: int | None = None,
) -> Task:
    """Make the task of one release.

    Parameters
    ----------
    schema : Schema
        Columns and public bounds.
    clients : int
        Number of clients, n.
    epsilon, delta : float
        The budget; delta = 0 with ``noise="discrete-laplace"``.
    statistic : Statistic, optional
        What is summed over the clients in place of rows or second moments; there is then no sketch to choose.
    purpose : {"ridge", "low-rank"}
        What the release is for: decides the default of `rows`.
    sketch : {"auto", "osnap", "countsketch", "rademacher", "sum"}
        The public matrix. "sum" adds up the clients' second moments; "auto" is "sum" while a client sends at most
        8192 words, then "osnap".
    rows, sparsity : int, optional
        k and s; by default `dpmpc.planning.prediction.Aim.default_rows`, and s = 4 (OSNAP), or 1 for discrete Laplace
        noise, which costs sqrt(s) in standard deviation. A Rademacher matrix has s = k, and no default of k.
    balanced : bool
        Whether every copy hits every row equally often.
    noise : str
        Family of the noise.
    radius : float, optional
        Clip normalised rows to this L2 norm.
    sharing : {"additive", "shamir"}
        All-but-one secrecy, or an honest majority with t = (M - 1) // 2.
    ring : {"ring64", "mersenne61"}, optional
        Where shares live; Shamir shares need the field.
    servers, corrupt_clients, dropouts, coalition
        See `dpmpc.privacy.Trust`.
    noise_by : {"clients", "servers"}
        Who adds the noise; see `dpmpc.privacy.noising`.
    copies : {"auto", "one", "each"}
        With noise by clients, whether a client sends one noisy copy of its row or one for each of its rows in the
        sketch; "auto" is one where that is proven and costs at most `DEAREST_COPY` times the variance.
    calibration : {"joint", "paper"}
        See `dpmpc.privacy.calibrate`.
    fractional_bits : int
        f of the fixed-point encoding.
    share_limit : float
        Bytes that one server's share of the batch may take with a Rademacher matrix, which has clients send k copies.
    seed : int, optional
        Simulations only: makes the public matrix repeatable and marks the task as a simulation.

    Returns
    -------
    Task
        Verified.
    """
    if clients < 1:
        raise InputError(f"clients: {clients} given, at least 1 expected")
    # NumPy would compute with a float32 as such.
    epsilon, delta = plain_float("epsilon", epsilon), plain_float("delta", delta)
    check_budget(epsilon, delta, pure=is_pure(noise))
    if delta * clients >= 1:
        raise InputError(f"delta: {delta:g} given for {clients} clients, less than 1/n = {1 / clients:g} expected")
    trust = _trust(sharing, servers, corrupt_clients, dropouts, coalition)
    matrix: PublicMatrix
    if statistic is None:
        if purpose not in PURPOSES:
            raise InputError(f"purpose: {purpose!r} given, one of {', '.join(PURPOSES)} expected")
        sketch = _resolved(sketch, len(schema))
        wanted = sparsity or (DEFAULT_SPARSITY if sketch == "osnap" and not is_pure(noise) else 1)
        setting = Setting(len(schema), clients, epsilon, delta, noise, wanted, radius, noise_by, trust)
        rows, sparsity = _shape(sketch, rows, sparsity, PURPOSES[purpose], setting)
        statistic, matrix = _matrix(schema, clients, sketch, rows, sparsity, balanced, radius, seed)
    else:
        _expect_plain_sum(statistic, sketch, rows, sparsity, radius)
        matrix = Sum(columns=clients)
    if clients < matrix.rows:
        raise InputError(f"clients: {clients} given, at least {matrix.rows} expected: as many as the sketch has rows")
    encoding = FixedPoint(fractional_bits, ring=home(ring or ("mersenne61" if sharing == "shamir" else "ring64")))
    sensitivity = statistic.sensitivity(len(schema), encoding)
    noising = _noising(noise_by, copies, matrix, noise, trust, sharing, calibration)
    chosen = calibrate(
        matrix, sensitivity, epsilon, delta, noise=noise, trust=trust, noising=noising, calibration=calibration
    )
    task = Task(
        schema=schema,
        statistic=statistic,
        encoding=encoding,
        sketch=matrix,
        noise=chosen,
        trust=trust,
        noising=noising,
        epsilon=epsilon,
        delta=delta,
        sharing=sharing,
        calibration=calibration,
        simulation=seed is not None,
    ).verify()
    if isinstance(matrix, Rademacher):
        _expect_storable(task, share_limit)
    return task


def public_seed(seed: int | None = None) -> bytes:
    """Draw the seed of a public matrix from the operating system, or derive it from a simulation's number."""
    if seed is None:
        return Stream.from_os().bytes(SEED_BYTES)
    return derive(seed_bytes(seed), Label.SKETCH_SEED, length=SEED_BYTES)


def _trust(sharing: str, servers: int, corrupt_clients: int, dropouts: int, coalition: str) -> Trust:
    """Count on as many honest servers as the shares need: a majority with Shamir's, one with additive ones."""
    if sharing == "shamir" and servers < 3:
        raise InputError(f"servers: {servers} given, at least 3 expected with Shamir shares: a majority must be honest")
    return Trust(
        servers=servers,
        corrupt_servers=(servers - 1) // 2 if sharing == "shamir" else servers - 1,
        corrupt_clients=corrupt_clients,
        dropouts=dropouts,
        coalition=coalition,
    )


def _shape(
    sketch: str, rows: int | None, sparsity: int | None, aim: Aim, setting: Setting
) -> tuple[int | None, int | None]:
    """Return k and s with their defaults filled in, where the public matrix has a choice of them."""
    if rows is None and sketch == "rademacher":
        raise InputError("rows: None given, a number expected with a Rademacher matrix: that of a client's copies")
    if rows is None and sketch != "sum":
        rows = aim.default_rows(setting)
    if sparsity is None and sketch == "osnap":
        sparsity = min(setting.sparsity, rows or setting.sparsity)
    return rows, sparsity


def _noising(
    noise_by: str, copies: str, matrix: PublicMatrix, noise: str, trust: Trust, sharing: str, calibration: str
) -> Noising:
    """Decide how many copies a client sends."""
    if copies not in COPIES:
        raise InputError(f"copies: {copies!r} given, one of {', '.join(COPIES)} expected")
    each, one = Noising(noise_by), Noising(noise_by, copies=1)
    if noise_by == "servers" or matrix.sparsity == 1 or copies == "each":
        return each
    if copies == "one":
        return one
    if noise != ONE_COPY_NOISE or sharing != "additive" or calibration != "joint" or matrix.rows > MOST_DENSE_ROWS:
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
            f"share_limit: {limit:g} given, but a server's share of {clients} clients, {copies} copies and {width} "
            f"entries takes {8 * clients * copies * width:g} bytes: take fewer rows or clients, a sparse sketch, or a "
            "higher limit"
        )


def _expect_plain_sum(
    statistic: Statistic, sketch: str, rows: int | None, sparsity: int | None, radius: float | None
) -> None:
    if sketch not in ("auto", "sum"):
        raise InputError(f"sketch: {sketch!r} given, 'auto' or 'sum' expected with a {statistic.name}")
    for name, value in (("rows", rows), ("sparsity", sparsity), ("radius", radius)):
        if value is not None:
            raise InputError(f"{name}: {value} given, none expected with a {statistic.name}")


def _resolved(sketch: str, columns: int) -> str:
    """Decide what "auto" stands for."""
    if sketch not in SKETCHES:
        raise InputError(f"sketch: {sketch!r} given, one of {', '.join(SKETCHES)} expected")
    if sketch != "auto":
        return sketch
    return "sum" if SecondMoments().width(columns) <= AUTO_WIDTH else "osnap"


def _matrix(
    schema: Schema,
    clients: int,
    sketch: str,
    rows: int | None,
    sparsity: int | None,
    balanced: bool,
    radius: float | None,
    seed: int | None,
) -> tuple[Statistic, PublicMatrix]:
    if sketch == "sum":
        if rows not in (None, 1) or sparsity not in (None, 1):
            raise InputError(f"rows, sparsity: {rows}, {sparsity} given, but a sum has one row that everybody hits")
        return SecondMoments(radius), Sum(columns=clients)
    assert rows is not None
    if rows <= len(schema):
        raise InputError(
            f"rows: {rows} given, more than the {len(schema)} columns expected: the sketch would not be solvable"
        )
    matrix_seed = public_seed(seed)
    if sketch == "countsketch":
        if sparsity not in (None, 1):
            raise InputError(f"sparsity: {sparsity} given, 1 expected with a CountSketch")
        return Rows(radius), CountSketch(rows=rows, columns=clients, seed=matrix_seed, balanced=balanced)
    if sketch == "rademacher":
        if sparsity not in (None, rows):
            raise InputError(f"sparsity: {sparsity} given, {rows} expected with a Rademacher matrix of {rows} rows")
        return Rows(radius), Rademacher(rows=rows, columns=clients, seed=matrix_seed)
    assert sparsity is not None
    return Rows(radius), OSNAP(rows=rows, columns=clients, sparsity=sparsity, seed=matrix_seed, balanced=balanced)
