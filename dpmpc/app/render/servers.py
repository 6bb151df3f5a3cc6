"""What a run has cost: seconds and bytes of each server, and how a report shows them.

Promised: seconds and megabytes are rounded up, because exact ones would reveal something of the noise. They are as
measured, and no part of the guarantee.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from dpmpc.app.render.report import Fact, Report
from dpmpc.parties.network.meter import PhaseCost, RunStatistics, hundredths, rounded, tenths, together
from dpmpc.parties.networked import NetworkedRun
from dpmpc.release.results import NumberTable

MEGABYTE = 1e6


def server_fields(spent: RunStatistics) -> dict[str, int | float]:
    """Return one server's row of the JSON contract; a phase that it has not entered took no time.

    What it spent on checking proofs is there if it checked any.
    """
    read, transform, opening = (spent.phases.get(name, PhaseCost()) for name in ("read", "transform", "open"))
    verify = spent.phases.get("verify")
    checked = {} if verify is None else {"verify_s": verify.wall_s, "verify_bytes_sent": verify.bytes_sent}
    return {
        "server": spent.server,
        "setup_s": spent.setup_s,
        **checked,
        "read_s": read.wall_s,
        "transform_s": transform.wall_s,
        "transform_cpu_s": transform.cpu_s,
        "open_s": opening.wall_s,
        "total_s": spent.total_s,
        "cpu_s": spent.cpu_s,
        "bytes_sent": spent.bytes_sent,
        "bytes_received": spent.bytes_received,
        "payload_sent": spent.payload_sent,
        "payload_received": spent.payload_received,
        "peak_rss_mb": spent.peak_rss_mb,
    }


_CHECKED = [("check proofs, s", "verify_s", 1.0), ("sent to check proofs, MB", "verify_bytes_sent", MEGABYTE)]


def servers_table(servers: Sequence[RunStatistics]) -> NumberTable:
    """Return a column for each server, which fits a phone."""
    listed = [server_fields(spent) for spent in servers]
    checked = bool(listed) and "verify_s" in listed[0]
    rows = [
        ("set-up, s", "setup_s", 1.0),
        *(_CHECKED[:1] if checked else ()),
        ("read, s", "read_s", 1.0),
        ("transform, s", "transform_s", 1.0),
        ("open, s", "open_s", 1.0),
        ("total after set-up, s", "total_s", 1.0),
        ("CPU, s", "cpu_s", 1.0),
        ("sent, MB", "bytes_sent", MEGABYTE),
        ("received, MB", "bytes_received", MEGABYTE),
        *(_CHECKED[1:] if checked else ()),
        ("peak memory, MB", "peak_rss_mb", 1.0),
    ]
    sent = sum(spent.bytes_sent for spent in servers) / MEGABYTE
    return NumberTable(
        "Servers",
        {f"server {fields['server']}": [fields[name] / unit for _, name, unit in rows] for fields in listed},
        [name for name, _, _ in rows],
        label="",
        notes=[
            "Seconds; MB = 10^6 bytes at the socket, TLS included.",
            f"Global data sent by servers: {sent:.4f} MB.",
        ],
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunCost:
    """What a run among real processes has cost, or all runs of a fit in rounds together."""

    servers: Sequence[RunStatistics]
    clients_s: float  # of the simulated clients
    servers_s: float  # from there until the parties have ended
    analyst_setup_s: float
    analysis_s: float
    wall_s: float
    proofs: Mapping[str, object] = dataclasses.field(default_factory=dict)  # of the JSON object, where any were checked

    @classmethod
    def of(cls, run: NetworkedRun, wall_s: float, fit_s: float) -> Self:
        """Read the cost of one release, which was fitted in `fit_s` seconds."""
        return cls(
            servers=run.servers,
            clients_s=run.clients_s,
            servers_s=run.servers_s,
            analyst_setup_s=run.analyst.setup_s,
            analysis_s=fit_s,
            wall_s=wall_s,
            proofs=proof_fields(run),
        )

    @classmethod
    def of_rounds(cls, runs: Sequence[NetworkedRun], wall_s: float, fit_s: float) -> Self:
        """Add up the runs of a fit's sums; the fit took `fit_s` seconds in all, of which the rest is analysis."""
        clients, servers = (math.fsum(getattr(run, name) for run in runs) for name in ("clients_s", "servers_s"))
        return cls(
            servers=tuple(together(spent) for spent in zip(*(run.servers for run in runs), strict=True)),
            clients_s=clients,
            servers_s=servers,
            analyst_setup_s=math.fsum(run.analyst.setup_s for run in runs),
            analysis_s=max(0.0, fit_s - clients - servers),
            wall_s=wall_s,
        )

    def timing(self, to: Callable[[float], float] = hundredths) -> dict[str, object]:
        """Return "timing" of the JSON contract, all seconds rounded up."""
        return {
            "per_server": [server_fields(rounded(spent, to)) for spent in self.servers],
            "clients_s": to(self.clients_s),
            "analyst_setup_s": to(self.analyst_setup_s),
            "analysis_s": to(self.analysis_s),
            "wall_s": to(self.wall_s),
        }

    @property
    def texts(self) -> list[NumberTable | str]:
        """The servers, and the seconds of the whole run."""
        seconds = f"clients {self.clients_s:.1f} s, servers {self.servers_s:.1f} s, everything {self.wall_s:.1f} s"
        return [servers_table([rounded(spent, hundredths) for spent in self.servers]), f"wall time: {seconds}"]


def with_run(report: Report, cost: RunCost, *, said: Sequence[str], command: str | None) -> Report:
    """Return a report that shows what the run has cost that made its releases, and the command that did."""
    public = [rounded(spent, tenths) for spent in cost.servers]  # as on a page that may be published
    whole = Fact("Whole run", tenths(cost.wall_s), "seconds", digits=3)
    return dataclasses.replace(
        report,
        costs=[servers_table(public), *report.costs] if public else report.costs,
        facts=[*report.facts, whole],
        command=command,
        data={**report.data, **cost.proofs, "timing": cost.timing()},
        run=[*said, *cost.texts],
    )


def proof_fields(run: NetworkedRun) -> dict[str, object]:
    """Return the entry "proofs" of the JSON object: the outcome, where clients proved what they shared."""
    circuit = None if run.release.task.proofs is None else run.release.task.proofs.circuit
    if circuit is None or run.refused is None:
        return {}
    found = {"accepted": run.release.clients, "refused": run.refused}
    return {"proofs": {**found, "message_bytes": circuit.message_bytes, "words": circuit.words}}
