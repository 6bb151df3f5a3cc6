"""The kernels' stubs against the compiled modules: the same public names, the same parameters in the same order."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

from dpmpc import _kernels
from support.lints import check_each

FOLDER = Path(_kernels.__path__[0])
KERNELS = sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]) if not module.name.startswith("_"))


def stub_of(kernel):
    """Functions and classes of a stub, by name."""
    tree = ast.parse((FOLDER / f"{kernel}.pyi").read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def parameters_of(node):
    """Names of a stubbed function's parameters, all of which have to be plain, typed and without default."""
    given = node.args
    assert not any((given.posonlyargs, given.kwonlyargs, given.vararg, given.kwarg, given.defaults)), node.name
    names = [argument.arg for argument in given.args]
    assert all(argument.annotation for argument in given.args if argument.arg != "self"), node.name
    assert node.returns, node.name
    return names


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_there_are_kernels_and_each_has_a_stub():
    assert KERNELS
    assert sorted(path.stem for path in FOLDER.glob("*.pyi")) == KERNELS


def check_names(kernel):
    module = importlib.import_module(f"dpmpc._kernels.{kernel}")
    stub = stub_of(kernel)
    assert public(stub) == public(vars(module))
    for name, node in stub.items():
        assert inspect.isclass(getattr(module, name)) == isinstance(node, ast.ClassDef)


def test_a_stub_has_all_public_names_and_no_others():
    check_each(check_names, KERNELS)


def check_functions(kernel):
    module = importlib.import_module(f"dpmpc._kernels.{kernel}")
    for name, node in stub_of(kernel).items():
        if isinstance(node, ast.FunctionDef):
            assert parameters_of(node) == list(inspect.signature(getattr(module, name)).parameters), name


def test_functions_have_the_stub_parameters():
    check_each(check_functions, KERNELS)


def check_classes(kernel):
    module = importlib.import_module(f"dpmpc._kernels.{kernel}")
    for name, node in stub_of(kernel).items():
        if not isinstance(node, ast.ClassDef):
            continue
        compiled = getattr(module, name)
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        assert public(methods) == public(vars(compiled)), name
        for method in public(methods):
            found = list(inspect.signature(getattr(compiled, method)).parameters)
            assert parameters_of(methods[method]) == found, f"{name}.{method}"
        check_constructor(compiled, parameters_of(methods["__init__"])[1:])


def test_classes_have_the_stub_methods_and_parameters():
    check_each(check_classes, KERNELS)


def check_constructor(compiled, names):
    """A compiled class shows no signature, but says which names it does not know and how many values it takes."""
    with pytest.raises((TypeError, ValueError, AttributeError)) as refused:
        compiled(**dict.fromkeys(names))
    assert "keyword" not in str(refused.value)
    assert "argument" not in str(refused.value) or "takes" not in str(refused.value)
    for wrong in ([*names, "surplus"], names[:-1]):
        with pytest.raises(TypeError, match=r"takes|unexpected keyword"):
            compiled(**dict.fromkeys(wrong))
    with pytest.raises(TypeError, match="takes"):
        compiled(*[None] * (len(names) + 1))
