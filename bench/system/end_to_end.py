"""Where the time of `dpmpc fit` goes, on a Parquet file of a million rows, and how it compares with a fit in the clear.

The peer reads the same file with pyarrow and fits `sklearn.linear_model.Ridge`. Both are processes of their own, from
their start to their end, run in turn; wall-clock seconds, medians. The command starts three servers and an analyst as
processes, plays all the clients while they start, lets them link themselves by TLS, and compares the result with the
optimum of the data. The parties' start counts as far as it is waited for; the rest hides behind the clients, noise
included, where a core is free. Stages are timed by the functions that enter them, each without what it calls of another
stage. One more run under `cProfile` says how often the busiest functions were called: none of them once for each row.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import functools
import io
import json
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import machine, markdown, summary, write

CLIENTS, FEATURES, RUNS = 1_000_000, 10, 5
COMMAND = ["--target", "y", "--rounds", "0", "--epsilon", "1", "--delta", "1e-7", "--json"]
SETTINGS: dict[str, list[str]] = {
    "sum": ["--sketch", "sum"],
    "sketch": ["--sketch", "osnap", "--rows", "1000", "--sparsity", "4"],
}
PEER = "pyarrow and scikit-learn"
#: What a process spends its time on: function -> stage.
HOOKS = {
    "dpmpc.data.table_files:read_table": "read the file",
    "dpmpc.models.common.commanded:Commanded.check_rows": "check the table",
    "dpmpc.release.planning:design": "calibrate",
    "dpmpc.linear.contributions.contribution:Contribution.encode_raw": "clip and encode",
    "dpmpc.linear.noise:Noise.sample": "noise",
    "dpmpc.parties.networked:share_batch": "share",
    "dpmpc.linear.sharing.batch:FileShare.create": "store shares",
    "dpmpc.linear.sharing.batch:FileShare.__setitem__": "store shares",
    "dpmpc.parties.network.programs:LocalParties.run": "parties",
    "dpmpc.models.regression.ridge_regression:RidgeRegression.compare_with": "compare with the data",
}
IMPORT, END, PARTIES, NOISE, TLS, STARTS = (
    *("start and import", "end", "parties", "noise"),
    *("TLS", "processes' start and end"),
)
BUSIEST = 12
_TIMEOUT = 600


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the stages."""
    parser = argparse.ArgumentParser(prog="python -m bench end_to_end", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each (default %(default)s)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="n (default %(default)s)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "people.parquet"
        write_population(data, chosen.clients)
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in (PEER, *SETTINGS)}
        for number in range(chosen.runs):
            print(f"end_to_end: run {number + 1} of {chosen.runs}", file=sys.stderr)
            for name, found in runs.items():
                found.append(in_process("peer" if name == PEER else "fit", data, SETTINGS.get(name, [])))
        profiles = {name: in_process("profile", data, options)["busiest"] for name, options in SETTINGS.items()}
    content = {
        "machine": machine(),
        "runs": chosen.runs,
        "clients": chosen.clients,
        "features": FEATURES,
        "peers": {package: metadata.version(package) for package in ("pyarrow", "scikit-learn")},
        "stages": {name: stages(found) for name, found in runs.items()},
        "busiest": profiles,
    }
    content["ratios"] = ratios(content["stages"])
    content["shares"] = {name: shares(content["stages"][name]) for name in SETTINGS}
    text = render(content)
    print(text)
    if (chosen.runs, chosen.clients) == (RUNS, CLIENTS):
        write("end_to_end", content, text)


def write_population(path: Path, clients: int) -> None:
    """Write rows in [-1, 1] whose last column is nearly linear in the others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (clients, FEATURES))
    y = X @ np.linspace(0.15, 0.01, FEATURES) + rng.uniform(-0.1, 0.1, clients)
    columns = {f"x{feature}": X[:, feature] for feature in range(FEATURES)} | {"y": y}
    pq.write_table(pa.table(columns), path)


def in_process(kind: str, data: Path, options: Sequence[str]) -> dict[str, Any]:
    """Run one job in a process of its own; return what it says, with its wall-clock seconds."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "bench.system.end_to_end", kind, repr(began), str(data), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT, check=True)
    ended = time.perf_counter()
    told: dict[str, Any] = json.loads(done.stdout)
    last = told.pop("ended")
    return told | {END: ended - last, "wall": ended - began}


def stages(runs: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Summarise each stage over the runs."""
    return {stage: summary([run[stage] for run in runs]) for stage in runs[0]}


def ratios(measured: dict[str, dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Divide the command's seconds, noise apart, by the peer's: whole processes, and both without their imports."""

    def seconds(name: str, *left_out: str) -> float:
        own = measured[name]
        return own["wall"]["median"] - sum(own[stage]["median"] for stage in left_out if stage in own)

    return {
        name: {
            "processes": seconds(name, NOISE) / seconds(PEER),
            "without imports": seconds(name, NOISE, IMPORT, END) / seconds(PEER, IMPORT, END),
        }
        for name in SETTINGS
    }


def shares(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the shares of a fit's seconds that are not the work itself."""
    whole = found["wall"]["median"]
    parts = {"noise": (NOISE,), "start-up": (IMPORT, STARTS, END), "TLS": (TLS,)}
    told = {part: sum(found[stage]["median"] for stage in of) / whole for part, of in parts.items()}
    return told | {"the rest": 1 - sum(told.values())}


def child(kind: str, began: float, data: str, options: Sequence[str]) -> None:
    """Do what one process does: fit in the clear, or run the command with its stages timed or profiled."""
    if kind == "peer":
        told: dict[str, Any] = _fit_in_the_clear(began, data)
    elif kind == "fit":
        told = _fit_by_stages(began, ["fit", data, *COMMAND, *options])
    else:
        told = {"busiest": _profile(["fit", data, *COMMAND, *options])}
    print(json.dumps(told | {"ended": time.perf_counter()}))


def _fit_in_the_clear(began: float, data: str) -> dict[str, float]:
    import pyarrow.parquet as pq
    from sklearn.linear_model import Ridge

    imported = time.perf_counter()
    table = pq.read_table(data)
    rows = np.column_stack([column.to_numpy() for column in table.columns])
    read = time.perf_counter()
    Ridge().fit(rows[:, :-1], rows[:, -1])
    fitted = time.perf_counter()
    return {IMPORT: imported - began, "read the file": read - imported, "fit": fitted - read}


def _fit_by_stages(began: float, arguments: Sequence[str]) -> dict[str, float]:
    clock = _Clock()
    for place, stage in HOOKS.items():
        clock.hook(place, stage)
    import pyarrow.parquet  # noqa: F401 (the command would import it while it reads)

    imported = time.perf_counter()
    fields = _command(arguments)
    total = time.perf_counter() - imported
    return {
        IMPORT: imported - began,
        **{stage: clock.seconds[stage] for stage in HOOKS.values() if stage != PARTIES},
        **_of_parties(clock.seconds[PARTIES], fields["timing"]),
        "the rest": total - sum(clock.seconds.values()),
    }


def _of_parties(wall: float, timing: dict[str, Any]) -> dict[str, float]:
    """Split the parties' wall-clock time by the reports of the servers, which work at the same time.

    Whoever is the last to be there waits for nobody, so that the least set-up is that of TLS; the slowest server counts
    in the other phases. What the clients do while the parties start is not part of `wall`.
    """
    servers = timing["per_server"]
    found = {TLS: min(timing["analyst_setup_s"], *(server["setup_s"] for server in servers))}
    for phase in ("read", "transform", "open"):
        found[f"servers: {phase}"] = max(server[f"{phase}_s"] for server in servers)
    found["analyst: fit"] = timing["analysis_s"]
    return found | {STARTS: wall - sum(found.values())}


def _profile(arguments: Sequence[str]) -> list[dict[str, Any]]:
    profile = cProfile.Profile()
    profile.runcall(_command, arguments)
    rows = pstats.Stats(profile, stream=io.StringIO()).stats.items()  # type: ignore[attr-defined]
    busiest = sorted(rows, key=lambda item: item[1][2], reverse=True)[:BUSIEST]
    most, caller = max((calls, name) for (_, _, name), (_, calls, *_) in rows)
    told = [
        {"function": f"{Path(file).name}:{name}", "calls": calls, "own_s": own, "with_callees_s": cumulative}
        for (file, _, name), (_, calls, own, cumulative, _) in busiest
    ]
    return [*told, {"function": f"most calls of any function: {caller}", "calls": most}]


def _command(arguments: Sequence[str]) -> dict[str, Any]:
    """Run the command in this process; return what it prints."""
    from dpmpc.app.cli.main import parser

    printed = io.StringIO()
    options = parser().parse_args(list(arguments), argparse.Namespace(arguments=list(arguments)))
    with contextlib.redirect_stdout(printed):
        options.run(options)
    fields: dict[str, Any] = json.loads(printed.getvalue())
    return fields


class _Clock:
    """Seconds of stages; a stage that another one enters is not part of it."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(HOOKS.values(), 0.0)
        self._inside = [0.0]

    def hook(self, place: str, stage: str) -> None:
        """Time every call of a function, by the name that its caller finds."""
        module, _, path = place.partition(":")
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, __import__(module, fromlist=["_"]))
        setattr(owner, name, self._timed(getattr(owner, name), stage))

    def _timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            with self._stage(stage):
                return function(*arguments, **options)

        return timed

    @contextlib.contextmanager
    def _stage(self, stage: str) -> Iterator[None]:
        self._inside.append(0.0)
        began = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - began
            self.seconds[stage] += took - self._inside.pop()
            self._inside[-1] += took


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where = content["machine"]
    return "\n\n".join(
        [
            "# Where the time of a fit goes",
            f"`dpmpc fit` on a Parquet file of {content['clients']:,} rows, {content['features']} features and a "
            "target, three servers and an analyst as processes linked by TLS, noise by the clients, one thread. Wall "
            f"clock, medians of {content['runs']} runs in turn with the peer's: {PEER}. {where['cpu']}, "
            f"{where['cores']} cores, {where['date']}.",
            *(_stage_table(name, found) for name, found in content["stages"].items()),
            "## Times the peer's, noise apart",
            markdown(
                ["fit", "whole processes", "without imports"],
                [
                    [name, f"{found['processes']:.1f}", f"{found['without imports']:.1f}"]
                    for name, found in content["ratios"].items()
                ],
            ),
            "## Shares of the wall-clock time",
            markdown(
                ["fit", *next(iter(content["shares"].values()))],
                [[name, *(f"{share:.1%}" for share in found.values())] for name, found in content["shares"].items()],
            ),
            *(_profile_table(name, found) for name, found in content["busiest"].items()),
        ]
    )


def _stage_table(name: str, found: dict[str, dict[str, float]]) -> str:
    whole = found["wall"]["median"]
    rows = [[stage, f"{of['median']:.3f}", f"{of['median'] / whole:.1%}"] for stage, of in found.items()]
    return "\n\n".join([f"## {name}", markdown(["stage", "s", "share"], rows)])


def _profile_table(name: str, found: Sequence[dict[str, Any]]) -> str:
    rows = [
        [entry["function"], f"{entry['calls']:,}", *(f"{entry[part]:.3f}" for part in ("own_s", "with_callees_s"))]
        for entry in found[:-1]
    ]
    rows.append([found[-1]["function"], f"{found[-1]['calls']:,}", "", ""])
    return "\n\n".join([f"## Profile: {name}", markdown(["function", "calls", "own s", "with callees s"], rows)])


if __name__ == "__main__":
    child(sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4:])
