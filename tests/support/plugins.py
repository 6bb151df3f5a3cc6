"""The examples as a distribution of its own, installed in a folder that comes first on the path of imports."""

import contextlib
import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from unittest import mock

from dpmpc.base import plugins
from dpmpc.linear import noise, sketching
from support.pages import ROOT

EXAMPLES = ROOT / "examples"
MODULES = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())["tool"]["setuptools"]["py-modules"]


def install(folder, version="1.0", changed=""):
    """Install the examples in a folder, as a version, with a line more in each module; return the folder."""
    source, target = folder / f"source-{version}", folder / f"installed-{version}"
    source.mkdir(parents=True)
    project = (EXAMPLES / "pyproject.toml").read_text().replace('version = "1.0"', f'version = "{version}"')
    (source / "pyproject.toml").write_text(project)
    for module in MODULES:
        shutil.copy(EXAMPLES / f"{module}.py", source)
        with (source / f"{module}.py").open("a") as file:
            file.write(changed)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", "--target", str(target), str(source)], check=True, timeout=120)
    return target


@contextlib.contextmanager
def available(folder):
    """Have this process, and those that it starts, find what is installed in a folder; then nothing of it is left."""
    before = os.environ.get("PYTHONPATH")
    sys.path.insert(0, str(folder))
    _forget()
    try:
        with mock.patch.dict(os.environ, PYTHONPATH=f"{folder}:{before}" if before else str(folder)):
            yield
    finally:
        sys.path.remove(str(folder))
        _forget()


def _forget():
    importlib.invalidate_caches()
    plugins.declared.cache_clear()
    plugins.load.cache_clear()
    for kinds in (noise.FAMILIES, sketching.FAMILIES):
        for name in [name for name in kinds.data if kinds.data[name].origin is not None]:
            del kinds.data[name]
    for module in MODULES:
        sys.modules.pop(module, None)
