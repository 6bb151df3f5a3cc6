"""What is published: files of the source distribution, extras as documented, and the same bits from every compiler."""

import fnmatch
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTALL = (ROOT / "docs" / "install.md").read_text()
SHIPPED = ("csrc", "docs", "examples", "proofs", "report", "tests", "bench/results")  # beside what setuptools finds
BUILD = tomllib.loads((ROOT / "csrc" / "instruction_sets.toml").read_text())
MACHINE = platform.machine()
CROSS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
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
    files += [ROOT / name for name in ("Makefile", ".ci/run", ".clang-format")]
    files += [*ROOT.glob("*.md"), *ROOT.glob("*.cff")]
    named = [path.relative_to(ROOT).as_posix() for path in files if path.suffix != ".pyc"]
    assert [path for path in named if not included(path)] == []


def test_programs_are_imported_from_their_folder_without_a_link():
    spec = importlib.util.find_spec("dpmpc.protocols.linear_transform")
    assert Path(spec.origin) == ROOT / "protocols" / "linear_transform.py"
    assert [path for path in (ROOT / "dpmpc").rglob("*") if path.is_symlink()] == []


def test_after_make_clean_the_kernels_are_compiled_again(tmp_path):
    """The stamps that say so go with the kernels: else `make unit` would find none."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    made = [tmp_path / name for name in (".venv/tested", ".venv/installed", "dpmpc/_kernels/sketch.so")]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True)
    assert [path for path in made if path.exists()] == []


def test_wheels_are_built_for_the_pythons_that_are_promised():
    classifiers = PROJECT["project"]["classifiers"]
    promised = {line.rpartition(" ")[2] for line in classifiers if re.search(r":: 3\.\d+$", line)}
    built = {f"3.{tag[3:-2]}" for tag in PROJECT["tool"]["cibuildwheel"]["build"]}
    assert promised == built == {"3.11", "3.12", "3.13"}


def test_a_version_is_the_same_wherever_it_stands():
    version = PROJECT["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## \[(\d.*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[1] == version
    assert f"({version}).** dpmpc has not been audited independently." in (ROOT / "README.md").read_text()
    package = json.loads((ROOT / "dpmpc" / "collect" / "intake" / "web" / "package.json").read_text())
    assert package["version"].replace("-beta.", "b") == version
    exact = [line for line in PROJECT["project"]["dependencies"] if "==" in line]
    assert [f"`{line}`" in (ROOT / "RELEASING.md").read_text() for line in exact] == [True]


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_a_workflow_runs_what_exists(path):
    workflow = yaml.safe_load(path.read_text())
    targets = set(re.findall(r"^([a-z.]\S*?):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in workflow["jobs"].values():
        given = job.get("strategy", {}).get("matrix", {}).get("target", [])
        made = [step["run"].removeprefix("make ") for step in job["steps"] if step.get("run", "").startswith("make ")]
        assert {one.split()[0] for one in [*given, *made] if "{{" not in one} <= targets
        named = [word for step in job["steps"] for word in step.get("run", "").split() if word.startswith("tests/")]
        assert [word for word in named if not (ROOT / word).exists()] == []


@pytest.mark.long("two builds: 45 seconds")
def test_two_builds_of_one_commit_have_the_same_bytes(tmp_path):
    pytest.importorskip("Cython", reason="Cython is not installed: `make faults` installs it")
    digests = set()
    for name in ("first", "another-folder"):
        folder = tmp_path / name
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-build-isolation",
            "--no-deps",
            "--wheel-dir",
            "out",
        ]
        subprocess.run([*pip, "."], cwd=folder, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}, check=True)
        (wheel,) = (folder / "out").iterdir()
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert len(digests) == 1


def bits(compiler, folder, *flags, generic=False, machine=MACHINE, emulator=(), flagged=None, others=None):
    """Digests of what every instruction set computes, by its name; compiled as setup.py does it, but quickly.

    Where `flagged` names kernels, `flags` are for these alone, and all other objects are those in the folder `others`.
    """
    sets = BUILD["sets"]["portable"] | ({} if generic else BUILD["sets"].get(machine, {}))
    csrc, quick = ROOT / "csrc", [flag for flag in BUILD["flags"] if flag != "-O3"]
    compile_ = [compiler, "-O1", *quick, *flags, "-I", str(csrc)]
    jobs = [
        [*how["flags"], f"-DINSTRUCTION_SET={name}", f"-DLANES={how['lanes']}", "-c", str(csrc / f"{kernel}.c")]
        for name, how in sets.items()
        for kernel in BUILD["kernels"]
        if kernel not in how.get("like", {})
    ]
    objects = []
    for number, job in enumerate(jobs):
        made_before = flagged is not None and Path(job[-1]).stem not in flagged
        objects.append(str((others if made_before else folder) / f"{number}.o"))
        if not made_before:
            subprocess.run([*compile_, *job, "-o", objects[-1]], check=True, timeout=180)
    once = [str(csrc / name) for name in ("kernels.c", "sketch_apply.c", "dense_apply.c")]
    program, source = str(folder / "bits"), str(ROOT / "tests" / "portable_bits.c")
    with_sets = [f"-DWITH_{name.upper()}" for name in sets]
    for name, how in sets.items():
        with_sets += [f"-D{kernel}_{name}={kernel}_{other}" for kernel, other in how.get("like", {}).items()]
    subprocess.run([*compile_, *with_sets, source, *once, *objects, "-o", program, "-lm"], check=True, timeout=180)
    told = subprocess.run([*emulator, program], capture_output=True, text=True, check=True, timeout=120).stdout
    found = {}
    for line in told.splitlines():
        name, *digest = line.split()
        found.setdefault(name, []).append(digest)
    return found


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """Where the portable kernels lie as the first compiler makes them, once `expected` has run."""
    return tmp_path_factory.mktemp("bits")


@pytest.fixture(scope="module")
def expected(objects):
    """Digests of the portable kernels as the first compiler makes them."""
    return bits(COMPILERS[0], objects, generic=True)["portable"]


@pytest.mark.parametrize("compiler", COMPILERS[1:])
def test_every_compiler_gives_the_same_bits_without_vectors(compiler, tmp_path, expected):
    assert bits(compiler, tmp_path, generic=True) == {"portable": expected}


@pytest.mark.long("compiles every kernel for every instruction set; the tests of the kernels force each that is built")
@pytest.mark.skipif(not COMPILERS, reason="no compiler")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_compiler_and_instruction_set_give_the_same_bits(compiler, tmp_path, expected):
    """clang, too, has vectors: the GNU C that the kernels are written in is common to both."""
    found = bits(compiler, tmp_path)
    assert len(found) > 1 or MACHINE not in ("x86_64", "aarch64")
    assert found == dict.fromkeys(found, expected)


@pytest.mark.skipif(not all(map(shutil.which, CROSS)), reason=f"needs {' and '.join(CROSS)}")
def test_neon_gives_the_same_bits_under_an_emulator(tmp_path, expected):
    found = bits(CROSS[0], tmp_path, "-static", machine="aarch64", emulator=CROSS[1:])
    assert found == {"portable": expected, "neon": expected}


@pytest.mark.skipif("gcc" not in COMPILERS or not FUSES, reason="needs GCC and an x86 processor with fused operations")
@pytest.mark.parametrize(
    "flagged",
    [
        pytest.param({"arithmetic_fixed", "scatter_short", "scatter_wide"}, id="kernels with products"),
        pytest.param(set(BUILD["kernels"]), id="all", marks=pytest.mark.long("all kernels, not those with products")),
    ],
)
def test_products_and_sums_are_not_fused_where_the_processor_could(tmp_path, objects, expected, flagged):
    def made(*flags):
        return bits("gcc", tmp_path, "-O2", "-mfma", *flags, generic=True, flagged=flagged, others=objects)["portable"]

    assert made() == expected
    assert made("-ffp-contract=fast") != expected, "this test cannot see fused operations"


def test_every_c_file_and_every_cython_file_is_compiled():
    lists = (BUILD["kernels"], BUILD["alone"], *BUILD["modules"].values())
    files = [file for listed in lists for file in listed]
    assert sorted(files) == sorted(path.stem for path in (ROOT / "csrc").glob("*.c"))
    assert sorted(BUILD["modules"]) == sorted(path.stem for path in (ROOT / "csrc").glob("*.pyx"))


def test_no_flag_of_a_processor_is_common_to_all_kernels():
    assert not [flag for flag in BUILD["flags"] if flag.startswith("-m")]
    assert not [how for how in BUILD["sets"]["portable"].values() if how["flags"]]
    assert BUILD["sets"]["aarch64"]["neon"]["flags"] == BUILD["sets"]["x86_64"]["sse2"]["flags"] == []


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


def test_nobody_is_told_to_install_a_name_that_others_may_own():
    """A package index may have anything under this project's name: pages, messages and commands name the sources."""
    places = [ROOT / name for name in ("dpmpc", "docs", "bench", "examples", "protocols")]
    suffixes = {".py", ".md", ".html", ".yaml", ".service", ".ipynb", ".sh", ""}
    files = [path for place in places for path in place.rglob("*") if path.suffix in suffixes and path.is_file()]
    files += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    by_name = re.compile(r"""pip install (?:-{1,2}\S+ )*['"]?dpmpc\b""")
    found = [str(path) for path in files if by_name.search(path.read_text(errors="ignore"))]
    assert len(files) > 300
    assert by_name.search("pip install --upgrade 'dpmpc[intake]'")
    assert found == []
