"""The figures of docs/benchmarks.md, drawn from `bench/results`: tables between marks, and plots.

`python -m bench page` rewrites what stands between ``<!-- NAME: drawn from bench/results -->`` and ``<!-- end of NAME
-->`` and leaves all other text alone. It measures nothing. A name without its marks, or marks without a name, are
errors.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.charts import require_plots
from bench.harness import RESULTS, markdown, plus_minus
from bench.secure_sketching import mp_spdz, runtime_tables, setting
from bench.system import scale
from bench.system.performance_goals import Results, all_goals, read_results
from bench.system.performance_plots import draw
from dpmpc.base.errors import InputError

PAGE = Path("docs/benchmarks.md")
MOST_CLIENTS = max(setting.CLIENTS)


def main(arguments: Sequence[str]) -> None:
    """Draw the page and its plots again."""
    parser = argparse.ArgumentParser(prog="python -m bench page", description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="default %(default)s")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="default %(default)s")
    chosen = parser.parse_args(arguments)
    require_plots()
    if not chosen.page.is_file():
        raise InputError("page", f"{str(chosen.page)!r}", "the file docs/benchmarks.md of the sources")
    results = read_results(chosen.results)
    chosen.page.write_text(rewritten(chosen.page.read_text(), blocks(results)))
    for path in draw(results, chosen.results):
        print(path)
    print(chosen.page)


def rewritten(page: str, drawn: Mapping[str, str]) -> str:
    """Put each block between its marks."""
    marked = re.findall(r"<!-- (\S+): drawn from bench/results -->", page)
    if sorted(marked) != sorted(drawn):
        raise InputError("page", f"marks of {', '.join(sorted(marked))}", ", ".join(sorted(drawn)))
    for name, text in drawn.items():
        begin, end = f"<!-- {name}: drawn from bench/results -->", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if not ended:
            raise InputError("page", f"{begin!r}", f"{end!r} after it")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def blocks(results: Results) -> dict[str, str]:
    """Name -> Markdown."""
    parts: dict[str, Callable[[Results], str]] = {
        "targets": _targets,
        "servers": _servers,
        "mp-spdz": _mp_spdz,
        "scale": _scale,
        "cost": _cost,
    }
    return {name: part(results) for name, part in parts.items()}


def _targets(results: Results) -> str:
    goals = all_goals(results)
    met = [[part, str(len(of)), str(sum(goal.reached for goal in of))] for part, of in goals.items()]
    missed = [[part, g.what, g.wanted, g.printed] for part, of in goals.items() for g in of if not g.reached]
    counted, listed = _table(["part", "targets", "met"], met), _table(["part", "missed", "target", "figure"], missed)
    return f"{counted}\n\n{listed}" if missed else counted


def _servers(results: Results) -> str:
    """Return Tables 3 to 5 at the largest n."""
    rows = []
    for name in ("table4", "table3", "table5"):
        for entry in results[name]["measured"]:
            if entry["clients"] != MOST_CLIENTS:
                continue
            phases, warm, peers = entry["phases"], entry["second_pass"], entry["peers_cpu_s"]
            rows.append(
                [
                    str(entry["servers"]),
                    str(entry["sparsity"]),
                    *(f"{phases[phase]['cpu_s']['mean']:.4f}" for phase in runtime_tables.PHASES),
                    *(f"{runtime_tables.seconds(entry, of):.4f}" for of in ("mean", "min")),
                    f"{sum(warm[phase]['cpu_s']['min'] for phase in warm):.4f}",
                    f"{peers['kernel']['read']['mean'] + peers['kernel']['transform']['mean']:.4f}",
                    f"{entry['sent_mb']:.4f}",
                    f"{entry['global_sent_mb']:.4f}",
                    f"{entry['upload_bytes']:,}",
                ]
            )
    headings = ("servers", "s", *runtime_tables.PHASES, "time, mean", "time, least", "second pass", "kernel, one pass")
    table = _table([*headings, "server sends (MB)", "global (MB)", "upload (bytes)"], rows)
    load = max(number for name in ("table3", "table4", "table5") for number in results[name]["load"])
    origin = _origin(results["table3"], "table3", "table4", "table5")
    return f"n = {MOST_CLIENTS:,}, load average up to {load:.0f}. {origin}\n\n{table}"


def _mp_spdz(results: Results) -> str:
    peers = results["mp_spdz"]
    rows = []
    for pair in mp_spdz.pairs(peers, results["table3"]):
        cells = [f"{pair.clients:,}", str(pair.sparsity)]
        for phase in ("read", "transform"):
            ours, theirs = pair.ours[phase], pair.theirs[phase]
            cells += [f"{ours:.4f}", f"{theirs:g}", f"{theirs / ours:.0f}"]
        rows.append([*cells, f"{pair.theirs['loop'] / pair.ours['transform']:.0f}"])
    unit = "CPU s" if mp_spdz.clock(peers) == "cpu" else "s"
    headings = ("n", "s", f"read, ours ({unit})", "MP-SPDZ", "ratio", f"transform, ours ({unit})", "MP-SPDZ", "ratio")
    return f"{_table([*headings, 'its plain loop / ours'], rows)}\n\n{_mp_spdz_origin(results)}"


def _mp_spdz_origin(results: Results) -> str:
    """Say how MP-SPDZ was measured, and what memory both take."""
    peers = results["mp_spdz"]
    if not peers["transcribed"]:
        last = max(peers["measured"], key=lambda entry: (entry["clients"], entry["sparsity"]))
        return (
            f"MP-SPDZ {peers['version']}, in the same run and from the same shares. Peak memory at n = "
            f"{last['clients']:,} and s = {last['sparsity']}: {last['ours']['peak_rss_mb']:.0f} MB, MP-SPDZ "
            f"{last['peak_rss_mb']:.0f} MB. {_origin(peers, 'mp_spdz')}"
        )
    memory = peers["peak_rss_mb"]
    shape = {"clients": memory["clients"], "sparsity": memory["sparsity"]}
    ours = next(entry for entry in results["table3"]["measured"] if shape.items() <= entry.items())
    return (
        "Transcribed by hand from one measurement, on the same kind of machine but not in the same run: a ratio is "
        "good for its magnitude ([figures](../bench/results/mp_spdz.json)). Ours: Table 3, the least of all "
        "servers and runs. Peak memory at n = "
        f"{memory['clients']:,} and s = {memory['sparsity']}: {ours['peak_rss_mb']:.0f} MB, MP-SPDZ "
        f"{memory['value']} MB."
    )


def _scale(results: Results) -> str:
    content = results["scale"]
    rows = [
        [
            f"{array['clients']:,}",
            f"{8 * scale.COLUMNS * array['clients'] / 1e9:.2f}",
            *(plus_minus(array[name]) for name in ("read_wall_s", "transform_wall_s")),
            *(cell for entry in (array, key) for cell in (_micros(entry), f"{entry['peak_rss_mb']:.0f}")),
        ]
        for array, key in zip(content["measured"]["array"], content["measured"]["key"], strict=True)
    ]
    headings = ("n", "share (GB)", "read (s)", "transform (s)", "CPU µs a client", "peak RSS (MB)")
    table = _table([*headings, "from a key: CPU µs a client", "peak RSS (MB)"], rows)
    file, key = (content["exponents"][way] for way in ("array", "key"))
    slopes = (
        f"The least-squares slope of log CPU time over log n is {file['read']:.3f} for reading and "
        f"{file['transform']:.3f} for the transform; {key['read']:.3f} and {key['transform']:.3f} from a key."
    )
    return f"{_origin(content, 'scale')}\n\n{table}\n\n{slopes}"


def _micros(entry: dict[str, Any]) -> str:
    seconds = sum(_median(entry[f"{phase}_cpu_s"]) for phase in scale.PHASES)
    return f"{1e6 * seconds / entry['clients']:.4f}"


def _cost(results: Results) -> str:
    content = results["scale"]
    rows = [
        [
            cost["release"],
            str(cost["servers"]),
            f"{cost['uploaded_bytes'] / 1e9:,.0f}",
            f"{cost['sent_bytes'] / 1e6:.3g}",
            f"{cost['core_s']:.0f}",
            f"{cost['compute']:.2g}",
            *(f"{cost[name]:.2f}" for name in ("storage", "total")),
        ]
        for cost in content["modelled"]
    ]
    slopes, prices = content["slopes"], content["prices"]
    money = prices["currency"]
    headings = ("release", "servers", "uploaded (GB)", "sent (MB)", "core-s, all", f"compute ({money})")
    table = _table([*headings, f"storage, a month ({money})", f"total ({money})"], rows)
    return (
        f"{table}\n\nd = {scale.COLUMNS}, k = {scale.ROWS}, s = {scale.SPARSITY}. Core-seconds: {slopes['read']:.3g} "
        f"to read a byte, {slopes['expand']:.3g} to expand one, {slopes['add']:.3g} for an addition. {money}: "
        f"{prices['core_hour']} a core-hour, {prices['gigabyte_month']} a GB and month, {prices['gigabyte_sent']} a GB "
        "sent out."
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    drawn: str = markdown(headings, rows)
    return drawn


def _origin(content: dict[str, Any], *names: str) -> str:
    """Say where and when a result was measured, and where all of it is."""
    where = content["machine"]
    links = ", ".join(f"[{name}](../bench/results/{name}.md)" for name in names)
    return f"{where['cpu']}, {where['cores']} cores, {where['date']}, {content['runs']} runs. All figures: {links}."


def _median(entry: dict[str, float]) -> float:
    return entry["median"]
