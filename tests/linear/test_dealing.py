"""linear.sharing.check_values: shares on no polynomial are found, whoever dealt them and whoever lies about them."""

import itertools

import numpy as np
import pytest

from dpmpc.base.errors import InconsistentShares
from dpmpc.base.randomness import Stream
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.linear.sharing.check_values import check_values, draw_coefficients, judge
from support.hostile.servers import agreed_lie
from support.rejections import rejects
from support.sharing_inputs import P, secret

SEED = bytes(range(32))
FIELD = Mersenne61()


def deal(sharing, reports, words):
    """Deal random words and a mask for each report."""
    return sharing.split(secret(FIELD, (reports, words + 1)))


def told(shares, seed=SEED):
    coefficients = draw_coefficients(seed, shares[0].shape[1] - 1)
    return {party: check_values(share, coefficients) for party, share in enumerate(shares)}


def test_check_values_are_the_linear_combination_of_the_words_and_the_mask():
    coefficients = draw_coefficients(SEED, 5)
    rows = secret(FIELD, (7, 6))
    rows[0] = P - 1
    expected = [
        (sum(int(a) * int(x) for a, x in zip(coefficients, row, strict=False)) + int(row[5])) % P for row in rows
    ]
    assert check_values(rows, coefficients).tolist() == expected
    assert check_values(rows[:0], coefficients).shape == (0,)
    with rejects("rows", given="shape (7, 6)"):
        check_values(rows, coefficients[:4])


@pytest.mark.parametrize(("reports", "words"), [(1, 1), (1, 40_000), (5000, 30), (33, 1 << 15)])
def test_check_values_do_not_depend_on_blocks(reports, words):
    rows = Mersenne61().uniform(Stream.from_seed(1), (reports, words + 1))
    coefficients = draw_coefficients(SEED, words)
    values = check_values(rows, coefficients)
    for index in {0, reports // 2, reports - 1}:
        products = [int(a) * int(x) for a, x in zip(coefficients, rows[index], strict=False)]
        assert int(values[index]) == (sum(products) + int(rows[index, -1])) % P


def test_coefficients_are_different_and_follow_from_the_seed():
    first, again, other = (
        draw_coefficients(SEED, 1000),
        draw_coefficients(SEED, 1000),
        draw_coefficients(bytes(32), 1000),
    )
    np.testing.assert_array_equal(first, again)
    assert len(set(first.tolist()) | set(other.tolist())) == 2000
    assert FIELD.is_canonical(first)


@pytest.mark.parametrize(("servers", "threshold"), [(2, 1), (3, 1), (3, 2), (4, 1), (5, 2), (7, 2)])
def test_what_was_dealt_as_it_should_be_is_good(servers, threshold):
    sharing = ShamirSharing(servers, threshold)
    judgement = judge(sharing, told(deal(sharing, 50, 4)))
    assert judgement.good.all()
    assert (judgement.aside, judgement.unexplained, set(judgement.odd.values())) == ((), 0, {0})


@pytest.mark.parametrize(("servers", "threshold"), [(3, 1), (4, 1), (5, 2), (5, 3), (7, 2)])
def test_each_word_and_the_mask_are_checked_at_each_server(servers, threshold):
    sharing = ShamirSharing(servers, threshold)
    for server, entry in itertools.product(range(servers), range(5)):
        shares = deal(sharing, 9, 4)
        shares[server][3, entry] = (int(shares[server][3, entry]) + 1) % P
        judgement = judge(sharing, told(shares))
        assert judgement.good.tolist() == [index != 3 for index in range(9)]
        named = servers >= 3 * threshold + 1
        assert judgement.odd == {party: int(named and party == server) for party in range(servers)}
        assert judgement.unexplained == (0 if named else 1)


def test_errors_that_cancel_for_one_choice_of_coefficients_are_found_with_another():
    """A dealer who knew the coefficients could pass; so they are drawn after the shares."""
    sharing = ShamirSharing(3, 1)
    shares = deal(sharing, 4, 2)
    a, b = (int(value) for value in draw_coefficients(SEED, 2))
    shares[2][1, 0] = (int(shares[2][1, 0]) + b) % P
    shares[2][1, 1] = (int(shares[2][1, 1]) - a) % P
    assert judge(sharing, told(shares)).good.all()
    assert judge(sharing, told(shares, bytes(32))).good.tolist() == [True, False, True, True]


def test_with_as_many_parties_as_are_needed_there_is_nothing_to_check():
    sharing = ShamirSharing(3, 2)
    shares = deal(sharing, 4, 2)
    shares[2][1, 0] ^= np.uint64(1)
    assert judge(sharing, told(shares)).good.all()


@pytest.mark.parametrize(
    ("servers", "threshold", "liars"), [(4, 1, (2,)), (5, 1, (0,)), (6, 1, (1, 4)), (7, 2, (0, 6))]
)
def test_parties_that_lie_about_most_reports_are_set_aside(servers, threshold, liars):
    sharing = ShamirSharing(servers, threshold)
    shares = deal(sharing, 40, 3)
    victim = next(party for party in range(servers) if party not in liars)
    shares[victim][5, 1] ^= np.uint64(1)
    values = told(shares)
    for liar in liars:
        values[liar] = FIELD.add(values[liar], np.full(40, 17 + liar, np.uint64))
    judgement = judge(sharing, values)
    assert judgement.aside == liars
    assert judgement.good.tolist() == [index != 5 for index in range(40)]


def test_a_party_that_lies_about_half_of_the_reports_is_told_and_not_set_aside():
    sharing = ShamirSharing(4, 1)
    values = told(deal(sharing, 40, 3))
    values[1][:20] = FIELD.add(values[1][:20], np.ones(20, np.uint64))
    judgement = judge(sharing, values)
    assert judgement.aside == ()
    assert judgement.odd == {0: 0, 1: 20, 2: 0, 3: 0}
    assert judgement.good.tolist() == [False] * 20 + [True] * 20
    values[1][20] ^= np.uint64(1)
    assert judge(sharing, values).aside == (1,)


def test_among_fewer_than_3_t_plus_1_nobody_is_set_aside():
    """Two of (5, 2) lie in agreement in all reports: the nearest polynomial is one that only the third is off."""
    sharing = ShamirSharing(5, 2)
    values = told(deal(sharing, 40, 3))
    for liar in (3, 4):
        values[liar] = FIELD.add(values[liar], np.full(40, agreed_lie(liar, (0, 1), 7), np.uint64))
    values[4][:3] = told(deal(sharing, 40, 3))[4][:3]
    judgement = judge(sharing, values)
    assert judgement.aside == ()
    assert judgement.odd == dict.fromkeys(range(5), 0)
    assert not judgement.good.any()
    assert judgement.unexplained == 40


def test_a_missing_party_is_done_without():
    sharing = ShamirSharing(4, 1)
    shares = deal(sharing, 6, 3)
    shares[3][2, 1] ^= np.uint64(1)
    values = told(shares)
    assert judge(sharing, {party: values[party] for party in (0, 1, 3)}).good.tolist() == [
        True,
        True,
        False,
        *[True] * 3,
    ]
    assert judge(sharing, {party: values[party] for party in (0, 1, 2)}).good.all()


def test_more_parties_that_seem_to_lie_than_can_be_corrected_are_an_error():
    sharing = ShamirSharing(6, 1)
    values = told(deal(sharing, 40, 3))
    for liar, lied in ((0, slice(0, 27)), (1, slice(13, 40)), (2, slice(0, 13)), (2, slice(27, 40))):
        values[liar][lied] = FIELD.add(values[liar][lied], np.full(len(values[liar][lied]), 5 + liar, np.uint64))
    with pytest.raises(InconsistentShares, match=r"parties \[0, 1, 2\] are wrong for most of 40 .* at most 2 of 6"):
        judge(sharing, values)


def test_a_check_value_is_as_uniform_as_its_mask():
    """The same words under all masks: the secret of the check values takes each value once, whatever the words are."""
    sharing = ShamirSharing(3, 1)
    words = np.tile(secret(FIELD, (1, 3)), (100, 1))
    masks = np.arange(100, dtype=np.uint64)[:, None]
    shares = sharing.split(np.concatenate([words, masks], axis=1))
    opened = sharing.combine(told(shares))
    unmasked = sum(int(a) * int(x) for a, x in zip(draw_coefficients(SEED, 3), words[0], strict=True)) % P
    assert opened.tolist() == [(unmasked + mask) % P for mask in range(100)]
