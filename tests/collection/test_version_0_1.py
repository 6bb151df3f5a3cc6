"""Files that version 0.1 wrote: each reads, verifies, and shows the sums that were released.

`tests/vectors/version_0_1` is frozen. It was made by version 0.1 and is never written again.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from dpmpc.cli.main import main
from dpmpc.collection.task_file import Collection
from dpmpc.collection.verifying import verify
from dpmpc.data_release import MixedRelease
from dpmpc.estimators import RidgeRegression
from dpmpc.release import Release

FOLDER = Path(__file__).parents[1] / "vectors" / "version_0_1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
COLLECTED = sorted(path.stem for path in FOLDER.glob("collected_*.dpmpc"))
RELEASES = sorted(set(EXPECTED) - {"mixed"})


def file(name):
    return FOLDER / f"{name}.dpmpc"


def sums_digest(release):
    return hashlib.sha256(np.ascontiguousarray(release.sums, "<i8").data).hexdigest()


def test_every_file_is_expected():
    assert {path.stem for path in FOLDER.glob("*.dpmpc")} == set(EXPECTED)


@pytest.mark.filterwarnings("ignore:release. .*one_copy_dropouts")
@pytest.mark.parametrize("name", RELEASES)
def test_a_release_reads(name):
    release, expected = Release.load(file(name)), EXPECTED[name]
    assert release.task.digest.hex() == expected["task"]
    assert sums_digest(release) == expected["sums"]
    assert release.guarantee.achieved_epsilon == pytest.approx(expected["epsilon"], abs=2e-6)
    fitted = RidgeRegression().fit_release(release, target="y")
    assert np.all(np.isfinite(fitted.coef_))


@pytest.mark.parametrize("name", COLLECTED)
def test_a_collected_release_verifies(name, capsys):
    assert verify(file(name)).release.task.digest.hex() == EXPECTED[name]["task"]
    assert main(["verify", str(file(name))]) == 0
    assert "guarantee: epsilon" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["collected_clients", "collected_servers"])
def test_a_collected_release_verifies_with_its_task_file(name):
    path = FOLDER / f"{name}.toml"
    collection = Collection.load(path).verify()
    assert verify(file(name), collection).collection.digest == collection.digest
    assert main(["verify", str(file(name)), "--collection", str(path)]) == 0
    assert main(["inspect", str(path)]) == 0


def test_a_mixed_release_reads_and_is_learnt_from(capsys):
    release, expected = MixedRelease.load(file("mixed")), EXPECTED["mixed"]
    assert sums_digest(release) == expected["sums"]
    assert release.guarantee.party_epsilon == pytest.approx(expected["epsilon"], abs=2e-6)
    assert main(["learn", str(file("mixed")), "--target", "y"]) == 0
    assert "y, by" in capsys.readouterr().out
