"""Programs on MPyC's own runtime: parties design or read a task, compare it, toss for S, and keep what they open.

Each party plays n / M clients (`PlayedPlan`), or holds the shares of clients who are no parties (`HeldPlan`). What is
promised and what is not stands in `dpmpc.parties.mpyc.programs`.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from mpyc.runtime import mpc

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage.files import write_private
from dpmpc.data import Schema
from dpmpc.parties.mpyc import agreeing
from dpmpc.parties.mpyc.agreed_runs import AgreedRun, Plan, require_no_proofs
from dpmpc.parties.mpyc.costs import PartyCost, costs
from dpmpc.parties.mpyc.mpyc_links import MpycLinks
from dpmpc.parties.mpyc.share_folders import ShareFolder, read_task
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from dpmpc.release.results import Result

SEED_BYTES = 32


@dataclasses.dataclass(frozen=True)
class MpycRun(AgreedRun):
    """A release on MPyC's runtime."""

    folder: ShareFolder | None = None
    args: argparse.Namespace = dataclasses.field(default_factory=argparse.Namespace)
    links: MpycLinks | NetworkLinks | None = None
    spent: list[PartyCost] = dataclasses.field(default_factory=list)

    @property
    def assumed_links(self) -> str:
        """Code of what the guarantee assumes of the links."""
        assert self.links is not None
        return self.links.assumption

    def once(self, y: Any) -> Any:
        """Mark the folder of shares as used."""
        if self.folder is not None:
            self.folder.mark_used()
        return y

    async def released(self, opened: Any, of: Any = Release) -> Any:
        """Keep the release, then exchange what each party has spent."""
        release = await super().released(opened, of)
        self.spent.extend(await costs.of_all())
        if self.args.costs is not None and mpc.pid == 0:
            write_private(Path(self.args.costs), msgspec.json.encode(self.spent))
        assert self.links is not None
        self.links.close()
        return release

    def keep(self, release: Release) -> None:
        """Keep the release at the analyst, or at party 0 where all open it."""
        if self.args.release is not None and mpc.pid == (self.analyst or 0):
            release.save(self.args.release)

    def report(self, release: Any, analyse: Callable[[Any], Result] = lambda release: Result()) -> dict[str, Any]:
        """Print the costs as well, and that the sketch is opened by servers, not by an analyst apart from them."""
        answer = super().report(release, analyse)
        trust = self.task.trust
        who = "all parties" if self.analyst is None else f"party {self.analyst}"
        print(
            f"\nThe sketch was opened by {who}: a party that opens it is a server, and counts among the "
            f"{trust.colluding_servers} of {trust.servers} that may pool what they see."
        )
        print(f"\n{cost_table(self.spent)}")
        return answer


class NetworkLinks:
    """The links of `dpmpc.parties.network`, in a program that `dpmpc run` has started."""

    carry_shares, assumption = True, "secret-links"

    def __str__(self) -> str:
        return f"links: dpmpc.parties.network, {len(mpc.parties)} parties, mutually authenticated TLS"

    def watch(self) -> None:
        """Do nothing: the runtime ends the run where a peer is lost."""

    def close(self) -> None:
        """Do nothing."""


class MpycPlan(Plan):
    """Of a party on MPyC's runtime."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.links = NetworkLinks() if hasattr(mpc, "party") else MpycLinks(mpc)
        if len(mpc.parties) < 2:
            raise InputError("-M", "1 party", "at least 2", "one party alone sees every row (-M3)")

    async def compare(self, task: Task, rows: str) -> bytes:
        """Compare all that this party was given with the others; return 32 bytes that stand for this run."""
        program = Path(sys.argv[0]).name
        facts = {"program": program, "rows": rows, "analyst": self.args.analyst}
        with costs.phase("agree"):
            return await agreeing.agreed(
                {**facts, "dpmpc": importlib.metadata.version("dpmpc"), "task": task.digest.hex()}
            )

    def run(self, task: Task, **own: Any) -> AgreedRun:
        """Return the run of an agreed task."""
        threads = mpc.options.workers or 1
        return MpycRun(task.verify(), self.args.analyst, threads=threads, args=self.args, links=self.links, **own)

    def require_parties(self, task: Task) -> None:
        """Refuse a task for other servers than the parties of this program."""
        require_no_proofs(task)
        pooled = most_pooled(task.sharing)
        given = (task.trust.servers, task.trust.colluding_servers)
        if given[0] != len(mpc.parties) or given[1] > pooled or (task.sharing == "shamir" and given[1] != pooled):
            raise InputError(
                "task",
                f"one for {given[0]} servers of whom {given[1]} may pool their shares",
                f"{len(mpc.parties)} of whom {pooled} may",
                condition="(-M, -T)",
            )


class PlayedPlan(MpycPlan):
    """Each party plays n / M clients; all toss for the public matrix, unless a task was given."""

    def __init__(
        self,
        args: argparse.Namespace,
        schema: Schema,
        generated: Callable[[int], Reals],
        designed: Callable[..., Task],
        **choices: Any,
    ):
        super().__init__(args)
        parties = len(mpc.parties)
        self.generated, self.designed, self.spec = generated, designed, None
        if args.task is not None:
            self.task = read_task(args.task)
            if self.task.schema != schema:
                self.generated = uniform_rows(self.task.schema)
            self.require_parties(self.task)
            if self.task.clients % parties:
                raise InputError("--task", f"one for {self.task.clients} clients", f"a multiple of {parties}")
        else:
            self.spec = specification(args, schema, **choices)
            self.task = designed(self.spec, matrix_seed=bytes(SEED_BYTES))  # what cannot be had is refused here
        self.links.watch()

    async def agreed(self) -> AgreedRun:
        """Compare the task, toss for S, design with it, and compare again: noise may depend on the matrix drawn."""
        costs.start()
        session = await self.compare(self.task, "played by the parties")
        task = self.task
        if self.spec is not None:
            seed = await agreeing.toss(session, "public matrix")
            with costs.phase("agree"):
                task = self.designed(self.spec, matrix_seed=seed)
            await agreeing.agreed({"task with the matrix": task.digest.hex()})
        each = task.clients // len(mpc.parties)
        rows = self.generated(task.clients)[mpc.pid * each : (mpc.pid + 1) * each]
        return self.run(task, rows=rows)


class HeldPlan(MpycPlan):
    """Each party holds the shares that clients who are no parties have sent to it."""

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        if not self.links.carry_shares:
            raise InputError(
                "--shares",
                "given with parties on other machines, none expected: MPyC's links let one party take the "
                "shares of others. `dpmpc run` starts the same program on authenticated links",
            )
        self.folder = ShareFolder.of_party(args.shares, mpc.pid)
        self.require_parties(self.folder.task)
        self.share = self.folder.share
        self.folder.refuse_used()
        self.links.watch()

    async def agreed(self) -> AgreedRun:
        """Compare the tasks of the folders."""
        costs.start()
        await self.compare(self.folder.task, "held by the servers")
        return self.run(self.folder.task, share=self.share, folder=self.folder)


def plan_on_mpyc(
    args: argparse.Namespace,
    schema: Schema | None,
    generated: Callable[[int], Reals] | None,
    designed: Callable[..., Task] | None,
    **choices: Any,
) -> Plan:
    """Return the plan of this party, and print which links it has; see `dpmpc.parties.mpyc.programs.planned`."""
    schema = schema or Schema.unit([f"x{column}" for column in range(args.columns)])
    if args.shares:
        plan: MpycPlan = HeldPlan(args)
    else:
        plan = PlayedPlan(args, schema, generated or uniform_rows(schema), designed or design, **choices)
    print(plan.links, flush=True)
    return plan


def most_pooled(sharing: str) -> int:
    """Return how many parties of this program may pool what they see."""
    return len(mpc.parties) - 1 if sharing == "additive" else int(mpc.threshold)


def specification(args: argparse.Namespace, schema: Schema, **choices: Any) -> ReleaseSpec:
    """Return the release that the options describe, of clients that the parties play.

    A party knows the noise of its clients, so that the clients of all parties that may pool what they hold count as
    corrupt. Which they are was fixed before the toss for the matrix.
    """
    parties = len(mpc.parties)
    pooled = most_pooled(args.sharing)
    clients = args.clients // parties * parties
    corrupt = pooled * clients // parties if args.corrupt_clients is None else args.corrupt_clients
    sketched = {"sketch": args.sketch, "rows": args.rows, "sparsity": args.sparsity, "copies": args.copies}
    matrix = {} if choices.get("sketch") == "sum" else sketched
    trust = {"servers": parties, "corrupt_servers": pooled, "corrupt_clients": corrupt, "coalition": "static"}
    return ReleaseSpec.of(
        schema,
        clients,
        args.epsilon,
        args.delta,
        sharing=args.sharing,
        noise=args.noise,
        **{**matrix, **trust, **choices},
    )


def uniform_rows(schema: Schema) -> Callable[[int], Reals]:
    """Return what generates rows that are uniform within their bounds, the same at every party."""

    def generated(clients: int) -> Reals:
        uniform = np.random.default_rng(0).uniform(-1, 1, (clients, len(schema)))
        return schema.offset + schema.slope * uniform

    return generated


def cost_table(spent: Sequence[PartyCost]) -> str:
    """Return what each party has spent, in the form of the paper's tables."""
    names = list(dict.fromkeys(name for cost in spent for name in cost.phases))
    heads = ["party", "time, s", "CPU, s", *(f"{name}, CPU s" for name in names), "sent, MB", "rounds"]
    lines = ["  ".join(f"{head:>12}" for head in heads)]
    for cost in spent:
        seconds = [cost.wall_s, cost.cpu_s, *(cost.phases[name].cpu_s if name in cost.phases else 0 for name in names)]
        cells = [str(cost.party), *(f"{value:.4f}" for value in seconds)]
        cells += [f"{cost.bytes_sent / 1e6:.4f}", " ".join(f"{count} {name}" for name, count in cost.rounds.items())]
        lines.append("  ".join(f"{cell:>12}" for cell in cells))
    total = sum(cost.bytes_sent for cost in spent)
    return "\n".join([*lines, f"all parties together sent {total / 1e6:.4f} MB"])
