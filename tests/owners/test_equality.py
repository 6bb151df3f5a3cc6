"""Private equality of numbers: P-256, proofs, and a comparison that tells one bit, also to parties that cheat."""

import hashlib
import itertools

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmpc.base.errors import MalformedFrame
from dpmpc.base.randomness import Stream
from dpmpc.owners.columns import equality, p256
from dpmpc.owners.columns.alignment import keyed_hashes, number_of_set
from dpmpc.owners.columns.equality import IdComparison, prove, verify
from dpmpc.owners.columns.p256 import GENERATOR, ORDER, ZERO, add, combine, decode, encode, negative
from support.rejections import blames, rejects

FEW = settings(max_examples=10)
SCALARS = st.one_of(st.sampled_from([0, 1, 2, 15, 16, ORDER - 1]), st.integers(0, ORDER - 1))
STEPS = ("key", "ciphertext", "mask", "opening")


def by_openssl(scalar):
    numbers = ec.derive_private_key(scalar, ec.SECP256R1()).public_key().public_numbers()
    return bytes([2 + numbers.y % 2]) + numbers.x.to_bytes(32, "big")


def other_base(scalar=5):
    return combine([scalar], [GENERATOR])


# The group


@FEW
@given(SCALARS, SCALARS)
def test_points_are_those_of_openssl(a, b):
    base = other_base()
    for scalar, point in ((5 * a + 5 * b, combine([a, b], [base, base])), (5 * a - 5 * b, negative_sum(a, b, base))):
        expected = bytes(33) if scalar % ORDER == 0 else by_openssl(scalar % ORDER)
        assert encode(point) == expected


def negative_sum(a, b, base):
    return add(combine([a], [base]), negative(combine([b], [base])))


def test_sums_of_all_kinds_of_points():
    p = other_base(7)
    assert encode(add(p, p)) == by_openssl(14)
    assert encode(add(p, ZERO)) == encode(add(ZERO, p)) == by_openssl(7)
    assert encode(add(p, negative(p))) == encode(combine([ORDER - 1, 1], [p, p])) == bytes(33)
    assert encode(combine([3, 4], [GENERATOR, p])) == by_openssl(3 + 28)
    assert encode(combine([0, 0], [GENERATOR, p])) == bytes(33)


@FEW
@given(st.integers(1, ORDER - 1))
def test_points_and_numbers_survive_their_bytes(scalar):
    assert encode(decode(by_openssl(scalar))) == by_openssl(scalar)
    assert p256.decode_scalar(p256.encode_scalar(scalar)) == scalar


@pytest.mark.parametrize(
    "encoded",
    [
        bytes(33),
        by_openssl(3)[:-1],
        by_openssl(3) + b"\0",
        b"\4" + by_openssl(3)[1:],
        b"\2" + p256.PRIME.to_bytes(32, "big"),
        b"\2" + (5 + p256.PRIME).to_bytes(32, "big"),
        b"",
        *(b"\2" + x.to_bytes(32, "big") for x in (1, 2, 3)),
    ],
)
def test_what_is_no_point_is_refused(encoded):
    if len(encoded) == 33 and encoded[0] in (2, 3):
        x = int.from_bytes(encoded[1:], "big")
        square = (x**3 - 3 * x + p256._B) % p256.PRIME
        if x < p256.PRIME and pow(square, (p256.PRIME - 1) // 2, p256.PRIME) == 1:
            assert encode(decode(encoded)) == encoded
            return
    with pytest.raises(ValueError, match="a point of P-256 in 33 bytes expected"):
        decode(encoded)


def test_numbers_not_below_the_order_are_refused():
    for encoded in (ORDER.to_bytes(32, "big"), b"\xff" * 32, bytes(31), bytes(33)):
        with pytest.raises(ValueError, match="below the group's order"):
            p256.decode_scalar(encoded)


# Proofs


BASES = [[GENERATOR, ZERO], [other_base(), GENERATOR]]


def proven(witness=(3, 4), context=b"here"):
    images = [combine(witness, row) for row in BASES]
    return images, prove(context, BASES, images, witness, Stream.from_os())


def test_a_proof_holds_for_its_statement_alone():
    images, proof = proven()
    assert verify(b"here", BASES, images, proof)
    assert not verify(b"there", BASES, images, proof)
    assert not verify(b"here", BASES, images[::-1], proof)
    assert not verify(b"here", BASES, [images[0], other_base(9)], proof)
    assert not verify(b"here", [BASES[0], [other_base(6), GENERATOR]], images, proof)
    for at in range(0, len(proof), 32):
        changed = (int.from_bytes(proof[at : at + 32], "big") + 1) % ORDER
        assert not verify(b"here", BASES, images, proof[:at] + changed.to_bytes(32, "big") + proof[at + 32 :])
    with pytest.raises(ValueError, match="a proof of 64 bytes given, 96 expected"):
        verify(b"here", BASES, images, proof[:64])


def test_a_statement_cannot_be_fitted_to_a_proof():
    """Where the challenge does not depend on the images, images for given responses can be computed from it."""
    blind, response = other_base(11), 13
    guessed = equality._challenge(b"here", [[GENERATOR]], [other_base(17)], [blind])
    challenge = equality._challenge(b"here", [[GENERATOR]], [other_base(19)], [blind])
    assert challenge != guessed
    image = combine([pow(guessed, -1, ORDER)], [add(combine([response], [GENERATOR]), negative(blind))])
    proof = p256.encode_scalar(guessed) + p256.encode_scalar(response)
    assert encode(add(combine([response], [GENERATOR]), negative(combine([guessed], [image])))) == encode(blind)
    assert not verify(b"here", [[GENERATOR]], [image], proof)


def test_proofs_of_one_witness_share_no_random_number():
    """Two responses with one blinding would give the witness away."""
    proofs = [proven()[1] for _ in range(2)]
    challenges, responses = zip(
        *((int.from_bytes(p[:32], "big"), int.from_bytes(p[32:64], "big")) for p in proofs), strict=True
    )
    blinds = [(s - c * 3) % ORDER for s, c in zip(responses, challenges, strict=True)]
    assert blinds[0] != blinds[1]
    assert 0 not in blinds


# The comparison


def compared(numbers, meddle=None):
    """What each party finds, and all that was shown; `meddle(step, party, shown)` may show something else."""
    parties = [IdComparison(at, len(numbers), b"session", number) for at, number in enumerate(numbers)]
    shown, record = [party.key() for party in parties], {}
    for step, following in itertools.zip_longest(STEPS, STEPS[1:], fillvalue="equal"):
        if meddle is not None:
            shown = [meddle(step, at, message) for at, message in enumerate(shown)]
        record[step] = shown
        assert {len(message) for message in shown} == {parties[0].lengths[step]}
        shown = [getattr(party, following)(shown) for party in parties]
    return shown, record


@FEW
@given(st.lists(st.integers(0, 2), min_size=2, max_size=4))
def test_all_parties_find_whether_all_numbers_are_equal(numbers):
    found, _ = compared(numbers)
    assert found == [len(set(numbers)) == 1] * len(numbers)


@pytest.mark.parametrize("numbers", [(0, 5, 10), (10, 5, 0), (5, 0, 10), (7, 7, 8), (8, 7, 7), (0, ORDER - 1, 1)])
def test_differences_do_not_cancel(numbers):
    """Sums of differences in a fixed proportion would be 0 for some of these."""
    assert compared(numbers)[0] == [False] * 3


def test_what_is_opened_for_different_numbers_is_a_random_point():
    """Each party's mask makes it random: with the others' known it still is another point each time."""
    opened = []
    for _ in range(3):
        _, record = compared([1, 2])
        masks = [decode(message[33:66]) for message in record["mask"]]
        shares = [negative(decode(message[:33])) for message in record["opening"]]
        opened.append(encode(add(add(*masks), add(*shares))))
    assert len(set(opened)) == 3
    assert not {by_openssl(1), encode(negative(GENERATOR))} & set(opened)


def test_the_differences_are_masked_by_every_party():
    """With one party's mask known, as it is to that party, a guess of the difference opens nothing."""
    parties = [IdComparison(at, 2, b"session", number) for at, number in enumerate((1, 2))]
    shown = [party.key() for party in parties]
    shown = [party.ciphertext(shown) for party in parties]
    masks = [party.mask(shown) for party in parties]
    a, b = decode(masks[0][:33]), decode(masks[0][33:66])
    secret = sum(party._secret for party in parties) % ORDER
    alone = add(b, negative(combine([secret], [a])))
    assert alone[2] != 0
    assert encode(alone) not in (by_openssl(1), encode(negative(GENERATOR)))


def test_nothing_shown_is_a_function_of_the_number():
    """The same numbers again: no point occurs twice, and none is d G, which could be compared with guesses."""
    key = b"key"
    number = number_of_set(key, keyed_hashes(key, ["a", "b"]))
    pieces = []
    for _ in range(2):
        _, record = compared([number, number])
        for step, points in zip(STEPS, (1, 2, 2, 1), strict=True):
            pieces += [message[33 * at : 33 * at + 33] for message in record[step] for at in range(points)]
    assert len(set(pieces)) == len(pieces)
    assert by_openssl(number) not in pieces


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("at", [0, 33, -33], ids=["its first point", "what follows", "its proof"])
def test_whoever_shows_something_that_it_cannot_prove_is_named(step, at):
    def meddle(now, party, message):
        if (now, party) != (step, 1):
            return message
        at_end = message[at:][33:]
        return message[:at] + by_openssl(77) + at_end

    with blames(1, MalformedFrame):
        compared([3, 3], meddle)  # party 0 alone is there to notice


@FEW
@given(st.sampled_from(STEPS), st.one_of(st.binary(max_size=300), st.integers(0, 300).map(bytes)))
def test_whatever_bytes_are_shown_the_error_names_who_showed_them(step, content):
    parties = [IdComparison(at, 2, b"session", 3) for at in range(2)]
    shown = [party.key() for party in parties]
    for now, following in itertools.zip_longest(STEPS, STEPS[1:], fillvalue="equal"):
        if now == step:
            with blames(1, MalformedFrame):
                getattr(parties[0], following)([shown[0], content])
            return
        shown = [getattr(party, following)(shown) for party in parties]


@pytest.mark.parametrize("step", STEPS)
def test_a_copy_of_another_party_s_words_is_refused(step):
    """A party that repeats what another one shows would have its number without knowing it."""
    kept = {}

    def meddle(now, party, message):
        kept[now, party] = message
        return kept[now, 0] if (now, party) == (step, 1) else message

    with blames(1, MalformedFrame):
        compared([3, 4, 3], meddle)


def test_words_of_another_comparison_are_refused():
    """Also of the same parties on the same numbers: a proof is bound to what was shown before it."""
    _, before = compared([3, 3])

    def meddle(now, party, message):
        return before[now][1] if (now, party) == ("ciphertext", 1) else message

    with blames(1, MalformedFrame):
        compared([3, 3], meddle)


def test_proofs_are_bound_to_all_that_was_shown():
    """Two parties that were shown two proofs of one key do not go on with each other."""
    parties = [IdComparison(at, 3, b"session", 3) for at in range(3)]
    shown = [party.key() for party in parties]
    other = [*shown[:2], parties[2].key()]
    assert shown[2][:33] == other[2][:33]
    ciphertexts = [party.ciphertext(seen) for party, seen in zip(parties, (shown, other, other), strict=True)]
    with blames(1, MalformedFrame):
        parties[0].mask(ciphertexts)


def test_a_key_is_bound_to_its_session():
    one, other = (IdComparison(at, 2, session, 1) for at, session in enumerate((b"one", b"other")))
    with blames(1, MalformedFrame):
        one.ciphertext([one.key(), other.key()])


def test_an_opening_belongs_to_the_key_of_its_party(monkeypatch):
    """With another secret, proven for itself, a party could turn the answer into any other."""
    parties = [IdComparison(at, 2, b"session", 3) for at in range(2)]
    shown = [party.key() for party in parties]
    shown = [party.ciphertext(shown) for party in parties]
    shown = [party.mask(shown) for party in parties]
    parties[1]._secret += 1
    with blames(1, MalformedFrame):
        parties[0].equal([party.opening(shown) for party in parties])


def test_a_comparison_of_one_party_is_refused():
    for number, parties in ((0, 1), (2, 2), (-1, 2)):
        with rejects("number", expected="one of at least 2 parties"):
            IdComparison(number, parties, b"", 1)


def test_secrets_are_drawn_for_each_comparison():
    assert IdComparison(0, 2, b"", 1)._secret != IdComparison(0, 2, b"", 1)._secret
    assert equality.draw_scalar(Stream.from_seed(1)) == int.from_bytes(Stream.from_seed(1).bytes(48), "little") % ORDER


# The number of a set


def test_the_number_of_a_set_depends_on_all_ids_and_the_key_and_not_on_their_order():
    def number(ids, key=b"k"):
        return number_of_set(key, keyed_hashes(key, ids))

    assert number(["a", "b", "c"]) == number(["c", "a", "b"])
    sets = [number(ids) for ids in (["a", "b"], ["a"], ["a", "c"], [], ["a", "b", "c"])]
    assert len({*sets, number(["a", "b"], b"l")}) == 6
    assert all(0 <= one < ORDER for one in sets)
    hashes = sorted(keyed_hashes(b"k", ["b", "a"]))
    hashed = hashlib.sha512(b"dpmpc v1 set of ids" + b"k" + (2).to_bytes(8, "little") + b"".join(hashes)).digest()
    assert sets[0] == int.from_bytes(hashed, "big") % ORDER
