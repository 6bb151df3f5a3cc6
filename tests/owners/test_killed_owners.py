"""Owners as processes that are killed in the middle of a sum, and run again in the same folders."""

import os
import signal
import socket
import subprocess

import numpy as np
import pytest

from dpmpc.data import Column, Schema, Table, write_csv
from dpmpc.models.rounds import SavedReleases
from dpmpc.owners.rows.owner_parties import OwnerSource, agreement_of, load_releases, public_arguments
from dpmpc.owners.rows.owners_plan import OwnersPlan
from dpmpc.owners.rows.rounds_record import LEDGER_FILE
from dpmpc.parties.network.programs import prepare
from dpmpc.parties.network.settings import write_source
from dpmpc.privacy import BudgetLedger
from support import forks

SCHEMA = Schema((Column("a", -1, 1), Column("b", -1, 1), Column("y", -1, 1)))
PROGRAM = "network_programs.dying_owner"
SECONDS = 100


def addresses(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname() for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Owners:
    """Three owners with prepared folders, whose processes are started anew for each run."""

    def __init__(self, folder, rounds):
        rng = np.random.default_rng(5)
        X = rng.uniform(-1, 1, (1500, 2))
        rows = np.column_stack([X, np.clip(X @ [0.4, -0.3] + 0.1 * rng.standard_normal(1500), -1, 1)])
        plan = self.plan = OwnersPlan(
            owners=tuple("abc"),
            rows=(500,) * 3,
            schema=SCHEMA,
            model="ridge",
            rounds=rounds,
            intervals=True,
            epsilon=3.0,
            delta=1e-6,
        )
        self.sums, self.runs = len(plan.shares), 0
        agreement = agreement_of(public_arguments(plan), program=PROGRAM)
        self.folders = prepare(agreement, folder / "prepared", addresses(3), called="owner")
        for there, part in zip(self.folders, np.split(rows, 3), strict=True):
            write_csv(there / "rows.csv", Table(SCHEMA.names, part))
            write_source(there, OwnerSource(str(there / "rows.csv")))

    def run(self, owner=-1, number=0):
        """Run all, and kill an owner in the sum of this number; return what each has sent, in order."""
        self.runs += 1
        sent = f"sent-{self.runs}.txt"
        environment = {**os.environ, "DIES": f"{owner}:{number}", "SENT": sent}
        processes = [
            forks.start(
                there, PROGRAM, program=("-m", "dpmpc.parties.network.party"), env=environment, stderr=subprocess.PIPE
            )
            for there in self.folders
        ]
        try:
            told = [process.communicate(timeout=SECONDS)[1] for process in processes]
        finally:
            for process in processes:
                process.kill()
        for place, process in enumerate(processes):
            expected = -signal.SIGKILL if place == owner else 0 if owner < 0 else None
            assert expected is None or process.returncode == expected, told
            assert owner < 0 or process.returncode != 0
        return [(there / sent).read_text().splitlines() for there in self.folders]


def require_repetition(folder, rounds, killed):
    """Kill an owner in each of these sums in turn; then let all finish, and find every word sent before sent again."""
    owners = Owners(folder, rounds)
    broken = []
    for owner, number in killed:
        broken.append(owners.run(owner, number))
        for there in owners.folders:  # what was opened is at each of them, and can be read
            opened = load_releases(there)
            assert len(opened) == number
            if number > 1:
                left = owners.plan.estimator().fit_rounds(SavedReleases(opened, 3.0))
                assert left.rounds_ == min(number - 1, rounds)
                assert np.isfinite(left.coef_).all()
    whole = owners.run()
    for earlier in broken:
        for before, after in zip(earlier, whole, strict=True):
            assert before == after[: len(before)]
    assert [len(BudgetLedger.load(there / LEDGER_FILE).entries) for there in owners.folders] == [owners.sums] * 3
    first, *others = [load_releases(there) for there in owners.folders]
    assert len(first) == owners.sums
    for other in others:
        assert all(np.array_equal(ours.sums, theirs.sums) for ours, theirs in zip(first, other, strict=True))


def test_a_kill_in_each_kind_of_sum_repeats_bytes(tmp_path):
    """In the second moments, a steering round and the last round."""
    require_repetition(tmp_path, 2, [(1, 0), (0, 2), (2, 3)])


@pytest.mark.long("eight starts of three processes")
def test_a_kill_in_every_sum_repeats_bytes(tmp_path):
    require_repetition(tmp_path, 5, [(number % 3, number) for number in range(7)])
