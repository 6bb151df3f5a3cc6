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
    if docname in LISTS:
        mark, path, key, field, titles, entry = LISTS[docname]
        entries = tomllib.loads((HERE / path).read_text())[key]
        lines = []
        for group, title in titles.items():
            lines.append(f"## {title}\n")
            lines += [entry(fields) for fields in entries if fields[field] == group]
        source[0] = source[0].replace(mark, "\n".join(lines))


def threat(fields: dict[str, Any]) -> str:
    """Return a threat of threats.toml."""
    remains = f" **Remains:** {fields['remains']}" if "remains" in fields else ""
    return (
        f"**{fields['id']}. {fields['title']}** ({fields['status']}). {fields['defence']}{remains} "
        f"*{_counted(fields['tests'])}*\n"
    )


def theorem(fields: dict[str, Any]) -> str:
    """Return a theorem of theory/theorems.toml, with an anchor, so that other pages can link to it."""
    code = ", ".join(f"`{place.rpartition(':')[2]}`" for place in fields["code"])
    checked = f" *{fields['checked']}.*" if "checked" in fields else ""
    return (
        f"({fields['label']})=\n**{fields['label']}.** {fields['statement']}{checked} "
        f"*Code: {code}; {_counted(fields['tests'])}.*\n"
    )


def item(fields: dict[str, Any]) -> str:
    """Return an item of papers.toml, with links to its results and the picture drawn from them."""
    places = ", ".join(f"`{place}`" for place in fields["where"])
    pages = "".join(f", [{name}](../bench/results/{name}.md)" for name in fields.get("results", []))
    picture = f"\n![{fields['item']}](../bench/results/{fields['picture']}.png)\n" if "picture" in fields else ""
    return f"**{fields['item']}** ({fields['verdict']}). {fields['finding']} *{places}{pages}*\n{picture}"


def _counted(tests: list[str]) -> str:
    return f"{len(tests)} {'test' if len(tests) == 1 else 'tests'}"


# by page: its mark, the file, the key of its entries, the field that they are grouped by, titles of groups, an entry
LISTS = {
    "threats": ("<!-- threats -->", "threats.toml", "threat", "adversary", ADVERSARIES, threat),
    "theory/index": ("<!-- theorems -->", "theory/theorems.toml", "theorem", "proof", SUBJECTS, theorem),
    "papers": ("<!-- papers -->", "papers.toml", "item", "paper", PAPERS, item),
}
