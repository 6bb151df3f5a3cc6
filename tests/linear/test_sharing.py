"""linear.sharing: the schemes against the specification, shares that tell nothing, MPyC's own shares, refusals."""

import itertools
import json
import sys

import numpy as np
import pytest
from scipy import stats

from dpmpc.base.errors import InconsistentShares, InputError
from dpmpc.base.randomness import Stream
from dpmpc.linear.encoding.ring import Mersenne61, Ring64
from dpmpc.linear.sharing import AdditiveSharing, ShamirSharing
from dpmpc.linear.sharing.batch import ArrayShare, SeededShare, expand
from references import sharing as reference
from support.rejections import rejects
from support.sharing_inputs import KEY, P, secret, words

VECTORS = json.loads((reference.VECTORS / "sharing.json").read_text())

ALPHA = 1e-6  # false-alarm rate of each statistical test, were the seed not fixed

SCHEMES = [
    AdditiveSharing(2),
    AdditiveSharing(3, "mersenne61"),
    AdditiveSharing(5, Ring64),
    ShamirSharing(2, 1),
    ShamirSharing(3, 1),
    ShamirSharing(4, 3),
    ShamirSharing(9, 4),
]


@pytest.fixture(params=SCHEMES, ids=repr)
def scheme(request):
    return request.param


def test_vectors_are_the_reference():
    assert reference.sharing_vectors() == VECTORS


@pytest.mark.parametrize("case", VECTORS["expand"])
def test_expand_vectors(case):
    assert expand(bytes.fromhex(case["key"]), (5,), case["ring"], case["first"]).tolist() == case["words"]


@pytest.mark.parametrize("case", VECTORS["additive"])
def test_additive_vectors(case):
    sharing = AdditiveSharing(case["servers"], case["ring"])
    shares = sharing.split(words(case["x"]), stream=Stream(bytes.fromhex(case["stream_key"])))
    assert [share.tolist() for share in shares] == case["shares"]
    assert sharing.combine(shares).tolist() == case["x"]


@pytest.mark.parametrize("case", VECTORS["shamir"])
def test_shamir_vectors(case):
    sharing = ShamirSharing(case["servers"], case["threshold"])
    shares = sharing.split(words(case["x"]), stream=Stream(bytes.fromhex(case["stream_key"])))
    assert [share.tolist() for share in shares] == case["shares"]
    assert sharing.combine(shares).tolist() == case["x"]


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["message"])
def test_refused_vectors(case):
    if case["scheme"] == "additive":
        sharing = AdditiveSharing(case["servers"], case["ring"])
    else:
        sharing = ShamirSharing(case["servers"], case["threshold"])
    with pytest.raises((InputError, InconsistentShares)) as caught:
        sharing.combine([words(share) for share in case["shares"]])
    assert case["message"] in str(caught.value)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3, 5), (40000,)])
@pytest.mark.parametrize("stream", [None, Stream.from_seed(9)])
def test_combine_inverts_split(scheme, shape, stream):
    x = secret(scheme.ring, shape)
    shares = scheme.split(x, stream=stream)
    assert len(shares) == scheme.servers
    assert all(share.shape == shape and scheme.ring.is_canonical(share) for share in shares)
    assert (scheme.combine(shares) == x).all()


def test_every_split_is_fresh(scheme):
    x = secret(scheme.ring, 4)
    for first, second in zip(scheme.split(x), scheme.split(x), strict=True):
        assert (first != second).all()


def test_shares_do_not_depend_on_threads_or_memory(scheme):
    x = secret(scheme.ring, (70001, 3))
    expected = scheme.split(x, stream=Stream(KEY))
    out = [np.empty_like(x) for _ in range(scheme.servers)]
    for threads in (1, 2, 5):
        shares = scheme.split(x, stream=Stream(KEY), threads=threads, out=out)
        assert all(share is given for share, given in zip(shares, out, strict=True))
        assert all((share == other).all() for share, other in zip(shares, expected, strict=True))
    strided = scheme.split(np.asfortranarray(x), stream=Stream(KEY))
    assert all((share == other).all() for share, other in zip(strided, expected, strict=True))


@pytest.mark.parametrize("sharing", [s for s in SCHEMES if isinstance(s, AdditiveSharing)], ids=repr)
def test_all_additive_shares_but_the_last_are_keys(sharing):
    x = secret(sharing.ring, (50, 2, 3))
    keys, last = sharing.split_seeded(x, stream=Stream(KEY), threads=2)
    assert all(len(key) == 16 for key in keys)
    expected = sharing.split(x, stream=Stream(KEY))
    assert (last == expected[-1]).all()
    for key, share in zip(keys, expected[:-1], strict=True):
        assert (expand(key, x.shape, sharing.ring) == share).all()
        assert (expand(key, (7, 2, 3), sharing.ring, first=11) == share[11:18]).all()
    fresh, _ = sharing.split_seeded(x)
    assert not set(fresh) & set(keys)


def test_additive_shares_but_one_do_not_depend_on_the_secret():
    for ring in (Ring64(), Mersenne61()):
        x, other = secret(ring, (2, 100))
        for servers in (2, 3, 5):
            *few, last = AdditiveSharing(servers, ring).split(x, stream=Stream(KEY))
            *same, differs = AdditiveSharing(servers, ring).split(other, stream=Stream(KEY))
            assert all((a == b).all() for a, b in zip(few, same, strict=True))
            assert (last != differs).all()


@pytest.mark.parametrize(("servers", "threshold"), [(3, 1), (3, 2), (5, 2)])
def test_any_t_shamir_shares_fit_every_secret(servers, threshold):
    """For every coalition of t and every other secret there is exactly one sharing that the coalition sees the same."""
    sharing = ShamirSharing(servers, threshold)
    x, other = 12345, P - 9
    shares = [int(share[0]) for share in sharing.split(words([x]), stream=Stream(KEY))]
    for coalition in itertools.combinations(range(servers), threshold):
        points = {0: other, **{party + 1: shares[party] for party in coalition}}
        twin = [words([reference.lagrange(points, party + 1)]) for party in range(servers)]
        assert all(int(twin[party][0]) == shares[party] for party in coalition)
        assert sharing.combine(twin).tolist() == [other]


def chi_square_p(values, bins):
    counts = np.bincount(values, minlength=bins)
    return stats.chisquare(counts).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("value", [0, 1, P - 1])
def test_each_share_is_uniform_whatever_the_secret(scheme, value):
    """Chi-square over the high and the low byte of 60,000 elements, N / 256 in each bin."""
    x = np.full(60_000, value, np.uint64)
    for share in scheme.split(x, stream=Stream.from_seed(20)):
        assert chi_square_p((share >> np.uint64(scheme.ring.bits - 8)).astype(int), 256) > ALPHA
        assert chi_square_p((share & np.uint64(255)).astype(int), 256) > ALPHA


@pytest.mark.statistical
def test_any_two_additive_shares_are_independent():
    """Chi-square over the 256 pairs of high nibbles of two of three shares of the same secret."""
    sharing = AdditiveSharing(3)
    shares = sharing.split(np.full(60_000, 7, np.uint64), stream=Stream.from_seed(21))
    for a, b in itertools.combinations(shares, 2):
        assert chi_square_p(((a >> np.uint64(60)) * np.uint64(16) + (b >> np.uint64(60))).astype(int), 256) > ALPHA


def test_shares_are_linear(scheme):
    ring = scheme.ring
    x, y = secret(ring, (2, 9))
    sums = [ring.add(ring.scale(a, -3), b) for a, b in zip(scheme.split(x), scheme.split(y), strict=True)]
    assert (scheme.combine(sums) == ring.add(ring.scale(x, -3), y)).all()


@pytest.mark.parametrize(("servers", "threshold"), [(3, 1), (5, 2), (7, 3)])
def test_shamir_shares_are_those_of_mpyc(monkeypatch, servers, threshold):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # MPyC parses the command line when it is imported
    thresha = pytest.importorskip("mpyc.thresha")
    finfields = pytest.importorskip("mpyc.finfields")
    field = finfields.GF(P)
    x = secret(Mersenne61(), 20)
    sharing = ShamirSharing(servers, threshold)
    ours = [share.tolist() for share in sharing.split(x)]
    points = [(party + 1, ours[party]) for party in range(threshold, 2 * threshold + 1)]
    assert [int(v) % P for v in thresha.recombine(field, points)] == x.tolist()
    theirs = thresha.random_split(field, [field(v) for v in x.tolist()], threshold, servers)
    assert (sharing.combine([words([int(v) % P for v in share]) for share in theirs]) == x).all()


def some(count, shape=(2,)):
    return [np.zeros(shape, np.uint64)] * count


@pytest.mark.parametrize(
    ("rejection", "call"),
    [
        ({"argument": "servers", "given": "1"}, lambda: AdditiveSharing(1)),
        ({"argument": "ring", "given": "'ring8'"}, lambda: AdditiveSharing(2, "ring8")),
        ({"argument": "servers", "given": "1"}, lambda: ShamirSharing(1, 1)),
        (
            {"argument": "threshold", "given": "0", "expected": "a whole number from 1 to 2"},
            lambda: ShamirSharing(3, 0),
        ),
        (
            {"argument": "threshold", "given": "3", "expected": "a whole number from 1 to 2"},
            lambda: ShamirSharing(3, 3),
        ),
        ({"argument": "x", "given": "int64"}, lambda: AdditiveSharing(2).split(np.zeros(2, np.int64))),
        ({"argument": "x", "given": "list"}, lambda: ShamirSharing(2, 1).split([1])),
        (
            {"argument": "x", "given": "element 1 is 2305843009213693951, a number below 2305843009213693951 expected"},
            lambda: ShamirSharing(2, 1).split(words([0, P])),
        ),
        (
            {"argument": "x", "given": "element 1 is 2305843009213693951, a number below 2305843009213693951 expected"},
            lambda: AdditiveSharing(2, "mersenne61").split_seeded(words([0, P])),
        ),
        ({"argument": "threads", "given": "0"}, lambda: AdditiveSharing(2).split(words([0]), threads=0)),
        (
            {"argument": "out", "given": "1 arrays", "expected": "2"},
            lambda: AdditiveSharing(2).split(words([0]), out=some(1)),
        ),
        (
            {"argument": "out", "given": "uint64 of shape (2,)"},
            lambda: AdditiveSharing(2).split(words([0]), out=some(2)),
        ),
        (
            {"argument": "out", "given": "3 arrays", "expected": "2"},
            lambda: ShamirSharing(2, 1).split(words([0]), out=some(3)),
        ),
        (
            {"argument": "shares[1]", "given": "int64"},
            lambda: AdditiveSharing(2).combine([words([0]), np.zeros(1, np.int64)]),
        ),
        (
            {"argument": "share of party 2", "given": "int64"},
            lambda: ShamirSharing(3, 1).combine({0: words([0]), 2: np.zeros(1, np.int64)}),
        ),
        (
            {"argument": "shares", "given": "1", "expected": "at least 2"},
            lambda: ShamirSharing(3, 1).combine({0: words([0])}),
        ),
        (
            {"argument": "shares", "given": "party 3", "expected": "a number from 0 to 2"},
            lambda: ShamirSharing(3, 1).combine({0: words([0]), 3: words([0])}),
        ),
        ({"argument": "key", "given": "15 bytes"}, lambda: expand(bytes(15), (2,))),
        ({"argument": "first", "given": "-1"}, lambda: expand(KEY, (2,), first=-1)),
        ({"argument": "key", "given": "17 bytes"}, lambda: SeededShare(bytes(17), (2,))),
        ({"argument": "shape", "given": "()"}, lambda: SeededShare(KEY, ())),
        ({"argument": "shape", "given": "(-1,)"}, lambda: SeededShare(KEY, (-1,))),
        ({"argument": "shape", "given": "(4294967296, 4294967296)"}, lambda: SeededShare(KEY, (1 << 32, 1 << 32))),
        ({"argument": "array", "given": "float64"}, lambda: ArrayShare(np.zeros(2))),
        ({"argument": "array", "given": "a single element"}, lambda: ArrayShare(words(0))),
    ],
)
def test_bad_input_is_named(rejection, call):
    with rejects(**rejection):
        call()


@pytest.mark.parametrize("ring", ["ring64", "mersenne61"])
@pytest.mark.parametrize("cut", [1, 4097, 50_001])
def test_blocks_of_a_secret_are_masked_as_the_whole(ring, cut):
    scheme = AdditiveSharing(4, ring)
    secret = scheme.ring.uniform(Stream.from_seed(1), 120_001)
    keys, last = scheme.split_seeded(secret, Stream.from_seed(2))
    for threads in (1, 3):
        masked = secret.copy()
        scheme.mask(masked[:cut], keys, masked[:cut], threads=threads)
        scheme.mask(secret[cut:], keys, masked[cut:], first=cut, threads=threads)
        assert (masked == last).all()
