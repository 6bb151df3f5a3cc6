"""Who breaks a run off and has it repeated sees the same bytes: servers of a collection, and owners of columns.

Each side is a process. What the one that breaks off has kept goes into the closed form of the audit.
"""

import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench.system.ports import free_ports
from dpmpc.app.cli.main import main
from dpmpc.owners import columns as mixing
from dpmpc.privacy.gaussian import epsilon_of_mu
from dpmpc.release.release import Release
from support import aborting, forks, release_processes

TESTS = Path(__file__).parents[1]


def test_a_server_that_breaks_off_sees_the_same_shares_in_each_repetition(tmp_path, monkeypatch):
    """Servers add the noise. The last one takes all shares and is gone, twice; then it stays to the end."""
    monkeypatch.setattr(release_processes, "_serve", aborting.serve)
    trial = release_processes.Trial.filled(
        tmp_path / "trial", noise_by="servers", copies="auto", sketch="sum", rows=None, sparsity=None
    )
    seen = []
    for run in range(3):
        kept = tmp_path / f"kept-{run}"
        kept.mkdir()
        ended = release_processes.run(trial, deeds={2: (str(kept), run < 2)})
        assert [ended[server].status for server in range(3)] == ([3, 3, aborting.BROKEN_OFF] if run < 2 else [0] * 3)
        seen.append({path.name: path.read_bytes() for path in kept.iterdir()})
    assert set(seen[0]) == {"from-0", "from-1"}
    different = max(len({shares[name] for shares in seen}) for name in seen[0])
    task = Release.load(trial.out(0)).task
    mu = task.guarantee.mu * math.sqrt(different)  # of so many independent draws, their mean
    assert epsilon_of_mu(mu, task.delta) <= task.epsilon
    assert different == 1


def owners(folder, people=60):
    """Write files, bounds and a prepared release of two data owners; return what `prepare` has written."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    for party, column in enumerate(("income", "debt")):
        (folder / f"bounds-{party}.toml").write_text(f"[columns.{column}]\nlower = -1.0\nupper = 1.0\n")
        lines = [f"id,{column}", *(f"person-{person:03d},{0.5 - party}" for person in range(people))]
        (folder / f"data-{party}.csv").write_text("\n".join(lines) + "\n")
    bounds = [str(folder / f"bounds-{party}.toml") for party in range(2)]
    budget = ["--epsilon", "1", "--delta", "1e-5", "--method", "dgm", "--subjects", str(people)]
    assert (
        main(["mix", "--prepare", str(folder / "plan"), "--addresses", *addresses, "--bounds", *bounds, *budget]) == 0
    )
    return folder / "plan"


def test_a_data_owner_that_breaks_off_sees_one_release_of_another(tmp_path, capsys):
    """It takes the other's release and is gone; whatever the other does with its folder then, no second draw leaves."""
    from dpmpc.owners.columns.mixing_parties import PartySource
    from dpmpc.parties.network.settings import write_source

    plan = owners(tmp_path)
    write_source(plan / "party-0", PartySource(str(tmp_path / "data-0.csv"), "id"))
    shutil.copytree(plan / "party-0", tmp_path / "as-new")
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    seen = []
    for run in range(3):
        own, kept = tmp_path / f"evil-{run}", tmp_path / f"kept-{run}"
        shutil.copytree(tmp_path / "as-new", own)
        kept.mkdir()
        honest = ["mix", "--party", "1", "--data", tmp_path / "data-1.csv", "--key", "id"]
        honest += ["--folder", plan / "party-1", "--out", tmp_path / f"out-{run}"]
        evil = subprocess.Popen([sys.executable, "-m", "support.aborting", str(own), str(kept)], env=environment)
        try:
            done = forks.run(*honest)
            end = time.monotonic() + 10
            while evil.poll() is None and done.returncode == 3 and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            evil.kill()
            evil.wait()
        assert done.returncode in (2, 3), done.stderr
        assert not (tmp_path / f"out-{run}").exists()
        seen += [path.read_bytes() for path in kept.iterdir()]
    capsys.readouterr()
    assert seen
    promised = mixing.design((("income",), ("debt",)), 60, 1.0, 1e-5, rows=None, simulation=True).guarantee
    mu = promised.party_mu * math.sqrt(len(set(seen)))
    assert epsilon_of_mu(mu, promised.delta) <= 1.0
    assert len(set(seen)) == 1
