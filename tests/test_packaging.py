"""What is published: files of the source distribution, extras as documented, and the same bits from every compiler."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTALL = (ROOT / "docs" / "install.md").read_text()
SHIPPED = ("csrc", "docs", "examples", "tests", "bench/results")  # beside the packages, which setuptools finds
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
PROCESSOR = Path("/proc/cpuinfo")
FUSES = PROCESSOR.exists() and " fma " in PROCESSOR.read_text()


def test_the_page_on_installing_names_every_extra_and_what_it_installs():
    rows = re.findall(r"^\| `([\w-]+)` \| ([^|]*) \| [^|]+ \|$", INSTALL, re.MULTILINE)
    documented = {extra: re.findall(r"[\w-]+", packages) for extra, packages in rows}
    extras = PROJECT["project"]["optional-dependencies"]
    names = {extra: [re.match(r"[\w-]+", one)[0] for one in wanted] for extra, wanted in extras.items()}
    for internal in ("docs", "test"):  # for those who work on dpmpc: CONTRIBUTING.md
        del names[internal]
    assert documented == names


def included(path):
    """Whether MANIFEST.in names a file."""
    for line in (ROOT / "MANIFEST.in").read_text().splitlines():
        command, *words = line.split()
        if command == "include" and path in words:
            return True
        if command == "graft" and path.startswith(f"{words[0]}/"):
            return True
        matches = any(fnmatch.fnmatch(path.rpartition("/")[2], pattern) for pattern in words[1:])
        if command == "recursive-include" and path.startswith(f"{words[0]}/") and matches:
            return True
    return False


def test_the_source_distribution_holds_every_file_beside_the_packages():
    files = [path for folder in SHIPPED for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [ROOT / name for name in ("Makefile", ".ci/run")]
    files += [*ROOT.glob("*.md"), *ROOT.glob("*.cff")]
    named = [path.relative_to(ROOT).as_posix() for path in files if path.suffix != ".pyc"]
    assert [path for path in named if not included(path)] == []


def test_wheels_are_built_for_the_pythons_that_are_promised():
    classifiers = PROJECT["project"]["classifiers"]
    promised = {line.rpartition(" ")[2] for line in classifiers if re.search(r":: 3\.\d+$", line)}
    built = {f"3.{tag[3:-2]}" for tag in PROJECT["tool"]["cibuildwheel"]["build"]}
    assert promised == built == {"3.11", "3.12", "3.13"}


def bits(compiler, folder, *flags):
    """What the kernels' headers compute, compiled as setup.py does with more flags, and which bodies they have."""
    (usual,) = re.findall(r"extra_compile_args=\[(.*?)\]", (ROOT / "setup.py").read_text())
    program, source = folder / "bits", ROOT / "tests" / "portable_bits.c"
    command = [compiler, *re.findall(r'"(.*?)"', usual), *flags, "-I", str(ROOT / "csrc"), str(source)]
    subprocess.run([*command, "-o", str(program), "-lm"], check=True, timeout=120)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout, done.stderr.split()


@pytest.mark.skipif(not COMPILERS, reason="no compiler")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_compiler_and_the_generic_path_give_the_same_bits(compiler, tmp_path):
    expected, _ = bits(COMPILERS[0], tmp_path)
    generic, bodies = bits(compiler, tmp_path, "-DDPMPC_GENERIC")
    assert bodies == ["portable", "portable"]
    assert bits(compiler, tmp_path)[0] == generic == expected


@pytest.mark.skipif("gcc" not in COMPILERS or not FUSES, reason="needs GCC and an x86 processor with fused operations")
def test_products_and_sums_are_not_fused_where_the_processor_could(tmp_path):
    expected, _ = bits("gcc", tmp_path)
    assert bits("gcc", tmp_path, "-mfma")[0] == expected
    assert bits("gcc", tmp_path, "-mfma", "-ffp-contract=fast")[0] != expected, "this test cannot see fused operations"


@pytest.mark.parametrize(("arguments", "seconds"), [(["-c", "import dpmpc"], 0.3), (["-m", "dpmpc", "--help"], 0.5)])
def test_start_up_takes_no_more_processor_time_than_is_promised(arguments, seconds):
    """The least CPU time of five runs: other programs on the machine do not count."""
    taken = []
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=60)
        after = os.times()
        taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(taken) < seconds
