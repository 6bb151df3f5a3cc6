"""The words that plain English does without, by kind; pages, docstrings and messages are searched for them."""

import ast
import functools
import re
from pathlib import Path

MANNERED = {
    "indefinite actor": r"\b(?:whoever|whomever|nobody|somebody|anybody|everybody)\b",
    "talking things": r"\b(?:says?|said|tells?|told|speaks?|asks? for|knows?)\b",
    "mannered idiom": r"\b(?:in place of|beside|is named|names? whom|makes way|the thief|a word of"
    r"|of (?:its|their|one's) own|plays? (?:clients|everybody|a collection)|is played|has to be|have to be"
    r"|what is promised|stays closed)\b",
    "bare decimal": r"(?<![\w.])\.\d",
    "history": r"\b[Vv]ersions? 0\.\d|\bnot yet\b|\bno longer\b|\bused to\b",
}
PRIVATE = {"found", "told", "kept", "shown", "one", "own", "heard", "said"}


def per_thousand(kind: str, text: str) -> float:
    """Return how many of 1,000 words of a text are mannered in this way."""
    return 1000 * len(re.findall(MANNERED[kind], text)) / len(text.split())


@functools.cache
def english_of(paths: tuple[Path, ...]) -> tuple[str, str]:
    """Return the docstrings of modules, and their other strings that have a space."""
    docstrings, messages = [], []
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                docstrings.append(str(node.value.value))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                messages.append(node.value)
    return "\n".join(docstrings), "\n".join(set(messages) - set(docstrings))


def private_words(path: Path) -> list[str]:
    """Return the variables and parameters of a module whose names are no nouns of the domain."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return sorted({*names, *(node.arg for node in nodes if isinstance(node, ast.arg))} & PRIVATE)
