"""Faults that no operator makes, by the name of their function: a key used twice, a message sent before it is kept.

A fault gives the code that it replaces (`old`) as one expression or as statements of the function, and what stands
there instead (`new`). Both are compared as syntax trees: layout does not matter, and a local variable that has been
renamed since is recognised by its place. Kernels in C have no such tree, and their faults replace a text.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from faults.source import ROOT, functions_of, text_of

LISTS = Path(__file__).with_name("named")


@dataclass(frozen=True)
class NamedFault:
    """A fault in a function.

    Attributes
    ----------
    file, function : str
        Where the fault is made; `function` is a qualified name, and empty for a file in C or for code of the module.
    old, new : str
        What is replaced, and by what; an empty `new` leaves out statements.
    why : str
        What breaks.
    noticed_by : str
        The test that fails with this fault, `FILE::NAME`, in one of its cases.
    """

    file: str
    function: str
    old: str
    new: str
    why: str
    noticed_by: str
    must_be_noticed: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Return what names the fault among all."""
        return f"{self.file}:{self.function}: {self.why}"

    @property
    def change(self) -> str:
        """Return what is replaced, and by what."""
        return f"`{self.old}` becomes `{self.new}`"

    def mutated(self) -> str:
        """Return the text of the file with the fault.

        Raises
        ------
        ValueError
            If the function holds `old` less or more than once.
        """
        text = text_of(self.file)
        if not self.file.endswith(".py"):
            if text.count(self.old) != 1:
                raise ValueError(f"{self.name}: {self.old!r} occurs {text.count(self.old)} times, once expected")
            return text.replace(self.old, self.new)
        functions = functions_of(self.file)
        if self.function not in functions:
            raise ValueError(f"{self.name}: the file holds no {self.function!r}")
        places = list(places_of(self.old, functions[self.function].node))
        if len(places) != 1:
            raise ValueError(f"{self.name}: {self.old!r} occurs {len(places)} times, once expected")
        return spliced(text, *places[0], self.new)


def read() -> list[NamedFault]:
    """Read the lists."""
    contents = (tomllib.loads(path.read_text()) for path in sorted(LISTS.glob("*.toml")))
    return [NamedFault(**fields) for content in contents for fields in content["fault"]]


Renamed = dict[str, str]


def places_of(old: str, function: ast.AST) -> Iterator[tuple[Sequence[ast.AST], Renamed]]:
    """Yield where a function holds an expression or statements, with the new names of local variables."""
    pattern = ast.parse(old).body
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    local = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    local |= {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    single = pattern[0].value if len(pattern) == 1 and isinstance(pattern[0], ast.Expr) else None
    for nodes in _expressions(function) if single is not None else _statements(function, len(pattern)):
        renamed: Renamed = {}
        expected = [single] if single is not None else pattern
        if all(_unify(one, node, names, local, renamed) for one, node in zip(expected, nodes, strict=True)):
            yield nodes, renamed


def _expressions(node: ast.AST) -> Iterator[Sequence[ast.AST]]:
    """Yield each expression below a node; Python 3.11 gives no places within an f-string."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield [child]
        if not isinstance(child, ast.JoinedStr):
            yield from _expressions(child)


def _statements(node: ast.AST, count: int) -> Iterator[Sequence[ast.AST]]:
    """Yield each run of `count` statements below a node."""
    for inner in ast.walk(node):
        for block in (getattr(inner, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                yield from (block[start : start + count] for start in range(len(block) - count + 1))


def _unify(pattern: Any, node: Any, names: set[str], local: set[str], renamed: Renamed) -> bool:
    """Compare two trees; a name that the function has lost may stand for any one local variable."""
    if isinstance(pattern, ast.Name) and isinstance(node, ast.Name):
        if pattern.id in names or node.id not in local:
            return pattern.id == node.id
        return renamed.setdefault(pattern.id, node.id) == node.id
    if isinstance(pattern, ast.Raise) and isinstance(node, ast.Raise):  # messages may change
        return _raised(pattern) == _raised(node)
    if isinstance(pattern, ast.AST):
        fields = (field for field in pattern._fields if field not in ("ctx", "type_comment", "kind"))
        return type(pattern) is type(node) and all(
            _unify(getattr(pattern, field), getattr(node, field), names, local, renamed) for field in fields
        )
    if isinstance(pattern, list):
        pairs = zip(pattern, node, strict=False)
        return len(pattern) == len(node) and all(_unify(one, other, names, local, renamed) for one, other in pairs)
    return type(pattern) is type(node) and bool(pattern == node)


def _raised(node: ast.Raise) -> str:
    return ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc) if node.exc is not None else ""


def spliced(text: str, nodes: Sequence[Any], renamed: Renamed, new: str) -> str:
    """Replace nodes of a source text by new code, in which local variables get their new names."""
    tree = ast.parse(new)
    for name in (node for node in ast.walk(tree) if isinstance(node, ast.Name)):
        name.id = renamed.get(name.id, name.id)
    lines = text.encode().splitlines(keepends=True)
    first, last = nodes[0], nodes[-1]
    before = b"".join(lines[: first.lineno - 1]) + lines[first.lineno - 1][: first.col_offset]
    after = lines[last.end_lineno - 1][last.end_col_offset :] + b"".join(lines[last.end_lineno :])
    if isinstance(first, ast.expr):
        code = f"({ast.unparse(tree)})"
    else:
        code = (ast.unparse(tree) or "pass").replace("\n", "\n" + " " * first.col_offset)
    return (before + code.encode() + after).decode()


def exists(test: str) -> bool:
    """Return whether a test is defined."""
    file, *inner = test.split("::")
    return (ROOT / file).is_file() and f"def {inner[-1]}(" in (ROOT / file).read_text()
