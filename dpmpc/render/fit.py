"""What a person reads after a run: the guarantee, the fit, what each server did; and the same as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table as Grid

from dpmpc.network.meter import PhaseCost, RunStatistics, hundredths, rounded, tenths
from dpmpc.networked import NetworkedRun
from dpmpc.planning.cost import WORD_BYTES, Workload
from dpmpc.privacy import Guarantee
from dpmpc.render.guarantee_prose import spent_text
from dpmpc.task import Task

if TYPE_CHECKING:
    from dpmpc.estimators import Inference

MEGABYTE = 1e6
_RELEASED = {
    "rows": "a sketch of their rows",
    "second-moments": "the sum of their second moments",
    "weighted-second-moments": "the weighted sum of their second moments",
    "grouped-second-moments": "the sums of their second moments by group",
    "proved-rows": "a sketch of their proved rows",
    "proved-second-moments": "the sum of their proved second moments",
    "whitened-products": "the sum of their whitened products",
    "scores": "the sum of their scores",
    "power-sum": "the sum of a power of their numbers",
    "item-sketch": "a sketch of how many hold each item",
}
TABLE_STYLE: dict[str, Any] = {
    "title_justify": "left",
    "title_style": "bold",
    "box": box.SIMPLE_HEAD,
    "pad_edge": False,
    "padding": (0, 1, 0, 0),
}


def server_fields(spent: RunStatistics) -> dict[str, Any]:
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


def task_fields(task: Task, features: int, promised: Guarantee | None = None) -> dict[str, Any]:
    """Return the public facts of the JSON contract; `promised` is the guarantee where it is not the task's own."""
    guarantee = promised or task.guarantee
    return {
        "clients": task.clients,
        "features": features,
        "servers": task.trust.servers,
        "sketch": {
            "family": task.sketch.family,
            "rows": task.sketch.rows,
            "sparsity": task.sketch.sparsity,
            "statistic": task.statistic.name,
        },
        "privacy": {
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "achieved_epsilon": guarantee.achieved_epsilon,
            "neighbouring": guarantee.neighbouring,
            "corrupt_clients": guarantee.corrupt_clients,
            "corrupt_servers": guarantee.corrupt_servers,
            "dropouts": guarantee.dropouts,
            "noise_by": guarantee.noise_by,
            "mechanism": guarantee.mechanism,
            "calibration": guarantee.calibration,
            "simulation": guarantee.simulation,
        },
    }


def byte_fields(task: Task) -> dict[str, int]:
    """Return bytes of payload, without framing; of additive shares all but the last are keys."""
    work = Workload.of(task)
    share, other = work.share_bytes, work.other_bytes
    checked = {} if work.proof is None else {"server_to_other_server": work.peer_bytes}
    return {
        "copies": task.copies,
        "client_to_last_server": share,
        "client_to_other_servers": other,
        "client_to_all_servers": share + (task.trust.servers - 1) * other,
        "server_to_analyst": WORD_BYTES * task.sketch.rows * task.width,
        "spool_of_last_server": share * task.clients,
        "spool_of_other_servers": other * task.clients,
        **checked,
    }


def fit_fields(
    run: NetworkedRun, model: str, result: dict[str, Any], *, features: int, wall_s: float
) -> dict[str, Any]:
    """Return the whole JSON object of `dpmpc fit --json`."""
    return {
        "model": model,
        **task_fields(run.release.task, features),
        **proof_fields(run),
        "timing": _timing(run, wall_s, hundredths),
        "result": result,
    }


def proof_fields(run: NetworkedRun) -> dict[str, Any]:
    """Return the entry "proofs" of the JSON object: the outcome, where clients proved what they shared."""
    circuit = None if run.release.task.proofs is None else run.release.task.proofs.circuit
    if circuit is None or run.refused is None:
        return {}
    found = {"accepted": run.release.clients, "refused": run.refused}
    return {"proofs": {**found, "message_bytes": circuit.message_bytes, "words": circuit.words}}


def proofs_text(accepted: int, refused: Mapping[str, int]) -> str:
    """Say how many reports were accepted, and why others were not."""
    total = accepted + sum(refused.values())
    causes = ", ".join(f"{count:,} refused ({cause})" for cause, count in sorted(refused.items())) or "none refused"
    return f"Proofs: {accepted:,} of {total:,} reports accepted, {causes}"


def public_timing(run: NetworkedRun, *, wall_s: float) -> dict[str, Any]:
    """Return "timing" for the page: seconds and megabytes rounded up, as servers tell them."""
    return _timing(run, wall_s, tenths)


def _timing(run: NetworkedRun, wall_s: float, to: Callable[[float], float]) -> dict[str, Any]:
    """Return all seconds rounded up: exact ones would tell something of the noise."""
    return {
        "per_server": [server_fields(rounded(spent, to)) for spent in run.servers],
        "clients_s": to(run.clients_s),
        "analyst_setup_s": to(run.analyst.setup_s),
        "analysis_s": to(run.analyst.phases["fit"].wall_s),
        "wall_s": to(wall_s),
    }


def fit_parts(run: NetworkedRun, result: Sequence[RenderableType], *, wall_s: float) -> list[RenderableType]:
    """Return what a person reads after a fit."""
    seconds = f"clients {run.clients_s:.1f} s, servers {run.servers_s:.1f} s, everything {wall_s:.1f} s"
    servers = [rounded(spent, hundredths) for spent in run.servers]
    return [
        release_text(run.release.task),
        *([] if run.refused is None else [proofs_text(run.release.clients, run.refused)]),
        "",
        *result,
        "",
        guarantee_text(run.release.guarantee),
        f"{spent_text(run.release.guarantee)}.\n",
        servers_table(servers),
        *proofs_tables(servers),
        f"wall time: {seconds}",
    ]


def release_text(task: Task, counted: str = "clients") -> str:
    """Describe in a sentence what was released, from whom and by whom; `counted` is what they are known to be."""
    sketch = task.sketch
    kind = _RELEASED.get(task.statistic.name, f"the sum of their {task.statistic.name}")
    words = task.copies * task.width
    return (
        f"{task.clients:,} {counted} with {len(task.schema)} column{'s' if len(task.schema) > 1 else ''}; "
        f"{task.trust.servers} servers with {task.sharing} shares. "
        f"Released: {kind} ({sketch.family}, k = {sketch.rows}, s = {sketch.sparsity}; "
        f"{words} word{'s' if words > 1 else ''} from each client)"
    )


def guarantee_text(guarantee: Guarantee) -> str:
    """Return the guarantee under a heading."""
    return f"[bold]What is promised[/bold]\n{escape(str(guarantee))}\n"


def inference_fields(found: Inference) -> dict[str, Any]:
    """Return standard errors and confidence intervals of the unpenalised coefficients; null where they are infinite."""
    values = {
        "unpenalised_coefficients": found.coef.tolist(),
        "standard_errors": found.standard_errors.tolist(),
        "confidence_intervals": found.confidence_intervals.tolist(),
    }
    if not found.informative:
        values = {
            name: [[None, None] if isinstance(entry, list) else None for entry in listed]
            for name, listed in values.items()
        }
    interval = found.intercept_confidence_interval.tolist()
    return {
        "confidence_level": found.level,
        **{name: dict(zip(found.feature_names, listed, strict=True)) for name, listed in values.items()},
        "unpenalised_intercept": found.intercept if found.informative else None,
        "intercept_standard_error": found.intercept_standard_error if found.informative else None,
        "intercept_confidence_interval": interval if found.informative else [None, None],
        **found.counted,
    }


def inference_table(found: Inference) -> RenderableType:
    """Return the same as a table for a person."""
    if not found.informative:
        return f"{escape(found.no_interval or 'The noise is too strong for any finite confidence interval.')}\n"
    return values_table(
        "Estimates without penalty, with their intervals",
        (*found.feature_names, "intercept"),
        {
            "estimate": [*found.coef, found.intercept],
            "standard error": [*found.standard_errors, found.intercept_standard_error],
            f"{found.level:.0%} from": [*found.confidence_intervals[:, 0], found.intercept_confidence_interval[0]],
            "to": [*found.confidence_intervals[:, 1], found.intercept_confidence_interval[1]],
        },
    )


def values_table(title: str, names: Sequence[str], columns: dict[str, Sequence[float]]) -> Grid:
    """Return a table of numbers: a row for each name, a headed column for each list."""
    grid = Grid(title=title, **TABLE_STYLE)
    grid.add_column("column")
    for heading in columns:
        grid.add_column(heading, justify="right")
    for position, name in enumerate(names):
        grid.add_row(escape(name), *(f"{values[position]:.5g}" for values in columns.values()))
    return grid


def servers_table(servers: Sequence[RunStatistics]) -> Grid:
    """Return a table of time and bytes of each server; set-up apart, MB = 10^6 bytes at the socket, TLS included."""
    grid = Grid(
        title="Servers: seconds, set-up apart; MB = 10^6 bytes at the socket, TLS included",
        **TABLE_STYLE,
    )
    headings = ("server", "setup", "time", "read", "transform", "open", "CPU", "sent MB", "recv MB", "RSS MB")
    for heading in headings:
        grid.add_column(heading, justify="right")
    for spent in servers:
        phases = (spent.phases[name].wall_s for name in ("read", "transform", "open"))
        seconds = (spent.setup_s, spent.total_s, *phases, spent.cpu_s)
        grid.add_row(
            str(spent.server),
            *(f"{value:.3f}" for value in seconds),
            f"{spent.bytes_sent / MEGABYTE:.4f}",
            f"{spent.bytes_received / MEGABYTE:.4f}",
            f"{spent.peak_rss_mb:.0f}",
        )
    total = sum(spent.bytes_sent for spent in servers)
    grid.caption = f"global data sent by servers: {total / MEGABYTE:.4f} MB"
    return grid


def proofs_tables(servers: Sequence[RunStatistics]) -> list[Grid]:
    """Return a table of what the check of proofs has cost each server, or none where nothing was checked."""
    checked = {spent.server: spent.phases["verify"] for spent in servers if "verify" in spent.phases}
    if not checked:
        return []
    grid = Grid(title="Of these to check proofs, waiting for the others included", **TABLE_STYLE)
    for heading in ("server", "time", "CPU", "sent MB"):
        grid.add_column(heading, justify="right")
    for server, cost in checked.items():
        seconds = (f"{cost.wall_s:.3f}", f"{cost.cpu_s:.3f}")
        grid.add_row(str(server), *seconds, f"{cost.bytes_sent / MEGABYTE:.4f}")
    return [grid]
