"""Judge faults: each is made alone in a copy of the checkout, in which tests run until one fails.

The working tree is not touched. Each copy has a process of its own, forked from one that has loaded what the tests
use except dpmpc. A fault counts as noticed only if a test failed or did not end, if the interpreter crashed, or if its
module cannot be imported.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from faults.source import ROOT

COPIED = (
    *("dpmpc", "bench", "csrc", "tests", "docs", "examples", "proofs", "protocols", "report"),
    *("setup.py", "pyproject.toml", "README.md", "SECURITY.md", "CITATION.cff"),
)
PRELOADED = ("numpy", "scipy.stats", "scipy.optimize", "sklearn.base", "dp_accounting.pld.privacy_loss_distribution")
LONGEST = 150.0  # seconds for the tests of one fault, which take 60 without it
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)  # and not SIGKILL
FORK = multiprocessing.get_context("fork")

T = TypeVar("T")
NOTICED, UNNOTICED, UNCLEAR = "noticed", "unnoticed", "unclear"


class Fault(Protocol):
    """What can be made in a copy."""

    @property
    def file(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def must_be_noticed(self) -> bool: ...
    def mutated(self) -> str: ...


@dataclass(frozen=True)
class Verdict:
    """What became of a fault: `by` is the test that noticed it, or why it is unclear."""

    outcome: str
    by: str
    seconds: float


def copy_to(folder: Path) -> None:
    """Copy what the tests need, with the kernels as they are built."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            left_out = ("*.png", "__pycache__") if name == "bench" else ("__pycache__",)
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns(*left_out))
        else:
            shutil.copy2(source, folder / name)
    (folder / "dpmpc" / "protocols").symlink_to("../protocols")  # an installation leads to the programs of the original


def compile_kernels(folder: Path, *options: str) -> None:
    """Compile in `folder` what has changed since the objects there, if any, were made."""
    command = [sys.executable, "setup.py", "-q", "build_ext", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the kernels do not compile: {done.stderr[-500:]}")


def enter(folder: Path) -> None:
    """Have this process, and those that it starts, import from a copy."""
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path[:0] = [str(folder), str(folder / "tests")]
    for module in [name for name in sys.modules if name.partition(".")[0] == "bench"]:
        del sys.modules[module]


def first_failure(folder: Path, tests: Sequence[str]) -> str | None:
    """Run tests in a copy, which this process has entered, until one fails; return its name, or None if all pass.

    A fault that keeps the tests' files from being imported is noticed by what imports it.
    """
    if not tests:  # pytest would run all that there are
        return None
    # Hypothesis's own profile "ci" repeats its examples and has no deadlines: a busy machine is no fault.
    options = ["-x", "-q", "-m", "", "-p", "no:cacheprovider", "--hypothesis-profile=ci"]
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = pytest.main([*options, *tests])
    if "while loading conftest" in output.getvalue():
        return "the import of tests/conftest.py"
    imported = Path(sys.modules["dpmpc"].__file__ or "")
    if not imported.is_relative_to(folder):
        raise RuntimeError(f"dpmpc was imported from {imported}, a file below {folder} expected")
    if status == pytest.ExitCode.OK:
        return None
    if not_imported := re.search(r"^ERROR (tests/[^\s:]+) - ", output.getvalue(), re.MULTILINE):
        return f"the import of {not_imported[1]}"
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+::.*?)(?: - .*)?$", output.getvalue(), re.MULTILINE)
    if status != pytest.ExitCode.TESTS_FAILED or failed is None:
        raise RuntimeError(f"pytest ended with {status!r}: {output.getvalue()[-500:]}")
    return failed[1]


def in_a_copy(job: Callable[[Path], T]) -> T:
    """Run a job in a copy without any fault, in a process of its own; return what it returns, or raise its error."""
    receiver, sender = FORK.Pipe(duplex=False)

    def run() -> None:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name).resolve()
            copy_to(folder)
            enter(folder)
            try:
                sender.send(job(folder))
            except RuntimeError as error:
                sender.send(error)
            os.chdir("/")
        os._exit(0)

    process = FORK.Process(target=run)
    process.start()
    sender.close()
    answer = receiver.recv()
    process.join()
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def require_sound(tests: Sequence[str]) -> None:
    """Raise a RuntimeError unless tests pass without any fault: one that fails anyway would notice every fault."""
    failed = in_a_copy(lambda folder: first_failure(folder, tests)) if tests else None
    if failed is not None:
        raise RuntimeError(f"{failed} fails without any fault")


def _verdict(fault: Fault, tests: Sequence[str], report: Connection) -> None:
    """Make one fault in a copy, run the tests, and send the verdict to the process that waits for it."""
    os.setsid()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        try:
            copy_to(folder)
            (folder / fault.file).write_text(fault.mutated())
            if fault.file.startswith("csrc/"):
                shutil.copytree(ROOT / "build", folder / "build", symlinks=True)  # so that one object is made again
                compile_kernels(folder, "--inplace")
            enter(folder)
            failed = first_failure(folder, tests)
            outcome, by = (NOTICED if failed else UNNOTICED), failed or ""
        except (RuntimeError, ValueError) as error:
            outcome, by = UNCLEAR, str(error).replace(f"{folder}/", "")
        os.chdir("/")
    report.send(Verdict(outcome, by, time.perf_counter() - began))
    report.close()
    os._exit(0)  # threads of a test that failed may not end


def judge(
    faults: Sequence[Any], tests_of: Callable[[Any], Sequence[str]], jobs: int, until: float
) -> Iterator[tuple[Any, Verdict]]:
    """Judge faults, some at a time.

    Parameters
    ----------
    faults : sequence of Fault
        What to make.
    tests_of : callable
        The tests that look for a fault, as paths and names from the root of the checkout.
    jobs : int
        How many copies are tested at a time.
    until : float
        When to begin no other fault, in seconds of `time.monotonic`.

    Yields
    ------
    tuple of Fault and Verdict
        As they come.
    """
    for module in PRELOADED:
        importlib.import_module(module)
    waiting, running = list(reversed(faults)), {}
    while waiting or running:
        while waiting and len(running) < jobs and time.monotonic() < until:
            fault = waiting.pop()
            receiver, sender = FORK.Pipe(duplex=False)
            process = FORK.Process(target=_verdict, args=(fault, tests_of(fault), sender))
            process.start()
            sender.close()
            running[receiver] = fault, process, time.monotonic() + LONGEST
        if not running:
            return
        ended = wait(
            list(running), timeout=max(0.0, min(deadline for *_, deadline in running.values()) - time.monotonic())
        )
        overdue = [receiver for receiver, (*_, deadline) in running.items() if deadline < time.monotonic()]
        for receiver in dict.fromkeys([*ended, *overdue]):
            fault, process, _ = running.pop(receiver)
            try:
                # The tests of an operator's fault are known to take less; how long a named test takes is not measured.
                late = UNCLEAR if fault.must_be_noticed else NOTICED
                verdict = receiver.recv() if receiver in ended else Verdict(late, "the tests do not end", LONGEST)
            except EOFError:
                process.join(10)
                crashed = process.exitcode is not None and -process.exitcode in CRASHES
                verdict = Verdict(NOTICED if crashed else UNCLEAR, f"exit status {process.exitcode} of the tests", 0.0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.join()
            receiver.close()
            yield fault, verdict
