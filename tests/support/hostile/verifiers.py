"""Servers that lie while proofs are checked: in their lists, about the point, in their messages and verdicts.

Each is a function of a `support.hostile.stage.Stage` that has the servers release while server `LIAR` lies, and returns
what each returned or raised; or makes such a function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from dpmpc.base.errors import DpmpcError, ReportConflict
from dpmpc.collect.opening import proof_checks
from dpmpc.collect.opening.proof_checks import Verifier
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.query_points import PointStanding
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.proving import joint_randomness
from dpmpc.parties.network.announcing import settle
from dpmpc.parties.network.frames import ContentType, Kind
from references import proving as reference
from support.hostile.provers import honest, proved_anyway
from support.hostile.servers import flipped, meddle
from support.hostile.stage import LIAR, VICTIM, Stage

FIELD, P = Mersenne61(), Mersenne61.modulus


class ClaimsAPoint(ReleasingServer):
    """A server that says it has used a point of its own."""

    @property
    def points(self):
        true = super().points

        class Keeper:
            close, seal, use = true.close, true.seal, true.use

            def standing(self):
                return PointStanding("ab" * 32, used=True)

        return Keeper()


class NeverGotIt(ReleasingServer):
    """A server that says it has not got one of the reports."""

    def available(self):
        found = super().available()
        return dataclasses.replace(found, ids=np.delete(found.ids, VICTIM, axis=0))


def with_liar(**options: Any) -> Callable[[Stage], list[Any]]:
    """Release with a liar of another kind, or one that meddles with what it sends."""
    return lambda stage: stage.release(**{name: {LIAR: value} for name, value in options.items()})


@contextlib.contextmanager
def other_seeds() -> Iterator[None]:
    """Let the liar hold other seeds, that is other lists, of one report."""
    original = Verifier.scan

    def scan(self, ids):
        found = original(self, ids)
        if self.number == LIAR:
            found.seeds[VICTIM] ^= 1
        return found

    with mock.patch.object(Verifier, "scan", scan):
        yield


@contextlib.contextmanager
def other_words(kind: Kind) -> Iterator[None]:
    """Let the liar send all servers a wrong word about one report."""
    original = proof_checks.exchange_elements

    async def lying(party, asked, own, heard):
        words = off_by_one(own.copy()) if party.pid == LIAR and asked is kind else own
        return await original(party, asked, words, heard)

    with mock.patch.object(proof_checks, "exchange_elements", lying):
        yield


@contextlib.contextmanager
def another_digest(of: str) -> Iterator[None]:
    """Let the liar confirm something else than it has found."""
    original = proof_checks.confirm

    async def lying(party, digest, what):
        await original(party, flipped(digest) if party.pid == LIAR and what == of else digest, what)

    with mock.patch.object(proof_checks, "confirm", lying):
        yield


def during(*deeds: Callable[[], Any], **options: Any) -> Callable[[Stage], list[Any]]:
    """Release while deeds are done."""

    def play(stage: Stage) -> list[Any]:
        with contextlib.ExitStack() as doing:
            for deed in deeds:
                doing.enter_context(deed())
            return with_liar(**options)(stage)

    return play


def off_by_one(words: np.ndarray) -> np.ndarray:
    """Add one to a word about one report."""
    words[VICTIM, 0] = (int(words[VICTIM, 0]) + 1) % P
    return words


def send_others(kind: Kind, change: Callable[[np.ndarray], np.ndarray], victims: tuple[int, ...] = (0, 1)) -> Any:
    """Return a meddler that sends other words of a kind to some servers."""

    def set_up(runtime):
        def changed(sender, receiver, frame):
            if frame.kind is not kind or receiver not in victims:
                return frame
            return sender.frame(frame.kind, change(frame.words.copy()))

        meddle(changed, runtime)

    return set_up


def back(words: np.ndarray) -> np.ndarray:
    """Undo what `other_seeds` has done, of the seeds as words."""
    words = words.copy()
    words[VICTIM] ^= np.frombuffer(b"\x01" * 32, "<u8")
    return words


def no_element(words: np.ndarray) -> np.ndarray:
    """Write p for a word."""
    words[0, 0] = P
    return words


def fall_silent(kind: Kind) -> Any:
    """Return a meddler that dies when it should send a frame of a kind."""

    def set_up(runtime):
        def change(sender, receiver, frame):
            if frame.kind is kind:
                raise DpmpcError("dead")
            return frame

        meddle(change, runtime)

    return set_up


def races_the_victim(stage: Stage) -> list[Any]:
    """A server puts a report of its own under a new client's id, before that client's upload arrives."""
    report = os.urandom(16)
    stage.upload(honest(stage.collection, report), servers=(LIAR,))
    before = list(stage.refusals)
    stage.upload(honest(stage.collection, report))
    assert [type(error) for error in stage.refusals[len(before) :]] == [ReportConflict]
    stage.refusals = before
    middle = [(column.lower + column.upper) / 2 for column in stage.collection.plan.schema.columns]
    stage.rows, stage.victim = np.concatenate([stage.rows, [middle]]), len(stage.rows)
    return stage.release()


def rushing(stage: Stage) -> list[Any]:
    """The liar waits for the others' messages, and sends the one with which a false report passes.

    What additive shares cannot prevent (theorem proof-soundness).
    """
    witness = stage.circuit.witness(np.zeros((1, stage.circuit.columns), np.int64))
    witness[0, stage.circuit.digits + 1] = 10**6
    stage.upload(proved_anyway(stage.collection, os.urandom(16), witness))
    joints: list[np.ndarray] = []
    original_scan, original_exchange = Verifier.scan, proof_checks.exchange_elements
    points: list[Any] = []

    def scan(self, ids):
        found = original_scan(self, ids)
        if self.number == LIAR:
            joints.append(joint_randomness(self.circuit, found.seeds))
            points.append(self.point)
        return found

    async def last_word(party, kind, own, heard):
        if party.pid != LIAR or kind is not Kind.PROOF:
            return await original_exchange(party, kind, own, heard)
        await settle(party)
        told = {}
        for peer in party.runtime.peers:
            told[peer] = (await party.runtime.receive_frame(peer, kind, ContentType.WORDS, own.shape)).words
        forged = passing_message(stage.circuit, points[-1], joints[-1], own, told)
        for peer in party.runtime.peers:
            await party.runtime.send_frame(peer, party.runtime.frame(kind, forged))
        received = dict(sorted({**told, party.pid: forged}.items()))
        heard.take(received)
        return received

    with (
        mock.patch.object(Verifier, "scan", scan),
        mock.patch.object(proof_checks, "exchange_elements", last_word),
    ):
        return stage.release()


def passing_message(circuit: Any, point: Any, joint: np.ndarray, own: np.ndarray, told: dict[int, np.ndarray]) -> Any:
    """Return the message that makes every report of a block pass, given those of all others."""
    opened = FIELD.sum_of([np.ascontiguousarray(own), *(np.array(words) for words in told.values())])
    twin = reference.Circuit(
        circuit.columns, circuit.least, circuit.high, circuit.squared_radius, circuit.moments, circuit.rows
    )
    forged = own.copy()
    for row, (words, randomness) in enumerate(zip(opened.tolist(), joint.tolist(), strict=True)):
        pairs = list(zip(randomness[: 2 * circuit.wires : 2], randomness[1 : 2 * circuit.wires : 2], strict=True))
        gadgets = reference.gadgets_of(twin, words[:-1], pairs)
        wanted = sum(k * g for k, g in zip(point.kappa.tolist(), gadgets, strict=False))
        forged[row, -1] = (int(own[row, -1]) + wanted - words[-1]) % P
    return forged
