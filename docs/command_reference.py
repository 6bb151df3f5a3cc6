"""The directive ``{commands}``: every command of `dpmpc`, drawn from the parsers that read it."""

from __future__ import annotations

import argparse
import re

from docutils import nodes
from docutils.parsers.rst import Directive

from dpmpc.app.cli.fit import FITTED
from dpmpc.app.cli.main import parser
from dpmpc.app.cli.model_options import options_by_model
from dpmpc.app.cli.parsing import EXAMPLES, Parser

SUPPRESSED = argparse.SUPPRESS
OPTION = re.compile(r"(--[a-z][a-z-]*)")


class Commands(Directive):
    """Write a section for each group of commands, in it one for each command: usage, options, example."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        top = parser()
        found = []
        for title, commands in top.grouped().items():
            group = section(f"{title[:1].upper()}{title[1:]}", f"group-{title}")
            for label, text in commands:
                name = label.partition(" ")[0]
                group += command(name, text, top.commands.choices[name])
            found.append(group)
        return found


def section(title: str, identifier: str) -> nodes.section:
    """Return a section that can be linked to."""
    return nodes.section("", nodes.title(text=title), ids=[nodes.make_id(identifier)])


def command(name: str, text: str, described: Parser) -> nodes.section:
    """Return what one command does and takes."""
    part = section(f"dpmpc {name}", f"command-{name}")
    part += paragraph(f"{text[:1].upper()}{text[1:]}.")
    if described.description:
        part += paragraph(described.description)
    usage = " ".join(described.format_usage().removeprefix("usage: ").split())
    part += nodes.literal_block(usage, usage, language="sh")
    models = options_by_model({"fit": FITTED, "describe": ("table-one",)}.get(name, ()))
    for title, actions in {**described.sections, **models}.items():
        shown = [action for action in actions if action.help is not SUPPRESSED and action.dest != "help"]
        if title and shown:
            part += nodes.paragraph("", "", nodes.strong(text=title))
        for kind in ([one for one in shown if not one.option_strings], [one for one in shown if one.option_strings]):
            if kind:
                part += nodes.definition_list("", *map(option, kind))
    if name in EXAMPLES:
        part += nodes.paragraph(text="Example:")
        part += nodes.literal_block(EXAMPLES[name], EXAMPLES[name], language="sh")
    return part


def option(action: argparse.Action) -> nodes.definition_list_item:
    """Return how an option is written, and what it means."""
    values = values_of(action)
    written = ", ".join(f"{name} {values}".strip() for name in action.option_strings) or values
    choices = "" if not action.choices or action.metavar is None else f" ({', '.join(map(str, action.choices))})"
    term = nodes.term("", "", nodes.literal(text=written + choices))
    if action.required and action.option_strings:
        term += nodes.Text(" required")
    meaning = paragraph((action.help or "") % vars(action))
    return nodes.definition_list_item("", term, nodes.definition("", meaning))


def values_of(action: argparse.Action) -> str:
    """Return what stands behind the name of an option, or in the place of an argument without one."""
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    one = action.metavar or choices or (action.dest.upper() if action.option_strings else action.dest)
    if not action.option_strings:
        return one
    if isinstance(action.nargs, int):
        return " ".join([one] * action.nargs)
    return {"+": f"{one} [{one} ...]", "*": f"[{one} ...]", "?": f"[{one}]"}.get(str(action.nargs), one)


def paragraph(text: str) -> nodes.paragraph:
    """Return a paragraph in which options such as --rows are code: two dashes would else become one long one."""
    parts = [
        nodes.literal(text=part) if number % 2 else nodes.Text(part) for number, part in enumerate(OPTION.split(text))
    ]
    return nodes.paragraph("", "", *parts)


def setup(app):
    """Make the directive known."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
