"""A collection on three hosts and a client's, with delay and loss between them, and a host cut off during the release.

Everything is done by the commands of docs/deploy.md: identities, task file, servers, uploads, release, verification.
The servers go on listening while they release.
The hosts are network namespaces with addresses of their own (`bench.system.wire`). When the servers have agreed on a
batch the last one is taken off the wire; every server has to end by itself, with a typed error, within its deadlines.
Then it is put back, and the release is repeated: all servers have to write one file, with exactly the sums of what the
clients have uploaded.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import machine, markdown, write
from bench.system.collection_servers import Servers
from bench.system.released import expected_sums
from bench.system.wire import Wire
from dpmpc.base.errors import ProtocolFailure
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.verifying import verify

SERVERS = 3
CLIENT = SERVERS  # the host after the servers'
REPORTS, SHORT_REPORTS = 2000, 300
DELAY, LOSS = 0.04, 0.01
CONNECT_SECONDS, STEP_SECONDS = 60, 15
WEB_PORT, PEERS_PORT, RELEASE_PORT = 7442, 7443, 7444
_LONGEST = 600.0
_AGREED = "batch:"  # the line of progress after which the last server is cut off
_BROKEN = 3  # exit status
_TYPED = ("PartyMissing", "PartyLost")
_HOUR = datetime.timedelta(hours=1)
_BOUNDS = "".join(f"[columns.{name}]\nlower = 0.0\nupper = 10.0\n" for name in ("a", "y"))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run showed."""

    reports: int  # all of them released
    upload_s: float  # time of `dpmpc submit`
    statuses: list[int]  # with which the servers ended when one was cut off
    cut_s: float  # from the cut until the last of them had ended
    release_s: float  # time of the repeated release
    packets: int  # on the wire
    lost: int


def main(arguments: Sequence[str]) -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench namespaces", description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=REPORTS, help="uploads (default %(default)s)")
    parser.add_argument("--delay", type=float, default=DELAY, help="seconds from host to host (default %(default)s)")
    parser.add_argument("--loss", type=float, default=LOSS, help="of packets (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the losses (default %(default)s)")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_REPORTS} uploads; nothing is written")
    chosen = parser.parse_args(arguments)
    reports = SHORT_REPORTS if chosen.short else chosen.reports
    with tempfile.TemporaryDirectory(prefix="dpmpc-namespaces-") as folder:
        outcome = collect(Path(folder), reports, delay=chosen.delay, loss=chosen.loss, seed=chosen.seed)
    content = {
        "machine": machine(),
        "delay": chosen.delay,
        "loss": chosen.loss,
        "connect_s": CONNECT_SECONDS,
        "step_s": STEP_SECONDS,
        **dataclasses.asdict(outcome),
    }
    text = render(content)
    print(text)
    if (reports, chosen.delay, chosen.loss) == (REPORTS, DELAY, LOSS):
        write("namespaces", content, text)


def collect(folder: Path, reports: int, *, delay: float, loss: float, seed: int) -> Outcome:
    """Run a whole collection in an empty folder."""
    servers = prepare(folder, reports)
    rows = np.random.default_rng(seed).uniform(0, 10, (reports, 2))
    np.savetxt(folder / "data.csv", rows, delimiter=",", header="a,y", comments="")
    with Wire(SERVERS + 1, delay=delay, loss=loss, seed=seed) as wire, serving(wire, folder):
        start = time.monotonic()
        submit = ["submit", "collection.json", "data.csv", "--batch", "10", "--seconds", "300"]
        _done(wire.command(CLIENT, _dpmpc(*submit)), folder)
        uploaded = time.monotonic() - start
        statuses, cut = release_while_cut_off(wire, folder)
        released = release(wire, folder)
    _done(_dpmpc("verify", "release-0.dpmpc", "--collection", "collection.json"), folder)
    require_exact(servers, reports)
    return Outcome(reports, uploaded, statuses, cut, released, wire.passed, wire.lost)


def prepare(folder: Path, reports: int) -> Servers:
    """Make identities and the task file, as operators do."""
    now = datetime.datetime.now(datetime.UTC)
    (folder / "bounds.toml").write_text(_BOUNDS)
    command = ["collection", "collection.json", "--name", "a trial", "--bounds", "bounds.toml"]
    for server in range(SERVERS):
        own = folder / f"server-{server}"
        own.mkdir(mode=0o700)
        _done(_dpmpc("identity", str(own / "identity"), "--server", str(server)), folder)
        _done(_dpmpc("identity", str(own / "seals"), "--seal", "trial"), folder)
        web, peers, release = (f"{Wire.address(server)}:{port}" for port in (WEB_PORT, PEERS_PORT, RELEASE_PORT))
        command += ["--server", f"https://{web}", peers, release, str(own / "identity" / "party.crt")]
        command += ["--seal", str(own / "seals" / "trial.pub")]
    times = {"opens": now - _HOUR, "closes": now + _HOUR, "expires": now + 2 * _HOUR}
    for name, moment in times.items():
        command += [f"--{name}", moment.isoformat(timespec="seconds")]
    command += ["--minimum-batch", str(reports), "--largest-batch", "100000", "--epsilon", "1", "--delta", "1e-6"]
    command += ["--sketch", "osnap", "--rows", "8", "--sparsity", "2", "--copies", "each"]
    command += ["--noise-by", "clients", "--corrupt-clients", "0"]
    _done(_dpmpc(*command), folder)
    return Servers(folder, Collection.load(folder / "collection.json"))


@contextmanager
def serving(wire: Wire, folder: Path) -> Iterator[None]:
    """Run `dpmpc serve` on every server's host, then stop it."""
    commands = [
        wire.command(
            server,
            _dpmpc("serve", "collection.json", *_own(server), *_places(wire.address(server))),
        )
        for server in range(SERVERS)
    ]
    with launched(commands, folder) as processes:
        for process in processes:
            assert process.stdout is not None
            if "listens" not in process.stdout.readline():
                raise ProtocolFailure(f"namespaces: a server does not listen: {process.communicate()[1]}")
        yield
        for process in processes:
            process.terminate()
        for server, process in enumerate(processes):
            if process.wait(_LONGEST):
                raise ProtocolFailure(f"namespaces: server {server} ended with {process.returncode}", server)


def release_while_cut_off(wire: Wire, folder: Path) -> tuple[list[int], float]:
    """Cut the last server off when it knows the batch; return how all ended, and after how many seconds."""
    victim = SERVERS - 1
    with launched([wire.command(server, _release(server)) for server in range(SERVERS)], folder) as processes:
        progress = processes[victim].stderr
        assert progress is not None
        if not any(line.startswith(_AGREED) for line in progress):
            raise ProtocolFailure(f"namespaces: server {victim} ended without a batch", victim)
        wire.cut(victim)
        start = time.monotonic()
        told = [process.communicate(timeout=_LONGEST)[1] for process in processes]
        seconds = time.monotonic() - start
    wire.mend(victim)
    statuses = [process.returncode for process in processes]
    typed = all(
        status == 0 or any(name in words for name in _TYPED) for status, words in zip(statuses, told, strict=True)
    )
    if set(statuses) - {0, _BROKEN} or _BROKEN not in statuses or not typed:
        raise ProtocolFailure(f"namespaces: statuses {statuses}, some {_BROKEN} and no others but 0 expected: {told}")
    return statuses, seconds


def release(wire: Wire, folder: Path) -> float:
    """Release with everybody there; return the seconds that it took."""
    start = time.monotonic()
    with launched([wire.command(server, _release(server)) for server in range(SERVERS)], folder) as processes:
        for server, process in enumerate(processes):
            _, told = process.communicate(timeout=_LONGEST)
            if process.returncode:
                raise ProtocolFailure(f"namespaces: server {server} failed: {told}", server)
    return time.monotonic() - start


def require_exact(servers: Servers, reports: int) -> None:
    """Compare the file of every server with the others, and its sums with those of the spools."""
    files = {(servers.folder / f"release-{server}.dpmpc").read_bytes() for server in range(SERVERS)}
    release = verify(servers.folder / "release-0.dpmpc", servers.collection).release
    exact = np.array_equal(release.sums, expected_sums(servers, release.task))
    if (len(files), release.clients, exact) != (1, reports, True):
        raise ProtocolFailure(f"namespaces: {len(files)} files, {release.clients} reports, exact: {exact}")


@contextmanager
def launched(commands: Sequence[Sequence[str]], folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Start processes, and end those that are left in the end."""
    with ExitStack() as stack:
        processes = []
        for command in commands:
            pipe = subprocess.PIPE
            process = stack.enter_context(subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True))
            stack.callback(process.kill)
            processes.append(process)
        yield processes


def _release(server: int) -> list[str]:
    deadlines = ["--connect-deadline", str(CONNECT_SECONDS), "--deadline", str(STEP_SECONDS)]
    own = [*_own(server), "--out", f"release-{server}.dpmpc", "--close"]
    return _dpmpc("release", "collection.json", *own, *deadlines)


def _own(server: int) -> list[str]:
    return ["--server", str(server), "--folder", f"server-{server}"]


def _places(host: str) -> list[str]:
    return ["--listen", f"{host}:{PEERS_PORT}", "--web", f"{host}:{WEB_PORT}"]


def _dpmpc(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "dpmpc", *arguments]


def _done(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=_LONGEST)
    if done.returncode:
        raise ProtocolFailure(f"namespaces: {' '.join(command)} ended with {done.returncode}: {done.stderr}")


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where = content["machine"]
    delay, loss = f"{1000 * content['delay']:g} ms", f"{100 * content['loss']:g} %"
    statuses = ", ".join(map(str, content["statuses"]))
    return "\n".join(
        [
            "# A collection on three hosts with a bad network",
            "",
            f"Three servers and a client in network namespaces of one machine, {delay} from host to host, {loss} of",
            f"the packets lost, one server cut off during the release; {where['cpu']}, {where['cores']} cores, "
            f"{where['date']}.",
            "",
            markdown(
                ["what", "figure"],
                [
                    ["reports, at all servers and in the release", f"{content['reports']:,}"],
                    ["upload of all, s", f"{content['upload_s']:.1f}"],
                    ["exit statuses when a server was cut off", statuses],
                    [f"seconds until all had ended (--deadline {content['step_s']})", f"{content['cut_s']:.1f}"],
                    ["repeated release, s", f"{content['release_s']:.1f}"],
                    ["sums equal to those of the uploads", "yes"],
                    ["packets passed, lost", f"{content['packets']:,}, {content['lost']:,}"],
                ],
            ),
        ]
    )
