"""Start the parties of a mixed release: what they agree on, where each finds its rows, and a process for each.

The program of each party, `dpmpc.protocols.random_mixing`, is started by name. `run` starts all on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dpmpc.base.arguments import require_choice
from dpmpc.base.errors import InputError
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.owners.columns.mixing_task import MixingTask
from dpmpc.parties.network.programs import Agreement, Callbacks, here
from dpmpc.parties.network.settings import FRAME_HEADER, FRAME_LIMIT
from dpmpc.privacy.specification import MIXING_METHODS

PROGRAM = "dpmpc.protocols.random_mixing"
RELEASE_FILE = "release.dpmpc"
SEED = "seed"  # of coins and noise in a simulation, as a launcher hands it over


class PartySource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a party's rows are: given to that party alone."""

    data: str  # a CSV or Parquet file
    key: str  # its column of ids: text or whole numbers


def public_arguments(
    task: MixingTask,
    names: Sequence[str],
    method: str = "rmgm",
    *,
    date: str | None = None,
    threads: int = 1,
) -> dict[str, Any]:
    """Return what all parties agree on: the program's arguments, whose digest is in every frame."""
    require_choice("method", method, MIXING_METHODS)
    require_frames(task)
    if (method == "rmgm") != (task.rows is not None):
        raise InputError(
            "method", f"{method!r} given, but rows are {'not ' if task.rows is None else ''}mixed by the task"
        )
    if len(names) != len(task.parties):
        raise InputError("names", f"{len(names)}", f"one for each of {len(task.parties)} parties")
    return {
        "mixing": task.to_dict(),
        "names": list(names),
        "method": method,
        "date": date,
        "threads": threads,
    }


def require_frames(task: MixingTask) -> None:
    """Refuse a release that is longer than what a party takes from another one, before any work is done for it."""
    widest = max(len(party) for party in task.parties)
    most = (FRAME_LIMIT - FRAME_HEADER) // (8 * widest)
    if task.released_rows > most:
        raise InputError(
            "rows",
            task.released_rows,
            f"at most {most}",
            f"{widest} columns of a party, 8 bytes each, in one message of at most {FRAME_LIMIT} bytes",
        )


def task_of(arguments: Mapping[str, Any]) -> MixingTask:
    """Read what is released."""
    return MixingTask.from_dict(arguments.get("mixing", {}))


def agreement_of(arguments: Mapping[str, Any], *, program: str = PROGRAM, deadline: float = 30.0) -> Agreement:
    """Return what all parties agree on; slow machines need time for their rows beyond the deadline of a party."""
    task = task_of(arguments)
    entries = task.subjects * max(len(party) for party in task.parties)
    allowance = 1e-3 * task.subjects * len(task.parties) + 1e-8 * entries * (task.rows or 1)
    return Agreement(program, len(task.parties), arguments, analyst=False, deadline=deadline + allowance)


def run(
    arguments: Mapping[str, Any],
    sources: Sequence[PartySource],
    *,
    program: str = PROGRAM,
    deadline: float = 30.0,
    simulation_seed: int | None = None,
) -> MixedRelease:
    """Run all parties as processes of this machine and return what they publish.

    Parameters
    ----------
    arguments : mapping
        Of `public_arguments`.
    sources : sequence of PartySource
        Where the rows of each party are.
    program : str
        The name of the program, or of one that does the same and more.
    deadline : float
        Seconds that a party may keep others waiting, beyond the time that a slow machine needs.
    simulation_seed : int, optional
        Repeats coins and noise; needs a task that states it is a simulation. It is no part of what parties agree on.

    Raises
    ------
    InputError
        If a party's file is not what the task expects.
    BatchMismatch
        If parties do not have the same rows.
    ProtocolFailure
        If a party fails; the error names it.
    """
    task = task_of(arguments)
    if task.simulation != (simulation_seed is not None):
        raise InputError(
            "simulation_seed", simulation_seed, f"{'a' if task.simulation else 'no'} seed", condition="by the task"
        )
    releases: list[MixedRelease] = []

    def collect(party: int, folder: Path) -> None:
        if party == 0:
            releases.append(MixedRelease.load(folder / RELEASE_FILE))

    here(
        agreement_of(arguments, program=program, deadline=deadline),
        sources=sources,
        simulation=None if simulation_seed is None else {SEED: simulation_seed},
        callbacks=Callbacks(collect=collect),
    )
    return releases[0]
