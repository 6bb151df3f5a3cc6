"""Dense public matrices: the kernel on every instruction set against integers, and what is public about them."""

import itertools
import json
import math
import tracemalloc
from fractions import Fraction

import msgspec
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmpc._kernels import dense as kernel
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear import sketching
from dpmpc.linear.noise import noise_from
from dpmpc.linear.sketching import BernoulliMixing, sketch_from
from dpmpc.linear.sketching.dense import Rademacher
from dpmpc.linear.sketching.public_matrix import PIECE
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import client
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from references import sketch as reference
from support.matrix_inputs import KINDS, P, each_instruction_set, numbers, ring_of
from support.rejections import rejects

ALPHA = 1e-6  # false-alarm rate of each statistical test, over fresh seeds; the seeds here are fixed
VECTORS = json.loads(reference.VECTORS.read_text())
SETS = kernel.instruction_sets()
instruction_set = each_instruction_set(kernel)
EVERY_GROUPING = (1, 15, 16, 33, 128, 400, 1500)  # rows: both sides of the steps of `dense_groups`


def oracle(S, X, kind, first=0):
    """S X with Python's integers or, for doubles, by NumPy."""
    signs = S.entries(first, len(X))[1].T
    exact = X if kind == "float64" else X.astype(object)
    signs = signs.astype(exact.dtype)
    Y = signs @ exact if X.ndim == 2 else np.einsum("ki,ikp->kp", signs, exact)
    return Y if kind == "float64" else (Y % (P if kind == "mersenne61" else 1 << 64)).astype(np.uint64)


# --- The derivation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [v for v in VECTORS["draws"] if v["sketch"]["family"] in reference.LABELS])
def test_draws_follow_the_specification(instruction_set, vector):
    rows, signs = sketch_from(vector["sketch"]).entries(vector["first"], len(vector["rows"]))
    assert (rows.dtype, signs.dtype) == (np.int64, np.int8)
    assert rows.tolist() == vector["rows"]
    assert signs.tolist() == vector["signs"]


@pytest.mark.parametrize("vector", [v for v in VECTORS["sums"] if v["sketch"]["family"] in reference.LABELS])
def test_sums_follow_the_specification(instruction_set, vector):
    X = np.array(vector["X"], np.uint64)
    S = sketch_from(vector["sketch"])
    assert S.apply(X, ring=vector["ring"], first=vector["first"]).tolist() == vector["Y"]


@settings(max_examples=40, deadline=None)
@given(
    family=st.sampled_from(list(reference.LABELS)),
    rows=st.integers(1, 70),
    first=st.integers(0, (1 << 34) - 8),
    seed=st.binary(min_size=32, max_size=32),
)
def test_any_draw_equals_the_reference(family, rows, first, seed):
    sketch = reference.dense_sketch(family, rows, 1 << 34, seed)
    expected = [[sign for _, sign in reference.reference_of(sketch).client(i)] for i in range(first, first + 8)]
    for name in SETS:
        kernel.use_instruction_set(name)
        assert sketch_from(sketch).entries(first, 8)[1].tolist() == expected


def test_the_families_share_no_draw():
    signs = [S(40, 400, seed=1).entries(0, 400)[1] for S in (Rademacher, BernoulliMixing)]
    assert abs(np.mean(signs[0] * signs[1])) < 0.05


# --- Applying it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", EVERY_GROUPING)
def test_apply_equals_the_oracle(instruction_set, kind, rows):
    for width, first, clients in ((1, 0, 1), (3, 31, 130), (8, 100, 71), (11, 5, 33), (29, 127, 66)):
        S = Rademacher(rows, first + clients, seed=width)
        X = numbers(kind, (clients, width), seed=width)
        Y = S.apply(X, ring=ring_of(kind), first=first)
        if kind == "float64":
            np.testing.assert_allclose(Y, oracle(S, X, kind, first), atol=1e-10)
        else:
            np.testing.assert_array_equal(Y, oracle(S, X, kind, first))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "width", "clients"), [(1, 1, 300), (17, 3, 300), (150, 10, 131)])
def test_each_copy_goes_to_its_row(instruction_set, kind, rows, width, clients):
    S = Rademacher(rows, 50 + clients, seed=3)
    X = numbers(kind, (clients, rows, width))
    np.testing.assert_allclose(S.apply(X, ring=ring_of(kind), first=50), oracle(S, X, kind, 50), atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_copies_are_one_row(kind):
    S = Rademacher(20, 200, seed=4)
    X = numbers(kind, (200, 7))
    copies = np.repeat(X[:, np.newaxis], 20, axis=1)
    once, each = (S.apply(x, ring=ring_of(kind)) for x in (X, copies))
    np.testing.assert_allclose(each, once, atol=1e-10, rtol=0)


@pytest.mark.parametrize("rows", EVERY_GROUPING)
@pytest.mark.parametrize("copies", [False, True])
def test_doubles_are_the_same_bits_on_every_instruction_set(rows, copies):
    S = Rademacher(rows, 200, seed=1)
    X = numbers("float64", (200, rows, 6) if copies else (200, 6)) * np.logspace(-9, 9, 6)
    results = set()
    for name in SETS:
        kernel.use_instruction_set(name)
        results.add(S.apply(X).tobytes())
    assert len(results) == 1


def test_doubles_are_added_in_the_stated_order():
    """32 clients, 500 rows: groups of 7, 7, 6, 6, 6; each is the sum of its first floor(g/2) and that of the rest."""
    S = Rademacher(500, 32, seed=2)
    x = numbers("float64", 32) * np.logspace(-8, 8, 32)
    terms = S.entries(0, 32)[1].T * x
    expected = None
    for first, last in itertools.pairwise((0, 7, 14, 20, 26, 32)):
        middle = first + (last - first) // 2
        low, high = (
            np.add.accumulate(terms[:, part], axis=1)[:, -1] for part in (slice(first, middle), slice(middle, last))
        )
        expected = low + high if expected is None else expected + (low + high)
    np.testing.assert_array_equal(S.apply(x[:, np.newaxis])[:, 0], expected)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["ring64", "mersenne61"]),
    cuts=st.lists(st.integers(0, 500), max_size=5),
    rows=st.sampled_from([3, 20, 200]),
    copies=st.booleans(),
)
def test_chunks_add_up_to_the_whole(kind, cuts, rows, copies):
    S = Rademacher(rows, 500, seed=3)
    X = numbers(kind, (500, rows, 3) if copies else (500, 3))
    Y = np.zeros((rows, 3), np.uint64)
    for first, stop in itertools.pairwise([0, *sorted(cuts), 500]):
        assert S.apply(X[first:stop], out=Y, first=first, ring=kind) is Y
    np.testing.assert_array_equal(Y, S.apply(X, ring=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_threads(kind):
    S = Rademacher(20, 3 * PIECE + 77, seed=4)
    X, out = numbers(kind, (S.columns, 2)), numbers(kind, (20, 2), seed=9)
    results = {S.apply(X, threads=threads, ring=ring_of(kind), out=out.copy()).tobytes() for threads in (1, 2, 3)}
    assert len(results) == 1


def test_doubles_of_whole_pieces_add_up_to_the_same_bits():
    S = Rademacher(20, 2 * PIECE + 77, seed=4)
    X = numbers("float64", (S.columns, 2))
    Y = np.zeros((20, 2))
    for first in range(0, S.columns, S.piece):
        S.apply(X[first : first + S.piece], out=Y, first=first)
    assert Y.tobytes() == S.apply(X).tobytes()


@settings(max_examples=30, deadline=None)
@given(place=st.integers(0, 69), value=st.integers(P, (1 << 64) - 1), copies=st.booleans())
def test_field_elements_must_be_canonical(place, value, copies):
    X = np.zeros((7, 2, 5) if copies else (7, 10), np.uint64)
    X.flat[place] = value
    for name in SETS:
        kernel.use_instruction_set(name)
        with pytest.raises(InputError, match=f"element is {value}"):
            Rademacher(2, 7, seed=6).apply(X, ring="mersenne61")


@pytest.mark.parametrize("rows", EVERY_GROUPING)
def test_field_sums_are_canonical(instruction_set, rows):
    """Negating 0 gives p before the last reduction, and p - 1 is what carries furthest."""
    S = Rademacher(rows, 96, seed=6)
    assert not S.apply(np.zeros((96, 3), np.uint64), ring="mersenne61").any()
    X = np.full((96, 3), P - 1, np.uint64)
    total = -S.entries(0, 96)[1].astype(object).sum(axis=0) % P
    assert S.apply(X, ring="mersenne61").tolist() == [[sum_] * 3 for sum_ in total]


# --- What is public about it --------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [Rademacher, BernoulliMixing])
def test_public_facts_agree_with_the_matrix(family):
    S = family(30, 300, seed=7)
    matrix = S.to_csc()
    dense = matrix.toarray().astype(np.int64)
    assert matrix.dtype == np.int8
    assert (np.abs(dense) == 1).all()
    np.testing.assert_array_equal(dense.T, S.entries(0, 300)[1])
    np.testing.assert_array_equal(dense.T[130:150], S.entries(130, 20)[1])
    np.testing.assert_array_equal(S.occupancy(), np.full(30, 300))
    np.testing.assert_allclose(S.column_sums(), dense.sum(axis=1) / math.sqrt(30))
    np.testing.assert_allclose(S @ np.ones(300), S.column_sums(), atol=1e-12)
    weights = np.random.default_rng(0).random(30)
    assert S.heaviest_client(weights) == pytest.approx(weights.sum())
    assert (S.sparsity, S.scale) == (30, 1 / math.sqrt(30))
    X = numbers("float64", (300, 4))
    np.testing.assert_allclose(S @ X, dense @ X / math.sqrt(30), atol=1e-12)
    again = sketch_from(json.loads(json.dumps(S.describe())))
    assert again == S
    assert type(again) is family


def test_overlaps_are_those_of_the_matrix(monkeypatch):
    monkeypatch.setattr(sketching.dense, "PIECE_ENTRIES", 9 * 30)
    S = Rademacher(9, 70, seed=5)
    dense = S.to_csc().toarray().astype(np.float64)
    G = dense @ dense.T + np.eye(9)
    np.testing.assert_array_equal(S.overlaps(), G)
    np.testing.assert_allclose(S.leverage(), np.sum(dense * np.linalg.solve(G, dense), axis=0))
    hits = np.abs(dense) @ np.abs(dense).T
    assert S.shared_pairs() == np.sum(np.triu(hits - 1, 1))


def test_memory_is_that_of_the_result():
    """S would take 60 MB as bits and 4 GB as doubles; the result takes 8 kB."""
    S = Rademacher(1000, 500_000, seed=8)
    X = np.ones((1000, 1), np.uint64)
    tracemalloc.start()
    S.apply(X, first=400_000)
    _ = S.occupancy(), S.heaviest_client(np.ones(1000))
    assert tracemalloc.get_traced_memory()[1] < 1e6
    S.column_sums()
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()


@pytest.mark.statistical
def test_signs_are_fair_and_independent():
    """Sums over clients, over rows and of products of neighbours: each set of standard normals by chi-square."""
    signs = Rademacher(300, 20_000, seed=20).entries(0, 20_000)[1].astype(np.int64)
    products = [signs[1:] * signs[:-1], signs[:, 1:] * signs[:, :-1], signs[32:] * signs[:-32]]
    for draws in (signs, *products):
        for axis in (0, 1):
            normal = draws.sum(axis=axis) / math.sqrt(draws.shape[axis])
            tail = scipy.stats.chi2(len(normal))
            assert tail.isf(1 - ALPHA / 2) < np.sum(normal**2) < tail.isf(ALPHA / 2)


# --- Releases -----------------------------------------------------------------------------------------------------

NAMES = Schema.unit(["a", "b", "y"])


def pure(clients, rows, **choices):
    choices = {"sketch": "rademacher", "rows": rows, "noise": "discrete-laplace", "simulation_seed": 1, **choices}
    return design(ReleaseSpec.of(NAMES, clients, 0.5, 0, **choices))


@pytest.mark.parametrize("lost", [{}, {"corrupt_clients": 30}, {"corrupt_clients": 30, "dropouts": 5}])
def test_noise_is_that_of_the_corollary_for_all_rows(lost):
    """Corollary 4.10: b = k Delta_1/epsilon, Delta_1 = 2 eta d; the shares of the n - t clients that remain."""
    task = pure(400, 24, **lost)
    delta_1 = 2 * (1 << 16) * 3
    assert task.noise.scale == Fraction(24 * delta_1) / Fraction(1, 2)
    assert task.noise.shares == 400 - sum(lost.values())
    assert task.guarantee.achieved_epsilon == 0.5
    assert (task.guarantee.delta, task.copies) == (0, 24)
    for change in ({"scale": task.noise.scale - 1}, {"shares": task.noise.shares + 1}):
        with pytest.raises(GuaranteeError):
            msgspec.structs.replace(task, noise=noise_from({**task.noise.describe(), **change})).verify()


@pytest.mark.statistical
def test_released_noise_is_laplace_of_the_predicted_variance():
    """300 releases of zeros, 3600 entries of scale b/(2^f sqrt(k)): their variance and their whole distribution."""
    task = pure(40, 4)
    sketches = np.stack([model.run(task, np.zeros((40, 3)), stream=Stream.from_seed(i)).sketch for i in range(300)])
    release = model.run(task, np.zeros((40, 3)), stream=Stream.from_seed(0))
    b = 4 * 6 / 0.5 / math.sqrt(4)  # Delta_1 = 6 in units of 2^-f
    assert release.noise_variance == pytest.approx(np.full(4, 2 * b**2))
    draws = sketches.ravel()
    z = scipy.stats.norm.isf(ALPHA / 2)
    assert abs(draws.var() - 2 * b**2) < z * math.sqrt(20 * b**4 / len(draws))  # Var x^2 = 24 b^4 - 4 b^4
    assert scipy.stats.kstest(draws, scipy.stats.laplace(scale=b).cdf).pvalue > ALPHA


@pytest.mark.parametrize(
    ("choices", "copies"),
    [
        ({"copies": "each"}, 24),
        ({"copies": "one"}, 1),
        ({"noise_by": "servers"}, 1),
        ({"noise_by": "servers", "noise": "discrete-laplace"}, 1),
    ],
)
def test_every_way_to_noise_takes_a_dense_sketch(choices, copies):
    """With one copy rows share their noise, but each entry has the variance that the release states."""
    task = design(ReleaseSpec.of(NAMES, 400, 1.0, 1e-6, sketch="rademacher", rows=24, simulation_seed=1, **choices))
    X = np.random.default_rng(0).uniform(-1, 1, (400, 3))
    release = model.run(task, X, stream=Stream.from_seed(2))
    assert (task.sketch.family, task.copies) == ("rademacher", copies)
    noise = (release.sketch - task.sketch @ X) / np.sqrt(release.noise_variance)[:, np.newaxis]
    assert 0.6 < noise.std() < 1.4


def test_what_clients_would_send_is_limited():
    with pytest.raises(InputError, match=r"share_limit: 4e\+09 given, .* takes 4\.8e\+09 bytes"):
        pure(1_000_000, 200)
    assert pure(1_000_000, 200, share_limit=5e9).share_shape == (1_000_000, 200, 3)


def test_blocks_of_clients_shrink_with_the_copies(monkeypatch):
    task = pure(50, 24)
    X = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    monkeypatch.setattr(client, "BLOCK_WORDS", 24 * 3 * 7)
    sizes = []
    noise = client.Client.noise
    monkeypatch.setattr(
        client.Client, "noise", lambda self, count, threads: (sizes.append(count), noise(self, count, threads))[1]
    )
    release = model.run(task, X, stream=Stream.from_seed(3))
    assert sizes == [7] * 7 + [1]
    b = 24 * 6 / 0.5 / math.sqrt(24)
    assert np.abs(release.sketch - task.sketch @ X).max() < 30 * b  # shares of blocks fit together


@pytest.mark.parametrize(
    ("choices", "rejection"),
    [
        ({"rows": None}, {"argument": "rows", "given": "None"}),
        ({"rows": 3}, {"argument": "rows", "given": "3"}),
        ({"rows": 24, "sparsity": 2}, {"argument": "sparsity", "given": "2", "expected": "24"}),
    ],
)
def test_bad_dense_designs_are_refused(choices, rejection):
    with rejects(**rejection):
        pure(400, **choices)


# --- Bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "rejection"),
    [
        (
            lambda S: S.apply(np.zeros((20, 4, 3), np.uint64)),
            {"argument": "X", "expected": "(m, p), (m, 1, p) or (m, 5, p)"},
        ),
        (lambda S: S.entries(19, 2), {"argument": "count", "given": "2"}),
        (lambda S: S.heaviest_client(np.ones(4)), {"argument": "weights", "given": "shape (4,)"}),
        (lambda S: Rademacher(0, 5, 0), {"argument": "rows", "given": "0"}),
        (lambda S: Rademacher(5, 20, b"short"), {"argument": "seed", "given": "5 bytes"}),
        (
            lambda S: Rademacher(1000, 1 << 30, 0).to_csc(),
            {"argument": "columns, sparsity", "given": "1073741824000 entries, at most 2147483647 expected"},
        ),
    ],
)
def test_bad_calls_are_refused(call, rejection):
    with rejects(**rejection):
        call(Rademacher(5, 20, seed=0))


def test_the_kernel_checks_its_buffers():
    matrix = kernel.Matrix((1, 2, 3, 4), 5)
    X, Y = np.zeros((4, 3), np.uint64), np.zeros((5, 3), np.uint64)
    for bad in (Y[:4], np.zeros((5, 2), np.uint64)):
        with pytest.raises(ValueError, match="shapes"):
            matrix.apply("ring64", 0, X, bad)
    with pytest.raises(ValueError, match="four words"):
        matrix.signs(0, np.zeros((1, 4, 4), np.uint32))
    with pytest.raises(ValueError, match="rows < 2"):
        kernel.Matrix((1, 2, 3, 4), 0)
