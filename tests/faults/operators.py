"""Faults that operators make: another comparison, constant or sign, or a check that is left out.

Cosmic Ray makes them from the syntax tree; two operators of our own leave out checks. Nothing is listed by hand: a
fault is the n-th use of an operator in a function, so that it follows the code. The sample is fixed by hashes of these
names, so that a change to one function changes the faults of that function alone.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

from faults.source import ROOT, function_at, text_of, tree_of

#: The code that privacy rests on, and that the tests of the same rooms reach in full (`make core`).
ROOMS = ("dpmpc/privacy", "dpmpc/linear")

COMPARISONS = ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")
SIGNS = (
    *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Mul", "Mod_FloorDiv"),
    *("LShift_RShift", "RShift_LShift", "BitAnd_BitOr", "BitOr_BitAnd"),
)


class DropCheck(Operator):
    """Leave out an `if` whose first statement raises: its condition becomes False."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the place of the condition."""
        if isinstance(node, parso.python.tree.IfStmt) and _first_word(node.children[3]) == "raise":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Replace the condition."""
        node.children[1] = parso.python.tree.Keyword("False", node.children[1].start_pos, prefix=" ")
        return node

    @classmethod
    def examples(cls) -> Sequence[Any]:
        """Return none; Cosmic Ray tests its own operators with these."""
        return ()


class DropCall(Operator):
    """Leave out a statement that only calls a function, such as `require_sizes(values)`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the place of the call."""
        called = node.type == "simple_stmt" and node.children[0].type in ("atom_expr", "power", "await")
        if called and getattr(node.children[0].children[-1], "type", "") == "trailer":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Replace the call."""
        call = node.children[0]
        node.children[0] = parso.python.tree.Keyword("pass", call.start_pos, prefix=call.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> Sequence[Any]:
        """Return none; Cosmic Ray tests its own operators with these."""
        return ()


def _first_word(suite: Any) -> str:
    leaf = suite.get_first_leaf()
    while leaf.type in ("newline", "indent"):
        leaf = leaf.get_next_leaf()
    return str(leaf.value)


def _library(name: str) -> Operator:
    return get_operator(f"core/{name}")()


OPERATORS: dict[str, Operator] = {
    **{f"compare {name}": _library(f"ReplaceComparisonOperator_{name}") for name in COMPARISONS},
    **{f"sign {name}": _library(f"ReplaceBinaryOperator_{name}") for name in SIGNS},
    "sign minus": _library("ReplaceUnaryOperator_Delete_USub"),
    "drop not": _library("ReplaceUnaryOperator_Delete_Not"),
    "add not": _library("AddNot"),
    "and to or": _library("ReplaceAndWithOr"),
    "or to and": _library("ReplaceOrWithAnd"),
    "constant": _library("NumberReplacer"),
    "true to false": _library("ReplaceTrueWithFalse"),
    "false to true": _library("ReplaceFalseWithTrue"),
    "drop check": DropCheck(),
    "drop call": DropCall(),
}


@dataclass(frozen=True)
class OperatorFault:
    """The use of an operator at one place.

    Attributes
    ----------
    file, function : str
        Where the fault is made; `function` is a qualified name.
    operator : str
        A key of `OPERATORS`.
    use : int
        Which of the places in this function, from 0.
    line : int
        The line of the place, which follows the code and does not name the fault.
    place : int
        Which of the places in this file, as Cosmic Ray counts them.
    """

    file: str
    function: str
    operator: str
    use: int
    line: int
    place: int
    must_be_noticed: ClassVar[bool] = False  # it may change nothing
    noticed_by: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """Return what names the fault among all."""
        return f"{self.file}:{self.function}: {self.operator} {self.use}"

    def mutated(self) -> str:
        """Return the text of the file with the fault."""
        mutated = mutate_code(text_of(self.file), OPERATORS[self.operator], self.place)
        if mutated is None:
            raise ValueError(
                f"{self.name}: place {self.place} of {self.operator} given, one that the file has expected"
            )
        return str(mutated)

    @property
    def change(self) -> str:
        """Return the line before and after."""
        lines = zip(text_of(self.file).splitlines(), self.mutated().splitlines(), strict=False)
        before, after = next((before.strip(), after.strip()) for before, after in lines if before != after)
        return f"`{before}` becomes `{after}`"


def _is_expression(node: Any) -> bool:
    """Return whether the fault is another program: not for the stars of arguments, nor before `:=`."""
    if node.type == "operator":
        return node.parent.type in (
            "term",
            "arith_expr",
            "power",
            "shift_expr",
            "and_expr",
            "expr",
            "xor_expr",
            "factor",
        )
    if node.type == "number":  # 1e100 + 1 is 1e100
        return bool(ast.literal_eval(node.value) + 1 != ast.literal_eval(node.value))
    return not (node.type in ("if_stmt", "while_stmt") and node.children[1].type == "namedexpr_test")


Place = tuple[int, int]


def _left_out(file: str) -> list[tuple[Place, Place]]:
    """Return where messages and types begin and end, on which no promise rests."""
    nodes: list[ast.expr | None] = []
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Raise):
            nodes.append(node.exc)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            nodes.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes.append(node.returns)
    text = text_of(file).splitlines()

    def place(line: int, byte: int) -> Place:
        return line, len(text[line - 1].encode()[:byte].decode())

    return [
        (place(node.lineno, node.col_offset), place(node.end_lineno or 0, node.end_col_offset or 0))
        for node in nodes
        if node is not None
    ]


@functools.cache
def faults_of(file: str) -> tuple[OperatorFault, ...]:
    """Return every fault that an operator can make in a file."""
    nodes, left_out = list(ast_nodes(get_ast(text_of(file)))), _left_out(file)
    faults = []
    for key, operator in OPERATORS.items():
        uses: Counter[str] = Counter()
        places = [(start, node) for node in nodes for start, _ in operator.mutation_positions(node)]
        for place, (start, node) in enumerate(places):
            function = function_at(file, start[0]).name
            if not any(first <= start < last for first, last in left_out) and _is_expression(node):
                faults.append(OperatorFault(file, function, key, uses[function], start[0], place))
            uses[function] += 1
    return tuple(faults)


def all_faults() -> list[OperatorFault]:
    """Return every fault that an operator can make in the rooms that privacy rests on."""
    paths = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return [fault for path in paths for fault in faults_of(path.relative_to(ROOT).as_posix())]


def sample(size: int) -> list[OperatorFault]:
    """Return a sample that stays the same for all code that stays the same: the faults with the least hashes."""

    def rank(fault: OperatorFault) -> bytes:
        return hashlib.sha256(fault.name.encode()).digest()

    return sorted(sorted(all_faults(), key=rank)[:size], key=lambda fault: (fault.file, fault.line, fault.name))
