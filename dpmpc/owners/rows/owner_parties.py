"""Start data owners: what they agree on, where each finds its rows, and a process for each.

The program of each owner, `dpmpc.protocols.data_owners`, is started by name. `run` starts all on this machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dpmpc.base.errors import InputError
from dpmpc.owners.rows.own_rounds import OwnRows, RowsInMemory
from dpmpc.owners.rows.owners_plan import OwnersPlan
from dpmpc.owners.rows.rounds_record import LEDGER_FILE
from dpmpc.owners.rows.row_groups import RowsOnWorkers, read_rows
from dpmpc.parties.network.meter import RunStatistics
from dpmpc.parties.network.programs import Agreement, Callbacks, here
from dpmpc.release.release import Release

PROGRAM = "dpmpc.protocols.data_owners"
SEED = "seed"  # of the noise in a simulation, as a launcher hands it over


class OwnerSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an owner's rows are: given to that owner alone."""

    data: str  # a CSV or Parquet file
    ledger: str | None = None  # the file of its ledger; one in its folder by default
    cluster: str | None = None  # the scheduler of the workers that read the rows; the owner's process by default


def public_arguments(plan: OwnersPlan, *, threads: int = 1) -> dict[str, Any]:
    """Return what all owners agree on: the program's arguments, without any seed; their digest is in every frame."""
    plan.require_possible()
    return {"plan": msgspec.structs.replace(plan, simulation_seed=None).to_dict(), "threads": threads}


def plan_of(arguments: Mapping[str, Any]) -> OwnersPlan:
    """Read what was agreed on."""
    return OwnersPlan.from_dict(arguments.get("plan", {}))


def own_rows(source: OwnerSource, plan: OwnersPlan, number: int, patience: float) -> OwnRows:
    """Return the rows of an owner: the columns and the number that the plan expects.

    Each answer of a worker may take `patience` seconds.
    """
    rows: OwnRows = (
        RowsInMemory(read_rows(source.data, plan.schema, plan.target).values)
        if source.cluster is None
        else RowsOnWorkers(source.data, plan, source.cluster, patience)
    )
    if rows.shape[0] != plan.rows[number]:
        raise InputError(
            "rows", f"{plan.rows[number]} given by the plan, {rows.shape[0]} expected: as many as the file has"
        )
    return rows


def ledger_of(folder: Path, source: OwnerSource) -> Path:
    """Return the file of an owner's ledger."""
    return folder / LEDGER_FILE if source.ledger is None else Path(source.ledger)


def release_file(folder: Path, number: int) -> Path:
    """Return the file of a sum in an owner's folder: 0 for second moments, then the rounds."""
    return folder / f"release-{number}.dpmpc"


def load_releases(folder: Path) -> list[Release]:
    """Return the sums that an owner's folder holds, in order."""
    found: list[Release] = []
    while (path := release_file(folder, len(found))).exists():
        found.append(Release.load(path))
    return found


def agreement_of(arguments: Mapping[str, Any], *, program: str = PROGRAM, deadline: float = 30.0) -> Agreement:
    """Return what all owners agree on; slow machines need time for their rows beyond the deadline of an owner."""
    plan = plan_of(arguments)
    columns = len(plan.schema)
    allowance = 2.0 + 1e-7 * max(plan.rows) * (columns + columns * (columns + 1))
    return Agreement(program, len(plan.owners), arguments, analyst=False, deadline=deadline + allowance)


@dataclasses.dataclass(frozen=True)
class OwnersRun:
    """What came of a fit between owners on this machine."""

    releases: tuple[Release, ...]  # second moments, then the rounds: the same at all owners
    owners: tuple[RunStatistics, ...]  # what each spent


def run(
    arguments: Mapping[str, Any],
    sources: Sequence[OwnerSource],
    *,
    program: str = PROGRAM,
    deadline: float = 30.0,
    on_progress: Callable[[int, float | str], None] | None = None,
    simulation_seed: int | None = None,
) -> OwnersRun:
    """Run all owners as processes of this machine.

    Parameters
    ----------
    arguments : mapping
        Of `public_arguments`.
    sources : sequence of OwnerSource
        Where the rows of each owner are.
    program : str
        The name of the program, or of one that does the same and more.
    deadline : float
        Seconds that an owner may keep others waiting, beyond the time that a slow machine needs.
    on_progress : callable, optional
        Called with an owner's number and what it reports.
    simulation_seed : int, optional
        Repeats the noise of all owners, and protects no one. It is no part of what owners agree on.

    Raises
    ------
    InputError
        If an owner's file is not what the plan expects.
    ProtocolFailure
        If an owner fails; the error names it.
    """
    releases: list[Release] = []

    def collect(party: int, folder: Path) -> None:
        if party == 0:
            releases.extend(load_releases(folder))

    outcomes = here(
        agreement_of(arguments, program=program, deadline=deadline),
        sources=sources,
        simulation=None if simulation_seed is None else {SEED: simulation_seed},
        callbacks=Callbacks(collect=collect, on_progress=on_progress),
    )
    return OwnersRun(
        tuple(releases), tuple(outcome.statistics for outcome in outcomes if outcome.statistics is not None)
    )
