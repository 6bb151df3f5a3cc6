"""Regression between data owners among real processes, in rounds of noisy sums (theorem owner-noise).

Data: M organisations, each with many rows of the same columns, about people of its own. Wanted: one logistic, Poisson
or linear regression over all rows, while all rounds together give each row (epsilon, delta)-differential privacy, also
against the other organisations if they collude. Or a Table 1, which takes one round, of cells.

The rounds are those of `dpmpc.protocols.logistic_regression`. In each

1. owner 0 proposes the task: what is summed, at which public coefficients, with how much noise. Every owner has
   computed the same from the same earlier sums, refuses a task that is not that, recomputes its guarantee, and enters
   it in its own ledger. What owner 0 sends is announced: all have received the same task, or it is named. It states the
   digest of the task, and of its fields those that machines may compute differently: a matrix of the round before is
   not sent again, and all else follows from the plan.
2. Each owner adds up what its own rows contribute, adds noise that suffices alone, splits the noisy sum into additive
   shares, and puts them on its disk (`dpmpc.owners.rows.own_rounds.OwnRound`); when all have, it sends one to each
   owner.
3. Each adds up the shares that it has, its share of the sum over all rows, and puts it on its disk. All commit to
   theirs; when all have, each puts the commitments on its disk, and all show theirs: the noisy sum is opened, the same
   at every owner, and nothing else is.
4. Each owner computes by itself what the sums so far show, and with it the next round's coefficients.

The steps of the conversation are those of `dpmpc.parties.network.conversation`: all but the shares is announced and
signed, so that an owner that sends different owners different things is named by all others.

Promised: what leaves an owner is shares, commitments and digests; every proper part of the shares is random, and what
all of them show is the noisy sum of the task. A run after a crash, in the same folders, is the same run: the same
tasks, noise, shares and commitments, byte for byte (`dpmpc.owners.rows.rounds_record.RoundsRecord`). Not promised:
protection against an owner that hands in other rows than it has; an end where an owner leaves for good.

Three owners, each a process of this machine, and generated people whom they divide among them::

    python protocols/data_owners.py -M3 --clients 30000 --epsilon 1

The same on files of your own, or one owner on its own machine::

    dpmpc owners --simulate a.csv b.csv c.csv --target ill --bounds bounds.toml --model logistic ...
    dpmpc owners --owner 0 --data a.csv --folder owner-0 --out result
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from dpmpc.base.arrays import Words
from dpmpc.base.errors import InputError, MalformedFrame
from dpmpc.base.randomness import stream_for
from dpmpc.base.storage import canonical
from dpmpc.base.untrusted import read_json
from dpmpc.models import LogisticRegression
from dpmpc.models.rounds.saved import require_alike
from dpmpc.owners.rows.own_rounds import AgreedReleases, OwnRound
from dpmpc.owners.rows.owner_parties import (
    SEED,
    OwnerSource,
    ledger_of,
    own_rows,
    plan_of,
    public_arguments,
    release_file,
    run,
)
from dpmpc.owners.rows.owners_plan import OwnersPlan
from dpmpc.owners.rows.rounds_record import RoundsRecord
from dpmpc.parties.network.announcing import announce, explained, settle
from dpmpc.parties.network.conversation import exchange, reveal, together
from dpmpc.parties.network.frames import Kind
from dpmpc.parties.network.party import Party
from dpmpc.parties.network.settings import PartySettings, read_source
from dpmpc.privacy.task import Task
from dpmpc.protocols._by_hand import by_hand, parse_options, print_servers
from dpmpc.release.analyst import open_sums
from dpmpc.release.release import Release

LARGEST_TASK = 1 << 24  # bytes of a proposal
PROPOSER = 0


class Proposal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task by its digest, with what machines may compute differently; all else follows from the plan."""

    task: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    epsilon: float
    noise: dict[str, Any]
    statistic: dict[str, Any]  # without what it had in the round before


def prepare(settings: PartySettings) -> None:
    """Check what was agreed on before any other owner is contacted."""
    plan = _agreed_plan(settings)
    plan.require_possible()


async def main(party: Party) -> dict[str, Any]:
    """Run one owner; it ends with the sums in its folder, and returns how many there are."""
    return await explained(party, take_part(party))


async def take_part(party: Party) -> dict[str, Any]:
    """Take part in all rounds."""
    plan, source = _agreed_plan(party.runtime.settings), read_source(party.folder, OwnerSource)
    with party.meter.phase("read"):
        rows = await asyncio.to_thread(own_rows, source, plan, party.pid, party.runtime.settings.deadline)
    owner_round = OwnRound(plan, party.pid, rows, stream_for(plan.simulation_seed).substream(party.pid))
    limit = (plan.epsilon, plan.delta)
    plan_digest, ledger = party.runtime.settings.task, ledger_of(party.folder, source)
    with contextlib.ExitStack() as opened:  # others are told of a folder or a ledger that cannot be used
        record = await together(
            party, lambda: opened.enter_context(RoundsRecord(party.folder, plan_digest, ledger, limit))
        )
        loop = asyncio.get_running_loop()

        def ask(number: int, asked: Task) -> Release:
            """Take part in a round from the thread of the fit, whose loop goes on noticing when a peer is lost."""
            coroutine = one_round(party, number, asked, owner_round, record, releases)
            release = asyncio.run_coroutine_threadsafe(coroutine, loop).result()
            release.save(release_file(party.folder, number))  # at once: what is opened can be read if others leave
            return release

        releases = AgreedReleases(plan, ask)
        await asyncio.to_thread(plan.fitted, releases)
        await settle(party)
        await party.runtime.shutdown()
    return {"sums": len(releases.made)}


async def one_round(
    party: Party, number: int, asked: Task, owner_round: OwnRound, record: RoundsRecord, releases: AgreedReleases
) -> Release:
    """Make (steps 1 to 3) one release, which follows on those so far."""
    task = await agree(party, number, asked, record, releases)
    shape = (task.sketch.rows, task.width)

    def answer() -> Words:
        with party.meter.phase("transform"):
            stored = record.shares(number, (party.servers, task.width))
            if stored is not None:
                return stored
            return record.keep_shares(number, task, owner_round.shares(task, threads=party.arguments["threads"]))

    shares = await together(party, answer)  # where the ledger of one has no room, nobody sends anything
    with party.meter.phase("open"):
        dealt = await exchange(party, Kind.SHARE, {owner: shares[owner : owner + 1].copy() for owner in party.present})
        opened = record.opened(number, shape)
        if opened is None:
            opened = record.keep_opened(number, task.encoding.ring.sum_of(list(dealt.values()), name="shares"))
        opened_shares = await reveal(
            party,
            f"share of round {number}",
            opened,
            nonce=record.nonce(number),
            keep=lambda commitments: record.keep_commitments(number, commitments),
        )
    return open_sums(task, list(opened_shares.values()))


async def agree(party: Party, number: int, asked: Task, record: RoundsRecord, releases: AgreedReleases) -> Task:
    """Step 1: return the task that all answer: nearly the one that this owner requires, or that of an earlier run."""
    before = releases.made[-1].task.to_dict()["statistic"] if releases.made else {}
    begun = record.task(number)
    content = proposal_of(asked if begun is None else Task.from_dict(begun), before) if party.pid == PROPOSER else b""
    proposal = (await announce(party, Kind.STATEMENT, content, largest=LARGEST_TASK))[PROPOSER]

    def judge() -> Task:
        task = proposed_task(proposal, number, asked, before, releases.require_within_budget)
        record.require(number, task)
        return task

    return await together(party, judge)


def proposal_of(task: Task, before: Mapping[str, Any]) -> bytes:
    """Write the proposal of a task; `before` is the statistic of the round before, of which nothing is repeated."""
    facts = task.to_dict()
    known = _known(before, facts["statistic"])
    new = {name: value for name, value in facts["statistic"].items() if name == "name" or known.get(name) != value}
    return canonical(Proposal(task.digest.hex(), facts["epsilon"], facts["noise"], new))


def proposed_task(
    content: bytes, number: int, asked: Task, before: Mapping[str, Any], allowed: Callable[[Task], None]
) -> Task:
    """Read the task that the proposer has sent, which is nearly the one that this owner has computed by itself.

    `allowed` refuses a task that exceeds the budget of all rounds.
    """
    try:
        proposal = read_json(content, Proposal, largest=LARGEST_TASK)
        if proposal.statistic.get("name") != asked.statistic.name:  # first: to verify any task may take hours
            raise InputError("statistic", "another", asked.statistic.name, condition="by the plan")
        statistic = {**_known(before, proposal.statistic), **proposal.statistic}
        facts = {**asked.to_dict(), "epsilon": proposal.epsilon, "noise": proposal.noise, "statistic": statistic}
        task = Task.from_dict(facts)
        if task.digest.hex() != proposal.task:
            raise InputError("task", proposal.task, task.digest.hex(), condition="by the plan and the rounds so far")
        require_alike(task.verify(), asked, number)
        allowed(task)
    except ValueError as error:
        raise MalformedFrame(f"party {PROPOSER} proposed no task of round {number}: {error}", PROPOSER) from error
    return task


def _known(before: Mapping[str, Any], statistic: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the round before states of the next one's statistic: all or nothing."""
    return before if before.get("name") == statistic.get("name") else {}


def _agreed_plan(settings: PartySettings) -> OwnersPlan:
    """Return the plan, if this owner's arguments are those of the digest that all compared."""
    settings.require_own_digest()
    plan = msgspec.structs.replace(plan_of(settings.arguments), simulation_seed=settings.simulation.get(SEED))
    if len(plan.owners) != settings.servers:
        raise InputError("plan", f"of {len(plan.owners)} owners", settings.servers)
    return plan


def demonstrate(arguments: Sequence[str]) -> None:
    """Divide generated people among owners, have them fit a logistic regression, and print what was found."""
    from dpmpc.data import Table, write_csv
    from dpmpc.models.rounds import SavedReleases
    from dpmpc.models.rounds.fit import AUTO, rounds_of
    from dpmpc.protocols.logistic_regression import patients, print_sums, with_truth

    chosen = parse_options(__doc__, arguments)
    people = patients(chosen.clients)
    parts = np.array_split(people.rows, chosen.servers)
    plan = OwnersPlan(
        owners=tuple(f"owner {number}" for number in range(chosen.servers)),
        rows=tuple(map(len, parts)),
        schema=people.schema,
        model="logistic",
        rounds=rounds_of(AUTO, chosen.clients, intervals=True),
        intervals=True,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
    )
    with tempfile.TemporaryDirectory() as folder:
        sources = [OwnerSource(str(Path(folder) / f"owner{number}.csv")) for number in range(chosen.servers)]
        for source, part in zip(sources, parts, strict=True):
            write_csv(source.data, Table(people.schema.names, part))
        done = run(public_arguments(plan), sources)
    model = LogisticRegression(rounds=plan.rounds).fit_rounds(SavedReleases(done.releases, plan.epsilon))
    print_sums(done.releases)
    print(with_truth(model.odds_ratios(), people), model.guarantee_, sep="\n\n")
    print_servers(done.owners)


if __name__ == "__main__":
    by_hand(demonstrate)
