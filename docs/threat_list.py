"""The threats of threats.toml as a page of the site, by adversary: an extension of Sphinx."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ADVERSARIES = {
    "network": "The network and strangers",
    "client": "Clients",
    "server": "Servers",
    "operator": "Operators and their machines",
    "accident": "Disks and crashes",
    "proxy": "Web endpoints and proxies",
    "reader": "Files and readers",
    "owner": "Data owners",
    "preparer": "Prepared folders",
}


def setup(app: Any) -> None:
    """Have Sphinx call `list_threats` for each page that it reads."""
    app.connect("source-read", list_threats)


def list_threats(app: Any, docname: str, source: list[str]) -> None:
    """Write the threats where their page has the mark; what Sphinx calls when it has read a page.

    Parameters
    ----------
    app : Sphinx
        Not used.
    docname : str
        Name of the page.
    source : list of str
        Its text, which is replaced.
    """
    if docname != "threats":
        return
    threats = tomllib.loads((Path(__file__).parent / "threats.toml").read_text())["threat"]
    lines = []
    for adversary, title in ADVERSARIES.items():
        lines.append(f"## {title}\n")
        for threat in (threat for threat in threats if threat["adversary"] == adversary):
            remains = f" **Remains:** {threat['remains']}" if "remains" in threat else ""
            count = len(threat["tests"])
            lines.append(
                f"**{threat['id']}. {threat['title']}** ({threat['status']}). {threat['defence']}{remains} "
                f"*{count} {'test' if count == 1 else 'tests'}*\n"
            )
    source[0] = source[0].replace("<!-- threats -->", "\n".join(lines))
