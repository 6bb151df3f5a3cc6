"""Pages of the site that are written from TOML files: an extension of Sphinx."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
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
SUBJECTS = {
    "sketches": "Noise for a sketch",
    "one-copy": "One noisy copy a client",
    "integers": "Integers",
    "composition": "Several releases",
    "moments": "Second moments",
    "regression": "Regressions in rounds",
    "cells": "Cells: histograms, quantiles and survival",
    "columns": "Parties with different columns",
    "curators": "Mechanisms of other papers",
    "proofs": "Proofs that reports are well formed",
    "game": "Collections",
}
PAPERS = {
    "sketching": "Secure sketching: Burkhardt, Keller, Orlandi and Schwiegelshohn (ICML 2025)",
    "columns": "Multi-party data release: Wu et al. (UAI 2022)",
    "midp": "Random projections and additive noise: Showkatbakhsh, Karakus and Diggavi (ISIT 2018)",
    "coinpress": "CoinPress: Biswas, Dong, Kamath and Ullman (2020), with the extension by Ediger (2021)",
}


def setup(app: Any) -> None:
    """Have Sphinx call `write_lists` for each page that it reads."""
    app.connect("source-read", write_lists)


def write_lists(app: Any, docname: str, source: list[str]) -> None:
    """Write a list where its page has the mark; what Sphinx calls when it has read a page.

    Parameters
    ----------
    app : Sphinx
        Not used.
    docname : str
        Name of the page.
    source : list of str
        Its text, which is replaced.
    """
    lists = {
        "threats": ("<!-- threats -->", threats),
        "theory/index": ("<!-- theorems -->", theorems),
        "papers": ("<!-- papers -->", papers),
    }
    if docname in lists:
        mark, written = lists[docname]
        source[0] = source[0].replace(mark, written())


def threats() -> str:
    """Return the threats of threats.toml, by adversary."""
    listed = tomllib.loads((HERE / "threats.toml").read_text())["threat"]
    lines = []
    for adversary, title in ADVERSARIES.items():
        lines.append(f"## {title}\n")
        for threat in (threat for threat in listed if threat["adversary"] == adversary):
            remains = f" **Remains:** {threat['remains']}" if "remains" in threat else ""
            lines.append(
                f"**{threat['id']}. {threat['title']}** ({threat['status']}). {threat['defence']}{remains} "
                f"*{_counted(threat['tests'])}*\n"
            )
    return "\n".join(lines)


def theorems() -> str:
    """Return the theorems of theory/theorems.toml, by the file of the report that has their proof."""
    listed = tomllib.loads((HERE / "theory" / "theorems.toml").read_text())["theorem"]
    lines = []
    for proof, title in SUBJECTS.items():
        lines.append(f"## {title}\n")
        for theorem in (theorem for theorem in listed if theorem["proof"] == proof):
            code = ", ".join(f"`{place.rpartition(':')[2]}`" for place in theorem["code"])
            checked = f" *{theorem['checked']}.*" if "checked" in theorem else ""
            # an anchor for each label, so that other pages can link to a theorem
            lines.append(
                f"({theorem['label']})=\n**{theorem['label']}.** {theorem['statement']}{checked} "
                f"*Code: {code}; {_counted(theorem['tests'])}.*\n"
            )
    return "\n".join(lines)


def papers() -> str:
    """Return the items of papers.toml, by paper, with links to results and the pictures drawn from them."""
    listed = tomllib.loads((HERE / "papers.toml").read_text())["item"]
    lines = []
    for paper, title in PAPERS.items():
        lines.append(f"## {title}\n")
        for item in (item for item in listed if item["paper"] == paper):
            places = ", ".join(f"`{place}`" for place in item["where"])
            pages = "".join(f", [{name}](../bench/results/{name}.md)" for name in item.get("results", []))
            lines.append(f"**{item['item']}** ({item['verdict']}). {item['finding']} *{places}{pages}*\n")
            if "picture" in item:
                lines.append(f"![{item['item']}](../bench/results/{item['picture']}.png)\n")
    return "\n".join(lines)


def _counted(tests: list[str]) -> str:
    return f"{len(tests)} {'test' if len(tests) == 1 else 'tests'}"
