"""What is named by its path, or by the name of a module, exists: a move that forgets a guard would switch it off."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from setuptools import find_packages

from support import tiers
from support.lints import check_each, path_in_checkout

ROOT = Path(__file__).parents[1]
WRITTEN = {".py", ".md", ".rst", ".toml", ".pyx", ".pxd", ".c", ".h", ".in", ".mjs", ".yaml"}
HISTORY = ("CHANGELOG.md", "bench/results/")
FOLDERS = "dpmpc|csrc|protocols|tests|bench|docs|examples"
PATH = re.compile(rf"(?<![\w/.@-])(?:{FOLDERS})/[\w./*-]*\w(?:/|\*)?")
TEST_FILE = re.compile(r'"((?:\w+/)*test_\w+\.py)')
NAME = re.compile(r"`(dpmpc(?:\.[A-Za-z_]\w*)+)`")
PLACEHOLDER = re.compile(r"\b[A-Z]+\b")  # bench/FOLDER/NAME.py


def tracked():
    """Return the files of the repository that people write."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("no git repository")
    names = [name for name in listed.stdout.decode().split("\0") if name and not name.startswith(HISTORY)]
    return [ROOT / name for name in names if Path(name).suffix in WRITTEN or name in ("Makefile", ".ci/run")]


def exists(path):
    """Whether a path stands for some file; without its suffix too, as programs and benches are named."""
    if "*" in path:
        return any(ROOT.glob(path))
    place = ROOT / path
    return place.exists() or any(place.parent.glob(f"{place.name}.*"))


def means_something(name):
    """Whether a dotted name is that of a module, or of something that a module names; nothing is imported."""
    parts = name.removeprefix("dpmpc." if name.startswith("dpmpc.protocols") else "").split(".")  # as setup.py maps it
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        for file in (place / "__init__.py", place.with_suffix(".py"), place.with_suffix(".pyi")):
            if file.is_file():
                needed = parts[length : length + 1] if file.name == "__init__.py" else parts[length:]
                return set(re.findall(r"\w+", file.read_text())).issuperset(needed)
    return False


def test_paths_exist():
    def check(file):
        paths = {path for path in PATH.findall(file.read_text()) if not PLACEHOLDER.search(path)}
        assert [path for path in sorted(paths) if not exists(path) and not path.endswith(".so")] == []

    begun_in_tests = [ROOT / "tests" / "conftest.py", Path(tiers.__file__)]  # paths in these begin there
    apart = (Path(__file__), *begun_in_tests)
    check_each(check, [file for file in tracked() if file not in apart], path_in_checkout)


def test_names_of_modules_exist():
    def check(file):
        names = {one for one in NAME.findall(file.read_text()) if not PLACEHOLDER.search(one)}
        assert [one for one in sorted(names) if not means_something(one)] == []

    check_each(check, tracked(), path_in_checkout)


def test_files_of_tests_exist():
    def check(file):
        names = TEST_FILE.findall(file.read_text())
        assert [one for one in names if not exists(one) and not exists(f"tests/{one}")] == []

    check_each(check, [ROOT / "tests" / "conftest.py", ROOT / "pyproject.toml", ROOT / "Makefile"], path_in_checkout)


def test_packages_that_have_data_exist():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert set(settings) <= set(find_packages(ROOT, include=["dpmpc", "dpmpc.*"]))
    files = {(package, pattern) for package, patterns in settings.items() for pattern in patterns}
    empty = [(package, one) for package, one in files if not any((ROOT / package.replace(".", "/")).glob(one))]
    assert empty == []


def test_the_list_of_slow_tests_names_tests():
    """A test that was renamed leaves the list; a run of each kind stays in `make test`."""

    def check(name):
        file, *_, function = name.split("::")
        assert re.search(rf"^ *(async )?def {function}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE)

    check_each(check, [*json.loads(tiers.LIST.read_text()), *tiers.TRUE_RUNS], str)
