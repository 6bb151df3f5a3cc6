"""Imports point the way that data travels: each room uses those below it and none above. There are no exceptions."""

import ast
import collections
import graphlib
from collections.abc import Iterator
from pathlib import Path

from support.lints import check_each

ROOT = Path(__file__).parents[1]

# From the ground up. Rooms of one line do not use each other.
LAYERS = (
    ("_kernels",),
    ("base",),
    ("data",),
    ("linear",),
    ("privacy",),
    ("release",),
    ("models", "parties"),
    ("collect", "owners"),
    ("app",),
    ("__main__",),
)
# Inside a room, from the ground up; "." stands for the modules that lie in the room itself.
FLOORS = {
    "base": ((".",), ("storage",)),
    "linear": (("encoding", "noise"), ("sharing", "sketching"), ("contributions",), ("proving",)),
    "release": (("results",), (".",), ("planning",)),
    "models": (
        ("common",),
        ("components", "papers", "rounds", "tables"),
        ("regression", "survival"),
        ("groups",),
        (".",),
    ),
    "parties": (("network",), (".", "mpyc")),
    "collect": (("terms",), ("upload",), ("store",), ("intake", "opening")),
    "owners": (("columns", "rows"),),
    "app": (("render",), ("cli",)),
}
PLACE = {room: place for place, rooms in enumerate(LAYERS) for room in rooms}
FACE = PLACE["collect"]  # the names that `dpmpc` itself exports are for people, and for the command
ABOVE = ("protocols", "bench", "dpmpc.protocols")  # they use dpmpc, which starts programs by name and imports none


def modules() -> dict[str, Path]:
    """Return the modules of dpmpc by name."""
    paths = sorted((ROOT / "dpmpc").rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


MODULES = modules()


def room_of(module: str) -> str:
    """Return the room of a module of dpmpc: the name after the first dot."""
    return module.split(".")[1]


def imported(path: Path) -> Iterator[str]:
    """Find what a file imports anywhere, in functions and for types too: modules, or names in modules."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{path}: a relative import"
            assert node.level == 0, f"{path}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_in(name: str, packages: tuple[str, ...]) -> bool:
    """Whether a name is that of one of these packages, or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def check_that_imports_go_down(module: str) -> None:
    """Refuse a module that uses rooms of its own floor or above, or whose room has no place."""
    room = room_of(module)
    assert room in PLACE, f"{room} is new: give it a place in LAYERS"
    against = []
    for name in imported(MODULES[module]):
        if not is_in(name, ("dpmpc",)) or is_in(name, (f"dpmpc.{room}",)):
            continue
        used = PLACE.get(room_of(f"{name}."), FACE)
        if used >= PLACE[room]:
            against.append(name)
    assert not against, f"uses {against}, which come after {room}"


def test_imports_go_down():
    check_each(check_that_imports_go_down, [module for module in MODULES if module != "dpmpc"])


def subroom_of(module: str) -> str:
    """Return the folder of a module inside its room; "." for a module that lies in the room itself."""
    names = module.split(".")
    return names[2] if len(names) > 3 or MODULES[module].name == "__init__.py" else "."


def check_that_imports_in_a_room_go_down(module: str) -> None:
    """Refuse a module that uses its room's face, or a subroom of its own floor or above."""
    room, subroom = room_of(module), subroom_of(module)
    place = {name: height for height, floor in enumerate(FLOORS.get(room, ((".",),))) for name in floor}
    assert subroom in place, f"{room}/{subroom} is new: give it a place in FLOORS"
    against = []
    for name in imported(MODULES[module]):
        used = name if name in MODULES else name.rpartition(".")[0]
        if used not in MODULES or used == "dpmpc" or room_of(used) != room:
            continue
        if used == f"dpmpc.{room}" or (subroom_of(used) != subroom and place[subroom_of(used)] >= place[subroom]):
            against.append(name)
    assert not against, f"uses {against}, which come after {room}/{subroom}"


def test_imports_in_a_room_go_down():
    faces = {"dpmpc", *(f"dpmpc.{room}" for room in PLACE)}
    check_each(check_that_imports_in_a_room_go_down, MODULES.keys() - faces)
    subrooms = {(room, name) for room, floors in FLOORS.items() for floor in floors for name in floor}
    assert subrooms <= {(room_of(module), subroom_of(module)) for module in MODULES.keys() - faces}


def check_imports_none_of(path: Path, packages: tuple[str, ...]) -> None:
    """Refuse a file that imports one of these packages."""
    assert not [name for name in imported(path) if is_in(name, packages)]


def test_programs_are_started_and_not_imported():
    check_each(lambda path: check_imports_none_of(path, ABOVE), MODULES.values())


def test_no_circles():
    """Inside a room neither: no module uses one that uses it, however many lie between."""
    uses: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        names = {name if name in MODULES else name.rpartition(".")[0] for name in imported(path)}
        uses[module] = (names & MODULES.keys()) - {module}
    graphlib.TopologicalSorter(uses).prepare()  # a CycleError names the circle


def test_programs_use_neither_bench_nor_command():
    programs = sorted((ROOT / "protocols").glob("*.py"))
    check_each(lambda path: check_imports_none_of(path, ("bench", "protocols", "dpmpc.app")), programs)


MARKUP = ("jinja2", "markupsafe", "matplotlib", "rich")  # for people: rooms below the application return numbers


def test_markup_is_made_in_the_application():
    """The door of a collection has pages of its own (`front_page`)."""
    below = [module for module in MODULES if module.count(".") and room_of(module) not in ("app", "__main__")]
    apart = [module for module in below if module != "dpmpc.collect.intake.front_page"]
    check_each(lambda module: check_imports_none_of(MODULES[module], MARKUP), apart)


def test_every_place_is_taken():
    assert set(PLACE) == {room_of(module) for module in MODULES if module != "dpmpc"}


def test_no_class_name_occurs_twice():
    """Whoever reads a name should not have to ask which of two classes is meant."""
    places = collections.defaultdict(set)
    for path in sorted((ROOT / "dpmpc").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(path.resolve())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
