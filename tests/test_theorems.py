"""Theorems, their proofs in the technical report, and the code and tests that rest on them belong together."""

import ast
import hashlib
import re
import tomllib
from pathlib import Path

import pytest
from faults import source

from support.lints import check_each, functions_in
from support.pages import ROOT, load

REPORT = ROOT / "report"
SOURCES = {path.stem: path.read_text() for path in sorted(REPORT.glob("*.tex"))}
THEOREMS = tomllib.loads((ROOT / "docs" / "theory" / "theorems.toml").read_text())["theorem"]
LABELS = {theorem["label"] for theorem in THEOREMS}
WORDS = 75  # of a statement, at most
CITED = re.compile(r"\btheorems?\s+([a-z]+(?:-[a-z]+)+)\b", re.IGNORECASE)
CODE = ("dpmpc", "protocols", "bench", "csrc", "proofs", "tests", "docs")


def digest_of(code):
    """Return a digest of functions and classes, without comments and docstrings; messages of errors count."""
    return hashlib.sha256("".join(ast.dump(function.code()) for function in code).encode()).hexdigest()[:12]


def read_at(theorem):
    """Return what `read_at` has to be for the code as it is."""
    places = (place.split(":") for place in theorem["code"])
    return digest_of(source.functions_of(path)[name] for path, name in places)


def check_theorem(theorem):
    assert {*theorem, "checked"} == {"label", "proof", "statement", "code", "tests", "checked", "read_at"}
    assert f"\\label{{{theorem['label']}}}" in SOURCES[theorem["proof"]], "its proof is elsewhere"
    assert len(theorem["statement"].split()) <= WORDS
    named = [name.split("::") for name in theorem["tests"]]
    assert named, "names no test"
    assert all(name in functions_in(file) for file, name in named), "names tests that do not exist"
    lemmas = "\n".join(path.read_text() for path in (ROOT / "proofs").glob("*.v"))
    for lemma in theorem.get("checked", "Coq: ").removeprefix("Coq: ").split(", "):
        assert re.search(rf"^(Lemma|Theorem) {lemma}", lemmas, re.MULTILINE)


def test_each_theorem_has_its_proof_and_tests_that_exist():
    check_each(check_theorem, THEOREMS, name=lambda theorem: theorem["label"])


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem["label"])
def test_the_code_is_that_beside_which_the_proof_was_read(theorem):
    read = read_at(theorem)
    assert theorem["read_at"] == read, f"read report/{theorem['proof']}.tex beside the code, then set read_at"


def test_a_digest_is_of_what_the_code_does():
    def digest(text):
        return digest_of(function for function in source.functions_in(ast.parse(text)) if function.name == "A.b")

    first = digest("class A:\n    def b(self):\n        return 1\n")
    assert digest('class A:\n    def b(self):\n        """Text."""\n        return 1  # a comment\n') == first
    assert digest("class A:\n    def b(self):\n        return 2\n") != first


def test_the_report_has_no_dangling_reference():
    text = "\n".join(SOURCES.values())
    labels = re.findall(r"\\label\{([^}]+)\}", text)
    assert len(labels) == len(set(labels))
    assert set(re.findall(r"\\(?:eq)?ref\{([^}]+)\}", text)) <= set(labels)
    assert {label for label in labels if re.fullmatch("[a-z]+(-[a-z]+)+", label)} == LABELS
    cited = {key for keys in re.findall(r"\\cite\{([^}]+)\}", text) for key in keys.split(",")}
    assert cited == set(re.findall(r"\\bibitem\{([^}]+)\}", text))
    assert {"report", *re.findall(r"\\input\{([^}]+)\}", SOURCES["report"])} == set(SOURCES)


def test_code_and_pages_cite_theorems_that_exist():
    files = [
        path
        for folder in CODE
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".pyx", ".c", ".h", ".v", ".md"} and path != Path(__file__)
    ]
    cited = {(path.name, label) for path in files for label in CITED.findall(path.read_text())}
    assert len(cited) > 40
    assert {place for place in cited if place[1] not in LABELS} == set()


def test_the_site_states_every_theorem_once():
    page = [(ROOT / "docs" / "theory" / "index.md").read_text()]
    load(ROOT / "docs" / "toml_pages.py").write_lists(None, "theory/index", page)
    assert sorted(re.findall(r"^\(([a-z-]+)\)=$", page[0], re.MULTILINE)) == sorted(LABELS)
