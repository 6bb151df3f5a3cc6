"""What commands print and write: results on standard output, progress on standard error, files whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmpc.cli import waiting
from dpmpc.errors import InputError

if TYPE_CHECKING:
    from dpmpc.release import Release
    from dpmpc.results import Report

#: The files of a result, in the order in which they are to be read; releases come after them.
OUTPUTS = ("report.html", "report.txt", "result.json")
RELEASE_FILE = "release.dpmpc"
NOT_PRIVATE_FILE = "not_private.json"
OUT_HELP = (
    "write releases, result and report to a new directory: all of it may be published, but for not_private.json, "
    "which is there after --compare alone"
)
Progress = Callable[[str, float], None]


def new_path(name: str, text: str) -> Path:
    """Return a path where nothing is yet, or refuse: results are never mixed or overwritten."""
    path = Path(text)
    if path.exists():
        raise InputError(f"{name}: {text!r} exists already, a new name expected")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{name}: {text!r} given, but {str(path.parent)!r} is not a directory")
    return path


def write_outputs(
    out: Path, report: Report, releases: Mapping[str, Release], not_private: Mapping[str, object] | None = None
) -> list[Path]:
    """Write everything to a directory beside the requested one, then rename it; return where the files are."""
    import tempfile

    from dpmpc.results.page import page

    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as folder:
        partial = Path(folder) / "out"
        partial.mkdir()
        for name, release in releases.items():
            release.save(partial / name)
        _write_json(partial / "result.json", report.to_dict())
        if not_private is not None:
            _write_json(partial / NOT_PRIVATE_FILE, not_private)
        (partial / "report.html").write_text(page(report), encoding="utf-8")
        (partial / "report.txt").write_text(f"{report}\n", encoding="utf-8")
        partial.rename(out)
    return [out / name for name in (*OUTPUTS, *releases, *([] if not_private is None else [NOT_PRIVATE_FILE]))]


def _write_json(path: Path, fields: Mapping[str, object]) -> None:
    path.write_text(json.dumps(fields, indent=1, allow_nan=False) + "\n")


def print_result(result: dict[str, Any] | list[Any]) -> None:
    """Print one JSON object, or tables and what rich can show, on standard output."""
    if isinstance(result, dict):
        print(json.dumps(result, allow_nan=False))
        return
    from rich.console import Console

    _print_parts(Console(highlight=False), result)


def _print_parts(console: Any, parts: list[Any]) -> None:
    """Print rich's tables at the console's width, and text with its own line breaks only."""
    from dpmpc.results import NumberTable

    for part in parts:
        if isinstance(part, NumberTable):
            console.print(f"{part}\n", markup=False, soft_wrap=True)
        else:
            console.print(part, soft_wrap=isinstance(part, str))


@contextmanager
def progress() -> Iterator[Progress]:
    """Show on standard error how far each stage is: bars on a terminal, a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import Progress as Display

    console = Console(stderr=True)
    if not console.is_terminal:
        yield waiting.note
        return
    with waiting.quiet(), Display(console=console, transient=True) as display:
        stages: dict[str, Any] = {}

        def on_progress(stage: str, fraction: float) -> None:
            if stage not in stages:
                stages[stage] = display.add_task(stage, total=1.0)
            display.update(stages[stage], completed=fraction)

        yield on_progress
