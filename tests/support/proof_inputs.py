"""Circuits, rows and whole exchanges that tests of proofs share."""

import secrets

import numpy as np

from dpmpc.base.randomness import Stream
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.proving import ProofServer, Prover, QueryPoint, decide, joint_randomness
from dpmpc.linear.proving.circuit import CellsCircuit, RowCircuit
from dpmpc.linear.sharing import AdditiveSharing, ShamirSharing

P = Mersenne61.modulus
FIELD = Mersenne61()
COLLECTION = bytes(range(32))
SCHEMES = {
    "additive 2": AdditiveSharing(2, "mersenne61"),
    "additive 3": AdditiveSharing(3, "mersenne61"),
    "shamir 3, 1": ShamirSharing(3, 1),
    "shamir 4, 1": ShamirSharing(4, 1),
    "shamir 5, 2": ShamirSharing(5, 2),
}
CIRCUITS = {
    "sum, ball": RowCircuit(4, -511, 511, 2 * 512**2, moments=True),
    "sum, box": RowCircuit(3, -255, 255, moments=True),
    "sum, one row": RowCircuit(2, -3, 3, 18, moments=True, rows=1),
    "rows, ball": RowCircuit(5, -2047, 2047, 2 * 2048**2),
    "rows, box": RowCircuit(6, -127, 127),
    "one number": RowCircuit(1, -32767, 32767),
    "an even power": RowCircuit(1, 0, 511),
    "whitened": RowCircuit(3, -31, 31, 5000, moments=True, matrix=((3, -1, 0), (2, 5, 1), (0, 1, 4))),
    "items": CellsCircuit((10,)),
    "cells": CellsCircuit((4, 7, 2)),
    "many columns": RowCircuit(40, -511, 511, 3 * 512**2, moments=True),
}


def new_ids(count):
    """Report ids, all different."""
    return np.frombuffer(secrets.token_bytes(16 * count), np.uint8).reshape(count, 16)


def points_of(circuit, count, seed=0):
    """Points of the proved set: what witnesses exist for."""
    rng = np.random.default_rng(seed)
    if isinstance(circuit, CellsCircuit):
        return rng.integers(0, circuit.sizes, (count, len(circuit.sizes)))
    found = []
    while len(found) < count:
        z = rng.integers(circuit.low, circuit.high + 1, circuit.columns)
        w = circuit.transformed(z)
        while circuit.squared_radius is not None and int(w @ w) > circuit.squared_radius:
            z = z // 2
            w = circuit.transformed(z)
        found.append(z)
    return np.array(found, np.int64)


class CrookedDealer(ShamirSharing):
    """Deals one server words that are off: in report i word `words[i]` of its record."""

    def __init__(self, scheme, victim, words):
        super().__init__(scheme.servers, scheme.threshold)
        self._victim, self._words, self._first = victim, words, 0

    def split(self, x, stream=None, threads=1, out=None):
        shares = super().split(x, stream, threads, out)
        for report, word in enumerate(self._words):
            if 0 <= word - self._first < x.shape[1]:
                place = report, word - self._first
                shares[self._victim][place] = (int(shares[self._victim][place]) + 12345) % P
        self._first += x.shape[1]
        return shares


class Exchange:
    """Reports of one block at all servers, in one process."""

    def __init__(self, circuit, scheme, witnesses, ids=None, collection=COLLECTION, toss=None, seed=None, off_at=None):
        self.circuit, self.scheme = circuit, scheme
        self.ids = new_ids(len(witnesses)) if ids is None else ids
        stream = None if seed is None else Stream.from_seed(seed)
        dealer = scheme if off_at is None else CrookedDealer(scheme, off_at, range(len(witnesses)))
        self.shares = Prover(circuit, dealer, collection).reports(witnesses, self.ids, stream)
        self.servers = [ProofServer(circuit, scheme, collection, number) for number in range(scheme.servers)]
        self.point = QueryPoint.of_toss(circuit, secrets.token_bytes(32) if toss is None else toss)
        self.joint = joint_randomness(circuit, self.servers[0].seeds(self.shares[0]))
        self.records = [share.records(circuit) for share in self.shares]

    def at_the_door(self):
        """Which reports each server takes."""
        return [server.own_parts_match(share) for server, share in zip(self.servers, self.shares, strict=True)]

    def messages(self):
        """What each server sends."""
        pairs = zip(self.servers, self.records, strict=True)
        return {server.server: server.query(self.point, self.joint, record) for server, record in pairs}

    def verdicts(self, messages=None):
        """What they decide."""
        return decide(self.circuit, self.scheme, self.point, self.joint, messages or self.messages())


def verdicts(circuit, scheme, witnesses):
    """Decide about reports of these witnesses, true or not, each with the proof that the prover computes."""
    return Exchange(circuit, scheme, witnesses).verdicts()


def record_of(exchange):
    """The words of all records together: what the servers hold."""
    return exchange.scheme.combine(exchange.records)
