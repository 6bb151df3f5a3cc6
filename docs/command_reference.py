"""The directive ``{commands}``: every command of `dpmpc`, drawn from the parsers that read it."""

from __future__ import annotations

import argparse
import re

from docutils import nodes
from docutils.parsers.rst import Directive

from dpmpc.cli.main import parser
from dpmpc.cli.parsing import EXAMPLES

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


def command(name: str, text: str, described: argparse.ArgumentParser) -> nodes.section:
    """Return what one command does and takes."""
    part = section(f"dpmpc {name}", f"command-{name}")
    part += paragraph(f"{text[:1].upper()}{text[1:]}.")
    if described.description:
        part += paragraph(described.description)
    usage = " ".join(described.format_usage().removeprefix("usage: ").split())
    part += nodes.literal_block(usage, usage, language="sh")
    for group in described._action_groups:
        actions = [action for action in group._group_actions if action.help is not SUPPRESSED and action.dest != "help"]
        if not actions:
            continue
        if group.title not in ("positional arguments", "options"):
            part += nodes.paragraph("", "", nodes.strong(text=group.title or ""))
        listed = nodes.definition_list()
        for action in actions:
            listed += option(described, action)
        part += listed
    if name in EXAMPLES:
        part += nodes.paragraph(text="Example:")
        part += nodes.literal_block(EXAMPLES[name], EXAMPLES[name], language="sh")
    return part


def option(described: argparse.ArgumentParser, action: argparse.Action) -> nodes.definition_list_item:
    """Return how an option is written, and what it means."""
    formatter = described._get_formatter()
    written = formatter._format_action_invocation(action)
    choices = "" if not action.choices or action.metavar is None else f" ({', '.join(map(str, action.choices))})"
    term = nodes.term("", "", nodes.literal(text=written + choices))
    if action.required and action.option_strings:
        term += nodes.Text(" required")
    meaning = paragraph(formatter._expand_help(action) if action.help else "")
    return nodes.definition_list_item("", term, nodes.definition("", meaning))


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
