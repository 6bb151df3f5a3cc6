"""The one table of the kernels: one choice of an instruction set, which all of them follow."""

import platform
import tomllib
from pathlib import Path

import pytest

from dpmpc._kernels import arithmetic, dense, dispatch, sketch
from support.matrix_inputs import each_instruction_set

SETS = tomllib.loads((Path(__file__).parent.parent / "csrc" / "instruction_sets.toml").read_text())["sets"]
instruction_set = each_instruction_set(dispatch)


def test_the_best_of_what_was_compiled_is_chosen():
    here = dispatch.instruction_sets()
    compiled = [*SETS["portable"], *SETS.get(platform.machine(), {})]
    assert here == tuple(compiled[: len(here)])
    assert dispatch.instruction_set() == here[-1]


def test_all_kernels_follow_one_choice(instruction_set):
    assert dispatch.instruction_set() == arithmetic.instruction_set() == instruction_set
    for kernel in (arithmetic, dense, sketch):
        assert kernel.instruction_sets() == dispatch.instruction_sets()
        kernel.use_instruction_set("portable")
        assert dispatch.instruction_set() == arithmetic.instruction_set() == "portable"
        kernel.use_instruction_set(instruction_set)
        assert dispatch.instruction_set() == instruction_set


def test_an_instruction_set_that_is_not_there_changes_nothing():
    before = dispatch.instruction_set()
    with pytest.raises(ValueError, match="not in tuple"):
        dispatch.use_instruction_set("sse9")
    assert dispatch.instruction_set() == before
