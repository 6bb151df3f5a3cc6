"""What `dpmpc plan` prints of a forecast: a screen, or all of it with noise, modulus, bytes and costs; and as JSON."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dpmpc.app.render.facts import task_fields
from dpmpc.app.render.screen import MOST_LINES, height, in_brief, tables_within
from dpmpc.app.render.servers import MEGABYTE
from dpmpc.base.randomness import KEY_BYTES
from dpmpc.base.untrusted import harmless
from dpmpc.privacy.task import Task
from dpmpc.release.planning.cost import GIGABYTE, MEASURED, NOT_COUNTED, Prices, Workload, byte_fields, estimate
from dpmpc.release.planning.forecast import Forecast


def plan_fields(kind: str, forecast: Forecast, *, prices: Prices, days: float) -> dict[str, Any]:
    """Return everything as plain data; what is infinite or impossible is null.

    Parameters
    ----------
    kind : str
        The model.
    forecast : Forecast
        What is expected of it.
    prices : Prices
        Of one release.
    days : float
        For which shares are stored.
    """
    last = forecast.tasks[-1]
    alone = release_fields(last, prices, days) if len(forecast.tasks) == 1 else {}
    facts = {**task_fields(last, forecast.features, forecast.guarantee), "model": kind, "useful": forecast.useful}
    return {**facts, **alone, **forecast.data}


def plan_screen(kind: str, forecast: Forecast, fields: dict[str, Any]) -> str:
    """Return what fits on a screen: the promise in a line, what is assumed, and last what is expected."""
    last = [forecast.why] if forecast.useful else [f"Not useful as planned. {forecast.why}"]
    head = [*_head(kind, forecast, fields), in_brief(str(forecast.guarantee)), f"Assumed: {forecast.assumed}"]
    head.append("Noise, bytes, costs and the whole promise: --verbose.")
    room = MOST_LINES - height([*head, *last]) - 1
    parts = [head, *tables_within(forecast.tables, room)[0], last]
    return "\n".join(harmless(line) for lines in parts if lines for line in ("", *lines)).lstrip("\n")


def plan_text(kind: str, forecast: Forecast, fields: dict[str, Any]) -> str:
    """Return all of it."""
    parts = ["\n".join([*_head(kind, forecast, fields), f"Assumed: {forecast.assumed}"])]
    parts += [_release_text(fields)] if "noise" in fields else []
    parts += [*map(str, (*forecast.more, *forecast.tables)), forecast.why]
    parts.append(f"What is promised\n{forecast.guarantee}")
    return "\n\n".join("\n".join(harmless(line) for line in part.split("\n")) for part in parts)


def _head(kind: str, forecast: Forecast, fields: dict[str, Any]) -> list[str]:
    sums = len(forecast.tasks)
    released = "one release" if sums == 1 else f"{sums} sums"
    simulated = [line for line in str(forecast.guarantee).split("\n") if line.startswith("SIMULATION")]
    return [*simulated, f"Plan of {kind}: {released} of {fields['clients']:,} people, {fields['servers']} servers"]


def release_fields(task: Task, prices: Prices, days: float) -> dict[str, Any]:
    """Describe the release of a task, whatever is read from it: noise, modulus, bytes and cost."""
    modulus = task.modulus_plan
    return {
        "coalition": task.trust.coalition,
        "noise": _noise(task),
        "modulus": {
            "ring": task.encoding.ring.name,
            "bits_needed": modulus.bits_needed,
            "bits_available": modulus.bits_available,
        },
        "bytes": byte_fields(task),
        "cost": _cost(task, prices, days),
    }


def _noise(task: Task) -> dict[str, Any]:
    """Describe one draw of the noise, who adds such draws, and what they amount to in the release."""
    drawn = math.sqrt(task.noise.variance)
    sd = drawn * (task.unit / task.sketch.scale)
    return {
        "family": task.noise.name,
        "sd_integer": drawn,
        "sd": sd,
        "client_sd": 0.0 if task.noising.by == "servers" else sd,
        "server_sd": sd if task.servers_add_noise else 0.0,
        "released_sd": sd * task.sketch.scale * math.sqrt(float(task.noise_terms.mean())),
    }


def _cost(task: Task, prices: Prices, days: float) -> dict[str, Any]:
    """Return what all servers spend, and the figures that it is computed from."""
    return {
        **dataclasses.asdict(estimate(Workload.of(task), prices=prices, days=days)),
        "days": days,
        "slopes": dataclasses.asdict(MEASURED),
        "prices": dataclasses.asdict(prices),
    }


def _release_text(fields: dict[str, Any]) -> str:
    """Return the facts of the release as it would be run, a line each."""
    noise, size, modulus, sketch = fields["noise"], fields["bytes"], fields["modulus"], fields["sketch"]
    other, share = size["client_to_other_servers"], size["client_to_last_server"]
    told = "a 16-byte key" if other == KEY_BYTES else "as much" if other == share else f"{other:,} bytes"
    checked = size.get("server_to_other_server")
    copies = "1 copy" if size["copies"] == 1 else f"{size['copies']} copies"
    stored = [f"{size[name] / MEGABYTE:,.6g} MB" for name in ("spool_of_last_server", "spool_of_other_servers")]
    rows = {
        "release": f"{sketch['family']} of {sketch['statistic']}, k = {sketch['rows']}, s = {sketch['sparsity']}",
        "noise of one client": _drawn(noise, "client", "on columns in [-1, 1]"),
        "noise of one server": _drawn(noise, "server", "in every sum"),
        "noise in the release": f"sd {noise['released_sd']:.4g} in every entry",
        "coalition": _coalition(fields),
        "modulus": f"{modulus['bits_needed']} bits needed, {modulus['bits_available']} in {modulus['ring']}",
        "client sends": f"{copies}: {size['client_to_last_server']:,} bytes to one server, {told} to each other",
        "servers store": f"{stored[0]} at that server, {stored[1]} at each other",
        "server sends": f"{size['server_to_analyst']:,} bytes to the analyst"
        + ("" if checked is None else f", {checked / MEGABYTE:,.6g} MB to each other server to check proofs"),
        "a server needs": _needs(fields["cost"], fields["servers"]),
        "servers cost": _money(fields["cost"]),
        "not in it": NOT_COUNTED,
    }
    widest = max(map(len, rows))
    return "\n".join(f"{name:{widest}}  {text}" for name, text in rows.items())


def _needs(cost: dict[str, Any], servers: int) -> str:
    computing = max(cost["last_core_s"], cost["other_core_s"])
    return (
        f"about {computing:.2g} core-seconds to keep, check and release reports, and {cost['request_core_s']:.2g} for "
        f"their requests if each comes by itself; {cost['memory_bytes'] / GIGABYTE:.2g} GB of memory, and "
        f"{cost['stored_bytes'] / servers / GIGABYTE:.2g} GB of disk on average"
    )


def _money(cost: dict[str, Any]) -> str:
    parts = ", ".join(f"{name} {cost[name]:.2g}" for name in ("compute", "storage", "transfer"))
    spent = f"about {cost['core_s']:.2g} core-seconds and {cost['total']:.2g} {cost['prices']['currency']}"
    return f"{spent} together ({parts}), shares stored for {cost['days']:g} days"


def _drawn(noise: dict[str, Any], who: str, where: str) -> str:
    sd = noise[f"{who}_sd"]
    return f"{noise['family']}, sd {sd:.4g} {where}" if sd else "none"


def _coalition(fields: dict[str, Any]) -> str:
    privacy = fields["privacy"]
    when = {"adaptive": "chosen when all is public", "static": "fixed beforehand"}[fields["coalition"]]
    clients = f"{privacy['corrupt_clients']:,} clients" + (f" {when}" if privacy["corrupt_clients"] else "")
    lost = f"; anything from {privacy['dropouts']:,} clients in all may be missing" if privacy["dropouts"] else ""
    return f"the analyst, {privacy['corrupt_servers']} of {fields['servers']} servers, {clients}{lost}"
