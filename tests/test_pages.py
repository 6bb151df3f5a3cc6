"""Pages have one reader, one question and a budget of words; plain English; short cells; few numbers typed by hand."""

import re
import tomllib

import pytest

from bench.harness import RESULTS
from support.english import MANNERED, english_of, per_thousand, private_words
from support.lints import check_each, path_in_checkout
from support.pages import DRAWN, PAGES, ROOT, code_left_out

PURPOSES = tomllib.loads((ROOT / "tests" / "pages.toml").read_text())
READERS = {
    *("all", "newcomer", "statistician", "Python user", "organisation", "operator", "author of a collection"),
    *("MPyC user", "maintainer of MPyC", "developer", "implementer", "referee"),
}
MODULES = (*(ROOT / "dpmpc").rglob("*.py"), *(ROOT / "protocols").glob("*.py"))
CELL_WORDS = 15
NUMBERS = 150  # typed by hand on all pages together, at most
PER_THOUSAND = 1.0  # mannered words of each kind, at most
UNIT = r"%|s|ms|MB|kB|GB|bytes|words|seconds|minutes|people|columns|times|clients|reports|rounds|sums|runs"
NUMBER = re.compile(
    rf"(?<![\w.,^/⁻#-])(?:\d[\d,]*\.\d+|\.\d+|\d[\d,]{{2,}}\d|\d+(?:\.\d+)?(?= (?:{UNIT})))(?![\w.]*\w)"
)
CITED = re.compile(r"(ections?|heorems?|igures?|ables?|threats?|ersions?|RFC|ython|print) [\d., and]*$")


def hand_written(page):
    """Return a page without its code and without what is drawn from results."""
    return DRAWN.sub("", code_left_out(page.read_text()))


def prose(text):
    text = re.sub(r"<!--.*?-->|\]\([^)]*\)|`[^`\n]*`", " X ", text, flags=re.DOTALL)
    return re.sub(r"[*_#>|]+", " ", text)


def texts():
    """Return the prose of pages, of the entries of TOML files, and of the report."""
    yield from (prose(hand_written(page)) for page in PAGES)
    for path in (ROOT / "docs").rglob("*.toml"):
        for entries in tomllib.loads(path.read_text()).values():
            for entry in entries if isinstance(entries, list) else []:
                yield " ".join(text for name, text in entry.items() if isinstance(text, str) and name != "read_at")
    yield from (path.read_text() for path in (ROOT / "report").glob("*.tex"))


def numbers_on(page):
    """Return the numbers with a decimal point, four digits or a unit that were typed on a page."""
    found = []
    for line in hand_written(page).splitlines():
        if line.startswith(("#", "    ")):
            continue
        text = re.sub(r"`[^`]*`", "CODE", re.sub(r"\]\([^)]*\)", "]", line))
        for match in NUMBER.finditer(text):
            is_cited = CITED.search(text[: match.start()][-25:])
            if not is_cited and not re.fullmatch(r"(19|20)\d\d", match[0]):
                found.append(match[0])
    return found


def test_every_page_has_a_reader_and_a_question():
    assert sorted(PURPOSES) == sorted(map(path_in_checkout, PAGES))
    assert {purpose["reader"] for purpose in PURPOSES.values()} <= READERS
    assert all(purpose["question"].endswith("?") for purpose in PURPOSES.values())


def test_no_page_exceeds_its_budget():
    def check(page):
        words = len(DRAWN.sub("", page.read_text()).split())
        assert words <= 1.1 * PURPOSES[path_in_checkout(page)]["words"], f"{words} words"

    check_each(check, PAGES, path_in_checkout)


def test_cells_of_tables_are_short():
    def check(page):
        rows = [line for line in hand_written(page).splitlines() if re.match(r"\|(?![ -|:]+\|$)", line)]
        cells = [cell for row in rows for cell in re.split(r"(?<!\\)\|", row)]
        long = [cell for cell in cells if len(re.sub(r"\]\([^)]*\)", "]", cell).split()) > CELL_WORDS]
        assert long == []

    check_each(check, PAGES, path_in_checkout)


@pytest.mark.parametrize("kind", MANNERED)
def test_the_english_is_plain(kind):
    whole = "\n".join(texts())
    assert len(whole.split()) > 30_000
    assert per_thousand(kind, whole) < PER_THOUSAND


@pytest.mark.parametrize("kind", MANNERED)
def test_the_english_of_code_is_plain(kind):
    docstrings, messages = english_of(MODULES)
    assert len(docstrings.split()) > 100_000
    assert per_thousand(kind, docstrings) < PER_THOUSAND
    assert per_thousand(kind, messages) < PER_THOUSAND


def test_modules_that_a_page_names_have_nouns_of_the_domain_as_names():
    texts_with_code = "\n".join(path.read_text() for path in (*PAGES, *(ROOT / "docs").rglob("*.toml")))
    spellings = {path: (path_in_checkout(path), path_in_checkout(path)[:-3].replace("/", ".")) for path in MODULES}
    read = [path for path, names in spellings.items() if any(name in texts_with_code for name in names)]
    assert len(read) > 50
    assert {path_in_checkout(path): words for path in read if (words := private_words(path))} == {}


def test_few_numbers_are_typed_by_hand():
    found = {path_in_checkout(page): numbers for page in PAGES if (numbers := numbers_on(page))}
    assert 0 < sum(map(len, found.values())) <= NUMBERS, found


def test_pictures_and_results_are_used_and_small():
    """Pictures and JSON take three megabytes at most; each picture is on a page or belongs to an item of a paper."""
    pages = "\n".join(path.read_text() for path in [*PAGES, *RESULTS.glob("*.md"), ROOT / "docs" / "papers.toml"])
    shown = {*re.findall(r"([\w-]+\.png)\)", pages), *(f"{name}.png" for name in re.findall('picture = "(.+)"', pages))}
    pictures = [*RESULTS.glob("*.png"), *(ROOT / "docs" / "_static").glob("*.png")]
    assert {path.name for path in pictures} == shown
    assert sum(path.stat().st_size for path in [*pictures, *RESULTS.glob("*.json")]) <= 3_000_000
