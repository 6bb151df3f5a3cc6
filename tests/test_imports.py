"""What is imported before it is needed: bounds on modules, which do not depend on the machine as seconds do."""

import json
import subprocess
import sys

import pytest

HEAVY = ("sklearn", "scipy", "mpyc", "matplotlib", "pyarrow", "pandas", "dask", "numpy", "cryptography", "asyncio")
FOR_ANALYSTS = ("sklearn", "scipy", "matplotlib", "pyarrow", "pandas", "dask", "rich")


def imported_by(module):
    """Top-level names of the modules that a fresh interpreter has after one import."""
    code = f"import {module}, json, sys; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["dpmpc", "dpmpc.cli.main"])
def test_heavy_modules_are_imported_when_they_are_used(module):
    assert not imported_by(module) & set(HEAVY)


@pytest.mark.parametrize("program", ["ridge_regression", "low_rank_approximation", "frequency_moments"])
def test_a_server_imports_nothing_that_only_an_analyst_needs(program):
    found = imported_by(f"dpmpc.network.party, dpmpc.protocols.{program}")
    assert not found & set(FOR_ANALYSTS)
    assert "mpyc" in found
