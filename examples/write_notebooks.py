"""Write the notebooks from the programs beside them, without outputs.

A program is cut into cells by lines that begin with ``# %%``; after ``# %% [markdown]`` comments are text. It stays a
program: it can be run, read and compared line by line. ``# %% alt="..."`` says what the picture of a cell shows.

    python examples/write_notebooks.py
"""

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent
MARK, TEXT_MARK = "# %%", "# %% [markdown]"
ALT = re.compile(r' alt="([^"]+)"')
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def sources() -> list[Path]:
    """Return the programs that are cut into cells."""
    return [path for path in sorted(FOLDER.glob("*.py")) if path.read_text().startswith(MARK)]


def notebook(program: str) -> str:
    """Return the notebook, JSON, of a program."""
    cells = [_cell(number, part) for number, part in enumerate(("\n" + program).split("\n" + MARK)[1:])]
    fields = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, part: str) -> dict[str, object]:
    title, _, body = part.partition("\n")
    pictured = ALT.fullmatch(title)
    metadata = {"mystnb": {"image": {"alt": pictured[1]}}} if pictured else {}
    common = {"id": f"cell-{number}", "metadata": metadata}
    if title == TEXT_MARK.removeprefix(MARK):
        text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().split("\n"))
        return {"cell_type": "markdown", **common, "source": text.splitlines(keepends=True)}
    code = body.strip().splitlines(keepends=True)
    return {"cell_type": "code", **common, "execution_count": None, "outputs": [], "source": code}


if __name__ == "__main__":
    for path in sources():
        path.with_suffix(".ipynb").write_text(notebook(path.read_text()))
