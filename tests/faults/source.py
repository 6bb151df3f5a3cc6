"""Functions of a source file by name: where each begins and ends, and a hash that comments and layout do not change."""

from __future__ import annotations

import ast
import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Function:
    """A function, or what a class or a module holds outside its functions (`name` is then that of the class, or empty).

    Attributes
    ----------
    name : str
        The qualified name within the module, such as `Gaussian.mu`.
    node : ast.AST
        Its syntax tree.
    """

    name: str
    node: ast.AST

    @property
    def digest(self) -> str:
        """A hash of the code without comments, layout, docstrings and messages of errors, to find a verdict again."""
        bare = self.code()
        for node in ast.walk(bare):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                node.exc.args, node.exc.keywords = [], []
        return hashlib.sha256(ast.dump(bare).encode()).hexdigest()[:16]

    def code(self) -> ast.Module:
        """Return a copy of the code without comments, layout and docstrings."""
        copy = ast.parse(ast.unparse(self.node))
        for node in ast.walk(copy):
            if isinstance(node, Definition | ast.Module) and ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
        return copy


def functions_in(tree: ast.Module) -> list[Function]:
    """Return the module, its classes and its functions, outer ones first."""
    listed = [Function("", tree)]

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, Definition):
                listed.append(Function(prefix + child.name, child))
                inner = f"{prefix}{child.name}."
            visit(child, inner)

    visit(tree, "")
    return listed


@functools.cache
def text_of(file: str) -> str:
    """Read a file of the checkout."""
    return (ROOT / file).read_text()


@functools.cache
def tree_of(file: str) -> ast.Module:
    """Parse a file of the checkout."""
    return ast.parse(text_of(file))


@functools.cache
def functions_of(file: str) -> dict[str, Function]:
    """Return the functions of a file of the checkout by name; of two with one name (a property's setter) the first."""
    return {function.name: function for function in reversed(functions_in(tree_of(file)))}


def function_at(file: str, line: int) -> Function:
    """Return the innermost function that holds a line, counted from 1."""
    return _by_line(file)[line - 1]


@functools.cache
def _by_line(file: str) -> list[Function]:
    """Return the innermost function of each line."""
    module, *inner = functions_in(tree_of(file))
    holding = [module] * (text_of(file).count("\n") + 1)
    for function in inner:  # outer ones first
        first, last = _first_line(function.node), function.node.end_lineno or 0
        holding[first - 1 : last] = [function] * (last - first + 1)
    return holding


def _first_line(node: Any) -> int:
    return int(min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]))
