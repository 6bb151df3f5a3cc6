"""Imports point the way that data travels: each room of the house may use those before it, and none after it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# From the ground up. Rooms of one line do not use each other.
LAYERS = (
    ("errors", "system", "untrusted", "_kernels"),
    ("array_files", "records"),
    ("randomness", "tables", "notebook", "files", "release_file"),
    ("rings", "bounds", "noise", "scikit"),
    ("datasets",),
    ("shares", "encoding", "sketching"),
    ("sharing", "privacy", "statistic"),
    ("task",),
    ("client", "server", "release", "setting", "cost"),
    ("analyst", "cluster", "prediction"),
    ("model", "planning"),
    ("baselines", "advice"),
    ("estimators", "coinpress", "projection"),
    ("mixing",),
    ("network",),
    ("intake",),
    ("protocols",),
    ("audit", "report"),
    ("reports",),
    ("analyses", "plan_report", "plan_plot"),
    ("demonstrations", "self_test"),
    ("doctor",),
    ("demo",),
    ("bench",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
PLACE = {room: place for place, rooms in enumerate(LAYERS) for room in rooms}

# What goes against the flow, each for a reason.
ALLOWED = {
    ("dpmpc/collection/releasing.py", "dpmpc.protocols"),  # the command starts the conversation with the other servers
    ("protocols/unopened.py", "dpmpc.render.fit"),  # programs of this folder are also started by hand, and print
    ("protocols/unopened_moment.py", "dpmpc.cli.demonstrations"),
    ("protocols/unopened_ridge.py", "dpmpc.cli.demonstrations"),
}
STARTED_BY_HAND = ("protocols", "bench")  # these may use dpmpc.cli.main, for its exit status or its commands


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / "dpmpc").rglob("*.py")):
        parts = path.relative_to(ROOT / "dpmpc").with_suffix("").parts
        if parts[0] != "__init__":
            yield parts[0], path
    for room in ("protocols", "bench"):
        for path in sorted((ROOT / room).rglob("*.py")):
            yield room, path


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = (f"dpmpc.{alias.name}" for alias in node.names)
            yield from names if node.module == "dpmpc" else (node.module,)


@pytest.mark.parametrize(
    ("room", "path"), [pytest.param(*found, id=str(found[1].relative_to(ROOT))) for found in modules()]
)
def test_imports_go_down(room, path):
    assert room in PLACE, f"{room} is new: give it a place in LAYERS"
    against = []
    for name in imported(path):
        parts = name.split(".")
        if parts[0] != "dpmpc" or len(parts) == 1 or parts[1] == room or parts[1].startswith("__"):
            continue
        if room in STARTED_BY_HAND and name == "dpmpc.cli.main":
            continue
        used = PLACE.get(parts[1])
        if (str(path.relative_to(ROOT)), name) not in ALLOWED and (used is None or used >= PLACE[room]):
            against.append(name)
    assert not against, f"{path.relative_to(ROOT)} uses {against}, which come after {room}"


def test_exceptions_are_needed():
    assert {(str(path.relative_to(ROOT)), name) for _, path in modules() for name in imported(path)} >= ALLOWED


def test_every_place_is_taken():
    assert set(PLACE) == {room for room, _ in modules()}
