"""A server's part: check what arrives, and answer once, at the point that all servers tossed after closing.

A server computes from its record alone, for h_k linear in the witness and A = Z(r) Q(r) + H(r) = A_0 + A_1 i,

    w_1(r), ..., w_c(r)      y = kappa_0 A_0 + kappa_1 A_1 + kappa_2 T_1 + ... + kappa_{Q+1} T_Q

and sends these c + 1 words to all others. Everything is linear in the record.

Promised: the answers of one server at one point r > 4N, together with the shares of fewer others than the scheme needs,
reveal nothing about an honest row but that it is well formed. Not promised, and for the caller to see to: that a server
never answers for a report at a second point, which gives the row away; that it stores nothing once it knows r, since a
word written then makes any report pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import SEED_BYTES, Label
from dpmpc.linear.proving.circuit import Circuit, LinearForm, P, elements, require_block
from dpmpc.linear.proving.joint import Binding, as_block, expand_seeds, framed
from dpmpc.linear.proving.prove import ProvedShares, Scheme
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.linear.sharing.shamir import lagrange

_COORDINATES = 2  # of A, which K = F[i] has
_POINTS = 98  # elements that are drawn for r: the first that is no node of the interpolation


class QueryPoint:
    """The one point of a collection, and the weights of interpolation there.

    Parameters
    ----------
    circuit : Circuit
        What is proved.
    r : int
        Beyond 4N: at 1, ..., N the wires are the digits themselves.
    kappa : sequence of int
        Weights of the two coordinates of A, and of each form of (T).
    """

    def __init__(self, circuit: Circuit, r: int, kappa: tuple[int, ...]):
        self.circuit = circuit
        self.r = require_whole("r", r, circuit.degree + 1, P - 1)
        self.kappa = elements(tuple(require_whole("kappa", entry, 0, P - 1) for entry in kappa))
        expected = _COORDINATES + len(circuit.forms)
        if len(self.kappa) != expected:
            raise InputError("kappa", f"{len(self.kappa)} numbers", expected)
        #: The kernel of what is asked at this point, whose (T) is all forms with their weights: its own weight is 1.
        self.proofs = circuit.kernel(weighted(circuit.forms, kappa[_COORDINATES:]))
        self.weights = elements((*kappa[:_COORDINATES], 1))
        rows, vanishing = circuit.rows, circuit.vanishing(self.r)
        self.wires = elements(lagrange(range(rows + 1), self.r, P))
        self.outputs = elements(lagrange(range(1, rows + 1), self.r, P))
        self.quotient = elements([vanishing * weight for weight in lagrange(circuit.quotient_points, self.r, P)])

    @classmethod
    def of_toss(cls, circuit: Circuit, toss: bytes) -> QueryPoint:
        """Return the point that 32 bytes stand for, which all servers have tossed together after closing.

        The expansion of H("toss", toss) gives kappa, one element for each form of (T) after two, then r: the first
        element beyond 4N.
        """
        if len(toss) != SEED_BYTES:
            raise InputError("toss", f"{len(toss)} bytes", SEED_BYTES)
        seed = hashlib.sha256(framed(Label.PROOF_TOSS, toss)).digest()
        weights = _COORDINATES + len(circuit.forms)
        drawn = expand_seeds(as_block([seed], SEED_BYTES, "seed"), weights + _POINTS)[0].tolist()
        return cls(circuit, next(e for e in drawn[weights:] if e > circuit.degree), tuple(drawn[:weights]))


def weighted(forms: Sequence[LinearForm], weights: Sequence[int]) -> LinearForm:
    """Return the sum of forms, each with its weight, modulo p."""
    factors: dict[int, int] = {}
    for form, weight in zip(forms, weights, strict=True):
        for place, factor in form.terms:
            factors[place] = (factors.get(place, 0) + weight * factor) % P
    constant = sum(weight * form.constant for form, weight in zip(forms, weights, strict=True))
    return LinearForm(tuple(factors.items()), constant % P)


class ProofServer:
    """One server's checks and messages.

    Parameters
    ----------
    circuit : Circuit
        What is proved.
    scheme : AdditiveSharing or ShamirSharing
        As clients have it.
    collection : bytes
        The collection's digest, 32 bytes.
    server : int
        Its number.
    """

    def __init__(self, circuit: Circuit, scheme: Scheme, collection: bytes, server: int):
        self.circuit, self.scheme, self.binding = circuit, scheme, Binding(collection)
        self.server = require_whole("server", server, 0, scheme.servers - 1)

    @property
    def one(self) -> int:
        """Share of the constant 1: (1, 0, ..., 0) where shares add up, 1 at all servers where they are interpolated."""
        return int(isinstance(self.scheme, ShamirSharing) or self.server == 0)

    def own_parts_match(self, shares: ProvedShares) -> NDArray[np.bool_]:
        """Tell which reports list the part that this server's own share gives: what is checked at the door.

        Raises
        ------
        InputError
            If the shares are not of the form that the circuit and the scheme ask for, or another server's.
        """
        shares.require_form(self.circuit, self.scheme)
        if shares.server != self.server:
            raise InputError("shares", f"those of server {shares.server}", f"of server {self.server}")
        recomputed = shares.own_parts(self.circuit, self.binding)
        matching: NDArray[np.bool_] = (recomputed == shares.parts[:, self.server]).all(axis=1)
        return matching

    def seeds(self, shares: ProvedShares) -> Bytes:
        """Return the seeds (n, 32) of the joint randomness: servers compare them, and go on where they agree."""
        return self.binding.seeds(shares.ids, shares.parts)

    def query(self, point: QueryPoint, joint: Words, records: Words) -> Words:
        """Return the messages (n, c + 1) of a block of reports.

        Parameters
        ----------
        point : QueryPoint
            The one point of the collection.
        joint : ndarray of uint64, shape (n, joint words)
            `joint_randomness` of the seeds.
        records : ndarray of uint64, shape (n, words of a record)
            `ProvedShares.records`, whose own parts matched.
        """
        circuit = self.circuit
        if point.circuit != circuit:
            raise InputError("point", "one of another circuit", "one of this server's circuit")
        records = require_block("records", records, len(records), circuit.words)
        joint = require_block("joint", joint, len(records), circuit.joint_words)
        messages = np.empty((len(records), circuit.wires + 1), np.uint64)
        point.proofs.query(
            point.wires,
            point.outputs,
            point.quotient,
            point.weights,
            self.one,
            records,
            joint,
            messages,
        )
        return messages
