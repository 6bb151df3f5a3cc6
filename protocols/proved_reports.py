"""Ridge regression among clients of whom some lie, and servers that leave the lies out (theorem proof-soundness).

Parties: n clients, M servers and an analyst. With additive shares any M - 1 servers may pool what they have and learn
nothing of a row. The proofs hold if all servers follow the protocol: then one client cannot ruin the release.

1. *Share.* A client rounds its row to integers z and shares a *witness*: digits of base 4 that write z, the products
   W = z z^T, and a slack that shows ``|z|^2 <= C^2``. All servers but the last get a key instead of words.
2. *Prove.* The hashes of all shares, a *part* each, are the input of a hash whose output, the joint randomness, the
   client cannot choose (section 3). For it the client computes a proof, a short polynomial, and shares that as well.
3. *Batch.* When all reports are there, all servers confirm the same ids. Each hashes its own shares again.
4. *Point.* They toss a point r that nobody could know before, write it down, and confirm it twice. A server answers
   for a report at one point, ever.
5. *Lists.* They compare the lists of parts of all reports.
6. *Messages.* Each evaluates its shares of witness and proof at r: c + 1 words for each report, to every other server.
7. *Verdicts.* The messages add up to values that satisfy one equation if the report is well formed. If it is not, they
   do with a probability of about 2^-56. What fails is left out, counted by cause, and never opened.
8. *Sum.* Each server adds up its shares of what the accepted reports hold, adds noise, and sends that to the analyst.

Steps 1 and 2 are `dpmpc.release.client`; steps 3 to 7 `dpmpc.collect.opening.run_proofs`, on
`dpmpc.collect.opening.proof_checks`, which a real collection goes through too; step 8 is
`dpmpc.protocols.linear_transform`. This module has the liars: what they do stands in `LIES`. Beside the release with
proofs it makes the one without, in which the same clients share random words.

Three servers and an analyst, each a process of this machine, and generated people::

    python protocols/proved_reports.py -M3 --clients 10000 --liars .01
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Reals, Words
from dpmpc.base.errors import BatchMismatch, InputError, MalformedFrame, UtilityWarning
from dpmpc.base.randomness import Stream
from dpmpc.base.untrusted import ReadError, read_json
from dpmpc.collect.opening.run_proofs import check_run, task_of
from dpmpc.collect.terms.certificate import DIFFERENT_LISTS, FALSE_PROOF, wrong_hash
from dpmpc.linear.proving.circuit import FIELD, P, RowCircuit
from dpmpc.linear.proving.joint import ID_BYTES
from dpmpc.linear.proving.prove import ProvedShares
from dpmpc.linear.sharing.batch import FileShare, open_share
from dpmpc.parties.network.frames import ContentType, Kind
from dpmpc.parties.network.party import Party
from dpmpc.parties.networked import (
    REFUSED,
    Placement,
    clients,
    proofs_text,
    run_servers,
    share_file,
    stored_reports,
)
from dpmpc.privacy.task import Task, VerifiedTask
from dpmpc.protocols._by_hand import by_hand, parse_options, print_servers
from dpmpc.release.client import Client
from dpmpc.release.proved_reports import circuit_of

if TYPE_CHECKING:
    from dpmpc.models.regression.ridge_regression import Comparison
    from dpmpc.release.release import Release

_AT_ONCE = 1 << 12  # clients that are played together


async def main(party: Party) -> dict[str, Any]:
    """Run one party: a server, which takes steps 3 to 8, or the analyst, who opens the sum and returns the counts."""
    from mpyc.runtime import mpc  # the import takes MPyC's options out of a command line, which is another one here

    from dpmpc.parties.mpyc.agreed_runs import LinkedRun
    from dpmpc.protocols.linear_transform import linear_transform

    assert party.analyst is not None
    if party.pid == party.analyst:
        task, refused = await accepted_task(party, party.task)
        run = LinkedRun(task, party.analyst)
    else:
        checked = await check_run(party, party.task)  # steps 3 to 7
        run = LinkedRun(checked.task, party.analyst, share=checked.share, threads=party.arguments["threads"])
        counts = msgspec.json.encode(Proofs(checked.task.clients, checked.refused))
        await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.VERDICT, counts))
    release = await run.released(await mpc.output(linear_transform(run), receivers=run.analyst))  # step 8
    return {} if release is None else {REFUSED: refused}


class Proofs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the servers have found out about the proofs, as each of them reports to the analyst.

    Parameters
    ----------
    accepted : int
        How many reports are summed.
    refused : dict
        How many others there are, by cause.
    """

    accepted: int
    refused: dict[str, int]


async def accepted_task(party: Party, task: VerifiedTask) -> tuple[VerifiedTask, dict[str, int]]:
    """Hear from every server how many reports are accepted; return the task of so many, and the others by cause.

    Raises
    ------
    MalformedFrame, BatchMismatch
        If a server reports no such thing, or another thing than the first one.
    """
    told = []
    for sender in range(party.servers):
        frame = await party.runtime.receive_frame(sender, Kind.VERDICT, ContentType.BYTES)
        try:
            told.append(read_json(frame.raw, Proofs))
        except ReadError as error:
            raise MalformedFrame(f"party {sender} sent no valid VERDICT frame: {error}", sender) from error
        if told[-1] != told[0]:
            raise BatchMismatch(f"proofs: server {sender} found {told[-1]}, server 0 {told[0]}")
    found = told[0]
    if (
        found.accepted + sum(found.refused.values()) != task.clients
        or min((found.accepted, *found.refused.values())) < 0
    ):
        raise BatchMismatch(f"proofs: {found} told, numbers that make {task.clients} clients in all expected")
    return task_of(task, found.accepted, found.refused), found.refused


# Lies about a witness, which the client then shares and proves as if it were true


def out_of_range(circuit: RowCircuit, witness: Words) -> None:
    """Make a digit 4, so that a column lies outside its bounds."""
    witness[:, 0] = 4


def wrong_products(circuit: RowCircuit, witness: Words) -> None:
    """Make W differ from z z^T: one product is a million too large."""
    witness[:, circuit.digits] = (witness[:, circuit.digits] + np.uint64(10**6)) % np.uint64(P)


def beyond_the_ball(circuit: RowCircuit, witness: Words) -> None:
    """Share the upper corner of the box, with the slack of the edge of the ball."""
    witness[:, : circuit.digits] = 3
    witness[:, circuit.columns * len(circuit.weights) : circuit.digits] = 0
    witness[:, circuit.digits :] = circuit.high**2


def random_words(circuit: RowCircuit, witness: Words) -> None:
    """Share any words, with hashes that fit."""
    witness[:] = FIELD.uniform(Stream.from_os(), witness.shape)


# Lies about what is sent, once it is shared and proved


def changed_proof(task: Task, shares: list[ProvedShares], rows: NDArray[np.bool_]) -> None:
    """Change a word of the proof, which no hash covers."""
    _change_word(shares[-1], rows, -1)


def changed_share(task: Task, shares: list[ProvedShares], rows: NDArray[np.bool_]) -> None:
    """Change a word of the witness, which the last server's own hash covers."""
    _change_word(shares[-1], rows, 0)


def different_lists(task: Task, shares: list[ProvedShares], rows: NDArray[np.bool_]) -> None:
    """Tell the first server another hash of the last server's share than the others."""
    parts = shares[0].parts.copy()
    parts[rows, -1, -1] ^= 1
    shares[0] = ProvedShares(0, shares[0].ids, parts, keys=shares[0].keys)


def _change_word(share: ProvedShares, rows: NDArray[np.bool_], word: int) -> None:
    assert share.words is not None
    share.words[rows, word] = (share.words[rows, word] + np.uint64(1)) % np.uint64(P)


ABOUT_WITNESSES: dict[str, Callable[[RowCircuit, Words], None]] = {
    "out of range": out_of_range,
    "wrong products": wrong_products,
    "beyond the ball": beyond_the_ball,
    "random words": random_words,
}
ABOUT_SHARES: dict[str, Callable[[Task, list[ProvedShares], NDArray[np.bool_]], None]] = {
    "changed proof": changed_proof,
    "changed share": changed_share,
    "different lists": different_lists,
}
LIES = (*ABOUT_WITNESSES, *ABOUT_SHARES)


def cause_of(lie: str, servers: int) -> str:
    """Return why servers leave a lie out."""
    if lie == "changed share":
        return wrong_hash(servers - 1)
    return DIFFERENT_LISTS if lie == "different lists" else FALSE_PROOF


def liars_among(count: int, share: float) -> NDArray[np.intp]:
    """Return which lie each client sends: its number in `LIES`, or -1 for an honest client.

    Liars lie evenly among the honest, and take turns with the lies.
    """
    if not 0 <= share <= 1:
        raise InputError("liars", share, "a share of the clients from 0 to 1")
    lying = round(count * share)
    told = np.full(count, -1, np.intp)
    told[np.linspace(0, count, lying, endpoint=False, dtype=np.intp)] = np.arange(lying) % len(LIES)
    return told


def reports(task: Task, rows: Reals, told: NDArray[np.intp]) -> Iterator[list[ProvedShares]]:
    """Play (steps 1 and 2) clients, some of whom lie; yield blocks of what the servers get.

    Parameters
    ----------
    task : Task
        With proofs of second moments in a ball.
    rows : ndarray of float64, shape (n, p)
        What an honest client shares.
    told : ndarray of int, shape (n,)
        See `liars_among`.
    """
    circuit, client = circuit_of(task), Client(task.verify())
    if not isinstance(circuit, RowCircuit) or not circuit.moments or circuit.squared_radius is None:
        raise InputError("task", f"of {task.statistic.name}", "second moments in a ball", "liars leave it")
    for first in range(0, len(rows), _AT_ONCE):
        block = slice(first, first + _AT_ONCE)
        witnesses = client.witnesses(rows[block], first=first)
        for lie, change in ABOUT_WITNESSES.items():
            mine = told[block] == LIES.index(lie)
            false = np.ascontiguousarray(witnesses[mine])
            change(circuit, false)
            witnesses[mine] = false
        ids = np.frombuffer(client.stream.bytes(ID_BYTES * len(witnesses)), np.uint8).reshape(-1, ID_BYTES)
        shares = client.share(witnesses, ids, task.digest)
        for lie, alter in ABOUT_SHARES.items():
            alter(task, shares, told[block] == LIES.index(lie))
        yield shares


def random_shares(task: Task, rows: Reals, told: NDArray[np.intp]) -> Placement:
    """Play clients who prove nothing; the liars among them share random words."""
    honest = clients(task, rows)

    def place(folders: Sequence[Path]) -> None:
        honest(folders)
        ring = task.encoding.ring
        last = open_share(share_file(folders[task.trust.servers - 1]), ring)
        assert isinstance(last, FileShare)
        for client in np.flatnonzero(told >= 0):
            last[slice(client, client + 1)] = ring.uniform(Stream.from_os(), (1, *task.share_shape[1:]))

    return place


def demonstrate(arguments: Sequence[str]) -> None:
    """Fit incomes of the generated population with and without proofs, and print what was refused and what it cost."""
    from dpmpc.data.demo import DEMO_BOUNDS, DEMO_RADIUS, DEMO_TARGET, demo_population
    from dpmpc.models import RidgeRegression
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--liars", type=float, default=0.01, metavar="SHARE", help="of the clients (default 0.01)")

    chosen = parse_options(__doc__, arguments, more, clients=10_000)
    lie_of = liars_among(chosen.clients, chosen.liars)
    rows = demo_population(chosen.clients).table.values
    choices = {"sketch": "sum", "radius": DEMO_RADIUS, "noise_by": "servers", "servers": chosen.servers}

    def task_of(*, proved: bool) -> Task:
        spec = ReleaseSpec.of(DEMO_BOUNDS, chosen.clients, chosen.epsilon, chosen.delta, **choices, proved=proved)
        return design(spec)

    def compare(release: Release) -> Comparison:
        return RidgeRegression(1.0).fit_release(release, DEMO_TARGET).compare(rows[lie_of < 0])

    task, plain = task_of(proved=True), task_of(proved=False)
    done = run_servers(task, stored_reports(task, reports(task, rows, lie_of)))
    spoiled = run_servers(plain, random_shares(plain, rows, lie_of))
    assert done.refused is not None
    with_proofs = compare(done.release)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)  # that nothing can be learned from it is what is shown
        without = compare(spoiled.release)
    lies = ", ".join(f"{int((lie_of == number).sum()):,} {lie}" for number, lie in enumerate(LIES))
    print(f"{chosen.clients:,} clients, {int((lie_of >= 0).sum()):,} of whom lie: {lies}")
    print(proofs_text(done.release.clients, done.refused))
    print(
        f"cost / optimal cost (phi) for the honest rows: {with_proofs.approximation_factor:.5g} with proofs, "
        f"{without.approximation_factor:.4g} without, where each liar shares random words; trivial predictor "
        f"{with_proofs.trivial_factor:.4g}\n\n{done.release.guarantee}\n\nWith proofs:"
    )
    print_servers(done.servers)
    print("Without proofs:")
    print_servers(spoiled.servers)


if __name__ == "__main__":
    by_hand(demonstrate)
