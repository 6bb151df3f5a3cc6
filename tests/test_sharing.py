"""Additive and Shamir shares, and one server's share as an array, a key or a file."""

import itertools
import json
import os
import sys

import numpy as np
import pytest
import reference_sharing as reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from dpmpc.encoding import Mersenne61, Ring64, home
from dpmpc.errors import InconsistentShares, InputError
from dpmpc.randomness import Stream
from dpmpc.shares import Expansion
from dpmpc.sharing import (
    AdditiveSharing,
    ArrayShare,
    FileShare,
    SeededShare,
    ShamirSharing,
    expand,
    open_share,
    save_share,
)
from dpmpc.sharing.interpolation import lagrange, outliers

VECTORS = json.loads((reference.VECTORS / "sharing.json").read_text())
P = (1 << 61) - 1
KEY = bytes(range(16))
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


def words(values):
    return np.array(values, dtype=np.uint64)


def secret(ring, shape, seed=1):
    return ring.uniform(Stream.from_seed(seed), shape)


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


# --- Shamir: missing and lying servers ---


@pytest.mark.parametrize(("servers", "threshold"), [(3, 1), (5, 2), (6, 2)])
def test_any_large_enough_set_of_servers_gives_the_secret(servers, threshold):
    sharing = ShamirSharing(servers, threshold)
    x = secret(sharing.ring, 5)
    shares = sharing.split(x)
    for size in range(threshold + 1, servers + 1):
        for parties in itertools.combinations(reversed(range(servers)), size):
            assert (sharing.combine({party: shares[party] for party in parties}) == x).all()


@pytest.mark.parametrize(("servers", "threshold", "named"), [(3, 1, False), (4, 1, True), (5, 2, True), (5, 3, False)])
def test_a_lie_is_an_error_that_names_the_liar_where_it_can(servers, threshold, named):
    sharing = ShamirSharing(servers, threshold)
    x = secret(sharing.ring, (2, 3))
    for liar in range(servers):
        shares = sharing.split(x)
        shares[liar][1, 2] ^= np.uint64(1)
        with pytest.raises(InconsistentShares) as caught:
            sharing.combine(shares)
        assert caught.value.party == (liar if named else None)
        assert (f"party {liar} is wrong" if named else "unknown") in str(caught.value)


def test_two_lies_are_not_blamed_on_one_server():
    sharing = ShamirSharing(6, 2)
    shares = sharing.split(secret(sharing.ring, 3))
    shares[1][0] ^= np.uint64(1)
    shares[4][0] ^= np.uint64(2)
    with pytest.raises(InconsistentShares) as caught:
        sharing.combine(shares)
    assert caught.value.party is None


ROBUST = [(3, 1), (4, 1), (5, 1), (5, 2), (7, 2), (7, 3)]


def correctable(present, threshold):
    return (present - threshold - 1) // 2


def spoil(share, how, rng):
    """Return a wrong share that is made of field elements: one word or every word is another."""
    wrong = share.copy()
    where = slice(None) if how == "everything" else int(rng.integers(wrong.size))
    offset = np.ones(wrong.size, np.uint64) if how == "unit" else rng.integers(1, P, wrong.size, np.uint64)
    wrong.flat[where] = Mersenne61().add(share.reshape(-1), offset)[where]
    return wrong


@pytest.mark.parametrize("how", ["unit", "word", "everything"])
@pytest.mark.parametrize(("servers", "threshold"), ROBUST)
def test_wrong_shares_are_corrected_and_named_wherever_servers_are_missing_too(servers, threshold, how):
    """All sets of present servers and, among them, all sets of liars within the bound."""
    sharing, rng = ShamirSharing(servers, threshold), np.random.default_rng(3)
    x = secret(sharing.ring, (2, 3))
    shares = sharing.split(x)
    for present in range(threshold + 1, servers + 1):
        for parties in itertools.combinations(range(servers), present):
            for count in range(correctable(present, threshold) + 1):
                for liars in itertools.combinations(parties, count):
                    sent = {p: spoil(shares[p], how, rng) if p in liars else shares[p] for p in parties}
                    corrected = sharing.correct(sent)
                    assert corrected.wrong == liars
                    assert (corrected.secret == x).all()


@pytest.mark.parametrize(("servers", "threshold"), ROBUST)
def test_a_liar_is_named_with_t_plus_3_servers_and_noticed_with_t_plus_2(servers, threshold):
    sharing, rng = ShamirSharing(servers, threshold), np.random.default_rng(4)
    shares = sharing.split(secret(sharing.ring, 4))
    for liar in range(servers):
        sent = [spoil(share, "word", rng) if party == liar else share for party, share in enumerate(shares)]
        with pytest.raises(InconsistentShares) as caught:
            sharing.combine(sent)
        assert caught.value.party == (liar if servers >= threshold + 3 else None)
        if servers < threshold + 3:
            with pytest.raises(InconsistentShares, match="unknown"):
                sharing.correct(sent)


@pytest.mark.parametrize(("servers", "threshold"), ROBUST)
def test_combine_notices_all_lies_of_fewer_than_m_minus_t(servers, threshold):
    sharing, rng = ShamirSharing(servers, threshold), np.random.default_rng(5)
    shares = sharing.split(secret(sharing.ring, 4))
    for count in range(1, servers - threshold):
        for liars in itertools.combinations(range(servers), count):
            sent = [spoil(share, "word", rng) if party in liars else share for party, share in enumerate(shares)]
            with pytest.raises(InconsistentShares) as caught:
                sharing.combine(sent)
            if 1 < count <= correctable(servers, threshold):
                assert f"those of parties {list(liars)} are wrong" in str(caught.value)


@pytest.mark.parametrize(("servers", "threshold"), ROBUST)
def test_independent_lies_beyond_the_bound_are_an_error(servers, threshold):
    """Random lies are on some polynomial with honest shares with probability below 2^-50."""
    sharing, rng = ShamirSharing(servers, threshold), np.random.default_rng(6)
    shares = sharing.split(secret(sharing.ring, 4))
    for count in range(correctable(servers, threshold) + 1, servers - threshold):
        for liars in itertools.combinations(range(servers), count):
            sent = [spoil(share, "everything", rng) if party in liars else share for party, share in enumerate(shares)]
            with pytest.raises(InconsistentShares):
                sharing.correct(sent)


@pytest.mark.parametrize("seed", range(20))
def test_liars_who_are_wrong_in_different_entries_are_all_named(seed):
    sharing, rng = ShamirSharing(9, 2), np.random.default_rng(seed)
    x = secret(sharing.ring, 50)
    shares = sharing.split(x)
    liars = sorted(int(party) for party in rng.choice(9, 3, replace=False))
    for liar, entry in zip(liars, rng.choice(50, 3, replace=False), strict=True):
        shares[liar][entry] = (shares[liar][entry] + np.uint64(1)) % np.uint64(P)
    corrected = sharing.correct(shares)
    assert corrected.wrong == tuple(liars)
    assert (corrected.secret == x).all()


@pytest.mark.parametrize(("servers", "threshold"), [(5, 1), (6, 2), (7, 3)])
def test_liars_are_counted_over_all_entries(servers, threshold):
    """Each entry could be corrected by itself; together they are one liar more than are ever named."""
    sharing = ShamirSharing(servers, threshold)
    shares = sharing.split(secret(sharing.ring, 5))
    for entry, liar in enumerate(range(correctable(servers, threshold) + 1)):
        shares[liar][entry] ^= np.uint64(1)
    with pytest.raises(InconsistentShares, match="which of them are wrong is unknown"):
        sharing.correct(shares)


def colluding_lies(servers, threshold, liars, victim, shift):
    """What liars add to their shares, without knowing any other: a polynomial that is 0 at t of the honest points.

    It is shift at 0, so that honest shares at those points fit to another secret, and only the victim's does not.
    """
    others = [p for p in range(servers) if p not in (*liars, victim)]
    assert len(others) == threshold, "the polynomial has no room to vanish at all of them"

    def lie(party):
        value = shift
        for other in others:
            value = value * (party - other) * pow(-1 - other, -1, P) % P
        return value

    return {party: lie(party) for party in liars}


@pytest.mark.parametrize(("servers", "threshold"), [(4, 1), (5, 2), (6, 3)])
def test_two_colluding_liars_where_one_can_be_corrected_frame_an_honest_server(servers, threshold):
    """Not promised, so known: beyond the bound `correct` is deceived, and `combine` is not."""
    sharing = ShamirSharing(servers, threshold)
    x = secret(sharing.ring, 4)
    shares = sharing.split(x)
    for party, lie in colluding_lies(servers, threshold, (0, 1), 2, shift=1000).items():
        shares[party] = sharing.ring.add(shares[party], np.full(4, lie, np.uint64))
    corrected = sharing.correct(shares)
    assert corrected.wrong == (2,)
    assert (corrected.secret == sharing.ring.add(x, np.full(4, 1000, np.uint64))).all()
    with pytest.raises(InconsistentShares):
        sharing.combine(shares)


def test_two_colluding_liars_of_seven_servers_are_corrected():
    """The same lies, but there are too many honest shares to agree with."""
    sharing = ShamirSharing(7, 2)
    x = secret(sharing.ring, 4)
    shares = sharing.split(x)
    lies = colluding_lies(5, 2, (0, 1), 2, shift=1000)
    for party, lie in lies.items():
        shares[party] = sharing.ring.add(shares[party], np.full(4, lie, np.uint64))
    corrected = sharing.correct(shares)
    assert corrected.wrong == (0, 1)
    assert (corrected.secret == x).all()


@given(data=st.data())
def test_outliers_are_those_that_a_search_of_all_subsets_finds(data):
    """In a small field, where outliers meet other polynomials by chance, as they never do in the large one."""
    modulus, degree = 13, data.draw(st.integers(1, 4))
    count = data.draw(st.integers(degree + 1, 9))
    points = list(range(1, count + 1))
    if data.draw(st.booleans()):
        values = data.draw(st.lists(st.integers(0, modulus - 1), min_size=count, max_size=count))
    else:
        coefficients = data.draw(st.lists(st.integers(0, 12), min_size=degree + 1, max_size=degree + 1))
        values = [sum(c * x**j for j, c in enumerate(coefficients)) % modulus for x in points]
        for index in data.draw(st.sets(st.integers(0, count - 1), max_size=correctable(count, degree) + 1)):
            values[index] = data.draw(st.integers(0, modulus - 1))
    assert outliers(points, values, degree, modulus) == searched(points, values, degree, modulus)


def searched(points, values, degree, modulus):
    """Interpolate through all subsets; there is at most one polynomial that so few points are off."""
    for chosen in itertools.combinations(range(len(points)), degree + 1):
        xs = [points[index] for index in chosen]
        curve = [
            sum(w * values[index] for w, index in zip(lagrange(xs, x, modulus), chosen, strict=True)) % modulus
            for x in points
        ]
        off = [index for index, (a, b) in enumerate(zip(curve, values, strict=True)) if a != b]
        if len(off) <= correctable(len(points), degree):
            return off
    return None


def test_conduct_is_said_in_plain_words():
    assert "semi-honest" in AdditiveSharing(3).conduct
    assert "unnoticed, and all 3 are needed" in AdditiveSharing(3).conduct
    words = ShamirSharing(7, 2).conduct
    assert "semi-honest" not in words
    for said in ("at most 2 of the 7", "noticed (up to 4)", "and named (up to 2, and more", "be missing (up to 4)"):
        assert said in words
    assert "noticed (up to 1), but not corrected" in ShamirSharing(3, 1).conduct
    assert "goes unnoticed, and all are needed" in ShamirSharing(3, 2).conduct


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
    ("message", "call"),
    [
        ("servers: 1 given", lambda: AdditiveSharing(1)),
        ("ring: 'ring8' given", lambda: AdditiveSharing(2, "ring8")),
        ("servers: 1 given", lambda: ShamirSharing(1, 1)),
        ("threshold: 0 given, a number from 1 to 2", lambda: ShamirSharing(3, 0)),
        ("threshold: 3 given, a number from 1 to 2", lambda: ShamirSharing(3, 3)),
        ("x: int64 given", lambda: AdditiveSharing(2).split(np.zeros(2, np.int64))),
        ("x: list given", lambda: ShamirSharing(2, 1).split([1])),
        (f"x: element 1 is {P}", lambda: ShamirSharing(2, 1).split(words([0, P]))),
        (f"x: element 1 is {P}", lambda: AdditiveSharing(2, "mersenne61").split_seeded(words([0, P]))),
        ("threads: 0 given", lambda: AdditiveSharing(2).split(words([0]), threads=0)),
        ("out: 1 arrays given, 2 expected", lambda: AdditiveSharing(2).split(words([0]), out=some(1))),
        ("out: uint64 of shape", lambda: AdditiveSharing(2).split(words([0]), out=some(2))),
        ("out: 3 arrays given, 2 expected", lambda: ShamirSharing(2, 1).split(words([0]), out=some(3))),
        (r"shares\[1\]: int64", lambda: AdditiveSharing(2).combine([words([0]), np.zeros(1, np.int64)])),
        ("share of party 2: int64", lambda: ShamirSharing(3, 1).combine({0: words([0]), 2: np.zeros(1, np.int64)})),
        ("shares: 1 given, at least 2", lambda: ShamirSharing(3, 1).combine({0: words([0])})),
        ("party 3 given, a number from 0 to 2", lambda: ShamirSharing(3, 1).combine({0: words([0]), 3: words([0])})),
        ("key: 15 bytes given", lambda: expand(bytes(15), (2,))),
        ("first: -1 given", lambda: expand(KEY, (2,), first=-1)),
        ("key: 17 bytes given", lambda: SeededShare(bytes(17), (2,))),
        ("shape: \\(\\) given", lambda: SeededShare(KEY, ())),
        ("shape: \\(-1,\\) given", lambda: SeededShare(KEY, (-1,))),
        ("shape: \\(4294967296, 4294967296\\)", lambda: SeededShare(KEY, (1 << 32, 1 << 32))),
        ("array: float64 given", lambda: ArrayShare(np.zeros(2))),
        ("array: a single element", lambda: ArrayShare(words(0))),
    ],
)
def test_bad_input_is_named(message, call):
    with pytest.raises(InputError, match=message):
        call()


# --- One server's share ---


class Forced(Stream):
    """A stream some of whose words are all ones, as are the first words of some streams for redraws."""

    def __init__(self, key, ones=frozenset(), depth=2):
        super().__init__(key)
        self.ones, self.depth, self.at = ones, depth, 0

    def seek_block(self, block):
        super().seek_block(block)
        self.at = 2 * block

    def fill(self, out):
        super().fill(out)
        for index in range(out.size):
            if self.at + index in self.ones:
                out[index] = (1 << 64) - 1
        self.at += out.size

    def substream(self, index, label):
        child = super().substream(index, label)
        return Forced(child._key, ones=frozenset(range(self.depth if index % 2 else 0)))


def test_redraws_of_a_share_are_those_of_the_specification():
    """Words 3, 4 and 10 come out as p; for the odd one so do two attempts. Any chunk of the share agrees."""
    ones = frozenset([3, 4, 10])

    def word(key, index):
        forced = index in ones if key == KEY else key == reference.redraw_key(KEY, 3) and index < 2
        return (1 << 64) - 1 if forced else reference.word(key, index)

    expected = [reference.element(KEY, e, P, word) for e in range(12)]
    assert P not in expected
    for first, size in [(0, 12), (3, 5), (4, 1), (9, 3)]:
        out = np.empty(size, np.uint64)
        Expansion(Forced(KEY, ones), Mersenne61(), first).read(out)
        assert out.tolist() == expected[first : first + size]
    reader, out = Expansion(Forced(KEY, ones), Mersenne61(), 2), np.empty((3, 3), np.uint64)
    for row in out:
        reader.read(row)
    assert out.reshape(-1).tolist() == expected[2:11]


@given(
    first=st.integers(0, 30),
    count=st.integers(0, 30),
    width=st.integers(0, 3),
    ring=st.sampled_from(["ring64", "mersenne61"]),
)
def test_rows_of_a_key_and_of_an_array_are_the_same(first, count, width, ring):
    seeded = SeededShare(KEY, (30, width), ring)
    array = ArrayShare(expand(KEY, (30, width), ring), ring)
    assert seeded.shape == array.shape
    for share in (seeded, array):
        if first + count > 30:
            with pytest.raises(InputError, match=f"first, count: {first}, {count} given, rows within 30"):
                share.rows(first, count)
        else:
            assert share.rows(first, count).tolist() == array.array[first : first + count].tolist()


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, -1)])
def test_rows_are_not_counted_from_the_end(first, count):
    with pytest.raises(InputError, match="rows within 3"):
        SeededShare(KEY, (3, 1)).rows(first, count)


def test_an_array_share_that_is_not_canonical_is_refused_when_read():
    share = ArrayShare(words([[0], [P]]), "mersenne61")
    assert share.rows(0, 1).tolist() == [[0]]
    with pytest.raises(InputError, match=f"share: element 0 is {P}"):
        share.rows(1, 1)


@pytest.mark.parametrize("ring", ["ring64", "mersenne61"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (5,), (4, 2, 3)])
@pytest.mark.parametrize("make", [SeededShare, lambda key, shape, ring: ArrayShare(expand(key, shape, ring), ring)])
def test_a_saved_share_is_opened_again(tmp_path, make, shape, ring):
    path = tmp_path / "share"
    path.write_bytes(bytes(10_000))
    path.chmod(0o644)
    share = make(KEY, shape, ring)
    save_share(path, share)
    assert path.stat().st_mode & 0o777 == 0o600
    opened = open_share(path, ring)
    assert type(opened) is (SeededShare if isinstance(share, SeededShare) else FileShare)
    assert (opened.shape, opened.ring) == (shape, home(ring))
    assert (opened.rows(0, shape[0]) == share.rows(0, shape[0])).all()
    save_share(tmp_path / "copy", opened)
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("shape", [(0, 3), (5,), (700, 2, 3)])
def test_a_share_written_in_blocks_is_the_file_of_the_whole(tmp_path, shape):
    whole = expand(KEY, shape)
    save_share(tmp_path / "whole", ArrayShare(whole))
    (tmp_path / "blocks").write_bytes(bytes(100_000))
    (tmp_path / "blocks").chmod(0o644)
    share = FileShare.create(tmp_path / "blocks", shape)
    assert (open_share(tmp_path / "blocks").rows(0, shape[0]) == 0).all()
    for first in (0, 300, 200, 100, 400, 500, 600):
        share[first : first + 100] = whole[first : first + 100]
    assert (share.rows(0, shape[0]) == whole).all()
    assert (tmp_path / "blocks").read_bytes() == (tmp_path / "whole").read_bytes()
    assert (tmp_path / "blocks").stat().st_mode & 0o777 == 0o600


def test_a_block_of_another_shape_is_refused(tmp_path):
    share = FileShare.create(tmp_path / "share", (5, 2))
    for rows, block in ((slice(0, 5), np.ones((4, 2), np.uint64)), (slice(4, 6), np.ones((2, 2), np.uint64))):
        with pytest.raises(InputError, match="block: shape"):
            share[rows] = block
    with pytest.raises(InputError, match="block: int64 given"):
        share[0:1] = np.ones((1, 2), np.int64)
    assert (share.rows(0, 5) == 0).all()


def test_a_share_that_the_disk_cannot_hold_is_refused_at_once(tmp_path):
    with pytest.raises(InputError, match=r"share cannot take \d+ bytes"):
        FileShare.create(tmp_path / "share", (1 << 58,))


def test_a_file_that_shrinks_after_it_was_opened_is_noticed(tmp_path):
    save_share(tmp_path / "share", SAMPLES["array"])
    opened = open_share(tmp_path / "share")
    (tmp_path / "share").write_bytes((tmp_path / "share").read_bytes()[:-8])
    with pytest.raises(InputError, match="ended early"):
        opened.rows(0, 3)


def test_rows_of_a_large_file_are_dropped_from_the_page_cache(tmp_path, monkeypatch):
    array = np.arange(40, dtype=np.uint64).reshape(10, 4)
    save_share(tmp_path / "share", ArrayShare(array))
    dropped = []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, *arguments: dropped.append(arguments))
    share = open_share(tmp_path / "share")
    share.rows(0, 10)
    assert not dropped
    monkeypatch.setattr("dpmpc.shares._KEPT_BYTES", 319)
    assert (share.rows(2, 3) == array[2:5]).all()
    assert dropped == [(128 + 2 * 32, 3 * 32, os.POSIX_FADV_DONTNEED)]


def test_a_seeded_file_is_one_line_and_a_key(tmp_path):
    save_share(tmp_path / "share", SeededShare(KEY, (4, 2), "mersenne61"))
    header = b'{"format":"dpmpc seeded share","version":1,"ring":"mersenne61","shape":[4,2]}\n'
    assert (tmp_path / "share").read_bytes() == header + KEY
    with pytest.raises(InputError, match="holds a share in mersenne61, ring64 expected"):
        open_share(tmp_path / "share")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="none cannot be read: No such file"):
        open_share(tmp_path / "none")


SAMPLES = {"seeded": SeededShare(KEY, (3, 2)), "array": ArrayShare(expand(KEY, (3, 2)))}


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_truncation_and_addition_is_refused(tmp_path, kind):
    path = tmp_path / "share"
    save_share(path, SAMPLES[kind])
    content = path.read_bytes()
    for damaged in [*(content[:length] for length in range(len(content))), content + b"\0", content + bytes(5000)]:
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="path: "):
            open_share(path)


@pytest.mark.parametrize(
    "array",
    [np.zeros(3), np.zeros(3, np.int64), np.zeros(3, ">u8"), np.zeros((), np.uint64), np.zeros((2, 3), np.uint64).T],
    ids=["float", "signed", "big-endian", "no axes", "fortran"],
)
def test_other_arrays_are_refused(tmp_path, array):
    np.save(tmp_path / "share.npy", array)
    with pytest.raises(InputError, match="uint64 in C order"):
        open_share(tmp_path / "share.npy")


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "share.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(InputError, match=r"no readable \.npy"):
        open_share(tmp_path / "share.npy")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":1', b'"version":2'),
        (b"dpmpc seeded share", b"another format"),
        (b'"ring64"', b'"ring32"'),
        (b"[3,2]", b"[-3,2]"),
        (b"[3,2]", b"[3,2.5]"),
        (b"[3,2]", b"[]"),
        (b"[3,2]", b"[4294967296,4294967296]"),
        (b'"version":1', b'"version":1,"more":0'),
        (b"seeded", b"seeded\xff"),
    ],
)
def test_malformed_headers_are_refused(tmp_path, old, new):
    path = tmp_path / "share"
    save_share(path, SAMPLES["seeded"])
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(InputError, match=r"neither \.npy nor a seeded share"):
        open_share(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(kind=st.sampled_from([*SAMPLES]), at=st.integers(0, 200), noise=st.binary(min_size=1, max_size=4))
def test_a_damaged_file_is_a_share_or_an_input_error(tmp_path, kind, at, noise):
    path = tmp_path / "share"
    save_share(path, SAMPLES[kind])
    content = path.read_bytes()
    path.write_bytes(content[:at] + noise + content[at + len(noise) :])
    try:
        share = open_share(path)
    except InputError:
        return
    assert share.rows(0, min(3, share.shape[0])).dtype == np.uint64


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
