"""Where attacks on a proved collection are played, and how it is said what came of one.

A stage is the servers of a collection, as parties of this process, which hold the reports of honest clients. An attack
uploads what it likes, lets one server lie where it likes, and has the servers release. `played` says what came of it:
the servers' own door, verification and opening decide, without noise, so that sums can be compared exactly.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from dpmpc.base.errors import CollectionClosed, DpmpcError, ReportRejected
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.reports import records_of
from dpmpc.linear.contributions.cells import CellCounts, CellGrid
from dpmpc.linear.proving import Prover
from dpmpc.linear.proving.prove import ProvedShares
from dpmpc.release.proved_reports import circuit_of, scheme_of
from support.proved_collections import PROVED, converse, honest_sums, put, rows_of_clients, states, without_noise
from support.release_processes import COUNT, Trial

COLUMNS = ("a", "b", "y")
GRIDS = (
    CellGrid("path", column=0, edges=(-0.5, 0.0, 0.5), groups=((2, 1),)),
    CellGrid("root", column=1, edges=(-0.6, -0.2, 0.2, 0.6)),
)
LIAR = 2
VICTIM = 3  # place among the ids in ascending order

AT_THE_DOOR = "refused at the door"
LEFT_OUT = "left out of the release, and counted"
ONCE = "counts once"
ENDS = "ends the run; a repetition releases"
LOSES = "costs one honest report, which all see"
SPOILS = "spoils the release"

CLIENT, CLIENTS, SERVER, BOTH = "a client", "clients together", "a server", "a server and a client"


@dataclasses.dataclass(frozen=True)
class Seen:
    """What came of an attack."""

    outcome: str  # one of the six above
    cause: str  # why reports were refused, or the error with which the run ended
    released: int  # reports in the release
    honest: int  # reports that honest clients sent


class Stage:
    """Servers that hold honest reports, and what an attack has met with so far."""

    def __init__(self, trial: Any):
        self.trial, self.collection = trial, trial.collection
        order = sorted(range(COUNT), key=lambda index: trial.ids[index])
        self.rows = rows_of_clients(COUNT, len(COLUMNS))
        self.victim = order[VICTIM]
        self.refusals: list[DpmpcError] = []
        self.told: list[str] = []

    @property
    def circuit(self) -> Any:
        """What clients prove."""
        return circuit_of(self.collection.plan)

    def upload(self, records: list[bytes], servers: tuple[int, ...] = (0, 1, 2)) -> None:
        """Send records to servers, which store what they do not refuse."""
        for server in servers:
            try:
                put(self.trial, server, records[server])
            except (ReportRejected, CollectionClosed) as error:
                self.refusals.append(error)

    def shares(self, witnesses: np.ndarray) -> list[ProvedShares]:
        """Share witnesses with the proofs that an honest client computes of them."""
        ids = np.frombuffer(os.urandom(16 * len(witnesses)), np.uint8).reshape(-1, 16)
        return Prover(self.circuit, scheme_of(self.collection.plan), self.collection.digest).reports(witnesses, ids)

    def upload_shares(self, shares: list[ProvedShares]) -> None:
        """Upload shares, whatever they are: to each server all of them at once."""
        self.upload([b"".join(records) for records in records_of(shares)])

    def release(self, **options: Any) -> list[Any]:
        """Let all servers release; return what each returned or raised."""
        return converse(self.trial, told=self.told, **options)

    def opened(self) -> tuple[np.ndarray, Any]:
        """Sums and manifest of the file that all have written."""
        files = {self.trial.out(server).read_bytes() for server in range(len(self.collection.servers))}
        assert len(files) == 1, "one file expected"
        verified = verify(self.trial.out(0), self.collection)
        return verified.release.sums[0], verified.certificate.statement.manifest


@dataclasses.dataclass(frozen=True)
class Attack:
    """One attack."""

    by: str  # who attacks
    does: str  # what it does
    outcome: str  # what comes of it; the cause is part of what is told
    cause: str
    play: Callable[[Stage], list[Any]]  # acts on a stage, and returns what each server returned or raised
    # whether servers that follow the protocol prevent it, or at least notice it; the report states where not
    prevented: bool = True
    about: str = "moments"  # which of `COLLECTED` it is played on


COLLECTED: dict[str, dict[str, Any]] = {
    "moments": {},
    "cells": {"contribution": CellCounts(GRIDS), "radius": None},
}


def stage_in(root: Any, about: str = "moments") -> Any:
    """Return a trial on which attacks can be played, each on a copy of its own."""
    return Trial.filled(root, columns=COLUMNS, **{**PROVED, **COLLECTED[about]})


def played(attack: Attack, trial: Any) -> Seen:
    """Play an attack, and say what came of it."""
    stage = Stage(trial)
    with without_noise():
        results = attack.play(stage)
        failed = [result for number, result in enumerate(results) if isinstance(result, Exception) and number != LIAR]
        if failed:
            assert states(trial) == [[]] * len(results), "nothing bound expected"
            results = stage.release()
    assert not [result for result in results if isinstance(result, Exception)], results
    sums, manifest = stage.opened()
    refused = ", ".join(f"{count} {cause}" for cause, count in manifest.refused.items())
    without_victim = honest_sums(trial, np.delete(stage.rows, stage.victim, axis=0))
    numbers = manifest.clients, len(stage.rows)
    complete = np.array_equal(sums, honest_sums(trial, stage.rows)) and numbers[0] == numbers[1]
    if failed:
        told = {f"{type(error).__name__}: {error}" for error in failed}
        return Seen(ENDS if complete else SPOILS, "; ".join(sorted(told)), *numbers)
    if np.array_equal(sums, without_victim) and numbers[0] == numbers[1] - 1:
        lacked = [line for line in stage.told if "lacked by" in line]
        return Seen(LOSES, refused or lacked[0], *numbers)
    if not complete:
        return Seen(SPOILS, refused, *numbers)
    if stage.refusals:
        assert not manifest.refused
        told = {f"{type(error).__name__}: {error}" for error in stage.refusals}
        return Seen(AT_THE_DOOR, "; ".join(sorted(told)), *numbers)
    return Seen(LEFT_OUT if refused else ONCE, refused, *numbers)
