"""Whether M parties hold the same number, and nothing else about the numbers.

A private equality test in the manner of Jakobsson and Juels, "Mix and match: secure function evaluation via
ciphertexts" (ASIACRYPT 2000), on ElGamal ciphertexts under a key that only all parties together have. G generates
P-256, of prime order q; party j holds the number d_j.

1. *Key*. j draws x_j and shows Y_j = x_j G. The joint key is Y, the sum of all Y_j.
2. *Ciphertext*. j draws r_j and shows C_j = (r_j G, r_j Y + d_j G).
3. *Mask*. The differences C_i - C_0, i = 1 .. M - 1, encrypt (d_i - d_0) G. j draws a z_ji for each and shows the sum
   of z_ji (C_i - C_0). The sum (A, B) over j encrypts Z G, Z being the sum over i of (z_1i + z_2i + ..)(d_i - d_0).
4. *Opening*. j shows x_j A. B minus the sum of these is Z G: 0 if all numbers are equal, and else with probability 1/q.

Everything that is shown comes with a proof of knowledge of what it was made from: of x_j; of r_j and d_j; of the z_ji;
that x_j is the one of step 1 (Maurer, "Unifying zero-knowledge proofs of knowledge", AFRICACRYPT 2009, made
non-interactive by Fiat and Shamir). A proof is bound to its party, its step and everything that was shown before.
In each step all commit to what they will show before any party shows it (`dpmpc.parties.network.conversation`).

What each party learns: where all numbers are equal, that they are. Where they are not, that they are not: Z is uniform
as soon as one party draws its z at random, so that Z G is a random point whatever the numbers are. This holds for any
M >= 2 and against up to M - 1 malicious parties that pool all they see, under the decisional Diffie-Hellman assumption
in P-256 and with SHA-256 as a random oracle. Nothing that is shown can be compared with a guess of d_j by computing:
d_j appears in C_j alone, and to open that takes the honest party's x_j. A simulator reads the malicious parties'
numbers from their commitments and proofs, asks whether all numbers are equal, and shows encryptions of 0 and either 0
or a random point.

What a malicious party can do: put in a number of its choice, and so find out in each run whether all other parties
hold *that* number, one guess in a run; break off, also right after it has learned the answer and before others have.
It cannot make the answer "equal" without knowing the others' number: then it would have a discrete logarithm, or a
proof of something false.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence

from dpmpc.base.errors import InputError, MalformedFrame
from dpmpc.base.randomness import Label, Stream
from dpmpc.owners.columns.p256 import (
    GENERATOR,
    ORDER,
    POINT_BYTES,
    SCALAR_BYTES,
    ZERO,
    Point,
    add,
    combine,
    decode,
    decode_scalar,
    draw_scalar,
    encode,
    encode_scalar,
    negative,
)

Bases = Sequence[Sequence[Point]]


class IdComparison:
    """One party's part in one comparison: what it shows next, given what all have shown; messages are sent elsewhere.

    Call `key`, `ciphertext`, `mask`, `opening` and `equal` in this order, once each. Each but the first takes what all
    parties have shown in the step before, in party order and one's own included.
    """

    def __init__(self, number: int, parties: int, session: bytes, value: int, stream: Stream | None = None):
        if parties < 2 or not 0 <= number < parties:
            raise InputError("number", f"{number} of {parties}", "one of at least 2 parties")
        self.number, self.parties, self._value = number, parties, value % ORDER
        self._stream = stream or Stream.from_os()
        self._transcript = hashlib.sha256(Label.EQUALITY.value + parties.to_bytes(4, "little") + session).digest()
        self._secret = draw_scalar(self._stream)
        self._keys: list[Point] = []
        self._differences: Bases = ()
        self._pair: tuple[Point, Point] = ZERO, ZERO

    @property
    def lengths(self) -> dict[str, int]:
        """Bytes of what each party shows in each step."""
        points = {"key": 1, "ciphertext": 2, "mask": 2, "opening": 1}
        witnesses = {"key": 1, "ciphertext": 2, "mask": self.parties - 1, "opening": 1}
        return {step: points[step] * POINT_BYTES + (1 + witnesses[step]) * SCALAR_BYTES for step in points}

    def key(self) -> bytes:
        """Step 1: show Y_j."""
        return self._shown("key", [[GENERATOR]], [self._secret])

    def ciphertext(self, shown: Sequence[bytes]) -> bytes:
        """Step 2: check all keys; show C_j."""
        self._keys = [key for (key,) in self._checked("key", shown, [[GENERATOR]])]
        return self._shown("ciphertext", self._encryption, [draw_scalar(self._stream), self._value])

    def mask(self, shown: Sequence[bytes]) -> bytes:
        """Step 3: check all ciphertexts; show a random combination of their differences."""
        (a0, b0), *others = self._checked("ciphertext", shown, self._encryption)
        self._differences = (
            [add(a, negative(a0)) for a, _ in others],
            [add(b, negative(b0)) for _, b in others],
        )
        return self._shown("mask", self._differences, [draw_scalar(self._stream) for _ in others])

    def opening(self, shown: Sequence[bytes]) -> bytes:
        """Step 4: check all combinations; show x_j A."""
        masks = self._checked("mask", shown, self._differences)
        self._pair = _total(a for a, _ in masks), _total(b for _, b in masks)
        return self._shown("opening", [[self._pair[0]]], [self._secret], of_key=True)

    def equal(self, shown: Sequence[bytes]) -> bool:
        """Check all openings; return whether all parties have the same number."""
        opened = [share for (share,) in self._checked("opening", shown, [[self._pair[0]]], of_key=True)]
        return add(self._pair[1], negative(_total(opened)))[2] == 0

    @property
    def _encryption(self) -> Bases:
        """(r, d) -> (r G, r Y + d G)."""
        return [[GENERATOR, ZERO], [_total(self._keys), GENERATOR]]

    def _shown(self, step: str, bases: Bases, witness: Sequence[int], *, of_key: bool = False) -> bytes:
        images = [combine(witness, row) for row in bases]
        if of_key:
            bases, known = [[GENERATOR], *bases], [self._keys[self.number], *images]
        else:
            known = images
        proof = prove(self._context(step, self.number), bases, known, witness, self._stream)
        return b"".join(map(encode, images)) + proof

    def _checked(self, step: str, shown: Sequence[bytes], bases: Bases, *, of_key: bool = False) -> list[list[Point]]:
        """Return every party's points of a step, or refuse one whose proof fails; bind what follows to them."""
        found = []
        for party, message in enumerate(shown):
            try:
                points = [decode(message[POINT_BYTES * at : POINT_BYTES * (at + 1)]) for at in range(len(bases))]
                stated = [[GENERATOR], *bases] if of_key else bases
                known = [self._keys[party], *points] if of_key else points
                proof = message[POINT_BYTES * len(bases) :]
                if party != self.number and not verify(self._context(step, party), stated, known, proof):
                    raise ValueError("its proof does not hold")
            except ValueError as error:
                raise MalformedFrame(f"party {party} sent no valid {step} of the comparison: {error}", party) from error
            found.append(points)
        self._transcript = hashlib.sha256(self._transcript + step.encode() + b"".join(shown)).digest()
        return found

    def _context(self, step: str, party: int) -> bytes:
        return self._transcript + party.to_bytes(4, "little") + step.encode()


def prove(context: bytes, bases: Bases, images: Sequence[Point], witness: Sequence[int], stream: Stream) -> bytes:
    """Prove that one knows numbers w with: image k is the sum over l of w_l times base (k, l)."""
    blinds = [draw_scalar(stream) for _ in witness]
    challenge = _challenge(context, bases, images, [combine(blinds, row) for row in bases])
    responses = [(blind + challenge * known) % ORDER for blind, known in zip(blinds, witness, strict=True)]
    return b"".join(map(encode_scalar, [challenge, *responses]))


def verify(context: bytes, bases: Bases, images: Sequence[Point], proof: bytes) -> bool:
    """Return whether a proof of `prove` holds: c is the challenge of the points s_1 base (k, 1) + .. - c image k.

    Raises
    ------
    ValueError
        If the bytes are not a proof of this length.
    """
    if len(proof) != SCALAR_BYTES * (1 + len(bases[0])):
        raise ValueError(f"a proof of {len(proof)} bytes given, {SCALAR_BYTES * (1 + len(bases[0]))} expected")
    challenge, *responses = (
        decode_scalar(proof[start : start + SCALAR_BYTES]) for start in range(0, len(proof), SCALAR_BYTES)
    )
    blinds = [
        combine([*responses, challenge], [*row, negative(image)]) for row, image in zip(bases, images, strict=True)
    ]
    return _challenge(context, bases, images, blinds) == challenge


def _challenge(context: bytes, bases: Bases, images: Sequence[Point], blinds: Sequence[Point]) -> int:
    points = [*(base for row in bases for base in row), *images, *blinds]
    sizes = b"".join(size.to_bytes(4, "little") for size in (len(bases), len(bases[0])))
    digest = hashlib.sha256(Label.EQUALITY_PROOF.value + context + sizes + b"".join(map(encode, points))).digest()
    return int.from_bytes(digest, "big") % ORDER


def _total(points: Iterable[Point]) -> Point:
    return functools.reduce(add, points, ZERO)
