"""The patches against MPyC in docs/upstream apply to its current release, and do what their page states."""

import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import mpyc
import numpy as np
import pytest

from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sharing import ShamirSharing
from support.mpyc_launcher import MPYC_PROGRAMS, by_launcher

UPSTREAM = Path(__file__).parents[2] / "docs" / "upstream"
PATCHES = sorted(UPSTREAM.glob("*.patch"))
ROWS, COLUMNS = 300, 4


def patch(folder):
    """Apply all patches to the sources in a folder."""
    for file in PATCHES:
        subprocess.run(["git", "apply", "--whitespace=nowarn", str(file)], cwd=folder, check=True, timeout=60)


def run_tests(folder, *files):
    """Run test files of MPyC in a folder; return how many ran."""
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "unittest", *files]
    environment = {"PYTHONPATH": str(folder), "PATH": "", "MPYC_NOUVLOOP": "1"}
    done = subprocess.run(
        command, cwd=folder / "tests", env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return int(re.search(r"Ran (\d+) tests", done.stderr)[1])


@pytest.fixture(scope="module")
def patched(tmp_path_factory):
    """The installed MPyC, patched."""
    folder = tmp_path_factory.mktemp("mpyc")
    shutil.copytree(Path(mpyc.__file__).parent, folder / "mpyc", ignore=shutil.ignore_patterns("__pycache__"))
    patch(folder)
    return folder


def test_the_patches_are_for_the_installed_version():
    assert [file.name for file in PATCHES] == [
        f"mpyc-{version('mpyc')}-{number}.patch" for number in ("1-shares", "2-words")
    ]


def test_the_page_names_the_size_from_which_on_arrays_are_words():
    (smallest,) = set(re.findall(r"^\+    WORDS_FROM = (\d+)$", PATCHES[1].read_text(), re.MULTILINE))
    assert f"Arrays of fewer than {smallest} elements" in (UPSTREAM / "index.md").read_text()


def test_their_own_tests_pass(patched):
    assert run_tests(patched, "test_shares.py", "test_words.py") == 9


def test_shares_of_ours_are_imported_and_exported(patched, tmp_path, monkeypatch):
    ring, sharing = Mersenne61(), ShamirSharing(3, 1)
    x = np.random.default_rng(5).integers(0, 2**61 - 1, (ROWS, COLUMNS), dtype=np.uint64)
    for party, share in enumerate(sharing.split(x)):
        np.save(tmp_path / f"share-{party}.npy", share)
    monkeypatch.setenv("PYTHONPATH", str(patched))
    done = by_launcher(MPYC_PROGRAMS / "imported_shares.py", tmp_path)
    assert done.returncode == 0, done.stderr
    opened = json.loads(done.stdout.splitlines()[-1])
    exact = x.astype(object)
    assert opened == {
        "products": ((exact.T @ exact) % ring.modulus).tolist(),
        "first": int(x[0, 0]),
        "negative": 500,
        "dtype": "uint64",
    }
    squares = sharing.combine([np.load(tmp_path / f"squares-{party}.npy") for party in range(3)])
    assert (squares.astype(object) == exact * exact % ring.modulus).all()


@pytest.mark.long("all tests of MPyC, from its sources")
def test_all_tests_of_mpyc_pass(tmp_path):
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    done = subprocess.run(
        [*command, f"mpyc=={version('mpyc')}"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    if done.returncode:
        pytest.skip("the sources of MPyC cannot be downloaded here")
    [archive] = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path, filter="data")
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
    before = run_tests(folder, *sorted(file.name for file in (folder / "tests").glob("test_*.py")))
    patch(folder)
    after = run_tests(folder, *sorted(file.name for file in (folder / "tests").glob("test_*.py")))
    assert after == before + 9
