"""dpmpc.linear.sharing: Shamir shares when servers are missing or lie."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.base.errors import InconsistentShares
from dpmpc.collect.opening.agreement import require_unaccused
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.linear.sharing.shamir import lagrange, outliers
from support.hostile.servers import agreed_lie
from support.rejections import blames
from support.sharing_inputs import P, secret

FIELD = Mersenne61()


@pytest.mark.parametrize(("servers", "threshold"), [(3, 1), (5, 2), (6, 2)])
def test_any_large_enough_set_of_servers_gives_the_secret(servers, threshold):
    sharing = ShamirSharing(servers, threshold)
    x = secret(sharing.ring, 5)
    shares = sharing.split(x)
    for size in range(threshold + 1, servers + 1):
        for parties in itertools.combinations(reversed(range(servers)), size):
            assert (sharing.combine({party: shares[party] for party in parties}) == x).all()


@pytest.mark.parametrize(("servers", "threshold", "named"), [(3, 1, False), (4, 1, True), (5, 2, False), (7, 2, True)])
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
    sharing = ShamirSharing(6, 1)
    shares = sharing.split(secret(sharing.ring, 3))
    shares[1][0] ^= np.uint64(1)
    shares[4][0] ^= np.uint64(2)
    with pytest.raises(InconsistentShares) as caught:
        sharing.combine(shares)
    assert caught.value.party is None


ROBUST = [(3, 1), (4, 1), (5, 1), (5, 2), (7, 2), (7, 3)]


def decodable(present, threshold):
    return (present - threshold - 1) // 2


def correctable(present, threshold):
    """Whoever lies, at most t of them: below 3t + 1 nobody is named."""
    return decodable(present, threshold) if present >= 3 * threshold + 1 else 0


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
def test_a_liar_is_named_with_3_t_plus_1_servers_and_noticed_with_t_plus_2(servers, threshold):
    sharing, rng = ShamirSharing(servers, threshold), np.random.default_rng(4)
    shares = sharing.split(secret(sharing.ring, 4))
    for liar in range(servers):
        sent = [spoil(share, "word", rng) if party == liar else share for party, share in enumerate(shares)]
        with pytest.raises(InconsistentShares) as caught:
            sharing.combine(sent)
        named = servers >= 3 * threshold + 1
        assert caught.value.party == (liar if named else None)
        if not named:
            with blames(None, InconsistentShares):
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


@pytest.mark.parametrize(("servers", "threshold"), [(5, 1), (6, 1), (7, 2)])
def test_liars_are_counted_over_all_entries(servers, threshold):
    """Each entry could be corrected by itself; together they are one liar more than are ever named."""
    sharing = ShamirSharing(servers, threshold)
    shares = sharing.split(secret(sharing.ring, 5))
    for entry, liar in enumerate(range(correctable(servers, threshold) + 1)):
        shares[liar][entry] ^= np.uint64(1)
    with blames(None, InconsistentShares):
        sharing.correct(shares)


def test_who_is_corrected_is_said_as_a_number():
    found = {
        (present, threshold): ShamirSharing(12, threshold).corrected(present)
        for threshold in (1, 2, 3)
        for present in range(threshold + 1, 13)
    }
    assert found == {key: correctable(*key) for key in found}


def test_what_is_no_share_counts_among_those_that_are_corrected():
    """Of (7, 1) two may be wrong: one that sent no share, and one other, but not two."""
    sharing = ShamirSharing(7, 1)
    shares = dict(enumerate(sharing.split(secret(FIELD, 4))))
    truth = sharing.combine(shares)
    del shares[0]
    for liar in (3, 5):
        shares[liar][liar - 2] ^= np.uint64(1)
        if liar == 3:
            corrected = sharing.correct(shares, spoilt=1)
            assert corrected.wrong == (3,)
            assert (corrected.secret == truth).all()
    with blames(None, InconsistentShares):
        sharing.correct(shares, spoilt=1)
    assert sharing.correct(shares).wrong == (3, 5)


# The rule of an opening: correct, compare with one's own share, sign. All sets of liars, all that they can agree on.


RULES = [(present, threshold) for threshold in (1, 2, 3) for present in range(threshold + 1, 8)]


def signed(sharing, sent, liars):
    """What all honest servers sign of these shares: the secret, and who was wrong; None if one of them refuses."""
    try:
        corrected = sharing.correct(sent)
        for party in set(sent) - set(liars):
            require_unaccused(party, corrected.wrong, "shares")
    except InconsistentShares:
        return None
    return int(corrected.secret[0]), corrected.wrong


@pytest.mark.parametrize(("present", "threshold"), RULES)
def test_no_lie_is_signed_by_all_where_t_plus_1_honest_servers_are_present(present, threshold):
    """All sets of liars, of more than t too; each adds a polynomial that is 0 at up to t honest points, in all ways.

    So all (M, t) with 2t + 1 <= M <= 7, with servers missing. Up to t liars are corrected and named where 3t + 1 are
    present, and nobody else. Where fewer than t + 1 honest servers are present the liars choose the secret: that
    condition cannot be spared.
    """
    sharing, deceived = ShamirSharing(7, threshold), set()
    shares = dict(enumerate(sharing.split(np.array([5], np.uint64))[:present]))
    assert signed(sharing, shares, ()) == (5, ())
    for liars in itertools.chain.from_iterable(itertools.combinations(shares, n) for n in range(1, present + 1)):
        honest = [party for party in shares if party not in liars]
        for size in range(min(threshold, len(honest)) + 1):
            for fitting in itertools.combinations(honest, size):
                lie = {p: np.array([agreed_lie(p, fitting, 1000)], np.uint64) for p in liars}
                sent = shares | {p: FIELD.add(shares[p], lie[p]) for p in liars}
                found = signed(sharing, sent, liars)
                if len(honest) > threshold:
                    assert found in (None, (5, liars))
                elif found is not None and found[0] != 5:
                    deceived.add(len(liars))
                if present >= 3 * threshold + 1 and len(liars) <= threshold:
                    assert found == (5, liars)
    assert deceived == set(range(max(1, present - threshold), present + 1))


@pytest.mark.parametrize(("servers", "threshold", "liars"), [(5, 2, 2), (4, 1, 2), (7, 3, 3), (7, 2, 4)])
def test_decoding_alone_is_deceived(servers, threshold, liars):
    """Why there is a rule: the nearest polynomial is a false one, and an honest server is off it."""
    sharing = ShamirSharing(servers, threshold)
    shares = dict(enumerate(sharing.split(np.array([5], np.uint64))))
    lying, fitting = range(servers - liars, servers), range(threshold)
    for party in lying:
        shares[party] = FIELD.add(shares[party], np.array([agreed_lie(party, fitting, 1000)], np.uint64))
    points, values = [party + 1 for party in shares], [int(share[0]) for share in shares.values()]
    assert outliers(points, values, threshold, P) == list(range(threshold, servers - liars))
    assert signed(sharing, shares, lying) is None


@pytest.mark.parametrize(("servers", "threshold"), [(4, 1), (5, 1), (6, 1), (7, 1), (7, 2), (5, 2), (3, 1)])
def test_who_is_odd_in_many_secrets_is_who_a_search_of_all_subsets_finds(servers, threshold):
    """Random errors at random parties in one or several of three entries, more of them than can be corrected too."""
    sharing, rng = ShamirSharing(servers, threshold), np.random.default_rng(8)
    shares = dict(enumerate(sharing.split(secret(FIELD, (90, 3)))))
    for row, entry, party in zip(*(rng.integers(0, high, 120) for high in (75, 3, servers)), strict=True):
        shares[int(party)][row, entry] ^= np.uint64(1)
    compared = sharing.compare(shares)
    for row in range(90):
        one = {party: share[row] for party, share in shares.items()}
        off = explained_by(sharing, one, correctable(servers, threshold))
        assert bool(compared.consistent[row]) == (off == ())
        assert tuple(party for party, odd in compared.odd.items() if odd[row]) == (off or ())
        assert bool(compared.unexplained[row]) == (off is None)


def explained_by(sharing, shares, most):
    """The fewest parties without whom all others agree, if they are no more than `most`."""
    for size in range(most + 1):
        for off in itertools.combinations(shares, size):
            try:
                sharing.combine({party: share for party, share in shares.items() if party not in off})
            except InconsistentShares:
                continue
            return off
    return None


@pytest.mark.parametrize(("servers", "threshold"), [(17, 5), (17, 1), (17, 8), (31, 10)])
def test_many_servers_are_compared_in_polynomial_time(servers, threshold):
    """All subsets of up to e are 9,401 of 17 servers and 38 million of 31; here every report has errors of its own."""
    sharing, rng = ShamirSharing(servers, threshold), np.random.default_rng(9)
    shares = dict(enumerate(sharing.split(secret(FIELD, (12, 18)))))
    most = correctable(servers, threshold)
    expected = {party: np.zeros(12, np.bool_) for party in shares}
    for row in range(12):
        for party in rng.choice(servers, max(1, most), replace=False):
            shares[int(party)][row] = (shares[int(party)][row] + np.uint64(1)) % np.uint64(P)
            expected[int(party)][row] = bool(most)
    began = time.process_time()
    compared = sharing.compare(shares)
    assert time.process_time() - began < 3
    assert not compared.consistent.any()
    for party, odd in compared.odd.items():
        assert odd.tolist() == expected[party].tolist()


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
        for index in data.draw(st.sets(st.integers(0, count - 1), max_size=decodable(count, degree) + 1)):
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
        if len(off) <= decodable(len(points), degree):
            return off
    return None
