"""What commands print and write: results on standard output, progress on standard error, files whole or not at all."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dpmpc.app.cli import waiting
from dpmpc.base.errors import InputError

if TYPE_CHECKING:
    from dpmpc.app.render.report import Report
    from dpmpc.release.release import Release

#: The files of a result, in the order in which they are to be read; releases come after them.
OUTPUTS = ("report.html", "report.txt", "result.json")
RELEASE_FILE = "release.dpmpc"
NOT_PRIVATE_FILE = "not_private.json"
OUT_HELP = (
    "write releases, then result and report, to a new directory: all of it may be published, but for not_private.json, "
    "which is there after --compare alone"
)
Progress = Callable[[str, float], None]


def new_path(name: str, text: str) -> Path:
    """Return a path where nothing is yet, or refuse: results are never mixed or overwritten."""
    import tempfile

    path = Path(text)
    if path.exists():
        raise InputError(name, f"{text!r} exists already, a new name expected")
    if not path.absolute().parent.is_dir():
        raise InputError(name, f"{text!r} given, but {str(path.parent)!r} is not a directory")
    try:  # before anything is opened, which would be paid for and lost
        with tempfile.TemporaryFile(dir=path.parent):
            return path
    except OSError as error:
        raise InputError(name, f"{text!r} given, but {str(path.parent)!r} takes no file: {error.strerror}") from None


class ResultFolder:
    """Where a command keeps what was opened: every release is on the disk before anything is computed or drawn of it.

    Promised: a release that `keep` has returned from outlasts whatever fails later, and a loss of power; reading it
    again costs no privacy. Each file is whole or not there. Without `--out` the folder is a temporary one, which is
    removed once the command has printed its result, and stays if it could not; that of `--out` is removed if nothing
    was opened.
    """

    def __init__(self, out: Path | None):
        self.out = out
        self.releases: dict[str, Release] = {}

    def __enter__(self) -> Self:
        import tempfile

        from dpmpc.base.storage.files import sync

        if self.out is not None:
            self.out.mkdir()  # before anything is opened: what cannot be written is refused at no cost
        self._place = Path(tempfile.mkdtemp(prefix="dpmpc-kept-")) if self.out is None else self.out
        sync(self._place.absolute().parent)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None and self.releases:
            print(
                f"opened and kept: {', '.join(str(self._place / name) for name in self.releases)}; what failed came "
                "after it, and dpmpc read reads it at no further cost",
                file=sys.stderr,
            )
        elif error is not None or self.out is None:
            shutil.rmtree(self._place)

    def keep(self, name: str, release: Release) -> None:
        """Write a release that was opened just now; when this returns, it is on the disk."""
        release.save(self._place / name)
        self.releases[name] = release

    def write(self, report: Report, not_private: Mapping[str, object] | None = None) -> list[Path]:
        """Write all else into the directory of `--out`, the page last, for it has drawings; return where it all is."""
        from dpmpc.app.render.page import page

        if self.out is None:
            return []
        _write_json(self.out / "result.json", report.to_dict())
        if not_private is not None:
            _write_json(self.out / NOT_PRIVATE_FILE, not_private)
        _write_text(self.out / "report.txt", f"{report}\n")
        _write_text(self.out / "report.html", page(report))
        others = [] if not_private is None else [NOT_PRIVATE_FILE]
        return [self.out / name for name in (*OUTPUTS, *self.releases, *others)]


def _write_json(path: Path, fields: Mapping[str, object]) -> None:
    _write_text(path, json.dumps(fields, indent=1, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    from dpmpc.base.storage.files import whole

    with whole(path) as file:
        file.write(text.encode())


def print_result(result: dict[str, Any] | list[Any]) -> None:
    """Print one JSON object, or tables and what rich can show, on standard output."""
    if isinstance(result, dict):
        print(json.dumps(result, allow_nan=False))
        return
    from rich.console import Console

    _print_parts(Console(highlight=False), result)


def _print_parts(console: Any, parts: list[Any]) -> None:
    """Print rich's tables at the console's width, and text with its own line breaks only."""
    from dpmpc.release.results import NumberTable

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
