"""The blocks of code on a page of the docs, and how they run.

A page runs from top to bottom in a folder of its own, with a ``people.csv`` in it. Blocks of ``python`` share their
names; blocks of ``sh`` are given to bash. A comment on the line before a block says what else is to be done with it::

    <!-- file: bounds.toml -->      the block is that file, and is written
    <!-- not run: it takes hours --> the block only has to be there, and this is why

A block of ``text`` is output: each of its lines has to be a line that the blocks before it have printed, in the same
order, after each number is replaced by ``#``. A line that ends in ``...`` has to be the beginning of one. Where nothing
prints it, the line before the block has ``<!-- not output: why -->``. Other blocks are not code: ``toml``, and MyST's
directives, ``{...}``. Every block says what it is.
"""

import contextlib
import dataclasses
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REASONS = {"not run", "not output"}
KINDS = {"python", "sh", "toml", "text"}
SECONDS = 200
DRAWN = re.compile(r"<!-- ([\w-]+): drawn from bench/results -->.*?<!-- end of \1 -->", re.DOTALL)
_NUMBER = re.compile(
    r"(?:< )?[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?|(?<!\S)-(?!\S)"
)  # or the dash of a missing one
_BLOCK = re.compile(r"(?:<!-- ([^\n]*) -->\n)?^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block."""

    kind: str  # what its first line says that it is
    code: str  # its lines
    line: int  # where its code begins on the page
    file: str | None = None  # the file that it is; why it is not run, or is not output
    reason: str | None = None


def load(path):
    """Import a file that is in no package."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def pages_with_code():
    """Return the pages that have blocks which run."""
    return [page for page in PAGES if any(runs(block) for block in blocks(page.read_text()))]


def runs(block):
    return block.kind in ("python", "sh") and block.reason is None


def blocks(text):
    """Return a page's blocks in order."""
    found = []
    for match in _BLOCK.finditer(text):
        comment, kind, code = match.groups()
        name, _, value = (comment or "").partition(": ")
        line = text.count("\n", 0, match.start(3)) + 1
        found.append(
            Block(kind, code, line, value if name == "file" else None, value if name in REASONS else None),
        )
    return found


def masked(line):
    """Return a line with one ``#`` for each run of numbers and blanks."""
    return " ".join(re.sub(r"#[#\s]*", "# ", _NUMBER.sub("#", line.strip())).split())


def not_printed(shown, printed):
    """Return the lines of a block of output that were not printed, in this order."""
    rest, missing = [masked(line) for line in printed.splitlines()], []
    for line in shown.splitlines():
        wanted, is_whole = masked(line.rstrip().removesuffix("...")), not line.rstrip().endswith("...")
        places = (at for at, one in enumerate(rest) if one == wanted or (not is_whole and one.startswith(wanted)))
        at = next(places, None) if wanted else -1
        if at is None:
            missing.append(line)
        else:
            rest = rest[at + 1 :]
    return missing


def code_left_out(text):
    """Return a page without its blocks."""
    return _BLOCK.sub("", text)


def run_page(page, folder, commands=Path(sys.executable).parent):
    """Run a page's blocks in a folder, in which `examples` leads to the repository's; errors name page and line.

    The shell finds `dpmpc` in the folder `commands`. Return the lines of output that are shown and were not printed.
    """
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "people.csv").write_text(people())
    scope, printed, wrong = {"__name__": "__main__"}, "", []
    for block in blocks(page.read_text()):
        if block.reason is not None:
            continue
        if block.file is not None:
            (folder / block.file).write_text(block.code)
        elif block.kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), scope)
            printed += out.getvalue()
        elif block.kind == "sh":
            printed += run_shell(block.code, folder, commands, f"{page.name}, line {block.line}")
        elif block.kind == "text":
            wrong += [f"{page.name}:{block.line}: {line}" for line in not_printed(block.code, printed)]
    return wrong


def people(count=2000):
    """Return a table of generated people, CSV."""
    rng = np.random.default_rng(0)
    age, hours = rng.integers(18, 80, count), rng.uniform(0, 80, count).round(1)
    income = (0.25 * age + 0.6 * hours + rng.normal(0, 6, count)).round(2)
    return "\n".join(["age,hours,income", *(f"{a},{h},{i}" for a, h, i in zip(age, hours, income, strict=True))]) + "\n"


def run_shell(code, folder, commands, where):
    """Give a block to bash, with these commands first and those of this environment next; return what it prints."""
    environment = {**os.environ, "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{where}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
