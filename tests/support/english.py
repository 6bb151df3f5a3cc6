"""The words that plain English does without, by kind; pages, docstrings and messages are searched for them."""

import ast
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


def docstrings_and_messages(path: Path) -> str:
    """Return the docstrings of a module and those of its strings that have a space, a line for each."""
    strings = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    return "\n".join(text for text in strings if isinstance(text, str) and " " in text)


def mannered(text: str) -> int:
    """Count the mannered words of a text, of all kinds."""
    return sum(len(re.findall(pattern, text)) for pattern in MANNERED.values())
