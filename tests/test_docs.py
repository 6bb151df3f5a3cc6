"""What the pages show is what runs; the notebooks run, and are those of their programs."""

import contextlib
import doctest
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import dpmpc
from dpmpc.app.cli.main import parser
from support.forks import command_folder
from support.lints import check_each, path_in_checkout
from support.pages import KINDS, PAGES, ROOT, Block, blocks, load, not_printed, pages_with_code, run_page, runs
from support.plugins import available

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SECONDS = 120


def check_blocks(page):
    for block in blocks(page.read_text()):
        assert block.kind in KINDS or block.kind.startswith("{"), f"{page}:{block.line}: {block.kind!r}"
        assert block.reason is None or len(block.reason.split()) > 2, f"{page}:{block.line}: no reason"


def test_every_block_says_what_it_is():
    check_each(check_blocks, PAGES, path_in_checkout)


def test_the_environment_of_a_checkout_has_one_installation():
    """A copy of the package beside the editable one of `make` would ignore changes, in protocols/ and everywhere."""

    def check(page):
        there = [block.code for block in blocks(page.read_text()) if block.kind == "sh" and ".venv" in block.code]
        assert [code for code in there if re.search(r"pip install (?!--editable)\S*\.\[", code)] == []

    check_each(check, PAGES, path_in_checkout)


def test_no_block_is_overlooked():
    def check(page):
        text = page.read_text()
        assert text.count("\n```") == 2 * len(blocks("\n" + text)) - text.startswith("```")

    check_each(check, PAGES, path_in_checkout)


@pytest.fixture(scope="module")
def commands():
    """A folder with a command `dpmpc` that starts at once."""
    with command_folder() as folder:
        yield folder


@pytest.mark.timeout(900)  # several programs one after the other, each of them bounded
@pytest.mark.parametrize("page", pages_with_code(), ids=path_in_checkout)
def test_the_blocks_of_a_page_run(page, commands, tmp_path, monkeypatch, examples_installed):
    """The README's commands have interpreters of their own; the examples are installed where a page says so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # a page may add to it
    installed = "pip install ./examples" in page.read_text()
    with available(examples_installed) if installed else contextlib.nullcontext():
        wrong = run_page(page, tmp_path, *([] if page.name == "README.md" else [commands]))
    assert wrong == [], "shown, and not printed"


def test_output_is_shown_only_where_a_block_prints_it():
    """A page of which nothing runs has no output either, unless a comment before it gives the reason."""

    def check(page):
        of_page = blocks(page.read_text())
        ran = [block.line for block in of_page if runs(block)]
        shown = [block.line for block in of_page if block.kind == "text" and block.reason is None]
        assert all(any(line < at for line in ran) for at in shown), f"output without a block: lines {shown}"

    check_each(check, PAGES, path_in_checkout)


def test_output_that_was_not_printed_is_noticed():
    printed = "column   value\nage   0.25  1,200\n(1, 1e-06)-private for 20 people\n"
    assert not_printed("age 0.31 1,199\n...\n(1, 1e-06)-private ...\n", printed) == []
    assert not_printed("(2, 1e-06)-private for 20 people\nage 0.31 1,199\n", printed) == ["age 0.31 1,199"]
    assert not_printed("column  other\n", printed) == ["column  other"]
    assert not_printed("F = 130.55, p", "F = 127, p") == []  # a whole number does not take the comma after it
    assert not_printed("age   0.25  1,200  3x\n", printed) == ["age   0.25  1,200  3x"]


PUBLIC = [
    name
    for name in sorted(set(dpmpc.__all__) - {"__version__"})
    if not (isinstance(getattr(dpmpc, name), type) and issubclass(getattr(dpmpc, name), Exception))
]


@pytest.mark.filterwarnings("ignore::dpmpc.UtilityWarning")
@pytest.mark.parametrize("public", PUBLIC)
def test_every_public_name_has_an_example_that_runs(public):
    described = getattr(dpmpc, public)
    examples = doctest.DocTestParser().get_doctest(described.__doc__, {}, public, None, None)
    assert examples.examples
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_the_command_reference_has_every_command_and_option():
    reference = load(ROOT / "docs" / "command_reference.py")
    for name, described in parser().commands.choices.items():
        shown = reference.command(name, "what it does", described).astext()
        assert f"dpmpc {name}" in shown
        for action in described.arguments:
            assert action.dest == "help" or all(option in shown for option in action.option_strings)


def test_a_wrong_block_is_noticed(tmp_path):
    for code in ("```python\n1 / 0\n```\n", "```sh\nfalse | cat\n```\n"):
        page = tmp_path / "page.md"
        page.write_text(f"# Title\n\n{code}")
        folder = tmp_path / str(len(code))
        folder.mkdir()
        with pytest.raises((ZeroDivisionError, AssertionError)):
            run_page(page, folder)


def test_blocks_are_read_with_what_stands_before_them():
    page = "<!-- file: a.toml -->\n```toml\nx = 1\n```\n\n<!-- not run: three hosts are needed -->\n```sh\nls\n```\n"
    assert blocks(page) == [
        Block("toml", "x = 1\n", 3, file="a.toml"),
        Block("sh", "ls\n", 8, reason="three hosts are needed"),
    ]


def test_notebooks_are_those_of_their_programs():
    writer = load(ROOT / "examples" / "write_notebooks.py")
    assert [path.with_suffix(".ipynb") for path in writer.sources()] == NOTEBOOKS
    for path in writer.sources():
        assert path.with_suffix(".ipynb").read_text() == writer.notebook(path.read_text()), "make notebooks"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id=path_in_checkout(path),
            marks=pytest.mark.long("every notebook; `make docs` runs them too") if place else (),
        )
        for place, path in enumerate(NOTEBOOKS)
    ],
)
def test_notebooks_run(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert not any(output.get("name") == "stderr" for output in shown)


def test_pictures_are_those_that_are_drawn():
    drawing = load(ROOT / "docs" / "pictures" / "draw.py")
    for picture, height in drawing.PICTURES.items():
        drawn = Path(drawing.HERE / f"{picture.__name__}.svg").read_text()
        assert drawn == drawing.svg(picture, height)
        ElementTree.fromstring(drawn)
