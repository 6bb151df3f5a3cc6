"""A lint is one test, however much it looks at, and lists all that fails."""

import ast
import functools
from pathlib import Path

import pytest


def path_in_checkout(path):
    """Return the path of a file from the root of the checkout."""
    return str(path.relative_to(Path(__file__).parents[2]))


def check_each(check, things, name=str):
    """Check all of these, of which there has to be one; fail with the name and the fault of each that has one."""
    things = list(things)
    assert things, "nothing to check"
    found = []
    for thing in things:
        try:
            check(thing)
        except (Exception, SystemExit, pytest.fail.Exception) as fault:
            found.append(f"{name(thing)}: {type(fault).__name__}: {fault}")
    if found:
        raise AssertionError("\n".join([f"{len(found)} of {len(things)} fail:", *found]))


@functools.cache
def functions_in(name):
    """Return the names of the functions of all test files of that name."""
    trees = [ast.parse(path.read_text()) for path in Path(__file__).parents[1].rglob(name)]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}
