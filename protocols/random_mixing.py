"""Data release by parties with different columns (Wu et al. 2022, Algorithms 1 and 2) among real processes.

Data: m parties, each with a file of its own columns of the same n people, and an id for each person.
Wanted: one public file, from which anyone may regress any column on the others, while each person has (epsilon,
delta)-differential privacy.

1. The digest of the public facts, bound into every frame, is the same at all parties, or nothing begins.
2. The parties toss a coin (`dpmpc.parties.network.conversation`), from which each derives the key of the next step and
   the seed of the signs B. Neither is ever sent.
3. Each sorts its rows by a keyed hash of the id. They find out whether all have the same ids, and nothing more
   (`dpmpc.owners.columns.alignment`); if not, the run ends. In a repetition, when all have made their releases and so
   have found it out before, this step is left out.
4. Each mixes its rows with B, adds its own noise (`dpmpc.owners.DataOwner`), and puts the result on its disk.
5. Each commits to what it releases; when all have, each puts all commitments on its disk, sends its release to all
   others and puts all releases side by side. Digests of the joined file are compared, and **every party ends with the
   same file**, byte for byte.

The steps of the conversation are those of `dpmpc.parties.network.conversation`: all but the releases is announced and
signed, so that a party that sends different parties different things is named by all others.

Promised: what leaves a party is commitments, coins, digests, its part in the comparison of ids, which reveals one bit,
and its noisy release. No party's release depends on another's, in whichever run it was shown: from a party that has
shown its own, no party gets a file with another release than was committed to before that. From before anything of a
party's rows is sent its folder is for this agreement alone. A repetition, after a run that failed, tosses the same coin
and sends the same bytes: nothing is mixed or drawn again (`dpmpc.owners.columns.release_record`). No file is written
before all parties hold the same one. Not promised: protection against a party that hands in other rows than it has, or
none; that all parties end with a file if one of them leaves when it has read the releases of the others. The budget is
spent then.

Three parties, each a process of this machine, and generated people whose columns they divide among them::

    python protocols/random_mixing.py -M3 --clients 50000 --epsilon 5

The same on files of your own, or one party on its own machine::

    dpmpc mix --simulate a.csv b.csv c.csv --key id --epsilon 1 --delta 1e-5 --out release.dpmpc
    dpmpc mix --party 0 --data a.csv --key id --folder party-0 --out release.dpmpc

Anyone who has the file goes on with ``dpmpc read release.dpmpc --target COLUMN``, or
`dpmpc.owners.RMGM.fit_release`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dpmpc
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError, SimulationOnly
from dpmpc.base.randomness import SEED_BYTES, Label, derive, stream_for
from dpmpc.data import Table, write_csv
from dpmpc.data.table_files import read_labels, read_table
from dpmpc.owners.columns import DataOwner, design
from dpmpc.owners.columns.alignment import align, check_unique
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.owners.columns.mixing_parties import RELEASE_FILE, SEED, PartySource, public_arguments, run
from dpmpc.owners.columns.mixing_task import MixingTask
from dpmpc.owners.columns.owner import mixing_of
from dpmpc.owners.columns.release_record import ReleaseRecord
from dpmpc.parties.network.announcing import announce, explained, settle
from dpmpc.parties.network.conversation import confirm, reveal, together, toss
from dpmpc.parties.network.frames import Kind
from dpmpc.parties.network.party import Party
from dpmpc.parties.network.settings import PartySettings, read_source
from dpmpc.protocols._by_hand import by_hand, parse_options

PAPER = "Wu et al., Differentially Private Multi-Party Data Release for Linear Regression (UAI 2022)"


def prepare(settings: PartySettings) -> None:
    """Refuse noise that others know before any other party is contacted."""
    task = MixingTask.from_dict(settings.arguments.get("mixing", {}))
    settings.refuse_simulation(task.simulation)
    if settings.simulation and not task.simulation:
        raise SimulationOnly("simulation", "a seed given, but the task does not state that it is a simulation")


async def main(party: Party) -> dict[str, Any]:
    """Run one party; it ends with `RELEASE_FILE` in its folder."""
    return await explained(party, take_part(party))


async def take_part(party: Party) -> dict[str, Any]:
    """Take the steps above."""
    task = agreed_task(party)
    with party.meter.phase("read"):
        ids, rows = await asyncio.to_thread(own_rows, party.folder, task, party.pid)
    randomness = stream_for(party.runtime.settings.simulation.get(SEED))
    coin = randomness.substream(party.pid, Label.COIN).bytes(SEED_BYTES)
    agreement = party.runtime.settings.task
    with contextlib.ExitStack() as opened:  # others are told of a folder that cannot be used
        record = await together(party, lambda: opened.enter_context(ReleaseRecord(party.folder, agreement, coin)))
        tossed = await toss(party, "key and signs", record.coin)
        kept = await together(party, lambda: record.own_release(tossed, (task.released_rows, rows.shape[1])))
        if not await all_have_released(party, kept is not None):
            with party.meter.phase("align"):
                await together(party, record.begin_comparison)
                order = await align(party, derive(tossed, Label.ALIGNMENT, length=SEED_BYTES), ids)

        def release_own() -> Integers:
            if kept is not None:
                return kept
            with party.meter.phase("mix"):
                mixing = mixing_of(task, derive(tossed, Label.SKETCH_SEED, length=SEED_BYTES))
                owner = DataOwner(task, party.pid, mixing, randomness.substream(party.pid))
                return record.keep(tossed, owner.release(rows[order], threads=party.arguments["threads"]))

        own = await together(party, release_own)
        with party.meter.phase("join"):
            release = await join(party, task, own, record)
        await settle(party)
        await party.runtime.shutdown()
    release.save(party.folder / RELEASE_FILE)
    return {}


def agreed_task(party: Party) -> MixingTask:
    """Step 1: return the verified task, if this party's arguments are those of the digest that all parties compared."""
    settings = party.runtime.settings
    settings.require_own_digest()
    task = MixingTask.from_dict(party.arguments["mixing"])
    if len(task.parties) != party.servers:
        raise InputError("task", f"of {len(task.parties)} parties", party.servers)
    if not task.noise.integer:
        raise InputError("noise", task.noise.name, "an integer noise", "frames carry integers")
    return task.verify()


def own_rows(folder: Path, task: MixingTask, number: int) -> tuple[list[str], Reals]:
    """Return ids and rows of a party, in the order of its file: the columns and the number that the task expects."""
    source = read_source(folder, PartySource)
    ids = read_labels(source.data, source.key)
    check_unique(ids)
    if len(ids) != task.subjects:
        raise InputError("subjects", task.subjects, len(ids), "as many as this party has rows")
    return ids, read_table(source.data, task.parties[number].names).values


async def all_have_released(party: Party, own: bool) -> bool:
    """Step 3, in a repetition: return whether all parties state that they have made their release under this toss.

    Then each has found before that all have the same ids, and nothing is compared again. Anyone who says so falsely has
    no release of an honest party that it would not have had otherwise.
    """
    said = await announce(party, Kind.STANDING, bytes([own]), 1)
    return all(one == b"\1" for one in said.values())


async def join(party: Party, task: MixingTask, own: Integers, record: ReleaseRecord) -> MixedRelease:
    """Step 5: exchange the releases and return all of them side by side, the same at every party."""
    shapes = {number: (task.released_rows, len(columns)) for number, columns in enumerate(task.parties)}
    shown = await reveal(
        party, "release", own.view(np.uint64), shapes, nonce=record.nonce, keep=record.keep_commitments
    )
    parts = [words.view(np.int64) for words in shown.values()]
    release = MixedRelease.join(task, parts, provenance(party.arguments))
    await confirm(party, hashlib.sha256(release.to_bytes()).digest(), "file of the joined releases")
    return release


def provenance(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return where the release comes from."""
    return {
        "software": f"dpmpc {dpmpc.__version__}",
        "paper": PAPER,
        "method": arguments["method"],
        "parties": arguments["names"],
        "date": arguments["date"],
    }


def demonstrate(arguments: Sequence[str]) -> None:
    """Divide the generated population's columns among parties, release them, and regress income on the others."""
    from dpmpc.data.demo import DEMO_BOUNDS, DEMO_FEATURES, DEMO_TARGET, demo_population
    from dpmpc.owners.columns import RMGM
    from dpmpc.release.results import NumberTable

    chosen = parse_options(__doc__, arguments)
    population = demo_population(chosen.clients)
    table = population.table
    if not 2 <= chosen.servers <= len(table.names):
        raise InputError("servers", chosen.servers, f"2 to {len(table.names)} parties with columns")
    columns = [table.names[number :: chosen.servers] for number in range(chosen.servers)]
    task = design(columns, chosen.clients, chosen.epsilon, chosen.delta, bounds=DEMO_BOUNDS)
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for number, names in enumerate(columns):
            owned = np.column_stack([np.arange(chosen.clients), table.select(names).values])
            sources.append(PartySource(f"{folder}/party{number}.csv", "id"))
            write_csv(sources[-1].data, Table(("id", *names), owned))
        called = [f"party {number}" for number in range(chosen.servers)]
        release = run(public_arguments(task, called), sources)
    fitted = RMGM().fit_release(release, DEMO_TARGET)
    truth = dict(zip(DEMO_FEATURES, population.coefficients, strict=True))
    found: dict[str, Sequence[float]] = {
        "truth": [truth[name] for name in fitted.feature_names_],
        "private": list(fitted.coef_),
    }
    coefficients = NumberTable("Coefficients", found, fitted.feature_names_)
    print(repr(release), coefficients, release.guarantee, sep="\n\n")


if __name__ == "__main__":
    by_hand(demonstrate)
