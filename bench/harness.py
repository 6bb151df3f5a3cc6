"""What all benchmarks share: the machine's description, statistics, and files that tables are drawn from."""

from __future__ import annotations

import datetime
import io
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path("bench/results")
PACKAGES = ("dpmpc", "mpyc", "numpy", "scipy", "cryptography")


def machine() -> dict[str, Any]:
    """Say what the figures were measured on."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        model += " (no /proc/cpuinfo)"
    return {
        "date": today(),
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {package: metadata.version(package) for package in PACKAGES},
    }


def today() -> str:
    """Return the date, by universal time."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")


def summary(values: Sequence[float]) -> dict[str, float]:
    """Summarise values by mean, standard deviation, minimum and median."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "min": min(values),
        "median": statistics.median(values),
        "runs": len(values),
    }


def cpu_seconds(function: Callable[[], object]) -> float:
    """Measure the CPU seconds of this process that one call takes."""
    start = time.process_time()
    function()
    return time.process_time() - start


def wall_seconds(function: Callable[[], object]) -> float:
    """Measure the seconds on the clock that one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def plus_minus(values: dict[str, float], digits: int = 3) -> str:
    """Write mean +- standard deviation, for a table cell."""
    return f"{values['mean']:.{digits}f} ± {values['sd']:.{digits}f}"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(name: str, content: dict[str, Any], text: str, folder: Path = RESULTS) -> None:
    """Write `NAME.json` and `NAME.md` side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(compact(content))
    (folder / f"{name}.md").write_text(text + "\n")


def compact(content: dict[str, Any]) -> str:
    """Write JSON with a line for each field, so that results are small and a change shows which field it is in."""
    fields = (f"{json.dumps(name)}:{json.dumps(value, separators=(',', ':'))}" for name, value in content.items())
    return "{\n" + ",\n".join(fields) + "\n}\n"


def save_picture(figure: Any, path: Path, dpi: int) -> None:
    """Save a figure of matplotlib as a PNG of 64 colours, a quarter of the size."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, "PNG", optimize=True)
