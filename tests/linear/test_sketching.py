"""Public matrices: the derivation, the kernels on every instruction set, the statistics that the proofs rely on."""

import itertools
import json
import math
import pickle

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmpc._kernels import sketch as kernel
from dpmpc.base.errors import InputError
from dpmpc.linear.encoding.ring import Mersenne61, Ring64
from dpmpc.linear.sketching import OSNAP, CountSketch, PublicMatrix, sketch_from
from dpmpc.linear.sketching.public_matrix import PIECE
from dpmpc.linear.sketching.sparse import Sum
from references import sketch as reference
from support.matrix_inputs import KINDS, P, each_instruction_set, numbers, ring_of
from support.rejections import rejects

ALPHA = 1e-6  # false-alarm rate of each statistical test, over fresh seeds; the seeds here are fixed
VECTORS = json.loads(reference.VECTORS.read_text())
SETS = kernel.instruction_sets()
instruction_set = each_instruction_set(kernel)


def oracle(S, X, kind, first=0):
    """S X by NumPy or, in the field, by Python's integers; sums in client order."""
    rows, signs = S.entries(first, len(X))
    Y = np.zeros((S.rows, X.shape[-1]), {"ring64": np.uint64, "mersenne61": object, "float64": np.float64}[kind])
    unsigned = {"ring64": lambda sign: sign.astype(np.uint64), "mersenne61": lambda sign: sign.astype(object)}
    for copy in range(S.sparsity):
        x = X if X.ndim == 2 else X[:, copy]
        sign = unsigned.get(kind, lambda sign: sign.astype(np.float64))(signs[:, copy].astype(np.int64))
        np.add.at(Y, rows[:, copy], (x.astype(object) if kind == "mersenne61" else x) * sign[:, np.newaxis])
    return (Y % P).astype(np.uint64) if kind == "mersenne61" else Y


_found = {}


def found_once(case, find):
    """What the oracle says of a case, by the entries that the first instruction set draws: all draw the same."""
    if case not in _found:
        _found[case] = find()
    return _found[case]


# --- The derivation -----------------------------------------------------------------------------------------------


def test_vectors_are_those_of_the_reference():
    assert VECTORS["draws"] == list(reference.draws())
    assert VECTORS["sums"] == list(reference.sums())
    assert VECTORS["refused"] == list(reference.refused())


@pytest.mark.parametrize("vector", VECTORS["philox"])
def test_philox_gives_the_published_answers(instruction_set, vector):
    counter, key, result = ([int(word, 16) for word in vector[name].split()] for name in ("counter", "key", "result"))
    assert list(kernel.philox(counter, key)) == result == list(reference.philox4x32(counter, key))


@pytest.mark.parametrize("vector", VECTORS["draws"])
def test_draws_follow_the_specification(instruction_set, vector):
    S = sketch_from(vector["sketch"])
    rows, signs = S.entries(vector["first"], len(vector["rows"]))
    assert rows.dtype == np.int64
    assert signs.dtype == np.int8
    assert rows.tolist() == vector["rows"]
    assert signs.tolist() == vector["signs"]


@pytest.mark.parametrize("vector", VECTORS["sums"])
def test_sums_follow_the_specification(instruction_set, vector):
    S = sketch_from(vector["sketch"])
    Y = S.apply(np.array(vector["X"], np.uint64), ring=vector["ring"], first=vector["first"])
    assert Y.tolist() == vector["Y"]


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda vector: vector["message"])
def test_bad_descriptions_are_refused(vector):
    with pytest.raises(InputError) as error:
        sketch_from(vector["sketch"])
    assert vector["message"] in str(error.value)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_draw_equals_the_reference(data):
    rows = data.draw(st.one_of(st.integers(1, 40), st.integers(1, (1 << 31) - 1)), "rows")
    sparsity = data.draw(st.integers(1, min(rows, 6)), "sparsity")
    balanced = data.draw(st.booleans(), "balanced")
    first = data.draw(st.integers(0, (1 << 34) - 8), "first")
    seed = data.draw(st.binary(min_size=32, max_size=32), "seed")
    expected = [reference.Reference(seed, rows, sparsity, balanced).client(i) for i in range(first, first + 8)]
    for name in SETS:
        kernel.use_instruction_set(name)
        drawn_rows, signs = OSNAP(rows, 1 << 34, sparsity, seed, balanced).entries(first, 8)
        assert np.stack([drawn_rows, signs], axis=-1).tolist() == [[list(e) for e in client] for client in expected]


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize(("rows", "sparsity"), [(3, 3), (100, 8), (1000, 4), (3000, 200), ((1 << 30) + 1, 2)])
def test_long_draws_agree_between_instruction_sets_and_starts(rows, sparsity, balanced):
    S = OSNAP(rows, 9001, sparsity, 7, balanced)
    drawn = []
    for name in SETS:
        kernel.use_instruction_set(name)
        drawn.append(np.stack(S.entries(0, 9001)))
    for other in drawn[1:]:
        np.testing.assert_array_equal(drawn[0], other)
    pieces = [np.stack(S.entries(first, min(1237, 9001 - first))) for first in range(0, 9001, 1237)]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=1), drawn[0])
    ordered = np.sort(drawn[0][0], axis=1)
    assert (np.diff(ordered, axis=1) > 0).all(), "a client's rows are distinct"
    assert 0 <= ordered.min() <= ordered.max() < rows


# --- Applying it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize(("rows", "sparsity"), [(1, 1), (2, 2), (7, 3), (64, 4), (50, 8), (1000, 1)])
def test_apply_equals_the_oracle(instruction_set, kind, copies, rows, sparsity):
    clients = 4211  # more than a block, no multiple of anything
    for width in (1, 2, 3, 6, 7, 10, 11, 16, 29):
        S = OSNAP(rows, clients, sparsity, seed=width, balanced=width % 2 == 0)
        X = numbers(kind, (clients, sparsity, width) if copies else (clients, width), seed=width)
        Y = S.apply(X, ring=ring_of(kind))
        expected = found_once((kind, copies, rows, sparsity, width), lambda S=S, X=X: oracle(S, X, kind))
        if kind == "float64":
            np.testing.assert_allclose(Y, expected, atol=1e-9)
        else:
            np.testing.assert_array_equal(Y, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("rows", [40, 20_000])
def test_wide_rows_equal_the_oracle(instruction_set, kind, copies, rows):
    """Beyond the straight-line code: every number of copies that go together, with and without prefetching of Y."""
    for sparsity, width in (
        (1, 13),
        (1, 16),
        (1, 17),
        (2, 15),
        (3, 100),
        (4, 20),
        (7, 31),
        (8, 64),
        (15, 14),
        (16, 19),
    ):
        S = OSNAP(rows, 260, sparsity, seed=width)
        X = numbers(kind, (260, sparsity, width) if copies else (260, width), seed=width)
        Y = S.apply(X, ring=ring_of(kind))
        if kind == "float64":
            np.testing.assert_allclose(Y, oracle(S, X, kind), atol=1e-9)
        else:
            np.testing.assert_array_equal(Y, oracle(S, X, kind))


@pytest.mark.parametrize("place", [0, 12, 13, 99])
def test_wide_field_elements_must_be_canonical(instruction_set, place):
    X = numbers("mersenne61", (50, 100))
    X[49, place] = P
    with rejects("X", given="an element is 2305843009213693951, numbers below 2305843009213693951 expected"):
        OSNAP(9, 50, 3, seed=6).apply(X, ring="mersenne61")


@pytest.mark.parametrize("threads", [1, 3])
def test_sums_begin_with_a_cache_line(threads):
    for rows, width in ((1, 1), (7, 3), (1000, 100)):
        Y = OSNAP(rows, 300, 1, seed=1).apply(numbers("ring64", (300, width)), threads=threads)
        assert Y.ctypes.data % 64 == 0
        assert Y.flags.c_contiguous


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("width", [5, 10, 29, 100])
def test_doubles_are_the_same_bits_on_every_instruction_set(copies, width):
    S = OSNAP(40, 3000, 4, seed=1)
    X = numbers("float64", (3000, 4, width) if copies else (3000, width)) * np.logspace(-9, 9, width)
    results = []
    for name in SETS:
        kernel.use_instruction_set(name)
        results.append(S.apply(X).tobytes())
    assert len(set(results)) == 1


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["ring64", "mersenne61"]),
    cuts=st.lists(st.integers(0, 500), max_size=5),
    sparsity=st.integers(1, 5),
    balanced=st.booleans(),
    copies=st.booleans(),
)
def test_chunks_add_up_to_the_whole(kind, cuts, sparsity, balanced, copies):
    S = OSNAP(17, 500, sparsity, seed=3, balanced=balanced)
    X = numbers(kind, (500, sparsity, 10) if copies else (500, 10))
    Y = np.zeros((17, 10), np.uint64)
    for first, stop in itertools.pairwise([0, *sorted(cuts), 500]):
        assert S.apply(X[first:stop], out=Y, first=first, ring=kind) is Y
    np.testing.assert_array_equal(Y, S.apply(X, ring=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_threads(kind):
    clients = 3 * PIECE + 77
    S = OSNAP(100, clients, 2, seed=4)
    X, out = numbers(kind, (clients, 2)), numbers(kind, (100, 2), seed=9)
    results = {
        S.apply(X, threads=threads, ring=ring_of(kind), out=out.copy()).tobytes() for threads in (1, 2, 3, 4, 64)
    }
    assert len(results) == 1


def test_doubles_of_whole_pieces_add_up_to_the_same_bits():
    clients = 3 * PIECE + 77
    S = OSNAP(100, clients, 2, seed=4)
    X = numbers("float64", (clients, 2))
    Y = np.zeros((100, 2))
    assert S.piece == PIECE
    for first in range(0, clients, S.piece):
        S.apply(X[first : first + S.piece], out=Y, first=first)
    assert Y.tobytes() == S.apply(X).tobytes()


def test_pieces_grow_with_the_sketch():
    assert OSNAP(10_000, 10, 2, seed=0).piece == 1 << 18


@pytest.mark.parametrize("kind", KINDS)
def test_any_memory_layout_is_taken(kind):
    S = OSNAP(9, 60, 2, seed=5)
    X = numbers(kind, (60, 8))
    expected = S.apply(X, ring=ring_of(kind))
    spread = np.empty((60, 16), X.dtype)
    spread[:, ::2] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    for layout in (np.asfortranarray(X), spread[:, ::2], frozen):
        np.testing.assert_array_equal(S.apply(layout, ring=ring_of(kind)), expected)
    X3 = np.stack([X, X], axis=1)
    np.testing.assert_array_equal(S.apply(np.asfortranarray(X3), ring=ring_of(kind)), expected)


@pytest.mark.parametrize("kind", ["ring64", "mersenne61"])
@pytest.mark.parametrize("copies", [False, True])
def test_stored_entries_give_the_same_sums(instruction_set, kind, copies):
    S = OSNAP(30, 1500, 3, seed=2)
    X = numbers(kind, (1500, 9 if copies else 3))
    Y = np.zeros((30, 3), np.uint64)
    stored = kernel.Stored(S._matrix, 1500)
    assert stored.scatter(kind, X, Y)
    np.testing.assert_array_equal(Y, S.apply(X.reshape(1500, -1, 3), ring=kind))
    for few in (1, 700):
        again, repeated = np.zeros_like(Y), X[np.arange(1500) % few]
        assert stored.scatter(kind, X[:few], again)
        np.testing.assert_array_equal(again, S.apply(repeated.reshape(1500, -1, 3), ring=kind))
    for shape, sums in (((1501, 3), Y), ((0, 3), Y), ((1500, 2), Y), ((1500, 3), Y[:29])):
        with pytest.raises(ValueError, match="X and Y"):
            stored.scatter(kind, np.zeros(shape, np.uint64), sums)


def test_rings_are_taken_by_name_and_as_objects():
    S = CountSketch(5, 30, seed=6)
    X = numbers("mersenne61", (30, 2))
    for ring in (Ring64(), Mersenne61()):
        np.testing.assert_array_equal(S.apply(X, ring=ring), S.apply(X, ring=ring.name))
    assert (S.apply(X) != S.apply(X, ring="mersenne61")).any()


@settings(max_examples=40, deadline=None)
@given(place=st.integers(0, 69), value=st.integers(P, (1 << 64) - 1), threads=st.integers(1, 2), copies=st.booleans())
def test_field_elements_must_be_canonical(place, value, threads, copies):
    S = OSNAP(5, 7, 2, seed=6)
    X = numbers("mersenne61", (7, 2, 5) if copies else (7, 10))
    X.flat[place] = value
    for name in SETS:
        kernel.use_instruction_set(name)
        with pytest.raises(InputError, match=f"{value} given|element is {value}"):
            S.apply(X, ring="mersenne61", threads=threads)


def test_zero_is_written_as_zero(instruction_set):
    """Negating 0 and adding opposite elements both give p before the last reduction."""
    X = numbers("mersenne61", (20, 3))
    opposite = np.stack([X, (P - X) % P])
    assert not OSNAP(5, 20, 2, seed=6).apply(np.zeros((20, 3), np.uint64), ring="mersenne61").any()
    assert not Sum(40).apply(opposite.reshape(40, 3), ring="mersenne61").any()


def test_no_clients_change_nothing():
    S = OSNAP(5, 7, 2, seed=6)
    for kind in KINDS:
        out = numbers(kind, (5, 4))
        before = out.copy()
        S.apply(np.zeros((0, 4), out.dtype), out=out, first=7, ring=ring_of(kind))
        np.testing.assert_array_equal(out, before)


def test_chunks_are_added_to_zeros_that_begin_with_a_cache_line():
    for width in (1, 3, 10):
        S = OSNAP(5, 7, 2, seed=6)
        Y, X = S.zeros(width), numbers("ring64", (7, width))
        assert (Y.shape, Y.dtype) == ((5, width), np.uint64)
        assert Y.ctypes.data % 64 == 0
        assert not Y.any()
        S.apply(X[:4], out=Y)
        S.apply(X[4:], out=Y, first=4)
        np.testing.assert_array_equal(Y, S.apply(X))


def test_matmul_is_scaled():
    S = OSNAP(20, 300, 3, seed=8)
    X = numbers("float64", (300, 4))
    dense = S.to_csc().toarray() * S.scale
    np.testing.assert_allclose(S @ X, dense @ X, atol=1e-12)
    np.testing.assert_allclose(S @ X[:, 0], dense @ X[:, 0], atol=1e-12)
    np.testing.assert_allclose(S @ np.stack([X, X, X], axis=1), dense @ X, atol=1e-12)
    np.testing.assert_array_equal(S @ np.arange(300), S @ np.arange(300.0))
    assert (S @ X).dtype == np.float64


# --- What is public about it --------------------------------------------------------------------------------------


@pytest.mark.parametrize("S", [OSNAP(50, 700, 4, 1), OSNAP(50, 720, 4, 1, True), CountSketch(30, 99, 2), Sum(12)])
def test_public_facts_agree_with_the_matrix(S):
    matrix = S.to_csc()
    dense = matrix.toarray().astype(np.int64)
    assert isinstance(matrix, scipy.sparse.csc_matrix)
    assert matrix.dtype == np.int8
    assert matrix.has_sorted_indices
    assert dense.shape == S.shape == (S.rows, S.columns)
    assert (np.abs(dense).sum(axis=0) == S.sparsity).all()
    X = numbers("ring64", (S.columns, 3))
    np.testing.assert_array_equal(S.apply(X), dense.astype(np.uint64) @ X)
    np.testing.assert_array_equal(S.occupancy(), np.abs(dense).sum(axis=1))
    np.testing.assert_allclose(S.column_sums(), dense.sum(axis=1) / math.sqrt(S.sparsity))
    np.testing.assert_allclose(S.column_sums(), S @ np.ones(S.columns), atol=1e-12)
    weights = np.random.default_rng(0).random(S.rows)
    assert S.heaviest_client(weights) == pytest.approx((np.abs(dense) * weights[:, None]).sum(axis=0).max())
    assert S.scale == 1 / math.sqrt(S.sparsity)


def test_facts_of_many_clients_come_in_pieces():
    S = OSNAP(10, 2 * PIECE, 3, seed=1)
    rows, signs = S.entries(0, S.columns)
    np.testing.assert_array_equal(S.occupancy(), np.bincount(rows.ravel(), minlength=10))
    np.testing.assert_allclose(S.column_sums(), np.bincount(rows.ravel(), signs.ravel(), 10) / math.sqrt(3))
    weights = np.zeros(10)
    weights[rows[-1]] = [1.0, 2.0, 4.0]
    assert S.heaviest_client(weights) == 7.0


def test_sum_adds_up():
    X = numbers("ring64", (1000, 10))
    np.testing.assert_array_equal(Sum(1000).apply(X), X.sum(axis=0, keepdims=True))
    F = numbers("mersenne61", (1000, 1, 3))
    assert Sum(1000).apply(F, ring="mersenne61").tolist() == [[int(x) % P for x in F[:, 0].astype(object).sum(axis=0)]]
    np.testing.assert_array_equal(Sum(1 << 34).occupancy(), [1 << 34])


@pytest.mark.parametrize("S", [OSNAP(9, 30, 2, bytes(range(32)), True), CountSketch(9, 30, 5), Sum(30)])
def test_descriptions_are_exact(S):
    again = sketch_from(json.loads(json.dumps(S.describe())))
    assert again == S
    assert hash(again) == hash(S)
    assert type(again) is type(S)
    assert repr(again) == repr(S)
    copy = pickle.loads(pickle.dumps(S))
    X = numbers("ring64", (30, 2))
    np.testing.assert_array_equal(copy.apply(X), S.apply(X))
    assert OSNAP(8, 30, 2, 0) != S
    assert S != "sketch"
    assert isinstance(S, PublicMatrix)


def test_a_number_is_a_seed():
    assert OSNAP(9, 30, 2, 258) == OSNAP(9, 30, 2, (258).to_bytes(32, "little"))
    assert OSNAP(9, 30, 2, 258) != OSNAP(9, 30, 2, 259)


# --- What the proofs rely on --------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize(("rows", "sparsity"), [(5, 5), (24, 4), (100, 3)])
def test_every_copy_is_uniform_over_rows_and_signs(rows, sparsity, balanced):
    """40000 independent draws: those of single clients or, where a batch shares its draw, of one client a batch."""
    N = 40_000
    S = OSNAP(rows, N * rows, sparsity, seed=20, balanced=balanced)
    if balanced:
        drawn = [S.entries(batch * rows + batch % rows, 1) for batch in range(N)]
        drawn_rows, signs = (np.concatenate(part) for part in zip(*drawn, strict=True))
    else:
        drawn_rows, signs = S.entries(0, N)
    for copy in range(sparsity):
        counts = np.bincount(2 * drawn_rows[:, copy] + (signs[:, copy] > 0), minlength=2 * rows)
        assert scipy.stats.chisquare(counts).pvalue > ALPHA
    if sparsity > 1:  # the second copy is uniform on the rows that the first left
        difference = (drawn_rows[:, 1] - drawn_rows[:, 0]) % rows
        assert scipy.stats.chisquare(np.bincount(difference, minlength=rows)[1:]).pvalue > ALPHA


@pytest.mark.parametrize("clients", [1000, 1024, 3001])
def test_balanced_copies_have_floor_or_ceil_clients_in_each_row(clients):
    rows, _ = OSNAP(32, clients, 4, seed=2, balanced=True).entries(0, clients)
    for copy in range(4):
        assert set(np.bincount(rows[:, copy], minlength=32)) == {clients // 32, -(-clients // 32)}


@pytest.mark.statistical
@pytest.mark.parametrize("balanced", [False, True])
def test_norms_are_kept_on_average(balanced):
    """E ||S x||^2 = ||x||^2, and its variance is that of pairwise collisions, over 4000 seeds.

    ||S x||^2 - ||x||^2 = 2/s sum over pairs of clients of x_i x_j times the signed number of shared rows. Signs are
    independent, so the variance is 4/s^2 sum x_i^2 x_j^2 E[shared rows], where E is s^2/k for independent clients; in
    one batch of balanced ones a copy never meets itself, which leaves s (s - 1)/(k - 1) on average over pairs.
    """
    N, rows, sparsity, clients = 4000, 12, 3, 24
    x = np.random.default_rng(5).normal(size=clients)
    norms = np.array([np.sum((OSNAP(rows, clients, sparsity, seed, balanced) @ x) ** 2) for seed in range(N)])
    shared = np.full((clients, clients), sparsity**2 / rows)
    if balanced:
        batch = np.arange(clients) // rows
        shared[batch[:, None] == batch] = sparsity * (sparsity - 1) / (rows - 1)
    pairs = np.triu(np.outer(x**2, x**2), 1)
    variance = 4 / sparsity**2 * np.sum(pairs * shared)
    z = scipy.stats.norm.isf(ALPHA / 2)
    assert abs(norms.mean() - x @ x) < z * math.sqrt(variance / N)
    fourth = np.mean((norms - norms.mean()) ** 4)
    assert abs(norms.var() - variance) < z * math.sqrt((fourth - variance**2) / N)


# --- Bad input ----------------------------------------------------------------------------------------------------

GOOD = OSNAP(5, 20, 2, seed=0)
WORDS = np.zeros((20, 3), np.uint64)


@pytest.mark.parametrize(
    ("arguments", "rejection"),
    [
        ({"X": WORDS.astype(np.int64)}, {"argument": "X", "given": "int64"}),
        ({"X": WORDS.astype(">u8")}, {"argument": "X", "given": ">u8"}),
        ({"X": WORDS.astype(np.float32)}, {"argument": "X", "given": "float32"}),
        ({"X": [[1, 2]]}, {"argument": "X", "given": "list"}),
        ({"X": WORDS[:, 0]}, {"argument": "X", "given": "shape (20,)"}),
        ({"X": WORDS[:, :0]}, {"argument": "X", "given": "shape (20, 0)"}),
        ({"X": np.zeros((20, 3, 4), np.uint64)}, {"argument": "X", "given": "shape (20, 3, 4)"}),
        ({"X": np.zeros((21, 3), np.uint64)}, {"argument": "X", "given": "clients 0 to 20"}),
        ({"X": WORDS, "first": 1}, {"argument": "X", "given": "clients 1 to 20"}),
        ({"X": WORDS, "first": -1}, {"argument": "first", "given": "-1"}),
        ({"X": WORDS, "first": 1.0}, {"argument": "first", "given": "1.0"}),
        ({"X": WORDS, "threads": 0}, {"argument": "threads", "given": "0"}),
        ({"X": WORDS, "ring": "ring32"}, {"argument": "ring", "given": "'ring32'"}),
        ({"X": WORDS, "out": np.zeros((5, 4), np.uint64)}, {"argument": "out", "given": "uint64 (5, 4)"}),
        ({"X": WORDS, "out": np.zeros((5, 3))}, {"argument": "out", "given": "float64 (5, 3)"}),
        ({"X": WORDS, "out": [0]}, {"argument": "out", "given": "list"}),
        (
            {"X": WORDS, "out": np.zeros((3, 5), np.uint64).T},
            {"argument": "out", "given": "a writeable C-contiguous array apart from X is expected"},
        ),
        (
            {"X": WORDS, "out": WORDS[:5]},
            {"argument": "out", "given": "a writeable C-contiguous array apart from X is expected"},
        ),
        (
            {"X": WORDS, "out": np.full((5, 3), P, np.uint64), "ring": "mersenne61"},
            {
                "argument": "out",
                "given": "element 0 is 2305843009213693951, a number below 2305843009213693951 expected",
            },
        ),
    ],
)
def test_bad_arguments_of_apply_are_refused(arguments, rejection):
    with rejects(**rejection):
        GOOD.apply(**arguments)


def test_read_only_sums_are_refused():
    out = np.zeros((5, 3), np.uint64)
    out.flags.writeable = False
    with rejects("out", given="a writeable C-contiguous array apart from X is expected"):
        GOOD.apply(WORDS, out=out)


@pytest.mark.parametrize(
    ("call", "rejection"),
    [
        (
            lambda: GOOD @ np.zeros((19, 2)),
            {"argument": "X", "given": "shape (19, 2) given, 20 rows expected, one for each client"},
        ),
        (
            lambda: GOOD @ np.float64(1),
            {"argument": "X", "given": "shape () given, 20 rows expected, one for each client"},
        ),
        (lambda: GOOD @ np.zeros((20, 2), complex), {"argument": "X", "given": "complex128"}),
        (lambda: GOOD.entries(19, 2), {"argument": "count", "given": "2"}),
        (lambda: GOOD.entries(21, 0), {"argument": "first", "given": "21"}),
        (lambda: GOOD.heaviest_client(np.ones(4)), {"argument": "weights", "given": "shape (4,)"}),
        (lambda: Sum(3).heaviest_client(np.ones(2)), {"argument": "weights", "given": "shape (2,)"}),
        (
            lambda: OSNAP(5, 1 << 31, 1, 0).to_csc(),
            {"argument": "columns, sparsity", "given": "2147483648 entries, at most 2147483647 expected"},
        ),
        (lambda: OSNAP(5, 20, 6, 0), {"argument": "sparsity", "given": "6"}),
        (lambda: OSNAP(5, 20, 2, -1), {"argument": "seed", "given": "-1"}),
        (lambda: OSNAP(5, 20, 2, b"short"), {"argument": "seed", "given": "5 bytes"}),
        (lambda: OSNAP(5, 20, 2, 0.5), {"argument": "seed", "given": "0.5"}),
        (lambda: Sum("many"), {"argument": "columns", "given": "'many'"}),
    ],
)
def test_bad_calls_are_refused(call, rejection):
    with rejects(**rejection):
        call()


def test_the_kernel_checks_its_buffers():
    matrix = kernel.Matrix("independent", (1, 2, 3, 4), 5, 2)
    X, Y = np.zeros((4, 3), np.uint64), np.zeros((5, 3), np.uint64)
    for bad in (Y[:4], np.zeros((5, 2), np.uint64)):
        with pytest.raises(ValueError, match="shapes"):
            matrix.scatter("ring64", 0, X, bad)
    with pytest.raises(ValueError, match="each copy"):
        matrix.entries(0, np.zeros((3, 4), np.uint32))
    with pytest.raises(ValueError, match="copies <= rows"):
        kernel.Matrix("independent", (1, 2, 3, 4), 2, 3)


@pytest.mark.parametrize("changed", [{"rows": True}, {"sparsity": 1.0}, {"balanced": 1}])
def test_a_description_with_numbers_of_another_kind_is_refused(changed):
    """1, 1.0 and true are equal in Python and three values in JSON, of which digests are made."""
    with rejects("description", expected="{'family': 'sum', 'rows': 1, 'columns': 5, 'sparsity': 1, 'balanced': True}"):
        sketch_from({**Sum(5).describe(), **changed})
