"""Whether the tests notice faults in the code that privacy rests on: `make mutations`.

Each fault listed in tests/mutations/ is made in a temporary copy of the package, and the tests of that part run there
until one fails. First they run on a copy without any fault, where they have to pass. Faults in csrc/ are compiled,
which takes Cython and a compiler. Every copy has a process of its own, forked from one that has loaded all but dpmpc.

Promised: the working tree is not touched, and a fault counts as killed only if a test failed; one that keeps tests from
being collected is an error. Not promised: that tests which notice these faults notice all.

A fault may have the entry `equivalent`, the reason why no test can notice it. The page tells of all faults: with
`--only` and `--missing` the outcomes of others are those of bench/results/mutations.json. Exit status 1 if a fault
survives without such a reason, or could not be judged.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import importlib
import io
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.pool import AsyncResult
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
if __name__ != "__mp_main__":  # not in servers that tests start: they import the copy's package
    sys.path.insert(0, str(ROOT))  # before this folder, whose own `bench` holds tests

from bench import harness  # noqa: E402

LISTS = Path(__file__).with_name("mutations")
COPIED = (
    "dpmpc",
    "bench",
    "csrc",
    "tests",
    "docs",
    "examples",
    "protocols",
    "setup.py",
    "pyproject.toml",
    "README.md",
    "SECURITY.md",
    "CITATION.cff",
)
RESULTS = ROOT / "bench" / "results"
LONGEST = 3600  # seconds to wait for the next outcome
PRELOADED = ("numpy", "scipy.stats", "scipy.optimize", "sklearn.base", "dp_accounting.pld.privacy_loss_distribution")

KILLED, SURVIVED, EQUIVALENT, UNCLEAR = "killed", "survived", "equivalent", "unclear"


class _Worker(multiprocessing.get_context("fork").Process):
    """A process of a pool that may have children of its own: tests start servers."""

    daemon = property(lambda self: False, lambda self, value: None)


class _Workers(type(multiprocessing.get_context("fork"))):
    """Where a pool gets such processes from."""

    Process = _Worker


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A fault: `old`, which occurs once in `file`, becomes `new`."""

    file: str
    old: str
    new: str
    why: str
    equivalent: str = ""

    def make(self, folder: Path) -> None:
        """Make the fault in a copy."""
        path = folder / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: {self.old!r} occurs {text.count(self.old)} times, once expected")
        path.write_text(text.replace(self.old, self.new))


@dataclasses.dataclass(frozen=True)
class Faults:
    """What the files of tests/mutations/ hold: faults, and the tests that look at each part of the code."""

    mutations: list[Mutation]
    suites: dict[str, tuple[str, ...]]
    slow: tuple[str, ...]

    @classmethod
    def read(cls) -> Faults:
        """Read the lists."""
        contents = [tomllib.loads(path.read_text()) for path in sorted(LISTS.glob("*.toml"))]
        suites: dict[str, tuple[str, ...]] = {}
        for suite in (suite for content in contents for suite in content["suite"]):
            others = suites.get(suite["prefix"], ())
            suites[suite["prefix"]] = (*others, *(test for test in suite["tests"] if test not in others))
        mutations = [Mutation(**fields) for content in contents for fields in content["mutation"]]
        return cls(mutations, suites, tuple(test for content in contents for test in content.get("slow", ())))

    def suite_of(self, file: str) -> tuple[str, ...]:
        """Return the tests that look at a file: those of the longest prefix that fits."""
        return max((len(prefix), tests) for prefix, tests in self.suites.items() if file.startswith(prefix))[1]


def copy_to(folder: Path) -> None:
    """Copy what the tests need, with the kernels as they are built."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("results") if name == "bench" else None
            shutil.copytree(source, folder / name, ignore=ignore)
        else:
            shutil.copy2(source, folder / name)
    (folder / "dpmpc" / "protocols").symlink_to("../protocols")  # an installation leads to the programs of the original


def compile_kernels(folder: Path, *options: str) -> None:
    """Compile in `folder` what has changed since the objects there, if any, were made."""
    command = [sys.executable, "setup.py", "-q", "build_ext", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the kernels do not compile: {done.stderr[-500:]}")


def first_failure(folder: Path, suite: Sequence[str], slow: Sequence[str]) -> str | None:
    """Run tests in a copy until one fails; return its name, or None if all pass. Only once in a process."""
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path.insert(0, str(folder))
    # Hypothesis's own profile "ci" repeats its examples and has no deadlines: a busy machine is no fault.
    options = ["-x", "-q", "-m", "", "-p", "no:cacheprovider", "--hypothesis-profile=ci"]  # long ones, too
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = pytest.main([*options, *(f"--deselect={test}" for test in slow), *suite])
    imported = Path(sys.modules["dpmpc"].__file__ or "")
    if not imported.is_relative_to(folder):
        raise RuntimeError(f"dpmpc was imported from {imported}, a file below {folder} expected")
    if status == pytest.ExitCode.OK:
        return None
    failed = re.search(r"^FAILED (\S+)", output.getvalue(), re.MULTILINE)
    if status != pytest.ExitCode.TESTS_FAILED or failed is None:
        raise RuntimeError(f"pytest ended with {status!r}: {output.getvalue()[-500:]}")
    return failed[1].removeprefix("tests/")


def failure_with(mutation: Mutation | None, suite: Sequence[str], slow: Sequence[str]) -> str | None:
    """Return the first test that fails with a fault, or without any."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        copy_to(folder)
        if mutation is not None:
            mutation.make(folder)
            if mutation.file.startswith("csrc/"):
                shutil.copytree(ROOT / "build", folder / "build", symlinks=True)  # so that one object is made again
                compile_kernels(folder, "--inplace")
        return first_failure(folder, suite, slow)


def require_sound(suite: Sequence[str], slow: Sequence[str]) -> None:
    """Raise unless the tests pass without any fault."""
    failed = failure_with(None, suite, slow)
    if failed is not None:
        raise RuntimeError(f"{failed} fails without any fault")


def failure_of(check: AsyncResult[None]) -> str:
    """Wait for a suite that runs without any fault; return why it fails, or nothing."""
    try:
        check.get(LONGEST)
    except RuntimeError as error:
        return str(error)
    return ""


def judge(mutation: Mutation, suite: Sequence[str], slow: Sequence[str]) -> dict[str, Any]:
    """Make one fault and say what became of it."""
    began = time.perf_counter()
    try:
        failed = failure_with(mutation, suite, slow)
        outcome = KILLED if failed else EQUIVALENT if mutation.equivalent else SURVIVED
        by = failed or mutation.equivalent
    except (RuntimeError, ValueError) as error:
        outcome, by = UNCLEAR, str(error)
    return {**dataclasses.asdict(mutation), "outcome": outcome, "by": by, "seconds": time.perf_counter() - began}


def known() -> dict[Mutation, dict[str, Any]]:
    """Return the outcomes of the last run, those of faults that have changed since left out."""
    path = RESULTS / "mutations.json"
    results = json.loads(path.read_text())["mutations"] if path.exists() else []
    fields = [field.name for field in dataclasses.fields(Mutation)]
    return {Mutation(**{field: result[field] for field in fields}): result for result in results}


def page(results: Sequence[dict[str, Any]], markdown: Callable[..., str]) -> str:
    """Return a table of the outcomes by file, and every fault that no test noticed."""
    table = collections.defaultdict(collections.Counter)
    for result in results:
        table[result["file"]][result["outcome"]] += 1
    outcomes = (KILLED, SURVIVED, EQUIVALENT, UNCLEAR)
    rows = [[f"`{file}`", *(str(counts[outcome]) for outcome in outcomes)] for file, counts in sorted(table.items())]
    total = collections.Counter(result["outcome"] for result in results)
    rows.append(["all", *(str(total[outcome]) for outcome in outcomes)])
    left = [
        f"- `{result['file']}`: `{result['old'].strip()}` → `{result['new'].strip()}` ({result['why']}): "
        f"{result['outcome']}. {result['by']}"
        for result in results
        if result["outcome"] != KILLED
    ]
    seconds = sum(result["seconds"] for result in results)
    return "\n".join(
        [
            "# Faults in the code that privacy rests on",
            "",
            f"`make mutations`: of {len(results)} faults, each made alone in a copy of the package, the tests notice "
            f"{total[KILLED]} ({total[KILLED] / len(results):.1%}), in {seconds / len(results):.0f} s on average. What "
            "each fault is, why it matters and which test noticed it first: `mutations.json`.",
            "",
            markdown(["file", *outcomes], rows),
            "",
            "Not noticed:\n" if left else "None is left unnoticed.",
            *left,
        ]
    )


def write(faults: Faults, results: Mapping[Mutation, dict[str, Any]]) -> str:
    """Write all outcomes that are known, so that a run that is broken off loses none; return the page."""
    ordered = [results[mutation] for mutation in faults.mutations if mutation in results]
    text = page(ordered, harness.markdown)
    if len(ordered) < len(faults.mutations):
        text += f"\n\nNot judged yet: {len(faults.mutations) - len(ordered)} faults of the lists."
    harness.write("mutations", {"machine": harness.machine(), "mutations": ordered}, text, RESULTS)
    return text


def main() -> int:
    """Make the faults and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="faults whose file or new text holds one of these")
    parser.add_argument("--missing", action="store_true", help="faults of which no outcome is known, or an unclear one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies that are tested at a time")
    options = parser.parse_args()
    faults = Faults.read()
    results = known() if options.only or options.missing else {}
    only = options.only or [""]
    chosen = [one for one in faults.mutations if any(text in part for text in only for part in (one.file, one.new))]
    if options.missing:
        chosen = [one for one in chosen if one not in results or results[one]["outcome"] == UNCLEAR]
    if any(one.file.startswith("csrc/") for one in chosen):
        compile_kernels(ROOT, "--build-lib", "build/faultless")  # objects in build/, the package as it is
    for module in PRELOADED:
        importlib.import_module(module)
    with _Workers().Pool(options.jobs, maxtasksperchild=1) as pool:
        suites = sorted({faults.suite_of(mutation.file) for mutation in chosen})
        sound = {suite: pool.apply_async(require_sound, (suite, faults.slow)) for suite in suites}
        tasks = [pool.apply_async(judge, (one, faults.suite_of(one.file), faults.slow)) for one in chosen]
        unsound = {suite: reason for suite, check in sound.items() if (reason := failure_of(check))}
        print(
            f"{len(suites) - len(unsound)} of {len(suites)} suites pass without faults", *unsound.values(), flush=True
        )
        for mutation, task in zip(chosen, tasks, strict=True):
            result = task.get(LONGEST)
            if reason := unsound.get(faults.suite_of(mutation.file)):
                result |= {"outcome": UNCLEAR, "by": reason}
            results[mutation] = result
            write(faults, results)
            told = f"{result['outcome']:<10} {mutation.file}: {mutation.new.strip()!r}"
            print(f"{told}  [{result['by']}, {result['seconds']:.0f} s]", flush=True)
    print(write(faults, results))
    return int(any(results[mutation]["outcome"] in (SURVIVED, UNCLEAR) for mutation in chosen))


if __name__ == "__main__":
    sys.exit(main())
