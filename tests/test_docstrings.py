"""Docstrings stand where they are read: numpydoc sections at names that rooms export, one sentence at all others."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.lints import check_each

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^\s*(Parameters|Returns|Raises|Attributes|Yields|Warns)\n\s*-{3,}$", re.MULTILINE)
PAGES = "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "api").glob("*.rst")))
PATHS = [path for path in sorted((ROOT / "dpmpc").rglob("*.py")) if ROOT / "dpmpc" / "protocols" not in path.parents]
PATHS += sorted((ROOT / "protocols").glob("*.py"))
BESIDE = [
    *sorted((ROOT / "bench").rglob("*.py")),
    *sorted((ROOT / "tests").rglob("*.py")),
]  # nothing of them is exported
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PATHS}
Defined = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def module_of(path: Path) -> str:
    """Return the name under which a module is imported."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return f"dpmpc.{name}" if path.parent == ROOT / "protocols" else name


def listed(tree: ast.Module) -> set[str]:
    """Return the names of a module's `__all__`."""
    lists = [node.value for node in tree.body if isinstance(node, ast.Assign) and "__all__" in ast.unparse(node)]
    return {name.value for value in lists for name in ast.walk(value) if isinstance(name, ast.Constant)}


def is_drawn(path: Path) -> bool:
    """Whether all public names of a module are exported: those of the cast, and of modules that the site draws."""
    module = module_of(path)
    return module in re.findall(r"automodule:: (\S+)", PAGES) or (module.count(".") == 1 and path.stem != "__init__")


def exported() -> set[str]:
    """Return the names of all classes and functions that are exported, and of the classes that those inherit from."""
    names = {name.rpartition(".")[2] for name in re.findall(r"autoclass:: (\S+)", PAGES)}
    bases: dict[str, set[str]] = {}
    for path, tree in TREES.items():
        if path.stem == "__init__":
            names |= listed(tree)
        if is_drawn(path):
            names |= {node.name for node in tree.body if isinstance(node, Defined)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                parts = [part for base in node.bases for part in ast.walk(base)]
                used = {part.id for part in parts if isinstance(part, ast.Name)}
                bases.setdefault(node.name, set()).update(used)
    waiting = list(names)
    while waiting:
        new = bases.get(waiting.pop(), set()) - names
        names |= new
        waiting += new
    return names


EXPORTED = exported()


def internal(node: ast.AST, *, public: bool | None = None) -> Iterator[Defined]:
    """Find the definitions in a node that are not exported; of an exported class, only its private methods."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Defined):
            continue
        private = child.name.startswith("_") and not child.name.startswith("__")
        shown = not private and (
            child.name in EXPORTED if public is None else public and isinstance(node, ast.ClassDef)
        )
        if not shown:
            yield child
        yield from internal(child, public=shown)


def check_sections(defined: Iterable[Defined]) -> None:
    """Refuse sections in the docstrings of definitions that are not exported."""
    found = [f"{node.name}, line {node.lineno}" for node in defined if SECTION.search(docstring(node))]
    assert not found, f"sections in the docstrings of internals: {found}"


def test_sections_stand_at_exported_names_only():
    """What mypy and the reader need of others stands in their signatures, and in comments at the line."""
    check_each(lambda path: check_sections(internal(TREES[path])), PATHS)


def test_benches_and_tests_have_no_sections():
    def check(path):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        check_sections(node for node in ast.walk(tree) if isinstance(node, Defined))

    check_each(check, BESIDE)


def docstring(node: Defined) -> str:
    """Return the docstring of a definition, or nothing."""
    return ast.get_docstring(node) or ""


def test_a_section_of_an_internal_is_noticed():
    tree = ast.parse('def _helper():\n    """Add.\n\n    Raises\n    ------\n    ValueError\n        Always.\n    """')
    assert [node.name for node in internal(tree) if SECTION.search(docstring(node))] == ["_helper"]
