"""A user's own MP-SPDZ, driven from outside: write the program, compile it, run its parties, read what they print.

MP-SPDZ (Keller 2020, https://github.com/data61/MP-SPDZ) is not part of this package and nothing of it is copied. Its
folder is only read: programs, certificates, shares and outputs lie in a folder of the bench, in which compiler and
parties run.

The program does the job of our servers with the protocol that has their trust: `semi2k`, additive shares over Z_2^64,
semi-honest, secure against all but one. Shares are read from the file in which MP-SPDZ keeps them between two runs
(`Persistence`), as if clients had delivered them. The transform is written twice. *Vectorised*: the public matrix is
sorted by row beforehand, which is not timed, and every step adds one more client to all k rows at once. *Plain loop*:
one step for each client and copy, as one would write it first.
"""

from __future__ import annotations

import dataclasses
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.registry import HOME_VARIABLE
from bench.system.ports import free_ports
from dpmpc.base.arrays import Integers
from dpmpc.base.errors import BenchFailed, InputError
from dpmpc.linear.sharing.batch import Share

REPOSITORY = "https://github.com/data61/MP-SPDZ"
PARTY, COMPILER, CERTIFICATES = "semi2k-party.x", "compile.py", "Scripts/setup-ssl.sh"
HOW = (
    f"Get MP-SPDZ from {REPOSITORY} (a release holds it compiled: run Scripts/tldr.sh there; from the sources: 'make "
    f"setup && make -j8 {PARTY}') and give its folder: python -m bench mp_spdz --home DIR, or {HOME_VARIABLE}=DIR"
)
PROGRAM = "sketch"
PHASES = {"read": 1, "transform": 2, "loop": 3, "open": 4}  # the program's timers
SIGNATURE = struct.pack("<q5si", 9, b"Z2^64", 64)  # what share files begin with: length, protocol, exponent
SOURCE = """\
# S X of shares that lie on the parties' disks: n clients, s copies each, d columns, k rows of S; `depth` is the largest
# number of shares that meet in a row. Public input, of S: for each step of the vectorised transform and each row, the
# signed number of a share from 1 on; then, for the loop, the signed number of each share's row from 1 on.
n, s, d, k, depth = (int(argument) for argument in program.args[1:6])
m = n * s

shares = sint.Array((m + 1) * d)  # the last row stays 0: what rows with fewer shares than `depth` are filled up with
start, sign = regint.Array(depth * k), cint.Array(depth * k)
row, coin = regint.Array(m), cint.Array(m)
sums, looped = sint.Array(k * d), sint.Array(k * d)  # the first column after column


def read_public(places, signs, size):
    @for_range(size)
    def _(i):
        signed = public_input().to_regint()
        negative = signed < 0
        signs[i] = cint(1 - 2 * negative)
        places[i] = (signed * (1 - 2 * negative) - 1) * d


read_public(start, sign, depth * k)
read_public(row, coin, m)
shares.assign_vector(sint(0, size=d), m * d)
sums.assign_all(0)
looped.assign_all(0)

start_timer(1)
block = min(m * d, 100000)


def read_shares(at, size):
    _, (part,) = sint.read_from_file(at, n_items=1, size=size)
    shares.assign_vector(part, at)


@for_range(m * d // block)
def _(i):
    read_shares(i * block, block)


if m * d % block:
    read_shares(regint(m * d - m * d % block), m * d % block)
stop_timer(1)

start_timer(2)


@for_range(depth)
def _(step):
    at = start.get_vector(step * k, k) + shares.address
    signs = sign.get_vector(step * k, k)
    for column in range(d):
        sums.assign_vector(sums.get_vector(column * k, k) + sint.load_mem(at + column) * signs, column * k)


stop_timer(2)

start_timer(3)


@for_range(m)
def _(i):
    looped.assign_vector(looped.get_vector(row[i], d) + shares.get_vector(i * d, d) * coin[i], row[i])


stop_timer(3)

start_timer(4)
opened = sums.get_vector().reveal()
stop_timer(4)

opened.binary_output(0)
looped.get_vector().reveal().binary_output(0)
"""
# Sets the cores that a party may use, then becomes that party.
PINNED = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execv(sys.argv[2], sys.argv[2:])"
_TIMER = re.compile(r"^Time(\d+) = ([0-9.e+-]+) seconds \(([0-9.e+-]+) MB, \d+ rounds\)$", re.M)
_RELEASE = re.compile(r"^## (\S+)", re.M)


@dataclasses.dataclass(frozen=True)
class PartyFigures:
    """What one party of MP-SPDZ prints, and what the system counts."""

    wall_s: dict[str, float]  # phase -> seconds on the clock. MP-SPDZ's timers know no others
    # sent for the opening. The data that MP-SPDZ says to have sent in all are twice as much: the sums of the loop are
    # opened too, as a check that is not timed
    sent_mb: float
    peak_rss_mb: float  # of the process


@dataclasses.dataclass(frozen=True)
class Shape:
    """The job: n clients, s copies, d columns, k rows, and `depth` shares in the fullest row."""

    clients: int
    sparsity: int
    columns: int
    rows: int
    depth: int

    @property
    def program(self) -> str:
        """How MP-SPDZ names the compiled program."""
        return "-".join([PROGRAM, *(str(value) for value in dataclasses.astuple(self))])


def home_of(folder: Path | None) -> Path:
    """Return the folder of MP-SPDZ, by default that of the environment, or say how to get it."""
    if folder is None and os.environ.get(HOME_VARIABLE):
        folder = Path(os.environ[HOME_VARIABLE])
    if folder is None:
        raise InputError("home", f"nothing given, the folder of MP-SPDZ expected. {HOW}")
    missing = [name for name in (COMPILER, PARTY, CERTIFICATES) if not (folder / name).is_file()]
    if missing:
        raise InputError("home", f"{folder} given, a folder with {', '.join(missing)} expected. {HOW}")
    return folder.resolve()


def version_of(home: Path) -> str:
    """Return the newest release that the changelog names, and the commit where the folder is a checkout."""
    log = home / "CHANGELOG.md"
    found = _RELEASE.search(log.read_text()) if log.is_file() else None
    done = subprocess.run(["git", "-C", str(home), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    commit = f", commit {done.stdout.strip()[:12]}" if done.returncode == 0 else ""
    return (found[1] if found else "release unknown") + commit


def sorted_by_row(places: NDArray[np.integer], signs: NDArray[np.integer], rows: int) -> Integers:
    """Sort the public matrix for the vectorised transform."""
    flat = np.asarray(places, np.int64).ravel()
    numbers = np.argsort(flat, kind="stable")
    counts = np.bincount(flat, minlength=rows)
    steps = np.arange(flat.size) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((int(counts.max()), rows), flat.size + 1, np.int64)
    table[steps, flat[numbers]] = (numbers + 1) * np.asarray(signs, np.int64).ravel()[numbers]
    return table


def compile_program(home: Path, folder: Path, shape: Shape) -> float:
    """Write and compile the program in `folder`; return the seconds that the compiler takes."""
    source = folder / "Programs" / "Source"
    source.mkdir(parents=True, exist_ok=True)
    (source / f"{PROGRAM}.mpc").write_text(SOURCE)
    began = time.perf_counter()
    arguments = [str(value) for value in dataclasses.astuple(shape)]
    run_tool([sys.executable, str(home / COMPILER), "-R", "64", PROGRAM, *arguments], folder)
    return time.perf_counter() - began


def write_public(folder: Path, shape: Shape, places: NDArray[np.integer], signs: NDArray[np.integer]) -> None:
    """Write the public matrix, both ways, to where the program reads it."""
    public = folder / "Programs" / "Public-Input"
    public.mkdir(parents=True, exist_ok=True)
    plain = (np.asarray(places, np.int64) + 1) * np.asarray(signs, np.int64)
    with (public / shape.program).open("w") as file:
        for numbers in (sorted_by_row(places, signs, shape.rows), plain):
            np.savetxt(file, numbers.reshape(-1, 1), fmt="%d")


def write_share(folder: Path, party: int, share: Share) -> None:
    """Write a party's share to where MP-SPDZ looks for shares of an earlier run."""
    kept = folder / "Persistence"
    kept.mkdir(exist_ok=True)
    with (kept / f"Transactions-P{party}.data").open("wb") as file:
        file.write(SIGNATURE)
        for first in range(0, share.shape[0], 1 << 16):
            rows = share.rows(first, min(1 << 16, share.shape[0] - first))
            file.write(np.ascontiguousarray(rows, "<u8").tobytes())


def make_certificates(home: Path, folder: Path, parties: int) -> None:
    """Let MP-SPDZ make the parties' certificates."""
    (folder / "Player-Data").mkdir(exist_ok=True)
    run_tool(["bash", str(home / CERTIFICATES), str(parties)], folder)


def cores_for(parties: int) -> list[int] | None:
    """Return one core for each party, or None where there are too few."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[:parties] if len(cores) >= parties else None


def run_parties(home: Path, folder: Path, shape: Shape, parties: int, deadline: float = 3600.0) -> list[PartyFigures]:
    """Run the compiled program; every party on a core of its own where there are enough."""
    port, cores = free_ports(parties)[0], cores_for(parties)
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{home}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    running: dict[int, subprocess.Popen[bytes]] = {}
    peaks: dict[int, float] = {}
    logs = [folder / f"party-{number}.log" for number in range(parties)]
    try:
        for number, log in enumerate(logs):
            command = [str(home / PARTY), "-p", str(number), "-N", str(parties)]
            command += ["-pn", str(port), "-h", "localhost", shape.program]
            if cores is not None:
                command = [sys.executable, "-c", PINNED, str(cores[number]), *command]
            with log.open("wb") as out:
                running[number] = subprocess.Popen(
                    command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
                )
        ends = time.monotonic() + deadline
        while running:
            for number, process in list(running.items()):
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if not pid:
                    continue
                process.returncode = os.waitstatus_to_exitcode(status)
                del running[number]
                peaks[number] = usage.ru_maxrss / 1000
                if process.returncode:
                    raise BenchFailed(_last_words(logs[number], f"party {number} ended with {process.returncode}"))
            if time.monotonic() > ends:
                raise BenchFailed(_last_words(logs[min(running)], f"party {min(running)} took over {deadline:g} s"))
            time.sleep(0.01)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return [parse(log.read_text(errors="replace"), peaks[number]) for number, log in enumerate(logs)]


def parse(text: str, peak_rss_mb: float) -> PartyFigures:
    """Read the figures that a party prints at its end."""
    timers = {int(number): (float(seconds), float(sent)) for number, seconds, sent in _TIMER.findall(text)}
    if not set(PHASES.values()) <= set(timers):
        raise BenchFailed("mp_spdz", f"seconds and MB of timers 1 to 4 expected, printed was: {text[-500:]}")
    wall_s = {phase: timers[number][0] for phase, number in PHASES.items()}
    return PartyFigures(wall_s, timers[PHASES["open"]][1], peak_rss_mb)


def require_sums(folder: Path, shape: Shape, expected: Integers) -> None:
    """Check that both transforms opened the sums (k, d) that our servers opened from the same shares."""
    words = np.fromfile(folder / "Player-Data" / "Binary-Output-P0-0", "<i8")
    size = shape.rows * shape.columns
    if words.size != 2 * size:
        raise BenchFailed("mp_spdz", f"{words.size} numbers opened, {2 * size} expected")
    found = {
        "vectorised transform": words[:size].reshape(shape.columns, shape.rows).T,
        "plain loop": words[size:].reshape(shape.rows, shape.columns),
    }
    for name, sums in found.items():
        if not np.array_equal(sums, expected):
            raise BenchFailed("mp_spdz", f"the {name} opened other sums than our servers from the same shares")


def run_tool(command: Sequence[str], folder: Path) -> None:
    """Run a tool of MP-SPDZ in `folder`, or say what it said."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        raise BenchFailed(
            "mp_spdz", f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}"
        )


def _last_words(log: Path, what: str) -> str:
    return f"mp_spdz: {what}: {log.read_text(errors='replace')[-500:].strip()}"
